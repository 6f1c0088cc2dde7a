"""How busy the GPUs are: utilisation, temperature and memory in use, looked at every few seconds.

What belongs here: asking the driver.  What it may not know: attempts, the broker, and which GPUs there are
(``node_agent.probe``).

A thread of its own, since a driver that hangs keeps whoever asks it: the keeper has memory to guard.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

from farm.model.nodes import GpuInfo, GpuLoad

log = logging.getLogger("overcrank.agent")

_MIB = 1 << 20
#: ``NVML_TEMPERATURE_GPU``: the core's.
_CORE = 0
#: How long its end waits for a driver that does not answer; the thread dies with the process.
END_PATIENCE_S = 2.0


class GpuWatch:
    """Looks at some GPUs until it is ended.

    Attributes:
        loads: What was found at the last look, in the order of the GPUs; empty before the first.
    """

    def __init__(self, gpus: Sequence[GpuInfo], period_s: float = 2.0, nvml: Any = None) -> None:
        """Starts nothing yet.

        Args:
            gpus: Which GPUs.
            period_s: Time between two looks.
            nvml: The ``pynvml`` module, or one like it.
        """
        self.loads: tuple[GpuLoad, ...] = ()
        self._gpus = tuple(gpus)
        self._period_s = period_s
        self._nvml = nvml
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins, where there is anything to look at."""
        if self._gpus and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agent-gpus", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends it; may be called again."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(END_PATIENCE_S)

    def _run(self) -> None:
        nvml = self._nvml
        try:
            nvml = nvml or importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception as error:
            log.info("event=gpus-not-watched reason=%s", error)
            return
        try:
            while True:
                self.loads = tuple(_look(nvml, gpu) for gpu in self._gpus)
                if self._end.wait(self._period_s):
                    return
        finally:
            with contextlib.suppress(Exception):  # nothing depends on it
                nvml.nvmlShutdown()


def _look(nvml: Any, gpu: GpuInfo) -> GpuLoad:
    """One GPU; what the driver does not tell (a board without a sensor, a GPU that is lost) stays unknown."""
    percent = temp_c = vram_used_mib = -1
    with contextlib.suppress(Exception):
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        with contextlib.suppress(Exception):
            percent = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        with contextlib.suppress(Exception):
            temp_c = int(nvml.nvmlDeviceGetTemperature(handle, _CORE))
        with contextlib.suppress(Exception):
            vram_used_mib = int(nvml.nvmlDeviceGetMemoryInfo(handle).used) // _MIB
    return GpuLoad(percent, temp_c, vram_used_mib)

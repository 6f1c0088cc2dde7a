"""What the driver says of GPUs, and what it does not; a driver that hangs holds nobody up."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from farm.model.nodes import GpuInfo, GpuLoad
from node_agent import gpuwatch
from node_agent.gpuwatch import GpuWatch
from node_agent.keeper import Keeper
from node_agent.memory import MemoryGuard
from tests.support.waiting import eventually

GPUS = (GpuInfo(0, "GPU-a", "NVIDIA RTX 6000", 48_000), GpuInfo(3, "GPU-b", "NVIDIA T4", 15_000))


class FakeNvml:
    """The few calls of pynvml that are made; a figure may be an exception."""

    def __init__(self, **gpus: tuple[Any, Any, Any]) -> None:
        self.gpus = {f"GPU-{name}": figures for name, figures in gpus.items()}
        self.open = 0
        self.gate: threading.Event | None = None

    def nvmlInit(self) -> None:  # noqa: N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        if self.gate is not None:
            self.gate.wait(30)
        return self.gpus[uuid]

    def _figure(self, handle: Any, place: int) -> Any:
        figure = handle[place]
        if isinstance(figure, Exception):
            raise figure
        return figure

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=self._figure(handle, 0), memory=99)

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> Any:  # noqa: N802
        assert sensor == 0
        return self._figure(handle, 1)

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802
        return SimpleNamespace(used=self._figure(handle, 2), total=1)


def looked(nvml: FakeNvml) -> tuple[GpuLoad, ...]:
    watch = GpuWatch(GPUS, 0.01, nvml)
    watch.start()
    watch.start()
    try:
        eventually(lambda: watch.loads, "a look")
        return watch.loads
    finally:
        watch.close()
        eventually(lambda: nvml.open == 0, "the driver is let go")


def test_every_gpu_is_asked_for_by_its_uuid() -> None:
    nvml = FakeNvml(b=(7, 41, 300 << 20), a=(98, 72, 20_000 << 20))
    assert looked(nvml) == (GpuLoad(98, 72, 20_000), GpuLoad(7, 41, 300))


def test_what_the_driver_does_not_tell_is_unknown_and_hides_nothing_else() -> None:
    nvml = FakeNvml(a=(RuntimeError("not supported"), 72, RuntimeError("lost")))
    assert looked(nvml) == (GpuLoad(-1, 72, -1), GpuLoad())


def test_without_gpus_no_thread_is_started() -> None:
    watch = GpuWatch(())
    watch.start()
    watch.close()
    assert watch.loads == ()


@pytest.mark.allow_log("gpus-not-watched")
def test_without_a_driver_nothing_is_known() -> None:
    nvml = FakeNvml()
    done = threading.Event()

    def broken() -> None:
        done.set()
        raise RuntimeError("driver not loaded")

    nvml.nvmlInit = broken  # type: ignore[method-assign]
    watch = GpuWatch(GPUS, 0.01, nvml)
    watch.start()
    assert done.wait(30)
    watch.close()
    assert watch.loads == ()


def test_a_driver_that_hangs_keeps_no_agent_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpuwatch, "END_PATIENCE_S", 0.01)
    nvml = FakeNvml(a=(1, 2, 3), b=(1, 2, 3))
    nvml.gate = threading.Event()
    watch = GpuWatch(GPUS, 0.01, nvml)
    watch.start()
    watch.close()
    assert watch.loads == ()
    nvml.gate.set()
    monkeypatch.undo()
    watch.close()
    eventually(lambda: nvml.open == 0, "the driver is let go")


def test_the_keeper_tells_of_gpus_and_memory(tmp_path: Path) -> None:
    loads = (GpuLoad(98, 72, 20_000),)
    outbox: Any = SimpleNamespace(tidy=lambda: None)
    keeper = Keeper(outbox, MemoryGuard(1000, 1000), tmp_path, list, lambda: 0, gpus=lambda: loads)
    keeper.look()
    load = keeper.load
    assert load is not None
    assert load.gpus == loads
    assert 0 <= load.ram_used_mib <= psutil.virtual_memory().total >> 20
    assert load.ram_free_mib > 0

"""The keeper's thread: measures the machine, guards its memory, tidies the outbox.

What belongs here: what has to happen every few seconds beside the work.  What it may not know: sessions and
leases; attempts are only measured and, at worst, told to end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from farm.model.errors import StorageError
from farm.model.nodes import GpuLoad, NodeLoad
from farm.model.states import FailureClass
from node_agent.attempt import Attempt
from node_agent.memory import AttemptMemory, MemoryGuard, available_mib, process_mib, trees
from node_agent.outbox import Outbox
from node_agent.probe import disk_free_mib, usable_ram_mib
from node_agent.process import Order

log = logging.getLogger("overcrank.agent")


class Keeper:
    """Periodic care of one agent.

    Attributes:
        load: How busy the machine was at the last look, None before the first.
        period_s: Time between two looks.
    """

    def __init__(
        self,
        outbox: Outbox,
        guard: MemoryGuard,
        scratch: Path,
        attempts: Callable[[], list[Attempt]],
        supervisor_pid: Callable[[], int],
        period_s: float = 2.0,
        gpus: Callable[[], tuple[GpuLoad, ...]] = tuple,
    ) -> None:
        self.load: NodeLoad | None = None
        self.period_s = period_s
        self._outbox = outbox
        self._guard = guard
        self._scratch = scratch
        self._attempts = attempts
        self._supervisor_pid = supervisor_pid
        self._gpus = gpus
        self._end = threading.Event()

    def end(self) -> None:
        """Ends the thread."""
        self._end.set()

    def run(self) -> None:
        """Body of the keeper's thread."""
        while True:
            try:
                self.look()
            except Exception:
                log.exception("event=keeper-failed")
            if self._end.wait(self.period_s):
                return

    def look(self) -> None:
        """One look at everything."""
        free = available_mib()
        try:
            disk = disk_free_mib(self._scratch)
        except StorageError:
            disk = 0
        self.load = NodeLoad(
            psutil.cpu_percent(interval=None), free, disk, max(0, usable_ram_mib() - free), self._gpus()
        )
        self._outbox.tidy()
        self._memory(free)

    def _memory(self, free_mib: int) -> None:
        running = {str(attempt.held.attempt): attempt for attempt in self._attempts() if attempt.pid}
        if not running:
            return
        found = trees({key: attempt.pid for key, attempt in running.items()}, self._supervisor_pid())
        uses = []
        for key, attempt in running.items():
            pids = found.get(key, set())
            used_mib = round(sum(process_mib(pid) for pid in pids))
            attempt.used_memory(used_mib)
            uses.append(AttemptMemory(key, attempt.request_mib, used_mib))
            if attempt.silent_s > 0:
                attempt.listen(pids)
        victim = self._guard.choose(uses, free_mib)
        if victim is not None:
            attempt = running[victim.key]
            log.warning("event=memory-short attempt=%s reason=%s", attempt.label, victim.reason)
            attempt.order(Order(FailureClass.OOM_RAM, victim.reason))

"""How much memory attempts use, and which one must go before the machine falls.

What belongs here: measuring process trees, and the pure choice of a victim.  What it may not know: how
a victim is killed and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from node_agent import proctree
from node_agent.probe import cgroup_folders

K = TypeVar("K")
_MIB = 1 << 20
#: An attempt is far over its request when it uses more than this many times it ...
OVER_FACTOR = 1.5
#: ... and this much more.
OVER_MIB = 512
#: Memory is short below this share of the machine's, and below this amount in any case.
SHORT_SHARE = 0.10
SHORT_MIB = 1024


def process_mib(pid: int) -> float:
    """Memory of one process, swapped out pages among it; 0 if it is gone.

    The proportional share where the kernel lets us read it (shared pages of a pool of workers count
    once), else the resident size.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return sum(_number(text, key) for key in ("Pss:", "SwapPss:")) / 1024
    except OSError:
        pass
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        return sum(_number(text, key) for key in ("VmRSS:", "VmSwap:")) / 1024
    except OSError:
        return 0.0


def tree_rss_mib(pids: Iterable[int] = (), *, tag: str = "") -> int:
    """Memory of the given processes, of those tagged ``tag``, and of all that descends from either."""
    table = proctree.snapshot()
    tops = set(pids)
    if tag:
        tops |= proctree.tagged(proctree.ATTEMPT_TAG, lambda value: value == tag, table)
    return round(sum(process_mib(pid) for pid in proctree.descendants(table, tops)))


def trees_mib(roots: Mapping[K, int], supervisor_pid: int = 0) -> dict[K, int]:
    """Memory per attempt, from one look at the process table.

    Args:
        roots: First process of each attempt.
        supervisor_pid: Whose orphans are looked at too: a daemon counts for the attempt it came from.
    """
    return {
        key: round(sum(process_mib(pid) for pid in pids))
        for key, pids in trees(roots, supervisor_pid).items()
    }


def trees(roots: Mapping[K, int], supervisor_pid: int = 0) -> dict[K, set[int]]:
    """All processes of each attempt, from one look at the process table; see ``trees_mib``."""
    table = proctree.snapshot()
    tops = {key: {pid} for key, pid in roots.items()}
    markers = {
        marker: key
        for key, pid in roots.items()
        if (marker := proctree.env_value(pid, proctree.SPAWN_TAG)) is not None
    }
    for proc in table.values():
        if supervisor_pid and proc.ppid == supervisor_pid:
            key = markers.get(proctree.env_value(proc.pid, proctree.SPAWN_TAG) or "")
            if key is not None:
                tops[key].add(proc.pid)
    return {key: proctree.descendants(table, pids) for key, pids in tops.items()}


def available_mib() -> int:
    """Memory that can be had without swapping: the machine's, or what our cgroup v2 limits leave."""
    free: int = psutil.virtual_memory().available
    for folder in cgroup_folders():
        try:
            limit = (folder / "memory.max").read_text().strip()
            used = int((folder / "memory.current").read_text())
            # Page cache counts as used there but is given up under pressure.
            cache = _number((folder / "memory.stat").read_text(), "inactive_file ")
        except (OSError, ValueError):
            continue
        if limit.isdigit():
            free = min(free, int(limit) - used + cache)
    return max(0, free // _MIB)


class AttemptMemory(msgspec.Struct, frozen=True):
    """What one attempt asked for and uses.

    Attributes:
        key: Names the attempt, e.g. ``J12/beauty@7``.
        request_mib: ``ram_mib`` of its lease; 0 = it did not say.
        used_mib: Measured.
    """

    key: str
    request_mib: int
    used_mib: int


class Victim(msgspec.Struct, frozen=True):
    """The attempt to kill as ``oom-ram``.

    Attributes:
        key: Names the attempt.
        reason: In words an artist understands.
    """

    key: str
    reason: str


class MemoryGuard(msgspec.Struct, frozen=True):
    """Chooses whom to kill before the kernel chooses for us.

    An attempt over its request harms nobody while there is memory, so it is left alone.  Killed is the
    largest of those far over their request once the machine runs short, or one that alone uses more
    than the agent's whole slice.

    Attributes:
        slice_mib: Memory of the agent's slice.
        machine_mib: Memory of the machine (or container).
    """

    slice_mib: int
    machine_mib: int

    @property
    def short_mib(self) -> int:
        """Less than this available is too little."""
        return max(int(self.machine_mib * SHORT_SHARE), min(SHORT_MIB, self.machine_mib // 2))

    def far_over(self, use: AttemptMemory, running: int) -> bool:
        """Whether an attempt uses far more than it may count on.

        One that asked for nothing may count on its even share of the slice.
        """
        fair = use.request_mib or self.slice_mib // max(1, running)
        return use.used_mib > fair * OVER_FACTOR and use.used_mib >= fair + OVER_MIB

    def choose(self, uses: Sequence[AttemptMemory], available: int) -> Victim | None:
        """The attempt to kill now, if any.  One at a time: measure again before the next.

        Args:
            uses: All running attempts of this agent.
            available: MiB of the machine that can be had without swapping.
        """
        beyond = [use for use in uses if use.used_mib > self.slice_mib > 0]
        if beyond:
            worst = max(beyond, key=lambda use: (use.used_mib, use.key))
            return Victim(
                worst.key,
                f"out of memory: it used {_gib(worst.used_mib)}, the whole node has {_gib(self.slice_mib)}",
            )
        if available >= self.short_mib:
            return None
        over = [use for use in uses if self.far_over(use, len(uses))]
        if not over:
            return None
        worst = max(over, key=lambda use: (use.used_mib, use.key))
        asked = (
            f"asked for {_gib(worst.request_mib)}" if worst.request_mib else "did not say how much it needs"
        )
        return Victim(
            worst.key,
            f"out of memory: it used {_gib(worst.used_mib)}, {asked}, and the machine had only"
            f" {_gib(available)} left",
        )


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib} MiB"


def _number(text: str, key: str) -> int:
    for line in text.splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0

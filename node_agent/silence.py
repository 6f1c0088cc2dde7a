"""Whether a program still shows any sign of life: lines, files, CPU, disk.

What belongs here: measuring a process tree's CPU and disk use, and the judgement of how long it is silent.
What it may not know: how a silent program is ended, and what a silence costs.

A program counts as silent only when *all* signs are missing at once, for the whole time: it wrote no line, no
file of its folders changed, it read and wrote nothing on a disk, and it used less than 2 % of one core.  Each
sign alone misleads: simulations print nothing for hours, and a hung licence check may still print dots.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Hashable, Iterable

import psutil

#: Share of one core below which a tree counts as idle.
IDLE_SHARE = 0.02


class Gauge:
    """Adds up what a process tree used, however its processes come and go."""

    def __init__(self) -> None:
        self._cpu: dict[tuple[int, float], float] = {}
        self._io: dict[tuple[int, float], int] = {}
        self.cpu_s = 0.0
        self.io_bytes = 0

    def look(self, pids: Collection[int]) -> None:
        """Adds what these processes used since the last look.

        A child that ended counts for its parent, which inherits its time; that may count some of it twice,
        and so can only make a silence shorter than it was.
        """
        cpu: dict[tuple[int, float], float] = {}
        read: dict[tuple[int, float], int] = {}
        for pid in pids:
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    key = (pid, process.create_time())
                    times = process.cpu_times()
                    cpu[key] = times.user + times.system + times.children_user + times.children_system
                counters = process.io_counters()
                read[key] = counters.read_bytes + counters.write_bytes
            except (psutil.Error, OSError):
                continue
        self.cpu_s += sum(max(0.0, used - self._cpu.get(key, 0.0)) for key, used in cpu.items())
        self.io_bytes += sum(max(0, used - self._io.get(key, 0)) for key, used in read.items())
        self._cpu, self._io = cpu, read


class Silence:
    """Judges how long a program has been silent: pure, fed with one look after the other."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s
        self._mark: Hashable = None
        self._io_bytes = -1
        self._since_s = 0.0
        #: (time, CPU used until then) of the looks since the last sign, and one from before the window.
        self._looks: deque[tuple[float, float]] = deque()

    def look(self, now_s: float, mark: Hashable, cpu_s: float, io_bytes: int) -> str:
        """Takes one look.

        Args:
            now_s: A clock that only goes on.
            mark: Changes whenever a line or a file was written.
            cpu_s: CPU the tree used so far.
            io_bytes: Bytes it moved from and to disks so far.

        Returns:
            The evidence once the silence has lasted too long, else "".
        """
        if self._io_bytes < 0 or mark != self._mark or io_bytes != self._io_bytes:
            self._mark, self._io_bytes, self._since_s = mark, io_bytes, now_s
            self._looks.clear()
        looks = self._looks
        looks.append((now_s, cpu_s))
        while len(looks) > 1 and looks[1][0] <= now_s - self._silent_s:
            looks.popleft()
        begun_s, before_s = looks[0]
        lasted_s = now_s - begun_s
        if lasted_s < self._silent_s or lasted_s <= 0:
            return ""
        share = (cpu_s - before_s) / lasted_s
        if share >= IDLE_SHARE:
            return ""
        silent_s = now_s - self._since_s
        return f"no output for {silent_s:.0f} s, CPU {100 * share:.1f} %, no disk I/O"


class Listener:
    """Listens to the processes of one attempt, one after the other; belongs to the thread that measures."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s
        self._heard: object = None
        self._gauge = Gauge()
        self._silence = Silence(silent_s)

    def listen(self, process: object, printed: int, folders: Iterable[str], pids: Collection[int]) -> str:
        """Takes one look at a running process.

        Args:
            process: Which one it is; another one begins anew.
            printed: Bytes it printed so far.
            folders: Where it may write.
            pids: Its tree.

        Returns:
            The evidence once it has been silent for too long, else "".
        """
        if process is not self._heard:
            self._heard, self._gauge, self._silence = process, Gauge(), Silence(self._silent_s)
        gauge = self._gauge
        gauge.look(pids)
        mark = (printed, folder_mark(folders))
        return self._silence.look(time.monotonic(), mark, gauge.cpu_s, gauge.io_bytes)


def folder_mark(folders: Iterable[str]) -> int:
    """A number that changes when a file in one of the folders comes, goes, grows or is touched."""
    seen: list[tuple[str, int, int]] = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    facts = entry.stat(follow_symlinks=False)
                    seen.append((entry.path, facts.st_size, facts.st_mtime_ns))
        except OSError:
            continue
    return hash(tuple(sorted(seen)))

"""Whether an agent of a farm runs on this machine already: a second one would count the machine twice.

What belongs here: finding it among this user's processes, in a thread of its own.  What may not: starting
and ending anything, Qt.

Processes are looked at, and nothing that was noted when an agent was started: it may have been started by
another client, or by hand in a terminal, and a number that was noted may be another process's by now.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from farm.config.places import Places

#: How long an agent may take to end whose ``farm agent`` was killed.
END_S: Final = 5.0
#: What says in which folders a process keeps a farm.
_HOMES: Final = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


class AgentSearch(threading.Thread):
    """One look for a farm's agent; looking through all processes takes too long for the window's thread.

    Args:
        farm: Name of the farm.
        control: Where its broker listens: an agent that dials another place will not come back to it.
        found: Called in this thread with this search and the process, 0 when there is none.
    """

    def __init__(self, farm: str, control: str, found: Callable[[AgentSearch, int], None]) -> None:
        super().__init__(name=f"agent-search-{farm}")
        self._farm = farm
        self._control = control
        self._found = found

    def run(self) -> None:
        """Looks."""
        pid = agent_here(self._farm, self._control)
        with contextlib.suppress(RuntimeError):  # whoever asked is gone
            self._found(self, pid)


def agent_here(farm: str, control: str) -> int:
    """The process that tends an agent of that farm on this machine, 0 when there is none.

    An agent whose ``farm agent`` was killed does not count: it hangs on that one and is about to end.  Its
    end is awaited, as whoever starts while it holds its folder becomes another node.

    Args:
        farm: Name of the farm.
        control: Where its broker listens.
    """
    import psutil  # here: it costs a start 20 ms, and few ever look

    folder = Places(farm).state / "agents"
    lines: dict[int, list[str]] = {}
    parents: dict[int, int] = {}
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if "node_agent" in line or "agent" in line:
                lines[process.pid], parents[process.pid] = line, process.ppid()
        except psutil.Error:
            continue  # it has ended, or is somebody else's
    strayed: set[int] = set()
    ending: list[psutil.Process] = []
    for pid, line in lines.items():
        file = _options_file(line)
        if file is None or folder not in file.parents:
            continue
        if "agent" not in lines.get(parents[pid], ()):
            with contextlib.suppress(psutil.Error):
                ending.append(psutil.Process(pid))
            continue
        if _dials(file) == control:
            return parents[pid]
        strayed.add(parents[pid])
    # One that only begins has no agent's process yet.
    begun = next((pid for pid, line in lines.items() if pid not in strayed and _tends(pid, line, farm)), 0)
    if not begun:
        psutil.wait_procs(ending, timeout=END_S)
    return begun


def _options_file(line: Sequence[str]) -> Path | None:
    """The options of an agent's own process."""
    if "node_agent" not in line or "--options" not in line[:-1]:
        return None
    return Path(line[line.index("--options") + 1])


def _dials(options: Path) -> str:
    try:
        read = msgspec.json.decode(options.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError):
        return ""
    return str(read.get("control", ""))


def _tends(pid: int, line: Sequence[str], farm: str) -> bool:
    """Whether that is ``farm --farm NAME agent`` of this user's very folders."""
    import psutil

    if "--farm" not in line[:-1] or "agent" not in line or line[line.index("--farm") + 1] != farm:
        return False
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and _homes(process.environ()) == _homes(os.environ)
    except psutil.Error:
        return False


def _homes(environment: Mapping[str, str]) -> list[str]:
    names = _HOMES if sys.platform != "win32" else ("USERPROFILE",)
    return [environment.get(name, "") for name in names]

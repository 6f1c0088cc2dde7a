"""Updates this agent's own software with the command its administrator configured.

What belongs here: running that command once per roll-out, and remembering how it went.  What it may not
know: when it is allowed (the broker asks only a node that runs nothing), and starting anew
(``node_agent.run``).

The command is an argument list, never a shell string.  ``{version}`` in it stands for the farm's version,
which is also in the variable OVERCRANK_UPDATE_VERSION.  Agents that share an installation share a lock, and
one that finds the version already installed only starts anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from farm.protocol.agent import UpdateMsg

log = logging.getLogger("overcrank.agent")

#: Says to the agent that was started anew which roll-out it was for.
UPDATED = "OVERCRANK_UPDATED"
VERSION = "OVERCRANK_UPDATE_VERSION"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}\Z")
#: How often a command that runs, or a lock that is held, is looked at.
_LOOK_S = 0.2
#: Bytes of its output's end that a failure shows.
_TAIL = 400


class UpdateFacts(msgspec.Struct, frozen=True):
    """What a hello says: the roll-out the command was last run for, and why it failed ("" = it did not)."""

    rollout: int = 0
    failure: str = ""


class SelfUpdate:
    """The one update that may run.

    Args:
        command: The administrator's command, empty = none.
        state: The agent's state folder; the command's output goes into ``update.log`` there.
        agent_tag: Variables that mark the command's processes as this agent's.
        installed: Version that is installed now.
        changed: Called when the facts changed.
        ready: Called when the software was updated: the agent is to start anew.
        timeout_s: How long the command may take.
    """

    def __init__(
        self,
        command: Sequence[str],
        state: Path,
        *,
        agent_tag: Mapping[str, str],
        installed: Callable[[], str],
        changed: Callable[[], None],
        ready: Callable[[], None],
        timeout_s: float,
    ) -> None:
        self._command = tuple(command)
        self._log = state / "update.log"
        self._lock = state.parent / "update.lock"
        self._tag = dict(agent_tag)
        self._installed = installed
        self._changed = changed
        self._ready = ready
        self._timeout_s = timeout_s
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        number = os.environ.pop(UPDATED, "")
        self.facts = UpdateFacts(int(number) if number.isdecimal() else 0)
        #: The roll-out whose update is done, so that the agent must start anew; 0 = none.
        self.restart_for = 0

    @property
    def able(self) -> bool:
        """Whether there is a command."""
        return bool(self._command)

    def ask(self, message: UpdateMsg) -> None:
        """The broker asks for an update; returns at once.  While one runs, or is done, this changes
        nothing."""
        if (self._thread is not None and self._thread.is_alive()) or self.restart_for:
            return
        if not self._command:
            self._failed(message.rollout, "this agent has no update_command")
            return
        if _VERSION.match(message.version) is None:
            self._failed(message.rollout, f"{message.version[:100]!r} is no version")
            return
        self._thread = threading.Thread(target=self._run, args=(message,), name="agent-update", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends a command that runs."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _failed(self, rollout: int, reason: str) -> None:
        log.error("event=update-failed rollout=%d reason=%s", rollout, reason)
        self.facts = UpdateFacts(rollout, reason)
        self._changed()

    def _run(self, message: UpdateMsg) -> None:
        log.info("event=update rollout=%d version=%s", message.rollout, message.version)
        try:
            reason = self._locked(message.version)
        except OSError as error:
            reason = f"the update command cannot be run: {error.strerror or error}"
        except Exception as error:
            log.exception("event=update-broke")
            reason = f"the update broke: {error}"
        if self._ending.is_set():
            return
        if reason:
            self._failed(message.rollout, reason)
            return
        log.info("event=updated rollout=%d version=%s", message.rollout, message.version)
        self.restart_for = message.rollout
        self._ready()

    def _locked(self, version: str) -> str:
        """Why it failed; "" when the software is updated."""
        with self._lock.open("ab") as handle:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._ending.wait(_LOOK_S):
                        return "the agent ended"
            if self._installed() == version:
                return ""
            return self._command_run(version)

    def _command_run(self, version: str) -> str:
        argv = [word.replace("{version}", version) for word in self._command]
        env = {**os.environ, **self._tag, VERSION: version}
        with self._log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
            waited_s = 0.0
            while process.poll() is None:
                if self._ending.wait(_LOOK_S) or waited_s >= self._timeout_s:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return f"the update command did not end within {self._timeout_s:g} s"
                waited_s += _LOOK_S
        if process.returncode == 0:
            return ""
        code = process.returncode
        how = f"ended with code {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"
        return f"the update command {how}" + (f": {tail}" if (tail := self._tail()) else "")

    def _tail(self) -> str:
        """The last line the command wrote."""
        lines = self._log.read_bytes()[-_TAIL:].decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""Programs the client starts on this machine, and a farm of one's own made of them.

What belongs here: starting the command line's verbs, what they say, ending them in order.  What may not:
widgets, and what those verbs do.

They are processes and not imports: a farm must not stand still because a window does, and the other way
round.  A farm that is not to be kept hangs on this process by its standard input, as ``--leash`` wants it:
whatever becomes of the window, even a kill, the farm ends with it.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from PySide6.QtCore import QCoreApplication, QObject, QProcess, QProcessEnvironment, Qt, QTimer, Signal, Slot

from client_gui.net.agents_here import AgentSearch
from farm.config.places import LOCAL, Endpoint, Places, make_private_folder, read_endpoint
from farm.model.errors import OvercrankError

#: How long a program may take to end once asked, and when told.
ASKED_MS: Final = 8000
TOLD_MS: Final = 2000
#: How long a farm may take to serve.
SERVE_MS: Final = 60_000
#: How often it is looked whether it does.
LOOK_MS: Final = 200
#: Most of a line shown.
_LINE_MOST: Final = 400
#: How a program says what ends it: the command line's own words, or a line of its log.
_FATAL = re.compile(r"^farm: (?P<said>.+)$|^\S+ \S+ .{0,60}?\b(?:level=)?(?:ERROR|CRITICAL)\b(?P<logged>.+)$")
_LOGGER = re.compile(r"^\s*logger=\S+\s*")


class State(StrEnum):
    """How far it is."""

    IDLE = "idle"
    STARTING = "starting"
    SERVING = "serving"
    ENDING = "ending"


class Program(QObject):
    """One run of ``farm VERB ...``.

    Args:
        arguments: After ``farm``.
        leash: Whether its standard input stays open as long as it may live.

    Attributes:
        fatal: The last thing it said was wrong, "" when it said nothing.
    """

    #: A line it wrote.
    said = Signal(str)
    #: It ended: its exit code; -1 when it could not be started or was killed.
    ended = Signal(int)

    def __init__(self, arguments: Sequence[str], *, leash: bool, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.fatal = ""
        self._rest = b""
        self._process = QProcess(self)
        self._process.setProgram(sys.executable)
        self._process.setArguments(["-m", "farm", *arguments])
        self._process.setProcessEnvironment(_environment())
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        if not leash:
            self._process.setStandardInputFile(QProcess.nullDevice())
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._failed)
        self._told = QTimer(self)
        self._told.setSingleShot(True)
        self._told.timeout.connect(self._tell)

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._process.state() is not QProcess.ProcessState.NotRunning

    def start(self) -> None:
        """Starts it."""
        self._process.start()

    def stop(self) -> None:
        """Asks it to end; ``ended`` tells when it has.  One that does not is told, then killed."""
        if self.running and not self._told.isActive():
            self._process.closeWriteChannel()
            self._process.terminate()
            self._told.start(ASKED_MS)

    def finish(self) -> None:
        """Ends it and waits until it has, for when the client itself ends."""
        if not self.running:
            return
        self.stop()
        if not self._process.waitForFinished(ASKED_MS):
            self._process.kill()
            self._process.waitForFinished(TOLD_MS)

    def _tell(self) -> None:
        if self.running:
            self._process.kill()

    def _read(self) -> None:
        data = self._rest + self._process.readAllStandardOutput().data()
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            # A bar that redraws itself writes many states of one line: the last counts.
            text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace").rstrip()
            if text:
                self._say(text)

    def _say(self, text: str) -> None:
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_LINE_MOST])
        if (wrong := _FATAL.match(text)) is not None:
            self.fatal = wrong["said"] or _LOGGER.sub("", wrong["logged"]).strip()
        self.said.emit(text)

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._told.stop()
        self._read()
        if self._rest:
            self._say(self._rest.decode("utf-8", "replace"))
            self._rest = b""
        self.ended.emit(code if status is QProcess.ExitStatus.NormalExit else -1)

    def _failed(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self.fatal = f"{sys.executable} cannot be started: {self._process.errorString()}"
            self.said.emit(self.fatal)
            self.ended.emit(-1)


class LocalFarm(QObject):
    """The farm of this machine, started for somebody who has none: a broker and an agent.

    Attributes:
        farm: Its name.
        kept: Whether it goes on when the client ends.
        state: How far it is.
        trouble: Why it ended, "" when it was asked to.
        agent_trouble: Why its agent ended while its broker goes on, "" while that has not happened.
    """

    #: A line of one of its programs.
    said = Signal(str)
    #: ``state`` or ``agent_trouble`` changed.
    changed = Signal()
    #: It serves: the name to connect to.
    serving = Signal(str)
    #: An agent's process was sought: by which search, and its number.
    _found = Signal(object, int)

    def __init__(self, parent: QObject | None = None, farm: str = LOCAL) -> None:
        super().__init__(parent)
        self.farm = farm
        self.kept = False
        self.state = State.IDLE
        self.trouble = ""
        self.agent_trouble = ""
        self._agent_told = ""
        #: Whether it was started here, and whether what is started is what ran before.
        self._begun = self._again = False
        self._search: AgentSearch | None = None
        self._programs: list[Program] = []
        self._waited_ms = 0
        self._look = QTimer(self)
        self._look.setInterval(LOOK_MS)
        self._look.timeout.connect(self._see)
        self._found.connect(self._sought, Qt.ConnectionType.QueuedConnection)
        if (app := QCoreApplication.instance()) is not None:
            app.aboutToQuit.connect(self.finish)

    @classmethod
    def of(cls, parent: QObject, farm: str = LOCAL) -> Self:
        """The one of that name below an object: two windows must not start two farms."""
        for found in parent.findChildren(cls):
            if found.farm == farm:
                return found
        return cls(parent, farm)

    def restart(self) -> None:
        """Starts what has ended without being asked to, broker or agent; kept or not as before.

        A farm that was not started here is kept: others may work with it, so it outlives this window.
        """
        if self.state is State.SERVING and self.agent_trouble:
            self.restart_agent()
            return
        if self.state is State.SERVING and self.kept and self._search is None:
            self.state = State.IDLE  # what was started to be kept is not watched
        again = not self._begun
        self.start(self.kept if self._begun else not Places(self.farm).is_private)
        self._again = again

    def restart_agent(self) -> None:
        """Starts the agent that has ended while its broker goes on."""
        if self.state is not State.SERVING or not self.agent_trouble:
            return
        try:
            found = read_endpoint(Places(self.farm).endpoint)
        except OvercrankError as error:
            self.agent_trouble = str(error)
            self.changed.emit()
            return
        self.agent_trouble = ""
        self.changed.emit()
        if found is not None:  # a broker that has gone is told by its own end
            self._seek(found)

    def news_of_agent(self) -> str:
        """Why its agent ended, to whoever asks first: there may be several windows, but one farm."""
        told, self._agent_told = self._agent_told, self.agent_trouble
        return self.agent_trouble if told != self.agent_trouble else ""

    def start(self, keep: bool = False) -> None:
        """Starts it, unless its broker serves already.

        Args:
            keep: It goes on when the client ends.
        """
        if self.state is not State.IDLE:
            return
        self.kept, self.trouble, self.agent_trouble = keep, "", ""
        self._begun, self._again = True, False
        try:
            make_private_folder(Places(self.farm).state)
            known = read_endpoint(Places(self.farm).endpoint)
        except OvercrankError as error:
            self._over(str(error))
            return
        if known is not None and not known.process_gone:
            self._note(f"the farm {self.farm} is served already, at {known.control}")
            self.serving.emit(self.farm)
            return
        self._set(State.STARTING)
        self._waited_ms = 0
        if not self._begin("broker", "--announce", *_port_flags(known)):
            return
        self._look.start()

    def stop(self) -> None:
        """Ends what hangs on this client: the agent first, so that the broker still hears it."""
        if not self._programs or self.state is State.ENDING:
            return
        self._look.stop()
        self._search, self.agent_trouble = None, ""
        self._set(State.ENDING)
        self._programs[-1].stop()

    def finish(self) -> None:
        """Ends it and waits, for when the client ends; what is to be kept goes on."""
        self._look.stop()
        search, self._search, self.agent_trouble = self._search, None, ""
        programs, self._programs = self._programs, []
        for program in reversed(programs):
            program.blockSignals(True)
            program.finish()
        if search is not None:
            search.join()
        self.state = State.IDLE

    # -- inside --

    def _begin(self, verb: str, *flags: str) -> bool:
        arguments = ["--farm", self.farm, verb, *flags]
        if self.kept:
            started = _start_detached(arguments, Places(self.farm).state / f"{verb}.log")
            if not started:
                self._over(f"{sys.executable} cannot be started")
            return started
        program = Program([*arguments, "--leash", "0"], leash=True, parent=self)
        program.said.connect(self._note)
        # Not a closure: one that holds this object would be let go of by its own child, in the child's end.
        program.ended.connect(self._ended)
        self._programs.append(program)
        program.start()
        return True

    def _see(self) -> None:
        """Looks whether the broker serves."""
        self._waited_ms += LOOK_MS
        try:
            found = read_endpoint(Places(self.farm).endpoint)
        except OvercrankError:
            found = None
        if found is not None and not found.process_gone:
            self._look.stop()
            self._seek(found)
        elif self._waited_ms >= SERVE_MS:
            self._look.stop()
            self.trouble = f"the broker did not serve within {SERVE_MS // 1000} s"
            if self._programs:
                self.stop()
            else:
                self._over(f"{self.trouble}: {Places(self.farm).state / 'broker.log'} says why")

    def _seek(self, broker: Endpoint) -> None:
        """Looks for an agent that runs here already, before one is started."""
        self._search = AgentSearch(self.farm, broker.control, self._found.emit)
        self._search.start()

    @Slot(object, int)
    def _sought(self, search: AgentSearch, pid: int) -> None:
        if search is not self._search:
            return  # it was called off meanwhile
        self._search = None
        if pid:
            # One that was kept outlives its broker and comes back to it by itself.
            self._note(f"an agent of {self.farm} runs here already (process {pid})")
        elif (not self._again or (Places(self.farm).state / "agents").is_dir()) and not self._begin("agent"):
            return  # on a machine that only served no agent is started, either
        if self.state is State.STARTING:
            self._set(State.SERVING)
            self.serving.emit(self.farm)

    @Slot(int)
    def _ended(self, code: int) -> None:
        program = self.sender()
        if not isinstance(program, Program) or program not in self._programs:
            return
        asked = self.state is State.ENDING
        first = program is self._programs[0]
        self._programs.remove(program)
        program.deleteLater()
        if not asked and first:
            self.trouble = _ended_words("the broker", program.fatal, code)
            self._search, self.agent_trouble = None, ""
        elif not asked:
            self.agent_trouble = _ended_words("its agent", program.fatal, code)
        if self._programs:
            self._look.stop()
            if first or asked:
                self._set(State.ENDING)
                self._programs[-1].stop()
            else:
                self.changed.emit()
            return
        self._over(self.trouble)

    def _over(self, trouble: str) -> None:
        self._look.stop()
        self._search = None
        self.trouble, self.agent_trouble = trouble, ""
        self._set(State.IDLE)

    def _note(self, line: str) -> None:
        if not line.startswith("{"):
            self.said.emit(line)

    def _set(self, state: State) -> None:
        self.state = state
        self.changed.emit()


def _ended_words(what: str, fatal: str, code: int) -> str:
    """Why a program ended: in its own words where it had some, never in another one's."""
    if fatal:
        return f"{what} ended: {fatal}"
    if code < 0:
        return f"{what} was killed, or crashed, without a word"
    return f"{what} ended without saying why (exit status {code})"


def _port_flags(known: Endpoint | None) -> tuple[str, ...]:
    """The ports it had, so that whoever was connected finds it again; free ones where these are taken."""
    kinds = ("control", "join", "bulk")
    ports = [getattr(known, kind).rpartition(":")[2] if known is not None else "" for kind in kinds]
    if not all(port.isdecimal() and _is_free(int(port)) for port in ports):
        ports = ["0"] * len(kinds)
    return tuple(f"--{kind}-port={port}" for kind, port in zip(kinds, ports, strict=True))


def _is_free(port: int) -> bool:
    if not 0 < port < 1 << 16:
        return False
    with socket.socket() as probe:
        if sys.platform != "win32":
            # As the broker does: connections of the one that ended may linger for a minute.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _environment() -> QProcessEnvironment:
    found = QProcessEnvironment.systemEnvironment()
    # Its lines are shown as they come.
    found.insert("PYTHONUNBUFFERED", "1")
    return found


def _start_detached(arguments: Sequence[str], log: Path) -> bool:
    """Starts a program that outlives this one; whether it could be started."""
    process = QProcess()
    process.setProgram(sys.executable)
    process.setArguments(["-m", "farm", *arguments])
    process.setProcessEnvironment(_environment())
    process.setStandardInputFile(QProcess.nullDevice())
    process.setStandardOutputFile(str(log), QProcess.OpenModeFlag.Append)
    process.setStandardErrorFile(str(log), QProcess.OpenModeFlag.Append)
    # It must not hold a disk that somebody wants to take out.
    process.setWorkingDirectory(str(Path.home()))
    # The method of this process; the static one of the same name takes a program.
    return bool(process.startDetached())

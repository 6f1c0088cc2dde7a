"""Reading a scene with the Blender of this machine, in the background, when somebody asks for it.

What belongs here: finding Blender, the process, its time limit, ending it.  What may not: what is read
(``runners/blender_look.py``), and the draft.

Blender is never needed: without one on this machine nothing is offered.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication, QObject, QProcess, QTimer, Signal

from client_gui.store.scenefacts import read_facts
from farm.model.errors import CallError, OvercrankError

#: A large scene on a slow disk takes its time; nobody waits longer for two fields.
LIMIT_S: Final = 180
_END_MS: Final = 2000
#: More than this of what it prints is dropped; the answer comes last.
_KEEP_BYTES: Final = 1 << 20


def find_blender() -> str:
    """A Blender of this machine: one of the PATH, else the newest of where people keep them; "" for none.

    It looks at disks: not for the window's thread.
    """
    found = shutil.which("blender")
    if found:
        return found
    return next((str(path) for path in _places() if path.is_file() and os.access(path, os.X_OK)), "")


def _places() -> Iterator[Path]:
    if sys.platform == "win32":
        base = Path(os.environ.get("PROGRAMFILES", r"C:\Program Files")) / "Blender Foundation"
        yield from sorted(base.glob("Blender*/blender.exe"), reverse=True)
        return
    if sys.platform == "darwin":
        for base in (Path("/Applications"), Path.home() / "Applications"):
            for app in sorted(base.glob("[Bb]lender*.app"), reverse=True):
                yield app / "Contents" / "MacOS" / "Blender"
        return
    yield Path("/snap/bin/blender")
    for base in (Path("/opt"), Path.home()):
        yield from sorted(base.glob("[Bb]lender*/blender"), reverse=True)


def script() -> Path:
    """What is run inside Blender."""
    import farm.renderers

    return Path(farm.renderers.__file__).with_name("runners") / "blender_look.py"


class SceneReader(QObject):
    """One Blender at a time that reads a scene.

    Attributes:
        draft: Id of the draft it reads for, "" for none.
        step: Index of its step.
    """

    #: ``SceneFacts`` of the draft's scene: draft, step, facts.
    read = Signal(str, int, object)
    #: Draft, step, and why not: an ``OvercrankError``.
    failed = Signal(str, int, object)
    #: It reads for another draft, or for none.
    changed = Signal()

    def __init__(self, parent: QObject, limit_s: float = LIMIT_S) -> None:
        super().__init__(parent)
        self.draft, self.step = "", -1
        self._limit_s = limit_s
        self._said = b""
        self._process: QProcess | None = None
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.setInterval(round(limit_s * 1000))
        self._late.timeout.connect(self._too_late)
        parent.destroyed.connect(self.end)
        app = QCoreApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(self.end)

    def start(self, program: str, scene: str, draft: str, step: int) -> None:
        """Reads a scene for a step of a draft; what was being read is given up."""
        self.stop()
        process = QProcess(self)
        process.setProgram(program)
        process.setArguments(
            [
                *("--background", "--factory-startup", "--disable-autoexec", "-noaudio"),
                *("--python-exit-code", "64", "--python", str(script()), "--", scene),
            ]
        )
        process.setStandardInputFile(QProcess.nullDevice())
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.setWorkingDirectory(str(Path.home()))
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._broken)
        self._process, self._said = process, b""
        self.draft, self.step = draft, step
        self._late.start()
        self.changed.emit()
        process.start()  # may fail at once

    def stop(self) -> None:
        """Gives up what is being read; nobody is told anything."""
        process, self._process = self._process, None
        self._late.stop()
        if process is None:
            return
        process.readyReadStandardOutput.disconnect(self._read)
        process.finished.disconnect(self._finished)
        process.errorOccurred.disconnect(self._broken)
        if process.state() is QProcess.ProcessState.NotRunning:
            process.deleteLater()
        else:
            process.finished.connect(process.deleteLater)
            process.kill()
        self.draft, self.step = "", -1
        self.changed.emit()

    def end(self) -> None:
        """The window is closed: nothing of it is left running."""
        self.stop()
        for process in self.findChildren(QProcess):
            if process.state() is not QProcess.ProcessState.NotRunning:
                process.waitForFinished(_END_MS)

    def _read(self) -> None:
        if self._process is not None:
            self._said = (self._said + self._process.readAllStandardOutput().data())[-_KEEP_BYTES:]

    def _finished(self) -> None:
        self._read()
        self._end(None)

    def _broken(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(CallError(f"Blender cannot be started: {self._process.errorString()}"))

    def _too_late(self) -> None:
        self._end(CallError(f"Blender took longer than {self._limit_s:g} s to read the scene"))

    def _end(self, error: OvercrankError | None) -> None:
        draft, step, said = self.draft, self.step, self._said
        self.stop()
        if error is None:
            try:
                facts = read_facts(said)
            except CallError as caught:
                error = caught
            else:
                self.read.emit(draft, step, facts)
                return
        self.failed.emit(draft, step, error)

"""The demo as a program the client starts: a private farm renders a short film and ends.

What belongs here: starting ``farm demo``, seeing its farm serve and end.  What may not: widgets, and what the
demo does.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from client_gui.net.programs import LOOK_MS, Program, State
from farm.config.places import Places, private_farms, read_endpoint
from farm.model.errors import OvercrankError


class Demo(QObject):
    """A run of ``farm demo``: a private farm renders a short film; it ends by itself.

    Attributes:
        state: How far it is; IDLE again when it has ended.
        folder: Where pictures and film go.
        trouble: Why it failed, "" when it did not.
        film: The film, once it is there.
    """

    #: A line it wrote.
    said = Signal(str)
    #: ``state`` changed.
    changed = Signal()
    #: Its farm serves: the name to connect to.
    serving = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = State.IDLE
        self.folder = Path.home() / "overcrank-demo"
        self.trouble = ""
        self.film: Path | None = None
        self._program: Program | None = None
        self._last = ""
        self._before: set[str] = set()
        self._look = QTimer(self)
        self._look.setInterval(LOOK_MS)
        self._look.timeout.connect(self._see)
        if (app := QCoreApplication.instance()) is not None:
            app.aboutToQuit.connect(self.finish)

    def start(self, folder: Path, *flags: str) -> None:
        """Starts it.

        Args:
            folder: Where pictures and film go.
            flags: Further flags of ``farm demo``.
        """
        if self.state is not State.IDLE:
            return
        self.folder, self.film, self.trouble, self._last = folder, None, "", ""
        try:
            self._before = set(private_farms())
        except OvercrankError as error:
            self.trouble = str(error)
            self.changed.emit()
            return
        self._program = Program(["demo", "-o", str(folder), *flags], leash=False, parent=self)
        self._program.said.connect(self._note)
        self._program.ended.connect(self._ended)
        self._set(State.STARTING)
        self._program.start()
        self._look.start()

    def stop(self) -> None:
        """Ends it before its time."""
        if self._program is not None and self.state is not State.ENDING:
            self._look.stop()
            self._set(State.ENDING)
            self._program.stop()

    def finish(self) -> None:
        """Ends it and waits, for when the client ends."""
        self._look.stop()
        program, self._program = self._program, None
        if program is not None:
            program.blockSignals(True)
            program.finish()
        self.state = State.IDLE

    def _see(self) -> None:
        try:
            fresh = [name for name in private_farms() if name not in self._before]
            for name in fresh:
                found = read_endpoint(Places(name).endpoint)
                if found is not None and not found.process_gone:
                    self._look.stop()
                    self._set(State.SERVING)
                    self.serving.emit(name)
                    return
        except OvercrankError:
            pass  # half written; it is looked at again

    def _ended(self, code: int) -> None:
        self._look.stop()
        asked = self.state is State.ENDING
        program, self._program = self._program, None
        if program is not None:
            program.deleteLater()
        film = self.folder / "film.mp4"
        if code == 0 and film.exists():
            self.film = film
        elif not asked:
            self.trouble = self._last or f"it ended with code {code}"
        self._set(State.IDLE)

    def _note(self, line: str) -> None:
        self._last = line
        self.said.emit(line)

    def _set(self, state: State) -> None:
        self.state = state
        self.changed.emit()

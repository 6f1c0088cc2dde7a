"""A Log dock for tests, and the logs behind it.

What belongs here: the dock, keys, and waiting for lines.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import shiboken6
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from client_gui.views.log import LogView
from client_gui.views.log_parts.document import LogDocument
from client_gui.views.log_parts.spool import PREFIX
from farm.protocol.bulk import LogGetMsg
from farm.protocol.client import AttemptRow, AttemptsReply, AttemptsReq, WhyCause, WhyReply, WhyReq, WhyRow
from tests.support.gui_logs import Logs
from tests.support.gui_rig import Rig, job_row


class Bench:
    """A Log dock that looks at frame 17 of J1/beauty, and the logs behind it."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig = rig
        self.qtbot = qtbot
        self.logs = Logs()
        self.attempts: list[AttemptRow] = []
        self.done: list[str] = []
        rig.port.answers = {
            LogGetMsg: self.logs.page,
            AttemptsReq: lambda r: AttemptsReply(id=r.id, attempts=tuple(self.attempts)),
            WhyReq: lambda r: WhyReply(
                id=r.id,
                rows=(
                    WhyRow(
                        address="J1/beauty/17",
                        state="failed",
                        units=1,
                        causes=(WhyCause("memory", "give it 128 GB"),),
                    ),
                ),
            ),
        }
        rig.actions.why_not = lambda action, context: ""  # type: ignore[method-assign]
        rig.actions.run = lambda action, context, value="": self.done.append(  # type: ignore[method-assign]
            f"{action} {context.units[0].address}"
        )
        self._timer = QTimer()
        self._timer.timeout.connect(rig.settle)
        self._timer.start(2)
        self.view = LogView(rig.desk)
        self.view.resize(900, 400)
        self.view.show()
        rig.snapshot((job_row(1),), maps={"J1/beauty": bytes([4] * 100)})

    def look(self, unit: int = 16, step: str = "beauty") -> None:
        """Looks at a frame."""
        self.rig.focus.set_job(1)
        self.rig.snapshot((job_row(1),), maps={"J1/beauty": bytes([4] * 100)})
        self.rig.focus.set_unit(step, unit)

    def until(self, true: Callable[[], bool]) -> None:
        """Waits for something."""
        self.qtbot.waitUntil(true)

    @property
    def document(self) -> LogDocument:
        """The log that is shown."""
        assert self.view.reader.document is not None
        return self.view.reader.document

    def read(self) -> None:
        """Waits until all of it is here."""
        self.until(lambda: self.view.reader.document is not None and self.document.asked)
        self.until(lambda: self.document.map.whole and not self.document.fetching)

    def text(self, row: int) -> str:
        """A row, as it is shown."""
        self.document.want(row, row)
        self.until(lambda: self.document.line(row) is not None)
        line = self.document.line(row)
        assert line is not None
        return line.text

    @property
    def cursor(self) -> str:
        """The row the cursor is in."""
        return self.text(self.view.reader.pane.cursor_row)

    def key(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        """Presses a key where the focus is: in the lines."""
        QTest.keyClick(self.view.reader.pane, key, modifier)

    def close(self) -> None:
        """Ends it."""
        self._timer.stop()
        self.view.hide()
        shiboken6.delete(self.view)


def spools() -> list[str]:
    """Files in which logs are kept while a dock shows them."""
    return [str(path) for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")]


def notices(bench: Bench) -> list[str]:
    """What the window said so far."""
    return [notice.text for notice in bench.rig.notices.activity]

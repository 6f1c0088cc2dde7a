"""The line at the foot: what can be taken back, what waits or is under way, and the farm in four figures.

What belongs here: the line and the texts in it.  What may not: taking back (the action book does).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from client_gui.desk import Desk
from client_gui.store.undo import Undo
from client_gui.style.glyphs import icon
from farm.protocol.client import StatusReply, StatusReq
from farm.sdk.words import price_text

#: How often the farm is asked for its figures.
EVERY_US: Final = 5_000_000


class StatusLine(QWidget):
    """The line at the foot."""

    #: Somebody wants to take something back (its number).
    undo_wanted = Signal(int)
    #: Somebody wants to see what waits for the farm.
    waiting_wanted = Signal()

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.setObjectName("status-line")
        self._layout = QHBoxLayout(self)
        self.undo = QPushButton()
        self.undo.setFlat(True)
        self.undo.setAccessibleName("Undo")
        self.undo.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.undo.clicked.connect(self._take_back)
        self._layout.addWidget(self.undo)
        self._layout.addWidget(_AsHigh(self.undo))
        self.waiting = QPushButton()
        self.waiting.setFlat(True)
        self.waiting.setAccessibleName("What waits for the farm")
        self.waiting.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.waiting.clicked.connect(self.waiting_wanted)
        self._layout.addWidget(self.waiting)
        self.hint, self.figures = QLabel(), QLabel()
        for label in (self.hint, self.figures):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._layout.addWidget(self.hint)
        self._layout.addStretch(1)
        self._layout.addWidget(self.figures)
        self._status: StatusReply | None = None
        self._asked_us = 0
        self._asking = False
        self._offered: Undo | None = None
        self.undo.hide()
        self.waiting.hide()
        desk.theme.changed.connect(self.restyle)
        self.restyle()

    def tick(self, now_us: int) -> None:
        """Says how things stand now, and asks the farm when its figures are old."""
        client = self._desk.client
        if client.live and self.isVisible() and not self._asking and now_us - self._asked_us >= EVERY_US:
            self._asking, self._asked_us = True, now_us
            client.ask(StatusReq, self, self._came, self._denied, reply=StatusReply)
        self._show(now_us)

    def offer(self, undo: Undo | None, now_us: int) -> None:
        """Offers to take something back, or nothing."""
        self._offered = undo
        left_us = undo.expires_us - now_us if undo is not None else 0
        if undo is None or left_us <= 0:
            if self.undo.isVisible():
                self.undo.hide()
            return
        left = -(-left_us // 1_000_000)
        text = f"{undo.text} · Undo ({left} s)".replace("&", "&&")
        if text != self.undo.text():
            self.undo.setText(text)
            self.undo.setAccessibleName(f"Undo: {undo.text}")
        self.undo.show()

    def put_waiting(self, text: str, key: str) -> None:
        """Says what waits for the farm, "" for nothing.

        Args:
            text: What waits.
            key: That shows it.
        """
        self.waiting.setVisible(bool(text))
        if text != self.waiting.text():
            self.waiting.setText(text.replace("&", "&&"))
            self.waiting.setAccessibleName(text)
        self.waiting.setToolTip(f"Show what waits  {key}".rstrip())

    def put_hint(self, text: str) -> None:
        """Says what is under way, "" for nothing."""
        if text != self.hint.text():
            self.hint.setText(text)

    def restyle(self) -> None:
        """Takes the theme anew."""
        theme = self._desk.theme
        self._layout.setContentsMargins(theme.em(0.5), theme.em(0.1), theme.em(0.6), theme.em(0.1))
        self._layout.setSpacing(theme.em(0.6))
        self.undo.setIcon(icon(theme, "undo", "accent"))
        self.waiting.setIcon(icon(theme, "clock", "warn"))
        for label in (self.hint, self.figures):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, theme.colour("dim"))
            label.setPalette(palette)

    def _take_back(self) -> None:
        if self._offered is not None:
            self.undo_wanted.emit(self._offered.number)

    def _came(self, reply: StatusReply) -> None:
        self._asking = False
        self._status = reply
        self._show(self._desk.client.now_us())

    def _denied(self, error: Any) -> None:
        # What this key may not know is left out; that the farm is gone, the chip says.
        self._asking = False

    def _show(self, now_us: int) -> None:
        text = figures_text(self._status, self._work())
        if text != self.figures.text():
            self.figures.setText(text)
            self.figures.setAccessibleName(f"The farm: {text}" if text else "")

    def _work(self) -> tuple[int, int] | None:
        """Frames that wait (queued or blocked) and run, where jobs are followed; None where they are not.

        What is followed is newer than what is asked for now and then.
        """
        client = self._desk.client
        if not client.live or "jobs" not in client.store.topics() or client.store.n is None:
            return None
        jobs = client.store.jobs
        slots = jobs.slots()
        slots = slots[~jobs.numbers("archived")[slots].astype(np.bool_)]
        return int(jobs.numbers("waiting")[slots].sum()), int(jobs.numbers("running")[slots].sum())


class _AsHigh(QWidget):
    """Nothing, as high as another widget is or would be: so that nothing moves when that one comes."""

    def __init__(self, other: QWidget) -> None:
        super().__init__()
        self._other = other

    def sizeHint(self) -> QSize:  # noqa: N802
        """Its height."""
        self._other.ensurePolished()
        return QSize(0, self._other.sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Its height."""
        return self.sizeHint()


def figures_text(status: StatusReply | None, work: tuple[int, int] | None = None) -> str:
    """The farm in four figures: ``queued 388 · running 46 · 812/960 cores · 12.40 USD/h``.

    Args:
        status: What the farm said last.
        work: Frames that wait for anything, and those that run, where that is known better.
    """
    if status is None:
        return ""
    queued, running = status.units.get("queued", 0), status.units.get("running", 0)
    if work is not None:
        # How many of those that wait are blocked only the farm says.
        queued, running = max(0, work[0] - status.units.get("blocked", 0)), work[1]
    parts = [f"queued {queued:,}", f"running {running:,}"]
    if status.cores:
        parts.append(f"{status.cores_used:,}/{status.cores:,} cores")
    return " · ".join([*parts, f"{price_text(status.burn_nano_h)}/h"])

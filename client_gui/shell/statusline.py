"""The line at the foot: what can be taken back, what is under way, and the farm in four figures.

What belongs here: the line and the texts in it.  What may not: taking back (the action book does).
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from client_gui.desk import Desk
from client_gui.store.undo import Undo
from client_gui.style.glyphs import icon
from farm.protocol.client import StatusReply, StatusReq
from farm.sdk.words import price_text

#: How often the farm is asked for its figures.
EVERY_US: Final = 5_000_000
#: Lines are numbered as they are made: each window has one.
_numbers: Final = count(1)


class StatusLine(QWidget):
    """The line at the foot."""

    #: Somebody wants to take something back (its number).
    undo_wanted = Signal(int)

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._looker = f"status-{next(_numbers)}"
        self.setObjectName("status-line")
        self._layout = QHBoxLayout(self)
        self.undo = QPushButton()
        self.undo.setFlat(True)
        self.undo.setAccessibleName("Undo")
        self.undo.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.undo.clicked.connect(self._take_back)
        self._layout.addWidget(self.undo)
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
        desk.theme.changed.connect(self.restyle)
        self.restyle()

    def tick(self, now_us: int) -> None:
        """Says how things stand now, and asks the farm when its figures are old."""
        client = self._desk.client
        if client.live and not self._asking and now_us - self._asked_us >= EVERY_US:
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
        text = f"{undo.text} · Undo ({left} s)"
        if text != self.undo.text():
            self.undo.setText(text.replace("&", "&&"))
            self.undo.setAccessibleName(f"Undo: {undo.text}")
        self.undo.show()

    def put_hint(self, text: str) -> None:
        """Says what is under way, "" for nothing."""
        if text != self.hint.text():
            self.hint.setText(text)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Cores are counted from the nodes."""
        super().showEvent(event)
        self._desk.client.look(self._looker, nodes=True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """A line that cannot be seen follows nothing."""
        super().hideEvent(event)
        self._desk.client.look(self._looker)

    def restyle(self) -> None:
        """Takes the theme anew."""
        theme = self._desk.theme
        self._layout.setContentsMargins(theme.em(0.5), theme.em(0.1), theme.em(0.6), theme.em(0.1))
        self._layout.setSpacing(theme.em(0.6))
        self.undo.setIcon(icon(theme, "undo", "accent"))
        for label in (self.hint, self.figures):
            label.setStyleSheet(f"color: {theme.look.dim}")

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
        text = figures_text(self._status, self._cores())
        if text != self.figures.text():
            self.figures.setText(text)
            self.figures.setAccessibleName(f"The farm: {text}" if text else "")

    def _cores(self) -> tuple[int, int]:
        """Cores in use and in all, of nodes that work; (0, 0) while no list of nodes is there."""
        nodes = self._desk.client.store.nodes
        if not len(nodes):
            return 0, 0
        slots = nodes.slots()
        word = nodes.words("state")
        working = [word.code("online"), word.code("suspect")]
        slots = slots[np.isin(nodes.numbers("state")[slots], working)]
        total = int(nodes.numbers("cores")[slots].sum())
        return total - int(nodes.numbers("cores_free")[slots].sum()), total


def figures_text(status: StatusReply | None, cores: tuple[int, int] = (0, 0)) -> str:
    """The farm in four figures: ``queued 388 · running 46 · 812/960 cores · 12.40 USD/h``."""
    parts: list[str] = []
    if status is not None:
        parts.append(f"queued {status.units.get('queued', 0):,}")
        parts.append(f"running {status.units.get('running', 0):,}")
    if cores[1]:
        parts.append(f"{cores[0]:,}/{cores[1]:,} cores")
    if status is not None:
        parts.append(f"{price_text(status.burn_nano_h)}/h")
    return " · ".join(parts)

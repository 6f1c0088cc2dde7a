"""What the Preview dock is made of: one picture with the newest ones below it, or the contact sheet; a foot.

What belongs here: where these stand.  What may not: which pictures are shown.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from client_gui.style.theme import Theme
from client_gui.views.log_parts.bars import paint_words, plain
from client_gui.views.preview_parts.canvas import FrameCanvas
from client_gui.views.preview_parts.sheet import Cell, ContactSheet


class PreviewPages(QWidget):
    """Pictures and what is said below them.

    Attributes:
        canvas: One picture.
        strip: The newest ones.
        sheet: All of them.
        foot, pace: What is said of the frame, and of playing.
    """

    def __init__(self, theme: Theme, cell: Callable[[int], Cell], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.canvas = FrameCanvas(theme)
        self.strip = ContactSheet(theme, cell, row=True)
        self.sheet = ContactSheet(theme, cell)
        self.foot = plain()
        self.pace = plain()
        self._pages = QStackedWidget()
        page = QWidget()
        beside = QVBoxLayout(page)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.setSpacing(0)
        beside.addWidget(self.canvas, 1)
        beside.addWidget(self.strip)
        self._pages.addWidget(page)
        self._pages.addWidget(self.sheet)
        foot = QHBoxLayout()
        foot.setContentsMargins(theme.em(0.4), theme.em(0.1), theme.em(0.4), theme.em(0.1))
        foot.addWidget(self.foot, 1)
        foot.addWidget(self.pace)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._pages, 1)
        box.addLayout(foot)

    def show_sheet(self, sheet: bool) -> None:
        """Shows the contact sheet, or one picture."""
        self._pages.setCurrentIndex(1 if sheet else 0)

    def choose(self, unit: int) -> None:
        """Makes a frame the current one of both sheets."""
        self.strip.choose(unit)
        self.sheet.choose(unit)

    def set_aspect(self, aspect: float) -> None:
        """Takes the pictures' width by their height."""
        self.strip.set_aspect(aspect)
        self.sheet.set_aspect(aspect)

    def repaint_sheets(self) -> None:
        """Pictures or states are others."""
        self.strip.viewport().update()
        self.sheet.viewport().update()

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        for label in (self.foot, self.pace):
            label.setFont(self._theme.font(small=True))
            paint_words(self._theme, label, "dim")
        self.canvas.update()
        self.repaint_sheets()

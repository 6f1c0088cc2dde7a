"""The tabs of the drafts: one for each, with its stage as glyph and in words.

What belongs here: names, glyphs and the button that closes one.  What may not: what a draft shows.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QTabBar, QToolButton, QWidget

from client_gui.store.draft import Draft, Stage
from client_gui.style.glyphs import state_icon
from client_gui.style.theme import Theme

#: Whose glyph a draft has that is on its way.
_LIKE: Final = {Stage.WAITING: "blocked", Stage.SENDING: "starting"}
_STAGES: Final = {
    Stage.DRAFT: "draft",
    Stage.WAITING: "waits for the farm",
    Stage.SENDING: "being sent",
}


class DraftTabs(QTabBar):
    """One tab for each draft."""

    #: A ``Draft`` is to be closed.
    close_wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setExpanding(False)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.setUsesScrollButtons(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Drafts")

    def shown(self) -> str:
        """Id of the draft that is shown, "" for none."""
        at = self.currentIndex()
        return str(self.tabData(at)) if at >= 0 else ""

    def place(self, draft: Draft) -> int:
        """The tab of a draft, -1 when it has none."""
        return next((at for at in range(self.count()) if self.tabData(at) == draft.id), -1)

    def add(self, draft: Draft) -> bool:
        """A tab for a draft, unless it has one."""
        if self.place(draft) >= 0:
            return False
        at = self.addTab("")
        self.setTabData(at, draft.id)
        close = QToolButton(self)
        close.setText("×")
        close.setAutoRaise(True)
        close.setToolTip("Close the draft (Ctrl+W)")
        close.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        close.clicked.connect(lambda: self.close_wanted.emit(draft))
        self.setTabButton(at, QTabBar.ButtonPosition.RightSide, close)
        self.name(draft)
        return True

    def name(self, draft: Draft) -> None:
        """Says what a draft is called and how far it is."""
        at = self.place(draft)
        if at < 0:
            return
        like = _LIKE.get(draft.stage)
        self.setTabIcon(at, state_icon(self._theme, like) if like else QIcon())
        self.setTabText(at, draft.name.replace("&", "&&"))
        self.setTabToolTip(at, f"{draft.origin or 'begun here'}: {_STAGES[draft.stage]}")
        self.setAccessibleTabName(at, f"{draft.name}, {_STAGES[draft.stage]}")
        close = self.tabButton(at, QTabBar.ButtonPosition.RightSide)
        if close is not None:
            close.setAccessibleName(f"Close the draft {draft.name}")

    def drop(self, draft: Draft) -> None:
        """The draft is gone."""
        at = self.place(draft)
        if at >= 0:
            self.removeTab(at)

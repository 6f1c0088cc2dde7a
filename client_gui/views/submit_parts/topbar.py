"""The buttons over the drafts: a new one, one from files, one from the job that is looked at, and saving.

What belongs here: the buttons and the menu of New.  What may not: making drafts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QToolButton, QWidget

from client_gui.store.draft import Draft
from client_gui.store.fields import title_of
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.editors import below
from farm.renderers.base import Renderer


class SubmitBar(QWidget):
    """Buttons over the drafts.

    Attributes:
        new, open, again, save: The buttons.
    """

    new_wanted = Signal()
    open_wanted = Signal()
    again_wanted = Signal()
    save_wanted = Signal()
    #: Name of a renderer for a new draft.
    chosen = Signal(str)
    #: A closed ``Draft`` is wanted back.
    reopened = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        edge = theme.em(0.4)
        row.setContentsMargins(edge, edge, edge, edge)
        row.setSpacing(theme.em(0.3))
        self.new = self._button("New ▾", "A job from nothing, by its renderer", self.new_wanted)
        self.open = self._button(
            "Open…", "A scene, a clip, pictures or a job file (Ctrl+O)", self.open_wanted
        )
        self.again = self._button("Again", "The job that is looked at, as a new one", self.again_wanted)
        self.save = self._button("Save as…", "The draft as a job file (Ctrl+S)", self.save_wanted)
        for button in (self.new, self.open, self.again):
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(self.save)

    def _button(self, words: str, tip: str, wanted: Any) -> QToolButton:
        button = QToolButton(self)
        button.setText(words)
        button.setToolTip(tip)
        button.setAccessibleName(words.rstrip(" ▾…"))
        button.setAccessibleDescription(tip)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: wanted.emit())
        return button

    def name_again(self, job: int, live: bool) -> None:
        """Says which job would be done again, if the farm can be asked for it."""
        self.again.setText(f"J{job} again" if job else "Again")
        self.again.setAccessibleName(self.again.text())
        self.again.setEnabled(bool(job) and live)

    def enable(self, *, new: bool, save: bool) -> None:
        """Says which of the others mean something now."""
        self.new.setEnabled(new)
        self.save.setEnabled(save)

    def show_new(self, renderers: Mapping[str, Renderer], closed: Sequence[Draft], at: QWidget) -> None:
        """Opens the menu of what a new draft can be, below the button that was pressed."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        taken: set[str] = set()
        for name, renderer in renderers.items():
            title = title_of(name)
            what = " ".join(renderer.summary.partition(",")[0].split())
            action = menu.addAction(f"{lettered(title, taken)}\t{what}")
            action.setData(name)
            action.setToolTip(f"Renderer {name}: {renderer.summary}")
            action.triggered.connect(lambda _checked=False, name=name: self.chosen.emit(name))
        if closed:
            menu.addSection("Closed drafts")
        for draft in reversed(closed):
            action = menu.addAction(f"Reopen {draft.name}".replace("&", "&&"))
            action.triggered.connect(lambda _checked=False, draft=draft: self.reopened.emit(draft))
        menu.popup(below(at))
        if actions := menu.actions():
            menu.setActiveAction(actions[0])


def lettered(title: str, taken: set[str]) -> str:
    """A title with the letter that chooses it: its first that no other has."""
    for at, letter in enumerate(title):
        if letter.isalnum() and letter.lower() not in taken:
            taken.add(letter.lower())
            return f"{title[:at]}&{title[at:]}"
    return title

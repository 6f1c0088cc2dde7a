"""What all docks have in common: a name, a title, being looked at or not, and what actions act on.

What belongs here: the base class and its rules.  What may not: any particular view.

A view that is not visible costs nothing: it follows nothing and takes no changes; when it is shown it puts
itself right from the store (``refresh``).
"""

from __future__ import annotations

from itertools import count
from typing import ClassVar, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from client_gui.actions.context import ActionContext
from client_gui.desk import Desk
from client_gui.store.farmstore import FarmChange

#: Views are numbered as they are made.
_numbers: Final = count(1)


class View(QWidget):
    """A dock's content.

    Attributes:
        name: Stable name of the dock: of its layout, its settings, ``Focus.show``.
        title: What its tab says.
        desk: What it shares with the others.
        looker: Who it is to ``FarmClient.look``; another one in each window.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.desk = desk
        self.setObjectName(self.name)
        self.setAccessibleName(self.title)
        # Two windows have docks of the same name: what one looks at must not end what the other does.
        self.looker = f"{self.name}-{next(_numbers)}"
        self._on = False
        self._first: QWidget | None = None
        desk.client.changed.connect(self._changed)

    # -- for subclasses --

    def look(self) -> None:
        """Says what is followed while it is visible; called when shown, and by itself when that changes."""

    def refresh(self) -> None:
        """Puts everything right from the store; called when it becomes visible."""

    def farm_changed(self, change: FarmChange) -> None:
        """Takes a change; only called while visible."""

    def action_context(self) -> ActionContext:
        """What actions act on while this view has the focus."""
        return ActionContext()

    # -- keys --

    def setFocusProxy(self, widget: QWidget) -> None:  # noqa: N802
        """Says what in it gets the keys when the dock is gone to.

        Not Qt's own: with that Tab goes from the dock before straight to it, and never to what is above it.
        """
        self._first = widget

    def setFocus(  # noqa: N802
        self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason
    ) -> None:
        """Gives the keys to what gets them first."""
        if self._first is not None:
            self._first.setFocus(reason)
        else:
            super().setFocus(reason)

    # -- inside --

    @property
    def on(self) -> bool:
        """Whether it is visible."""
        return self._on

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Begins to follow."""
        super().showEvent(event)
        if not self._on:
            self._on = True
            self.look()
            self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Follows nothing any more."""
        super().hideEvent(event)
        if self._on:
            self._on = False
            self.desk.client.look(self.looker)

    def _changed(self, change: FarmChange) -> None:
        if self._on:
            self.farm_changed(change)

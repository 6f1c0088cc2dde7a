"""Every action of the client by its id, and what keys, menus and buttons make of them.

What belongs here: the interface views use: is it possible now, why not, do it.  What may not: any one action.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton, QMenu, QPushButton, QWidget

from client_gui.actions.context import ActionContext
from client_gui.desk import Focus
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Settings


class ActionBook(QObject):
    """Every action by its id."""

    #: What is shown as under way changed: pending cells (``pending``) are to be painted anew.
    pending_changed = Signal()

    def __init__(
        self,
        client: FarmClient,
        focus: Focus,
        notices: Notices,
        settings: Settings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.client = client

    def why_not(self, action: str, context: ActionContext) -> str:
        """Why an action is not possible with what is selected; "" when it is."""
        raise NotImplementedError

    def run(self, action: str, context: ActionContext, value: str = "") -> None:
        """Does it, if it is possible; says so otherwise."""
        raise NotImplementedError

    def menu(self, context: ActionContext, parent: QWidget) -> QMenu:
        """The context menu of what is selected."""
        raise NotImplementedError

    def text(self, action: str) -> str:
        """What an action is called in menus."""
        return action.replace("-", " ").capitalize()

    def button(self, action: str, context: Callable[[], ActionContext], parent: QWidget) -> QAbstractButton:
        """A button for an action: grey with the reason as its tip while it is not possible.

        Args:
            action: Its id.
            context: What it would act on, asked when the button is pressed.
            parent: Where the button stands.
        """
        made = QPushButton(self.text(action), parent)
        reason = self.why_not(action, context())
        made.setEnabled(not reason)
        made.setToolTip(reason)
        made.clicked.connect(lambda: self.run(action, context()))
        return made

    def pending(self, kind: str, row_id: object, field: str) -> str | None:
        """What a cell is about to become (``jobs``, 12, ``state`` -> ``paused``), None when nothing is."""
        return None

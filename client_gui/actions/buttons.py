"""Buttons of actions: grey with the reason while one is not possible, and never a trap for the keyboard.

What belongs here: making such a button and keeping it right.  What may not: what is possible (``book``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QPushButton, QWidget

from client_gui.actions.context import ActionContext
from client_gui.actions.records import BY_ID

if TYPE_CHECKING:
    from client_gui.actions.book import ActionBook


def action_button(
    book: ActionBook,
    action: str,
    context: Callable[[], ActionContext],
    judged: Callable[[], ActionContext],
    parent: QWidget,
) -> QAbstractButton:
    """A button for an action; ``ActionBook.button`` says what is what."""
    made = QPushButton(book.text(action).replace("&", "&&"), parent)
    made.setAccessibleName(book.text(action))

    def renew() -> None:
        if shiboken6.isValid(made):
            key = book.keymap.shown(action)
            show_possible(made, book.why_not(action, judged()), f"{BY_ID[action].summary}  {key}".strip())

    made.clicked.connect(lambda: book.run(action, context()))
    book.client.stood.connect(renew, Qt.ConnectionType.AutoConnection)
    # What waits counts for what can be asked next; while the farm answers rows tell.
    book.later.changed.connect(renew, Qt.ConnectionType.AutoConnection)
    made.destroyed.connect(partial(_part, book, renew))
    if action in BY_ID:
        renew()
    else:
        made.setEnabled(False)
    return made


def show_possible(button: QAbstractButton, reason: str, tip: str) -> None:
    """Says whether a button can be pressed, or why not.

    Qt hands the keys of a button that turns grey to whatever comes next in the window, which may be the bar
    at the top; they go to the view that the button belongs to instead.

    Args:
        button: The button.
        reason: Why it cannot be pressed, "" when it can.
        tip: What is said of it when it can.
    """
    if reason and button.hasFocus():
        _give_keys_away(button)
    button.setEnabled(not reason)
    button.setToolTip(f"Not possible: {reason}" if reason else tip)
    button.setAccessibleDescription(button.toolTip())


def _give_keys_away(button: QWidget) -> None:
    at = button.parentWidget()
    while at is not None and not callable(getattr(at, "action_context", None)):
        at = at.parentWidget()
    if at is not None:
        at.setFocus(Qt.FocusReason.OtherFocusReason)


def _part(book: ActionBook, renew: Callable[[], None], *_: object) -> None:
    for signal in (book.client.stood, book.later.changed):
        try:
            signal.disconnect(renew)
        except (RuntimeError, TypeError):  # the client is gone, too
            pass

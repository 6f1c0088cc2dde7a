"""Who does an action that only a view or the shell can do.

What belongs here: whose it is when several offer.  What may not: whether it is possible (``book``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import shiboken6
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QWidget

from client_gui.actions.context import ActionContext

Handler = Callable[[ActionContext, str], object]


@dataclass(frozen=True, slots=True)
class _Handled:
    do: Handler
    owner: QObject | None


class Handlers:
    """Takers of actions."""

    def __init__(self) -> None:
        self._found: dict[str, list[_Handled]] = {}

    def add(self, action: str, do: Handler, owner: QObject | None) -> None:
        """Somebody takes an action; without an owner it is for everybody."""
        self._found.setdefault(action, []).append(_Handled(do, owner))

    def of(self, action: str) -> Handler | None:
        """Of several views the one with the focus, else the one that came last; None when nobody takes it."""
        found = [
            one
            for one in self._found.get(action, ())
            if one.owner is None or shiboken6.isValid(one.owner)
        ]  # fmt: skip
        focus = QApplication.focusWidget()
        for one in reversed(found):
            owner = one.owner
            if not isinstance(owner, QWidget) or focus is None:
                continue
            if owner is focus or owner.isAncestorOf(focus):
                return one.do
        return found[-1].do if found else None

"""A dock with keys of its own, that no shortcut of the window takes while it has the focus.

What belongs here: how such keys reach the dock.  What may not: which keys these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from PySide6.QtCore import QEvent
from PySide6.QtGui import QKeyEvent, QKeySequence

from client_gui.views.base import View


class KeyedView(View):
    """A dock with keys of its own.

    Attributes:
        own_keys: What each of them means: words for ``act``.
        kept_keys: Keys that mean something to a part of it, and are kept for that.
    """

    own_keys: ClassVar[Mapping[str, str]] = {}
    kept_keys: ClassVar[frozenset[str]] = frozenset()

    def act(self, action: str) -> bool:
        """Does something of this view, by its id; whether there is such a thing."""
        return False

    def meant(self, keys: str) -> str:
        """What keys mean here, "" for nothing."""
        return self.own_keys.get(keys, "")

    def event(self, event: QEvent) -> bool:
        """Keeps this view's keys from becoming the window's."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride:
            keys = _written(event)
            if self.meant(keys) or keys in self.kept_keys:
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """This view's keys."""
        action = self.meant(_written(event))
        if not action or not self.act(action):
            super().keyPressEvent(event)


def _written(event: QKeyEvent) -> str:
    return QKeySequence(event.keyCombination()).toString(QKeySequence.SequenceFormat.PortableText)

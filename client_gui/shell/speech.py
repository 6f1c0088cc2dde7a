"""Telling screen readers what a window says by itself.

What belongs here: the one call.  What may not: what is said.
"""

from __future__ import annotations

from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QWidget

try:  # since Qt 6.8
    from PySide6.QtGui import QAccessibleAnnouncementEvent
except ImportError:  # pragma: no cover
    QAccessibleAnnouncementEvent = None  # type: ignore[assignment,misc]


def announce(widget: QWidget, text: str) -> None:
    """Lets a screen reader say something without moving anybody's focus."""
    if not QAccessible.isActive():
        return
    if QAccessibleAnnouncementEvent is not None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
    else:
        QAccessible.updateAccessibility(QAccessibleEvent(widget, QAccessible.Event.Alert))

"""Restyling what is looked at now, and everything else when somebody looks at it.

What belongs here: remembering that a widget's sizes and colours are old.  What may not: any widget in
particular.

Most of the client is behind tabs or in other windows when somebody changes the size of words; what nobody
sees does not have to be ready at once.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Slot
from PySide6.QtWidgets import QWidget

from client_gui.style.theme import Theme


def when_seen(theme: Theme, widget: QWidget, restyle: Callable[[], object]) -> None:
    """Calls ``restyle`` when the theme has changed: at once while the widget can be seen, else once it is.

    Nothing is called when this is called; the widget may go at any time.
    """
    _Lazy(theme, widget, restyle)


class _Lazy(QObject):
    """Whether a widget is as the theme wants it."""

    def __init__(self, theme: Theme, widget: QWidget, restyle: Callable[[], object]) -> None:
        super().__init__(widget)
        self._widget = widget
        self._restyle = restyle
        self._old = False
        theme.changed.connect(self._changed)

    @Slot()
    def _changed(self) -> None:
        if self._widget.isVisible():
            self._restyle()
        elif not self._old:
            self._old = True
            # Only now: an event filter costs something with every event.
            self._widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """It is about to be seen."""
        if self._old and event.type() is QEvent.Type.Show:
            self._old = False
            self._widget.removeEventFilter(self)
            self._restyle()
        return False

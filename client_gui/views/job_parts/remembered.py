"""Widths of columns and shares of room in the dock of a job, as somebody left them.

What belongs here: remembering and putting them back.  What may not: what the columns are.

Widths are kept in ems: they fit when words are larger the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QHeaderView, QSplitter

from client_gui.settings import Setting, Settings
from client_gui.style.theme import Theme

#: Narrowest and widest a column can have been, in ems; anything else was not written by this client.
_LEAST: Final = 0.5
_MOST: Final = 200.0


class ColumnWidths(QObject):
    """Widths of a table's columns, and in which order they stand; the last one takes what is left.

    Args:
        head: The table's head.
        names: Stable names of its columns, by number.
        theme: How wide an em is.
        settings: Where it is remembered.
        name: Under which name.
    """

    def __init__(
        self, head: QHeaderView, names: Sequence[str], theme: Theme, settings: Settings, name: str
    ) -> None:
        super().__init__(head)
        self._head = head
        self._names = tuple(names)
        self._theme = theme
        self._settings = settings
        self._setting: Setting[dict[str, Any]] = Setting(f"{name}/columns", {})
        self._quiet = False
        #: Widths somebody chose, in ems, by name; the others are as wide as they are by themselves.
        self._chosen: dict[str, float] = {}
        head.sectionResized.connect(self._resized)
        head.sectionMoved.connect(self._moved)

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        """Widths that are set meanwhile are nobody's wish; those that are go over them in the end."""
        was, self._quiet = self._quiet, True
        try:
            yield
            for column, name in enumerate(self._names):
                if (wide := self._chosen.get(name)) is not None:
                    self._head.resizeSection(column, round(wide * self._theme.em()))
        finally:
            self._quiet = was

    def restore(self) -> None:
        """Takes what is remembered."""
        kept = self._settings.get(self._setting)
        widths, order = kept.get("widths"), kept.get("order")
        if isinstance(widths, dict):
            self._chosen = {
                name: float(wide)
                for name, wide in widths.items()
                if isinstance(wide, int | float) and _LEAST <= wide <= _MOST
            }
        with self.by_itself():
            if isinstance(order, list) and sorted(map(str, order)) == sorted(self._names):
                for place, name in enumerate(order):
                    column = self._names.index(name)
                    self._head.moveSection(self._head.visualIndex(column), place)

    def _resized(self, column: int, _: int, wide: int) -> None:
        # The one at the right edge takes what is left.
        last = self._head.visualIndex(column) == len(self._names) - 1
        if not self._quiet and not last and wide > 0:
            self._chosen[self._names[column]] = round(wide / self._theme.em(), 2)
            self._keep()

    def _moved(self) -> None:
        if not self._quiet:
            self._keep()

    def _keep(self) -> None:
        places = range(len(self._names))
        order = [self._names[self._head.logicalIndex(place)] for place in places]
        kept: dict[str, Any] = {"widths": dict(self._chosen)}
        if order != list(self._names):
            kept["order"] = order
        self._settings.set(self._setting, kept)


def remember_shares(splitter: QSplitter, settings: Settings, name: str) -> None:
    """Puts a splitter as somebody left it, and remembers how it is left.

    Args:
        splitter: It, with its parts in it.
        settings: Where it is remembered.
        name: Under which name.
    """
    setting: Setting[list[int]] = Setting(f"{name}/shares", [])
    sizes = settings.get(setting)
    if len(sizes) == splitter.count() and all(type(size) is int and size > 0 for size in sizes):
        splitter.installEventFilter(_Shares(splitter, sizes))
    splitter.splitterMoved.connect(lambda: settings.set(setting, splitter.sizes()))


class _Shares(QObject):
    """Sets sizes when a splitter is shown: before, it has no room yet, and gets more by its own rules."""

    def __init__(self, splitter: QSplitter, sizes: list[int]) -> None:
        super().__init__(splitter)
        self._splitter = splitter
        self._sizes = sizes

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """It is shown; what is remembered are shares of whatever room there is."""
        if event.type() is QEvent.Type.Show:
            self._splitter.removeEventFilter(self)
            self._splitter.setSizes(self._sizes)
        return False

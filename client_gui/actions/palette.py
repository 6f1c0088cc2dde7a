"""The palette: type a few letters of an action, a job, a node, a dock or a view, and press Enter.

What belongs here: finding and showing entries.  What may not: what an entry does; it brings that along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from client_gui.actions.fuzzy import score
from client_gui.actions.sheet import Sheet
from client_gui.style.theme import Theme

#: So many entries are shown.
MOST: Final = 60
#: How long is searched before the window gets its turn.
SLICE_S: Final = 0.004
#: What a name that is typed whole counts more than one that only begins so.
_EXACT: Final = 100

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to choose.

    Attributes:
        key: Its name among what was used recently: ``action:pause``.
        kind: What it is, in a word: ``action``, ``job``, ``node``, ``dock``, ``view``.
        text: What it is called.
        detail: What it does, or where it is.
        keys: Its key, "" for none.
        reason: Why it cannot be chosen now, "" when it can.
        do: What happens when it is chosen.
        words: Further words it is found by.
    """

    key: str
    kind: str
    text: str
    detail: str = ""
    keys: str = ""
    reason: str = ""
    do: Callable[[], object] = lambda: None
    words: str = ""


#: Gives entries that fit a query; may be long, so it is asked for bit by bit.
Source = Callable[[str], Iterable[Entry]]


class Entries(QAbstractListModel):
    """The entries that were found."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.shown: list[Entry] = []

    def take(self, entries: Sequence[Entry]) -> None:
        """Shows others."""
        self.beginResetModel()
        self.shown = list(entries)
        self.endResetModel()

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        """How many there are."""
        return 0 if parent is not None and parent.isValid() else len(self.shown)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tip and what a screen reader says."""
        if not index.isValid() or index.row() >= len(self.shown):
            return None
        entry = self.shown[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.text
        if role == Qt.ItemDataRole.ToolTipRole:
            return entry.reason or entry.detail
        if role == Qt.ItemDataRole.AccessibleTextRole:
            parts = (
                entry.kind,
                entry.text,
                entry.keys,
                f"not possible: {entry.reason}" if entry.reason else "",
            )
            return ", ".join(part for part in parts if part)
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return entry.detail
        return None


class _Painter(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802
        return QSize(0, self._theme.row_height() + self._theme.em(0.2))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        model = index.model()
        assert isinstance(model, Entries)
        entry = model.shown[index.row()]
        theme = self._theme
        rect: QRect = option.rect
        painter.save()
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        if chosen:
            painter.fillRect(rect, theme.colour("accent"))
        text = theme.colour("on_accent" if chosen else "dim" if entry.reason else "text")
        faint = theme.colour("on_accent" if chosen else "dim")
        gap = theme.em(0.5)
        inner = rect.adjusted(gap, 0, -gap, 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        kinds = theme.em(3.2)
        small = theme.font(small=True)
        painter.setFont(small)
        painter.setPen(faint)
        painter.drawText(
            QRect(inner.left(), inner.top(), kinds, inner.height()), int(middle), entry.kind
        )  # fmt: skip
        keys = painter.fontMetrics().horizontalAdvance(entry.keys)
        painter.drawText(inner, int(middle | Qt.AlignmentFlag.AlignRight), entry.keys)
        left = inner.left() + kinds
        painter.setFont(theme.font())
        painter.setPen(text)
        room = inner.right() - keys - gap - left
        name = painter.fontMetrics().elidedText(entry.text, Qt.TextElideMode.ElideMiddle, room)
        painter.drawText(QRect(left, inner.top(), room, inner.height()), int(middle), name)
        left += painter.fontMetrics().horizontalAdvance(name) + gap
        room = inner.right() - keys - gap - left
        told = f"not now: {entry.reason}" if entry.reason else entry.detail
        if told and room > theme.em(2):
            painter.setFont(small)
            painter.setPen(faint)
            cut = painter.fontMetrics().elidedText(told, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QRect(left, inner.top(), room, inner.height()), int(middle), cut)
        painter.restore()


class Palette(Sheet):
    """The palette.

    Args:
        host: The window.
        theme: The look.
        sources: Where entries come from, in the order in which equals are shown.
        recent: Keys of entries that were chosen last, newest first: they come before others.
        chosen: Is told the key of what was chosen.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        sources: Sequence[Source],
        recent: Sequence[str] = (),
        chosen: Callable[[str], object] = lambda _key: None,
    ) -> None:
        super().__init__(host, theme, "Find an action, a job, a node or a view", wide_em=36, high=0.6)
        self._sources = sources
        self._recent = {key: place for place, key in enumerate(recent)}
        self._chosen = chosen
        self._search: Iterator[Entry] = iter(())
        self._found: list[tuple[int, int, Entry]] = []
        #: Whether somebody moved the mark: else the best stays marked while more is found.
        self._moved = False
        #: Whether Enter was pressed before everything was looked through.
        self._hurried = False
        self.edit = QLineEdit(self.card)
        self.edit.setPlaceholderText("Action, job, node, dock or view")
        self.edit.setAccessibleName("Find an action, a job, a node or a view")
        self.edit.setClearButtonEnabled(True)
        self.column.addWidget(self.edit)
        self.list = QListView(self.card)
        self.list.setAccessibleName("What was found")
        self.list.setUniformItemSizes(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setFrameShape(QListView.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.entries = Entries(self)
        self.list.setModel(self.entries)
        self.list.setItemDelegate(_Painter(theme, self.list))
        self.list.clicked.connect(lambda index: self._choose(index.row()))
        self.column.addWidget(self.list, 1)
        self.foot = self.label("", dim=True)
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._go_on)
        self.edit.textChanged.connect(self._begin)
        self.list.selectionModel().currentChanged.connect(lambda *_: self._tell())
        self._begin("")

    def first(self) -> QWidget:
        """The line to type in."""
        return self.edit

    def accepted(self) -> None:
        """Does what is marked; while more is still looked for, what turns out best."""
        if self._timer.isActive() and not self._moved:
            self._hurried = True
            return
        self._choose(self.list.currentIndex().row())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows move in the list while the line keeps the focus."""
        rows = self.entries.rowCount()
        page = max(1, self.list.height() // max(1, self.list.sizeHintForRow(0)) - 1) if rows else 1
        key = event.key()
        steps = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: page,
            Qt.Key.Key_PageUp: -page,
        }
        if key in steps and rows:
            self._moved = True
            row = self.list.currentIndex().row() + steps[Qt.Key(key)]
            self._mark(row % rows if abs(steps[Qt.Key(key)]) == 1 else max(0, min(rows - 1, row)))
            event.accept()
            return
        super().keyPressEvent(event)

    def close_with(self, yes: bool) -> None:
        """Closes it; nothing is searched any more."""
        self._timer.stop()
        super().close_with(yes)

    # -- inside --

    def _begin(self, text: str) -> None:
        query = " ".join(text.casefold().split())
        self._found = []
        self._moved = self._hurried = False
        self._search = self._all(query)
        self._go_on()

    def _all(self, query: str) -> Iterator[Entry]:
        for source in self._sources:
            yield from source(query)

    def _go_on(self) -> None:
        """Searches for a few milliseconds, shows what there is, and goes on when the window had its turn."""
        ends_s = time.perf_counter() + SLICE_S
        query = " ".join(self.edit.text().casefold().split())
        over = False
        while time.perf_counter() < ends_s:
            entry = next(self._search, None)
            if entry is None:
                over = True
                break
            self._rate(query, entry)
        self._show()
        if over:
            self._timer.stop()
            if self._hurried:
                self._hurried = False
                self._choose(self.list.currentIndex().row())
        elif not self._timer.isActive():
            self._timer.start()

    def _rate(self, query: str, entry: Entry) -> None:
        points = 0
        if query:
            fits = score(query, entry.text.casefold(), entry.words.casefold())
            if fits is None:
                return
            # What is called exactly so is meant before what only begins so.
            points = fits + (_EXACT if query == entry.text.casefold().rstrip("…") else 0)
        if (place := self._recent.get(entry.key)) is not None:
            points += max(1, 50 - place) if query else 1000 - place
        if entry.reason:
            points -= 30
        self._found.append((-points, len(self._found), entry))

    def _show(self) -> None:
        self._found.sort(key=lambda found: found[:2])
        del self._found[MOST * 4 :]
        shown = [entry for _, _, entry in self._found[:MOST]]
        if shown == self.entries.shown:
            self._mark(self.list.currentIndex().row() if self._moved else 0)
            return
        row = self.list.currentIndex().row()
        before = self.entries.shown[row].key if self._moved and 0 <= row < len(self.entries.shown) else ""
        self.entries.take(shown)
        self._mark(next((place for place, entry in enumerate(shown) if entry.key == before), 0))

    def _mark(self, row: int) -> None:
        if 0 <= row < self.entries.rowCount():
            self.list.setCurrentIndex(self.entries.index(row))
        self._tell()

    def _tell(self) -> None:
        row = self.list.currentIndex().row()
        if not 0 <= row < self.entries.rowCount():
            self.foot.setText("Nothing is called so.")
            return
        entry = self.entries.shown[row]
        self.foot.setText(f"Not possible now: {entry.reason}" if entry.reason else entry.detail or entry.text)

    def _choose(self, row: int) -> None:
        if not 0 <= row < self.entries.rowCount():
            return
        entry = self.entries.shown[row]
        if entry.reason:
            self._tell()
            return
        self.close_with(True)
        self._chosen(entry.key)
        entry.do()

"""A table of the store as Qt's models want it: rows in an order, told step by step.

What belongs here: one model for every table: filter, sort, selection by id, and handing on each step of an
update as the signal Qt expects.  What may not: what columns say (``job_columns`` ...), and widgets.

``data`` looks at the role and looks a text up, nothing else: Qt asks for thousands of cells with every paint.
Delegates do not ask by roles at all; they read ``shown``, ``text``, ``value`` and ``pending_at``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import tzinfo
from typing import Any, Final, Generic, TypeVar

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from client_gui.models.column import Reading, Shown, by_name
from client_gui.models.figures import local_zone
from client_gui.store.filter import TableFilter
from client_gui.store.groups import GroupKey
from client_gui.store.moves import Rows, Step, StepKind
from client_gui.store.order import Order, SortKey, Update
from client_gui.store.selection import Selection
from client_gui.store.table import Change, Table

Id = TypeVar("Id", bound=Hashable)
Index = QModelIndex | QPersistentModelIndex

#: Beyond so many ranges of changed rows one signal for all of them costs less than many.
RANGES_MOST: Final = 16
#: Texts of so many rows are kept; more than any screen shows.
_KEPT: Final = 2000
# Plain numbers: comparing members of an enum costs more than all the rest of ``data``.
_DISPLAY: Final = int(Qt.ItemDataRole.DisplayRole)
_TIP: Final = int(Qt.ItemDataRole.ToolTipRole)
_SPOKEN: Final = int(Qt.ItemDataRole.AccessibleTextRole)
_ALIGN: Final = int(Qt.ItemDataRole.TextAlignmentRole)
_EDIT: Final = int(Qt.ItemDataRole.EditRole)
#: The id of a row.
ID_ROLE: Final = int(Qt.ItemDataRole.UserRole) + 1
_RIGHT: Final = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_LEFT: Final = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_CHOSEN: Final = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
_EDITABLE: Final = _CHOSEN | Qt.ItemFlag.ItemIsEditable

#: Says what a cell of a row is about to become: by id and field.
Pending = Callable[[Hashable, str], str | None]
#: Says whether that waits for the farm to be back.
Waits = Callable[[Hashable, str], bool]


class OrderModel(QAbstractTableModel, Generic[Id]):
    """Rows of a table, filtered and sorted.

    Args:
        table: The rows.
        columns: Its columns.
        now_us: The time.
        pending: What cells are about to become.
        waits: Whether what a cell is about to become waits for the farm to be back.
        zone: Of whoever reads; None = this machine's.

    Attributes:
        columns: Its columns.
        reading: What the columns read.
        order: What is shown.
        selection: What is selected, by id.
        sort_by: What it is sorted by: names of columns, and whether downwards.
        seen: First and last row on the screen, as far as the view has said.
    """

    #: An ``Update`` is about to be shown, and has been.
    updating = Signal(object)
    updated = Signal(object)
    #: While rows stand still: how many would come, go or move.
    held_back = Signal(int)
    #: Somebody edited a cell: its column, the row's id, the new text.
    edited = Signal(object, object, str)

    def __init__(
        self,
        table: Table[Id],
        columns: Sequence[Shown],
        now_us: Callable[[], int],
        pending: Pending | None = None,
        zone: tzinfo | None = None,
        parent: QObject | None = None,
        waits: Waits | None = None,
    ) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.reading = Reading(table, now_us(), zone or local_zone())
        self.order: Order[Id] = Order(table)
        self.selection: Selection[Id] = Selection()
        self.sort_by: tuple[tuple[str, bool], ...] = ()
        self.seen = (0, -1)
        self._table = table
        self._places = by_name(columns)
        self._now_us = now_us
        self._pending = pending
        self._waits = waits
        self._zone = zone
        self._filter: TableFilter | None = None
        self._texts: dict[int, dict[int, str]] = {}
        #: By bit of a column group: first and last column that reads it.
        self._reads = [table.bits_of(column.reads) for column in self.columns]
        self._moving = [place for place, column in enumerate(self.columns) if column.moves]
        self._promised = [place for place, column in enumerate(self.columns) if column.field]

    # -- what Qt asks --

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Rows that are shown."""
        return 0 if parent.isValid() else len(self.order.view)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Columns, hidden ones too."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        """What a cell says."""
        if role in (_DISPLAY, _EDIT):
            return self.text(self._slot(index), index.column())
        if role == _ALIGN:
            return _RIGHT if self.columns[index.column()].right else _LEFT
        if role == _SPOKEN:
            return self.spoken(self._slot(index), index.column())
        if role == _TIP:
            return self.tip(self._slot(index), index.column()) or None
        if role == ID_ROLE:
            return self._table.ids[self._slot(index)]
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:  # noqa: N802
        """Heads of columns, with the mark of what it is sorted by."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _DISPLAY:
            return column.title + self._sort_mark(column.name)
        if role == _TIP:
            return column.help
        if role == _ALIGN:
            return _RIGHT if column.right else _LEFT
        if role == _SPOKEN:
            return column.title + self._sort_words(column.name)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Every cell can be selected, some can be edited."""
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        return _EDITABLE if self.columns[index.column()].edit else _CHOSEN

    def setData(self, index: Index, value: Any, role: int = _EDIT) -> bool:  # noqa: N802
        """Somebody edited a cell: told, not taken; the farm has the last word."""
        if role != _EDIT or not index.isValid():
            return False
        column = self.columns[index.column()]
        row_id = self._table.ids[self._slot(index)]
        if not column.edit or row_id is None or str(value) == self.text(self._slot(index), index.column()):
            return False
        self.edited.emit(column, row_id, str(value))
        return True

    # -- what delegates ask --

    def slot_of_row(self, row: int) -> int:
        """The slot shown in a row."""
        return int(self.order.view[row])

    def id_of_slot(self, slot: int) -> Id | None:
        """Whose row is in a slot; None when it was left and its row goes with the next update."""
        return self._table.ids[slot]

    def text(self, slot: int, column: int) -> str:
        """What a cell says, kept until its row changes."""
        known = self._texts.get(slot)
        if known is None:
            if len(self._texts) > _KEPT:
                self._texts.clear()
            known = self._texts[slot] = {}
        found = known.get(column)
        if found is None:
            # A slot that was left while nobody looked: it goes with the next update.
            gone = self._table.ids[slot] is None
            found = known[column] = "" if gone else self.columns[column].text(self.reading, slot)
        return found

    def value(self, slot: int, column: int) -> Any:
        """What the painter of a cell needs besides its text."""
        read = self.columns[column].value
        return None if read is None or self._table.ids[slot] is None else read(self.reading, slot)

    def tip(self, slot: int, column: int) -> str:
        """What a cell's tip says, "" for nothing."""
        shown = self.columns[column]
        row_id = self._table.ids[slot]
        if row_id is None:
            return ""
        tip = shown.tip(self.reading, slot) if shown.tip is not None else ""
        if (to := self.pending_at(slot, column)) is not None:
            tip = f"{self._promise(slot, column, to)}\n{tip}".rstrip()
        return tip

    def spoken(self, slot: int, column: int) -> str:
        """What a screen reader says."""
        shown = self.columns[column]
        if shown.spoken is None or self._table.ids[slot] is None:
            found = self.text(slot, column)
        else:
            found = shown.spoken(self.reading, slot)
        to = self.pending_at(slot, column)
        return f"{found}, {self._promise(slot, column, to)}" if to is not None else found

    def pending_at(self, slot: int, column: int) -> str | None:
        """What a cell is about to become, None when nothing is under way."""
        field = self.columns[column].field
        if not field or self._pending is None:
            return None
        row_id = self._table.ids[slot]
        return None if row_id is None else self._pending(row_id, field)

    def waits_at(self, slot: int, column: int) -> bool:
        """Whether what a cell is about to become waits for the farm to be back."""
        field, row_id = self.columns[column].field, self._table.ids[slot]
        if not field or self._waits is None or row_id is None:
            return False
        return self._waits(row_id, field)

    def _promise(self, slot: int, column: int, to: str) -> str:
        if self.waits_at(slot, column):
            return f"becomes {to} when the farm is back"
        return f"about to become {to}"

    def is_gone(self, row: int) -> bool:
        """Whether a row is only still shown because rows stand still."""
        return self.order.frozen and self.order.is_gone(row)

    def column_of(self, name: str) -> int:
        """Where a column is, -1 when there is none."""
        return self._places.get(name, -1)

    def row_of(self, row_id: Id | GroupKey) -> int:
        """The row an id, or the header of a group, is shown in, -1 when it is not."""
        return self.order.row_of(row_id)

    # -- what is asked for --

    @property
    def filter(self) -> TableFilter | None:
        """The filter in force."""
        return self._filter

    def set_filter(self, wanted: TableFilter | None) -> None:
        """Shows what fits; None shows everything."""
        self._filter = wanted
        if wanted is None or not wanted.query:
            self._walk(self.order.set_filter(None))
        else:
            self._walk(self.order.set_filter(wanted.fits, wanted.bits))

    def set_sort(self, sort: Sequence[tuple[str, bool]]) -> None:
        """Sorts by columns, the first weighs most; unknown ones are passed over."""
        chosen: list[tuple[str, bool]] = []
        keys: list[SortKey] = []
        for name, down in sort:
            place = self._places.get(name, -1)
            if place >= 0 and (column := self.columns[place]).sort:
                chosen.append((name, down))
                keys.append(SortKey(column.sort, down != column.backwards))
        self.sort_by = tuple(chosen)
        if tuple(keys) != self.order.sort:
            self._walk(self.order.set_sort(keys))
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def freeze(self) -> None:
        """Lets no row come, go or move: under a menu, or while a button is held down."""
        self.order.freeze()

    def thaw(self) -> None:
        """Shows what was held back."""
        if self.order.frozen:
            self._walk(self.order.thaw())
            self.held_back.emit(0)

    # -- what happens --

    def take(self, change: Change[Id]) -> None:
        """Takes a change of the table; every one has to be handed in, or ``put_right`` called."""
        if not change:
            return
        # There are texts of what was shown, a few hundred rows, however many changed.
        for slot in self._texts.keys() & {*change.changed.tolist(), *change.inserted.tolist()}:
            del self._texts[slot]
        update = self.order.apply(change)
        self.selection.apply(change, self.order)
        self._walk(update)
        if self.order.frozen:
            self.held_back.emit(self.order.pending)

    def put_right(self) -> None:
        """Puts everything right from the table, after changes that were missed."""
        self._texts.clear()
        self._renew_time()
        ids = self.selection.ids
        if any(row_id not in self._table for row_id in ids):
            there = (row_id for row_id in ids if row_id in self._table)
            self.selection.select(there, self.selection.groups)
        current = self.selection.current
        if current is not None and not isinstance(current, GroupKey) and current not in self._table:
            self.selection.move_current(None)
        self._walk(self.order.rebuild())
        self._all_changed(range(len(self.columns)))

    def tick(self) -> None:
        """Time went by: ages and moments are others, and so may be what fits."""
        before = self.reading.now_us
        self._renew_time()
        if self.reading.now_us == before:
            return
        for known in self._texts.values():
            for place in self._moving:
                known.pop(place, None)
        if self._filter is not None and self._filter.query.moves:
            self.set_filter(self._filter.moved_to(self.reading.now_us))
        self._all_changed(self._moving)

    def texts_changed(self) -> None:
        """Something that columns look up elsewhere is another."""
        self._texts.clear()
        self._all_changed(range(len(self.columns)))

    def promises_changed(self) -> None:
        """What is under way changed."""
        self._all_changed(self._promised)

    # -- inside --

    def _slot(self, index: Index) -> int:
        return int(self.order.view[index.row()])

    def _renew_time(self) -> None:
        self.reading.now_us = self._now_us()
        if self._zone is None:
            self.reading.zone = local_zone()

    def _sort_mark(self, name: str) -> str:
        for place, (column, down) in enumerate(self.sort_by):
            if column == name:
                return f" {'▾' if down else '▴'}{place + 1 if len(self.sort_by) > 1 else ''}"
        return ""

    def _sort_words(self, name: str) -> str:
        for place, (column, down) in enumerate(self.sort_by):
            if column == name:
                return f", sorted {'downwards' if down else 'upwards'}{', then' if place else ''}"
        return ""

    def _all_changed(self, places: Sequence[int]) -> None:
        rows = len(self.order.view)
        if rows and len(places):
            self.dataChanged.emit(self.index(0, min(places)), self.index(rows - 1, max(places)))

    def _walk(self, update: Update) -> None:
        """Shows an update: each step as Qt's signals, then what is left of it."""
        if not update:
            return
        self.updating.emit(update)
        for step in update.steps:
            self._step(step)
        self._tell_changed(update)
        self.updated.emit(update)

    def _step(self, step: Step) -> None:
        nowhere = QModelIndex()
        match step.kind:
            case StepKind.REMOVE:
                self.beginRemoveRows(nowhere, step.first, step.last)
                self.order.commit(step)
                self.endRemoveRows()
            case StepKind.INSERT:
                self.beginInsertRows(nowhere, step.first, step.last)
                self.order.commit(step)
                self.endInsertRows()
            case StepKind.MOVE:
                # Qt names the row before which it goes, as rows are before the move.
                to = step.to + 1 if step.to > step.first else step.to
                self.beginMoveRows(nowhere, step.first, step.first, nowhere, to)
                self.order.commit(step)
                self.endMoveRows()
            case StepKind.LAYOUT:
                self._lay_out(step)

    def _lay_out(self, step: Step) -> None:
        self.layoutAboutToBeChanged.emit()
        held = self.persistentIndexList()
        self.order.commit(step)
        places = step.new_rows
        moved = [self.index(int(places[one.row()]), one.column()) for one in held]
        self.changePersistentIndexList(held, moved)
        self.layoutChanged.emit()

    def _tell_changed(self, update: Update) -> None:
        if not len(update.rows):
            return
        bits = int(np.bitwise_or.reduce(update.masks))
        places = [place for place, reads in enumerate(self._reads) if reads & bits]
        if not places:
            return
        left, right = min(places), max(places)
        for first, last in self._told(update.rows):
            self.dataChanged.emit(self.index(first, left), self.index(last, right))

    def _told(self, rows: Rows) -> list[tuple[int, int]]:
        """Ascending rows as ranges to be told."""
        return _ranges(rows, self.seen)


def _ranges(rows: Rows, seen: tuple[int, int]) -> list[tuple[int, int]]:
    """Ascending rows as ranges with both ends.

    Where there would be many, exactly only for what is seen, and above and below as one range each: what a
    view cannot show it does not paint, but what it shows it should not paint without need.
    """
    if np.count_nonzero(np.diff(rows) != 1) < RANGES_MOST:
        return _exact(rows)
    first, last = seen
    above, below = rows[rows < first], rows[rows > last]
    found = _exact(rows[(rows >= first) & (rows <= last)])
    found += [(int(part[0]), int(part[-1])) for part in (above, below) if len(part)]
    return found


def _exact(rows: Rows) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) != 1)
    firsts = rows[np.concatenate([[0], breaks + 1])]
    lasts = rows[np.concatenate([breaks, [len(rows) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))

"""Rows in groups as Qt's models want them: headers between rows, what they say, opening and closing them.

What belongs here: what a model of rows in an order has to say and do beyond that when rows stand in groups.
What may not: which groups there are (``store.jobgroups``), what a column says of one (``job_columns``), and
widgets.

Headers are rows of the same model: no tree, no second model.  Where a row has a slot, a header has a number
below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic

from PySide6.QtCore import Qt, Signal

from client_gui.models.column import GroupOf, Reading, Shown
from client_gui.models.order_model import _DISPLAY, _EDIT, _SPOKEN, _TIP, ID_ROLE, Id, Index, OrderModel
from client_gui.store.groups import Grouping, GroupKey
from client_gui.store.moves import group_of
from client_gui.store.order import Order, Update
from farm.sdk.words import plural

#: Besides columns, what texts are kept of.
_TITLE: Final = -1
_COUNTS: Final = -2
#: Names of closed groups that are remembered; the ones closed first are forgotten.
CLOSED_MOST: Final = 1000


class Heads(Generic[Id]):
    """What headers say, cell by cell, as ``OrderModel`` says it of rows.

    Args:
        order: What is shown.
        columns: Columns of the table.
        reading: The time, and the time zone of whoever reads.
    """

    def __init__(self, order: Order[Id], columns: tuple[Shown, ...], reading: Reading) -> None:
        self._order = order
        self._columns = columns
        self._reading = reading
        self._texts: dict[int, dict[int, str]] = {}

    def forget(self, slots: Iterable[int] | None = None) -> None:
        """What some headers say is another; None: of all."""
        if slots is None:
            self._texts.clear()
        else:
            for slot in slots:
                self._texts.pop(slot, None)

    def group(self, slot: int) -> GroupOf | None:
        """A header's group; None for one that is only still shown because rows stand still."""
        groups, number = self._order.groups, group_of(slot)
        if groups is None or not groups.first <= number < groups.end:
            return None
        return GroupOf(groups, number - groups.first, self._order.listed)

    def text(self, slot: int, column: int) -> str:
        """What a cell says, kept until its group changes."""
        says = self._columns[column].group
        return self._kept(slot, column, lambda group: says(self._reading, group) if says else "")

    def value(self, slot: int, column: int) -> Any:
        """What the painter of a cell needs besides its text."""
        read, group = self._columns[column].group_value, self.group(slot)
        return read(self._reading, group) if read and group else None

    def tip(self, slot: int, column: int) -> str:
        """What a cell's tip says."""
        group = self.group(slot)
        if group is None:
            return ""
        says = self._columns[column].group_tip
        return says(self._reading, group) if says else f"{self.title(slot)}: {self.counts(slot)}"

    def spoken(self, slot: int, column: int) -> str:
        """What a screen reader says: the figure of a column that has one, else all of the header."""
        group, shown = self.group(slot), self._columns[column]
        if group is None:
            return ""
        if shown.group_tip is not None and (tip := shown.group_tip(self._reading, group)):
            return f"{shown.title} {self.text(slot, column)}: {tip}"
        if shown.group is not None:
            return f"{shown.title} {self.text(slot, column) or 'none'}"
        state = "collapsed" if group.closed else "expanded"
        return f"{group.grouping.title} {self.title(slot)}, {self.counts(slot)}, {state}"

    def title(self, slot: int) -> str:
        """What a group is called."""
        now_us, zone = self._reading.now_us, self._reading.zone
        return self._kept(slot, _TITLE, lambda group: group.grouping.label(group.name, now_us, zone))

    def counts(self, slot: int) -> str:
        """How many rows a group has, and of them in the states that are counted: ``24 jobs, 3 running``."""
        return self._kept(slot, _COUNTS, self._counts)

    def _kept(self, slot: int, what: int, says: Callable[[GroupOf], str]) -> str:
        known = self._texts.setdefault(slot, {})
        found = known.get(what)
        if found is None:
            group = self.group(slot)
            found = known[what] = says(group) if group is not None else ""
        return found

    def _counts(self, group: GroupOf) -> str:
        count, words = group.count, group.grouping.words
        if group.name in words and group.grouping.by == "state":
            words = ()  # all of them are
        parts = [plural(count, "job").replace(str(count), f"{count:,}", 1)]
        parts += [f"{number:,} {word}" for word in words if (number := group.in_state(word))]
        return ", ".join(parts)

    # Nothing of a header is about to change.

    def pending_at(self, slot: int, column: int) -> str | None:
        """Nothing."""
        return None

    def waits_at(self, slot: int, column: int) -> bool:
        """Nothing."""
        return False


class GroupedModel(OrderModel[Id]):
    """Rows of a table, filtered, sorted, and in groups if somebody wants that.

    Attributes:
        heads: What headers say.
    """

    #: Other groups are closed than before.
    folded = Signal()

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.heads: Heads[Id] = Heads(self.order, self.columns, self.reading)

    # -- what Qt asks --

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        """What a cell says."""
        slot = self._slot(index)
        if slot >= 0:
            return super().data(index, role)
        if role in (_DISPLAY, _EDIT):
            text = self.heads.text(slot, index.column())
            return text or (self.heads.title(slot) if self.columns[index.column()].name == "name" else "")
        if role == _SPOKEN:
            return self.heads.spoken(slot, index.column())
        if role == _TIP:
            return self.heads.tip(slot, index.column()) or None
        if role == ID_ROLE:
            return self.order.key_at(index.row())
        return super().data(index, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headers can be selected, never edited."""
        found = super().flags(index)
        if index.isValid() and self._slot(index) < 0:
            found &= ~Qt.ItemFlag.ItemIsEditable
        return found

    def setData(self, index: Index, value: Any, role: int = _EDIT) -> bool:  # noqa: N802
        """Somebody edited a cell of a row."""
        if index.isValid() and self._slot(index) < 0:
            return False
        return super().setData(index, value, role)

    # -- groups --

    @property
    def grouping(self) -> Grouping | None:
        """What rows are grouped by, None when they stand in no groups."""
        groups = self.order.groups
        return groups.grouping if groups is not None else None

    @property
    def closed(self) -> frozenset[str]:
        """Names of closed groups, whether there is such a group now or not."""
        groups = self.order.groups
        return groups.closed_names if groups is not None else frozenset()

    def set_grouping(self, grouping: Grouping | None, closed: Iterable[str] = ()) -> None:
        """Puts rows in groups, or in none; what was selected as a group is selected row by row then."""
        selection, order = self.selection, self.order
        if selection.groups:
            selection.select(selection.acting(order))
        if isinstance(selection.current, GroupKey):
            inside = order.ids_of(order.slots_of(selection.current)[:1])
            selection.move_current(inside[0] if inside else None)
        self.heads.forget()
        names = frozenset(closed)
        update = order.set_grouping(grouping, names)
        self._keep_current(names)
        self._walk(update)

    def fold(self, keys: Iterable[GroupKey] | None, *, closed: bool) -> None:
        """Closes or opens groups.

        Args:
            keys: They; None = all.
            closed: Whether their rows are not to be shown.
        """
        if self.order.groups is None:
            return
        before = self.closed
        names = [key.name for key in (self.order.groups_shown() if keys is None else keys)]
        if closed:
            after = frozenset({*before, *names})
        else:
            after = before.difference(names) if keys is not None else frozenset()
        if after != before:
            self._keep_current(after)
            self._walk(self.order.close_groups(after))
            self.folded.emit()

    def toggle(self, key: GroupKey) -> None:
        """Closes a group that is open, and the other way round."""
        self.fold([key], closed=key.name not in self.closed)

    def _keep_current(self, closed: frozenset[str]) -> None:
        """A current row whose group is closed hands over to the header."""
        current = self.selection.current
        if current is None or isinstance(current, GroupKey):
            return
        group = self.order.group_of(current)
        if group is not None and group.name in closed:
            self.selection.move_current(group)

    # -- what happens --

    def put_right(self) -> None:
        """Puts everything right from the table, after changes that were missed."""
        self.heads.forget()
        super().put_right()

    def tick(self) -> None:
        """Time went by; days begin elsewhere in another time zone."""
        zone = self.reading.zone
        super().tick()
        if self.order.groups is None:
            return
        self.heads.forget()
        if self.reading.zone != zone:
            self._walk(self.order.rebuild())
        self._all_changed(range(len(self.columns)))

    # -- inside --

    def _tell_changed(self, update: Update) -> None:
        super()._tell_changed(update)
        self.heads.forget(self.order.view[update.headers].tolist())
        last = len(self.columns) - 1
        for first, end in self._told(update.headers):
            self.dataChanged.emit(self.index(first, 0), self.index(end, last))

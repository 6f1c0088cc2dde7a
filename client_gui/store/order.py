"""In which order the rows of a table are shown, kept as they change.

What belongs here: filter and sort as one index map (row on the screen -> slot in the table), and the steps
that lead from what is shown to what should be.  What may not: Qt; its models take the steps one by one.

A list that is sorted anew with every batch loses its selection and its place, or a great deal of time.  Here
a batch costs what it changed: only its rows are filtered and placed, and whoever shows the list is told which
rows went, came and moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.moves import NO_ROWS, Rows, Step, displaced, plan
from client_gui.store.natural import Ranks
from client_gui.store.table import MISSING, NO_MASKS, NO_SLOTS, Change, Kind, Masks, Numbers, Slots, Table

Id = TypeVar("Id", bound=Hashable)
Keys = npt.NDArray[np.float64] | npt.NDArray[np.int64]
#: When so many more texts were seen than there are rows, those that are gone are forgotten.
_STALE_TEXTS: Final = 4


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by.

    Rows that have no value come last, whichever way the others are sorted.
    """

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What to do to what is shown.

    Attributes:
        steps: One by one, in order; after each one ``Order.commit`` it.
        rows: Shown rows whose values changed, ascending, as they are after the steps.
        masks: For each of ``rows`` the column groups, as bits.
    """

    steps: tuple[Step, ...] = ()
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    masks: Masks = field(default_factory=lambda: NO_MASKS)

    def __bool__(self) -> bool:
        return bool(self.steps or len(self.rows))


#: Says which slots are shown.
Fits = Callable[[Slots], npt.NDArray[np.bool_]]


class Order(Generic[Id]):
    """The rows of a table that fit a filter, in an order.

    It has to be handed every change of the table, at once and in order; one that missed some is put right by
    ``rebuild``.

    Args:
        table: The table.
        sort: Columns to sort by, the first weighs most; rows that are equal in all of them stand by number,
            or in the order in which they came.

    Attributes:
        view: Slots in the order in which they are shown; not to be written to.
    """

    def __init__(self, table: Table[Id], sort: Sequence[SortKey] = ()) -> None:
        self._table = table
        self._fits: Fits | None = None
        self._filter_bits = 0
        self._sort: tuple[SortKey, ...] = ()
        self._sort_bits = 0
        self._ranks: dict[str, Ranks] = {}
        #: How often the numbers of texts had been given anew when the keys were made of them.
        self._seen: dict[str, int] = {}
        self._keys: list[Numbers] = []
        self._member = np.zeros(0, np.bool_)
        self._target: Slots = NO_SLOTS
        self._frozen = False
        #: Slots that were given another place while the view was frozen.
        self._moved: set[int] = set()
        self.view: Slots = NO_SLOTS
        self._row_of = np.zeros(0, np.int32)
        self._set_sort(sort)
        self._recompute()
        self._show(self._target)

    # -- reading --

    def __len__(self) -> int:
        return len(self.view)

    @property
    def sort(self) -> tuple[SortKey, ...]:
        """What it is sorted by."""
        return self._sort

    @property
    def hidden(self) -> int:
        """How many rows of the table are not shown."""
        return len(self._table) - len(self._target)

    def slot_at(self, row: int) -> int:
        """The slot shown in a row."""
        return int(self.view[row])

    def id_at(self, row: int) -> Id:
        """The id shown in a row.

        Raises:
            IndexError: There is no such row.
        """
        found: Id | None = self._table.ids[int(self.view[row])]
        assert found is not None
        return found

    def ids(self) -> list[Id]:
        """All that are shown, in order."""
        ids = self._table.ids
        return [ids[slot] for slot in self.view.tolist()]

    def row_of(self, row_id: Id) -> int:
        """The row an id is shown in, -1 when it is not shown.

        A row that is gone (``is_gone``) is nobody's: not even when its id has come again since.
        """
        slot = self._table.slot(row_id)
        return int(self._row_of[slot]) if 0 <= slot < len(self._row_of) else -1

    def rows_of(self, ids: Iterable[Id]) -> Rows:
        """Rows of those of some ids that are shown, ascending."""
        slots = np.array([slot for row_id in ids if (slot := self._table.slot(row_id)) >= 0], np.int32)
        rows = self.rows_of_slots(slots)
        return np.sort(rows[rows >= 0])

    def rows_of_slots(self, slots: Slots) -> Rows:
        """Rows of some slots, -1 where one is not shown."""
        found = np.full(len(slots), -1, np.int32)
        known = slots < len(self._row_of)
        found[known] = self._row_of[slots[known]]
        return found

    # -- what is asked for --

    def set_filter(self, fits: Fits | None, bits: int = 0) -> Update:
        """Shows what fits.

        Args:
            fits: Says which slots fit; None shows everything.
            bits: Column groups whose changes may change that (``TableFilter.bits``).
        """
        self._fits, self._filter_bits = fits, bits
        self._fit_capacity()
        slots = self._table.slots()
        member = np.zeros(self._table.capacity, np.bool_)
        member[slots if fits is None else slots[fits(slots)]] = True
        kept = self._target[member[self._target]]
        coming = np.flatnonzero(member & ~self._member).astype(np.int32)
        if len(coming) < len(kept):
            coming = self._sorted(coming)
            self._target = np.insert(kept, self._places_in(kept, coming), coming)
        else:
            self._target = self._sorted(np.flatnonzero(member).astype(np.int32))
        self._member = member
        return self._replanned()

    def set_sort(self, sort: Sequence[SortKey]) -> Update:
        """Sorts by other columns."""
        self._set_sort(sort)
        return self.rebuild()

    def rebuild(self) -> Update:
        """Works everything out anew, after changes that were missed or when time has moved what fits."""
        self._recompute()
        return self._replanned()

    def _replanned(self) -> Update:
        if self._frozen:
            self._moved.update(self._target.tolist())
            return Update()
        return Update(plan(self.view, self._target, None))

    # -- changes --

    def apply(self, change: Change[Id]) -> Update:
        """Takes a change of the table in.

        While the order is frozen the steps are none; rows that stay where they are still report new values.
        A row that went meanwhile is shown as it was.  If its id comes again that is another row, which is not
        shown yet and so not reported: it comes with the steps of ``thaw``.
        """
        self._fit_capacity()
        moved = self._retarget(change)
        if self._frozen:
            self._moved.update(moved.tolist())
            rows, masks = self._changed_rows(change, self._row_of)
            return Update((), rows, masks)
        steps = plan(self.view, self._target, moved)
        where = self._row_of if not steps else _places(self._target, self._table.capacity)
        return Update(steps, *self._changed_rows(change, where))

    def commit(self, step: Step) -> None:
        """Makes a step the view."""
        self._show(step.view)

    def settle(self, update: Update) -> Update:
        """Commits all steps at once, for those who show nothing."""
        for step in update.steps:
            self.commit(step)
        return update

    def prepare(self, columns: Iterable[str]) -> Iterator[None]:
        """Gets ready to sort by some columns, bit by bit, while nobody is in a hurry.

        Each step takes a few milliseconds at most; the table may change between two of them.
        """
        for name in columns:
            if name in self._ranks or self._table.columns[name].kind is not Kind.TEXT:
                continue
            ranks = Ranks()
            yield from ranks.prepare(self._texts(name))
            self._ranks.setdefault(name, ranks)
            self._seen.setdefault(name, self._ranks[name].renumbered)

    def _texts(self, name: str) -> Iterator[str]:
        texts = self._table.values(name)
        for slot in self._table.slots().tolist():
            # One that is gone by now is nobody's, and another's text will be asked for when it is needed.
            if (text := texts[slot]) is not None:
                yield text

    # -- standing still --

    @property
    def frozen(self) -> bool:
        """Whether rows keep their places for now."""
        return self._frozen

    def freeze(self) -> None:
        """Lets no row come, go or move, for as long as a menu is open or a button is held down.

        Rows that are gone from the table can still be read meanwhile.
        """
        if not self._frozen:
            self._frozen = True
            self._table.hold()

    def thaw(self) -> Update:
        """Goes on; gives what has been held back."""
        if not self._frozen:
            return Update()
        self._frozen = False
        moved = np.array(sorted(self._moved), np.int32)
        self._moved.clear()
        steps = plan(self.view, self._target, moved)
        # What was held can only be let go of once nobody shows it: with the table's next batch.
        self._table.release()
        return Update(steps)

    @property
    def pending(self) -> int:
        """How many rows would come, go or move if the order were not frozen."""
        if not self._frozen:
            return 0
        shown = _mask(self.view, self._table.capacity)
        wanted = _mask(self._target, self._table.capacity)
        count = int((shown != wanted).sum())
        both = shown & wanted
        if not self._moved:
            return count
        moved = np.zeros(self._table.capacity, np.bool_)
        moved[np.fromiter(self._moved, np.int32, len(self._moved))] = True
        return count + displaced(self.view[both[self.view]], self._target[both[self._target]], moved)

    def is_gone(self, row: int) -> bool:
        """Whether a row of a frozen order is not in the table any more, even if its id has come again."""
        slot = int(self.view[row])
        row_id = self._table.ids[slot]
        return row_id is None or self._table.slot(row_id) != slot

    # -- inside --

    def _set_sort(self, sort: Sequence[SortKey]) -> None:
        for key in sort:
            if self._table.columns[key.column].kind is Kind.OBJECT:
                raise ValueError(f"rows cannot be sorted by {key.column}")
        self._sort = tuple(sort)
        self._sort_bits = self._table.bits_of(key.column for key in sort)
        self._keys = []

    def _show(self, view: Slots) -> None:
        self.view = view
        self._row_of = _places(view, self._table.capacity)

    def _fit_capacity(self) -> None:
        capacity = self._table.capacity
        if len(self._member) < capacity:
            grown = np.zeros(capacity, np.bool_)
            grown[: len(self._member)] = self._member
            self._member = grown
            self._keys = [
                np.concatenate([key, np.zeros(capacity - len(key), key.dtype)]) for key in self._keys
            ]

    def _recompute(self) -> None:
        """The target from nothing."""
        slots = self._table.slots()
        self._member = np.zeros(self._table.capacity, np.bool_)
        for name in self._text_columns():
            self._forget_stale(name)
        self._keys = [self._new_key(key, slots) for key in self._sort]
        self._seen = {name: ranks.renumbered for name, ranks in self._ranks.items()}
        if self._fits is not None:
            slots = slots[self._fits(slots)]
        self._member[slots] = True
        self._target = self._sorted(slots)

    def _new_key(self, key: SortKey, slots: Slots) -> Numbers:
        values = self._key_values(key, slots)
        whole = np.zeros(self._table.capacity, values.dtype)
        whole[slots] = values
        return whole

    def _key_values(self, key: SortKey, slots: Slots) -> Numbers:
        """Numbers that sort some slots by one column, ascending, with what is missing last."""
        column = self._table.columns[key.column]
        if column.kind is Kind.TEXT:
            ranks = self._ranks.setdefault(key.column, Ranks())
            texts = self._table.values(key.column)
            found: Numbers = ranks.of([texts[slot] for slot in slots.tolist()])
            return -found if key.descending else found
        values = self._table.numbers(key.column)[slots]
        if column.kind is Kind.FLOAT:
            found = -values if key.descending else values.copy()
            found[np.isnan(found)] = np.inf
            return found
        found = values.astype(np.int64)
        missing = found == MISSING
        if key.descending:
            found = -found
        found[missing] = np.iinfo(np.int64).max
        return found

    def _sorted(self, slots: Slots) -> Slots:
        columns = [self._table.serials[slots], *(key[slots] for key in reversed(self._keys))]
        return slots[np.lexsort(columns)]

    def _retarget(self, change: Change[Id]) -> Slots:
        """Takes a change into the target; returns the slots that may have another place in it."""
        touched = change.touching(self._sort_bits)
        moved = self._rekey(touched[self._member[touched]]) if self._keys else NO_SLOTS
        if self._keys:
            hidden = touched[~self._member[touched]]
            self._rekey(np.concatenate([change.inserted, hidden]))
            self._renew_ranks()
        asked = change.inserted
        if self._fits is not None:
            asked = np.concatenate([asked, change.touching(self._filter_bits)])
        fits = np.ones(len(asked), np.bool_) if self._fits is None else self._fits(asked)
        was = self._member[asked]
        left = np.concatenate([asked[was & ~fits], change.removed[self._member[change.removed]]])
        entered = asked[~was & fits]
        self._member[left] = False
        moved = moved[self._member[moved]]
        self._member[entered] = True
        if not (len(left) or len(entered) or len(moved)):
            return moved
        out = np.zeros(self._table.capacity, np.bool_)
        out[left] = out[moved] = True
        kept = self._target[~out[self._target]]
        coming = self._sorted(np.concatenate([entered, moved]))
        self._target = np.insert(kept, self._places_in(kept, coming), coming)
        return moved

    def _rekey(self, slots: Slots) -> Slots:
        """Works out the keys of some slots; returns those whose keys are not what they were."""
        if not len(slots):
            return slots
        differs = np.zeros(len(slots), np.bool_)
        for key, have in zip(self._sort, self._keys, strict=True):
            values = self._key_values(key, slots)
            if key.column in self._ranks and self._ranks[key.column].renumbered != self._seen[key.column]:
                # The old numbers cannot be compared with these.
                differs[:] = True
            differs |= have[slots] != values
            have[slots] = values
        return slots[differs]

    def _renew_ranks(self) -> None:
        """Takes new numbers of texts over when all of them were given anew; the order is the same."""
        for name in self._text_columns():
            ranks = self._ranks[name]
            self._forget_stale(name)
            if self._seen[name] == ranks.renumbered:
                continue
            self._seen[name] = ranks.renumbered
            for place, key in enumerate(self._sort):
                if key.column == name:
                    self._keys[place] = self._new_key(key, self._table.slots())

    def _text_columns(self) -> list[str]:
        """Columns it is sorted by whose order is one of texts."""
        return [name for name in dict.fromkeys(key.column for key in self._sort) if name in self._ranks]

    def _forget_stale(self, name: str) -> None:
        """Forgets texts that no row has any more, when they are many."""
        ranks = self._ranks[name]
        if len(ranks) > _STALE_TEXTS * len(self._table) + 1000:
            texts = self._table.values(name)
            ranks.keep_only(texts[slot] for slot in self._table.slots().tolist())

    def _places_in(self, kept: Slots, coming: Slots) -> Rows:
        """Before which rows of a sorted view new slots belong: a binary search for all of them at once."""
        serials = self._table.serials
        low = np.zeros(len(coming), np.int64)
        high = np.full(len(coming), len(kept), np.int64)
        while (open_ := np.flatnonzero(low < high)).size:
            middle = (low[open_] + high[open_]) // 2
            there, here = kept[middle], coming[open_]
            before = serials[there] < serials[here]
            for key in reversed(self._keys):
                a, b = key[there], key[here]
                before = (a < b) | ((a == b) & before)
            low[open_] = np.where(before, middle + 1, low[open_])
            high[open_] = np.where(before, high[open_], middle)
        return low.astype(np.int32)

    def _changed_rows(self, change: Change[Id], where: npt.NDArray[np.int32]) -> tuple[Rows, Masks]:
        known = change.changed < len(where)
        rows, masks = where[change.changed[known]], change.masks[known]
        shown = rows >= 0
        rows, masks = rows[shown], masks[shown]
        order = np.argsort(rows, kind="stable")
        return rows[order], masks[order]


def _places(view: Slots, capacity: int) -> npt.NDArray[np.int32]:
    """Row by slot, -1 where it is not shown."""
    found = np.full(capacity, -1, np.int32)
    found[view] = np.arange(len(view), dtype=np.int32)
    return found


def _mask(view: Slots, capacity: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(capacity, np.bool_)
    found[view] = True
    return found

"""Groups beside a plain list of rows and headers, and what may happen to both.

What belongs here: the oracle, a screen that does what a Qt model does with the steps by their row numbers
alone, the bench that compares, and the operations hypothesis draws from.  What may not: single rules.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from client_gui.store.groups import Grouping, GroupKey
from client_gui.store.moves import StepKind
from client_gui.store.natural import natural_key
from client_gui.store.order import Order, SortKey, Update
from client_gui.store.selection import ScrollAnchor, Selection
from client_gui.store.table import Column, Kind, Slots, Table

COLUMNS = (
    Column("name", Kind.TEXT),
    Column("kind", Kind.TEXT, few=True),
    Column("state", Kind.STATE, words=("queued", "running")),
    Column("done", Kind.INT),
    Column("units", Kind.INT),
    Column("part", Kind.FLOAT),
    Column("late", Kind.INT),
    Column("age", Kind.INT),
)
WORDS = ["queued", "running", "dreaming"]
#: name, kind, state, done, units, late, age
Row = tuple[str, str, str, int | None, int, int | None, int | None]


def values(row: Row) -> tuple[Any, ...]:
    name, kind, state, done, units, late, age = row
    return (name, kind, state, done, units, (done or 0) / units if units else None, late, age)


def grouping(by: str) -> Grouping:
    def kinds(table: Table[Any], slots: Slots) -> list[str]:
        return [table.values("kind")[slot] for slot in slots.tolist()]

    def states(table: Table[Any], slots: Slots) -> list[str]:
        return [table.get(slot, "state") for slot in slots.tolist()]

    return Grouping(
        by,
        by,
        (by,),
        kinds if by == "kind" else states,
        sums=("done", "units"),
        state="state",
        words=("running",),
        shown=("late",),
        sorted_by={"done": ("done",), "part": ("done", "units")},
        latest=frozenset({"late"}),
        first=frozenset({"age"}),
        named=frozenset({by, "name"}),
    )


class Oracle:
    """What should be shown, worked out from nothing each time."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.sort: list[SortKey] = []
        self.most: int | None = None
        self.by = ""
        self.closed: set[str] = set()

    def group(self, row_id: int) -> str:
        return self.rows[row_id][1 if self.by == "kind" else 2]

    def listed(self) -> list[int]:
        return [one for one, row in self.rows.items() if self.most is None or row[4] < self.most]

    def worth(self, row_id: int, key: SortKey) -> float:
        name, kind, state, done, units, late, age = self.rows[row_id]
        if key.column in ("name", "kind"):
            at = 0 if key.column == "name" else 1
            texts = sorted({row[at] for row in self.rows.values()}, key=natural_key)
            place = texts.index((name, kind)[at])
            return -place if key.descending else place
        value: float | None = {
            "state": WORDS.index(state),
            "done": done,
            "units": units,
            "part": (done or 0) / units if units else None,
            "late": late,
            "age": age,
        }[key.column]
        if value is None:
            return math.inf
        return -value if key.descending else value

    def sorted_rows(self, ids: list[int]) -> list[int]:
        return sorted(ids, key=lambda one: ([self.worth(one, key) for key in self.sort], one))

    def groups(self) -> dict[str, list[int]]:
        """Rows of each group, both in order."""
        found: dict[str, list[int]] = {}
        for one in self.sorted_rows(self.listed()):
            found.setdefault(self.group(one), []).append(one)
        by_name = sorted(found, key=natural_key)
        key = self.sort[0] if self.sort else SortKey("")

        def worth(name: str) -> float:
            ids, sign = found[name], -1 if key.descending else 1
            rows = [self.rows[one] for one in ids]
            done, units = sum(row[3] or 0 for row in rows), sum(row[4] for row in rows)
            match key.column:
                case "done":
                    return sign * done
                case "part":
                    return sign * done / units if units else math.inf
                case "late":
                    known = [row[5] for row in rows if row[5] is not None]
                    return sign * max(known) if known else math.inf
                case "age":
                    return self.worth(ids[0], key)
                case self.by | "name":
                    return sign * by_name.index(name)
            return by_name.index(name)

        return {
            name: found[name] for name in sorted(found, key=lambda name: (worth(name), natural_key(name)))
        }

    def shown(self) -> list[Any]:
        if not self.by:
            return self.sorted_rows(self.listed())
        found: list[Any] = []
        for name, ids in self.groups().items():
            found.append(GroupKey(self.by, name))
            found += () if name in self.closed else ids
        return found


class Screen:
    """What stands in rows, changed by the steps as a view would be."""

    def __init__(self, order: Order[int]) -> None:
        self.order = order
        self.rows: list[int] = order.view.tolist()

    def take(self, update: Update) -> None:
        for step in update.steps:
            view = step.view.tolist()
            if step.kind is StepKind.REMOVE:
                del self.rows[step.first : step.last + 1]
            elif step.kind is StepKind.INSERT:
                self.rows[step.first : step.first] = view[step.first : step.last + 1]
            elif step.kind is StepKind.MOVE:
                self.rows.insert(step.to, self.rows.pop(step.first))
            else:
                assert sorted(step.new_rows.tolist()) == list(range(len(self.rows)))
                laid: list[Any] = [None] * len(self.rows)
                for row, new in enumerate(step.new_rows.tolist()):
                    laid[new] = self.rows[row]
                self.rows = laid
            self.order.commit(step)
            assert self.rows == view == self.order.view.tolist()
            here = [row for row in range(len(self.rows)) if not self.order.is_gone(row)]
            assert [self.order.row_of(self.order.key_at(row)) for row in here] == here
        for rows in (update.rows.tolist(), update.headers.tolist()):
            assert all(one < other for one, other in pairwise(rows))
        assert all(self.rows[row] < 0 for row in update.headers.tolist())


ROWS = st.tuples(
    st.sampled_from(["fx_1", "fx_2", "fx_10", "a", ""]),
    st.sampled_from(["dune", "arctic", "shot 2", "shot 10", ""]),
    st.sampled_from(WORDS),
    st.none() | st.integers(0, 5),
    st.integers(0, 6),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 5),
)
SORTS = st.lists(
    st.builds(
        SortKey, st.sampled_from(["name", "kind", "state", "done", "part", "late", "age"]), st.booleans()
    ),
    max_size=2,
)
IDS = st.integers(0, 20)
NAMES = st.sampled_from(["dune", "arctic", "shot 2", "shot 10", "", *WORDS])
OPERATIONS = st.one_of(
    st.tuples(st.just("batch"), st.lists(st.tuples(IDS, ROWS), max_size=8), st.lists(IDS, max_size=4)),
    st.tuples(st.just("touch"), st.lists(IDS, min_size=1, max_size=3), st.integers(0, 5)),
    st.tuples(st.just("elsewhere"), IDS, NAMES),
    st.tuples(st.just("replace"), st.lists(st.tuples(IDS, ROWS), max_size=20), st.none()),
    st.tuples(st.just("sort"), SORTS, st.none()),
    st.tuples(st.just("filter"), st.none() | st.integers(0, 7), st.none()),
    st.tuples(st.just("group"), st.sampled_from(["", "kind", "state"]), st.none()),
    st.tuples(st.just("close"), st.lists(NAMES, max_size=5), st.none()),
    st.tuples(st.just("freeze"), st.none(), st.none()),
    st.tuples(st.just("thaw"), st.none(), st.none()),
    st.tuples(st.just("click"), IDS, st.sampled_from(["click", "toggle", "extend"])),
    st.tuples(st.just("head"), NAMES, st.sampled_from(["click", "toggle", "extend"])),
    st.tuples(st.just("scroll"), IDS, st.integers(1, 20)),
)
MANY: list[Any] = [
    (
        "batch",
        [(n, (f"fx_{n}", "dune" if n % 3 else "arctic", "queued", n % 4, 5, n, n)) for n in range(20)],
        [],
    ),
    ("group", "kind", None),
]
STILL: Any = ("freeze", None, None)
GO_ON: Any = ("thaw", None, None)


class Bench:
    """An order under test beside its oracle."""

    def __init__(self, sort: list[SortKey]) -> None:
        self.table: Table[int] = Table(COLUMNS)
        self.order: Order[int] = Order(self.table, sort)
        self.screen = Screen(self.order)
        self.selection: Selection[int] = Selection()
        self.anchor: ScrollAnchor[int] = ScrollAnchor()
        self.plain = Oracle()
        self.plain.sort = sort

    def batch(self, rows: dict[int, Row], gone: list[int]) -> None:
        change = self.table.apply(list(rows), [values(row) for row in rows.values()], gone)
        self.plain.rows.update(rows)
        for one in gone:
            if one not in rows:
                self.plain.rows.pop(one, None)
        update = self.order.apply(change)
        self.selection.apply(change, self.order)
        self.screen.take(update)

    def do(self, what: str, one: Any, other: Any) -> None:
        plain, order = self.plain, self.order
        match what:
            case "batch":
                self.batch(dict(one), other)
            case "replace":
                rows = dict(one)
                self.batch(rows, [known for known in plain.rows if known not in rows])
            case "touch":
                touched = {n: plain.rows[n] for n in one if n in plain.rows}
                self.batch({n: (*row[:3], other, *row[4:]) for n, row in touched.items()}, [])
            case "elsewhere":
                if one in plain.rows:
                    row = plain.rows[one]
                    state = other if other in WORDS else row[2]
                    kind = row[1] if other in WORDS else other
                    self.batch({one: (row[0], kind, state, *row[3:])}, [])
            case "sort":
                plain.sort = one
                self.screen.take(order.set_sort(one))
            case "filter":
                plain.most = one
                fits = None if one is None else lambda slots: self.table.numbers("units")[slots] < one
                self.screen.take(order.set_filter(fits, self.table.bits_of(["units"])))
            case "group":
                plain.by = one
                self.screen.take(order.set_grouping(grouping(one) if one else None, plain.closed))
            case "close":
                plain.closed = set(one) if plain.by else plain.closed
                self.screen.take(order.close_groups(one))
            case "freeze":
                order.freeze()
            case "thaw":
                self.screen.take(order.thaw())
            case "click" | "head":
                self.gesture(one if what == "click" else GroupKey(plain.by, one), other)
            case "scroll":
                if len(order):
                    self.anchor.hold(order, min(one, len(order) - 1), other)

    def gesture(self, key: Any, how: str) -> None:
        order = self.order
        row = order.row_of(key)
        if row < 0 or order.is_gone(row):
            return
        if how == "click":
            self.selection.click(key)
        elif how == "toggle":
            self.selection.toggle(key, order)
        else:
            self.selection.extend(key, order)

    def check(self) -> None:
        """All that must hold while rows may move."""
        plain, order, groups = self.plain, self.order, self.order.groups
        shown = [order.key_at(row) for row in range(len(order))]
        assert shown == plain.shown()
        assert order.ids() == [one for one in shown if not isinstance(one, GroupKey)]
        assert order.ids_of(order.listed) == (
            [one for ids in plain.groups().values() for one in ids] if plain.by else shown
        )
        assert order.pending == 0
        if groups is None:
            assert not plain.by
            return
        assert [key.name for key in order.groups_shown()] == list(plain.groups())
        for name, ids in plain.groups().items():
            key, place = GroupKey(plain.by, name), groups.place_of(name)
            rows = [plain.rows[one] for one in ids]
            assert order.ids_of(order.slots_of(key)) == ids
            assert all(order.group_of(one) == key for one in ids)
            assert groups.count(place) == len(ids)
            assert groups.total(place, "done") == sum(row[3] or 0 for row in rows)
            assert groups.total(place, "units") == sum(row[4] for row in rows)
            assert groups.in_state(place, "running") == sum(row[2] == "running" for row in rows)

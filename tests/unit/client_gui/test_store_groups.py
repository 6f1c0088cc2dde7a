"""Groups against a plain list: rows and headers in order, what groups come to, no selection lost.

The screen here does what a Qt model does with the steps, by their row numbers alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client_gui.actions.records import GROUPS
from client_gui.store import moves
from client_gui.store.columns import JOB_COLUMNS, job_values
from client_gui.store.groups import Grouping, GroupKey, Groups
from client_gui.store.jobgroups import TITLES, job_grouping
from client_gui.store.moves import StepKind, header_of
from client_gui.store.natural import natural_key
from client_gui.store.order import Order, SortKey, Update
from client_gui.store.selection import ScrollAnchor, Selection
from client_gui.store.table import Column, Kind, Slots, Table
from tests.support.client_rows import NOW_US, job_row, replaced, step_row

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


@given(st.lists(OPERATIONS, max_size=25), SORTS, st.sampled_from([(8, 32), (0, 0), (3, 2)]))
@example([*MANY, ("close", ["dune"], None), ("elsewhere", 3, "dune"), ("elsewhere", 4, "new")], [], (8, 32))
@example([*MANY, STILL, ("group", "state", None), GO_ON], [], (8, 32))
# The last of a group goes while rows stand still, and comes again in another.
@example(
    [
        *MANY,
        ("freeze", None, None),
        *(("elsewhere", n, "dune") for n in range(0, 20, 3)),
        ("thaw", None, None),
    ],
    [SortKey("done", True)],
    (8, 32),
)
@settings(deadline=None, max_examples=150)
def test_headers_and_rows_are_a_plain_list_and_nothing_is_lost(
    operations: list[Any], sort: list[SortKey], most: tuple[int, int]
) -> None:
    was = moves.MOVES_MOST, moves.RANGES_MOST
    moves.MOVES_MOST, moves.RANGES_MOST = most  # type: ignore[misc]
    try:
        bench = Bench(sort)
        for what, one, other in operations:
            before = set(bench.selection.ids), set(bench.selection.groups), bench.selection.current
            frozen = bench.order.frozen
            rows = list(bench.screen.rows)
            bench.do(what, one, other)
            if frozen and what != "thaw":
                assert bench.screen.rows == rows, "nothing moves"
                assert [group for group in bench.order.view.tolist() if group < 0] == [
                    r for r in rows if r < 0
                ]
            if what not in ("click", "head"):
                ids, groups, current = before
                assert bench.selection.ids == ids & set(bench.plain.rows)
                assert bench.selection.groups == groups
                if current is None or isinstance(current, GroupKey) or current in bench.plain.rows:
                    assert bench.selection.current == current
            if not bench.order.frozen:
                bench.check()
                acting = bench.selection.acting(bench.order)
                grouped = bench.plain.groups() if bench.plain.by else {}
                inside = [
                    i
                    for key in bench.selection.groups
                    if key.by == bench.plain.by
                    for i in grouped.get(key.name, ())
                ]
                assert len(acting) == len(set(acting))
                assert set(acting) == bench.selection.ids | set(inside)
        if not bench.order.frozen:
            bench.screen.take(bench.order.rebuild())
            bench.check()
    finally:
        moves.MOVES_MOST, moves.RANGES_MOST = was  # type: ignore[misc]


@given(st.lists(OPERATIONS, max_size=20), st.integers(0, 20))
@settings(deadline=None, max_examples=60)
def test_what_stands_at_the_top_stays_there(operations: list[Any], row: int) -> None:
    bench = Bench([SortKey("age")])
    for what, one, other in MANY:
        bench.do(what, one, other)
    row = 1 + row % (len(bench.order) - 1)
    bench.anchor.hold(bench.order, row, 3)
    held = bench.order.key_at(row)
    for what, one, other in operations:
        if what not in ("scroll", "group", "freeze"):
            bench.do(what, one, other)
    found = bench.order.row_of(held)
    if found >= 0:
        assert bench.anchor.row(bench.order) == found
    elif not isinstance(held, GroupKey) and (group := bench.order.group_of(held)) is not None:
        assert bench.anchor.row(bench.order) == bench.order.row_of(group), "its group was closed"


# -- single rules --


def bench_of(kinds: str, sort: list[SortKey] | None = None) -> Bench:
    """Rows 0, 1, 2 ... of groups that are called by a letter each."""
    bench = Bench(sort or [])
    bench.batch({n: (f"n{n}", kind, "queued", 1, 2, None, n + 1) for n, kind in enumerate(kinds)}, [])
    bench.do("group", "kind", None)
    return bench


def shown(bench: Bench) -> str:
    """Rows by number, headers by their name in brackets."""
    keys = [bench.order.key_at(row) for row in range(len(bench.order))]
    return " ".join(f"[{key.name}]" if isinstance(key, GroupKey) else str(key) for key in keys)


A, B = GroupKey("kind", "a"), GroupKey("kind", "b")


def test_a_group_that_is_closed_takes_its_rows_along_and_its_sums_go_on() -> None:
    bench = bench_of("aabb")
    assert shown(bench) == "[a] 0 1 [b] 2 3"
    bench.do("close", ["a"], None)
    assert shown(bench) == "[a] [b] 2 3"
    update_rows = len(bench.order)
    bench.batch({0: ("n0", "a", "running", 5, 9, None, 1)}, [])
    groups = bench.order.groups
    assert groups is not None
    assert groups.total(groups.place_of("a"), "done") == 6
    assert groups.in_state(groups.place_of("a"), "running") == 1
    assert len(bench.order) == update_rows


def test_only_headers_whose_group_changed_are_told() -> None:
    bench = bench_of("aabbcc")
    bench.do("close", ["b"], None)
    change = bench.table.apply([2], [values(("n2", "b", "queued", 2, 2, None, 3))])
    update = bench.order.apply(change)
    assert not update.steps
    assert not len(update.rows), "its row is not shown"
    assert update.headers.tolist() == [bench.order.row_of(B)]
    change = bench.table.apply([4], [values(("renamed", "c", "queued", 1, 2, None, 5))])
    update = bench.order.apply(change)
    assert not len(update.headers), "no header says anything of names"


def test_a_group_vanishes_with_its_last_row_and_comes_back_closed() -> None:
    bench = bench_of("aab")
    bench.do("close", ["b"], None)
    bench.do("elsewhere", 2, "a")
    assert shown(bench) == "[a] 0 1 2"
    bench.do("elsewhere", 1, "b")
    assert shown(bench) == "[a] 0 2 [b]"
    bench.do("filter", 2, None)
    assert shown(bench) == "", "the filter comes before groups"


def test_a_row_that_goes_to_another_group_is_one_move() -> None:
    bench = bench_of("aabb")
    change = bench.table.apply([1], [values(("n1", "b", "queued", 1, 2, None, 2))])
    kinds = [step.kind for step in bench.order.apply(change).steps]
    assert kinds == [StepKind.MOVE]


def test_names_of_groups_follow_the_head_that_is_clicked() -> None:
    bench = bench_of("ba2a10")
    names = "[a] 2 [b] 0 [1]"
    bench = Bench([])
    bench.batch(
        {
            n: ("x", kind, "queued", n, 9, None, 9 - n)
            for n, kind in enumerate(["shot 10", "shot 2", "", "b"])
        },
        [],
    )
    bench.do("group", "kind", None)
    names = [key.name for key in bench.order.groups_shown()]
    assert names == ["", "b", "shot 2", "shot 10"]
    bench.do("sort", [SortKey("kind", True)], None)
    assert [key.name for key in bench.order.groups_shown()] == names[::-1]
    bench.do("sort", [SortKey("done", True)], None)
    assert [key.name for key in bench.order.groups_shown()] == ["b", "", "shot 2", "shot 10"], "by their sums"
    bench.do("sort", [SortKey("age")], None)
    assert [key.name for key in bench.order.groups_shown()] == ["b", "", "shot 2", "shot 10"], (
        "by the first row"
    )


def test_numbers_of_groups_are_never_given_twice() -> None:
    bench = bench_of("ab")
    heads = {slot for slot in bench.order.view.tolist() if slot < 0}
    bench.do("group", "state", None)
    bench.do("group", "kind", None)
    again = {slot for slot in bench.order.view.tolist() if slot < 0}
    assert heads.isdisjoint(again)
    assert bench.order.groups is not None
    assert again == {header_of(bench.order.groups.first + place) for place in (0, 1)}


def test_a_header_that_is_chosen_means_its_rows_wherever_they_are() -> None:
    bench = bench_of("aabb")
    bench.selection.click(A)
    assert bench.selection.acting(bench.order) == [0, 1]
    assert bench.selection.rows(bench.order).tolist() == [0, 1, 2], (
        "it and the rows below it are seen as chosen"
    )
    bench.do("close", ["a"], None)
    assert bench.selection.acting(bench.order) == [0, 1]
    assert bench.selection.hidden(bench.order) == 0
    bench.batch({9: ("n9", "a", "queued", 1, 2, None, 9)}, [])
    assert bench.selection.acting(bench.order) == [0, 1, 9], "and who comes later"


def test_a_row_taken_out_of_a_chosen_group_leaves_the_others() -> None:
    bench = bench_of("aaab")
    bench.selection.click(A)
    bench.selection.toggle(1, bench.order)
    assert (bench.selection.ids, bench.selection.groups) == ({0, 2}, set())


def test_a_range_means_a_group_only_with_all_of_its_rows() -> None:
    bench = bench_of("aabb")
    bench.selection.click(1)
    bench.selection.extend(2, bench.order)
    assert (bench.selection.ids, bench.selection.groups) == ({1, 2}, set())
    bench.selection.extend(3, bench.order)
    assert (bench.selection.ids, bench.selection.groups) == ({1}, {B})
    bench.do("close", ["b"], None)
    bench.selection.click(1)
    bench.selection.extend(B, bench.order)
    assert bench.selection.acting(bench.order) == [1, 2, 3], "a closed one has no rows to miss"


def test_all_and_what_is_not_chosen() -> None:
    bench = bench_of("aabbc")
    bench.do("close", ["b"], None)
    bench.selection.select_all(bench.order)
    assert bench.selection.acting(bench.order) == [0, 1, 2, 3, 4]
    bench.selection.click(0)
    bench.selection.invert(bench.order)
    assert bench.selection.acting(bench.order) == [1, 2, 3, 4]
    assert bench.selection.groups == {B, GroupKey("kind", "c")}
    bench.selection.invert(bench.order)
    assert bench.selection.acting(bench.order) == [0]


def test_rows_chosen_by_themselves_in_a_closed_group_count_as_hidden() -> None:
    bench = bench_of("aabb")
    bench.selection.click(0)
    bench.do("close", ["a"], None)
    assert bench.selection.hidden(bench.order) == 1
    assert bench.selection.acting(bench.order) == [0]


def test_what_a_table_of_rows_says_was_chosen() -> None:
    """``take_rows``: what Qt tells when its own selection knows rows alone."""
    bench = bench_of("aabb")  # [a] 0 1 [b] 2 3

    def take(now: str, came: list[int], went: list[int], **how: bool) -> tuple[set[int], set[GroupKey]]:
        rows = np.array([one == "x" for one in now])
        usual = {"toggled": False, "ranged": False}
        bench.selection.take_rows(bench.order, rows, came, went, **(usual | how))
        return bench.selection.ids, bench.selection.groups

    assert take("x.....", [0], []) == (set(), {A})
    assert take("xxx...", [1, 2], []) == (set(), {A}), "put right by the table"
    assert take("xx....", [], [2], toggled=True) == ({0}, set())
    bench.selection.click(A)
    assert take(".xx...", [], [0], toggled=True) == (set(), set()), "the header alone was taken out"
    bench.selection.click(A)
    assert take(".x....", [], [0, 2]) == ({0}, set()), "a click on one of them"
    assert take("..xxx.", [2, 3, 4], [1], ranged=True) == ({1, 2}, set())
    assert take("..xxxx", [5], [], ranged=True) == ({1}, {B})


# -- groups of jobs --


def test_every_grouping_of_jobs_has_an_action() -> None:
    assert {"none": "nothing", **TITLES} == GROUPS
    assert job_grouping("weather", lambda: UTC) is None


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("project", ["arctic", "dune", ""]),
        ("user", ["ana", "bo", "zoë"]),
        ("state", ["running", "queued", "failed", "dreaming"]),
        ("renderer", ["blender", "blender, nuke", ""]),
        ("day", ["2026-11-29", "2026-11-30", ""]),
    ],
)
def test_groups_of_jobs_and_their_order(by: str, expected: list[str]) -> None:
    rows = (
        job_row(1, project="dune", user="bo", steps=(step_row(), step_row("comp", renderer="nuke"))),
        job_row(2, project="arctic", user="ana", state="queued", submitted_us=NOW_US - 86_400_000_000),
        job_row(3, project="", user="ana", state="failed", steps=(), submitted_us=0),
        job_row(4, project="dune", user="zoë", state="dreaming"),
    )
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply([row.job for row in rows], [job_values(row) for row in rows])
    order: Order[int] = Order(table)
    order.settle(order.set_grouping(job_grouping(by, lambda: UTC)))
    assert [key.name for key in order.groups_shown()] == expected


def test_days_are_those_of_whoever_reads() -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply([1], [job_values(job_row(1, submitted_us=NOW_US + 11 * 3_600_000_000))])  # 23:00 UTC
    zone: list[Any] = [UTC]
    days = job_grouping("day", lambda: zone[0])
    assert days is not None
    order: Order[int] = Order(table)
    order.settle(order.set_grouping(days))
    assert [key.name for key in order.groups_shown()] == ["2026-11-30"]
    zone[0] = timezone(timedelta(hours=3))
    order.settle(order.rebuild())
    assert [key.name for key in order.groups_shown()] == ["2026-12-01"]
    label: Callable[..., str] = days.label
    now_us = NOW_US + 12 * 3_600_000_000
    assert label("2026-12-01", now_us, zone[0]) == "Today"
    assert label("2026-11-30", now_us, zone[0]) == "Yesterday"
    assert label("2026-11-09", now_us, zone[0]) == "Mon 9 Nov"
    assert label("2025-11-09", now_us, zone[0]) == "Sun 9 Nov 2025"


def test_sums_of_many_jobs_are_exact_after_ten_thousand_changes() -> None:
    rng = random.Random(3)
    rows = {
        n: job_row(n, project=f"p{n % 500}", units=400, done=n % 400, spend_nano=n * 10**11, steps=())
        for n in range(1, 20_001)
    }
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply(list(rows), [job_values(row) for row in rows.values()])
    order: Order[int] = Order(table, [SortKey("submitted_us", True)])
    order.settle(
        order.set_grouping(job_grouping("project", lambda: UTC), [f"p{n}" for n in range(0, 500, 2)])
    )
    for _ in range(40):
        picked = rng.sample(range(1, 20_001), 250)
        for n in picked:
            row = rows[n]
            project = f"p{rng.randrange(500)}" if rng.random() < 0.05 else row.project
            state = rng.choice(["running", "failed", "queued"])
            rows[n] = replaced(
                row, done=rng.randrange(400), spend_nano=row.spend_nano + 1, project=project, state=state
            )
        gone = [rng.randrange(1, 20_001)]
        change = table.apply(
            [n for n in picked if n in table], [job_values(rows[n]) for n in picked if n in table], gone
        )
        order.settle(order.apply(change))
    groups = order.groups
    assert groups is not None
    alive = [rows[n] for n in rows if n in table]
    for name in rng.sample(groups.names, 40):
        inside, place = [row for row in alive if row.project == name], groups.place_of(name)
        assert groups.count(place) == len(inside)
        assert groups.total(place, "spend_nano") == sum(row.spend_nano for row in inside)
        assert groups.total(place, "done") == sum(row.done for row in inside)
        assert groups.in_state(place, "failed") == sum(row.state == "failed" for row in inside)
    assert len(order) == 500 + sum(int(row.project[1:]) % 2 for row in alive)


def test_groups_may_be_many() -> None:
    table: Table[int] = Table(COLUMNS)
    ids = list(range(3000))
    table.apply(ids, [values((f"n{n}", f"g{n}", "queued", n, 9, None, None)) for n in ids])
    groups = Groups(table, grouping("kind"))
    groups.rebuild(table.slots(), table.slots())
    assert len(groups) == 3000
    assert groups.reorder("done", True)
    assert not groups.reorder("done", True)
    assert groups.total(groups.place_of("g77"), "done") == 77

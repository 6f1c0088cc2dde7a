"""What is shown, against a plain sorted list: orders, steps, selection, current row and scroll anchor.

The screen here does what a Qt model does with the steps, by their row numbers alone.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client_gui.store import moves
from client_gui.store.moves import StepKind
from client_gui.store.natural import Ranks, natural_key
from client_gui.store.order import Order, SortKey, Update
from client_gui.store.selection import ScrollAnchor, Selection
from client_gui.store.table import Column, Kind, Slots, Table

COLUMNS = (
    Column("name", Kind.TEXT),
    Column("state", Kind.STATE, words=("queued", "running")),
    Column("count", Kind.INT),
    Column("share", Kind.FLOAT),
    Column("late", Kind.FLAG),
)
WORDS = ["queued", "running", "dreaming"]
Row = tuple[str, str, int | None, float | None, bool]


class Screen:
    """Ids in rows, changed by the steps as a view would be."""

    def __init__(self, order: Order[int]) -> None:
        self.order = order
        self.rows = order.ids()
        self.kinds: list[StepKind] = []

    def take(self, update: Update) -> None:
        for step in update.steps:
            ids = [self.order._table.ids[slot] for slot in step.view.tolist()]
            if step.kind is StepKind.REMOVE:
                del self.rows[step.first : step.last + 1]
            elif step.kind is StepKind.INSERT:
                self.rows[step.first : step.first] = ids[step.first : step.last + 1]
            elif step.kind is StepKind.MOVE:
                self.rows.insert(step.to, self.rows.pop(step.first))
            else:
                assert sorted(step.new_rows.tolist()) == list(range(len(self.rows)))
                laid: list[Any] = [None] * len(self.rows)
                for row, new in enumerate(step.new_rows.tolist()):
                    laid[new] = self.rows[row]
                self.rows = laid
            self.order.commit(step)
            self.kinds.append(step.kind)
            assert self.rows == ids == self.order.ids()
            here = [row for row in range(len(self.rows)) if not self.order.is_gone(row)]
            assert [self.order.row_of(self.rows[row]) for row in here] == here


def expected(rows: dict[int, Row], sort: list[SortKey], most: int | None) -> list[int]:
    """Ids in the order they should have."""

    def key(row_id: int) -> list[Any]:
        name, state, count, share, late = rows[row_id]
        found: list[Any] = []
        for one in sort:
            values: dict[str, Any] = {
                "name": name,
                "state": state,
                "count": count,
                "share": share,
                "late": late,
            }
            value = values[one.column]
            if one.column == "name":
                place = sorted({row[0] for row in rows.values()}, key=natural_key).index(name)
                found.append(-place if one.descending else place)
            elif value is None:
                found.append(float("inf"))
            else:
                number = WORDS.index(state) if one.column == "state" else value
                found.append(-number if one.descending else number)
        return [*found, row_id]

    return sorted((one for one, row in rows.items() if most is None or (row[2] or 0) < most), key=key)


NAMES = st.sampled_from(["fx_1", "fx_2", "fx_10", "FX_2", "a", "b10", "b9", "", "ä"]) | st.text(max_size=3)
ROWS = st.tuples(
    NAMES,
    st.sampled_from(WORDS),
    st.none() | st.integers(-5, 5),
    st.none() | st.sampled_from([0.0, 0.25, 1.5, -2.0]),
    st.booleans(),
)
SORTS = st.lists(
    st.builds(SortKey, st.sampled_from(["name", "state", "count", "share", "late"]), st.booleans()),
    max_size=3,
)
IDS = st.integers(0, 25)
OPERATIONS = st.one_of(
    st.tuples(st.just("batch"), st.lists(st.tuples(IDS, ROWS), max_size=10), st.lists(IDS, max_size=5)),
    st.tuples(st.just("touch"), st.lists(IDS, min_size=1, max_size=3), st.integers(-5, 5)),
    st.tuples(st.just("replace"), st.lists(st.tuples(IDS, ROWS), max_size=25), st.none()),
    st.tuples(st.just("sort"), SORTS, st.none()),
    st.tuples(st.just("filter"), st.none() | st.integers(-5, 6), st.none()),
    st.tuples(st.just("freeze"), st.none(), st.none()),
    st.tuples(st.just("thaw"), st.none(), st.none()),
    st.tuples(st.just("click"), IDS, st.sampled_from(["click", "toggle", "extend"])),
    st.tuples(st.just("scroll"), IDS, st.integers(1, 20)),
)


#: A row that goes and comes again while the order is frozen: what is still shown is the one that went.
AGAIN: list[Any] = [
    ("batch", [(0, ("fx_1", "queued", None, None, False))], []),
    ("freeze", None, None),
    ("replace", [], None),
    ("batch", [(0, ("fx_1", "queued", None, None, False))], []),
]
OTHERS: list[Any] = [("batch", [(one, ("a", "queued", one, None, False)) for one in range(5)], [])]


@given(st.lists(OPERATIONS, max_size=25), SORTS, st.sampled_from([(8, 32), (0, 0), (3, 2)]))
@example([*AGAIN, ("batch", [(0, ("fx_1", "queued", None, None, True))], [])], [], (8, 32))
# The one that came again is clicked on and goes, too.
@example([*OTHERS, *AGAIN, ("click", 0, "click"), ("batch", [], [0]), ("thaw", None, None)], [], (8, 32))
# A range cannot begin at it, for it is not shown.
@example([*OTHERS, *AGAIN, *OTHERS, ("click", 0, "click"), ("click", 0, "extend")], [], (8, 32))
# Several that are not next to each other go and come in steps.
@example(
    [
        *OTHERS,
        ("freeze", None, None),
        ("batch", [], [1, 3]),
        ("batch", [(1, ("b", "queued", 1, None, True)), (3, ("b", "queued", 3, None, True))], []),
        ("thaw", None, None),
    ],
    [],
    (8, 32),
)
@settings(max_examples=200, deadline=None)
def test_the_screen_is_a_sorted_list_and_nothing_is_lost(
    operations: list[Any], sort: list[SortKey], limits: tuple[int, int]
) -> None:
    before = moves.MOVES_MOST, moves.RANGES_MOST
    moves.MOVES_MOST, moves.RANGES_MOST = limits  # type: ignore[misc]
    try:
        _drive(operations, sort)
    finally:
        moves.MOVES_MOST, moves.RANGES_MOST = before  # type: ignore[misc]


def _drive(operations: list[Any], sort: list[SortKey]) -> None:
    table: Table[int] = Table(COLUMNS)
    rows: dict[int, Row] = {}
    order: Order[int] = Order(table, sort)
    screen = Screen(order)
    selection: Selection[int] = Selection()
    anchor: ScrollAnchor[int] = ScrollAnchor()
    most: int | None = None
    chosen: set[int] = set()
    #: What is still shown of rows that went while the order was frozen.
    ghosts: dict[int, Row] = {}

    def change(upserts: list[tuple[int, Row]], gone: list[int]) -> None:
        current, shown = selection.current, list(screen.rows)
        made = table.apply([one for one, _ in upserts], [row for _, row in upserts], gone)
        rows.update(upserts)
        shown_here = [one for one in shown if one not in ghosts]
        for row_id in made.removed_ids:
            went = rows.pop(row_id)
            if order.frozen and row_id in shown_here:
                ghosts[row_id] = went
        update = order.apply(made)
        selection.apply(made, order)
        chosen.difference_update(made.removed_ids)
        assert selection.ids == chosen, "what is selected stays so, unless it is gone"
        if current in rows:
            assert selection.current == current, "the current row stays the current row"
        elif current in shown_here:
            # The next below that is left, else the next above.
            place = shown.index(current)
            left = [one for one in (*shown[place + 1 :], *reversed(shown[:place])) if one in rows]
            # An id that went and came again is another row.
            left = [one for one in left if one not in ghosts]
            assert selection.current == (left[0] if left else None)
        else:
            assert selection.current is None, "nothing is next to what is not shown"
        screen.take(update)
        told = {screen.rows[row] for row in update.rows.tolist()}
        changed = {table.ids[slot] for slot in made.changed.tolist()}
        # A row that is shown as gone has its last values; those of one that came again are not shown yet.
        assert told == (changed & set(screen.rows)) - set(ghosts), (
            "every shown row with new values is told of"
        )
        assert update.rows.tolist() == sorted(update.rows.tolist())

    for kind, first, second in operations:
        top = anchor.row_id
        if kind == "batch":
            change(first, second)
        elif kind == "touch":
            change([(one, (*rows[one][:2], second, *rows[one][3:])) for one in first if one in rows], [])
        elif kind == "replace":
            keep = {one for one, _ in first}
            change(
                list({one: (one, row) for one, row in first}.values()),
                [one for one in rows if one not in keep],
            )
        elif kind == "sort":
            sort = first
            screen.take(order.set_sort(sort))
        elif kind == "filter":
            most = first
            if most is None:
                screen.take(order.set_filter(None))
            else:

                def fits(slots: Slots, most: int = most) -> Any:
                    return np.array(
                        [(table.get(slot, "count") or 0) < most for slot in slots.tolist()], np.bool_
                    )

                screen.take(order.set_filter(fits, table.bits_of(["count"])))
        elif kind == "freeze":
            order.freeze()
        elif kind == "thaw":
            pending = order.pending
            update = order.thaw()
            assert bool(pending) == bool(update.steps), "what is pending is what comes"
            screen.take(update)
            ghosts.clear()
            assert order.pending == 0
        elif kind == "click" and first in rows:
            shown_ids = list(screen.rows)
            if second == "click":
                selection.click(first)
                chosen = {first}
            elif second == "toggle":
                selection.toggle(first)
                chosen ^= {first}
            elif order.row_of(first) >= 0:
                here = [one for one in shown_ids if one in rows and one not in ghosts]
                starts = [one for one in (selection.anchor, selection.current) if one in here]
                begin = starts[0] if starts else first
                low, high = sorted((shown_ids.index(begin), shown_ids.index(first)))
                selection.extend(first, order)
                chosen = set(shown_ids[low : high + 1])
        elif kind == "scroll" and len(order):
            anchor.hold(order, first % len(order), second)
            top = anchor.row_id
        for row, row_id in enumerate(screen.rows):
            slot, gone = order.slot_at(row), row_id in ghosts
            assert (
                tuple(table.get(slot, column.name) for column in COLUMNS)
                == (ghosts if gone else rows)[row_id]
            )
            assert order.is_gone(row) == gone
            assert order.row_of(row_id) == (-1 if gone else row)
        if not order.frozen:
            assert screen.rows == expected(rows, sort, most)
            assert order.hidden == len(rows) - len(screen.rows)
            if kind != "scroll" and top is not None and top in screen.rows:
                assert screen.rows[anchor.row(order)] == top, "what stood at the top still does"
        assert anchor.row(order) < max(1, len(order))


# -- how it gets there --------------------------------------------------------------------------------


def small(count: int = 10) -> tuple[Table[int], Order[int], Screen]:
    table: Table[int] = Table(COLUMNS)
    table.apply(range(count), [(f"fx_{one}", "queued", one, None, False) for one in range(count)])
    order = Order(table, [SortKey("count")])
    return table, order, Screen(order)


def put(table: Table[int], row_id: int, count: int | None, name: str = "") -> Any:
    return table.apply([row_id], [(name or f"fx_{row_id}", "queued", count, None, False)])


def test_a_row_that_moves_is_one_move_and_one_that_stays_is_none() -> None:
    table, order, screen = small()
    screen.take(order.apply(put(table, 2, 7)))
    assert screen.kinds == [StepKind.MOVE]
    assert screen.rows == [0, 1, 3, 4, 5, 6, 2, 7, 8, 9]
    update = order.apply(put(table, 9, 1000))
    assert update.steps == ()
    assert update.rows.tolist() == [9]


def test_many_rows_that_move_are_one_layout() -> None:
    table, order, screen = small(100)
    change = table.apply(range(100), [(f"fx_{one}", "queued", -one, None, False) for one in range(100)])
    screen.take(order.apply(change))
    assert screen.kinds == [StepKind.LAYOUT]
    assert screen.rows == list(range(99, -1, -1))


def test_scattered_rows_go_and_come_together() -> None:
    _, order, screen = small(1000)
    screen.take(order.set_filter(lambda slots: slots % 2 == 0))
    assert screen.kinds == [StepKind.LAYOUT, StepKind.REMOVE]
    screen.kinds.clear()
    screen.take(order.set_filter(None))
    assert screen.kinds == [StepKind.INSERT, StepKind.LAYOUT]
    assert screen.rows == list(range(1000))


def test_a_frozen_order_counts_what_is_pending() -> None:
    table, order, screen = small()
    order.freeze()
    screen.take(order.apply(put(table, 2, 70)))
    assert order.pending == 1
    screen.take(order.apply(put(table, 50, 5)))
    screen.take(order.apply(table.apply([], [], [4])))
    assert order.pending == 3
    assert screen.rows == list(range(10))
    assert order.is_gone(4)
    assert table.get(order.slot_at(4), "name") == "fx_4", "a row that is gone can still be read"
    screen.take(order.apply(put(table, 2, 2)))
    assert order.pending == 2, "what moved back is not pending"
    screen.take(order.thaw())
    assert screen.rows == [0, 1, 2, 3, 5, 50, 6, 7, 8, 9]


def test_what_went_and_came_again_while_frozen_is_another_row() -> None:
    table, order, screen = small(3)
    order.freeze()
    screen.take(order.apply(table.apply([], [], [1])))
    screen.take(order.apply(put(table, 1, 1, "again")))
    update = order.apply(put(table, 1, 1, "and again"))
    assert not update, "nothing that is on the screen has changed"
    assert screen.rows == [0, 1, 2]
    assert (order.is_gone(1), order.row_of(1)) == (True, -1)
    assert table.get(order.slot_at(1), "name") == "fx_1", "the one that went, as it was"
    assert table.row(1)["name"] == "and again"
    assert order.pending == 2, "one goes and one comes"
    screen.take(order.thaw())
    assert screen.kinds == [StepKind.REMOVE, StepKind.INSERT]
    assert (screen.rows, order.is_gone(1), order.row_of(1)) == ([0, 1, 2], False, 1)
    assert table.get(order.slot_at(1), "name") == "and again"
    assert order.apply(put(table, 1, 1, "later")).rows.tolist() == [1]


def test_a_new_name_is_no_old_one_when_all_are_numbered_anew() -> None:
    table: Table[int] = Table(COLUMNS)
    table.apply([1, 2], [("m", "queued", 0, None, False), ("n", "queued", 0, None, False)])
    order = Order(table, [SortKey("name")])
    # More new names than old ones: "b" is given the number that "n" had.
    change = table.apply([2, 3], [("b", "queued", 0, None, False), ("a", "queued", 0, None, False)])
    order.settle(order.apply(change))
    assert order.ids() == [3, 2, 1]


def test_missing_values_come_last_both_ways() -> None:
    table, order, screen = small(3)
    screen.take(order.apply(put(table, 1, None)))
    assert screen.rows == [0, 2, 1]
    screen.take(order.set_sort([SortKey("count", descending=True)]))
    assert screen.rows == [2, 0, 1]


def test_what_cannot_be_sorted_by_is_refused() -> None:
    table: Table[int] = Table([Column("steps", Kind.OBJECT)])
    with pytest.raises(ValueError, match="steps"):
        Order(table, [SortKey("steps")])


def test_rows_without_numbers_stand_as_they_came() -> None:
    table: Table[str] = Table(COLUMNS)
    order: Order[str] = Order(table)
    for name in ("z", "a", "m"):
        order.settle(order.apply(table.apply([name], [(name, "queued", 0, None, False)])))
    assert order.ids() == ["z", "a", "m"]


# -- selection ----------------------------------------------------------------------------------------


def test_gestures() -> None:
    _, order, screen = small()
    selection: Selection[int] = Selection()
    selection.click(3)
    selection.extend(6, order)
    assert selection.ids == {3, 4, 5, 6}
    selection.extend(1, order)
    assert selection.ids == {1, 2, 3}, "a range is drawn from where it began"
    selection.toggle(9)
    selection.extend(8, order, add=True)
    assert selection.ids == {1, 2, 3, 8, 9}
    screen.take(order.set_filter(lambda slots: slots < 3))
    assert (selection.shown(order), selection.hidden(order)) == ([1, 2], 3)
    selection.invert(order)
    assert selection.ids == {0, 3, 8, 9}
    assert selection.select_where(order, lambda slots: slots > 0, add=True) == 2
    selection.select_all(order)
    assert selection.ids == {0, 1, 2}
    version = selection.version
    selection.move_current(5)
    selection.clear()
    assert not selection.ids
    assert selection.current == 5
    assert selection.version == version + 2


def test_what_is_gone_but_still_shown_is_never_selected() -> None:
    table, order, screen = small(5)
    selection: Selection[int] = Selection()
    selection.click(1)
    order.freeze()
    selection.apply(made := table.apply([], [], [3]), order)
    screen.take(order.apply(made))
    selection.extend(4, order)
    assert selection.ids == {1, 2, 4}
    selection.select_all(order)
    assert selection.ids == {0, 1, 2, 4}
    selection.invert(order)
    assert selection.ids == set()
    assert selection.select_where(order, lambda slots: slots >= 0) == 4
    screen.take(order.thaw())
    assert (selection.ids, selection.hidden(order)) == ({0, 1, 2, 4}, 0)


def test_a_range_whose_beginning_is_hidden_begins_here() -> None:
    _, order, screen = small()
    selection: Selection[int] = Selection()
    selection.click(8)
    screen.take(order.set_filter(lambda slots: slots < 5))
    selection.extend(2, order)
    assert selection.ids == {2}
    selection.extend(8, order)
    assert selection.ids == {2}, "nobody can click on what is not shown"


def test_at_the_very_top_new_rows_come_into_sight() -> None:
    table, order, screen = small()
    anchor: ScrollAnchor[int] = ScrollAnchor()
    anchor.hold(order, 0)
    screen.take(order.apply(put(table, 77, -1)))
    assert anchor.row(order) == 0
    anchor.hold(order, 5, 4)
    top = anchor.row_id
    screen.take(order.apply(put(table, 78, -2)))
    assert screen.rows[anchor.row(order)] == top
    assert anchor.offset == 4
    assert top is not None
    screen.take(order.apply(table.apply([], [], [top])))
    assert screen.rows[anchor.row(order)] == top + 1, "the next one takes its place"


# -- natural order ------------------------------------------------------------------------------------


def test_numbers_in_names_count() -> None:
    names = ["sh10_v2", "sh9_v10", "sh9_v9", "SH9_v9", "sh", "sh010", "10", "9", "a1b", "a1"]
    assert sorted(names, key=natural_key) == [
        "9", "10", "a1", "a1b", "sh", "SH9_v9", "sh9_v9", "sh9_v10", "sh010", "sh10_v2",
    ]  # fmt: skip
    assert natural_key("x" + "9" * 5000) > natural_key("x" + "8" * 5000)


@given(st.lists(st.lists(NAMES, max_size=8), max_size=20))
def test_numbers_for_texts_keep_their_order(batches: list[list[str]]) -> None:
    ranks = Ranks()
    seen: set[str] = set()
    for batch in batches:
        held, renumbered = (
            dict(zip(sorted(seen), ranks.of(sorted(seen)).tolist(), strict=True)),
            ranks.renumbered,
        )
        found = ranks.of(batch).tolist()
        assert len(found) == len(batch)
        seen |= set(batch)
        numbers = dict(zip(sorted(seen), ranks.of(sorted(seen)).tolist(), strict=True))
        assert sorted(seen, key=natural_key) == sorted(seen, key=numbers.__getitem__)
        assert len(set(numbers.values())) == len(seen)
        if ranks.renumbered == renumbered:
            assert all(numbers[text] == held[text] for text in held)


def test_names_that_crowd_one_place_are_given_numbers_anew() -> None:
    ranks = Ranks()
    ranks.of(["a", "b"])
    names = ["a" + "a" * length for length in range(80, 0, -1)]
    for name in names:
        ranks.of([name])
    assert ranks.renumbered > 0
    every = ["a", *sorted(names, key=natural_key), "b"]
    assert ranks.of(every).tolist() == sorted(ranks.of(every).tolist())
    ranks.keep_only(["a", "b"])
    assert len(ranks) == 2


# -- size ---------------------------------------------------------------------------------------------


def test_fifty_thousand_rows_stay_sorted_through_twenty_thousand_updates() -> None:
    draw = random.Random(7)
    table: Table[int] = Table(COLUMNS)
    count = 50_000

    def fresh(one: int) -> Row:
        return f"sh{one % 700}_v{one}", draw.choice(WORDS), draw.randrange(1000), draw.random(), False

    table.apply(range(count), [fresh(one) for one in range(count)])
    order = Order(table, [SortKey("state"), SortKey("share", descending=True), SortKey("name")])

    def fits(slots: Slots) -> Any:
        return table.numbers("count")[slots] < 900

    order.settle(order.set_filter(fits, table.bits["count"]))
    selection: Selection[int] = Selection()
    picked = set(draw.sample(range(count), 500))
    selection.select(picked)
    for _ in range(40):
        ids = draw.sample(range(count), 500)
        change = table.apply(ids, [fresh(one) for one in ids])
        update = order.apply(change)
        selection.apply(change, order)
        order.settle(update)
    slots = table.slots()
    slots = slots[fits(slots)]
    texts = table.values("name")
    state, share = table.numbers("state"), table.numbers("share")
    wanted = sorted(slots.tolist(), key=lambda slot: (state[slot], -share[slot], natural_key(texts[slot])))
    assert order.view.tolist() == wanted
    assert selection.ids == picked

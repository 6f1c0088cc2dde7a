"""Groups against a plain list: rows and headers in order, what groups come to, no selection lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client_gui.store import moves
from client_gui.store.groups import GroupKey
from client_gui.store.moves import StepKind, header_of
from client_gui.store.order import SortKey
from tests.support.groups_bench import GO_ON, MANY, OPERATIONS, SORTS, STILL, Bench, values


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

"""Looking for a part of a text in all rows at once finds what looking at each row finds, whatever changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store import folded
from client_gui.store.folded import FEW, Folded
from client_gui.store.table import Column, Kind, Table

COLUMNS = (Column("name", Kind.TEXT), Column("user", Kind.TEXT, few=True))
LETTERS = st.text("aAbßÄéıσς漢\n\x00 _1", max_size=6)
PARTS = st.text("aAbßÄéıσς漢 _1", min_size=1, max_size=3).map(str.casefold)


def table_of(names: dict[int, str]) -> Table[int]:
    table: Table[int] = Table(COLUMNS)
    table.apply(list(names), [(name, "kim") for name in names.values()])
    return table


def found(kept: Folded, table: Table[int], part: str) -> set[Any]:
    slots = table.slots()
    return {table.ids[slot] for slot in slots[kept.having(part, slots)].tolist()}


@given(
    st.dictionaries(st.integers(0, 60), LETTERS, min_size=1, max_size=40),
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 60), LETTERS, max_size=6), st.sets(st.integers(0, 60)), PARTS
        ),
        max_size=6,
    ),
)
@settings(max_examples=150, deadline=None)
def test_what_is_found_is_what_looking_at_each_row_finds(
    names: dict[int, str], turns: list[tuple[dict[int, str], set[int], str]]
) -> None:
    table, few = table_of(names), folded.FEW
    kept = Folded(table, "name")
    folded.FEW = 0
    try:
        for changed, gone, part in turns:
            assert found(kept, table, part) == {
                number for number, text in names.items() if part in text.casefold()
            }
            table.apply(list(changed), [(name, "bo") for name in changed.values()], gone)
            names = {n: text for n, text in names.items() if n not in gone or n in changed} | changed
            assert found(kept, table, part) == {
                number for number, text in names.items() if part in text.casefold()
            }
    finally:
        folded.FEW = few


def test_a_slot_that_another_row_took_has_that_ones_text() -> None:
    table = table_of({number: f"fx_{number:05d}" for number in range(FEW + 100)})
    kept = Folded(table, "name")
    assert found(kept, table, "fx_00007") == {7}
    table.apply((), (), [7])
    table.apply([9001], [("lgt_new", "kim")])
    assert found(kept, table, "fx_00007") == set()
    assert found(kept, table, "lgt") == {9001}


def test_when_many_texts_changed_all_are_taken_anew_and_none_is_lost() -> None:
    table = table_of({number: f"fx_{number:05d}" for number in range(3 * FEW)})
    kept = Folded(table, "name")
    assert found(kept, table, "fx_") == set(range(3 * FEW))
    table.apply(list(range(2 * FEW)), [("cmp", "bo")] * (2 * FEW))
    assert found(kept, table, "cmp") == set(range(2 * FEW))
    assert found(kept, table, "fx_") == set(range(2 * FEW, 3 * FEW))
    assert found(kept, table, "x" * 4000) == set(), "longer than any text"


def test_nothing_is_found_in_no_rows() -> None:
    table: Table[int] = Table(COLUMNS)
    kept = Folded(table, "name")
    assert kept.having("a", np.zeros(0, np.int32)).tolist() == []

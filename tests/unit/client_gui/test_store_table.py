"""Tables of the client: rows keep their slots, batches say exactly what they changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store.codes import Words
from client_gui.store.table import MISSING, Column, Kind, Table

COLUMNS = (
    Column("name", Kind.TEXT),
    Column("state", Kind.STATE, words=("queued", "running")),
    Column("count", Kind.INT, "figures"),
    Column("share", Kind.FLOAT, "figures"),
    Column("late", Kind.FLAG),
    Column("steps", Kind.OBJECT),
    Column("user", Kind.TEXT, few=True),
)
Row = tuple[Any, ...]


def row(name: str = "a", **fields: Any) -> Row:
    values: dict[str, Any] = {
        "name": name, "state": "queued", "count": 1, "share": 0.5, "late": False, "steps": (), "user": "kim",
    }  # fmt: skip
    return tuple((values | fields).values())


ROWS = st.tuples(
    st.sampled_from(["a", "b", "fx_10", "fx_9"]),
    st.sampled_from(["queued", "running", "dreaming", "new-1"]),
    st.none() | st.integers(-(2**62), 2**62) | st.just(2**70),
    st.none() | st.floats(allow_nan=True, allow_infinity=False),
    st.booleans(),
    st.tuples(st.integers(0, 2)),
    st.sampled_from(["kim", "bo"]),
)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 30), ROWS), max_size=12),
        st.lists(st.integers(0, 30), max_size=6),
        st.booleans(),
    ),
    max_size=12,
)


def shown(value: Row) -> Row:
    """A row as it can be read back."""
    count, share = value[2], value[3]
    if count is not None:
        count = min(count, 2**63 - 1)
    return (*value[:2], count, None if share is None or share != share else share, *value[4:])


@given(BATCHES)
@settings(max_examples=100)
def test_a_table_is_what_a_dictionary_would_be(batches: list[Any]) -> None:
    table: Table[int] = Table(COLUMNS)
    oracle: dict[int, Row] = {}
    for upserts, gone, whole in batches:
        before = dict(oracle)
        slots_before = {row_id: table.slot(row_id) for row_id in oracle}
        ids, rows = [one for one, _ in upserts], [one for _, one in upserts]
        if whole:
            change = table.replace(ids, rows)
            gone = [row_id for row_id in oracle if row_id not in ids]
        else:
            change = table.apply(ids, rows, gone)
        oracle.update((row_id, shown(value)) for row_id, value in upserts)
        out = {row_id for row_id in gone if row_id in before and row_id not in ids}
        for row_id in out:
            del oracle[row_id]

        assert {row_id: tuple(table.row(row_id).values()) for row_id in table.all_ids()} == oracle
        assert len(table) == len(oracle)
        # Rows that stay keep their slots; no slot has two rows.
        assert all(table.slot(row_id) == slot for row_id, slot in slots_before.items() if row_id not in out)
        assert len({table.slot(row_id) for row_id in oracle}) == len(oracle)
        # The change says what happened, no more and no less.
        assert {table.ids[slot] for slot in change.inserted.tolist()} == set(oracle) - set(before)
        assert set(change.removed_ids) == out
        assert [slots_before[row_id] for row_id in change.removed_ids] == change.removed.tolist()
        differing = {row_id for row_id in oracle if row_id in before and oracle[row_id] != before[row_id]}
        assert {table.ids[slot] for slot in change.changed.tolist()} == differing
        for slot, mask in zip(change.changed.tolist(), change.masks.tolist(), strict=True):
            row_id = table.ids[slot]
            assert row_id is not None
            pairs = zip(COLUMNS, before[row_id], oracle[row_id], strict=True)
            assert mask == table.bits_of(column.name for column, old, new in pairs if old != new)


def test_slots_are_used_again_but_not_by_the_batch_that_left_them() -> None:
    table: Table[str] = Table(COLUMNS)
    table.apply(["a", "b"], [row("a"), row("b")])
    slot = table.slot("a")
    change = table.apply(["c"], [row("c")], ["a"])
    assert table.slot("c") != slot
    assert table.get(int(change.removed[0]), "name") == "a", "what went can be read until the next batch"
    table.apply(["d"], [row("d")])
    assert table.slot("d") == slot
    for turn in range(1000):
        table.apply([f"x{turn}"], [row()], [f"x{turn - 1}"])
    assert table.capacity <= 64


def test_what_is_held_can_be_read_until_it_is_released() -> None:
    table: Table[int] = Table(COLUMNS)
    table.apply([1], [row("kept")])
    slot = table.slot(1)
    table.hold()
    for number in range(2, 200):
        table.apply([number], [row(f"n{number}")], [number - 1])
    assert table.get(slot, "name") == "kept"
    table.release()
    table.apply([1000], [row("later")])
    table.apply([1001], [row("later")])
    assert table.capacity < 400


def test_groups_tell_which_columns_changed() -> None:
    table: Table[int] = Table(COLUMNS)
    table.apply([1, 2], [row(), row()])
    change = table.apply([1, 2], [row(count=2), row(state="dreaming")])
    assert change.touching(table.bits["figures"]).tolist() == [table.slot(1)]
    assert change.touching(table.bits["state"]).tolist() == [table.slot(2)]
    assert table.get(table.slot(2), "state") == "dreaming"
    assert not table.apply([1], [row(count=2)])
    assert change
    assert table.numbers("count")[table.slot(1)] == 2
    table.apply([1], [row(count=None)])
    assert table.numbers("count")[table.slot(1)] == MISSING


def test_more_words_than_a_byte_has_are_no_crash() -> None:
    words = Words(["queued"])
    codes = [words.code(f"w{number}") for number in range(300)]
    assert len(set(codes)) == 255
    assert words.word(codes[-1]) == "?"
    assert words.word(codes[0]) == "w0"
    assert words.code("queued") == 0


def test_nonsense_schemas_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Table([Column("a", Kind.INT), Column("a", Kind.TEXT)])
    with pytest.raises(ValueError, match="32"):
        Table([Column(f"c{number}", Kind.INT) for number in range(33)])


def test_fifty_thousand_rows_and_twenty_thousand_changes() -> None:
    table: Table[int] = Table(COLUMNS)
    count = 50_000
    change = table.apply(range(count), [row(f"job_{number}", count=number) for number in range(count)])
    assert len(change.inserted) == count
    changed = range(0, count, 2)
    for start in range(0, 20_000, 500):
        batch = changed[start : start + 500]
        change = table.apply(batch, [row(f"job_{number}", count=number, share=0.9) for number in batch])
        assert len(change.changed) == 500
    assert int((table.numbers("share")[table.slots()] == 0.9).sum()) == 20_000
    assert np.array_equal(np.sort(table.numbers("count")[table.slots()]), np.arange(count))


@given(BATCHES)
@settings(max_examples=60, deadline=None)
def test_few_texts_stand_as_numbers_beside_the_texts(
    batches: list[tuple[list[tuple[int, Row]], list[int], bool]],
) -> None:
    table: Table[int] = Table(COLUMNS)
    for puts, gone, _ in batches:
        table.apply([number for number, _ in puts], [values for _, values in puts], gone)
        coded = table.coded("user")
        slots = table.slots()
        assert [coded.texts[code] for code in coded.codes[slots].tolist()] == [
            table.values("user")[slot] for slot in slots.tolist()
        ]


def test_texts_that_no_row_has_any_more_are_forgotten() -> None:
    table: Table[int] = Table(COLUMNS)
    for number in range(1500):
        table.apply([1, 2], [row(user=f"user {number}"), row(user="kim")])
    coded = table.coded("user")
    assert len(coded.texts) <= 4
    assert [coded.texts[coded.codes[table.slot(number)]] for number in (1, 2)] == ["user 1499", "kim"]
    table.apply([3], [row(user="new")])
    assert coded.texts[table.coded("user").codes[table.slot(3)]] == "new"


def test_slots_are_those_of_the_rows_there_are() -> None:
    table: Table[int] = Table(COLUMNS)
    assert table.slots().tolist() == []
    table.apply([1, 2], [row(), row()])
    before = table.slots()
    assert sorted(before.tolist()) == sorted(table.slot(number) for number in (1, 2))
    table.apply([1], [row(count=2)])
    assert table.slots() is before, "no row came or went"
    table.apply([3], [row()], [1])
    assert sorted(table.slots().tolist()) == sorted(table.slot(number) for number in (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        table.slots()[0] = 5

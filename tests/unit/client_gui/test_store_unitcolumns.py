"""Figures of frames: what is taken, what changed, and what is not believed."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.store.unitcolumns import UnitColumns, unpacked
from farm.broker.unitledger import UnitLedger, indices
from farm.model.errors import PeerError
from farm.protocol.bulk import COLUMN_UNITS, ColumnsMsg
from tests.unit.storage.samples import Writer


def answer(ledger: UnitLedger, units: list[int] | None = None, first: int = 0) -> ColumnsMsg:
    """What a broker says of a ledger: of some units, or of all in a row."""
    if units is None:
        count = min(COLUMN_UNITS, len(ledger) - first)
        data = ledger.page(first, count)
        return ColumnsMsg(1, ledger.seq, len(ledger), 0, first, count, b"", zlib.compress(data))
    data = zlib.compress(ledger.pick(units))
    return ColumnsMsg(1, ledger.seq, len(ledger), 1, 0, len(units), indices(units), data)


def worked(units: int = 6) -> tuple[Writer, UnitLedger]:
    """A ledger of whose units the first was rendered."""
    w, ledger = Writer(), UnitLedger(1, units)
    lease = w.lease(node=3)
    ledger.take([lease, w.result(lease.id)])
    return w, ledger


def test_what_the_broker_counts_is_what_the_client_shows() -> None:
    w, ledger = worked()
    columns = UnitColumns()
    assert columns.take(answer(ledger)).tolist() == [0]
    assert len(columns) == 6
    assert columns.elapsed_s[0] == pytest.approx(ledger.elapsed_s[0])
    assert np.isnan(columns.elapsed_s[1:]).all()
    assert (columns.ram_mib[0], columns.ram_mib[1]) == (ledger.ram_mib[0], -1)
    assert columns.attempts.tolist() == [1, 0, 0, 0, 0, 0]
    assert columns.node.tolist() == [3, 0, 0, 0, 0, 0]
    assert columns.cost_nano.tolist() == list(ledger.cost_nano)
    kinds = [
        getattr(columns, name).dtype for name in ("elapsed_s", "ram_mib", "attempts", "node", "cost_nano")
    ]
    assert kinds == [np.float32, np.int32, np.uint16, np.int32, np.int64]
    ledger.take([w.lease(units="4-5", node=9)])
    assert columns.take(answer(ledger, [2, 4, 5])).tolist() == [4, 5]
    assert columns.node.tolist() == [3, 0, 0, 0, 9, 9]
    assert columns.take(answer(ledger)).tolist() == []


def test_frames_that_were_added_are_unknown_until_told() -> None:
    _, ledger = worked(2)
    columns = UnitColumns(1)
    assert columns.grow(4)
    assert not columns.grow(4)
    assert columns.take(answer(ledger)).tolist() == [0]
    assert len(columns) == 4
    assert math.isnan(columns.elapsed_s[3])
    assert columns.ram_mib.tolist()[1:] == [-1, -1, -1]


@given(st.lists(st.integers(0, 40), unique=True, min_size=1).map(sorted))
def test_any_units_are_taken_where_they_belong(units: list[int]) -> None:
    ledger = UnitLedger(1, 41)
    w = Writer()
    for unit in units:
        ledger.take([w.lease(units=str(unit), node=unit + 1)])
    columns = UnitColumns()
    assert columns.take(answer(ledger, units)).tolist() == units
    assert np.flatnonzero(columns.node).tolist() == units
    assert columns.node[units].tolist() == [unit + 1 for unit in units]


GOOD = answer(worked()[1])


@pytest.mark.parametrize(
    "change",
    [
        {"data": b""},
        {"data": b"nothing"},
        {"data": GOOD.data[:-6]},
        {"data": zlib.compress(b"\0" * 1000)},
        {"data": zlib.compress(b"\0" * 10_000_000)},
        {"count": 5},
        {"count": -1},
        {"first": -1},
        {"total": 10**12},
        {"first": 10**12},
        {"units": b"\1\0\0\0"},
        {"units": np.array([0, 1, 2, 3, 3, 4], "<u4").tobytes()},
        {"units": np.array([0, 1, 2, 4, 3, 5], "<u4").tobytes()},
        {"units": np.array([0, 1, 2, 3, 4, 2**32 - 1], "<u4").tobytes()},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused_whole(change: dict[str, object]) -> None:
    columns = UnitColumns(6)
    fields = {name: getattr(GOOD, name) for name in ColumnsMsg.__struct_fields__}
    with pytest.raises(PeerError):
        columns.take(ColumnsMsg(**(fields | change)))
    assert len(columns) == 6
    assert not columns.attempts.any()
    assert columns.take(GOOD).tolist() == [0]


def test_nothing_new_is_nothing() -> None:
    columns = UnitColumns(3)
    assert columns.take(ColumnsMsg(1, 9, 3, 5, 0, 0)).tolist() == []


def test_figures_unpacked_by_another_thread_are_the_same_ones() -> None:
    plain, apart = UnitColumns(), UnitColumns()
    assert plain.take(GOOD).tolist() == apart.take(unpacked(GOOD)).tolist()
    for name in ("elapsed_s", "ram_mib", "attempts", "node", "cost_nano"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(apart, name))


def test_figures_that_do_not_unpack_are_refused_by_whoever_takes_them() -> None:
    fields = {name: getattr(GOOD, name) for name in ColumnsMsg.__struct_fields__}
    for wrong in ({"data": b"no zlib"}, {"count": -1}, {"count": GOOD.count + 1}):
        with pytest.raises(PeerError):
            UnitColumns().take(unpacked(ColumnsMsg(**(fields | wrong))))

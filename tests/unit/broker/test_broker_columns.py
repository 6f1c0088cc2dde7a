"""Columns of figures say what rows of frames say, whatever happened and wherever its history lies."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.broker.columns import WAITING_MOST, Columns, ColumnsThread
from farm.broker.unitledger import CHANGES_MOST, UnitLedger, split_charge
from farm.broker.views import Views
from farm.core.rows import LeaseRow, ResultRow
from farm.model.errors import CallError, OvercrankError, StorageError, UnknownName
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.protocol.bulk import COLUMN_UNITS, PIECE, BulkErrorMsg, ColumnsGetMsg, ColumnsMsg
from farm.storage.opening import open_follower
from farm.storage.sqlite import SqliteStore
from tests.support.core_rig import Rig, step
from tests.unit.storage.samples import Writer


class Reader:
    """Somebody who asks for columns and keeps them, by plain means."""

    def __init__(self, columns: Columns, job: int = 1, name: str = "beauty") -> None:
        self.columns, self.job, self.name = columns, job, name
        self.seq = 0
        self.figures: dict[int, tuple[float, int, int, int, int]] = {}
        #: Answers taken by the last ``ask``.
        self.told: list[ColumnsMsg] = []

    def ask(self) -> None:
        answer = self.columns.answer(ColumnsGetMsg(1, self.job, self.name, self.seq))
        self.told = [answer]
        self.take(answer)
        if not answer.since:
            for first in range(answer.count, answer.total, COLUMN_UNITS):
                page = self.columns.answer(ColumnsGetMsg(2, self.job, self.name, 0, first))
                self.told.append(page)
                self.take(page)
        self.seq = answer.seq

    def take(self, answer: ColumnsMsg) -> None:
        assert len(answer.data) + len(answer.units) <= PIECE
        data, at = zlib.decompress(answer.data), 0
        columns: list[Any] = []
        for code in "fiHiq":
            column = array(code)
            size = answer.count * column.itemsize
            column.frombytes(data[at : at + size])
            columns.append(column)
            at += size
        assert at == len(data)
        units: Any = range(answer.first, answer.first + answer.count)
        if answer.units:
            units = array("I", answer.units)
        assert len(units) == answer.count
        self.figures.update(zip(units, zip(*columns, strict=True), strict=True))


def expected(rig: Rig, name: str = "beauty") -> dict[int, tuple[float, int, int, str, int]]:
    """The figures by the rows that ``farm frames`` shows, without what attempts at work cost so far."""
    views = Views(rig.core.farm, rig.store)
    views._charge = lambda attempt, now_us: 0  # type: ignore[method-assign]
    one = rig.step(f"J1/{name}")
    return {
        row.unit: (
            row.elapsed_s if row.elapsed_s is not None else math.nan,
            row.attempts,
            row.node,
            row.cost_nano,
        )
        for row in views.frame_rows(one, range(one.units), rig.now_us)
    }


def shown(rig: Rig, reader: Reader) -> dict[int, tuple[float, int, str, int]]:
    names = {node.id: node.name for node in rig.core.farm.nodes.values()} | {0: ""}
    return {
        unit: (elapsed_s, attempts, names[node], cost)
        for unit, (elapsed_s, _, attempts, node, cost) in sorted(reader.figures.items())
    }


def same(rig: Rig, reader: Reader) -> None:
    told, wanted = shown(rig, reader), expected(rig)
    assert told.keys() == wanted.keys()
    for unit, (elapsed_s, *rest) in told.items():
        want_s, *others = wanted[unit]
        assert rest == list(others), unit
        assert elapsed_s == pytest.approx(want_s, rel=1e-6, nan_ok=True), unit


def tell(rig: Rig, chance: random.Random, turns: int, reader: Reader) -> None:
    """A farm where all goes wrong that can; ``reader`` asks now and then."""
    held: list[Any] = []
    nodes = [rig.join(name, 2) for name in ("ant", "bee", "cat")]
    for _ in range(turns):
        held = [one for one in held if one.attempt in rig.core.farm.attempts]
        match chance.randrange(10):
            case 0 | 1:
                held += rig.dispatch()
            case 2 | 3 | 4 if held:
                lease = held.pop(chance.randrange(len(held)))
                todo = [unit for unit in lease.units if chance.random() < 0.7] or list(lease.units)
                units = []
                for unit in todo:
                    outcome = chance.choice((DONE, DONE, FAILED, RELEASED))
                    word = "renderer" if outcome == FAILED else ""
                    took_us = chance.choice((0, 700_000, 3_000_000))
                    ram_mib = chance.choice((0, 900, 4000))
                    units.append(UnitReport(unit, outcome, word, "so", took_us, (), "", ram_mib))
                rig.report(lease, *units, closed=chance.random() < 0.7)
            case 5:
                rig.wait(chance.randrange(1, 40), *[node for node in nodes if chance.random() < 0.8])
            case 6:
                # Refused where nothing is in a state for it.
                with contextlib.suppress(CallError):
                    rig.act(chance.choice(("retry", "cancel", "mark-done")), "J1/beauty/2-9")
            case 7:
                rig.checkpoint()
            case 8:
                rig.store.compact(chance.choice((5, 1000)))
            case _:
                reader.ask()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_say_what_rows_of_frames_say(seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig()
    rig.submit(step("beauty", "1-24", chunk=5, attempts=3))
    early = Reader(Columns(rig.store))
    early.ask()
    tell(rig, chance, 60, early)
    early.ask()
    same(rig, early)
    # Who comes late reads the same out of segments and journal.
    late = Reader(Columns(rig.store))
    late.ask()
    same(rig, late)
    for unit, figures in late.figures.items():
        assert figures[1:] == early.figures[unit][1:]
    while rig.store.compact(1000):
        pass
    late.ask()
    again = Reader(Columns(rig.store))
    again.ask()
    same(rig, late)
    same(rig, again)


def test_peak_memory_is_the_last_that_was_told() -> None:
    rig = Rig()
    rig.join("ant", 1)
    rig.submit(step("beauty", "1-2", attempts=3))
    reader = Reader(Columns(rig.store))
    reader.ask()
    assert [figures[1] for figures in reader.figures.values()] == [-1, -1]
    for ram_mib in (700, 0):
        lease = rig.lease()
        rig.report(lease, UnitReport(lease.units[0], RELEASED, "", "", 5, (), "", ram_mib))
        reader.ask()
        assert reader.figures[0][1:3] == (700, 1 if ram_mib else 2)
    lease = rig.lease()
    rig.report(lease, UnitReport(lease.units[0], DONE, "", "", 5, (), "", 800))
    reader.ask()
    assert [figures[1] for figures in reader.figures.values()] == [800, -1]


def test_only_what_changed_is_told_again() -> None:
    rig = Rig()
    rig.join("ant", 1)
    rig.submit(step("beauty", "1-100"))
    reader = Reader(Columns(rig.store))
    reader.ask()
    rig.done(rig.lease(), elapsed_s=2.5)
    reader.ask()
    (answer,) = reader.told
    assert answer.since == 0  # of a step nothing had happened to, everything was asked again
    rig.done(rig.lease(), elapsed_s=3.5)
    reader.ask()
    (answer,) = reader.told
    assert (answer.since > 0, answer.count, array("I", answer.units).tolist()) == (True, 1, [1])
    assert reader.figures[1][0] == 3.5
    reader.ask()
    (answer,) = reader.told
    assert (answer.count, answer.units) == (0, b"")
    same(rig, reader)


def test_who_knows_of_rows_that_never_were_gets_everything() -> None:
    rig = Rig()
    rig.join("ant", 1)
    rig.submit(step("beauty", "1-10"))
    rig.done(rig.lease())
    answer = Columns(rig.store).answer(ColumnsGetMsg(1, 1, "beauty", 10_000))
    assert (answer.since, answer.first, answer.count) == (0, 0, 10)


def test_steps_are_followed_side_by_side() -> None:
    rig = Rig()
    rig.join("ant", 4)
    rig.submit(step("beauty", "1-6"), step("depth", "1-6"))
    columns = Columns(rig.store)
    readers = [Reader(columns, 1, name) for name in ("beauty", "depth")]
    for turn in range(4):
        readers[turn % 2].ask()
        for lease in rig.dispatch():
            rig.done(lease)
        if turn == 2:
            rig.checkpoint()
            rig.store.compact(1000)
    for reader in readers:
        reader.ask()
        assert [figures[2] for figures in reader.figures.values()] == [
            row[1] for row in expected(rig, reader.name).values()
        ]


def test_pages_of_a_long_step_fit_and_join() -> None:
    w = Writer()
    rig = Rig()
    units = 3 * COLUMN_UNITS + 5
    rig.store.commit([w.job(), w.step(units=units), w.node()])
    lease = w.lease(units=f"0-{units - 1}")
    rig.store.commit([lease, w.result(lease.id, unit=units - 1)])
    reader = Reader(Columns(rig.store))
    reader.ask()
    assert [(page.first, page.count) for page in reader.told] == [
        (0, COLUMN_UNITS),
        (COLUMN_UNITS, COLUMN_UNITS),
        (2 * COLUMN_UNITS, COLUMN_UNITS),
        (3 * COLUMN_UNITS, 5),
    ]
    assert len(reader.figures) == units
    assert {figures[2] for figures in reader.figures.values()} == {1}
    assert Columns(rig.store).answer(ColumnsGetMsg(1, 1, "beauty", 0, 10**9)).count == 0


def test_more_changes_than_a_page_are_told_as_everything() -> None:
    ledger = UnitLedger(1, 100)
    w = Writer()
    first = w.lease(units="0-9")
    ledger.take([first, w.lease(units="20-59")])
    assert ledger.changed_since(first.seq, 40) == list(range(20, 60))
    assert ledger.changed_since(first.seq, 39) is None
    assert ledger.changed_since(ledger.seq, 0) == []


def test_changes_long_ago_are_forgotten_and_the_figures_stay() -> None:
    ledger = UnitLedger(1, 1000)
    w = Writer()
    early = w.lease(units="0-999")
    ledger.take([early])
    rows = [w.lease(units="0-999") for _ in range(2 * CHANGES_MOST // 1000)]
    ledger.take(rows)
    assert ledger.changed_since(early.seq, 10**6) is None
    assert ledger.changed_since(rows[-2].seq, 10**6) == list(range(1000))
    assert set(ledger.attempts) == {1 + len(rows)}


def test_rows_that_are_known_are_not_counted_twice() -> None:
    ledger = UnitLedger(1, 4)
    w = Writer()
    rows = [w.lease(units="0-3")]
    ledger.take(rows)
    ledger.take(rows)
    assert ledger.attempts.tolist() == [1, 1, 1, 1]


def test_frames_that_were_added_later_have_a_place() -> None:
    ledger = UnitLedger(1, 2)
    w = Writer()
    ledger.take([w.lease(units="5")])
    assert ledger.attempts.tolist() == [0, 0, 0, 0, 0, 1]
    assert math.isnan(ledger.elapsed_s[4])


def test_numbers_too_large_for_their_column_are_the_largest() -> None:
    ledger = UnitLedger(1, 1)
    w = Writer()
    lease = w.lease()
    fields = {name: getattr(lease, name) for name in LeaseRow.__struct_fields__}
    ledger.take([LeaseRow(**(fields | {"node_id": 2**40}))])
    result = w.result(lease.id)
    fields = {name: getattr(result, name) for name in ResultRow.__struct_fields__}
    ledger.take([ResultRow(**(fields | {"ram_mib": 2**40}))])
    assert (ledger.node[0], ledger.ram_mib[0]) == (2**31 - 1, 2**31 - 1)


@given(st.integers(0, 10**12), st.dictionaries(st.integers(0, 9), st.integers(0, 10**9)))
def test_a_charge_is_split_to_the_last_nano(charge: int, elapsed: dict[int, int]) -> None:
    parts = split_charge(charge, tuple(range(10)), elapsed)
    assert sum(parts) == charge
    assert min(parts) >= 0


def test_an_unknown_step_is_named() -> None:
    rig = Rig()
    rig.submit(step())
    with pytest.raises(UnknownName, match="J1/nothing"):
        Columns(rig.store).answer(ColumnsGetMsg(1, 1, "nothing"))


# ---------------------------------------------------------------- the thread


class Answers:
    """Who waits for the thread's answers."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, Any]] = []
        self.there = threading.Semaphore(0)

    def __call__(self, routing_id: bytes, answer: object) -> None:
        self.got.append((routing_id, answer))
        self.there.release()

    def next(self) -> tuple[bytes, Any]:
        assert self.there.acquire(timeout=30)
        return self.got.pop(0)


def test_a_files_columns_are_read_beside_the_broker_that_writes_it(tmp_path: Path) -> None:
    path, w, answers = tmp_path / "farm.sqlite", Writer(), Answers()
    store = SqliteStore(path)
    store.commit([w.job(), w.step(), w.node()])
    thread = ColumnsThread(lambda: open_follower("", path), answers)
    thread.ask(b"ana", ColumnsGetMsg(7, 1, "beauty"))
    routing_id, answer = answers.next()
    assert (routing_id, answer.id, answer.total) == (b"ana", 7, 1000)
    seq = answer.seq
    for turn in range(3):
        lease = w.lease(units=str(turn))
        store.commit([lease, w.result(lease.id, unit=turn)])
        if turn == 1:
            store.commit([w.checkpoint()])
            store.compact(10_000)
        thread.ask(b"bob", ColumnsGetMsg(turn, 1, "beauty", seq))
        routing_id, answer = answers.next()
        if turn:
            assert (routing_id, answer.id, array("I", answer.units).tolist()) == (b"bob", turn, [turn])
        seq = answer.seq
    thread.ask(b"bob", ColumnsGetMsg(1, 2, "beauty"))
    assert answers.next() == (b"bob", BulkErrorMsg(1, "unknown", "there is no step J2/beauty"))
    thread.stop()
    assert not thread.is_alive()
    store.close()
    with SqliteStore(path) as again:  # nothing that the follower did keeps a broker from starting
        assert again.keys() == []


@pytest.mark.allow_log("columns-failed")
def test_an_error_is_told_and_the_next_question_opens_the_past_anew() -> None:
    rig, answers, opened = Rig(), Answers(), []
    rig.submit(step())

    def open_past() -> Any:
        opened.append(1)
        if len(opened) == 1:
            raise StorageError("the disk is gone")
        return rig.store

    thread = ColumnsThread(open_past, answers)
    thread.ask(b"ana", ColumnsGetMsg(1, 1, "beauty"))
    assert answers.next() == (b"ana", BulkErrorMsg(1, "storage", "the disk is gone"))
    thread.ask(b"ana", ColumnsGetMsg(2, 1, "beauty"))
    assert answers.next()[1].total == 4
    thread.stop()
    assert len(opened) == 2


def test_a_thread_that_nobody_asked_never_runs() -> None:
    thread = ColumnsThread(lambda: pytest.fail("opened"), Answers())
    thread.stop()
    assert thread.ident is None


@pytest.mark.allow_log("columns-failed")
def test_questions_without_end_are_refused() -> None:
    gate, opening, answers = threading.Event(), threading.Event(), Answers()

    def open_past() -> Any:
        opening.set()
        gate.wait(30)
        raise StorageError("late")

    thread = ColumnsThread(open_past, answers)
    for number in range(WAITING_MOST):
        thread.ask(b"ana", ColumnsGetMsg(number, 1, "beauty"))
    assert opening.wait(30)  # with the first question, which waits no more
    thread.ask(b"ana", ColumnsGetMsg(0, 1, "beauty"))
    with pytest.raises(OvercrankError, match="too many"):
        thread.ask(b"ana", ColumnsGetMsg(0, 1, "beauty"))
    gate.set()
    thread.stop()

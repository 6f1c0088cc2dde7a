"""The outbox: nothing once written is lost, whatever ends the agent; nothing is told to the wrong farm."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.model.errors import StorageError
from farm.model.reports import DONE, RELEASED, UnitReport
from node_agent.agent import recover
from node_agent.desk import Desk
from node_agent.outbox import Begun, Outbox, decode_report
from tests.support.tmpfs import small_disk


def begun(attempt: int, folders: tuple[str, ...] = (), units: tuple[int, ...] = (0, 1)) -> Begun:
    return Begun(attempt, 99, 12, "beauty", 1, units, folders)


def numbers(outbox: Outbox) -> list[int]:
    return [n for n, _, _ in outbox.pending()]


def test_a_report_is_there_again_after_a_restart(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    unit = UnitReport(3, DONE, elapsed_us=5)
    n, body = outbox.put(7, 99, (unit,), closed=True)
    outbox.close()
    again = Outbox(tmp_path / "outbox.db")
    assert again.pending() == [(n, 7, body)]
    report = decode_report(again.pending()[0][2])
    assert (report.n, report.attempt, report.nonce, report.units, report.closed) == (n, 7, 99, (unit,), True)
    again.close()


def test_numbers_never_come_twice(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        outbox = Outbox(tmp_path / "outbox.db")
        for _ in range(3):
            n, _body = outbox.put(1, 1)
            seen.append(n)
            outbox.ack([n])
        outbox.close()
    assert seen == sorted(set(seen))


def test_acknowledged_reports_are_forgotten_for_good(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    first, _ = outbox.put(1, 1)
    second, _ = outbox.put(2, 1)
    outbox.ack([first, 12345])
    assert numbers(outbox) == [second]
    assert outbox.pending_attempts() == (2,)
    outbox.tidy()
    outbox.close()
    again = Outbox(tmp_path / "outbox.db")
    assert numbers(again) == [second]
    again.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from farm.model.reports import DONE, UnitReport
from node_agent.outbox import Begun, Outbox
outbox = Outbox(Path(sys.argv[1]))
outbox.begin(Begun(1, 9, 12, "beauty", 1, (0, 1), ("/nowhere/x",)))
while True:
    n, _ = outbox.put(1, 9, (UnitReport(0, DONE),), durable=sys.argv[2] == "durable")
    print(n, flush=True)
    if n % 3 == 0:
        outbox.ack([n - 1])
"""


@pytest.mark.parametrize("how", ["durable", "quick"])
def test_it_survives_a_kill_in_the_middle(tmp_path: Path, how: str) -> None:
    path = tmp_path / "outbox.db"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), how], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for _ in range(50):
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    last = int(rest[-1]) if rest else last
    outbox = Outbox(path)
    kept = numbers(outbox)
    acked = {n - 1 for n in range(3, last + 2, 3)}
    assert set(range(1, last + 1)) - acked <= set(kept)
    assert [entry.attempt for entry in outbox.begun()] == [1]
    n, _ = outbox.put(1, 9)
    assert n > max(kept)
    outbox.close()


def on_disk(path: Path) -> list[int]:
    """Attempts that a start after a kill at this moment would find begun."""
    db = sqlite3.connect(path)
    try:
        return [attempt for (attempt,) in db.execute("SELECT attempt FROM begun ORDER BY attempt")]
    finally:
        db.close()


def test_an_attempt_with_folders_is_written_before_it_begins_any_other_soon(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = Outbox(path)
    outbox.begin(begun(1, ("/somewhere/x",)))
    assert on_disk(path) == [1]
    outbox.begin(begun(2))
    outbox.begin(begun(3))
    assert [entry.attempt for entry in outbox.begun()] == [1, 2, 3]
    outbox.put(3, 99, closed=True)
    assert on_disk(path) == [1, 2]
    outbox.begin(begun(4))
    outbox.tidy()
    assert on_disk(path) == [1, 2, 4]
    for attempt in (1, 2, 4):
        outbox.put(attempt, 99, closed=True)
    assert on_disk(path) == []
    outbox.begin(begun(5))
    outbox.harden()
    assert on_disk(path) == [5]
    outbox.close()


def test_another_farms_outbox_is_set_aside_and_numbers_go_on(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    outbox.join("farm/../1")
    old, _ = outbox.put(5, 1)
    outbox.begin(begun(6))
    aside = outbox.set_aside()
    assert aside is not None
    assert aside.parent == tmp_path
    assert (outbox.farm_id, outbox.pending(), outbox.begun()) == ("", [], [])
    outbox.join("farm-2")
    n, _ = outbox.put(5, 1)
    assert n > old
    outbox.close()
    again = Outbox(tmp_path / "outbox.db")
    assert (again.farm_id, numbers(again)) == ("farm-2", [n])
    again.close()
    with sqlite3.connect(aside) as db:
        assert db.execute("SELECT n FROM report").fetchall() == [(old,)]
    db.close()


def test_an_empty_outbox_leaves_nothing_behind(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    outbox.join("farm-1")
    assert outbox.set_aside() is None
    outbox.close()
    assert not list(tmp_path.glob("aside*"))


def test_a_closing_report_ends_the_entry_of_its_attempt(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    outbox.begin(begun(1))
    outbox.begin(begun(2))
    outbox.put(1, 99)
    outbox.put(1, 99, closed=True)
    outbox.put(2, 99, closed=True, kept=(0,))
    outbox.close()
    again = Outbox(tmp_path / "outbox.db")
    assert [(entry.attempt, entry.kept) for entry in again.begun()] == [(2, (0,))]
    again.discard(2)
    again.close()
    last = Outbox(tmp_path / "outbox.db")
    assert last.begun() == []
    last.close()


def test_a_restarted_agent_reports_what_it_had_begun_and_sweeps_only_that(tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine = out / ".overcrank-J12-beauty-1-0000000000000063"
    other = out / ".overcrank-J12-beauty-2-0000000000000064"
    for folder in (mine, other):
        folder.mkdir(parents=True)
        (folder / "f.0001.png").write_bytes(b"x")
    outbox = Outbox(tmp_path / "outbox.db")
    outbox.begin(begun(1, (str(mine),)))
    outbox.begin(begun(3, (str(out),)))
    outbox.put(1, 99, (UnitReport(0, DONE),))
    outbox.close()
    again = Outbox(tmp_path / "outbox.db")
    assert recover(Desk(again)) == 2
    assert not mine.exists()
    assert (other / "f.0001.png").exists()
    assert out.exists()
    reports = [decode_report(body) for _, attempt, body in again.pending() if attempt == 1]
    assert [report.closed for report in reports] == [False, True]
    assert reports[1].units == (UnitReport(1, RELEASED, "lost", "the agent was restarted"),)
    assert again.begun() == []
    again.close()


def test_a_file_that_is_no_outbox_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    path.write_bytes(b"this is not a database" * 200)
    with pytest.raises(StorageError, match=r"outbox\.db"):
        Outbox(path)


@pytest.mark.allow_log(r"event=outbox-trouble|^WARNING event=")
def test_a_full_disk_loses_nothing_and_is_mended_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        outbox = Outbox(disk.path / "outbox.db")
        disk.fill()
        sent = []
        for index in range(300):
            n, body = outbox.put(index, 1, (UnitReport(0, DONE, reason="y" * 500),))
            sent.append(n)
            assert body
        assert str(disk.path) in outbox.trouble
        assert outbox.begin(begun(500)) == outbox.trouble
        assert numbers(outbox) == sent
        disk.free()
        outbox.tidy()
        assert outbox.trouble == ""
        outbox.close()
        again = Outbox(disk.path / "outbox.db")
        assert numbers(again) == sent
        assert [entry.attempt for entry in again.begun()] == [500]
        again.close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 4), st.booleans()),
            st.tuples(st.just("ack"), st.integers(0, 5), st.just(False)),
            st.tuples(st.just("begin"), st.integers(1, 4), st.just(False)),
            st.tuples(st.sampled_from(["tidy", "harden", "reopen"]), st.just(0), st.just(False)),
        ),
        max_size=25,
    )
)
def test_memory_and_disk_never_disagree(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool]]
) -> None:
    path = tmp_path_factory.mktemp("outbox") / "outbox.db"
    outbox = Outbox(path)
    reports: dict[int, int] = {}
    started: set[int] = set()
    for what, number, flag in steps:
        if what == "put":
            n, _ = outbox.put(number, 1, closed=flag, durable=flag)
            assert n not in reports
            reports[n] = number
            if flag:
                started.discard(number)
        elif what == "ack" and reports:
            n = sorted(reports)[number % len(reports)]
            outbox.ack([n])
            del reports[n]
        elif what == "begin":
            outbox.begin(begun(number))
            started.add(number)
        elif what == "reopen":
            outbox.close()
            outbox = Outbox(path)
        elif what in ("tidy", "harden"):
            getattr(outbox, what)()
        assert {n: attempt for n, attempt, _ in outbox.pending()} == reports
        assert {entry.attempt for entry in outbox.begun()} == started
    outbox.close()

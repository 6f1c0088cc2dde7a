"""The Log dock in use: searched, copied, selected, compared, saved, and gone through by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable
from farm.protocol.client import AttemptsReply, AttemptsReq
from tests.support.gui_log_bench import Bench, notices
from tests.support.gui_logs import attempt_row, render_log
from tests.support.gui_rig import job_row


def test_finding_counts_goes_round_and_finds_what_comes_later(bench: Bench) -> None:
    text = b"one needle\nhay\nNEEDLE and needle\n" + b"hay\n" * 2000 + b"needle\n"
    bench.logs.put(1, text, ended=False)
    bench.attempts = [attempt_row(1, ended_us=0, outcome="running", reason="")]
    bench.look()
    bench.read()
    bench.key(Qt.Key.Key_Home)
    bench.key(Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    bar = bench.view.reader.find_bar
    assert bar.isVisible()
    QTest.keyClicks(bar.edit, "needle")
    bench.until(lambda: bar.count.text() == "1 of 4")
    for said in ("2 of 4", "3 of 4", "4 of 4", "1 of 4"):
        QTest.keyClick(bar.edit, Qt.Key.Key_Return)
        assert bar.count.text() == said
    QTest.keyClick(bar.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "4 of 4"
    bench.logs.put(1, text + b"needle again\n", ended=True)
    bench.document._ask_more()
    bench.until(lambda: bar.count.text() == "4 of 5")
    bar.case.click()
    bench.until(lambda: bar.count.text().endswith("of 4"))
    bar.regex.click()
    bar.edit.setText("^needle$")
    bench.until(lambda: bar.count.text() == "1 of 1")
    bar.edit.setText("(")
    bench.until(lambda: "no such expression" in bar.count.text())
    bar.edit.setText("absent")
    bench.until(lambda: bar.count.text() == "no hits")
    QTest.keyClick(bar.edit, Qt.Key.Key_Escape)
    assert not bar.isVisible()


def test_an_expression_that_runs_away_is_stopped_and_the_window_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_gui.views.log_parts.finder.PATIENCE_MS", 2_000)
    bench.logs.put(1, b"ok\n" + b"a" * 5000 + b"!\n")
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.read()
    bar = bench.view.reader.find_bar
    bench.view.act("find")
    bar.regex.setChecked(True)
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    timer = QTimer()
    timer.timeout.connect(beat)
    timer.start(5)
    bar.edit.setText("(a+)+$")
    bench.until(lambda: "takes too long" in bar.count.text())
    timer.stop()
    assert beats > 20, "the window had its turns all the while"


def test_attempts_by_key_and_what_was_read_is_there_without_a_connection(bench: Bench) -> None:
    bench.logs.put(1, b"first attempt\n")
    bench.logs.put(2, b"second attempt\n")
    bench.attempts = [attempt_row(2, outcome="done"), attempt_row(1)]
    bench.look()
    bench.read()
    assert bench.text(0) == "second attempt"
    bench.key(Qt.Key.Key_Comma)
    assert bench.rig.focus.attempt == 1
    bench.read()
    assert bench.text(0) == "first attempt"
    bench.rig.give(Standing(Link.LOST, "the broker is gone"))
    bench.logs.trouble = FarmUnreachable("the broker is gone")
    bench.key(Qt.Key.Key_Period)
    assert bench.text(0) == "second attempt"
    assert bench.view.reader.pane.dimmed
    bench.rig.focus.set_unit("beauty", 16, 1)
    assert bench.text(0) == "first attempt"


def test_copying_lines_address_and_command(bench: Bench) -> None:
    bench.logs.put(1, b"zero\n\x1b[31mone\x1b[0m red\ntwo\nthree\n")
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.read()
    for row in range(4):
        bench.text(row)
    clipboard = QGuiApplication.clipboard()
    bench.key(Qt.Key.Key_Home)
    bench.key(Qt.Key.Key_Down)
    bench.key(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard.text() == "one red"
    bench.key(Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    bench.key(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    bench.until(lambda: clipboard.text() == "one red\ntwo")
    bench.key(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    bench.key(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    bench.until(lambda: clipboard.text() == "zero\none red\ntwo\nthree")
    bench.key(Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert clipboard.text() == "farm --farm farm-A log J1/beauty@1"
    bench.view.act("copy-id")
    assert clipboard.text() == "J1/beauty@1"


def test_selecting_by_mouse(bench: Bench) -> None:
    bench.logs.put(1, b"alpha beta\nsecond\n")
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.read()
    assert bench.text(0) == "alpha beta"
    pane = bench.view.reader.pane
    area = pane.row_rect(0)
    left = int(pane.grid.gutter)
    cell = pane.grid.cell
    port = pane.viewport()
    button = Qt.MouseButton.LeftButton
    y = area.center().y()
    QTest.mousePress(port, button, Qt.KeyboardModifier.NoModifier, QPoint(left + round(cell * 6), y))
    QTest.mouseMove(port, QPoint(left + round(cell * 10), y))
    QTest.mouseRelease(port, button, Qt.KeyboardModifier.NoModifier, QPoint(left + round(cell * 10), y))
    bench.view.reader.copy()
    assert QGuiApplication.clipboard().text() == "beta"


def test_comparing_two_attempts(bench: Bench) -> None:
    same = b"".join(b"14:0%d:00 Sample %d\n" % (n % 6, n) for n in range(200))
    bench.logs.put(1, b"start\n" + same + b"ERROR no camera\nend\n")
    bench.logs.put(2, b"start\n" + same + b"camera found\nend\n")
    bench.attempts = [attempt_row(2, outcome="done"), attempt_row(1)]
    bench.look()
    bench.read()
    bench.view.compare_with(1)
    reader = bench.view.reader
    bench.until(lambda: reader.comparing is not None and reader.comparing.answer is not None)
    rows = reader.pane.rows
    assert rows is not None
    shown = [rows.line(row).text for row in range(rows.count) if rows.mark(row, rows.line(row)) is not None]  # type: ignore
    assert shown == ["ERROR no camera", "camera found"]
    assert "lines alike" in " ".join(rows.note(row) for row in range(rows.count))
    assert reader.amount.text() == "1 only in the first · 1 only in the second · 202 alike"
    assert reader.pane.accessibleDescription().endswith("only in the first, ERROR no camera")
    bench.key(Qt.Key.Key_Escape)
    assert reader.comparing is None
    assert bench.text(0) == "start"


def test_comparing_with_the_same_frame_of_another_version(bench: Bench) -> None:
    bench.logs.put(2, b"start\nERROR no camera\n")
    bench.logs.put(7, b"start\ncamera found\n")
    bench.attempts = [attempt_row(2)]
    others = {"J3/beauty/17": (attempt_row(7, outcome="done"), attempt_row(5, outcome="done"))}
    bench.rig.port.answers[AttemptsReq] = lambda r: AttemptsReply(
        id=r.id, attempts=others.get(r.address, tuple(bench.attempts) if r.address[:3] == "J1/" else ())
    )
    bench.look()
    rows = (
        job_row(1, name="sh_lgt_v003"),
        job_row(2, name="sh_lgt_v001"),
        job_row(3, name="sh_lgt_v002"),
        job_row(4, name="sh_cmp_v002"),
    )
    bench.rig.snapshot(rows, maps={"J1/beauty": bytes([4] * 100)})
    bench.read()
    view = bench.view
    view.deeds.menu.aboutToShow.emit()
    offers = next(one.menu() for one in view.deeds.menu.actions() if one.text() == "Compare with")
    assert offers is not None
    texts = [one.text() for one in offers.actions()]
    assert texts == ["J3  sh_lgt_v002", "J2  sh_lgt_v001"], "the version before comes first"
    offers.actions()[0].trigger()
    bench.until(lambda: view.reader.comparing is not None and view.reader.comparing.answer is not None)
    assert view.reader.place.text().startswith("J3/beauty")
    assert view.reader.amount.text() == "1 only in the first · 1 only in the second · 1 alike"
    bench.key(Qt.Key.Key_Escape)
    told: list[str] = []
    bench.rig.notices.came.connect(lambda notice: told.append(notice.text))
    view.compare_with_job(2)
    bench.until(lambda: bool(told))
    assert told == ["J2/beauty/17 was not attempted: there is no log to compare with"]
    assert view.reader.comparing is None


def test_saving_waits_for_all_of_it_and_leaves_nothing_half(bench: Bench, tmp_path: Path) -> None:
    text = b"".join(render_log(2_000_000))
    bench.logs.put(1, text)
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.until(lambda: bench.view.reader.document is not None)
    path = tmp_path / "the log.txt"
    bench.view.deeds.save_to(str(path))
    bench.until(path.exists)
    assert path.read_bytes() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["the log.txt"]
    bench.view.deeds.save_to(str(tmp_path / "missing" / "log.txt"))
    bench.until(lambda: any("could not save" in text for text in notices(bench)))

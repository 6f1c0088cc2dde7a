"""The Log dock: any size, opened where it matters, followed, and with the reason where there is no log."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from client_gui.net.port import Ask, Standing
from client_gui.store.farmstore import Link
from client_gui.views.log import LogView
from client_gui.views.log_parts import document
from client_gui.views.log_parts.document import READY_CHARS, LogDocument, LogId
from farm.model.errors import Denied, FarmUnreachable
from farm.model.states import UnitState
from farm.protocol.bulk import PIECE, LogGetMsg
from farm.protocol.client import AttemptRow, WhyCause, WhyReply, WhyReq, WhyRow
from tests.support.gui_log_bench import Bench, notices
from tests.support.gui_logs import Logs, attempt_row, render_log
from tests.support.gui_rig import Rig


def test_a_failed_attempt_opens_at_its_first_error_and_says_why(bench: Bench) -> None:
    bench.logs.put(2, b"".join(render_log(900_000, errors_at=(0.1, 0.9))))
    bench.attempts = [attempt_row(2), attempt_row(1, node="rack-020", outcome="lost")]
    bench.look()
    bench.read()
    bench.until(lambda: "bad_alloc" in bench.cursor)
    first = bench.view.reader.pane.cursor_row
    tabs = bench.view.tabs
    assert [tabs.tabText(n) for n in range(tabs.count())] == [
        "1 of 2 · failed · rack-020",
        "2 of 2 · failed · rack-114",
    ]
    assert tabs.currentIndex() == 1
    assert bench.view.cause.isVisible()
    bench.until(lambda: "give it 128 GB" in bench.view.cause._words.text())
    assert "ran out of memory (rack-114)" in bench.view.cause._words.text()
    bench.view.cause.retry.click()
    assert bench.done == ["retry J1/beauty/17"]
    # The next error, the one before, and no further one.
    bench.key(Qt.Key.Key_F8)
    second = bench.view.reader.pane.cursor_row
    assert second > first
    assert "bad_alloc" in bench.cursor
    bench.key(Qt.Key.Key_F8)
    assert bench.view.reader.pane.cursor_row == second
    assert notices(bench)[-1] == "no further error"
    bench.key(Qt.Key.Key_F8, Qt.KeyboardModifier.ShiftModifier)
    assert bench.view.reader.pane.cursor_row == first
    assert "line" in bench.view.reader.pane.accessibleDescription()
    assert "error" in bench.view.reader.pane.accessibleDescription()
    assert bench.view.reader.minimap.accessibleDescription() == "2 errors, 2 warnings"


def test_without_a_connection_the_cure_says_why_not_until_it_is_back(bench: Bench) -> None:
    bench.logs.put(2, b"Error: x\n")
    bench.attempts = [attempt_row(2)]
    client = bench.rig.client
    bench.rig.actions.why_not = (  # type: ignore[method-assign]
        lambda action, context: "" if client.live else "not connected"
    )
    bench.look()
    retry = bench.view.cause.retry
    bench.until(lambda: retry.isVisible() and retry.isEnabled())
    bench.rig.give(Standing(Link.LOST, "the broker is gone"))
    assert not retry.isEnabled()
    assert retry.toolTip() == "not connected"
    bench.rig.give(Standing(Link.LIVE))
    assert retry.isEnabled()


def test_what_would_help_is_a_button_and_no_command_to_type(bench: Bench) -> None:
    bench.logs.put(2, b"Error: x\n")
    bench.attempts = [attempt_row(2)]
    causes = (
        WhyCause("a frame failed", "farm log J1/beauty/17"),
        WhyCause("its job is paused", "farm resume J1"),
    )
    rows = (WhyRow(address="J1/beauty/17", state="failed", units=1, causes=causes),)
    bench.rig.port.answers[WhyReq] = lambda r: WhyReply(id=r.id, rows=rows)
    bench.look()
    cause = bench.view.cause

    def texts() -> list[str]:
        found = cause.findChildren(QAbstractButton)
        return sorted(one.text() for one in found if one.isVisible())

    bench.until(lambda: texts() == ["Resume J1", "Retry", "Why"])
    bench.read()
    assert "farm " not in cause.accessibleName()
    assert not any("farm log" in label.text() for label in cause.findChildren(QLabel))
    # Another frame: what helped the last one is gone.
    bench.rig.port.answers[WhyReq] = lambda r: WhyReply(id=r.id, rows=())
    bench.attempts = [attempt_row(5)]
    bench.look(18)
    bench.until(lambda: texts() == ["Retry", "Why"])
    bench.logs.put(5, b"Error: y\n")
    bench.read()


def test_an_empty_log_offers_nothing_to_load(rig: Rig, qtbot: QtBot) -> None:
    view = LogView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    rig.settle()
    assert not view.reader.load.isVisible()


def test_somebody_who_reads_is_not_moved_when_the_first_error_is_found(bench: Bench) -> None:
    bench.logs.put(1, b"".join(render_log(3_000_000, errors_at=(0.05,))))
    bench.attempts = [attempt_row(1)]
    bench.look()
    bench.until(lambda: bench.view.reader.document is not None and bench.document.map.rows > 10)
    assert bench.document.map.number(bench.document.map.rows - 1)[0] is None, "the end came first"
    bench.key(Qt.Key.Key_Up)
    before = bench.view.reader.pane.place.key
    bench.read()
    assert bench.view.reader.pane.place.key == before
    assert bench.document.map.number(bench.view.reader.pane.cursor_row)[0] is not None


def test_a_running_attempt_is_followed_until_somebody_scrolls_up_and_again_with_end(bench: Bench) -> None:
    text = b"".join(b"line %d\n" % n for n in range(500))
    bench.logs.put(1, text, ended=False)
    bench.attempts = [attempt_row(1, ended_us=0, outcome="running", reason="")]
    bench.look()
    bench.read()
    pane = bench.view.reader.pane
    assert pane.follow
    assert bench.view.follow.isChecked()
    assert not bench.view.cause.isVisible()

    def more() -> None:
        nonlocal text
        text += b"more %d\n" % len(text) * 20
        bench.logs.put(1, text, ended=False)
        bench.document._ask_more()
        bench.until(lambda: bench.document.map.size == len(text))
        bench.read()

    more()
    assert pane.top + pane.visible_rows() >= bench.document.map.rows
    pane.verticalScrollBar().setValue(100)
    assert not pane.follow
    assert not bench.view.follow.isChecked()
    more()
    assert pane.top == 100
    bench.key(Qt.Key.Key_End)
    assert bench.view.follow.isChecked()
    more()
    assert pane.top + pane.visible_rows() >= bench.document.map.rows
    bench.logs.put(1, text, ended=True)
    bench.document._ask_more()
    bench.until(lambda: bench.document.ended)


def test_a_log_of_20_mb_keeps_no_text_and_jumps_before_it_is_all_here(bench: Bench) -> None:
    text = b"".join(render_log(20_000_000, errors_at=()))
    bench.logs.put(1, text)
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.until(lambda: bench.view.reader.document is not None and bench.document.map.rows > 1)
    # The first screen needs one piece.
    assert bench.logs.asked[0] == (1, 0)
    bench.view.act("go-to-line")
    QTest.keyClicks(bench.view.reader.go_bar.edit, "end")
    QTest.keyClick(bench.view.reader.go_bar.edit, Qt.Key.Key_Return)
    bench.until(lambda: bench.document.map.runs[-1].end == len(text))
    last = text[text.rfind(b"\n", 0, -1) + 1 : -1].decode()

    def end() -> bool:
        row = bench.view.reader.pane.cursor_row
        line = bench.document.line(row)
        bench.document.want(row, row)
        return line is not None and line.text == last

    bench.until(end)
    bench.read()
    assert bench.document.map.lines == text.count(b"\n")
    document = bench.document
    assert document._chars <= READY_CHARS + 400 * 9000, "only rows that were looked at are kept"
    assert len(document._lines) < 2000
    asked = [offset for _, offset in bench.logs.asked]
    assert len(asked) < 1.5 * len(text) / PIECE, "each piece is fetched about once"
    bench.view.act("go-to-line")
    QTest.keyClicks(bench.view.reader.go_bar.edit, "100,000")
    QTest.keyClick(bench.view.reader.go_bar.edit, Qt.Key.Key_Return)
    lines = text.split(b"\n")
    assert bench.cursor == lines[99_999].decode()
    assert "line 100,000 of" in bench.view.reader.place.text()


def test_pieces_that_come_together_are_shown_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "TELL_MS", 600_000)  # not again before everything is here
    text = b"".join(render_log(20_000_000, errors_at=()))
    bench.logs.put(1, text)
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.until(lambda: bench.view.reader.document is not None and bench.document.map.rows > 1)
    told: list[int] = []
    bench.document.grew.connect(lambda: told.append(bench.document.map.rows))
    bench.until(lambda: bench.document.map.whole)
    assert bench.document.map.lines == text.count(b"\n")
    assert 0 < len(told) < 10 < len(text) // PIECE, "the window does not show its figures anew for each piece"
    bench.until(lambda: "of" in bench.view.reader.place.text())
    lines = text.count(b"\n")
    assert f"of {lines:,}" in bench.view.reader.place.text()


def test_a_new_attempt_is_shown_when_the_newest_was(bench: Bench) -> None:
    bench.logs.put(1, b"first\n")
    bench.attempts = [attempt_row(1)]
    bench.look()
    bench.read()
    bench.view.reader.pane.touched = False
    bench.logs.put(2, b"second\n", ended=False)
    bench.attempts = [attempt_row(2, ended_us=0, outcome="running"), attempt_row(1)]
    bench.rig.delta(units=(("J1/beauty", 16, UnitState.RUNNING),))
    bench.until(lambda: bench.view.tabs.count() == 2)
    assert bench.view.tabs.currentIndex() == 1
    bench.read()
    assert bench.text(0) == "second"


def test_a_line_of_10_mb_and_bytes_of_any_kind_can_be_read(bench: Bench) -> None:
    text = b"x" * 10_000_000 + b"\n" + bytes(range(256)) * 4 + b"\n10%\r20%\r100%\nlast\n"
    bench.logs.put(1, text)
    bench.attempts = [attempt_row(1, outcome="done", reason="")]
    bench.look()
    bench.read()
    for wrap in (False, True):
        bench.view.wrap.setChecked(wrap)
        for row in (0, bench.document.map.rows // 2, bench.document.map.rows - 1):
            bench.view.reader.pane.go_to(row)
            assert len(bench.text(row)) <= 8192
            bench.view.grab()
    assert bench.text(bench.document.map.rows - 1) == "last"
    assert bench.text(bench.document.map.rows - 2) == "100%"


@pytest.mark.parametrize(
    ("row", "log", "trouble", "said"),
    [
        (None, b"", None, "was not attempted yet"),
        (attempt_row(1, ended_us=0, outcome="running"), b"", None, "Nothing was printed yet"),
        (attempt_row(1), None, None, "has no log of attempt 1"),
        (attempt_row(1, outcome="done"), b"", None, "printed nothing"),
        (attempt_row(1), b"x", Denied("a log of somebody else"), "You may not read this log"),
        (attempt_row(1), b"x", FarmUnreachable("no answer"), "cannot be fetched"),
    ],
)
def test_what_is_said_instead_of_a_log(
    bench: Bench, row: AttemptRow | None, log: bytes | None, trouble: Exception | None, said: str
) -> None:
    assert bench.view.reader.message.text() == "Choose a frame to read what it printed."
    bench.attempts = [row] if row is not None else []
    if log is not None:
        bench.logs.put(1, log, ended=row is not None and row.ended_us > 0)
    bench.logs.trouble = trouble
    bench.look()
    bench.until(lambda: said in bench.view.reader.message.text())
    assert bench.view.reader.message.isVisible()
    if isinstance(trouble, FarmUnreachable):
        bench.logs.trouble = None
        bench.rig.give(Standing(Link.LOST), Standing(Link.LIVE))
        bench.until(lambda: not bench.view.reader.message.isVisible())


def test_a_hidden_dock_asks_for_nothing(bench: Bench) -> None:
    bench.view.hide()
    asked = len([m for m in bench.rig.port.posted if isinstance(m, Ask)])
    bench.look()
    bench.rig.delta(units=(("J1/beauty", 16, UnitState.QUEUED),))
    assert len([m for m in bench.rig.port.posted if isinstance(m, Ask)]) == asked
    assert bench.rig.followed() == ()


def test_a_document_ends_without_leaving_its_file(rig: Rig, qtbot: QtBot) -> None:
    logs = Logs()
    logs.put(1, b"text\n")
    rig.port.answers = {LogGetMsg: logs.page}
    document = LogDocument(rig.client, LogId(1, "beauty", 1))
    document.open(at_end=True)
    rig.settle()
    qtbot.waitUntil(lambda: document.asked and document.map.whole)
    assert document.map.rows == 1
    path = document.path
    assert Path(path).read_bytes() == b"text\n"
    document.close()
    assert not Path(path).exists()

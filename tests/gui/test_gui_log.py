"""The Log dock: any size, opened where it matters, followed, searched, compared, saved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from client_gui.net.port import Ask, Standing
from client_gui.store.farmstore import Link
from client_gui.views.log import LogView
from client_gui.views.log_parts.document import READY_CHARS, LogDocument, LogId
from client_gui.views.log_parts.spool import PREFIX
from farm.model.errors import Denied, FarmUnreachable
from farm.model.states import UnitState
from farm.protocol.bulk import PIECE, LogGetMsg
from farm.protocol.client import AttemptRow, AttemptsReply, AttemptsReq, WhyCause, WhyReply, WhyReq, WhyRow
from tests.support.gui_logs import Logs, attempt_row, render_log
from tests.support.gui_rig import Rig, job_row

TIMEOUT_MS = 15_000


class Bench:
    """A Log dock that looks at frame 17 of J1/beauty, and the logs behind it."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig = rig
        self.qtbot = qtbot
        self.logs = Logs()
        self.attempts: list[AttemptRow] = []
        self.done: list[str] = []
        rig.port.answers = {
            LogGetMsg: self.logs.page,
            AttemptsReq: lambda r: AttemptsReply(id=r.id, attempts=tuple(self.attempts)),
            WhyReq: lambda r: WhyReply(
                id=r.id,
                rows=(
                    WhyRow(
                        address="J1/beauty/17",
                        state="failed",
                        units=1,
                        causes=(WhyCause("memory", "give it 128 GB"),),
                    ),
                ),
            ),
        }
        rig.actions.why_not = lambda action, context: ""  # type: ignore[method-assign]
        rig.actions.run = lambda action, context, value="": self.done.append(  # type: ignore[method-assign]
            f"{action} {context.units[0].address}"
        )
        self._timer = QTimer()
        self._timer.timeout.connect(rig.settle)
        self._timer.start(2)
        self.view = LogView(rig.desk)
        self.view.resize(900, 400)
        self.view.show()
        rig.snapshot((job_row(1),), maps={"J1/beauty": bytes([4] * 100)})

    def look(self, unit: int = 16, step: str = "beauty") -> None:
        """Looks at a frame."""
        self.rig.focus.set_job(1)
        self.rig.snapshot((job_row(1),), maps={"J1/beauty": bytes([4] * 100)})
        self.rig.focus.set_unit(step, unit)

    def until(self, true: Callable[[], bool]) -> None:
        """Waits for something."""
        self.qtbot.waitUntil(true, timeout=TIMEOUT_MS)

    @property
    def document(self) -> LogDocument:
        """The log that is shown."""
        assert self.view.reader.document is not None
        return self.view.reader.document

    def read(self) -> None:
        """Waits until all of it is here."""
        self.until(lambda: self.view.reader.document is not None and self.document.asked)
        self.until(lambda: self.document.map.whole and not self.document.fetching)

    def text(self, row: int) -> str:
        """A row, as it is shown."""
        self.document.want(row, row)
        self.until(lambda: self.document.line(row) is not None)
        line = self.document.line(row)
        assert line is not None
        return line.text

    @property
    def cursor(self) -> str:
        """The row the cursor is in."""
        return self.text(self.view.reader.pane.cursor_row)

    def key(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        """Presses a key where the focus is: in the lines."""
        QTest.keyClick(self.view.reader.pane, key, modifier)

    def close(self) -> None:
        """Ends it."""
        self._timer.stop()
        self.view.hide()
        shiboken6.delete(self.view)


@pytest.fixture
def bench(rig: Rig, qtbot: QtBot) -> Iterator[Bench]:
    spooled = set(spools())
    found = Bench(rig, qtbot)
    yield found
    found.close()
    qtbot.waitUntil(lambda: set(spools()) <= spooled, timeout=TIMEOUT_MS)


def spools() -> list[str]:
    return [str(path) for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")]


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
    monkeypatch.setattr("client_gui.views.log_parts.finder.PATIENCE_MS", 700)
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
    left = int(pane._gutter())
    cell = pane._cell
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


def notices(bench: Bench) -> list[str]:
    return [notice.text for notice in bench.rig.notices.activity]


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
    qtbot.waitUntil(lambda: document.asked and document.map.whole, timeout=TIMEOUT_MS)
    assert document.map.rows == 1
    path = document.path
    assert Path(path).read_bytes() == b"text\n"
    document.close()
    assert not Path(path).exists()

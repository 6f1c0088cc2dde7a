"""The Preview dock: the newest, one, many and two frames, played; and what is said when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from client_gui.net.port import Ask, Standing
from client_gui.store.farmstore import Link
from client_gui.views.preview import PreviewView
from client_gui.views.preview_parts import loader as loading
from client_gui.views.preview_parts.loader import AT_ONCE, PreviewLoader, decode
from client_gui.views.preview_parts.player import Player
from farm.model.errors import FarmUnreachable, OutputError
from farm.model.states import UnitState
from farm.protocol.bulk import PreviewGetMsg, PreviewMsg
from farm.protocol.client import AttemptsReply, AttemptsReq, FrameRow, FramesReply, FramesReq, JobRow
from tests.support.gui_logs import attempt_row, picture
from tests.support.gui_rig import NOW_US, Rig, job_row

MAP = bytes([3] * 40 + [2] * 10 + [1] * 50)


class Bench:
    """A Preview dock that looks at J1, whose first 40 frames are done, frame 40 last."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig = rig
        self.qtbot = qtbot
        self.pictures: dict[tuple[int, int], bytes] = {}
        self.trouble: Exception | None = None
        self.files: tuple[str, ...] = ("/proj/out/beauty.0040.exr",)
        rig.port.answers = {
            PreviewGetMsg: self.picture,
            AttemptsReq: lambda r: AttemptsReply(
                id=r.id,
                attempts=tuple(
                    attempt_row(n, frames=str(n), outcome="done", ended_us=NOW_US + n) for n in range(1, 41)
                ),
            ),
            FramesReq: self.frames,
        }
        self._timer = QTimer()
        self._timer.timeout.connect(rig.settle)
        self._timer.start(2)
        self.view = PreviewView(rig.desk)
        self.view.resize(600, 420)
        self.view.show()

    def picture(self, request: PreviewGetMsg) -> PreviewMsg:
        if self.trouble is not None:
            raise self.trouble
        key = (request.job, request.unit)
        if key not in self.pictures:
            self.pictures[key] = picture(request.unit, 160, 90, request.job)
        return PreviewMsg(request.id, self.pictures[key])

    def frames(self, request: FramesReq) -> FramesReply:
        frame = int(request.address.rpartition("/")[2])
        row = FrameRow(
            unit=frame - 1,
            frame=frame,
            state="done",
            node="rack-114",
            elapsed_s=62.3,
            verified=True,
            files=self.files,
        )
        return FramesReply(id=request.id, steps={"beauty": (row,)})

    def look(self, *others: JobRow, states: bytes = MAP) -> None:
        """Looks at J1."""
        self.rig.focus.set_job(1)
        self.rig.snapshot(
            (job_row(1, name="sh0420_fx_v018"), *others), maps={"J1/beauty": states, "J2/beauty": MAP}
        )

    def until(self, true: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(true)

    def asked(self) -> list[PreviewGetMsg]:
        return self.rig.port.asked(PreviewGetMsg)

    @property
    def said(self) -> str:
        """What the picture is, to those who do not see it."""
        return self.view.canvas.accessibleDescription()

    def close(self) -> None:
        self._timer.stop()
        self.view.hide()
        shiboken6.delete(self.view)


@pytest.fixture
def bench(rig: Rig, qtbot: QtBot) -> Iterator[Bench]:
    found = Bench(rig, qtbot)
    yield found
    found.close()


def test_the_newest_frame_is_shown_and_followed(bench: Bench) -> None:
    assert bench.said == "Choose a job to see what it renders.: Choose a job to see what it renders."
    bench.look()
    bench.until(lambda: bench.said == "frame 40, done")
    assert bench.view.strip.visible_units()[:3] == [39, 38, 37]
    bench.until(lambda: "rack-114 · 1 m 02 s · ✓ verified" in bench.view.foot.text())
    bench.until(lambda: "preview 160 × 90" in bench.view.foot.text())
    bench.rig.delta(units=(("J1/beauty", 45, UnitState.DONE),))
    bench.until(lambda: bench.said == "frame 46, done")
    assert bench.view.strip.visible_units()[:2] == [45, 39]
    # Looking at an older frame ends that.
    bench.view.strip.choose(38, tell=True)
    assert not bench.view.head.latest.isChecked()
    assert bench.rig.focus.unit == 38
    bench.rig.delta(units=(("J1/beauty", 46, UnitState.DONE),))
    bench.until(lambda: bench.view.strip.visible_units()[0] == 46)
    assert bench.said == "frame 39, done"
    bench.view.head.latest.click()
    bench.until(lambda: bench.said == "frame 47, done")


def test_another_job_is_followed_anew_after_an_older_frame_was_looked_at(bench: Bench) -> None:
    done = job_row(2, name="sh0420_fx_v017")
    bench.look(done)
    bench.until(lambda: "rack-114" in bench.view.foot.text())
    bench.view.strip.choose(30, tell=True)
    bench.until(lambda: bench.said == "frame 31, done")
    assert not bench.view.head.latest.isChecked()
    bench.rig.focus.set_job(2)
    assert bench.view.head.latest.isChecked()
    assert "rack-114" not in bench.view.foot.text(), "what stands below is of the job before"
    # Only now is the job followed: its frames come with the next state of the farm.
    bench.rig.snapshot((job_row(1, name="sh0420_fx_v018"), done), maps={"J2/beauty": MAP})
    bench.until(lambda: bench.said == "frame 40, done")
    bench.until(lambda: "preview 160 × 90" in bench.view.foot.text())
    assert 39 in [request.unit for request in bench.asked() if request.job == 2]
    # A frame of it that was chosen elsewhere is what is shown, and stays.
    bench.look(done)
    bench.rig.focus.set_unit("beauty", 12)
    bench.until(lambda: bench.said == "frame 13, done")
    assert not bench.view.head.latest.isChecked()


def test_with_reduced_motion_the_picture_stays(bench: Bench) -> None:
    bench.rig.theme.calm = True
    bench.look()
    bench.until(lambda: bench.said == "frame 40, done")
    bench.rig.delta(units=(("J1/beauty", 45, UnitState.DONE),))
    bench.until(lambda: bench.view.strip.visible_units()[0] == 45)
    assert bench.said == "frame 40, done"


def test_the_frame_that_is_looked_at_is_shown_and_arrows_go_on(bench: Bench) -> None:
    bench.look()
    bench.rig.focus.set_unit("beauty", 4)
    bench.until(lambda: bench.said == "frame 5, done")
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_Right)
    bench.until(lambda: bench.said == "frame 6, done")
    assert bench.rig.focus.unit == 5
    for _ in range(6):
        QTest.keyClick(bench.view.canvas, Qt.Key.Key_Left)
    assert bench.rig.focus.unit == 39, "round the beginning to the last frame with a picture"
    bench.rig.focus.set_unit("beauty", 44)
    bench.until(lambda: "45 is running" in bench.said)


def test_only_what_is_visible_is_asked_for_a_few_at_a_time(bench: Bench) -> None:
    bench.view.set_mode("sheet")
    del bench.rig.port.answers[PreviewGetMsg]
    bench.look(states=bytes([3] * 10_000))
    bench.rig.snapshot(
        (job_row(1, steps=(bench.rig.client.store.steps_of(1)[0],)),), maps={"J1/beauty": bytes([3] * 10_000)}
    )

    def waiting() -> set[int]:
        """Units that were asked for and not given up."""
        gone = set(bench.rig.canceled())
        posted = [
            m for m in bench.rig.port.posted if isinstance(m, Ask) and isinstance(m.body, PreviewGetMsg)
        ]
        return {message.body.unit for message in posted if message.number not in gone}  # type: ignore[attr-defined]

    assert 0 < len(waiting()) <= AT_ONCE
    assert waiting() <= set(bench.view.sheet.visible_units())
    before = waiting()
    bench.view.sheet.verticalScrollBar().setValue(bench.view.sheet.verticalScrollBar().maximum())
    visible = set(bench.view.sheet.visible_units())
    assert 9999 in visible
    assert not before & waiting(), "what scrolled away is given up"
    assert 0 < len(waiting()) <= AT_ONCE
    assert waiting() <= visible
    bench.view.hide()
    asked = len(bench.asked())
    bench.rig.delta(units=(("J1/beauty", 9998, UnitState.DONE),))
    assert len(bench.asked()) == asked


def test_the_contact_sheet_by_keyboard(bench: Bench) -> None:
    bench.look()
    bench.until(lambda: bench.said == "frame 40, done")
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_G)
    sheet = bench.view.sheet
    assert sheet.isVisible()
    QTest.keyClick(sheet, Qt.Key.Key_Home)
    assert bench.rig.focus.unit == 0
    QTest.keyClick(sheet, Qt.Key.Key_Right)
    QTest.keyClick(sheet, Qt.Key.Key_Down)
    columns = bench.rig.focus.unit - 1
    assert columns >= 2
    assert sheet.accessibleDescription() == f"frame {columns + 2}, done, {columns + 2} of 100"
    QTest.keyClick(sheet, Qt.Key.Key_End)
    assert bench.rig.focus.unit == 99
    assert 99 in sheet.visible_units()
    QTest.keyClick(sheet, Qt.Key.Key_Home)
    before = len(sheet.visible_units())
    QTest.keyClick(sheet, Qt.Key.Key_Plus)
    QTest.keyClick(sheet, Qt.Key.Key_Plus)
    QTest.keyClick(sheet, Qt.Key.Key_Plus)
    assert len(sheet.visible_units()) < before
    QTest.keyClick(sheet, Qt.Key.Key_Return)
    assert bench.view.canvas.isVisible()
    bench.until(lambda: bench.said == "frame 1, done")


def test_the_version_before_is_offered_and_the_line_moves(bench: Bench) -> None:
    older, oldest = job_row(2, name="sh0420_fx_v017"), job_row(3, name="sh0420_fx_v016")
    bench.look(older, oldest, job_row(4, name="other_v017"))
    bench.until(lambda: bench.said == "frame 40, done")
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_B)
    against = bench.view.against
    assert [against.itemText(n) for n in range(against.count())] == [
        "J2  sh0420_fx_v017",
        "J3  sh0420_fx_v016",
        "frame 39",
    ]
    assert "job:2" in bench.rig.followed()
    bench.until(lambda: any(ask.job == 2 and ask.unit == 39 for ask in bench.asked()))
    canvas = bench.view.canvas
    bench.until(lambda: canvas._other is not None)
    for _ in range(4):
        QTest.keyClick(canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert canvas.split == pytest.approx(0.7)
    assert canvas.accessibleDescription() == "sh0420_fx_v018 40 up to 70%, then sh0420_fx_v017 40"
    shot = canvas.grab().toImage()
    y = shot.height() // 4
    left, right = shot.pixelColor(shot.width() // 3, y), shot.pixelColor(shot.width() * 9 // 10, y)
    assert abs(left.hue() - right.hue()) > 15, "both versions are seen"
    # By mouse, too.
    button, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QTest.mousePress(canvas, button, none, QPoint(60, 50))
    QTest.mouseMove(canvas, QPoint(90, 50))
    QTest.mouseRelease(canvas, button, none, QPoint(90, 50))
    assert canvas.split < 0.3
    bench.view.act("hold")
    assert against.itemText(0) == "held: J1/beauty 40"
    QTest.keyClick(canvas, Qt.Key.Key_Escape)
    assert not canvas.comparing
    assert "job:2" not in bench.rig.followed()


def test_zoom_keeps_what_is_under_the_pointer(bench: Bench) -> None:
    bench.look()
    bench.until(lambda: bench.view.picture() is not None)
    canvas = bench.view.canvas
    image = bench.view.picture()
    assert image is not None
    spot = QPointF(100, 80)

    def under() -> QPointF:
        area = canvas._area(image)
        return QPointF((spot.x() - area.x()) / area.width(), (spot.y() - area.y()) / area.height())

    before, scale = under(), canvas.scale
    canvas.set_zoom(scale * 3, spot)
    assert canvas.scale == pytest.approx(scale * 3)
    assert (under() - before).manhattanLength() < 0.01
    QTest.keyClick(canvas, Qt.Key.Key_1)
    assert canvas.scale == 1.0
    assert "at 100%" in bench.view.foot.text()
    QTest.keyClick(canvas, Qt.Key.Key_0)
    assert canvas.scale == pytest.approx(scale)


def test_a_player_shows_what_is_due_and_says_what_it_left_out(qtbot: QtBot) -> None:
    now = [0.0]
    missing = {3, 4, 5}
    shown: list[int] = []
    player = Player(lambda unit: unit not in missing, lambda: now[0])
    player.set_rate(12)
    player.shown.connect(shown.append)
    player.play(list(range(12)), 0)
    assert player.said == "12 fps"
    assert player.ahead()[:3] == [0, 1, 2]
    for step in range(1, 26):
        now[0] = step / 24 + 0.001
        player.tick()
    assert shown == [1, 2, 6, 7, 8, 9, 10, 11, 0]
    assert player.said == "9 of 12 fps"
    player.stop()
    assert player.said == ""
    player.play([1], 0)
    assert not player.playing, "one frame is no film"


def test_playing_by_key(bench: Bench) -> None:
    bench.look()
    bench.until(lambda: bench.said == "frame 40, done")
    for key in range(40):
        bench.pictures[(1, key)] = picture(key, 32, 18)
    seen: set[str] = set()
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_Space)
    assert bench.view.head.play.accessibleName() == "Pause"

    def several() -> bool:
        seen.add(bench.said)
        return len(seen) > 4

    bench.until(several)
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_Space)
    assert bench.view.head.play.accessibleName() == "Play"
    assert bench.view.pace.text() == ""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no picture of it was made"),
        (b"garbage", "not a picture"),
        (picture(1)[:200], "damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "not a picture"),
    ],
)
@pytest.mark.qt_log_ignore("Not a JPEG file|Premature end|JPEG", extend=True)
def test_pictures_that_are_none_are_said(bench: Bench, data: bytes, said: str) -> None:
    bench.pictures[(1, 39)] = data
    bench.look()
    bench.until(lambda: said in bench.said)


def test_a_picture_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(OutputError, match="5000 × 16 is not shown"):
        decode(picture(1, 5000, 16))
    assert decode(picture(1, 64, 36)).size().width() == 64


def test_no_connection_and_back(bench: Bench) -> None:
    bench.trouble = FarmUnreachable("no answer")
    bench.look()
    bench.until(lambda: "not connected" in bench.said)
    bench.trouble = None
    bench.rig.give(Standing(Link.LOST), Standing(Link.LIVE))
    bench.until(lambda: bench.said == "frame 40, done")


def test_a_job_without_pictures_says_so(bench: Bench) -> None:
    bench.look(states=bytes([1] * 100))
    bench.until(lambda: "No frame of J1/beauty is done yet" in bench.said)


def test_pictures_are_kept_while_there_is_room(
    rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = QImage(160, 90, QImage.Format.Format_RGB32).sizeInBytes()
    monkeypatch.setattr(loading, "KEPT_BYTES", 3 * one)
    rig.port.answers = {PreviewGetMsg: lambda r: PreviewMsg(r.id, picture(r.unit, 160, 90))}
    found = PreviewLoader(rig.client)

    def get(unit: int) -> None:
        found.want("me", [(1, "beauty", unit)])
        rig.settle()
        qtbot.waitUntil(lambda: found.picture((1, "beauty", unit)) is not None)

    for unit in range(5):
        get(unit)
    assert found.kept_bytes == 3 * one
    assert [found.picture((1, "beauty", unit)) is not None for unit in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    asked = len(rig.port.asked(PreviewGetMsg))
    get(3)
    assert len(rig.port.asked(PreviewGetMsg)) == asked
    found.outdated([(1, "beauty", 3)])
    assert found.picture((1, "beauty", 3)) is not None, "the old one stays until the new one is here"
    assert len(rig.port.asked(PreviewGetMsg)) == asked + 1
    found.close()


def test_files_are_opened_where_they_can_be_reached_and_else_said(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return True

    monkeypatch.setattr("client_gui.views.preview_parts.deeds.QDesktopServices.openUrl", open_url)
    bench.look()
    bench.until(lambda: bench.view.files() != ())
    bench.view.act("copy-path")
    assert QGuiApplication.clipboard().text() == "/proj/out/beauty.0040.exr"
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_O)

    def told() -> bool:
        notices = list(bench.rig.notices.activity)
        return notices[-1].text == "/proj/out/beauty.0040.exr cannot be reached from this machine"

    bench.until(told)
    assert "path rules" in list(bench.rig.notices.activity)[-1].hint
    here = tmp_path / "a.0039.exr"
    here.write_bytes(b"x")
    bench.files = (str(here),)
    bench.view.strip.choose(38, tell=True)
    bench.until(lambda: bench.view.files() == (str(here),))
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    bench.until(lambda: len(opened) == 1)
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_O)
    bench.until(lambda: len(opened) == 2)
    assert opened == [str(here), str(tmp_path)]


@pytest.mark.parametrize("name", ["a.0039.desktop", "a.0039.exe", "a.0039.sh", "a.exr.bat", "a"])
def test_of_what_might_be_run_the_folder_is_opened(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "client_gui.views.preview_parts.deeds.QDesktopServices.openUrl",
        lambda url: opened.append(url.toLocalFile()) or True,
    )
    here = tmp_path / name
    here.write_bytes(b"x")
    bench.files = (str(here),)
    bench.look()
    bench.until(lambda: bench.view.files() == (str(here),))
    QTest.keyClick(bench.view.canvas, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    bench.until(lambda: bool(opened))
    assert opened == [str(tmp_path)]
    said = list(bench.rig.notices.activity)[-1]
    assert said.text == f"{here} is no picture, film or text: its folder is opened instead"


def test_every_button_has_a_name(bench: Bench) -> None:
    for button in bench.view.findChildren(QToolButton):
        if button.isVisible():
            assert button.accessibleName() or button.text(), button

"""The palette, the sheet of keys, marks, and what looks and copies: all by keyboard."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt, QThreadPool
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QListView, QVBoxLayout, QWidget
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.actions.book import ActionBook
from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.keysheet import KeySheet
from client_gui.actions.palette import Entries, Entry, Palette
from client_gui.actions.places import Places, folder_of
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.model.errors import UnknownName
from farm.protocol.client import ActReply, ActReq, FrameRow, FramesReply, FramesReq
from tests.support.gui_rig import Rig, job_row, node_row
from tests.support.patient_bot import PATIENCE_MS

JOB = ActionContext("jobs", jobs=(1,))


class Stage(QWidget):
    """A window with a list whose selection is given."""

    def __init__(self) -> None:
        super().__init__()
        self.context = JOB
        self.list = QListView()
        QVBoxLayout(self).addWidget(self.list)
        self.resize(1000, 800)

    def action_context(self) -> ActionContext:
        return self.context


@pytest.fixture
def stage(qtbot: QtBot, rig: Rig) -> Stage:
    found = Stage()
    qtbot.addWidget(found)
    with qtbot.waitActive(found):
        found.show()
    found.list.setFocus()
    rig.client.look("test", jobs=True, nodes=True)
    rig.snapshot(
        tuple(job_row(n, name=f"sh04{n:02}_fx", user="bo" if n == 7 else "ana") for n in range(1, 20)),
        (node_row(1, name="rack-001", pool="gpu"), node_row(2, name="ws-002", pool="desks")),
    )
    rig.actions.watch(found)
    return found


def _palette(qtbot: QtBot, stage: Stage, typed: str = "") -> Palette:
    qtbot.keyClick(stage.list, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    palette = next(one for one in stage.findChildren(Palette) if one.isVisible())
    assert palette.edit.hasFocus()
    qtbot.keyClicks(palette.edit, typed)
    qtbot.waitUntil(lambda: not palette._timer.isActive())
    return palette


def _shown(palette: Palette) -> list[str]:
    model = palette.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def test_an_action_is_found_and_done_by_keyboard(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    palette = _palette(qtbot, stage, "pause")
    assert _shown(palette)[0] == "Pause", "what is called exactly so comes first"
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert [request.action for request in rig.port.asked(ActReq)] == ["pause"]
    assert stage.list.hasFocus()


def test_what_is_not_possible_is_shown_with_its_reason_and_not_done(
    qtbot: QtBot, stage: Stage, rig: Rig
) -> None:
    palette = _palette(qtbot, stage, "archive")
    index = palette.list.currentIndex()
    assert index.data() == "Archive…"
    reason = "J1 still has work; cancel it first"
    assert reason in index.data(Qt.ItemDataRole.AccessibleTextRole)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert palette.isVisible()
    assert palette.foot.text() == f"Not possible now: {reason}"
    assert not rig.port.asked(ActReq)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Escape)
    assert not palette.isVisible()


def test_jobs_and_nodes_are_found_by_name(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    palette = _palette(qtbot, stage, "sh0407")
    assert _shown(palette)[0] == "J7 sh0407_fx"
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert (rig.focus.job, wanted) == (7, ["job"])
    palette = _palette(qtbot, stage, "desks")
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert (rig.focus.node, wanted) == (2, ["job", "nodes"])


def test_what_was_used_last_comes_first(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    for typed in ("bell", "star"):
        palette = _palette(qtbot, stage, typed)
        qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert _shown(_palette(qtbot, stage))[:2] == ["Star", "Bell"]


def test_views_and_docks_that_others_offer_are_found(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    gone: list[str] = []
    rig.actions.add_source(
        lambda query: [Entry("view:late", "view", "Late shots", "3 jobs", do=lambda: gone.append("late"))]
    )
    palette = _palette(qtbot, stage, "late sh")
    assert _shown(palette) == ["Late shots"]
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert gone == ["late"]


def test_arrows_go_round_while_the_line_keeps_the_focus(qtbot: QtBot, stage: Stage) -> None:
    palette = _palette(qtbot, stage, "select")
    count = palette.list.model().rowCount()
    qtbot.keyClick(palette.edit, Qt.Key.Key_Up)
    assert palette.list.currentIndex().row() == count - 1
    qtbot.keyClick(palette.edit, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == 0
    qtbot.keyClick(palette.edit, Qt.Key.Key_PageDown)
    assert palette.list.currentIndex().row() > 0
    assert palette.edit.hasFocus()
    qtbot.keyClicks(palette.edit, "xqzv")
    qtbot.waitUntil(lambda: not palette._timer.isActive())
    assert palette.foot.text() == "Nothing is called so."
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert palette.isVisible()


def test_many_jobs_are_searched_without_holding_up_the_window(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.snapshot(tuple(job_row(n, name=f"asset_{n:05}", steps=()) for n in range(1, 8001)))
    palette = _palette(qtbot, stage)
    qtbot.keyClicks(palette.edit, "asset_07999")
    qtbot.waitUntil(lambda: _shown(palette) == ["J7999 asset_07999"])


def test_the_entries_are_a_sound_model(qtbot: QtBot, qtmodeltester: ModelTester, stage: Stage) -> None:
    model = Entries(stage)
    qtmodeltester.check(model)
    model.take([Entry("a", "action", "A"), Entry("b", "job", "B", reason="no")])
    qtmodeltester.check(model)


# -- the sheet of keys -----------------------------------------------------------------------------------


def _sheet(qtbot: QtBot, stage: Stage) -> KeySheet:
    qtbot.keyClicks(stage.list, "?")
    return next(one for one in stage.findChildren(KeySheet) if one.isVisible())


def test_the_sheet_shows_every_action_and_its_key(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    sheet = _sheet(qtbot, stage)
    qtbot.keyClicks(sheet.search, "shift+x")
    shown = [button.accessibleName() for button in sheet._buttons.values() if not button.isHidden()]
    assert shown == ["Cancel…: Shift+X; press to change"]
    qtbot.keyClick(sheet.search, Qt.Key.Key_Escape)
    assert stage.list.hasFocus()


def test_a_key_is_changed_in_the_sheet_and_a_taken_one_refused(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    sheet = _sheet(qtbot, stage)
    button = sheet._buttons["star"]
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Return)
    assert "Press the new key" in sheet.foot.text()
    qtbot.keyClick(button, Qt.Key.Key_P)
    assert "'Pause or resume' already" in sheet.foot.text()
    qtbot.keyClick(button, Qt.Key.Key_Return)
    qtbot.keyClick(button, Qt.Key.Key_Escape)
    assert sheet.isVisible()
    assert rig.actions.keymap.keys("star") == ("S",)
    qtbot.keyClick(button, Qt.Key.Key_Return)
    qtbot.keyClick(button, Qt.Key.Key_Y)
    assert rig.actions.keymap.keys("star") == ("Y",)
    assert button.text() == "Y"
    qtbot.keyClick(button, Qt.Key.Key_Return)
    qtbot.keyClick(button, Qt.Key.Key_Backspace)
    assert rig.actions.keymap.keys("star") == ()
    qtbot.keyClick(button, Qt.Key.Key_Escape)
    assert not sheet.isVisible()
    qtbot.keyClick(stage.list, Qt.Key.Key_Y)
    assert not rig.actions.marks.starred(1)


# -- marks, looking, copying -----------------------------------------------------------------------------


def test_marks_are_kept_by_farm_and_over_a_restart(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    marks = rig.actions.marks
    changed: list[tuple[int, ...]] = []
    marks.changed.connect(changed.append)
    stage.context = ActionContext("jobs", jobs=(1, 2))
    qtbot.keyClick(stage.list, Qt.Key.Key_S)
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    qtbot.keyClick(stage.list, Qt.Key.Key_4, both)
    assert [marks.starred(1), marks.starred(2), marks.colour(2), marks.colour(3)] == [True, True, 4, 0]
    assert changed == [(1, 2), (1, 2)]
    again = ActionBook(rig.client, rig.focus, rig.notices, rig.settings).marks
    assert again.starred(1)
    assert again.colour(1) == 4
    stage.context = JOB
    qtbot.keyClick(stage.list, Qt.Key.Key_S)
    qtbot.keyClick(stage.list, Qt.Key.Key_4, both)
    assert [marks.starred(1), marks.starred(2), marks.colour(1), marks.colour(2)] == [False, True, 0, 4]


def test_a_bell_rings_once_when_the_job_is_over(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    qtbot.keyClick(stage.list, Qt.Key.Key_B)
    rig.delta((job_row(1, name="sh0401_fx", state="running", priority=60),))
    rig.delta((job_row(1, name="sh0401_fx", state="done"), job_row(2, state="failed")))
    rig.delta((job_row(1, name="sh0401_fx", state="done", priority=61),))
    told = [notice.text for notice in rig.notices.activity]
    assert told == ["You will be told when J1 is over", "J1 sh0401_fx is done"]


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (ActionContext("jobs", jobs=(3, 1)), "J3\nJ1"),
        (ActionContext("frames", units=(UnitsOf(1, "beauty", (3, 4), "4-5"),)), "J1/beauty/4-5"),
        (ActionContext("nodes", nodes=(2,)), "ws-002"),
    ],
)
def test_ids_are_copied(qtbot: QtBot, stage: Stage, rig: Rig, context: ActionContext, text: str) -> None:
    stage.context = context
    qtbot.keyClick(stage.list, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == text


@pytest.mark.parametrize(
    ("key", "dock"), [(Qt.Key.Key_L, "log"), (Qt.Key.Key_V, "preview"), (Qt.Key.Key_W, "why")]
)
def test_looking_follows_the_selection(qtbot: QtBot, stage: Stage, rig: Rig, key: Qt.Key, dock: str) -> None:
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    stage.context = ActionContext("frames", units=(UnitsOf(1, "beauty", (3, 4), "4-5"),))
    qtbot.keyClick(stage.list, key)
    assert wanted == [dock]
    assert (rig.focus.job, rig.focus.step, rig.focus.unit) == (1, "beauty", 3)


def test_a_folder_is_opened_where_it_can_be_reached_and_told_where_not(
    qtbot: QtBot, stage: Stage, rig: Rig, tmp_path: Path
) -> None:
    here = str(tmp_path / "beauty.0001.exr")
    files = [here]

    def answer(request: FramesReq) -> FramesReply:
        rows = tuple(FrameRow(unit=0, frame=1, state="done", files=(path,)) for path in files)
        return FramesReply(id=request.id, steps={"beauty": rows})

    rig.port.answers[FramesReq] = answer
    opened: list[str] = []
    rig.actions.looking.places.open = lambda folder: not opened.append(folder)  # type: ignore[func-returns-value]
    qtbot.keyClick(stage.list, Qt.Key.Key_O)
    rig.settle()
    qtbot.waitUntil(lambda: opened == [str(tmp_path)])
    files[:] = ["/no/such/share/beauty.0001.exr"]
    qtbot.keyClick(stage.list, Qt.Key.Key_O)
    rig.settle()
    qtbot.waitUntil(lambda: rig.notices.activity.version > 0)
    assert "/no/such/share cannot be reached" in next(iter(rig.notices.activity)).text
    stage.context = ActionContext("frames", units=(UnitsOf(1, "beauty", (0,), "1"),))
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(stage.list, Qt.Key.Key_C, both)
    rig.settle()
    assert QGuiApplication.clipboard().text() == "/no/such/share/beauty.0001.exr"


def test_a_folder_whose_server_hangs_holds_up_neither_others_nor_the_end(
    qtbot: QtBot, rig: Rig, tmp_path: Path
) -> None:
    files = {"J1/beauty/1": "/hangs/a.exr", "J1/beauty/2": f"{tmp_path}/b.exr"}

    def answer(request: FramesReq) -> FramesReply:
        rows = (FrameRow(unit=0, frame=1, state="done", files=(files[request.address],)),)
        return FramesReply(id=request.id, steps={"beauty": rows})

    rig.port.answers[FramesReq] = answer
    server_is_back, asked = threading.Event(), threading.Event()
    workers: list[threading.Thread] = []

    def there(folder: str) -> bool:
        workers.append(threading.current_thread())
        if folder == "/hangs":
            asked.set()
            assert server_is_back.wait(60)
        return True

    places = Places(rig.client, rig.notices)
    opened: list[str] = []
    places.there = there
    places.open = lambda folder: not opened.append(folder)  # type: ignore[func-returns-value]
    try:
        places.open_folder("J1/beauty/1")
        rig.settle()
        assert asked.wait(60)
        places.open_folder("J1/beauty/2")
        rig.settle()
        qtbot.waitUntil(lambda: opened == [str(tmp_path)])
        assert all(worker.daemon for worker in workers), "a program ends without waiting for these"
        assert QThreadPool.globalInstance().waitForDone(PATIENCE_MS), "for those it waits"
    finally:
        server_is_back.set()
    qtbot.waitUntil(lambda: len(opened) == 2)
    for worker in workers:
        worker.join(60)


def test_paths_the_farm_does_not_tell_keep_no_others_back(qtbot: QtBot, rig: Rig) -> None:
    refused = {"J1/beauty/2"}

    def frames(request: FramesReq) -> FramesReply:
        if request.address in refused:
            raise UnknownName(f"there is no {request.address}")
        rows = (FrameRow(unit=0, frame=1, state="done", files=(f"/out/{request.address[-1]}.exr",)),)
        return FramesReply(id=request.id, steps={"beauty": rows})

    rig.port.answers[FramesReq] = frames
    places = Places(rig.client, rig.notices)
    QGuiApplication.clipboard().setText("before")
    places.copy_paths(("J1/beauty/3", "J1/beauty/2", "J1/beauty/1"))
    rig.settle()
    assert QGuiApplication.clipboard().text() == "/out/3.exr\n/out/1.exr", "in the order of the list"
    said = [notice.text for notice in rig.notices.activity]
    assert any("there is no J1/beauty/2" in text for text in said)
    assert "Copied 2 paths; of 1 more the farm told none" in said
    refused |= {"J1/beauty/1", "J1/beauty/3"}
    places.copy_paths(("J1/beauty/1", "J1/beauty/3"))
    rig.settle()
    assert QGuiApplication.clipboard().text() == "/out/3.exr\n/out/1.exr"
    assert not any("There are no files yet" in notice.text for notice in rig.notices.activity)


def test_folders_are_read_as_their_own_system_writes_them() -> None:
    assert folder_of("/out/a/b.exr") == "/out/a"
    assert folder_of("/b.exr") == "/"
    assert folder_of("P:\\show\\b.exr") == "P:\\show"
    assert folder_of("\\\\server\\share\\a\\b.exr") == "\\\\server\\share\\a"


def test_sheets_follow_the_window_and_keep_what_came_meanwhile(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    palette = _palette(qtbot, stage)
    stage.resize(700, 500)
    assert palette.geometry() == stage.rect()
    assert palette.rect().contains(palette.card.geometry())
    rig.delta((job_row(40, name="came_meanwhile"),))
    rig.give(Standing(Link.LOST, "gone"))
    assert palette.isVisible()
    assert QApplication.focusWidget() is palette.edit


# -- who does what only a view or the shell can do ----------------------------------------------------


def test_of_several_views_the_one_with_the_focus_is_asked(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    one, other = QListView(stage), QListView(stage)
    for view in (one, other):
        view.show()
    done: list[str] = []
    book = rig.actions
    assert book.why_not("select-all", JOB) == "nothing that is open does that"
    book.handle("select-all", lambda context, value: done.append("one"), one)
    book.handle("select-all", lambda context, value: done.append("other"), other)
    one.setFocus()
    book.run("select-all", JOB)
    other.setFocus()
    book.run("select-all", JOB)
    stage.list.setFocus()
    book.run("select-all", JOB)
    assert done == ["one", "other", "other"], "with the focus elsewhere the newest does it"
    shiboken6.delete(other)
    book.run("select-all", JOB)
    assert done[-1] == "one"
    shiboken6.delete(one)
    assert book.why_not("select-all", JOB) == "nothing that is open does that"
    with pytest.raises(ValueError, match="no action"):
        book.handle("explode", lambda context, value: None)


def test_whoever_listens_to_all_does_what_nobody_took(rig: Rig) -> None:
    taken: list[tuple[str, str]] = []
    assert rig.actions.why_not("zoom-in", JOB)
    rig.actions.invoked.connect(lambda action, context, value: taken.append((action, value)))
    assert not rig.actions.why_not("zoom-in", JOB)
    rig.actions.run("zoom-in", JOB)
    rig.actions.run("quit", ActionContext(), "now")
    assert taken == [("zoom-in", ""), ("quit", "now")]


def test_windows_share_marks_keys_and_undo(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    second = Stage()
    qtbot.addWidget(second)
    book = ActionBook(rig.client, rig.focus, rig.notices, rig.settings, shared=rig.actions)
    book.watch(second)
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    rig.actions.run("pause", JOB)
    assert book.pending("jobs", 1, "state") == "paused"
    rig.settle()
    assert book.offer == rig.actions.offer is not None
    changed: list[None] = []
    rig.actions.keys_changed.connect(lambda: changed.append(None))
    book.set_keys("star", ["Y"])
    assert changed
    qtbot.keyClick(stage.list, Qt.Key.Key_Y)
    assert book.marks.starred(1)

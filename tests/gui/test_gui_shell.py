"""The window round the views: every dock is found, and news take no keys away."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from client_gui.actions.context import ActionContext
from client_gui.settings import WINDOWS
from client_gui.shell.workspaces import ARTIST, WRANGLER
from client_gui.store.activity import Level
from client_gui.views.registry import DOCKS
from farm.protocol.client import (
    ActReply,
    ActReq,
    StatusReply,
    StatusReq,
)
from tests.support.gui_rig import job_row
from tests.support.gui_shell import Shell, entries, no_raise, press, seen, submenu

# -- docks --


@pytest.mark.parametrize("name", [record.name for record in DOCKS])
def test_every_dock_opens_and_looks_at_the_farm_only_while_it_is_seen(shell: Shell, name: str) -> None:
    window = shell.one()
    window.show_dock(name)
    shell.settle()
    dock = window.room.docks[name]
    assert name in seen(window)
    assert dock.view.name == name
    assert dock.view.title == dock.record.title
    assert dock.view.on
    window.toggle_dock(name)
    shell.settle()
    assert name not in seen(window)
    assert not dock.view.on


def test_a_dock_behind_a_tab_follows_nothing(shell: Shell) -> None:
    window = shell.one()
    window.show_dock("activity")
    assert "why" not in seen(window)
    assert not window.room.docks["why"].made or not window.room.docks["why"].view.on
    window.show_dock("why")
    shell.settle()
    assert "activity" not in seen(window)
    assert window.room.docks["why"].view.on
    assert not window.room.docks["activity"].view.on


def test_the_view_menu_has_every_dock_and_brings_a_hidden_one_back(shell: Shell) -> None:
    window = shell.one()
    docks = entries(submenu(window, "View", "Docks"))
    assert list(docks) == [record.title for record in DOCKS]
    for record in DOCKS:
        if record.name in seen(window):
            window.toggle_dock(record.name)
    for record in DOCKS:
        docks[record.title].trigger()
        shell.settle()
        assert record.name in seen(window)
        again = entries(submenu(window, "View", "Docks"))
        assert again[record.title].isChecked()


def test_with_every_dock_hidden_the_window_says_how_they_come_back(shell: Shell) -> None:
    window = shell.one()
    for dock in window.room.docks.values():
        dock.close()
    window.tick()
    button = next(one for one in window.pages.currentWidget().findChildren(QPushButton))
    assert button.isVisible()
    button.setFocus()
    shell.qtbot.keyClick(button, Qt.Key.Key_Space)
    shell.settle()
    assert {"jobs", "job", "log", "preview"} <= seen(window)


def test_the_keyboard_goes_round_all_docks(shell: Shell) -> None:
    window = shell.one()
    window.show_dock("jobs")
    visited = []
    for _ in range(len(seen(window))):
        visited.append(window.room.keys)
        press(shell, window, Qt.Key.Key_F6)
    assert set(visited) == seen(window)
    assert window.room.keys == visited[0], "it comes back to where it began"
    press(shell, window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert window.room.keys == visited[-1]


def test_a_view_that_is_wanted_comes_to_the_front_with_the_keys(shell: Shell) -> None:
    window = shell.one()
    window.desk.focus.show("activity")
    shell.settle()
    assert "activity" in seen(window)
    assert window.room.keys == "activity"
    window.desk.focus.show("job/steps")
    shell.settle()
    assert window.room.keys == "job"
    window.desk.focus.show("no such dock")


@no_raise
def test_a_dock_in_a_window_of_its_own_comes_back_by_reset(shell: Shell) -> None:
    window = shell.one()
    dock = window.room.docks["log"]
    dock.setFloating(True)
    shell.settle()
    assert dock.isFloating()
    window.reset_workspace()
    shell.settle()
    assert not dock.isFloating()
    assert "log" in seen(window)


@no_raise
def test_a_dock_whose_screen_is_gone_is_brought_back(shell: Shell) -> None:
    window = shell.one()
    dock = window.room.docks["log"]
    dock.setFloating(True)
    dock.move(50_000, 50_000)
    shell.settle()
    shell.rig.settings.set(WINDOWS, [window.layout_record()])
    window.close()
    shell.settle()
    again = shell.open().open[0]
    log = again.room.docks["log"]
    assert not log.isFloating() or log.screen().availableGeometry().intersects(log.frameGeometry())
    assert "log" in seen(again)


def test_a_dock_that_fails_says_so_and_the_others_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: told.append(str(error)))

    def fail(*_: object) -> None:
        raise ValueError("a <b>bad</b> day")

    monkeypatch.setattr("client_gui.views.activity.ActivityView.__init__", fail)
    window = shell.one()
    window.show_dock("activity")
    shell.settle()
    words = " ".join(label.text() for label in window.room.docks["activity"].findChildren(QLabel))
    assert "This dock cannot be shown: a <b>bad</b> day" in words
    assert told == ["a <b>bad</b> day"]
    window.show_dock("why")
    assert window.room.docks["why"].view.on


# -- the foot --


def test_the_foot_has_the_farm_in_four_figures(shell: Shell) -> None:
    def status(request: StatusReq) -> StatusReply:
        return StatusReply(
            id=request.id,
            farm_name="farm-A",
            farm_id="f",
            software="0.1.0",
            up_s=1.0,
            jobs={},
            units={"queued": 1388, "running": 46},
            nodes={},
            spend_nano=0,
            burn_nano_h=12_400_000_000,
            cores=64,
            cores_used=16,
        )

    shell.rig.port.answers[StatusReq] = status
    window = shell.one()
    assert "nodes" not in shell.rig.followed(), "a sum is asked for, not every node followed"
    window.toggle_dock("jobs")
    shell.later(5)
    shell.settle()
    assert window.status.figures.text() == "queued 1,388 · running 46 · 16/64 cores · 12.40 USD/h"
    asked = len(shell.rig.port.asked(StatusReq))
    shell.later(1)
    assert len(shell.rig.port.asked(StatusReq)) == asked, "not at every tick"
    shell.later(5)
    assert len(shell.rig.port.asked(StatusReq)) == asked + 1
    # While jobs are followed what runs is told by them, at once.
    window.show_dock("jobs")
    shell.settle()
    shell.rig.snapshot((job_row(1, running=3), job_row(2, running=4)))
    shell.later(0.5)
    assert "running 7 ·" in window.status.figures.text()
    shell.rig.delta((job_row(1, running=0), job_row(2, running=0)))
    shell.later(0.5)
    assert "running 0 ·" in window.status.figures.text()


def test_nothing_moves_when_there_is_something_to_take_back_and_its_buttons_go_together(shell: Shell) -> None:
    window = shell.one()
    rig = shell.rig
    rig.port.answers[ActReq] = lambda req: ActReply(id=req.id, changed=1)
    rig.snapshot((job_row(1), job_row(2)))
    shell.settle()
    high = window.status.height(), window.room.height()
    window.desk.actions.run("pause", ActionContext("jobs", (1,)))
    shell.settle()
    assert window.status.undo.isVisible()
    assert (window.status.height(), window.room.height()) == high

    def buttons() -> list[bool]:
        return [
            button.isVisible()
            for card in window.toasts.cards
            for button in card.findChildren(QPushButton)
            if button.text() == "Undo"
        ]

    assert buttons() == [True]
    window.status.undo.click()
    shell.settle()
    shell.later(0.5)
    assert not any(buttons()), "what was taken back cannot be taken back once more"


@pytest.mark.parametrize("size", [(1280, 800), (1600, 1000), (1800, 1000), (2560, 1440)])
def test_an_artist_has_the_job_beside_everything_else(shell: Shell, size: tuple[int, int]) -> None:
    window = shell.one()
    window.resize(*size)
    window.change_workspace(WRANGLER)
    window.change_workspace(ARTIST)
    window.reset_workspace()
    shell.settle()
    docks = window.room.docks
    job, jobs, log, preview = (docks[name].geometry() for name in ("job", "jobs", "log", "preview"))
    assert job.height() > window.room.height() * 0.9, "it has the whole height"
    assert job.width() > window.room.width() * 0.38
    assert jobs.left() < job.left()
    assert log.top() > jobs.bottom()
    assert preview.top() > jobs.bottom()
    assert log.right() < preview.left() < job.left()
    assert min(log.height(), preview.height()) > window.room.height() * 0.3
    window.show_dock("submit")
    shell.settle()
    assert docks["submit"].height() > window.room.height() * 0.9
    for name in ("why", "activity"):
        window.show_dock(name)
        shell.settle()
        assert not docks["log"].made_visible
        assert docks[name].geometry().size() == log.size(), "it is a tab beside the log"


# -- toasts --


def test_toasts_go_by_themselves_and_stay_under_the_pointer(shell: Shell) -> None:
    window = shell.one()
    notices = shell.rig.notices
    notices.say("Paused J1", Level.DONE)
    notices.say("the broker is slow", Level.WARNING, hint="nothing to be done")
    assert window.toasts.texts == ["Paused J1", "the broker is slow"]
    shell.later(6)
    assert window.toasts.texts == ["the broker is slow"]
    toast = window.toasts.cards[0]
    QApplication.sendEvent(toast, QEnterEvent(QPointF(1, 1), QPointF(1, 1), QPointF(1, 1)))
    shell.later(60)
    assert window.toasts.texts == ["the broker is slow"]
    QApplication.sendEvent(toast, QEvent(QEvent.Type.Leave))
    shell.later(0)
    assert window.toasts.texts == ["the broker is slow"], "it does not vanish under the hand"
    shell.later(5)
    assert window.toasts.texts == []
    assert len(notices.activity) == 2, "what happened is kept"


def test_toasts_take_no_keys_stack_and_count(shell: Shell) -> None:
    window = shell.one()
    before = QApplication.focusWidget()
    for n in range(6):
        shell.rig.notices.say(f"notice {n}", Level.ERROR)
    assert window.toasts.texts == [f"notice {n}" for n in range(2, 6)]
    shell.rig.notices.say("notice 5", Level.ERROR)
    assert window.toasts.texts[-1] == "notice 5  (×2)"
    shell.settle()
    assert QApplication.focusWidget() is before
    corners = [card.geometry() for card in window.toasts.cards]
    for one, other in pairwise(corners):
        assert one.bottom() < other.top(), "they stand one above the other"
    assert all(window.pages.rect().contains(corner) for corner in corners)


def test_a_click_on_a_toast_opens_activity(shell: Shell) -> None:
    window = shell.one()
    shell.rig.notices.say("something <b>odd</b>", Level.WARNING)
    assert window.toasts.texts == ["something <b>odd</b>"], "what a farm says is never markup"
    shell.qtbot.mouseClick(window.toasts.cards[0], Qt.MouseButton.LeftButton)
    shell.settle()
    assert "activity" in seen(window)
    assert window.toasts.texts == []

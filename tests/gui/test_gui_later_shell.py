"""The window while actions wait for the farm: where they are seen, and what is asked before they are lost."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QPushButton
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.actions.later import ASK_AFTER_MIN, Later
from client_gui.net.port import Standing
from client_gui.settings import WINDOWS
from client_gui.shell.settings_sheet import SettingsSheet
from client_gui.shell.waiting import LossSheet
from client_gui.shell.window import FarmWindow
from client_gui.store.farmstore import Link
from client_gui.views.activity import ActivityView
from client_gui.views.jobs import JobsView
from client_gui.views.registry import DOCKS
from farm.protocol.client import ActReply, ActReq
from tests.support.gui_rig import Rig, job_row, node_row
from tests.support.gui_shell import Shell, no_raise, press

_CTRL, _SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
ROWS = (job_row(1, priority=50), job_row(2, priority=50))


def later(window: FarmWindow) -> Later:
    return window.desk.actions.later


def offline(shell: Shell) -> FarmWindow:
    """A window on a farm that is away; the first job of the list is where the keys go."""
    window = shell.one()
    shell.rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    shell.rig.snapshot(ROWS, (node_row(1),))
    shell.settle()
    jobs(window).table.go_to(1)
    shell.rig.give(Standing(Link.LOST, "no answer", "is it up?", "unreachable", 4.0))
    shell.settle()
    return window


def jobs(window: FarmWindow) -> JobsView:
    view = window.room.docks["jobs"].view
    assert isinstance(view, JobsView)
    return view


def activity(window: FarmWindow) -> ActivityView:
    view = window.room.docks["activity"].view
    assert isinstance(view, ActivityView)
    return view


def back(shell: Shell, *rows: Any) -> None:
    shell.rig.give(Standing(Link.LIVE))
    shell.rig.client.store.heard(shell.rig.now_us)
    shell.rig.snapshot(rows or ROWS, (node_row(1),))
    shell.later(0)
    shell.settle()


def buttons(window: FarmWindow) -> list[str]:
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return [one.text() for one in window.banners.findChildren(QPushButton)]


def button(window: FarmWindow, text: str) -> QAbstractButton:
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return next(one for one in window.banners.findChildren(QPushButton) if one.text() == text)


def cell(window: FarmWindow, job: int, field: str) -> tuple[str, bool]:
    """What a screen reader says of a cell, and whether it is painted as one that waits."""
    model = jobs(window).model
    column = next(place for place, one in enumerate(model.columns) if one.field == field)
    slot = model.slot_of_row(model.row_of(job))
    return model.spoken(slot, column), model.waits_at(slot, column)


def sheets(window: FarmWindow) -> list[LossSheet]:
    return [one for one in window.findChildren(LossSheet) if one.isVisible()]


def sent(rig: Rig) -> list[str]:
    return [f"{one.action} {one.address} {one.value}".strip() for one in rig.port.asked(ActReq)]


# -- while it is away ------------------------------------------------------------------------------------


@no_raise
def test_what_waits_is_seen_in_its_cell_at_the_foot_and_above_the_docks(shell: Shell) -> None:
    window = offline(shell)
    assert window.status.waiting.isHidden()
    press(shell, window, Qt.Key.Key_P)
    assert cell(window, 1, "state") == ("running, becomes paused when the farm is back", True)
    assert cell(window, 2, "state") == ("running", False)
    assert window.status.waiting.text() == "1 action waits for farm-A"
    press(shell, window, Qt.Key.Key_BracketRight)
    assert cell(window, 1, "priority") == ("50, becomes 55 when the farm is back", True)
    assert window.status.waiting.text() == "2 actions wait for farm-A"
    assert window.status.waiting.accessibleName() == "2 actions wait for farm-A"
    shell.later(11)
    assert "2 actions wait for farm-A." in window.banners.text("offline")
    assert "Show what waits" in buttons(window)
    assert QApplication.focusWidget() is jobs(window).table, "nothing of it takes the keys away"
    press(shell, window, Qt.Key.Key_Z, _CTRL)
    assert window.status.waiting.text() == "1 action waits for farm-A"
    press(shell, window, Qt.Key.Key_Z, _CTRL)
    assert window.status.waiting.isHidden()
    assert "Show what waits" not in buttons(window)


@no_raise
def test_each_is_taken_back_by_keyboard_in_activity(shell: Shell) -> None:
    window = offline(shell)
    for key in (Qt.Key.Key_P, Qt.Key.Key_BracketRight):
        press(shell, window, key)
    press(shell, window, Qt.Key.Key_W, _CTRL | _SHIFT)
    view = activity(window)
    assert view.isVisible()
    table, model = view.waits.table, view.waits.model
    assert QApplication.focusWidget() is table
    said = [[model.index(row, column).data() for column in (1, 2)] for row in range(model.rowCount())]
    assert said == [
        ["Pause J1  sh0001_lgt_v001", "when farm-A is back"],
        ["Priority 55 for J1 (was 50)  sh0001_lgt_v001", "when farm-A is back"],
    ]
    assert not view.waits.send.isEnabled()
    assert view.waits.take.isEnabled(), "one is chosen as soon as they are seen"
    press(shell, window, Qt.Key.Key_Down)
    press(shell, window, Qt.Key.Key_Delete)
    assert [one.text for one in later(window).waits] == ["Pause J1"]
    assert QApplication.focusWidget() is table
    press(shell, window, Qt.Key.Key_Delete)
    assert not later(window).waits
    assert view.waits.isHidden()
    assert QApplication.focusWidget() is view.table, "the keys stay in the dock"
    assert not sent(shell.rig)


@no_raise
def test_all_is_taken_back_from_the_palette(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    press(shell, window, Qt.Key.Key_K, _CTRL)
    shell.qtbot.keyClicks(QApplication.focusWidget(), "take back all that waits")
    shell.settle()
    press(shell, window, Qt.Key.Key_Return)
    assert not later(window).waits
    assert window.desk.actions.why_not("waiting-drop", ActionContext()) == "nothing waits for the farm"


@no_raise
def test_buttons_of_a_list_know_what_waits(shell: Shell) -> None:
    window = shell.one()
    window.show_dock("nodes")
    shell.settle()
    back(shell)
    view: Any = window.room.docks["nodes"].view
    view.table.go_to(1)
    shell.rig.give(Standing(Link.LOST, "no answer"))
    shell.qtbot.waitUntil(view.foot.buttons["node-drain"].isEnabled)
    assert not view.foot.buttons["node-enable"].isEnabled()
    view.foot.buttons["node-drain"].click()
    shell.settle()
    assert [one.text for one in later(window).waits] == ["Drain rack-001"]
    assert not view.foot.buttons["node-drain"].isEnabled()
    assert view.foot.buttons["node-enable"].isEnabled()
    view.foot.buttons["node-enable"].click()
    assert not later(window).waits


@no_raise
def test_the_line_at_the_foot_leads_there(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    window.status.waiting.setFocus()
    press(shell, window, Qt.Key.Key_Space)
    assert QApplication.focusWidget() is activity(window).waits.table


# -- when it is back -------------------------------------------------------------------------------------


@no_raise
def test_what_is_old_is_asked_about_above_the_docks(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    shell.later(25 * 60)
    back(shell)
    assert not sent(shell.rig)
    assert window.banners.text("waiting-old").startswith("Send 1 action from ")
    assert window.status.waiting.text() == "1 action waits for your yes"
    ask = button(window, "Send")
    ask.setFocus()
    shell.qtbot.keyClick(ask, Qt.Key.Key_Space)
    shell.settle()
    assert sent(shell.rig) == ["pause J1"]
    assert window.banners.text("waiting-old") == ""
    assert window.status.waiting.isHidden()


@no_raise
def test_what_is_old_is_taken_back_from_the_question(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    shell.later(25 * 60)
    back(shell)
    shell.qtbot.keyClick(button(window, "Take back"), Qt.Key.Key_Space)
    shell.settle()
    assert not sent(shell.rig)
    assert not later(window).waits
    assert buttons(window) == []


@no_raise
@pytest.mark.parametrize("answer", ["Do it anyway", "Leave it"])
def test_what_somebody_else_changed_is_told_with_a_way_to_do_it_anyway(shell: Shell, answer: str) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_BracketRight)
    press(shell, window, Qt.Key.Key_P)
    back(shell, job_row(1, priority=70), job_row(2))
    assert sent(shell.rig) == ["pause J1"]
    banner = window.banners.text("waiting-held")
    assert banner == (
        "1 action was not sent. Priority 55 for J1: J1 has priority 70 by now, not 50: somebody else set it."
    )
    shell.qtbot.keyClick(button(window, answer), Qt.Key.Key_Space)
    shell.settle()
    assert sent(shell.rig)[1:] == (["priority J1 55"] if answer == "Do it anyway" else [])
    assert window.banners.text("waiting-held") == ""


@no_raise
def test_one_of_those_that_wait_for_a_yes_is_sent_by_enter(shell: Shell) -> None:
    window = offline(shell)
    for key in (Qt.Key.Key_P, Qt.Key.Key_BracketRight):
        press(shell, window, key)
    press(shell, window, Qt.Key.Key_W, _CTRL | _SHIFT)
    view = activity(window)
    press(shell, window, Qt.Key.Key_Return)
    assert not sent(shell.rig), "the farm is away"
    back(shell, job_row(1, priority=70), job_row(2))
    assert view.waits.model.rowCount() == 1
    assert "somebody else set it" in view.waits.model.index(0, 2).data()
    assert view.waits.send.text() == "Do it anyway"
    assert QApplication.focusWidget() is view.waits.table
    press(shell, window, Qt.Key.Key_Return)
    assert sent(shell.rig) == ["pause J1", "priority J1 55"]


# -- before it is lost -----------------------------------------------------------------------------------


@no_raise
@pytest.mark.parametrize("way", ["key", "close"])
def test_quitting_asks_once_and_no_is_what_enter_says(shell: Shell, way: str) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)

    def leave() -> LossSheet:
        if way == "key":
            press(shell, window, Qt.Key.Key_Q, _CTRL)
        else:
            window.close()
            shell.settle()
        (sheet,) = sheets(window)
        return sheet

    sheet = leave()
    assert sheet.accessibleName() == "1 action was not sent. Quit and lose it?"
    press(shell, window, Qt.Key.Key_Return)
    assert window.isVisible()
    assert len(later(window).waits) == 1
    sheet = leave()
    press(shell, window, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is sheet.yes
    press(shell, window, Qt.Key.Key_Return)
    assert shell.made[0].open == ()
    assert len(shell.rig.settings.get(WINDOWS)) == 1, "the window comes back"
    assert not sent(shell.rig)


@no_raise
def test_a_window_that_is_not_the_last_one_is_closed_unasked(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    other = shell.made[0].new()
    shell.settle()
    window.close()
    shell.settle()
    assert shell.made[0].open == (other,)
    assert len(later(other).waits) == 1, "what waits is of all windows"
    later(other).take_back_all()


@no_raise
def test_without_anything_that_waits_nothing_is_asked(shell: Shell) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_Q, _CTRL)
    assert shell.made[0].open == ()


@no_raise
@pytest.mark.parametrize("agree", [True, False])
def test_another_farm_is_connected_only_after_a_yes(shell: Shell, agree: bool) -> None:
    window = offline(shell)
    press(shell, window, Qt.Key.Key_P)
    window.show_welcome()
    shell.settle()
    page: Any = window.pages.currentWidget()
    page.connect_to.emit("farm-B")
    shell.settle()
    (sheet,) = sheets(window)
    assert sheet.accessibleName() == "1 action waits for farm-A. Connect to farm-B and drop them?"
    (sheet.yes if agree else sheet.no).click()
    shell.settle()
    assert shell.rig.dialled() == (["farm-B"] if agree else [])
    assert bool(later(window).waits) is not agree
    if agree:
        assert "“Pause J1” was dropped: meant for farm-A" in [
            one.text for one in shell.rig.notices.activity
        ]  # fmt: skip
    else:
        page.connect_to.emit("farm-A")
        assert shell.rig.dialled() == ["farm-A"], "the same farm needs no question"
    later(window).take_back_all()


# -- settings, docks -------------------------------------------------------------------------------------


@no_raise
def test_after_how_long_it_is_asked_is_a_choice(shell: Shell) -> None:
    window = offline(shell)
    window.commands.show_settings()
    shell.settle()
    (sheet,) = window.findChildren(SettingsSheet)
    assert sheet.ask_after.currentText() == "go out unasked for 10 minutes"
    sheet.ask_after.setFocus()
    shell.qtbot.keyClick(sheet.ask_after, Qt.Key.Key_Down)
    shell.settle()
    assert shell.rig.settings.get(ASK_AFTER_MIN) == 60
    sheet.close_with(False)


def test_activity_says_nothing_of_what_waits_while_nothing_does(rig: Rig, qtbot: QtBot) -> None:
    view = ActivityView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    assert not view.waits.isVisible()
    assert any(record.name == "activity" for record in DOCKS)

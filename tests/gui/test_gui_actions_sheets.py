"""Sheets that ask before an action: by name, with what is lost, and nothing is sent without a yes."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext
from client_gui.actions.doing import AT_ONCE
from client_gui.actions.prompts import FieldSheet, PrioritySheet
from client_gui.net.port import Ask, Standing
from client_gui.store.farmstore import Link
from farm.protocol.client import ActReq
from tests.support.core_rig import Rig as CoreRig
from tests.support.core_rig import step
from tests.support.gui_core import CoreDesk
from tests.support.gui_rig import Rig, job_row
from tests.support.gui_stage import Stage, asked, press

# -- sheets that ask -------------------------------------------------------------------------------------


def test_cancelling_is_asked_about_by_name_and_no_is_the_answer_of_enter(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step(frames="1-4"))
    core.join()
    core.done(core.lease())
    core.lease()
    core.wait(1800, 1)
    desk = CoreDesk(core)
    desk.gui.now_us = core.now_us
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1,))
    stage.list.setFocus()
    press(qtbot, stage.list, "Shift+X")
    (sheet,) = stage.findChildren(ConfirmSheet)
    desk.gui.settle()
    told = sheet.card.accessibleDescription()
    assert "J1  job" in told
    assert "1 of 4 frames are done; their files stay." in told
    texts = " ".join(label.text() for label in sheet.findChildren(type(sheet.label(""))))
    assert "Lost: what 1 attempt did in 30 m 00 s on its nodes" in texts
    assert "0.50 USD" in texts
    focus = QApplication.focusWidget()
    assert focus is sheet.no
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    assert not desk.gui.port.asked(ActReq)
    press(qtbot, stage.list, "Shift+X")
    sheet = next(one for one in stage.findChildren(ConfirmSheet) if one.isVisible())
    seen = set()
    for _ in range(10):
        focus = QApplication.focusWidget()
        seen.add(focus)
        assert sheet.isAncestorOf(focus), "the keyboard stays in the sheet"
        if focus is sheet.yes:
            break
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    qtbot.keyClick(sheet.yes, Qt.Key.Key_Return)
    desk.gui.settle()
    assert [request.address for request in desk.gui.port.asked(ActReq)] == ["J1"]
    desk.close()


def test_of_many_the_count_has_to_be_typed(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n, name=f"<b>shot {n}</b>") for n in range(1, 31)))
    rig.actions.run("cancel", ActionContext("jobs", jobs=tuple(range(1, 31))))
    (sheet,) = stage.findChildren(ConfirmSheet)
    assert not sheet.yes.isEnabled()
    edit = QApplication.focusWidget()
    assert isinstance(edit, QLineEdit)
    qtbot.keyClicks(edit, "29")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert not sheet.yes.isEnabled()
    edit.clear()
    qtbot.keyClicks(edit, "30")
    assert sheet.yes.isEnabled()
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert not asked(rig), "Enter goes to the button, it does not press it"
    assert sheet.yes.hasFocus()
    qtbot.keyClick(sheet.yes, Qt.Key.Key_Return)
    assert len(asked(rig)) == AT_ONCE


def test_a_priority_shows_what_changes_and_artists_end_at_theirs(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step())
    core.submit(step(), priority=20)
    desk = CoreDesk(core, "artist", "ann")
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1, 2))
    stage.list.setFocus()
    press(qtbot, stage.list, "=")
    (sheet,) = stage.findChildren(PrioritySheet)
    assert sheet.box.maximum() == 75
    focus = QApplication.focusWidget()
    qtbot.keyClicks(focus, "70")
    assert sheet.preview.toPlainText().splitlines() == ["J1  job  50 → 70", "J2  job  20 → 70"]
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    assert sheet.apply.hasFocus()
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    assert [core.job(n).priority for n in (1, 2)] == [70, 70]
    desk.close()


def test_settings_show_old_and_new_of_every_job_and_come_back_with_undo(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step(attempts=2), project="mars")
    core.submit(step(attempts=4), project="mars")
    desk = CoreDesk(core)
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1, 2))
    stage.list.setFocus()
    press(qtbot, stage.list, "E")
    (sheet,) = stage.findChildren(FieldSheet)
    desk.gui.settle()
    focus = QApplication.focusWidget()
    qtbot.keyClicks(focus, "attempts")
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    edit = QApplication.focusWidget()
    assert isinstance(edit, QLineEdit)
    assert edit.accessibleName() == "attempts"
    assert (edit.text(), edit.placeholderText()) == ("", "various")
    qtbot.keyClicks(edit, "1000")
    assert not sheet.apply.isEnabled()
    assert "attempts" in sheet.trouble.text()
    edit.selectAll()
    qtbot.keyClicks(edit, "5")
    assert sheet.preview.toPlainText().splitlines() == ["J1  attempts  2 → 5", "J2  attempts  4 → 5"]
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    attempts = [core.job(n).steps[0].spec.attempts for n in (1, 2)]
    assert attempts == [5, 5]
    desk.gui.actions.take_back()
    desk.gui.settle()
    assert [core.job(n).steps[0].spec.attempts for n in (1, 2)] == [2, 4]
    desk.close()


def test_settings_of_a_node_are_checked_before_they_are_sent(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.join()
    desk = CoreDesk(core)
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("nodes", nodes=(1,))
    stage.list.setFocus()
    press(qtbot, stage.list, "E")
    (sheet,) = stage.findChildren(FieldSheet)
    slots = next(one for one in sheet.findChildren(QLineEdit) if one.accessibleName() == "slots")
    slots.setFocus()
    slots.selectAll()
    qtbot.keyClicks(slots, "many")
    assert not sheet.apply.isEnabled()
    assert "no number" in sheet.trouble.text()
    slots.selectAll()
    qtbot.keyClicks(slots, "3")
    qtbot.keyClick(slots, Qt.Key.Key_Return)
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    assert core.node(1).settings.slots == 3
    desk.close()


def test_a_lost_connection_while_a_question_is_open_sends_nothing(stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("cancel", ActionContext("jobs", jobs=(1,)))
    (sheet,) = stage.findChildren(ConfirmSheet)
    rig.give(Standing(Link.LOST, "gone"))
    sheet.yes.click()
    assert not asked(rig)
    assert "nothing was sent" in list(rig.notices.activity)[-1].text


def test_asks_are_never_repeated_by_themselves(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    asks = [message for message in rig.port.posted if isinstance(message, Ask)]
    assert [ask.repeat for ask in asks] == [False]

"""The Submit dock without the farm: what waits, is sent once, and outlives the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable
from farm.protocol.client import EstimateReq, SubmitReply, SubmitReq
from tests.support.gui_rig import Rig
from tests.support.gui_submit import Dock, command_file, sent, taken

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


# -- without the farm ------------------------------------------------------------------------------------


def offline(rig: Rig) -> None:
    rig.give(Standing(Link.LOST, "nobody answers"))


def test_a_job_waits_for_the_farm_and_is_sent_once_when_it_is_back(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    offline(rig)
    rig.port.answers[SubmitReq] = taken()
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    assert dock.view.footer.submit.text() == "Submit when farm-A is back"
    dock.send()
    assert "waits: sent as soon as farm-A is back" in dock.words()
    assert dock.view.tabs.accessibleTabName(0) == "made, waits for the farm"
    assert rig.port.asked(SubmitReq) == []
    rig.give(Standing(Link.LIVE))
    dock.until(lambda: rig.focus.job == 12)
    rig.give(Standing(Link.LOST), Standing(Link.LIVE))
    rig.settle()
    assert len(rig.port.asked(SubmitReq)) == 1


def test_what_waits_can_be_taken_back_and_changed(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    offline(rig)
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    form = dock.view.form()
    assert form is not None
    assert not form.rows["name",].editor.isEnabled(), "what is on its way is not changed"
    assert dock.view.footer.submit.text() == "Take it back"
    dock.view.footer.submit.click()
    assert form.rows["name",].editor.isEnabled()
    rig.give(Standing(Link.LIVE))
    assert rig.port.asked(SubmitReq) == []


def test_a_lost_answer_is_asked_for_again_with_the_same_token(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def lost(_request: SubmitReq) -> SubmitReply:
        raise FarmUnreachable("the broker gave no answer")

    rig.port.answers[SubmitReq] = lost
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: dock.view.outbox._again.isActive())
    assert "waits: sent as soon as farm-A is back" in dock.words()
    rig.port.answers[SubmitReq] = taken(again=True)
    dock.view.outbox._again.stop()  # its time has come
    dock.view.outbox.pump()
    dock.until(lambda: rig.focus.job == 12)
    first, second = sent(rig)
    assert first["token"] == second["token"]
    assert "it was there already" in next(iter(rig.notices.activity.find())).text


def test_drafts_and_what_waits_outlive_the_program(rig: Rig, qtbot: QtBot, tmp_path: Path) -> None:
    dock = Dock(rig, qtbot)
    del rig.port.answers[EstimateReq]
    dock.open(command_file(tmp_path / "one.json"), command_file(tmp_path / "two.json", name="other"))
    dock.until(lambda: dock.view.tabs.count() == 2 and dock.ready)
    dock.send()  # no answer ever comes
    dock.until(lambda: rig.port.asked(SubmitReq))
    token = sent(rig)[0]["token"]
    dock.close()
    again = Rig()
    again.port.answers[SubmitReq] = taken(again=True)
    after = Dock(again, qtbot)
    after.until(lambda: again.port.asked(SubmitReq) and after.view.tabs.count() == 1)
    assert sent(again)[0]["token"] == token
    assert after.view.tabs.tabText(0) == "made"
    after.close()
    again.close()


def test_a_job_that_waits_for_one_farm_is_not_sent_to_another(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    offline(rig)
    dock.send()
    rig.client.farm = "farm-B"
    rig.give(Standing(Link.LIVE))
    dock.until(lambda: "waits for farm-A; connected is farm-B" in dock.words())
    assert rig.port.asked(SubmitReq) == []


def test_a_closed_draft_can_be_had_back(dock: Dock, tmp_path: Path) -> None:
    dock.open(command_file(tmp_path / "job.json"))
    draft = dock.draft()
    dock.press(Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert dock.view.tabs.count() == 0
    assert "Drop a .blend" in dock.words()
    dock.view.reopen(draft)
    assert dock.draft() is draft

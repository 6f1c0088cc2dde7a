"""What is wrong with a job, beside its field in the Submit dock, and what it would take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.store.activity import Level
from farm.model.errors import CallError, JobFileError
from farm.protocol.client import EstimateReply, EstimateReq, SubmitReply, SubmitReq
from tests.support.gui_rig import Rig
from tests.support.gui_submit import Dock, command_file, known

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


# -- what is wrong ---------------------------------------------------------------------------------------


def test_every_wrong_value_is_named_beside_its_field_and_nothing_is_sent(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    dock.open(command_file(tmp_path / "job.json", priority=200, scout="few"))
    dock.until(lambda: dock.standing.startswith("✕ Priority: "))
    assert dock.beside("priority") == "✕ needs a whole number from 0 to 100, not 200"
    assert dock.beside("scout").endswith("not 'few'")
    assert "and 1 more" in dock.standing
    dock.send()
    assert dock.has_keys().accessibleName() == "Priority", "it goes to what is wrong"
    assert dock.has_keys().accessibleDescription() == "needs a whole number from 0 to 100, not 200"
    dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert dock.has_keys().accessibleName() == "Scout frames"
    assert rig.port.asked(SubmitReq) == []
    assert rig.port.asked(EstimateReq) == []
    dock.fill("Scout frames", "3")
    dock.view.next_problem()
    dock.fill("Priority", "60")
    dock.until(lambda: dock.ready)
    assert dock.beside("priority") == ""


def test_what_is_wrong_in_a_closed_part_of_the_form_can_be_reached(dock: Dock, tmp_path: Path) -> None:
    path = command_file(tmp_path / "job.json")
    document = json.loads(path.read_text())
    document["steps"] += [
        {"name": f"s{n}", "renderer": "command", "kind": "single", "params": {"command": ["/bin/true"]}}
        for n in range(3)
    ]
    document["steps"][2]["resources"] = {"cores": 0}
    path.write_text(json.dumps(document))
    dock.open(path)
    dock.until(lambda: "at least one core" in dock.standing)
    assert dock.standing.startswith("✕ Cores of step 3 s1: ")
    dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert dock.has_keys().accessibleName() == "Cores"
    dock.type("1")
    dock.until(lambda: "Cores of step 3" not in dock.standing)


def test_a_refusal_of_the_farm_stands_beside_the_field_it_names(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def refuse(_request: SubmitReq) -> SubmitReply:
        raise CallError("steps[0].limits: there is no limit 'nuke'", hint="the policy names maya")

    rig.port.answers[SubmitReq] = refuse
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: "no limit 'nuke'" in dock.standing)
    assert dock.has_keys().accessibleName() == "Limits"
    assert dock.beside("steps.0.limits") == "✕ there is no limit 'nuke' (the policy names maya)"
    assert dock.draft().editable
    assert [n.level for n in rig.notices.activity.find()] == [Level.ERROR]


def test_what_no_node_can_take_is_sent_only_with_a_tick(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def impossible(request: SubmitReq) -> SubmitReply:
        if request.force:
            return SubmitReply(id=request.id, job=3, warnings=("it waits",))
        raise JobFileError("no node has it", "steps[0]", hint="`--force` submits it all the same")

    rig.port.answers[SubmitReq] = impossible
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    assert not dock.view.footer.force.isVisible()
    dock.send()
    dock.until(lambda: dock.view.footer.force.isVisible())
    assert not dock.view.footer.submit.isEnabled()
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: rig.focus.job == 3)
    assert [request.force for request in rig.port.asked(SubmitReq)] == [False, True]
    assert "J3: it waits" in [n.text for n in rig.notices.activity.find()]


def test_who_may_not_submit_is_told_so(qapp: QApplication, qtbot: QtBot, tmp_path: Path) -> None:
    rig = Rig(role="agent")
    dock = Dock(rig, qtbot)
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: "the key of an agent only renders" in dock.standing)
    assert not dock.view.footer.submit.isEnabled()
    dock.close()
    rig.close()


# -- the estimate ----------------------------------------------------------------------------------------


def test_an_estimate_is_of_the_job_as_it_is_now_and_outdated_ones_are_given_up(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    del rig.port.answers[EstimateReq]
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: rig.port.asked(EstimateReq))
    assert "asking what it would take" in dock.words()
    (first,) = rig.port.asked(EstimateReq)
    rig.port.answers[EstimateReq] = known
    dock.fill("Frames", "1-20")
    dock.until(lambda: len(rig.port.asked(EstimateReq)) == 2)
    assert rig.canceled() == [first.id]
    dock.until(lambda: "1.20 USD to 2.00 USD" in dock.words())
    assert json.loads(rig.port.asked(EstimateReq)[1].job)["steps"][0]["frames"] == "1-20"


def test_where_nothing_is_known_scout_frames_are_advised(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    rig.port.answers[EstimateReq] = lambda request: EstimateReply(
        id=request.id, frames=10, unknown=("make",), warnings=("steps[0]: slow",)
    )
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: "Nothing is known of steps like these" in dock.words())
    assert "scout frames" in dock.words()
    assert "! Step 1 make: slow" in dock.words(), "places are called as in the form"

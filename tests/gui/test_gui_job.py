"""The dock of one job and its head: what each asks the farm for only while somebody looks."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext
from client_gui.actions.prompts import PrioritySheet
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.views.job import JobView
from farm.model.states import UnitState
from farm.protocol.client import ActReply, ActReq
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_job_dock import until
from tests.support.gui_rig import NOW_US, Rig


def texts(view: JobView) -> list[str]:
    """What the head says."""
    return [label.text() for label in view.header.findChildren(QLabel) if not label.isHidden()]


# -- the dock --


def test_a_hidden_dock_follows_nothing_and_a_shown_one_just_its_job(
    rig: Rig, job: JobOf, qtbot: QtBot
) -> None:
    rig.focus.set_job(12)
    view = JobView(rig.desk)
    qtbot.addWidget(view)
    assert rig.followed() == ()
    view.show()
    assert rig.followed() == ("jobs", "nodes", "job:12")
    job.show()
    rig.focus.set_job(13)
    assert rig.followed() == ("jobs", "nodes", "job:13")
    view.hide()
    assert rig.followed() == ()


def test_shown_again_it_is_right_and_asks_for_figures_again(
    view: JobView, rig: Rig, job: JobOf, qtbot: QtBot
) -> None:
    until(rig, qtbot, lambda: view.frames.model.median_s() is not None)
    view.hide()
    assert view.board.figures.columns("beauty") is None, "a hidden dock keeps no figures up to date"
    job.steps["beauty"].states[0] = UnitState.FAILED
    view.show()
    job.show()
    until(rig, qtbot, lambda: view.board.figures.columns("beauty") is not None)
    assert view.board.state("beauty", 0) == UnitState.FAILED


def test_without_a_job_it_says_so(rig: Rig, qtbot: QtBot) -> None:
    view = JobView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    assert any("No job is chosen" in label.text() for label in view.findChildren(QLabel))
    assert view.header.isHidden()
    rig.focus.set_job(99)
    assert any("J99 is loading" in label.text() for label in view.findChildren(QLabel))
    rig.give(Standing(Link.LOST, "no answer"))
    view.refresh()
    assert any("cannot be asked" in label.text() for label in view.findChildren(QLabel))
    view.hide()


def test_another_job_starts_without_a_selection(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    view.board.picked.select("beauty", [1, 2, 3])
    other = JobOf(rig, {"beauty": StepOf(states_of(50, done=10))}, job=13)
    rig.focus.set_job(13)
    other.show()
    assert view.board.job == 13
    assert view.board.picked.count == 0
    assert view.board.frames["beauty"].units == 50
    assert view.action_context() == ActionContext("jobs", (13,))


def test_a_tab_is_wanted_by_its_name_and_remembered(view: JobView, rig: Rig) -> None:
    rig.focus.show("job/graph")
    assert view.tab == "graph"
    again = JobView(rig.desk)
    assert again.tab == "graph"
    again.deleteLater()


# -- the head --


def test_the_head_says_how_far_it_is_and_what_it_costs(view: JobView) -> None:
    said = texts(view)
    assert "sh0420_fx_v018" in said
    assert "41 / 201" in said
    assert "1.25 USD" in said
    assert "2.80–3.40 USD" in said
    assert "0.050 USD (4%)" in said
    assert "41 done, 5 running, 3 failed, 52 queued, 100 blocked" in said
    assert "J12 · ana · dune · priority 60" in said
    assert "3 failed" in view.header.bar.accessibleDescription()


def test_the_head_promises_no_end_of_a_job_that_is_paused(view: JobView, job: JobOf, rig: Rig) -> None:
    job.fields.update(state="paused", reason="paused by ana", eta_low_us=NOW_US, eta_high_us=NOW_US + 1)
    rig.delta((job.row(),))
    assert "any minute" not in texts(view)
    ready = next(one for one in view.header.findChildren(QLabel) if one.accessibleName() == "ready: —")
    assert ready.toolTip().startswith("paused: ")


def test_a_name_with_tags_is_shown_as_it_is(view: JobView, job: JobOf, rig: Rig) -> None:
    job.fields["name"] = "<b>bold</b>"
    rig.delta((job.row(),))
    label = next(label for label in view.header.findChildren(QLabel) if label.text() == "<b>bold</b>")
    assert label.textFormat() is Qt.TextFormat.PlainText


def test_buttons_do_what_they_say_or_say_why_not(
    view: JobView, rig: Rig, job: JobOf, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, ActionContext]] = []
    reasons = {"cancel": "an artist acts on own jobs"}
    monkeypatch.setattr(rig.actions, "judge", lambda context: lambda action: reasons.get(action, ""))
    monkeypatch.setattr(rig.actions, "run", lambda action, context, value="": done.append((action, context)))
    view.header.refresh()
    buttons = view.header.buttons
    assert not buttons["cancel"].isEnabled()
    assert buttons["cancel"].toolTip() == "Not possible: an artist acts on own jobs"
    assert buttons["retry"].text() == "Retry 3 failed frames"
    qtbot.mouseClick(buttons["retry"], Qt.MouseButton.LeftButton)
    qtbot.mouseClick(buttons["pause"], Qt.MouseButton.LeftButton)
    assert done == [("retry", ActionContext("jobs", (12,))), ("pause", ActionContext("jobs", (12,)))]
    job.fields["state"] = "paused"
    rig.delta((job.row(),))
    assert buttons["pause"].isHidden()
    assert not buttons["resume"].isHidden()


def test_buttons_of_the_head_ask_first_where_work_is_lost(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    rig.actions.theme = rig.theme
    buttons = view.header.buttons
    buttons["cancel"].setFocus()
    qtbot.keyClick(buttons["cancel"], Qt.Key.Key_Space)
    sheet = view.findChild(ConfirmSheet)
    assert sheet is not None
    assert sheet.isVisible()
    qtbot.keyClick(sheet.no, Qt.Key.Key_Return)
    assert not sheet.isVisible()
    assert not rig.port.asked(ActReq), "Enter means no"
    qtbot.keyClick(buttons["cancel"], Qt.Key.Key_Space)
    sheets = [one for one in view.findChildren(ConfirmSheet) if one.isVisible()]
    sheets[0].yes.click()
    assert [(one.action, one.address) for one in rig.port.asked(ActReq)] == [("cancel", "J12")]
    qtbot.mouseClick(buttons["priority"], Qt.MouseButton.LeftButton)
    asked = view.findChild(PrioritySheet)
    assert asked is not None
    asked.box.setValue(70)
    assert asked.apply.isEnabled()
    asked.apply.click()
    assert rig.port.asked(ActReq)[-1].value == "70"


def test_a_job_that_ended_says_when_and_forecasts_nothing(view: JobView, job: JobOf, rig: Rig) -> None:
    job.fields.update(state="done", ended_us=NOW_US - 60_000_000)
    rig.delta((job.row(),))
    said = texts(view)
    assert "ended" in said
    assert "ready" not in said
    assert "2.80–3.40 USD" not in said


def test_without_a_connection_buttons_of_the_job_wait_for_it_or_say_why_not(rig: Rig, view: JobView) -> None:
    buttons = view.header.buttons
    assert buttons["pause"].isEnabled()
    rig.give(Standing(Link.LOST, "no answer", retry_in_s=3.0))
    able = {name for name, button in buttons.items() if button.isEnabled() and not button.isHidden()}
    assert able == {"pause", "priority"}
    assert "not connected" in buttons["cancel"].toolTip()
    buttons["pause"].click()
    assert "paused, waits" in texts(view)
    assert not buttons["resume"].isHidden(), "what waits can be turned round"
    buttons["resume"].click()
    assert ", waits" not in texts(view)
    assert not rig.actions.later.waits
    rig.give(Standing(Link.LIVE))
    assert buttons["pause"].isEnabled()

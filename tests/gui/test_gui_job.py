"""The dock of one job: its head, its tabs, and what each asks the farm for only while somebody looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPersistentModelIndex, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext
from client_gui.actions.prompts import PrioritySheet
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.views.job import JobView
from client_gui.views.job_parts.tables import RowModel, TableColumn
from farm.model.errors import UnknownName
from farm.model.states import UnitState
from farm.protocol.client import ActReply, ActReq, AttemptsReq, FramesReq, HistoryReq, JobReq
from tests.support.gui_job import JobOf, StepOf, attempt, change, states_of
from tests.support.gui_rig import NOW_US, Rig

SPEC = {
    "overcrank_job": 1,
    "name": "shot",
    "priority": 60,
    "token": "t0k3n",
    "steps": [
        {"name": "sim", "renderer": "houdini", "kind": "single", "after": [{"job": "J7"}]},
        {
            "name": "beauty",
            "renderer": "blender",
            "frames": "1001-1100",
            "after": ["sim"],
            "env": {"OCIO": "/c.ocio", "FLEX_PASSWORD": "hunter2"},
            "resources": {"cores": 8},
        },
        {
            "name": "comp",
            "renderer": "nuke",
            "frames": "1001-1100",
            "after": [{"step": "beauty", "frames": True, "on_failure": "skip"}],
        },
    ],
}


@pytest.fixture
def job(rig: Rig) -> JobOf:
    found = JobOf(
        rig,
        {
            "sim": StepOf(states_of(1, done=1)),
            "beauty": StepOf(states_of(100, done=40, running=5, failed=3)),
            "comp": StepOf(states_of(100, blocked=100)),
        },
        name="sh0420_fx_v018",
        priority=60,
        spend_nano=1_250_000_000,
        waste_nano=50_000_000,
        cost_low_nano=2_800_000_000,
        cost_high_nano=3_400_000_000,
    )
    found.spec = SPEC
    return found


@pytest.fixture
def view(rig: Rig, job: JobOf, qtbot: QtBot) -> Iterator[JobView]:
    rig.focus.set_job(12)
    found = JobView(rig.desk)
    qtbot.addWidget(found)
    found.resize(1000, 900)
    found.show()
    qtbot.waitExposed(found)
    job.show()
    rig.settle()
    yield found
    found.hide()
    rig.settle()


def until(rig: Rig, qtbot: QtBot, so: Any) -> None:
    """Waits until something is so, while the farm answers."""
    qtbot.waitUntil(lambda: bool(rig.settle()) or bool(so()))


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


def test_a_setting_of_a_step_comes_back_with_undo(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    view.show_tab("settings")
    model = view.settings.model
    until(rig, qtbot, lambda: model.rowCount())
    assert model.setData(model.index(_setting(view, "beauty", "cores"), 2), "16")
    rig.settle()
    rig.actions.take_back()
    rig.settle()
    sent = [(one.action, one.address, json.loads(one.value)) for one in rig.port.asked(ActReq)]
    assert sent == [
        ("set", "J12/beauty", {"resources.cores": "16"}),
        ("set", "J12/beauty", {"resources.cores": "8"}),
    ]


def test_a_job_that_ended_says_when_and_forecasts_nothing(view: JobView, job: JobOf, rig: Rig) -> None:
    job.fields.update(state="done", ended_us=NOW_US - 60_000_000)
    rig.delta((job.row(),))
    said = texts(view)
    assert "ended" in said
    assert "ready" not in said
    assert "2.80–3.40 USD" not in said


# -- steps --


def test_steps_are_listed_and_enter_shows_their_frames(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    view.show_tab("steps")
    table, model = view.steps.table, view.steps.model
    assert [model.index(row, 0).data() for row in range(3)] == ["sim", "beauty", "comp"]
    assert model.index(1, 2).data() == "40 done, 5 running, 3 failed, 52 queued"
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert rig.focus.step == "comp"
    assert view.action_context().units[0].address == "J12/comp"
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert view.tab == "frames"
    assert view.board.step == "comp"


# -- graph --


def test_the_graph_is_asked_for_when_looked_at_and_gone_through_with_keys(
    view: JobView, rig: Rig, qtbot: QtBot
) -> None:
    assert rig.port.asked(JobReq) == []
    view.show_tab("graph")
    until(rig, qtbot, lambda: view.graph.graph.accessibleDescription())
    graph = view.graph.graph
    said = graph.accessibleDescription()
    assert "beauty waits for sim" in said
    assert "comp waits for beauty frame by frame, on failure: skip" in said
    assert "sim waits for J7" in said
    assert graph.at == "beauty"
    assert graph.rect_of("sim").right() < graph.rect_of("beauty").left() < graph.rect_of("comp").left()
    qtbot.keyClick(graph, Qt.Key.Key_Right)
    assert (graph.at, rig.focus.step) == ("comp", "comp")
    qtbot.keyClick(graph, Qt.Key.Key_Left)
    qtbot.keyClick(graph, Qt.Key.Key_Left)
    assert rig.focus.step == "sim"
    assert "sim: " in graph.accessibleDescription()
    qtbot.mouseClick(graph, Qt.MouseButton.LeftButton, pos=graph.rect_of("beauty").center())
    assert rig.focus.step == "beauty"
    qtbot.keyClick(graph, Qt.Key.Key_Left)
    qtbot.keyClick(graph, Qt.Key.Key_Left)
    qtbot.keyClick(graph, Qt.Key.Key_Return)
    assert rig.focus.job == 7, "the other job is looked at"


def test_a_job_file_that_does_not_come_says_why(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    def refuse(body: JobReq) -> object:
        raise UnknownName("there is no job J12", hint="it was deleted")

    rig.port.answers[JobReq] = refuse
    view.show_tab("graph")
    until(
        rig,
        qtbot,
        lambda: any("there is no job J12" in label.text() for label in view.graph.findChildren(QLabel)),
    )


# -- settings --


def _setting(view: JobView, step: str, name: str) -> int:
    rows = view.settings.model.rows
    return next(place for place, (_, row) in enumerate(rows) if (row.step, row.name) == (step, name))


def test_a_setting_is_changed_through_the_action_and_secrets_are_not_shown(
    view: JobView, rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, ActionContext, str]] = []
    olds: list[Any] = []
    monkeypatch.setattr(rig.actions, "why_not", lambda action, context: "")

    def run(action: str, context: ActionContext, value: str = "", before: Any = None) -> None:
        olds.append(before)
        done.append((action, context, value))

    monkeypatch.setattr(rig.actions, "run", run)
    view.show_tab("settings")
    model, table = view.settings.model, view.settings.table
    until(rig, qtbot, lambda: model.rowCount())
    shown = [str(model.index(row, 2).data()) for row in range(model.rowCount())]
    assert "hunter2" not in "".join(shown)
    assert "t0k3n" not in "".join(shown)
    assert "/c.ocio" in shown
    row = _setting(view, "beauty", "cores")
    table.setFocus()
    table.setCurrentIndex(model.index(row, 2))
    qtbot.keyClick(table, Qt.Key.Key_Return)
    editor = table.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "8"
    editor.setText("16")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(done))
    action, context, value = done[0]
    assert (action, context.scope, context.units[0].address) == ("set", "steps", "J12/beauty")
    assert json.loads(value) == {"resources.cores": "16"}
    assert olds == [{"J12/beauty": {"resources.cores": "8"}}], "else there would be no undo"
    assert model.index(row, 2).data() == "8", "it changes when the farm says that it has"


def test_what_cannot_be_set_has_no_editor(
    view: JobView, rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        rig.actions, "why_not", lambda action, context: "" if context.scope == "steps" else "no"
    )
    view.show_tab("settings")
    model = view.settings.model
    until(rig, qtbot, lambda: model.rowCount())
    editable = Qt.ItemFlag.ItemIsEditable
    assert model.flags(model.index(_setting(view, "beauty", "cores"), 2)) & editable
    assert not model.flags(model.index(_setting(view, "beauty", "renderer"), 2)) & editable
    assert not model.flags(model.index(_setting(view, "sim", "frames"), 2)) & editable
    name = model.index(_setting(view, "", "name"), 2)
    assert not model.flags(name) & editable
    assert name.data(Qt.ItemDataRole.ToolTipRole).endswith("no")


def test_settings_are_copied_without_secrets(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    view.show_tab("settings")
    until(rig, qtbot, lambda: view.settings.model.rowCount())
    table = view.settings.table
    table.selectRow(_setting(view, "beauty", "OCIO"))
    qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "beauty.OCIO: /c.ocio"
    view.settings.copy_file()
    text = QGuiApplication.clipboard().text()
    assert json.loads(text)["steps"][1]["env"]["OCIO"] == "/c.ocio"
    assert "hunter2" not in text
    assert "t0k3n" not in text


def test_settings_follow_an_edit(view: JobView, rig: Rig, job: JobOf, qtbot: QtBot) -> None:
    view.show_tab("settings")
    until(rig, qtbot, lambda: view.settings.model.rowCount())
    job.spec = {**SPEC, "priority": 75}
    job.fields["priority"] = 75
    rig.delta((job.row(),))
    until(rig, qtbot, lambda: view.settings.model.index(_setting(view, "", "priority"), 2).data() == "75")


# -- history --


def test_history_is_paged_by_scrolling_and_no_change_is_lost(
    view: JobView, rig: Rig, job: JobOf, qtbot: QtBot
) -> None:
    # Some moments have several changes, also where a page ends.
    job.history = [change(number // 3, reason=f"change {number}") for number in range(500)]
    view.show_tab("history")
    model, table = view.history.changes, view.history.table
    until(rig, qtbot, lambda: model.rowCount() == 200)
    assert len(rig.port.asked(HistoryReq)) == 1
    for _ in range(6):
        table.scrollToBottom()
        rig.settle()
    until(rig, qtbot, lambda: bool(table.scrollToBottom()) or model.rowCount() == 500)
    seen = {model.index(row, 4).data() for row in range(500)}
    assert seen == {f"change {number}" for number in range(500)}
    asked = len(rig.port.asked(HistoryReq))
    table.scrollToTop()
    table.scrollToBottom()
    rig.settle()
    assert len(rig.port.asked(HistoryReq)) <= asked + 1, "there is no more to ask for"


def test_history_says_who_changed_what_from_what_to_what(
    view: JobView, rig: Rig, job: JobOf, qtbot: QtBot
) -> None:
    job.history = [change(5), change(9, what="paused", old="", new="paused", who="", reason="10 % failed")]
    view.show_tab("history")
    model = view.history.changes
    until(rig, qtbot, lambda: model.rowCount() == 2)
    assert [model.index(0, column).data() for column in range(1, 5)] == [
        "ana",
        "priority",
        "50 → 60",
        "client",
    ]
    assert [model.index(1, column).data() for column in range(1, 5)] == [
        "farm",
        "paused",
        "paused",
        "10 % failed",
    ]
    view.history.filter.setText("10 % FARM")
    assert model.rowCount() == 1
    view.history.filter.clear()
    job.history.append(change(0, new="70", old="60"))
    job.fields["priority"] = 70
    rig.delta((job.row(),))
    until(rig, qtbot, lambda: model.rowCount() == 3)
    assert model.index(0, 3).data() == "60 → 70", "the newest first"


def test_attempts_of_the_frame_that_is_looked_at_are_listed_and_looked_at(
    view: JobView, rig: Rig, job: JobOf, qtbot: QtBot
) -> None:
    job.attempts = [attempt(9, outcome="done", reason=""), attempt(4)]
    view.board.picked.click("beauty", 3)
    view.show_tab("history")
    model, table = view.history.tries, view.history.attempts
    until(rig, qtbot, lambda: model.rowCount() == 2)
    assert rig.port.asked(AttemptsReq)[-1].address == "J12/beauty/1004"
    assert [model.index(1, column).data() for column in range(7)] == [
        "4",
        "1004",
        "rack-001",
        "render",
        "failed",
        model.index(1, 5).data(),
        "2 m 00 s",
    ]
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert (rig.focus.step, rig.focus.unit, rig.focus.attempt) == ("beauty", 3, 4)


# -- rows that are replaced by difference --


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), min_size=1, max_size=5), st.randoms())
def test_rows_that_stay_keep_their_place_for_who_holds_them(lists: list[list[int]], random: Any) -> None:
    model = RowModel([TableColumn("n", str)])
    for wanted in lists:
        held = [
            (QPersistentModelIndex(model.index(row, 0)), model.row(row)) for row in range(model.rowCount())
        ]
        model.put([(number, number) for number in wanted])
        assert [model.row(row) for row in range(model.rowCount())] == wanted
        for index, number in held:
            if number in wanted:
                assert model.row(index.row()) == number
            else:
                assert not index.isValid()


def test_the_row_model_keeps_qts_rules(qtmodeltester: ModelTester) -> None:
    model = RowModel([TableColumn("n", str), TableColumn("double", lambda n: str(2 * n), right=True)])
    qtmodeltester.check(model)
    rng = np.random.default_rng(3)
    for _ in range(30):
        wanted = rng.permutation(25)[: int(rng.integers(0, 25))].tolist()
        model.put([(number, number) for number in wanted])


def test_frames_are_asked_for_by_a_frames_tab_only(view: JobView, rig: Rig, qtbot: QtBot) -> None:
    until(rig, qtbot, lambda: rig.port.asked(FramesReq))
    view.show_tab("steps")
    before = len(rig.port.asked(FramesReq))
    view.board.details.ask()
    rig.settle()
    assert len(rig.port.asked(FramesReq)) == before

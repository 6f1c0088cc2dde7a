"""The tabs of a job's dock: steps, graph, settings and history, each asked for when it is looked at."""

from __future__ import annotations

import json
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

from client_gui.actions.context import ActionContext
from client_gui.views.job import JobView
from client_gui.views.job_parts.tables import RowModel, TableColumn
from farm.model.errors import UnknownName
from farm.protocol.client import ActReply, ActReq, AttemptsReq, FramesReq, HistoryReq, JobReq
from tests.support.gui_job import JobOf, attempt, change
from tests.support.gui_job_dock import SPEC, until
from tests.support.gui_rig import Rig

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

"""Actions by keyboard, from menus and by buttons: each does something, or says why not."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.records import BY_ID, RECORDS
from client_gui.desk import Focus
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.model.errors import CallError
from farm.protocol.client import ActReq
from tests.support.gui_rig import Rig, job_row, node_row, step_row
from tests.support.gui_stage import JOB_STATES, Stage, asked, press

# -- by keyboard ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "key"),
    [(record.id, key) for record in RECORDS for key in record.keys if key not in ("Return", "Enter")],
)
def test_every_key_does_something_or_says_why_not(
    qtbot: QtBot, stage: Stage, rig: Rig, action: str, key: str
) -> None:
    book = rig.actions
    book.watch(stage)
    rig.client.look("test", jobs=True, nodes=True)
    rig.snapshot(
        tuple(job_row(n, state=state) for n, state in enumerate(JOB_STATES, 1)),
        tuple(node_row(n, state=state, enabled=n % 2 == 0) for n, state in enumerate(("online", "lost"), 1)),
    )
    invoked: list[str] = []
    own = ("palette", "shortcuts")
    for record in RECORDS:
        if not record.changes and record.id not in (*own, "undo"):
            book.handle(record.id, lambda context, value, name=record.id: invoked.append(name))
    scopes = {scope.value for scope in BY_ID[action].scopes}
    contexts = {
        "jobs": [ActionContext("jobs", jobs=(n,)) for n in range(1, len(JOB_STATES) + 1)],
        "steps": [ActionContext("steps", units=(UnitsOf(1, "beauty"),))],
        "frames": [ActionContext("frames", units=(UnitsOf(1, "beauty", (3,), "4", frozenset({"failed"})),))],
        "nodes": [ActionContext("nodes", nodes=(n,)) for n in (1, 2)],
    }
    tried = [context for scope in sorted(scopes & set(contexts)) for context in contexts[scope]]
    for context in tried or [ActionContext()]:
        stage.context = context
        stage.list.setFocus()
        posted, told = len(asked(rig)), rig.notices.activity.version
        invoked.clear()
        reason = book.why_not(action, context)
        press(qtbot, stage.list, key)
        rig.settle()
        sheets = [one for one in stage.findChildren(QWidget, "sheet") if one.isVisible()]
        sent = len(asked(rig)) - posted
        if reason:
            assert rig.notices.activity.version > told, f"{key} on {context} says nothing"
            assert not sent
            assert not sheets
            assert not invoked
        else:
            assert sent or sheets or invoked == [action], f"{key} on {context} does nothing"
            acts = {getattr(body, "action", "") for body in asked(rig)[posted:]} - {""}
            farm = BY_ID[action].farm
            assert acts <= {farm, "resume" if farm == "pause" else farm}, f"{key} does something else"
        for sheet in sheets:
            qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
            assert not sheet.isVisible()
            assert stage.list.hasFocus(), "the focus goes back to the list"
        assert len(asked(rig)) - posted == sent, "Esc sends nothing"


def test_letters_are_typed_in_a_text_and_press_no_action(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stage.context = ActionContext("jobs", jobs=(1,))
    stage.edit.setFocus()
    qtbot.keyClicks(stage.edit, "paused ]=/?K")
    assert stage.edit.text() == "paused ]=/?K"
    stage.button.setFocus()
    for key in ("P", "X", "Shift+X", "Del", "A"):
        press(qtbot, stage.button, key)
    assert not asked(rig)
    assert not rig.notices.activity.version
    stage.list.setFocus()
    press(qtbot, stage.list, "P")
    assert [request.action for request in rig.port.asked(ActReq)] == ["pause"]


def test_keys_that_were_changed_count_at_once_and_are_remembered(
    qtbot: QtBot, stage: Stage, rig: Rig
) -> None:
    book = rig.actions
    book.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stage.context = ActionContext("jobs", jobs=(1,))
    with pytest.raises(CallError, match="already"):
        book.set_keys("pause-toggle", ["R"])
    book.set_keys("pause-toggle", ["Ctrl+P"])
    press(qtbot, stage.list, "P")
    assert not asked(rig)
    press(qtbot, stage.list, "Ctrl+P")
    assert len(asked(rig)) == 1
    from client_gui.actions.book import ActionBook

    again = ActionBook(rig.client, rig.focus, rig.notices, rig.settings)
    assert again.keymap.keys("pause-toggle") == ("Ctrl+P",)


def test_keys_that_were_changed_in_one_window_are_heard_in_the_others(qtbot: QtBot, rig: Rig) -> None:
    from client_gui.actions.book import ActionBook

    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stages = [Stage(), Stage()]
    books = [
        ActionBook(rig.client, Focus(rig.client), rig.notices, rig.settings, rig.client, shared=rig.actions)
        for _ in stages
    ]
    for one, book in zip(stages, books, strict=True):
        qtbot.addWidget(one)
        one.context = ActionContext("jobs", jobs=(1,))
        book.watch(one)
    books[0].set_keys("pause-toggle", ["Ctrl+Alt+P"])
    with qtbot.waitActive(stages[1]):
        stages[1].show()
        stages[1].activateWindow()
    stages[1].list.setFocus()
    press(qtbot, stages[1].list, "P")
    assert not asked(rig)
    press(qtbot, stages[1].list, "Ctrl+Alt+P")
    assert len(asked(rig)) == 1
    menu = books[1].menu(stages[1].context, stages[1])
    (entry,) = [one for one in menu.actions() if one.objectName() == "pause-toggle"]
    assert "Ctrl+Alt+P" in entry.text().replace(" ", "")
    menu.deleteLater()


# -- menus -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [*JOB_STATES, ""])
@pytest.mark.parametrize("scope", ["", "jobs", "steps", "frames", "nodes", "holodeck"])
def test_a_menu_opens_on_every_state(stage: Stage, rig: Rig, state: str, scope: str) -> None:
    rig.client.look("test", jobs=True, nodes=True, opened=frozenset({1}))
    rig.snapshot((job_row(1, state=state, steps=(step_row(state=state),)),), (node_row(1, state=state),))
    context = ActionContext(
        scope, jobs=(1, 99), units=(UnitsOf(1, "beauty", (0,), "1", frozenset({state})), UnitsOf(1, "gone")),
        nodes=(1, 99),
    )  # fmt: skip
    menu = rig.actions.menu(context, stage)
    top = [action for action in menu.actions() if not action.isSeparator()]
    assert len(top) <= 12
    entries = [*top, *(inner for action in top if action.menu() for inner in action.menu().actions())]
    for entry in entries:
        if entry.menu() or entry.isSeparator():
            continue
        assert entry.toolTip()
        if not entry.isEnabled():
            assert entry.toolTip() == entry.statusTip()
            assert entry.toolTip().startswith("Not possible: ")
    named = {entry.objectName() for entry in entries if entry.objectName()}
    if scope in ("jobs", "steps", "frames", "nodes"):
        assert named == {record.id for record in RECORDS if scope in {one.value for one in record.scopes}}
    menu.deleteLater()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_rows_stand_still_under_a_menu_and_it_means_what_was_selected(
    qtbot: QtBot, stage: Stage, rig: Rig
) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1), job_row(2)))
    menu = rig.actions.menu(ActionContext("jobs", jobs=(2,)), stage.list)
    menu.popup(stage.mapToGlobal(stage.rect().center()))
    qtbot.waitUntil(menu.isVisible)
    assert stage.held == 1
    rig.delta((job_row(3),), gone=("J1",))
    entry = next(action for action in menu.actions() if action.objectName() == "pause-toggle")
    menu.setActiveAction(entry)
    qtbot.keyClick(menu, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: stage.held == 0)
    assert [request.address for request in rig.port.asked(ActReq)] == ["J2"]


def test_a_button_is_grey_with_the_reason_and_wakes_with_the_connection(stage: Stage, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    button = rig.actions.button("cancel", lambda: ActionContext("jobs", jobs=(1,)), stage)
    waits = rig.actions.button("pause", lambda: ActionContext("jobs", jobs=(1,)), stage)
    assert button.isEnabled()
    rig.give(Standing(Link.LOST, "gone"))
    assert not button.isEnabled()
    assert button.toolTip() == (
        "Not possible: not connected: gone; it is not sent later: what runs by then would lose its work"
    )
    assert waits.isEnabled(), "pausing waits for the farm"
    waits.click()
    assert not asked(rig)
    assert waits.toolTip() == "Not possible: J1 is paused already", "as good as"
    rig.actions.later.take_back_all()
    assert waits.isEnabled()
    rig.give(Standing(Link.LIVE))
    assert button.isEnabled()
    waits.click()
    assert len(asked(rig)) == 1


@pytest.mark.parametrize(
    ("counts", "meant"),
    [
        (((0, 4, 0, 0, 0, 0, 0), (0, 4, 0, 0, 0, 0, 0)), ""),
        (((0, 0, 1, 3, 0, 0, 0), (4, 0, 0, 0, 0, 0, 0)), "beauty"),
        (((0, 0, 1, 3, 0, 0, 0), (0, 0, 0, 3, 1, 0, 0)), "comp"),
        (((0, 0, 0, 4, 0, 0, 0), (0, 0, 0, 4, 0, 0, 0)), "comp"),
    ],
)
def test_the_log_of_a_job_is_of_the_step_that_tells_most(
    qapp: QApplication, counts: tuple[tuple[int, ...], ...], meant: str
) -> None:
    rig = Rig()
    rig.client.look("test", jobs=True)
    steps = tuple(step_row(name, counts=one) for name, one in zip(("beauty", "comp"), counts, strict=True))
    rig.snapshot((job_row(1, steps=steps), job_row(2)))
    rig.desk.focus.set_job(2)
    rig.actions.run("log", ActionContext("jobs", jobs=(1,)))
    assert (rig.desk.focus.job, rig.desk.focus.step) == (1, meant)
    rig.desk.focus.set_unit("beauty", 3)
    rig.actions.run("log", ActionContext("jobs", jobs=(1,)))
    assert (rig.desk.focus.step, rig.desk.focus.unit) == ("beauty", 3), "what is looked at already stays"
    rig.close()

"""The list of jobs: what a row says, acted on by keyboard, and quiet while the farm is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QSpinBox
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.actions.records import BY_ID
from client_gui.models.order_model import ID_ROLE
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.views.jobs import JobsView
from client_gui.views.listing import OF_LISTS, ListView
from client_gui.views.nodes import NodesView
from farm.protocol.client import ActReq
from tests.support.gui_jobs import cell, jobs, shown, type_filter
from tests.support.gui_rig import NOW_US, Rig, job_row, replaced, step_row


def test_it_follows_jobs_only_while_it_is_looked_at(rig: Rig, make: Callable[..., JobsView]) -> None:
    view = make()
    assert rig.followed() == ("jobs",)
    assert shown(view) == [1, 2, 3, 4, 5, 6], "the newest first"
    view.hide()
    assert rig.followed() == ()
    rig.client.look("other", jobs=True)
    rig.snapshot((*jobs(), job_row(7, submitted_us=NOW_US)))
    view.show()
    assert shown(view)[0] == 7, "what came while it was hidden is there"


def test_a_row_says_all_an_artist_asks(make: Callable[..., JobsView]) -> None:
    view = make()
    assert cell(view, 6, "name") == "sh050_fx"
    assert cell(view, 6, "state") == "running"
    assert cell(view, 6, "progress") == "40 %"
    assert cell(view, 6, "done") == "40/100"
    assert cell(view, 6, "failed") == "2"
    assert cell(view, 6, "mean") == "12 s"
    assert cell(view, 6, "priority") == "80"
    assert cell(view, 6, "age") == "6 h"
    assert cell(view, 6, "cost") == "1.25"
    assert cell(view, 6, "forecast") == "2.80–3.40"
    assert "–" in cell(view, 6, "eta"), "a range and no promise"
    assert cell(view, 5, "eta") == "", "what is done is ready"
    model = view.model
    bar = model.index(model.row_of(6), model.column_of("progress"))
    spoken = bar.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "40 % done: 40 done, 10 running, 50 queued"


def test_unknown_states_of_a_newer_farm_are_shown(rig: Rig, make: Callable[..., JobsView]) -> None:
    view = make((job_row(1, state="dreaming", steps=(step_row(counts=(0, 50, 10, 38, 0, 0, 0, 2)),)),))
    assert cell(view, 1, "state") == "dreaming"
    tip = view.model.index(0, view.model.column_of("progress")).data(Qt.ItemDataRole.ToolTipRole)
    assert tip == "38 done, 10 running, 50 queued, 2 in another state"
    view.grab()


def test_keys_choose_open_and_find(rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    view.table.setFocus()
    qtbot.keyClick(view.table, Qt.Key.Key_Down)
    qtbot.keyClick(view.table, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: rig.focus.job == 2)
    qtbot.keyClick(view.table, Qt.Key.Key_Return)
    assert wanted == ["job"]
    qtbot.keyClick(view.table, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert view.action_context().jobs == (1, 2, 3, 4, 5, 6)
    qtbot.keyClick(view.table, "/")
    assert view.bar.edit.hasFocus()
    qtbot.keyClicks(view.bar.edit, "fx")
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Return)
    assert view.table.hasFocus()


def test_home_and_end_go_to_the_first_and_the_last_row(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    table, shift = view.table, Qt.KeyboardModifier.ShiftModifier
    table.setFocus()
    assert table.go_to(3)
    column = table.currentIndex().column()
    qtbot.keyClick(table, Qt.Key.Key_End)
    assert (table.current_id(), sorted(view.model.selection.ids)) == (6, [6])
    assert table.currentIndex().column() == column
    qtbot.keyClick(table, Qt.Key.Key_Home)
    assert (table.current_id(), sorted(view.model.selection.ids)) == (1, [1])
    table.go_to(3)
    qtbot.keyClick(table, Qt.Key.Key_End, shift)
    assert sorted(view.model.selection.ids) == [3, 4, 5, 6]
    qtbot.keyClick(table, Qt.Key.Key_Home, shift)
    assert sorted(view.model.selection.ids) == [1, 2, 3]
    assert view.action_context().jobs == (1, 2, 3)
    view.do("select-all")
    assert len(view.model.selection) == 6
    type_filter(qtbot, view, "nobody-has-this")
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_End)  # no row at all: nothing happens
    assert view.model.rowCount() == 0


def test_a_foot_button_that_turns_grey_gives_the_keys_to_the_list(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    with qtbot.waitActive(view):
        view.activateWindow()
    view.table.go_to(1)
    qtbot.waitUntil(view.foot.buttons["pause-toggle"].isEnabled)
    view.foot.buttons["pause-toggle"].setFocus()
    assert view.foot.buttons["pause-toggle"].hasFocus()
    rig.give(Standing(Link.REFUSED, "the key was revoked"))
    # What is possible is worked out a few milliseconds at a time.
    qtbot.waitUntil(lambda: not view.foot.buttons["pause-toggle"].isEnabled())
    assert view.table.hasFocus()
    rig.give(Standing(Link.CONNECTING, "gone"))
    assert view.table.hasFocus()


def test_letters_are_not_eaten_by_the_table(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    view.table.go_to(1)
    for letter in "rskp":
        qtbot.keyClick(view.table, letter)
    assert view.table.current_id() == 1, "no type-ahead moves away from what an action means"


def test_actions_mean_what_is_selected_hidden_or_not(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    view.table.select_ids({2, 6, 3})
    assert view.action_context() == ActionContext("jobs", jobs=(2, 3, 6))
    type_filter(qtbot, view, "fx")
    context = view.action_context()
    assert (context.jobs, context.hidden) == ((2, 6, 3), 1)
    view.table.select_ids(())
    view.table.go_to(6)
    view.table.select_ids(())
    assert view.action_context().jobs == (6,), "without a selection it is the current row"


def test_the_foot_sums_up_and_its_buttons_say_why_not(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    view.table.select_ids({2, 6})
    qtbot.waitUntil(lambda: view.foot.words().startswith("2 selected"))
    assert (
        view.foot.words() == "2 selected  ·  80 of 200 frames done  ·  10 running  ·  5 failed  ·  2.50 USD"
    )
    view.table.select_ids({5})
    qtbot.waitUntil(lambda: view.foot.words().startswith("1 selected"))
    retry = view.foot.buttons["retry"]
    qtbot.waitUntil(lambda: not retry.isEnabled())
    assert retry.toolTip() != ""
    view.table.select_ids({2})
    qtbot.waitUntil(retry.isEnabled)


def test_a_priority_is_edited_in_place_and_shown_as_under_way(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    view.table.go_to(6)
    qtbot.keyClick(view.table, Qt.Key.Key_F2)
    editor = view.table.findChild(QSpinBox)
    assert editor is not None
    assert editor.value() == 80
    rig.delta((replaced(jobs()[5], priority=81),))
    qtbot.keyClicks(editor, "95")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(rig.port.asked(ActReq)))
    request = rig.port.asked(ActReq)[-1]
    assert (request.action, request.value) == ("priority", "95")
    index = view.model.index(view.model.row_of(6), view.model.column_of("priority"))
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "81, about to become 95"
    view.grab()


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_rows_stand_still_under_an_open_menu(rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    view.table.go_to(2)
    view.table.menu_wanted.emit(view.table.mapToGlobal(QPoint(5, 5)))
    menu = view.findChild(QMenu)
    assert menu is not None
    before = shown(view)
    rig.delta((job_row(7, submitted_us=NOW_US), job_row(8, submitted_us=NOW_US)), gone=("J1",))
    assert shown(view)[1:] == before[1:]
    assert view.foot.hint() == "3 changes pending"
    menu.close()
    qtbot.waitUntil(lambda: shown(view) == [7, 8, 2, 3, 4, 5, 6])
    assert view.foot.hint() == ""
    assert view.model.selection.ids == {2}


def test_selection_and_place_survive_a_new_state_of_everything(
    rig: Rig, make: Callable[..., JobsView]
) -> None:
    many = tuple(job_row(n, submitted_us=NOW_US - n * 1_000_000) for n in range(1, 400))
    view = make(many)
    view.table.go_to(200)
    top = view.table.indexAt(QPoint(5, 2)).data(ID_ROLE)
    assert top > 100
    rig.give(Standing(Link.LOST, "the broker is gone"))
    assert view.table.cells.stale
    rig.give(Standing(Link.LIVE))
    rig.snapshot(
        (*(replaced(row, done=41) for row in many if row.job != 150), job_row(500, submitted_us=NOW_US))
    )
    assert view.model.selection.ids == {200}
    assert view.table.indexAt(QPoint(5, 2)).data(ID_ROLE) == top
    assert not view.table.cells.stale


def test_a_job_chosen_elsewhere_is_gone_to(rig: Rig, make: Callable[..., JobsView]) -> None:
    view = make()
    rig.focus.set_job(4)
    assert view.model.selection.ids == {4}
    view.table.select_ids({2, 3})
    rig.focus.set_job(5)
    assert view.model.selection.ids == {2, 3}, "a selection of several is not undone"


@pytest.mark.parametrize("look", ["dark", "light"])
def test_it_can_be_painted_in_every_look(rig: Rig, make: Callable[..., JobsView], look: str) -> None:
    rig.theme.set_look(look)
    view = make()
    for place in range(len(view.model.columns)):
        view.table.columns.show(place)
    rig.actions.marks.toggle_star((1,))
    rig.actions.marks.set_colour((1, 2), 4)
    picture = view.grab().toImage()
    assert not picture.isNull()
    before = view.table.verticalHeader().defaultSectionSize()
    rig.theme.dense = True
    rig.theme.changed.emit()
    assert view.table.verticalHeader().defaultSectionSize() < before


def test_everything_without_words_has_a_name(make: Callable[..., JobsView]) -> None:
    from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QLineEdit

    view = make()
    for kind in (QAbstractButton, QAbstractItemView, QLineEdit):
        for widget in view.findChildren(kind):
            if widget.isVisible() and not isinstance(widget.parent(), QLineEdit):
                text = widget.text() if isinstance(widget, QAbstractButton) else ""
                assert widget.accessibleName() or text, widget


@pytest.mark.parametrize("kind", [JobsView, NodesView])
def test_buttons_and_keys_of_lists_are_actions_there_are(kind: type[ListView]) -> None:
    assert {*kind.likely, *OF_LISTS} <= set(BY_ID)

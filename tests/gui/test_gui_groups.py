"""Jobs in groups: headers chosen, opened and closed by keys and mouse, acted on, remembered."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QMenu
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.actions.records import BY_ID
from client_gui.models.order_model import ID_ROLE
from client_gui.settings import Setting
from client_gui.store.groups import GroupKey
from client_gui.views.jobs import OF_GROUPS, JobsView
from farm.protocol.client import ActReq
from tests.support.gui_jobs import HOUR_US, chips, shown, type_filter
from tests.support.gui_rig import NOW_US, Rig, job_row, replaced, step_row

Make = Callable[..., JobsView]
SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
ANA, BO, CY = (GroupKey("user", name) for name in ("ana", "bo", "cy"))


def by_user(make: Make, *closed: str) -> JobsView:
    """The usual six jobs by user: ana has 1, 3, 4; bo 2, 6; cy 5."""
    view = make()
    view.do("group-user")
    view.model.fold([GroupKey("user", name) for name in closed], closed=True)
    return view


def lines(view: JobsView) -> str:
    """What is listed: jobs by number, headers by name."""
    return " ".join(one.name if isinstance(one, GroupKey) else str(one) for one in shown(view))


def head(view: JobsView, key: GroupKey, column: str = "name", role: int = Qt.ItemDataRole.DisplayRole) -> str:
    """What a header says in a column."""
    model = view.model
    return str(model.index(model.row_of(key), model.column_of(column)).data(role))


def selected(view: JobsView) -> list[Any]:
    """What Qt shows as selected, from the top."""
    rows = sorted(index.row() for index in view.table.selectionModel().selectedRows(0))
    return [view.model.index(row, 0).data(ID_ROLE) for row in rows]


def at(view: JobsView, key: Any, x: int | None = None) -> QPoint:
    """A place in the row of a job or a header; where the mark is when nothing else is said."""
    model = view.model
    rect = view.table.visualRect(model.index(model.row_of(key), view.table.columns.first()))
    return QPoint(rect.left() + 6 if x is None else x, rect.center().y())


def test_headers_stand_between_their_jobs_and_say_what_these_come_to(make: Make) -> None:
    view = by_user(make)
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5", "who has the newest job comes first"
    assert head(view, ANA) == "ana"
    assert head(view, ANA, "done") == "80/300"
    assert head(view, ANA, "progress") == "26 %"
    assert head(view, BO, "failed") == "5"
    assert head(view, ANA, "cost") == "3.75"
    assert head(view, ANA, "running") == "10"
    assert head(view, ANA, "priority") == "", "what cannot be summed up is not"
    assert "–" in head(view, ANA, "eta")
    assert head(view, CY, "eta") == "", "all that is done"
    spoken = int(Qt.ItemDataRole.AccessibleTextRole)
    assert head(view, ANA, "name", spoken) == "user ana, 3 jobs, 1 running, expanded"
    assert head(view, BO, "name", spoken) == "user bo, 2 jobs, 1 running, 1 failed, expanded"
    assert head(view, BO, "done", spoken) == "Done 80/200"
    assert head(view, BO, "progress", spoken).startswith("Progress 40 %: 80 done, 10 running, 5 failed")
    assert view.bar.findChild(type(view.group_by)) is None or view.group_by.text() == "by user"
    assert (
        view.model.flags(view.model.index(0, view.model.column_of("priority"))) & Qt.ItemFlag.ItemIsSelectable
    )
    assert (
        not view.model.flags(view.model.index(0, view.model.column_of("priority")))
        & Qt.ItemFlag.ItemIsEditable
    )


def test_sums_follow_the_farm_in_closed_groups_too(rig: Rig, make: Make) -> None:
    view = by_user(make, "ana")
    assert lines(view) == "ana bo 2 6 cy 5"
    row = job_row(3, name="sh100_lgt", user="ana", done=90, failed=4, submitted_us=NOW_US - 3 * HOUR_US)
    rig.delta((row,))
    assert lines(view) == "ana bo 2 6 cy 5"
    assert head(view, ANA, "done") == "170/300"
    assert head(view, ANA, "failed") == "4"
    rig.delta((job_row(7, user="dee", submitted_us=NOW_US), replaced(row, user="bo")), gone=("J5",))
    assert lines(view) == "dee 7 ana bo 2 3 6", "an empty group vanishes"
    assert head(view, ANA, "name", int(Qt.ItemDataRole.AccessibleTextRole)).startswith("user ana, 2 jobs")


def test_keys_close_and_open(qtbot: QtBot, make: Make, rig: Rig) -> None:
    view = by_user(make)
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    table = view.table
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Home)
    assert table.current_id() == ANA
    assert rig.focus.job == 0, "a header is no job to look at"
    qtbot.keyClick(table, Qt.Key.Key_Left)
    assert lines(view) == "ana bo 2 6 cy 5"
    qtbot.keyClick(table, Qt.Key.Key_Right)
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5"
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert lines(view) == "ana bo 2 6 cy 5"
    qtbot.keyClick(table, Qt.Key.Key_Space)
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5"
    assert wanted == [], "Enter on a header opens no dock"
    assert table.current_id() == ANA
    column = table.currentIndex().column()
    qtbot.keyClick(table, Qt.Key.Key_Right)
    assert table.currentIndex().column() == column + 1, "an open group leaves the key to the cells"
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert table.current_id() == 1
    qtbot.keyClick(table, Qt.Key.Key_Left, SHIFT)
    assert lines(view) == "ana bo cy"
    assert table.current_id() == ANA, "the row that is no more to be seen hands over to its header"
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert table.current_id() == BO
    qtbot.keyClick(table, Qt.Key.Key_F2)
    assert table.state() == table.State.NoState, "there is nothing to edit"
    qtbot.keyClick(table, Qt.Key.Key_Right, SHIFT)
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5"
    assert selected(view) == [BO, 2, 6]


def test_the_mark_closes_and_opens_and_leaves_the_selection_alone(qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    view.table.go_to(5)
    port, left = view.table.viewport(), Qt.MouseButton.LeftButton
    qtbot.mouseClick(port, left, pos=at(view, BO))
    assert lines(view) == "ana 1 3 4 bo cy 5"
    assert (view.table.current_id(), view.model.selection.ids) == (5, {5})
    qtbot.mouseClick(port, left, pos=at(view, BO))
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5"
    qtbot.mouseClick(port, left, pos=at(view, BO, 300))
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5", "elsewhere a click chooses"
    assert selected(view) == [BO, 2, 6]
    qtbot.mouseDClick(port, left, pos=at(view, BO, 300))
    assert lines(view) == "ana 1 3 4 bo cy 5"
    assert not view.model.order.frozen


def test_a_chosen_header_means_its_jobs(qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    port, left = view.table.viewport(), Qt.MouseButton.LeftButton
    qtbot.mouseClick(port, left, pos=at(view, ANA, 300))
    assert view.action_context().jobs == (1, 3, 4)
    qtbot.waitUntil(lambda: view.foot.words().startswith("3 selected, all of ana  ·  80 of 300 frames done"))
    qtbot.mouseClick(port, left, CONTROL, at(view, BO, 300))
    assert view.action_context().jobs == (1, 3, 4, 2, 6)
    qtbot.waitUntil(lambda: view.foot.words().startswith("5 selected, all of 2 groups"))
    qtbot.mouseClick(port, left, CONTROL, at(view, 3, 300))
    assert view.action_context().jobs == (1, 4, 2, 6), "without the one that was taken out"
    assert selected(view) == [1, 4, BO, 2, 6]
    qtbot.mouseClick(port, left, CONTROL, at(view, BO, 300))
    assert view.action_context().jobs == (1, 4)
    assert selected(view) == [1, 4]
    qtbot.mouseClick(port, left, pos=at(view, ANA, 300))
    qtbot.mouseClick(port, left, pos=at(view, 3, 300))
    assert selected(view) == [3], "a click on one of them means that one"


def test_a_header_that_keys_come_to_means_its_jobs_as_one_that_is_clicked(qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    table = view.table
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Home)
    assert selected(view) == [ANA, 1, 3, 4], "what P would pause can be seen"
    qtbot.waitUntil(lambda: view.foot.words().startswith("3 selected, all of ana"))
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert selected(view) == [1]
    qtbot.keyClick(table, Qt.Key.Key_Up)
    assert selected(view) == [ANA, 1, 3, 4]
    for _ in range(2):
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at(view, BO, 300))
        assert selected(view) == [BO, 2, 6], "a second click chooses the same"


def test_a_range_over_a_header_takes_what_can_be_seen_in_it(qtbot: QtBot, make: Make) -> None:
    view = by_user(make, "bo")
    table = view.table
    table.setFocus()
    table.go_to(3)
    for _ in range(3):
        qtbot.keyClick(table, Qt.Key.Key_Down, SHIFT)  # over 4 and bo to cy's header
    assert view.action_context().jobs == (3, 4, 2, 6), "a closed group is in it with all it has"
    assert selected(view) == [3, 4, BO]
    qtbot.keyClick(table, Qt.Key.Key_Down, SHIFT)
    assert view.action_context().jobs == (3, 4, 2, 6, 5)
    qtbot.keyClick(table, Qt.Key.Key_Home)
    assert view.action_context().jobs == (1, 3, 4)
    qtbot.keyClick(table, Qt.Key.Key_End, SHIFT)
    assert view.action_context().jobs == (1, 3, 4, 2, 6, 5)
    view.do("select-all")
    assert view.action_context().jobs == (1, 3, 4, 2, 6, 5)
    view.do("select-invert")
    assert view.model.selection.ids == set()
    assert not view.model.selection.groups
    view.do("select-none")
    table.go_to(1)
    view.do("select-invert")
    assert view.action_context().jobs == (3, 4, 2, 6, 5)


def test_an_action_on_a_closed_group_acts_on_all_of_it(rig: Rig, qtbot: QtBot, make: Make) -> None:
    view = by_user(make, "ana", "bo")
    view.table.setFocus()
    view.table.go_to(ANA)
    assert view.action_context().jobs == (1, 3, 4)
    assert view.action_context().hidden == 0
    rig.actions.run("pause-toggle", view.action_context())
    asked = [(one.action, one.address) for one in rig.port.asked(ActReq)]
    assert asked == [("pause", "J1"), ("pause", "J3")], "4 is paused already"


def test_a_current_header_is_acted_on_when_nothing_is_chosen(make: Make) -> None:
    view = by_user(make, "bo")
    view.table.go_to(BO)
    view.do("select-none")
    assert view.table.current_id() == BO
    assert view.action_context().jobs == (2, 6)


@pytest.mark.qt_log_ignore("This plugin does not support", extend=True)
def test_nothing_moves_under_a_menu_and_all_goes_on_after_it(rig: Rig, qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    view.table.go_to(BO)
    view.table.menu_wanted.emit(view.table.mapToGlobal(QPoint(5, 5)))
    menu = view.findChild(QMenu)
    assert menu is not None
    before = lines(view)
    rig.delta((job_row(7, user="dee", submitted_us=NOW_US), job_row(1, user="cy", done=70)), gone=("J5",))
    assert lines(view) == before
    assert head(view, ANA, "done") == "40/200", "sums go on"
    assert view.foot.hint().endswith("changes pending")
    menu.close()
    qtbot.waitUntil(lambda: lines(view) == "dee 7 cy 1 bo 2 6 ana 3 4")
    assert selected(view) == [BO, 2, 6]
    assert view.table.current_id() == BO


def test_a_group_that_goes_and_comes_keeps_its_selection_and_stays_closed(rig: Rig, make: Make) -> None:
    view = by_user(make, "cy")
    view.table.go_to(CY)
    rig.delta(gone=("J5",))
    assert lines(view) == "ana 1 3 4 bo 2 6"
    assert view.action_context().jobs == ()
    rig.delta((job_row(8, user="cy", submitted_us=NOW_US),))
    assert lines(view) == "cy ana 1 3 4 bo 2 6"
    assert view.action_context().jobs == (8,)


def test_the_filter_comes_before_groups(qtbot: QtBot, make: Make) -> None:
    view = by_user(make, "bo")
    type_filter(qtbot, view, "lgt")
    assert lines(view) == "ana 1 3"
    assert head(view, ANA, "done") == "40/200"
    type_filter(qtbot, view, "fx")
    assert lines(view) == "bo"
    assert head(view, BO, "done") == "80/200"
    type_filter(qtbot, view, "nothing-of-that-name")
    assert lines(view) == ""
    assert view.pages.currentWidget() is view.blank
    view.bar.clear()
    assert lines(view) == "ana 1 3 4 bo cy 5"


def test_the_count_of_rows_is_one_of_jobs(qtbot: QtBot, make: Make) -> None:
    view = by_user(make, "ana", "bo", "cy")
    labels = [one.accessibleName() for one in view.bar.findChildren(QLabel)]
    assert "6 jobs shown" in labels
    type_filter(qtbot, view, "lgt")
    labels = [one.accessibleName() for one in view.bar.findChildren(QLabel)]
    assert "2 of 6 jobs shown" in labels


def test_sorting_holds_within_groups_and_for_groups(qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    view.table.columns.sort_by("done")
    assert lines(view) == "cy 5 ana 1 4 3 bo 2 6"
    view.table.columns.sort_by("user")
    assert lines(view) == "ana 1 3 4 bo 2 6 cy 5"
    view.table.columns.sort_by("user")
    assert lines(view) == "cy 5 bo 2 6 ana 1 3 4"
    view.table.columns.sort_by("priority")
    assert lines(view) == "bo 6 2 ana 1 3 4 cy 5"


def test_what_was_chosen_as_a_group_is_chosen_job_by_job_in_another_grouping(make: Make) -> None:
    view = by_user(make, "ana")
    view.table.go_to(ANA)
    view.do("group-project")
    assert lines(view) == "dune 1 2 3 4 6 arctic 5"
    assert view.model.selection.ids == {1, 3, 4}
    assert view.table.current_id() == 1
    view.do("group-none")
    assert lines(view) == "1 2 3 4 5 6"
    assert selected(view) == [1, 3, 4]


def test_the_choice_and_closed_groups_are_there_after_a_restart(rig: Rig, make: Make) -> None:
    first = by_user(make, "bo")
    first.do("group-state")
    first.model.fold([GroupKey("state", "paused")], closed=True)
    first.hide()
    again = make()
    assert again.group_by.by == "state"
    assert lines(again) == "running 1 6 failed 2 queued 3 paused done 5"
    again.do("group-user")
    assert lines(again) == "ana 1 3 4 bo cy 5"
    again.do("group-open")
    again.hide()
    third = make()
    assert lines(third) == "ana 1 3 4 bo 2 6 cy 5"


@pytest.mark.parametrize("kept", ["weather", "", "none"])
def test_a_choice_of_another_version_is_no_grouping(rig: Rig, make: Make, kept: str) -> None:
    first = by_user(make)
    rig.settings.set(Setting("jobs/group", ""), kept)
    closed: Setting[dict[str, Any]] = Setting("jobs/closed-groups", {})
    rig.settings.set(closed, {"user": "ana", "state": [1, None, "paused"]})
    first.hide()
    again = make()
    assert lines(again) == "1 2 3 4 5 6"
    again.do("group-state")
    assert lines(again) == "running 1 6 failed 2 queued 3 paused done 5"


def test_a_saved_view_remembers_its_grouping(qtbot: QtBot, make: Make) -> None:
    view = by_user(make)
    type_filter(qtbot, view, "cmp")
    view.save_view("Comps")
    view.bar.clear()
    view.do("group-none")
    view.save_view("Plain")
    chips(view)["Comps"].click()
    assert lines(view) == "ana 4 cy 5"
    view.bar.clear()
    view.do("group-project")
    chips(view)["Mine"].click()
    assert lines(view) == "dune 1 3 4", "one that never had a grouping leaves it as it is"


def test_the_button_has_a_menu_of_all_there_is(qtbot: QtBot, make: Make) -> None:
    view = make()
    assert view.group_by.accessibleName() == "group by, now no groups"
    menu = view.group_by.menu_of_choices()
    texts = [action.text().partition("\t")[0] for action in menu.actions() if action.text()]
    assert texts == [
        "No groups", "Project", "User", "State", "Renderer", "Day submitted", "Collapse all", "Expand all",
    ]  # fmt: skip
    next(action for action in menu.actions() if action.text() == "Day submitted").trigger()
    assert lines(view) == "2026-11-30 1 2 3 4 5 6"
    assert head(view, GroupKey("day", "2026-11-30")) == "Today"
    assert view.group_by.text() == "by day submitted"
    menu.deleteLater()


def test_every_grouping_is_an_action_of_the_palette(rig: Rig, make: Make) -> None:
    view = make()
    assert set(OF_GROUPS) <= set(BY_ID)
    rig.actions.run("group-renderer", view.action_context())
    assert lines(view) == "blender 1 2 3 4 5 6"
    rig.actions.run("group-close", view.action_context())
    assert lines(view) == "blender"
    rig.actions.run("group-open", view.action_context())
    rig.actions.run("group-none", view.action_context())
    assert lines(view) == "1 2 3 4 5 6"


def test_a_job_made_here_opens_its_group(rig: Rig, make: Make) -> None:
    view = by_user(make, "ana")
    rig.focus.take_job(9)
    rig.delta((job_row(9, user="ana", submitted_us=NOW_US),))
    assert lines(view) == "ana 9 1 3 4 bo 2 6 cy 5"
    assert view.model.selection.ids == {9}


def test_a_job_chosen_elsewhere_opens_no_group(rig: Rig, make: Make) -> None:
    view = by_user(make, "ana")
    rig.focus.set_job(3)
    assert lines(view) == "ana bo 2 6 cy 5"
    rig.focus.set_job(6)
    assert view.model.selection.ids == {6}


def many(count: int, users: int = 20) -> tuple[Any, ...]:
    return tuple(
        job_row(n, user=f"u{n % users:02d}", project=f"p{n % 7}", submitted_us=NOW_US - n * 1_000_000)
        for n in range(1, count + 1)
    )


def test_the_place_on_the_screen_stays_when_groups_close(rig: Rig, qtbot: QtBot, make: Make) -> None:
    view = make(many(400))
    view.do("group-user")
    view.table.go_to(210)
    top = view.table.indexAt(QPoint(5, 2)).data(ID_ROLE)
    assert isinstance(top, int)
    rig.delta(tuple(replaced(row, done=41) for row in many(400)[:80]))
    assert view.table.indexAt(QPoint(5, 2)).data(ID_ROLE) == top
    view.model.fold([GroupKey("user", "u01"), GroupKey("user", "u02")], closed=True)
    assert view.table.indexAt(QPoint(5, 2)).data(ID_ROLE) == top
    group = view.model.order.group_of(top)
    assert group is not None
    view.model.fold([group], closed=True)
    assert view.table.indexAt(QPoint(5, 2)).data(ID_ROLE) == group


def test_a_model_with_groups_keeps_qts_rules_whatever_happens(
    rig: Rig, make: Make, qtmodeltester: ModelTester
) -> None:
    rng = random.Random(7)
    rows = {row.job: row for row in many(20, users=5)}
    view = make(tuple(rows.values()))
    model = view.model
    qtmodeltester.check(model)
    for _ in range(30):
        what = rng.randrange(9)
        if what == 0:
            view.do(rng.choice(OF_GROUPS))
        elif what == 1:
            keys = model.order.groups_shown()
            model.fold(rng.sample(keys, min(2, len(keys))), closed=rng.random() < 0.6)
        elif what == 2:
            view.table.columns.sort_by(rng.choice(["done", "name", "eta", "progress", "user", "priority"]))
        elif what == 3:
            view.bar.set_text(rng.choice(["", "u0", "project:p1", "state:running"]))
        elif what == 4:
            (model.freeze if rng.random() < 0.5 else model.thaw)()
        elif what == 5 and model.rowCount():
            view.table.go_to(model.order.key_at(rng.randrange(model.rowCount())))
        else:
            picked = rng.sample(sorted(rows), 5)
            gone = picked[:1] if rng.random() < 0.5 and len(rows) > 12 else []
            for job in picked:
                rows[job] = replaced(
                    rows[job],
                    done=rng.randrange(100),
                    user=f"u0{rng.randrange(6)}",
                    state=rng.choice(["running", "queued", "failed", "done"]),
                )
            new = job_row(1000 + rng.randrange(8), user="new")
            rows[new.job] = new
            for job in gone:
                del rows[job]
            rig.delta(
                tuple(rows[job] for job in {*picked, new.job} - {*gone}), gone=tuple(f"J{g}" for g in gone)
            )
        before = set(model.selection.ids)
        assert before <= set(rows)
    model.thaw()
    jobs = [one for one in shown(view) if not isinstance(one, GroupKey)]
    assert jobs == model.order.ids()
    view.grab()


@pytest.mark.parametrize("look", ["dark", "light", "contrast"])
@pytest.mark.parametrize("by", ["user", "state", "day"])
def test_it_can_be_painted_in_every_look(rig: Rig, make: Make, look: str, by: str) -> None:
    view = make()
    rig.theme.set_look(look)
    view.do(f"group-{by}")
    plain = view.table.grab().toImage()
    view.table.go_to(view.model.order.groups_shown()[0])
    assert view.table.grab().toImage() != plain, "a chosen header can be seen"
    view.do("group-close")
    assert view.table.grab().toImage() != plain
    for place in range(view.table.horizontalHeader().count() - 1):
        view.table.columns.show(place, False)
    view.table.grab()


def test_headers_that_are_only_still_there_say_nothing_wrong(rig: Rig, make: Make) -> None:
    view = by_user(make)
    view.model.freeze()
    view.do("group-state")
    view.table.grab()
    assert [view.model.index(row, 1).data() for row in (0, 4, 7)] == ["", "", ""]
    view.model.thaw()
    assert lines(view) == "running 1 6 failed 2 queued 3 paused 4 done 5"
    assert QApplication.activePopupWidget() is None


def test_what_a_bar_of_a_group_is_made_of(rig: Rig, make: Make) -> None:
    counts = (0, 20, 10, 40, 5, 15, 10)
    row = job_row(1, user="ana", failed=5, steps=(step_row(counts=counts),))
    view = make((row,))
    view.do("group-user")
    tip = head(view, ANA, "progress", int(Qt.ItemDataRole.ToolTipRole))
    assert tip == "40 done, 10 running, 5 failed, 20 waiting, 25 skipped or canceled"

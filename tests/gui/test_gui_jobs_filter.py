"""The list of jobs, filtered: by typing, by chips, by saved views, and as time goes by."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from client_gui.views.jobs import JobsView
from tests.support.gui_jobs import HOUR_US, cell, chips, jobs, shown, type_filter
from tests.support.gui_rig import Rig, job_row


def test_a_filter_is_run_with_every_key_and_a_wrong_one_hides_nothing(
    qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    type_filter(qtbot, view, "lgt")
    assert shown(view) == [1, 3]
    type_filter(qtbot, view, "state:failed,running age<90m")
    assert shown(view) == [1]
    type_filter(qtbot, view, "mine -cmp")
    assert shown(view) == [1, 3]
    view.bar.edit.setText("mine -cmp age<2x")
    assert view.bar.edit.error is not None
    assert "unit of time" in view.bar.edit.message()
    assert shown(view) == [1, 3], "the list stays as it was"
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert shown(view) == [1, 2, 3, 4, 5, 6]


def test_a_field_that_is_being_typed_hides_nothing(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    edit = view.bar.edit
    seen: list[int] = []
    view.model.updated.connect(lambda update: seen.append(len(shown(view))))
    type_filter(qtbot, view, "state:failed")
    assert shown(view) == [2]
    assert 0 not in seen, "the list does not empty at `state`"
    edit.clear()
    qtbot.keyClicks(edit, "sta")
    assert len(shown(view)) == 6
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert shown(view) == [], "who means the word says so, or waits"


def test_a_word_that_no_field_has_is_doubted(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    type_filter(qtbot, view, "state:faild ")
    assert view.bar.edit.error is None
    assert "did you mean failed" in view.bar.edit.message()


def test_chips_mirror_the_filter_and_take_its_parts_away(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    type_filter(qtbot, view, "user:ana state:queued,paused")
    assert shown(view) == [3, 4]
    # They come with the next drawing of the list, so that no key waits for them.
    qtbot.waitUntil(lambda: {"user:ana", "state:queued,paused"} <= set(chips(view)))
    found = chips(view)
    qtbot.keyClick(found["user:ana"], Qt.Key.Key_Delete)
    assert view.bar.edit.text() == "state:queued,paused"
    found = chips(view)
    assert "user:ana" not in found
    chip = found["state:queued,paused"]
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton, pos=QPoint(chip.width() - 8, chip.height() // 2))
    assert shown(view) == [1, 2, 3, 4, 5, 6]


def test_what_could_be_typed_comes_from_the_farm(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    edit = view.bar.edit
    edit.setFocus()
    qtbot.keyClicks(edit, "user:")
    assert edit.offered == ("ana", "bo", "cy"), "those with most jobs first"
    qtbot.keyClick(edit, Qt.Key.Key_Down)
    qtbot.keyClick(edit, Qt.Key.Key_Down)
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert edit.text() == "user:bo "
    assert shown(view) == [2, 6]


def test_saved_views_count_live_and_can_be_taken_away_and_kept(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    assert view.bar.counts() == {"Mine": 3, "Running": 2, "Failing": 2, "Waiting": 1, "Done today": 1}
    rig.delta((job_row(3, user="ana", state="failed", failed=1), job_row(9, user="ana", state="queued")))
    assert view.bar.counts()["Failing"] == 3
    assert view.bar.counts()["Mine"] == 4
    found = chips(view)
    qtbot.waitUntil(lambda: found["Failing"].count == 3)
    qtbot.keyClick(found["Failing"], Qt.Key.Key_Space)
    assert set(shown(view)) == {2, 3, 6}
    assert found["Failing"].isChecked()
    assert "failed>0" not in chips(view), "a view's own chip says it already"
    type_filter(qtbot, view, "fx prio>60")
    view.bar.save_wanted.emit("hot fx")
    assert chips(view)["hot fx"].isChecked()
    view.views.remove("Mine")
    other = JobsView(rig.desk)
    qtbot.addWidget(other)
    assert [one.name for one in other.views.all()] == [
        "Running",
        "Failing",
        "Waiting",
        "Done today",
        "hot fx",
    ]


def test_artists_begin_with_their_own_jobs(qtbot: QtBot) -> None:
    rig = Rig(role="artist", user="bo")
    view = JobsView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    rig.snapshot(jobs())
    assert shown(view) == [2, 6]
    view.do("clear-filter")
    again = JobsView(rig.desk)
    qtbot.addWidget(again)
    again.show()
    assert len(shown(again)) == 6, "who chose to see everything sees everything"
    rig.close()


def test_filters_that_move_with_time_are_run_again(
    rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    type_filter(qtbot, view, "age<90m")
    assert shown(view) == [1]
    rig.now_us += HOUR_US
    view.tick()
    assert shown(view) == []
    assert cell_text(view) == "The filter hides all 6 jobs"
    view.do("clear-filter")
    assert cell(view, 1, "age") == "2 h"


def cell_text(view: JobsView) -> str:
    return view.blank.words().splitlines()[0] if view.blank.isVisible() else ""


def test_an_empty_list_says_why_and_what_to_do(rig: Rig, qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make(feed=False)
    qtbot.waitUntil(lambda: view.blank.accessibleName() == "loading")
    rig.snapshot(())
    assert "No jobs yet" in view.blank.words()
    assert "farm submit" in view.blank.words()
    wanted: list[str] = []
    rig.focus.wanted.connect(wanted.append)
    view.blank.button().click()
    assert wanted == ["submit"]
    rig.delta(jobs())
    assert view.table.isVisible()
    type_filter(qtbot, view, "nothing-has-this")
    assert "hides all 6 jobs" in view.blank.words()
    qtbot.keyClick(view.blank.button(), Qt.Key.Key_Space)
    assert len(shown(view)) == 6


def test_the_count_says_how_much_is_shown(qtbot: QtBot, make: Callable[..., JobsView]) -> None:
    view = make()
    type_filter(qtbot, view, "lgt")
    texts = [label.text() for label in view.bar.findChildren(type(view.bar._shown))]
    assert "2 of 6" in texts


def test_enter_in_the_filter_goes_to_what_it_left_not_to_what_it_hid(
    qtbot: QtBot, make: Callable[..., JobsView]
) -> None:
    view = make()
    view.table.go_to(5)
    type_filter(qtbot, view, "user:bo")
    assert view.action_context().jobs == (5,), "what is selected stays so while somebody types"
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Return)
    assert (view.action_context().jobs, view.action_context().hidden) == ((2,), 0)
    view.table.select_ids([1, 5])
    type_filter(qtbot, view, "user:bo sh")
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Return)
    assert view.action_context().jobs == (1, 5), "several were chosen with care"
    view.do("group-user")
    view.do("select-none")
    type_filter(qtbot, view, "user:ana")
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Return)
    assert view.action_context().jobs == (1,), "not all of ana's, whom nobody chose"

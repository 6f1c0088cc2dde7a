"""The table of frames and the panel of their times: one selection with the grid, figures in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QBuffer, QIODevice, QModelIndex, QPersistentModelIndex, QPoint, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QImage
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QToolButton, QWidget
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.net.port import Standing
from client_gui.store.farmstore import FarmChange, Link
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framecolumns import Col
from client_gui.views.job_parts.framemodel import BAR_ROLE, OUTLIER_ROLE, PROGRESS_ROLE
from client_gui.views.job_parts.framestab import FramesTab
from farm.model.states import UnitState
from farm.protocol.bulk import PreviewGetMsg, PreviewMsg
from farm.protocol.client import FramesReq
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_rig import Rig

_SHIFT, _CTRL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


class Stand:
    """The tab of frames on a board that follows a rig."""

    def __init__(self, rig: Rig, qtbot: QtBot, job: JobOf) -> None:
        self.rig, self.job, self.qtbot = rig, job, qtbot
        rig.client.look("test", jobs=True, nodes=True, opened=frozenset({job.job}))
        rig.focus.set_job(job.job)
        self.board = JobBoard(rig.desk)
        self.tab = FramesTab(self.board)
        qtbot.addWidget(self.tab)
        rig.client.changed.connect(self._changed)
        self.board.set_on(True)
        job.show()
        self.tab.resize(1000, 800)
        with qtbot.waitExposed(self.tab):
            self.tab.show()
        self.until(lambda: self.tab.model.median_s() is not None)

    def _changed(self, change: FarmChange) -> None:
        self.board.farm_changed(change)

    def until(self, so: object) -> None:
        """Waits until something is so, while the farm answers."""
        assert callable(so)
        self.qtbot.waitUntil(lambda: bool(self.rig.settle()) or bool(so()))

    def cell(self, row: int, column: Col) -> str:
        """What a cell of the table says."""
        return str(self.tab.model.index(row, column).data() or "")

    def units(self) -> list[int]:
        """Units by row."""
        return self.tab.model.units.tolist()

    def row_at(self, row: int) -> QPoint:
        """The middle of a row on the screen."""
        return self.tab.table.visualRect(self.tab.model.index(row, Col.FRAME)).center()

    def close(self) -> None:
        """Ends it."""
        self.board.set_on(False)
        self.tab.close()
        self.rig.settle()


@pytest.fixture
def stand(rig: Rig, qtbot: QtBot) -> Iterator[Stand]:
    step = StepOf(states_of(100, done=40, running=5, failed=3))
    step.seconds[7] = 900.0
    found = Stand(rig, qtbot, JobOf(rig, {"beauty": step, "film": StepOf(states_of(1, blocked=1))}))
    yield found
    found.close()


def test_the_model_keeps_qts_rules_while_the_farm_works(stand: Stand, qtmodeltester: ModelTester) -> None:
    qtmodeltester.check(stand.tab.model)
    stand.tab.model.set_states(frozenset({UnitState.DONE}))
    stand.job.move("beauty", dict.fromkeys(range(40, 60), UnitState.DONE))
    stand.tab.model.sort(Col.TIME, Qt.SortOrder.DescendingOrder)
    stand.job.move("beauty", {3: UnitState.QUEUED, 9: UnitState.FAILED})
    stand.tab.model.set_states(frozenset())
    assert sorted(stand.units()) == list(range(100))


def test_a_row_says_what_the_farm_says(stand: Stand) -> None:
    assert [stand.cell(2, column) for column in Col][:7] == [
        "1003",
        "done",
        "rack-003",
        "1 m 02 s",
        "2.0 GiB",
        "1",
        "0.062 USD",
    ]
    stand.tab.model.set_states(frozenset({UnitState.FAILED}))
    stand.until(lambda: stand.cell(0, Col.NOTE))
    assert stand.cell(0, Col.NOTE) == "oom-ram: no memory left"
    stand.tab.model.set_states(frozenset({UnitState.RUNNING}))
    stand.until(lambda: stand.cell(0, Col.STATE) == "running 50%")
    assert stand.tab.model.index(0, Col.STATE).data(PROGRESS_ROLE) == 0.5
    assert stand.tab.model.index(0, Col.TIME).data(PROGRESS_ROLE) is None


def test_time_bars_are_relative_to_the_median_and_outliers_are_marked(stand: Stand) -> None:
    model = stand.tab.model
    slow, usual = model.index(model.row_of(7), Col.TIME), model.index(model.row_of(2), Col.TIME)
    assert slow.data(OUTLIER_ROLE) is True
    assert slow.data(BAR_ROLE) == 1.0
    assert usual.data(OUTLIER_ROLE) is False
    assert 0 < usual.data(BAR_ROLE) < 0.7
    assert "times the median" in slow.data(Qt.ItemDataRole.AccessibleTextRole)
    assert model.index(model.row_of(60), Col.TIME).data(BAR_ROLE) is None


def test_only_what_is_on_the_screen_is_asked_for(stand: Stand) -> None:
    stand.until(lambda: stand.rig.port.asked(FramesReq))
    asked = [body.address for body in stand.rig.port.asked(FramesReq)]
    assert all(address.startswith("J12/beauty/") for address in asked)
    assert "1100" not in asked[0], "the last row cannot be seen"
    before = len(asked)
    stand.tab.table.scrollToBottom()
    stand.until(lambda: len(stand.rig.port.asked(FramesReq)) > before)
    assert stand.rig.port.asked(FramesReq)[-1].address.endswith("1100")


def test_what_is_scrolled_away_before_its_answer_is_given_up(rig: Rig, qtbot: QtBot) -> None:
    job = JobOf(rig, {"beauty": StepOf(states_of(2000, done=900))})
    stand = Stand(rig, qtbot, job)
    stand.until(lambda: stand.board.details.row("beauty", 0))
    del rig.port.answers[FramesReq]
    before = len(rig.port.asked(FramesReq))
    stand.tab.table.scrollToBottom()
    stand.until(lambda: len(rig.port.asked(FramesReq)) > before)
    number = rig.port.asked(FramesReq)[-1].id
    stand.tab.table.scrollToTop()
    qtbot.waitUntil(lambda: number in rig.canceled())
    stand.close()


def test_a_frame_that_changed_is_asked_for_again(stand: Stand) -> None:
    stand.until(lambda: stand.board.details.row("beauty", 3))
    before = len(stand.rig.port.asked(FramesReq))
    stand.job.move("beauty", {3: UnitState.FAILED})
    stand.until(lambda: stand.cell(3, Col.NOTE) == "oom-ram: no memory left")
    assert [body.address for body in stand.rig.port.asked(FramesReq)[before:]] == ["J12/beauty/1004"]


def test_grid_and_table_have_one_selection(stand: Stand, qtbot: QtBot) -> None:
    table = stand.tab.table
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=stand.row_at(4))
    assert stand.board.picked.units("beauty").tolist() == [4]
    assert (stand.rig.focus.step, stand.rig.focus.unit) == ("beauty", 4)
    qtbot.keyClick(table, Qt.Key.Key_Down, _SHIFT)
    qtbot.keyClick(table, Qt.Key.Key_Down, _SHIFT)
    assert stand.board.picked.units("beauty").tolist() == [4, 5, 6]
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, _CTRL, stand.row_at(9))
    assert stand.board.picked.units("beauty").tolist() == [4, 5, 6, 9]
    qtbot.keyClick(stand.tab.grid, Qt.Key.Key_Right)
    assert stand.board.picked.units("beauty").tolist() == [10]
    assert table.currentIndex().row() == 10, "the table goes where the grid went"
    qtbot.keyClick(table, Qt.Key.Key_A, _CTRL)
    assert stand.board.picked.count == 100


def test_shift_selects_what_is_shown_between_in_the_tables_order(stand: Stand, qtbot: QtBot) -> None:
    stand.tab.table.sortByColumn(Col.TIME, Qt.SortOrder.DescendingOrder)
    assert stand.units()[0] == 7, "the slowest first"
    assert np.isnan(stand.job.steps["beauty"].seconds[stand.units()[-1]]), "what is not known comes last"
    table = stand.tab.table
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=stand.row_at(0))
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, _SHIFT, stand.row_at(3))
    assert set(stand.board.picked.units("beauty").tolist()) == set(stand.units()[:4])


def test_a_filter_shows_what_fits_and_says_how_much(stand: Stand, qtbot: QtBot) -> None:
    box = stand.tab.filter
    qtbot.keyClicks(box, "time>80s -node:rack-003")
    qtbot.keyClick(box, Qt.Key.Key_Return)
    shown = stand.units()
    assert shown
    assert len(shown) < 40
    for unit in shown:
        assert stand.job.steps["beauty"].seconds[unit] > 80
        assert stand.job.steps["beauty"].nodes[unit] != 3
    assert f"{len(shown)} of 100" in stand.tab.count.text()
    stand.board.picked.select("beauty", [shown[0], 99])
    assert "2 selected (1 not shown)" in stand.tab.count.text()
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert len(stand.units()) == 100
    assert stand.board.picked.units("beauty").tolist() == sorted([shown[0], 99])


def test_a_filter_that_does_not_parse_says_so_and_leaves_what_was_shown(stand: Stand, qtbot: QtBot) -> None:
    qtbot.keyClicks(stand.tab.filter, "state:failed")
    qtbot.keyClick(stand.tab.filter, Qt.Key.Key_Return)
    assert stand.units() == [45, 46, 47]
    qtbot.keyClicks(stand.tab.filter, " time>")
    qtbot.keyClick(stand.tab.filter, Qt.Key.Key_Return)
    assert stand.units() == [45, 46, 47]
    said = [
        label.text()
        for label in stand.tab.findChildren(QWidget)
        if hasattr(label, "text") and callable(label.text)
    ]
    assert any("(at " in text for text in said)


def test_a_filter_may_ask_why_frames_failed(stand: Stand, qtbot: QtBot) -> None:
    qtbot.keyClicks(stand.tab.filter, "failure:oom-ram")
    qtbot.keyClick(stand.tab.filter, Qt.Key.Key_Return)
    stand.until(lambda: stand.units() == [45, 46, 47])
    assert any("known of failed frames" in label.text() for label in stand.tab.findChildren(QLabel))


def test_chips_show_states_and_follow_the_farm(stand: Stand, qtbot: QtBot) -> None:
    chip = stand.tab.chips[UnitState.FAILED]
    assert chip.text() == "3"
    assert "failed" in chip.accessibleName()
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert stand.units() == [45, 46, 47]
    stand.board.picked.select("beauty", [46])
    stand.job.move("beauty", {46: UnitState.QUEUED, 60: UnitState.FAILED})
    assert stand.units() == [45, 47, 60]
    assert stand.board.picked.units("beauty").tolist() == [46], "what is selected stays, shown or not"
    assert "(1 not shown)" in stand.tab.count.text()


def test_enter_and_a_double_click_show_the_log(stand: Stand, qtbot: QtBot) -> None:
    wanted: list[str] = []
    stand.rig.focus.wanted.connect(wanted.append)
    qtbot.mouseClick(stand.tab.table.viewport(), Qt.MouseButton.LeftButton, pos=stand.row_at(5))
    qtbot.keyClick(stand.tab.table, Qt.Key.Key_Return)
    qtbot.mouseDClick(stand.tab.table.viewport(), Qt.MouseButton.LeftButton, pos=stand.row_at(6))
    assert wanted == ["log", "log"]
    assert stand.rig.focus.unit == 6


class _Menu(QMenu):
    """A menu that is open without a screen."""

    def popup(self, *args: object) -> None:
        """Opens it."""


def test_rows_do_not_slip_from_under_an_open_menu(
    stand: Stand, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus: list[_Menu] = []
    contexts: list[ActionContext] = []

    def menu(context: ActionContext, parent: QWidget) -> QMenu:
        contexts.append(context)
        menus.append(_Menu(parent))
        return menus[0]

    monkeypatch.setattr(stand.rig.actions, "menu", menu)
    stand.tab.model.set_states(frozenset({UnitState.FAILED}))
    qtbot.mouseClick(stand.tab.table.viewport(), Qt.MouseButton.RightButton, pos=stand.row_at(1))
    at = stand.row_at(1)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, stand.tab.table.viewport().mapToGlobal(at))
    QApplication.sendEvent(stand.tab.table.viewport(), event)
    assert contexts[0].units[0].address == "J12/beauty/1047"
    stand.job.move("beauty", {45: UnitState.QUEUED})
    assert stand.units() == [45, 46, 47], "while the menu is open, nothing moves"
    menus[0].aboutToHide.emit()
    assert stand.units() == [46, 47]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.integers(0, 99), st.sampled_from(UnitState), max_size=15), max_size=5),
    st.sampled_from([Col.FRAME, Col.STATE, Col.TIME, Col.NODE, Col.TRIES]),
    st.booleans(),
    st.frozensets(st.sampled_from([1, 2, 3, 4]), max_size=3),
)
def test_rows_are_those_that_fit_in_order_and_the_selection_never_changes(
    stand: Stand, moves: list[dict[int, UnitState]], column: Col, down: bool, states: frozenset[int]
) -> None:
    model = stand.tab.model
    model.set_states(states)
    model.sort(column, Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder)
    stand.board.picked.select("beauty", [3, 50, 77])
    stand.board.picked.move("beauty", 50)
    kept = [QPersistentModelIndex(model.index(row, 0)) for row in range(0, len(model.units), 7)]
    units = [model.unit_at(index.row()) for index in kept]
    for changes in moves:
        stand.job.move("beauty", changes)
        known = stand.job.steps["beauty"].states
        wanted = [unit for unit in range(100) if not states or known[unit] in states]
        assert sorted(stand.units()) == wanted
        assert [model.row_of(unit) for unit in stand.units()] == list(range(len(wanted)))
        if column is Col.TIME:
            seconds = stand.job.steps["beauty"].seconds[model.units]
            finite = seconds[np.isfinite(seconds)]
            assert (np.diff(finite) <= 0).all() if down else (np.diff(finite) >= 0).all()
            assert np.isnan(seconds[len(finite) :]).all()
        assert stand.board.picked.units("beauty").tolist() == [3, 50, 77]
        assert stand.board.picked.unit == 50
        for index, unit in zip(kept, units, strict=True):
            assert not index.isValid() or model.unit_at(index.row()) == unit
    model.set_states(frozenset())
    model.sort(Col.FRAME)


def test_a_thousand_updates_do_not_make_one_model_reset(stand: Stand) -> None:
    resets: list[int] = []
    stand.tab.model.modelReset.connect(lambda: resets.append(1))
    stand.job.move("beauty", dict.fromkeys(range(100), UnitState.DONE))
    stand.board.set_step("film")
    stand.board.set_step("beauty")
    assert not resets
    assert not stand.tab.model.index(0, 0, QModelIndex()).parent().isValid()


# -- the card --


def _jpeg() -> bytes:
    picture = QImage(320, 180, QImage.Format.Format_RGB32)
    picture.fill(QColor("teal"))
    data = QBuffer()
    data.open(QIODevice.OpenModeFlag.WriteOnly)
    picture.save(data, "JPG")
    return bytes(data.data().data())


def test_a_card_says_what_is_under_the_mouse_and_shows_its_picture(stand: Stand) -> None:
    asked = stand.rig.port.asked
    stand.rig.port.answers[PreviewGetMsg] = lambda body: PreviewMsg(body.id, _jpeg())
    grid, card = stand.tab.grid, stand.tab.card
    grid.hovered.emit("beauty", 45, grid.mapToGlobal(QPoint(50, 50)))
    assert card.isVisible()
    assert card.accessibleName() == "beauty 1046 \N{EM DASH} failed"
    stand.until(lambda: dict(card.words()).get("why") == "no memory left")
    stand.until(
        lambda: any(not label.pixmap().isNull() for label in card.findChildren(QLabel) if label.height() > 60)
    )
    assert stand.tab.rect().contains(card.geometry()), "it is not cut off"
    grid.hovered.emit("", -1, QPoint())
    assert not card.isVisible()
    grid.hovered.emit("beauty", 45, grid.mapToGlobal(QPoint(50, 50)))
    assert len(asked(PreviewGetMsg)) == 1, "a picture that is known is not asked for again"
    grid.hovered.emit("beauty", 2, grid.mapToGlobal(QPoint(60, 50)))
    said = dict(card.words())
    assert (said["node"], said["time"], said["memory"]) == ("rack-003", "1 m 02 s", "2.0 GiB")


def test_a_picture_nobody_waits_for_any_more_is_given_up(stand: Stand) -> None:
    grid = stand.tab.grid
    grid.hovered.emit("beauty", 1, grid.mapToGlobal(QPoint(50, 50)))
    number = stand.rig.port.asked(PreviewGetMsg)[-1].id
    grid.hovered.emit("", -1, QPoint())
    assert number in stand.rig.canceled()


# -- times --


def test_times_are_said_in_figures_and_in_words(stand: Stand) -> None:
    times = stand.tab.times
    times.refresh()
    assert times.line.accessibleDescription().startswith("40 frames: from 1 m 00 s to 15 m 00 s")
    assert "the slowest took 15 m 00 s" in times.histogram.accessibleDescription()
    assert times.slowest.rows[0].name == "1008"
    assert times.slowest.rows[0].token == "warn"
    assert "× the median" in times.slowest.rows[0].note


def test_the_slowest_frame_is_selected_by_key_and_by_mouse(stand: Stand, qtbot: QtBot) -> None:
    slowest = stand.tab.times.slowest
    stand.tab.times.refresh()
    slowest.setFocus()
    qtbot.keyClick(slowest, Qt.Key.Key_Return)
    assert stand.board.picked.units("beauty").tolist() == [7]
    assert stand.rig.focus.unit == 7


def test_a_bar_of_the_histogram_selects_its_frames(stand: Stand, qtbot: QtBot) -> None:
    chart = stand.tab.times.histogram
    stand.tab.times.refresh()
    qtbot.keyClick(chart, Qt.Key.Key_Right)
    assert "frames took 1 m 00 s" in chart.accessibleDescription()
    for _ in range(40):
        qtbot.keyClick(chart, Qt.Key.Key_Right)
    qtbot.keyClick(chart, Qt.Key.Key_Return)
    assert stand.board.picked.units("beauty").tolist() == [7], "the last bar has all that took longer"


def test_a_node_is_compared_with_the_others_in_words(rig: Rig, qtbot: QtBot) -> None:
    step = StepOf(states_of(90, done=90))
    step.seconds = np.where(step.nodes == 3, 180.0, 100.0)
    stand = Stand(rig, qtbot, JobOf(rig, {"beauty": step}))
    stand.tab.times.refresh()
    nodes = stand.tab.times.nodes
    assert nodes.rows[0].name == "rack-003"
    assert "1.8× slower" in nodes.rows[0].note
    assert "rack-003 is 1.8× slower than the others" in nodes.accessibleDescription()
    qtbot.keyClick(nodes, Qt.Key.Key_Return)
    assert stand.board.picked.count == 30
    stand.close()


def test_a_selection_has_its_own_figures(stand: Stand, qtbot: QtBot) -> None:
    stand.board.picked.select("beauty", [0, 1, 2])
    stand.tab.times.refresh()
    assert stand.tab.times.line.accessibleDescription().startswith("3 frames: from 1 m 00 s to 1 m 02 s")
    stand.board.picked.clear()
    stand.tab.times.refresh()
    assert stand.tab.times.line.accessibleDescription().startswith("40 frames")


# -- without a farm --


def test_without_a_connection_everything_stays_and_nothing_is_asked(stand: Stand) -> None:
    stand.until(lambda: stand.board.details.row("beauty", 0))
    stand.rig.give(Standing(Link.LOST, "the broker gave no answer"))
    before = len(stand.rig.port.asked(FramesReq))
    stand.tab.table.scrollToBottom()
    stand.board.details.ask()
    assert len(stand.rig.port.asked(FramesReq)) == before
    assert stand.cell(2, Col.STATE) == "done"
    stand.tab.grab()


def test_in_a_low_dock_frames_have_the_room_until_somebody_asks_for_times(stand: Stand) -> None:
    tab = stand.tab
    button = next(one for one in tab.findChildren(QToolButton) if one.text() == "Times")
    assert tab.times.isVisible()
    tab.resize(1000, 300)
    stand.until(lambda: not tab.times.isVisible())
    assert not button.isChecked()
    button.click()
    assert tab.times.isVisible()
    button.click()
    assert not tab.times.isVisible()
    tab.resize(1000, 800)
    stand.until(tab.times.isVisible)
    assert button.isChecked(), "what was wanted where there is room stays so"
    button.click()
    tab.resize(1000, 801)
    assert not tab.times.isVisible()

"""The frame grid: its bytes are the farm's states, keys and mouse select, and updates change no selection."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from client_gui.actions.plan import Cell
from client_gui.store.farmstore import FarmChange
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.cells import Place
from client_gui.views.job_parts.framegrid import FrameGrid
from client_gui.views.job_parts.gridlegend import GridLegend
from client_gui.views.job_parts.heat import Mode
from farm.model.states import UnitState
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_rig import Rig

_SHIFT, _CTRL, _ALT = (
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.AltModifier,
)


class Stand:
    """A grid on a board that follows a rig, without the dock round it."""

    def __init__(self, rig: Rig, qtbot: QtBot, job: JobOf) -> None:
        self.rig, self.job = rig, job
        rig.client.look("test", jobs=True, nodes=True, opened=frozenset({job.job}))
        rig.focus.set_job(job.job)
        self.board = JobBoard(rig.desk)
        self.grid = FrameGrid(self.board)
        self.legend = GridLegend(self.board, self.grid.picture)
        self.grid.legend_changed.connect(self.legend.refresh)
        qtbot.addWidget(self.grid)
        qtbot.addWidget(self.legend)
        rig.client.changed.connect(self._changed)
        self.board.set_on(True)
        job.show()
        self.grid.resize(640, 300)
        with qtbot.waitExposed(self.grid):
            self.grid.show()

    def _changed(self, change: FarmChange) -> None:
        self.board.farm_changed(change)

    def middle(self, step: str, unit: int) -> QPoint:
        """The middle of a cell on the screen."""
        cells = self.grid.cells
        x, y, wide, high = cells.rect(Place(cells.strip_of(step), unit))
        return QPoint(x + wide // 2, y + high // 2 - self.grid.verticalScrollBar().value())

    def picked(self, step: str = "beauty") -> list[int]:
        """Selected units."""
        return self.board.picked.units(step).tolist()

    def close(self) -> None:
        """Ends it."""
        self.board.set_on(False)
        self.grid.close()
        self.rig.settle()


@pytest.fixture
def stand(rig: Rig, qtbot: QtBot) -> Iterator[Stand]:
    found = Stand(
        rig,
        qtbot,
        JobOf(
            rig,
            {
                "beauty": StepOf(states_of(100, done=40, running=5, failed=3)),
                "film": StepOf(states_of(1, blocked=1)),
            },
        ),
    )
    yield found
    found.close()


def pixels(image: QImage) -> np.ndarray:
    """A picture's pixels as they are seen."""
    whole = image.convertToFormat(QImage.Format.Format_ARGB32)
    bits = np.frombuffer(whole.constBits(), np.uint32).reshape(whole.height(), whole.bytesPerLine() // 4)
    return bits[:, : whole.width()].copy()


def test_each_cell_is_painted_in_the_colour_of_its_state(stand: Stand) -> None:
    picture = stand.grid.grab().toImage()
    for unit in (0, 39, 40, 45, 47, 48, 99):
        word = UnitState(int(stand.job.steps["beauty"].states[unit])).word
        at = stand.middle("beauty", unit) + QPoint(
            -stand.grid.cells.cell // 2 + 2, -stand.grid.cells.cell // 2 + 2
        )
        assert QColor(picture.pixel(at)) == stand.rig.theme.state_colour(word), (unit, word)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.integers(0, 99), st.sampled_from(UnitState), max_size=12), max_size=6))
def test_whatever_the_farm_does_the_picture_shows_it_and_the_selection_stays(
    stand: Stand, moves: list[dict[int, UnitState]]
) -> None:
    board, grid = stand.board, stand.grid
    board.picked.click("beauty", 17)
    board.picked.extend("beauty", 29)
    board.picked.toggle("beauty", 55)
    before = (stand.picked(), board.picked.step, board.picked.unit)
    columns = grid.cells.columns
    for units in moves:
        stand.job.move("beauty", units)
        wanted = stand.job.steps["beauty"].states
        assert grid.picture.flat("beauty").tolist() == wanted.tolist()
        lines = -(-100 // columns)
        shown = pixels(grid.picture.lines("beauty", columns, 0, lines)).reshape(-1)[:100]
        colours = np.array(stand.rig.theme.unit_colours(), np.uint32)
        assert (shown == colours[wanted]).all()
        assert (stand.picked(), board.picked.step, board.picked.unit) == before
    board.picked.clear()


def test_arrows_scrub_so_that_preview_and_log_follow(stand: Stand, qtbot: QtBot) -> None:
    grid, focus = stand.grid, stand.rig.focus
    qtbot.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 10))
    assert (focus.step, focus.unit) == ("beauty", 10)
    qtbot.keyClick(grid, Qt.Key.Key_Right)
    assert (focus.step, focus.unit) == ("beauty", 11)
    assert stand.picked() == [11]
    qtbot.keyClick(grid, Qt.Key.Key_End)
    assert focus.unit == 99
    qtbot.keyClick(grid, Qt.Key.Key_Down)
    assert (focus.step, focus.unit) == ("film", 0), "down goes on in the next step"
    qtbot.keyClick(grid, Qt.Key.Key_Up)
    assert focus.step == "beauty"
    qtbot.keyClick(grid, Qt.Key.Key_Home)
    assert focus.unit == 0


def test_a_range_is_dragged_and_added_to(stand: Stand, qtbot: QtBot) -> None:
    view = stand.grid.viewport()
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 5))
    qtbot.mouseMove(view, stand.middle("beauty", 9))
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 9))
    assert stand.picked() == [5, 6, 7, 8, 9]
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, _CTRL, stand.middle("beauty", 20))
    assert stand.picked() == [5, 6, 7, 8, 9, 20]
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, _SHIFT, stand.middle("beauty", 22))
    assert stand.picked() == [20, 21, 22]
    qtbot.keyClick(stand.grid, Qt.Key.Key_Left, _CTRL)
    assert stand.picked() == [20, 21, 22], "Ctrl moves without selecting"
    qtbot.keyClick(stand.grid, Qt.Key.Key_Escape)
    assert stand.picked() == []


def test_shift_and_arrows_select_and_an_action_gets_the_frames_as_the_farm_writes_them(
    stand: Stand, qtbot: QtBot
) -> None:
    qtbot.mouseClick(stand.grid.viewport(), Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 38))
    for _ in range(3):
        qtbot.keyClick(stand.grid, Qt.Key.Key_Right, _SHIFT)
    context = stand.board.context()
    assert context.scope == "frames"
    assert [units.address for units in context.units] == ["J12/beauty/1039-1042"]
    assert context.units[0].states == frozenset({"done", "running"})
    qtbot.keyClick(stand.grid, Qt.Key.Key_A, _CTRL)
    assert [units.address for units in stand.board.context().units] == ["J12/beauty", "J12/film"]


@pytest.mark.parametrize(
    ("number", "first", "count"), [(1, 48, 52), (3, 40, 5), (4, 0, 40), (5, 45, 3), (8, 40, 60)]
)
def test_alt_and_a_number_selects_by_state(
    stand: Stand, qtbot: QtBot, number: int, first: int, count: int
) -> None:
    stand.grid.setFocus()
    qtbot.keyClick(stand.grid, Qt.Key(Qt.Key.Key_0 + number), _ALT)
    assert len(stand.picked()) == count
    assert (stand.board.picked.step, stand.board.picked.unit) == ("beauty", first)


def test_larger_cells_keep_the_current_frame_on_the_screen(stand: Stand, qtbot: QtBot) -> None:
    grid = stand.grid
    qtbot.mouseClick(grid.viewport(), Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 70))
    size = grid.cells.cell
    for _ in range(8):
        qtbot.keyClick(grid, Qt.Key.Key_Plus)
    assert grid.cells.cell > size
    assert grid.viewport().rect().contains(stand.middle("beauty", 70))
    for _ in range(3):
        qtbot.keyClick(grid, Qt.Key.Key_PageUp)
    assert grid.viewport().rect().contains(stand.middle("beauty", stand.board.picked.unit))
    qtbot.keyClick(grid, Qt.Key.Key_0)
    assert grid.cells.cell == size


def test_glyphs_stand_on_cells_that_are_large_enough(stand: Stand) -> None:
    for _ in range(10):
        stand.grid.zoom(1)
    cell = stand.grid.cells.cell
    picture = stand.grid.grab().toImage()
    at = stand.middle("beauty", 0)
    area = pixels(picture.copy(at.x() - cell // 2 + 2, at.y() - cell // 2 + 2, cell - 4, cell - 4))
    assert len(np.unique(area)) > 2, "a tick is drawn on the colour"


def test_in_heat_only_frames_that_are_not_done_have_a_glyph_whatever_was_shown_before(
    stand: Stand, qtbot: QtBot
) -> None:
    # Large enough for glyphs, too small for figures, whatever size the words have.
    theme = stand.rig.theme
    while stand.grid.cells.cell >= theme.em(2.2):
        stand.grid.zoom(-1)
    assert stand.grid.cells.cell >= theme.em(0.8)
    stand.grid.grab()
    stand.grid.set_mode(Mode.TIME)
    qtbot.waitUntil(lambda: bool(stand.rig.settle()) or "1 m 00 s" in stand.legend.text())
    cell = stand.grid.cells.cell

    def colours(unit: int) -> int:
        at = stand.middle("beauty", unit)
        picture = stand.grid.grab().toImage()
        return len(
            np.unique(
                pixels(picture.copy(at.x() - cell // 2 + 2, at.y() - cell // 2 + 2, cell - 4, cell - 4))
            )
        )

    assert all(colours(unit) == 1 for unit in range(4))
    assert colours(45) > 1, "the failed one is marked"


@pytest.mark.parametrize("steps", [0, -20], ids=["large cells", "small cells"])
def test_cells_that_are_about_to_change_look_otherwise_until_the_farm_answers(
    stand: Stand, steps: int
) -> None:
    grid, book = stand.grid, stand.rig.actions
    for _ in range(-steps):
        grid.zoom(-1)

    def cell(unit: int) -> list[int]:
        grid.viewport().grab()  # whatever is to be painted anew is
        at, edge = stand.middle("beauty", unit), grid.cells.cell
        low = edge // 2
        return pixels(grid.grab().toImage().copy(at.x() - low, at.y() - low, edge, edge)).reshape(-1).tolist()

    before = {unit: cell(unit) for unit in (44, 45, 46, 47, 48)}
    stand.board.picked.select("beauty", [])
    units = np.zeros(100, np.uint8)
    units[45:48] = 1
    about = Cell("units", "J12/beauty", "state", "queued", lambda store: False, units.tobytes())
    book.doer.cells.add(7, [about], stand.rig.now_us)
    book.pending_changed.emit()
    assert all(cell(unit) != before[unit] for unit in (45, 46, 47))
    assert all(cell(unit) == before[unit] for unit in (44, 48))
    stand.board.picked.move("beauty", 46)
    assert "frame 1047 of beauty: failed, about to become queued" in grid.accessibleDescription()
    book.doer.cells.refused(7)
    book.pending_changed.emit()
    assert "about to become" not in grid.accessibleDescription()
    stand.board.picked.move("beauty", 10)
    assert {unit: cell(unit) for unit in before} == before, "refused: what is stands there again"


def test_a_screen_reader_is_told_the_current_cell_and_the_counts(stand: Stand, qtbot: QtBot) -> None:
    qtbot.mouseClick(stand.grid.viewport(), Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 45))
    said = stand.grid.accessibleDescription()
    assert stand.grid.accessibleName() == "Frame grid"
    assert "frame 1046 of beauty: failed, selected" in said
    assert "1 selected" in said
    assert "101 frames: 1 blocked, 52 queued, 5 running, 40 done, 3 failed" in said
    stand.job.move("beauty", {45: UnitState.QUEUED})
    assert "frame 1046 of beauty: queued" in stand.grid.accessibleDescription()


def test_heat_says_its_range_and_a_cell_its_figure(stand: Stand, qtbot: QtBot) -> None:
    stand.grid.set_mode(Mode.TIME)
    qtbot.waitUntil(lambda: bool(stand.rig.settle()) or "1 m 00 s" in stand.legend.text())
    stand.board.picked.click("beauty", 3)
    assert "time 1 m 03 s" in stand.grid.accessibleDescription()
    assert "not known 61" in stand.legend.text()
    known = stand.grid.picture.flat("beauty")[:27]
    assert (np.diff(known.astype(int)) > 0).all(), "the longer, the hotter"


def test_nodes_have_a_legend_with_their_names(stand: Stand, qtbot: QtBot) -> None:
    stand.grid.set_mode(Mode.NODE)
    qtbot.waitUntil(lambda: bool(stand.rig.settle()) or "rack-001 14" in stand.legend.text())
    assert "rack-002 13" in stand.legend.text()
    assert "rack-003 13" in stand.legend.text()
    flat = stand.grid.picture.flat("beauty")
    colours = {stand.grid.picture.colour(int(byte)).name() for byte in flat[:3]}
    assert len(colours) == 3


def test_a_step_that_grows_keeps_what_is_selected(stand: Stand) -> None:
    stand.board.picked.select("beauty", [3, 4, 98])
    stand.job.steps["beauty"] = StepOf(np.append(stand.job.steps["beauty"].states, [1] * 20).astype(np.uint8))
    stand.job.show()
    assert stand.board.frames["beauty"].units == 120
    assert stand.picked() == [3, 4, 98]
    assert len(stand.grid.picture.flat("beauty")) == 120


def test_a_click_on_a_name_shows_the_step_and_selects_nothing(stand: Stand, qtbot: QtBot) -> None:
    strip = stand.grid.cells.strips[1]
    qtbot.mouseClick(
        stand.grid.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(4, strip.top + strip.height // 2)
    )
    assert stand.rig.focus.step == "film"
    assert stand.board.step == "film"
    assert stand.board.picked.count == 0


def test_enter_and_v_bring_the_log_and_the_preview_to_the_front(stand: Stand, qtbot: QtBot) -> None:
    wanted: list[str] = []
    stand.rig.focus.wanted.connect(wanted.append)
    qtbot.mouseClick(stand.grid.viewport(), Qt.MouseButton.LeftButton, pos=stand.middle("beauty", 2))
    qtbot.keyClick(stand.grid, Qt.Key.Key_Return)
    qtbot.keyClick(stand.grid, Qt.Key.Key_V)
    assert wanted == ["log", "preview"]


def test_a_state_of_a_newer_farm_is_shown(stand: Stand) -> None:
    row, states = stand.job.row(), stand.job.steps["beauty"].states.copy()
    states[0] = 77
    stand.rig.snapshot((row,), (), {"J12/beauty": states.tobytes(), "J12/film": b"\0"})
    assert "state 77" in stand.legend.text()
    stand.grid.grab()


def test_a_million_frames_open_with_as_many_calls_as_a_thousand(rig: Rig, qtbot: QtBot) -> None:
    calls: list[int] = []

    def count(frame: object, event: str, arg: object) -> None:
        calls[-1] += event == "call"

    # The first one loads what is loaded when it is needed, and is not counted.
    for many in (1_000, 1_000, 1_000_000):
        states = np.full(many, UnitState.DONE, np.uint8)
        states[::1000] = UnitState.FAILED
        stand = Stand(rig, qtbot, JobOf(rig, {"beauty": StepOf(states)}))
        stand.grid.resize(800, 400)
        assert len(stand.grid.picture.flat("beauty")) == many
        # As if somebody had chosen the smallest cells: glyphs are drawn for what is on the screen alone.
        while stand.grid.cells.cell > 2:
            stand.grid.zoom(-1)
        calls.append(0)
        sys.setprofile(count)
        try:
            stand.board.refresh()
            stand.grid.picture.forget()
            stand.grid.grab()
            stand.board.picked.select_all()
            context = stand.board.context()
        finally:
            sys.setprofile(None)
        assert context.units[0].address == "J12/beauty"
        stand.close()
    assert calls[2] < calls[1] + 500, "a thousand times as many frames are no more work for Python"

"""Steps with very many frames: sums are made beside the window's thread, and never shown half."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QObject, Qt
from pytestqt.qtbot import QtBot

from client_gui.store import times
from client_gui.store.farmstore import FarmChange
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framecolumns import Col
from client_gui.views.job_parts.framestab import FramesTab
from client_gui.views.job_parts.heat import Mode, heat_bytes, scale_of
from client_gui.views.job_parts.sums import AT_ONCE, Sums
from farm.model.query import FRAMES, Query
from farm.model.states import UnitState
from farm.sdk.words import duration_text
from tests.support.gui_job import JobOf, StepOf
from tests.support.gui_rig import Rig

MANY = AT_ONCE + 5000


class Stand:
    """The tab of frames of a job with two large steps."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig, self.qtbot = rig, qtbot
        noise = np.random.default_rng(7).permutation(MANY)
        states = np.full(MANY, UnitState.DONE, np.uint8)
        self.seconds = (10.0 + noise % 5000).astype(np.float32).astype(np.float64)
        self.job = JobOf(
            rig,
            {
                "beauty": StepOf(states, seconds=self.seconds),
                "depth": StepOf(states[: MANY - 1], first=5001, seconds=self.seconds[::-1][: MANY - 1]),
            },
        )
        rig.client.look("test", jobs=True, nodes=True, opened=frozenset({self.job.job}))
        rig.focus.set_job(self.job.job)
        self.board = JobBoard(rig.desk)
        self.tab = FramesTab(self.board)
        self.tab.resize(1000, 800)
        qtbot.addWidget(self.tab)
        rig.client.changed.connect(self._changed)
        self.board.set_on(True)
        self.tab.show()
        self.job.show()
        self.until(lambda: self.tab.model.median_s() == times.statistics(self.seconds).median_s)

    def _changed(self, change: FarmChange) -> None:
        self.board.farm_changed(change)

    def until(self, so: object) -> None:
        """Waits until something is so, while the farm answers."""
        assert callable(so)
        self.qtbot.waitUntil(lambda: bool(self.rig.settle()) or bool(so()))

    def settle(self) -> None:
        """Waits until nothing is being worked out any more."""
        tab = self.tab
        self.until(lambda: not (tab.model.busy or tab.grid.busy or tab.times.busy))

    def close(self) -> None:
        """Ends it."""
        self.settle()
        self.board.set_on(False)
        self.tab.close()
        self.rig.settle()


@pytest.fixture
def stand(rig: Rig, qtbot: QtBot) -> Iterator[Stand]:
    found = Stand(rig, qtbot)
    yield found
    found.close()


def test_heat_replaces_the_states_in_one_go(stand: Stand) -> None:
    grid = stand.tab.grid
    stand.settle()
    grid.set_mode(Mode.TIME)
    assert grid.mode is Mode.STATE, "what was there stays until heat is worked out"
    assert (grid.picture.flat("beauty") == UnitState.DONE).all()
    grid.grab()
    stand.until(lambda: grid.mode is Mode.TIME)
    stand.until(lambda: grid.picture.legend().unknown == 0)
    stand.settle()
    both = np.concatenate([stand.seconds, stand.job.steps["depth"].seconds])
    wanted = heat_bytes(stand.seconds, scale_of(both))
    assert (grid.picture.flat("beauty") == wanted).all()
    grid.set_mode(Mode.NODE)
    grid.set_mode(Mode.STATE)
    assert grid.mode is Mode.STATE
    stand.settle()
    assert grid.mode is Mode.STATE, "what was given up does not come after all"


def test_the_table_keeps_its_order_until_the_next_one_is_worked_out(stand: Stand) -> None:
    model = stand.tab.model
    stand.settle()
    assert model.units.tolist() == list(range(MANY)), "as they come they are there at once"
    stand.tab.table.sortByColumn(Col.TIME, Qt.SortOrder.DescendingOrder)
    assert model.busy
    assert (model.units == np.arange(MANY)).all()
    stand.settle()
    assert (model.units == np.argsort(-stand.seconds, kind="stable")).all()
    assert model.row_of(int(model.units[777])) == 777
    model.set_query(Query.parse("time>1h", FRAMES))
    stand.settle()
    assert set(model.units.tolist()) == set(np.flatnonzero(stand.seconds > 3600).tolist())


def test_rows_of_another_step_never_stand_in_a_step(stand: Stand) -> None:
    model = stand.tab.model
    stand.settle()
    stand.tab.table.sortByColumn(Col.TIME, Qt.SortOrder.AscendingOrder)
    stand.board.set_step("depth")
    assert not len(model.units), "those of the step before are gone, those of this one not sorted yet"
    stand.tab.table.grab()
    stand.until(lambda: len(model.units) == MANY - 1 and not model.busy)
    stand.until(lambda: model.median_s() is not None)
    stand.settle()
    depth = stand.job.steps["depth"].seconds
    stand.until(lambda: (model.units == np.argsort(depth, kind="stable")).all())


def test_the_panel_of_times_shows_all_or_what_it_showed(stand: Stand) -> None:
    panel = stand.tab.times
    panel.show()
    stand.settle()
    panel.refresh()
    stand.settle()
    known = times.statistics(stand.seconds)
    assert known is not None
    said = f"median frame time: {duration_text(known.median_s)}"
    labels = {label.accessibleName() for label in panel.findChildren(QObject) if hasattr(label, "text")}
    assert said in labels
    assert f"{MANY:,} frames" in panel.line.accessibleDescription()
    stand.board.picked.select("beauty", np.arange(10))
    panel.refresh()
    assert "10 frames" in panel.line.accessibleDescription(), "few are summed up at once"


def test_sums_about_something_else_are_given_up_and_of_the_same_the_last_is_taken(
    qtbot: QtBot,
) -> None:
    owner = QObject()
    sums, taken = Sums(owner), []
    sums.make("a", AT_ONCE, lambda: "a1", taken.append)
    sums.make("a", AT_ONCE, lambda: "a2", taken.append)
    sums.make("a", AT_ONCE, lambda: "a3", taken.append)
    qtbot.waitUntil(lambda: not sums.busy)
    assert taken == ["a1", "a3"]
    sums.make("a", AT_ONCE, lambda: "a4", taken.append)
    sums.make("b", AT_ONCE, lambda: "b1", taken.append)
    qtbot.waitUntil(lambda: not sums.busy)
    assert taken[2:] == ["b1"]
    sums.make("b", AT_ONCE, lambda: "b2", taken.append)
    sums.make("c", AT_ONCE - 1, lambda: "c1", taken.append)
    assert taken[3:] == ["c1"], "few are summed up before it returns"
    sums.make("d", AT_ONCE, lambda: int("no"), taken.append)
    qtbot.waitUntil(lambda: not sums.busy)
    assert taken[4:] == [], "sums that cannot be made end, and change nothing"

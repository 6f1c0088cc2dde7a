"""The dock of a job is found as it was left: widths of columns, their order, shares of room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QHeaderView, QTableView
from pytestqt.qtbot import QtBot

from client_gui.settings import Setting
from client_gui.views.job import JobView
from client_gui.views.job_parts.framecolumns import Col
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_rig import Rig

COLUMNS: Setting[dict[str, Any]] = Setting("job/frames/columns", {})
SHARES: Setting[list[Any]] = Setting("job/frames_rows/shares", [])


class Docks:
    """One dock after another on the same farm and settings."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig, self._qtbot = rig, qtbot
        self.job = JobOf(rig, {"beauty": StepOf(states_of(20, done=20))})
        self.view: JobView | None = None

    def open(self) -> JobView:
        """A fresh dock; the one before is closed."""
        self.close()
        self.view = JobView(self.rig.desk)
        self._qtbot.addWidget(self.view)
        self.view.resize(1000, 800)
        self.rig.focus.set_job(self.job.job)
        self.view.show()
        self.job.show()
        return self.view

    def close(self) -> None:
        """Ends it."""
        if self.view is not None:
            self.view.hide()
            self.rig.settle()
            self.view = None


@pytest.fixture
def docks(rig: Rig, qtbot: QtBot) -> Iterator[Docks]:
    found = Docks(rig, qtbot)
    yield found
    found.close()


def head_of(view: JobView, table: str) -> QHeaderView:
    found: dict[str, QTableView] = {
        "frames": view.frames.table,
        "steps": view.steps.table,
        "settings": view.settings.table,
        "history": view.history.table,
        "attempts": view.history.attempts,
    }
    return found[table].horizontalHeader()


@pytest.mark.parametrize("table", ["frames", "steps", "settings", "history", "attempts"])
def test_columns_are_as_wide_as_they_were_left(docks: Docks, table: str) -> None:
    head = head_of(docks.open(), table)
    usual = [head.sectionSize(column) for column in range(head.count())]
    head.resizeSection(0, usual[0] + 57)
    head = head_of(docks.open(), table)
    assert abs(head.sectionSize(0) - (usual[0] + 57)) <= 1
    assert [head.sectionSize(n) for n in range(1, head.count() - 1)] == usual[1:-1], "only that one"


def test_they_grow_with_the_words_and_nothing_the_theme_does_is_taken_for_a_wish(docks: Docks) -> None:
    view = docks.open()
    head = head_of(view, "frames")
    usual = head.sectionSize(Col.NODE)
    docks.rig.theme.changed.emit()
    assert not docks.rig.settings.get(COLUMNS), "nobody has chosen anything"
    head.resizeSection(Col.FRAME, 200)
    docks.rig.theme.changed.emit()
    assert abs(head.sectionSize(Col.FRAME) - 200) <= 1
    assert head.sectionSize(Col.NODE) == usual
    kept = docks.rig.settings.get(COLUMNS)
    assert kept["widths"] == {"Frame": pytest.approx(200 / docks.rig.theme.em(), abs=0.01)}


def test_columns_stand_where_they_were_dragged(docks: Docks) -> None:
    head = head_of(docks.open(), "frames")
    head.moveSection(head.visualIndex(Col.TIME), 0)
    head = head_of(docks.open(), "frames")
    assert head.visualIndex(Col.TIME) == 0
    assert head.visualIndex(Col.FRAME) == 1


def test_room_is_shared_as_it_was_left(docks: Docks, qtbot: QtBot) -> None:
    view = docks.open()
    before = view.frames.splitter.sizes()
    view.frames.splitter.moveSplitter(before[0] + 120, 1)
    left = view.frames.splitter.sizes()
    assert left[0] > before[0] + 60
    splitter = docks.open().frames.splitter
    qtbot.waitUntil(lambda: sum(splitter.sizes()) == sum(left))
    assert abs(splitter.sizes()[0] - left[0]) <= 3


@pytest.mark.parametrize(
    "kept",
    [
        {"widths": {"Frame": "wide", "Node": -3, "Time": 1e9, "No such": 4.0}, "order": ["Frame"]},
        {"widths": [], "order": [1, 2]},
        {"widths": None},
    ],
)
def test_what_another_version_wrote_does_no_harm(docks: Docks, kept: dict[str, Any]) -> None:
    docks.rig.settings.set(SHARES, [-4, "x", 2])
    head = head_of(docks.open(), "frames")
    usual = [head.sectionSize(column) for column in range(head.count())]
    docks.close()
    docks.rig.settings.set(COLUMNS, kept)
    head = head_of(docks.open(), "frames")
    assert [head.sectionSize(column) for column in range(head.count())] == usual

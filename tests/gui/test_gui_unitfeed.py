"""Figures of frames follow a real broker's columns, and cost nothing while nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from client_gui.net import unitfeed
from client_gui.net.port import Answer, Ask, Standing, Welcomed
from client_gui.net.unitfeed import UnitFeed
from client_gui.store.farmstore import Link
from farm.broker.columns import Columns
from farm.model.errors import PeerError, StorageError
from farm.model.states import UnitState
from farm.protocol.bulk import COLUMN_UNITS, ColumnsGetMsg
from farm.protocol.common import WelcomeMsg
from tests.support import core_rig
from tests.support.gui_rig import Rig, job_row, replaced, step_row

UNITS = 6


class Stage:
    """A feed on a client whose bulk questions a broker's columns answer."""

    def __init__(self, rig: Rig, units: int = UNITS) -> None:
        self.rig = rig
        self.farm = core_rig.Rig()
        self.farm.join("ant", 1)
        self.farm.submit(core_rig.step("beauty", f"1-{units}"))
        self.columns = Columns(self.farm.store)
        rig.port.answers[ColumnsGetMsg] = self.columns.answer
        rig.client.look("job", jobs=True, opened=frozenset({1}))
        self.row = job_row(1, steps=(step_row("beauty", units=units, counts=(0, units, 0, 0, 0, 0, 0)),))
        self.states = bytes([UnitState.QUEUED]) * units
        rig.snapshot((self.row,), maps={"J1/beauty": self.states})
        self.feed = UnitFeed(rig.client)
        self.told: list[Any] = []
        self.feed.changed.connect(self.told.append)

    def open(self) -> None:
        self.feed.open(1, "beauty")
        self.settle()

    def settle(self) -> None:
        while self.rig.port.waiting:
            self.rig.settle()

    def render(self, state: UnitState = UnitState.DONE) -> int:
        """A frame is rendered, and the client hears of its state."""
        lease = self.farm.lease()
        self.farm.done(lease, elapsed_s=2.5)
        (unit,) = lease.units
        self.rig.delta(units=(("J1/beauty", unit, state),))
        return int(unit)

    def asked(self) -> list[ColumnsGetMsg]:
        return self.rig.port.asked(ColumnsGetMsg)


@pytest.fixture
def stage(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(unitfeed, "EVERY_MS", 5)
    made = Stage(rig)
    yield made
    made.feed.close()


def test_opening_brings_the_figures_of_all_frames(stage: Stage) -> None:
    unit = stage.render()
    assert stage.feed.columns is None
    stage.feed.open(1, "beauty")
    assert stage.feed.loading
    stage.settle()
    assert not stage.feed.loading
    columns = stage.feed.columns
    assert columns is not None
    assert columns.elapsed_s[unit] == 2.5
    assert np.isnan(columns.elapsed_s).sum() == UNITS - 1
    assert columns.attempts.tolist() == [1] + [0] * (UNITS - 1)
    assert stage.told == [None]


def test_what_changes_is_told_by_its_frames(stage: Stage, qtbot: QtBot) -> None:
    stage.render()
    stage.open()
    stage.told.clear()
    unit = stage.render()

    def came() -> bool:
        stage.settle()
        return bool(stage.told)

    qtbot.waitUntil(came)
    (units,) = stage.told
    assert units.tolist() == [unit]
    assert stage.feed.columns is not None
    assert stage.feed.columns.elapsed_s[unit] == 2.5
    assert stage.asked()[-1].since > 0


def test_nothing_is_asked_while_nothing_happens(stage: Stage, qtbot: QtBot) -> None:
    stage.render()
    stage.open()
    ticks: list[None] = []
    stage.feed._timer.timeout.connect(lambda: ticks.append(None))
    # Once more, for what came while the pages did; then no more.
    qtbot.waitUntil(lambda: stage.settle() or len(ticks) > 3)
    asked = len(stage.asked())
    ticks.clear()
    qtbot.waitUntil(lambda: stage.settle() or len(ticks) > 5)
    assert len(stage.asked()) == asked
    stage.rig.delta(units=(("J1/beauty", 3, UnitState.RUNNING),))
    ticks.clear()
    # While something runs it is asked again and again, also when no state changes.
    qtbot.waitUntil(lambda: stage.settle() or len(stage.asked()) > asked + 3)


def test_a_change_of_the_step_alone_is_looked_at(stage: Stage, qtbot: QtBot) -> None:
    stage.render()
    stage.open()
    qtbot.waitUntil(lambda: stage.settle() or len(stage.asked()) == 2)
    steps = (replaced(stage.row.steps[0], attempts=99),)
    stage.rig.delta(jobs=(replaced(stage.row, spend_nano=5, steps=steps),))
    qtbot.waitUntil(lambda: stage.settle() or len(stage.asked()) == 3)


def test_a_closed_feed_forgets_and_asks_nothing(stage: Stage) -> None:
    stage.open()
    stage.feed.close()
    assert stage.feed.columns is None
    assert stage.told[-1] is None
    assert not stage.feed._timer.isActive()
    told = len(stage.told)
    stage.feed.close()
    stage.render()
    assert len(stage.told) == told
    stage.feed.open(1, "beauty")
    number = next(m.number for m in reversed(stage.rig.port.posted) if isinstance(m, Ask))
    stage.feed.close()
    stage.settle()
    assert stage.feed.columns is None
    assert number in stage.rig.canceled()


def test_another_step_takes_the_place(stage: Stage) -> None:
    stage.farm.submit(core_rig.step("depth", "1-3"))
    stage.open()
    stage.feed.open(2, "depth")
    assert stage.feed.columns is None
    assert stage.feed.address == "J2/depth"
    stage.settle()
    assert stage.feed.columns is not None
    assert len(stage.feed.columns) == 3
    asked = len(stage.asked())
    stage.feed.open(2, "depth")
    assert len(stage.asked()) == asked


def test_pages_of_a_long_step_come_a_few_at_a_time(rig: Rig) -> None:
    pages = 3 * unitfeed.AT_ONCE
    stage = Stage(rig, pages * COLUMN_UNITS - 5)
    unit = stage.render()
    stage.feed.open(1, "beauty")
    most = 0
    while rig.port.waiting:
        most = max(most, len(rig.port.waiting))
        rig.client.drain()
    assert most <= unitfeed.AT_ONCE
    assert not stage.feed.loading
    assert stage.feed.columns is not None
    assert len(stage.feed.columns) == pages * COLUMN_UNITS - 5
    assert stage.feed.columns.elapsed_s[unit] == 2.5
    assert sorted(ask.first for ask in stage.asked()) == [n * COLUMN_UNITS for n in range(pages)]
    assert len(stage.told) < pages, "views are not told of every page"
    stage.feed.close()


def test_what_changed_while_pages_came_is_asked_for_after_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(unitfeed, "EVERY_MS", 5)
    stage = Stage(rig, COLUMN_UNITS + 10)
    first = stage.render()
    stage.feed.open(1, "beauty")
    rig.client.drain()  # the first page is taken, the second is on its way
    second = stage.render()
    qtbot.waitUntil(
        lambda: (
            stage.settle() or (stage.feed.columns is not None and stage.feed.columns.elapsed_s[second] == 2.5)
        )
    )
    assert stage.feed.columns is not None
    assert stage.feed.columns.elapsed_s[first] == 2.5
    stage.feed.close()


def test_frames_that_are_added_get_a_place_at_once(stage: Stage) -> None:
    stage.open()
    stage.rig.snapshot((stage.row,), maps={"J1/beauty": stage.states + bytes([UnitState.QUEUED]) * 4})
    assert stage.feed.columns is not None
    assert len(stage.feed.columns) == UNITS + 4
    assert stage.told[-1] is None


def lose(rig: Rig) -> None:
    rig.give(Standing(Link.LOST, "the broker does not answer"))


def welcome(rig: Rig, farm: str = "farm-A") -> None:
    rig.give(
        Standing(Link.LIVE),
        Welcomed(
            WelcomeMsg(version=1, session=2, farm_name=farm, software="0.1.0", role="wrangler", user="ana"),
            farm,
            "10.0.0.5:7460",
        ),
    )


def test_a_lost_connection_keeps_what_is_shown_and_goes_on_from_there(stage: Stage, qtbot: QtBot) -> None:
    unit = stage.render()
    stage.open()
    qtbot.waitUntil(lambda: stage.settle() or len(stage.asked()) == 2)
    lose(stage.rig)
    asked = len(stage.asked())
    columns = stage.feed.columns
    ticks: list[None] = []
    stage.feed._timer.timeout.connect(lambda: ticks.append(None))
    stage.rig.delta(units=(("J1/beauty", 2, UnitState.RUNNING),))
    qtbot.waitUntil(lambda: len(ticks) > 3)
    assert len(stage.asked()) == asked
    lease = stage.farm.lease()
    stage.farm.done(lease, elapsed_s=3.5)
    stage.told.clear()
    welcome(stage.rig)
    stage.settle()
    assert stage.feed.columns is columns
    assert columns is not None
    assert (columns.elapsed_s[unit], columns.elapsed_s[lease.units[0]]) == (2.5, 3.5)
    assert stage.asked()[asked].since > 0
    assert [units.tolist() for units in stage.told if units is not None] == [list(lease.units)]


def test_another_farm_shows_nothing_of_the_one_before(stage: Stage) -> None:
    stage.open()
    welcome(stage.rig, "farm-B")
    assert stage.told[-2:] == [None, None]
    assert stage.asked()[-1].since == 0


def test_opened_while_the_connection_is_lost_it_asks_with_the_next_session(stage: Stage) -> None:
    lose(stage.rig)
    stage.open()
    assert stage.asked() == []
    assert not stage.feed.loading
    welcome(stage.rig)
    stage.settle()
    assert stage.feed.columns is not None


def test_an_error_is_named_and_tried_again(stage: Stage, qtbot: QtBot) -> None:
    def fail(_: Any) -> Any:
        raise StorageError("the disk is gone")

    stage.rig.port.answers[ColumnsGetMsg] = fail
    stage.open()
    assert stage.feed.trouble == "the disk is gone"
    assert (stage.feed.columns, stage.feed.loading) == (None, False)
    assert stage.told == [None]
    stage.rig.port.answers[ColumnsGetMsg] = stage.columns.answer
    qtbot.waitUntil(lambda: stage.settle() or stage.feed.columns is not None)
    assert stage.feed.trouble == ""
    assert len(stage.asked()) >= 2


def test_nonsense_from_the_broker_is_an_error_and_no_crash(stage: Stage) -> None:
    stage.render()
    good = stage.columns.answer(ColumnsGetMsg(1, 1, "beauty"))
    stage.rig.port.answers[ColumnsGetMsg] = lambda _: replaced(good, count=5)
    stage.open()
    assert "frames" in stage.feed.trouble
    stage.rig.port.answers[ColumnsGetMsg] = lambda _: PeerError("not a message at all")
    stage.feed.close()
    assert stage.feed.trouble == ""
    stage.open()
    assert "PeerError" in stage.feed.trouble


def test_an_answer_to_a_question_of_before_is_dropped(stage: Stage) -> None:
    stage.rig.port.answers.clear()
    stage.open()
    number = next(m.number for m in reversed(stage.rig.port.posted) if isinstance(m, Ask))
    stage.feed.close()
    stage.rig.give(Answer(number, stage.columns.answer(ColumnsGetMsg(number, 1, "beauty"))))
    assert stage.feed.columns is None

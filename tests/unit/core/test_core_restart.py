"""A restart from stored rows gives the same farm, with and without checkpoints, at every point of a story."""

from __future__ import annotations

import random

import pytest

from farm.core import invariants
from farm.core.rows import StepMapRow
from tests.support.core_driver import Driver
from tests.support.core_rig import Rig, step
from tests.support.core_stage import load


@pytest.mark.parametrize("seed", range(4))
def test_the_farm_can_be_restored_after_every_single_event(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver(rng)
    while driver.handled < 150:
        driver.step(rng)
        driver.restored()


@pytest.mark.parametrize("seed", range(4, 8))
def test_the_same_events_give_the_same_rows_and_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver(rng)
    while driver.handled < 250:
        driver.step(rng)
    assert driver.replay() == invariants.digest(driver.core.farm)


def test_a_checkpoint_writes_only_steps_that_changed() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("one", "1-2"), step("two", "1-2"))
    assert {row.step_id for row in rig.checkpoint().rows if isinstance(row, StepMapRow)} == {1, 2}
    rig.done(rig.lease())
    assert {row.step_id for row in rig.checkpoint().rows if isinstance(row, StepMapRow)} == {1}
    rig.restart()
    assert not [row for row in rig.checkpoint().rows if isinstance(row, StepMapRow)]


def test_after_a_checkpoint_nothing_is_left_to_replay() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-9"))
    for _ in range(4):
        rig.done(rig.lease())
    rig.checkpoint()
    image = rig.store.load()
    assert image.checkpoint is not None
    assert list(rig.store.replay(image.checkpoint.seq)) == []
    rig.restart()
    assert rig.states() == "DDDDQQQQQ"


def test_a_back_off_goes_on_across_a_restart_and_its_end_is_remembered() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "licence")
    rig.checkpoint()
    rig.restart()
    rig.join()
    assert rig.dispatch() == []
    rig.wait(15, node)
    rig.checkpoint()
    rig.restart()
    rig.join()
    assert len(rig.dispatch()) == 1


def test_what_is_remembered_of_failures_survives() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-2"))
    rig.fail(rig.lease(), "renderer")
    rig.fail(rig.lease(), "oom-ram")
    for write in (rig.checkpoint, lambda: None):
        write()
        farm = load(rig.store, rig.settings)
        assert invariants.digest(farm) == invariants.digest(rig.core.farm)
        found = farm.steps[1]
        assert found.tries is not None
        assert found.notes[0].failed_on == {1}
        assert found.notes[0].failure == "oom-ram"


def test_priority_pause_and_archive_survive_a_checkpoint() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.submit(step("other", "1"))
    rig.act("priority", "J1", "90")
    rig.act("pause", "J1", reason="no")
    rig.checkpoint()
    rig.restart()
    assert (rig.job().priority, rig.job().paused, rig.job().reason) == (90, True, "no")
    rig.join()
    assert rig.lease().step.job.id == 2

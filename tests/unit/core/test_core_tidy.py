"""What a farm of many years must forget, and what it must not."""

from __future__ import annotations

import pytest

from farm.core import invariants
from farm.core.checkpoint import BEFORE_ALL, Stored, restore
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step

HOUR_US = 3_600_000_000


def used_up(rig: Rig, number: int) -> None:
    """A job of a user, a project and needs of its own runs to its end."""
    needs = Resources(cores=1, ram_mib=100 + number)
    rig.submit(step(resources=needs), user=f"user{number}", project=f"project{number}")
    while leases := rig.dispatch():
        rig.now_us += 60_000_000
        rig.beat(1)
        for lease in leases:
            rig.done(lease, elapsed_s=60.0)


def every_row_again(rig: Rig) -> None:
    """A restart that goes through all rows from the first gives the farm as it is."""
    nothing = Stored(None, [], [], [], rig.store.load().last_seq)
    again = restore(rig.settings, nothing, rig.store.replay(BEFORE_ALL))
    assert invariants.digest(again) == invariants.digest(rig.core.farm)


def years(rig: Rig) -> int:
    """Time in which any use fades."""
    return 60 * rig.core.farm.half_life_us


def test_what_archived_jobs_needed_is_forgotten() -> None:
    rig = Rig(archive_after_us=HOUR_US)
    rig.join("ant", 8)
    for number in range(20):
        used_up(rig, number)
    farm = rig.core.farm
    rig.now_us += 2 * HOUR_US
    rig.checkpoint()
    assert (len(farm.jobs), len(farm.shapes), len(farm.holders), len(farm.busy)) == (0, 0, 0, 0)
    assert not any(klass.refused or klass.asks for klass in farm.classes.values())
    assert not farm.empty_buckets
    assert not any(bucket.scores for bucket in farm.buckets.values())
    assert len(farm.projects) == len(farm.users) == 20, "what they used still counts"
    rig.restart()
    farm = rig.core.farm
    assert len(farm.projects) == len(farm.users) == 20
    rig.now_us += years(rig)
    rig.join("ant", 8)
    used_up(rig, 20)
    rig.now_us += years(rig)
    rig.join("ant", 8)
    used_up(rig, 3)
    assert set(farm.projects) == {"project3", "project20"}, "the others faded"
    assert set(farm.users) == {("project3", "user3"), ("project20", "user20")}
    assert rig.job(22).counts()[3] == 4
    every_row_again(rig)
    rig.restart()


def test_an_account_that_faded_goes_with_its_last_job() -> None:
    rig = Rig(archive_after_us=30 * 86_400_000_000)
    rig.join("ant", 8)
    used_up(rig, 1)
    farm = rig.core.farm
    rig.now_us += max(years(rig), 31 * 86_400_000_000)
    rig.checkpoint()
    assert (farm.jobs, farm.projects, farm.users) == ({}, {}, {})
    every_row_again(rig)
    rig.restart()


def test_a_job_that_changes_its_project_leaves_the_old_one() -> None:
    rig = Rig()
    rig.submit(step(), user="ann", project="one")
    rig.act("set", "J1", '{"project": "two"}')
    farm = rig.core.farm
    assert {name: account.jobs for name, account in farm.projects.items()} == {"one": 0, "two": 1}
    assert {key: account.jobs for key, account in farm.users.items()} == {
        ("one", "ann"): 0,
        ("two", "ann"): 1,
    }
    rig.restart()
    assert rig.core.farm.projects["two"].jobs == 1


def test_a_job_in_memory_keeps_its_accounts_and_its_shape() -> None:
    rig = Rig()
    rig.join("ant", 8)
    used_up(rig, 1)
    rig.submit(step(resources=Resources(cores=64)), user="late", project="late")
    rig.now_us += years(rig)
    rig.checkpoint()
    farm = rig.core.farm
    assert set(farm.projects) == {"project1", "late"}
    assert set(farm.holders) == {"user1", "late"}
    assert len(farm.shapes) == 2
    rig.restart()


def test_numbers_of_shapes_and_accounts_are_given_once() -> None:
    rig = Rig(archive_after_us=HOUR_US)
    rig.join("small", 1)
    used_up(rig, 1)
    (old,) = rig.core.farm.shapes.values()
    rig.now_us += 2 * HOUR_US
    rig.submit(step(resources=Resources(cores=64)), user="keeps", project="keeps")
    rig.checkpoint()
    rig.submit(step(resources=Resources(cores=2)), user="new", project="new")
    farm = rig.core.farm
    numbers = [shape.id for shape in farm.shapes.values()]
    assert old.id not in numbers
    assert len(set(numbers)) == 2
    assert not rig.dispatch(), "what was known of the old shape must not be taken for the new one"
    for accounts in (farm.projects, farm.users):
        order = [account.number for account in accounts.values()]  # type: ignore[attr-defined]
        assert order == sorted(set(order))


@pytest.mark.parametrize("half_lives", [1, 10, 60])
def test_a_restart_after_the_checkpoint_goes_on_as_without_it(half_lives: int) -> None:
    def story(restart: bool) -> str:
        rig = Rig(archive_after_us=HOUR_US)
        rig.join("ant", 2)
        for number in range(3):
            used_up(rig, number)
        rig.now_us += half_lives * rig.core.farm.half_life_us
        rig.submit(step(), user="user1", project="project1")
        rig.checkpoint()
        if restart:
            rig.restart()
        rig.join("ant", 2)
        used_up(rig, 2)
        farm = rig.core.farm
        levels = [
            (a.name, a.level, a.credit, a.number) for a in [*farm.projects.values(), *farm.users.values()]
        ]
        invariants.check(farm)
        return repr(levels)

    assert story(True) == story(False)

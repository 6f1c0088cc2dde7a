"""Which measured step stands in for one that is not: the newest of the scene, else the newest of the user."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core import likeness, pace
from farm.core.forecast import Outlook
from farm.core.likeness import Likeness
from farm.core.state import Step
from tests.support.core_rig import Rig, step


def rendered(rig: Rig, scene: str, user: str = "ana") -> Step:
    """A step of a scene of which a frame was measured."""
    rig.submit(step(frames="1-50", params={"scene": scene}), user=user, priority=90 + len(rig.core.farm.jobs))
    found = rig.step(f"J{max(rig.core.farm.jobs)}/beauty")
    for lease in rig.dispatch():
        rig.now_us += 10_000_000
        rig.done(lease, elapsed_s=10.0)
    assert pace.known(found)
    return found


@pytest.fixture
def rig() -> Rig:
    found = Rig()
    for _ in range(8):
        found.join()
    return found


def asked(rig: Rig, scene: str, user: str = "ana") -> Step:
    """A step nothing was measured of."""
    rig.submit(step(frames="1-50", params={"scene": scene}), user=user)
    return rig.step(f"J{max(rig.core.farm.jobs)}/beauty")


def test_the_same_scene_tells_more_than_the_same_user(rig: Rig) -> None:
    shot = rendered(rig, "/proj/a.blend", "bo")
    mine = rendered(rig, "/proj/b.blend", "ana")
    like = Likeness(rig.core.farm)
    scene, doubt = like.pace(asked(rig, "/proj/a.blend"))
    assert scene is shot.pace
    user, more = like.pace(asked(rig, "/proj/new.blend"))
    assert user is mine.pace
    assert 0 < doubt < more
    assert like.pace(asked(rig, "/proj/new.blend", "chen")) == (None, 0.0)


def test_of_several_the_newest_tells(rig: Rig) -> None:
    rendered(rig, "/proj/a.blend")
    newest = rendered(rig, "/proj/a.blend")
    assert Likeness(rig.core.farm).pace(asked(rig, "/proj/a.blend"))[0] is newest.pace


def test_only_the_newest_steps_are_looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered(rig, "/proj/a.blend")
    waiting = [asked(rig, "/proj/a.blend") for _ in range(3)]
    monkeypatch.setattr(likeness, "_STEPS_LOOKED_AT", 3)
    assert Likeness(rig.core.farm).pace(waiting[0]) == (None, 0.0)
    monkeypatch.setattr(likeness, "_STEPS_LOOKED_AT", 4)
    assert Likeness(rig.core.farm).pace(waiting[0])[0] is not None


def test_a_farm_of_waiting_jobs_is_gone_through_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = 200
    for number in range(jobs):
        rig.submit(step(frames="1-10", params={"scene": f"/proj/{number}.blend"}))
    looks = 0
    known: Any = pace.known

    def counted(one: Step) -> bool:
        nonlocal looks
        looks += 1
        return bool(known(one))

    monkeypatch.setattr(pace, "known", counted)
    outlook = Outlook(rig.core.farm, rig.now_us)
    assert [outlook.job(job) for job in rig.core.farm.jobs.values()] == [None] * jobs
    assert looks <= 4 * jobs, "a list of ten thousand jobs would hold the broker up for a minute"

"""The order of work: fair share by project and user, caps, limits, sites, best fit."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.events import PolicyEvent
from farm.core.order import Queue
from farm.core.outcome import LeaseCommand
from farm.core.shares import _FACTORS, PARTS, UNIT, requeue_all
from farm.model.policy import LimitRule, Policy, SiteRule
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def policy(rig: Rig, **fields: Any) -> None:
    """A wrangler sets the farm's policy."""
    rig.handle(PolicyEvent(rig.now_us, Policy(**fields), "", "wim"))


def work(
    rig: Rig, turns: int, seconds: Any = lambda lease: 10.0, *, seed: int = 1
) -> Counter[tuple[str, str]]:
    """Renders for so many ends of frames, the earliest end first; returns core-seconds by (project, user)."""
    rng, running, used = (
        random.Random(seed),
        list[tuple[int, int, LeaseCommand]](),
        Counter[tuple[str, str]](),
    )
    for turn in range(turns):
        for lease in rig.dispatch():
            lasts_us = int(seconds(lease) * 1e6 * rng.uniform(0.9, 1.1))
            running.append((rig.now_us + lasts_us, lease.attempt, lease))
            job = lease.step.job
            used[job.project, job.user] += lasts_us * lease.resources.cores
        assert running, f"nothing runs at turn {turn}"
        running.sort()
        end_us, _, lease = running.pop(0)
        rig.now_us = max(rig.now_us, end_us)
        rig.done(lease, elapsed_s=seconds(lease))
    return used


def parts(used: Counter[tuple[str, str]], by: int) -> dict[str, float]:
    """Part of the whole by project (0) or user (1)."""
    total = sum(used.values())
    found: dict[str, float] = {}
    for key, amount in used.items():
        found[key[by]] = found.get(key[by], 0.0) + amount / total
    return found


def test_projects_share_by_weight_and_users_within_them() -> None:
    rig = Rig()
    policy(rig, projects={"film": 3}, users={"bob": 2})
    for project, user in (("film", "ann"), ("film", "bob"), ("tv", "eve")):
        rig.submit(step("a", "1-900"), project=project, user=user)
    for name in ("n1", "n2", "n3", "n4"):
        rig.join(name)
    used = work(rig, 600)
    by_project, by_user = parts(used, 0), parts(used, 1)
    assert by_project["film"] == pytest.approx(0.75, rel=0.05)
    assert by_project["tv"] == pytest.approx(0.25, rel=0.05)
    assert by_user["bob"] == pytest.approx(0.5, rel=0.05)
    assert by_user["ann"] == pytest.approx(0.25, rel=0.05)


def test_share_counts_time_held_not_frames() -> None:
    """One project's frames take ten times as long: it gets a tenth of the frames, half of the farm."""
    rig = Rig()
    rig.submit(step("long", "1-900"), project="long")
    rig.submit(step("short", "1-900"), project="short")
    for name in ("n1", "n2", "n3"):
        rig.join(name)
    used = work(rig, 500, lambda lease: 100.0 if lease.step.spec.name == "long" else 10.0)
    assert parts(used, 0)["long"] == pytest.approx(0.5, rel=0.05)


def test_share_counts_what_is_held_of_the_node() -> None:
    """Two cores of four and all memory of a node is all of the node, whatever the cores say."""
    rig = Rig()
    rig.submit(step("hog", "1-900", resources=Resources(cores=2, ram_mib=1_000)), project="hog")
    rig.submit(step("slim", "1-900", resources=Resources(cores=4)), project="slim")
    for name in ("n1", "n2"):
        rig.join(name, 4, ram_mib=1_000)
    used = work(rig, 300)
    # Both hold whole nodes, so both get half of the time; by cores alone the first would get twice as much.
    assert used["hog", "ann"] * 2 == pytest.approx(used["slim", "ann"], rel=0.05)


def test_a_newcomer_is_not_owed_all_of_the_past() -> None:
    """Use fades: after some half-lives without competition the old project is not locked out for long."""
    rig = Rig()
    policy(rig, half_life_h=0.1)
    rig.submit(step("old", "1-3000"), project="old")
    rig.join("n1")
    work(rig, 360)  # an hour: ten half-lives
    rig.submit(step("new", "1-3000"), project="new")
    used = work(rig, 360)
    assert parts(used, 0)["new"] < 0.62


def test_of_equal_shares_who_came_first_goes_first() -> None:
    rig = Rig()
    for project, user in (("z", "zoe"), ("z", "ann"), ("a", "bob")):
        rig.submit(step("s", "1"), project=project, user=user)
    rig.join("n1")
    rig.restart()
    rig.beat(1)
    users = []
    for _ in range(3):
        lease = rig.lease()
        users.append(lease.step.job.user)
        rig.done(lease, elapsed_s=0.0)
    assert users == ["zoe", "bob", "ann"]


def test_priority_goes_before_share() -> None:
    rig = Rig()
    rig.submit(step("a", "1-50"), project="used")
    rig.join("n1")
    work(rig, 20)
    rig.submit(step("b", "1-50"), project="fresh")
    rig.submit(step("c", "1"), project="used", priority=60)
    assert rig.lease().step.spec.name == "c"


def test_a_changed_priority_or_project_moves_what_waits() -> None:
    rig = Rig()
    rig.submit(step("first", "1-5"))
    rig.submit(step("second", "1-5"))
    rig.act("priority", "J2", "70")
    rig.join("n1")
    lease = rig.lease()
    assert lease.step.spec.name == "second"
    rig.act("priority", "J2", "10")
    rig.done(lease)
    assert rig.lease().step.spec.name == "first"


def test_shares_survive_checkpoint_and_restart() -> None:
    rig = Rig()
    policy(rig, projects={"a": 2}, limits={"nuke": LimitRule(total=3)})
    rig.submit(step("x", "1-50", limits={"nuke": 1}), project="a")
    rig.submit(step("y", "1-50"), project="b")
    for name in ("n1", "n2", "n3", "n4"):
        rig.join(name)
    work(rig, 17)
    rig.restart()
    rig.checkpoint()
    rig.restart()
    levels = {name: account.level for name, account in rig.core.farm.projects.items()}
    assert levels["a"] > 0
    assert levels["b"] > 0


def test_factors_double_exactly_from_end_to_end() -> None:
    assert _FACTORS[0] == UNIT
    assert len(_FACTORS) == PARTS
    for part, factor in enumerate(_FACTORS):
        assert factor == pytest.approx(UNIT * 2 ** (part / PARTS), abs=1.0)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_heaps_agree_with_sorting_everything(data: st.DataObject) -> None:
    """Whatever happened before, the next lease is the least of all that wait by the whole order."""
    rig = Rig()
    for _ in range(data.draw(st.integers(2, 8), "jobs")):
        rig.submit(
            step("s", "1-6", resources=Resources(cores=1, ram_mib=data.draw(st.sampled_from([0, 1])))),
            project=data.draw(st.sampled_from("pq")),
            user=data.draw(st.sampled_from("uvw")),
            priority=data.draw(st.sampled_from([40, 50])),
        )
    rig.join("n1")
    for _ in range(12):
        waiting = [s for s in rig.core.farm.steps.values() if s.leasable()]
        leases = rig.dispatch()
        if not leases:
            assert not waiting
            break
        (lease,) = leases
        rig.now_us += data.draw(st.integers(1, 200)) * 1_000_000
        job = lease.step.job
        mine = (-job.priority,)
        assert all(-other.job.priority >= mine[0] for other in waiting)
        rig.done(lease)
        if data.draw(st.booleans()):
            number = data.draw(st.sampled_from(sorted(rig.core.farm.jobs)))
            rig.act("priority", f"J{number}", str(data.draw(st.sampled_from([40, 50]))))
        # The same farm with every queue made anew decides the same.
        heads = {shape.id: shape.head() for shape in rig.core.farm.busy.values()}
        requeue_all(rig.core.farm)
        again = {shape.id: shape.head() for shape in rig.core.farm.busy.values()}
        assert {key: head for key, head in heads.items() if head} == again


# ---------------------------------------------------------------- caps and limits


def test_a_job_holds_at_most_its_cores() -> None:
    rig = Rig()
    rig.submit(step("a", "1-9"), max_cores=2)
    rig.submit(step("b", "1-9"))
    rig.join("big", 5)
    leases = rig.dispatch()
    assert Counter(lease.step.spec.name for lease in leases) == {"a": 2, "b": 3}
    rig.done(leases[0])
    assert [lease.step.spec.name for lease in rig.dispatch()] == ["a"]


def test_a_user_holds_at_most_their_cores_in_all_projects() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"*": 3, "bob": 0})
    rig.submit(step("a", "1-9"), user="ann", project="p")
    rig.submit(step("b", "1-9"), user="ann", project="q")
    rig.submit(step("c", "1-9"), user="bob", project="q")
    rig.join("big", 9)
    leases = rig.dispatch()
    assert Counter(lease.step.job.user for lease in leases) == {"ann": 3, "bob": 6}
    policy(rig)
    rig.done(next(lease for lease in leases if lease.step.job.user == "bob"))
    assert len(rig.dispatch()) == 1


def test_something_larger_than_a_cap_still_runs_alone() -> None:
    rig = Rig()
    rig.submit(step("a", "1-2", resources=Resources(cores=4)))
    policy(rig, user_max_cores={"*": 2})
    rig.join("big", 8)
    assert len(rig.dispatch()) == 1


def test_limits_count_licences() -> None:
    rig = Rig()
    policy(rig, limits={"nuke": LimitRule(total=3)})
    rig.submit(step("comp", "1-9", limits={"nuke": 1}))
    rig.submit(step("pair", "1-9", limits={"nuke": 2}))
    rig.submit(step("free", "1-9"))
    rig.join("big", 12)
    leases = rig.dispatch()
    assert Counter(lease.step.spec.name for lease in leases) == {"comp": 3, "free": 9}
    rig.done(leases[0])
    rig.done(leases[1])
    rig.done(leases[2])
    assert sum(dict(lease.step.limits).get("nuke", 0) for lease in rig.dispatch()) <= 3


def test_node_limits_count_nodes() -> None:
    rig = Rig()
    policy(rig, limits={"houdini": LimitRule(total=1, per="node")})
    rig.submit(step("fx", "1-9", limits={"houdini": 1}))
    rig.join("a", 3)
    rig.join("b", 3)
    leases = rig.dispatch()
    assert len(leases) == 3
    assert len({lease.node_id for lease in leases}) == 1
    for lease in leases[:2]:
        rig.done(lease)
    assert {lease.node_id for lease in rig.dispatch()} == {leases[0].node_id}


def test_an_unknown_limit_waits_until_it_is_named() -> None:
    """The policy may take a limit's name away while work waits for it."""
    rig = Rig()
    policy(rig, limits={"nuke": LimitRule(total=1)})
    rig.submit(step("comp", "1", limits={"nuke": 1}))
    policy(rig)
    rig.join("a")
    assert rig.dispatch() == []
    policy(rig, limits={"nuke": LimitRule(total=1)})
    assert len(rig.dispatch()) == 1


def test_limits_lowered_below_use_only_stop_new_work() -> None:
    rig = Rig()
    policy(rig, limits={"nuke": LimitRule(total=4)})
    rig.submit(step("comp", "1-9", limits={"nuke": 1}))
    rig.join("a", 4)
    leases = rig.dispatch()
    assert len(leases) == 4
    policy(rig, limits={"nuke": LimitRule(total=2)})
    for lease in leases[:2]:
        rig.done(lease)
        assert rig.dispatch() == []
    rig.done(leases[2])
    assert len(rig.dispatch()) == 1


# ---------------------------------------------------------------- where


def test_sites_may_be_closed_to_projects_and_are_filled_in_order() -> None:
    rig = Rig()
    policy(rig, sites={"cloud": SiteRule(projects=("film",), order=5)})
    rig.join("c1", 2, site="cloud")
    rig.join("l1", 2, site="local")
    rig.submit(step("tv", "1-9"), project="tv")
    rig.submit(step("film", "1-9"), project="film")
    leases = rig.dispatch()
    where = Counter((lease.step.spec.name, rig.node(lease.node_id).name) for lease in leases)
    assert where["tv", "c1"] == 0
    assert where["film", "c1"] == 2
    assert where["tv", "l1"] >= 1


def test_best_fit_keeps_large_slots_whole() -> None:
    rig = Rig()
    rig.join("large", 8)
    rig.join("small", 2)
    rig.submit(step("small", "1-2"))
    assert {rig.node(lease.node_id).name for lease in rig.dispatch()} == {"small"}
    rig.submit(step("large", "1", resources=Resources(cores=8)))
    assert rig.node(rig.lease().node_id).name == "large"


def test_work_without_gpus_prefers_nodes_without_but_may_use_all() -> None:
    rig = Rig()
    rig.join("gpu", 2, vram=(8_000,))
    rig.join("cpu", 6)
    rig.submit(step("sim", "1-8"))
    names = [rig.node(lease.node_id).name for lease in rig.dispatch()]
    assert names[:6] == ["cpu"] * 6
    assert names[6:] == ["gpu"] * 2


def test_disk_and_custom_tokens_are_held_and_given_back() -> None:
    rig = Rig()
    rig.join("a", 8, disk_mib=100, tokens={"fx-card": 2})
    rig.submit(step("x", "1-4", resources=Resources(cores=1, disk_mib=40, tokens={"fx-card": 1})))
    leases = rig.dispatch()
    assert len(leases) == 2
    rig.restart()
    rig.done(leases[0])
    rig.beat(leases[0].node_id)
    assert len(rig.dispatch()) == 1


def test_a_long_time_keeps_figures_short_and_the_order_right() -> None:
    """Ten thousand half-lives: levels are written smaller now and then, also in the middle of placing."""
    rig = Rig()
    policy(rig, half_life_h=0.01)
    rig.submit(step("a", "1-300"), project="a")
    rig.submit(step("b", "1-300"), project="b")
    rig.join("n1")
    for _ in range(40):
        rig.now_us += 9_000_000_000
        rig.beat(1)
        lease = rig.lease()
        rig.now_us += 10_000_000
        rig.done(lease, elapsed_s=10.0)
    rig.checkpoint()
    rig.restart()
    rig.beat(1)
    assert all(account.level < 1 << 150 for account in rig.core.farm.projects.values())
    assert parts(work(rig, 200), 0)["a"] == pytest.approx(0.5, rel=0.05)


def test_disk_and_tokens_count_in_what_is_held_of_a_node() -> None:
    """All of a node's tokens is all of the node, for shares and money, however few cores go with it."""
    rig = Rig()
    rig.join("a", 16, disk_mib=100, tokens={"fx-card": 1})
    rig.submit(step("x", "1", resources=Resources(cores=1, tokens={"fx-card": 1})))
    rig.lease()
    (attempt,) = rig.core.farm.attempts.values()
    assert attempt.share_ppm == 1_000_000


def test_a_request_for_several_tokens_gets_its_turn() -> None:
    """Work behind it takes single tokens as they come free; after a while what comes free is left to it."""
    rig = Rig()
    policy(rig, limits={"nuke": LimitRule(total=4)}, reserve_after_s=20.0)
    rig.join("a", 8)
    rig.submit(step("small", "1-500", limits={"nuke": 1}))
    leases = rig.dispatch()
    assert len(leases) == 4
    rig.submit(step("pair", "1", limits={"nuke": 2}), priority=60)
    started_us = rig.now_us
    for _ in range(60):
        rig.now_us += 3_000_000
        rig.beat(1)
        rig.done(leases.pop(0), elapsed_s=12.0)
        leases += rig.dispatch()
        if any(lease.step.spec.name == "pair" for lease in leases):
            break
    assert any(lease.step.spec.name == "pair" for lease in leases)
    assert rig.now_us - started_us <= 45_000_000


def test_a_large_request_within_a_users_cap_gets_its_turn() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"ann": 4}, reserve_after_s=20.0)
    rig.join("a", 16)
    rig.submit(step("small", "1-500"))
    leases = rig.dispatch()
    assert len(leases) == 4
    rig.submit(step("large", "1", resources=Resources(cores=4)), priority=60)
    for _ in range(30):
        rig.now_us += 3_000_000
        rig.beat(1)
        rig.done(leases.pop(0), elapsed_s=12.0)
        leases += rig.dispatch()
        if leases[-1].step.spec.name == "large":
            break
    assert leases[-1].step.spec.name == "large"
    assert rig.core.farm.outbid == {}


def test_what_no_node_can_take_costs_no_turn_anything() -> None:
    """Hundreds of different needs that fit no node stand before what can go: they are looked at once."""
    rig = Rig()
    rig.join("a", 1)
    for number in range(300):
        resources = Resources(cores=1, ram_mib=20_000 + number)
        rig.submit(step("never", "1", resources=resources), priority=60, force=True)
    rig.submit(step("small", "1-9"))
    rig.done(rig.lease())
    assert len(rig.core.farm.unable) == 300
    looked: list[object] = []
    for shape in rig.core.farm.unable.values():
        queue = _Watched(looked)
        for waiting in shape.queue.waiting():
            waiting.line = None
            queue.push(waiting)
        shape.queue = queue
    rig.done(rig.lease())
    rig.done(rig.lease())
    assert looked == []
    rig.join("big", 1, ram_mib=20_005)
    assert "never" in {lease.step.spec.name for lease in rig.dispatch()}


def test_what_fits_no_free_node_costs_no_turn_anything() -> None:
    """Hundreds of different needs stand before what can go, and a busy node has no room for any of them.

    They are looked at again as soon as there is a node that fits, and those overtaken get their turn.
    """
    rig = Rig()
    policy(rig, reserve_after_s=20.0, reservations=1)
    node = rig.join("a", 4)
    rig.submit(step("hold", "1"), priority=90)
    hold = rig.lease()
    for number in range(300):
        rig.submit(step("large", "1", resources=Resources(cores=4, ram_mib=100 + number)), priority=60)
    rig.submit(step("small", "1-500"))
    running = rig.dispatch()
    assert [lease.step.spec.name for lease in running] == ["small"] * 3
    assert len(rig.core.farm.misfits) == 300
    looked: list[object] = []
    rig.now_us += 1_000_000
    rig.done(running.pop(0))
    running += rig.dispatch()
    for shape in rig.core.farm.misfits.values():
        queue = _Watched(looked)
        for waiting in shape.queue.waiting():
            waiting.line = None
            queue.push(waiting)
        shape.queue = queue
    for _ in range(20):
        rig.now_us += 10_000
        rig.done(running.pop(0))
        running += rig.dispatch()
    assert len(running) == 3
    assert looked == []
    for _ in range(25):
        rig.wait(1, node)
        rig.done(running.pop(0))
        running += rig.dispatch()
    assert [kept.step_id for kept in rig.core.farm.reservations.values()] == [rig.step("J2/large").id]
    rig.done(hold)
    while running:
        rig.done(running.pop(0))
    assert rig.lease().step.job.id == 2
    rig.join("b", 4)
    assert {lease.step.spec.name for lease in rig.dispatch()} == {"large"}


class _Watched(Queue):
    """Notes each look for its head."""

    __slots__ = ("looked",)

    def __init__(self, looked: list[object]) -> None:
        super().__init__()
        self.looked = looked

    def head(self) -> Any:
        self.looked.append(self)
        return super().head()

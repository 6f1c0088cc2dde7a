"""Tokens and cores of a cap are left to a step that needs many at once: when, to whom, for how long."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from farm.core import explain, idle
from farm.core.events import DeleteEvent, PolicyEvent
from farm.core.explain import Answer
from farm.core.order import Line, Queue
from farm.core.outcome import LeaseCommand
from farm.core.reserve import GATHER_US
from farm.model.nodes import NodeSettings
from farm.model.policy import LimitRule, Policy, SiteRule
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step

NUKE4 = {"nuke": LimitRule(total=4)}


def policy(rig: Rig, **fields: Any) -> Any:
    """A wrangler sets the farm's policy; returns the answer."""
    return rig.handle(PolicyEvent(rig.now_us, Policy(**fields), "", "wim")).reply


class Shop:
    """A farm that goes on by itself: every frame ends after its step's seconds, and what is free is leased.

    Attributes:
        lasts_s: Seconds of a frame by step name; 3 where nothing is said.
        done: Frames done, by step name.
        begun: Names of steps in the order in which they got leases, with the second.
        spread: Part by which frames last longer than others, so that they do not end together.
    """

    def __init__(self, rig: Rig, *nodes: int, spread: float = 0.0, **lasts_s: float) -> None:
        self.rig = rig
        self.nodes = nodes
        self.lasts_s = lasts_s
        self.done: dict[str, int] = {}
        self.begun: list[tuple[str, float]] = []
        self.spread = spread
        self._running: list[tuple[int, LeaseCommand]] = []
        self._start_us = rig.now_us
        self.lease()

    def lease(self) -> None:
        """Leases what is free."""
        rig = self.rig
        for lease in rig.dispatch():
            name = lease.step.spec.name
            longer = 1.0 + self.spread * (lease.attempt % 5)
            lasts_us = int(self.lasts_s.get(name, 3.0) * longer * 1e6) * len(lease.units)
            self._running.append((rig.now_us + lasts_us, lease))
            self.begun.append((name, (rig.now_us - self._start_us) / 1e6))

    def go(self, seconds: int, each_s: int = 1) -> None:
        """So many seconds pass, one (or some) after the other."""
        rig = self.rig
        for _ in range(seconds // each_s):
            rig.wait(each_s, *self.nodes)
            for end in [end for end in self._running if end[0] <= rig.now_us]:
                self._running.remove(end)
                name = end[1].step.spec.name
                rig.done(end[1], elapsed_s=self.lasts_s.get(name, 3.0))
                self.done[name] = self.done.get(name, 0) + 1
            self.lease()

    def began(self, name: str) -> list[float]:
        """The seconds at which a step got leases."""
        return [at_s for one, at_s in self.begun if one == name]


# ---------------------------------------------------------------- those that can never start


def test_a_step_that_asks_for_more_than_there_is_keeps_nobody_waiting() -> None:
    """A licence was given back: what needed all four can never run, and the others go on with three."""
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("big", "1-3", limits={"nuke": 4}), priority=60)
    rig.submit(step("small", "1-300", limits={"nuke": 1}))
    answer = policy(rig, limits={"nuke": LimitRule(total=3)})
    assert "J1/big asks for 4 of limit nuke, which has 3" in answer.message
    shop = Shop(rig, node)
    shop.go(120)
    assert shop.done["small"] >= 3 * 38
    assert rig.core.farm.outbid == {}


def test_a_forced_request_for_too_many_keeps_nobody_waiting() -> None:
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("big", "1", limits={"nuke": 9}), priority=75, force=True)
    rig.submit(step("small", "1-300", limits={"nuke": 1}))
    shop = Shop(rig, node)
    shop.go(90)
    assert shop.done["small"] >= 4 * 28


@pytest.mark.parametrize("kind", ["site", "other limit", "no room", "slots", "pool"])
def test_what_could_not_start_with_all_tokens_is_left_none(kind: str) -> None:
    """Its site is closed to it, another limit is closed, its node is full: small frames lose nothing."""
    rig = Rig()
    sites = {"local": SiteRule(projects=("tv",))} if kind == "site" else {}
    policy(rig, limits={**NUKE4, "zeno": LimitRule(total=0)}, sites=sites)
    nodes = [rig.join("n1", 8)]
    asks: dict[str, Any] = {"limits": {"nuke": 4}}
    lasts_s = {"long": 1000.0}
    if kind == "other limit":
        asks["limits"] = {"nuke": 4, "zeno": 1}
    elif kind == "no room":
        nodes.append(rig.join("gpu", 8, vram=(8_000,)))
        asks["resources"] = Resources(cores=8, gpus=1)
        rig.submit(step("long", "1", resources=Resources(cores=8, gpus=1)), priority=90, project="tv")
    elif kind == "slots":
        nodes.append(rig.join("night", 8, pool="night"))
        rig.node(2).settings = NodeSettings(slots=1)
        asks["pools"] = ("night",)
        rig.submit(step("long", "1", pools=("night",)), priority=90, project="tv")
    elif kind == "pool":
        asks["pools"] = ("nowhere",)
    rig.submit(step("big", "1-3", **asks), priority=60, project="film")
    rig.submit(step("small", "1-900", limits={"nuke": 1}, pools=("",)), project="tv")
    shop = Shop(rig, *nodes, spread=0.2, **lasts_s)
    shop.go(120)
    assert shop.done["small"] >= 95


def test_what_a_cap_keeps_back_and_no_node_can_take_is_left_none() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"ann": 8})
    node = rig.join("n1", 16)
    rig.submit(step("long", "1", resources=Resources(cores=2)), priority=70)
    rig.submit(step("big", "1", resources=Resources(cores=8), pools=("nowhere",)), priority=60)
    rig.submit(step("small", "1-900", resources=Resources(cores=2)))
    shop = Shop(rig, node, long=1000.0)
    shop.go(120)
    assert shop.done["small"] >= 3 * 38


# ---------------------------------------------------------------- for how long


def test_what_an_attempt_of_hours_holds_is_waited_for_by_turns() -> None:
    """One token is held for long: the other three idle for ten minutes, work for ten, idle for twenty.

    As it comes free in one of those turns, what waits for all four starts.
    """
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("long", "1", limits={"nuke": 1}), priority=70)
    rig.submit(step("big", "1", limits={"nuke": 4}), priority=60)
    rig.submit(step("small", "1-90000", limits={"nuke": 1}))
    span_s = GATHER_US // 1_000_000
    shop = Shop(rig, node, long=3.5 * span_s, small=15.0, big=30.0)
    shop.go(4 * span_s, each_s=5)
    at_s = shop.began("small")
    held = [later - sooner for sooner, later in itertools.pairwise(at_s) if later - sooner > 60]
    assert held[0] == pytest.approx(span_s, abs=30)
    busy_s = [second for second in at_s if span_s + 60 < second < 2 * span_s]
    assert len(busy_s) >= 3 * (span_s - 60) // 15 - 10, "the others have as much time"
    (big_s,) = shop.began("big")
    assert big_s == pytest.approx(3.5 * span_s, abs=30), "the second turn lasts twice as long"


def test_frames_that_are_minutes_apart_count_as_well() -> None:
    """Four licences, frames of ten minutes each: one comes free every few minutes, and is taken at once."""
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("small", "1-900", limits={"nuke": 1}))
    shop = Shop(rig, node, small=600.0, big=60.0, spread=0.2)
    rig.submit(step("big", "1", limits={"nuke": 4}), priority=60)
    shop.go(3600, each_s=10)
    (big_s,) = shop.began("big")
    assert big_s <= 1500


def test_one_that_needs_a_node_and_tokens_gets_both() -> None:
    """Small work takes every core and every token as it comes free: neither alone would ever be enough."""
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 4)
    rig.submit(step("small", "1-90000", limits={"nuke": 1}))
    shop = Shop(rig, node, small=7.0, big=20.0, spread=0.2)
    rig.submit(step("big", "1", limits={"nuke": 3}, resources=Resources(cores=4)), priority=60)
    shop.go(300)
    (big_s,) = shop.began("big")
    assert big_s <= 120


def test_one_that_needs_tokens_of_two_limits_gets_both() -> None:
    rig = Rig()
    policy(rig, limits={"arnold": LimitRule(total=2), "nuke": LimitRule(total=3)})
    node = rig.join("n1", 16)
    rig.submit(step("comp", "1-90000", limits={"nuke": 1}))
    rig.submit(step("light", "1-90000", limits={"arnold": 1}))
    shop = Shop(rig, node, comp=7.0, light=11.0, big=20.0)
    rig.submit(step("big", "1", limits={"arnold": 2, "nuke": 3}), priority=60)
    shop.go(300)
    (big_s,) = shop.began("big")
    assert big_s <= 120


def test_what_it_has_enough_of_is_taken_by_others_beside_it() -> None:
    """It gathers arnold; of nuke there are plenty, so whoever asks for one has it."""
    rig = Rig()
    policy(rig, limits={"arnold": LimitRule(total=50), "nuke": LimitRule(total=2)})
    node = rig.join("n1", 16)
    rig.submit(step("long", "1", limits={"nuke": 1}), priority=70)
    rig.submit(step("big", "1", limits={"arnold": 2, "nuke": 2}), priority=60)
    rig.submit(step("light", "1-900", limits={"arnold": 1}, resources=Resources(cores=2)))
    rig.submit(step("comp", "1-900", limits={"nuke": 1}))
    shop = Shop(rig, node, long=1000.0)
    shop.go(90)
    assert shop.done["comp"] <= 10, "nuke is left to it"
    assert shop.done["light"] >= 7 * 28, "arnold need not be"


# ---------------------------------------------------------------- caps


def gathering(rig: Rig) -> Shop:
    """Ann's cap is 8 cores: two are held for long, eight are waited for, so two-core frames have to wait."""
    policy(rig, user_max_cores={"ann": 8})
    node = rig.join("n1", 16)
    rig.submit(step("long", "1", resources=Resources(cores=2)), priority=70)
    rig.submit(step("big", "1", resources=Resources(cores=8)), priority=60)
    rig.submit(step("small", "1-900", resources=Resources(cores=2)))
    shop = Shop(rig, node, long=3000.0)
    shop.go(60)
    assert rig.states("J3/small").count("R") == 0
    return shop


@pytest.mark.parametrize("how", ["cancel", "pause", "priority"])
def test_what_waited_behind_a_larger_one_starts_when_that_is_gone(how: str) -> None:
    """Nothing of the user's ends meanwhile: the next turn alone has to see it."""
    rig = Rig()
    shop = gathering(rig)
    rig.act(how, "J2", "10" if how == "priority" else "", force=True)
    shop.lease()
    assert rig.states("J3/small").count("R") == 3


def test_what_gathers_a_cap_comes_first_though_nothing_of_the_user_ends() -> None:
    """Turns that others give rise to must not let small work through in between."""
    rig = Rig()
    shop = gathering(rig)
    rig.submit(step("other", "1-900"), user="bob")
    shop.go(60)
    assert shop.done["other"] >= 8 * 19
    assert rig.states("J3/small").count("R") == 0


def test_a_cap_of_a_job_is_gathered_the_same_way() -> None:
    rig = Rig()
    node = rig.join("n1", 16)
    big = step("big", "1", resources=Resources(cores=4))
    small = step("small", "1-900", resources=Resources(cores=1))
    rig.submit(big, small, max_cores=4)
    rig.act("pause", "J1")
    shop = Shop(rig, node, small=7.0)
    rig.submit(step("fill", "1", resources=Resources(cores=13)), priority=90)
    shop.lasts_s["fill"] = 30.0
    shop.go(1)
    rig.act("resume", "J1")
    shop.go(25)
    assert shop.done["small"] >= 6, "beside fill there is room for small frames alone"
    shop.go(150)
    (big_s,) = shop.began("big")
    assert big_s <= 80


def test_behind_a_full_cap_thousands_of_jobs_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends of the user's wakes what fits, and the first job that is refused keeps all behind it back."""
    rig = Rig()
    policy(rig, user_max_cores={"ann": 4})
    node = rig.join("n1", 8)
    for _ in range(200):
        rig.submit(step("a", "1-3"))
    shop = Shop(rig, node)
    assert len(rig.job(1).holder.capped) == 199
    calls = {"push": 0, "head": 0}
    push, head = Queue.push, Line.head

    def counted_push(queue: Queue, one: Any) -> None:
        calls["push"] += 1
        push(queue, one)

    def counted_head(line: Line) -> Any:
        calls["head"] += 1
        return head(line)

    monkeypatch.setattr(Queue, "push", counted_push)
    monkeypatch.setattr(Line, "head", counted_head)
    shop.go(3)
    assert shop.done == {"a": 4}
    assert calls["push"] + calls["head"] < 100


def test_a_checkpoint_and_a_restart_lose_nothing_a_cap_keeps_back() -> None:
    """Queues of shapes in which nothing may start are made anew at a checkpoint, but not theirs."""
    rig = Rig()
    policy(rig, user_max_cores={"ann": 4})
    node = rig.join("n1", 8)
    rig.submit(step("first", "1-4"))
    rig.submit(step("a", "1-6", resources=Resources(cores=1, ram_mib=1)))
    shop = Shop(rig, node)
    assert [one.address for one in rig.job(2).holder.capped.values()] == ["J2/a"]
    rig.checkpoint()
    shop.go(3)
    assert len(shop.began("a")) == 4
    rig.checkpoint()
    rig.restart()
    rig.beat(node)
    shop.go(4)
    assert len(shop.began("a")) == 6


def test_a_cap_that_is_raised_lets_go_what_it_kept_back() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"ann": 2})
    rig.join("n1", 8)
    rig.submit(step("a", "1-9"))
    assert len(rig.dispatch()) == 2
    policy(rig, user_max_cores={"ann": 5})
    assert len(rig.dispatch()) == 3


# ---------------------------------------------------------------- what is told of it, and what is kept


def why(rig: Rig, address: str) -> Answer:
    """The answer for a step."""
    return explain.why(rig.core.farm, rig.step(address), None, rig.now_us)


def test_why_says_to_whom_tokens_are_left_and_its_cure_cures() -> None:
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("long", "1", limits={"nuke": 1}), priority=70)
    rig.submit(step("big", "1", limits={"nuke": 4}), priority=60)
    rig.submit(step("small", "1-900", limits={"nuke": 1}))
    shop = Shop(rig, node, long=3000.0)
    shop.go(10)
    assert why(rig, "J3/small").causes[0][0] == "limit nuke: 4 of 4 in use, 1 needed"
    shop.go(50)
    left = "tokens of limit nuke are left to J2/big, which needs 4 of them at once"
    answer = why(rig, "J3/small")
    assert answer.causes[0] == (f"{left} and has waited 60 s", "farm priority J3 61")
    assert [(one.filter, one.reason) for one in answer.nodes] == [("limit", f"has room, but {left}")]
    assert answer.wait is not None
    assert answer.wait.high_us is None
    waiting = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us).work
    assert ("J3/small", f"n1 has room, but {left}", "") in waiting
    assert why(rig, "J2/big").causes[0][0] == "limit nuke: 1 of 4 in use, 4 needed"
    rig.act("priority", "J3", "61", who="wim")
    assert len(rig.dispatch()) == 3


def test_why_says_whose_cores_of_a_cap_are_left_to_whom() -> None:
    rig = Rig()
    gathering(rig)
    left = "cores of ann's cap are left to J2/big, which needs 8 of them at once"
    assert why(rig, "J3/small").causes[0][0].startswith(f"{left} and has waited ")
    rig.act("cancel", "J2", force=True)
    assert left not in str(why(rig, "J3/small"))


def test_nothing_is_kept_of_those_that_wait_no_longer() -> None:
    """Canceled, deleted, paused: whoever waits no longer is forgotten at the next look."""
    rig = Rig()
    policy(rig, limits=NUKE4)
    node = rig.join("n1", 8)
    rig.submit(step("long", "1", limits={"nuke": 1}), priority=70)
    rig.submit(step("small", "1-900", limits={"nuke": 1}))
    shop = Shop(rig, node, long=3000.0)
    for how in ("cancel", "pause", "delete"):
        number = rig.submit(step("big", "1", limits={"nuke": 4}), priority=60)
        shop.go(5)
        assert rig.core.farm.outbid.keys() == {rig.step(f"J{number}/big").id}
        rig.act("pause" if how == "pause" else "cancel", f"J{number}", force=True)
        if how == "delete":
            rig.handle(DeleteEvent(rig.now_us, number, "", "wim", None))
        shop.go(1)
        assert rig.core.farm.outbid == {}


def test_a_policy_that_takes_tokens_away_names_who_asks_for_them() -> None:
    rig = Rig()
    policy(rig, limits={**NUKE4, "zeno": LimitRule(total=4)})
    for _ in range(7):
        rig.submit(step("big", "1", limits={"nuke": 3}))
    rig.submit(step("fits", "1", limits={"nuke": 2}))
    rig.submit(step("other", "1", limits={"zeno": 1}))
    rig.act("cancel", "J1", force=True)
    message = policy(rig, limits={"nuke": LimitRule(total=2)}).message
    asks = "asks for 3 of limit nuke, which has 2: it waits until there are as many, or it asks for less"
    assert f"warning: J2/big {asks}; warning: J3/big {asks};" in message
    assert message.endswith("warning: and 2 more")
    assert "J1/big" not in message
    assert "fits" not in message
    message = policy(rig, limits={"nuke": LimitRule(total=3)}).message
    assert message.endswith("warning: J9/other asks for limit zeno, which is not set: it waits")
    assert "warning" not in policy(rig, limits={"nuke": LimitRule(total=3)}, half_life_h=3.0).message

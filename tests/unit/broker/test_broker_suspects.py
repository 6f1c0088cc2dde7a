"""What follows a turn's messages brings the broker down: who it was is found, and only that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.broker.routes import Routes
from farm.core import core
from farm.core.events import BeatEvent, DispatchEvent, TickEvent
from farm.core.state import Farm
from farm.protocol.client import (
    ActReply,
    ErrorReply,
    HistoryReq,
    JobsReply,
    JobsReq,
    KeysReq,
    NodeActReq,
    StatusReply,
    StatusReq,
    SubmitReply,
    SubmitReq,
)
from farm.protocol.common import RefusedMsg, WelcomeMsg
from tests.support.fallen_loop import FallenLoop, break_core
from tests.support.truth import job_file

STEP = {"name": "s", "renderer": "command", "kind": "single", "params": {"command": ["true"]}}

pytestmark = pytest.mark.allow_log("request-failed|message-failed|fall-unexplained|was-away")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FallenLoop]:
    made = FallenLoop(tmp_path, monkeypatch)
    made.say(made.hello("ada", agent=False), made.hello("bob", agent=False))
    yield made
    made.close()


def submit(house: FallenLoop, name: str, job: str, token: str = "") -> tuple[str, object]:
    return house.ask(name, SubmitReq, job=job_file(STEP, name=job, token=token), force=True)


def greet(house: FallenLoop, *names: str) -> None:
    house.say(*(house.hello(name, agent=name not in ("ada", "bob")) for name in names))


def alerts(house: FallenLoop) -> list[str]:
    (reply,) = house.say(house.ask("ada", StatusReq))["ada"]
    assert isinstance(reply, StatusReply)
    return list(reply.alerts)


def test_the_farm_at_a_glance_counts_what_nodes_have_and_what_is_in_use(house: FallenLoop) -> None:
    greet(house, "wolf", "fox")
    (reply,) = house.say(house.ask("ada", StatusReq))["ada"]
    assert isinstance(reply, StatusReply)
    nodes = [node for node in house.farm.nodes.values() if node.name in ("wolf", "fox")]
    assert reply.cores == sum(node.facts.total.cores for node in nodes) > 0
    assert (reply.cores_used, reply.gpus_used) == (0, 0)
    house.say(submit(house, "ada", "good"), house.beat("wolf"))
    (reply,) = house.say(house.ask("ada", StatusReq))["ada"]
    assert reply.cores_used == sum(attempt.cores for node in nodes for attempt in node.attempts.values())


def bad_job(farm: Any) -> bool:
    return any(job.spec.name == "bad" for job in farm.jobs.values())


@pytest.mark.parametrize("event", [DispatchEvent, TickEvent])
def test_a_submit_whose_placing_falls_is_found_among_the_others_of_its_turn(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch, event: type
) -> None:
    break_core(monkeypatch, event, bad_job)
    greet(house, "wolf")
    told = house.say(
        submit(house, "ada", "good"),
        submit(house, "bob", "bad", "1"),
        house.beat("wolf"),
        house.ask("ada", JobsReq),
    )
    assert len(house.fell) == 1
    assert "one of 3 messages" in house.fell[0].blame
    for name in ("ada", "bob"):
        # Reading requests are asked again by the client itself; of what changes something each is told.
        (answer,) = told[name]
        assert isinstance(answer, ErrorReply)
        assert "the broker failed in the turn that held this request (KeyError)" in answer.message
        assert "nothing was done" in answer.message
    assert house.jobs() == []
    greet(house, "ada", "bob", "wolf")
    (alert,) = alerts(house)
    assert f"{event.__name__} (KeyError) after one of 3 messages" in alert
    # Together again, the bad one under a new token as ``farm submit`` gives it: it alone is blamed now.
    told = house.say(
        submit(house, "ada", "good"),
        house.beat("wolf"),
        submit(house, "bob", "bad", "2"),
        house.ask("ada", JobsReq),
    )
    assert len(house.fell) == 2
    assert "SubmitReq of bob" in house.fell[1].blame
    assert isinstance(told["ada"][0], SubmitReply)
    (answer,) = told["bob"]
    assert "the broker failed on this request (KeyError)" in answer.message
    assert house.jobs() == ["good"], "what was told to be taken is there"
    greet(house, "ada", "bob", "wolf")
    assert alerts(house) == []
    told = house.say(submit(house, "bob", "bad", "3"), submit(house, "ada", "better"))
    (answer,) = told["bob"]
    assert "this request is not taken: it brought the broker down (KeyError)" in answer.message
    assert isinstance(told["ada"][0], SubmitReply)
    assert house.jobs() == ["good", "better"]
    assert len(house.fell) == 2


def test_a_suspect_that_is_not_the_cause_has_done_nothing_twice(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspects come again while others, new ones too, are taken as ever."""
    break_core(monkeypatch, DispatchEvent, bad_job)
    house.say(submit(house, "ada", "one"), submit(house, "bob", "bad"))
    greet(house, "ada", "bob")
    told = house.say(submit(house, "bob", "two"), submit(house, "ada", "one"), submit(house, "bob", "three"))
    assert [type(answer) for answer in told["bob"]] == [SubmitReply, SubmitReply]
    assert house.jobs() == ["two", "one", "three"]
    assert len(house.fell) == 1


def test_a_suspect_answers_for_itself_only(house: FallenLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    fell = [True]
    break_core(monkeypatch, DispatchEvent, lambda farm: bad_job(farm) or (bool(farm.jobs) and bool(fell)))
    house.say(submit(house, "ada", "one"))
    fell.clear()
    # What came before it in the same turn falls before it is taken ...
    greet(house, "ada", "bob")
    told = house.say(submit(house, "bob", "bad"), submit(house, "ada", "one"))
    assert "one of 2 messages" in house.fell[-1].blame, "the suspect of before is still one"
    assert "nothing was done" in told["ada"][0].message
    assert "nothing was done" in told["bob"][0].message
    # ... and what comes after it is not its doing.
    greet(house, "ada", "bob")
    house.say(submit(house, "ada", "one"), submit(house, "ada", "two"), submit(house, "ada", "bad"))
    assert "messages" in house.fell[-1].blame
    assert house.jobs() == ["one"]
    assert house.falls.alerts == [alert for alert in house.falls.alerts if "refused" not in alert]


def test_an_agent_s_hello_that_placing_falls_by_is_refused_and_nobody_else_is(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [True]
    break_core(
        monkeypatch,
        DispatchEvent,
        lambda farm: (
            broken[0]
            and any(node.name == "poison" and node.state.value == "online" for node in farm.nodes.values())
        ),
    )
    names = ("wolf", "poison", "hare")
    house.say(*(house.hello(name) for name in names))
    assert len(house.fell) == 1
    # Agents try again by themselves: all together.
    house.say(*(house.hello(name) for name in names))
    assert len(house.fell) == 2
    assert house.fell[1].blame == "hello of poison"
    told = house.say(*(house.hello(name) for name in names))
    assert len(house.fell) == 2
    (refusal,) = told["poison"]
    assert isinstance(refusal, RefusedMsg)
    assert "its hello brought the broker down 2 times (KeyError)" in refusal.reason
    assert isinstance(told["wolf"][0], WelcomeMsg)
    assert isinstance(told["hare"][0], WelcomeMsg)
    greet(house, "ada")
    (alert,) = alerts(house)
    assert alert.startswith("poison is refused: ")
    assert "`farm node enable poison` lets it in again" in alert
    # It never was stored as a node, and can be let in again all the same.
    broken[0] = False
    told = house.say(house.ask("ada", NodeActReq, action="node-enable", node="poison"))
    assert told["ada"] == [ActReply(id=2, changed=1, message="poison is let in again")]
    assert alerts(house) == []
    assert isinstance(house.say(house.hello("poison"))["poison"][0], WelcomeMsg)
    told = house.say(house.ask("ada", NodeActReq, action="node-enable", node="wolf-2"))
    assert "there is no node" in told["ada"][0].message


def test_a_heartbeat_that_placing_falls_by_is_refused_until_somebody_enables_its_node(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(house, "wolf", "hare")
    poisoned: list[Farm] = []
    beat = core._HANDLERS[BeatEvent]

    def on_beat(farm: Farm, event: BeatEvent, out: Any) -> None:
        beat(farm, event, out)
        if farm.nodes[event.node_id].name == "wolf" and not cured:
            poisoned.append(farm)

    cured: list[bool] = []
    monkeypatch.setitem(core._HANDLERS, BeatEvent, on_beat)
    break_core(monkeypatch, TickEvent, lambda farm: any(farm is one for one in poisoned))
    break_core(monkeypatch, DispatchEvent, lambda farm: any(farm is one for one in poisoned))
    house.say(house.beat("hare"), house.beat("wolf"))
    greet(house, "hare", "wolf")
    house.say(house.beat("hare"), house.beat("wolf"))
    assert house.fell[1].blame == "heartbeat of wolf"
    assert len(house.fell) == 2
    told = house.say(house.hello("wolf"), house.hello("hare"))
    assert "its heartbeat brought the broker down 2 times" in told["wolf"][0].reason
    assert isinstance(told["hare"][0], WelcomeMsg)
    cured.append(True)
    greet(house, "ada")
    told = house.say(house.ask("ada", NodeActReq, action="node-enable", node="wolf"))
    assert told["ada"][0].message == "wolf takes work, and is let in again"
    assert isinstance(house.say(house.hello("wolf"))["wolf"][0], WelcomeMsg)


def test_a_fall_that_needs_no_message_is_nobody_s(house: FallenLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(house, "wolf")
    broken = [True]
    break_core(monkeypatch, TickEvent, lambda farm: broken[0])
    # Whoever speaks in that turn is suspected, until it falls without anybody.
    told = house.say(submit(house, "ada", "one"), house.beat("wolf"))
    assert "no message" in house.fell[0].blame, "the broker looks at what is stored before it hears anybody"
    assert told == {"ada": [], "wolf": []}, "nobody's message was taken"
    count = house.falls.count
    house.say()
    assert house.falls.count == count == 0, "a fall that will come again at once is not hurried"
    broken[0] = False
    greet(house, "ada", "wolf")
    (alert,) = alerts(house)
    assert "the core failed at TickEvent (KeyError) without any message" in alert
    assert isinstance(house.say(submit(house, "ada", "one"))["ada"][0], SubmitReply)
    house.now_s += 86_401.0
    assert alerts(house) == []


def test_a_fall_that_begins_amid_messages_and_stays_refuses_nobody(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(house, "wolf")
    broken: list[bool] = []
    break_core(monkeypatch, DispatchEvent, lambda farm: bool(broken))
    take = Routes.take

    def late(routes: Routes, *message: Any) -> None:
        broken.append(True)  # the moment comes while messages are taken
        take(routes, *message)

    with monkeypatch.context() as patch:
        patch.setattr(Routes, "take", late)
        house.say(submit(house, "ada", "one"), house.beat("wolf"))
    assert "one of 2 messages" in house.fell[-1].blame
    # It comes without any at the next start, and both are taken as ever once it has gone.
    house.say()
    assert "no message" in house.fell[-1].blame
    assert not house.falls.suspecting
    broken.clear()
    greet(house, "ada", "wolf")
    told = house.say(submit(house, "ada", "one"), house.beat("wolf"))
    assert isinstance(told["ada"][0], SubmitReply)
    assert "without any message" in alerts(house)[0]


def test_a_fall_that_does_not_come_again_is_told_and_refuses_nobody(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1]

    def once(farm: Any) -> bool:
        return bool(farm.jobs) and bool(times) and bool(times.pop())

    break_core(monkeypatch, DispatchEvent, once)
    house.say(submit(house, "ada", "one"), submit(house, "bob", "two"))
    assert len(house.fell) == 1
    greet(house, "ada", "bob")
    house.say(submit(house, "bob", "two"), submit(house, "ada", "one"))
    assert house.jobs() == ["two", "one"]
    assert not house.falls.suspecting
    (alert,) = alerts(house)
    assert "no message of that turn did it again" in alert


def test_what_is_done_at_once_is_not_called_undone(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_core(monkeypatch, DispatchEvent, bad_job)
    told = house.say(
        house.ask("ada", KeysReq, action="keys-revoke", key="bob"),
        house.ask("ada", KeysReq, action="keys-list"),
        submit(house, "ada", "bad"),
    )
    first, second = told["ada"]
    assert "whether this was done is not known" in first.message
    assert "nothing was done" in second.message


def test_agents_suspicions_end_soon_and_requests_within_a_day(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(house, "wolf")
    break_core(monkeypatch, DispatchEvent, bad_job)
    house.say(house.beat("wolf"), submit(house, "bob", "bad"))
    assert house.falls.suspecting_agents
    house.now_s += 700.0
    house.falls.age()
    assert house.falls.suspecting
    assert not house.falls.suspecting_agents
    greet(house, "bob")
    house.say(submit(house, "bob", "bad"))
    assert "SubmitReq of bob" in house.fell[1].blame
    house.now_s += 86_401.0
    house.falls.age()
    greet(house, "bob")
    told = house.say(submit(house, "bob", "bad"))
    assert len(house.fell) == 3, "a day later it is tried anew"
    assert "nothing was done" in told["bob"][0].message


def test_a_broker_that_slept_gives_its_nodes_the_grace_of_a_start(house: FallenLoop) -> None:
    greet(house, "wolf", "hare")
    house.say(submit(house, "ada", "one"))
    (attempt,) = house.farm.attempts
    house.now_us += 9 * 3_600_000_000
    house.say()
    assert house.states() == {"wolf": "suspect", "hare": "suspect"}
    greet(house, "ada")
    (reply,) = house.say(house.ask("ada", HistoryReq))["ada"]
    told = [(row.what, row.new, row.reason) for row in reply.rows]
    assert ("node wolf", "suspect", "the broker was away") in told, "whoever follows nodes sees it"
    assert list(house.farm.attempts) == [attempt], "nothing is requeued before they could say what they hold"
    house.now_us += 10_000_000
    house.say(house.beat("wolf"))
    assert house.states() == {"wolf": "online", "hare": "suspect"}
    for _ in range(6):
        house.now_us += 10_000_000
        house.say(house.beat("wolf"))
    assert house.states() == {"wolf": "online", "hare": "lost"}, "who did not come back in time is gone"


def test_a_short_pause_of_the_broker_is_no_sleep(house: FallenLoop) -> None:
    greet(house, "wolf", "hare")
    house.now_us += 29_000_000
    house.say(house.beat("wolf"))
    assert house.states() == {"wolf": "online", "hare": "suspect"}
    house.now_us += 20_000_000
    house.say(house.beat("wolf"), house.ask("ada", JobsReq))
    house.now_us += 20_000_000
    (reply,) = house.say(house.ask("ada", JobsReq))["ada"]
    assert isinstance(reply, JobsReply)
    assert house.states()["hare"] == "lost"


def test_a_suspect_that_never_reached_the_core_is_not_cleared_by_that(
    house: FallenLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(house, "wolf", "fox")
    beat, tick, poisoned = core._HANDLERS[BeatEvent], core._HANDLERS[TickEvent], []

    def on_beat(farm: Farm, event: Any, out: Any) -> None:
        beat(farm, event, out)
        if farm.nodes[event.node_id].name == "wolf":
            poisoned.append(1)

    def on_tick(farm: Farm, event: Any, out: Any) -> None:
        tick(farm, event, out)
        if poisoned:
            poisoned.clear()
            raise KeyError("x")

    monkeypatch.setitem(core._HANDLERS, BeatEvent, on_beat)
    monkeypatch.setitem(core._HANDLERS, TickEvent, on_tick)
    house.say(house.beat("wolf"), house.beat("fox"))
    for _ in range(4):
        # A heartbeat that was under way when the connection broke: it comes before the hello of the next one.
        house.say(house.beat("wolf"))
        house.now_us += 300_000
        greet(house, "wolf", "fox")
        house.now_us += 300_000
        house.say(house.beat("wolf"), house.beat("fox"))
    assert [error.blame.partition(";")[0] for error in house.fell] == [
        "one of 2 messages",
        "heartbeat of wolf",
    ]

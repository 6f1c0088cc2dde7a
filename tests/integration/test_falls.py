"""A broker whose core fails in the middle of an event: memory never runs ahead of the disk.

``tests.support.falling_broker`` brings the failures; what the real core once failed at is refused in words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.model.errors import CallError, OvercrankError
from farm.protocol.agent import ReportMsg
from farm.protocol.codec import encode
from farm.protocol.common import RefusedMsg
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.hand_agent import HandAgent
from tests.support.truth import Ledger, Renders, assert_exactly_once, job_file
from tests.support.waiting import PATIENCE_S, eventually

FIXTURES = Path(__file__).parents[1] / "fixtures" / "databases"
TURN_LOST = "turn-lost reason="
STEP = {"name": "s", "renderer": "command", "kind": "single", "params": {"command": ["true"]}}


def falls_of(house: Farmhouse) -> int:
    """How often the broker went back to its disk."""
    return house.broker.text().count(TURN_LOST)


def test_values_the_core_once_fell_over_are_refused_and_change_nothing(
    new_house: Callable[..., Farmhouse],
) -> None:
    house = new_house()
    admin = house.admin
    number = admin.submit(job_file(STEP, start_after="2199-01-01T00:00:00Z")).job
    wrong = "9999-12-31T23:59:59-14:00"
    for address, values in (
        (f"J{number}", {"start_after": wrong}),
        (f"J{number}/s", {"timeout_s": "inf"}),
        (f"J{number}/s", {"timeout_s": "nan"}),
        (f"J{number}/s", {"failure.frame_timeout_s": "inf"}),
    ):
        with pytest.raises(CallError):
            admin.set(address, values)
    with pytest.raises(CallError, match="beyond the year 9999"):
        admin.submit(job_file(STEP, start_after=wrong))
    before = admin.job(number, spec=True)
    assert b"2199-01-01" in bytes(before.spec)
    house.restart_broker()
    assert house.ask(lambda farm: farm.job(number, spec=True)).spec == before.spec
    assert "Traceback" not in house.broker.text()


def test_a_request_that_brings_the_core_down_leaves_nothing_behind(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house(broker_module="tests.support.falling_broker")
    house.agent("a")
    house.wait_online()
    number = house.admin.submit(renders.job("1-6", gated=True)).job
    eventually(lambda: len(renders.begun()) == 2, "the node is busy")
    ada = house.client("admin", "ada")
    with pytest.raises(OvercrankError, match="nothing was done"):
        ada.act("priority", f"J{number}", "77", reason="fall")
    eventually(lambda: falls_of(house) == 1, "the broker went back to its disk")
    assert house.ask(lambda farm: farm.job(number)).job.priority == 50
    assert house.broker.running
    assert "KeyError: 'a failure in the middle'" in house.broker.text()
    # The same again is not taken, whoever else goes on.
    with pytest.raises(OvercrankError, match="it brought the broker down"):
        ada.act("priority", f"J{number}", "77", reason="fall")
    assert falls_of(house) == 1
    ada.act("priority", f"J{number}", "60")
    renders.open_gate()
    house.wait_job(number)
    assert_exactly_once(Ledger(house.database), number, renders.pattern, "1-6")
    assert len(renders.begun()) == 6
    house.restart_broker()
    assert house.ask(lambda farm: farm.job(number)).job.priority == 60


def test_a_node_whose_report_brings_the_core_down_twice_is_refused(
    new_house: Callable[..., Farmhouse],
) -> None:
    ample = {**FAST, "suspect_s": 15.0, "lost_s": 60.0, "lease_ttl_s": 45.0, "restart_grace_s": 60.0}
    house = new_house(broker_module="tests.support.falling_broker", times=ample)
    number = house.admin.submit(job_file(STEP)).job
    pair = house.key("agent", "")
    with HandAgent(house.access(pair), "faller") as agent:
        (lease,) = agent.wait_lease()
    report = encode(ReportMsg(1, lease.attempt, lease.nonce, (), True))
    for count in (1, 2):
        with HandAgent(house.access(pair), "faller") as agent:
            agent.send_raw(report)
            eventually(lambda count=count: falls_of(house) == count, "the broker went back to its disk")
        house.ask(lambda farm: farm.status())
    again = HandAgent(house.access(pair), "faller")
    try:
        again.send_raw(again._session.greet())
        answers = again._session.receive(_next(again))
    finally:
        again._link.close()
    (refusal,) = [answer for answer in answers if isinstance(answer, RefusedMsg)]
    assert f"its report about attempt {lease.attempt} brought the broker down 2 times" in refusal.reason
    status = house.ask(lambda farm: farm.status())
    assert any(alert.startswith("faller is refused") for alert in status.alerts)
    assert house.job(number).done == 0
    assert falls_of(house) == 2


def test_a_submit_that_placing_falls_by_is_refused_and_the_farm_goes_on(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house(broker_module="tests.support.falling_broker")
    house.agent("a")
    house.wait_online()
    number = house.admin.submit(renders.job("1-6", gated=True)).job
    eventually(lambda: len(renders.begun()) == 2, "the node is busy")
    ada = house.client("admin", "ada")
    for token in ("1", "2"):  # as ``farm submit`` gives one to each try
        with pytest.raises(OvercrankError, match=r"the broker failed .* nothing was done"):
            ada.submit(job_file(STEP, name="unplaceable", token=token), repeat=True)
        # Its agent says hello and heartbeats all the while, and is not blamed.
        house.wait_online()
    with pytest.raises(OvercrankError, match="this request is not taken: it brought the broker down"):
        ada.submit(job_file(STEP, name="unplaceable", token="3"), repeat=True)
    assert falls_of(house) == 2
    assert "cause=one of" in house.broker.text() or "cause=a message" in house.broker.text()
    assert "cause=SubmitReq of ada, refused from now on" in house.broker.text()
    renders.open_gate()
    house.wait_job(number)
    assert_exactly_once(Ledger(house.database), number, renders.pattern, "1-6")
    assert len(renders.begun()) == 6
    assert [row.job for row in house.admin.jobs().jobs] == [number]


def test_an_agent_that_placing_falls_by_does_not_keep_the_farm_down(
    new_house: Callable[..., Farmhouse],
) -> None:
    house = new_house(broker_module="tests.support.falling_broker")
    house.agent("a")
    house.wait_online()
    poison = house.agent("poison")
    eventually(
        lambda: any(
            alert.startswith("poison is refused") for alert in house.ask(lambda farm: farm.status()).alerts
        ),
        "it tried again by itself, and is refused now",
    )
    assert falls_of(house) == 2
    house.wait_job(house.admin.submit(job_file(STEP)).job)
    assert poison.running
    assert falls_of(house) == 2
    # Somebody lets it in again: then it is tried anew, and refused again.
    answer = house.ask(lambda farm: farm.node_act("node-enable", "poison"))
    assert answer.message == "poison is let in again"
    eventually(lambda: falls_of(house) == 4, "it said hello twice more")


def test_a_fall_without_a_message_is_told_of_and_blamed_on_nobody(
    new_house: Callable[..., Farmhouse],
) -> None:
    house = new_house(broker_module="tests.support.falling_broker")
    house.agent("a")
    house.wait_online()
    fault = house.folder / "tick-falls"
    fault.touch()
    eventually(lambda: "cause=no message" in house.broker.text(), "the broker said that nobody did it")
    fault.unlink()
    house.wait_online()
    alerts = house.ask(lambda farm: farm.status()).alerts
    assert any("TickEvent (KeyError) without any message" in alert for alert in alerts)
    assert not any("refused" in alert for alert in alerts)
    house.wait_job(house.admin.submit(job_file(STEP)).job)


def _next(agent: HandAgent) -> bytes:
    body = agent._link.recv(PATIENCE_S)
    assert body is not None
    return body


def test_a_farm_of_the_first_schema_is_served(tmp_path: Path) -> None:
    house = Farmhouse(tmp_path / "farm", name="old")
    house.database.parent.mkdir(mode=0o700, parents=True)
    raw = sqlite3.connect(house.database)
    raw.executescript((FIXTURES / "schema-0001.sql").read_text(encoding="utf-8"))
    raw.execute("INSERT INTO invites VALUES ('broken', x'006f6e65')")
    raw.commit()
    raw.close()
    with house:
        jobs = house.ask(lambda farm: farm.jobs(archived=True)).jobs
        assert {row.job for row in jobs} == {1, 2, 3, 4, 5}
        assert house.ask(lambda farm: farm.job(1)).job.steps
        assert {row.role for row in house.admin.keys().keys} >= {"admin", "agent"}
        assert house.broker.text().count("invite-unreadable") == 1
        assert house.admin.keys("keys-invite", role="artist", user="eve").token

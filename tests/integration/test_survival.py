"""Brokers and agents killed at any moment: every frame is committed once, and its file is that attempt's."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.farmhouse import Farmhouse
from tests.support.truth import (
    Ledger,
    Renders,
    assert_exactly_once,
    attempt_folders,
    expected_names,
    folder_names,
)
from tests.support.waiting import eventually


def _node_of(house: Farmhouse, ledger: Ledger, job: int, attempt: int) -> str:
    """Name of the node an attempt (by its number) was leased to."""
    (lease,) = [lease for lease in ledger.leases(job, "render").values() if lease.no == attempt]
    return next(row.name for row in house.nodes() if row.node == lease.node_id)


def _begun(renders: Renders, frame: int) -> Callable[[], int]:
    """The attempt that has begun a frame, 0 while none has."""
    return lambda: next((no for number, no in renders.begun() if number == frame), 0)


def _reach(figure: Callable[[], int], count: int, what: str) -> None:
    eventually(lambda: figure() >= count, what)


def test_an_agent_killed_in_the_middle_of_a_chunk(house: Farmhouse, ledger: Ledger, renders: Renders) -> None:
    number = house.admin.submit(renders.job("1-12", chunk=6, gated=True)).job
    renders.open_gate(frame=1)
    renders.open_gate(frame=2)
    attempt = eventually(_begun(renders, 3), "frame 3 is being rendered")
    house.wait_job(number, lambda row: row.done == 2)
    victim = _node_of(house, ledger, number, attempt)
    assert house.agents[victim].descendants()
    house.agents[victim].kill()
    # Its renderer dies with it, though nobody is left who could tell it to.
    eventually(lambda: not house.agents[victim].descendants(), f"nothing that {victim} started runs")
    renders.open_gate()
    house.wait_job(number)

    assert_exactly_once(ledger, number, renders.pattern, "1-12")
    leases, commits = ledger.leases(number, "render"), ledger.commits(number, "render")
    by_frame = {unit + 1: leases[rows[0].attempt_id].no for unit, rows in commits.items()}
    # What was committed before stays; only what was missing was leased again.
    assert by_frame[1] == by_frame[2] == attempt
    assert all(by_frame[frame] != attempt for frame in range(3, 7))
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-12")


@pytest.mark.slow
def test_the_broker_killed_ten_times_during_a_job_of_200_frames(
    house: Farmhouse, ledger: Ledger, renders: Renders
) -> None:
    points = random.Random(20_260_801)
    number = house.admin.submit(renders.job("1-200", chunk=3, takes_s=0.02)).job
    at = sorted(points.sample(range(2, 192), 10))
    kinds: dict[str, Callable[[], int]] = {
        "begun": lambda: len(renders.begun()),
        "written": lambda: len(renders.ended()),
        "published": renders.published,
    }
    for count in at:
        kind = points.choice(sorted(kinds))
        reached = kinds[kind]
        _reach(reached, count, f"{count} frames {kind}")
        house.restart_broker()
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-200")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-200")

    # A restart that has nothing left to do rebuilds the same job from the same rows.
    before = house.job(number)
    house.restart_broker()
    assert house.job(number) == before


@pytest.mark.slow
def test_broker_and_agents_killed_at_once(house: Farmhouse, ledger: Ledger, renders: Renders) -> None:
    points = random.Random(4)
    number = house.admin.submit(renders.job("1-60", chunk=4, takes_s=0.02)).job
    for count in sorted(points.sample(range(3, 50), 3)):
        _reach(renders.published, count, f"{count} frames published")
        for managed in (house.broker, *house.agents.values()):
            managed.kill()
        for agent in house.agents.values():
            agent.start()
        house.start_broker()
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-60")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-60")


def test_an_agent_restarted_while_the_broker_is_away(
    house: Farmhouse, ledger: Ledger, renders: Renders
) -> None:
    number = house.admin.submit(renders.job("1-8", chunk=2, gated=True)).job
    eventually(lambda: len(renders.begun()) == 4, "both nodes are busy with two chunks each")
    first = {no for _, no in renders.begun()}
    on_a = {no for no in first if _node_of(house, ledger, number, no) == "a"}
    assert len(on_a) == 2
    house.broker.kill()
    agent = house.agents["a"]
    old_id = agent.agent_id
    agent.kill()
    agent.start()
    eventually(lambda: agent.text().count("event=started") == 2, "the agent runs again")
    assert agent.agent_id == old_id
    # Meanwhile the other agent goes on without a broker and keeps what it has.
    renders.open_gate()
    eventually(lambda: len(renders.ended()) == 4, "what the other node was at is written")
    assert len(attempt_folders(renders.out)) >= 2
    house.start_broker()
    house.wait_job(number)

    assert_exactly_once(ledger, number, renders.pattern, "1-8")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-8")
    leases, commits = ledger.leases(number, "render"), ledger.commits(number, "render")
    committed_by = {leases[rows[0].attempt_id].no for rows in commits.values()}
    # Nothing of the restarted agent's old attempts counts; the other's survived the broker.
    assert not committed_by & on_a
    assert first - on_a <= committed_by


def test_results_of_an_absent_broker_are_kept_and_told_once(
    house: Farmhouse, ledger: Ledger, renders: Renders
) -> None:
    """Files that were granted before go on; the reports wait in the outbox."""
    number = house.admin.submit(renders.job("1-4", chunk=4, gated=True)).job
    renders.open_gate(frame=1)
    house.wait_job(number, lambda row: row.done == 1)
    house.broker.kill()
    renders.open_gate()
    eventually(lambda: len(renders.ended()) == 4, "the chunk is rendered without a broker")
    house.start_broker()
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-4")
    # One attempt did it all: nothing was rendered a second time.
    assert len(ledger.leases(number, "render")) == 1

"""Stale attempts: cut off, frozen or confused agents cannot put a file where a committed one is.

Three guards are tried one by one: the fence (nothing is renamed without a fresh heartbeat answer), the
emptying of superseded folders (a rename that stalled finds no source), and the identity of a report
(attempt, nonce and key must be the lease's).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.model.reports import FAILED
from farm.model.states import AttemptKind
from farm.transport.keys import generate_keypair
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.hand_agent import HandAgent
from tests.support.proxy import Proxy
from tests.support.truth import (
    Ledger,
    Renders,
    assert_exactly_once,
    attempt_folders,
    expected_names,
    folder_names,
    job_file,
)
from tests.support.waiting import eventually, throughout

#: Longer than any broken fence would hold a rename back.
_WATCH_S = 1.0


@pytest.fixture
def cut_off(new_house: Callable[..., Farmhouse]) -> tuple[Farmhouse, Proxy, Proxy]:
    """A farm whose one node, a, is reached through proxies."""
    house = new_house()
    endpoint = house.endpoint
    control, bulk = Proxy(endpoint.control), Proxy(endpoint.bulk)
    house.proxies += [control, bulk]
    house.agent("a", control=control.address, bulk=bulk.address)
    house.wait_online()
    return house, control, bulk


def _lose(house: Farmhouse, name: str) -> None:
    eventually(lambda: house.node(name).state == "lost", f"{name} is lost")


def _begin(house: Farmhouse, renders: Renders, frames: str, last: set[tuple[int, int]], **fields: Any) -> int:
    """Submits a gated job whose first two frames get done, so that later leases need no grant to publish.

    Returns once ``last``, the frames after them with their attempts, are being rendered and named in answered
    heartbeats: from now on only the age of these answers decides whether they may be published.
    """
    number = house.admin.submit(renders.job(frames, gated=True, **fields)).job
    for frame in (1, 2):
        renders.open_gate(frame=frame)
    eventually(lambda: renders.begun() == {(1, 1), (2, 2), *last}, f"{last} are being rendered")
    house.wait_job(number, lambda row: row.done == 2)
    house.wait_beats("a")
    return number


def test_a_frame_of_a_cut_agent_never_replaces_the_committed_one(
    cut_off: tuple[Farmhouse, Proxy, Proxy], renders: Renders
) -> None:
    house, control, bulk = cut_off
    ledger = Ledger(house.database)
    number = _begin(house, renders, "1-4", {(3, 3), (4, 4)})
    for proxy in (control, bulk):
        proxy.cut()
    house.agent("b")
    house.wait_online("b")
    _lose(house, "a")
    eventually(lambda: renders.begun() >= {(3, 5), (4, 6)}, "b renders both frames")

    # The storage is still reachable to the cut agent: its frames get ready, and stay where they are.
    renders.open_gate(attempt=3)
    renders.open_gate(attempt=4)
    eventually(lambda: renders.ended() >= {(3, 3), (4, 4)}, "a has written both frames")
    throughout(lambda: renders.published() == 2, "a cut agent published a frame", _WATCH_S)

    renders.open_gate()
    house.wait_job(number)
    committed = {frame: renders.file(frame).read_bytes() for frame in range(1, 5)}
    for proxy in (control, bulk):
        proxy.heal()
    house.wait_online("a")
    eventually(lambda: {row[0] for row in ledger.stale()} >= {3, 4}, "a's late results are recorded")
    assert {frame: renders.file(frame).read_bytes() for frame in range(1, 5)} == committed
    assert_exactly_once(ledger, number, renders.pattern, "1-4")
    assert {renders.writer(3), renders.writer(4)} == {f"J{number}/render@5", f"J{number}/render@6"}
    eventually(lambda: not attempt_folders(renders.out), "no attempt's folder is left")
    # What a does from now on counts again.
    later = Renders(house.folder, "later")
    second = house.admin.submit(later.job("1-6")).job
    house.wait_job(second)
    assert_exactly_once(ledger, second, later.pattern, "1-6")


def test_a_cut_agent_does_not_replace_a_file_that_was_marked_done_by_hand(
    cut_off: tuple[Farmhouse, Proxy, Proxy], renders: Renders
) -> None:
    """Nobody empties the cut agent's folder here: only the fence stands before its rename."""
    house, control, bulk = cut_off
    ledger = Ledger(house.database)
    number = _begin(house, renders, "1-3", {(3, 3)})
    for proxy in (control, bulk):
        proxy.cut()
    house.agent("b")
    house.wait_online("b")
    _lose(house, "a")
    by_hand = b"3 painted by hand\n"
    renders.file(3).write_bytes(by_hand)
    house.admin.act("mark-done", f"J{number}/render/3")
    house.wait_job(number)

    renders.open_gate(attempt=3)
    eventually(lambda: (3, 3) in renders.ended(), "a has written its frame")
    throughout(lambda: renders.file(3).read_bytes() == by_hand, "a stale file replaced it", _WATCH_S)
    for proxy in (control, bulk):
        proxy.heal()
    house.wait_online("a")
    eventually(lambda: not attempt_folders(renders.out), "a's own folder is gone")
    assert renders.file(3).read_bytes() == by_hand
    assert len(ledger.commits(number, "render")[2]) == 1


def test_a_kept_frame_is_adopted_when_nobody_else_took_it(
    cut_off: tuple[Farmhouse, Proxy, Proxy], renders: Renders
) -> None:
    house, control, bulk = cut_off
    ledger = Ledger(house.database)
    number = _begin(house, renders, "1-3", {(3, 3)}, resources={"cores": 2})
    for proxy in (control, bulk):
        proxy.cut()
    _lose(house, "a")
    renders.open_gate()
    eventually(lambda: (3, 3) in renders.ended(), "the frame is written")
    throughout(lambda: renders.published() == 2, "a cut agent published a frame", _WATCH_S)
    # More urgent work takes one of the node's two cores when it is back: the frame cannot be rendered again.
    urgent = Renders(house.folder, "urgent")
    second = house.admin.submit(urgent.job("1", gated=True, job={"priority": 90})).job
    for proxy in (control, bulk):
        proxy.heal()
    house.wait_job(number)
    assert house.job(second).state == "running"
    assert_exactly_once(ledger, number, renders.pattern, "1-3")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-3")
    # Rendered once, by the attempt that was lost; taken over under a new one.
    assert renders.begun() == {(1, 1), (2, 2), (3, 3)}
    (commit,) = ledger.commits(number, "render")[2]
    assert ledger.leases(number, "render")[commit.attempt_id].kind == AttemptKind.ADOPT
    urgent.open_gate()
    house.wait_job(second)


def test_an_agent_frozen_between_the_check_and_the_rename(
    new_house: Callable[..., Farmhouse], renders: Renders, tmp_path: Path
) -> None:
    house = new_house()
    ledger = Ledger(house.database)
    fifo = tmp_path / "pause"
    os.mkfifo(fifo)
    agent = house.agent("a", pause_before_publish=str(fifo))
    house.wait_online()
    number = house.admin.submit(renders.job("1")).job
    eventually(
        lambda: "event=paused-on-purpose" in agent.text(), "a passed the fence and stands before the rename"
    )
    agent.freeze()
    _lose(house, "a")
    house.agent("b")
    house.wait_online("b")
    house.wait_job(number)
    committed = renders.file(1).read_bytes()
    assert renders.writer(1) == f"J{number}/render@2"

    agent.thaw()
    # The rename goes on now: a writer that opens the pipe and leaves ends the pause.
    with fifo.open("wb"):
        pass
    eventually(lambda: 1 in {row[0] for row in ledger.stale()}, "a's late result is recorded")
    assert renders.file(1).read_bytes() == committed
    assert_exactly_once(ledger, number, renders.pattern, "1")
    eventually(lambda: not attempt_folders(renders.out), "no attempt's folder is left")


def test_a_result_whose_acknowledgement_was_lost_counts_once(
    new_house: Callable[..., Farmhouse], renders: Renders, tmp_path: Path
) -> None:
    # Patient times: the agent must stay within its lease while it hears nothing.
    house = new_house(times={**FAST, "suspect_s": 20, "lost_s": 30, "lease_ttl_s": 25, "restart_grace_s": 30})
    ledger = Ledger(house.database)
    control = Proxy(house.endpoint.control)
    house.proxies.append(control)
    fifo = tmp_path / "pause"
    os.mkfifo(fifo)
    agent = house.agent("a", control=control.address, pause_before_publish=str(fifo))
    house.wait_online()
    number = house.admin.submit(renders.job("1")).job
    eventually(lambda: "event=paused-on-purpose" in agent.text(), "the frame is about to be published")
    control.cut(up=False, down=True)
    with fifo.open("wb"):
        pass
    house.wait_job(number)
    assert len(ledger.commits(number, "render")[0]) == 1
    eventually(lambda: "event=no-answer" in agent.text(), "the agent noticed that nobody answers")
    control.heal()
    # The agent cannot know that its report arrived: it tells it again, and that changes nothing.
    eventually(ledger.stale, "the repeated report is recorded as stale")
    assert_exactly_once(ledger, number, renders.pattern, "1")
    assert house.job(number).done == 1


def test_reports_count_only_with_the_lease_s_nonce_key_and_attempt(
    new_house: Callable[..., Farmhouse],
) -> None:
    house = new_house(times={**FAST, "suspect_s": 20, "lost_s": 40, "lease_ttl_s": 30})
    ledger = Ledger(house.database)

    def hand(name: str) -> HandAgent:
        pair = generate_keypair()
        house.admin.keys("keys-add", role="agent", key=pair.public, label=name)
        return HandAgent(house.access(pair), name)

    step = {
        "name": "render",
        "renderer": "command",
        "frames": "1-2",
        "chunk": 1,
        "params": {"command": ["/bin/true", "{frame}"]},
    }
    with hand("one") as one, hand("two") as two:
        number = house.admin.submit(job_file(step)).job
        (mine,) = one.wait_lease()
        (other,) = two.wait_lease()
        assert {mine.units, other.units} == {(0,), (1,)}

        one.verified(mine, nonce=mine.nonce ^ 1)
        one.until(
            lambda: any(stop.attempt == mine.attempt for stop in one.stops), "a wrong nonce gets no grant"
        )
        assert not one.grants

        one.report(mine, nonce=mine.nonce ^ 1)
        two.report(mine)
        one.report(other)
        assert house.job(number).done == 0
        assert [row[:3] for row in ledger.stale()] == [
            (mine.attempt, mine.units[0], house.node("one").node),
            (mine.attempt, mine.units[0], house.node("two").node),
            (other.attempt, other.units[0], house.node("one").node),
        ]

        one.report(mine)
        assert house.job(number).done == 1
        # Once more, and then something else: acknowledged, recorded, without effect.
        one.report(mine)
        one.report(mine, outcome=FAILED, failure="renderer")
        assert house.job(number).done == 1
        assert house.job(number).failed == 0
        two.report(other)
        row = house.wait_job(number)
        assert (row.done, row.failed) == (2, 0)
        commits = ledger.commits(number, "render")
        assert {unit: len(rows) for unit, rows in commits.items()} == {0: 1, 1: 1}
        assert len(ledger.stale()) == 5

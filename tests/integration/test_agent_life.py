"""How agents come and go: SIGTERM, draining, joining by token from another home, `farm agent`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.model.errors import CallError
from farm.model.states import UnitState
from tests.support.farmhouse import Farmhouse
from tests.support.managed import Managed
from tests.support.truth import Ledger, Renders, assert_exactly_once, expected_names, folder_names
from tests.support.waiting import eventually


def _nodes_of(ledger: Ledger, number: int, node: int) -> set[int]:
    return {lease.no for lease in ledger.leases(number, "render").values() if lease.node_id == node}


def test_sigterm_gives_the_work_back_at_once(house: Farmhouse, ledger: Ledger, renders: Renders) -> None:
    number = house.admin.submit(renders.job("1-8", chunk=2, gated=True)).job
    eventually(lambda: len(renders.begun()) == 4, "every slot is taken")
    a, b = house.node("a").node, house.node("b").node
    on_a = _nodes_of(ledger, number, a)
    started = house.agents["a"].descendants()
    assert started
    assert house.agents["a"].stop() == 0
    assert not house.agents["a"].descendants()
    # It said goodbye: nobody waited for a limit, and no attempt was spent.
    assert house.node("a").state == "offline"
    rows = [row for row in ledger.results(number, "render") if row.new == UnitState.QUEUED]
    assert len(rows) == 4
    assert {(row.failure, row.lost) for row in rows} == {("", 0)}
    renders.open_gate()
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-8")
    assert _nodes_of(ledger, number, a) == on_a
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-8")
    assert b in {lease.node_id for lease in ledger.leases(number, "render").values()}


def test_sigterm_with_drain_finishes_what_runs(new_house: Callable[..., Farmhouse], renders: Renders) -> None:
    house = new_house()
    ledger = Ledger(house.database)
    agent = house.agent("a", drain_on_term=True)
    house.wait_online()
    number = house.admin.submit(renders.job("1-12", chunk=2, gated=True)).job
    eventually(lambda: len(renders.begun()) == 2, "two chunks run")
    a = house.node("a").node
    on_a = _nodes_of(ledger, number, a)
    agent.signal(signal.SIGTERM)
    eventually(lambda: house.node("a").closed, "it takes nothing any more")
    house.agent("b")
    house.wait_online("b")
    eventually(lambda: len(renders.begun()) == 4, "the other node takes over the queue")
    assert agent.running
    renders.open_gate()
    assert agent.wait() == 0
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-12")
    assert _nodes_of(ledger, number, a) == on_a
    committed = {
        ledger.leases(number, "render")[rows[0].attempt_id].no
        for rows in ledger.commits(number, "render").values()
    }
    assert on_a <= committed, "what ran was finished, not given back"
    assert house.node("a").state == "offline"


def test_a_second_sigterm_ends_a_draining_agent(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house()
    agent = house.agent("a", drain_on_term=True)
    house.wait_online()
    number = house.admin.submit(renders.job("1-2", gated=True)).job
    eventually(lambda: len(renders.begun()) == 2, "both frames are being rendered")
    agent.signal(signal.SIGTERM)
    eventually(lambda: house.node("a").closed, "it drains")
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    assert not agent.descendants()
    assert house.job(number).state == "queued"


def test_an_agent_told_to_end_while_a_frame_runs_is_not_thought_unable(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house()
    agent = house.agent("a", drain_on_term=True)
    house.wait_online()
    number = house.admin.submit(renders.job("1-4", chunk=2, gated=True)).job
    eventually(renders.begun, "a frame is being rendered")
    able = house.node("a").renderers
    agent.signal(signal.SIGTERM)
    eventually(lambda: house.node("a").closed, "it ends")
    assert house.node("a").renderers == able

    def told(word: str) -> None:
        # Accepted without --force: the farm can do it, only not now.
        later = house.admin.submit(renders.job("9")).job
        words = repr(house.admin.why(f"J{later}"))
        house.admin.act("cancel", f"J{later}")
        assert word in words
        assert "no node can ever" not in words
        assert "does not run" not in words

    told("is ending: its agent takes no more work")
    # Now in earnest, with the frame given back.
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    assert (house.node("a").state, house.node("a").closed) == ("offline", "")
    assert house.node("a").renderers == able
    assert "does not run" not in repr(house.admin.why(f"J{number}"))
    told("is offline")


def test_a_storm_of_signals_ends_agent_and_broker_in_order(house: Farmhouse, renders: Renders) -> None:
    house.admin.submit(renders.job("1-4", gated=True))
    eventually(lambda: len(renders.begun()) == 4, "every slot is taken")
    for managed in (*house.agents.values(), house.broker):
        for _ in range(50):
            managed.signal(signal.SIGTERM)
        # Handlers of the interpreter are gone at the very end; dying of the signal then is an end, too.
        assert managed.wait() in (0, -signal.SIGTERM)
    assert not house.running()


def test_two_agents_may_not_share_a_state_folder(house: Farmhouse) -> None:
    first = house.agents["a"]
    file = first.state / "options.json"
    twin = Managed("twin", house.logs / "twin.log", house.env, house.folder)
    twin.spawn(["-m", "node_agent", "--options", str(file)])
    assert twin.wait() == 3
    assert "another agent uses" in twin.text()
    assert first.running


def test_agents_join_by_token_from_another_home(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    house = new_house()
    made = house.farm("keys", "invite", "--role", "agent", "--pool", "gpu", "--site", "berlin", "--json")
    token = json.loads(made.stdout)["token"]
    env = house.home_env(tmp_path / "far" / "config", tmp_path / "far" / "state")
    del env["OVERCRANK_FARM"]
    far = Managed("far agents", house.logs / "far.log", env, house.folder)
    flags = ["--agents", "2", "--node-name", "ws", "--attribute", "room=b", "--allow", "command"]
    far.spawn(["-m", "farm", "agent", "--join", token, *flags])

    def joined() -> bool:
        assert far.running, far.text()
        return {row.name for row in house.nodes() if row.state == "online"} == {"ws-1", "ws-2"}

    try:
        eventually(joined, "two nodes joined")
        for name in ("ws-1", "ws-2"):
            row = house.node(name)
            assert (row.pool, row.site, row.renderers) == ("gpu", "berlin", ("command",))
        work = Renders(tmp_path)
        number = house.admin.submit(work.job("1-6", pools=["gpu"], attributes={"room": "b"})).job
        house.wait_job(number)
        assert_exactly_once(Ledger(house.database), number, work.pattern, "1-6")
        # The token's secret is in no log and no list of processes.
        secret = token.rpartition(".")[2] or token
        assert token not in far.text()
        assert secret not in far.text() + house.broker.text()
    finally:
        far.signal(signal.SIGTERM)
        code = far.wait()
    assert code == 0
    eventually(lambda: {row.state for row in house.nodes()} == {"offline"}, "both said goodbye")

    # From now on its key is enough; the same nodes come back.
    numbers = {row.name: row.node for row in house.nodes()}
    far.spawn(["-m", "farm", "agent", *flags])
    try:
        eventually(joined, "the nodes are back")
        assert {row.name: row.node for row in house.nodes()} == numbers
    finally:
        far.signal(signal.SIGTERM)
        far.wait()


def test_the_agent_command_on_the_broker_s_machine_needs_no_key(new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    here = Managed("agents here", house.logs / "here.log", house.env, house.folder)
    here.spawn(["-m", "farm", "agent", "--agents", "2", "--node-name", "box", "--pool", "day"])
    eventually(lambda: len([row for row in house.nodes() if row.state == "online"]) == 2, "two nodes joined")
    rows = house.nodes()
    assert {row.pool for row in rows} == {"day"}
    # The machine's rate is split, to the nano.
    assert sum(row.rate_nano_h for row in rows) == 3_600_000_000
    # Killed outright, its agents end with it: they hang on a leash.
    here.kill()
    eventually(
        lambda: {pid for pid, line in house.running().items() if "node_agent" in line} == set(),
        "the agents ended with the command",
    )
    eventually(lambda: {row.state for row in house.nodes()} == {"offline"}, "they said goodbye")


def test_a_renderer_that_is_denied_never_runs(new_house: Callable[..., Farmhouse], renders: Renders) -> None:
    house = new_house()
    house.agent("strict", deny_renderers=("command",))
    house.wait_online()
    assert "command" not in house.node("strict").renderers
    with pytest.raises(CallError, match="strict does not run the renderer command"):
        house.admin.submit(renders.job("1-2"))
    number = house.admin.submit(renders.job("1-2"), force=True).job
    house.agent("free")
    house.wait_online()
    house.wait_job(number)
    strict = house.node("strict").node
    assert strict not in {lease.node_id for lease in Ledger(house.database).leases(number, "render").values()}


def test_an_agent_that_finds_no_farm_waits_for_it(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house()
    agent = house.agent("a", start=False)
    house.broker.stop()
    agent.start()
    eventually(lambda: "event=no-connection" in agent.text(), "it says that nobody answers")
    house.start_broker()
    house.wait_online("a")
    number = house.admin.submit(renders.job("1-2")).job
    house.wait_job(number)

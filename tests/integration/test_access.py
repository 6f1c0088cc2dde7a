"""Who may do what, on live connections: roles, owners, revoked keys, replayed tokens, no authenticator."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from farm.model.errors import CallError, Denied, FarmUnreachable, SessionRefused
from farm.protocol.codec import encode
from farm.protocol.common import HelloMsg
from farm.protocol.version import OLDEST, VERSION
from farm.sdk.connect import dial
from farm.transport.keys import generate_keypair, load_keypair
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.hand_agent import HandAgent
from tests.support.truth import Ledger, Renders, assert_exactly_once
from tests.support.waiting import PATIENCE_S, eventually, throughout


def test_an_artist_may_not_touch_another_s_job(shared: Farmhouse, renders: Renders) -> None:
    ada, bob = shared.client("artist", "ada"), shared.client("artist", "bob")
    number = ada.submit(renders.job("1-10", gated=True)).job
    assert shared.job(number).user == "ada"
    for action in ("cancel", "pause", "requeue", "retry", "skip", "mark-done", "next", "last", "archive"):
        with pytest.raises(Denied, match=r"bob \(artist\) may not .*it belongs to ada"):
            bob.act(action, f"J{number}")
    with pytest.raises(Denied, match="it belongs to ada"):
        bob.act("priority", f"J{number}", "60")
    with pytest.raises(Denied, match="it belongs to ada"):
        bob.spend(job=number)
    assert shared.job(number).state == "running"
    # Everybody may look, nobody but the owner or a wrangler may act.
    assert bob.job(number).job.name == "test"
    with pytest.raises(Denied, match="an artist may not set priority 90"):
        ada.act("priority", f"J{number}", "90")
    ada.act("priority", f"J{number}", "75")
    shared.client("wrangler", "wim").act("priority", f"J{number}", "99")
    assert shared.job(number).priority == 99
    ada.act("cancel", f"J{number}")
    shared.wait_job(number, "canceled")


def test_submitting_as_somebody_else_is_denied(shared: Farmhouse, renders: Renders) -> None:
    bob = shared.client("artist", "bob")
    with pytest.raises(Denied, match=r"the job's user is ada, and artists act on their own jobs"):
        bob.submit(renders.job("1", job={"user": "ada"}))
    with pytest.raises(Denied, match="priority 80"):
        bob.submit(renders.job("1", job={"priority": 80}))
    number = shared.client("wrangler", "wim").submit(renders.job("1", job={"user": "ada"})).job
    assert shared.wait_job(number).user == "ada"


def test_nodes_and_keys_are_not_an_artist_s(shared: Farmhouse) -> None:
    bob, wim = shared.client("artist", "bob"), shared.client("wrangler", "wim")
    with pytest.raises(Denied, match="that takes the role wrangler"):
        bob.node_act("node-drain", "a")
    assert shared.node("a").enabled
    for action, fields in (
        ("keys-list", {}),
        ("keys-invite", {"role": "admin", "user": "bob"}),
        ("keys-add", {"role": "admin", "user": "bob", "key": generate_keypair().public}),
        ("keys-revoke", {"key": "1"}),
    ):
        for client in (bob, wim):
            with pytest.raises(Denied, match="that takes the role admin"):
                client.keys(action, **fields)
    with pytest.raises(Denied, match="that takes the role admin"):
        wim.shutdown()
    assert shared.broker.running


def test_a_key_opens_only_the_kind_of_session_it_is_for(shared: Farmhouse) -> None:
    agent = generate_keypair()
    shared.admin.keys("keys-add", role="agent", key=agent.public, label="only renders")
    with pytest.raises(SessionRefused, match="role agent"):
        shared.client("agent", "", pair=agent)
    with dial(shared.access(shared.key("artist", "ada")), shared.endpoint.control, 10) as link:
        hello = HandAgent(shared.access(agent), "x")
        try:
            link.send(hello._session.greet())
            answer = link.recv(PATIENCE_S)
        finally:
            hello._link.close()
        assert answer is not None
        assert "cannot open this kind of session" in answer.decode("utf-8", "replace")


def test_a_revoked_key_is_denied_on_its_live_connection(shared: Farmhouse, renders: Renders) -> None:
    eve = shared.client("artist", "eve")
    followed = shared.client("artist", "fay")
    followers = followed.subscribe("jobs", idle_s=0.05)
    next(followers)
    assert eve.jobs().jobs is not None
    for user in ("eve", "fay"):
        shared.admin.keys("keys-revoke", key=shared.key("artist", user).public)
    with pytest.raises(FarmUnreachable, match="revoked"):
        eve.jobs()
    # Who only listens is told nothing more, either.
    number = shared.admin.submit(renders.job("1-3")).job
    shared.wait_job(number)

    def listen() -> None:
        for mirror in followers:
            assert number not in mirror.jobs, "a revoked key is still told of jobs"

    with pytest.raises(FarmUnreachable, match="revoked"):
        listen()
    for user in ("eve", "fay"):
        with pytest.raises(FarmUnreachable, match="does not know this key"):
            shared.client("artist", user)
    with pytest.raises(CallError, match="revoked and stays so"):
        shared.admin.keys("keys-add", role="artist", user="eve", key=shared.key("artist", "eve").public)


def test_a_revoked_agent_publishes_nothing_more(house: Farmhouse, ledger: Ledger, renders: Renders) -> None:
    number = house.admin.submit(renders.job("1-8", gated=True)).job
    for frame in range(1, 5):
        renders.open_gate(frame=frame)
    # The frames after the first ones need no grant: only the fence keeps them from being published.
    eventually(lambda: len(renders.begun()) == 8, "both nodes are busy with the last frames")
    house.wait_job(number, lambda row: row.done == 4)
    a = house.node("a").node
    on_a = {lease.no for lease in ledger.leases(number, "render").values() if lease.node_id == a}
    on_a &= {no for frame, no in renders.begun() if frame > 4}
    assert len(on_a) == 2
    house.wait_beats("a")
    public = load_keypair(Path(house.agents["a"].options.key_file)).public
    house.admin.keys("keys-revoke", key=public)
    # Its lease has run out by the time it is lost; only then its renders are let go.
    eventually(lambda: house.node("a").state == "lost", "the revoked agent is lost")
    for attempt in on_a:
        renders.open_gate(attempt=attempt)
    eventually(lambda: len(renders.ended()) == 6, "the revoked agent has its frames ready")
    throughout(lambda: renders.published() == 4, "a revoked agent published a frame", 1.0)
    renders.open_gate()
    house.wait_job(number)
    assert_exactly_once(ledger, number, renders.pattern, "1-8")
    leases = ledger.leases(number, "render").values()
    assert max(lease.no for lease in leases if lease.node_id == a) <= 8, "it got work after that"
    # Not after a restart of the broker, either.
    house.restart_broker()
    eventually(
        lambda: "does not know this key" in house.agents["a"].text(), "the agent says why it gets no work"
    )
    assert house.node("a").state != "online"


def test_a_join_token_used_twice_revokes_the_first_key(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    homes = [
        house.home_env(tmp_path / f"home{n}" / "config", tmp_path / f"home{n}" / "state")
        | {"OVERCRANK_FARM": ""}
        for n in range(2)
    ]
    for env in homes:
        del env["OVERCRANK_FARM"]
    made = house.farm("keys", "invite", "--role", "artist", "--user", "ada", "--json")
    token = json.loads(made.stdout)["token"]
    first = house.farm("join", token, "--name", "studio", env=homes[0])
    assert first.returncode == 0, first.stderr
    # Trying again with the same key gives the same answer, should the first one have been lost.
    assert house.farm("jobs", env=homes[0]).returncode == 0
    second = house.farm("join", token, "--name", "studio", env=homes[1])
    assert second.returncode == 3
    assert "already used by another key" in second.stderr
    # The first key is no longer let in, and the administrator is told.
    jobs = house.farm("jobs", env=homes[0])
    assert jobs.returncode == 3
    assert "does not know this key" in jobs.stderr
    assert any("was used by a second key" in alert for alert in house.admin.status().alerts)
    rows = [row for row in house.admin.keys().keys if row.user == "ada"]
    assert [row.revoked for row in rows] == [True]
    # It stays so after a restart, and the token is worth nothing.
    house.restart_broker()
    assert house.farm("jobs", env=homes[0]).returncode == 3
    assert house.farm("join", token, "--name", "studio", env=homes[1]).returncode == 3


def test_an_expired_token_lets_nobody_in(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    house = new_house()
    token = house.admin.keys("keys-invite", role="artist", user="ada", ttl_s=0.001).token
    env = house.home_env(tmp_path / "home", tmp_path / "home")
    joined = house.farm("join", token, "--name", "studio", env=env)
    assert joined.returncode == 3
    assert "has expired" in joined.stderr


def test_an_unknown_key_and_a_wrong_broker_key_get_nowhere(shared: Farmhouse) -> None:
    with pytest.raises(SessionRefused, match="does not know this key"):
        shared.client("artist", "nobody", pair=generate_keypair())
    wrong = msgspec.structs.replace(shared.endpoint, public=generate_keypair().public)
    access = shared.access(shared.key("artist", "ada"), wrong)
    with pytest.raises(FarmUnreachable, match="its key is not the one expected"):
        dial(access, wrong.control, 5.0)
    assert shared.client("artist", "ada").jobs() is not None


def test_with_the_authenticator_dead_nobody_new_gets_in(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    # Ample times: on a busy machine the agent must not be taken for lost, since it could not come back.
    ample = {**FAST, "suspect_s": 15.0, "lost_s": 60.0, "lease_ttl_s": 45.0}
    house = new_house(broker_module="tests.support.frail_broker", times=ample)
    house.agent("a")
    house.wait_online()
    ada = house.client("artist", "ada")
    number = ada.submit(renders.job("1-6", gated=True)).job
    eventually(lambda: len(renders.begun()) == 2, "the node is busy")
    house.broker.signal(signal.SIGUSR1)
    eventually(lambda: "authenticator alive: False" in house.broker.text(), "the authenticator is dead")
    for pair in (house.key("artist", "ada"), house.key("artist", "new"), generate_keypair()):
        with pytest.raises(FarmUnreachable):
            dial(house.access(pair), house.endpoint.control, 1.5)
    # Whoever was in goes on.
    renders.open_gate()
    house.wait_job(number)
    assert_exactly_once(Ledger(house.database), number, renders.pattern, "1-6")
    assert ada.jobs().jobs[0].state == "done"


def test_a_hello_of_an_unknown_version_is_refused_with_a_cure(shared: Farmhouse) -> None:
    with dial(shared.access(shared.key("artist", "ada")), shared.endpoint.control, 10) as link:
        link.send(encode(HelloMsg(oldest=VERSION + 7, newest=VERSION + 9)))
        answer = link.recv(PATIENCE_S)
        assert answer is not None
        assert "upgrade" in answer.decode("utf-8", "replace")
        link.send(encode(HelloMsg(oldest=OLDEST, newest=VERSION + 9)))
        answer = link.recv(PATIENCE_S)
        assert answer is not None
        assert b"welcome" in answer

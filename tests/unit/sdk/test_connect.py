"""Finding, dialling and joining a farm over real sockets: each way it can fail is told apart."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.config.places import Endpoint, Places, farm_name, remember_joined
from farm.model.errors import CallError, FarmUnreachable, SessionRefused, StorageError
from farm.protocol.agent import ByeMsg
from farm.protocol.bulk import JoinedMsg, JoinMsg, JoinRefusedMsg
from farm.protocol.client import StatusReply, StatusReq
from farm.protocol.codec import broker_codec, encode, join_in_codec
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.sdk.client import Farm
from farm.sdk.connect import Access, dial, find_access, join
from farm.transport.keys import generate_keypair, load_keypair, save_keypair
from farm.transport.sockets import recv_nowait, send_nowait
from farm.transport.token import make_token, new_secret
from tests.support import curve
from tests.support.waiting import PATIENCE_S

#: A deadline that no test waits for: what is told before it was told by itself.
LONG_S = 600.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    return tmp_path


class Broker:
    """Real sockets with a thread that answers hello, status and join."""

    def __init__(self) -> None:
        self.sockets = curve.Farm()
        self.secret = new_secret()
        self.joined: list[str] = []
        self.mute_join = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        control, join_in = broker_codec(), join_in_codec()
        link = self.sockets.link
        while not self._stop.is_set():
            got = curve.receive(link.control, 0.01)
            if got is not None:
                message = control.decode(got[1])
                if isinstance(message, ByeMsg):
                    continue
                if isinstance(message, HelloMsg):
                    reply: object = WelcomeMsg(
                        version=1, session=1, farm_name="local", software="0", role="admin", user="kim"
                    )
                else:
                    assert isinstance(message, StatusReq)
                    reply = StatusReply(
                        id=message.id, farm_name="local", farm_id="f00d", software="0", up_s=1.0,
                        jobs={}, units={}, nodes={}, spend_nano=0, burn_nano_h=0,
                    )  # fmt: skip
                send_nowait(link.control, got[0], encode(reply))
            got = recv_nowait(link.join)
            if got is not None and not self.mute_join:
                asked = join_in.decode(got[1])
                assert isinstance(asked, JoinMsg)
                answer: object = JoinRefusedMsg("this join token has expired; ask for a new one")
                if asked.secret == self.secret:
                    self.joined.append(got[2])
                    role = "agent" if asked.label == "render box" else "artist"
                    answer = JoinedMsg("f00d", "studio", role, "kim", "gpu", "local", 9999)
                send_nowait(link.join, got[0], encode(answer))

    def endpoint(self, **fields: object) -> Endpoint:
        link = self.sockets.link
        made = {
            "control": str(link.control_address),
            "join": str(link.join_address),
            "bulk": str(link.bulk_address),
            "public": self.sockets.keys.public,
            "farm_id": "f00d",
        }
        return Endpoint(**(made | fields))  # type: ignore[arg-type]

    def token(self, farm: str = "studio", secret: bytes | None = None) -> str:
        link = self.sockets.link
        return make_token(
            link.control_address,
            link.join_address,
            self.sockets.keys.public,
            secret or self.secret,
            farm=farm,
        )

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.sockets.link.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


def serve_locally(broker: Broker, farm: str = "local") -> Places:
    """What a broker of this machine leaves: its endpoint and a key for its user."""
    places = Places(farm)
    places.make()
    broker.endpoint(pid=os.getpid()).write(places.endpoint)
    save_keypair(places.admin_key, broker.sockets.member())
    return places


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_local_farm_needs_no_key_handling(broker: Broker) -> None:
    serve_locally(broker)
    with Farm.connect(timeout_s=PATIENCE_S) as farm:
        assert farm.status().farm_id == "f00d"
        assert farm.place == str(broker.sockets.link.control_address)


def test_no_broker_was_ever_here() -> None:
    with pytest.raises(FarmUnreachable) as caught:
        Farm.connect()
    assert caught.value.message == "no farm answers at 127.0.0.1:7460"
    assert caught.value.hint == "start one with `farm broker`"
    with pytest.raises(FarmUnreachable, match="knows no farm named 'studio'") as caught:
        Farm.connect("studio")
    assert "farm join TOKEN" in caught.value.hint


def test_a_broker_that_ended_is_told_at_once() -> None:
    places = Places("local")
    places.make()
    pid = ended_process()
    Endpoint(control="127.0.0.1:7460", join="", bulk="", public="k" * 40, farm_id="", pid=pid).write(
        places.endpoint
    )
    started_s = time.monotonic()
    with pytest.raises(FarmUnreachable, match=rf"its broker \(process {pid}\) has ended"):
        Farm.connect(timeout_s=LONG_S)
    assert time.monotonic() - started_s < PATIENCE_S


def test_nobody_listens_at_the_address() -> None:
    places = Places("local")
    places.make()
    save_keypair(places.admin_key, generate_keypair())
    with curve.closed_port() as port:
        Endpoint(
            control=f"127.0.0.1:{port}",
            join="",
            bulk="",
            public=generate_keypair().public,
            farm_id="",
            pid=os.getpid(),
        ).write(places.endpoint)
        started_s = time.monotonic()
        with pytest.raises(FarmUnreachable) as caught:
            Farm.connect(timeout_s=LONG_S)
    assert caught.value.message == f"no farm answers at 127.0.0.1:{port}"
    assert "farm broker" in caught.value.hint
    assert time.monotonic() - started_s < PATIENCE_S


def test_a_key_the_farm_does_not_know(broker: Broker) -> None:
    access = Access("local", broker.endpoint(), generate_keypair())
    with pytest.raises(SessionRefused, match="does not know this key"):
        dial(access, access.endpoint.control, PATIENCE_S)


def test_a_broker_with_another_key(broker: Broker) -> None:
    access = Access("local", broker.endpoint(public=generate_keypair().public), broker.sockets.member())
    with pytest.raises(FarmUnreachable, match="key is not the one expected"):
        dial(access, access.endpoint.control, 5.0)


def test_a_key_others_can_read_is_not_used(broker: Broker) -> None:
    places = serve_locally(broker)
    places.admin_key.chmod(0o644)
    with pytest.raises(StorageError, match="can be read by others"):
        Farm.connect()


def test_the_joined_farm_is_used_when_the_local_broker_is_gone(broker: Broker) -> None:
    places = serve_locally(broker, "studio")
    broker.endpoint(pid=ended_process()).write(places.endpoint)
    remember_joined(places, broker.endpoint(control="10.9.9.9:7460"))
    save_keypair(places.client_key, generate_keypair())
    assert find_access("studio").endpoint.control == "10.9.9.9:7460"


def test_join_keeps_key_and_address_and_makes_the_farm_the_one_meant(broker: Broker) -> None:
    name, answer = join(broker.token(), label="kim@ws", timeout_s=PATIENCE_S)
    assert (name, answer.user, farm_name()) == ("studio", "kim", "studio")
    places = Places("studio")
    assert stat.S_IMODE(places.client_key.stat().st_mode) == 0o600
    assert load_keypair(places.client_key).public == broker.joined[0]
    assert not places.joining_key.exists()
    access = find_access()
    assert access.endpoint.farm_id == "f00d"
    assert access.endpoint.bulk == "127.0.0.1:9999"


def test_a_join_whose_answer_was_lost_shows_the_same_key_again(broker: Broker) -> None:
    broker.mute_join = True
    with pytest.raises(FarmUnreachable, match="does not answer the join token"):
        join(broker.token(), timeout_s=3.0)
    first = load_keypair(Places("studio").joining_key).public
    broker.mute_join = False
    join(broker.token(), timeout_s=PATIENCE_S)
    assert broker.joined[-1] == first


def test_an_agent_s_token_gives_the_agents_their_key(broker: Broker) -> None:
    join(broker.token(), label="render box", timeout_s=PATIENCE_S)
    places = Places("studio")
    assert places.agent_key.exists()
    assert not places.client_key.exists()


def test_a_token_that_is_refused_changes_nothing(broker: Broker) -> None:
    with pytest.raises(SessionRefused, match="expired"):
        join(broker.token(secret=new_secret()), timeout_s=PATIENCE_S)
    assert farm_name() == "local"
    assert not Places("studio").joined.exists()


def test_two_farms_of_one_name_are_not_mixed_up(broker: Broker) -> None:
    remember_joined(Places("studio"), broker.endpoint(public=generate_keypair().public))
    with pytest.raises(CallError, match="another farm is kept as 'studio'"):
        join(broker.token(), timeout_s=PATIENCE_S)
    assert join(broker.token(), name="studio2", timeout_s=PATIENCE_S)[0] == "studio2"


def test_another_machine_s_local_farm_gets_a_name_of_its_own(broker: Broker) -> None:
    assert join(broker.token("local"), timeout_s=PATIENCE_S)[0] == "127.0.0.1"


def test_what_is_no_token_is_told_without_showing_it() -> None:
    with pytest.raises(CallError) as caught:
        join("my-secret")
    assert "my-secret" not in str(caught.value)

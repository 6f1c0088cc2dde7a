"""The broker's loop, routes, state and core over a real store, without sockets: turns hold what a test says.

What belongs here: saying messages that arrive together, faults in the core, and going back to the disk after
a fall as ``farm.broker.app`` does.  What it may not know: what is asserted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker import loop as loop_module
from farm.broker.app import restore_core
from farm.broker.falls import Falls, TurnLost
from farm.broker.keydesk import KeyDesk
from farm.broker.loop import Loop
from farm.broker.ports import KeyRecord
from farm.broker.state import Addresses, BrokerState
from farm.core import core
from farm.core.events import RestartEvent
from farm.core.state import Farm, Settings
from farm.model.nodes import NodeFacts
from farm.model.resources import Resources
from farm.protocol.agent import AgentHello, BeatMsg, Timings
from farm.protocol.client import Request
from farm.protocol.codec import agent_codec, client_codec, encode
from farm.protocol.common import HelloMsg
from farm.protocol.version import OLDEST, VERSION
from farm.storage.sqlite import SqliteStore
from farm.transport.keyring import Keyring
from farm.transport.keys import generate_keypair

START_US = 1_700_000_000_000_000
TIMINGS = Timings(heartbeat_s=2.0, suspect_s=15.0, lost_s=60.0, lease_ttl_s=45.0, kill_grace_s=15.0)
GRACE_US = 60_000_000


class FallenLoop:
    """One broker after the other on the same store, with the memory of falls they share; close it.

    Attributes:
        now_us: The time; tests move it.
        now_s: What the memory of falls takes for the time.
        falls: That memory.
        fell: Every fall so far.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us, self.now_s = START_US, 0.0
        self.falls = Falls(lambda: self.now_s)
        self.fell: list[TurnLost] = []
        self._queue: list[tuple[bytes, bytes, str]] = []
        self._sent: list[tuple[bytes, bytes]] = []
        self._numbers: dict[str, int] = {}
        self._store = SqliteStore(folder / "farm.db")
        self._desk = KeyDesk(self._store, Keyring(), "farm-id", "test")
        self._keys: dict[str, str] = {}
        self._connection = 0
        self.state = self._begin()
        monkeypatch.setattr(loop_module, "recv_nowait", self._recv)
        monkeypatch.setattr(loop_module, "send_nowait", self._send)
        monkeypatch.setattr(loop_module, "Waker", lambda: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(loop_module, "Poller", lambda things: SimpleNamespace(wait=self._wait))

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def _begin(self) -> BrokerState:
        state = BrokerState(
            restore_core(self._store, Settings()),
            self._store,
            self._desk,
            farm_id="farm-id",
            farm_name="test",
            addresses=Addresses("c", "j", "b", "p"),
            timings=TIMINGS,
            rate_nano_h=1,
            log_cap=1,
            path_rules=(),
            now_us=self.now_us,
            falls=self.falls,
        )
        state.apply(RestartEvent(self.now_us, GRACE_US))
        self._connection += 1
        return state

    # -- sockets --

    def _recv(self, socket: object) -> tuple[bytes, bytes, str] | None:
        return self._queue.pop(0) if socket == "control" and self._queue else None

    def _send(self, _socket: object, routing_id: bytes, body: bytes) -> bool:
        self._sent.append((routing_id, body))
        return True

    def _wait(self, _timeout_s: float) -> list[object]:
        if not self._queue:
            self.state.stopping = True
        return ["control"] if self._queue else []

    # -- peers --

    def _key(self, name: str, role: str) -> str:
        if name not in self._keys:
            self._keys[name] = generate_keypair().public
            self._desk.add(KeyRecord(public=self._keys[name], role=role, user=name, label=name, added_us=1))
        return self._keys[name]

    def _routing_id(self, name: str) -> bytes:
        return f"{name}#{self._connection}".encode()

    def hello(self, name: str, *, agent: bool = True) -> tuple[str, object]:
        """A hello: of an agent whose node is called so, or of an administrator's client."""
        self._key(name, "agent" if agent else "admin")
        facts = NodeFacts(
            name=name, host=name, total=Resources(cores=1, ram_mib=1024), renderers=("command",)
        )
        return name, HelloMsg(
            oldest=OLDEST, newest=VERSION, agent=AgentHello(facts=facts, instance=name) if agent else None
        )

    def ask(self, name: str, kind: type[Request], **fields: Any) -> tuple[str, object]:
        """A request of a client that said hello, under its next number."""
        self._numbers[name] = self._numbers.get(name, 0) + 1
        return name, kind(id=self._numbers[name], **fields)

    def beat(self, name: str) -> tuple[str, object]:
        """A heartbeat of an agent that said hello."""
        return name, BeatMsg(1)

    def say(self, *messages: tuple[str, object]) -> dict[str, list[Any]]:
        """Messages that arrive together; returns what each of the senders is told until the broker has no
        more to do, or has fallen and gone back to its disk."""
        self._queue = [
            (self._routing_id(name), encode(message), self._keys[name]) for name, message in messages
        ]
        self._sent = []
        link: Any = SimpleNamespace(control="control", join="join")
        loop = Loop(self.state, link, clock_us=lambda: self.now_us, grace_us=GRACE_US)
        self.state.stopping = False
        try:
            loop.run()
        except TurnLost as error:
            self.fell.append(error)
            self._queue = []
            self.state = self._begin()
        told: dict[str, list[Any]] = {name: [] for name, _ in messages}
        codecs: dict[bool, Any] = {True: agent_codec(), False: client_codec()}
        for routing_id, body in self._sent:
            name = routing_id.decode().split("#")[0]
            entry = self._desk.keyring.lookup(self._keys[name])
            assert entry is not None
            told.setdefault(name, []).append(codecs[entry.role.value == "agent"].decode(body))
        return told

    # -- the core --

    @property
    def farm(self) -> Farm:
        """The core's state."""
        return self.state.core.farm

    def jobs(self) -> list[str]:
        """Names of the jobs there are."""
        return [job.spec.name for job in self.farm.jobs.values()]

    def states(self) -> dict[str, str]:
        """State of each node by its name."""
        return {node.name: node.state.value for node in self.farm.nodes.values()}


def break_core(
    monkeypatch: pytest.MonkeyPatch, event: type, falls: Callable[[Farm], bool], error: str = "a fault"
) -> None:
    """Lets the core fail at events of this kind while the farm is as told, after it changed its state."""
    handler = core._HANDLERS[event]

    def handle(farm: Farm, event: Any, out: Any) -> None:
        handler(farm, event, out)
        if falls(farm):
            raise KeyError(error)

    monkeypatch.setitem(core._HANDLERS, event, handle)

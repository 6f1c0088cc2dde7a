"""An agent as a process of its own, and the far end of its lines behind real sockets.

What belongs here: starting and ending both.  What may not: what they say to each other (``agent_far_end``).
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from farm.model.ids import KeyText
from farm.protocol.agent import Timings
from farm.protocol.codec import encode
from farm.transport.keyring import KeyEntry, Keyring, Role
from farm.transport.keys import generate_keypair, save_keypair
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import recv_nowait, send_nowait
from node_agent.options import AgentOptions, write_options
from tests.support.agent_far_end import FakeBroker
from tests.support.waiting import PATIENCE_S

#: Between processes an answer takes as long as the machine is busy: none of these times is to run out.
CALM = Timings(heartbeat_s=5.0, suspect_s=60.0, lost_s=120.0, lease_ttl_s=90.0, kill_grace_s=0.5)


class _FarEnd:
    """What a fake broker pushes into, when its agent is at the other end of a real socket."""

    def __init__(self, waker: Waker) -> None:
        self.queue: deque[bytes] = deque()
        self._waker = waker

    def push(self, message: Any) -> None:
        self.queue.append(encode(message))
        self._waker.wake()


class SocketBroker(FakeBroker):
    """The fake broker behind real sockets with real keys, for agents that are processes of their own."""

    def __init__(self, timings: Timings = CALM) -> None:
        super().__init__(timings)
        self.pair = generate_keypair()
        self.agent_pair = generate_keypair()
        keyring = Keyring()
        keyring.add(
            KeyEntry(
                key_id=keyring.allocate_id(), public=KeyText(self.agent_pair.public), role=Role.AGENT, user=""
            )
        )
        self._server = ServerLink(self.pair, keyring, control_port=0, join_port=0, bulk_port=0)
        self._waker = Waker()
        self._over = threading.Event()
        self.line = _FarEnd(self._waker)  # type: ignore[assignment]
        self.bulk = _FarEnd(self._waker)  # type: ignore[assignment]
        self._thread = threading.Thread(target=self._loop, name="socket-broker")

    def options(self, folder: Path, **fields: Any) -> Path:
        """Writes the options file (and key) of an agent of this farm."""
        key = folder / "keys" / "agent.key"
        if not key.exists():
            save_keypair(key, self.agent_pair)
        fields.setdefault("allow_renderers", ("command",))
        path = folder / "agent.json"
        write_options(
            path,
            AgentOptions(
                name="node",
                state_dir=str(folder / "state"),
                control=str(self._server.control_address),
                bulk=str(self._server.bulk_address),
                key_file=str(key),
                broker_key=self.pair.public,
                **fields,
            ),
        )
        return path

    def __enter__(self) -> SocketBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._waker.wake()
        self._thread.join()
        self._server.close()
        self._waker.close()

    def _loop(self) -> None:
        ends = (
            (self._server.control, self.line, self._on_message),
            (self._server.bulk, self.bulk, self._on_bulk),
        )
        poller = Poller([self._server.control, self._server.bulk, self._waker])
        peers: dict[int, bytes] = {}
        while not self._over.is_set():
            poller.wait(1.0)
            self._waker.clear()
            for number, (sock, end, take) in enumerate(ends):
                while (found := recv_nowait(sock)) is not None:
                    peers[number] = found[0]
                    take(end, found[1])
                while end.queue and number in peers:  # type: ignore[attr-defined]
                    send_nowait(sock, peers[number], end.queue.popleft())  # type: ignore[attr-defined]


class AgentProcess:
    """``python -m node_agent`` as a process; ended and reaped whatever happens."""

    def __init__(self, options: Path) -> None:
        self.log = options.with_suffix(".log")
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "node_agent", "--options", str(options)],
                stderr=file,
                stdout=file,
                stdin=subprocess.DEVNULL,
            )

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def end(self, number: int) -> int:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def text(self) -> str:
        """What it logged."""
        return self.log.read_text()

"""A farm for tests of the window, without sockets: a port that keeps what is posted.

What belongs here: ``FakePort`` (the interface of ``client_gui.net.port.Port``), a desk on top of it, and rows
to show.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client_gui.actions.book import ActionBook
from client_gui.desk import Desk, Focus
from client_gui.net.client import FarmClient
from client_gui.net.port import (
    Answer,
    Ask,
    Cancel,
    Dial,
    Follow,
    Incoming,
    News,
    Outgoing,
    Standing,
    Welcomed,
)
from client_gui.notices import Notices
from client_gui.settings import Settings
from client_gui.store.farmstore import Link
from client_gui.style.theme import Theme
from farm.model.errors import OvercrankError
from farm.model.states import UnitState
from farm.protocol.client import DeltaMsg, JobRow, NodeRow, SnapshotMsg, UnitDelta
from farm.protocol.common import WelcomeMsg
from tests.support.client_rows import NOW_US, job_row, node_row, replaced, step_row

__all__ = ["NOW_US", "FakePort", "Rig", "job_row", "node_row", "replaced", "step_row"]


@dataclass
class FakePort:
    """What was posted, and what is there to be taken."""

    posted: list[Outgoing] = field(default_factory=list)
    waiting: list[Incoming] = field(default_factory=list)
    #: Answers by type of the request's body; called with the body.
    answers: dict[type, Callable[[Any], Any]] = field(default_factory=dict)
    started: bool = False
    stopped: bool = False

    def start(self) -> None:
        self.started = True

    def post(self, message: Outgoing) -> None:
        self.posted.append(message)
        if isinstance(message, Ask) and (make := self.answers.get(type(message.body))) is not None:
            try:
                self.waiting.append(Answer(message.number, make(message.body), None, 900))
            except OvercrankError as error:
                self.waiting.append(Answer(message.number, None, error, 900))

    def take(self) -> list[Incoming]:
        taken, self.waiting = self.waiting, []
        return taken

    def stop(self, wait_s: float = 3.0) -> bool:
        self.stopped = True
        return True

    def asked(self, kind: type) -> list[Any]:
        """Bodies of the requests of a type, in order."""
        return [m.body for m in self.posted if isinstance(m, Ask) and type(m.body) is kind]


class Rig:
    """A desk on a fake port: ``rig.desk`` for a view, ``rig.snapshot(...)`` and ``rig.delta(...)`` feed."""

    def __init__(self, role: str = "wrangler", user: str = "ana", look: str = "dark") -> None:
        self.port = FakePort()
        self.now_us = NOW_US
        self.client = FarmClient(self.port, lambda: self.now_us)
        self.notices = Notices(lambda: self.now_us)
        self.settings = Settings()
        self.theme = Theme(look)
        self.focus = Focus()
        self.actions = ActionBook(self.client, self.focus, self.notices, self.settings)
        self.desk = Desk(self.client, self.focus, self.actions, self.notices, self.settings, self.theme)
        self.n = 0
        self.give(
            Welcomed(
                WelcomeMsg(version=1, session=1, farm_name="farm-A", software="0.1.0", role=role, user=user),
                "farm-A",
                "10.0.0.5:7460",
            ),
            Standing(Link.LIVE),
        )

    def give(self, *messages: Incoming) -> None:
        """Puts messages into the mailbox and empties it."""
        self.port.waiting += messages
        self.settle()

    def settle(self) -> None:
        """Empties the mailbox until nothing is left to feed the store with."""
        self.client.drain()
        while self.port.waiting or self.client.feeding:
            self.client.drain()

    def snapshot(
        self,
        jobs: tuple[JobRow, ...] = (),
        nodes: tuple[NodeRow, ...] = (),
        maps: dict[str, bytes] | None = None,
    ) -> None:
        """The state of all that is followed."""
        self.n += 1
        self.give(
            News(
                SnapshotMsg(id=1, n=self.n, jobs=jobs, nodes=nodes, maps=maps or {}),
                self.client.store.topics(),
            )
        )

    def delta(
        self,
        jobs: tuple[JobRow, ...] = (),
        nodes: tuple[NodeRow, ...] = (),
        units: tuple[tuple[str, int, UnitState], ...] = (),
        gone: tuple[str, ...] = (),
    ) -> None:
        """Numbered changes."""
        self.n += 1
        deltas = tuple(UnitDelta(step, unit, int(state)) for step, unit, state in units)
        self.give(News(DeltaMsg(n=self.n, jobs=jobs, nodes=nodes, units=deltas, gone=gone)))

    def close(self) -> None:
        """Ends it."""
        self.client.stop()

    def followed(self) -> tuple[str, ...]:
        """What was subscribed to last."""
        return next((m.topics for m in reversed(self.port.posted) if isinstance(m, Follow)), ())

    def canceled(self) -> list[int]:
        """Numbers of requests that were given up."""
        return [m.number for m in self.port.posted if isinstance(m, Cancel)]

    def dialled(self) -> list[str | None]:
        """Farms that were dialled."""
        return [m.farm for m in self.port.posted if isinstance(m, Dial)]

"""A real core behind a window's fake port: what the client sends is checked and done as the broker does it.

What belongs here: the broker's routes on a core that lives in the test, and its rows as the client gets them.
What may not: anything a test wants to prove.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from farm.broker.archive import Archive
from farm.broker.queries import answer
from farm.broker.routes import Routes
from farm.broker.state import BrokerState
from farm.broker.views import Views
from farm.core.core import Core
from farm.core.state import Node
from farm.model.errors import from_wire
from farm.model.roles import Role
from farm.protocol.client import ActReq, AttemptsReq, ErrorReply, FramesReq, JobReq, NodeActReq
from farm.protocol.session import BrokerSession
from tests.support.core_rig import Rig as CoreRig
from tests.support.gui_rig import Rig


class _State(SimpleNamespace):
    """As much of the broker's state as actions need."""

    find_node = BrokerState.find_node

    @property
    def now_us(self) -> int:
        return int(self.rig.now_us)

    @property
    def core(self) -> Core:
        core: Core = self.rig.core
        return core

    @property
    def views(self) -> Views:
        return Views(self.rig.core.farm, self.rig.store)

    @property
    def archive(self) -> Archive:
        return Archive(self.rig.core.farm, self.rig.store)

    def views_of(self, _job: int) -> Views:
        return self.views

    def apply(self, event: Any) -> Any:
        return self.rig.handle(event).reply


class CoreDesk:
    """A window's rig whose requests go to a core.

    Attributes:
        core: The core's rig: join, submit, lease, fail ...
        gui: The window's rig.
    """

    def __init__(self, core: CoreRig, role: str = "wrangler", user: str = "ann") -> None:
        self.core = core
        self.gui = Rig(role, user)
        self._role, self._user = role, user
        self._said: list[Any] = []
        self._state = _State(
            rig=core,
            falls=SimpleNamespace(pardon=lambda _name: False, refusal_of=lambda *_: None),
            keydesk=SimpleNamespace(keyring=SimpleNamespace(lookup=lambda _key: None)),
            codec=SimpleNamespace(decode=lambda body: body),
            outbound=SimpleNamespace(reply=lambda _to, reply: self._said.append(reply)),
            later=[],
            job_deleted=lambda _job: None,
            forget_templates=lambda _job: None,
        )
        self._routes = Routes(self._state)  # type: ignore[arg-type]
        for kind in (ActReq, NodeActReq, JobReq, FramesReq, AttemptsReq):
            self.gui.port.answers[kind] = self.answer

    def answer(self, request: Any) -> Any:
        """What the broker answers; a refusal is raised as the client gets it."""
        session = BrokerSession(
            routing_id=b"c", key="key", version=1, session=1, role=self._role, user=self._user
        )
        if isinstance(request, ActReq | NodeActReq):
            self._said.clear()
            self._routes._request(session, request)
            (reply,) = self._said
            if isinstance(reply, ErrorReply):
                raise from_wire(reply.code, reply.message, reply.hint)
            return reply
        return answer(self._state, request, Role(self._role), self._user)  # type: ignore[arg-type]

    def show(self) -> None:
        """Lets the window see the farm as it is now."""
        farm, views, now_us = self.core.core.farm, self._state.views, self.core.now_us
        client = self.gui.client
        client.look("test", jobs=True, nodes=True, opened=frozenset(farm.jobs))
        nodes = [node for node in farm.nodes.values() if not node.forgotten]
        self.gui.snapshot(
            tuple(views.job_row(job, now_us) for job in farm.jobs.values()),
            tuple(views.node_row(node, now_us) for node in nodes),
            {step.address: bytes(step.state) for step in farm.steps.values()},
        )

    def node(self, number: int) -> Node:
        """A node of the core."""
        return self.core.node(number)

    def close(self) -> None:
        """Ends it."""
        self.gui.close()


def json_of(**values: Any) -> str:
    """Settings as actions take them."""
    return msgspec.json.encode(values).decode()

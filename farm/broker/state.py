"""What the parts of a running broker share: the core, the store, sessions, and one turn's harvest."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from farm.broker.archive import Archive
from farm.broker.book import KEY_LENGTH, LeaseBook, StepName
from farm.broker.falls import Falls, TurnLost
from farm.broker.inquest import Heard
from farm.broker.keydesk import KeyDesk
from farm.broker.outbound import Outbound
from farm.broker.ports import Store
from farm.broker.publish import Publisher
from farm.broker.recorder import Recorder
from farm.broker.series import Series
from farm.broker.templates import encode_template
from farm.broker.views import Views
from farm.core.core import Core
from farm.core.events import AnyEvent, CheckpointEvent, DispatchEvent, RestartEvent, TickEvent
from farm.core.outcome import Outcome
from farm.core.rows import AnyRow
from farm.core.state import Job, Node
from farm.model.errors import CallError, OvercrankError, UnknownName
from farm.protocol.agent import Timings
from farm.protocol.codec import broker_codec
from farm.protocol.common import RefusedMsg
from farm.protocol.session import BrokerSession

if TYPE_CHECKING:
    from farm.broker.metrics import Metrics

#: A client's session that is silent for so long and follows nothing ends.
IDLE_S = 600.0
#: So many sessions of clients that follow nothing are kept; of more the longest silent end earlier.
IDLE_MOST = 2_000
#: Events that no message brings about: the broker's own.
_OF_NOBODY = (DispatchEvent, TickEvent, CheckpointEvent, RestartEvent)
#: What the owner of a key reads that is not (any more) let in: reason and cure.
REVOKED = ("this key is revoked or unknown here", "ask for a new token")


class Addresses(msgspec.Struct, frozen=True):
    """Where the broker can be dialled (``host:port``), and its public key."""

    control: str
    join: str
    bulk: str
    public: str


class BrokerState:
    """Everything but the sockets and the clock, which the loop owns.

    Attributes:
        now_us: Time of the present turn, microseconds since the epoch.
        rows: Rows of this turn that are not stored yet.
        later: Reading requests of this turn, answered after its commit.
        sessions: Every open session by routing id; ``agents`` those of nodes by node id.
        fresh: Whether anything happened since the last dispatch that could let work be placed.
    """

    def __init__(
        self,
        core: Core,
        store: Store,
        keydesk: KeyDesk,
        *,
        farm_id: str,
        farm_name: str,
        addresses: Addresses,
        timings: Timings,
        rate_nano_h: int,
        log_cap: int,
        path_rules: tuple[tuple[str, str], ...],
        now_us: int,
        falls: Falls | None = None,
    ) -> None:
        self.core = core
        self._handle: Callable[[AnyEvent], Outcome] = core.handle
        self.store = store
        self.keydesk = keydesk
        self.farm_id = farm_id
        self.farm_name = farm_name
        self.addresses = addresses
        self.timings = timings
        self.rate_nano_h = rate_nano_h
        self.log_cap = log_cap
        self.path_rules = path_rules
        self.now_us = now_us
        self.started_us = now_us
        self.codec = broker_codec()
        self.sessions: dict[bytes, BrokerSession] = {}
        self.agents: dict[int, BrokerSession] = {}
        self.rows: list[AnyRow] = []
        #: Messages of this turn whose effects are not stored yet: what a fall may have been caused by.
        self.heard: list[Heard] = []
        self.later: list[Callable[[], None]] = []
        #: What brought this broker down before, also before its last reload.
        self.falls = falls or Falls()
        #: Further words for administrators.
        self.more_alerts: Callable[[], list[str]] = list
        #: Tells the bulk thread which key an attempt was leased to.
        self.book: LeaseBook | None = None
        #: Counts what happens, when somebody may ask for figures.
        self.metrics: Metrics | None = None
        #: Writes events to a file when it is asked to.
        self.recorder: Recorder | None = None
        self.stopping = False
        self.fresh = True
        self._templates: dict[int, msgspec.Raw] = {}
        self.outbound = Outbound(self._template)
        self.views = Views(core.farm, store)
        self.archive = Archive(core.farm, store)
        self.series = Series(core.farm)
        #: Removes from disk what a deleted job left.
        self.on_deleted: Callable[[int], None] = lambda job: None
        self.publisher = Publisher(core.farm, self.views, self.outbound.reply)
        keydesk.on_revoked = self.shut_out

    @property
    def alerts(self) -> list[str]:
        """What administrators should look at, of the broker itself."""
        return self.falls.alerts + self.more_alerts()

    @staticmethod
    def entropy() -> int:
        """63 random bits."""
        return secrets.randbits(63)

    def watch(self, handle: Callable[[AnyEvent], Outcome] | None) -> None:
        """Lets a recorder handle events, which hands them to the core; None = the core itself again."""
        self._handle = handle or self.core.handle

    def apply(self, event: AnyEvent) -> Any:
        """Lets the core handle an event; gathers its rows and commands; returns its reply.

        Raises:
            OvercrankError: The core refuses the event; nothing was changed.
            TurnLost: It failed in the middle of it: what memory holds is worth nothing any more.
        """
        farm = self.core.farm
        before = farm.seq
        try:
            outcome = self._handle(event)
        except Exception as error:
            if isinstance(error, OvercrankError) and farm.seq == before:
                raise  # the core refused the event, and changed nothing
            own = not isinstance(event, _OF_NOBODY)
            raise TurnLost(f"the core failed at {type(event).__name__}", own=own) from error
        if outcome.rows:
            self.rows += outcome.rows
            self.fresh = True
        if outcome.commands:
            self.outbound.add(outcome.commands)
        return outcome.reply

    def note_leases(self, rows: list[AnyRow]) -> None:
        """Tells the bulk thread of leases that are stored now."""
        if self.book is not None:
            self.book.note_rows(rows)

    def step_name(self, step_id: int) -> StepName | None:
        """Job and name of a step; any thread may ask."""
        step = self.core.farm.steps.get(step_id)
        return (step.job.id, step.spec.name) if step is not None else None

    def node_key(self, node_id: int) -> str | None:
        """The key a node was let in by; any thread may ask."""
        node = self.core.farm.nodes.get(node_id)
        return node.key[:KEY_LENGTH] if node is not None else None

    def _template(self, step_id: int) -> msgspec.Raw:
        template = self._templates.get(step_id)
        if template is None:
            step = self.core.farm.steps[step_id]
            template = self._templates[step_id] = encode_template(step.job, step)
            if len(self._templates) > 10_000:
                del self._templates[next(iter(self._templates))]
        return template

    def forget_templates(self, job: Job) -> None:
        """Its leases are encoded anew from now on: the job or one of its steps was changed."""
        for step in job.steps:
            self._templates.pop(step.id, None)

    def views_of(self, number: int) -> Views:
        """What shows a job, be it in memory or in the archive.

        Raises:
            UnknownName: There is no such job (any more).
        """
        return self.views if number in self.core.farm.jobs else self.archive.views(number)

    def job_deleted(self, number: int) -> None:
        """A job's deletion is stored: nothing of it is let in any more, and what it left on disk goes."""
        if self.book is not None:
            self.book.forget(number)
        self.on_deleted(number)

    def find_node(self, text: str) -> Node:
        """The node of that name or number.

        Raises:
            UnknownName: There is none.
            CallError: Several are called so.
        """
        nodes = [node for node in self.core.farm.nodes.values() if not node.forgotten]
        found = [node for node in nodes if node.name == text] or [
            node for node in nodes if str(node.id) == text
        ]
        if not found:
            raise UnknownName(f"there is no node {text!r}", hint="see `farm nodes`")
        if len(found) > 1:
            raise CallError(f"{len(found)} nodes are called {text!r}", hint="use its number")
        return found[0]

    def shut_out(self, public: str) -> None:
        """Ends every session of a key that was revoked: it is told so, and told nothing more."""
        for session in [session for session in self.sessions.values() if session.key == public]:
            self.drop(session.routing_id)
            self.outbound.reply(session.routing_id, RefusedMsg("denied", *REVOKED))

    def end_idle(self) -> None:
        """Ends sessions of clients that asked for nothing for long and follow nothing.

        A client that went without a word leaves nothing on its connection that would ever fail; one that is
        still there is asked to say hello again with its next request.
        """
        idle = [session for session in self.sessions.values() if not (session.node_id or session.topics)]
        long_ago_us = self.now_us - int(IDLE_S * 1e6)
        too_many = len(idle) - IDLE_MOST
        if too_many > 0:
            idle.sort(key=lambda session: session.heard_us)
        for place, session in enumerate(idle):
            if place < too_many or session.heard_us < long_ago_us:
                self.drop(session.routing_id)

    def drop(self, routing_id: bytes) -> None:
        """Forgets a session and what it follows."""
        self.publisher.forget(routing_id)
        session = self.sessions.pop(routing_id, None)
        if session is not None and self.agents.get(session.node_id) is session:
            del self.agents[session.node_id]

    def gone(self, node_ids: list[int]) -> None:
        """Forgets the sessions of nodes whose connection broke; they say hello again when they can."""
        for node_id in node_ids:
            session = self.agents.pop(node_id, None)
            if session is not None:
                self.sessions.pop(session.routing_id, None)

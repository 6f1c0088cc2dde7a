"""Wire messages <-> core events and replies: who sent it, may they, what does it mean.

Requests that only read are answered after the turn's commit, so that nobody is told of what a crash
could undo.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

import farm
from farm.broker import queries
from farm.broker.admission import admit
from farm.broker.falls import TurnLost
from farm.broker.inquest import CURE, node_key
from farm.broker.nodedesk import node_event
from farm.broker.setting import check_set, policy_event
from farm.broker.state import REVOKED, BrokerState
from farm.core.events import (
    ActEvent,
    BeatEvent,
    ByeEvent,
    DeleteEvent,
    HelloEvent,
    ReportEvent,
    VerifiedEvent,
)
from farm.core.outcome import HelloAnswer
from farm.model.errors import CallError, Denied, OvercrankError, PeerError, StorageError, UnknownName
from farm.model.ids import Address, parse_address
from farm.model.roles import Role, check_allowed, check_priority
from farm.protocol.agent import AgentWelcome, BeatAckMsg, BeatMsg, ByeMsg, ReportMsg, VerifiedMsg
from farm.protocol.client import (
    ActReply,
    ActReq,
    ErrorReply,
    KeysReq,
    NodeActReq,
    OkReply,
    PolicySetReq,
    RecordReq,
    Request,
    ShutdownReq,
    SubmitReply,
    SubmitReq,
    SubscribeReq,
)
from farm.protocol.common import HelloMsg, RefusedMsg, RehelloMsg, WelcomeMsg
from farm.protocol.session import BrokerSession, accept_hello, never_arrived

log = logging.getLogger("overcrank.broker")


class Routes:
    """Takes messages off the control socket one by one.

    Args:
        state: What the broker's parts share.
    """

    def __init__(self, state: BrokerState) -> None:
        self._s = state
        self._lookup = state.keydesk.keyring.lookup
        self._decode = state.codec.decode
        self._on: dict[type, Callable[[BrokerSession, Any], None]] = {
            ReportMsg: self._report,
            BeatMsg: self._beat,
            VerifiedMsg: self._verified,
            ByeMsg: self._bye,
        }

    def take(self, routing_id: bytes, body: bytes, key: str) -> None:
        """Takes one message from a connection; never raises for what a peer did wrong."""
        s = self._s
        session = s.sessions.get(routing_id)
        # A session whose key was revoked is gone, so who has one with this key need not be looked up.
        known = session is not None and session.key == key
        if not known:
            entry = self._lookup(key)
            if entry is None or entry.revoked:
                s.outbound.reply(routing_id, RefusedMsg("denied", *REVOKED))
                s.drop(routing_id)
                return
        try:
            message = self._decode(body)
        except PeerError as error:
            log.warning("bad-message key=%s reason=%s", self._called(key), error.message)
            s.outbound.reply(routing_id, RefusedMsg(error.code, error.message))
            return
        if type(message) is HelloMsg:
            self._hello(routing_id, key, message)
            return
        if session is None or not known:
            s.outbound.reply(routing_id, RehelloMsg())
        elif session.node_id:
            handler = self._on.get(type(message))
            if handler is not None:
                try:
                    handler(session, message)
                except (StorageError, TurnLost):
                    raise
                except Exception as error:  # the turn holds what other agents said: it must not fall with one
                    self._cannot_take(session, error)
        elif isinstance(message, Request):
            session.heard_us = s.now_us
            self._request(session, message)
        elif type(message) is ByeMsg:
            s.drop(routing_id)

    def _called(self, key: str) -> str:
        """How logs name a key."""
        entry = self._lookup(key)
        return (entry.label or str(entry.key_id)) if entry is not None else "unknown"

    def _guarded(self, session: BrokerSession, work: Callable[[], None]) -> None:
        """Does what an agent's message asks; one that cannot be taken ends its session, and nothing else.

        The turn holds what other agents said: it must not fall with the words of one.
        """
        try:
            work()
        except (StorageError, TurnLost):
            raise
        except Exception as error:
            self._cannot_take(session, error)

    def _cannot_take(self, session: BrokerSession, error: Exception) -> None:
        """Ends the session of an agent whose message could not be taken, and tells it why."""
        s = self._s
        if isinstance(error, OvercrankError):
            reason = error.message
            log.warning("bad-message node=%d reason=%s", session.node_id, reason)
        else:
            reason = f"the broker could not take a message of this agent: {type(error).__name__}"
            log.error("message-failed node=%d", session.node_id, exc_info=error)
        s.drop(session.routing_id)
        s.outbound.reply(session.routing_id, RefusedMsg("error", reason, "see the broker's log"))

    # -- sessions --

    def _hello(self, routing_id: bytes, key: str, hello: HelloMsg) -> None:
        s = self._s
        entry = s.keydesk.keyring.lookup(key)
        assert entry is not None
        try:
            version = accept_hello(hello)
            if (hello.agent is not None) != (entry.role == Role.AGENT):
                raise Denied(f"a key with role {entry.role.value} cannot open this kind of session")
        except (PeerError, Denied) as error:
            s.outbound.reply(routing_id, RefusedMsg(error.code, error.message, error.hint))
            return
        session = BrokerSession(
            routing_id=routing_id,
            key=key,
            version=version,
            session=s.entropy(),
            role=entry.role.value,
            user=entry.user,
            leases={},
            heard_us=s.now_us,
        )
        agent_part, parts = None, list[AgentWelcome]()
        if hello.agent is not None:
            refusal = s.falls.node_refusal(node_key(key, hello.agent.facts.slice))
            if refusal is not None:
                reason = f"this node is refused: {refusal}"
                s.outbound.reply(routing_id, RefusedMsg("error", reason, CURE))
                return
            self._guarded(
                session, lambda: parts.append(self._hello_agent(session, entry.pool, entry.site, hello))
            )
            if not parts:
                return
            agent_part = parts[0]
        s.sessions[routing_id] = session
        s.outbound.reply(
            routing_id,
            WelcomeMsg(
                version=version,
                session=session.session,
                farm_name=s.farm_name,
                software=farm.__version__,
                role=entry.role.value,
                user=entry.user,
                bulk_port=s.keydesk.bulk_port,
                agent=agent_part,
            ),
        )

    def _hello_agent(self, session: BrokerSession, pool: str, site: str, hello: HelloMsg) -> AgentWelcome:
        s, agent = self._s, hello.agent
        assert agent is not None
        of_this_farm = agent.farm_id in ("", s.farm_id)
        rate = s.rate_nano_h // max(1, agent.facts.slices)
        own_key = node_key(session.key, agent.facts.slice)
        event = HelloEvent(
            s.now_us,
            own_key,
            agent.facts,
            pool,
            site or "local",
            rate,
            agent.running if of_this_farm else (),
            agent.pending if of_this_farm else (),
            agent.ending,
        )
        answer: HelloAnswer = s.apply(event)
        session.node_id = answer.node_id
        old = s.agents.get(answer.node_id)
        if old is not None:
            s.sessions.pop(old.routing_id, None)
        s.agents[answer.node_id] = session
        return AgentWelcome(
            node_id=answer.node_id,
            farm_id=s.farm_id,
            timings=s.timings,
            keep=answer.keep,
            log_cap=s.log_cap,
            path_rules=s.path_rules,
        )

    # -- agents --

    def _report(self, session: BrokerSession, message: ReportMsg) -> None:
        s, node_id = self._s, session.node_id
        s.apply(
            ReportEvent(
                s.now_us,
                node_id,
                message.attempt,
                message.nonce,
                message.units,
                message.closed,
                message.kept,
            )
        )
        if message.closed:
            session.leases.pop(message.attempt, None)  # it did arrive: no heartbeat need be looked at for it
        s.outbound.ack(node_id, message.n)

    def _beat(self, session: BrokerSession, message: BeatMsg) -> None:
        s = self._s
        missing = never_arrived(session, message.held, message.got)
        held = s.apply(BeatEvent(s.now_us, session.node_id, missing))
        if held is None:
            s.sessions.pop(session.routing_id, None)
            s.outbound.reply(session.routing_id, RehelloMsg())
            return
        if message.progress:
            s.views.note_progress(message.progress)
        if message.load is not None:
            s.views.load[session.node_id] = message.load
        s.publisher.note_beat(session.node_id, s.now_us)
        mine = set(held)
        answer = BeatAckMsg(message.n, tuple(attempt for attempt in message.held if attempt in mine))
        s.outbound.reply(session.routing_id, answer)

    def _verified(self, session: BrokerSession, message: VerifiedMsg) -> None:
        s = self._s
        s.apply(
            VerifiedEvent(
                s.now_us, session.node_id, message.attempt, message.nonce, message.unit, message.specs
            )
        )

    def _bye(self, session: BrokerSession, message: ByeMsg) -> None:
        s = self._s
        s.apply(ByeEvent(s.now_us, session.node_id, message.reason[:500]))
        s.sessions.pop(session.routing_id, None)
        s.agents.pop(session.node_id, None)

    # -- clients --

    def _request(self, session: BrokerSession, request: Request) -> None:
        s = self._s
        try:
            why = s.falls.refusal_of(session.key, request)
            if why is not None:
                raise OvercrankError(
                    f"this request is not taken: it brought the broker down ({why})", hint=CURE
                )
            reply = self._answer(session, request)
        except (StorageError, TurnLost):
            raise
        except OvercrankError as error:
            reply = ErrorReply(id=request.id, code=error.code, message=error.message, hint=error.hint)
        except Exception:
            log.exception("request-failed kind=%s", type(request).__name__)
            reply = ErrorReply(
                id=request.id, code="error", message="the broker failed to answer; its log says why"
            )
        if reply is not None:
            s.outbound.reply(session.routing_id, reply)

    def _answer(self, session: BrokerSession, request: Request) -> object | None:
        """The reply of a request, None when it is answered after the commit."""
        s, role, user = self._s, Role(session.role), session.user
        if isinstance(request, SubmitReq):
            event, warnings = admit(request.job, role, user, s.now_us)
            answer = s.apply(msgspec.structs.replace(event, force=True) if request.force else event)
            told = (*warnings, *answer.warnings)
            return SubmitReply(id=request.id, job=answer.job, warnings=told, again=answer.again)
        if isinstance(request, ActReq):
            return self._act(request, role, user)
        if isinstance(request, NodeActReq):
            check_allowed(role, request.action, user=user, owner="")
            return self._node_act(request, user)
        if isinstance(request, PolicySetReq):
            check_allowed(role, "policy-set", user=user, owner="")
            answer = s.apply(policy_event(s, request, user))
            return ActReply(id=request.id, changed=answer.changed, message=answer.message)
        if isinstance(request, KeysReq):
            needed = "keys-invite" if request.action == "keys-add" else request.action
            check_allowed(role, needed, user=user, owner="")
            return s.keydesk.handle(
                request, s.addresses.join, s.addresses.control, s.addresses.public, s.now_us
            )
        if isinstance(request, RecordReq) and s.recorder is not None:
            check_allowed(role, "record", user=user, owner="")
            try:
                return s.recorder.answer(request, s.now_us)
            except StorageError as error:
                # The farm's own store is well: this ends the request, not the turn.
                raise CallError(error.message, hint=error.hint) from error
        if isinstance(request, ShutdownReq):
            check_allowed(role, "shutdown", user=user, owner="")
            log.info("shutdown by=%s reason=%s", user, request.reason)
            s.stopping = True
            return OkReply(id=request.id)
        s.later.append(lambda: self._later(session, request, role, user))
        return None

    def _later(self, session: BrokerSession, request: Request, role: Role, user: str) -> None:
        s = self._s
        try:
            if isinstance(request, SubscribeReq):
                check_allowed(role, "jobs", user=user, owner="")
                s.publisher.subscribe(session, request.id, request.topics, s.now_us, request.state_of)
                return
            reply: object = queries.answer(s, request, role, user)
        except StorageError:
            raise
        except OvercrankError as error:
            reply = ErrorReply(id=request.id, code=error.code, message=error.message, hint=error.hint)
        except Exception:
            log.exception("request-failed kind=%s", type(request).__name__)
            reply = ErrorReply(
                id=request.id, code="error", message="the broker failed to answer; its log says why"
            )
        s.outbound.reply(session.routing_id, reply)

    def _node_act(self, request: NodeActReq, user: str) -> ActReply:
        s = self._s
        enables = request.action == "node-enable"
        try:
            event = node_event(s, request, user)
        except UnknownName:
            # One whose very first hello brought the broker down is known by what it called itself only.
            if enables and s.falls.pardon(request.node):
                return ActReply(id=request.id, changed=1, message=f"{request.node} is let in again")
            raise
        answer = s.apply(event)
        message = answer.message
        if enables and s.falls.pardon(s.core.farm.nodes[event.node_id].key):
            message += ", and is let in again"
        return ActReply(id=request.id, changed=answer.changed, message=message)

    def _delete(self, request: ActReq, address: Address, user: str) -> ActReply:
        s, number = self._s, address.job
        if address.step is not None or address.attempt is not None:
            raise CallError("delete works on a whole job", hint=f"say J{number}")
        shelf = None if number in s.core.farm.jobs else s.archive.shelf(number)
        answer = s.apply(DeleteEvent(s.now_us, number, request.reason[:500], user, shelf))
        s.later.append(lambda: s.job_deleted(number))
        log.info("deleted job=J%d by=%s", number, user)
        return ActReply(id=request.id, changed=answer.changed, message=answer.message)

    def _act(self, request: ActReq, role: Role, user: str) -> ActReply:
        s = self._s
        address = parse_address(request.address)
        job = s.core.farm.jobs.get(address.job)
        owner = job.user if job is not None else s.archive.shelf(address.job).user
        check_allowed(role, request.action, user=user, owner=owner)
        if request.action == "delete":
            return self._delete(request, address, user)
        if job is None:
            s.archive.refuse(address.job)
        if address.attempt is not None:
            raise CallError(f"{request.action} works on frames, not on attempts")
        if request.action == "priority" and request.value.lstrip("-").isdecimal():
            check_priority(role, int(request.value))
        if request.action == "set":
            check_set(request.value, role)
        answer = s.apply(
            ActEvent(
                s.now_us,
                request.action,
                address.job,
                address.step or "",
                address.frames or "",
                request.value,
                request.reason[:500],
                user,
                request.force,
            )
        )
        if request.action == "set":
            s.forget_templates(job)
        return ActReply(
            id=request.id,
            changed=answer.changed,
            message=answer.message,
            lost_core_us=answer.lost_core_us,
        )

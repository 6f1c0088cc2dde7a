"""After a fall: which messages the lost turn held, which of them may be the cause, and who is told what.

What belongs here: reading the turn's messages once more.  What may not: what is remembered of it, and for how
long (``farm.broker.falls``), and taking messages (``farm.broker.routes``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from farm.broker.falls import Mark, TurnLost, mark_request
from farm.model.errors import PeerError
from farm.protocol.agent import BeatMsg, ByeMsg, ReportMsg, VerifiedMsg
from farm.protocol.client import (
    ActReq,
    ErrorReply,
    KeysReq,
    NodeActReq,
    PolicySetReq,
    RecordReq,
    Request,
    ShutdownReq,
    SubmitReq,
)
from farm.protocol.common import HelloMsg

if TYPE_CHECKING:
    from farm.broker.state import BrokerState
    from farm.protocol.session import BrokerSession

log = logging.getLogger("overcrank.broker")

#: One message as it came: connection, body, key.
Heard = tuple[bytes, bytes, str]

CURE = "the broker's log says more; please report it with that log"
_KINDS: dict[type, str] = {
    ReportMsg: "report",
    BeatMsg: "heartbeat",
    VerifiedMsg: "look at files",
    ByeMsg: "goodbye",
}
#: Requests the core does something about.  Those that only read cannot be the cause, and their clients ask
#: again by themselves.
_DONE_BY_CORE = (SubmitReq, ActReq, NodeActReq, PolicySetReq)
#: What these ask for is done at once and outside of the turn.
_DONE_AT_ONCE = (KeysReq, RecordReq)
#: ... but for these of their actions.
_READING = ("keys-list", "list", "get")


def node_key(key: str, slice_index: int) -> str:
    """What identifies a node: its agent's key, and the slice when a key has several."""
    return f"{key}/{slice_index}" if slice_index else key


class _Message(NamedTuple):
    """What of a message matters here."""

    routing_id: bytes
    key: str
    message: object
    session: BrokerSession | None
    mark: Mark | None
    name: str


class Inquest:
    """Looks into falls.

    Args:
        state: What the broker's parts share.
    """

    def __init__(self, state: BrokerState) -> None:
        self._s = state
        #: The suspect that has the present turn to itself.
        self.alone: Mark | None = None

    def suspect(self, heard: Heard) -> Mark | None:
        """The mark of a message that must have a turn to itself, None for any other."""
        falls = self._s.falls
        session = self._s.sessions.get(heard[0])
        if (session is None or session.node_id) and not falls.suspecting_agents:
            return None
        read = self._read(heard)
        if read is None or read.mark is None or not falls.is_suspect(read.mark):
            return None
        if not isinstance(read.message, HelloMsg) and (session is None or session.key != read.key):
            return None  # it is answered without the core, and clears nobody: the real one comes in a session
        return read.mark

    def fell(self, error: TurnLost) -> list[tuple[bytes, object]]:
        """Remembers the cause of a fall, or who may be it; returns whom to tell what."""
        s, why = self._s, error.cause
        last = self._read(s.heard[-1]) if s.heard else None
        read = [message for heard in s.heard[:-1] if (message := self._read(heard)) is not None]
        read += [last] if last is not None else []
        culprit = last if error.own or self.alone is not None else None
        if culprit is not None and culprit.mark is not None:
            error.blame = self._blame(culprit, why)
        else:
            culprit = None
            marks = dict.fromkeys(message.mark for message in read)
            marks.pop(None, None)
            if marks:
                s.falls.note_turn([mark for mark in marks if mark is not None], error.what, why)
                of = f"one of {len(marks)} messages" if len(marks) > 1 else "a message"
                error.blame = f"{of}; each is taken alone when it comes again"
            else:
                s.falls.note_state(error.what, why)
                error.blame = "no message: what is stored, or the time"
        answers = [(message.routing_id, _answer(message, why, message is culprit)) for message in read]
        return [(routing_id, answer) for routing_id, answer in answers if answer is not None]

    def _blame(self, culprit: _Message, why: str) -> str:
        s, alone = self._s, self.alone is not None
        message, mark = culprit.message, culprit.mark
        if isinstance(message, Request):
            s.falls.note_request(culprit.key, message, why, alone=alone)
            user = culprit.session.user if culprit.session is not None else ""
            kind = type(message).__name__
            log.error("request-failed kind=%s user=%s", kind, user)
            return f"{kind} of {user}, refused from now on"
        assert isinstance(mark, tuple)
        key, kind, attempt = mark
        s.falls.note_message(key, culprit.name, kind, attempt, why, alone=alone)
        log.error("message-failed node=%s kind=%s attempt=%d", culprit.name, kind, attempt)
        return f"{kind} of {culprit.name}"

    def _read(self, heard: Heard) -> _Message | None:
        """A message once more; None when nothing ever came of it."""
        s = self._s
        routing_id, body, key = heard
        session = s.sessions.get(routing_id)
        if session is not None and session.key != key:
            session = None
        try:
            message = s.codec.decode(body)
        except PeerError:
            return None
        if isinstance(message, HelloMsg):
            if message.agent is None:
                return None
            facts = message.agent.facts
            mark = (node_key(key, facts.slice), "hello", 0)
            return _Message(routing_id, key, message, session, mark, facts.name)
        if isinstance(message, Request):
            if session is None or session.node_id:
                return None
            known = mark_request(key, message) if isinstance(message, _DONE_BY_CORE) else None
            return _Message(routing_id, key, message, session, known, "")
        kind = _KINDS.get(type(message))
        # Of one that said goodbye in this turn there is no session any more.
        farm = s.core.farm
        node = farm.nodes.get(session.node_id) if session is not None else farm.node_by_key.get(key)
        if kind is None or node is None:
            return None
        attempt = int(getattr(message, "attempt", 0))
        return _Message(routing_id, key, message, session, (node.key, kind, attempt), node.name)


def _answer(message: _Message, why: str, culprit: bool) -> ErrorReply | None:
    """What the sender of a request of a lost turn is told; None = nothing."""
    request = message.message
    if not isinstance(request, (*_DONE_BY_CORE, *_DONE_AT_ONCE, ShutdownReq)):
        return None
    if isinstance(request, _DONE_AT_ONCE) and request.action in _READING:
        return None
    if culprit:
        words = f"the broker failed on this request ({why}) and goes back to what it stored; nothing was done"
        return ErrorReply(id=request.id, code="error", message=words, hint=CURE)
    words = f"the broker failed in the turn that held this request ({why}) and goes back to what it stored"
    if isinstance(request, _DONE_AT_ONCE):
        done, hint = "whether this was done is not known", "look before doing it again"
    else:
        done, hint = "nothing was done", "ask again: what was not the cause is then taken"
    return ErrorReply(id=request.id, code="error", message=f"{words}; {done}", hint=hint)

"""What brought a turn down, and whose message it was: kept by the broker across its reloads.

What belongs here: the error that ends a turn because the core failed in the middle of an event, and the
memory of what caused it, so that the same message cannot bring the broker down for ever.  What may not: the
reload itself (``farm.broker.app``), which messages a turn held and who is told (``farm.broker.inquest``).

There are three kinds of falls.  One at a message's own event has its culprit.  One at what follows the
messages of a turn (placing, deadlines, storing) makes all of them suspects: when such a message comes again
it gets a turn to itself, and falls alone or is cleared.  One without any message is the stored state's, or
the time's; nobody can be refused for it, so people are told.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from farm.protocol.client import Request, SubmitReq
from farm.protocol.codec import encode

log = logging.getLogger("overcrank.broker")

#: Times the same message of an agent may bring the broker down before its node is refused.
FALLS_MOST = 2
#: Requests and nodes that are remembered; the oldest are forgotten first.
REMEMBERED_MOST = 10_000
#: How long anything is remembered: what fell once a day or rarer is not kept out for ever.
REMEMBERED_S = 86_400.0
#: How long an agent's message is suspected: agents say again within seconds what was not answered.
SUSPECTED_S = 600.0

#: What tells a message from others: a digest of a client's request, or an agent's node, kind of message and
#: attempt.
Mark = bytes | tuple[str, str, int]


class TurnLost(Exception):
    """The core failed in the middle of an event: memory may be ahead of the disk, and the turn is void.

    No part of the tree of errors that callers see: nobody but the broker itself may answer it, by starting
    again from its disk.

    Attributes:
        what: What was being done, for the log.
        own: Whether that was the event of the message taken last, and not what follows all of a turn.
        blame: What is known of the cause, for the log; "" while nobody looked.
    """

    def __init__(self, what: str, *, own: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.own = own
        self.blame = ""

    @property
    def cause(self) -> str:
        """What went wrong inside, in a word."""
        inner = self.__cause__
        return type(inner).__name__ if inner is not None else self.what


class _Refusal(msgspec.Struct):
    """A node that is let in no more."""

    at_s: float
    name: str
    reason: str


class Falls:
    """Remembers what brought the broker down.

    Args:
        clock_s: Seconds that only grow.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._requests: dict[bytes, tuple[float, str]] = {}
        self._messages: dict[tuple[str, str, int], tuple[float, int]] = {}
        self._refused: dict[str, _Refusal] = {}
        self._alerts: dict[str, tuple[float, str]] = {}
        self._suspects: dict[Mark, float] = {}
        self._last_fall = ""
        #: Falls whose message is known or among known ones, all together.
        self.count = 0
        #: Whether any message is suspected, and whether any agent's is: asked for every message.
        self.suspecting = self.suspecting_agents = False

    # -- what fell --

    def note_request(self, key: str, request: Request, why: str, *, alone: bool = False) -> None:
        """A client's request brought the broker down: it is not taken a second time.

        Args:
            key: Whose it is.
            request: The request.
            why: What happened, in words.
            alone: It had the turn to itself, as a suspect of an earlier fall.
        """
        self._found(alone)
        self._requests[mark_request(key, request)] = (self._clock_s(), why)
        _trim(self._requests)

    def note_message(
        self, node_key: str, name: str, kind: str, attempt: int, why: str, *, alone: bool = False
    ) -> None:
        """An agent's message brought the broker down; the second time its node is refused.

        Args:
            node_key: What identifies the node.
            name: What people call it.
            kind: Which message.
            attempt: The attempt it was about, 0 for none.
            why: What happened, in words.
            alone: It had the turn to itself, as a suspect of an earlier fall, which counts too.
        """
        self._found(alone)
        times = 2 if alone else 1
        now_s, place = self._clock_s(), (node_key, kind, attempt)
        last_s, count = self._messages.get(place, (now_s, 0))
        count = times if now_s - last_s > REMEMBERED_S else count + times
        self._messages[place] = (now_s, count)
        _trim(self._messages)
        if count < FALLS_MOST:
            return
        about = f" about attempt {attempt}" if attempt else ""
        reason = f"its {kind}{about} brought the broker down {count} times ({why})"
        self._refused[node_key] = _Refusal(now_s, name, reason)
        _trim(self._refused)
        cure = f"see the broker's log; `farm node enable {name}` lets it in again"
        self._alert(f"node {node_key}", f"{name} is refused: {reason}; {cure}")

    def note_turn(self, marks: Iterable[Mark], what: str, why: str) -> None:
        """What follows the messages of a turn brought the broker down: any of them may be the cause."""
        self.count += 1
        now_s = self._clock_s()
        self._suspects.update(dict.fromkeys(marks, now_s))
        _trim(self._suspects)
        self._weigh()
        self._last_fall = f"{what} ({why})"
        count = len(self._suspects)
        of = f"one of {count} messages" if count > 1 else "a message"
        self._alert("fall", f"{self._last_fall} after {of}: it is taken alone when it comes again")

    def note_state(self, what: str, why: str) -> None:
        """The broker came down without any message: there is nobody to refuse."""
        self._suspects.clear()
        self._weigh()
        self._alert(
            "fall", f"{what} ({why}) without any message: what is stored brings the broker down; see its log"
        )

    def _found(self, alone: bool) -> None:
        """It is known who it was: if that was a suspect, nobody else is suspected any more."""
        self.count += 1
        if alone:
            self._suspects.clear()
            self._weigh()
            self._alerts.pop("fall", None)

    # -- suspects --

    def is_suspect(self, mark: Mark) -> bool:
        """Whether this message must have a turn to itself."""
        return mark in self._suspects

    def clear(self, mark: Mark) -> None:
        """A suspect had a turn to itself, and nothing fell."""
        if self._suspects.pop(mark, None) is not None:
            self._weigh()
            self._unexplained()

    def age(self) -> None:
        """Forgets suspects that were not heard of again (called now and then)."""
        if not self.suspecting:
            return
        now_s = self._clock_s()
        for mark, at_s in list(self._suspects.items()):
            if now_s - at_s > (REMEMBERED_S if isinstance(mark, bytes) else SUSPECTED_S):
                del self._suspects[mark]
        self._weigh()
        self._unexplained()

    def _weigh(self) -> None:
        self.suspecting = bool(self._suspects)
        self.suspecting_agents = any(not isinstance(mark, bytes) for mark in self._suspects)

    def _unexplained(self) -> None:
        if not self._suspects and "fall" in self._alerts:
            words = f"{self._last_fall}, and no message of that turn did it again"
            log.warning("fall-unexplained reason=%s", words)
            self._alert("fall", f"{words}: it hung on the time or on several together; see the broker's log")

    # -- what is refused --

    def refusal_of(self, key: str, request: Request) -> str | None:
        """Why a request is not taken, None when nothing speaks against it."""
        if not self._requests:
            return None
        at_s, why = self._requests.get(mark_request(key, request), (0.0, ""))
        return why if why and self._clock_s() - at_s <= REMEMBERED_S else None

    def node_refusal(self, node_key: str) -> str | None:
        """Why a node is let in no more, None when nothing speaks against it."""
        refusal = self._refused.get(node_key)
        if refusal is None or self._clock_s() - refusal.at_s > REMEMBERED_S:
            return None
        return refusal.reason

    def pardon(self, node: str) -> bool:
        """Lets a node in again, by what identifies it or by its name; returns whether it was refused.

        What its messages did before does not count any more.
        """
        keys = {key for key, refusal in self._refused.items() if node in (key, refusal.name)}
        lifted = any(self.node_refusal(key) is not None for key in keys)
        for key in keys:
            del self._refused[key]
            self._alerts.pop(f"node {key}", None)
        for place in [place for place in self._messages if place[0] in keys or place[0] == node]:
            del self._messages[place]
        return lifted

    # -- people --

    @property
    def alerts(self) -> list[str]:
        """What administrators should look at, newest last."""
        since_s = self._clock_s() - REMEMBERED_S
        return [text for at_s, text in self._alerts.values() if at_s >= since_s]

    def _alert(self, about: str, text: str) -> None:
        self._alerts.pop(about, None)
        self._alerts[about] = (self._clock_s(), text)
        while len(self._alerts) > 100:
            del self._alerts[next(iter(self._alerts))]


def mark_request(key: str, request: Request) -> bytes:
    """What is the same when the same key asks for the same again, under whatever number or token."""
    asked = msgspec.structs.replace(request, id=0)
    if isinstance(asked, SubmitReq):
        asked = msgspec.structs.replace(asked, job=_without_token(asked.job))
    return hashlib.sha256(key.encode() + b"\0" + encode(asked)).digest()


def _without_token(job: bytes) -> bytes:
    """A job file without the token that is new at each try."""
    try:
        fields = msgspec.json.decode(job)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return job
    if not isinstance(fields, dict):
        return job
    fields.pop("token", None)
    return msgspec.json.encode(fields)


def _trim(found: dict[Any, Any]) -> None:
    while len(found) > REMEMBERED_MOST:
        del found[next(iter(found))]

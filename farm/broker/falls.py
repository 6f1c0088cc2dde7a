"""What brought a turn down, and whose message it was: kept by the broker across its reloads.

What belongs here: the error that ends a turn because the core failed in the middle of an event, and the
memory of what caused it, so that the same message cannot bring the broker down for ever.  What may not: the
reload itself (``farm.broker.app``) and how peers are told (``farm.broker.routes``).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from farm.protocol.client import Request
from farm.protocol.codec import encode

#: Times the same message of an agent may bring the broker down before its node is refused.
FALLS_MOST = 2
#: Requests and nodes that are remembered; the oldest are forgotten first.
REMEMBERED_MOST = 10_000


class TurnLost(Exception):
    """The core failed in the middle of an event: memory may be ahead of the disk, and the turn is void.

    No part of the tree of errors that callers see: nobody but the broker itself may answer it, by starting
    again from its disk.

    Attributes:
        what: What was being done, for the log.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Falls:
    """Remembers what brought the broker down."""

    def __init__(self) -> None:
        self._requests: dict[bytes, str] = {}
        self._messages: dict[tuple[str, str, int], int] = {}
        self._refused: dict[str, str] = {}
        #: Falls whose message is known, all together.
        self.count = 0
        #: What administrators should look at, newest last.
        self.alerts: list[str] = []

    def note_request(self, key: str, request: Request, why: str) -> None:
        """A client's request brought the broker down: it is not taken a second time."""
        self.count += 1
        self._requests[_mark(key, request)] = why
        _trim(self._requests)

    def refusal_of(self, key: str, request: Request) -> str | None:
        """Why a request is not taken, None when nothing speaks against it."""
        if not self._requests:
            return None
        return self._requests.get(_mark(key, request))

    def note_message(self, node_key: str, name: str, kind: str, attempt: int, why: str) -> None:
        """An agent's message brought the broker down; the second time its node is refused.

        Args:
            node_key: What identifies the node.
            name: What people call it.
            kind: Which message.
            attempt: The attempt it was about, 0 for none.
            why: What happened, in words.
        """
        self.count += 1
        place = (node_key, kind, attempt)
        count = self._messages[place] = self._messages.get(place, 0) + 1
        _trim(self._messages)
        if count < FALLS_MOST:
            return
        about = f" about attempt {attempt}" if attempt else ""
        reason = f"its {kind}{about} brought the broker down {count} times ({why})"
        self._refused[node_key] = reason
        _trim(self._refused)
        self.alerts.append(f"{name} is refused: {reason}; see the broker's log")
        del self.alerts[:-100]

    def node_refusal(self, node_key: str) -> str | None:
        """Why a node is let in no more, None when nothing speaks against it."""
        return self._refused.get(node_key)


def _mark(key: str, request: Request) -> bytes:
    """What is the same when the same key asks for the same again, under whatever number."""
    asked = encode(msgspec.structs.replace(request, id=0))
    return hashlib.sha256(key.encode() + b"\0" + asked).digest()


def _trim(found: dict[Any, Any]) -> None:
    while len(found) > REMEMBERED_MOST:
        del found[next(iter(found))]

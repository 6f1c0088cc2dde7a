"""MessagePack codec: one reused typed encoder and decoder per direction.

What may not come in: anything larger than the socket's limit (the transport enforces it before a byte
is parsed), anything nested deeper than DEPTH, anything that is not one of the typed messages.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from farm.model.errors import PeerError
from farm.protocol import agent, bulk, client, common

#: Largest control message in bytes, of those that anybody sends to a broker or a broker to an agent.
CONTROL_LIMIT = 8 * 1024 * 1024
#: Largest answer to a client in bytes: the state of fifty thousand jobs is 24 MiB.  A client trusts the
#: broker whose key it has, and its socket takes as much.
REPLY_LIMIT = 64 * 1024 * 1024
#: Largest bulk message in bytes.
BULK_LIMIT = bulk.PIECE + 64 * 1024
#: Largest join message in bytes.
JOIN_LIMIT = 64 * 1024
#: Deepest nesting of free-form values (a step's parameters).
DEPTH = 32

T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()
encode = _ENCODER.encode


class Codec(Generic[T]):
    """Decoder of one union of messages."""

    def __init__(self, union: Any, limit: int) -> None:
        self._decode = msgspec.msgpack.Decoder(union).decode
        self._limit = limit

    def decode(self, body: bytes | memoryview) -> T:
        """Decodes one message.

        Raises:
            PeerError: Too large, too deep, malformed or of an unknown kind.
        """
        if len(body) > self._limit:
            raise PeerError(f"a message of {len(body)} bytes is over the limit of {self._limit}")
        try:
            message: T = self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise PeerError(f"a message does not decode: {error}") from error
        return message


AnyFromPeer = (
    common.HelloMsg | agent.BeatMsg | agent.ReportMsg | agent.VerifiedMsg | agent.ByeMsg | client.AnyRequest
)
AnyToAgent = (
    common.WelcomeMsg
    | common.RefusedMsg
    | common.RehelloMsg
    | agent.BeatAckMsg
    | agent.BatchMsg
    | agent.DrainMsg
    | agent.UpdateMsg
)
AnyToClient = common.WelcomeMsg | common.RefusedMsg | common.RehelloMsg | client.AnyReply


def broker_codec() -> Codec[AnyFromPeer]:
    """What a broker reads on its control socket."""
    return Codec(AnyFromPeer, CONTROL_LIMIT)


def agent_codec() -> Codec[AnyToAgent]:
    """What an agent reads on its control socket."""
    return Codec(AnyToAgent, CONTROL_LIMIT)


def client_codec() -> Codec[AnyToClient]:
    """What a client reads on its control socket."""
    return Codec(AnyToClient, REPLY_LIMIT)


def bulk_in_codec() -> Codec[bulk.AnyBulkIn]:
    """What a broker reads on its bulk socket."""
    return Codec(bulk.AnyBulkIn, BULK_LIMIT)


def bulk_out_codec() -> Codec[bulk.AnyBulkOut]:
    """What agents and clients read on the bulk socket."""
    return Codec(bulk.AnyBulkOut, BULK_LIMIT)


def join_in_codec() -> Codec[bulk.JoinMsg]:
    """What a broker reads on its join socket."""
    return Codec(bulk.JoinMsg, JOIN_LIMIT)


def join_out_codec() -> Codec[bulk.AnyJoinOut]:
    """What a joining peer reads."""
    return Codec(bulk.AnyJoinOut, JOIN_LIMIT)


_TEMPLATE = msgspec.msgpack.Decoder(agent.StepTemplate)


def decode_template(raw: msgspec.Raw | bytes) -> agent.StepTemplate:
    """Decodes a lease's template.

    Raises:
        PeerError: It is malformed or nested too deeply.
    """
    try:
        template = _TEMPLATE.decode(bytes(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        raise PeerError(f"a lease's template does not decode: {error}") from error
    check_depth(template.params)
    return template


def check_depth(value: Any, limit: int = DEPTH) -> None:
    """Raises PeerError when a free-form value is nested deeper than ``limit``."""
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > limit:
            raise PeerError(f"a value is nested deeper than {limit}")
        if isinstance(item, dict):
            stack += [(child, depth + 1) for child in item.values()]
        elif isinstance(item, list | tuple):
            stack += [(child, depth + 1) for child in item]

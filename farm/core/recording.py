"""The recording of a farm: what its file holds, as pure functions.

What belongs here: encoding and decoding.  What may not: files (the broker writes them, ``farm.sim.replay``
reads them) and decisions.  The file is a stream of MessagePack values:

    [MAGIC, VERSION, header]      once
    [fingerprint, event]          each event that was handled, in order
    [nil, mark]                   now and then, and at the end: events so far and the state's digest
"""

from __future__ import annotations

import msgspec

from farm.core.events import AnyEvent
from farm.core.graph import Entry, read_graph, write_graph
from farm.core.state import Farm, Settings

MAGIC = b"overcrank-recording"
#: 2: lines sort by rank too, so that what a recording of before holds cannot be gone on with.
VERSION = 2

_ENCODE = msgspec.msgpack.Encoder().encode
_EVENT = msgspec.msgpack.Decoder(AnyEvent)


class Header(msgspec.Struct):
    """What a recording begins with.

    Attributes:
        software: Version that wrote it; another one may decide otherwise.
        at_us: When it began.
        settings: The core's figures, for people and tools.
        state: The whole farm, see ``farm.core.graph``.
    """

    software: str
    at_us: int
    settings: Settings
    state: list[Entry]


class Mark(msgspec.Struct, array_like=True):
    """How many events there were so far, the digest of the state, and whether the recording ends."""

    events: int
    digest: str
    end: bool


_HEADER = msgspec.msgpack.Decoder(Header)
_MARK = msgspec.msgpack.Decoder(Mark)


def encode_header(farm: Farm, software: str, now_us: int) -> bytes:
    """The first value of a recording that begins now.

    Raises:
        TypeError: The farm holds what cannot be written: a bug.
    """
    header = Header(software, now_us, farm.settings, write_graph(farm))
    return _ENCODE([MAGIC, VERSION, _ENCODE(header)])


def encode_event(farm: Farm, event: AnyEvent) -> bytes:
    """An event that the farm has handled."""
    return _ENCODE((fingerprint(farm), _ENCODE(event)))


def encode_mark(mark: Mark) -> bytes:
    """A mark."""
    return _ENCODE((None, _ENCODE(mark)))


def decode_header(body: bytes) -> Header:
    """The header of an encoded one.

    Raises:
        msgspec.DecodeError: It is damaged, or of a version with other records.
    """
    return _HEADER.decode(body)


def decode_event(body: bytes) -> AnyEvent:
    """The event of an encoded one.

    Raises:
        msgspec.DecodeError: It is damaged.
    """
    event: AnyEvent = _EVENT.decode(body)
    return event


def decode_mark(body: bytes) -> Mark:
    """The mark of an encoded one.

    Raises:
        msgspec.DecodeError: It is damaged.
    """
    return _MARK.decode(body)


def fingerprint(farm: Farm) -> int:
    """A number that differs, nearly always, as soon as two farms do: made of their counters."""
    return (farm.seq * 1_000_003 + farm.next_attempt) & ((1 << 63) - 1)


def revive(header: Header) -> Farm:
    """The farm as it was when the recording began.

    Raises:
        ValueError: It is damaged, or of a version with other classes.
    """
    farm = read_graph(header.state)
    if not isinstance(farm, Farm):
        raise ValueError("the recorded state is no farm")
    return farm

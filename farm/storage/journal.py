"""The journal's encoding: a commit's rows as one blob, and the same bytes regrouped by step as history.

What belongs here: bytes and rows, both ways, and which units a row concerns.  What must not: SQL, files.

A blob is a MessagePack array of rows, each an array that begins with the tag of its kind.  Regrouping copies
each row's bytes and decodes no more of it than its step and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

import msgspec

from farm.core.apply import units_of
from farm.core.rows import BulkRow, LeaseRow, ResultRow, Row, SeenRow
from farm.model.errors import StorageError
from farm.storage.tables import JOURNALED

#: Most rows in one segment: a page of frames reads a few of them, each in about a millisecond.
SEGMENT_ROWS = 4_000
#: A unit index no step reaches: rows that concern every unit go up to here.
EVERY_UNIT = 2**62
#: Kinds of no use once a checkpoint says the same.
PASSING: frozenset[type[Row]] = frozenset({SeenRow})

_ENCODE = msgspec.msgpack.Encoder().encode
_ROWS = msgspec.msgpack.Decoder(list[Union[JOURNALED]])  # type: ignore[valid-type]  # noqa: UP007
_RAWS = msgspec.msgpack.Decoder(list[msgspec.Raw])

#: Fields that place a row in the history.
_PLACING = ("seq", "step_id", "attempt_id", "unit", "units")


def _slim(kind: type[Row]) -> type[msgspec.Struct]:
    """A record that reads only the first fields of a kind of row, up to the last one that places it."""
    fields = msgspec.structs.fields(kind)
    last = max(at for at, field in enumerate(fields) if field.name in _PLACING)
    return msgspec.defstruct(
        f"_{kind.__name__}Place",
        [(field.name, field.type) for field in fields[: last + 1]],
        array_like=True,
        tag=kind.__struct_config__.tag,
        gc=False,
    )


#: What ``decode_places`` gives of each kind of row.
PLACE_OF: dict[type[Row], type] = {kind: _slim(kind) for kind in JOURNALED}
_KIND_OF: dict[type, type[Row]] = {place: kind for kind, place in PLACE_OF.items()}
_PLACES = msgspec.msgpack.Decoder(list[Union[tuple(_KIND_OF)]])  # type: ignore[misc]  # noqa: UP007

#: Kinds people read as the history of a step.
Told = LeaseRow | ResultRow | BulkRow
TOLD: tuple[type[Row], ...] = (LeaseRow, ResultRow, BulkRow)


def encode_rows(rows: Sequence[Any]) -> bytes:
    """The blob of a commit's rows.

    Raises:
        OverflowError, ValueError: A value fits no row.
    """
    return _ENCODE(rows)


def decode_rows(blob: bytes, where: str) -> list[Any]:
    """The rows of a blob.

    Raises:
        StorageError: It is no such blob; ``where`` names it.
    """
    try:
        return _ROWS.decode(blob)
    except msgspec.MsgspecError as error:
        raise _damaged(where, error) from error


def decode_places(blob: bytes, where: str) -> list[Any]:
    """Of each row of a blob the fields up to the last one that places it, as its ``PLACE_OF``.

    Raises:
        StorageError: It is no such blob; ``where`` names it.
    """
    try:
        places: list[Any] = _PLACES.decode(blob)
        return places
    except msgspec.MsgspecError as error:
        raise _damaged(where, error) from error


def _damaged(where: str, error: Exception) -> StorageError:
    return StorageError(
        f"{where} is damaged: {error}", hint="put a backup in its place, or see `farm db repair`"
    )


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Rows of one step in order of ``seq``, as they are stored; of step 0, rows that concern no step.

    Attributes:
        id: ``seq`` of its last row.
        step_id: Whose.
        seq_first: ``seq`` of its first row.
        unit_low, unit_high: Bound the units the rows concern.
        rows: How many.
        bulks: How many of them move many units at once.
        blob: Encoded like a journal entry.
    """

    id: int
    step_id: int
    seq_first: int
    unit_low: int
    unit_high: int
    rows: int
    bulks: int
    blob: bytes


class _Open:
    """A segment being filled."""

    __slots__ = ("bulks", "first", "high", "last", "low", "parts", "step_id")

    def __init__(self, step_id: int, seq: int) -> None:
        self.step_id = step_id
        self.first = self.last = seq
        self.low, self.high = EVERY_UNIT, -1
        self.bulks = 0
        self.parts: list[Any] = []

    def closed(self) -> Segment:
        count = len(self.parts)
        blob = b"".join((b"\xdd", count.to_bytes(4, "big"), *self.parts))
        low = min(self.low, self.high)
        return Segment(self.last, self.step_id, self.first, low, self.high, count, self.bulks, blob)


class Regrouping:
    """Sorts journal entries, given in order, into segments.

    Args:
        attempts: Bounds of the units of attempts leased before these entries; those leased in them are added.
            A result of another one is taken to concern every unit.

    Attributes:
        rows: How many were taken.
    """

    def __init__(self, attempts: dict[int, tuple[int, int]]) -> None:
        self.rows = 0
        self._open: dict[int, _Open] = {}
        self._closed: list[Segment] = []
        self._attempts = attempts

    def add(self, blob: bytes, where: str) -> None:
        """Takes an entry.

        Raises:
            StorageError: It does not decode.
        """
        places = decode_places(blob, where)
        raws = _RAWS.decode(blob)
        self.rows += len(raws)
        opened, attempts = self._open, self._attempts
        for place, raw in zip(places, raws, strict=True):
            kind = _KIND_OF[type(place)]
            if kind is ResultRow:
                step_id = place.step_id
                # All rows of an attempt are bounded by all its units: a reader needs them together.
                found = attempts.get(place.attempt_id)
                if found is not None:
                    low, high = found
                else:
                    low, high = 0, EVERY_UNIT
            elif kind is LeaseRow:
                step_id = place.step_id
                attempts[place.id] = low, high = bounds_of(place.units)
            elif kind in PASSING:
                continue
            else:
                step_id = getattr(place, "step_id", 0)
                low, high = bounds_of(place.units) if kind is BulkRow else (EVERY_UNIT, -1)
            into = opened.get(step_id)
            if into is None:
                into = opened[step_id] = _Open(step_id, place.seq)
            into.parts.append(raw)
            into.last = place.seq
            if low < into.low:
                into.low = low
            if high > into.high:
                into.high = high
            if kind is BulkRow:
                into.bulks += 1
            if len(into.parts) >= SEGMENT_ROWS:
                self._closed.append(opened.pop(step_id).closed())

    def finish(self) -> list[Segment]:
        """All segments."""
        return self._closed + [part.closed() for part in self._open.values()]


def bounds_of(text: str) -> tuple[int, int]:
    """Bounds of unit indices as text; ``*`` is every unit."""
    if text.isdecimal():
        unit = int(text)
        return unit, unit
    if text == "*":
        return 0, EVERY_UNIT
    units = units_of(text)
    return min(units), max(units)


def span_of(row: Any) -> tuple[int, int] | None:
    """First and last unit a row names itself, None when it names none."""
    if type(row) is ResultRow:
        return (row.unit, row.unit) if row.unit >= 0 else None
    return bounds_of(row.units) if type(row) is LeaseRow or type(row) is BulkRow else None


def concerning(rows: Iterable[Told], low: int, high: int) -> list[Told]:
    """Rows that concern units from ``low`` to ``high``, with all results of the attempts they were leased to.

    What an attempt cost is in the row that closed it and is shared among all its units: so whoever reads of
    one unit needs them all.
    """
    kept: list[Told] = []
    attempts: set[int] = set()
    for row in rows:
        if type(row) is ResultRow:
            if row.attempt_id in attempts or low <= row.unit <= high:
                kept.append(row)
            continue
        text = row.units  # type: ignore[union-attr]
        first, last = bounds_of(text)
        if first <= high and last >= low:
            kept.append(row)
            if type(row) is LeaseRow:
                attempts.add(row.id)
    return kept


def reach(rows: Iterable[Told], low: int, high: int) -> tuple[int, int]:
    """Bounds of units, widened by all units of the attempts that were leased any of them."""
    wide_low, wide_high = low, high
    for row in rows:
        if type(row) is LeaseRow:
            first, last = bounds_of(row.units)
            if first <= high and last >= low:
                wide_low, wide_high = min(wide_low, first), max(wide_high, last)
    return wide_low, wide_high

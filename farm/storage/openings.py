"""What a checkpoint tells the store: which attempts were open when it was made."""

from __future__ import annotations

import msgspec

from farm.core.rows import CheckpointRow, LeaseRow


class _Attempt(msgspec.Struct, array_like=True):
    """The first field of what ``farm.core.checkpoint`` keeps of an open attempt."""

    lease: LeaseRow


class _Extra(msgspec.Struct):
    attempts: list[_Attempt] = []


_DECODER = msgspec.msgpack.Decoder(_Extra)


def open_leases(checkpoint: CheckpointRow) -> list[LeaseRow]:
    """Leases of the attempts under ``attempts`` in the checkpoint's ``extra``, none when it names none.

    The rest of ``extra`` is the core's own and is not looked at.
    """
    try:
        return [attempt.lease for attempt in _DECODER.decode(checkpoint.extra).attempts]
    except msgspec.DecodeError:
        return []

"""What a checkpoint tells the store: which attempts were open when it was made."""

from __future__ import annotations

import msgspec

from farm.core.rows import CheckpointRow


class _Attempt(msgspec.Struct, array_like=True):
    """The first field of what ``farm.core.checkpoint`` keeps of an open attempt."""

    id: int


class _Extra(msgspec.Struct):
    attempts: list[_Attempt] | None = None


_DECODER = msgspec.msgpack.Decoder(_Extra)


def named_open(checkpoint: CheckpointRow) -> list[int] | None:
    """Ids of the attempts under ``attempts`` in the checkpoint's ``extra``, None when it names none.

    The rest of ``extra`` is the core's own and is not looked at.
    """
    try:
        attempts = _DECODER.decode(checkpoint.extra).attempts
    except msgspec.DecodeError:
        return None
    return None if attempts is None else [attempt.id for attempt in attempts]

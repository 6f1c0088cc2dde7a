"""Reading what a broker says without holding the window up: a large state is read in slices.

What belongs here: the codec of the client's control socket.  What may not: what a message means.

A decoder keeps Python's lock until it is done; for fifty thousand jobs that is a quarter of a second in which
no other thread, the window's among them, does anything.  Slices let it in between.
"""

from __future__ import annotations

import gc
from typing import Any, Final

import msgspec

from farm.model.errors import PeerError
from farm.protocol.client import SnapshotMsg
from farm.protocol.codec import REPLY_LIMIT, AnyToClient, Codec
from farm.protocol.rows import JobRow, NodeRow

#: A message longer than this is read in slices.
LARGE: Final = 256 << 10


class _Whole(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """A ``SnapshotMsg`` whose rows are not read yet."""

    id: int
    n: int
    jobs: tuple[msgspec.Raw, ...] = ()
    nodes: tuple[msgspec.Raw, ...] = ()
    maps: dict[str, bytes] = {}


class GentleCodec(Codec[Any]):
    """What a client reads on its control socket, a large state row by row.

    Args:
        large: A message of more bytes is read in slices.
    """

    def __init__(self, large: int = LARGE) -> None:
        super().__init__(AnyToClient, REPLY_LIMIT)
        self._large = large
        self._whole = msgspec.msgpack.Decoder(_Whole)
        self._job = msgspec.msgpack.Decoder(JobRow)
        self._node = msgspec.msgpack.Decoder(NodeRow)

    def decode(self, body: bytes | memoryview) -> Any:
        """Reads one message.

        Raises:
            PeerError: Too large, malformed, or of an unknown kind.
        """
        if not self._large < len(body) <= REPLY_LIMIT:
            return super().decode(body)
        try:
            whole = self._whole.decode(body)
        except msgspec.DecodeError:
            return super().decode(body)  # large, and no state
        # New objects by the hundred thousand: collecting garbage in the middle would stop every thread.
        enabled = gc.isenabled()
        gc.disable()
        try:
            jobs = _rows(self._job, whole.jobs)
            nodes = _rows(self._node, whole.nodes)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise PeerError(f"a message does not decode: {error}") from error
        finally:
            if enabled:
                gc.enable()
        return SnapshotMsg(id=whole.id, n=whole.n, jobs=jobs, nodes=nodes, maps=whole.maps)


def _rows(decoder: msgspec.msgpack.Decoder[Any], raws: tuple[msgspec.Raw, ...]) -> tuple[Any, ...]:
    # One call a row: the interpreter hands its lock over between two calls when another thread wants it.
    decode = decoder.decode
    return tuple([decode(raw) for raw in raws])

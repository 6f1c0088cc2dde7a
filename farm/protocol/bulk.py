"""Messages on the bulk socket: log pieces, previews and figures of frames, each at most 256 KiB.

The bulk socket needs no hello: every message is authorised by the sender's key alone.  An agent may
write logs and previews of attempts leased to its key; clients may read those of jobs they may see.
"""

from __future__ import annotations

import msgspec

#: Largest piece of data in one message, in bytes.
PIECE = 256 * 1024
#: Most units in one ColumnsMsg: what it says of one is at most 26 bytes.
COLUMN_UNITS = 8192


class LogPutMsg(msgspec.Struct, frozen=True, tag="log-put"):
    """A piece of an attempt's log; ``offset`` is where it belongs (a gap is refused by LogAckMsg)."""

    job: int
    step: str
    no: int
    attempt: int
    offset: int
    data: bytes
    end: bool = False


class LogAckMsg(msgspec.Struct, frozen=True, tag="log-ack"):
    """The broker holds ``size`` bytes of that attempt's log; go on from there ("" reason = good)."""

    attempt: int
    size: int
    reason: str = ""


class ShortLog(msgspec.Struct, frozen=True, array_like=True):
    """The whole log of an attempt that has ended."""

    job: int
    step: str
    no: int
    attempt: int
    data: bytes


class LogsPutMsg(msgspec.Struct, frozen=True, tag="logs-put"):
    """Whole logs of attempts that have ended, together no longer than one piece."""

    logs: tuple[ShortLog, ...]


class LogsAckMsg(msgspec.Struct, frozen=True, tag="logs-ack"):
    """What is held of each of these logs, in the order they were sent."""

    acks: tuple[LogAckMsg, ...]


class PreviewPutMsg(msgspec.Struct, frozen=True, tag="preview-put"):
    """The preview picture (JPEG) of one unit."""

    job: int
    step: str
    no: int
    attempt: int
    unit: int
    data: bytes


class PreviewAckMsg(msgspec.Struct, frozen=True, tag="preview-ack"):
    """The preview is stored, or why not."""

    attempt: int
    unit: int
    reason: str = ""


class LogGetMsg(msgspec.Struct, frozen=True, tag="log-get"):
    """Asks for a page of an attempt's log; negative ``offset`` counts from the end."""

    id: int
    job: int
    step: str
    no: int
    offset: int = 0
    limit: int = PIECE


class LogPageMsg(msgspec.Struct, frozen=True, tag="log-page"):
    """A page of a log: where it starts, how long the log is now, and whether it has ended."""

    id: int
    offset: int
    size: int
    data: bytes
    ended: bool


class PreviewGetMsg(msgspec.Struct, frozen=True, tag="preview-get"):
    """Asks for the newest preview of a unit."""

    id: int
    job: int
    step: str
    unit: int


class PreviewMsg(msgspec.Struct, frozen=True, tag="preview"):
    """The preview (JPEG), empty when there is none yet."""

    id: int
    data: bytes


class ColumnsGetMsg(msgspec.Struct, frozen=True, tag="columns-get"):
    """Asks for figures of a step's units: of all of them page by page, then of those that changed.

    Attributes:
        since: Number (``ColumnsMsg.seq``) up to which the asker knows all; 0 = nothing.
        first: With ``since`` 0, where the page begins.
    """

    id: int
    job: int
    step: str
    since: int = 0
    first: int = 0


class ColumnsMsg(msgspec.Struct, frozen=True, tag="columns"):
    """Figures of some units of a step, as FrameRow has them, column by column.

    What an attempt cost is told when it has ended: that of one still at work is not in ``cost``.

    Attributes:
        seq: Everything up to that number is in it; of several pages, the first one's is to be asked from.
        total: How many units the step has.
        since: What the figures follow on; not what was asked for = that is too long ago (or never was), and
            this is the first page of all units.
        first: The first unit of the page, when ``units`` is empty.
        count: How many units it tells of.
        units: Their indices (uint32) when they are not in a row; they differ from each other and ascend.
        data: Compressed with zlib, little-endian, one array of ``count`` values after another: seconds of
            the last attempt that finished it (float32, NaN = none did), peak memory of that kind in MiB
            (int32, -1 = not known), attempts it was leased under (uint16), number of its last node (int32,
            0 = none), cost in nano-USD (int64).
    """

    id: int
    seq: int
    total: int
    since: int
    first: int
    count: int
    units: bytes = b""
    data: bytes = b""


class BulkErrorMsg(msgspec.Struct, frozen=True, tag="bulk-error"):
    """The request failed."""

    id: int
    code: str
    reason: str


AnyBulkIn = LogPutMsg | LogsPutMsg | PreviewPutMsg | LogGetMsg | PreviewGetMsg | ColumnsGetMsg
AnyBulkOut = LogAckMsg | LogsAckMsg | PreviewAckMsg | LogPageMsg | PreviewMsg | ColumnsMsg | BulkErrorMsg


class JoinMsg(msgspec.Struct, frozen=True, tag="join"):
    """On the join socket: redeem a token's secret for the sender's key."""

    secret: bytes
    label: str = ""


class JoinedMsg(msgspec.Struct, frozen=True, tag="joined"):
    """The key is known now; the bulk socket is at ``bulk_port`` of the same host."""

    farm_id: str
    farm_name: str
    role: str
    user: str
    pool: str
    site: str
    bulk_port: int = 0


class JoinRefusedMsg(msgspec.Struct, frozen=True, tag="join-refused"):
    """The token is not accepted."""

    reason: str


AnyJoinOut = JoinedMsg | JoinRefusedMsg

"""The changes the core wants stored, as frozen records in column order.

LeaseRow and ResultRow are append-only: they are the truth and the history at once.  Replaying rows in
the order of ``seq`` through ``farm.core.apply`` and its parts rebuilds exactly the state that wrote them.
Every row that changes a state keeps the old one, the new one and a reason in words an artist understands. The
storage room turns each record into one row of the table of the same name.
"""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all rows.  The tag of a kind is on disk: it never changes and is never used again."""


class JobRow(Row, frozen=True, gc=False, array_like=True, tag=1):
    """A submitted job; ``spec`` is the job file as JSON."""

    id: int
    seq: int
    name: str
    user: str
    project: str
    priority: int
    token: str
    paused: int
    submitted_us: int
    spec: bytes


class StepRow(Row, frozen=True, gc=False, array_like=True, tag=2):
    """A step of a job.

    ``app`` is the application its renderer needs, ``whole`` whether an attempt takes its node's whole
    slice, ``units`` their number, ``state`` the state all units start in.
    """

    id: int
    seq: int
    job_id: int
    idx: int
    name: str
    app: str
    whole: int
    units: int
    state: int


class JobStateRow(Row, frozen=True, gc=False, array_like=True, tag=3):
    """A change of a job as a whole: what (``priority``, ``rank``, ``paused``), old, new, reason, who."""

    seq: int
    job_id: int
    at_us: int
    what: str
    old: str
    new: str
    reason: str
    who: str


class LeaseRow(Row, frozen=True, gc=False, array_like=True, tag=4):
    """Units leased under an attempt: they move from ``old`` (queued) to ``new`` (running).

    ``units`` are indices as text (``5`` or ``5-9,12``); ``gpus`` CUDA indices as text; ``gang`` the gang
    id, 0 for none.  A verify lease (``kind`` 1) moves no unit; its ``gang`` is the VerifyRow it serves.
    A second copy (``kind`` 3) moves none either: its unit runs already.
    """

    id: int
    seq: int
    step_id: int
    no: int
    node_id: int
    nonce: int
    kind: int
    units: str
    cores: int
    ram_mib: int
    gpus: str
    share_ppm: int
    gang: int
    at_us: int
    old: int
    new: int
    reason: str


class ResultRow(Row, frozen=True, gc=False, array_like=True, tag=5):
    """What became of one unit of an attempt, or (``unit`` -1) the bare end of the attempt.

    ``closes``: the attempt ends with this row; then ``charge_nano`` and ``waste_nano`` are final.
    ``lost``: the attempt ended without its agent's word, so its folder may still hold files.  2: units had
    been taken from it before, so that files of those must not be adopted.
    """

    seq: int
    attempt_id: int
    step_id: int
    unit: int
    old: int
    new: int
    failure: str
    reason: str
    at_us: int
    elapsed_us: int
    ram_mib: int
    files: bytes
    warning: str
    closes: int
    lost: int
    charge_nano: int
    waste_nano: int


class BulkRow(Row, frozen=True, gc=False, array_like=True, tag=6):
    """Many units of a step move at once; ``units`` is ``*`` (all in state ``old``) or indices as text.

    From blocked to blocked: their existing files are looked at first.  From queued to queued: their back-off
    is over.
    """

    seq: int
    step_id: int
    units: str
    old: int
    new: int
    at_us: int
    reason: str
    who: str
    fresh: int


class SpecRow(Row, frozen=True, gc=False, array_like=True, tag=7):
    """The picture specification of a step (msgpack of one PictureSpec or nil per output; empty = dropped)."""

    seq: int
    step_id: int
    unit: int
    specs: bytes


class VerifyRow(Row, frozen=True, gc=False, array_like=True, tag=8):
    """A request to verify existing files: ``done`` 0 when asked for, 1 when settled.

    ``units`` are those still to be looked at; ``id`` is the ``seq`` of its first row.
    """

    id: int
    seq: int
    step_id: int
    units: str
    purpose: str
    who: str
    at_us: int
    done: int


class NodeRow(Row, frozen=True, gc=False, array_like=True, tag=9):
    """A node as it is now (replaces the earlier row of the same id)."""

    id: int
    seq: int
    key: str
    name: str
    pool: str
    site: str
    facts: bytes
    enabled: int
    reason: str
    rate_nano_h: int
    seen_us: int
    forgotten: int
    settings: bytes


class MeterRow(Row, frozen=True, gc=False, array_like=True, tag=10):
    """A node's meter as it is now (replaces the earlier row of the same node).

    ``on`` tells whether it runs; ``origin_us``/``metered_us`` bound the metered time; ``charges`` is msgpack
    of {attempt id: nano-USD} of its open attempts.
    """

    node_id: int
    seq: int
    running: int
    origin_us: int
    metered_us: int
    rate_nano_h: int
    total_nano: int
    idle_nano: int
    waste_nano: int
    charges: bytes


class NodeMapRow(Row, frozen=True, gc=False, array_like=True, tag=15):
    """Checkpoint of a node: its NodeRow and MeterRow, encoded (replaces the earlier one)."""

    node_id: int
    seq: int
    node: bytes
    meter: bytes


class StepEditRow(Row, frozen=True, gc=False, array_like=True, tag=16):
    """A step was changed after submit: ``spec`` is its whole new record as JSON.

    Frames are only ever appended, so that indices keep their meaning; those no longer wanted are canceled by
    rows of their own.
    """

    seq: int
    step_id: int
    at_us: int
    spec: bytes
    reason: str
    who: str


class PolicyRow(Row, frozen=True, gc=False, array_like=True, tag=17):
    """The farm's policy from now on, as JSON."""

    seq: int
    at_us: int
    policy: bytes
    reason: str
    who: str


class SeenRow(Row, frozen=True, gc=False, array_like=True, tag=18):
    """When nodes were last heard of: msgpack of {node id: microseconds}; a restart charges up to it."""

    seq: int
    nodes: bytes


class StaleRow(Row, frozen=True, gc=False, array_like=True, tag=11):
    """A late, repeated or foreign result that changed nothing: recorded as waste."""

    seq: int
    attempt_id: int
    unit: int
    node_id: int
    at_us: int
    reason: str


class HistoryRow(Row, frozen=True, gc=False, array_like=True, tag=12):
    """A change people may ask about that is no unit's: of a job, a node, the farm."""

    seq: int
    at_us: int
    job_id: int
    what: str
    old: str
    new: str
    reason: str
    who: str


class StepMapRow(Row, frozen=True, gc=False, array_like=True, tag=13):
    """Checkpoint of a step: its maps and sums as of ``seq`` (replaces the earlier one)."""

    step_id: int
    seq: int
    state: bytes
    tries: bytes
    extra: bytes


class CheckpointRow(Row, frozen=True, gc=False, array_like=True, tag=14):
    """Checkpoint of the farm: everything up to ``seq`` is in the maps; ``extra`` holds the rest."""

    id: int
    seq: int
    at_us: int
    extra: bytes


class ShelfRow(Row, frozen=True, gc=False, array_like=True, tag=19):
    """A job that left memory for the archive: all of it is in the store, nothing of it changes any more.

    Attributes:
        job_id: Its number.
        state: The state people see, as its word.
        token: The client's token, which goes on meaning this job.
        units: Units that were wanted.
        done, failed: How many of them got done, how many failed.
        busy_us: Time that went into frames that got done.
        steps: Numbers of its steps as text (``5-7``).
    """

    seq: int
    job_id: int
    at_us: int
    name: str
    user: str
    project: str
    priority: int
    token: str
    state: str
    reason: str
    submitted_us: int
    started_us: int
    ended_us: int
    units: int
    done: int
    failed: int
    spend_nano: int
    waste_nano: int
    busy_us: int
    steps: str


class DeleteRow(Row, frozen=True, gc=False, array_like=True, tag=20):
    """A job was deleted: its rows go with the next checkpoint, what it cost stays here and in the sums.

    Attributes:
        job_id: Its number, which no other job gets.
        shelved: Whether it was in the archive.
        done: Units that got done.
    """

    seq: int
    job_id: int
    at_us: int
    name: str
    user: str
    project: str
    token: str
    shelved: int
    done: int
    spend_nano: int
    waste_nano: int
    busy_us: int
    reason: str
    who: str


AnyRow = (
    JobRow
    | StepRow
    | JobStateRow
    | LeaseRow
    | ResultRow
    | BulkRow
    | SpecRow
    | VerifyRow
    | NodeRow
    | MeterRow
    | StaleRow
    | HistoryRow
    | StepMapRow
    | NodeMapRow
    | StepEditRow
    | PolicyRow
    | SeenRow
    | ShelfRow
    | DeleteRow
    | CheckpointRow
)

"""What a store was given, worked out the slow way, and reading a store whole.

What belongs here: what the suites of conformance compare with.  What may not: what is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from farm.broker.ports import Store
from farm.core.apply import units_of
from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import AnyRow, BulkRow, LeaseRow, ResultRow
from farm.storage.tables import GROUND, JOURNALED, LEAVING
from tests.unit.storage.samples import Writer

Opens = Callable[[], Store]
#: Kinds of rows that a restart applies again.
REPLAYED = (*GROUND, *LEAVING, *JOURNALED)
#: Number of the job in the archive among one row of each kind.
ARCHIVED = 7


def replayed(store: Store, after: int = BEFORE_ALL) -> list[AnyRow]:
    """All rows that come back after a number."""
    return list(store.replay(after))


def told(rows: list[AnyRow], step: int = 1) -> list[Any]:
    """The history of a step among rows."""
    return [row for row in rows if isinstance(row, LeaseRow | ResultRow | BulkRow) and row.step_id == step]


def concerning(rows: list[Any], low: int, high: int) -> list[Any]:
    """The rows of a step's history that concern units, worked out one unit at a time."""
    wanted = set(range(low, high + 1))
    attempts = {row.id for row in rows if isinstance(row, LeaseRow) and wanted & set(units_of(row.units))}
    kept = []
    for row in rows:
        if isinstance(row, ResultRow):
            keep = row.attempt_id in attempts or row.unit in wanted
        else:
            keep = row.units == "*" or bool(wanted & set(units_of(row.units)))
        if keep:
            kept.append(row)
    return kept


def one_of_each(w: Writer) -> list[AnyRow]:
    """A row of every kind, a checkpoint last."""
    return [
        *w.ground(),
        *(w.lease(), w.result(1), w.bulk(), w.job_state(), w.history(), w.stale(), w.spec(), w.verify()),
        *(w.meter(), w.edit(), w.policy(), w.seen(), w.node_map(), w.step_map()),
        *(w.job(ARCHIVED), w.shelf(ARCHIVED), w.deleted(8), w.checkpoint()),
    ]


def result(w: Writer, written: list[AnyRow]) -> AnyRow:
    """A result of some attempt among rows, or a first lease."""
    leases = [row for row in written if isinstance(row, LeaseRow)]
    if not leases:
        return w.lease()
    lease = leases[w.seq * 7 % len(leases)]
    return w.result(lease.id, unit=int(lease.units), closes=0)


def regroup(store: Store, most_rows: int = 1_000_000) -> None:
    """Regroups all that is settled."""
    while store.compact(most_rows):
        pass


def saved(extra: dict[str, Any]) -> bytes:
    """What a checkpoint holds."""
    return msgspec.msgpack.encode(extra)

"""What became of each unit of a step, in a few bytes a unit: made of stored leases and results.

What belongs here: the figures of ``FrameRow`` that can be put in columns, worked out as ``farm.broker.views``
does, row by row as the rows come.  What may not: reading rows, messages, threads.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from math import nan

from farm.core.apply import units_of
from farm.core.rows import BulkRow, LeaseRow, ResultRow
from farm.model.states import AttemptKind

#: Changes remembered: whoever knows less than these asks for all units again.
CHANGES_MOST = 200_000
_ATTEMPTS_MOST = 2**16 - 1
_INT32_MOST = 2**31 - 1
_VERIFY = AttemptKind.VERIFY.value


def split_charge(charge: int, units: tuple[int, ...], elapsed: dict[int, int]) -> list[int]:
    """Splits an attempt's charge over its units by time (evenly when none is known), exactly."""
    weights = [elapsed.get(unit, 0) for unit in units]
    if not any(weights):
        weights = [1] * len(units)
    total = sum(weights)
    parts = [charge * weight // total for weight in weights]
    order = sorted(range(len(units)), key=lambda i: (-(charge * weights[i] % total), i))
    for i in order[: charge - sum(parts)]:
        parts[i] += 1
    return parts


class _Held:
    """An attempt that has not ended: its units, and what it spent on them."""

    __slots__ = ("spent", "units")

    def __init__(self, units: tuple[int, ...]) -> None:
        self.units = units
        self.spent: dict[int, int] = {}


class UnitLedger:
    """Figures of a step's units.

    Args:
        step_id: Whose.
        units: How many there are; it grows when a later one is leased.

    Attributes:
        seq: Number of the last row that is in it, 0 = none.
        read_to: Up to which row those of the step were looked for; never before ``seq``.
        elapsed_s: Seconds of the last attempt that finished a unit, NaN = none did.
        ram_mib: Peak memory when it was last told, -1 = never.
        attempts: Attempts it was leased under, but those that only look at files.
        node: Number of its last node, 0 = none.
        cost_nano: Its part of what ended attempts cost.
    """

    __slots__ = (
        "_changed_seqs",
        "_changed_units",
        "_from",
        "_open",
        "attempts",
        "cost_nano",
        "elapsed_s",
        "node",
        "ram_mib",
        "read_to",
        "seq",
        "step_id",
    )

    def __init__(self, step_id: int, units: int) -> None:
        self.step_id = step_id
        self.seq = self.read_to = 0
        self.elapsed_s = array("f")
        self.ram_mib = array("i")
        self.attempts = array("H")
        self.node = array("i")
        self.cost_nano = array("q")
        self._open: dict[int, _Held] = {}
        #: Which row changed which unit, oldest first; all of those after the row ``_from``.
        self._changed_seqs = array("q")
        self._changed_units = array("I")
        self._from = 0
        self._grow(units)

    def __len__(self) -> int:
        return len(self.attempts)

    def _grow(self, units: int) -> None:
        more = units - len(self)
        if more <= 0:
            return
        self.elapsed_s.extend(array("f", (nan,)) * more)
        self.ram_mib.extend(array("i", (-1,)) * more)
        self.attempts.extend(array("H", (0,)) * more)
        self.node.extend(array("i", (0,)) * more)
        self.cost_nano.extend(array("q", (0,)) * more)

    # -- taking rows --

    def take(self, rows: Iterable[LeaseRow | ResultRow | BulkRow]) -> None:
        """Takes rows of the step in order; those that are in already are passed over."""
        seq = self.seq
        for row in rows:
            if row.seq <= seq:
                continue
            seq = row.seq
            if type(row) is ResultRow:
                self._result(row)
            elif type(row) is LeaseRow:
                self._lease(row)
        self.seq = seq
        if len(self._changed_seqs) > 2 * CHANGES_MOST:
            cut = len(self._changed_seqs) - CHANGES_MOST
            self._from = self._changed_seqs[cut - 1]
            del self._changed_seqs[:cut], self._changed_units[:cut]

    def _lease(self, row: LeaseRow) -> None:
        units = units_of(row.units)
        self._open[row.id] = _Held(units)
        attempts, nodes = self.attempts, self.node
        last = units[-1] if len(units) == 1 else max(units)
        if last >= len(attempts):
            self._grow(last + 1)
        if row.kind == _VERIFY:
            return
        node = row.node_id if row.node_id <= _INT32_MOST else _INT32_MOST
        for unit in units:
            if attempts[unit] < _ATTEMPTS_MOST:
                attempts[unit] += 1
            nodes[unit] = node
        self._note(row.seq, units)

    def _result(self, row: ResultRow) -> None:
        unit, held = row.unit, self._open.get(row.attempt_id)
        if unit >= 0:
            if unit >= len(self.attempts):
                self._grow(unit + 1)
            elapsed_us, ram_mib = row.elapsed_us, row.ram_mib
            if held is not None:
                held.spent[unit] = elapsed_us
            if elapsed_us:
                self.elapsed_s[unit] = elapsed_us / 1e6
            if ram_mib:
                self.ram_mib[unit] = ram_mib if ram_mib <= _INT32_MOST else _INT32_MOST
            self._changed_seqs.append(row.seq)
            self._changed_units.append(unit)
        if row.closes and held is not None:
            del self._open[row.attempt_id]
            charge = row.charge_nano
            if not charge:
                return
            cost, units = self.cost_nano, held.units
            parts = (charge,) if len(units) == 1 else split_charge(charge, units, held.spent)
            for one, part in zip(units, parts, strict=True):
                cost[one] += part
            self._note(row.seq, units)

    def _note(self, seq: int, units: tuple[int, ...]) -> None:
        if len(units) == 1:
            self._changed_seqs.append(seq)
            self._changed_units.append(units[0])
        else:
            self._changed_seqs.extend((seq,) * len(units))
            self._changed_units.extend(units)

    # -- answers --

    def changed_since(self, seq: int, most: int) -> list[int] | None:
        """Units that changed after that row, ascending; None when that is not known, or they are more."""
        if not self._from <= seq <= self.seq:
            return None
        units = set(self._changed_units[bisect_right(self._changed_seqs, seq) :])
        return sorted(units) if len(units) <= most else None

    def page(self, first: int, count: int) -> bytes:
        """The columns of some units in a row, one after another, little-endian."""
        return b"".join(_little(column[first : first + count]) for column in self._columns())

    def pick(self, units: list[int]) -> bytes:
        """The columns of these units, likewise."""
        parts = (array(one.typecode, [one[unit] for unit in units]) for one in self._columns())
        return b"".join(map(_little, parts))

    def _columns(self) -> Iterator[array[float] | array[int]]:
        yield self.elapsed_s
        yield self.ram_mib
        yield self.attempts
        yield self.node
        yield self.cost_nano


def indices(units: list[int]) -> bytes:
    """Indices of units as they are sent."""
    return _little(array("I", units))


def _little(values: array[float] | array[int]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()

"""What people read of the past: leases, results and moves, from segments and from what waits in the journal.

What belongs here: which segments and entries answer a question.  What must not: writing, connections, and
what the rows mean to people.

Rows are in segments up to some number and in the journal after it, never in both: so those of the segments
come first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from farm.core.rows import LeaseRow
from farm.storage.journal import EVERY_UNIT, TOLD, Told, concerning, decode_rows, reach
from farm.storage.whereabouts import Whereabouts

#: Journal entries fetched at once: enough to make a statement's cost vanish, few enough to hold.
PAGE = 64
#: A number after that of every row.
_AFTER_ALL = 2**63 - 1
_SEQ = attrgetter("seq")


class Following(NamedTuple):
    """What is told of steps after some row.

    Attributes:
        rows: By step, in order of ``seq``; those that are known already may be among them.
        read_to: Number of the last row that was looked at in the journal, 0 = none was.
        more: There may be more.
    """

    rows: dict[int, list[Told]]
    read_to: int
    more: bool


class HistoryReader(ABC):
    """The part of a store that reads history."""

    #: What messages call it.
    label: str
    _index: Whereabouts | None = None

    @abstractmethod
    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Rows of a SELECT."""

    # -- questions --

    def step_history(self, step_id: int, units: tuple[int, int] | None) -> list[Told]:
        """Leases, results and moves of a step in order of ``seq``.

        Args:
            step_id: Which step.
            units: First and last unit asked for: what concerns them, and all results of their attempts;
                None = everything.
        """
        if units is None:
            return [
                *_told(self._segments("WHERE step_id = ? ORDER BY id", step_id)),
                *self._told_in_journal(step_id, 0, EVERY_UNIT),
            ]
        low, high = units
        rows = self._concerning(step_id, low, high)
        wide_low, wide_high = reach(rows, low, high)
        if (wide_low, wide_high) != (low, high):
            rows = self._concerning(step_id, wide_low, wide_high)
        return concerning(rows, low, high)

    def recent_history(self, step_id: int, leases: int) -> list[Told]:
        """The newest so many leases of a step with what became of them, in order of ``seq``."""
        if leases <= 0:
            return []
        parts: list[list[Told]] = []
        held: list[int] = []
        for rows in self._newest_first(step_id):
            parts.append(rows)
            held = [row.id for row in rows if type(row) is LeaseRow] + held
            if len(held) >= leases:
                break
        wanted = set(held[-leases:])
        return [
            row
            for rows in reversed(parts)
            for row in rows
            if (row.id if type(row) is LeaseRow else getattr(row, "attempt_id", None)) in wanted
        ]

    def bulks_of_step(self, step_id: int) -> list[Any]:
        """Moves of many units of a step at once, in order of ``seq``."""
        rows = _told(self._segments("WHERE step_id = ? AND bulks > 0 ORDER BY id", step_id))
        index = self._looked_through()
        for entry in (*self._entries(index.bulks(step_id)), *self._entries_after(index)):
            rows += _told_of(entry, step_id)
        return [row for row in rows if hasattr(row, "fresh")]

    def recent_leases(self, limit: int) -> list[LeaseRow]:
        """The newest lease rows, oldest of them first."""
        if limit <= 0:
            return []
        found: list[LeaseRow] = []
        newest_first = f"SELECT id, blob FROM journal WHERE id < ? ORDER BY id DESC LIMIT {PAGE}"
        before = _AFTER_ALL
        while len(found) < limit and (page := self._query(newest_first, (before,))):
            before = page[-1][0]
            for number, blob in page:
                found += _leases(decode_rows(blob, self._entry(number)))
        before = _AFTER_ALL
        while len(found) < limit:
            page = self._query(
                "SELECT id, step_id, blob FROM segments WHERE id < ? ORDER BY id DESC LIMIT 8", (before,)
            )
            if not page:
                break
            before = page[-1][0]
            for number, step_id, blob in page:
                if step_id:
                    found += _leases(self._decode_segment(number, blob))
        if before < _AFTER_ALL and found:
            # Segments made together overlap: some may have ended after the oldest that is wanted.
            found.sort(key=_SEQ)
            oldest = found[-limit:][0].seq
            for rows in self._segments("WHERE id < ? AND id > ? AND step_id > 0", before, oldest):
                found += _leases(rows)
        found.sort(key=_SEQ)
        return found[-limit:]

    # -- following a step --

    def step_named(self, job_id: int, name: str) -> tuple[int, int] | None:
        """Number of a step and how many units it was submitted with, None when there is none."""
        found = self._query("SELECT id, units FROM steps WHERE job_id = ? AND name = ?", (job_id, name))
        return (int(found[0][0]), int(found[0][1])) if found else None

    def segments_after(self, step_id: int, seq: int, most: int) -> list[tuple[int, list[Told]]]:
        """The next segments of a step, each with the number of its last row.

        Args:
            step_id: Which step.
            seq: Rows up to that number are known.
            most: How many segments at once.
        """
        sql = f"SELECT id, blob FROM segments WHERE step_id = ? AND id > ? ORDER BY id LIMIT {int(most)}"
        return [
            (number, _told([self._decode_segment(number, blob)]))
            for number, blob in self._query(sql, (step_id, seq))
        ]

    def told_after(self, known: Mapping[int, int]) -> Following:
        """What is told of some steps next, in segments and in the journal.

        One statement, so that nothing moves from one to the other in between.

        Args:
            known: Up to which row each step is known; no more than one.
        """
        tests = " OR ".join(["(step_id = ? AND id > ?)"] * len(known))
        sql = (
            f"SELECT 0 AS part, id, id AS last, step_id, blob FROM segments WHERE {tests} UNION ALL "
            "SELECT * FROM (SELECT 1 AS part, id, seq_last AS last, 0 AS step_id, blob FROM journal"
            f" WHERE id > ? ORDER BY id LIMIT {PAGE}) AS later ORDER BY 1, 2"
        )
        values = [value for pair in known.items() for value in pair]
        rows: dict[int, list[Told]] = {step_id: [] for step_id in known}
        read_to, entries = 0, 0
        for part, number, last, step_id, blob in self._query(sql, (*values, min(known.values()))):
            if not part:
                rows[step_id] += _told([self._decode_segment(number, blob)])
                continue
            entries, read_to = entries + 1, last
            for row in decode_rows(blob, self._entry(number)):
                if type(row) in TOLD and row.step_id in rows:
                    rows[row.step_id].append(row)
        return Following(rows, read_to, entries == PAGE)

    # -- where the answers are --

    def _concerning(self, step_id: int, low: int, high: int) -> list[Told]:
        """Rows of a step among which are all that concern these units."""
        overlap = "WHERE step_id = ? AND unit_low <= ? AND unit_high >= ? ORDER BY id"
        return [
            *_told(self._segments(overlap, step_id, high, low)),
            *self._told_in_journal(step_id, low, high),
        ]

    def _told_in_journal(self, step_id: int, low: int, high: int) -> list[Told]:
        index = self._looked_through()
        rows: list[Told] = []
        for entry in self._entries(index.of_step(step_id, low, high)):
            rows += _told_of(entry, step_id)
        for entry in self._entries_after(index):
            rows += _told_of(entry, step_id)
        return rows

    def _newest_first(self, step_id: int) -> Iterator[list[Told]]:
        """All that is told of a step, in parts from the newest back, each in order."""
        index = self._looked_through()
        yield [row for entry in self._entries_after(index) for row in _told_of(entry, step_id)]
        entries = index.of_step(step_id)
        while entries:
            newest = entries[-PAGE:]
            del entries[-PAGE:]
            yield [row for entry in self._entries(newest) for row in _told_of(entry, step_id)]
        for (number,) in self._query(
            "SELECT id FROM segments WHERE step_id = ? ORDER BY id DESC", (step_id,)
        ):
            yield _told(self._segments("WHERE id = ?", number))

    # -- the journal --

    def _looked_through(self) -> Whereabouts:
        """The index of the journal, with what came since the last question."""
        if self._index is None:
            self._index = Whereabouts()
        index = self._index
        for number, blob in self._entries_between(index.until, None):
            if not index.add(number, blob, self._entry(number)):
                break
        return index

    def _entries_after(self, index: Whereabouts) -> Iterator[list[Any]]:
        """Rows of each entry that an index had no room for."""
        for number, blob in self._entries_between(index.until, None):
            yield decode_rows(blob, self._entry(number))

    def _forget_entries(self, until: int) -> None:
        """Entries up to that one are gone from the journal."""
        if self._index is not None:
            self._index.forget(until)

    def _entries(self, numbers: Sequence[int]) -> Iterator[list[Any]]:
        """Rows of each of these entries, in order."""
        for at in range(0, len(numbers), PAGE):
            some = numbers[at : at + PAGE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT id, blob FROM journal WHERE id IN ({marks}) ORDER BY id"
            for number, blob in self._query(sql, some):
                yield decode_rows(blob, self._entry(number))

    def _entries_between(self, after: int | None, until: int | None) -> Iterator[tuple[int, bytes]]:
        """Number and blob of journal entries in order.

        Page by page, so that no statement stays open between: one would keep SQLite's log from being reset.
        """
        if after is None:
            after = -(2**63)
        rest = "" if until is None else f" AND id <= {int(until)}"
        sql = f"SELECT id, blob FROM journal WHERE id > ?{rest} ORDER BY id LIMIT {PAGE}"
        while page := self._query(sql, (after,)):
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def _entry(self, number: int) -> str:
        """What messages call an entry."""
        return f"{self.label}, journal entry {number}"

    # -- segments --

    def _segments(self, rest: str, *values: int) -> Iterator[list[Any]]:
        for number, blob in self._query(f"SELECT id, blob FROM segments {rest}", values):
            yield self._decode_segment(number, blob)

    def _decode_segment(self, number: int, blob: bytes) -> list[Any]:
        return decode_rows(blob, f"{self.label}, segment {number}")


def _told(segments: Iterable[list[Any]]) -> list[Told]:
    return [row for rows in segments for row in rows if type(row) in TOLD]


def _told_of(rows: Iterable[Any], step_id: int) -> list[Told]:
    return [row for row in rows if type(row) in TOLD and row.step_id == step_id]


def _leases(rows: Iterable[Any]) -> list[LeaseRow]:
    return [row for row in rows if type(row) is LeaseRow]

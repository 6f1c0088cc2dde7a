"""Rows for the storage tests, numbered as the core numbers them."""

from __future__ import annotations

from farm.core.rows import (
    AnyRow,
    BulkRow,
    CheckpointRow,
    DeleteRow,
    HistoryRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    MeterRow,
    NodeMapRow,
    NodeRow,
    PolicyRow,
    ResultRow,
    SeenRow,
    ShelfRow,
    SpecRow,
    StaleRow,
    StepEditRow,
    StepMapRow,
    StepRow,
    VerifyRow,
)

AT_US = 1_796_000_000_000_000


class Writer:
    """Makes rows with ``seq`` and attempt ids that only grow."""

    def __init__(self, seq: int = 0, attempt: int = 0) -> None:
        self.seq = seq
        self.attempt = attempt

    def _next(self) -> int:
        self.seq += 1
        return self.seq

    def job(self, number: int = 1, name: str = "shot_010") -> JobRow:
        return JobRow(number, self._next(), name, "ana", "film", 50, f"t{number}", 0, AT_US, b'{"name": "x"}')

    def step(self, number: int = 1, job: int = 1, name: str = "beauty", units: int = 1000) -> StepRow:
        return StepRow(number, self._next(), job, 0, name, "blender", 0, units, 1)

    def node(self, number: int = 1, name: str = "render-01", reason: str = "") -> NodeRow:
        return NodeRow(
            number, self._next(), f"key{number}", name, "gpu", "local", b"\x80", 1, reason, 5, AT_US, 0, b""
        )

    def meter(self, node: int = 1, total_nano: int = 0) -> MeterRow:
        return MeterRow(node, self._next(), 1, AT_US, AT_US + 5, 500_000_000, total_nano, 0, 0, b"\x80")

    def lease(self, step: int = 1, node: int = 1, units: str = "0", *, nonce: int = 2**63 - 1) -> LeaseRow:
        self.attempt += 1
        return LeaseRow(
            self.attempt,
            self._next(),
            step,
            self.attempt,
            node,
            nonce,
            0,
            units,
            4,
            8192,
            "0,1",
            250_000,
            0,
            AT_US,
            1,
            2,
            "first in line; render-01 has 4 cores free",
        )

    def result(self, attempt: int, step: int = 1, unit: int = 0, *, closes: int = 1) -> ResultRow:
        return ResultRow(
            self._next(),
            attempt,
            step,
            unit,
            2,
            3,
            "",
            "verified, 4096x2160 Größe ✓",
            AT_US,
            1_250_000,
            2048,
            b"\x00\xff\x91",
            "",
            closes,
            0,
            123_456,
            0,
        )

    def bulk(self, step: int = 1, units: str = "*") -> BulkRow:
        return BulkRow(self._next(), step, units, 1, 6, AT_US, "canceled by ana", "ana", 0)

    def job_state(self, job: int = 1, new: str = "paused") -> JobStateRow:
        return JobStateRow(self._next(), job, AT_US, "paused", "", new, "paused by ana", "ana")

    def history(self, job: int = 0, at_us: int = AT_US, reason: str = "r") -> HistoryRow:
        return HistoryRow(self._next(), at_us, job, "node", "enabled", "drained", reason, "ana")

    def stale(self, attempt: int = 999_999) -> StaleRow:
        return StaleRow(self._next(), attempt, 3, 42, AT_US, "no such attempt")

    def spec(self, step: int = 1, specs: bytes = b"\x91\xc0") -> SpecRow:
        return SpecRow(self._next(), step, 0, specs)

    def verify(self, number: int = 1, step: int = 1, done: int = 0, seq: int | None = None) -> VerifyRow:
        return VerifyRow(number, seq or self._next(), step, "0-9", "skip existing", "ana", AT_US, done)

    def edit(self, step: int = 1) -> StepEditRow:
        return StepEditRow(self._next(), step, AT_US, b'{"frames": "1-20"}', "longer", "ana")

    def policy(self) -> PolicyRow:
        return PolicyRow(self._next(), AT_US, b"{}", "fair", "ana")

    def seen(self) -> SeenRow:
        return SeenRow(self._next(), b"\x81\x01\x05")

    def shelf(self, job: int = 1, user: str = "ana", state: str = "done") -> ShelfRow:
        figures = (AT_US, AT_US, AT_US, 9, 8, 1, 1_000, 100, 7_000_000)
        who = (user, "film", 50, f"t{job}")
        return ShelfRow(self._next(), job, AT_US, "shot_010", *who, state, "", *figures, "1-2")

    def deleted(self, job: int = 1, shelved: int = 0) -> DeleteRow:
        who = ("shot_010", "ana", "film", f"t{job}")
        return DeleteRow(self._next(), job, AT_US, *who, shelved, 8, 1_000, 100, 5, "old", "wim")

    def node_map(self, node: int = 1, body: bytes = b"\x01") -> NodeMapRow:
        return NodeMapRow(node, self._next(), body, b"\x02")

    def step_map(self, step: int = 1, state: bytes = b"\x01\x03") -> StepMapRow:
        return StepMapRow(step, self._next(), state, b"\x00\x01", b"\x80")

    def checkpoint(self, extra: bytes = b"\x80", number: int = 1) -> CheckpointRow:
        return CheckpointRow(number, self._next(), AT_US, extra)

    def ground(self) -> list[AnyRow]:
        """A job with two steps, and two nodes."""
        return [self.job(), self.step(1), self.step(2, name="comp"), self.node(1), self.node(2, "render-02")]

    def batch(self, size: int, step: int = 1) -> list[AnyRow]:
        """Leases of as many units, and their results."""
        leases = [self.lease(step, units=str(unit)) for unit in range(size)]
        return [*leases, *(self.result(row.id, step, int(row.units)) for row in leases)]

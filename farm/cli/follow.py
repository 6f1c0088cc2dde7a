"""Waiting for a job with a progress bar; knowing when nothing more can happen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from farm.cli.text import duration_text, money_text
from farm.protocol.client import JobRow, NodeRow, StepRow

if TYPE_CHECKING:
    from farm.cli.console import Console
    from farm.sdk.client import Farm
    from farm.sdk.mirror import Mirror

#: A job that is queued while capable nodes are idle this long cannot be placed.
STUCK_S = 20.0
_PLAIN_EVERY_S = 2.0
_BAR = 28


def wait_for_job(farm: Farm, number: int, console: Console) -> JobRow:
    """Shows progress until the job has ended or cannot go on; returns its last row."""
    progress = _Progress(console)
    idle_since_s: float | None = None
    latest: JobRow | None = None
    try:
        for mirror in farm.subscribe("jobs", "nodes", f"job:{number}", idle_s=0.5):
            row = mirror.jobs.get(number)
            if row is None or mirror.trouble:
                continue
            latest = row
            progress.show(row, mirror)
            if is_over(row):
                return row
            busy = row.running > 0 or any(node.running for node in mirror.nodes.values())
            if busy or not waiting(row):
                idle_since_s = None
            elif idle_since_s is None:
                idle_since_s = time.monotonic()
            elif time.monotonic() - idle_since_s > STUCK_S:
                return row
    finally:
        progress.end()
    assert latest is not None
    return latest


def is_over(row: JobRow) -> bool:
    """Whether nothing runs and nothing queued can run (ended, failed, or paused by itself)."""
    if row.state in ("done", "canceled"):
        return True
    if row.state == "paused":
        return row.running == 0
    counts = [sum(step.counts[state] for step in row.steps) for state in range(7)]
    blocked, queued, running, _, failed, _, _ = counts
    return running == 0 and queued == 0 and failed > 0 and blocked >= 0


def waiting(row: JobRow) -> bool:
    """Whether it has units that wait for a node."""
    return any(step.counts[1] or step.counts[0] for step in row.steps)


class _Progress:
    """Bars on a terminal, a plain line now and then in a pipe; silent with ``--json``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = time.monotonic()
        self._shown_s = float("-inf")
        self._lines = 0
        self._last = ""

    def show(self, row: JobRow, mirror: Mirror) -> None:
        out = self._console.err if self._console.json else self._console.out
        now_s = time.monotonic()
        if out.isatty():
            if now_s - self._shown_s < 0.1:
                return
            lines = [self._bar(row, step) for step in row.steps]
            lines.append(self._foot(row, mirror))
            up = f"\x1b[{self._lines}F" if self._lines else ""
            out.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
            out.flush()
            self._lines = len(lines)
            self._shown_s = now_s
            return
        text = ", ".join(
            f"{step.name} {step.counts[3]}/{step.units}" + (f" ({step.counts[4]} failed)" if step.counts[4] else "")
            for step in row.steps
        )
        line = f"{row.state}: {text}"
        if line != self._last and (now_s - self._shown_s >= _PLAIN_EVERY_S or is_over(row)):
            self._last, self._shown_s = line, now_s
            out.write(f"{now_s - self._started_s:6.1f} s  {line}, {money_text(row.spend_nano)}\n")
            out.flush()

    def _bar(self, row: JobRow, step: StepRow) -> str:
        done, failed, running = step.counts[3], step.counts[4], step.counts[2]
        filled = _BAR * done // max(1, step.units)
        live = min(_BAR - filled, -(-_BAR * running // max(1, step.units)))
        bar = "#" * filled + "-" * live + " " * (_BAR - filled - live)
        words = f"{done}/{step.units}"
        if failed:
            words += f", {failed} failed"
        if step.mean_frame_s and step.kind == "per_frame":
            words += f", {step.mean_frame_s:.2f} s a frame"
        return f"  {step.name[:12]:<12} [{bar}] {words}"

    def _foot(self, row: JobRow, mirror: Mirror) -> str:
        busy: list[NodeRow] = [node for node in mirror.nodes.values() if node.running]
        passed = duration_text(time.monotonic() - self._started_s)
        return f"  {row.state}, {len(busy)} of {len(mirror.nodes)} nodes busy, {passed}, {money_text(row.spend_nano)}"

    def end(self) -> None:
        self._lines = 0

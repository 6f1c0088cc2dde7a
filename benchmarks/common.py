"""What all benchmarks share: how a figure is printed, medians, the CPU of a process, waiting for quiet.

What belongs here: measuring and printing.  What may not: farms, brokers and limit loops (``bench_farm``,
``limit_loop``).

A figure is one line: ``name value unit``, then, after ``|``, what it is to be read beside (a limit measured
in the same run, a ratio, a verdict).  Absolute figures do not carry from machine to machine or from hour to
hour; ratios of two figures of one run do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Report:
    """Prints figures as they come and keeps them for ``--json``."""

    def __init__(self, json_path: str | None = None) -> None:
        self._json_path = json_path
        self.figures: dict[str, dict[str, Any]] = {}

    def emit(self, name: str, value: float | int | str, unit: str, *beside: str) -> None:
        """One figure: ``name value unit``, and what to read it beside."""
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        print(" | ".join([f"{name} {shown} {unit}", *beside]), flush=True)
        self.figures[name] = {"value": value, "unit": unit, "beside": list(beside)}

    def close(self) -> None:
        """Writes the JSON file, if one was asked for."""
        if self._json_path:
            Path(self._json_path).write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")


def base_parser(text: str | None) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file too")
    parser.add_argument(
        "--quiet-s", type=float, default=3.0, help="longest wait for a quiet machine, seconds"
    )
    return parser


def describe_machine(report: Report, folder: Path | None = None) -> None:
    """What the figures were measured on: none of them means anything without it."""
    report.emit("machine.cpus", os.cpu_count() or 0, "cpus")
    report.emit(
        "machine.load", os.getloadavg()[0], "load", "one-minute average: how much company this run had"
    )
    report.emit("machine.loop", calibrate(), "Mops/s", "a fixed Python loop; compare runs by it")
    report.emit("machine.python", platform.python_version(), "version", f"SQLite {sqlite3.sqlite_version}")
    if folder is not None:
        kind = file_system(folder)
        note = "fsync means nothing here: use --dir on a disk" if kind in ("tmpfs", "ramfs") else ""
        report.emit("machine.disk", kind, "file-system", *([note] if note else []))


def calibrate() -> float:
    """Speed of a fixed pure-Python loop, million steps a second."""
    started_s = time.perf_counter()
    total = 0
    for number in range(2_000_000):
        total += number & 7
    return 2.0 / (time.perf_counter() - started_s)


def file_system(folder: Path) -> str:
    """Type of the file system a folder is on, as the mount table says."""
    best, kind = "", "unknown"
    path = str(folder.resolve())
    with Path("/proc/mounts").open(encoding="utf-8") as mounts:
        for line in mounts:
            _, point, found, *_ = line.split()
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, found
    return kind


# ---------------------------------------------------------------- statistics


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return float(statistics.median(values))


def spread(values: Sequence[float]) -> str:
    """The range of values, in words."""
    return f"range {min(values):.4g}-{max(values):.4g} of {len(values)}"


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which ``part`` (0-1) of the values lie; ``values`` need not be sorted."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def verdict(ratio: float, bar: float, name: str, *, more_is_better: bool = True) -> str:
    """Whether a ratio meets a bar, in words."""
    met = ratio >= bar if more_is_better else ratio <= bar
    sign = ">=" if more_is_better else "<="
    return f"{name} {sign} {bar:.4g}x: {'met' if met else 'MISSED'}"


# ---------------------------------------------------------------- processes


def cpu_by_thread_us(pid: int) -> dict[int, float]:
    """CPU time of each thread of a process in microseconds, from its scheduler statistics.

    Falls back to the 10 ms steps of ``stat`` where the kernel keeps no such statistics.
    """
    found: dict[int, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1000
        except (OSError, ValueError, IndexError):
            try:
                fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # ended meanwhile
            found[int(task.name)] = (int(fields[11]) + int(fields[12])) * TICK_S * 1e6
    return found


def cpu_us(pid: int) -> float:
    """CPU time of a whole process in microseconds, threads that ended included (10 ms steps)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S * 1e6


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident and proportional set size of a process in MiB."""
    sizes = {"Rss": 0.0, "Pss": 0.0}
    with Path(f"/proc/{pid}/smaps_rollup").open(encoding="utf-8") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) / 1024
    return sizes["Rss"], sizes["Pss"]


def _idle_share(seconds: float) -> float:
    def read() -> tuple[int, int]:
        with Path("/proc/stat").open(encoding="utf-8") as file:
            values = [int(text) for text in file.readline().split()[1:9]]
        return values[3] + values[4], sum(values)

    idle, total = read()
    time.sleep(seconds)
    idle_now, total_now = read()
    return (idle_now - idle) / max(1, total_now - total)


def quiet_rounds(rounds: int, quiet_s: float) -> Iterator[int]:
    """Numbers of the rounds; before each, waits for a moment when others leave the machine alone.

    Others may never do: after ``quiet_s`` the round starts anyway, and its ratio still counts.
    """
    for number in range(rounds):
        give_up_s = time.monotonic() + quiet_s
        while time.monotonic() < give_up_s and _idle_share(0.1) < 0.8:
            pass
        yield number


def cap_words(value: float, must: float, goal: float) -> tuple[str, str]:
    """Whether an absolute figure stays under its two caps, in words."""
    return (
        f"must <= {must:g}: {'met' if value <= must else 'MISSED'}",
        f"goal <= {goal:g}: {'met' if value <= goal else 'MISSED'}",
    )


def fail(message: str) -> NoReturn:
    """Ends the benchmark: its figures would be worth nothing."""
    print(f"FAILED: {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)

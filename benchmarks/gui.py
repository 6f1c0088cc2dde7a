"""The desktop client: opening, lists, frame grids and logs of a large farm, beside a QTreeWidget.

python benchmarks/gui.py
python benchmarks/gui.py --quick --only list
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench_farm import NAME, BenchFarm, job_file
from common import Report, base_parser, describe_machine, fail, median, percentile, quiet_rounds, spread
from gui_feed import log_blocks

HERE = Path(__file__).parent
#: Longest part.
PATIENCE_S = 1800.0
#: Budgets of the client; see README.md.
START_S, OPEN_MS, PAINT_MS, FILTER_MS, SORT_MS = 1.5, 200.0, 20.0, 50.0, 60.0
GAP_P99_MS, GAP_MAX_MS, FPS, MEMORY_MIB, IDLE_PERCENT, LOG_MS = 16.0, 100.0, 50.0, 600.0, 2.0, 150.0
#: How many times faster than a QTreeWidget 10,000 changed rows must be, and are hoped to be.
TREE_MUST, TREE_GOAL = 15.0, 50.0


class Sizes:
    """How large everything is.

    Attributes:
        start_jobs: Jobs of the real farm.
        frames: Frames of the two sizes of large jobs.
        lists: Lengths of the lists.
        streams: Rows changed a second.
        log: Bytes of the log.
    """

    def __init__(self, quick: bool) -> None:
        self.start_jobs = 300 if quick else 10_000
        self.frames = {"100k": 2_000, "1m": 5_000} if quick else {"100k": 100_000, "1m": 1_000_000}
        self.lists = (500,) if quick else (50_000, 100_000)
        self.big = (2_000,) if quick else (500_000, 300_000, 100_000, 100_000)
        self.streams = (1_000,) if quick else (20_000, 50_000)
        self.stream_s = 1.0 if quick else 20.0
        self.idle_s = 1.0 if quick else 15.0
        self.rounds = 2 if quick else 20
        self.starts = 1 if quick else 5
        self.log = 3_000_000 if quick else 1_000_000_000


def part(name: str, **order: Any) -> dict[str, Any]:
    """Runs a part in a process of its own; its figures.

    With compiled code, as an installed client has it, also where Python was told to write none here.
    """
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(HERE.parent)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, str(HERE / "gui_window.py"), name, json.dumps(order)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        fail(f"the part {name!r} ended with code {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def cap(value: float, limit: float, unit: str, kind: str = "must") -> str:
    """Whether a figure stays under its budget, in words."""
    return f"{kind} <= {limit:g} {unit}: {'met' if value <= limit else 'MISSED'}"


def least(value: float, limit: float, unit: str, kind: str = "must") -> str:
    """Whether a figure reaches its budget, in words."""
    return f"{kind} >= {limit:g} {unit}: {'met' if value >= limit else 'MISSED'}"


def p95(values: list[float]) -> float:
    """The value that one in twenty is above."""
    return percentile(values, 0.95)


# ---------------------------------------------------------------- with a real broker


def real(report: Report, sizes: Sizes, quiet_s: float) -> None:
    """Starting and opening, with a real farm."""
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-") as folder, BenchFarm(Path(folder), 0) as farm:
        farm.start()
        pairs: dict[str, tuple[int, int]] = {}
        with farm.connect() as client:
            for name, frames in sizes.frames.items():
                one, other = (client.submit(job_file(f"{name} {n}", frames)).job for n in range(2))
                pairs[name] = (one, other)
            for number in range(sizes.start_jobs - 2 * len(pairs)):
                client.submit(job_file(f"sh{number:05d}_lgt_v001", 100))
        start(report, sizes, quiet_s)
        found = part("open", farm=NAME, pairs=pairs, units=sizes.frames, rounds=sizes.rounds)
        for name in sizes.frames:
            times_ms, paints_ms = found[name]["times_ms"], found[name]["paints_ms"]
            report.emit(
                f"gui.open_{name}",
                p95(times_ms),
                "ms",
                f"p95 of {len(times_ms)} from choosing it to grid and table drawn",
                f"median {median(times_ms):.3g}",
                cap(p95(times_ms), OPEN_MS, "ms"),
            )
            report.emit(f"gui.paint_{name}", p95(paints_ms), "ms", cap(p95(paints_ms), PAINT_MS, "ms"))


def start(report: Report, sizes: Sizes, quiet_s: float) -> None:
    """From starting the process to the first drawn rows, and beside it what its libraries alone take."""
    first_s, all_s, bare_s = [], [], []
    part("bare")
    part("start", farm=NAME, jobs=sizes.start_jobs)  # compiles and reads what is on disk
    for _ in quiet_rounds(sizes.starts, quiet_s):
        begun_s = time.monotonic()
        bare_s.append(part("bare")["first_s"] - begun_s)
        begun_s = time.monotonic()
        found = part("start", farm=NAME, jobs=sizes.start_jobs)
        first_s.append(found["first_s"] - begun_s)
        all_s.append(found["all_s"] - begun_s)
    ratio = median([ours / limit for ours, limit in zip(first_s, bare_s, strict=True)])
    report.emit("gui.start_bare", median(bare_s), "s", "Qt, numpy, zmq, msgspec and an empty window")
    report.emit(
        "gui.start",
        median(first_s),
        "s",
        f"to the first rows drawn, {sizes.start_jobs} jobs",
        f"ratio {ratio:.3g}x",
        spread(first_s),
        cap(median(first_s), START_S, "s"),
    )
    report.emit("gui.start_all", median(all_s), "s", "to all rows in the list", spread(all_s))


# ---------------------------------------------------------------- with a made-up farm


def lists(report: Report, sizes: Sizes) -> None:
    """Lists of several lengths; the first is changed and scrolled, and read beside a tree of as many rows."""
    for place, jobs in enumerate(sizes.lists):
        opened = not place
        found = part(
            "list",
            jobs=jobs,
            frames=sizes.big,
            opened=opened,
            streams=sizes.streams if opened else (),
            stream_s=sizes.stream_s,
            idle_s=sizes.idle_s if opened else 0.1,
        )
        name = f"{jobs // 1000}k" if jobs >= 1000 else str(jobs)
        _typing(report, name, found)
        if opened:
            _load(report, sizes, found)
            _beside_tree(report, jobs, name, found)


def _typing(report: Report, name: str, found: dict[str, Any]) -> None:
    filters, sorts, first = found["filter_ms"], found["sort_ms"], found["first_sort_ms"]
    report.emit(
        f"gui.filter_{name}",
        p95(filters),
        "ms",
        f"p95 of {len(filters)} keystrokes, drawn",
        f"median {median(filters):.3g}",
        cap(p95(filters), FILTER_MS, "ms"),
    )
    report.emit(
        f"gui.sort_{name}",
        p95(sorts),
        "ms",
        f"p95 of {len(sorts)}, drawn",
        f"median {median(sorts):.3g}",
        f"first time by a column {max(first):.3g} at most",
        cap(p95(sorts), SORT_MS, "ms"),
    )


def _load(report: Report, sizes: Sizes, found: dict[str, Any]) -> None:
    for rows_s, seen in found["streams"].items():
        name = f"{int(rows_s) // 1000}k"
        first = int(rows_s) == sizes.streams[0]
        kind = "must" if first else "goal"
        report.emit(f"gui.stream_{name}.rows", seen["rows_s"], "rows/s", "taken while somebody scrolls")
        report.emit(
            f"gui.stream_{name}.gap_p50", seen["p50"], "ms", "a timer of 1 ms that looks at the clock"
        )
        report.emit(f"gui.stream_{name}.gap_p99", seen["p99"], "ms", cap(seen["p99"], GAP_P99_MS, "ms", kind))
        report.emit(f"gui.stream_{name}.gap_max", seen["max"], "ms", cap(seen["max"], GAP_MAX_MS, "ms", kind))
        report.emit(
            f"gui.stream_{name}.fps",
            seen["fps"],
            "drawings/s",
            "62.5 are asked for",
            least(seen["fps"], FPS, "a second", kind),
        )
    report.emit(
        "gui.resize_fps", found["resize_fps"], "drawings/s", least(found["resize_fps"], FPS, "a second")
    )
    report.emit(
        "gui.memory",
        found["opened_mib"],
        "MiB",
        f"resident, {sum(sizes.big):,} frames opened one after another",
        f"list alone {found['list_mib']:.4g}",
        f"after the streams {found['peak_mib']:.4g}",
        f"libraries {found['base_mib']:.4g}",
        cap(found["opened_mib"], MEMORY_MIB, "MiB"),
    )
    report.emit(
        "gui.idle_cpu",
        found["idle_percent"],
        "%",
        f"of a core over {sizes.idle_s:g} s",
        cap(found["idle_percent"], IDLE_PERCENT, "%"),
    )


def _beside_tree(report: Report, jobs: int, name: str, found: dict[str, Any]) -> None:
    tree = part("tree", jobs=jobs)
    ours = {
        "fill": (found["fill_s"] * 1e3, tree["fill_s"] * 1e3, "from nothing to all rows, decoded, drawn"),
        "change": (
            median(found["change_ms"]),
            median(tree["change_ms"]),
            "10,000 changed rows in the list, drawn",
        ),
        "filter": (median(found["filter_ms"]), median(tree["filter_ms"]), "a filter, drawn"),
        "sort": (median(found["sort_ms"]), median(tree["sort_ms"]), "a sort, drawn"),
    }
    for word, (mine, other, what) in ours.items():
        times = other / mine
        words = [what, f"QTreeWidget {other:.4g}", f"ratio {times:.3g}x"]
        if word == "change":
            words += [least(times, TREE_MUST, "x"), least(times, TREE_GOAL, "x", "goal")]
            words.insert(1, f"taking them into the store before that {median(found['store_ms']):.4g}")
        report.emit(f"gui.tree_{name}.{word}", mine, "ms", *words)
    rows_mib = found["list_mib"] - found["base_mib"]
    report.emit(
        f"gui.tree_{name}.memory",
        rows_mib,
        "MiB",
        "the client with its list, over its libraries",
        f"QTreeWidget {tree['mib']:.4g} for 8 columns of text alone",
    )


def logs(report: Report, sizes: Sizes) -> None:
    """A large log."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 3 * sizes.log:
        report.emit("gui.log", "skipped", "word", f"3 times {sizes.log / 1e9:g} GB are not free on this disk")
        return
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-") as folder:
        path = Path(folder) / "attempt.log"
        with path.open("wb") as file:
            for block in log_blocks(sizes.log):
                file.write(block)
        found = part("log", path=str(path), rounds=sizes.rounds // 2)
        mb = path.stat().st_size / 1e6
    first_ms = found["first_ms"]
    report.emit(
        "gui.log_first",
        p95(first_ms),
        "ms",
        f"p95 of {len(first_ms)}, first lines of {mb:.4g} MB drawn",
        f"median {median(first_ms):.3g}",
        cap(p95(first_ms), LOG_MS, "ms"),
    )
    report.emit("gui.log_fetch", mb / found["fetch_s"], "MB/s", "fetched whole", _gaps(found["fetch_gaps"]))
    report.emit(
        "gui.log_regex",
        mb / found["find_s"],
        "MB/s",
        f"every hit of an expression: {found['hits']}",
        _gaps(found["find_gaps"]),
    )


def _gaps(seen: dict[str, float]) -> str:
    return f"the window's gaps meanwhile: p99 {seen['p99']:.3g} ms, max {seen['max']:.3g} ms"


# ---------------------------------------------------------------- all of it


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="small sizes: does it all run here?")
    parser.add_argument("--only", action="append", choices=("real", "list", "log"), help="these parts only")
    arguments = parser.parse_args()
    if find_spec("PySide6") is None:
        fail("the client needs PySide6: pip install 'overcrank[gui]'")
    report = Report(arguments.json)
    describe_machine(report, Path(tempfile.gettempdir()))
    sizes = Sizes(arguments.quick)
    parts: dict[str, Callable[[], None]] = {
        "real": lambda: real(report, sizes, arguments.quiet_s),
        "list": lambda: lists(report, sizes),
        "log": lambda: logs(report, sizes),
    }
    for name, run in parts.items():
        if not arguments.only or name in arguments.only:
            run()
    report.close()


if __name__ == "__main__":
    main()

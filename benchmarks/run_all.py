"""Runs every benchmark and prints one table: what must hold, what is aimed at, what was measured.

Each script runs as a process of its own, since one must not warm another's caches; its lines go to the
standard error stream as they come, the table to standard output at the end.  Exit code 1 when a must is
missed or a script fails.

    python benchmarks/run_all.py                     # everything, about a quarter of an hour
    python benchmarks/run_all.py --quick             # small sizes: does it all run?
    python benchmarks/run_all.py dispatch scale      # these only
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Script(NamedTuple):
    """A benchmark and the flags that make it small."""

    name: str
    quick: tuple[str, ...]
    flags: tuple[str, ...] = ()
    file: str = ""


#: In the order of the table in README.md.
SCRIPTS = (
    Script("dispatch", ("--rounds", "1", "--tasks", "2000", "--submits", "20")),
    Script(
        "scale",
        ("--rounds", "1", "--tasks", "1000", "--agents", "100,500", "--storm", "200"),
    ),
    Script("recovery", ("--rounds", "1", "--frames", "100000")),
    Script("memory", ("--frames", "100000", "--ran", "20000", "--agents", "100")),
    Script("startup", ()),
    Script("agent", ("--rounds", "1")),
    Script("latency", ("--rounds", "1")),
    Script("makespan", ("--nodes", "50", "--jobs", "20")),
    Script("gui", ("--quick",)),
)

#: ``must >= 0.5x: met``, ``goal <= 4: MISSED`` after a figure.
_BAR = re.compile(r"(floor|must|goal) (>=|<=) ([^:]+): (met|MISSED)")
#: ``must <= 1.05, goal 1.03``: the same without the verdicts.
_CAPS = re.compile(r"must <= ([0-9.]+), goal ([0-9.]+)")


class Line(NamedTuple):
    """A figure that has a bar."""

    name: str
    measured: str
    must: str
    goal: str
    must_met: bool | None
    goal_met: bool | None


def lines_of(figures: dict[str, dict[str, Any]]) -> list[Line]:
    """The figures of one script that have a must or a goal."""
    found = []
    for name, figure in figures.items():
        bars: dict[str, tuple[str, bool]] = {}
        beside = [str(words) for words in figure["beside"]]
        for words in beside:
            for kind, sign, bar, verdict in _BAR.findall(words):
                bars[kind] = (f"{sign} {bar.strip()}", verdict == "met")
            caps = _CAPS.search(words)
            if caps is not None:
                for kind, cap in zip(("must", "goal"), caps.groups(), strict=True):
                    bars[kind] = (f"<= {cap}", figure["value"] <= float(cap))
        if "must" not in bars and "goal" not in bars:
            continue
        value = figure["value"]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        unit = figure["unit"]
        ratio = next((words for words in beside if words.startswith("ratio ")), "")
        measured = f"{shown} {unit}" + (f" ({ratio})" if ratio else "")
        must, goal = bars.get("must"), bars.get("goal")
        found.append(
            Line(
                name,
                measured,
                must[0] if must else "-",
                goal[0] if goal else "-",
                must[1] if must else None,
                goal[1] if goal else None,
            )
        )
    return found


def run(script: Script, arguments: argparse.Namespace, folder: Path) -> tuple[list[Line], int]:
    """Runs one script; its lines of the table, and its exit code."""
    result = folder / f"{script.name}.json"
    flags = [*script.flags, *(script.quick if arguments.quick else ())]
    path = HERE / (script.file or f"{script.name}.py")
    if arguments.dir and "--dir" in path.read_text(encoding="utf-8"):
        flags += ["--dir", arguments.dir]
    print(f"== {script.name}", file=sys.stderr, flush=True)
    command = [sys.executable, str(path), "--json", str(result), "--quiet-s", str(arguments.quiet_s), *flags]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    figures = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    return lines_of(figures), done.returncode


def table(lines: list[Line]) -> str:
    """The summary, as text in columns."""
    marks = {True: "PASS", False: "FAIL", None: "-"}
    rows = [("figure", "must", "goal", "measured", "must met", "goal met")]
    rows += [
        (line.name, line.must, line.goal, line.measured, marks[line.must_met], marks[line.goal_met])
        for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    texts.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text.rstrip() for text in texts)


def main() -> None:
    """Runs them and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [script.name for script in SCRIPTS]
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"these only: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures mean little")
    parser.add_argument(
        "--quiet-s", type=float, default=3.0, help="longest wait for a quiet machine, seconds"
    )
    parser.add_argument("--dir", help="where databases are written; a real disk")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only if name not in known]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: {', '.join(known)}")
    lines: list[Line] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for script in SCRIPTS:
            if arguments.only and script.name not in arguments.only:
                continue
            if not (HERE / (script.file or f"{script.name}.py")).exists():
                print(f"== {script.name}: not there, left out", file=sys.stderr)
                continue
            found, code = run(script, arguments, Path(folder))
            lines += found
            if not found:
                failed.append(f"{script.name} (exit code {code})")
    print(table(lines))
    missed = [line.name for line in lines if line.must_met is False]
    print(f"\n{sum(line.must_met is True for line in lines)} musts met, {len(missed)} missed")
    if failed:
        print("no figures from: " + ", ".join(failed))
    sys.exit(bool(missed or failed))


if __name__ == "__main__":
    main()

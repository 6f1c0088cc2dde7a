"""What a command costs before it does anything: the product's beside the imports it cannot do without.

python benchmarks/startup.py
python benchmarks/startup.py --rounds 15
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_farm import NAME, BenchFarm, job_file
from common import Report, base_parser, describe_machine, median, quiet_rounds, spread, verdict

_PYTHON = sys.executable
_FARM = (_PYTHON, "-m", "farm", "--farm", NAME)
#: The lines to read the product's commands beside.
LIMITS = {
    "bin_true": ("/bin/true",),
    "python": (_PYTHON, "-c", "pass"),
    "python_argparse": (_PYTHON, "-c", "import argparse"),
    "python_zmq": (_PYTHON, "-c", "import zmq"),
    "python_zmq_msgspec_argparse": (_PYTHON, "-c", "import zmq, msgspec, argparse"),
}
#: Our commands, and which line each is read beside.
OURS = {
    "farm_help": ((*_FARM, "--help"), "python_argparse"),
    "farm_jobs": ((*_FARM, "jobs"), "python_zmq_msgspec_argparse"),
    "farm_status": ((*_FARM, "status"), "python_zmq_msgspec_argparse"),
}
#: Bar of the commands that talk to a broker, over python_zmq_msgspec_argparse and over python_zmq.
MUST = GOAL = 1.3


def once_ms(command: tuple[str, ...]) -> float:
    """Milliseconds of one run of a command, from outside."""
    started_s = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started_s) * 1e3


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=11, help="runs of each command, in turn")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    describe_machine(report)
    # A shell that sets these would measure compiling, or measuring.
    for name in ("PYTHONPROFILEIMPORTTIME", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    commands = {**LIMITS, **{name: command for name, (command, _) in OURS.items()}}
    times_ms: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-") as folder, BenchFarm(Path(folder), 0) as farm:
        farm.start()
        with farm.connect() as client:
            for number in range(20):
                client.submit(job_file(f"bench {number}", 100))
        for command in commands.values():
            once_ms(command)  # compiles and reads what is on disk
        for _ in quiet_rounds(arguments.rounds, arguments.quiet_s):
            for name, command in commands.items():
                times_ms[name].append(once_ms(command))
    for name in LIMITS:
        report.emit(f"startup.{name}", median(times_ms[name]), "ms", spread(times_ms[name]))
    for name, (_, beside) in OURS.items():
        over = median([a / b for a, b in zip(times_ms[name], times_ms[beside], strict=True)])
        words = [f"{beside} {median(times_ms[beside]):.3g}", f"ratio {over:.3g}x"]
        if beside == "python_zmq_msgspec_argparse":
            over_zmq = median([a / b for a, b in zip(times_ms[name], times_ms["python_zmq"], strict=True)])
            words.append(verdict(over, MUST, "must", more_is_better=False))
            words.append(f"{over_zmq:.3g}x python_zmq")
            words.append(verdict(over_zmq, GOAL, "goal", more_is_better=False))
        report.emit(f"startup.{name}", median(times_ms[name]), "ms", *words)
    report.close()


if __name__ == "__main__":
    main()

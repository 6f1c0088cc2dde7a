"""Breaks one rule of the core at a time in a copy of the sources, and sees the tests notice each.

A check that cannot fail proves nothing.  For every rule here the driver of ``tests.long core`` runs over the
broken copy, and where a rule has unit tests of its own, these; it counts as guarded when any of them fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("farm", "node_agent", "tests", "docs")


class Rule(NamedTuple):
    """A rule and how to break it: ``old`` becomes ``new`` in ``file``; ``unit`` are tests of its own."""

    name: str
    file: str
    old: str
    new: str
    unit: str = ""


RULES = (
    Rule(
        "a report counts only with its lease's nonce",
        "farm/core/results.py",
        "attempt.nonce != event.nonce or ",
        "",
    ),
    Rule(
        "a killed frame is leased again only when its attempt is confirmed stopped",
        "farm/core/apply_moves.py",
        "step.parked[unit] = 0",
        "pass",
    ),
    Rule(
        "what is to be made anew is not adopted of a lost attempt",
        "farm/core/apply_moves.py",
        "if farm.lost and row.old != BLOCKED:",
        "if False:",
        "tests/unit/core/test_core_requeue.py",
    ),
    Rule(
        "higher priority goes first",
        "farm/core/order.py",
        "for negative in self._negative:",
        "for negative in reversed(self._negative):",
    ),
    Rule(
        "what is to run next goes first",
        "farm/core/order.py",
        "ticket = (job.rank, job.id,",
        "ticket = (0, job.id,",
    ),
    Rule(
        "use is charged, so that shares even out",
        "farm/core/shares.py",
        "account.level += (weighed - account.credit) // account.weight",
        "account.level += 0",
    ),
    Rule(
        "a limit's tokens are held",
        "farm/core/shares.py",
        "        limit.used += count\n        return",
        "        return",
        "tests/unit/core/test_core_order.py",
    ),
    Rule(
        "what waits for a step waits until all of it is done or skipped",
        "farm/core/needs.py",
        "return counts[DONE] + counts[SKIPPED] + self.need.left_out == self.need.units",
        "return counts[DONE] > 0",
    ),
    Rule(
        "a second copy publishes only when the first attempt has stopped",
        "farm/core/specs.py",
        "        stop_first(step, event.unit, out)\n        return\n",
        "        stop_first(step, event.unit, out)\n",
    ),
    Rule(
        "a reserved node takes only what ends in time",
        "farm/core/reserve.py",
        "    return left if left > 0 else -1",
        "    return 0",
        "tests/unit/core/test_core_reserve.py",
    ),
    Rule(
        "a retry goes to another node while there is one",
        "farm/core/match.py",
        "        if node.id not in note.failed_on:\n            return False\n",
        "        return False\n",
    ),
    Rule(
        "three failures are the end of a frame",
        "farm/core/results.py",
        "return FAILED if tries >= limit else QUEUED",
        "return FAILED if tries > limit else QUEUED",
        "tests/unit/core/test_core_failures.py",
    ),
    Rule(
        "lost attempts are charged to their last heartbeat",
        "farm/core/nodes.py",
        "meter.stop(node, node.seen_us)",
        "meter.stop(node, now_us)",
    ),
    Rule(
        "a restart brings the accounts back",
        "farm/core/shares.py",
        "account.level, account.credit = int(level), int(credit)",
        "account.level = int(level)",
    ),
    Rule(
        "memory is never overbooked",
        "farm/core/match.py",
        "if need.ram_mib > node.ram_free:",
        "if False:",
    ),
    Rule(
        "scratch disk is never overbooked",
        "farm/core/match.py",
        "if need.disk_mib > node.disk_free:",
        "if False:",
    ),
    Rule(
        "a copy fits where it goes",
        "farm/core/tail.py",
        " or not has_memory(farm, step, unit, node)",
        " or False",
        "tests/unit/core/test_core_memory.py",
    ),
    Rule(
        "what ran out of memory is not overtaken for ever",
        "farm/core/place.py",
        "if (step.notes or step.node_failures or choosy) and is_kept_off(farm, step):",
        "if False:",
        "tests/unit/core/test_core_memory.py",
    ),
    Rule(
        "caps keep work back",
        "farm/core/shares.py",
        "if held and held + cores > most:",
        "if held and held > most + cores:",
        "tests/unit/core/test_core_order.py",
    ),
    Rule(
        "frames go in the order asked for",
        "farm/core/sequence.py",
        'if word == "reverse":',
        'if word == "backwards":',
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long rules``."""
    parser.add_argument(
        "--events", type=int, default=12_000, help="events a broken core is given (default 12000)"
    )
    parser.add_argument("--only", default="", help="only rules whose name holds this")


def run(args: argparse.Namespace) -> int:
    """Breaks each rule; returns 1 when a broken one went unnoticed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="overcrank-rules-") as folder:
        copy = Path(folder) / "copy"
        copy.mkdir()
        for name in FOLDERS:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        sound = _noticed(copy, Rule("none", "", "", ""), args.events)
        if sound:
            print(f"the sources as they are break a promise already: {sound}")
            return 1
        for rule in RULES:
            if args.only and args.only not in rule.name:
                continue
            path = copy / rule.file
            text = path.read_text(encoding="utf-8")
            if rule.old not in text:
                print(f"STALE    {rule.name}: {rule.file} no longer says {rule.old!r}")
                unnoticed += 1
                continue
            path.write_text(text.replace(rule.old, rule.new), encoding="utf-8")
            noticed = _noticed(copy, rule, args.events)
            path.write_text(text, encoding="utf-8")
            print(
                f"{'noticed ' if noticed else 'UNNOTICED'} {rule.name}" + (f": {noticed}" if noticed else ""),
                flush=True,
            )
            unnoticed += not noticed
    print("ok" if not unnoticed else f"{unnoticed} rules are not guarded")
    return int(bool(unnoticed))


def _noticed(copy: Path, rule: Rule, events: int) -> str:
    """How the broken rule was noticed, in words; "" = it was not."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    if rule.unit:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", rule.unit]
        ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
        if ran.returncode == 1 and failed:
            return failed[0].removeprefix("FAILED ").partition(" - ")[0]
    command = [sys.executable, "-m", "tests.long", "core", "--events", str(events), "--farm", "400"]
    command += ["--check-every", "1", "--seed", "1"]
    ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    broken = [line for line in ran.stdout.splitlines() if line.startswith("VIOLATION")]
    return broken[0].partition(": ")[2][:110] if broken else ""

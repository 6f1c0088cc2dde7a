"""The core under a long random history: prints events a second, and ``ok`` or the broken promise."""

from __future__ import annotations

import argparse
import random
import time

from farm.core import invariants
from tests.support.core_driver import Driver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long core``."""
    parser.add_argument("--events", type=int, default=20_000, help="events to handle (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random (default 1)")
    parser.add_argument(
        "--farm", type=int, default=1500, help="events until a fresh farm starts (default 1500)"
    )


def run(args: argparse.Namespace) -> int:
    """Runs farms one after another until enough events were handled; returns an exit code."""
    started, handled, farms, seed = time.perf_counter(), 0, 0, args.seed
    seen: dict[str, int] = {}
    while handled < args.events:
        rng = random.Random(seed)
        driver = Driver(rng, agents=3 + seed % 3)
        try:
            while driver.handled < args.farm:
                driver.step(rng)
            driver.finish(rng)
            if farms % 10 == 0 and driver.replay() != invariants.digest(driver.core.farm):
                raise AssertionError("the same events gave another state")
        except Exception as error:
            for line in driver.last:
                print(line)
            print(f"VIOLATION seed={seed} event={driver.handled}: {type(error).__name__}: {error}")
            if not isinstance(error, AssertionError):
                raise
            return 1
        handled += driver.handled
        farms += 1
        seed += 1
        for what, count in driver.truth.seen.items():
            seen[what] = seen.get(what, 0) + count
    wall_s = time.perf_counter() - started
    print("seen: " + ", ".join(f"{what} {count}" for what, count in sorted(seen.items())))
    print(f"{handled} events, {farms} farms, {handled / wall_s:.0f} events/s")
    print("ok")
    return 0

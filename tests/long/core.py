"""The core under long random histories, judged after every event: prints events a second, and what broke.

Farms are independent of each other, so they are spread over processes; each farm's seed follows from the
first one's, and a broken farm prints the command that repeats it alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections import Counter
from typing import NamedTuple

from farm.core import invariants
from tests.support.core_driver import Driver

#: Farms handed to a process at once.
BATCH = 4


class Ran(NamedTuple):
    """What became of one farm."""

    seed: int
    events: int
    seen: dict[str, int]
    broken: str
    last: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long core``."""
    parser.add_argument("--events", type=int, default=20_000, help="events to handle (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random (default 1)")
    parser.add_argument(
        "--farm", type=int, default=1500, help="events until a fresh farm starts (default 1500)"
    )
    parser.add_argument(
        "--check-every",
        type=int,
        default=20,
        help="events between two checks of the core's own invariants (default 20); the judge looks at all",
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )


def run(args: argparse.Namespace) -> int:
    """Runs farms until enough events were handled; returns an exit code."""
    started, handled, farms, said = time.perf_counter(), 0, 0, time.perf_counter()
    seen: Counter[str] = Counter()
    most = -(-args.events // args.farm)
    work = ((args.seed + number, args.farm, args.check_every, number % 10 == 0) for number in range(most))
    context = multiprocessing.get_context("spawn")
    with context.Pool(max(1, args.processes)) as pool:
        for ran in pool.imap(_one, work, chunksize=BATCH if most > 4 * args.processes else 1):
            if ran.broken:
                pool.terminate()
                print("\n".join(ran.last))
                print(f"VIOLATION seed={ran.seed} event={ran.events}: {ran.broken}")
                print(
                    f"again: python -m tests.long core --seed {ran.seed} --events {args.farm} --processes 1"
                )
                return 1
            handled += ran.events
            farms += 1
            seen.update(ran.seen)
            if time.perf_counter() - said > 30:
                said = time.perf_counter()
                print(
                    f"{handled} events, {farms} farms, {handled / (said - started):.0f} events/s", flush=True
                )
    wall_s = time.perf_counter() - started
    print("seen: " + ", ".join(f"{what} {count}" for what, count in sorted(seen.items())))
    print(f"{handled} events, {farms} farms, {handled / wall_s:.0f} events/s")
    print("ok")
    return 0


def _one(work: tuple[int, int, int, bool]) -> Ran:
    """One farm from its seed; also compares a replay of its events when asked to."""
    seed, events, check_every, again = work
    rng = random.Random(seed)
    driver = Driver(rng, agents=3 + seed % 3, keep_events=again, check_every=check_every)
    broken = ""
    try:
        while driver.handled < events:
            driver.step(rng)
        driver.finish(rng)
        invariants.check(driver.core.farm)
        if again and driver.replay() != invariants.digest(driver.core.farm):
            broken = "the same events gave another state"
    except Exception as error:  # whatever it is, the seed that brings it must be told
        broken = f"{type(error).__name__}: {error}"
    return Ran(
        seed,
        driver.handled,
        dict(driver.truth.seen),
        broken,
        tuple(str(one)[:300] for one in driver.last) if broken else (),
    )

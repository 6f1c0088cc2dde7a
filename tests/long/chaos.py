"""A farm in real processes under random faults: prints figures, and ``ok`` or what broke.

Broker and agents are killed, frozen, cut off and drained, commits are interrupted, and with PostgreSQL the
server crashes, while no-op frames are rendered.  What is broken when, and for how long, follows from the
seed; what a fault interrupts depends on the machine.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.chaos import HASTY, Chaos, ChaosHouse, Violation
from tests.support.chaos_judge import Verdict, check_database, judge
from tests.support.chaos_plan import plan_faults
from tests.support.chaos_work import Work
from tests.support.postgres import PostgresServer
from tests.support.renames import Renames

#: Violations printed at most.
_SHOWN = 20


class Run(NamedTuple):
    """What a run is made of.

    Attributes:
        frames, faults, agents: How many.
        seed: Of all choices.
        postgres: Whether the farm's database is a server.
        pause_s: How long each frame takes at least.
        waves: In how many parts the jobs are submitted.
        chatty: Print every fault.
    """

    frames: int
    faults: int
    agents: int
    seed: int
    postgres: bool = False
    pause_s: float = 0.02
    waves: int = 0
    chatty: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long chaos``."""
    parser.add_argument("--frames", type=int, default=20_000, help="frames to render (default 20000)")
    parser.add_argument("--faults", type=int, default=300, help="faults to bring (default 300)")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random (default 1)")
    parser.add_argument("--agents", type=int, default=4, help="agents, two slots each (default 4)")
    parser.add_argument("--folder", type=Path, default=None, help="an empty folder, kept; default: a new one")
    parser.add_argument("--quiet", action="store_true", help="do not print every fault")


def run(args: argparse.Namespace) -> int:
    """Runs it; returns an exit code.  After a violation its folder is kept and named."""
    folder = args.folder or Path(tempfile.mkdtemp(prefix="overcrank-chaos-"))
    plan = Run(
        args.frames, args.faults, args.agents, args.seed, args.database == "postgresql", chatty=not args.quiet
    )
    wrong = run_chaos(folder, plan)
    for one in wrong[:_SHOWN]:
        print(f"VIOLATION seed={args.seed} {one}")
    if len(wrong) > _SHOWN:
        print(f"... and {len(wrong) - _SHOWN} more")
    if wrong:
        print(f"everything is in {folder}")
        return 1
    if args.folder is None:
        shutil.rmtree(folder)
    print("ok")
    return 0


def run_chaos(folder: Path, plan: Run) -> list[str]:
    """One run in an empty folder; returns what is wrong, nothing = all is well, and prints figures."""
    begun_s = time.monotonic()
    server = PostgresServer() if plan.postgres else None
    chaos: Chaos | None = None
    verdict = Verdict()
    try:
        if server is not None:
            server.start()
        house = ChaosHouse(folder, server)
        work = Work(
            folder, plan.frames, plan.waves or max(1, plan.faults // 6), plan.pause_s, 1.75 * HASTY["lost_s"]
        )
        faults = plan_faults(
            plan.seed,
            plan.faults,
            plan.frames,
            plan.agents,
            lost_s=HASTY["lost_s"],
            server=plan.postgres,
        )

        def say(text: str) -> None:
            if plan.chatty:
                count = len(renames.seen)
                print(f"{time.monotonic() - begun_s:7.1f} s {count:6d} published  {text}", flush=True)

        with Renames() as renames:
            try:
                with house:
                    house.add_agents(plan.agents)
                    chaos = Chaos(house, work, renames, faults, say)
                    chaos.run()
                    say("all done")
                    verdict = judge(chaos)
            except (Violation, AssertionError) as error:
                verdict.wrong.append(str(error))
        if not verdict.wrong and (trouble := check_database(house)):
            verdict.wrong.append(trouble)
    finally:
        if server is not None:
            server.close()
    _print(plan, chaos, verdict, time.monotonic() - begun_s)
    return verdict.wrong


def _print(plan: Run, chaos: Chaos | None, verdict: Verdict, wall_s: float) -> None:
    if chaos is not None:
        words = sorted(chaos.counts.items())
        print("faults and hands: " + ", ".join(f"{word} {count}" for word, count in words))
    for word, count in verdict.figures.items():
        print(f"{word}: {count}")
    print(f"frames: {plan.frames}, faults: {plan.faults}, wall: {wall_s:.0f} s, {plan.frames / wall_s:.1f}/s")

"""The verbs that look at work: jobs, job, frames, attempts, history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli import shapes
from farm.cli.command import Command, add_watch, address_of, connect
from farm.cli.filtering import (
    add_filter,
    filtered_frames,
    filtered_jobs,
    read_filter,
    row_test,
    searched_note,
)
from farm.cli.text import NOTHING, duration_text, money_text, plural, time_text
from farm.model.errors import CallError
from farm.model.money import usd_text
from farm.model.states import UnitState, WorkState
from farm.protocol import client as wire

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from farm.cli.console import Console
    from farm.sdk.client import Farm
    from farm.sdk.mirror import Mirror

#: Job states in which nothing more happens by itself.
ENDED = frozenset({WorkState.DONE.value, WorkState.FAILED.value, WorkState.CANCELED.value})
_PAGE = 5000


# -- jobs --------------------------------------------------------------------------------------------


def _setup_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE", help="only jobs in this state"
    )
    parser.add_argument("--user", default="", help="only this user's jobs")
    add_filter(parser, "jobs", "mine state:failed,blocked age<2d -proxy")
    parser.add_argument("--archived", action="store_true", help="archived jobs, too")
    parser.add_argument("--limit", type=int, default=50, help="at most so many, newest first (default 50)")
    parser.add_argument("--before", default="", metavar="JOB", help="only jobs older than this one, to page")
    add_watch(parser)


def _jobs(arguments: argparse.Namespace, console: Console) -> int:
    states = _states(arguments.state, [state.value for state in WorkState])
    if not 1 <= arguments.limit <= 1000:
        raise CallError(f"--limit: {arguments.limit} is not between 1 and 1000")
    before = address_of(arguments.before, whole_job=True).job if arguments.before else 0
    query = read_filter(arguments.filter, "jobs", console) if arguments.filter else None
    # Who asks for what is in the archive means it.
    archived = arguments.archived or (query is not None and "archived" in query.fields())
    searched = None
    with connect(arguments) as farm:
        if arguments.watch:
            from farm.cli.watch import watch

            def chosen(mirror: Mirror) -> list[wire.JobRow]:
                fits = row_test(query, farm) if query is not None else None
                rows = [
                    row
                    for row in mirror.jobs.values()
                    if (not states or row.state in states)
                    and (not arguments.user or row.user == arguments.user)
                    and (archived or not row.archived)
                    and (not before or row.job < before)
                    and (fits is None or fits(row))
                ]
                return sorted(rows, key=lambda row: -row.job)[: arguments.limit]

            watch(
                console,
                farm,
                ("jobs",),
                lambda mirror: _show_jobs(console, chosen(mirror)),
                lambda mirror: {"jobs": [shapes.job_shape(row) for row in chosen(mirror)], "more": False},
            )
            return 0
        rows: Sequence[wire.JobRow]
        if query is not None:
            rows, more, searched = filtered_jobs(
                farm,
                query,
                states=states,
                user=arguments.user,
                archived=archived,
                before=before,
                limit=arguments.limit,
            )
        else:
            reply = farm.jobs(
                states, user=arguments.user, archived=archived, before=before, limit=arguments.limit
            )
            rows, more = reply.jobs, reply.more
    if console.json:
        document = {"jobs": [shapes.job_shape(row) for row in rows], "more": more}
        console.document(document if searched is None else document | {"searched": searched})
        return 0
    _show_jobs(console, rows)
    if more:
        console.note(f"there are more: `farm jobs --before J{rows[-1].job}`")
    elif searched is not None:
        console.note(searched_note(len(rows), searched, archived=archived))
    return 0


def _show_jobs(console: Console, rows: Iterable[wire.JobRow]) -> None:
    rows = list(rows)
    if not rows:
        console.line("no jobs")
        return
    console.table(
        (
            "JOB",
            "STATE",
            "DONE>",
            "FAILED>",
            "PRIO>",
            "USER~",
            "PROJECT~",
            "NAME~",
            "SUBMITTED",
            "USD>",
            "REASON~",
        ),
        [
            (
                f"J{row.job}",
                row.state,
                f"{row.done}/{row.units}",
                str(row.failed or NOTHING),
                str(row.priority),
                row.user or NOTHING,
                row.project or NOTHING,
                row.name,
                time_text(row.submitted_us),
                usd_text(row.spend_nano),
                row.reason,
            )
            for row in rows
        ],
    )


def _states(given: list[str], known: list[str]) -> tuple[str, ...]:
    words = [word for text in given for word in text.split(",") if word]
    for word in words:
        if word not in known:
            raise CallError(f"--state: there is no state {word!r}", hint="there are " + ", ".join(known))
    return tuple(words)


# -- job ---------------------------------------------------------------------------------------------


def _setup_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="address of a job, e.g. J12")
    parser.add_argument("--spec", action="store_true", help="print its job file instead")
    add_watch(parser)


def _job(arguments: argparse.Namespace, console: Console) -> int:
    number = address_of(arguments.job, whole_job=True).job
    with connect(arguments) as farm:
        if arguments.watch:
            from farm.cli.watch import watch

            watch(
                console,
                farm,
                (f"job:{number}",),
                lambda mirror: show_job(console, mirror.jobs[number]) if number in mirror.jobs else None,
                lambda mirror: shapes.job_shape(mirror.jobs[number]) if number in mirror.jobs else None,
                ended=lambda mirror: number not in mirror.jobs or mirror.jobs[number].state in ENDED,
            )
            return 0
        reply = farm.job(number, spec=arguments.spec)
    if arguments.spec:
        import json

        console.document(json.loads(reply.spec))
    elif console.json:
        console.document(shapes.job_shape(reply.job))
    else:
        show_job(console, reply.job)
    return 0


def forecast_text(row: wire.JobRow) -> str:
    """When a job will be done and what it will have cost, as ranges; "" where nothing is known."""
    parts = []
    if row.eta_low_us is not None and row.eta_high_us is not None:
        parts.append(f"done between {time_text(row.eta_low_us)} and {time_text(row.eta_high_us)}")
    if row.cost_low_nano is not None and row.cost_high_nano:
        parts.append(f"cost {money_text(row.cost_low_nano)} to {money_text(row.cost_high_nano)} in all")
    if not parts:
        return ""
    rest = f" (without {', '.join(row.not_estimated)})" if row.not_estimated else ""
    return "expected: " + ", ".join(parts) + rest


def show_job(console: Console, row: wire.JobRow) -> None:
    """Prints a job with its steps."""
    console.line(f"J{row.job} {row.name}: {row.state}" + (f" ({row.reason})" if row.reason else ""))
    facts = [f"user {row.user or NOTHING}", f"project {row.project or NOTHING}", f"priority {row.priority}"]
    if row.rank:
        facts.append(f"rank {row.rank}")
    console.line("  " + ", ".join(facts))
    console.line(
        f"  submitted {time_text(row.submitted_us)}, started {time_text(row.started_us)}, "
        f"ended {time_text(row.ended_us)}"
    )
    waste = f", of it wasted {money_text(row.waste_nano)}" if row.waste_nano else ""
    console.line(f"  spent {money_text(row.spend_nano)}{waste}")
    ahead = forecast_text(row)
    if ahead:
        console.line(f"  {ahead}")
    console.line()
    console.table(
        (
            "STEP~",
            "RENDERER",
            "STATE",
            "FRAMES~",
            "DONE>",
            "RUNNING>",
            "FAILED>",
            "A FRAME>",
            "ATTEMPTS>",
            "REASON~",
        ),
        [
            (
                f"J{row.job}/{step.name}",
                step.renderer,
                step.state,
                step.frames or NOTHING,
                f"{_count(step, UnitState.DONE)}/{step.units}",
                str(_count(step, UnitState.RUNNING) or NOTHING),
                str(_count(step, UnitState.FAILED) or NOTHING),
                duration_text(step.mean_frame_s) if step.mean_frame_s else NOTHING,
                str(step.attempts),
                step.reason,
            )
            for step in row.steps
        ],
    )
    for step in row.steps:
        if put := _put_text(step):
            console.line(f"  J{row.job}/{step.name}: {put}")


def _put_text(step: wire.StepRow) -> str:
    """What was put first or last of a step, "" for nothing."""
    told = [f"{name} frames {text}" for name, text in (("first", step.first), ("last", step.last)) if text]
    return ", ".join([f"rank {step.rank}", *told] if step.rank else told)


def _count(step: wire.StepRow, state: UnitState) -> int:
    return step.counts[state] if state < len(step.counts) else 0


# -- frames ------------------------------------------------------------------------------------------


def _setup_frames(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="J12, J12/beauty or J12/beauty/17-20")
    parser.add_argument(
        "--state", action="append", default=[], metavar="STATE", help="only frames in this state"
    )
    add_filter(parser, "frames", "frame:1001-1020 tries>1 -node:ws-12")
    parser.add_argument("--offset", type=int, default=0, help="skip so many")
    parser.add_argument("--limit", type=int, default=1000, help="at most so many (default 1000, 0 = all)")


def _frames(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address)
    states = _states(arguments.state, [state.word for state in UnitState])
    if arguments.limit < 0 or arguments.offset < 0:
        raise CallError("--limit and --offset cannot be negative")
    query = read_filter(arguments.filter, "frames", console) if arguments.filter else None
    with connect(arguments) as farm:
        if query is None:
            rows, more = _some_frames(farm, str(address), states, arguments.offset, arguments.limit)
        else:
            rows, more = filtered_frames(farm, query, str(address), states, arguments.offset, arguments.limit)
    if console.json:
        console.document(
            {"frames": [shapes.frame_shape(address.job, step, row) for step, row in rows], "more": more}
        )
        return 0
    if not rows:
        console.line("no frames")
        return 0
    console.table(
        ("FRAME", "STATE", "TRIES>", "NODE~", "TIME>", "USD>", "REASON~"),
        [
            (
                f"{step}/{row.frame}" if row.frame is not None else step,
                _state_text(row),
                str(row.attempts or NOTHING),
                row.node or NOTHING,
                duration_text(row.elapsed_s),
                usd_text(row.cost_nano),
                row.reason or row.warning,
            )
            for step, row in rows
        ],
    )
    if more:
        console.note(f"there are more: add --offset {arguments.offset + len(rows)}")
    return 0


def _some_frames(
    farm: Farm, address: str, states: tuple[str, ...], offset: int, limit: int
) -> tuple[list[tuple[str, wire.FrameRow]], bool]:
    """Frames page by page, as many as asked for (0 = all), and whether there are more."""
    rows: list[tuple[str, wire.FrameRow]] = []
    more = True
    while more and (not limit or len(rows) < limit):
        wanted = min(_PAGE, limit - len(rows)) if limit else _PAGE
        reply = farm.frames(address, states, offset=offset + len(rows), limit=wanted)
        got = [(step, row) for step, units in reply.steps.items() for row in units]
        rows += got
        more = reply.more and bool(got)
    return rows, more


def _state_text(row: wire.FrameRow) -> str:
    if row.state == UnitState.RUNNING.word and row.progress is not None:
        return f"{row.state} {row.progress:.0%}"
    if row.state == UnitState.DONE.word and row.verified is not True:
        return f"{row.state} (not verified)"
    return row.state


# -- attempts and history ----------------------------------------------------------------------------


def _setup_attempts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="J12, J12/beauty or J12/beauty/17")
    parser.add_argument("--limit", type=int, default=200, help="at most so many, newest first (default 200)")


def _attempts(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address)
    with connect(arguments) as farm:
        reply = farm.attempts(str(address), limit=arguments.limit)
    if console.json:
        console.document({"attempts": [shapes.attempt_shape(address.job, row) for row in reply.attempts]})
        return 0
    if not reply.attempts:
        console.line("no attempts")
        return 0
    console.table(
        ("ATTEMPT~", "NODE~", "KIND", "FRAMES~", "STARTED", "TIME>", "USD>", "WASTE>", "OUTCOME", "REASON~"),
        [
            (
                f"{row.step}@{row.no}",
                row.node,
                row.kind,
                row.frames or NOTHING,
                time_text(row.started_us),
                duration_text(
                    (row.ended_us - row.started_us) / 1e6 if row.ended_us and row.started_us else None
                ),
                usd_text(row.charge_nano),
                usd_text(row.waste_nano) if row.waste_nano else NOTHING,
                row.outcome or "running",
                row.reason,
            )
            for row in reply.attempts
        ],
    )
    return 0


def _setup_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", nargs="?", default="", help="a job; without one the whole farm's"
    )
    parser.add_argument("--limit", type=int, default=200, help="at most so many, newest first (default 200)")


def _history(arguments: argparse.Namespace, console: Console) -> int:
    number = address_of(arguments.job, whole_job=True).job if arguments.job else 0
    with connect(arguments) as farm:
        reply = farm.history(number, limit=arguments.limit)
    if console.json:
        console.document({"history": [shapes.history_shape(row) for row in reply.rows]})
        return 0
    if not reply.rows:
        console.line("nothing is recorded yet")
        return 0
    console.table(
        ("WHEN", "WHAT~", "OLD", "NEW", "WHO~", "REASON~"),
        [
            (
                time_text(row.at_us),
                row.what,
                row.old or NOTHING,
                row.new or NOTHING,
                row.who or NOTHING,
                row.reason,
            )
            for row in reply.rows
        ],
    )
    if len(reply.rows) == arguments.limit:
        console.note(f"the newest {plural(arguments.limit, 'change')}; see more with --limit")
    return 0


COMMANDS = {
    "jobs": Command(
        _setup_jobs,
        _jobs,
        (
            "farm jobs",
            "farm jobs --state running --state queued",
            "farm jobs --user kim --json",
            "farm jobs --filter 'mine state:failed,blocked age<2d -proxy'",
            "farm jobs --watch",
        ),
    ),
    "job": Command(
        _setup_job, _job, ("farm job J12", "farm job J12 --watch", "farm job J12 --spec > job.json")
    ),
    "frames": Command(
        _setup_frames,
        _frames,
        (
            "farm frames J12",
            "farm frames J12/beauty --state failed",
            "farm frames J12/beauty/17-20 --json",
            "farm frames J12 --filter 'tries>1 -node:ws-12'",
        ),
    ),
    "attempts": Command(
        _setup_attempts, _attempts, ("farm attempts J12/beauty", "farm attempts J12/beauty/17")
    ),
    "history": Command(_setup_history, _history, ("farm history J12", "farm history")),
}

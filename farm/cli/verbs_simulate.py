"""The verbs that need no real farm but time: simulate, and record, which gives it something to replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command, connect
from farm.cli.text import NOTHING, duration_text
from farm.model.errors import CallError, StorageError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from farm.cli.console import Console
    from farm.protocol.client import RecordingRow
    from farm.sim.report import Fairness, Report, Wait
    from farm.sim.scenario import Scenario


def _setup_simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="a scenario file (TOML)")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed than the scenario's")
    parser.add_argument(
        "--check-every",
        type=int,
        metavar="N",
        help="check the scheduler's invariants every N events (0: at the end)",
    )
    parser.add_argument(
        "--replay", metavar="FILE", help="replay a recording instead, and compare what it decides"
    )
    parser.add_argument(
        "--serve", action="store_true", help="serve the scenario as a real farm with simulated agents"
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="with --serve: virtual seconds a second (default 1)",
    )


def _simulate(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    if arguments.replay is not None:
        if arguments.scenario or arguments.serve:
            raise CallError("--replay takes no scenario and serves nothing")
        return _replay(Path(arguments.replay), console)
    if arguments.scenario is None:
        raise CallError("which scenario?", hint="name a scenario file, or --replay FILE")
    import msgspec

    from farm.sim.scenario import load_scenario

    scenario = load_scenario(Path(arguments.scenario))
    changes: dict[str, int] = {}
    for name in ("seed", "check_every"):
        value = getattr(arguments, name)
        if value is not None:
            if value < 0:
                raise CallError(f"--{name.replace('_', '-')}: {value} is below 0")
            changes[name] = value
    scenario = msgspec.structs.replace(scenario, **changes)
    if arguments.serve:
        return _serve(scenario, arguments.speed, console)
    from farm.sim.engine import Simulation
    from farm.sim.report import make_report

    simulation = Simulation(scenario)
    simulation.run()
    report = make_report(simulation)
    if console.json:
        console.document(msgspec.to_builtins(report))
    else:
        _print(report, console)
    return 0


def _replay(path: Path, console: Console) -> int:
    import msgspec

    from farm.sim.replay import Replay

    result = Replay(path).run()
    if console.json:
        console.document(msgspec.to_builtins(result))
    elif result.identical:
        end = "" if result.complete else "; the recording was not ended in order"
        console.line(f"identical: {result.events} events{end}")
        console.line(f"digest {result.digest}")
    else:
        console.line(f"differs at event {result.differs_at}: {result.what}")
    return 0 if result.identical else 1


def _serve(scenario: Scenario, speed: float, console: Console) -> int:
    if not 0 < speed <= 10_000:
        raise CallError(f"--speed: {speed:g} is not between 0 and 10000")
    import threading

    from farm.cli.private import PrivateFarm
    from farm.cli.service import on_signals
    from farm.sim.serve import check_servable, serve

    check_servable(scenario)
    stop = threading.Event()
    rate = str(scenario.nodes[0].rate_usd_h)
    with PrivateFarm(0, rate_usd_h=rate, simulated=scenario.name) as private, private.connect() as farm:
        on_signals(stop.set)
        if console.json:
            console.document(
                {"farm": private.name, "nodes": sum(g.count for g in scenario.nodes)}, one_line=True
            )
        else:
            console.line(f"{scenario.name} is served as farm {private.name}; Ctrl-C stops it")
            console.note(f"watch it with `farm --farm {private.name} status --watch`")
        console.flush()
        serve(scenario, farm, private.endpoint, stop, speed=speed)
    return 0


# ---------------------------------------------------------------- the report as text


def _print(report: Report, console: Console) -> None:
    lines: list[tuple[str, str]] = [
        ("scenario", f"{report.name}, seed {report.seed}: {report.nodes} nodes, {report.jobs} jobs"),
        ("ended", f"{_ENDS[report.ended]}, {duration_text(report.virtual_s)} of virtual time"),
        ("frames", f"{report.frames_done} of {report.frames} done, {report.jobs_done} jobs whole"),
    ]
    if report.bound is not None and report.makespan_s is not None:
        bound = report.bound
        lines += [
            ("makespan", f"{duration_text(report.makespan_s)} ({report.makespan_s:.1f} s)"),
            (
                "bound",
                f"{bound.chunked_s:.1f} s: {_times(report.ratio)} of it; with one start-up a step"
                f" {bound.strict_s:.1f} s: {_times(report.strict_ratio)}; longest chain"
                f" {bound.chain_s:.1f} s",
            ),
        ]
    lines += [
        (
            "utilisation",
            f"{report.utilisation:.1%} of core time held, {report.useful:.1%} rendered what counts",
        ),
        (
            "chunks",
            f"{report.chunks} of {report.frames_per_chunk:.1f} frames,"
            f" start-ups took {report.startup_share:.1%}",
        ),
        (
            "waste",
            f"{report.thrown_s:.1f} s thrown away ({report.thrown_share:.2%}), {report.spend.waste} USD",
        ),
        ("spend", f"{report.spend.total} USD, of that {report.spend.idle} idle"),
    ]
    starved = report.starvation
    lines += [("longest wait", _wait(starved.frame)), ("step unserved", _wait(starved.step))]
    if starved.large is not None:
        lines.append(("large request", _wait(starved.large)))
    if starved.never_ran:
        lines.append(("never ran", f"{len(starved.never_ran)} jobs, first {starved.never_ran[0]}"))
    if report.fifo is not None:
        fifo = report.fifo
        took = NOTHING if fifo.makespan_s is None else f"{fifo.makespan_s:.1f} s"
        lines.append(
            ("plain farm", f"{took}, {_times(report.fifo_ratio)} of the bound; {fifo.chunks} chunks,"
             f" {fifo.thrown_s:.1f} s lost")
        )  # fmt: skip
    lines.append(("digest", report.digest))
    for name, text in lines:
        console.line(f"{name:<14} {text}")
    for fairness in report.fairness:
        _print_fairness(fairness, console)


_ENDS = {
    "done": "all work is done",
    "time": "at the end of the scenario's time, with work left",
    "stalled": "nothing more could happen, with work left",
}


def _wait(wait: Wait) -> str:
    return f"{duration_text(wait.seconds)} {wait.whose or NOTHING}"


def _times(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.3f} times"


def _print_fairness(fairness: Fairness, console: Console) -> None:
    console.line()
    of = "projects" if fairness.of == "projects" else f"users of {fairness.of}"
    if fairness.deviation is None:
        console.line(f"{of}: never did all of them have work waiting at once")
    else:
        window = duration_text(fairness.window_s)
        console.line(
            f"{of}, while all had work waiting ({window}): largest deviation {fairness.deviation:.2%}"
        )
    console.table(
        ("NAME~", "WEIGHT", "SHARE", "EXPECTED", "DEVIATION", "FARM SECONDS"),
        [
            (
                line.name or NOTHING,
                str(line.weight),
                f"{line.share:.2%}",
                f"{line.expected:.2%}",
                f"{line.deviation:+.2%}",
                f"{line.total_s:.1f}",
            )
            for line in fairness.lines
        ],
    )


# ---------------------------------------------------------------- record


def _setup_record(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    start = verbs.add_parser("start", help="begin a recording of every event from now on")
    start.add_argument("name", metavar="NAME", help="what to call it")
    stop = verbs.add_parser("stop", help="end it")
    listing = verbs.add_parser("list", help="list recordings")
    get = verbs.add_parser("get", help="say where a recording lies, or copy it")
    get.add_argument("name", metavar="NAME", help="which one")
    get.add_argument("-o", "--output", metavar="FILE", help="copy it there (on the broker's machine)")
    for verb in (start, stop, listing, get):
        verb.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")


def _record(arguments: argparse.Namespace, console: Console) -> int:
    action = arguments.action
    with connect(arguments) as farm:
        rows = farm.record(action, getattr(arguments, "name", "")).recordings
    if action == "start":
        rows = tuple(row for row in rows if row.name == arguments.name)
    if action == "get" and arguments.output:
        _copy(rows[0], arguments.output)
    if console.json or arguments.json_too:
        console.document({"recordings": [_shape(row) for row in rows]})
    elif action == "list":
        if not rows:
            console.line("no recordings")
        else:
            console.table(
                ("NAME~", "STATE", "BYTES", "FILE~"),
                [(row.name, _state(row), str(row.size), row.path) for row in rows],
            )
    elif action == "start":
        console.line(f"recording {arguments.name}; end it with `farm record stop`")
    elif action == "get" and arguments.output:
        console.line(arguments.output)
    else:
        console.line(rows[0].path)
        if rows[0].trouble:
            console.note(rows[0].trouble)
    return 0


def _state(row: RecordingRow) -> str:
    if row.trouble:
        return "failed"
    return f"running, {row.events} events" if row.running else "ended"


def _shape(row: RecordingRow) -> dict[str, object]:
    return {
        "name": row.name,
        "path": row.path,
        "bytes": row.size,
        "running": row.running,
        "events": row.events,
        "trouble": row.trouble,
    }


def _copy(row: RecordingRow, output: str) -> None:
    import shutil
    from pathlib import Path

    if not Path(row.path).is_file():
        raise StorageError(f"{row.path} is not on this machine", hint="copy it from the broker's machine")
    try:
        shutil.copyfile(row.path, output)
    except OSError as error:
        raise StorageError(f"{output} cannot be written: {error.strerror or error}") from error


COMMANDS = {
    "simulate": Command(
        _setup_simulate,
        _simulate,
        (
            "farm simulate docs/examples/scenarios/studio.toml",
            "farm simulate studio.toml --seed 7 --json",
            "farm simulate studio.toml --serve --speed 20    # a farm to watch and to try clients on",
            "farm simulate --replay night.recording",
        ),
    ),
    "record": Command(
        _setup_record,
        _record,
        (
            "farm record start night",
            "farm record stop",
            "farm record get night -o night.recording && farm simulate --replay night.recording",
        ),
    ),
}

"""The verbs about the farm itself: status, nodes, gpus, spend, shutdown.  ``node`` is in ``verbs_node``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command, add_watch, address_of, connect
from farm.cli.filtering import add_filter, read_filter, row_test
from farm.cli.text import NOTHING, duration_text, mib_text, money_text, plural, time_text
from farm.model.money import usd_text
from farm.protocol import client as wire

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from farm.cli.console import Console
    from farm.cli.shapes import Shape
    from farm.sdk.mirror import Mirror

_SPEND_BY = ("job", "user", "project", "node", "site")


# -- status ------------------------------------------------------------------------------------------


def _setup_status(parser: argparse.ArgumentParser) -> None:
    add_watch(parser)


def _status(arguments: argparse.Namespace, console: Console) -> int:
    with connect(arguments) as farm:
        if arguments.watch:
            from farm.cli import shapes
            from farm.cli.watch import watch

            # Jobs and nodes tell when to look again; the figures themselves are the broker's.
            latest: list[wire.StatusReply] = []

            def shape(mirror: Mirror) -> Shape:
                latest[:] = [farm.status()]
                found = shapes.status_shape(latest[0])
                # Time passing is no news in a pipe.
                return found if console.is_terminal or console.json else found | {"up_s": 0}

            watch(console, farm, ("jobs", "nodes"), lambda mirror: _show_status(console, latest[0]), shape)
            return 0
        reply = farm.status()
    if console.json:
        from farm.cli import shapes

        console.document(shapes.status_shape(reply))
    else:
        _show_status(console, reply)
    return 0


def _show_status(console: Console, reply: wire.StatusReply) -> None:
    console.line(f"farm {reply.farm_name}, Overcrank {reply.software}, up {duration_text(reply.up_s)}")
    for name, counts in (("jobs", reply.jobs), ("frames", reply.units), ("nodes", reply.nodes)):
        console.line(f"  {name:<7}" + (_counts(counts) or "none"))
    console.line(f"  spent  {money_text(reply.spend_nano)}, now {usd_text(reply.burn_nano_h)} USD/h")
    for alert in reply.alerts:
        console.line(f"  ! {alert}")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


# -- nodes -------------------------------------------------------------------------------------------


def _setup_nodes(parser: argparse.ArgumentParser) -> None:
    add_filter(parser, "nodes", "pool:gpu ramfree>32g -busy:yes")
    add_watch(parser)


def _nodes(arguments: argparse.Namespace, console: Console) -> int:
    query = read_filter(arguments.filter, "nodes", console) if arguments.filter else None
    with connect(arguments) as farm:

        def chosen(rows: Iterable[wire.NodeRow]) -> list[wire.NodeRow]:
            fits = row_test(query, farm) if query is not None else None
            return [row for row in rows if fits is None or fits(row)]

        if arguments.watch:
            from farm.cli import shapes
            from farm.cli.watch import watch

            def rows(mirror: Mirror) -> list[wire.NodeRow]:
                return sorted(chosen(mirror.nodes.values()), key=lambda row: row.name)

            watch(
                console,
                farm,
                ("nodes",),
                lambda mirror: _show_nodes(console, rows(mirror)),
                lambda mirror: {"nodes": [shapes.node_shape(row) for row in rows(mirror)]},
            )
            return 0
        every = farm.nodes().nodes
        shown = chosen(every)
    if console.json:
        from farm.cli import shapes

        console.document({"nodes": [shapes.node_shape(row) for row in shown]})
    elif every and not shown:
        console.line(f"none of {plural(len(every), 'node')} fits")
    else:
        _show_nodes(console, shown)
    return 0


def _show_nodes(console: Console, rows: Iterable[wire.NodeRow]) -> None:
    rows = list(rows)
    if not rows:
        console.line("no nodes; start one with `farm agent`")
        return
    console.table(
        (
            "NODE~",
            "STATE",
            "POOL~",
            "SITE~",
            "CORES>",
            "RAM FREE>",
            "GPUS>",
            "SLOTS>",
            "CPU>",
            "USD/H>",
            "SEEN",
            "SCHEDULE~",
            "RUNNING~",
            "REASON~",
        ),
        [
            (
                row.name,
                node_state(row),
                row.pool or NOTHING,
                row.site or NOTHING,
                f"{row.cores_free}/{row.cores}",
                mib_text(row.ram_free_mib),
                f"{row.gpus_free}/{row.gpus}" if row.gpus else NOTHING,
                f"{len(row.running)}/{row.slots}" if row.slots else NOTHING,
                f"{row.cpu_percent:.0f}%",
                usd_text(row.rate_nano_h),
                time_text(row.seen_us),
                row.schedule or NOTHING,
                ", ".join(row.running) or NOTHING,
                node_reason(row),
            )
            for row in rows
        ],
    )


def node_state(row: wire.NodeRow) -> str:
    """The node's state as people see it."""
    words = [row.state]
    if not row.enabled:
        words.append("disabled" if row.disabled else "drained")
    elif row.closed:
        words.append("closed")
    if row.update in ("draining", "updating"):
        words.append("to be updated" if row.update == "draining" else "updating")
    return ", ".join(words)


def node_reason(row: wire.NodeRow) -> str:
    """Why it is in that state."""
    if not row.enabled:
        return row.reason
    if row.closed:
        return row.closed
    return f"update {row.update}: {row.update_reason}" if row.update in ("failed", "skipped") else ""


# -- gpus --------------------------------------------------------------------------------------------


def _setup_gpus(parser: argparse.ArgumentParser) -> None:
    del parser


def _gpus(arguments: argparse.Namespace, console: Console) -> int:
    with connect(arguments) as farm:
        rows = [row for row in farm.nodes().nodes if row.gpus]
    if console.json:
        console.document(
            {
                "nodes": [
                    {
                        "name": row.name,
                        "state": row.state,
                        "enabled": row.enabled,
                        "gpus": row.gpus,
                        "gpus_free": row.gpus_free,
                        "gpu_names": list(row.gpu_names),
                    }
                    for row in rows
                ]
            }
        )
        return 0
    if not rows:
        console.line("no node has a GPU")
        return 0
    console.table(
        ("NODE~", "STATE", "FREE>", "GPUS~"),
        [
            (row.name, node_state(row), f"{row.gpus_free}/{row.gpus}", ", ".join(_grouped(row.gpu_names)))
            for row in rows
        ],
    )
    return 0


def _grouped(names: Iterable[str]) -> list[str]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [f"{count} x {name}" if count > 1 else name for name, count in counts.items()]


# -- spend -------------------------------------------------------------------------------------------


def _setup_spend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", default="", help="only this job, e.g. J12")
    parser.add_argument(
        "--by", choices=_SPEND_BY, default="job", help="one line for each of these (default job)"
    )


def _spend(arguments: argparse.Namespace, console: Console) -> int:
    job = address_of(arguments.job, whole_job=True).job if arguments.job else 0
    with connect(arguments) as farm:
        reply = farm.spend(arguments.by, job=job)
    if console.json:
        from farm.cli import shapes

        console.document(
            {
                "by": reply.by,
                "lines": [shapes.spend_shape(line) for line in reply.lines],
                "total": shapes.spend_shape(reply.total),
            }
        )
        return 0
    rows = [(*_spend_cells(line),) for line in (*reply.lines, reply.total)]
    if rows:
        rows[-1] = ("total", *rows[-1][1:])
    console.table((f"{reply.by.upper()}~", "USD>", "USEFUL>", "WASTE>", "IDLE>", "BUSY>", "FRAMES>"), rows)
    return 0


def _spend_cells(line: wire.SpendLine) -> tuple[str, ...]:
    return (
        line.key or NOTHING,
        usd_text(line.total_nano),
        usd_text(line.useful_nano),
        usd_text(line.waste_nano),
        usd_text(line.idle_nano),
        duration_text(line.busy_s) if line.frames else NOTHING,
        str(line.frames) if line.frames else NOTHING,
    )


# -- shutdown ----------------------------------------------------------------------------------------


def _setup_shutdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", help="why, for the broker's log")


def _shutdown(arguments: argparse.Namespace, console: Console) -> int:
    with connect(arguments) as farm:
        running = farm.status().units.get("running", 0)
        farm.shutdown(arguments.reason)
        name = farm.name
    if console.json:
        console.document({"farm": name, "running": running})
        return 0
    console.line(f"the broker of {name} stops")
    if running:
        console.line(
            f"{plural(running, 'frame')} still running on agents: they go on and report when it is back"
        )
    return 0


COMMANDS = {
    "status": Command(_setup_status, _status, ("farm status", "farm status --watch", "farm status --json")),
    "nodes": Command(
        _setup_nodes,
        _nodes,
        ("farm nodes", "farm nodes --watch", "farm nodes --filter 'pool:gpu ramfree>32g -busy:yes'"),
    ),
    "gpus": Command(_setup_gpus, _gpus, ("farm gpus", "farm gpus --json")),
    "spend": Command(_setup_spend, _spend, ("farm spend", "farm spend J12", "farm spend --by user --json")),
    "shutdown": Command(_setup_shutdown, _shutdown, ("farm shutdown --reason 'kernel update'",)),
}

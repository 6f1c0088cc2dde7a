"""The verb that acts on nodes: drain, disable, enable, forget, set, update.

What belongs here: the call, its words, and waiting for what was asked for.  Whether it may be done is the
broker's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command, connect
from farm.cli.text import plural
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from farm.cli.console import Console
    from farm.protocol import client as wire
    from farm.sdk.client import Farm

_HELP = {
    "drain": "give it no more work; what runs finishes",
    "disable": "give it no more work and give back what runs; no try is spent",
    "enable": "let it work again",
    "forget": "forget one that is gone for good",
}


def _setup(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    for action, text in _HELP.items():
        verb = verbs.add_parser(action, help=text)
        verb.add_argument("nodes", metavar="NODE", nargs="+", help="name or number of a node")
        if action in ("drain", "disable"):
            verb.add_argument("--wait", action="store_true", help="end once nothing runs there any more")
            _add_timeout(verb)
    change = verbs.add_parser("set", help="set its slots, its hours or its rate")
    change.add_argument("node", metavar="NODE", help="name or number of a node")
    change.add_argument(
        "settings",
        metavar="NAME=VALUE",
        nargs="+",
        help="slots=2 (most attempts at once, 0 = as many as fit), "
        'schedule="mon-fri 19:00-07:00 Europe/Berlin" (empty = always), '
        "rate=0.80@2026-12-01 (USD per hour from then on; empty = the farm's)",
    )
    update = verbs.add_parser("update", help="update the software of nodes, a few at a time")
    update.add_argument("nodes", metavar="NODE", nargs="*", help="name or number of a node")
    update.add_argument("--all", action="store_true", help="every node")
    update.add_argument(
        "--at-most",
        default="10%",
        metavar="SHARE",
        help="out of service at once: 10%% or a number (default 10%%)",
    )
    update.add_argument(
        "--failures", type=int, default=1, metavar="N", help="stop when so many have failed (default 1)"
    )
    update.add_argument(
        "--patience-s",
        type=float,
        default=1800.0,
        metavar="S",
        help="how long the update of one may take (default 1800)",
    )
    update.add_argument("--wait", action="store_true", help="end once the update is over")
    update.add_argument("--stop", action="store_true", help="stop the update that is under way")
    _add_timeout(update)
    for verb in verbs.choices.values():
        verb.add_argument("--reason", default="", help="why, for those who look at the node later")
        verb.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")


def _add_timeout(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--timeout-s",
        type=float,
        default=0.0,
        metavar="S",
        help="with --wait: wait no longer (default: for ever)",
    )


def _node(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.action == "update":
        return _update(arguments, console)
    if arguments.action == "set":
        nodes, value = [arguments.node], _settings(arguments.settings)
    else:
        nodes, value = arguments.nodes, ""
    done = []
    with connect(arguments) as farm:
        for node in nodes:
            reply = farm.node_act(f"node-{arguments.action}", node, reason=arguments.reason, value=value)
            done.append({"node": node, "changed": reply.changed, "message": reply.message})
            if not console.json:
                console.line(reply.message or f"{node}: {arguments.action}")
        finished = True
        if getattr(arguments, "wait", False):
            finished = _wait(farm, console, arguments.timeout_s, lambda rows: _still_running(rows, nodes))
    if console.json:
        console.document({"action": f"node-{arguments.action}", "results": done})
    return 0 if finished else 1


def _settings(texts: list[str]) -> str:
    """NAME=VALUE words as the JSON the broker reads.

    Raises:
        CallError: One is none, or a name stands twice, or a value is wrong.
    """
    import json

    from farm.model.nodeset import read_change

    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise CallError(f"{text!r} is not NAME=VALUE", hint="write slots=2")
        if name in given:
            raise CallError(f"{name} is set twice")
        given[name.strip()] = value
    read_change(given)
    return json.dumps(given)


def _still_running(rows: list[wire.NodeRow], nodes: list[str]) -> str:
    """What still runs on these nodes, in words; "" when nothing does."""
    busy = [row for row in rows if row.running and (row.name in nodes or str(row.node) in nodes)]
    return ", ".join(f"{row.name} runs {', '.join(row.running)}" for row in busy)


def _wait(farm: Farm, console: Console, timeout_s: float, left: Callable[[list[wire.NodeRow]], str]) -> bool:
    """Waits until nothing is left; says what is whenever that changes.  False: the time is over."""
    import time

    deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else float("inf")
    shown = ""
    for mirror in farm.subscribe("nodes", idle_s=0.5):
        if not mirror.trouble:
            words = left(list(mirror.nodes.values()))
            if not words:
                return True
            if words != shown:
                shown = words
                console.note(words)
        if time.monotonic() >= deadline_s:
            console.note(f"not over after {timeout_s:g} s")
            return False
    return False


# -- update ------------------------------------------------------------------------------------------


def _update(arguments: argparse.Namespace, console: Console) -> int:
    from farm.model.nodeset import read_share
    from farm.protocol import client as wire

    if sum((bool(arguments.nodes), arguments.all, arguments.stop)) != 1:
        raise CallError("name nodes, or say --all or --stop", hint="farm node update --all --at-most 10%")
    read_share(arguments.at_most, 1)
    with connect(arguments) as farm:
        if arguments.stop:
            reply = farm.node_act("node-update-stop", "", reason=arguments.reason)
        else:
            import msgspec

            ask = wire.UpdateAsk(
                nodes=tuple(arguments.nodes),
                at_most=arguments.at_most,
                failures=arguments.failures,
                patience_s=arguments.patience_s,
            )
            value = msgspec.json.encode(ask).decode()
            reply = farm.node_act("node-update", "", reason=arguments.reason, value=value)
        if not console.json:
            console.line(reply.message)
        over = True
        if arguments.wait:
            over = _wait(farm, console, arguments.timeout_s, _still_updating)
        rows = farm.nodes().nodes if arguments.wait else ()
    results = [
        {"node": row.name, "update": row.update, "reason": row.update_reason, "software": row.software}
        for row in rows
        if row.update
    ]
    failed = [result for result in results if result["update"] == "failed"]
    if console.json:
        document = {"action": "node-update", "changed": reply.changed, "message": reply.message}
        console.document(document | ({"nodes": results} if arguments.wait else {}))
    else:
        for result in failed:
            console.line(f"{result['node']}: {result['reason']}")
        if arguments.wait and over:
            done = sum(result["update"] == "updated" for result in results)
            console.line(f"{plural(done, 'node')} updated, {len(failed)} failed")
    return 0 if over and not failed else 1


def _still_updating(rows: list[wire.NodeRow]) -> str:
    """How far the update is, in words; "" when it is over."""
    words = [
        f"{word} {count}"
        for word in ("waiting", "draining", "updating")
        if (count := sum(row.update == word for row in rows))
    ]
    return "update: " + ", ".join(words) if words else ""


COMMANDS = {
    "node": Command(
        _setup,
        _node,
        (
            "farm node drain ws-12 --reason 'fan is loud' --wait",
            "farm node disable ws-12                       # and give back what it runs",
            "farm node enable ws-12",
            "farm node forget old-box",
            "farm node set ws-12 slots=2 schedule='mon-fri 19:00-07:00, sat-sun Europe/Berlin'",
            "farm node set ws-12 rate=0.80@2026-12-01",
            "farm node update --all --at-most 10% --wait",
        ),
    )
}

"""The verb why: why something waits, failed or runs, and why a node is idle, as the scheduler sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from farm.cli.command import Command, address_of, connect
from farm.cli.text import plural
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.protocol.client import WhyNodes, WhyReply, WhyRow

#: Verdicts printed per step; the rest are summed up.
_SHOWN = 8


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="ADDRESS", nargs="?", default="", help="J12, J12/beauty or J12/beauty/17-20"
    )
    parser.add_argument("--node", metavar="NAME", default="", help="why this node takes no (more) work")


def _why(arguments: argparse.Namespace, console: Console) -> int:
    if bool(arguments.address) == bool(arguments.node):
        raise CallError("say an address or --node NAME", hint="farm why J12, or farm why --node ws-07")
    with connect(arguments) as farm:
        if arguments.node:
            reply = farm.why(node=arguments.node)
            job: Any = None
        else:
            address = address_of(arguments.address)
            target = str(address).partition("@")[0]
            job = farm.job(address.job).job
            reply = farm.why(target)
    if console.json:
        console.document(_document(arguments, reply, job))
    elif arguments.node:
        _show_node(console, reply)
    else:
        words = [cause.what for row in reply.rows for cause in row.causes]
        told = any(job.reason in one or (one and one in job.reason) for one in words)
        console.line(f"J{job.job} {job.name} {_stands(job.state, '' if told else job.reason)}")
        for row in reply.rows:
            _show_row(console, row)
        if reply.more:
            console.line("(only the first frames were looked at; name fewer to see others)")
    return 0


def _stands(state: str, reason: str) -> str:
    """A job's state and its reason, without the word of the state twice."""
    if reason.startswith(f"{state} by "):
        return f"is {reason}"
    if reason.startswith(f"{state} itself"):
        return reason
    return f"is {state}" + (f": {reason}" if reason else "")


def _document(arguments: argparse.Namespace, reply: WhyReply, job: Any) -> dict[str, Any]:
    if arguments.node:
        return {
            "node": reply.node,
            "reason": reply.reason,
            "waiting": reply.waiting,
            "work": [msgspec.to_builtins(one) for one in reply.work],
        }
    return {
        "address": arguments.address,
        "job": {"state": job.state, "reason": job.reason},
        "answers": [msgspec.to_builtins(row) for row in reply.rows],
        "complete": not reply.more,
    }


def _show_row(console: Console, row: WhyRow) -> None:
    count = f" ({plural(row.units, 'frame')})" if row.units > 1 else ""
    kind = f" [{row.failure}]" if row.failure and row.state == "failed" else ""
    console.line(f"{row.address} is {row.state}{count}{kind}")
    for cause in row.causes:
        console.line(f"  {cause.what}" + (f"  -> {cause.cure}" if cause.cure else ""))
    if row.failed_on:
        times = f", {row.tries} times in all" if row.tries > len(row.failed_on) else ""
        console.line(f"  failed on {', '.join(row.failed_on)}{times}")
    for verdict in row.nodes[:_SHOWN]:
        _show_nodes(console, verdict)
    if len(row.nodes) > _SHOWN:
        rest = sum(verdict.count for verdict in row.nodes[_SHOWN:])
        console.line(f"  and {plural(rest, 'node')} for {len(row.nodes) - _SHOWN} other reasons")
    if row.state == "queued":
        _show_wait(console, row)


def _show_nodes(console: Console, verdict: WhyNodes) -> None:
    names = ", ".join(verdict.nodes)
    if verdict.count > len(verdict.nodes):
        names += f" and {verdict.count - len(verdict.nodes)} more"
    elif verdict.count > 1:
        names += " each"
    console.line(f"  {names}: {verdict.reason}" + (f"  -> {verdict.cure}" if verdict.cure else ""))


def _show_wait(console: Console, row: WhyRow) -> None:
    words = []
    if row.start_low_us is not None and row.start_high_us is not None:
        words.append(f"expected to start {_when(row.start_low_us, row.start_high_us)}")
    elif row.start_low_us is not None:
        soon = _in(row.start_low_us)
        words.append(
            f"expected to start in {soon} at the earliest" if soon != "now" else "may start at any moment"
        )
    else:
        # It stands still until somebody acts; what its user may expect of a farm means nothing then.
        return
    if row.share is not None and row.share < 0.995:
        words.append(f"its user may expect {row.share:.0%} of the farm while others want it too")
    console.line("  " + "; ".join(words))


def _when(low_us: int, high_us: int) -> str:
    low, high = _in(low_us), _in(high_us)
    if low == high:
        return low if low == "now" else f"in about {low}"
    return f"within {high}" if low == "now" else f"between {low} and {high} from now"


def _in(at_us: int) -> str:
    seconds = at_us / 1e6 - time.time()
    if seconds < 1:
        return "now"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _show_node(console: Console, reply: WhyReply) -> None:
    console.line(f"{reply.node} " + (reply.reason or "is in service and has room"))
    if reply.work:
        more = f" (the first {len(reply.work)} in order)" if reply.waiting > len(reply.work) else ""
        waits = "1 step waits" if reply.waiting == 1 else f"{reply.waiting} steps wait"
        console.line(f"  {waits} in the farm{more}; not here, because:")
    for one in reply.work:
        console.line(f"  {one.address}: {one.reason}" + (f"  -> {one.cure}" if one.cure else ""))


COMMANDS = {
    "why": Command(
        _setup,
        _why,
        ("farm why J12", "farm why J12/beauty", "farm why J12/beauty/17", "farm why --node ws-07"),
    )
}

"""`farm estimate`: what a job would take in time and money, from steps like its own; submits nothing.

What belongs here: the call and its words.  The figures are the broker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command, connect
from farm.cli.inputs import EXAMPLES, add_job_arguments, make_checked_job
from farm.cli.text import duration_text
from farm.model.money import usd_text

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.protocol import client as wire


def _setup(parser: argparse.ArgumentParser) -> None:
    add_job_arguments(parser)


def _estimate(arguments: argparse.Namespace, console: Console) -> int:
    from farm.sdk.jobfile import job_bytes

    job, warnings = make_checked_job(arguments)
    with connect(arguments) as farm:
        reply = farm.estimate(job_bytes(job))
    warnings += [warning for warning in reply.warnings if warning not in warnings]
    if console.json:
        console.document(
            {
                "name": job.name,
                "frames": reply.frames,
                "time_low_s": reply.low_s,
                "time_high_s": reply.high_s,
                "cost_low_usd": None if reply.cost_low_nano is None else usd_text(reply.cost_low_nano),
                "cost_high_usd": None if reply.cost_high_nano is None else usd_text(reply.cost_high_nano),
                "unknown": list(reply.unknown),
                "warnings": warnings,
            }
        )
        return 0
    for warning in warnings:
        console.note(f"warning: {warning}")
    for line in _lines(reply, len(job.steps)):
        console.line(line)
    return 0


def _lines(reply: wire.EstimateReply, steps: int) -> list[str]:
    lines = [f"frames  {reply.frames or 'none'}"]
    if len(reply.unknown) == steps:
        lines.append("nothing like it was rendered here yet, so neither time nor cost is known;")
        lines.append("submit it with `--scout 3`: three frames are rendered and tell what the rest takes")
        return lines
    if reply.low_s is not None and reply.high_s is not None:
        lines.append(f"time    {_range(duration_text(reply.low_s), duration_text(reply.high_s))}")
    else:
        lines.append("time    unknown: no node in service can take it")
    if reply.cost_low_nano is not None and reply.cost_high_nano is not None:
        cost = _range(usd_text(reply.cost_low_nano), usd_text(reply.cost_high_nano))
        lines.append(f"cost    {cost} USD")
    else:
        lines.append("cost    unknown: no node in service can take it")
    if reply.unknown:
        lines.append(f"without {', '.join(reply.unknown)}: nothing like that was rendered here yet")
    return lines


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


COMMANDS = {
    "estimate": Command(
        _setup,
        _estimate,
        tuple(f"farm estimate {line}" for line in EXAMPLES if "--" not in line.split()),
        takes_program=True,
    )
}

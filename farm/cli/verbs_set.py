"""The verbs that change what a job asks for: set, and resubmit, which makes a new job of part of an old one.

What belongs here: the call and its words.  Which fields there are is ``farm.model.edits``; whether a change
may be made, and by whom, is the broker's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farm.cli.command import Command, address_of, connect
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from farm.cli.console import Console
    from farm.model.ids import Address
    from farm.sdk.client import Farm


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` texts; memory and disk may be written with a unit (``resources.ram_mib=8GiB``).

    Raises:
        CallError: One has no ``=``, a key stands twice, or a size is none.
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CallError(f"{text!r} is not KEY=VALUE", hint="e.g. priority=70, or frames=1-200")
        if key in found:
            raise CallError(f"{key} is set twice")
        found[key] = value
        if key.endswith("_mib") and value and not value.isdecimal():
            from farm.config.load import parse_size

            try:
                found[key] = parse_size(value, unit_bytes=1 << 20)
            except ValueError as error:
                raise CallError(f"{key}: {error}", hint="write a number of MiB, or 8GiB") from error
    return found


# -- set ---------------------------------------------------------------------------------------------


def _setup_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="J12, or J12/beauty for fields of a step")
    parser.add_argument("values", metavar="KEY=VALUE", nargs="+", help="all of them are set, or none")
    parser.add_argument("--reason", default="", help="why, for those who look at the job later")
    parser.add_argument(
        "--force", action="store_true", help="set it though no node of the farm could ever take the step then"
    )


def _set(arguments: argparse.Namespace, console: Console) -> int:
    address = str(_job_or_step(arguments.address))
    values = assignments(arguments.values)
    with connect(arguments) as farm:
        reply = farm.set(address, values, reason=arguments.reason, force=arguments.force)
    if console.json:
        done = {"address": address, "changed": reply.changed, "message": reply.message}
        console.document({"action": "set", "results": [done]})
    else:
        console.line(reply.message)
    return 0


def _job_or_step(text: str) -> Address:
    address = address_of(text)
    if address.attempt is not None or address.frames is not None:
        raise CallError(f"{address} is neither a job nor a step", hint=f"say J{address.job}/{address.step}")
    return address


# -- resubmit ----------------------------------------------------------------------------------------


def _setup_resubmit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="J12, J12/beauty or J12/beauty/17-20")
    parser.add_argument("--failed", action="store_true", help="only frames that failed there")
    parser.add_argument(
        "--set",
        dest="values",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a field of the new job or of its steps (repeatable)",
    )
    parser.add_argument("--paused", action="store_true", help="start paused")
    parser.add_argument("--dry-run", action="store_true", help="print the new job file, send nothing")


def _resubmit(arguments: argparse.Namespace, console: Console) -> int:
    from farm.model.jobs import read_job
    from farm.sdk.jobfile import job_bytes, with_token
    from farm.sdk.resubmit import changed_job, part_of_job

    address = address_of(arguments.address)
    if address.attempt is not None:
        raise CallError(f"{address} is an attempt", hint=f"say {str(address).partition('@')[0]}")
    values = assignments(arguments.values)
    with connect(arguments, submits=True) as farm:
        found = farm.job(address.job, spec=True)
        old, _ = read_job(found.spec)
        failed = _failed_frames(farm, str(address)) if arguments.failed else None
        job = part_of_job(
            old,
            address.job,
            step=address.step,
            frames=address.frames,
            failed=failed,
            archived=found.job.archived,
        )
        if farm.welcome.role == "artist":
            # Artists submit for themselves, also when it was somebody else's job.
            values.setdefault("user", farm.welcome.user)
        job = changed_job(job, values, paused=arguments.paused)
        if arguments.dry_run:
            import json

            console.document(json.loads(job_bytes(job)))
            return 0
        reply = farm.submit(job_bytes(with_token(job)), repeat=True)
        name = farm.name
    if console.json:
        made = {"address": f"J{reply.job}", "number": reply.job, "name": job.name, "farm": name}
        console.document({"job": made, "again": reply.again, "warnings": list(reply.warnings)})
        return 0
    for warning in reply.warnings:
        console.note(f"warning: {warning}")
    steps = ", ".join(f"{one.name} {one.frames}" if one.frames else one.name for one in job.steps)
    console.line(f"J{reply.job} ({steps})")
    return 0


def _failed_frames(farm: Farm, address: str) -> dict[str, list[int | None]]:
    """Frames that failed, by step; a step that is one unit has the frame None."""
    found: dict[str, list[int | None]] = {}
    offset, more = 0, True
    while more:
        reply = farm.frames(address, ("failed",), offset=offset, limit=5000)
        for name, rows in reply.steps.items():
            offset += len(rows)
            if rows:
                found.setdefault(name, []).extend(row.frame for row in rows)
        more = reply.more
    if not found:
        raise CallError(f"nothing of {address} has failed", hint="leave --failed out")
    return found


COMMANDS = {
    "set": Command(
        _setup_set,
        _set,
        (
            "farm set J12 priority=70 max_cores=64",
            "farm set J12 start_after=2030-01-31T18:00:00+01:00",
            "farm set J12/beauty frames=1-240 chunk=4",
            "farm set J12/beauty resources.ram_mib=24GiB limits.nuke=1 pools=gpu,big",
        ),
    ),
    "resubmit": Command(
        _setup_resubmit,
        _resubmit,
        (
            "farm resubmit J12",
            "farm resubmit J12/beauty/17-20 --set resources.ram_mib=32GiB",
            "farm resubmit J12 --failed --paused",
        ),
    ),
}

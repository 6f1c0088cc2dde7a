"""The verb submit: a job from what was typed, checked here, sent, and answered.

Plug-ins call ``farm submit job.json --reply reply.json`` and read the reply file, since some programs
mangle standard output.  The file is written whole, ASCII only, in every case, errors included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farm.cli.command import Command, connect
from farm.cli.inputs import EXAMPLES, add_job_arguments, make_checked_job
from farm.model.errors import CallError, OvercrankError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console


def _setup(parser: argparse.ArgumentParser) -> None:
    add_job_arguments(parser)
    how = parser.add_argument_group("how")
    how.add_argument("--paused", action="store_true", help="start paused")
    how.add_argument(
        "--start-after",
        default="",
        metavar="TIME",
        help="not before this moment, with its offset, e.g. 2030-01-31T18:00:00+01:00",
    )
    how.add_argument(
        "--scout",
        type=int,
        metavar="N",
        help="render N frames of each step first, then wait for `farm resume` with an estimate",
    )
    how.add_argument("--max-cores", type=int, metavar="N", help="most cores the job may hold at once")
    how.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=N",
        help="counted tokens (licences) every chunk holds (repeatable)",
    )
    how.add_argument(
        "--force", action="store_true", help="submit it though no node of the farm could ever take it"
    )
    how.add_argument(
        "--token", default="", metavar="TEXT", help="submitting the same token again gives the same job"
    )
    how.add_argument("--wait", action="store_true", help="wait for the job; exit code 1 if it fails")
    how.add_argument("--reply", metavar="FILE", help="write the answer, or the error, to this JSON file")
    how.add_argument("--dry-run", action="store_true", help="check, print the job file, send nothing")


def _submit(arguments: argparse.Namespace, console: Console) -> int:
    try:
        code, answer = _send(arguments, console)
    except OvercrankError as error:
        if arguments.reply:
            from farm.cli.main import error_fields

            _write_reply(arguments.reply, {"error": error_fields(error)})
        raise
    except Exception as error:
        if arguments.reply:
            message = f"unexpected {type(error).__name__}: {error}"
            _write_reply(arguments.reply, {"error": {"code": "bug", "message": message, "hint": ""}})
        raise
    if arguments.reply:
        _write_reply(arguments.reply, answer)
    return code


def _send(arguments: argparse.Namespace, console: Console) -> tuple[int, dict[str, Any]]:
    from farm.sdk.jobfile import job_bytes, with_token

    job, warnings = make_checked_job(arguments)
    data = job_bytes(with_token(job))
    if arguments.dry_run:
        import json

        for warning in warnings:
            console.note(f"warning: {warning}")
        document = json.loads(job_bytes(job))
        console.document(document)
        return 0, {"dry_run": True, "spec": document, "warnings": warnings}
    with connect(arguments, submits=True) as farm:
        reply = farm.submit(data, repeat=True, force=arguments.force)
        warnings += [warning for warning in reply.warnings if warning not in warnings]
        answer: dict[str, Any] = {
            "job": {"address": f"J{reply.job}", "number": reply.job, "name": job.name, "farm": farm.name},
            "again": reply.again,
            "warnings": warnings,
        }
        if not console.json:
            for warning in warnings:
                console.note(f"warning: {warning}")
            again = " (submitted before)" if reply.again else ""
            console.line(f"J{reply.job}{again}")
            console.flush()
        if not arguments.wait:
            if console.json:
                console.document(answer)
            return 0, answer
        if arguments.reply:
            # Who waits for the file wants the job's number now, not when it has ended.
            _write_reply(arguments.reply, answer)
        from farm.cli import shapes
        from farm.cli.progress import job_line, succeeded, wait_for_job

        row = wait_for_job(farm, reply.job, console)
    if console.json:
        console.document(answer | {"ended": shapes.job_shape(row)})
    else:
        console.line(job_line(row))
    return (0 if succeeded(row) else 1), answer


def _write_reply(path: str, answer: dict[str, Any]) -> None:
    """Writes the reply whole or not at all: the reader may be waiting for the file to appear."""
    import os
    import tempfile
    from pathlib import Path

    from farm.cli.console import json_text

    target = Path(path)
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
            file.write(json_text(answer) + "\n")
        Path(name).replace(target)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise CallError(f"--reply {path} cannot be written: {error.strerror or error}") from error


COMMANDS = {
    "submit": Command(
        _setup,
        _submit,
        (*(f"farm submit {line}" for line in EXAMPLES), "farm submit job.json --reply reply.json"),
        takes_program=True,
    )
}

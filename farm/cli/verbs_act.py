"""The verbs that change work: pause, resume, cancel, requeue, retry, skip, mark-done, priority, next, last,
archive, delete.

What belongs here: the call and its words.  Whether it may be done, and by whom, is the broker's to say.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from farm.cli.command import Command, address_of, connect
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from farm.cli.console import Console

#: Actions on a whole job only.
_WHOLE_JOB = frozenset({"pause", "resume", "priority", "archive", "delete"})
#: What is to be said of several addresses.
_MORE = {
    "next": "; of several the first goes first",
    "last": "; of several the last goes last",
}


def _setup(action: str, parser: argparse.ArgumentParser) -> None:
    if action in _WHOLE_JOB:
        parser.add_argument("addresses", metavar="JOB", nargs="+", help="address of a job, e.g. J12")
    else:
        parser.add_argument(
            "addresses",
            metavar="ADDRESS",
            nargs="+",
            help=f"J12, J12/beauty or J12/beauty/17-20{_MORE.get(action, '')}",
        )
    parser.add_argument("--reason", default="", help="why, for those who look at the job later")


def _setup_priority(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="JOB", help="address of a job, e.g. J12")
    parser.add_argument("value", metavar="PRIORITY", type=int, help="0 to 100, 100 first")
    parser.add_argument("--reason", default="", help="why, for those who look at the job later")


def _act(action: str, arguments: argparse.Namespace, console: Console) -> int:
    whole = action in _WHOLE_JOB
    addresses = [address_of(text, whole_job=whole) for text in arguments.addresses]
    for address in addresses:
        if address.attempt is not None:
            raise CallError(f"{address} is an attempt", hint=f"say {str(address).partition('@')[0]}")
    if action == "next":
        # Each goes before all others, so the one that is named first has to come last.
        addresses.reverse()
    return _send(action, [str(address) for address in addresses], "", arguments, console)


def _priority(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address, whole_job=True)
    if not 0 <= arguments.value <= 100:
        raise CallError(f"a priority is 0 to 100, not {arguments.value}")
    return _send("priority", [str(address)], str(arguments.value), arguments, console)


def _setup_delete(parser: argparse.ArgumentParser) -> None:
    _setup("delete", parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _delete(arguments: argparse.Namespace, console: Console) -> int:
    addresses = [str(address_of(text, whole_job=True)) for text in arguments.addresses]
    if not arguments.yes:
        _confirm(addresses, arguments, console)
    return _send("delete", addresses, "", arguments, console)


def _confirm(addresses: list[str], arguments: argparse.Namespace, console: Console) -> None:
    """Asks whether the jobs are meant, naming them.

    Raises:
        CallError: Nobody can be asked, or the answer is no.
    """
    import sys

    if console.json or not sys.stdin.isatty():
        raise CallError(
            f"{' '.join(addresses)}: a deleted job is gone for good", hint="say --yes if it is meant"
        )
    with connect(arguments) as farm:
        for address in addresses:
            row = farm.job(int(address[1:])).job
            console.note(
                f"{address} {row.name}: {row.state}, {row.done} of {row.units} done, user {row.user}"
            )
    console.note("Their logs, previews and records go for good; their pictures stay.  Delete? [y/N] ")
    console.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallError("nothing was deleted")


def _send(
    action: str, addresses: list[str], value: str, arguments: argparse.Namespace, console: Console
) -> int:
    done = []
    with connect(arguments) as farm:
        for address in addresses:
            reply = farm.act(action, address, value, reason=arguments.reason)
            told: dict[str, object] = {"address": address, "changed": reply.changed, "message": reply.message}
            if action == "requeue":
                told["lost_core_s"] = round(reply.lost_core_us / 1e6, 6)
            done.append(told)
            if not console.json:
                console.line(reply.message or f"{address}: {action}")
    if console.json:
        console.document({"action": action, "results": done})
    return 0


def _command(action: str, *examples: str) -> Command:
    setup: Callable[[argparse.ArgumentParser], None] = partial(_setup, action)
    return Command(setup, partial(_act, action), examples)


COMMANDS = {
    "pause": _command("pause", "farm pause J12", "farm pause J12 J13 --reason 'waiting for textures'"),
    "resume": _command("resume", "farm resume J12"),
    "cancel": _command("cancel", "farm cancel J12", "farm cancel J12/beauty/17-20"),
    "requeue": _command(
        "requeue", "farm requeue J12/beauty/17-20", "farm requeue J12 --reason 'the texture server hangs'"
    ),
    "retry": _command("retry", "farm retry J12", "farm retry J12/beauty/17"),
    "skip": _command("skip", "farm skip J12/beauty/17"),
    "mark-done": _command("mark-done", "farm mark-done J12/beauty/17-20 --reason 'rendered by hand'"),
    "archive": _command("archive", "farm archive J12"),
    "delete": Command(
        _setup_delete, _delete, ("farm delete J12", "farm delete J12 J13 --yes --reason 'wrong shot'")
    ),
    "next": _command("next", "farm next J12", "farm next J12/beauty/17-20 --reason 'for dailies'"),
    "last": _command("last", "farm last J12", "farm last J12/beauty/1-10"),
    "priority": Command(_setup_priority, _priority, ("farm priority J12 75",)),
}

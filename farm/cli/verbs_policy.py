"""The verbs about how the farm shares itself: policy, limits.

What belongs here: the call and its words.  Which fields there are is ``farm.model.policy``, whether they
may be changed, and by whom, is the broker's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farm.cli.command import Command, connect
from farm.cli.text import NOTHING, time_text
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.cli.shapes import Shape
    from farm.protocol import client as wire

_PREFIX = "policy "
#: Most recorded changes looked through for those of the policy.
_PAGE, _PAGES = 1000, 20


# -- policy ------------------------------------------------------------------------------------------


def _setup_policy(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    actions.add_parser("show", help="print every field, with what limits hold")
    change = actions.add_parser("set", help="set fields; all of them, or none")
    change.add_argument(
        "values", metavar="KEY=VALUE", nargs="+", help="an empty VALUE takes an entry of a table away"
    )
    change.add_argument("--reason", default="", help="why, for those who look at it later")
    load = actions.add_parser("load", help="replace the whole policy")
    load.add_argument("file", metavar="FILE", help="TOML file; what it does not name is at its default")
    load.add_argument("--reason", default="", help="why, for those who look at it later")
    history = actions.add_parser("history", help="list changes, newest first")
    history.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default 50)")
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")


def _policy(arguments: argparse.Namespace, console: Console) -> int:
    action: str = arguments.action
    if action == "show":
        return _show(arguments, console)
    if action == "history":
        return _history(arguments, console)
    with connect(arguments) as farm:
        if action == "set":
            reply = farm.set_policy(_values(arguments.values), reason=arguments.reason)
        else:
            reply = farm.set_policy(whole=_read(arguments.file), reason=arguments.reason)
    if console.json:
        console.document({"action": f"policy-{action}", "changed": reply.changed, "message": reply.message})
    else:
        console.line(reply.message)
    return 0


def _values(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CallError(f"{text!r} is not KEY=VALUE", hint="e.g. limits.nuke.total=10")
        if key in found:
            raise CallError(f"{key} is set twice")
        found[key] = value
    return found


def _read(path: str) -> bytes:
    """A policy file as JSON, checked: a mistake is found before anything is sent.

    Raises:
        CallError: It cannot be read, is no TOML, or a field is wrong; names file and field.
    """
    import tomllib
    from pathlib import Path

    import msgspec

    from farm.model.policy import read_policy

    try:
        raw = tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CallError(f"{path} is no TOML: {error}") from error
    try:
        return msgspec.json.encode(read_policy(raw))
    except CallError as error:
        raise CallError(f"{path}: {error.message}", hint=error.hint) from error


def _show(arguments: argparse.Namespace, console: Console) -> int:
    with connect(arguments) as farm:
        reply = farm.policy()
    if console.json:
        import json

        limits = [_limit_shape(row) for row in reply.limits]
        console.document({"policy": json.loads(reply.whole), "values": reply.values, "limits": limits})
        return 0
    used = {f"limits.{row.name}.total": f"{row.used} in use" for row in reply.limits}
    console.table(
        ("FIELD~", "VALUE~", ""),
        [(key, value or NOTHING, used.get(key, "")) for key, value in reply.values.items()],
    )
    return 0


def _history(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.limit < 1:
        raise CallError(f"--limit is at least 1, not {arguments.limit}")
    found: list[wire.HistoryRow] = []
    before_us = 0
    with connect(arguments) as farm:
        for _ in range(_PAGES):
            rows = farm.history(before_us=before_us, limit=_PAGE).rows
            found += [row for row in rows if row.what.startswith(_PREFIX)]
            if len(rows) < _PAGE or len(found) >= arguments.limit:
                break
            before_us = rows[-1].at_us
    found = found[: arguments.limit]
    if console.json:
        from farm.cli import shapes

        console.document({"history": [shapes.history_shape(row) for row in found]})
        return 0
    if not found:
        console.line("the policy was never changed")
        return 0
    console.table(
        ("WHEN", "FIELD~", "OLD~", "NEW~", "WHO~", "REASON~"),
        [
            (
                time_text(row.at_us),
                row.what.removeprefix(_PREFIX),
                row.old or NOTHING,
                row.new or NOTHING,
                row.who or NOTHING,
                row.reason,
            )
            for row in found
        ],
    )
    return 0


# -- limits ------------------------------------------------------------------------------------------


def _setup_limits(parser: argparse.ArgumentParser) -> None:
    del parser


def _limits(arguments: argparse.Namespace, console: Console) -> int:
    with connect(arguments) as farm:
        rows = farm.policy().limits
    if console.json:
        console.document({"limits": [_limit_shape(row) for row in rows]})
        return 0
    if not rows:
        console.line("the farm has no limits; name one with e.g. `farm policy set limits.nuke.total=10`")
        return 0
    console.table(
        ("LIMIT~", "IN USE>", "TOTAL>", "PER", "HELD BY~", "WAITING~"),
        [
            (
                row.name,
                str(row.used),
                "not named" if row.total is None else str(row.total),
                row.per,
                ", ".join(f"{user} {count}" for user, count in row.holders.items()) or NOTHING,
                ", ".join(row.waiting) or NOTHING,
            )
            for row in rows
        ],
    )
    return 0


def _limit_shape(row: wire.LimitRow) -> Shape:
    shape: dict[str, Any] = {"name": row.name, "total": row.total, "per": row.per, "used": row.used}
    return shape | {"holders": row.holders, "waiting": list(row.waiting)}


COMMANDS = {
    "policy": Command(
        _setup_policy,
        _policy,
        (
            "farm policy show",
            "farm policy set limits.nuke.total=10 projects.film=3 'user_max_cores.*=64'",
            "farm policy set limits.nuke= --reason 'licences given back'",
            "farm policy load policy.toml",
            "farm policy history",
        ),
    ),
    "limits": Command(_setup_limits, _limits, ("farm limits", "farm limits --json")),
}

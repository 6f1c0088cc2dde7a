"""The verbs about who may enter: keys and join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli import shapes
from farm.cli.command import Command, connect
from farm.cli.text import NOTHING, duration_text
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console

_ROLES = ("artist", "wrangler", "admin", "agent")
_TTL_S = 900.0


def _setup_keys(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    verbs.add_parser("list", help="list keys")
    invite = verbs.add_parser("invite", help="make a token that lets one machine or person join")
    invite.add_argument("--role", choices=_ROLES, required=True, help="what the new key may do")
    invite.add_argument("--user", default="", help="whose key it will be (not for agents)")
    invite.add_argument("--pool", default="", help="pool of an agent")
    invite.add_argument("--site", default="", help="site of an agent (default: local)")
    invite.add_argument("--label", default="", help="free text beside the key")
    invite.add_argument(
        "--ttl-s", type=float, default=_TTL_S, help=f"seconds the token may be used (default {_TTL_S:g})"
    )
    revoke = verbs.add_parser("revoke", help="let a key in no more")
    revoke.add_argument("key", metavar="KEY", help="its label, fingerprint or public key")
    for verb in (invite, revoke):
        verb.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")
    verbs.choices["list"].add_argument("--json", action="store_true", default=None, dest="json_too")


def _keys(arguments: argparse.Namespace, console: Console) -> int:
    action: str = arguments.action
    fields: dict[str, object] = {}
    if action == "invite":
        if arguments.role != "agent" and not arguments.user:
            raise CallError(f"a key of role {arguments.role} belongs to somebody", hint="add --user NAME")
        if arguments.role == "agent" and arguments.user:
            raise CallError("an agent's key has no user", hint="leave --user out")
        if not 0 < arguments.ttl_s <= 30 * 86400:
            raise CallError(f"--ttl-s: {arguments.ttl_s:g} is not between 0 and {30 * 86400} (30 days)")
        fields = {
            name: getattr(arguments, name) for name in ("role", "user", "pool", "site", "label", "ttl_s")
        }
    elif action == "revoke":
        fields = {"key": arguments.key}
    with connect(arguments) as farm:
        reply = farm.keys(f"keys-{action}", **fields)
    if action == "invite":
        if console.json:
            console.document({"token": reply.token, "role": arguments.role, "ttl_s": arguments.ttl_s})
        else:
            console.line(reply.token)
            how = "farm agent --join TOKEN" if arguments.role == "agent" else "farm join TOKEN"
            console.note(f"valid for {duration_text(arguments.ttl_s)}, once; there: `{how}`")
        return 0
    if console.json:
        console.document({"keys": [shapes.key_shape(row) for row in reply.keys]})
    elif action == "revoke":
        console.line(f"revoked: {', '.join(row.label or row.public for row in reply.keys) or arguments.key}")
    elif not reply.keys:
        console.line("no keys")
    else:
        console.table(
            ("ROLE", "USER~", "POOL~", "SITE~", "LABEL~", "STATE", "PUBLIC KEY"),
            [
                (
                    row.role,
                    row.user or NOTHING,
                    row.pool or NOTHING,
                    row.site or NOTHING,
                    row.label or NOTHING,
                    "revoked" if row.revoked else "valid",
                    row.public,
                )
                for row in reply.keys
            ],
        )
    return 0


def _setup_join(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("token", metavar="TOKEN", help="the whole token; - reads it from standard input")
    parser.add_argument("--name", help="name to keep the farm under here (default: the token's)")
    parser.add_argument("--label", help="what administrators see beside the key (default: user@host)")


def _join(arguments: argparse.Namespace, console: Console) -> int:
    import sys

    from farm.sdk.connect import join

    token = sys.stdin.read() if arguments.token == "-" else arguments.token
    name, answer = join(token, name=arguments.name or arguments.farm, label=arguments.label or _own_label())
    who = (
        f"agents of pool {answer.pool or '(none)'}"
        if answer.role == "agent"
        else f"{answer.role} {answer.user}"
    )
    if console.json:
        console.document(
            {
                "farm": name,
                "farm_name": answer.farm_name,
                "role": answer.role,
                "user": answer.user,
                "pool": answer.pool,
                "site": answer.site,
            }
        )
    else:
        console.line(f"joined {answer.farm_name} as {who}; it is farm {name!r} here")
    return 0


def _own_label() -> str:
    import getpass
    import platform

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{platform.node()}"


COMMANDS = {
    "keys": Command(
        _setup_keys,
        _keys,
        (
            "farm keys list",
            "farm keys invite --role agent --pool gpu",
            "farm keys invite --role artist --user kim",
            "farm keys revoke kim@ws-12",
        ),
    ),
    "join": Command(
        _setup_join,
        _join,
        ("farm join ovc1-...", "farm join - < token.txt", "farm join ovc1-... --name studio"),
    ),
}

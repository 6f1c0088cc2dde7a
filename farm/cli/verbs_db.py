"""The verb about the broker's database: check, repair, back up, upgrade."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console


def _setup(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    check = verbs.add_parser("check", help="say whether the database is sound (a broker may be running)")
    check.add_argument("--quick", action="store_true", help="do not replay the whole history")
    verbs.add_parser("repair", help="make a sound database of a damaged one; the original is kept")
    backup = verbs.add_parser("backup", help="copy the database (a broker may be running)")
    backup.add_argument("file", nargs="?", metavar="FILE", help="where to; default: beside it, with the date")
    backup.add_argument("--force", action="store_true", help="replace FILE if it is there")
    verbs.add_parser("upgrade", help="bring the database to this version; a copy is made before")
    for verb in verbs.choices.values():
        verb.add_argument(
            "--database", metavar="URL", help="a database on a server; default: what the broker's options say"
        )
        verb.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from farm.config.load import load_broker_options
    from farm.config.places import Places, farm_name
    from farm.storage.opening import is_server

    name = farm_name(arguments.farm)
    database = arguments.database
    if database is None:
        database = load_broker_options(name, {}).database
    server = database if is_server(database) else ""
    return _ACTIONS[arguments.action](arguments, console, Places(name).database, server)


def _check(arguments: argparse.Namespace, console: Console, path: Path, server: str) -> int:
    from farm.storage.care import check_file, check_server

    health = (
        check_server(server, quick=arguments.quick) if server else check_file(path, quick=arguments.quick)
    )
    sound = not health.problems and not health.unfit
    if console.json:
        console.document(
            {
                "database": health.database,
                "sound": sound,
                "problems": health.problems + ([health.unfit] if health.unfit else []),
                "jobs": health.jobs,
                "steps": health.steps,
                "nodes": health.nodes,
                "rows": health.rows,
                "checkpoint": health.checkpoint,
                "last_row": health.last_seq,
            }
        )
        return 0 if sound else 1
    if sound:
        counted = f"{health.jobs} jobs, {health.nodes} nodes, {health.rows} rows of history"
        console.line(f"{health.database} is sound: {counted}")
        return 0
    if health.unfit and not health.problems:
        console.line(f"{health.database} is not damaged, but cannot be checked: {health.unfit}")
        console.note(f"what to do: {health.cure}")
        return 1
    console.line(f"{health.database} is damaged:")
    for problem in health.problems:
        console.line(f"  {problem}")
    how = "put a backup in its place" if server else "stop the broker, then `farm db repair`"
    console.note(f"what to do: {how}")
    return 1


def _repair(arguments: argparse.Namespace, console: Console, path: Path, server: str) -> int:
    from farm.storage.mend import repair_file

    if server:
        raise CallError(
            "a database on a server is repaired with its own tools",
            hint="put a backup in its place with pg_restore",
        )
    mended = repair_file(path)
    if console.json:
        console.document(
            {
                "database": str(path),
                "damaged": bool(mended.kept),
                "kept": mended.kept or None,
                "lost": mended.lost,
                "jobs": mended.jobs,
                "rows": mended.rows,
            }
        )
    elif not mended.kept:
        console.line(f"{path} is sound; nothing was done")
    else:
        console.line(f"{path} was made anew: {mended.jobs} jobs, {mended.rows} rows of history")
        console.line(f"the damaged one is {mended.kept}")
        console.line("lost:" if mended.lost else "nothing was lost")
        for text in mended.lost:
            console.line(f"  {text}")
    return 0


def _backup(arguments: argparse.Namespace, console: Console, path: Path, server: str) -> int:
    from farm.storage.care import backup_file

    if server:
        from farm.storage.postgres import label_of

        command = f"pg_dump --format=custom --file={arguments.file or 'farm.dump'} '{label_of(server)}'"
        if console.json:
            console.document({"database": label_of(server), "command": command})
        else:
            console.note("a database on a server is copied with its own tool, while the broker runs:")
            console.line(command)
        return 0
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target = Path(arguments.file) if arguments.file else path.with_name(f"{path.name}.backup-{stamp}")
    target = target.absolute()
    size = backup_file(path, target, force=arguments.force)
    if console.json:
        console.document({"database": str(path), "backup": str(target), "bytes": size})
    else:
        console.line(str(target))
        console.note(
            "keys of the broker, logs and previews are not in it: they are files beside the database"
        )
    return 0


def _upgrade(arguments: argparse.Namespace, console: Console, path: Path, server: str) -> int:
    if server:
        from farm.storage.postgres import PostgresStore, label_of

        PostgresStore(server).close()
        place, backup = label_of(server), None
    else:
        from farm.model.errors import StorageError
        from farm.storage.upgrade import upgrade

        if not path.is_file():
            raise StorageError(f"there is no database {path}")
        place, backup = str(path), upgrade(path)
    from farm.storage.ddl import HEAD

    if console.json:
        console.document(
            {"database": place, "schema": HEAD, "backup": str(backup) if backup is not None else None}
        )
        return 0
    console.line(f"{place} has schema {HEAD}")
    if backup is not None:
        console.line(f"the one before is {backup}")
    return 0


_ACTIONS = {"check": _check, "repair": _repair, "backup": _backup, "upgrade": _upgrade}

COMMANDS = {
    "db": Command(
        _setup,
        _run,
        (
            "farm db check                            # is the database sound?",
            "farm db backup /backups/farm.db          # a copy, while the broker runs",
            "farm db repair                           # after `farm db check` found damage; broker stopped",
        ),
    )
}

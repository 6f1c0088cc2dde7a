"""The verb that puts submitters into other programs: list, install, build, remove.

What belongs here: arguments and what is printed.  What must not: finding programs and packing
(``farm.cli.plugin``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.text import NOTHING
from farm.model.errors import CallError, NotBuiltYet

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.cli.plugin.blenders import Answer
    from farm.renderers.base import AppInstall

#: Programs with a plug-in, and those that are to get one.
BUILT = ("blender",)
LATER = (
    "maya",
    "nuke",
    "houdini",
    "aftereffects",
    "cinema4d",
    "unreal",
    "3dsmax",
    "fusion",
    "resolve",
    "natron",
)


def _setup(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    listing = actions.add_parser("list", help="list programs found here and the plug-ins in them")
    install = actions.add_parser("install", help="put the plug-in into every version found, and enable it")
    build = actions.add_parser("build", help="write the plug-in's zips, to be installed by hand or elsewhere")
    remove = actions.add_parser("remove", help="take the plug-in out of every version found")
    listing.add_argument("app", metavar="PROGRAM", nargs="?", default="", help="blender (default: all)")
    for verb in (install, build, remove):
        verb.add_argument("app", metavar="PROGRAM", help="blender")
    for verb in (listing, install, remove):
        verb.add_argument(
            "--blender",
            action="append",
            default=[],
            metavar="PATH",
            help="only this Blender program (repeatable)",
        )
        verb.add_argument(
            "--path",
            action="append",
            default=[],
            metavar="FOLDER",
            help="look in this folder too, for a Blender or several versions (repeatable)",
        )
    build.add_argument("--out", required=True, metavar="DIR", help="folder for the zips")
    for verb in (listing, install, build, remove):
        verb.add_argument("--json", action="store_true", default=None, dest="json_too", help="print JSON")


def _plugin(arguments: argparse.Namespace, console: Console) -> int:
    console.json = console.json or bool(arguments.json_too)
    app: str = arguments.app.lower()
    if app in LATER:
        raise NotBuiltYet(
            f"a plug-in for {arguments.app} is not built yet", hint=f"there is one for {', '.join(BUILT)}"
        )
    if (app or arguments.action != "list") and app not in BUILT:
        raise CallError(
            f"there is no plug-in for {arguments.app!r}", hint=f"there is one for {', '.join(BUILT)}"
        )
    given = (getattr(arguments, "out", "-"), *(getattr(arguments, "path", None) or ()))
    if not all(given):
        raise CallError("--out and --path take a folder, and one of them is empty")
    if arguments.action == "build":
        return _build(arguments, console)
    return _each(arguments, console, app)


def _build(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from farm.cli.plugin.sources import build_blender, plugin_version

    folder = Path(arguments.out).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CallError(f"--out {folder} cannot be made: {error.strerror or error}") from error
    version = plugin_version("blender")
    zips = []
    for form, extension, versions in (("add-on", False, "3.4 to 4.1"), ("extension", True, "4.2 and later")):
        path = folder / f"overcrank-blender-{form}-{version}.zip"
        build_blender(path, extension=extension)
        zips.append({"form": form, "path": str(path), "for": f"Blender {versions}", "version": version})
    if console.json:
        console.document({"built": zips})
    else:
        for made in zips:
            console.line(f"{made['path']}  ({made['form']}, {made['for']})")
    return 0


def _each(arguments: argparse.Namespace, console: Console, app: str) -> int:
    from farm.cli.plugin import blenders

    action = {"list": "look"}.get(arguments.action, arguments.action)
    try:
        found = blenders.find(arguments.blender, arguments.path)
    except CallError:
        if action != "look" or app or arguments.blender or arguments.path:
            raise
        found = []
    rows: list[tuple[AppInstall, Answer, str]] = []
    for install in found:
        if blenders.too_old(install):
            answer = blenders.Answer(blender=install.version)
            rows.append((install, answer, "too old: the add-on needs Blender 3.4"))
            continue
        answer = blenders.act(install, action)
        rows.append((install, answer, _said(answer, action)))
    failed = [answer for _, answer, _ in rows if answer.error]
    done = [answer for _, answer, _ in rows if not answer.error and answer.wants]
    if console.json:
        console.document({"action": arguments.action, "programs": [_shape(*row) for row in rows]})
    else:
        if not app and action == "look":
            _tell_later(console)
        if rows:
            console.table(
                ("PROGRAM~", "VERSION", "PLUG-IN"), [(i.argv[0], i.version, said) for i, _, said in rows]
            )
        elif action == "look":
            console.line("no Blender was found on this machine")
        if done and action == "install":
            console.note(
                "a Blender that is open sees it after a restart; see Properties > Render > Overcrank"
            )
    return 0 if not failed and (done or action == "look") else 1


def _said(answer: Answer, action: str) -> str:
    if answer.error:
        return f"failed: {answer.error}"
    state = (
        f"{answer.form} {answer.version}{'' if answer.enabled else ', not enabled'}"
        if answer.form
        else NOTHING
    )
    if action == "install":
        return f"installed as {answer.form} {answer.version}"
    return "removed" if action == "remove" else state


def _shape(install: AppInstall, answer: Answer, said: str) -> dict[str, object]:
    return {
        "program": install.argv[0],
        "version": install.version,
        "form": answer.form,
        "plugin": answer.version,
        "enabled": answer.enabled,
        "error": answer.error,
        "message": said,
    }


def _tell_later(console: Console) -> None:
    console.line(f"plug-ins: {', '.join(BUILT)}; not built yet: {', '.join(LATER)}")


COMMANDS = {
    "plugin": Command(
        _setup,
        _plugin,
        (
            "farm plugin list",
            "farm plugin install blender",
            "farm plugin install blender --blender ~/Downloads/blender-4.2.3-linux-x64/blender",
            "farm plugin build blender --out zips",
            "farm plugin remove blender",
        ),
    )
}

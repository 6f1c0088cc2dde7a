"""The verb schema: job files and renderer parameters, generated from the typed records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.text import NOTHING
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("job", "renderer", "renderers", "options"), help="what to describe")
    parser.add_argument("name", nargs="?", default="", help="which renderer")


def _schema(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.what == "renderer" and not arguments.name:
        raise CallError("which renderer?", hint="see `farm schema renderers`")
    if arguments.what != "renderer" and arguments.name:
        raise CallError(f"`farm schema {arguments.what}` takes no name")
    if arguments.what == "job":
        from farm.model.jobs import job_schema

        console.document(job_schema())
        return 0
    if arguments.what == "options":
        return _options(console)
    from farm.renderers.registry import describe, get_renderer, renderers

    if arguments.what == "renderers":
        every = renderers()
        if console.json:
            console.document(
                {
                    "renderers": [
                        {"name": name, "summary": one.summary, "suffixes": list(one.suffixes)}
                        for name, one in every.items()
                    ]
                }
            )
        else:
            console.table(
                ("RENDERER", "FILES", "WHAT IT DOES~"),
                [(name, " ".join(one.suffixes) or NOTHING, one.summary) for name, one in every.items()],
            )
        return 0
    renderer = get_renderer(arguments.name)
    params = describe(renderer)
    if console.json:
        console.document(
            {
                "renderer": renderer.name,
                "summary": renderer.summary,
                "kinds": sorted(renderer.kinds),
                "params": [
                    {
                        "name": one.name,
                        "type": one.type,
                        "default": one.default,
                        "required": one.required,
                        "help": one.help,
                    }
                    for one in params
                ],
            }
        )
        return 0
    console.line(f"{renderer.name}: {renderer.summary}")
    console.table(
        ("PARAMETER", "TYPE~", "DEFAULT~", "MEANING~"),
        [(one.name, one.type, "required" if one.required else one.default, one.help) for one in params],
    )
    return 0


def _options(console: Console) -> int:
    from farm.config.load import options

    found = options()
    if console.json:
        console.document(
            {"options": [{field: getattr(one, field) for field in one.__struct_fields__} for one in found]}
        )
    else:
        console.table(
            ("TABLE", "OPTION", "TYPE~", "DEFAULT", "UNIT", "MEANING~"),
            [(f"[{one.group}]", one.name, one.kind, one.default, one.unit, one.help) for one in found],
        )
    return 0


COMMANDS = {
    "schema": Command(
        _setup,
        _schema,
        (
            "farm schema job > job.schema.json",
            "farm schema renderers",
            "farm schema renderer blender",
            "farm schema options",
        ),
    )
}

"""The verb that opens the desktop client.

What belongs here: its options.  What must not: importing Qt before the client is asked for, and anything of
the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console

_LOOKS = ("dark", "light", "contrast", "system")


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="J12", help="open this job")
    parser.add_argument("--submit", metavar="FILE", help="open the form to submit with this file")
    parser.add_argument(
        "--new", action="store_true", help="open another client, also when one is open already"
    )
    parser.add_argument("--look", choices=_LOOKS, help="how it looks this time (default: as chosen before)")
    parser.add_argument(
        "--safe", action="store_true", help="pass over the arrangement of windows that was remembered"
    )
    parser.add_argument(
        "--screenshot", metavar="FOLDER", help="put pictures of every dock into a folder and end"
    )
    parser.add_argument(
        "--scenario", metavar="FILE", help="with --screenshot: show a simulated farm of this scenario"
    )


def _gui(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from farm.cli.command import address_of

    if console.json:
        raise CallError("`farm gui` prints nothing, so --json means nothing to it")
    if arguments.scenario and not arguments.screenshot:
        raise CallError(
            "--scenario is for pictures: it needs --screenshot FOLDER",
            hint="`farm simulate SCENARIO --serve` serves one as a farm that `farm gui` can show",
        )
    job = int(address_of(arguments.job, whole_job=True).job) if arguments.job else 0
    submit = Path(arguments.submit) if arguments.submit else None
    if submit is not None and not submit.exists():
        raise CallError(f"--submit: there is no file {submit}")
    from client_gui.app import Options, run
    from farm.config.places import check_farm_name

    if arguments.farm:
        check_farm_name(arguments.farm, "--farm")
    return run(
        Options(
            farm=arguments.farm,
            safe=arguments.safe,
            look=arguments.look or "",
            job=job,
            submit=submit,
            new=arguments.new,
            screenshot=Path(arguments.screenshot) if arguments.screenshot else None,
            scenario=Path(arguments.scenario) if arguments.scenario else None,
        )
    )


COMMANDS = {
    "gui": Command(
        _setup,
        _gui,
        (
            "farm gui                     the farm joined last, else this machine's",
            "farm gui --farm west --job J12",
            "farm gui --submit shot010.blend",
            "farm gui --new               beside the one that is open already",
            "farm gui --safe              when a window does not open as it should",
        ),
    )
}

"""The verb that says what is missing on this machine and how to mend it.

What belongs here: which checks there are and how they are printed.  What must not: looking itself
(``farm.cli.doctor``), and mending: it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.cli.doctor.check import Check

_WIDTH = 14


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problems", action="store_true", help="print only what is not in order")


def look(name: str) -> list[Check]:
    """Every check, in the order they are printed."""
    from farm.cli.doctor import farms, machine, software
    from farm.cli.doctor.check import run_checks

    newest_us = 0

    def ask_broker() -> Check:
        nonlocal newest_us
        check, newest_us = farms.broker(name)
        return check

    return run_checks(
        {
            "system": machine.system,
            "machine": machine.resources,
            "gpu": machine.gpus,
            "open-files": machine.open_files,
            "temporary": machine.temporary,
            "python": software.python,
            "packages": software.packages,
            "encryption": software.encryption,
            "pictures": software.pictures,
            "ffmpeg": software.ffmpeg,
            "renderers": software.renderers,
            "options": lambda: farms.options(name),
            "folders": lambda: farms.folders(name),
            "keys": lambda: farms.keys(name),
            "ports": lambda: farms.ports(name),
            "broker": ask_broker,
            "clock": lambda: machine.clock(newest_us=newest_us),
        }
    )


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    from farm.config.places import farm_name

    name = farm_name(arguments.farm)
    checks = look(name)
    ready = not any(check.blocks for check in checks)
    if console.json:
        shown = [
            {field: getattr(check, field) for field in ("name", "status", "needed", "detail", "cure")}
            for check in checks
            if not arguments.problems or check.status != "ok"
        ]
        console.document({"ready": ready, "farm": name, "checks": shown})
        return 0 if ready else 1
    for check in checks:
        if arguments.problems and check.status == "ok":
            continue
        word = "MISSING" if check.blocks else check.status
        console.line(f"{word:<8} {check.name:<{_WIDTH}} {check.detail}")
        if check.cure and check.status != "ok":
            console.line(f"{'':<8} {'':<{_WIDTH}} -> {check.cure}")
    console.line()
    if ready:
        console.line("Everything that `farm demo` needs is here.")
    else:
        lacking = dict.fromkeys(check.name for check in checks if check.blocks)
        console.line(f"`farm demo` cannot run before this is mended: {', '.join(lacking)}")
    return 0 if ready else 1


COMMANDS = {
    "doctor": Command(
        _setup,
        _doctor,
        ("farm doctor", "farm doctor --problems", "farm doctor --farm studio --json"),
    )
}

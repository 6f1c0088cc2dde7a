"""What a verb's module gives: its arguments and what it does.

What belongs here: the record and the pieces of argument parsing that verbs share.  argparse is imported by
``farm.cli.main`` only once a verb was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from farm.model.errors import CallError
from farm.model.ids import Address, parse_address

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.sdk.client import Farm


class Command(NamedTuple):
    """A verb's implementation.

    Attributes:
        setup: Adds the verb's arguments to its parser (``--farm`` and ``--json`` are there already).
        run: Does it; returns the exit code.  ``arguments.program`` holds what stood after ``--``.
        examples: Lines for the end of ``--help``.
        takes_program: Whether ``-- PROGRAM ARGS`` may follow.
    """

    setup: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Console], int]
    examples: tuple[str, ...] = ()
    takes_program: bool = False


def connect(arguments: argparse.Namespace, *, submits: bool = False) -> Farm:
    """A session with the farm that the arguments name.

    A private farm whose command has ended is opened again, without agents, for as long as this command
    runs, so that its logs and its spend can still be asked for.

    Args:
        arguments: Of the command.
        submits: It makes a new job, which what is left of a simulated farm does not take.
    """
    from farm.config.places import Places, farm_name, read_endpoint
    from farm.sdk.client import Farm

    places = Places(farm_name(arguments.farm))
    if places.is_private and places.database.exists():
        endpoint = read_endpoint(places.endpoint)
        if endpoint is None or endpoint.process_gone:
            import atexit

            from farm.cli.private import PrivateFarm, refuse_simulated

            if submits:
                refuse_simulated(places)
            private = PrivateFarm(0, name=places.farm)
            atexit.register(private.close)
            private.start()
    return Farm.connect(arguments.farm)


def address_of(text: str, *, whole_job: bool = False) -> Address:
    """Parses an address argument.

    Raises:
        CallError: It is none, or names more than a job where a job is asked for.
    """
    address = parse_address(text)
    if whole_job and str(address) != f"J{address.job}":
        raise CallError(f"{text!r} is not a job", hint=f"write J{address.job}")
    if address.frames is not None:
        from farm.model.frames import FrameRange

        FrameRange.parse(address.frames)
    return address


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Adds ``--watch``."""
    parser.add_argument(
        "--watch", action="store_true", help="go on showing changes until Ctrl-C; in a pipe each as it comes"
    )

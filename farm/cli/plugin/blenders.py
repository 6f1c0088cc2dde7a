"""The Blenders of this machine, and the add-on in them.

What belongs here: where people keep Blenders, starting one in the background with the setup script, and its
answer.  What must not: what the script does inside (``plugins/_install/blender_setup.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from farm.cli.plugin.sources import build_blender, farm_command, sources
from farm.model.errors import CallError
from farm.renderers.base import AppInstall

#: A first start with many add-ons takes this long on a slow disk.
TIMEOUT_S = 180.0
#: The oldest Blender the add-on runs in.
OLDEST = (3, 4)


class Answer(msgspec.Struct):
    """What a Blender's setup script said.

    Attributes:
        blender: Version of Blender.
        form: ``add-on``, ``extension``, or empty when it is not installed.
        version: Version of the installed plug-in.
        module: Name it is enabled under.
        enabled: Whether it is.
        wants: The form this Blender takes.
        error: Why it did not work.
    """

    blender: str = ""
    form: str = ""
    version: str = ""
    module: str = ""
    enabled: bool = False
    wants: str = ""
    error: str = ""


def find(programs: Iterable[str], folders: Iterable[str]) -> list[AppInstall]:
    """Blenders named by a person, else all that are found; newest first.

    Args:
        programs: Programs named; when there are any, no other is taken.
        folders: Further folders to look in, which hold a Blender or several versions.

    Raises:
        CallError: One that was named is no Blender, or there is none at all.
    """
    from node_agent.apps import find_blenders

    named = [Path(program).expanduser().absolute() for program in programs]
    if named:
        found: list[AppInstall] = []
        for program in named:
            mine = find_blenders([program], path="") if program.exists() else []
            if not mine:
                raise CallError(f"--blender {program} is no Blender", hint="name the program itself")
            found += [app for app in mine if app not in found]
        return found
    extra = [Path(folder).expanduser().absolute() for folder in folders]
    for folder in extra:
        if not folder.is_dir():
            raise CallError(f"--path {folder} is no folder")
    found = find_blenders([*extra, *(place for place in usual_places() if place.exists())])
    if not found:
        raise CallError(
            "no Blender was found on this machine",
            hint="name one: --blender PATH, or a folder: --path FOLDER",
        )
    return found


def usual_places() -> Iterator[Path]:
    """Where people keep Blenders beside the PATH: programs, and folders with one folder a version."""
    home = Path.home()
    if sys.platform == "darwin":
        for base in (Path("/Applications"), home / "Applications"):
            for app in sorted(base.glob("[Bb]lender*.app")):
                yield app / "Contents" / "MacOS" / "Blender"
        return
    if sys.platform == "win32":
        base = Path(os.environ.get("PROGRAMFILES", r"C:\Program Files")) / "Blender Foundation"
        yield from sorted(base.glob("Blender*/blender.exe"))
        return
    yield from (Path("/usr/bin/blender"), Path("/usr/local/bin/blender"), Path("/snap/bin/blender"))
    yield from (
        Path("/opt"),
        home,
        home / "Downloads",
        home / "Applications",
        home / "Desktop",
        home / "blender",
    )
    yield home / ".local" / "share" / "Steam" / "steamapps" / "common" / "Blender"


def too_old(app: AppInstall) -> bool:
    """Whether the add-on does not run in it."""
    numbers = tuple(int(part) for part in app.version.split(".")[:2] if part.isdigit())
    return numbers < OLDEST


def act(app: AppInstall, action: str) -> Answer:
    """Starts a Blender and does one thing in it.

    Args:
        app: The Blender.
        action: ``install``, ``remove`` or ``look``.

    Returns:
        What it said; its ``error`` says why it did not work.
    """
    with tempfile.TemporaryDirectory(prefix="overcrank-plugin-") as name:
        folder = Path(name)
        answer_file = folder / "answer.json"
        words = [action, str(answer_file)]
        if action == "install":
            extension = tuple(int(part) for part in app.version.split(".")[:2]) >= (4, 2)
            target = folder / "overcrank.zip"
            words.append(str(build_blender(target, extension=extension, command=farm_command())))
        script = sources() / "_install" / "blender_setup.py"
        # The user's own settings are read on purpose: the add-on is enabled in them.
        argv = [*app.argv, "--background", "-noaudio", "--python", str(script), "--", *words]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
                env=_environment(),
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"Blender did not end within {TIMEOUT_S:.0f} seconds")
        except OSError as error:
            return Answer(error=f"Blender cannot be started: {error.strerror or error}")
        try:
            return msgspec.json.decode(answer_file.read_bytes(), type=Answer)
        except (OSError, msgspec.DecodeError):
            said = " ".join(done.stdout.decode("utf-8", "replace").split())[-300:]
            return Answer(error=f"Blender ended without an answer (exit code {done.returncode}): {said}")


def _environment() -> dict[str, str]:
    """This process's environment without what would lead Blender's own Python astray."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}

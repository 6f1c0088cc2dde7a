"""Finds the ffmpeg program and runs its small questions.

Belongs here: where the program is and what version it has.  Command lines for work are made by who
does the work.  Never a shell string.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from farm.model.errors import UnknownName

#: Environment variable that names the program, before any other place.
VARIABLE = "OVERCRANK_FFMPEG"
_HINT = f"install ffmpeg (apt install ffmpeg, or pip install imageio-ffmpeg) or set {VARIABLE} to its path"
#: Seconds the program may take to tell its version.
_PATIENCE_S = 30.0


def find_ffmpeg(environ: Mapping[str, str] | None = None) -> str:
    """Path of the ffmpeg program: ``OVERCRANK_FFMPEG``, then ``PATH``, then imageio-ffmpeg's.

    A variable that is set is obeyed or refused, never passed over: a farm pins one build on purpose.

    Args:
        environ: Environment to look in; the process's own when None.

    Raises:
        UnknownName: There is none; the hint says what to install.
    """
    variables = os.environ if environ is None else environ
    chosen = variables.get(VARIABLE, "")
    if chosen:
        found = shutil.which(chosen, path=variables.get("PATH"))
        if found is None:
            raise UnknownName(f"{VARIABLE}={chosen} is no program", hint=_HINT)
        return str(Path(found).absolute())
    found = shutil.which("ffmpeg", path=variables.get("PATH"))
    if found is not None:
        return str(Path(found).absolute())
    try:
        import imageio_ffmpeg

        return str(Path(imageio_ffmpeg.get_ffmpeg_exe()).absolute())
    except (ImportError, RuntimeError, OSError):
        raise UnknownName("there is no ffmpeg program on this machine", hint=_HINT) from None


@functools.lru_cache(maxsize=8)
def ffmpeg_version(path: str) -> str:
    """Version text of an ffmpeg program, e.g. ``5.1.9-0+deb12u1``.

    Raises:
        UnknownName: The program does not start or is no ffmpeg.
    """
    try:
        done = subprocess.run(
            [path, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UnknownName(f"{path} cannot be started as ffmpeg: {error}", hint=_HINT) from error
    match = re.match(r"ffmpeg version (\S+)", done.stdout.decode("utf-8", "replace"))
    if match is None:
        raise UnknownName(f"{path} does not answer as ffmpeg does", hint=_HINT)
    return match[1]


def version_key(version: str) -> tuple[int, int]:
    """Major and minor number of a version text; (99, 0) for builds named by date or commit.

    Such builds are made from the development branch, so they know the newest options.
    """
    match = re.match(r"n?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (99, 0)


def passthrough_option(path: str) -> tuple[str, str]:
    """The option that keeps every frame's own time: its name changed with version 5.1."""
    return ("-fps_mode" if version_key(ffmpeg_version(path)) >= (5, 1) else "-vsync", "passthrough")

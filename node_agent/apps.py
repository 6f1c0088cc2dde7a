"""Which applications this machine can start, and in which version.

What belongs here: finding programs and wheels, asking programs for their version, remembering the
answer.  What it may not know: how a renderer uses them.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from farm.model.errors import OvercrankError
from farm.renderers.base import AppInstall

_LOG = logging.getLogger(__name__)
#: A first start from a network disk can take this long.
VERSION_TIMEOUT_S = 60.0
_BLENDER = re.compile(r"^Blender (\d+(?:\.\d+)+)", re.MULTILINE)


class _Answer(msgspec.Struct):
    """A program's version, valid while the file looks the same."""

    mtime_ns: int
    size: int
    version: str


def probe_apps(
    blender_paths: Iterable[Path] = (), *, cache: Path | None = None, path: str | None = None
) -> list[AppInstall]:
    """Every application found: Blender programs and wheel, Mitsuba, ffmpeg; newest first of each.

    Args:
        blender_paths: Blender programs, or folders that hold one or several versions of it, beside
            those on the PATH.
        cache: JSON file that remembers versions; asking Blender takes a second each.
        path: PATH to search instead of the environment's.
    """
    found = find_blenders(blender_paths, cache=cache, path=path)
    for name, distribution, flavour in (("blender", "bpy", "bpy"), ("mitsuba", "mitsuba", "exe")):
        version = wheel_version(distribution)
        if version:
            found.append(AppInstall(name, version, (sys.executable,), flavour))
    try:
        from farm.media.ffmpeg import ffmpeg_version, find_ffmpeg

        program = find_ffmpeg()
        found.append(AppInstall("ffmpeg", ffmpeg_version(program), (str(program),)))
    except OvercrankError as error:
        _LOG.info("no ffmpeg here: %s", error)
    return found


def wheel_version(distribution: str) -> str:
    """Version of an installed Python distribution, "" if there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def find_blenders(
    extra: Iterable[Path] = (), *, cache: Path | None = None, path: str | None = None
) -> list[AppInstall]:
    """Blender programs, newest version first; the same file under two names counts once."""
    answers = _load(cache)
    fresh: dict[str, _Answer] = {}
    found: list[AppInstall] = []
    seen: set[Path] = set()
    for program in _candidates(extra, os.environ.get("PATH", os.defpath) if path is None else path):
        real = program.resolve()
        if real in seen:
            continue
        seen.add(real)
        try:
            facts = real.stat()
        except OSError:
            continue
        answer = answers.get(str(real))
        if answer is None or (answer.mtime_ns, answer.size) != (facts.st_mtime_ns, facts.st_size):
            version = ask_blender(program)
            if not version:
                continue  # not remembered: it may be mended by the next start
            answer = _Answer(facts.st_mtime_ns, facts.st_size, version)
        fresh[str(real)] = answer
        found.append(AppInstall("blender", answer.version, (str(program),)))
    if fresh != answers:
        _save(cache, fresh)
    # Stable: of equal versions the one found first (PATH before extras) stays first.
    return sorted(found, key=lambda app: _version_key(app.version), reverse=True)


def ask_blender(program: Path, timeout_s: float = VERSION_TIMEOUT_S) -> str:
    """What ``blender --version`` says, "" if it says nothing useful in time."""
    try:
        done = subprocess.run(
            [str(program), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.warning("%s does not tell its version: %s", program, error)
        return ""
    # Libraries may print warnings before it.
    match = _BLENDER.search(done.stdout.decode("utf-8", "replace"))
    if match is None:
        _LOG.warning("%s --version does not look like Blender's (exit code %d)", program, done.returncode)
        return ""
    return match[1]


def _candidates(extra: Iterable[Path], path: str) -> Iterator[Path]:
    for folder in path.split(os.pathsep):
        if folder and _runnable(program := Path(folder).absolute() / "blender"):
            yield program
    for place in extra:
        place = place.expanduser().absolute()
        if _runnable(place):
            yield place
        elif place.is_dir():
            # /opt/blender-4.2/blender given as its folder, or /opt with one folder per version.
            inside = [place / "blender", *sorted(place.glob("[Bb]lender*/blender"))]
            yield from (program for program in inside if _runnable(program))
        else:
            _LOG.warning("no Blender at %s", place)


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _load(cache: Path | None) -> dict[str, _Answer]:
    if cache is None:
        return {}
    try:
        return msgspec.json.decode(cache.read_bytes(), type=dict[str, _Answer])
    except (OSError, msgspec.MsgspecError):
        return {}


def _save(cache: Path | None, answers: dict[str, _Answer]) -> None:
    if cache is None:
        return
    # Written beside and renamed, since several agents of a machine share the file.
    beside = cache.with_name(f"{cache.name}.{os.getpid()}.new")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.encode(answers))
        beside.replace(cache)
    except OSError as error:
        _LOG.warning("cannot write %s: %s", cache, error.strerror)

"""What is true of any file on disk: it is there, regular, not empty, complete, and has a hash.

Belongs here: facts that need no knowledge of pictures or movies.  This module imports nothing heavy,
so that choosing a verifier costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Literal

from farm.model.errors import OutputError

Kind = Literal["picture", "movie", "plain"]

#: Bytes read at a time while hashing.
_BLOCK = 1 << 20

PICTURE_SUFFIXES = frozenset(
    {
        *(".exr", ".sxr", ".mxr", ".png", ".jpg", ".jpeg", ".jpe", ".jif", ".jfif", ".tif", ".tiff", ".tx"),
        *(".tga", ".bmp", ".hdr", ".rgbe", ".dpx", ".cin", ".webp", ".jp2", ".j2k", ".j2c", ".jxl", ".psd"),
        *(".psb", ".sgi", ".rgb", ".rgba", ".bw", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm", ".pic", ".rla"),
        *(".iff", ".gif"),
    }
)
MOVIE_SUFFIXES = frozenset(
    {
        *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mxf", ".ts", ".mts", ".m2ts", ".mpg", ".mpeg"),
        *(".wmv", ".flv", ".ogv", ".3gp"),
    }
)


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Which verifier a file name asks for, by its suffix alone.

    The content decides whether the file is good; the name only says what was promised.
    """
    suffix = Path(path).suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        return "picture"
    if suffix in MOVIE_SUFFIXES:
        return "movie"
    return "plain"


def size_of(path: str | os.PathLike[str]) -> int:
    """Size in bytes of a regular file that is not empty.

    Raises:
        OutputError: The file is missing, empty, unreadable or no regular file.
    """
    name = os.fspath(path)
    try:
        facts = os.stat(name)  # noqa: PTH116 - Path would normalise what the message must show untouched
    except FileNotFoundError:
        raise OutputError(f"{name}: the file does not exist", name) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OutputError(f"{name}: the file cannot be reached: {reason}", name) from error
    if not stat.S_ISREG(facts.st_mode):
        what = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        raise OutputError(f"{name}: is {what}", name)
    if facts.st_size == 0:
        raise OutputError(f"{name}: the file is empty (0 bytes)", name)
    return facts.st_size


def hash_file(path: str | os.PathLike[str], size: int) -> str:
    """SHA-256 of a file in hex, read in blocks.

    Args:
        path: The file.
        size: The size it had when its verification began.

    Raises:
        OutputError: It cannot be read, or another process is still changing it: then whatever was
            verified is not what is on the disk now.
    """
    name = os.fspath(path)
    digest = hashlib.sha256()
    count = 0
    try:
        with Path(name).open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                count += len(block)
    except OSError as error:
        raise OutputError(f"{name}: the file cannot be read: {error.strerror}", name) from error
    if count != size:
        raise OutputError(f"{name}: the file changed from {size} to {count} bytes while it was checked", name)
    return digest.hexdigest()

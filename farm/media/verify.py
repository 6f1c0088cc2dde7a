"""Verifies one output file of any kind: the one door the agent and ``farm verify`` use.

The verifiers of pictures and movies are imported when they are needed: their libraries take a
noticeable part of a second to load.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from farm.media.files import Kind, hash_file, kind_of, size_of
from farm.model.outputs import FileFacts, PictureSpec

__all__ = ["Kind", "kind_of", "verify_file", "verify_plain"]


def verify_plain(path: str | os.PathLike[str]) -> FileFacts:
    """Verifies a file of no known kind: it exists, is regular and not empty.

    Raises:
        OutputError: It is missing, empty or unreadable.
    """
    size = size_of(path)
    return FileFacts(path=os.fspath(path), size=size, sha256=hash_file(path, size))


def verify_file(
    path: str | os.PathLike[str],
    kind: Literal["picture", "movie", "plain"] | None = None,
    *,
    expected: PictureSpec | None = None,
    checks: Sequence[str] = (),
    neighbour: Path | None = None,
    frames: int | None = None,
    rate: Fraction | None = None,
) -> FileFacts:
    """Verifies one output file.

    Args:
        path: The file.
        kind: How to read it; by its suffix when None.
        expected: Pictures: what it must be equal to.
        checks: Pictures: any of ``black``, ``nan``, ``neighbour``.
        neighbour: Pictures: the file the check ``neighbour`` compares with.
        frames: Movies: how many frames it must have.
        rate: Movies: its exact rate; then every frame must lie at its own multiple.

    Raises:
        OutputError: The file is missing, empty, damaged or not as expected.
        CallError: An unknown check.
    """
    chosen = kind or kind_of(path)
    if chosen == "picture":
        from farm.media.pictures import verify_picture

        return verify_picture(path, expected=expected, checks=checks, neighbour=neighbour)
    if chosen == "movie":
        from farm.media.movies import verify_movie

        return verify_movie(path, frames=frames, rate=rate)
    return verify_plain(path)

"""Compares two pictures or two movies sample by sample: the facts behind ``farm compare``.

Belongs here: difference figures on decoded arrays.  Bytes are never compared: encoders give other bytes
for the same pixels with other thread counts.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Generator
from typing import Any

import msgspec
import numpy as np

from farm.media.files import hash_file, kind_of, size_of
from farm.media.pictures import read_parts, read_spec
from farm.media.pixels import Array, normalised, to_display
from farm.model.errors import CallError, OutputError


class CompareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How two files differ.  Integer samples count as 0..1, float samples as they are.

    Attributes:
        identical: Every sample of every part or frame is the same.
        difference: In words, why the samples cannot be compared (size, channels, frame count); then
            the figures are None.  Movies of unequal length are compared as far as both go.
        max_abs: Largest difference of two samples.
        mean_abs: Mean difference.
        psnr_db: Peak signal-to-noise ratio against a peak of 1.0; None when identical.
        differing: Share of samples that differ, 0.0-1.0.
        frames: Movies: frames that were compared.
        worst: Movies: index of the frame with the largest difference, None when identical.
    """

    identical: bool
    difference: str = ""
    max_abs: float | None = None
    mean_abs: float | None = None
    psnr_db: float | None = None
    differing: float | None = None
    frames: int | None = None
    worst: int | None = None


class _Sum:
    """Running figures over arrays."""

    def __init__(self) -> None:
        self.count = 0
        self.differing = 0
        self.total = 0.0
        self.squares = 0.0
        self.largest = 0.0
        self.worst: int | None = None

    def add(self, a: Array, b: Array, index: int) -> None:
        self.count += a.size
        if a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return
        with np.errstate(all="ignore"):
            left, right = normalised(a), normalised(b)
            step = np.abs(left - right)
        # Both NaN, or the same infinity: equal.  NaN on one side only: as far apart as can be.
        step[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
        step[np.isnan(step)] = math.inf
        self.differing += int(np.count_nonzero(step))
        self.total += float(step.sum())
        with np.errstate(over="ignore"):
            self.squares += float(np.square(step).sum())
        if (top := float(step.max(initial=0.0))) > self.largest:
            self.largest, self.worst = top, index

    def facts(self, *, frames: int | None = None, difference: str = "") -> CompareFacts:
        psnr = None
        if self.squares:
            ratio = self.count / self.squares
            psnr = 10.0 * math.log10(ratio) if ratio else None
        return CompareFacts(
            identical=not self.differing and not difference,
            difference=difference,
            max_abs=_finite(self.largest),
            mean_abs=_finite(self.total / self.count) if self.count else 0.0,
            psnr_db=psnr,
            differing=self.differing / self.count if self.count else 0.0,
            frames=frames,
            worst=self.worst if frames is not None else None,
        )


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> CompareFacts:
    """Compares two pictures or two movies.

    Raises:
        OutputError: One is missing, damaged or cut off.
        CallError: They are of different kinds.
    """
    left, right = os.fspath(a), os.fspath(b)
    kinds = kind_of(left), kind_of(right)
    if kinds[0] != kinds[1]:
        raise CallError(f"{left} is a {kinds[0]} and {right} is a {kinds[1]}: they cannot be compared")
    if kinds[0] == "picture":
        return _pictures(left, right)
    if kinds[0] == "movie":
        return _movies(left, right)
    sizes = size_of(left), size_of(right)
    same = sizes[0] == sizes[1] and hash_file(left, sizes[0]) == hash_file(right, sizes[1])
    return CompareFacts(identical=same, difference="" if same else f"{right} has other content than {left}")


def _pictures(left: str, right: str) -> CompareFacts:
    # Sample formats may differ: a half and a float picture can be compared.
    mine, theirs = read_spec(left), read_spec(right)
    if difference := msgspec.structs.replace(mine, formats=theirs.formats).difference(theirs):
        return CompareFacts(identical=False, difference=f"{right} {difference}")
    figures = _Sum()
    pairs = zip(read_parts(left), read_parts(right), strict=True)
    for index, ((part, pixels), (other, others)) in enumerate(pairs):
        if pixels is None or others is None:
            return CompareFacts(identical=False, difference="deep pictures cannot be compared")
        figures.add(
            to_display(pixels, part.data, part.display), to_display(others, other.data, other.display), index
        )
    return figures.facts()


def _movies(left: str, right: str) -> CompareFacts:
    figures = _Sum()
    counts = [0, 0]
    size: tuple[int, ...] | None = None
    for index, pair in enumerate(itertools.zip_longest(_frames(left), _frames(right))):
        for side, pixels in enumerate(pair):
            counts[side] += pixels is not None
        if pair[0] is None or pair[1] is None:
            continue
        if pair[0].shape != pair[1].shape:
            mine, theirs = pair[0].shape, pair[1].shape
            text = f"{right} is {theirs[1]}x{theirs[0]}, not {mine[1]}x{mine[0]}"
            return CompareFacts(identical=False, difference=text)
        size = pair[0].shape
        figures.add(pair[0], pair[1], index)
    if size is None:
        raise OutputError(f"{left} and {right} have no frames to compare", left)
    difference = "" if counts[0] == counts[1] else f"{right} has {counts[1]} frames, not {counts[0]}"
    return figures.facts(frames=min(counts), difference=difference)


def _frames(name: str) -> Generator[Array, None, None]:
    """All frames of a movie as 16-bit RGB, so that 8-bit and deeper movies can be compared."""
    import av.error

    from farm.media.movies import opened, video_of

    with opened(name) as container:
        stream: Any = video_of(container, name)
        count = 0
        try:
            for frame in container.decode(stream):
                yield np.asarray(frame.to_ndarray(format="rgb48le"))
                count += 1
        except (av.error.FFmpegError, ValueError) as error:
            raise OutputError(
                f"{name}: the movie is damaged after {count} good frames: {error}", name
            ) from error

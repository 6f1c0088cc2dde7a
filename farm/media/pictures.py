"""Reads and verifies still pictures with OpenImageIO.

Belongs here: header facts, full decoding, the truth of one picture file.  OpenCV is never used to read
a file: it hides depth, channels, parts and damage.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import OpenImageIO as oiio  # noqa: N813 - the name all its documentation uses

from farm.media.files import hash_file, size_of
from farm.media.pixels import Array, Window, colour_channels, normalised
from farm.media.structure import Structure, check_structure
from farm.media.verify import kind_of, verify_file, verify_plain
from farm.model.errors import OutputError, UnknownName
from farm.model.outputs import FileFacts, PictureSpec

__all__ = [
    "CHECKS",
    "Part",
    "kind_of",
    "read_first_part",
    "read_parts",
    "read_spec",
    "read_spec_and_pixels",
    "verify_file",
    "verify_picture",
    "verify_plain",
]

#: Optional checks of `verify_picture`.
CHECKS = ("black", "nan", "neighbour")
#: No colour sample above this (of 1.0): the picture is black.
_BLACK = 1e-5
#: No colour sample above this: nearly black, worth a warning.
_NEARLY_BLACK = 0.01
#: No sample differs from the neighbour's by more than this: worth a warning.
_NEARLY_SAME = 1.0 / 255.0

#: File formats whose suffix must tell the truth: other programs choose their reader by it.
_FORMAT_OF_SUFFIX = {
    **dict.fromkeys((".png",), "png"),
    **dict.fromkeys((".exr", ".sxr", ".mxr"), "openexr"),
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jif", ".jfif"), "jpeg"),
    **dict.fromkeys((".tif", ".tiff", ".tx"), "tiff"),
}


class Part(NamedTuple):
    """One part (subimage) of a picture file.

    Attributes:
        channels: Channel names.
        formats: Sample format of each channel.
        data: Data window: what is stored.
        display: Display window: what is seen.
        colour_space: As the file or its format says, e.g. ``lin_rec709``, ``srgb_rec709_scene``; "" unknown.
        deep: Deep samples; then there are no plain pixels.
    """

    channels: tuple[str, ...]
    formats: tuple[str, ...]
    data: Window
    display: Window
    colour_space: str
    deep: bool


@contextlib.contextmanager
def _opened(name: str, *, unassociated: bool = False) -> Iterator[Any]:
    """Opens a picture for reading; closes it whatever happens."""
    config = oiio.ImageSpec()
    if unassociated:
        config.attribute("oiio:UnassociatedAlpha", 1)
    source = oiio.ImageInput.open(name, config)
    if source is None:
        reason = _words(oiio.geterror(), name)
        raise OutputError(f"{name}: cannot be read as a picture: {reason or 'unknown format'}", name)
    try:
        yield source
    finally:
        source.close()
        source.geterror()  # an error left unread would be printed by the library at exit


def _words(text: str, name: str) -> str:
    """A library's error text on one line, without the file's name that our message begins with."""
    lines = [line.strip() for line in text.replace(f'"{name}"', "the file").splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines))


def _part_of(spec: Any) -> Part:
    formats = [str(kind) for kind in spec.channelformats] or [str(spec.format)] * spec.nchannels
    return Part(
        channels=tuple(spec.channelnames),
        formats=tuple(formats),
        data=Window(spec.x, spec.y, spec.width, spec.height),
        display=Window(spec.full_x, spec.full_y, spec.full_width, spec.full_height),
        colour_space=str(spec.getattribute("oiio:ColorSpace") or ""),
        deep=bool(spec.deep),
    )


def _walk(source: Any, name: str, structure: Structure) -> Iterator[tuple[int, Part, Any]]:
    """All parts of an open picture: number, facts and the library's own specification.

    A part that the file says it has and that cannot be reached is an error, never the end.
    """
    known = structure.parts
    number = 0
    while source.seek_subimage(number, 0):
        spec = source.spec()
        if number == 0:
            known = int(spec.getattribute("oiio:subimages") or known or 0)
        yield number, _part_of(spec), spec
        number += 1
        if known and number >= known:
            return
    reason = _words(source.geterror(), name)
    # A mip-mapped TIFF shows its directories as levels of one part.
    if number == 0 or (number < known and not source.seek_subimage(0, 1)):
        raise OutputError(f"{name}: part {number + 1} of {max(known, 1)} cannot be read: {reason}", name)
    source.geterror()


def _pixels_of(source: Any, number: int, part: Part, spec: Any, name: str) -> Array | None:
    """All samples of one part; None for deep parts, which are read too.

    Channels of one format keep it; mixed ones become float64, which holds every half, float and 32-bit
    id without loss.
    """
    where = f" (part {number + 1})" if number else ""
    try:
        if part.deep:
            deep = source.read_native_deep_image(number, 0)
            error = _words(source.geterror(), name)
            if deep is None or error:
                raise OutputError(
                    f"{name}: the picture is damaged or cut off{where}: {error or 'no data'}", name
                )
            return None
        kind = spec.format if len(set(part.formats)) == 1 else oiio.DOUBLE
        # The last channel must be given: -1 would read one channel only.
        pixels = source.read_image(number, 0, 0, spec.nchannels, kind)
    except MemoryError:
        raise OutputError(f"{name}: too large for this machine's memory{where}", name) from None
    error = _words(source.geterror(), name)
    if pixels is None or error:
        raise OutputError(f"{name}: the picture is damaged or cut off{where}: {error or 'no data'}", name)
    return np.asarray(pixels).reshape(spec.height * max(spec.depth, 1), spec.width, spec.nchannels)


def _checked_structure(name: str) -> Structure:
    structure = check_structure(name)
    promised = _FORMAT_OF_SUFFIX.get(Path(name).suffix.lower())
    if promised and structure.format and structure.format != promised:
        raise OutputError(f"{name}: holds {structure.format} data, though its name says {promised}", name)
    return structure


def _spec_of(parts: Sequence[Part]) -> PictureSpec:
    return PictureSpec(
        width=parts[0].display.width,
        height=parts[0].display.height,
        channels=tuple(channel for part in parts for channel in part.channels),
        formats=tuple(kind for part in parts for kind in part.formats),
        subimages=len(parts),
    )


def read_parts(
    path: str | os.PathLike[str], *, unassociated: bool = False
) -> Generator[tuple[Part, Array | None], None, None]:
    """Decodes a picture part by part, so that only one is in memory.

    Args:
        path: The file.
        unassociated: Keep PNG and TIFF colour as stored instead of multiplied by alpha.

    Yields:
        Each part with its samples as (height, width, channels) of the data window; None for deep parts.

    Raises:
        OutputError: The file is missing, empty, damaged or cut off.
    """
    name = os.fspath(path)
    size_of(name)
    structure = _checked_structure(name)
    with _opened(name, unassociated=unassociated) as source:
        for number, part, spec in _walk(source, name, structure):
            yield part, _pixels_of(source, number, part, spec, name)


def read_first_part(path: str | os.PathLike[str], *, unassociated: bool = False) -> tuple[Part, Array]:
    """Decodes only the first part that has plain pixels.

    Raises:
        OutputError: As `read_parts`, or all parts are deep.
    """
    parts = read_parts(path, unassociated=unassociated)
    try:
        for part, pixels in parts:
            if pixels is not None:
                return part, pixels
    finally:
        parts.close()
    raise OutputError(f"{os.fspath(path)}: holds only deep samples, no plain pixels", os.fspath(path))


def read_headers(path: str | os.PathLike[str]) -> tuple[PictureSpec, tuple[Part, ...]]:
    """The facts of a picture and its parts from the headers; the container is walked, pixels are not.

    Raises:
        OutputError: The file is missing, empty, no picture, or its container is cut off.
    """
    name = os.fspath(path)
    size_of(name)
    structure = _checked_structure(name)
    with _opened(name) as source:
        parts = tuple(part for _, part, _ in _walk(source, name, structure))
    return _spec_of(parts), parts


def read_spec(path: str | os.PathLike[str]) -> PictureSpec:
    """The specification of a picture from its headers; see `read_headers`."""
    return read_headers(path)[0]


def read_spec_and_pixels(path: str | os.PathLike[str]) -> tuple[PictureSpec, tuple[Array | None, ...]]:
    """Decodes a whole picture.

    Returns:
        The specification and the samples of each part (None for deep parts), each
        (height, width, channels) of its data window.

    Raises:
        OutputError: The file is missing, empty, damaged or cut off.
    """
    parts: list[Part] = []
    arrays: list[Array | None] = []
    for part, pixels in read_parts(path):
        parts.append(part)
        arrays.append(pixels)
    return _spec_of(parts), tuple(arrays)


def verify_picture(
    path: str | os.PathLike[str],
    *,
    expected: PictureSpec | None = None,
    checks: Sequence[str] = (),
    neighbour: str | os.PathLike[str] | None = None,
) -> FileFacts:
    """Verifies a picture: it is there, complete, decodes fully and is what was asked for.

    Opening a header proves nothing: every part is decoded, since a renderer that was killed leaves a
    good header and half the pixels.

    Args:
        path: The file.
        expected: What it must be equal to (data windows may differ).
        checks: Any of `CHECKS`: ``black`` refuses a picture whose colour is 0 everywhere, ``nan`` one
            with NaN or infinite samples, ``neighbour`` one that equals the neighbour's.
        neighbour: The picture before or after it; without one the check ``neighbour`` passes.

    Returns:
        The facts; their warnings tell of near misses.

    Raises:
        OutputError: What is wrong with the file, by name.
        UnknownName: A check that does not exist.
    """
    name = os.fspath(path)
    for check in checks:
        if check not in CHECKS:
            raise UnknownName(f"no picture check is called {check!r}", hint="there are " + ", ".join(CHECKS))
    size = size_of(name)
    parts: list[Part] = []
    warnings: list[str] = []
    brightest: float | None = None
    for part, pixels in read_parts(name):
        parts.append(part)
        if pixels is None:
            continue
        if "nan" in checks:
            _refuse_nan(pixels, part, name)
        if "black" in checks and brightest is None:
            brightest = _brightest(pixels, part)
    spec = _spec_of(parts)
    if expected is not None and (difference := expected.difference(spec)):
        raise OutputError(f"{name}: {difference}", name)
    if brightest is not None and brightest <= _BLACK:
        raise OutputError(f"{name}: the picture is black", name)
    if brightest is not None and brightest <= _NEARLY_BLACK:
        warnings.append(f"nearly black: no sample above {brightest:.4f}")
    digest = hash_file(name, size)
    if "neighbour" in checks and neighbour is not None:
        warnings += _compare_with_neighbour(name, spec, digest, os.fspath(neighbour))
    return FileFacts(path=name, size=size, sha256=digest, spec=spec, warnings=tuple(warnings))


def _refuse_nan(pixels: Array, part: Part, name: str) -> None:
    if pixels.dtype.kind != "f":
        return
    if pixels.dtype == np.float16:
        # All exponent bits set: NaN or infinity. Half arithmetic is many times slower than this.
        if int((pixels.view(np.uint16) & 0x7C00).max(initial=0)) < 0x7C00:
            return
    else:
        with np.errstate(all="ignore"):
            # One sum finds whether there is any, without a second array as large as the picture.
            if np.isfinite(np.sum(pixels, dtype=np.float64)):
                return
    bad = ~np.isfinite(pixels)
    count = int(np.count_nonzero(bad))
    if count:
        y, x, channel = (int(index) for index in np.argwhere(bad)[0])
        raise OutputError(
            f"{name}: {count} samples are NaN or infinite, the first at x={x + part.data.x} "
            f"y={y + part.data.y} in channel {part.channels[channel]}",
            name,
        )


def _brightest(pixels: Array, part: Part) -> float | None:
    """Largest colour sample of a part (0..1 for integers), None when it has no colour channels."""
    found = colour_channels(part.channels)
    if found is None:
        return None
    limit = float(np.iinfo(pixels.dtype).max) if pixels.dtype.kind in "ui" else 1.0
    most = 0.0
    for index in found.colour:
        plane = pixels[..., index].astype(np.float32)
        # fmax passes over NaN, which is another check's matter.
        most = max(most, float(np.fmax.reduce(np.abs(plane, out=plane), axis=None, initial=0.0)))
    return most / limit


def _compare_with_neighbour(name: str, spec: PictureSpec, digest: str, neighbour: str) -> list[str]:
    """Warnings of a comparison; raises when both pictures are the same.

    A neighbour that cannot be read is not this file's fault: it is a warning.
    """
    try:
        other_size = size_of(neighbour)
        same = hash_file(neighbour, other_size) == digest
        largest = 0.0
        if not same:
            if spec.difference(read_spec(neighbour)):
                return []
            for (part, mine), (other_part, theirs) in zip(
                read_parts(name), read_parts(neighbour), strict=True
            ):
                if part.data != other_part.data or mine is None or theirs is None:
                    return []
                if not np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"):
                    with np.errstate(all="ignore"):
                        step = float(np.nanmax(np.abs(normalised(mine) - normalised(theirs))))
                    largest = max(largest, step, float(np.finfo(np.float32).tiny))
            same = largest == 0.0
    except OutputError as error:
        return [f"the neighbour could not be compared: {error}"]
    if same:
        raise OutputError(f"{name}: the picture is the same as its neighbour {Path(neighbour).name}", name)
    if largest <= _NEARLY_SAME:
        name = Path(neighbour).name
        return [f"nearly the same as its neighbour {name}: no sample differs by more than {largest:.5f}"]
    return []

"""Makes the small pictures that people look at while they wait.

Belongs here: choice of what to show, display curve, size.  OpenImageIO and PyAV read and write; OpenCV
only resizes arrays.  A preview shows what was rendered; it proves nothing about the file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

import numpy as np
import OpenImageIO as oiio  # noqa: N813 - the name all its documentation uses

from farm.media.files import kind_of, size_of
from farm.media.pictures import read_parts
from farm.media.pixels import Array, colour_channels, linear_to_srgb, normalised, to_display
from farm.model.errors import CallError, OutputError

_SUFFIXES = (".jpg", ".jpeg", ".png")
#: Side of a checker field in preview pixels, and its two greys (display values).
_CHECKER_PX = 8
_CHECKER = (0.30, 0.45)


def make_preview(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    max_px: int = 480,
    background: Literal["checker", "black"] = "checker",
) -> tuple[int, int]:
    """Writes a small 8-bit picture of a picture or of the middle of a movie.

    Float samples are taken as scene-linear and get the plain sRGB curve with clipping: no view
    transform, so an artist's film look may differ.  Data channels (depth, ids, normals, Cryptomatte)
    are never shown.

    Args:
        source: Picture or movie.
        target: JPEG or PNG to write; it appears whole or not at all.
        max_px: Longest side; smaller pictures are not enlarged.
        background: What shows through alpha.

    Returns:
        Width and height of the preview.

    Raises:
        OutputError: The source is missing, damaged, or holds no colour; or the target cannot be written.
        CallError: The target is neither JPEG nor PNG, or the size is not positive.
    """
    out = Path(target)
    if out.suffix.lower() not in _SUFFIXES:
        raise CallError(f"{out}: previews are JPEG or PNG", hint="end the name with .jpg or .png")
    if max_px < 1:
        raise CallError(f"a preview of {max_px} pixels cannot be made")
    premultiplied, linear = _movie(source) if kind_of(source) == "movie" else _picture(source)
    small = _shrink(premultiplied, max_px)
    colour = linear_to_srgb(small[..., :3]) if linear else np.clip(small[..., :3], 0.0, 1.0)
    if small.shape[2] == 4:
        colour = _over(small, linear, background)
    _write(out, (colour * 255.0 + 0.5).astype(np.uint8))
    return int(colour.shape[1]), int(colour.shape[0])


def _picture(source: str | os.PathLike[str]) -> tuple[Array, bool]:
    """Colour (and premultiplied alpha) of the first part that has some; whether it is linear light."""
    name = os.fspath(source)
    parts = read_parts(name)
    with contextlib.closing(parts):
        for part, pixels in parts:
            found = colour_channels(part.channels) if pixels is not None else None
            if pixels is None or found is None:
                continue
            wanted = list(found.colour if len(found.colour) == 3 else found.colour * 3)
            if found.alpha is not None:
                wanted.append(found.alpha)
            linear = part.formats[wanted[0]] in ("half", "float", "double")
            chosen = to_display(pixels[..., wanted], part.data, part.display)
            values = normalised(chosen).astype(np.float32)
            return np.nan_to_num(values, nan=0.0, posinf=1e4, neginf=0.0), linear
    raise OutputError(f"{name}: holds no colour to show", name)


def _movie(source: str | os.PathLike[str]) -> tuple[Array, bool]:
    """The frame at the key before a movie's middle, or its first."""
    import av.error

    from farm.media.movies import opened, video_of

    name = os.fspath(source)
    size_of(name)
    with opened(name) as container:
        video = video_of(container, name)
        try:
            if container.duration:
                with contextlib.suppress(av.error.FFmpegError):
                    container.seek(container.duration // 2 + int(container.start_time or 0))
            for frame in container.decode(video):
                pixels = frame.to_ndarray(format="rgb24")
                return normalised(pixels).astype(np.float32), False
        except (av.error.FFmpegError, ValueError) as error:
            raise OutputError(f"{name}: the movie is damaged: {error}", name) from error
    raise OutputError(f"{name}: the movie holds no frame", name)


def _shrink(pixels: Array, max_px: int) -> Array:
    height, width = pixels.shape[:2]
    if max(height, width) <= max_px:
        return pixels
    import cv2

    scale = max_px / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    # Area averaging of premultiplied linear values: no dark fringes, no ringing.
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA))


def _over(pixels: Array, linear: bool, background: str) -> Array:
    """Premultiplied colour over the background, mixed in the light the picture is stored in."""
    height, width = pixels.shape[:2]
    if background == "black":
        ground = np.zeros((height, width), dtype=np.float32)
    else:
        rows, columns = np.indices((height, width)) // _CHECKER_PX
        ground = np.where((rows + columns) % 2, _CHECKER[1], _CHECKER[0]).astype(np.float32)
        if linear:
            ground = ((ground + 0.055) / 1.055) ** np.float32(2.4)
    alpha = np.clip(pixels[..., 3:4], 0.0, 1.0)
    mixed = pixels[..., :3] + (1.0 - alpha) * ground[..., None]
    return linear_to_srgb(mixed) if linear else np.clip(mixed, 0.0, 1.0)


def _write(out: Path, pixels: Array) -> None:
    """Writes under another name first, so that nobody ever reads half a preview."""
    part = out.with_name(f".{out.stem}.{os.getpid()}.part{out.suffix}")
    spec = oiio.ImageSpec(pixels.shape[1], pixels.shape[0], 3, "uint8")
    spec.attribute("compression", "jpeg:85")
    try:
        writer = oiio.ImageOutput.create(os.fspath(part))
        if writer is None:
            raise OutputError(f"{out}: cannot be written: {oiio.geterror()}", os.fspath(out))
        good = writer.open(os.fspath(part), spec) and writer.write_image(np.ascontiguousarray(pixels))
        good = bool(writer.close()) and good
        if not good:
            raise OutputError(f"{out}: cannot be written: {writer.geterror()}", os.fspath(out))
        part.replace(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}", os.fspath(out)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)

"""Small PNG files: 256 colours of which the most common are exact.

What belongs here: choosing colours and writing the file.  What may not: windows.

A window is mostly flat colours, and these stay what they are; what is left of the palette is shared by soft
edges of letters and by pictures within the window.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QImage

from farm.model.errors import StorageError

#: Colours that are kept as they are, of 256.
EXACT: Final = 128
#: How often the others are moved to the middle of what they stand for.
_ROUNDS: Final = 6

_Colours = npt.NDArray[np.int64]


def write_png(image: QImage, path: Path) -> None:
    """Writes a picture with a palette.

    Raises:
        StorageError: The file cannot be written.
    """
    small = with_palette(image)
    if not small.save(str(path), "PNG", 0):  # type: ignore[call-overload]
        raise StorageError(f"the picture {path} cannot be written")


def with_palette(image: QImage) -> QImage:
    """The same picture in 256 colours."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    width, height = plain.width(), plain.height()
    bits = np.frombuffer(plain.constBits(), np.uint32).reshape(height, plain.bytesPerLine() // 4)
    pixels = (bits[:, :width] & 0xFFFFFF).astype(np.int32)
    palette, places = _choose(pixels)
    line = -(-width // 4) * 4
    data = np.zeros((height, line), np.uint8)
    data[:, :width] = places
    found = QImage(data.tobytes(), width, height, line, QImage.Format.Format_Indexed8).copy()
    found.setColorTable([int(colour) | 0xFF000000 for colour in palette])
    return found


def _choose(pixels: npt.NDArray[np.int32]) -> tuple[_Colours, npt.NDArray[np.uint8]]:
    """256 colours at most, and the place of each pixel's among them."""
    seen = np.bincount(pixels.ravel(), minlength=1 << 24)
    colours = np.flatnonzero(seen)
    counts = seen[colours]
    place_of = np.zeros(1 << 24, np.uint8)
    if len(colours) <= 256:
        place_of[colours] = np.arange(len(colours))
        return colours, place_of[pixels]
    common = np.argsort(-counts, kind="stable")[:EXACT]
    rest = np.ones(len(colours), bool)
    rest[common] = False
    parts = _split(colours)
    centres = _centres(parts[rest], counts[rest].astype(np.float64), 256 - EXACT)
    palette = np.vstack([parts[common], np.rint(centres)])
    nearest = _nearest(parts, palette)
    nearest[common] = np.arange(len(common))
    place_of[colours] = nearest
    whole = palette.astype(np.int64)
    return (whole[:, 0] << 16) | (whole[:, 1] << 8) | whole[:, 2], place_of[pixels]


def _split(colours: _Colours) -> npt.NDArray[np.float64]:
    channels = [colours >> 16 & 255, colours >> 8 & 255, colours & 255]
    found: npt.NDArray[np.float64] = np.stack(channels, axis=1).astype(np.float64)
    return found


def _nearest(parts: npt.NDArray[np.float64], palette: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    found = np.empty(len(parts), np.int64)
    for start in range(0, len(parts), 4096):
        some = parts[start : start + 4096]
        apart = (some * some).sum(1)[:, None] - 2 * some @ palette.T + (palette * palette).sum(1)[None, :]
        found[start : start + 4096] = apart.argmin(1)
    return found


def _centres(
    parts: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], count: int
) -> npt.NDArray[np.float64]:
    """Colours that stand for many others: each in the middle of those it stands for."""
    # Begun evenly along the colours by brightness and weight, so that the same picture has the same palette.
    order = np.argsort(parts @ np.array([0.299, 0.587, 0.114]), kind="stable")
    along = np.cumsum(np.sqrt(weights[order]))
    starts = np.searchsorted(along, (np.arange(count) + 0.5) / count * along[-1])
    centres = parts[order[np.minimum(starts, len(order) - 1)]].copy()
    for _ in range(_ROUNDS):
        nearest = _nearest(parts, centres)
        heavy = np.sqrt(weights)
        sums = np.bincount(nearest, heavy, count)
        for channel in range(3):
            moved = np.bincount(nearest, heavy * parts[:, channel], count)
            centres[:, channel] = np.where(sums > 0, moved / np.maximum(sums, 1e-9), centres[:, channel])
    found: npt.NDArray[np.float64] = centres
    return found

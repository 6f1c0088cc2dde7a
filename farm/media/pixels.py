"""Pure array work that pictures, previews and films share: channel choice, windows, curves.

Arrays are (height, width, channels).  No files, no libraries beyond numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class ColourChannels(NamedTuple):
    """Where the colour of a picture lies.

    Attributes:
        colour: Indices of red, green and blue, or of the one grey channel.
        alpha: Index of alpha, None when there is none.
    """

    colour: tuple[int, ...]
    alpha: int | None


class Window(NamedTuple):
    """A rectangle in pixel space: data window or display window."""

    x: int
    y: int
    width: int
    height: int


#: Names renderers give to the finished picture among the passes of one file, best first.
_BEAUTY = ("", "combined", "beauty", "rgba", "rgb", "color", "colour")


def colour_channels(names: Sequence[str]) -> ColourChannels | None:
    """Chooses the channels that a person would look at.

    Plain R,G,B first, then a layer called Combined or beauty, then the first layer that has all three,
    then luminance (Y), then a picture of one or two unnamed channels.  Depth, ids, normals and
    Cryptomatte are never colour, so a file with nothing else has none.

    Returns:
        None when no channel shows colour.
    """
    layers: dict[str, dict[str, int]] = {}
    for index, name in enumerate(names):
        layer, _, channel = name.rpartition(".")
        layers.setdefault(layer, {}).setdefault(_LONG.get(channel.lower(), channel.upper()), index)

    def rank(layer: str) -> int:
        last = layer.rpartition(".")[2].lower()
        return _BEAUTY.index(last) if last in _BEAUTY else len(_BEAUTY)

    for layer in sorted(layers, key=rank):
        found = layers[layer]
        if rank(layer) == len(_BEAUTY) and _is_data(layer):
            continue
        if all(letter in found for letter in "RGB"):
            return ColourChannels((found["R"], found["G"], found["B"]), found.get("A"))
    for layer in sorted(layers, key=rank):
        found = layers[layer]
        if "Y" in found and "X" not in found and not _is_data(layer):
            return ColourChannels((found["Y"],), found.get("A"))
    return None


_LONG = {"red": "R", "green": "G", "blue": "B", "alpha": "A", "i": "Y", "luminance": "Y", "l": "Y"}
_DATA_WORDS = ("crypto", "normal", "depth", "position", "vector", "uv", "index", "object", "motion", "id")


def _is_data(layer: str) -> bool:
    """Whether a layer's name says that it holds data and no colour (Cryptomatte uses R,G,B,A too)."""
    last = layer.rpartition(".")[2].lower()
    return any(last == word or (len(word) > 2 and word in last) for word in _DATA_WORDS)


def to_display(pixels: Array, data: Window, display: Window) -> Array:
    """Lays a data window into the display window.

    Pixels outside the data window are 0, as OpenEXR defines them; overscan is cut off.
    """
    if data == display:
        return pixels
    canvas = np.zeros((display.height, display.width, pixels.shape[2]), dtype=pixels.dtype)
    left, top = max(data.x, display.x), max(data.y, display.y)
    right = min(data.x + data.width, display.x + display.width)
    bottom = min(data.y + data.height, display.y + display.height)
    if left < right and top < bottom:
        canvas[top - display.y : bottom - display.y, left - display.x : right - display.x] = pixels[
            top - data.y : bottom - data.y, left - data.x : right - data.x
        ]
    return canvas


def linear_to_srgb(values: Array) -> Array:
    """The sRGB curve (IEC 61966-2-1) on linear values, clipped to 0..1; NaN becomes 0."""
    safe = np.nan_to_num(np.asarray(values, dtype=np.float32), nan=0.0, posinf=1.0, neginf=0.0)
    clipped = np.clip(safe, 0.0, 1.0)
    curved = 1.055 * np.power(clipped, 1.0 / 2.4) - 0.055
    return np.where(clipped <= 0.0031308, clipped * 12.92, curved).astype(np.float32)


def normalised(pixels: Array) -> Array:
    """Integer samples as 0..1, float samples as they are, in float64."""
    if pixels.dtype.kind in "ui":
        return pixels.astype(np.float64) / float(np.iinfo(pixels.dtype).max)
    return pixels.astype(np.float64)

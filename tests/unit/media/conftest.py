"""Pictures and movies for the media tests: tiny, real, and written by other programs where it matters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio  # noqa: N813
import psutil
import pytest

from farm.media.ffmpeg import find_ffmpeg
from farm.media.stitch import StitchPlan, stitch
from tests.unit.media.films import H, W

Array = np.ndarray[Any, Any]
#: numpy's names of sample types by OpenImageIO's.
_TYPES = {"float16": "half", "float32": "float", "uint32": "uint"}


def _save(
    path: Path | str,
    pixels: Array,
    fmt: str | None = None,
    *,
    names: tuple[str, ...] = (),
    full: tuple[int, int, int, int] | None = None,
    origin: tuple[int, int] = (0, 0),
    **attributes: Any,
) -> Path:
    """Writes one picture with OpenImageIO, samples exactly as given."""
    height, width, channels = pixels.shape
    spec = oiio.ImageSpec(width, height, channels, fmt or _TYPES.get(str(pixels.dtype), str(pixels.dtype)))
    if names:
        spec.channelnames = names
    spec.x, spec.y = origin
    if full:
        spec.full_x, spec.full_y, spec.full_width, spec.full_height = full
    tile = attributes.pop("tile", 0)
    if tile:
        spec.tile_width = spec.tile_height = tile
    spec.attribute("oiio:UnassociatedAlpha", 1)
    for key, value in attributes.items():
        spec.attribute(key.replace("__", ":"), value)
    out = oiio.ImageOutput.create(str(path))
    assert out is not None, oiio.geterror()
    assert out.open(str(path), spec), out.geterror()
    assert out.write_image(np.ascontiguousarray(pixels)), out.geterror()
    assert out.close()
    return Path(path)


def _save_parts(path: Path | str, parts: list[Array], **attributes: Any) -> Path:
    """Writes a multi-part OpenEXR."""
    specs = []
    for number, pixels in enumerate(parts):
        spec = oiio.ImageSpec(
            pixels.shape[1],
            pixels.shape[0],
            pixels.shape[2],
            _TYPES.get(str(pixels.dtype), str(pixels.dtype)),
        )
        spec.attribute("oiio:subimagename", f"part{number}")
        for key, value in attributes.items():
            spec.attribute(key, value)
        specs.append(spec)
    out = oiio.ImageOutput.create(str(path))
    assert out.open(str(path), specs), out.geterror()
    for number, pixels in enumerate(parts):
        if number:
            assert out.open(str(path), specs[number], "AppendSubimage"), out.geterror()
        assert out.write_image(pixels), out.geterror()
    assert out.close()
    return Path(path)


@pytest.fixture(scope="session")
def save() -> Callable[..., Path]:
    return _save


@pytest.fixture(scope="session")
def save_parts() -> Callable[..., Path]:
    return _save_parts


@pytest.fixture(scope="session")
def noise() -> Callable[..., Array]:
    """Noise of a size and type: does not compress, so every byte of a file carries picture."""

    def make(height: int, width: int, channels: int, dtype: str, seed: int = 1) -> Array:
        values = np.random.default_rng(seed).random((height, width, channels))
        kind = np.dtype(dtype)
        return (values * np.iinfo(kind).max if kind.kind == "u" else values).astype(kind)

    return make


def _need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        if os.environ.get("OVERCRANK_REQUIRE_REAL") == "1":
            pytest.fail(f"{program} is needed: apt install ffmpeg")
        pytest.skip(f"{program} is not installed (apt install ffmpeg)")
    return found


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    return find_ffmpeg()


@pytest.fixture(scope="session")
def make_movie(ffmpeg: str) -> Callable[..., Path]:
    """Makes a movie with the ffmpeg program."""

    def make(path: Path, *words: str) -> Path:
        subprocess.run([ffmpeg, "-v", "error", "-nostdin", "-y", *words, str(path)], check=True, timeout=60)
        return path

    return make


@pytest.fixture(scope="session")
def ffprobe() -> Callable[..., Any]:
    """Asks the ffprobe program: an independent witness beside PyAV."""
    program = _need("ffprobe")

    def ask(path: Path | str, *words: str) -> Any:
        done = subprocess.run(
            [program, "-v", "error", "-of", "json", *words, "-i", os.path.abspath(path)],  # noqa: PTH100
            check=True,
            stdout=subprocess.PIPE,
            timeout=60,
        )
        return json.loads(done.stdout)

    return ask


@pytest.fixture(scope="session")
def decode_raw(ffmpeg: str) -> Callable[..., bytes]:
    """Decodes a movie to raw samples with the ffmpeg program."""

    def run(path: Path | str, *words: str) -> bytes:
        done = subprocess.run(
            [ffmpeg, "-v", "error", "-nostdin", "-i", os.path.abspath(path), *words, "-"],  # noqa: PTH100
            check=True,
            stdout=subprocess.PIPE,
            timeout=60,
        )
        return done.stdout

    return run


# -- films


@pytest.fixture(scope="session")
def frames(tmp_path_factory: pytest.TempPathFactory, save: Any, noise: Any) -> tuple[str, ...]:
    """Twelve 8-bit pictures."""
    folder = tmp_path_factory.mktemp("frames")
    return tuple(str(save(folder / f"f.{k:04d}.png", noise(H, W, 3, "uint8", k))) for k in range(12))


@pytest.fixture
def make(tmp_path: Path, ffmpeg: str) -> Callable[..., Any]:
    """Stitches a list of pictures to a file in the test's folder."""

    def run(frames: tuple[str, ...], name: str = "film.mp4", **fields: Any) -> Any:
        words = {"preset": "ultrafast", "threads": 1, **fields}
        plan = StitchPlan(frames=tuple(map(str, frames)), output=str(tmp_path / name), **words)
        return stitch(plan, ffmpeg=ffmpeg)

    return run


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """No test may leave a thread, a child process or an open file."""
    here = psutil.Process()
    threads, files = set(threading.enumerate()), {entry.path for entry in here.open_files()}
    yield
    assert set(threading.enumerate()) <= threads
    assert [child for child in here.children() if child.status() != psutil.STATUS_ZOMBIE] == []
    assert {entry.path for entry in here.open_files()} <= files

"""Previews, probes and comparisons: what people and ``farm compare`` see."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.media.compare import compare
from farm.media.pictures import read_spec_and_pixels, verify_picture
from farm.media.pixels import ColourChannels, Window, colour_channels, linear_to_srgb, to_display
from farm.media.preview import make_preview
from farm.media.probe import ProbeFacts, probe
from farm.model.errors import CallError, OutputError

H, W = 24, 32


def _look(path: Path) -> np.ndarray[Any, Any]:
    _, (pixels,) = read_spec_and_pixels(path)
    assert pixels is not None
    return pixels


# --- choice of channels -----------------------------------------------------------------------------


def _layer(name: str, letters: str) -> tuple[str, ...]:
    return tuple(f"{name}.{letter}" for letter in letters)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("R", "G", "B"), ColourChannels((0, 1, 2), None)),
        (("A", "B", "G", "R"), ColourChannels((3, 2, 1), 0)),
        (("Z", "R", "G", "B", "A"), ColourChannels((1, 2, 3), 4)),
        (("ViewLayer.Depth.Z", *_layer("ViewLayer.Combined", "RGBA")), ColourChannels((1, 2, 3), 4)),
        ((*_layer("V.Diffuse", "RGB"), *_layer("V.Combined", "RGB")), ColourChannels((3, 4, 5), None)),
        (_layer("V.CryptoObject00", "rgba"), None),
        ((*_layer("uCryptoAsset", "RGB"), *_layer("spec", "RGB")), ColourChannels((3, 4, 5), None)),
        (_layer("N", "XYZ"), None),
        (_layer("V.Normal", "XYZ"), None),
        (("Z",), None),
        (("id",), None),
        (("Y",), ColourChannels((0,), None)),
        (("Y", "A"), ColourChannels((0,), 1)),
        (("I",), ColourChannels((0,), None)),
        (("red", "green", "blue"), ColourChannels((0, 1, 2), None)),
        ((), None),
    ],
)
def test_the_picture_is_found_among_the_passes(names: tuple[str, ...], wanted: ColourChannels | None) -> None:
    assert colour_channels(names) == wanted


_WINDOW = st.builds(Window, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 9))


@given(data=_WINDOW, display=_WINDOW)
def test_every_pixel_keeps_its_place_in_the_display_window(data: Window, display: Window) -> None:
    pixels = np.arange(1, data.width * data.height + 1, dtype=np.float32).reshape(data.height, data.width, 1)
    laid = to_display(pixels, data, display)
    assert laid.shape == (display.height, display.width, 1)
    for y in range(display.height):
        for x in range(display.width):
            column, row = display.x + x - data.x, display.y + y - data.y
            inside = 0 <= column < data.width and 0 <= row < data.height
            assert laid[y, x, 0] == (pixels[row, column, 0] if inside else 0)


def test_the_srgb_curve_has_the_standards_values() -> None:
    values = linear_to_srgb(np.array([0.0, 0.0031308, 0.18, 0.5, 1.0, 9.0, -1.0, np.nan, np.inf]))
    assert values == pytest.approx([0.0, 0.04045, 0.46135, 0.73536, 1.0, 1.0, 0.0, 0.0, 1.0], abs=2e-5)


# --- previews ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_linear_grey_is_seen_as_srgb_grey(suffix: str, tmp_path: Path, save: Any) -> None:
    source = save(tmp_path / "a.exr", np.full((H, W, 3), 0.18, np.float16))
    target = tmp_path / f"p{suffix}"
    assert make_preview(source, target) == (W, H)
    assert np.abs(_look(target).astype(int) - 118).max() <= 1
    assert verify_picture(target).spec is not None
    assert sorted(os.listdir(tmp_path)) == ["a.exr", target.name]  # noqa: PTH208


def test_8_and_16_bit_are_shown_as_they_are(tmp_path: Path, save: Any) -> None:
    for name, pixels in [
        ("a.png", np.full((H, W, 3), 90, np.uint8)),
        ("b.png", np.full((H, W, 1), 90 * 257, np.uint16)),
    ]:
        make_preview(save(tmp_path / name, pixels), tmp_path / "p.png")
        shown = _look(tmp_path / "p.png")
        assert shown.shape == (H, W, 3)
        assert (shown == 90).all()


@pytest.mark.parametrize(
    ("size", "max_px", "wanted"),
    [
        ((100, 300), 60, (60, 20)),
        ((300, 100), 60, (20, 60)),
        ((1, 500), 50, (50, 1)),
        ((20, 20), 60, (20, 20)),
    ],
)
def test_the_longest_side_is_kept_below_the_limit(
    size: tuple[int, int], max_px: int, wanted: tuple[int, int], tmp_path: Path, save: Any, noise: Any
) -> None:
    source = save(tmp_path / "a.png", noise(*size, 3, "uint8"))
    assert make_preview(source, tmp_path / "p.png", max_px=max_px) == wanted
    assert _look(tmp_path / "p.png").shape == (wanted[1], wanted[0], 3)


def test_shrinking_averages_in_linear_light(tmp_path: Path, save: Any) -> None:
    pixels = np.zeros((64, 64, 3), np.float32)
    pixels[::2] = 1.0
    make_preview(save(tmp_path / "a.exr", pixels), tmp_path / "p.png", max_px=16)
    assert np.abs(_look(tmp_path / "p.png").astype(int) - 188).max() <= 1  # sRGB of 0.5, not 128


def test_alpha_shows_a_checker_or_black(tmp_path: Path, save: Any) -> None:
    pixels = np.zeros((32, 32, 4), np.float32)
    pixels[16:] = (0.5, 0.5, 0.5, 1.0)
    source = save(tmp_path / "a.exr", pixels)
    make_preview(source, tmp_path / "p.png")
    shown = _look(tmp_path / "p.png")[..., 0]
    assert len(np.unique(shown[:16])) == 2
    assert (shown[16:] == 188).all()
    make_preview(source, tmp_path / "p.png", background="black")
    assert (_look(tmp_path / "p.png")[:16] == 0).all()


def test_glow_without_alpha_survives_and_bad_samples_do_not_spread(tmp_path: Path, save: Any) -> None:
    pixels = np.zeros((32, 32, 4), np.float32)
    pixels[:8, :, :3] = 0.5  # emission: colour with alpha 0
    pixels[20, 20, 0] = np.nan
    pixels[24, 24, 0] = np.inf
    make_preview(save(tmp_path / "a.exr", pixels), tmp_path / "p.png", background="black")
    shown = _look(tmp_path / "p.png")
    assert (shown[:8] == 188).all()
    assert shown[20, 20, 0] == 0
    assert shown[24, 24, 0] == 255


def test_windows_and_later_parts_are_respected(tmp_path: Path, save: Any, save_parts: Any) -> None:
    cropped = save(tmp_path / "a.exr", np.ones((4, 4, 3), np.float16), origin=(8, 2), full=(0, 0, W, H))
    assert make_preview(cropped, tmp_path / "p.png") == (W, H)
    shown = _look(tmp_path / "p.png")
    assert (shown[2:6, 8:12] == 255).all()
    assert int((shown > 0).sum()) == 4 * 4 * 3
    parts = save_parts(
        tmp_path / "b.exr", [np.ones((H, W, 1), np.float32), np.full((H, W, 3), 0.18, np.float16)]
    )
    make_preview(parts, tmp_path / "p.png")
    assert shown.shape == _look(tmp_path / "p.png").shape


def test_a_picture_without_colour_a_damaged_one_and_a_bad_target_are_refused(
    tmp_path: Path, save: Any, noise: Any
) -> None:
    depth = save(tmp_path / "z.exr", noise(H, W, 1, "float32"), names=("Z",))
    with pytest.raises(OutputError, match="no colour to show"):
        make_preview(depth, tmp_path / "p.jpg")
    good = save(tmp_path / "a.png", noise(H, W, 3, "uint8"))
    with pytest.raises(CallError, match="JPEG or PNG"):
        make_preview(good, tmp_path / "p.gif")
    with pytest.raises(CallError, match="0 pixels"):
        make_preview(good, tmp_path / "p.jpg", max_px=0)
    with pytest.raises(OutputError, match="cannot be written"):
        make_preview(good, tmp_path / "none" / "p.jpg")
    good.write_bytes(good.read_bytes()[:-30])
    with pytest.raises(OutputError):
        make_preview(good, tmp_path / "p.jpg")
    assert not (tmp_path / "p.jpg").exists()


def test_a_movies_preview_is_from_its_middle(tmp_path: Path, make_movie: Any) -> None:
    words = ("-f", "lavfi", "-i", "color=gray:s=64x48:r=25:d=2,geq=lum='if(lt(N,20),30,200)':cb=128:cr=128")
    movie = make_movie(
        tmp_path / "a.mp4",
        *words,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "5",
        "-pix_fmt",
        "yuv420p",
    )
    assert make_preview(movie, tmp_path / "p.jpg", max_px=32) == (32, 24)
    assert _look(tmp_path / "p.jpg").mean() > 150
    with pytest.raises(OutputError, match="does not exist"):
        make_preview(tmp_path / "none.mp4", tmp_path / "q.jpg")


# --- comparisons ------------------------------------------------------------------------------------


def test_pictures_are_compared_by_samples_and_not_by_bytes(tmp_path: Path, save: Any, noise: Any) -> None:
    pixels = noise(H, W, 4, "float16")
    a = save(tmp_path / "a.exr", pixels, compression="zip")
    b = save(tmp_path / "b.exr", pixels, compression="piz")
    assert a.read_bytes() != b.read_bytes()
    same = compare(a, b)
    assert (same.identical, same.max_abs, same.mean_abs, same.psnr_db, same.differing) == (
        True,
        0.0,
        0.0,
        None,
        0.0,
    )
    pixels = pixels.copy()
    pixels[1, 2, 3] = np.float16(float(pixels[1, 2, 3]) + 0.25)
    step = float(pixels[1, 2, 3]) - float(noise(H, W, 4, "float16")[1, 2, 3])
    other = compare(a, save(tmp_path / "c.exr", pixels))
    count = H * W * 4
    assert not other.identical
    assert other.max_abs == pytest.approx(step)
    assert other.mean_abs == pytest.approx(step / count)
    assert other.differing == pytest.approx(1 / count)
    assert other.psnr_db == pytest.approx(10 * math.log10(count / step**2))


def test_integers_count_from_0_to_1_and_types_may_differ(tmp_path: Path, save: Any) -> None:
    low = save(tmp_path / "a.png", np.full((H, W, 3), 100, np.uint8))
    high = save(tmp_path / "b.png", np.full((H, W, 3), 101, np.uint8))
    assert compare(low, high).max_abs == pytest.approx(1 / 255)
    deep = save(tmp_path / "c.png", np.full((H, W, 3), 100 * 257, np.uint16))
    assert compare(low, deep).identical


def test_nan_counts_as_different_only_on_one_side_and_json_stays_json(tmp_path: Path, save: Any) -> None:
    pixels = np.full((H, W, 3), 0.5, np.float32)
    clean = save(tmp_path / "a.exr", pixels)
    pixels[0, 0, 0], pixels[0, 1, 0] = np.nan, np.inf
    bad, again = save(tmp_path / "b.exr", pixels), save(tmp_path / "c.exr", pixels, compression="piz")
    assert compare(bad, again).identical
    found = compare(clean, bad)
    assert not found.identical
    assert found.max_abs is None
    assert found.differing == pytest.approx(2 / (H * W * 3))
    assert b"null" in msgspec.json.encode(found)


def test_what_cannot_be_compared_says_why(tmp_path: Path, save: Any, noise: Any) -> None:
    a = save(tmp_path / "a.png", noise(H, W, 3, "uint8"))
    size = compare(a, save(tmp_path / "b.png", noise(H, W + 1, 3, "uint8")))
    assert (size.identical, size.max_abs) == (False, None)
    assert f"is {W + 1}x{H}, not {W}x{H}" in size.difference
    assert "channels" in compare(a, save(tmp_path / "c.png", noise(H, W, 4, "uint8"))).difference
    text = tmp_path / "a.txt"
    text.write_text("x")
    with pytest.raises(CallError, match="is a picture and"):
        compare(a, text)
    assert compare(text, text).identical


def test_movies_are_compared_frame_by_frame(tmp_path: Path, make_movie: Any) -> None:
    source = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=2")
    lossless = ("-c:v", "ffv1", "-pix_fmt", "bgr0")
    a = make_movie(tmp_path / "a.mkv", *source, "-frames:v", "10", *lossless)
    b = make_movie(tmp_path / "b.mkv", *source, "-frames:v", "10", *lossless, "-slices", "4", "-level", "3")
    assert a.read_bytes() != b.read_bytes()
    same = compare(a, b)
    assert (same.identical, same.frames, same.worst) == (True, 10, None)
    box = "drawbox=x=3:y=3:w=2:h=2:color=white:enable='eq(n,6)':t=fill"
    changed = make_movie(
        tmp_path / "c.mkv", *source, "-vf", f"format=gbrp,{box}", "-frames:v", "10", *lossless
    )
    found = compare(a, changed)
    assert (found.identical, found.worst) == (False, 6)
    short = make_movie(tmp_path / "d.mkv", *source, "-frames:v", "9", *lossless)
    cut = compare(a, short)
    assert (cut.identical, cut.frames, cut.max_abs) == (False, 9, 0.0)
    assert "has 9 frames, not 10" in cut.difference


# --- probes -----------------------------------------------------------------------------------------


def test_a_probe_of_each_kind_is_json(tmp_path: Path, save: Any, noise: Any, make_movie: Any) -> None:
    exr = save(tmp_path / "a.exr", noise(4, 5, 3, "float16"), origin=(3, 2), full=(0, 0, W, H))
    found = probe(exr)
    assert (found.kind, found.width, found.height, found.subimages) == ("picture", W, H, 1)
    assert found.data_windows == ((3, 2, 5, 4),)
    words = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=30000/1001:d=1", "-f", "lavfi", "-i", "sine=d=1")
    movie = make_movie(tmp_path / "a.mp4", *words, "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")
    told = probe(movie)
    assert (told.kind, told.frames, told.rate, told.codec, told.problem) == (
        "movie",
        30,
        "30000/1001",
        "h264",
        "",
    )
    assert told.constant_rate
    assert told.audio[0].codec == "aac"
    assert told.duration_s == pytest.approx(1.001)
    for facts in (found, told):
        assert msgspec.json.decode(msgspec.json.encode(facts), type=ProbeFacts) == facts
    (tmp_path / "a.vdb").write_bytes(b"xyz")
    assert probe(tmp_path / "a.vdb") == ProbeFacts(path=str(tmp_path / "a.vdb"), kind="plain", size=3)


def test_a_probe_of_a_cut_movie_tells_what_is_missing(tmp_path: Path, make_movie: Any) -> None:
    movie = make_movie(
        tmp_path / "a.mkv", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=1", "-c:v", "libx264"
    )
    movie.write_bytes(movie.read_bytes()[:-30])
    assert "30 bytes are missing" in probe(movie).problem
    with pytest.raises(OutputError, match="does not exist"):
        probe(tmp_path / "none.png")

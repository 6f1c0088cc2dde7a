"""A picture counts only when every byte of it is there and it is what was asked for."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.media.files import hash_file, kind_of
from farm.media.pictures import read_spec, read_spec_and_pixels, verify_picture
from farm.media.structure import check_structure
from farm.media.verify import verify_file, verify_plain
from farm.model.errors import OutputError, UnknownName
from farm.model.outputs import PictureSpec

H, W = 12, 16


def _sample(name: str, folder: Path, save: Callable[..., Path], save_parts: Any, noise: Any) -> Path:
    """One small good picture of a named kind."""
    rgb8, rgba16 = noise(H, W, 3, "uint8"), noise(H, W, 4, "uint16")
    half, real = noise(H, W, 4, "float16"), noise(H, W, 3, "float32")
    makers: dict[str, Callable[[], Path]] = {
        "png8": lambda: save(folder / "a.png", rgb8),
        "png16": lambda: save(folder / "a.png", rgba16),
        "jpg": lambda: save(folder / "a.jpg", rgb8, compression="jpeg:95"),
        "jpg-progressive": lambda: save(folder / "a.jpg", rgb8, jpeg__progressive=1),
        "tif-zip": lambda: save(folder / "a.tif", rgb8, compression="zip"),
        "tif-none": lambda: save(folder / "a.tif", rgba16, compression="none"),
        "tif-tiled": lambda: save(folder / "a.tif", rgb8, compression="lzw", tile=16),
        "tif-float": lambda: save(folder / "a.tif", real, compression="zip"),
        "exr-zip": lambda: save(folder / "a.exr", half, compression="zip"),
        "exr-zips": lambda: save(folder / "a.exr", half, compression="zips"),
        "exr-piz": lambda: save(folder / "a.exr", half, compression="piz"),
        "exr-none": lambda: save(folder / "a.exr", real, compression="none"),
        "exr-dwaa": lambda: save(folder / "a.exr", half, compression="dwaa"),
        "exr-tiled": lambda: save(folder / "a.exr", half, compression="zip", tile=8),
        "exr-parts": lambda: save_parts(folder / "a.exr", [half, real], compression="zip"),
    }
    return makers[name]()


KINDS = (
    *("png8", "png16", "jpg", "jpg-progressive", "tif-zip", "tif-none", "tif-tiled", "tif-float", "exr-zip"),
    *("exr-zips", "exr-piz", "exr-none", "exr-dwaa", "exr-tiled", "exr-parts"),
)


def _refusal(path: Path) -> OutputError | None:
    """What the verifier says against a picture, None when it lets it pass."""
    try:
        verify_picture(path)
    except OutputError as error:
        return error
    return None


@pytest.fixture(params=KINDS)
def picture(request: Any, tmp_path: Path, save: Any, save_parts: Any, noise: Any) -> Path:
    return _sample(request.param, tmp_path, save, save_parts, noise)


def test_a_good_picture_of_every_kind_passes_and_keeps_its_facts(picture: Path) -> None:
    facts = verify_picture(picture, checks=("black", "nan", "neighbour"))
    data = picture.read_bytes()
    assert facts.path == str(picture)
    assert facts.size == len(data)
    assert facts.sha256 == hashlib.sha256(data).hexdigest()
    assert facts.spec is not None
    assert (facts.spec.width, facts.spec.height) == (W, H)
    assert facts.frames is None
    assert facts.warnings == ()


def test_no_cut_of_a_picture_passes(picture: Path) -> None:
    """Whatever length a killed renderer leaves, header or all but one byte, is refused by name."""
    data = picture.read_bytes()
    cut = picture.with_name("cut" + picture.suffix)
    lengths = sorted({*range(0, len(data), 7), *range(max(0, len(data) - 90), len(data))})
    passed = []
    for length in lengths:
        cut.write_bytes(data[:length])
        error = _refusal(cut)
        if error is None:
            passed.append(length)
            continue
        assert str(cut) in str(error)
        assert error.path == str(cut)
        assert "\n" not in str(error)
    assert passed == [], f"of {len(data)} bytes"


@pytest.mark.parametrize("kind", ["png8", "png16"])
def test_no_changed_byte_of_a_png_passes(
    kind: str, tmp_path: Path, save: Any, save_parts: Any, noise: Any
) -> None:
    picture = _sample(kind, tmp_path, save, save_parts, noise)
    data = bytearray(picture.read_bytes())
    for at in range(0, len(data), 3):
        data[at] ^= 0x20
        picture.write_bytes(data)
        with pytest.raises(OutputError):
            verify_picture(picture)
        data[at] ^= 0x20


@pytest.mark.parametrize("kind", ["exr-zip", "exr-none", "png8", "jpg", "tif-zip"])
def test_a_file_with_a_zeroed_tail_of_a_crashed_machine_never_raises_anything_else(
    kind: str, tmp_path: Path, save: Any, save_parts: Any, noise: Any
) -> None:
    """After a power cut a file can have its length and zeros in it: bad or good, but never a traceback."""
    picture = _sample(kind, tmp_path, save, save_parts, noise)
    data = picture.read_bytes()
    for share in (0.0, 0.1, 0.5):
        keep = int(len(data) * share)
        picture.write_bytes(data[:keep] + bytes(len(data) - keep))
        with pytest.raises(OutputError):
            verify_picture(picture)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(min_size=1, max_size=400),
    head=st.integers(0, 5),
    suffix=st.sampled_from(["png", "tif", "jpg", "exr"]),
)
def test_rubbish_is_always_an_output_error(data: bytes, head: int, suffix: str, tmp_path: Path) -> None:
    heads = (
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"II*\0\x08\0\0\0",
        b"\xff\xd8\xff",
        b"MM\0+\0\x08\0\0",
        b"\x76\x2f\x31\x01\x02\0\0\0",
    )
    path = tmp_path / f"rubbish.{suffix}"
    path.write_bytes(heads[head] + data)
    with pytest.raises(OutputError):
        verify_picture(path)


def test_an_empty_file_a_text_a_folder_and_nothing_are_told_apart(tmp_path: Path) -> None:
    empty, text, folder = tmp_path / "empty.png", tmp_path / "text.png", tmp_path / "folder.png"
    empty.touch()
    text.write_text("Error: out of memory\n")
    folder.mkdir()
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    for path, words in [
        (empty, "empty"),
        (text, "cannot be read as a picture"),
        (folder, "is a folder"),
        (pipe, "not a regular file"),
        (tmp_path / "none.png", "does not exist"),
        (tmp_path / ("n" * 300 + ".png"), "cannot be reached"),
    ]:
        with pytest.raises(OutputError, match=words) as caught:
            verify_picture(path)
        assert str(path) in str(caught.value)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_a_png_of_our_own_bytes_is_judged_by_its_chunks(tmp_path: Path) -> None:
    """The walk is checked against files made by hand, not by the library it guards."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(b"\0\1\2\0\3\4"))
    end = _chunk(b"IEND", b"")
    path = tmp_path / "made.png"
    path.write_bytes(_png(header, data, end))
    _, (pixels,) = read_spec_and_pixels(path)
    assert pixels is not None
    assert pixels[..., 0].tolist() == [[1, 2], [3, 4]]
    for content, words in [
        (_png(header, data), "no end"),
        (_png(header, end), "no picture data"),
        (_png(data, header, end), "begins with IDAT"),
        (_png(header, data[:-1] + b"\0", end), "wrong checksum in its IDAT"),
        (_png(header, _chunk(b"IDAT", zlib.compress(b"\0\1\2")), end), "damaged or cut off"),
    ]:
        path.write_bytes(content)
        with pytest.raises(OutputError, match=words):
            verify_picture(path)


def _index_first_tiff(order: str, pages: int = 1) -> bytes:
    """TIFFs whose directory lies before the pixels, as many other programs write them."""
    w, h, rows = 16, 12, 4
    strips = h // rows
    block = 2 + 12 * 9 + 4 + 4 * strips * 2
    start = 8
    pixels_at = start + pages * block
    out = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, start)
    for page in range(pages):
        at = start + page * block
        tables = at + 2 + 12 * 9 + 4
        entries = [(256, 3, 1, w), (257, 3, 1, h), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
        entries += [
            (273, 4, strips, tables),
            (277, 3, 1, 1),
            (278, 3, 1, rows),
            (279, 4, strips, tables + 4 * strips),
        ]
        out += struct.pack(order + "H", 9)
        for tag, kind, count, value in entries:
            if kind == 3:
                out += struct.pack(order + "HHIHH", tag, kind, count, value, 0)
            else:
                out += struct.pack(order + "HHII", tag, kind, count, value)
        out += struct.pack(order + "I", at + block if page + 1 < pages else 0)
        for strip in range(strips):
            out += struct.pack(order + "I", pixels_at + page * w * h + strip * w * rows)
        out += struct.pack(order + "I", w * rows) * strips
    return out + bytes(range(w * h)) * pages


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("pages", [1, 3])
def test_a_tiff_with_its_index_first_is_whole_or_refused(order: str, pages: int, tmp_path: Path) -> None:
    data = _index_first_tiff(order, pages)
    path = tmp_path / "first.tif"
    path.write_bytes(data)
    assert check_structure(path).parts == pages
    spec, arrays = read_spec_and_pixels(path)
    assert spec.subimages == pages
    assert all(array is not None and array.reshape(-1).tolist() == list(range(192)) for array in arrays)
    for length in range(8, len(data), 5):
        path.write_bytes(data[:length])
        with pytest.raises(OutputError):
            verify_picture(path)


def test_a_tiff_whose_directories_form_a_loop_ends(tmp_path: Path) -> None:
    data = bytearray(_index_first_tiff("<", 1))
    data[8 + 2 + 12 * 9 : 8 + 2 + 12 * 9 + 4] = struct.pack("<I", 8)
    path = tmp_path / "loop.tif"
    path.write_bytes(data)
    with pytest.raises(OutputError, match="loop"):
        verify_picture(path)


def test_a_jpeg_with_a_preview_inside_is_not_taken_for_complete(
    tmp_path: Path, save: Any, noise: Any
) -> None:
    """Thumbnails carry end markers of their own; only the picture's own counts."""
    path = save(tmp_path / "a.jpg", noise(H, W, 3, "uint8"))
    data = path.read_bytes()
    thumbnail = b"\xff\xe1" + struct.pack(">H", 2 + 8) + b"\xff\xd8\xff\xda\x00\x00\xff\xd9"
    path.write_bytes(data[:2] + thumbnail + data[2:])
    verify_picture(path)
    path.write_bytes(data[:2] + thumbnail + data[2:-2])
    with pytest.raises(OutputError, match="cut off"):
        verify_picture(path)


@pytest.mark.parametrize(
    ("holds", "says"),
    [("a.png", "b.exr"), ("a.png", "b.jpg"), ("a.exr", "b.png"), ("a.jpg", "b.png"), ("a.tif", "b.exr")],
)
def test_a_name_that_lies_about_the_format_is_refused(
    holds: str, says: str, tmp_path: Path, save: Any, noise: Any
) -> None:
    dtype = "float16" if holds.endswith("exr") else "uint8"
    path = save(tmp_path / holds, noise(H, W, 3, dtype))
    with pytest.raises(OutputError, match="though its name says"):
        verify_picture(path.rename(tmp_path / says))


@pytest.mark.parametrize(
    "name",
    [
        "a b.png",
        'it\'s "q".png',
        "50%.png",
        "f%04d.png",
        "x#1.png",
        "###.png",
        "Größe ü.png",
        "-v.png",
        "a?b=1&c.png",
        "$HOME;`x`.png",
        "новый 影.png",
    ],
)
def test_any_name_works(
    name: str, tmp_path: Path, save: Any, noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = save(tmp_path / "plain.png", noise(H, W, 3, "uint8"))
    path = plain.rename(tmp_path / name)
    assert verify_picture(path).path == str(path)
    monkeypatch.chdir(tmp_path)
    assert verify_picture(name).size == path.stat().st_size


def test_a_picture_is_compared_with_what_was_asked_for(
    tmp_path: Path, save: Any, save_parts: Any, noise: Any
) -> None:
    good = verify_picture(save(tmp_path / "a.exr", noise(H, W, 4, "float16"))).spec
    assert good == PictureSpec(W, H, ("R", "G", "B", "A"), ("half",) * 4)
    for other, words in [
        (save(tmp_path / "b.exr", noise(H, W + 2, 4, "float16")), f"is {W + 2}x{H}, not {W}x{H}"),
        (save(tmp_path / "c.exr", noise(H, W, 3, "float16")), "has channels R,G,B, not R,G,B,A"),
        (save(tmp_path / "d.exr", noise(H, W, 4, "float32")), "has samples float, not half"),
        (
            save_parts(tmp_path / "e.exr", [noise(H, W, 2, "float16"), noise(H, W, 2, "float16")]),
            "has channels",
        ),
    ]:
        with pytest.raises(OutputError, match=words):
            verify_picture(other, expected=good)


def test_data_windows_may_differ_and_display_windows_may_not(tmp_path: Path, save: Any, noise: Any) -> None:
    whole = verify_picture(save(tmp_path / "a.exr", noise(H, W, 3, "float16"))).spec
    cropped = save(tmp_path / "b.exr", noise(4, 5, 3, "float16"), origin=(3, 2), full=(0, 0, W, H))
    assert verify_picture(cropped, expected=whole).spec == whole
    overscan = save(tmp_path / "c.exr", noise(H + 4, W + 4, 3, "float16"), origin=(-2, -2), full=(0, 0, W, H))
    assert verify_picture(overscan, expected=whole).spec == whole


def test_multi_part_and_mixed_formats_keep_every_sample(tmp_path: Path, save_parts: Any, noise: Any) -> None:
    parts = [noise(H, W, 4, "float16"), noise(H, W, 3, "float32"), noise(H, W, 2, "uint32")]
    spec, arrays = read_spec_and_pixels(save_parts(tmp_path / "a.exr", parts))
    assert spec.subimages == 3
    assert spec.formats == ("half",) * 4 + ("float",) * 3 + ("uint",) * 2
    for wrote, read in zip(parts, arrays, strict=True):
        assert read is not None
        assert read.dtype == wrote.dtype
        assert np.array_equal(read, wrote)


def test_a_16_bit_picture_with_alpha_keeps_every_sample(tmp_path: Path, save: Any, noise: Any) -> None:
    pixels = noise(H, W, 4, "uint16")
    pixels[..., 3] = 65535
    _, (read,) = read_spec_and_pixels(save(tmp_path / "a.png", pixels))
    assert read is not None
    assert np.array_equal(read, pixels)


def test_black_is_refused_only_when_asked_and_near_black_is_told(
    tmp_path: Path, save: Any, noise: Any
) -> None:
    pixels = np.zeros((H, W, 4), np.float16)
    pixels[..., 3] = 1.0  # an opaque black picture is black
    black = save(tmp_path / "a.exr", pixels)
    assert verify_picture(black).warnings == ()
    with pytest.raises(OutputError, match="is black"):
        verify_picture(black, checks=("black",))
    pixels[3, 4, 1] = 0.004
    assert "nearly black" in verify_picture(save(tmp_path / "b.exr", pixels), checks=("black",)).warnings[0]
    pixels[3, 4, 1] = 0.5
    assert verify_picture(save(tmp_path / "c.exr", pixels), checks=("black",)).warnings == ()
    pixels[3, 4, 1] = -0.5
    assert verify_picture(save(tmp_path / "d.exr", pixels), checks=("black",)).warnings == ()
    with pytest.raises(OutputError, match="is black"):
        verify_picture(save(tmp_path / "e.png", np.zeros((H, W, 3), np.uint8)), checks=("black",))
    # Depth alone is no colour: nothing to call black.
    depth = save(tmp_path / "f.exr", np.zeros((H, W, 1), np.float32), names=("Z",))
    assert verify_picture(depth, checks=("black",)).warnings == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_nan_and_infinity_are_found_and_named(
    value: float, dtype: str, tmp_path: Path, save: Any, noise: Any
) -> None:
    pixels = noise(H, W, 4, dtype)
    pixels[7, 9, 2] = value
    bad = save(tmp_path / "a.exr", pixels, origin=(100, 50), full=(0, 0, 200, 100))
    assert verify_picture(bad).spec is not None
    with pytest.raises(
        OutputError, match=r"1 samples are NaN or infinite, the first at x=109 y=57 in channel B"
    ):
        verify_picture(bad, checks=("nan",))


def test_nan_is_found_in_a_later_part_and_opposite_infinities_do_not_cancel(
    tmp_path: Path, save_parts: Any, noise: Any
) -> None:
    second = noise(H, W, 3, "float32")
    second[0, 0, 0], second[0, 1, 0] = np.inf, -np.inf
    path = save_parts(tmp_path / "a.exr", [noise(H, W, 3, "float16"), second])
    with pytest.raises(OutputError, match="2 samples"):
        verify_picture(path, checks=("nan",))


def test_a_picture_like_its_neighbour_is_refused_whatever_the_compression(
    tmp_path: Path, save: Any, noise: Any
) -> None:
    pixels = noise(H, W, 3, "float16")
    first = save(tmp_path / "a.exr", pixels, compression="zip")
    same = save(tmp_path / "b.exr", pixels, compression="piz")
    assert first.read_bytes() != same.read_bytes()
    with pytest.raises(OutputError, match=r"same as its neighbour a\.exr"):
        verify_picture(same, checks=("neighbour",), neighbour=first)
    pixels[0, 0, 0] += np.float16(0.002)
    near = verify_picture(save(tmp_path / "c.exr", pixels), checks=("neighbour",), neighbour=first)
    assert "nearly the same" in near.warnings[0]
    pixels[0, 0, 0] += np.float16(0.5)
    assert (
        verify_picture(save(tmp_path / "d.exr", pixels), checks=("neighbour",), neighbour=first).warnings
        == ()
    )
    broken = tmp_path / "e.exr"
    broken.write_bytes(first.read_bytes()[:200])
    told = verify_picture(first, checks=("neighbour",), neighbour=broken)
    assert "could not be compared" in told.warnings[0]


def test_an_unknown_check_is_refused_by_name(tmp_path: Path, save: Any, noise: Any) -> None:
    with pytest.raises(UnknownName, match="'blck'"):
        verify_picture(save(tmp_path / "a.png", noise(H, W, 3, "uint8")), checks=("blck",))


def test_a_file_that_changes_while_it_is_checked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"12345")
    with pytest.raises(OutputError, match="changed from 4 to 5 bytes"):
        hash_file(path, 4)


def test_reading_headers_does_not_need_the_pixels_but_the_container(
    tmp_path: Path, save: Any, noise: Any
) -> None:
    path = save(tmp_path / "a.png", noise(H, W, 3, "uint8"))
    assert read_spec(path) == PictureSpec(W, H, ("R", "G", "B"), ("uint8",) * 3)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(OutputError):
        read_spec(path)


def test_the_verifier_is_chosen_by_the_name(tmp_path: Path, save: Any, noise: Any) -> None:
    assert [
        kind_of(name) for name in ("A.EXR", "a.0001.png", "f.mov", "f.Mkv", "a.vdb", "noext", ".png")
    ] == [*("picture", "picture", "movie", "movie", "plain", "plain", "plain")]
    picture = save(tmp_path / "a.png", noise(H, W, 3, "uint8"))
    assert verify_file(picture).spec is not None
    assert verify_file(picture, "plain").spec is None
    cache = tmp_path / "a.vdb"
    cache.write_bytes(b"x" * 10)
    assert verify_plain(cache).sha256 == hashlib.sha256(b"x" * 10).hexdigest()
    cache.write_bytes(b"")
    with pytest.raises(OutputError, match="empty"):
        verify_file(cache)
    with pytest.raises(OutputError):
        verify_file(cache, "movie")

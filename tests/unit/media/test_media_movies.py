"""Movies are counted by decoding, and agree with the ffprobe program or are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.media.ffmpeg import ffmpeg_version, find_ffmpeg, passthrough_option, version_key
from farm.media.movies import audio_source, count_frames, first_off_beat, verify_movie
from farm.model.errors import OutputError, UnknownName

FILM = Fraction(24000, 1001)
_SOURCE = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=24000/1001:d=5", "-frames:v", "40", "-pix_fmt", "yuv420p")


def _refusal(path: Path) -> OutputError | None:
    """What the verifier says against a movie, None when it lets it pass."""
    try:
        verify_movie(path)
    except OutputError as error:
        return error
    return None


_X264 = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-g", "12")


@pytest.fixture(scope="session")
def movies(tmp_path_factory: pytest.TempPathFactory, make_movie: Callable[..., Path]) -> dict[str, Path]:
    """One good movie of 40 frames of each kind."""
    folder = tmp_path_factory.mktemp("movies")
    words = {
        "h264.mp4": _X264,
        "fast.mp4": (*_X264, "-movflags", "+faststart"),
        "h264.mov": _X264,
        "h264.mkv": _X264,
        "ffv1.mkv": ("-c:v", "ffv1", "-level", "3", "-g", "1", "-slicecrc", "1"),
        "prores.mov": ("-c:v", "prores_ks", "-profile:v", "0", "-pix_fmt", "yuv422p10le"),
        "mjpeg.avi": ("-c:v", "mjpeg"),
        "h264.ts": _X264,
    }
    return {name: make_movie(folder / name, *_SOURCE, *more) for name, more in words.items()}


@pytest.mark.parametrize(
    "name", ["h264.mp4", "fast.mp4", "h264.mov", "h264.mkv", "ffv1.mkv", "prores.mov", "mjpeg.avi", "h264.ts"]
)
def test_counting_agrees_with_ffprobe(name: str, movies: dict[str, Path], ffprobe: Any) -> None:
    facts = count_frames(movies[name])
    told = ffprobe(movies[name], "-count_frames", "-select_streams", "v:0", "-show_streams", "-show_frames")
    stream = told["streams"][0]
    assert facts.frames == int(stream["nb_read_frames"]) == 40
    assert (facts.width, facts.height, facts.pix_fmt) == (
        stream["width"],
        stream["height"],
        stream["pix_fmt"],
    )
    assert facts.codec == stream["codec_name"]
    assert facts.increasing
    assert facts.packets == 40
    assert facts.rate == FILM
    base = Fraction(stream["time_base"])
    assert facts.time_base == base
    first = Fraction(told["frames"][0]["pts"]) * base
    assert facts.start_s == pytest.approx(float(first))
    assert facts.duration_s == pytest.approx(40 * 1001 / 24000, abs=float(base))
    if name != "h264.ts":  # a transport stream does not start at 0
        assert facts.constant
        assert verify_movie(movies[name], frames=40, rate=FILM).frames == 40


@pytest.mark.parametrize("name", ["h264.mp4", "fast.mp4", "h264.mov", "h264.mkv", "ffv1.mkv", "mjpeg.avi"])
def test_no_cut_of_a_movie_passes_even_without_a_planned_count(
    name: str, movies: dict[str, Path], tmp_path: Path
) -> None:
    data = movies[name].read_bytes()
    cut = tmp_path / ("cut" + movies[name].suffix)
    passed = []
    for length in {
        *range(0, len(data), max(1, len(data) // 25)),
        *(len(data) - back for back in (1, 2, 8, 40, 200)),
    }:
        cut.write_bytes(data[:length])
        if (error := _refusal(cut)) is None:
            passed.append(length)
        else:
            assert str(cut) in str(error)
    assert passed == [], f"of {len(data)} bytes"


def test_a_wrong_count_a_wrong_rate_and_a_shifted_frame_are_refused(movies: dict[str, Path]) -> None:
    path = movies["h264.mp4"]
    with pytest.raises(OutputError, match="holds 40 frames, not 41"):
        verify_movie(path, frames=41)
    with pytest.raises(OutputError, match="24000/1001 frames a second, not 24/1"):
        verify_movie(path, frames=40, rate=Fraction(24))


def test_every_changed_byte_of_a_lossless_picture_stream_is_found(
    movies: dict[str, Path], tmp_path: Path
) -> None:
    """FFV1 with slice checksums: not one flipped byte inside the pictures may pass."""
    data = bytearray(movies["ffv1.mkv"].read_bytes())
    path = tmp_path / "flip.mkv"
    with av.open(str(movies["ffv1.mkv"])) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    assert len(places) == 40
    for number, (start, size) in enumerate(places[::3]):
        # Matroska's block head lies between the position and the data: aim at the middle of the picture.
        at = start + size // 2 + number
        data[at] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(OutputError, match=r"damaged|corrupt|do not decode"):
            verify_movie(path, frames=40)
        data[at] ^= 0x10


def test_ffv1_without_checksums_still_passes(tmp_path: Path, make_movie: Callable[..., Path]) -> None:
    for number, words in enumerate([("-level", "3", "-slicecrc", "0"), ("-level", "1")]):
        path = make_movie(tmp_path / f"{number}.mkv", *_SOURCE, "-c:v", "ffv1", *words)
        assert verify_movie(path, frames=40, rate=FILM).frames == 40


def test_a_damaged_h264_stream_is_refused(movies: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(movies["h264.mp4"].read_bytes())
    start = data.index(b"mdat") + 800
    data[start : start + 300] = bytes(300)
    path = tmp_path / "holes.mp4"
    path.write_bytes(data)
    with pytest.raises(OutputError):
        verify_movie(path, frames=40)


def test_what_is_no_movie_is_told_apart(
    tmp_path: Path, make_movie: Callable[..., Path], movies: dict[str, Path]
) -> None:
    text, empty = tmp_path / "text.mp4", tmp_path / "empty.mkv"
    text.write_text("out of memory\n")
    empty.touch()
    # A playlist under a movie's name must not be followed.
    playlist = tmp_path / "list.mp4"
    playlist.write_text(f"ffconcat version 1.0\nfile '{movies['h264.mp4']}'\n")
    sound = make_movie(tmp_path / "sound.mp4", "-f", "lavfi", "-i", "sine=d=0.3", "-c:a", "aac")
    for path, words in [
        (text, "cannot be read as a movie|cut off|damaged"),
        (empty, "empty"),
        (playlist, "cannot be read as a movie|cut off|damaged"),
        (sound, "holds no video"),
        (tmp_path / "none.mov", "does not exist"),
    ]:
        with pytest.raises(OutputError, match=words) as caught:
            verify_movie(path)
        assert str(path) in str(caught.value)


def test_an_unfinished_matroska_is_refused(movies: dict[str, Path], tmp_path: Path) -> None:
    """A killed writer leaves "length unknown" in the segment's head."""
    data = bytearray(movies["h264.mkv"].read_bytes())
    at = data.index(b"\x18\x53\x80\x67") + 4
    data[at : at + 8] = b"\x01" + b"\xff" * 7
    path = tmp_path / "live.mkv"
    path.write_bytes(data)
    with pytest.raises(OutputError, match="never finished"):
        verify_movie(path, frames=40)


def test_an_edit_list_hides_frames_and_only_shown_ones_count(
    tmp_path: Path, make_movie: Callable[..., Path], ffprobe: Any
) -> None:
    long = make_movie(tmp_path / "a.mp4", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=4", *_X264)
    cut = make_movie(tmp_path / "cut.mp4", "-ss", "1.3", "-i", str(long), "-c", "copy")
    told = ffprobe(cut, "-count_frames", "-select_streams", "v:0", "-show_streams")["streams"][0]
    facts = count_frames(cut)
    assert facts.frames == int(told["nb_read_frames"])
    assert facts.frames < int(told["nb_frames"])
    assert verify_movie(cut).frames == facts.frames


def test_a_cover_picture_is_not_the_movie(
    tmp_path: Path, make_movie: Callable[..., Path], movies: dict[str, Path], save: Any
) -> None:
    cover = save(tmp_path / "c.png", np.full((30, 40, 3), 9, np.uint8))
    words = ("-i", str(cover), "-i", str(movies["h264.mp4"]), "-map", "0", "-map", "1", "-c", "copy")
    path = make_movie(tmp_path / "with-cover.mp4", *words, "-disposition:v:0", "attached_pic")
    facts = count_frames(path)
    assert (facts.frames, facts.codec) == (40, "h264")


def test_variable_rate_increases_but_is_not_constant(tmp_path: Path, make_movie: Callable[..., Path]) -> None:
    words = (
        "-f",
        "lavfi",
        "-i",
        "testsrc2=s=64x48:r=30:d=2",
        "-vf",
        r"select='not(between(mod(n\,10)\,3\,4))',settb=1/1000",
    )
    path = make_movie(tmp_path / "v.mkv", *words, *passthrough_option(find_ffmpeg()), *_X264)
    facts = count_frames(path)
    assert facts.frames == 48
    assert facts.increasing
    assert not facts.constant
    assert verify_movie(path, frames=48).frames == 48
    assert facts.rate is not None
    with pytest.raises(OutputError, match="multiples"):
        verify_movie(path, rate=facts.rate)


def test_times_that_go_back_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "back.mkv"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuvj420p"
        order = iter([0, 1, 3, 2, 4])
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 40 * number, np.uint8), format="rgb24")
            for packet in stream.encode(frame.reformat(format="yuvj420p")):
                packet.time_base = Fraction(1, 25)
                packet.pts = next(order)
                packet.dts = number - 5
                out.mux(packet)
        for packet in stream.encode(None):
            packet.time_base, packet.pts, packet.dts = Fraction(1, 25), next(order), 4
            out.mux(packet)
    assert not count_frames(path).increasing
    with pytest.raises(OutputError, match="do not increase"):
        verify_movie(path, frames=5)


def test_sound_is_counted_and_colour_is_read(tmp_path: Path, make_movie: Callable[..., Path]) -> None:
    sound = ("-f", "lavfi", "-i", "sine=r=44100:d=1", "-c:a", "flac")
    primaries = ("-color_primaries", "bt2020", "-color_trc", "smpte2084")
    matrix = ("-colorspace", "bt2020nc", "-color_range", "tv")
    path = make_movie(tmp_path / "s.mkv", *_SOURCE[:4], *sound, *_SOURCE[4:], *_X264, *primaries, *matrix)
    facts = count_frames(path)
    (heard,) = facts.audio_streams
    assert (heard.codec, heard.sample_rate, heard.channels, heard.samples) == ("flac", 44100, 1, 44100)
    assert (facts.colour.primaries, facts.colour.transfer) == ("bt2020", "smpte2084")
    assert (facts.colour.matrix, facts.colour.range) == ("bt2020nc", "tv")
    assert audio_source(path) == 44100


def test_a_file_without_sound_is_no_sound(movies: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no sound"):
        audio_source(movies["h264.mp4"])
    bad = tmp_path / "a.wav"
    bad.write_bytes(b"RIFF0000WAVEjunk")
    with pytest.raises(OutputError):
        audio_source(bad)


_RATES = st.one_of(
    st.sampled_from([Fraction(24), FILM, Fraction(30000, 1001), Fraction(60000, 1001), Fraction(25, 2)]),
    st.fractions(min_value=Fraction(1, 2), max_value=240, max_denominator=1001),
)


@settings(deadline=None)
@given(
    rate=_RATES,
    base=st.sampled_from([Fraction(1, 1000), Fraction(1, 90000), Fraction(1, 24000)]),
    count=st.integers(1, 300),
    data=st.data(),
)
def test_a_rounded_time_is_on_the_beat_and_any_other_is_not(
    rate: Fraction, base: Fraction, count: int, data: Any
) -> None:
    ticks = [round(index / rate / base) for index in range(count)]
    assert first_off_beat(ticks, base, rate) is None
    at = data.draw(st.integers(0, count - 1))
    ticks[at] += data.draw(st.sampled_from([-2, 2]))
    assert first_off_beat(ticks, base, rate) == at


def test_ffmpeg_is_found_by_variable_then_path_then_package(tmp_path: Path) -> None:
    fake = tmp_path / "my ffmpeg"
    fake.write_text("#!/bin/sh\necho ffmpeg version 4.4.2-0ubuntu0.22.04.1 Copyright\n")
    fake.chmod(0o755)
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "ffmpeg"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    where = {"PATH": str(tmp_path / "bin")}
    assert find_ffmpeg({**where, "OVERCRANK_FFMPEG": str(fake)}) == str(fake)
    assert find_ffmpeg(where) == str(other)
    assert ffmpeg_version(str(fake)) == "4.4.2-0ubuntu0.22.04.1"
    assert passthrough_option(str(fake)) == ("-vsync", "passthrough")
    with pytest.raises(UnknownName, match=r"OVERCRANK_FFMPEG=/no/where .*install"):
        find_ffmpeg({**where, "OVERCRANK_FFMPEG": "/no/where"})
    with pytest.raises(UnknownName, match="does not answer"):
        ffmpeg_version(str(other))
    with pytest.raises(UnknownName, match="cannot be started"):
        ffmpeg_version(str(tmp_path / "gone"))


def test_without_any_ffmpeg_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(UnknownName, match=re.escape("apt install ffmpeg")):
        find_ffmpeg({"PATH": ""})


def test_versions_are_read_from_all_known_forms() -> None:
    assert version_key("5.1.9-0+deb12u1") == (5, 1)
    assert version_key("n9.0.2-17-g2a571b6068") == (9, 0)
    assert version_key("N-109-gabcdef") == (99, 0)
    assert version_key("2024-01-01-git-abc") == (99, 0)


def test_the_program_of_this_machine_answers() -> None:
    assert version_key(ffmpeg_version(find_ffmpeg())) >= (4, 0)

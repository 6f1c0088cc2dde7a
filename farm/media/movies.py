"""Counts, probes and verifies movies by decoding every frame with PyAV.

What a container says of itself (frame count, duration) is a hint: edit lists, lost packets and cut
files make it wrong.  Only decoded frames count.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.error
import msgspec

from farm.media.files import hash_file, size_of
from farm.media.structure import check_structure, ffv1_intact
from farm.model.errors import OutputError
from farm.model.outputs import FileFacts

#: The demuxer each suffix must be read with.  Chosen by name, never by content: a text file called
#: film.mp4 could otherwise be read as a playlist that opens other files.
_DEMUXERS = {
    **dict.fromkeys((".mp4", ".m4v", ".mov", ".3gp"), "mov"),
    **dict.fromkeys((".mkv", ".webm"), "matroska"),
    ".avi": "avi",
    ".mxf": "mxf",
    **dict.fromkeys((".ts", ".mts", ".m2ts"), "mpegts"),
    **dict.fromkeys((".mpg", ".mpeg"), "mpeg"),
    ".wmv": "asf",
    ".flv": "flv",
    ".ogv": "ogg",
}
#: Codecs that give one frame for each packet; fewer frames than packets means damage.
_ONE_FRAME_A_PACKET = frozenset(
    {"h264", "hevc", "av1", "vp9", "ffv1", "prores", "dnxhd", "mjpeg", "mpeg4", "png", "rawvideo"}
)

_PRIMARIES = {
    1: "bt709",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    9: "bt2020",
    11: "smpte431",
    12: "smpte432",
}
_TRANSFERS = {
    1: "bt709",
    4: "gamma22",
    5: "gamma28",
    6: "smpte170m",
    8: "linear",
    13: "iec61966-2-1",
    14: "bt2020-10",
    15: "bt2020-12",
    16: "smpte2084",
    18: "arib-std-b67",
}
_MATRICES = {0: "gbr", 1: "bt709", 5: "bt470bg", 6: "smpte170m", 9: "bt2020nc", 10: "bt2020c"}
_RANGES = {1: "tv", 2: "pc"}


class ColourTags(msgspec.Struct, frozen=True):
    """The four colour tags of a video stream, by FFmpeg's names; "" where a tag is not set."""

    primaries: str = ""
    transfer: str = ""
    matrix: str = ""
    range: str = ""


class AudioFacts(msgspec.Struct, frozen=True):
    """One audio stream, counted by decoding it.

    Attributes:
        codec: Codec name.
        sample_rate: Samples per second.
        channels: Channels.
        samples: Decoded samples per channel.
        start_s: When the first sample sounds.
        duration_s: ``samples / sample_rate``.
    """

    codec: str
    sample_rate: int
    channels: int
    samples: int
    start_s: float
    duration_s: float


class MovieFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decoding a movie from end to end told.

    Attributes:
        container: ``mp4``, ``mov``, ``matroska`` ...: FFmpeg's name of the demuxer.
        codec: Codec of the video stream.
        pix_fmt: Pixel format.
        width: Coded width in pixels.
        height: Coded height in pixels.
        frames: Decoded frames.
        packets: Packets that should have given a frame.
        rate: The stream's average rate, None when the file does not tell.
        time_base: One tick of the stream in seconds.
        start_s: Time of the first frame.
        duration_s: Time from the first frame to the end of the last one.
        increasing: Every frame is later than the one before.
        constant: Every frame lies at its own multiple of 1/rate, to the nearest tick of the container.
        colour: Colour tags.
        audio_streams: The audio streams.
    """

    container: str
    codec: str
    pix_fmt: str
    width: int
    height: int
    frames: int
    packets: int
    rate: Fraction | None
    time_base: Fraction
    start_s: float
    duration_s: float
    increasing: bool
    constant: bool
    colour: ColourTags
    audio_streams: tuple[AudioFacts, ...] = ()


@contextlib.contextmanager
def opened(name: str) -> Iterator[Any]:
    """Opens a movie with the demuxer its suffix promises and no access to anything but that file.

    Raises:
        OutputError: The file is missing, empty or not such a movie.
    """
    size_of(name)
    try:
        container = av.open(
            # An absolute path is never taken for a protocol or an option.
            os.path.abspath(name),  # noqa: PTH100 - must not resolve links
            format=_DEMUXERS.get(Path(name).suffix.lower()),
            options={"protocol_whitelist": "file"},
            metadata_errors="replace",
        )
    except (av.error.FFmpegError, ValueError) as error:
        raise OutputError(f"{name}: cannot be read as a movie: {_reason(error)}", name) from error
    with container:
        yield container


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def video_of(container: Any, name: str) -> Any:
    """The video stream that is shown; cover pictures attached to the file are none.

    Raises:
        OutputError: There is no video.
    """
    for stream in container.streams.video:
        if not int(stream.disposition) & int(av.stream.Disposition.attached_pic):
            return stream
    raise OutputError(f"{name}: the movie holds no video", name)


class _Audio:
    """Running count of one audio stream."""

    def __init__(self, stream: Any) -> None:
        self.codec = str(stream.codec_context.name)
        self.rate = int(stream.codec_context.sample_rate)
        self.channels = int(stream.codec_context.channels)
        self.samples = 0
        self.start_s: float | None = None

    def feed(self, frame: Any) -> None:
        if self.start_s is None and frame.pts is not None:
            self.start_s = float(frame.pts * frame.time_base)
        self.samples += frame.samples

    def facts(self) -> AudioFacts:
        length_s = self.samples / self.rate if self.rate else 0.0
        return AudioFacts(self.codec, self.rate, self.channels, self.samples, self.start_s or 0.0, length_s)


def _strict(stream: Any) -> None:
    """Asks a decoder to report damage instead of hiding it (checksums, bit stream, buffers)."""
    stream.codec_context.options = {"err_detect": "crccheck+bitstream+buffer+explode"}


def count_frames(
    path: str | os.PathLike[str], *, each: Callable[[int, Any], None] | None = None
) -> MovieFacts:
    """Decodes every video frame and every audio sample of a movie and tells what was there.

    Args:
        path: The movie.
        each: Called with the index and PyAV's frame of every frame, as it is decoded.

    Raises:
        OutputError: The file is missing, empty, no movie, or a packet is damaged.
    """
    name = os.fspath(path)
    with opened(name) as container:
        video = video_of(container, name)
        _strict(video)
        video.thread_type = "AUTO"
        # Streams whose decoder this build lacks have no codec context; they are left alone.
        sounds = {stream.index: _Audio(stream) for stream in container.streams.audio if stream.codec_context}
        packets = 0
        # FFV1 packets whose slice checksums are right, and the index of the first that has none such.
        intact, torn = 0, None
        ticks: list[int] = []
        last_duration = 0
        try:
            for packet in container.demux([video, *(container.streams[index] for index in sounds)]):
                if packet.stream.index != video.index:
                    for frame in packet.decode():
                        sounds[packet.stream.index].feed(frame)
                    continue
                if packet.size:
                    packets += not packet.is_discard
                    if packet.is_corrupt:
                        raise OutputError(f"{name}: packet {packets} of the video is corrupt", name)
                    if video.codec_context.name == "ffv1":
                        if ffv1_intact(bytes(packet)):
                            intact += 1
                        elif torn is None:
                            torn = packets - 1
                for frame in packet.decode():
                    if frame.is_corrupt:
                        raise OutputError(f"{name}: frame {len(ticks)} (from 0) is damaged", name)
                    if frame.pts is None:
                        raise OutputError(f"{name}: frame {len(ticks)} (from 0) has no time", name)
                    if each is not None:
                        each(len(ticks), frame)
                    ticks.append(int(frame.pts))
                    last_duration = int(frame.duration or 0)
        except (av.error.FFmpegError, ValueError) as error:
            raise OutputError(
                f"{name}: the movie is damaged after {len(ticks)} good frames: {_reason(error)}", name
            ) from error
        if intact and torn is not None:
            raise OutputError(f"{name}: frame {torn} (from 0) is damaged: wrong checksum", name)
        return _facts(container, video, ticks, packets, last_duration, tuple(sounds.values()))


def _facts(
    container: Any,
    video: Any,
    ticks: list[int],
    packets: int,
    last_duration: int,
    sounds: tuple[_Audio, ...],
) -> MovieFacts:
    context = video.codec_context
    base = Fraction(video.time_base)
    rate = Fraction(video.average_rate) if video.average_rate else None
    if rate and "matroska" in container.format.name:
        rate = _unrounded(rate)
    duration_s = 0.0
    if ticks:
        last = Fraction(last_duration) * base or (1 / rate if rate else Fraction(0))
        if rate and abs(last - 1 / rate) <= base:
            last = 1 / rate  # the container rounds the last duration to its tick
        duration_s = float((max(ticks) - ticks[0]) * base + last)
    return MovieFacts(
        container=str(container.format.name).partition(",")[0],
        codec=str(context.name),
        pix_fmt=str(context.pix_fmt or ""),
        width=int(context.width),
        height=int(context.height),
        frames=len(ticks),
        packets=packets,
        rate=rate,
        time_base=base,
        start_s=float(ticks[0] * base) if ticks else 0.0,
        duration_s=duration_s,
        increasing=all(earlier < later for earlier, later in itertools.pairwise(ticks)),
        constant=rate is not None and first_off_beat(ticks, base, rate) is None,
        colour=ColourTags(
            _PRIMARIES.get(int(context.color_primaries), ""),
            _TRANSFERS.get(int(context.color_trc), ""),
            # 0 is both "gbr" and PyAV's value for a stream of RGB pixels.
            _MATRICES.get(int(context.colorspace), ""),
            _RANGES.get(int(context.color_range), ""),
        ),
        audio_streams=tuple(sound.facts() for sound in sounds),
    )


def _unrounded(rate: Fraction) -> Fraction:
    """The rate that was meant by a frame duration which Matroska rounds to whole nanoseconds.

    60000/1001 comes back as 19001/317 otherwise.
    """
    for meant in (Fraction(round(rate)), Fraction(round(rate * 1001), 1001)):
        if meant and abs(1 / meant - 1 / rate) <= Fraction(1, 10**9):
            return meant
    return rate


def first_off_beat(ticks: list[int], base: Fraction, rate: Fraction) -> int | None:
    """First index whose time is not index/rate to the nearest tick; None when all are right.

    Containers with a fine tick (MP4) hold every time exactly; Matroska's millisecond rounds it, which is
    right to half a tick and never more.
    """
    for index, tick in enumerate(ticks):
        if 2 * abs(tick * base - index / rate) > base:
            return index
    return None


def verify_movie(
    path: str | os.PathLike[str],
    *,
    frames: int | None = None,
    rate: Fraction | None = None,
    facts: MovieFacts | None = None,
) -> FileFacts:
    """Verifies a movie: it is complete, every frame decodes, times increase, counts agree.

    An encoder's exit code proves nothing: it is 0 with chunks missing and with files cut short.

    Args:
        path: The file.
        frames: How many frames it must have; any number from 1 when None.
        rate: The exact rate it must have; then frame i must lie at i/rate.
        facts: Of a decode that was just made of this very file, to save a second one.

    Raises:
        OutputError: What is wrong with the file, by name.
    """
    name = os.fspath(path)
    size = size_of(name)
    check_structure(name)
    found = facts or count_frames(name)
    if not found.frames:
        raise OutputError(f"{name}: the movie holds no frame", name)
    if frames is not None and found.frames != frames:
        raise OutputError(f"{name}: holds {found.frames} frames, not {frames}", name)
    if found.codec in _ONE_FRAME_A_PACKET and found.frames < found.packets:
        raise OutputError(
            f"{name}: {found.packets - found.frames} of {found.packets} frames do not decode", name
        )
    if not found.increasing:
        raise OutputError(f"{name}: the times of its frames do not increase", name)
    if rate is not None:
        if found.rate != rate:
            raise OutputError(
                f"{name}: runs at {rate_text(found.rate)} frames a second, not {rate_text(rate)}", name
            )
        if not found.constant:
            raise OutputError(f"{name}: its frames do not lie at multiples of 1/({rate_text(rate)}) s", name)
    return FileFacts(path=name, size=size, sha256=hash_file(name, size), frames=found.frames)


def rate_text(rate: Fraction | None) -> str:
    """A rate as ``24/1``; ``?`` when unknown."""
    return f"{rate.numerator}/{rate.denominator}" if rate is not None else "?"


def audio_source(path: str | os.PathLike[str]) -> int:
    """Sample rate of the first audio stream of any sound or movie file; decodes the first sound.

    Raises:
        OutputError: The file is missing, empty, or holds no sound that can be decoded.
    """
    name = os.fspath(path)
    with opened(name) as container:
        if not container.streams.audio:
            raise OutputError(f"{name}: holds no sound", name)
        stream = container.streams.audio[0]
        try:
            for frame in container.decode(stream):
                return int(frame.sample_rate)
        except (av.error.FFmpegError, ValueError) as error:
            raise OutputError(f"{name}: its sound is damaged: {_reason(error)}", name) from error
    raise OutputError(f"{name}: holds no sound", name)

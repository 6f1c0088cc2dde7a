"""Makes one film of a planned list of pictures and proves that it is right.

Belongs here: the options of the encode and the verification after it.  Pictures are decoded by
OpenImageIO and handed to ffmpeg as raw frames: ffmpeg's own picture readers end at the first hole,
rescale odd sizes and lose 16-bit and alpha silently, and its lists of stills tick at 1/25 s.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from farm.media.encode import Cancelled, Encoder
from farm.media.ffmpeg import passthrough_option
from farm.media.files import size_of
from farm.media.movies import ColourTags, MovieFacts, audio_source, count_frames, rate_text, verify_movie
from farm.media.pixels import Array
from farm.media.sequence import ProblemKind, SequenceFacts, StitchError, check_sequence, read_frames
from farm.media.stitch_plan import StitchPlan, check_plan, parse_rate
from farm.media.structure import check_structure
from farm.model.errors import OutputError
from farm.model.outputs import FileFacts

__all__ = ["Cancelled", "ProblemKind", "StitchError", "StitchPlan", "check_plan", "parse_rate", "stitch"]

_MUXERS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
#: The colour of every H.264 film: what players assume, said aloud.
_BT709 = ColourTags("bt709", "bt709", "bt709", "tv")
#: Sample rates every player of MP4 can play; others are resampled to the second.
_MP4_SAMPLE_RATES = (44_100, 48_000)
#: Samples an AAC encoder may add behind the end.
_AAC_TAIL = 1024
_READ_WORKERS = 4


class _Layout(NamedTuple):
    """Raw frames as the encoder gets them."""

    width: int
    height: int
    pix_fmt: str
    alpha: bool
    padded: bool


def stitch(
    plan: StitchPlan,
    *,
    ffmpeg: str,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> FileFacts:
    """Makes the film and verifies it by decoding all of it.

    Args:
        plan: What to make.
        ffmpeg: Path of the ffmpeg program.
        progress: Called with the number of pictures handed over and their total.
        cancelled: Asked often, also while ffmpeg is busy; True ends the work.

    Returns:
        Facts of the verified film; ``frames`` is what was counted, ``warnings`` tell of padding, of
        alpha laid over black and of what ffmpeg complained about.

    Raises:
        CallError: The plan's words are wrong or ask for what is not built.
        StitchError: An input is missing or damaged, the encoder failed, or the film is not as planned.
            No film is left behind then.
        Cancelled: ``cancelled`` said so.  No film is left behind.
    """
    stop = cancelled or (lambda: False)

    def check_stop() -> None:
        if stop():
            raise Cancelled("the stitch was cancelled")

    rate = check_plan(plan)
    facts = check_sequence(plan, check_stop)
    sound = _check_audio(plan)
    parent = Path(plan.output).parent
    if not parent.is_dir():
        raise StitchError(f"{parent}: the folder of the film does not exist", str(parent), problem="path")
    layout = _layout(plan, facts)
    argv = _command(plan, ffmpeg, rate, layout, sound)
    warnings: list[str] = []
    try:
        hashes = _encode(plan, facts, layout, argv, progress, stop, warnings)
        found = _verify(plan, rate, layout, sound, hashes, check_stop)
    except BaseException:
        # A half film must never be taken for one.
        with contextlib.suppress(OSError):
            Path(plan.output).unlink()
        raise
    if layout.padded:
        warnings.insert(
            0, f"padded from {facts.spec.width}x{facts.spec.height} to {layout.width}x{layout.height}"
        )
    if facts.channels.alpha is not None and not layout.alpha:
        warnings.append("alpha was laid over black")
    return FileFacts(
        path=plan.output, size=found.size, sha256=found.sha256, frames=found.frames, warnings=tuple(warnings)
    )


def _check_audio(plan: StitchPlan) -> int:
    """Sample rate of the sound to lay under the film, 0 when there is none."""
    if plan.audio is None:
        return 0
    if not os.path.lexists(plan.audio):
        raise StitchError(f"the sound {plan.audio} does not exist", plan.audio, problem="path")
    try:
        return audio_source(plan.audio)
    except OutputError as error:
        raise StitchError(f"the sound {error.message}", plan.audio, problem="output") from error


def _layout(plan: StitchPlan, facts: SequenceFacts) -> _Layout:
    width, height = facts.spec.width, facts.spec.height
    alpha = plan.encode == "ffv1" and facts.channels.alpha is not None
    names = ("rgba64le", "rgb48le") if facts.deep else ("rgba", "rgb24")
    padded = False
    if plan.encode == "h264":
        # 4:2:0 halves the size of the colour planes, so both sides must be even.
        padded = bool(width % 2 or height % 2)
        width, height = width + width % 2, height + height % 2
    return _Layout(width, height, names[0] if alpha else names[1], alpha, padded)


def _command(plan: StitchPlan, ffmpeg: str, rate: Fraction, layout: _Layout, sound: int) -> list[str]:
    suffix = Path(plan.output).suffix.lower()
    argv = [ffmpeg, "-hide_banner", "-nostdin", "-v", "error", "-y"]
    argv += [
        "-f",
        "rawvideo",
        "-pixel_format",
        layout.pix_fmt,
        "-video_size",
        f"{layout.width}x{layout.height}",
    ]
    argv += ["-framerate", rate_text(rate), "-i", "pipe:0"]
    if plan.audio is not None:
        argv += ["-protocol_whitelist", "file", "-i", plan.audio]
    argv += ["-map", "0:v:0", "-map_metadata", "-1", "-map_chapters", "-1", *passthrough_option(ffmpeg)]
    if plan.encode == "h264":
        # Said three times on purpose: the matrix of the conversion, the tags of the frames, the tags of
        # the stream.  Each of them is guessed wrong by some version when only the others are given.
        argv += [
            "-vf",
            "scale=in_range=pc:out_range=tv:out_color_matrix=bt709:flags=bicubic+accurate_rnd+full_chroma_int,"
            "format=yuv420p,setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709",
            *("-c:v", "libx264", "-preset", plan.preset, "-crf", str(plan.crf), "-pix_fmt", "yuv420p"),
            *(
                "-color_primaries",
                "bt709",
                "-color_trc",
                "bt709",
                "-colorspace",
                "bt709",
                "-color_range",
                "tv",
            ),
        ]
    else:
        # A checksum in every slice, so that damage shows when the film is decoded.
        stored = {"rgb24": "bgr0", "rgba": "bgra", "rgb48le": "gbrp16le", "rgba64le": "gbrap16le"}
        argv += [
            "-c:v",
            "ffv1",
            "-level",
            "3",
            "-g",
            "1",
            "-slicecrc",
            "1",
            "-pix_fmt",
            stored[layout.pix_fmt],
        ]
    if plan.threads:
        argv += ["-threads", str(plan.threads)]
    if sound:
        argv += ["-map", "1:a:0", *_audio_options(suffix, sound, len(plan.frames) / rate)]
    if layout.padded:
        argv += ["-metadata", "comment=padded to even size: cut right and bottom to the original"]
    if suffix != ".mkv":
        argv += ["-movflags", "+faststart"]
    return [*argv, "-f", _MUXERS[suffix], plan.output]


def _audio_options(suffix: str, sound: int, length_s: Fraction) -> list[str]:
    """Sound cut or filled with silence to the film's own length, to the sample.

    Never ffmpeg's ``-shortest``: it takes frames away from the film when the sound is short.
    """
    out_rate = sound if suffix == ".mkv" or sound in _MP4_SAMPLE_RATES else _MP4_SAMPLE_RATES[1]
    samples = max(1, round(length_s * out_rate))
    # first_pts=0 puts silence before a sound that starts later than its file.
    chain = f"aresample={out_rate}:first_pts=0,apad=whole_len={samples},atrim=end_sample={samples}"
    codec = ["-c:a", "flac"] if suffix == ".mkv" else ["-c:a", "aac", "-b:a", "192k"]
    return ["-af", chain, *codec]


def _encode(
    plan: StitchPlan,
    facts: SequenceFacts,
    layout: _Layout,
    argv: list[str],
    progress: Callable[[int, int], None] | None,
    stop: Callable[[], bool],
    warnings: list[str],
) -> list[bytes]:
    """Feeds all pictures to the encoder; returns a hash of each frame of a lossless film."""
    hashes: list[bytes] = []
    workers = min(_READ_WORKERS, plan.threads or os.cpu_count() or 1)
    source = read_frames(plan, facts, keep_alpha=layout.alpha, workers=workers)
    with Encoder(argv, stop) as encoder, contextlib.closing(source):
        for index, frame in source:
            samples = frame.samples
            if layout.padded:
                height, width = samples.shape[:2]
                grow = ((0, layout.height - height), (0, layout.width - width), (0, 0))
                # The edge is repeated: a black one would show as a line and cost bits.
                samples = np.ascontiguousarray(np.pad(samples, grow, mode="edge"))
            if frame.warning:
                warnings.append(f"{plan.frame_name(index)} {frame.warning}")
            if plan.encode == "ffv1":
                hashes.append(_hash(samples))
            encoder.write(samples.data)
            if progress is not None:
                progress(index + 1, len(plan.frames))
        warnings += [f"ffmpeg: {line}" for line in encoder.finish()]
    return hashes


def _hash(samples: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(samples).data, digest_size=16).digest()


def _verify(
    plan: StitchPlan,
    rate: Fraction,
    layout: _Layout,
    sound: int,
    hashes: list[bytes],
    check_stop: Callable[[], None],
) -> FileFacts:
    """Decodes the whole film and compares it with the plan."""
    name = plan.output

    def compare(index: int, frame: Any) -> None:
        check_stop()
        if index < len(hashes) and _hash(frame.to_ndarray(format=layout.pix_fmt)) != hashes[index]:
            raise OutputError(f"{name}: {plan.frame_name(index)} is not what was encoded", name)

    try:
        size_of(name)
        structure = check_structure(name)
        facts = count_frames(name, each=compare)
        verified = verify_movie(name, frames=len(plan.frames), rate=rate, facts=facts)
        _compare(plan, rate, layout, sound, facts)
        if structure.index_first is False:
            raise OutputError(f"{name}: its index lies behind its data", name)
        with Path(name).open("rb") as file:
            os.fsync(file.fileno())
    except StitchError:
        raise
    except OutputError as error:
        raise StitchError(f"the film is not as planned: {error.message}", name, problem="output") from error
    return verified


def _compare(plan: StitchPlan, rate: Fraction, layout: _Layout, sound: int, facts: MovieFacts) -> None:
    name = plan.output
    if (facts.width, facts.height) != (layout.width, layout.height):
        raise OutputError(
            f"{name}: is {facts.width}x{facts.height}, not {layout.width}x{layout.height}", name
        )
    if facts.start_s:
        raise OutputError(f"{name}: its first frame lies at {facts.start_s:.6f} s, not 0", name)
    if plan.encode == "h264" and facts.pix_fmt != "yuv420p":
        raise OutputError(f"{name}: has pixels {facts.pix_fmt}, not yuv420p", name)
    if plan.encode == "h264" and facts.colour != _BT709:
        raise OutputError(f"{name}: has colour tags {facts.colour}, not bt709", name)
    length_s = len(plan.frames) / rate
    if abs(facts.duration_s - float(length_s)) > float(facts.time_base):
        raise OutputError(f"{name}: lasts {facts.duration_s:.6f} s, not {float(length_s):.6f} s", name)
    if len(facts.audio_streams) != (1 if sound else 0):
        raise OutputError(f"{name}: has {len(facts.audio_streams)} audio streams", name)
    for audio in facts.audio_streams:
        allowed_s = max(1 / rate, Fraction(_AAC_TAIL + 1, audio.sample_rate))
        if abs(audio.duration_s - float(length_s)) > float(allowed_s):
            raise OutputError(
                f"{name}: its sound lasts {audio.duration_s:.4f} s, not {float(length_s):.4f} s", name
            )
        if abs(audio.start_s) > float(allowed_s):
            raise OutputError(f"{name}: its sound starts at {audio.start_s:.4f} s, not 0", name)

"""Tells what a file is: the facts behind ``farm probe``.

Belongs here: one flat record that prints as JSON.  The facts are those of `pictures` and `movies`.
"""

from __future__ import annotations

import os

import msgspec

from farm.media.files import Kind, kind_of, size_of
from farm.media.movies import AudioFacts, ColourTags, count_frames, rate_text
from farm.media.pictures import read_headers
from farm.media.structure import check_structure
from farm.model.errors import OutputError


class ProbeFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a file is.

    Attributes:
        path: The file.
        kind: ``picture``, ``movie`` or ``plain``.
        size: Bytes.
        width: Pixels: display window of a picture, coded width of a movie.
        height: Pixels.
        channels: Pictures: channel names of all parts.
        formats: Pictures: sample format of each channel.
        subimages: Pictures: parts.
        data_windows: Pictures: ``[x, y, width, height]`` of what each part stores.
        colour_space: Pictures: as the file says.
        container: Movies: demuxer.
        codec: Movies: video codec.
        pix_fmt: Movies: pixel format.
        frames: Movies: frames, counted by decoding all of them.
        rate: Movies: average rate as ``24/1``; ``?`` when the file does not tell.
        constant_rate: Movies: every frame lies at its own multiple of 1/rate.
        start_s: Movies: time of the first frame.
        duration_s: Movies: first frame to the end of the last.
        colour: Movies: colour tags.
        audio: Movies: audio streams, counted by decoding.
        problem: What is wrong with a file that could be read all the same.
    """

    path: str
    kind: Kind
    size: int
    width: int | None = None
    height: int | None = None
    channels: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    subimages: int = 0
    data_windows: tuple[tuple[int, int, int, int], ...] = ()
    colour_space: str = ""
    container: str = ""
    codec: str = ""
    pix_fmt: str = ""
    frames: int | None = None
    rate: str = ""
    constant_rate: bool | None = None
    start_s: float | None = None
    duration_s: float | None = None
    colour: ColourTags | None = None
    audio: tuple[AudioFacts, ...] = ()
    problem: str = ""


def probe(path: str | os.PathLike[str]) -> ProbeFacts:
    """Reads what a file is: pictures by their headers, movies by decoding all of them.

    Raises:
        OutputError: The file is missing, empty, or cannot be read as what its name says.
    """
    name = os.fspath(path)
    size = size_of(name)
    kind = kind_of(name)
    if kind == "picture":
        spec, parts = read_headers(name)
        return ProbeFacts(
            path=name,
            kind=kind,
            size=size,
            width=spec.width,
            height=spec.height,
            channels=spec.channels,
            formats=spec.formats,
            subimages=spec.subimages,
            data_windows=tuple((w.x, w.y, w.width, w.height) for w in (part.data for part in parts)),
            colour_space=parts[0].colour_space,
        )
    if kind == "movie":
        facts = count_frames(name)
        problem = ""
        try:
            check_structure(name)
        except OutputError as error:
            problem = error.message
        return ProbeFacts(
            path=name,
            kind=kind,
            size=size,
            width=facts.width,
            height=facts.height,
            container=facts.container,
            codec=facts.codec,
            pix_fmt=facts.pix_fmt,
            frames=facts.frames,
            rate=rate_text(facts.rate),
            constant_rate=facts.constant,
            start_s=facts.start_s,
            duration_s=facts.duration_s,
            colour=facts.colour,
            audio=facts.audio_streams,
            problem=problem,
        )
    return ProbeFacts(path=name, kind=kind, size=size)

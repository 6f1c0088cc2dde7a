"""The plan of one film: which pictures in which order become which file, and whether that can be done.

Belongs here: the record that travels as JSON and the checks of its words.  No file is opened and no
process started.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import PurePath

import msgspec

from farm.model.errors import JobFileError, NotBuiltYet

#: What a film can be encoded as, with the file suffixes it may have.
ENCODES: dict[str, tuple[str, ...]] = {"h264": (".mp4", ".mov", ".m4v", ".mkv"), "ffv1": (".mkv",)}
#: Encodes of other farms that this version refuses by name.
_LATER_ENCODES = ("hevc", "h265", "av1", "prores", "dnxhr", "vp9")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
#: Meaning of the samples.  All three are display-referred and are encoded as they are; ``display`` is
#: the word that lets float pictures in, since only a person can know that they are not scene-linear.
COLOURS = ("srgb", "bt709", "display")
GAPS = ("refuse", "hold", "black")
#: Frames a second beyond any film: a typing error.
_MAX_RATE = 1000


class StitchPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One film to make.

    The plan owns the order: nothing here or later lists a folder or sorts names, so frame 10000 comes
    after 9999 and a picture that was not planned never gets in.

    Attributes:
        frames: Absolute paths of the pictures in planned order.
        output: Absolute path of the film, inside the attempt's own folder.
        rate: Frames a second as a fraction, ``24/1`` or ``24000/1001``.
        encode: ``h264`` (mp4, mov, mkv) or ``ffv1`` (lossless, mkv).
        numbers: Frame numbers of ``frames`` for messages; counted from 1 when empty.
        audio: Sound file or movie whose first audio stream is laid under the film, or None.
        crf: H.264 quality, 0 (lossless) to 51; 18 is visually clean.
        preset: H.264 speed preset.
        gaps: What to do when a planned picture is missing: only ``refuse``.
        colour: Meaning of the samples: ``srgb``, ``bt709`` or ``display``.
        view: View transform for scene-linear pictures; none is built yet.
        threads: Encoder threads, 0 = the encoder's own choice.
    """

    frames: tuple[str, ...]
    output: str
    rate: str = "24/1"
    encode: str = "h264"
    numbers: tuple[int, ...] = ()
    audio: str | None = None
    crf: int = 18
    preset: str = "medium"
    gaps: str = "refuse"
    colour: str = "srgb"
    view: str = ""
    threads: int = 0

    def frame_name(self, index: int) -> str:
        """How messages call a planned picture."""
        return f"frame {self.numbers[index] if self.numbers else index + 1}"


def parse_rate(text: str) -> Fraction:
    """Reads a frame rate as an exact fraction.

    Decimals are refused: 23.976 is wrong by two frames a day, and nobody can tell what was meant.

    Raises:
        JobFileError: The text is no positive fraction.
    """
    match = re.fullmatch(r"\s*(\d{1,9})(?:/(\d{1,9}))?\s*", text)
    if match is None:
        hint = "write it as a fraction, e.g. 24/1 or 24000/1001"
        if re.fullmatch(r"\s*(23\.97\d*|23\.98|29\.97\d*|59\.94\d*)\s*", text):
            hint = f"write {round(float(text)) * 1000}/1001"
        raise JobFileError(f"{text!r} is no frame rate", "rate", hint=hint)
    top, bottom = int(match[1]), int(match[2] or 1)
    if not top or not bottom or top > _MAX_RATE * bottom:
        raise JobFileError(f"{text!r} is no frame rate", "rate", hint=f"between 0 and {_MAX_RATE}")
    return Fraction(top, bottom)


def check_plan(plan: StitchPlan) -> Fraction:
    """Checks a plan's words; returns its rate.

    Raises:
        JobFileError: A field that can never work; names it.
        NotBuiltYet: A field this version cannot honour.
    """
    if not plan.frames:
        raise JobFileError("there are no pictures to stitch", "frames")
    if plan.numbers and len(plan.numbers) != len(plan.frames):
        raise JobFileError(f"{len(plan.numbers)} numbers for {len(plan.frames)} pictures", "numbers")
    for index, path in enumerate(plan.frames):
        _check_path(path, f"frames[{index}]")
    _check_path(plan.output, "output")
    if plan.audio is not None:
        _check_path(plan.audio, "audio")
    if plan.encode in _LATER_ENCODES:
        raise NotBuiltYet(f"encode {plan.encode!r} is not built yet", hint="use " + " or ".join(ENCODES))
    if plan.encode not in ENCODES:
        raise JobFileError(f"{plan.encode!r} is no encode", "encode", hint="use " + " or ".join(ENCODES))
    suffix = PurePath(plan.output).suffix.lower()
    if suffix not in ENCODES[plan.encode]:
        raise JobFileError(
            f"{plan.encode} cannot be written to a {suffix or 'suffix-less'} file",
            "output",
            hint="use " + ", ".join(ENCODES[plan.encode]),
        )
    if not 0 <= plan.crf <= 51:
        raise JobFileError(f"crf {plan.crf} is not between 0 and 51", "crf")
    if plan.preset not in PRESETS:
        raise JobFileError(f"{plan.preset!r} is no preset", "preset", hint="use " + ", ".join(PRESETS))
    if plan.gaps in GAPS[1:]:
        raise NotBuiltYet(f"gaps {plan.gaps!r} is not built yet", hint="use refuse, and render the frame")
    if plan.gaps not in GAPS:
        raise JobFileError(f"{plan.gaps!r} is no way to treat gaps", "gaps", hint="use refuse")
    if plan.colour not in COLOURS:
        raise NotBuiltYet(f"colour {plan.colour!r} is not built yet", hint="use " + ", ".join(COLOURS))
    if plan.view:
        raise NotBuiltYet(
            f"view transforms are not built yet (view {plan.view!r})",
            hint="let the renderer write display-referred pictures, e.g. PNG",
        )
    if plan.threads < 0:
        raise JobFileError(f"{plan.threads} threads", "threads", hint="0 lets the encoder choose")
    return parse_rate(plan.rate)


def _check_path(path: str, where: str) -> None:
    if "\0" in path or not PurePath(path).is_absolute():
        raise JobFileError(f"{path!r} is no absolute path", where)

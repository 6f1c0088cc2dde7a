"""Reads what ffmpeg prints, 4.x to 9.x: the ``-progress`` blocks and the free text.

What belongs here: the meaning of its lines, and counting, since ffmpeg ends with 0 after a gap, a doubled
frame or a full disk.  What must not: its command line, or looking at files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from farm.model.states import FailureClass
from farm.renderers.base import LogEvent, Problem, Progress
from farm.renderers.checks import inside
from farm.renderers.farmlines import farm_events
from farm.renderers.verdicts import MEMORY_AND_GPU, find_problem, pattern

_KEY = re.compile(r"^(\w+)=\s*(\S+)$")
_DURATION = re.compile(r"^\s*Duration: (\d+):(\d\d):(\d\d\.\d+)")
_SECTION = re.compile(r"^(Input|Output) #\d+")
_STREAM = re.compile(r"^\s*Stream #\d+:\d+.*?: Video: [^,]+(?:, \d+ reference frames?)?, ([a-z0-9_]+)")
#: What enters the filters; told anew when it changes.
_PICTURE = re.compile(r"^\[graph \S+ input from stream \S+ @ \S+\] w:(\d+) h:(\d+) pixfmt:(\w+)")
#: The scaler behind the filters, which fits a picture of another size to the first one.
_FITTED = re.compile(r"^\[scaler_out\S* @ \S+\] w:(\d+) h:(\d+) fmt:.*-> w:(\d+) h:(\d+) fmt:")
#: A conversion ffmpeg puts between two filters that do not agree (only told with -loglevel verbose).
_CONVERTED = re.compile(r"^\[auto_scale\S* @ \S+\] .*\bfmt:(\w+) .*-> .*\bfmt:(\w+)")
_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system|Permission denied")
_GONE = re.compile(
    r"Could not open file : (.+)|Could find no file with path '(.+?)'"
    r"|Error opening input file (.+)\.$|Error opening output (.+): No such file or directory"
    r"|^(?!\[|Error opening)(\S.*?): No such file or directory"
)
_DAMAGED = re.compile(
    r"Invalid data found when processing input|Error while decoding|Invalid PNG signature"
    r"|Error submitting packet to decoder|moov atom not found|partial file|Error decoding|Decoding error"
    r"|corrupt (?:input|decoded)"
)

_C = FailureClass.CONFIG
_PATTERNS = (
    *MEMORY_AND_GPU,
    pattern(r"No such filter: '(.+)'|No filter named '(.+)'", _C, "this ffmpeg has no filter {0}{1}"),
    pattern(r"Unknown encoder '(.+)'", _C, "this ffmpeg has no encoder {0}"),
    pattern(
        r"Error initializing filter '(\S+)'|Error initializing filters", _C, "the filter {0} cannot start"
    ),
    pattern(r"Error (?:reinitializing|configuring|parsing).*filter", _C, "the filter chain cannot be used"),
    pattern(
        r"Error applying option '(\S+?)' to filter|Option '?(\S+?)'? not found|Unrecognized option '(.+?)'",
        _C,
        "ffmpeg knows no option {0}{1}{2}",
    ),
    pattern(r"((?:width|height) not divisible by 2 \(\S+\))", _C, "{0}: scale or pad to even numbers"),
    pattern(r"(Cannot find a valid font|Could not load font)", _C, "{0}; use fontfile={{font}}"),
    pattern(r"Unable to parse (?:option value )?\"(.+?)\"", _C, "the filter cannot read {0!r}"),
    pattern(r"(Unable to find a suitable output format .*)", _C, "{0}"),
    pattern(
        r"Error (?:writing trailer|closing file|muxing a packet)",
        FailureClass.PATH,
        "the output is cut short",
    ),
)
#: Suffixes whose files can hold more than 8 bits a channel.
DEEP_SUFFIXES = (".png", ".tif", ".tiff", ".exr", ".dpx", ".mov", ".mkv")


class FfmpegLogParser:
    """Parser for one ffmpeg process.

    Args:
        frames: Numbers of the pictures it writes, in order; empty for a whole clip.
        expected: Pictures it must write, None when that is not known.
        names: Names it reads to the names people know (links in scratch).
        scratch: Its scratch folder: trouble there is the node's own.
        writes_scratch: Whether its outputs go there.
        deep: Bits per channel that must not get lost if the input has them; 0 = not looked at.
    """

    def __init__(
        self,
        frames: Sequence[int] = (),
        expected: int | None = None,
        names: dict[str, str] | None = None,
        scratch: str = "",
        writes_scratch: bool = False,
        deep: int = 0,
    ) -> None:
        self._frames = tuple(frames)
        self._expected = expected
        self._names = names or {}
        self._scratch = scratch
        self._writes_scratch = writes_scratch
        self._deep = deep
        self._duration_us = 0.0
        self._section = ""
        self._formats: dict[str, str] = {}
        self._first_picture: tuple[str, ...] = ()
        self._told_alpha = False
        self._written = 0
        self._told = 0
        self._repeated = 0
        self._best = 0.0

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        told = farm_events(line)
        if told is not None:
            return told
        match = _KEY.match(line)
        if match:
            return list(self._progress(match.group(1), match.group(2)))
        return list(self._text(line.rstrip()))

    def _progress(self, key: str, value: str) -> Iterator[LogEvent]:
        if key == "frame" and value.isdigit():
            self._written = int(value)
        elif key == "dup_frames" and value.isdigit():
            self._repeated = int(value)
        elif key == "out_time_us" and not self._expected and self._duration_us:
            yield from self._whole(_number(value) / self._duration_us)
        elif key == "progress":
            yield from self._block(value == "end")

    def _block(self, ended: bool) -> Iterator[LogEvent]:
        for index in range(self._told, min(self._written, len(self._frames))):
            yield Progress(self._frames[index], 1.0)
        self._told = max(self._told, self._written)
        if self._expected and not self._frames:
            yield from self._whole(self._written / self._expected)
        if not ended:
            return
        if not self._frames and (self._expected is None or self._written == self._expected):
            yield from self._whole(1.0)
        if self._expected is not None and self._written != self._expected:
            words = f"ffmpeg wrote {self._written} of {self._expected} frames"
            if self._written < len(self._frames):
                words += (
                    f"; it stopped before frame {self._frames[self._written]}, whose input may be missing"
                )
            yield Problem(FailureClass.OUTPUT, words, fatal=True)
        elif self._repeated and self._frames:
            yield Problem(FailureClass.OUTPUT, f"ffmpeg wrote {self._repeated} frames twice", fatal=True)

    def _whole(self, fraction: float) -> Iterator[LogEvent]:
        fraction = min(1.0, max(0.0, fraction))
        if fraction > self._best:
            self._best = fraction
            yield Progress(None, fraction)

    def _text(self, line: str) -> Iterator[LogEvent]:
        section = _SECTION.match(line)
        if section:
            self._section = section.group(1)
            return
        duration = _DURATION.match(line)
        if duration:
            hours, minutes, seconds = duration.groups()
            self._duration_us = (int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1e6
            return
        stream = _STREAM.match(line)
        if stream:
            yield from self._stream(stream.group(1))
            return
        picture = _PICTURE.match(line)
        if picture:
            yield from self._picture(picture.groups())
            return
        fitted = _FITTED.match(line)
        if fitted:
            if fitted.group(1, 2) != fitted.group(3, 4):
                first, second = "x".join(fitted.group(3, 4)), "x".join(fitted.group(1, 2))
                yield Problem(_C, f"the pictures are not of one size: {first} and {second}", fatal=True)
            return
        converted = _CONVERTED.match(line)
        if converted:
            yield from self._compare(converted.group(2))
            yield from self._alpha(converted.group(1), converted.group(2))
            return
        yield from self._trouble(line)

    def _stream(self, pixel_format: str) -> Iterator[LogEvent]:
        self._formats.setdefault(self._section, pixel_format)
        before, after = self._formats.get("Input"), self._formats.get("Output")
        if self._section == "Output" and before and after and self._deep:
            yield from self._compare(after)
            yield from self._alpha(before, after)
            self._deep = 0

    def _compare(self, after: str) -> Iterator[LogEvent]:
        """A deep picture must stay deep on its whole way, or the file would only pretend to be."""
        before = self._formats.get("Input", "")
        if before and depth_of(after) < min(self._deep, depth_of(before)):
            self._deep = 0
            words = f"the filter turns {depth_of(before)}-bit {before} into {depth_of(after)}-bit {after}"
            hint = "params.pix_fmt rgb48be keeps 16 bits where the filter can, rgb24 gives them up"
            yield Problem(_C, f"{words}; {hint}", fatal=True)

    def _alpha(self, before: str, after: str) -> Iterator[LogEvent]:
        if has_alpha(before) and not has_alpha(after) and not self._told_alpha:
            self._told_alpha = True
            yield Problem(_C, f"the filter drops the alpha channel ({before} to {after})", warning=True)

    def _picture(self, found: tuple[str, ...]) -> Iterator[LogEvent]:
        """ffmpeg would fit a picture of another kind to the first one, without a word."""
        if self._first_picture and self._first_picture[2:] != found[2:]:
            words = f"an input picture is {found[2]}, the first is {self._first_picture[2]}"
            yield Problem(_C, words, fatal=True)
        self._first_picture = self._first_picture or found

    def _trouble(self, line: str) -> Iterator[LogEvent]:
        space = _SPACE.search(line)
        if space:
            kind = (
                FailureClass.NODE
                if self._writes_scratch or inside(line, self._scratch)
                else FailureClass.PATH
            )
            yield Problem(kind, f"the output cannot be written: {space.group()}", fatal=True)
            return
        gone = _GONE.search(line)
        if gone:
            name = next(group for group in gone.groups() if group)
            yield Problem(FailureClass.PATH, f"{self._names.get(name, name)} does not exist", fatal=True)
            return
        if _DAMAGED.search(line):
            yield Problem(FailureClass.PATH, f"an input picture is damaged: {line.strip()}", fatal=True)
            return
        if "Conversion failed!" in line:
            yield Problem(FailureClass.RENDERER, "ffmpeg gave up" + self._where())
            return
        problem = find_problem(line, _PATTERNS)
        if problem is not None:
            yield problem

    def _where(self) -> str:
        """Words for the frame it did not get past; 5.x does not name a picture that is cut short."""
        if self._written >= len(self._frames):
            return ""
        return f" before frame {self._frames[self._written]}, whose input may be missing or damaged"


def depth_of(pixel_format: str) -> int:
    """Bits per channel of a pixel format, by its name."""
    match = re.search(r"(?:p|gray|ya|f)(9|10|12|14|16|32)(?:[lb]e)?$", pixel_format)
    if match:
        return int(match.group(1))
    return 16 if re.search(r"48|64", pixel_format) else 8


def has_alpha(pixel_format: str) -> bool:
    """Whether a pixel format has an alpha channel, by its name."""
    return bool(re.match(r"rgba|bgra|argb|abgr|yuva|gbrap|ya\d|pal8", pixel_format))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0

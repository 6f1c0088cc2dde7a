r"""Reads a filter chain, refuses what chunks would get wrong, and fills in the farm's tokens.

What belongs here: ffmpeg's own grammar of filter graphs (two levels of quoting, as ``av_get_token`` reads
them), which filters look at more than one frame, which open files, and ``{frame}``, ``{font}``, ``{lut}``.
What must not: the rest of ffmpeg's command line.

Why frame numbers need a token: a chunk is a process of its own, and ``%{n}`` counts from 0 in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from farm.model.errors import JobFileError
from farm.model.frames import Run

#: Filters whose picture depends on other frames, on the clock, or on how many frames came before.
_TEMPORAL_WORDS = """
amplify atadenoise backgroundkey bwdif bwdif_cuda bwdif_vulkan cellauto chromanr cue decimate dedot
deflicker deinterlace_qsv deinterlace_vaapi dejudder deshake deshake_opencl detelecine doubleweave
drawgraph elbg estdif fade feedback fftdnoiz fieldhint fieldmatch fps framepack framerate framestep
freezeframes fsync gradients graphmonitor hqdn3d interlace interlace_vulkan interleave kerndeint lagfun
latency libplacebo life loop mandelbrot mcdeint mestimate minterpolate mix mpdecimate mptestsrc
nlmeans_vulkan nnedi palettegen perlin phase photosensitivity pp pullup qp random realtime repeatfields
reverse scroll segment select separatefields setpts settb shuffleframes sierpinski streamselect tblend
telecine testsrc testsrc2 thistogram thumbnail thumbnail_cuda tile tinterlace tlut2 tmedian tmidequalizer
tmix tpad trim untile vidstabdetect vidstabtransform vpp_qsv w3fdif weave xfade xfade_opencl xfade_vulkan
yadif yadif_cuda yadif_videotoolbox zoneplate zoompan
"""
TEMPORAL = frozenset(_TEMPORAL_WORDS.split())
#: Filters that open files, the network or foreign code by a name inside the chain.
_OPENS_WORDS = """
amovie arnndn asendcmd ass avsynctest azmq cover_rect derain dnn_classify dnn_detect dnn_processing
find_rect frei0r frei0r_src ladspa libvmaf lv2 movie ocio openclsrc program_opencl removelogo sendcmd
signature sr subtitles vidstabdetect vidstabtransform whisper zmq
"""
OPENS = frozenset(_OPENS_WORDS.split())
#: Options that name a file, of filters that can do without.
_FILE_OPTIONS = frozenset(
    {
        "file",
        "filename",
        "fontfile",
        "textfile",
        "psfile",
        "plot",
        "stats_file",
        "log_path",
        "model",
        "weights",
    }
    | {"custom_shader_path", "dumpfile", "destination"}
)
_BLANKS = " \n\t\r"
_NAME = re.compile(r"^\w+(?:@[^@]*)?$", re.ASCII)
_LUTS = ("lut3d", "lut1d")
_TOKEN = re.compile(r"(?<!%)\{([^{}]*)\}")
_FRAME = re.compile(r"frame(?::0?([1-9]\d?))?")
_COUNTER = re.compile(r"(?<![\w.])[tTnN](?![\w.(])")
_PLAIN = re.compile(r"^[A-Za-z0-9_./+=@-]*$")


class Option(NamedTuple):
    """One option of a filter: its key (empty when positional) and its value, unquoted."""

    key: str
    value: str


class FilterCall(msgspec.Struct, frozen=True):
    """One filter of a chain.

    Attributes:
        name: Its name.
        options: Its options in order.
        start: Where in the text its options begin.
        end: Where they end.
    """

    name: str
    options: tuple[Option, ...]
    start: int
    end: int


def parse_filters(text: str, where: str = "params.filter") -> list[FilterCall]:
    """The filters of a graph description, in the order of the text.

    Raises:
        JobFileError: It is no graph description; says where.
    """
    calls: list[FilterCall] = []
    at = 0
    while True:
        at = _skip_labels(text, at, where)
        name, after = _read_token(text, at, "=,;[", where)
        if not name:
            raise JobFileError(f"a filter is missing at character {at + 1} of {text!r}", where)
        if not _NAME.match(name):
            raise JobFileError(f"{name!r} is not the name of a filter", where)
        start = end = after
        options: tuple[Option, ...] = ()
        if text[after : after + 1] == "=":
            start = after + 1
            body, end = _read_token(text, start, "[],;", where)
            options = _read_options(body, where)
        calls.append(FilterCall(name.partition("@")[0], options, start, end))
        at = _skip_labels(text, end, where)
        if at >= len(text):
            return calls
        if text[at] not in ",;":
            raise JobFileError(f"{text[at]!r} at character {at + 1} of {text!r} is out of place", where)
        at += 1


def check_filters(
    text: str, *, per_frame: bool, allow_files: bool, where: str = "params.filter"
) -> list[str]:
    """Checks a chain at submit time; returns warnings.

    Args:
        text: The chain.
        per_frame: Whether frames are filtered in chunks, each alone.
        allow_files: Whether the chain may name files itself.
        where: Path for errors.

    Raises:
        JobFileError: It does not parse, has an unknown token, needs other frames, or opens files.
    """
    if not text.strip():
        return []
    warnings: list[str] = []
    calls = parse_filters(text, where)
    _check_tokens(text, where)
    for call in calls:
        if not allow_files:
            _check_opens(call, where)
        if per_frame:
            _check_temporal(call, where)
        keys = {option.key for option in call.options}
        if call.name == "drawtext" and not keys & {"fontfile"}:
            warnings.append("drawtext without fontfile={font} uses whatever font the node has")
    return warnings


def has_token(text: str, word: str) -> bool:
    """Whether the chain has a token of that word."""
    return any(match.group(1).partition(":")[0] == word for match in _TOKEN.finditer(text))


def counts_in_drawtext(text: str) -> bool:
    """Whether every ``{frame}`` stands in a drawtext, where a process can count by itself.

    Anywhere else the number must be a constant, so that each frame needs a process of its own.
    """
    calls = [call for call in parse_filters(text) if call.name == "drawtext"]
    places = [match.start() for match in _TOKEN.finditer(text) if _FRAME.fullmatch(match.group(1))]
    return all(any(call.start <= place < call.end for call in calls) for place in places)


def stated_formats(text: str) -> list[str]:
    """Pixel formats that the chain itself asks for in ``format`` filters."""
    found: list[str] = []
    for call in parse_filters(text) if text.strip() else []:
        if call.name == "format":
            values = [value for key, value in call.options if key in ("", "pix_fmts")]
            found += [name for value in values for name in value.split("|") if name]
    return found


def expand_filters(text: str, run: Run, paths: dict[str, str]) -> str:
    r"""Fills in the tokens for one process.

    Args:
        text: The chain, checked.
        run: The frame numbers of its pictures.
        paths: What ``{font}`` and ``{lut}`` stand for.

    Returns:
        The chain for ffmpeg: a frame number is a constant for one picture, else an expression of
        drawtext's own frame counter, ``%{eif\:FIRST+n*STEP\:d\:WIDTH}``.
    """
    quoted = _quoted_places(text)

    def fill(match: re.Match[str]) -> str:
        body, inside = match.group(1), quoted(match.start())
        if body in paths:
            return _escape(paths[body], inside)
        number = _FRAME.fullmatch(body)
        if number is None:
            return match.group()
        width = int(number.group(1) or 0)
        if run.count == 1:
            return f"{run.first:0{width}d}"
        expression = rf"%{{eif\:{run.first}+n*({run.step})\:d" + (rf"\:{width}}}" if width else "}")
        return expression if inside else f"'{expression}'"

    return _TOKEN.sub(fill, text)


def _check_tokens(text: str, where: str) -> None:
    for match in _TOKEN.finditer(text):
        body = match.group(1)
        if body not in ("font", "lut") and not _FRAME.fullmatch(body):
            raise JobFileError(
                f"unknown token {match.group()} in the filter",
                where,
                hint="known are {frame}, {frame:04}, {font}, {lut}",
            )


def _check_opens(call: FilterCall, where: str) -> None:
    hint = "paths in a filter are neither mapped nor checked; params.allow_files lets them in"
    if call.name in OPENS:
        raise JobFileError(f"the filter {call.name} opens files or runs foreign code", where, hint=hint)
    for index, (key, value) in enumerate(call.options):
        names_file = key in _FILE_OPTIONS or (call.name in _LUTS and not key and index == 0)
        if names_file and value not in ("{font}", "{lut}"):
            raise JobFileError(
                f"the filter {call.name} names a file",
                where,
                hint="use {font}, or params.lut and {lut}; " + hint,
            )


def _check_temporal(call: FilterCall, where: str) -> None:
    hint = "put it into a single step that filters the whole clip"
    if call.name in TEMPORAL:
        raise JobFileError(
            f"the filter {call.name} needs more than one frame, or depends on where a chunk begins",
            where,
            hint=hint,
        )
    for key, value in call.options:
        if call.name == "normalize" and key == "smoothing" and value != "0":
            raise JobFileError("normalize with smoothing looks at other frames", where, hint=hint)
        if call.name == "drawtext" and key == "text":
            if "%{" in value.replace("%{metadata", ""):
                raise JobFileError(
                    f"drawtext's {value!r} counts from the start of each chunk", where, hint="use {frame}"
                )
            continue
        if key in _FILE_OPTIONS:
            continue
        found = _COUNTER.search(value)
        if found:
            raise JobFileError(
                f"{call.name} uses {found.group()!r}, which counts from the start of each chunk",
                where,
                hint=hint,
            )


def _skip_labels(text: str, at: int, where: str) -> int:
    """Skips blanks and ``[label]`` s."""
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] == "[":
            close = text.find("]", at)
            if close < 0:
                raise JobFileError(f"a label is not closed in {text!r}", where)
            at = close + 1
        else:
            break
    return at


def _read_token(text: str, at: int, ends: str, where: str) -> tuple[str, int]:
    """Reads up to one of ``ends`` as ``av_get_token`` does; returns the unquoted text and where it ended."""
    found: list[str] = []
    kept = 0  # Blanks at both ends go, unless escaped or quoted.
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    while at < len(text) and text[at] not in ends:
        if text[at] == "\\" and at + 1 < len(text):
            found.append(text[at + 1])
            at += 2
            kept = len(found)
        elif text[at] == "'":
            close = text.find("'", at + 1)
            if close < 0:
                raise JobFileError(f"a quote is not closed in {text!r}", where)
            found.extend(text[at + 1 : close])
            at = close + 1
            kept = len(found)
        else:
            found.append(text[at])
            kept = len(found) if text[at] not in _BLANKS else kept
            at += 1
    return "".join(found[:kept]), at


def _read_options(body: str, where: str) -> tuple[Option, ...]:
    options: list[Option] = []
    at = 0
    while at < len(body):
        start = at
        value, at = _read_token(body, at, ":", where)
        raw_key, equals, _ = body[start:at].partition("=")
        if equals and re.fullmatch(r"\s*\w+\s*", raw_key):
            options.append(Option(raw_key.strip(), value.partition("=")[2]))
        else:
            options.append(Option("", value))
        at += 1
    return tuple(options)


def _quoted_places(text: str) -> Callable[[int], bool]:
    """Tells whether a place of the text lies in single quotes (of the outer level)."""
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "'":
            close = text.find("'", at + 1)
            close = len(text) if close < 0 else close
            spans.append((at, close))
            at = close + 1
        else:
            at += 1
    return lambda place: any(start < place < end for start, end in spans)


def _escape(path: str, inside_quotes: bool) -> str:
    """A path as a filter's option value: escaped for the option, then for the graph."""
    if _PLAIN.match(path):
        return path
    option = re.sub(r"([\\':\s])", r"\\\1", path)
    if inside_quotes:
        return option.replace("'", r"'\''")
    return re.sub(r"([\\'\[\],;\s])", r"\\\1", option)

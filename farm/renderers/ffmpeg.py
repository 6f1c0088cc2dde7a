"""ffmpeg: a filter chain over the frames of a sequence, chunk by chunk, or over a whole clip.

What belongs here: parameters and command lines.  Filters are read in ``ffmpeg_filters``, log lines in
``ffmpeg_log``.  What must not: joining frames into a movie with sound and checks (that is ``stitch``).

ffmpeg never sees a name of the job: it reads numbered links in scratch, in planned order, because its
``%d`` patterns stop at a gap, know no negative numbers, and read ``%`` and ``:`` in a name as its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange, Run
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import ChunkContext, Invocation, LogParser, PlannedInput, Problem, Verdict
from farm.renderers.checks import (
    MOVIE_SUFFIXES,
    check_input,
    check_picture_outputs,
    check_rate,
    input_suffix,
    planned_by_frame,
    suffix_of,
)
from farm.renderers.ffmpeg_filters import (
    TEMPORAL,
    check_filters,
    counts_in_drawtext,
    expand_filters,
    has_token,
    parse_filters,
    stated_formats,
)
from farm.renderers.ffmpeg_log import DEEP_SUFFIXES, FfmpegLogParser, depth_of
from farm.renderers.verdicts import judge_process

FONT = str(Path(__file__).with_name("fonts") / "DejaVuSansMono.ttf")
_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".dpx", ".exr")
_ENCODE_SUFFIXES = {
    "h264": (".mp4", ".mov", ".m4v", ".mkv"),
    "ffv1": (".mkv",),
    "prores": (".mov",),
    "none": MOVIE_SUFFIXES,
}
_PIX_FMT = re.compile(r"^[a-z0-9_]*$")


class FfmpegParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``ffmpeg`` renderer."""

    input: Annotated[str | dict[str, Any], Meta(description="The frames, or for a single step also a clip")]
    filter: Annotated[
        str, Meta(description="Filter chain; {frame}, {frame:04}, {font} and {lut} are filled in")
    ] = ""
    lut: Annotated[str, Meta(description="Colour table that {lut} stands for")] = ""
    encode: Annotated[
        Literal["h264", "ffv1", "prores", "none"],
        Meta(description="Codec of a whole clip; none = copy the picture untouched (no filter)"),
    ] = "h264"
    crf: Annotated[int, Meta(description="Quality of h264: 0 is best, 51 worst", ge=0, le=51)] = 18
    preset: Annotated[
        Literal[
            "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"
        ],
        Meta(description="Effort of h264"),
    ] = "medium"
    rate: Annotated[
        str, Meta(description="Frames a second of a sequence that becomes a clip; a clip keeps its own")
    ] = "24/1"
    audio: Annotated[Literal["copy", "none"], Meta(description="What happens to a clip's sound")] = "copy"
    pix_fmt: Annotated[str, Meta(description="Pixel format of the output; empty = like the input")] = ""
    linear: Annotated[
        Literal["refuse", "untouched"],
        Meta(description="EXR frames: refused, or filtered with no care for linear light and alpha"),
    ] = "refuse"
    allow_files: Annotated[
        bool, Meta(description="Let the chain name files itself; they are neither mapped nor checked")
    ] = False


class FfmpegRenderer:
    """The ``ffmpeg`` renderer."""

    name: ClassVar[str] = "ffmpeg"
    summary: ClassVar[str] = "Filters frames chunk by chunk, or a whole clip, with ffmpeg"
    params_type: ClassVar[type[Struct]] = FfmpegParams
    app: ClassVar[str] = "ffmpeg"
    kinds: ClassVar[frozenset[str]] = frozenset({"per_frame", "single"})
    path_params: ClassVar[tuple[str, ...]] = ("lut",)
    input_params: ClassVar[tuple[str, ...]] = ("input",)
    suffixes: ClassVar[tuple[str, ...]] = (*MOVIE_SUFFIXES, *_PICTURES)
    takes_lists: ClassVar[bool] = True
    whole_slice: ClassVar[bool] = False

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check."""
        asked: FfmpegParams = params
        per_frame = step.kind == "per_frame"
        check_input(asked.input, "params.input")
        check_rate(asked.rate, "params.rate")
        if not _PIX_FMT.match(asked.pix_fmt):
            raise JobFileError(f"{asked.pix_fmt!r} is not a pixel format", "params.pix_fmt")
        warnings = check_filters(asked.filter, per_frame=per_frame, allow_files=asked.allow_files)
        if has_token(asked.filter, "lut") != bool(asked.lut):
            raise JobFileError("lut and the token {lut} in the filter belong together", "params.lut")
        if per_frame:
            self._check_frames(step, asked)
        else:
            self._check_clip(step, asked)
        return warnings

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations."""
        given = context.inputs.get("input", PlannedInput((), ()))
        if not given.paths:
            raise JobFileError("there is no input to filter", "params.input")
        if context.frames:
            return _frame_invocations(context, given)
        return (_clip_invocation(context, given),)

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        params: FfmpegParams = context.params
        calls = parse_filters(params.filter) if params.filter.strip() else []
        names = {call.name for call in calls}
        given = context.inputs.get("input", PlannedInput((), ()))
        expected = len(invocation.frames) or None
        if not context.frames and given.frames and not names & TEMPORAL:
            expected = len(given.paths)
        return FfmpegLogParser(
            frames=invocation.frames,
            expected=expected,
            names=dict(invocation.link),
            scratch=context.scratch,
            writes_scratch=bool(invocation.collect),
            deep=_kept_depth(context) if context.frames else 0,
        )

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        # 9.x hands the low byte of the error number on: 256 - 28 is ENOSPC.
        full = Verdict(FailureClass.PATH, "the disk is full (ffmpeg ended with exit code 228)")
        return judge_process("ffmpeg", exit_code, problems, {228: full})

    @staticmethod
    def _check_frames(step: StepSpec, asked: FfmpegParams) -> None:
        check_picture_outputs(step, "ffmpeg", _PICTURES)
        if len(step.outputs) != 1:
            raise JobFileError("ffmpeg writes one output per frame", "outputs", hint="make a step for each")
        if input_suffix(asked.input) in MOVIE_SUFFIXES:
            raise JobFileError(
                "a clip cannot be filtered frame by frame", "params.input", hint="use a single step"
            )
        for suffix, where in (
            (input_suffix(asked.input), "params.input"),
            (suffix_of(step.outputs[0].pattern), "outputs[0].pattern"),
        ):
            _refuse_linear(suffix, asked, where)

    @staticmethod
    def _check_clip(step: StepSpec, asked: FfmpegParams) -> None:
        if len(step.outputs) != 1:
            raise JobFileError(f"ffmpeg writes one clip, not {len(step.outputs)} outputs", "outputs")
        output = step.outputs[0]
        if output.kind == "sequence":
            raise JobFileError(
                "a single step writes one file", "outputs[0].kind", hint="kind movie, or a per_frame step"
            )
        suffix = suffix_of(output.pattern)
        if suffix not in _ENCODE_SUFFIXES[asked.encode]:
            raise JobFileError(
                f"{asked.encode} does not go into {suffix or 'a file without a suffix'}",
                "outputs[0].pattern",
                hint="use " + " or ".join(_ENCODE_SUFFIXES[asked.encode]),
            )
        if asked.encode == "none" and (asked.filter.strip() or asked.pix_fmt):
            raise JobFileError("encode none copies the picture, so nothing can filter it", "params.filter")
        _refuse_linear(input_suffix(asked.input), asked, "params.input")


def _kept_depth(context: ChunkContext) -> int:
    """Bits per channel that a picture must keep: what the step states, else all it has."""
    params: FfmpegParams = context.params
    if suffix_of(context.files[0].path) not in DEEP_SUFFIXES:
        return 8
    stated = [*stated_formats(params.filter), *([params.pix_fmt] if params.pix_fmt else [])]
    return min((depth_of(name) for name in stated), default=32)


def _refuse_linear(suffix: str, asked: FfmpegParams, where: str) -> None:
    if suffix == ".exr" and asked.linear != "untouched":
        raise JobFileError(
            "ffmpeg does not handle the linear light and premultiplied alpha of EXR",
            where,
            hint='filter PNG or TIFF, or set params.linear to "untouched" if you know what the filter does',
        )


def _common(context: ChunkContext) -> list[str]:
    app = context.app
    if app is None:
        raise JobFileError("ffmpeg is not on this machine")
    return [
        *app.argv,
        # Verbose: only then it tells what it converts between filters (see the parser's depth check).
        *("-hide_banner", "-nostdin", "-nostats", "-loglevel", "verbose", "-progress", "pipe:1", "-y"),
        # A damaged picture is an error, not a repeat of the one before.
        *("-xerror", "-err_detect", "explode"),
        *("-protocol_whitelist", "file"),
    ]


def _sync(context: ChunkContext) -> list[str]:
    """Every frame out as it came in: none doubled, none dropped."""
    version = re.match(r"n?(\d+)\.(\d+)", context.app.version if context.app is not None else "")
    old = version is not None and (int(version.group(1)), int(version.group(2))) < (5, 1)
    return ["-vsync" if old else "-fps_mode", "passthrough"]


def _tokens(context: ChunkContext, link: dict[str, str]) -> dict[str, str]:
    """Links the font and the colour table under plain names; returns what the tokens stand for."""
    params: FfmpegParams = context.params
    paths: dict[str, str] = {}
    if has_token(params.filter, "font"):
        paths["font"] = f"{context.scratch}/font.ttf"
        link[paths["font"]] = FONT
    if params.lut:
        paths["lut"] = f"{context.scratch}/lut{suffix_of(params.lut)}"
        link[paths["lut"]] = params.lut
    return paths


def _frame_invocations(context: ChunkContext, given: PlannedInput) -> list[Invocation]:
    params: FfmpegParams = context.params
    sources = dict(zip(given.frames, given.paths, strict=True)) if given.frames else {}
    for frame in context.frames:
        if frame not in sources:
            raise JobFileError(f"the input has no frame {frame}", "params.input")
    targets = {frame: files[0].path for frame, files in planned_by_frame(context)}
    if not has_token(params.filter, "frame"):
        runs = [Run(context.frames[0], 1, len(context.frames))]
    elif counts_in_drawtext(params.filter):
        runs = list(FrameRange.from_frames(context.frames).runs)
    else:
        runs = [Run(frame, 1, 1) for frame in context.frames]
    made, at = [], 0
    for number, run in enumerate(runs):
        frames = context.frames[at : at + run.count]
        at += run.count
        made.append(_run_invocation(context, number, run, frames, sources, targets))
    return made


def _run_invocation(
    context: ChunkContext,
    number: int,
    run: Run,
    frames: tuple[int, ...],
    sources: dict[int, str],
    targets: dict[int, str],
) -> Invocation:
    params: FfmpegParams = context.params
    before, after = suffix_of(sources[frames[0]]), suffix_of(targets[frames[0]])
    for frame in frames:
        _refuse_linear(suffix_of(sources[frame]), params, "params.input")
        if suffix_of(sources[frame]) != before:
            raise JobFileError(f"frame {frame} is not a {before} file like the others", "params.input")
    base = f"{context.scratch}/run{number}"
    link = {f"{base}/in/{index:08d}{before}": sources[frame] for index, frame in enumerate(frames, 1)}
    collect = {f"{base}/out/{index:08d}{after}": targets[frame] for index, frame in enumerate(frames, 1)}
    # Tokens are shared by the runs of a chunk: a link of each run's own never is there twice.
    tokens = _tokens(context, link) if number == 0 else _tokens(context, {})
    folder = base.replace("%", "%%")
    argv = [
        *_common(context),
        *("-f", "image2", "-framerate", "25", "-start_number", "1", "-i", f"{folder}/in/%08d{before}"),
        *("-map", "0:v:0", "-an"),
        *(("-vf", expand_filters(params.filter, run, tokens)) if params.filter.strip() else ()),
        *("-frames:v", str(len(frames)), *_sync(context)),
        *(("-pix_fmt", params.pix_fmt) if params.pix_fmt else ()),
        *(("-q:v", "2") if after in (".jpg", ".jpeg") else ()),
        *("-threads", str(max(1, context.cores)), "-filter_threads", str(max(1, context.cores))),
        *("-f", "image2", "-start_number", "1", f"{folder}/out/%08d{after}"),
    ]
    keep = {f"{base}/out/.folder": ""}
    return Invocation(argv=tuple(argv), write=keep, link=link, collect=collect, frames=frames)


def _clip_invocation(context: ChunkContext, given: PlannedInput) -> Invocation:
    params: FfmpegParams = context.params
    link: dict[str, str] = {}
    folder = context.scratch.replace("%", "%%")
    suffix = suffix_of(given.paths[0])
    for path in given.paths:
        _refuse_linear(suffix_of(path), params, "params.input")
        if suffix_of(path) != suffix:
            raise JobFileError(f"{path} is not a {suffix} file like the others", "params.input")
    sequence = bool(given.frames) or len(given.paths) > 1
    if sequence:
        link = {
            f"{context.scratch}/in/{index:08d}{suffix}": path for index, path in enumerate(given.paths, 1)
        }
        rate = check_rate(params.rate, "params.rate")
        source = ["-f", "image2", "-framerate", rate, "-start_number", "1", "-i", f"{folder}/in/%08d{suffix}"]
    else:
        link[f"{context.scratch}/in{suffix}"] = given.paths[0]
        source = ["-i", f"{context.scratch}/in{suffix}"]
    tokens = _tokens(context, link)
    chain = _clip_filter(params, given, tokens, sequence)
    argv = [
        *_common(context),
        *source,
        *("-map", "0:v:0"),
        *(("-map", "0:a?", "-c:a", "copy") if params.audio == "copy" and not sequence else ("-an",)),
        *(("-vf", chain) if chain else ()),
        *(("-frames:v", str(len(given.paths))) if sequence and not _changes_count(params) else ()),
        *_sync(context),
        *_encoder(params, sequence),
        *("-threads", str(max(1, context.cores)), "-filter_threads", str(max(1, context.cores))),
        *(
            ("-movflags", "+faststart")
            if suffix_of(context.files[0].path) in (".mp4", ".mov", ".m4v")
            else ()
        ),
        "file:" + context.files[0].path,
    ]
    return Invocation(argv=tuple(argv), link=link)


def _changes_count(params: FfmpegParams) -> bool:
    calls = parse_filters(params.filter) if params.filter.strip() else []
    return any(call.name in TEMPORAL for call in calls)


def _clip_filter(params: FfmpegParams, given: PlannedInput, tokens: dict[str, str], sequence: bool) -> str:
    chain = params.filter.strip()
    if chain:
        runs = FrameRange.from_frames(given.frames).runs
        if has_token(chain, "frame"):
            if len(runs) != 1:
                raise JobFileError(
                    "{frame} needs an input whose frames are evenly spaced",
                    "params.filter",
                    hint="a clip has %{n}",
                )
            if not counts_in_drawtext(chain) and runs[0].count > 1:
                raise JobFileError("in a whole clip {frame} only works in drawtext", "params.filter")
        chain = expand_filters(chain, runs[0] if runs else Run(0, 1, 1), tokens)
    if sequence and params.encode in ("h264", "prores"):
        # Pictures are full-range RGB: convert with the matrix and range that the movie then declares.
        wanted = params.pix_fmt or ("yuv420p" if params.encode == "h264" else "yuv422p10le")
        convert = f"scale=out_color_matrix=bt709:out_range=tv,format={wanted}"
        return f"{chain},{convert}" if chain else convert
    return chain


def _encoder(params: FfmpegParams, sequence: bool) -> list[str]:
    colour = ["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"] if sequence else []
    pixels = ["-pix_fmt", params.pix_fmt] if params.pix_fmt else []
    if params.encode == "none":
        return ["-c:v", "copy"]
    if params.encode == "ffv1":
        return ["-c:v", "ffv1", "-level", "3", "-g", "1", "-slicecrc", "1", *pixels]
    if params.encode == "prores":
        return ["-c:v", "prores_ks", "-profile:v", "3", *(pixels or ["-pix_fmt", "yuv422p10le"]), *colour]
    return ["-c:v", "libx264", "-crf", str(params.crf), "-preset", params.preset, *pixels, *colour]


RENDERER = FfmpegRenderer()

"""Joins the frames of a step into one movie, by a task of ``farm.media``.

What belongs here: the parameters and the task's JSON.  What must not: pixels, ffmpeg's options, probing;
``farm.media.stitch_task`` reads the JSON and does the work in a process of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import ChunkContext, Invocation, LogEvent, LogParser, Problem, Verdict
from farm.renderers.checks import MOVIE_SUFFIXES, check_input, check_rate, suffix_of
from farm.renderers.farmlines import farm_events
from farm.renderers.verdicts import MEMORY_AND_GPU, find_problem, judge_process

_ENCODE_SUFFIXES = {"h264": (".mp4", ".mov", ".m4v", ".mkv"), "ffv1": (".mkv",)}
_COLOURS = ("srgb", "bt709", "display")
_TOKEN = re.compile(r"#+|%0?\d*d")


class StitchParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``stitch`` renderer."""

    input: Annotated[str | dict[str, Any], Meta(description="The frames to join")]
    frames: Annotated[
        str, Meta(description="Frame range of an input given as a pattern; empty = what is there")
    ] = ""
    rate: Annotated[str, Meta(description="Frames a second, e.g. 24/1 or 24000/1001")] = "24/1"
    encode: Annotated[str, Meta(description="Codec of the movie: h264, or ffv1 (lossless, .mkv)")] = "h264"
    audio: Annotated[str, Meta(description="Sound file to add; empty = silent")] = ""
    sound: Annotated[str | dict[str, Any], Meta(description="Sound that another step of the job writes")] = ""
    crf: Annotated[int, Meta(description="Quality of h264: 0 is best, 51 worst", ge=0, le=51)] = 18
    preset: Annotated[
        Literal[
            "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"
        ],
        Meta(description="Effort of h264"),
    ] = "medium"
    colour: Annotated[
        str, Meta(description="Meaning of the samples: srgb, bt709, or display (lets float pictures in)")
    ] = "srgb"
    view: Annotated[str | None, Meta(description="View transform for scene-linear frames; none so far")] = (
        None
    )
    gaps: Annotated[str, Meta(description="What to do about missing frames; only refuse so far")] = "refuse"


class StitchRenderer:
    """The ``stitch`` renderer."""

    name: ClassVar[str] = "stitch"
    summary: ClassVar[str] = "Joins a step's frames into one movie"
    params_type: ClassVar[type[Struct]] = StitchParams
    app: ClassVar[str] = "ffmpeg"
    kinds: ClassVar[frozenset[str]] = frozenset({"single"})
    path_params: ClassVar[tuple[str, ...]] = ("audio",)
    input_params: ClassVar[tuple[str, ...]] = ("input", "sound")
    suffixes: ClassVar[tuple[str, ...]] = ()
    takes_lists: ClassVar[bool] = False
    whole_slice: ClassVar[bool] = False

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check."""
        asked: StitchParams = params
        check_input(asked.input, "params.input")
        check_input(asked.sound, "params.sound", required=False)
        if asked.sound and asked.audio:
            raise JobFileError("give audio or sound, not both", "params.sound")
        check_rate(asked.rate, "params.rate")
        self._refuse_unbuilt(asked)
        self._check_frames(asked)
        if len(step.outputs) != 1:
            raise JobFileError(f"stitch writes one movie, not {len(step.outputs)} outputs", "outputs")
        suffix = suffix_of(step.outputs[0].pattern)
        if suffix not in MOVIE_SUFFIXES:
            raise JobFileError(
                f"stitch writes a movie, not {suffix or 'a file without a suffix'}", "outputs[0].pattern"
            )
        if suffix not in _ENCODE_SUFFIXES[asked.encode]:
            raise JobFileError(
                f"{asked.encode} does not go into {suffix}",
                "outputs[0].pattern",
                hint="use " + " or ".join(_ENCODE_SUFFIXES[asked.encode]),
            )
        if asked.encode != "h264" and (asked.crf != 18 or asked.preset != "medium"):
            return [f"crf and preset have no effect on {asked.encode}"]
        return []

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations."""
        params: StitchParams = context.params
        ffmpeg = context.ffmpeg or (context.app.argv[0] if context.app is not None else "")
        if not ffmpeg:
            raise JobFileError("there is no ffmpeg on this machine")
        frames = context.inputs["input"]
        if not frames.paths:
            raise JobFileError("there are no frames to join", "params.input")
        sound = context.inputs.get("sound")
        task_path = f"{context.scratch}/task.json"
        task = {
            "ffmpeg": ffmpeg,
            "frames": list(frames.paths),
            "numbers": list(frames.frames),
            "output": context.files[0].path,
            "rate": check_rate(params.rate, "params.rate"),
            "encode": params.encode,
            "audio": params.audio or (sound.paths[0] if sound is not None and sound.paths else None),
            "crf": params.crf,
            "preset": params.preset,
            "gaps": params.gaps,
            "colour": params.colour,
            "view": params.view or "",
            "threads": max(1, context.cores),
        }
        text = json.dumps(task, indent=1)
        argv = (context.python, "-m", "farm.media.stitch_task", task_path)
        env = {"TMPDIR": context.scratch, "PYTHONIOENCODING": "utf-8"}
        return (Invocation(argv=argv, env=env, write={task_path: text}),)

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        return StitchLogParser()

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        return judge_process("stitch", exit_code, problems)

    @staticmethod
    def _refuse_unbuilt(asked: StitchParams) -> None:
        if asked.gaps != "refuse":
            raise NotBuiltYet(f"params.gaps: {asked.gaps!r} is not built yet", hint="use refuse")
        if asked.encode not in _ENCODE_SUFFIXES:
            hint = "use " + " or ".join(_ENCODE_SUFFIXES)
            raise NotBuiltYet(f"params.encode: {asked.encode!r} is not built yet", hint=hint)
        if asked.colour not in _COLOURS:
            hint = "use " + ", ".join(_COLOURS)
            raise NotBuiltYet(f"params.colour: {asked.colour!r} is not built yet", hint=hint)
        if asked.view:
            raise NotBuiltYet(f"params.view: {asked.view!r} is not built yet", hint="leave it out")

    @staticmethod
    def _check_frames(asked: StitchParams) -> None:
        if isinstance(asked.input, dict):
            if asked.frames:
                raise JobFileError(
                    "the frames are those of the step it joins", "params.frames", hint="leave it out"
                )
            return
        if not _TOKEN.search(asked.input):
            raise JobFileError("the pattern has no frame token", "params.input", hint="e.g. shot.####.exr")
        if asked.frames:
            try:
                FrameRange.parse(asked.frames)
            except CallError as error:
                raise JobFileError(error.message, "params.frames", hint=error.hint) from error


class StitchLogParser:
    """Parser for the stitch task: its own lines, and memory trouble of what it starts."""

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        told = farm_events(line)
        if told is not None:
            return told
        if "No module named" in line:
            return [
                Problem(FailureClass.NODE, f"this agent's installation is broken: {line.strip()}", fatal=True)
            ]
        problem = find_problem(line, MEMORY_AND_GPU)
        return [problem] if problem is not None else []


RENDERER = StitchRenderer()

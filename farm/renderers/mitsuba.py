"""Mitsuba 3: parameters, the command line of a chunk, log lines, the truth about its end.

What belongs here: all the farm knows of Mitsuba from outside.  What happens with ``import mitsuba`` is in
``runners/mitsuba_runner.py``.  What must not: starting it.

Mitsuba brings its own thread pool, and with fewer threads than it wants it was seen to hang while it
writes (3.9.1, ``-t 1`` and ``-t 2``).  So no thread count is ever passed, and one attempt takes the whole
slice of its agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from farm.model.errors import JobFileError
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import (
    ChunkContext,
    FrameFinished,
    FrameStarted,
    Invocation,
    LogEvent,
    LogParser,
    Problem,
    Progress,
    Verdict,
)
from farm.renderers.checks import check_picture_outputs, planned_by_frame, suffix_of
from farm.renderers.farmlines import farm_events
from farm.renderers.verdicts import MEMORY_AND_GPU, find_problem, judge_process, pattern

_RUNNER = str(Path(__file__).with_name("runners") / "mitsuba_runner.py")
RUNNER_FAILED = 64
_SUFFIXES = (".exr", ".png", ".jpg", ".jpeg")
_VARIANT = re.compile(r"^(scalar|llvm_ad|llvm|cuda_ad|cuda)_(rgb|mono|spectral)(_polarized)?(_double)?$")
_BAR = re.compile(r"Rendering \[(=*)( *)\]")

_PATTERNS = (
    pattern(
        r"LLVM ERROR: (.+)",
        FailureClass.CONFIG,
        "this variant does not work with the machine's LLVM ({0}); use scalar_rgb",
    ),
    pattern(
        r"(?:Could not find|could not be found|Cannot load).{0,40}LLVM",
        FailureClass.CONFIG,
        "this variant needs an LLVM library that is not here; use scalar_rgb",
    ),
    pattern(
        r"(?:Caught a critical exception: |Error: )?.*I/O error while attempting to open file(.*)",
        FailureClass.PATH,
        "a file cannot be opened{0}",
    ),
    pattern(
        r"Caught a critical exception: (.*(?:File not found|does not exist).*)", FailureClass.CONFIG, "{0}"
    ),
    pattern(r"Caught a critical exception: (.+)", FailureClass.CONFIG, "{0}"),
    *MEMORY_AND_GPU,
)

_Size = Annotated[int, Meta(ge=0, le=65536)]


class MitsubaParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``mitsuba`` renderer."""

    scene: Annotated[str, Meta(description="The .xml scene; it may use $frame and your parameters")] = ""
    scene_script: Annotated[
        str,
        Meta(description="Python file with build(frame, first, last, parameters) -> scene or dict"),
    ] = ""
    parameters: Annotated[
        dict[str, Any], Meta(description="Parameters: $name in a .xml scene, a dict for a scene script")
    ] = {}
    spp: Annotated[int, Meta(description="Samples per pixel; 0 = the scene's", ge=0, le=1_000_000)] = 0
    width: Annotated[_Size, Meta(description="Pixels across; 0 = the scene's")] = 0
    height: Annotated[_Size, Meta(description="Pixels down; 0 = the scene's")] = 0
    sensor: Annotated[int, Meta(description="Which of the scene's sensors, from 0", ge=0)] = 0
    variant: Annotated[str, Meta(description="Mitsuba variant; llvm_* and cuda_* only when asked for")] = (
        "scalar_rgb"
    )
    color_depth: Annotated[
        Literal["", "8", "16", "32"],
        Meta(description="Bits per channel; empty = the film's for EXR, 8 for PNG"),
    ] = ""


class MitsubaRenderer:
    """The ``mitsuba`` renderer."""

    name: ClassVar[str] = "mitsuba"
    summary: ClassVar[str] = "Renders frames of a Mitsuba 3 scene, from XML or built by a script"
    params_type: ClassVar[type[Struct]] = MitsubaParams
    #: The application's ``argv`` is an interpreter that can import mitsuba.
    app: ClassVar[str] = "mitsuba"
    kinds: ClassVar[frozenset[str]] = frozenset({"per_frame"})
    path_params: ClassVar[tuple[str, ...]] = ("scene", "scene_script")
    input_params: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = (".xml",)
    takes_lists: ClassVar[bool] = True
    whole_slice: ClassVar[bool] = True

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check."""
        asked: MitsubaParams = params
        if bool(asked.scene) == bool(asked.scene_script):
            raise JobFileError("mitsuba needs either a scene or a scene_script", "params.scene")
        if bool(asked.width) != bool(asked.height):
            raise JobFileError("give width and height, or neither", "params.width")
        if not _VARIANT.match(asked.variant):
            raise JobFileError(
                f"{asked.variant!r} is not a Mitsuba variant",
                "params.variant",
                hint="e.g. scalar_rgb, cuda_ad_rgb",
            )
        check_picture_outputs(step, self.name, _SUFFIXES)
        if len(step.outputs) != 1:
            raise JobFileError("mitsuba writes one output", "outputs", hint="make a step for each")
        self._check_depth(suffix_of(step.outputs[0].pattern), asked.color_depth)
        if asked.variant.startswith("cuda") and not step.resources.gpus:
            raise JobFileError(
                f"variant {asked.variant} needs a GPU", "params.variant", hint="set resources.gpus to 1"
            )
        if asked.scene and any(key == "frame" for key in asked.parameters):
            raise JobFileError("the parameter frame is the farm's", "params.parameters.frame")
        if asked.variant.startswith("llvm"):
            return [
                f"variant {asked.variant} needs an LLVM library on the node, and aborts with some versions"
            ]
        return []

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations."""
        if context.app is None:
            raise JobFileError("mitsuba is not on this machine")
        params: MitsubaParams = context.params
        task_path = f"{context.scratch}/task.json"
        runs = context.step_frames.runs if context.step_frames is not None else ()
        bounds = [end for run in runs for end in (run.low, run.high)] or list(context.frames)
        task = {
            **{field: getattr(params, field) for field in params.__struct_fields__},
            "first": min(bounds),
            "last": max(bounds),
            "scratch": context.scratch,
            "claims": f"{context.scratch}/claims",
            "frames": [{"frame": frame, "file": files[0].path} for frame, files in planned_by_frame(context)],
        }
        env = {
            "PYTHONIOENCODING": "utf-8",
            "TMPDIR": context.scratch,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in context.gpus),
        }
        argv = (*context.app.argv, _RUNNER, task_path)
        text = json.dumps(task, indent=1)
        return (
            Invocation(
                argv=argv,
                env=env,
                write={task_path: text},
                frames=context.frames,
                claims=f"{context.scratch}/claims",
            ),
        )

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        return MitsubaLogParser()

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        failed = Verdict(
            FailureClass.CONFIG, "the Mitsuba runner failed before it could say why; see the log"
        )
        return judge_process("Mitsuba", exit_code, problems, {RUNNER_FAILED: failed})

    @staticmethod
    def _check_depth(suffix: str, depth: str) -> None:
        allowed = {".exr": ("16", "32"), ".png": ("8", "16")}.get(suffix, ("8",))
        if depth and depth not in allowed:
            raise JobFileError(f"{suffix} cannot have {depth} bits per channel", "params.color_depth")


class MitsubaLogParser:
    """Parser for one Mitsuba process: the runner's lines, and the bar and errors of Mitsuba itself."""

    def __init__(self) -> None:
        self._frame: int | None = None
        self._best = 0.0

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        told = farm_events(line)
        if told is not None:
            yield from self._from_runner(told)
            return
        match = _BAR.search(line)
        if match:
            yield from self._bar(len(match.group(1)), len(match.group(2)))
            return
        problem = find_problem(line, _PATTERNS, frame=self._frame)
        if problem is not None:
            yield problem

    def _from_runner(self, told: list[LogEvent]) -> Iterator[LogEvent]:
        for event in told:
            if isinstance(event, FrameStarted):
                self._frame, self._best = event.frame, 0.0
            elif isinstance(event, FrameFinished):
                self._frame = None
            yield event

    def _bar(self, done: int, left: int) -> Iterator[LogEvent]:
        fraction = done / (done + left) if done + left else 0.0
        if self._frame is not None and fraction > self._best:
            self._best = fraction
            yield Progress(self._frame, fraction)


RENDERER = MitsubaRenderer()

"""POV-Ray 3.7: parameters, the command line of a frame, log lines, the truth about its end.

What belongs here: all the farm must know of POV-Ray.  What must not: starting it, opening files, waiting.
The agent does that with what this module gives it, and verifies every picture afterwards.

Seen with 3.7.0.10, and dealt with here:

- Its command line cannot hold a path with a blank, even as one argument.  So the scene is linked into the
  attempt's scratch folder, whose path is plain, and the picture is collected from there.
- It puts a number of its own into the output's name, as wide as the last frame's.
- A negative frame is silently rendered as frame 0: refused at submit.
- With one frame in the range the clock is "not a number": such a range is passed one frame longer.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from farm.model.errors import JobFileError
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import (
    ChunkContext,
    FrameStarted,
    Invocation,
    LogEvent,
    LogParser,
    Problem,
    Progress,
    Verdict,
)
from farm.renderers.checks import check_picture_outputs, planned_by_frame, suffix_of
from farm.renderers.verdicts import MEMORY_AND_GPU, find_problem, judge_process, pattern

_SUFFIXES = (".png", ".exr")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PIXELS = re.compile(r"Rendered (\d+) of (\d+) pixels")
_WARNING = re.compile(r"Parse Warning: (.+)")

#: First that fits wins.  Lines come joined: POV-Ray breaks them at column 80.
_PATTERNS = (
    pattern(r"Cannot find file '(.+?)'", FailureClass.PATH, "{0} is not found", fatal=False),
    pattern(r"Parse Error: Cannot open include file (.+?)\.?$", FailureClass.PATH, "{0} is missing"),
    pattern(r"Parse Error: Cannot open input file", FailureClass.CONFIG, "the scene cannot be opened"),
    pattern(r"line (\d+): Parse Error: (.+)", FailureClass.CONFIG, "line {0} of the scene: {1}"),
    pattern(r"Parse Error: (.+)", FailureClass.CONFIG, "{0}"),
    pattern(r"Problem with option setting", FailureClass.CONFIG, "POV-Ray refuses an option"),
    # The picture is written into the agent's own scratch folder: its disk, not the artist's.
    pattern(
        r"Cannot (?:create|access|write)\b",
        FailureClass.NODE,
        "the node's scratch folder cannot be written",
    ),
    *MEMORY_AND_GPU,
)


class PovrayParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``povray`` renderer."""

    scene: Annotated[str, Meta(description="The .pov scene; clock runs over the step's frames")]
    width: Annotated[int, Meta(description="Pixels across", ge=1, le=65536)] = 640
    height: Annotated[int, Meta(description="Pixels down", ge=1, le=65536)] = 360
    quality: Annotated[int, Meta(description="Quality, 0 to 11", ge=0, le=11)] = 9
    antialias: Annotated[float, Meta(description="Threshold of antialiasing; 0 = none", ge=0, le=3)] = 0.3
    clock_first: Annotated[float, Meta(description="The scene's clock at the first frame")] = 0.0
    clock_last: Annotated[float, Meta(description="The scene's clock at the last frame")] = 1.0
    declare: Annotated[dict[str, float], Meta(description="Numbers the scene may use, by name")] = {}
    color_depth: Annotated[Literal["8", "16"], Meta(description="Bits per channel of PNG")] = "8"


class PovrayRenderer:
    """The ``povray`` renderer."""

    name: ClassVar[str] = "povray"
    summary: ClassVar[str] = "Renders frames of a POV-Ray scene"
    params_type: ClassVar[type[Struct]] = PovrayParams
    #: Agents probe only for the applications Overcrank knows; this one is found on the PATH when it starts.
    app: ClassVar[str] = ""
    kinds: ClassVar[frozenset[str]] = frozenset({"per_frame"})
    path_params: ClassVar[tuple[str, ...]] = ("scene",)
    input_params: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = (".pov",)
    #: A process per frame, so any list will do.
    takes_lists: ClassVar[bool] = True
    whole_slice: ClassVar[bool] = False

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check: what can never work is refused before anybody waits for it."""
        asked: PovrayParams = params
        check_picture_outputs(step, self.name, _SUFFIXES)
        if len(step.outputs) != 1:
            raise JobFileError("povray writes one output", "outputs", hint="make a step for each")
        if suffix_of(step.outputs[0].pattern) == ".exr" and asked.color_depth != "8":
            raise JobFileError("color_depth is for PNG", "params.color_depth", hint="leave it out")
        for name in asked.declare:
            if not _NAME.match(name):
                raise JobFileError(f"{name!r} is not a name in a scene", "params.declare")
        frames = step.frame_range()
        if frames is not None and min(run.low for run in frames.runs) < 0:
            raise JobFileError("POV-Ray renders a negative frame as frame 0", "frames", hint="start at 0")
        return []

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations: a process per frame."""
        params: PovrayParams = context.params
        first, last = _span(context)
        made: list[Invocation] = []
        for frame, files in planned_by_frame(context):
            target = files[0].path
            suffix = suffix_of(target)
            scene, project = f"{context.scratch}/scene.pov", f"{context.scratch}/project"
            picture = f"{context.scratch}/f{frame:0{len(str(last))}d}{suffix}"
            argv = [
                *("povray", f"+I{scene}", f"+L{project}", f"+O{context.scratch}/f{suffix}"),
                "+FE" if suffix == ".exr" else f"+FN{params.color_depth}",
                *(f"+W{params.width}", f"+H{params.height}", f"+Q{params.quality}", f"+WT{context.cores}"),
                *(f"+KFI{first}", f"+KFF{last}", f"+SF{frame}", f"+EF{frame}"),
                *(f"+KI{params.clock_first}", f"+KF{params.clock_last}"),
                f"+A{params.antialias}" if params.antialias else "-A",
                *(f"Declare={name}={value}" for name, value in sorted(params.declare.items())),
                # No window, no statistics.
                *("-D", "-GS", "-GR"),
            ]
            link = {scene: params.scene, project: posixpath.dirname(params.scene) or "."}
            made.append(
                Invocation(
                    argv=tuple(argv),
                    link=link if not made else {},
                    collect={picture: target},
                    frames=(frame,),
                )
            )
        return made

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        return PovrayLogParser(invocation.frames[0])

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        codes = {2: Verdict(FailureClass.RENDERER, "POV-Ray was interrupted (exit code 2)")}
        return judge_process("POV-Ray", exit_code, problems, codes)


class PovrayLogParser:
    """Parser for the lines of one frame's process.

    A message longer than a line is broken anywhere between two words and goes on in lines that begin with a
    blank: they are joined before they are understood.  That a frame is finished is never told: for the
    agent its file is complete only once it was collected, after the end of the process.

    Args:
        frame: The frame the process renders.
    """

    def __init__(self, frame: int) -> None:
        self._frame = frame
        self._held = ""

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        if line.startswith("  what(): "):  # the last words of an abort; no line follows that would end it
            yield from self._understood(line)
        elif self._held and line.startswith(" "):
            self._held += line.rstrip()
        else:
            held, self._held = self._held, ""
            yield from self._understood(held)
            if "==== [Parsing...]" in line:
                yield FrameStarted(self._frame)
            elif match := _PIXELS.match(line):
                yield Progress(self._frame, int(match[1]) / max(1, int(match[2])))
            else:
                self._held = line.rstrip()

    def _understood(self, text: str) -> Iterable[LogEvent]:
        if match := _WARNING.search(text):
            # What the scene's author wants known; it explains no failure.
            yield Problem(FailureClass.RENDERER, match[1], frame=self._frame, warning=True)
        elif problem := find_problem(text, _PATTERNS, frame=self._frame):
            yield problem


def _span(context: ChunkContext) -> tuple[int, int]:
    """First and last frame of the whole step, over which the clock runs; never the same."""
    runs = context.step_frames.runs if context.step_frames is not None else ()
    ends = [end for run in runs for end in (run.low, run.high)] or list(context.frames)
    return min(ends), max(max(ends), min(ends) + 1)


RENDERER = PovrayRenderer()

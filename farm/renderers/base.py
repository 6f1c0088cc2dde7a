"""What a renderer module is: typed parameters, command lines, a log parser, exit truth.

A renderer is pure.  It never starts a process or opens a file: the agent asks it for invocations,
feeds it the lines they print, and asks what the end of the process means.  Whether a frame is *done*
is never decided here: the agent verifies the files (law 9).  Third parties add a renderer by the
entry point group ``overcrank.renderers`` whose value is an object with this interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass


class AppInstall(msgspec.Struct, frozen=True):
    """One installed application on an agent's machine.

    Attributes:
        name: ``blender``, ``mitsuba``, ``ffmpeg``; ``""`` for renderers that need none.
        version: Dotted version.
        argv: How to start it, e.g. ``("/usr/bin/blender",)``; for the bpy wheel the interpreter.
        flavour: ``exe`` or ``bpy`` (the wheel standing in for the program).
    """

    name: str
    version: str
    argv: tuple[str, ...]
    flavour: str = "exe"


class PlannedFile(msgspec.Struct, frozen=True):
    """One file an invocation must write.

    Attributes:
        output: Index of the step's output.
        frame: Frame number, None for a single step.
        path: Where to write it: absolute, inside the attempt's own folder.
    """

    output: int
    frame: int | None
    path: str


class PlannedInput(msgspec.Struct, frozen=True):
    """An input resolved to explicit files, in planned order.

    Attributes:
        frames: Frame numbers, one per file; empty when the input is one file without a frame.
        paths: The files.
    """

    frames: tuple[int, ...]
    paths: tuple[str, ...]


class ChunkContext(msgspec.Struct, frozen=True, kw_only=True):
    """All a renderer may know of the chunk it makes command lines for.

    Attributes:
        params: The step's parameters, already of the renderer's ``params_type``; paths in the fields
            named by ``path_params`` are mapped for this machine.
        frames: Exactly the frames to render, in order; empty for a single step.
        step_frames: The whole step's range (some renderers need it), None for a single step.
        files: Every file expected, with the path inside the attempt's folder.
        patterns: Per output: the same pattern the job has, but inside the attempt's folder
            (frame token untouched).
        inputs: Resolved ``params.input`` and other step inputs, by parameter name.
        app: The application to use, None when the renderer needs none.
        cores: Cores of the lease.
        slice_cores: Cores of the whole agent slice.
        gpus: Indices of the GPUs of the lease.
        ram_mib: RAM of the lease.
        scratch: Private folder for the attempt's temporary files (plain ASCII path without blanks).
        python: Interpreter for helper programs of ours.
        ffmpeg: Path of the ffmpeg program, empty if there is none.
    """

    params: Any
    frames: tuple[int, ...]
    step_frames: FrameRange | None
    files: tuple[PlannedFile, ...]
    patterns: tuple[str, ...]
    inputs: dict[str, PlannedInput] = {}
    app: AppInstall | None = None
    cores: int = 1
    slice_cores: int = 1
    gpus: tuple[int, ...] = ()
    ram_mib: int = 0
    scratch: str = ""
    python: str = "python3"
    ffmpeg: str = ""

    def files_of(self, frame: int | None) -> tuple[PlannedFile, ...]:
        """The files expected of one frame."""
        return tuple(file for file in self.files if file.frame == frame)


class Verdict(msgspec.Struct, frozen=True):
    """What the end of a process means for frames whose files are missing or bad.

    Attributes:
        failure: None when the process itself ended well.
        reason: In words an artist understands.
    """

    failure: FailureClass | None
    reason: str


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One process to start; never a shell string.

    Attributes:
        argv: Program and arguments.
        env: Environment variables added to the agent's own clean set.
        write: Text files to write before the start: path (inside ``scratch``) to content.
        link: Symbolic links to make before the start: link path (inside ``scratch``) to target.
        collect: After exit 0, files to move: source (inside ``scratch``) to an expected path.
        frames: Frames this process renders; empty for a single step.
        stdin: Text for its standard input, None = /dev/null.
        claims: Folder (inside ``scratch``) in which the program makes a file named by the frame's number,
            and only where there is none, before it begins a frame; a frame whose file is there already was
            taken back and is left out.  "" = the program renders all its frames, whatever happens.
        codes: What exit codes of this very program mean beyond what the renderer knows.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    write: dict[str, str] = {}
    link: dict[str, str] = {}
    collect: dict[str, str] = {}
    frames: tuple[int, ...] = ()
    stdin: str | None = None
    claims: str = ""
    codes: dict[int, Verdict] = {}


class Progress(msgspec.Struct, frozen=True):
    """Part of a frame (or of a single step's work) that is done, 0.0-1.0."""

    frame: int | None
    fraction: float


class FrameStarted(msgspec.Struct, frozen=True):
    """The process began this frame."""

    frame: int


class FrameFinished(msgspec.Struct, frozen=True):
    """The process says this frame's files are complete; the agent may verify them now."""

    frame: int


class Problem(msgspec.Struct, frozen=True):
    """A line that tells of trouble.

    Attributes:
        failure: Class of failure it points to.
        text: In words an artist understands, with the line's own detail.
        fatal: True: the chunk cannot succeed whatever the exit code says (e.g. "skipping frame").
        frame: The frame it concerns, when known.
        warning: True: people should see it, but it never explains a failure.
    """

    failure: FailureClass
    text: str
    fatal: bool = False
    frame: int | None = None
    warning: bool = False


LogEvent = Progress | FrameStarted | FrameFinished | Problem


class LogParser(Protocol):
    """Reads the lines of one process.  Knows nothing of bytes: lines come without ANSI codes."""

    def feed(self, line: str) -> Iterable[LogEvent]:
        """Events told by one line."""
        ...


class Renderer(Protocol):
    """Interface of a renderer module (an instance named ``RENDERER``)."""

    #: Unique name, as in a step's ``renderer``.
    name: ClassVar[str]
    #: One line for ``--help`` and the docs.
    summary: ClassVar[str]
    #: Typed parameters: a frozen msgspec Struct whose fields carry ``Meta(description=...)``.
    params_type: ClassVar[type[msgspec.Struct]]
    #: Application it needs on the node ("" = none beyond Overcrank itself).
    app: ClassVar[str]
    #: Step kinds it can run.
    kinds: ClassVar[frozenset[str]]
    #: Parameters that hold an input path (mapped per site, checked at submit).
    path_params: ClassVar[tuple[str, ...]]
    #: Parameters that hold an input: a path pattern or {"step": ..., "output": ...}.
    input_params: ClassVar[tuple[str, ...]]
    #: File name suffixes that ``farm submit FILE`` hands to this renderer.
    suffixes: ClassVar[tuple[str, ...]]
    #: Whether a chunk may be any list of frames (else only one arithmetic run is leased).
    takes_lists: ClassVar[bool]
    #: Whether one attempt takes the agent's whole slice.
    whole_slice: ClassVar[bool]

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """Checks a step at submit time; returns warnings.

        Raises:
            JobFileError: The step can never work.
        """
        ...

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """The processes that render the chunk, in order."""
        ...

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """A parser for one process's lines."""
        ...

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """What the end means.

        Args:
            exit_code: As ``subprocess`` gives it: negative = killed by that signal.
            problems: Everything the parser found, in order.
        """
        ...


def read_params(renderer: Renderer, params: dict[str, Any], path: str = "params") -> Any:
    """Converts a step's parameters to the renderer's typed record.

    Raises:
        JobFileError: An unknown parameter, or one of the wrong type; names it.
    """
    known = renderer.params_type.__struct_fields__
    for key in params:
        if key not in known:
            raise JobFileError(
                f"{renderer.name} has no parameter {key!r}",
                f"{path}.{key}",
                hint="it has " + ", ".join(known),
            )
    try:
        return msgspec.convert(params, renderer.params_type)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        raise JobFileError(text, path + where.rstrip("`")) from error


def signal_reason(exit_code: int, program: str) -> str:
    """Words for an exit code of ``program`` that is not 0."""
    names = {
        -6: "aborted (SIGABRT)",
        -7: "crashed (SIGBUS)",
        -8: "crashed (SIGFPE)",
        -9: "was killed (SIGKILL)",
        -11: "crashed (SIGSEGV)",
        -15: "was terminated (SIGTERM)",
    }
    if exit_code < 0:
        return f"{program} {names.get(exit_code, f'was ended by signal {-exit_code}')}"
    if exit_code in (134, 137, 139, 143):
        return f"{program} {names[128 - exit_code]}"
    return f"{program} ended with exit code {exit_code}"

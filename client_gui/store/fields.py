"""What can be filled in for a job, as records made from the types that the farm itself reads.

What belongs here: a field of a record by its type, default, help, unit, choices and limits, and whether a
value is one of it.  What may not: how a field is edited, and files.

Nothing is described twice: parameters come from a renderer's typed record, fields of jobs and steps from the
job file's own records; only their order and their words for people are said here.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Union

import msgspec

from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.ids import STEP_NAME
from farm.model.jobs import JobSpec, StepSpec
from farm.model.moment import read_moment
from farm.model.orders import read_order
from farm.model.versions import check_constraint
from farm.renderers.base import Renderer

#: No value: the default holds.
UNSET: Final = msgspec.UNSET

#: Kinds of fields; each has an editor of its own.
KINDS: Final = (
    *("bool", "int", "float", "mib", "text", "path", "choice", "word", "frames", "texts", "flags", "table"),
    *("input", "outputs", "after", "command", "json"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """Something that can be filled in.

    Attributes:
        key: Its place below its record, with dots: ``samples``, ``resources.cores``.
        kind: One of ``KINDS``.
        hint: Its type, with limits.
        default: What holds when nothing is given; ``UNSET`` when something must be.
        label: What people call it.
        help: One sentence.
        unit: Of its figure: ``s``, ``MiB``, ``%``; "" for none.
        choices: Of ``choice``, ``word`` and ``flags``.
        low, high: Limits of its figure, None for none.
        items: What a list or table holds: ``text``, ``int``, ``float``, ``any``.
        check: What types cannot say of it; raises ``CallError``.
        names: What people call its choices, where that is another word: choice and words.
    """

    key: str
    kind: str
    hint: Any
    default: Any
    label: str
    help: str = ""
    unit: str = ""
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    items: str = "any"
    check: Callable[[Any], object] | None = None
    names: tuple[tuple[Any, str], ...] = ()

    def name_of(self, choice: Any) -> str:
        """What people call a choice."""
        return next((words for one, words in self.names if one == choice), str(choice))

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is UNSET

    @property
    def path(self) -> tuple[str, ...]:
        """The key, cut at its dots."""
        return tuple(self.key.split("."))

    def wanted(self) -> str:
        """What a value of it is, in words: ``a whole number from 0 to 65,536``."""
        if self.kind in ("int", "mib"):
            words = "a size" if self.kind == "mib" else "a whole number"
        elif self.kind == "float":
            words = "a number"
        elif self.kind == "bool":
            return "yes or no"
        elif self.choices:
            said = [f'"{one}"' if isinstance(one, str) else str(one) for one in self.choices]
            if self.kind == "word":
                return f"{' or '.join(said)}, or a whole number"
            words = ("some of " if self.kind == "flags" else "one of ") + ", ".join(said)
        else:
            words = {"texts": "at least one line", "table": "a table", "command": "a program"}.get(
                self.kind, "a text"
            )
        if self.low is not None and self.high is not None:
            return f"{words} from {_figure(self.low)} to {_figure(self.high)}"
        if self.low is not None:
            return f"{words} from {_figure(self.low)}"
        return f"{words} up to {_figure(self.high)}" if self.high is not None else words

    def problem(self, value: Any) -> str:
        """What is wrong with a value, "" when nothing is.

        The type's own conversion decides, the same that reads a job file.
        """
        if value is UNSET or (self.required and value in ("", [], {})):
            return f"needs {self.wanted()}" if self.required else ""
        if self.kind == "command" and isinstance(value, str):
            return "a quote is not closed, or a backslash stands at the end"
        try:
            made = msgspec.convert(value, self.hint)
        except msgspec.ValidationError as error:
            if self.kind in ("int", "float", "mib", "bool", "choice", "word", "flags"):
                return f"needs {self.wanted()}, not {_shown(value)}"
            return str(error).replace(" - at `$", " at `")
        except (RecursionError, OverflowError):
            return "is nested too deeply"
        if self.check is not None:
            try:
                self.check(made)
            except CallError as error:
                return str(error)
        return ""


#: Parameters with an editor of their own by their name, and the kind their type must be.
_HELD: Final = {"frames": "text", "command": "texts"}


def title_of(name: Any) -> str:
    """What people call a renderer."""
    text = str(name)
    return _TITLES.get(text) or (text[:1].upper() + text[1:]).replace("_", " ")


#: Renderers whose name is not written with one capital at its beginning.
_TITLES: Final = {"ffmpeg": "ffmpeg", "povray": "POV-Ray", "stitch": "Movie"}


def fields_of_renderer(renderer: Renderer) -> tuple[Field, ...]:
    """The parameters of a renderer, in the order of its record."""
    paths, inputs = set(renderer.path_params), set(renderer.input_params)
    found = []
    for name, hint, default in _record(renderer.params_type):
        kind = "path" if name in paths else "input" if name in inputs else ""
        if not kind and name in ("frames", "command"):
            kind = name if _kind(_bare(hint, []))[0] == _HELD[name] else ""
        found.append(_field(name, hint, default, kind=kind))
    return tuple(found)


def field_of(record: type[msgspec.Struct], key: str, label: str, help: str, **more: Any) -> Field:
    """A field of a record of the job file, with words for people."""
    names = key.split(".")
    for name in names[:-1]:
        record = next(hint for own, hint, _ in _record(record) if own == name)
    _, hint, default = next(one for one in _record(record) if one[0] == names[-1])
    return _field(key, hint, default, label=label, help=help, **more)


def _record(record: type[msgspec.Struct]) -> list[tuple[str, Any, Any]]:
    """Name, type and default of every field of a record."""
    hints = typing.get_type_hints(record, include_extras=True)
    found = []
    for field in msgspec.structs.fields(record):
        default: Any = UNSET
        if field.default is not msgspec.NODEFAULT:
            default = _plain(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            default = _plain(field.default_factory())
        found.append((field.encode_name, hints[field.name], default))
    return found


def _plain(value: Any) -> Any:
    """A value as a job file has it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _field(
    key: str,
    hint: Any,
    default: Any,
    *,
    kind: str = "",
    label: str = "",
    help: str = "",
    check: Callable[[Any], object] | None = None,
    names: tuple[tuple[Any, str], ...] = (),
) -> Field:
    metas: list[msgspec.Meta] = []
    bare = _bare(hint, metas)
    found, choices, items = _kind(bare)
    name = key.rpartition(".")[2]
    kind = kind or ("mib" if found == "int" and name.endswith("_mib") else found)
    if kind == "frames" and check is None:
        check = _check_frames
    low = next((float(meta.ge) for meta in metas if meta.ge is not None), None)
    high = next((float(meta.le) for meta in metas if meta.le is not None), None)
    return Field(
        key=key,
        kind=kind,
        hint=hint,
        default=default,
        label=label or name.replace("_", " ").capitalize(),
        help=help or next((meta.description for meta in metas if meta.description), ""),
        unit=_unit(name),
        choices=choices,
        low=low,
        high=high,
        items=items,
        check=check,
        names=names,
    )


def _bare(hint: Any, metas: list[msgspec.Meta]) -> Any:
    """A type without its limits, which go into ``metas``, and without None."""
    while typing.get_origin(hint) is typing.Annotated:
        metas += [meta for meta in hint.__metadata__ if isinstance(meta, msgspec.Meta)]
        hint = hint.__origin__
    if typing.get_origin(hint) in (Union, types.UnionType):
        kept = [one for one in typing.get_args(hint) if one is not types.NoneType]
        if len(kept) == 1:
            return _bare(kept[0], metas)
    return hint


def _kind(hint: Any) -> tuple[str, tuple[Any, ...], str]:
    """Kind of a bare type, its choices, and what it holds."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "choice", args, "text"
    if origin in (tuple, list):
        inner = _bare(args[0], []) if args else Any
        if typing.get_origin(inner) is Literal:
            return "flags", typing.get_args(inner), "text"
        return ("texts", (), "text") if inner is str else ("json", (), "any")
    if origin is dict:
        inner = _bare(args[1], [])
        words = {str: "text", int: "int", float: "float"}
        return ("table", (), words.get(inner, "any")) if args[0] is str else ("json", (), "any")
    if origin in (Union, types.UnionType):
        kept = [_bare(one, []) for one in args if one is not types.NoneType]
        literals = [one for one in kept if typing.get_origin(one) is Literal]
        if literals and all(one in literals or one is int for one in kept):
            return "word", tuple(choice for one in literals for choice in typing.get_args(one)), "any"
        return "json", (), "any"
    return {bool: "bool", int: "int", float: "float", str: "text"}.get(hint, "json"), (), "any"


def _unit(name: str) -> str:
    for ending, unit in (("_mib", "MiB"), ("_s", "s"), ("_percent", "%"), ("_usd", "USD")):
        if name.endswith(ending):
            return unit
    return ""


def _figure(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


# -- checks that types cannot say ------------------------------------------------------------------------


def _check_frames(text: Any) -> None:
    if text:
        FrameRange.parse(text)


def _check_moment(text: Any) -> None:
    if text:
        read_moment(text)


def _check_version(text: Any) -> None:
    if text:
        check_constraint(text)


def _check_step_name(text: Any) -> None:
    if not STEP_NAME.match(text):
        raise CallError(f"{text!r} is not a step name", hint="letters, digits, _ . - and at most 64")


# -- of the job ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that stand together.

    Attributes:
        title: What its heading says, "" for none.
        fields: In order.
        folded: Whether it is closed at first, its heading saying what is set.
    """

    title: str
    fields: tuple[Field, ...]
    folded: bool = True


def _job(key: str, label: str, help: str, **more: Any) -> Field:
    return field_of(JobSpec, key, label, help, **more)


def _step(key: str, label: str, help: str, **more: Any) -> Field:
    return field_of(StepSpec, key, label, help, **more)


JOB_GROUPS: Final = (
    Group(
        "",
        (
            _job("name", "Name", "What people see in the queue"),
            _job("project", "Project", "What it is accounted to"),
            _job("priority", "Priority", "100 comes first; artists may go up to 75"),
            _job(
                "scout",
                "Scout frames",
                "Render so many frames of each step first, then wait for your word with an estimate; 0 = off",
            ),
            _job("paused", "Start paused", "It waits until somebody resumes it"),
        ),
        folded=False,
    ),
    Group(
        "More of the job",
        (
            _job("user", "User", "Whose job it is; empty = yours; only wranglers submit for others"),
            _job(
                "start_after",
                "Not before",
                "A moment with its offset, e.g. 2030-01-31T18:00:00+01:00",
                check=_check_moment,
            ),
            _job("max_cores", "Most cores", "Most cores its frames hold at once; 0 = no cap"),
            _job("assets", "Assets", "Files it needs: a required one that is missing refuses the job"),
            _job("warnings", "Warnings", "What people should know of it, one a line"),
        ),
    ),
)

STEP_ESSENTIALS: Final = (
    _step("name", "Name", "Letters, digits, _ . -; unique in the job", check=_check_step_name),
    _step(
        "kind",
        "Kind",
        "Per frame: each frame is rendered, counted and tried again by itself. One piece: all of it is one"
        " piece of work, such as a film or a simulation",
        names=(("per_frame", "per frame"), ("single", "one piece")),
    ),
    _step("frames", "Frames", "1-100, every fifth 1-100x5, or a list 1,5,9-12", kind="frames"),
    _step(
        "outputs",
        "Output",
        "Where its files go: a pattern with ####, a folder with / at its end, or one file",
        kind="outputs",
    ),
)

STEP_GROUPS: Final = (
    Group(
        "Machines",
        (
            _step("resources.cores", "Cores", "Of one attempt"),
            _step("resources.ram_mib", "Memory", "Of one attempt: MiB, or with a unit: 8 GiB"),
            _step("resources.gpus", "GPUs", "Of one attempt"),
            _step("resources.vram_mib", "GPU memory", "That each of these GPUs must have"),
            _step("resources.disk_mib", "Scratch disk", "Of one attempt"),
            _step("pools", "Pools", "Only nodes of one of these, one a line; empty = any"),
            _step("site", "Site", "Only nodes at this site; empty = any"),
            _step("version", "Version", "Of the application, e.g. >=4.2,<5", check=_check_version),
            _step("attributes", "Attributes", "Only nodes that have these: NAME = VALUE, * for any value"),
            _step("limits", "Limits", "Counted tokens of the farm (licences) every attempt holds: nuke = 1"),
            _step("resources.tokens", "Tokens", "Counted things of a node every attempt holds: fx-card = 1"),
        ),
    ),
    Group(
        "Order and waiting",
        (
            _step("chunk", "Chunk", "Frames in a lease; auto = the farm measures and decides"),
            _step(
                "order",
                "Order",
                "forward, reverse, first-last-middle, coarse, coarse:8, or listed",
                check=lambda text: read_order(text),
            ),
            _step(
                "after", "Waits for", "Earlier steps of this job, other jobs, or steps of them", kind="after"
            ),
        ),
    ),
    Group(
        "Failure and time",
        (
            _step("attempts", "Attempts", "Failures a frame may have; 0 = as the farm says"),
            _step("timeout_s", "Time of a chunk", "Longest time of one; 0 = no limit"),
            _step("failure.frame_timeout_s", "Time of a frame", "Longest time of one; 0 = no limit"),
            _step("failure.min_run_s", "Least time", "A frame done in less has failed; 0 = off"),
            _step(
                "failure.silent_x",
                "Silence",
                "Stopped when it does nothing for so many times a frame's usual time; 0 = never",
            ),
            _step(
                "failure.pause_share",
                "Pause at share",
                "The job pauses itself when this share of the frames failed, 0 to 1; 0 = as the farm says",
            ),
            _step("failure.pause_least", "Pause at least", "... and so many frames; 0 = as the farm says"),
        ),
    ),
    Group(
        "Files, checks and environment",
        (
            _step("existing", "Files there already", "Overwrite them, skip them once verified, or refuse"),
            _step("checks", "Picture checks", "Beyond that every file can be read"),
            _step("movie_frames", "Frames of the film", "That the film must have; empty = not counted"),
            _step("env", "Environment", "Variables of its processes: NAME = VALUE, one a line"),
            _step("cwd", "Working folder", "Empty = a folder of its own", kind="path"),
            _step("pre", "Before a chunk", "A command that is run first", kind="command"),
            _step("post", "After a chunk", "A command that is run then", kind="command"),
        ),
    ),
)

#: Keys of the records that some editor or heading stands for.
SHOWN_OF_STEP: Final = frozenset(
    field.path[0] for field in (*STEP_ESSENTIALS, *(one for group in STEP_GROUPS for one in group.fields))
) | {"renderer", "params"}
#: The same of a job.
SHOWN_OF_JOB: Final = frozenset(field.key for group in JOB_GROUPS for field in group.fields) | {
    "overcrank_job",
    "steps",
    "token",
    "app",
}

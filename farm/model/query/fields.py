"""What can be filtered by: the fields of jobs, nodes and frames, each once.

What belongs here: names, kinds and help of fields, and which of them bare words look at.  The parser, the
completion, the command line's help and docs/filters.md are derived from it.  What may not: how a row is read
(``farm.sdk.filters``) and how text is parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from farm.model.states import FailureClass, NodeState, UnitState, WorkState


class Kind(StrEnum):
    """What the values of a field are, and so what may be written after it."""

    #: Text that is looked into: ``name:fx``.
    TEXT = "text"
    #: One of some words, or several of them at once: ``state:failed``.
    WORD = "word"
    #: A whole number: ``priority>60``.
    COUNT = "count"
    #: Of a hundred: ``progress<50%``.
    PERCENT = "percent"
    #: Mebibytes, written with a unit: ``ram>32g``.
    MEMORY = "memory"
    #: Nano-USD, written in USD: ``cost>5``.
    MONEY = "money"
    #: Seconds, written with a unit: ``age<2d``.
    DURATION = "duration"
    #: Frame numbers: ``frame:1001-1020``.
    FRAMES = "frames"
    #: Yes or no: ``archived:yes``.
    FLAG = "flag"


#: Kinds that are compared as numbers.
NUMBERS: Final = frozenset({Kind.COUNT, Kind.PERCENT, Kind.MEMORY, Kind.MONEY, Kind.DURATION})
#: Kinds of measured amounts: two are never equal to the last digit, so only comparisons and ranges fit.
MEASURED: Final = frozenset({Kind.MEMORY, Kind.MONEY, Kind.DURATION})


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to filter by.

    Attributes:
        name: As written before the colon.
        kind: What its values are.
        help: What it is, in words.
        aliases: Other names for it.
        words: The words it may have, as far as this version knows them.
        searched: Whether a word without a field looks here too.
        bare: Whether its name alone means ``name:yes``.
        moves: Whether it changes with time alone.
    """

    name: str
    kind: Kind
    help: str
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    searched: bool = False
    bare: bool = False
    moves: bool = False


class Vocabulary:
    """The fields of one kind of row.

    Args:
        name: Of the rows, in the plural: ``jobs``.
        fields: In the order in which they are shown.
    """

    __slots__ = ("_by_name", "fields", "name", "searched")

    def __init__(self, name: str, fields: Iterable[Field]) -> None:
        self.name = name
        self.fields = tuple(fields)
        self.searched = tuple(field for field in self.fields if field.searched)
        self._by_name = {
            known.casefold(): field for field in self.fields for known in (field.name, *field.aliases)
        }

    def find(self, name: str) -> Field | None:
        """The field of that name or alias, whatever its case."""
        return self._by_name.get(name.casefold())

    def nearest(self, name: str) -> str:
        """The name that was probably meant, "" when none is near."""
        near = get_close_matches(name.casefold(), self._by_name, 1, 0.6)
        return self._by_name[near[0]].name if near else ""


_YES_NO = ("yes", "no")

JOBS: Final = Vocabulary(
    "jobs",
    (
        Field("name", Kind.TEXT, "name of the job", searched=True),
        Field("user", Kind.TEXT, "whose it is", ("owner",), searched=True),
        Field("project", Kind.TEXT, "its project", ("show",), searched=True),
        Field("mine", Kind.FLAG, "whether it is yours", words=_YES_NO, bare=True),
        Field("state", Kind.WORD, "what it shows", words=tuple(state.value for state in WorkState)),
        Field("job", Kind.WORD, "its number: 12 or J12"),
        Field("priority", Kind.COUNT, "from 0 to 100, 100 first", ("prio", "pri")),
        Field("progress", Kind.PERCENT, "how much of it is done"),
        Field("frames", Kind.COUNT, "how many frames (or other units) it has"),
        Field("done", Kind.COUNT, "how many are done"),
        Field("running", Kind.COUNT, "how many are running"),
        Field("failed", Kind.COUNT, "how many have failed"),
        Field("frame", Kind.FRAMES, "frames of which it has at least one"),
        Field("step", Kind.TEXT, "name of one of its steps", ("layer",)),
        Field("renderer", Kind.WORD, "renderer of one of its steps"),
        Field("reason", Kind.TEXT, "why it is in its state"),
        Field("cost", Kind.MONEY, "what it has cost so far", ("spent", "spend")),
        Field("waste", Kind.MONEY, "what of that was wasted"),
        Field("age", Kind.DURATION, "time since it was submitted", moves=True),
        Field("started", Kind.DURATION, "time since it was started", moves=True),
        Field("ended", Kind.DURATION, "time since it ended", moves=True),
        Field("runtime", Kind.DURATION, "time from its start until its end, or until now", moves=True),
        Field("eta", Kind.DURATION, "time until it will be done at the latest expected", moves=True),
        Field("archived", Kind.FLAG, "whether it is in the archive", words=_YES_NO),
    ),
)

NODES: Final = Vocabulary(
    "nodes",
    (
        Field("name", Kind.TEXT, "name of the node", ("node",), searched=True),
        Field("host", Kind.TEXT, "name of its machine", searched=True),
        Field("pool", Kind.WORD, "its pool", searched=True),
        Field("site", Kind.WORD, "its site", searched=True),
        Field(
            "state",
            Kind.WORD,
            "what it shows",
            words=(*(state.value for state in NodeState), "drained", "disabled", "closed"),
        ),
        Field("enabled", Kind.FLAG, "whether it is given work", words=_YES_NO),
        Field("busy", Kind.FLAG, "whether it runs anything", words=_YES_NO),
        Field("job", Kind.WORD, "number of a job it runs: 12 or J12"),
        Field("running", Kind.COUNT, "how many attempts it runs"),
        Field("cores", Kind.COUNT, "its cores"),
        Field("coresfree", Kind.COUNT, "cores that are free"),
        Field("ram", Kind.MEMORY, "its memory"),
        Field("ramfree", Kind.MEMORY, "memory that is free"),
        Field("gpus", Kind.COUNT, "its GPUs"),
        Field("gpusfree", Kind.COUNT, "GPUs that are free"),
        Field("gpu", Kind.TEXT, "model of one of its GPUs"),
        Field("app", Kind.TEXT, "an application it has, with its version"),
        Field("renderer", Kind.WORD, "a renderer it may run"),
        Field("cpu", Kind.PERCENT, "how busy its processors are"),
        Field("slots", Kind.COUNT, "most attempts at once, 0 = as many as fit"),
        Field("rate", Kind.MONEY, "what an hour of it costs"),
        Field("cost", Kind.MONEY, "what it has cost so far", ("spent", "spend")),
        Field("idle", Kind.MONEY, "what of that bought nothing"),
        Field("seen", Kind.DURATION, "time since it was last heard of", moves=True),
        Field("software", Kind.TEXT, "version of its agent", ("version",)),
        Field("update", Kind.WORD, "where the update of its software stands"),
        Field("reason", Kind.TEXT, "why it is in its state"),
    ),
)

FRAMES: Final = Vocabulary(
    "frames",
    (
        Field("step", Kind.TEXT, "name of its step", ("layer",), searched=True),
        Field("node", Kind.TEXT, "node of its last attempt", searched=True),
        Field("frame", Kind.FRAMES, "its number"),
        Field("state", Kind.WORD, "its state", words=tuple(state.word for state in UnitState)),
        Field("failure", Kind.WORD, "class of its last failure", words=tuple(FailureClass)),
        Field("reason", Kind.TEXT, "why it is in its state", searched=True),
        Field("tries", Kind.COUNT, "how many attempts it took", ("attempts",)),
        Field("time", Kind.DURATION, "what its last finished attempt took"),
        Field("cost", Kind.MONEY, "what it has cost so far"),
        Field("progress", Kind.PERCENT, "how far it is while it runs"),
        Field("verified", Kind.FLAG, "whether its files were checked and are good", words=_YES_NO),
        Field("file", Kind.TEXT, "path of one of its files"),
    ),
)

VOCABULARIES: Final = (JOBS, NODES, FRAMES)

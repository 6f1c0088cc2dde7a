"""A filter over a table: the same answers as ``farm.model.query`` gives row by row, a column at a time.

What belongs here: which columns a field of the filter language reads, and evaluating terms over many slots at
once, since a filter is run again with every key somebody presses.  What may not: the grammar, and Qt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store.folded import Folded
from client_gui.store.table import MISSING, Kind, Numbers, Slots, Table
from farm.model.frames import FrameRange
from farm.model.query import JOBS, NODES, Context, Query
from farm.model.query.fields import Field
from farm.model.query.match import value_test
from farm.model.query.tree import All, Between, Flag, Node, Not, Term, Text
from farm.sdk.filters import read_frames

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field's values come from.

    Attributes:
        columns: Of the table; a change of one may change the answer.
        read: Values for some slots: an array for numbers (NaN: none) and flags, else a list.
        memo: Whether few values differ, so that each is looked at once.
        made: Of memo: makes of a value what is compared.
        coded: Gives, in place of values, the number of each slot's value and the values by number.
        folded: The column, where it is one of plain texts.
    """

    columns: tuple[str, ...]
    read: Callable[[Table[Any], Slots, Context], Numbers | list[Any]]
    memo: bool = False
    made: Callable[[Any], Any] | None = None
    coded: Callable[[Table[Any], Slots], tuple[Numbers, Sequence[Any]]] | None = None
    folded: str = ""


Sources = Mapping[str, Source]


class TableFilter:
    """A filter made ready for a table.

    Args:
        table: The table.
        query: The filter.
        sources: Where its fields come from.
        context: The time, and who asks; ``moved_to`` gives a later time.

    Attributes:
        query: The filter.
        bits: Column groups whose changes may change what fits.
    """

    def __init__(self, table: Table[Any], query: Query, sources: Sources, context: Context) -> None:
        self.query = query
        self.context = context
        self._table = table
        self._sources = sources
        self.bits = table.bits_of([column for name in query.fields() for column in sources[name].columns])

    def moved_to(self, now_us: int) -> TableFilter:
        """The same filter at another time."""
        return TableFilter(self._table, self.query, self._sources, Context(now_us, self.context.user))

    def fits(self, slots: Slots) -> Mask:
        """Which of these slots fit."""
        root = self.query.root
        if root is None:
            return np.ones(len(slots), np.bool_)
        return self._node(root, slots)

    def _node(self, node: Node, slots: Slots) -> Mask:
        if isinstance(node, Term):
            return self._term(node, slots)
        if isinstance(node, Not):
            inverse: Mask = ~self._node(node.part, slots)
            return inverse
        # The next part is asked only of what it can still change.
        wanted = isinstance(node, All)
        found = np.full(len(slots), wanted, np.bool_)
        for part in node.parts:
            open_places = np.flatnonzero(found == wanted)
            if not len(open_places):
                break
            found[open_places] = self._node(part, slots[open_places])
        return found

    def _term(self, term: Term, slots: Slots) -> Mask:
        fields = (term.field,) if term.field is not None else self.query.vocabulary.searched
        found = np.zeros(len(slots), np.bool_)
        for field in fields:
            left = np.flatnonzero(~found)
            if len(left):
                found[left] = self._field(term, field, slots[left])
        return found

    def _field(self, term: Term, field: Field, slots: Slots) -> Mask:
        source = self._sources[field.name]
        if source.coded is not None:
            return _coded_fit(value_test(term, field), *source.coded(self._table, slots))
        if source.folded and (part := _plain(term)) is not None:
            return _folded_of(self._table, source.folded).having(part, slots)
        values = source.read(self._table, slots, self.context)
        if isinstance(values, np.ndarray):
            return _numbers_fit(term, values)
        test = value_test(term, field)
        if source.memo:
            made = source.made or (lambda value: value)
            known = {value: bool(test(made(value))) for value in set(values)}
            return np.fromiter(map(known.__getitem__, values), np.bool_, len(values))
        return np.fromiter(map(test, values), np.bool_, len(values))


def _folded_of(table: Table[Any], column: str) -> Folded:
    """The texts of a column as one; made once, and kept with the table."""
    found: Folded = table.kept(f"folded {column}", lambda: Folded(table, column))
    return found


def _coded_fit(test: Callable[[Any], bool], codes: Numbers, values: Sequence[Any]) -> Mask:
    """Which of some numbers stand for values that fit; each value is looked at once."""
    if not len(codes):
        return np.zeros(0, np.bool_)
    there = np.flatnonzero(np.bincount(codes))
    fits = np.zeros(int(there[-1]) + 1, np.bool_)
    fits[there] = [bool(test(values[code])) for code in there.tolist()]
    found: Mask = fits[codes]
    return found


def _plain(term: Term) -> str | None:
    """What a text must contain, folded, when that is all there is to a term."""
    only = term.values[0]
    plain = len(term.values) == 1 and isinstance(only, Text) and not only.wild and not term.exact
    return only.text.casefold() if plain and isinstance(only, Text) else None


def _numbers_fit(term: Term, values: Numbers) -> Mask:
    found = np.zeros(len(values), np.bool_)
    for value in term.values:
        if isinstance(value, Flag):
            found |= values.astype(np.bool_) == value.value
        elif isinstance(value, Between):
            # Comparisons with NaN are false: what a row does not have never fits.
            above = values >= value.low if value.low_in else values > value.low
            found |= above & (values <= value.high if value.high_in else values < value.high)
    return found


# -- reading columns --


def _pick(values: Sequence[Any], slots: Slots) -> list[Any]:
    return list(map(values.__getitem__, slots.tolist()))


def texts(column: str, *, memo: bool = False, plain: bool = False, few: bool = False) -> Source:
    """A column of texts, or of tuples of texts.

    Args:
        column: Its name.
        memo: Whether few values differ.
        plain: Whether every value is one text.
        few: Whether it is a TEXT column of which the table numbers the texts, as there are few.
    """

    def coded(table: Table[Any], slots: Slots) -> tuple[Numbers, Sequence[Any]]:
        found = table.coded(column)
        return found.codes[slots], found.texts

    return Source(
        (column,),
        lambda table, slots, context: _pick(table.values(column), slots),
        memo,
        coded=coded if few else None,
        folded=column if plain else "",
    )


def states(column: str) -> Source:
    """A column of states, as their words."""

    def read(table: Table[Any], slots: Slots, context: Context) -> list[str]:
        words = table.words(column)
        codes: Numbers = table.numbers(column)[slots]
        known = {code: words.word(code) for code in np.unique(codes).tolist()}
        return list(map(known.__getitem__, codes.tolist()))

    def coded(table: Table[Any], slots: Slots) -> tuple[Numbers, Sequence[Any]]:
        words = table.words(column)
        return table.numbers(column)[slots], [words.word(code) for code in range(words.OTHER + 1)]

    return Source((column,), read, memo=True, coded=coded)


def numbers(column: str) -> Source:
    """A column of numbers or flags."""

    def read(table: Table[Any], slots: Slots, context: Context) -> Numbers:
        found: Numbers = table.numbers(column)[slots]
        if table.columns[column].kind is Kind.INT and (missing := found == MISSING).any():
            found = found.astype(np.float64)
            found[missing] = np.nan
        return found

    return Source((column,), read)


def _since(column: str) -> Source:
    """Seconds since a moment; none where it is 0."""

    def read(table: Table[Any], slots: Slots, context: Context) -> Numbers:
        at_us = table.numbers(column)[slots]
        found: Numbers = np.where(at_us > 0, (context.now_us - at_us) / 1e6, np.nan)
        return found

    return Source((column,), read)


def _runtime(table: Table[Any], slots: Slots, context: Context) -> Numbers:
    started, ended = table.numbers("started_us")[slots], table.numbers("ended_us")[slots]
    seconds = (np.where(ended != 0, ended, context.now_us) - started) / 1e6
    found: Numbers = np.where(started > 0, np.maximum(0.0, seconds), np.nan)
    return found


def _eta(table: Table[Any], slots: Slots, context: Context) -> Numbers:
    high_us = table.numbers("eta_high_us")[slots]
    none = high_us == MISSING
    found: Numbers = np.where(none, np.nan, (np.where(none, 0, high_us) - context.now_us) / 1e6)
    return found


def _mine(table: Table[Any], slots: Slots, context: Context) -> Numbers:
    user, users = context.user, table.coded("user")
    return _coded_fit(lambda found: bool(user) and found == user, users.codes[slots], users.texts)


def _job_names(table: Table[Any], slots: Slots, context: Context) -> list[Any]:
    return [(str(job), f"J{job}") for job in table.numbers("job")[slots].tolist()]


def _of_steps(read: Callable[[Any], Any]) -> Callable[[Table[Any], Slots, Context], list[Any]]:
    return lambda table, slots, context: [
        tuple([read(step) for step in steps]) for steps in _pick(table.values("steps"), slots)
    ]


def _ranges(texts: tuple[str, ...]) -> tuple[FrameRange, ...]:
    return tuple([found for text in texts if text and (found := read_frames(text)) is not None])


JOB_SOURCES: Final[Sources] = {
    "name": texts("name", plain=True),
    "user": texts("user", few=True),
    "project": texts("project", few=True),
    "mine": Source(("user",), _mine),
    "state": states("state"),
    "job": Source(("job",), _job_names),
    "priority": numbers("priority"),
    "progress": numbers("progress"),
    "frames": numbers("units"),
    "done": numbers("done"),
    "running": numbers("running"),
    "failed": numbers("failed"),
    "frame": Source(("steps",), _of_steps(lambda step: step.frames), memo=True, made=_ranges),
    "step": Source(("steps",), _of_steps(lambda step: step.name), memo=True),
    "renderer": Source(("steps",), _of_steps(lambda step: step.renderer), memo=True),
    "reason": texts("reason", few=True),
    "cost": numbers("spend_nano"),
    "waste": numbers("waste_nano"),
    "age": _since("submitted_us"),
    "started": _since("started_us"),
    "ended": _since("ended_us"),
    "runtime": Source(("started_us", "ended_us"), _runtime),
    "eta": Source(("eta_high_us",), _eta),
    "archived": numbers("archived"),
}


def _node_jobs(table: Table[Any], slots: Slots, context: Context) -> list[Any]:
    found = []
    for running in _pick(table.values("running"), slots):
        jobs = [address.partition("/")[0] for address in running]
        found.append([*jobs, *(job[1:] for job in jobs)])
    return found


def _busy(table: Table[Any], slots: Slots, context: Context) -> Numbers:
    found: Numbers = table.numbers("running_count")[slots] > 0
    return found


def _node_reasons(table: Table[Any], slots: Slots, context: Context) -> list[Any]:
    columns = [_pick(table.values(name), slots) for name in ("reason", "closed", "update_reason")]
    return list(zip(*columns, strict=True))


NODE_SOURCES: Final[Sources] = {
    "name": texts("name", plain=True),
    "host": texts("host", plain=True),
    "pool": texts("pool", few=True),
    "site": texts("site", few=True),
    "state": texts("states", memo=True),
    "enabled": numbers("enabled"),
    "busy": Source(("running_count",), _busy),
    "job": Source(("running",), _node_jobs),
    "running": numbers("running_count"),
    "cores": numbers("cores"),
    "coresfree": numbers("cores_free"),
    "ram": numbers("ram_mib"),
    "ramfree": numbers("ram_free_mib"),
    "gpus": numbers("gpus"),
    "gpusfree": numbers("gpus_free"),
    "gpu": texts("gpu_names"),
    "app": texts("apps"),
    "renderer": texts("renderers"),
    "cpu": numbers("cpu_percent"),
    "slots": numbers("slots"),
    "rate": numbers("rate_nano_h"),
    "cost": numbers("spent_nano"),
    "idle": numbers("idle_nano"),
    "seen": _since("seen_us"),
    "software": texts("software", few=True),
    "update": texts("update", few=True),
    "reason": Source(("reason", "closed", "update_reason"), _node_reasons, memo=True),
}


def job_filter(table: Table[int], text: str, context: Context) -> TableFilter:
    """A filter of the jobs' table.

    Raises:
        QueryError: The text does not parse.
    """
    return TableFilter(table, Query.parse(text, JOBS), JOB_SOURCES, context)


def node_filter(table: Table[int], text: str, context: Context) -> TableFilter:
    """A filter of the nodes' table.

    Raises:
        QueryError: The text does not parse.
    """
    return TableFilter(table, Query.parse(text, NODES), NODE_SOURCES, context)


#: Fields whose values are offered when somebody types a filter, and the columns they are in.
JOB_FACETS: Final = {"user": "user", "project": "project", "state": "state"}
NODE_FACETS: Final = {
    "pool": "pool",
    "site": "site",
    "state": "states",
    "name": "name",
    "software": "software",
}


def facets(
    table: Table[Any], columns: Mapping[str, str], slots: Slots | None = None
) -> dict[str, dict[str, int]]:
    """How many rows have each value of some fields, for completion and for chips with counts.

    Args:
        table: The table.
        columns: Column by field.
        slots: Only of these rows; None = of all.
    """
    if slots is None:
        slots = table.slots()
    found: dict[str, dict[str, int]] = {}
    for field, column in columns.items():
        counts: dict[str, int] = {}
        if table.columns[column].kind is Kind.STATE:
            words = table.words(column)
            codes = np.bincount(table.numbers(column)[slots], minlength=1)
            counts = {words.word(code): int(codes[code]) for code in np.flatnonzero(codes).tolist()}
        elif table.columns[column].few:
            coded = table.coded(column)
            numbers_of = np.bincount(coded.codes[slots], minlength=1)
            found_of = np.flatnonzero(numbers_of).tolist()
            counts = {coded.texts[code]: int(numbers_of[code]) for code in found_of if coded.texts[code]}
        else:
            for value in _pick(table.values(column), slots):
                for one in (value,) if isinstance(value, str) else value:
                    if one:
                        counts[one] = counts.get(one, 0) + 1
        found[field] = counts
    return found

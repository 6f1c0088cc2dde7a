"""The filter language of frames, evaluated over whole columns: ``state:failed time>5m frame:1001-1020``.

What belongs here: the answer to each term for all units of a step at once.  What may not: the grammar
(``farm.model.query``), Qt.

What the client has no column of (a frame's files, its reason) it only knows of frames it has asked about; a
term about those fits what is known, and ``partial`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.views.job_parts.frameset import FrameSet, state_word
from farm.model.frames import FrameRange
from farm.model.query import FRAMES, Context, Field, Kind, Query
from farm.model.query.match import value_test
from farm.model.query.tree import All, Between, Frames, Node, Not, Term
from farm.protocol.rows import FrameRow
from farm.sdk.filters import FRAME_FIELDS

Mask = npt.NDArray[np.bool_]

#: Fields that only rows have which were asked for.
OF_ROWS: Final = frozenset({"failure", "reason", "progress", "verified", "file"})


@dataclass(frozen=True, slots=True)
class UnitSource:
    """What is known of a step's units.

    Attributes:
        frames: The step.
        states: State bytes.
        seconds, costs: NaN where not known.
        tries: Attempts, NaN where not known.
        nodes: Numbers of nodes, 0 for none.
        node_name: The name of a node.
        rows: Rows that were asked for, by unit.
        memory: MiB, NaN where not known; only when frames are sorted by it.
    """

    frames: FrameSet
    states: npt.NDArray[np.uint8]
    seconds: npt.NDArray[np.float64]
    costs: npt.NDArray[np.float64]
    tries: npt.NDArray[np.float64]
    nodes: npt.NDArray[np.int64]
    node_name: Callable[[int], str]
    rows: Mapping[int, FrameRow] = field(default_factory=dict)
    memory: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def partial_fields(query: Query) -> tuple[str, ...]:
    """Fields that a filter names and that are only known of frames that were looked at."""
    return tuple(
        sorted(
            {
                term.field.name
                for term in _terms(query.root)
                if term.field is not None and term.field.name in OF_ROWS
            }
        )
    )


def fitting(query: Query, source: UnitSource) -> Mask:
    """Which units fit."""
    if query.root is None:
        return np.ones(source.frames.units, np.bool_)
    return _node(query.root, source)


def _terms(node: Node | None) -> list[Term]:
    if node is None:
        return []
    if isinstance(node, Term):
        return [node]
    if isinstance(node, Not):
        return _terms(node.part)
    return [term for part in node.parts for term in _terms(part)]


def _node(node: Node, source: UnitSource) -> Mask:
    if isinstance(node, Term):
        fields = (node.field,) if node.field is not None else FRAMES.searched
        found = np.zeros(source.frames.units, np.bool_)
        for one in fields:
            found |= _field(node, one, source)
        return found
    if isinstance(node, Not):
        inverse: Mask = ~_node(node.part, source)
        return inverse
    masks = [_node(part, source) for part in node.parts]
    joined: Mask = np.logical_and.reduce(masks) if isinstance(node, All) else np.logical_or.reduce(masks)
    return joined


def _field(term: Term, of: Field, source: UnitSource) -> Mask:
    units = source.frames.units
    numbers = {"time": source.seconds, "cost": source.costs, "tries": source.tries}.get(of.name)
    if numbers is not None:
        return _between(term, numbers)
    test = value_test(term, of)
    if of.name == "step":
        return np.full(units, bool(test(source.frames.step)), np.bool_)
    if of.name == "state":
        fits = np.array([bool(test(state_word(byte))) for byte in range(256)], np.bool_)
        found: Mask = fits[source.states[:units]]
        return found
    if of.name == "node":
        numbers_of = np.unique(source.nodes)
        chosen = [number for number in numbers_of.tolist() if number and test(source.node_name(number))]
        return np.isin(source.nodes, chosen)
    if of.kind is Kind.FRAMES:
        return _frames(term, source.frames)
    found = np.zeros(units, np.bool_)
    read = FRAME_FIELDS[of.name]
    for unit, row in source.rows.items():
        if unit < units:
            value: Any = read((source.frames.step, row), Context())
            found[unit] = bool(test(value))
    return found


def _between(term: Term, values: npt.NDArray[np.float64]) -> Mask:
    found = np.zeros(len(values), np.bool_)
    with np.errstate(invalid="ignore"):
        for value in term.values:
            if isinstance(value, Between):
                # Comparisons with NaN are false: what is not known never fits.
                above = values >= value.low if value.low_in else values > value.low
                found |= above & (values <= value.high if value.high_in else values < value.high)
    return found


def _frames(term: Term, frames: FrameSet) -> Mask:
    found = np.zeros(frames.units, np.bool_)
    numbers = frames.numbers
    if numbers is None:
        return found
    for value in term.values:
        if isinstance(value, Between):
            above = numbers >= value.low if value.low_in else numbers > value.low
            found |= above & (numbers <= value.high if value.high_in else numbers < value.high)
        elif isinstance(value, Frames):
            found |= _in_range(numbers, value.range)
    return found


def _in_range(numbers: npt.NDArray[np.int64], wanted: FrameRange) -> Mask:
    found = np.zeros(len(numbers), np.bool_)
    for run in wanted.runs:
        inside = (numbers >= run.low) & (numbers <= run.high)
        found |= inside & ((numbers - run.low) % (abs(run.step) or 1) == 0)
    return found

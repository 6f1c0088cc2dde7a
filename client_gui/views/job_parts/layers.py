"""Where the steps of a job stand in a graph: what waits stands to the right of what it waits for.

What belongs here: layers, and an order within them with few crossings.  What may not: Qt, sizes, states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Sweeps over the layers; more hardly ever help.
_SWEEPS: Final = 4


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a node of the graph stands: layer from the left, place from above."""

    layer: int
    place: int


def layered(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> dict[str, Spot]:
    """Lays a graph out in layers.

    Args:
        names: Its nodes, in the order in which they are listed elsewhere.
        needs: What each of them waits for; names that are not nodes are passed over.

    Returns:
        A spot for each.  In a circle (which no farm accepts) each stands where its other needs put it.
    """
    known = set(names)
    before = {
        name: [need for need in needs.get(name, ()) if need in known and need != name] for name in names
    }
    layer: dict[str, int] = {}

    for name in names:
        _place(name, before, layer)
    layers: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for name in names:
        layers[layer[name]].append(name)
    after: dict[str, list[str]] = {name: [] for name in names}
    for name, found in before.items():
        for need in found:
            after[need].append(name)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        side = before if down else after
        others = layers if down else layers[::-1]
        for earlier, here in pairwise(others):
            _by_neighbours(here, earlier, side)
    return {
        name: Spot(number, place) for number, here in enumerate(layers) for place, name in enumerate(here)
    }


def _place(name: str, before: Mapping[str, list[str]], layer: dict[str, int]) -> None:
    """Finds the layer of a node and of all it waits for, without recursion."""
    open_names = [name]
    entered: set[str] = set()
    while open_names:
        top = open_names[-1]
        if top in layer:
            open_names.pop()
            continue
        left = [need for need in before[top] if need not in layer and need not in entered]
        entered.add(top)
        if left:
            open_names += left
            continue
        layer[top] = 1 + max((layer[need] for need in before[top] if need in layer), default=-1)
        open_names.pop()


def _by_neighbours(here: list[str], earlier: list[str], side: Mapping[str, list[str]]) -> None:
    """Orders a layer by the mean place of what each is joined to; those without stay where they are."""
    place = {name: number for number, name in enumerate(earlier)}
    mean: dict[str, float] = {}
    for number, name in enumerate(here):
        joined = [place[other] for other in side[name] if other in place]
        mean[name] = sum(joined) / len(joined) if joined else float(number)
    here.sort(key=lambda name: mean[name])


def crossings(spots: Mapping[str, Spot], needs: Mapping[str, Sequence[str]]) -> int:
    """How many lines between neighbouring layers cross."""
    lines = [
        (spots[need], spots[name])
        for name, found in needs.items()
        for need in found
        if need in spots and name in spots and spots[name].layer == spots[need].layer + 1
    ]
    count = 0
    for number, (a, b) in enumerate(lines):
        for c, d in lines[number + 1 :]:
            if a.layer == c.layer and (a.place - c.place) * (b.place - d.place) < 0:
                count += 1
    return count

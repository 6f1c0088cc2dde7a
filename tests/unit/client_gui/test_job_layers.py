"""The graph of a job: what waits stands right of what it waits for, and few lines cross."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from client_gui.views.job_parts.layers import crossings, layered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], dict[str, list[str]]]:
    names = [f"s{number}" for number in range(draw(st.integers(1, 12)))]
    needs = {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=4)) if place else []
        for place, name in enumerate(names)
    }
    return draw(st.permutations(names)), needs


@given(graphs())
def test_every_step_stands_right_of_all_it_waits_for_and_no_two_on_one_spot(
    graph: tuple[list[str], dict[str, list[str]]],
) -> None:
    names, needs = graph
    spots = layered(names, needs)
    assert set(spots) == set(names)
    for name, found in needs.items():
        assert all(spots[need].layer < spots[name].layer for need in found)
        assert spots[name].layer == max((spots[need].layer + 1 for need in found), default=0)
    assert len(set(spots.values())) == len(names)
    for layer in {spot.layer for spot in spots.values()}:
        places = sorted(spot.place for spot in spots.values() if spot.layer == layer)
        assert places == list(range(len(places))), "no holes"


def test_lines_do_not_cross_where_they_need_not() -> None:
    names = ["a", "b", "c", "x", "y", "z"]
    needs = {"x": ["c"], "y": ["b"], "z": ["a"]}
    assert crossings(layered(names, needs), needs) == 0


def test_a_circle_and_unknown_names_do_not_hang_it() -> None:
    spots = layered(["a", "b", "c"], {"a": ["b"], "b": ["a"], "c": ["nobody", "c"]})
    assert set(spots) == {"a", "b", "c"}


def test_a_chain_of_many_steps_is_no_deep_recursion() -> None:
    names = [f"s{number}" for number in range(5000)]
    spots = layered(list(reversed(names)), {b: [a] for a, b in itertools.pairwise(names)})
    assert spots["s4999"].layer == 4999

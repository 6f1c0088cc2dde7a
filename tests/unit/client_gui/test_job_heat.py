"""Heat: scales that one outlier cannot spoil, bytes in the order of figures, and words for what they mean."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from client_gui.views.job_parts.heat import (
    TOP,
    UNKNOWN,
    Mode,
    heat_bytes,
    node_bytes,
    ranked_nodes,
    scale_of,
    scale_words,
)

FIGURES = st.lists(
    st.one_of(st.just(float("nan")), st.floats(0, 1e6, allow_nan=False)), min_size=0, max_size=80
).map(lambda found: np.array(found, np.float64))


@given(FIGURES)
def test_more_is_never_colder_and_the_unknown_is_marked(figures: np.ndarray) -> None:
    found = heat_bytes(figures, scale_of(figures))
    known = np.isfinite(figures)
    assert (found[~known] == UNKNOWN).all()
    assert (found[known] <= TOP).all()
    order = np.argsort(figures[known], kind="stable")
    assert (np.diff(found[known][order].astype(int)) >= 0).all()


def test_one_frame_that_took_a_day_does_not_make_all_others_alike() -> None:
    figures = np.concatenate([np.linspace(60.0, 120.0, 200), [86_400.0]])
    scale = scale_of(figures)
    assert scale is not None
    assert scale.high < 121
    assert scale.above > 0
    assert scale.most == 86_400.0
    found = heat_bytes(figures, scale)
    assert found[0] == 0
    assert found[-1] == TOP
    assert len(np.unique(found)) > 100, "the other frames can still be told apart"


def test_frames_that_are_all_alike_but_one_show_that_one() -> None:
    figures = np.array([10.0] * 99 + [30.0])
    found = heat_bytes(figures, scale_of(figures))
    assert set(found[:99].tolist()) == {0}
    assert found[99] == TOP


def test_attempts_are_told_apart_however_rare_more_than_one_is() -> None:
    tries = np.array([1.0] * 500 + [2.0, 3.0, 4.0, 9.0])
    found = heat_bytes(tries, scale_of(tries, whole=True))
    assert len({int(found[0]), *found[500:503].tolist()}) == 4
    assert found[502] == found[503] == TOP


def test_scales_are_said_in_words() -> None:
    times = np.concatenate([np.linspace(60.0, 120.0, 200), [86_400.0], [np.nan]])
    low, high, note = scale_words(Mode.TIME, scale_of(times))
    assert low == "1 m 00 s"
    assert high.endswith("and more")
    assert "up to 1 d 0 h" in note
    assert scale_words(Mode.MEMORY, scale_of(np.array([1024.0, 2048.0])))[:2] == (
        "1.0 GiB",
        "2.0 GiB and more",
    )
    assert scale_words(Mode.COST, None)[2] == "no frame has a figure for cost yet"


def test_nodes_with_most_frames_have_colours_of_their_own_and_all_others_share_one() -> None:
    nodes = np.array([3] * 5 + [7] * 9 + [0] * 4 + [2] * 5 + [11], np.int64)
    ranked = ranked_nodes(nodes, 3)
    assert ranked == [(7, 9), (2, 5), (3, 5)]
    found = node_bytes(nodes, ranked)
    assert found.tolist() == [2] * 5 + [0] * 9 + [UNKNOWN] * 4 + [1] * 5 + [3]

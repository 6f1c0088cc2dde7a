"""Frames of units, addresses of selections, filters over columns, and node times: against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store.times import by_node
from client_gui.views.job_parts.frameset import FrameSet, spans
from client_gui.views.job_parts.nodetimes import node_times, ratio_said, ratio_words
from client_gui.views.job_parts.settingrows import HIDDEN, setting_rows
from client_gui.views.job_parts.unitfilter import UnitSource, fitting, partial_fields
from farm.model.frames import FrameRange
from farm.model.query import FRAMES, Context, Query
from farm.model.states import UnitState
from farm.protocol.rows import FrameRow
from farm.sdk.filters import FRAME_FIELDS

RANGES = st.sampled_from(["1-100", "1001-1100x3", "10-1", "-5-5", "1-10,50,30-28:-1", "7"])


@given(RANGES, st.data())
def test_the_address_of_a_selection_names_just_these_frames(text: str, data: st.DataObject) -> None:
    known = FrameRange.parse(text)
    frames = FrameSet.of(12, "beauty", text, len(known))
    assert frames.numbers is not None
    assert frames.numbers.tolist() == list(known)
    units = sorted(data.draw(st.sets(st.integers(0, len(known) - 1), min_size=1)))
    picked = frames.picked(np.array(units), np.full(len(known), UnitState.DONE, np.uint8))
    assert picked.states == frozenset({"done"})
    if len(units) == len(known):
        assert (picked.address, picked.units) == ("J12/beauty", ())
    else:
        assert picked.units == tuple(units)
        head, _, tail = picked.address.rpartition("/")
        assert head == "J12/beauty"
        assert list(FrameRange.parse(tail)) == [known.frame_at(unit) for unit in units]
    assert [frames.name(unit) for unit in units] == [str(known.frame_at(unit)) for unit in units]


def test_a_step_of_one_unit_is_called_by_its_name_and_one_that_cannot_be_read_by_places() -> None:
    single = FrameSet.of(3, "stitch", "", 1)
    assert single.name(0) == "stitch"
    assert single.picked(np.array([0]), None).address == "J3/stitch"
    odd = FrameSet.of(3, "beauty", "1-10 by moonlight", 10)
    assert odd.name(4) == "unit 4"
    assert odd.picked(np.array([4]), None).address == "J3/beauty"


@given(st.sets(st.integers(0, 60)))
def test_spans_hold_what_they_are_made_of(units: set[int]) -> None:
    found = spans(np.array(sorted(units), np.int64))
    assert [unit for first, last in found for unit in range(first, last + 1)] == sorted(units)


FILTERS = (
    "state:failed",
    "state:failed,running -node:rack-2",
    "time>30s tries>1",
    "time<20s or cost>0.001",
    "frame:1003-1009",
    "frame>1010 -state:done",
    "rack-1",
    "step:beau -frame:1001-1030x2",
    "node:/rack-[13]/ time:10s..40s",
    "tries:2",
)


@settings(deadline=None)
@given(st.sampled_from(FILTERS), st.integers(0, 2**32 - 1))
def test_a_filter_over_columns_says_what_the_command_line_says_row_by_row(text: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 40
    states = rng.integers(0, 7, count).astype(np.uint8)
    seconds = np.where(rng.random(count) < 0.4, np.nan, rng.integers(1, 60, count).astype(float))
    tries = rng.integers(0, 4, count)
    nodes = rng.integers(0, 4, count).astype(np.int64)
    costs = rng.integers(0, 3_000_000, count)

    def name_of(number: int) -> str:
        return f"rack-{number}" if number else ""

    source = UnitSource(
        FrameSet.of(1, "beauty", f"1001-{1000 + count}", count),
        states,
        seconds,
        costs.astype(float),
        tries.astype(float),
        nodes,
        name_of,
    )
    query = Query.parse(text, FRAMES)
    oracle = query.predicate(FRAME_FIELDS, Context())
    rows = [
        FrameRow(
            unit=unit,
            frame=1001 + unit,
            state=UnitState(int(states[unit])).word,
            attempts=int(tries[unit]),
            node=name_of(int(nodes[unit])),
            elapsed_s=None if np.isnan(seconds[unit]) else float(seconds[unit]),
            cost_nano=int(costs[unit]),
        )
        for unit in range(count)
    ]
    assert fitting(query, source).tolist() == [bool(oracle(("beauty", row))) for row in rows]
    assert not partial_fields(query)


def test_what_only_rows_have_fits_those_that_are_known_and_is_said_to() -> None:
    source = UnitSource(
        FrameSet.of(1, "beauty", "1-4", 4),
        np.zeros(4, np.uint8),
        np.full(4, np.nan),
        np.full(4, np.nan),
        np.full(4, np.nan),
        np.zeros(4, np.int64),
        str,
        {2: FrameRow(unit=2, frame=3, state="failed", failure="oom-ram", reason="no memory left")},
    )
    query = Query.parse("failure:oom-ram", FRAMES)
    assert fitting(query, source).tolist() == [False, False, True, False]
    assert partial_fields(query) == ("failure",)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_nodes_are_compared_as_by_node_compares_them(seed: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, kinds + 1, 60).astype(np.int64)
    seconds = np.where(rng.random(60) < 0.3, np.nan, rng.integers(1, 500, 60).astype(float))
    names = [f"rack-{number}" if number else "" for number in nodes]
    assert node_times(nodes, seconds, lambda number: f"rack-{number}", 10) == by_node(names, seconds)


def test_a_slow_node_is_found_among_a_million_frames() -> None:
    rng = np.random.default_rng(1)
    nodes = rng.integers(1, 30, 1_000_000).astype(np.int64)
    seconds = rng.normal(100, 5, 1_000_000) * np.where(nodes == 3, 1.8, 1.0)
    slowest = node_times(nodes, seconds, lambda number: f"rack-{number}", 3)[0]
    assert slowest.node == "rack-3"
    assert slowest.count == int((nodes == 3).sum())
    assert ratio_words(slowest.ratio) == "1.8× slower"
    assert ratio_said(slowest.ratio) == "1.8× slower than the others"
    assert (ratio_words(1.05), ratio_words(0.5), ratio_words(None)) == ("as the others", "2.0× faster", "")


def test_settings_show_every_field_and_hide_what_nobody_should_read() -> None:
    spec = {
        "overcrank_job": 1,
        "name": "shot",
        "token": "s3cr3t",
        "moon": "full",
        "steps": [
            {
                "name": "beauty",
                "renderer": "blender",
                "frames": "1-10",
                "resources": {"ram_mib": 32768, "gpus": 1},
                "env": {"OCIO": "/c.ocio", "RLM_LICENSE_TOKEN": "abc"},
                "params": {"scene": "/a.blend", "deep": {"a": 1}},
                "after": [{"job": "J7", "step": "sim", "frames": True, "offset": -1}],
                "tides": 2,
            }
        ],
    }
    rows = {(row.step, row.name): row for row in setting_rows(spec)}
    assert rows["", "token"].value == "hidden"
    assert rows["", "moon"].value == "full", "what this version does not know is shown"
    assert rows["", "priority"].value == "50"
    assert rows["", "priority"].default
    assert rows["beauty", "ram_mib"].value == "32 GiB"
    assert rows["beauty", "ram_mib"].key == "resources.ram_mib"
    assert rows["beauty", "ram_mib"].raw == "32768", "an editor begins with what the farm takes"
    assert rows["beauty", "RLM_LICENSE_TOKEN"].value == HIDDEN
    assert rows["beauty", "OCIO"].value == "/c.ocio"
    assert rows["beauty", "after"].value == "J7/sim frame by frame -1"
    assert rows["beauty", "scene"].key == "", "parameters cannot be set after submit"
    assert rows["beauty", "tides"].value == "2"
    assert "s3cr3t" not in str(rows)
    assert "abc" not in str(rows)

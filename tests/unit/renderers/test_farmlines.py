"""The notation of helper programs: both forms, and everything that is not it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.states import FailureClass
from farm.renderers.base import FrameFinished, FrameStarted, Problem, Progress
from farm.renderers.farmlines import farm_events, openjd_events


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ('FARM {"event": "start", "frame": -3}', [FrameStarted(-3)]),
        ('FARM {"event": "finish", "frame": 7, "seconds": 0.2}', [FrameFinished(7)]),
        ('FARM {"event": "progress", "frame": 7, "fraction": 0.25}', [Progress(7, 0.25)]),
        ('FARM {"event": "progress", "frame": 7, "fraction": 3}', [Progress(7, 1.0)]),
        (
            'FARM {"event": "problem", "failure": "path", "text": "gone", "frame": 2}',
            [Problem(FailureClass.PATH, "gone", fatal=True, frame=2)],
        ),
        (
            'FARM {"event": "problem", "failure": "oom-vram", "text": "x", "fatal": false}',
            [Problem(FailureClass.OOM_VRAM, "x")],
        ),
        ('FARM {"event": "warning", "text": "w"}', [Problem(FailureClass.RENDERER, "w", warning=True)]),
        ('FARM {"event": "hello", "blender": "9"}', []),
        ('FARM {"frame": 3, "of": 12}', [Progress(None, 0.25)]),
        ('FARM {"problem": "output", "text": "bad"}', [Problem(FailureClass.OUTPUT, "bad", fatal=True)]),
        (
            'FARM {"problem": "no such class"}',
            [Problem(FailureClass.RENDERER, "the renderer reported a problem", True)],
        ),
        ('FARM {"warning": "w"}', [Problem(FailureClass.RENDERER, "w", warning=True)]),
        ('Rendering [===   ]FARM {"event": "start", "frame": 1}', [FrameStarted(1)]),
        ('FARM {"frame": true, "of": 0}', []),
        ('FARM {"event": "progress", "fraction": NaN}', []),
    ],
)
def test_farm_lines(line: str, events: list[object]) -> None:
    assert farm_events(line) == events


@pytest.mark.parametrize(
    "line", ["", "FARM", "FARM {", "FARM {}x", "farm {}", "Saved: '/FARM {x}/a.png'", "FARM [1]"]
)
def test_what_only_looks_like_one_is_free_text(line: str) -> None:
    assert farm_events(line) is None


@given(st.text(max_size=80) | st.builds("FARM {}".format, st.text(max_size=40)))
def test_no_text_breaks_the_reader(line: str) -> None:
    farm_events(line)
    openjd_events(line, None)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    ["event", "frame", "of", "fraction", "failure", "text", "fatal", "problem", "warning"]
)


@given(st.dictionaries(_KEYS, _JSON | st.sampled_from(["start", "progress", "problem"]), max_size=6))
def test_no_json_breaks_the_reader_and_fractions_stay_in_range(data: dict[str, object]) -> None:
    for event in farm_events("FARM " + json.dumps(data)) or []:
        if isinstance(event, Progress):
            assert 0.0 <= event.fraction <= 1.0


def test_open_job_description_words() -> None:
    assert openjd_events("openjd_progress: 42", 5) == [Progress(5, 0.42)]
    assert openjd_events("openjd_progress: lots", 5) == []
    assert openjd_events("openjd_status: warming up", 5) == []
    assert openjd_events("openjd_fail: no licence", 5) == [
        Problem(FailureClass.RENDERER, "no licence", fatal=True, frame=5)
    ]
    assert openjd_events("progress: 42", 5) is None

"""Frame times, expected ends in words, undo, and the ring of notices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.store import times
from client_gui.store.activity import Activity, Level
from client_gui.store.eta import UNKNOWN, eta_text, left_text
from client_gui.store.undo import FINAL, OFFERED_US, Act, UndoStack, inverse_of
from farm.model.roles import ACTIONS

NAN = float("nan")
SECONDS = st.lists(st.floats(0, 1e6) | st.just(NAN), max_size=60)

# -- frame times --------------------------------------------------------------------------------------


def test_statistics() -> None:
    found = times.statistics([4.0, NAN, 1.0, 2.0, 3.0, 100.0, -1.0])
    assert found is not None
    assert (found.count, found.total_s, found.mean_s, found.median_s) == (5, 110.0, 22.0, 3.0)
    assert (found.least_s, found.most_s) == (1.0, 100.0)
    assert found.p95_s == pytest.approx(80.8)
    assert times.statistics([NAN]) is None
    assert times.statistics([]) is None


@given(SECONDS, st.integers(1, 30))
def test_every_known_frame_is_in_one_bin(seconds: list[float], bins: int) -> None:
    found = times.histogram(seconds, bins)
    known = [one for one in seconds if one == one]
    assert int(found.counts.sum()) == len(known)
    assert (len(found.edges_s), len(found.counts)) == (bins + 1, bins)
    if known:
        assert found.edges_s[0] == min(known)
        assert (np.diff(found.edges_s) > 0).all()
        assert median(known) <= found.edges_s[-1]


def test_one_frame_of_a_day_does_not_hide_the_others() -> None:
    found = times.histogram([*np.linspace(10, 20, 99), 86_400.0], 10)
    assert found.edges_s[-1] < 100
    assert found.counts[-1] == 1


@given(SECONDS, st.integers(0, 20))
def test_a_sparkline_keeps_what_stands_out(seconds: list[float], points: int) -> None:
    found = times.sparkline(seconds, points)
    assert len(found) == min(points, len(seconds))
    known = [one for one in seconds if one == one]
    if points and known:
        assert np.nanmax(found) == max(known)
    if points and not known:
        assert np.isnan(found).all()
    if len(seconds) > points > 0:
        bounds = [place * len(seconds) // points for place in range(points + 1)]
        for place in range(points):
            part = [one for one in seconds[bounds[place] : bounds[place + 1]] if one == one]
            assert (found[place] == max(part)) if part else np.isnan(found[place])


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN]), max_size=12), st.integers(0, 5))
def test_the_slowest_frames_come_first(seconds: list[float], count: int) -> None:
    frames = list(range(1001, 1001 + len(seconds)))
    pairs = [(frame, one) for frame, one in zip(frames, seconds, strict=True) if one == one]
    assert (
        times.slowest(frames, seconds, count) == sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]
    )


def test_nodes_are_compared_with_the_others() -> None:
    nodes = ["slow"] * 4 + ["quick"] * 6 + ["new"] + [""]
    found = times.by_node(nodes, [20.0] * 4 + [10.0] * 6 + [12.0, 99.0])
    assert [(one.node, one.count, one.median_s) for one in found] == [
        ("slow", 4, 20.0),
        ("new", 1, 12.0),
        ("quick", 6, 10.0),
    ]
    assert found[0].ratio == 2.0
    assert found[1].ratio is None, "one frame says nothing about a node"
    assert times.outliers([10.0, 10.0, 10.0, 31.0, NAN]).tolist() == [False, False, False, True, False]
    assert times.outliers([10.0, 10.0, 10.0, 30.0, NAN]).tolist() == [False] * 5
    # Nine medians of a moment are still a moment.
    assert not times.outliers([0.055] * 5 + [0.48]).any()
    assert times.outliers([0.055] * 5 + [5.1]).tolist() == [False] * 5 + [True]
    assert times.outliers([NAN]).tolist() == [False]


# -- expected ends ------------------------------------------------------------------------------------

NOW = datetime(2030, 3, 13, 14, 2, 31, tzinfo=UTC)  # a Wednesday


def us(moment: datetime) -> int:
    return int(moment.timestamp() * 1e6)


def at(hours: int, minutes: int = 0, days: int = 0) -> int:
    return us(NOW.replace(hour=hours, minute=minutes, second=0) + timedelta(days=days))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (None, at(15), UNKNOWN),
        (at(14, 20), at(14, 45), "14:20–14:45"),
        (at(14, 45), at(14, 20), "14:20–14:45"),
        (at(14, 20), at(14, 20), "14:20"),
        (at(13), at(14, 45), "by 14:45"),
        (at(14, 2), at(14, 3), "any minute"),
        (at(12), at(13), "any minute"),
        (at(2, 10, 1), at(6, 0, 1), "tomorrow 02:10–06:00"),
        (at(23, 0), at(4, 0, 1), "23:00 – tomorrow 04:00"),
        (at(22, 0, 2), at(4, 0, 3), "Fri 22:00 – Sat 04:00"),
        (at(22, 0, 20), at(23, 0, 20), "2 Apr 22:00–23:00"),
        (at(15), at(15, 0, 400), "more than a year"),
        (at(15), 2**62, "more than a year"),
    ],
)
def test_when_it_will_be_done(low: int | None, high: int | None, text: str) -> None:
    assert eta_text(low, high, us(NOW)) == text


def test_it_is_said_in_the_readers_time() -> None:
    zone = timezone(timedelta(hours=10))
    assert eta_text(at(14, 20), at(14, 45), us(NOW), zone) == "00:20–00:45"
    assert eta_text(at(13, 0), at(14, 45), us(NOW.replace(hour=13, minute=30)), zone) == "by tomorrow 00:45"


@pytest.mark.parametrize(
    ("low_min", "high_min", "text"),
    [
        (25, 50, "25–50 min"),
        (40, 180, "40 min – 3 h"),
        (120, 180, "2–3 h"),
        (120, 125, "2 h"),
        (0, 30, "up to 30 min"),
        (-5, 0, "any minute"),
        (3000, 9000, "2–6 days"),
    ],
)
def test_how_long_it_will_take(low_min: int, high_min: int, text: str) -> None:
    now_us = us(NOW)
    assert left_text(now_us + low_min * 60_000_000, now_us + high_min * 60_000_000, now_us) == text
    assert left_text(None, None, now_us) == UNKNOWN


# -- undo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "before", "inverse"),
    [
        (Act("pause", "J12"), "running", Act("resume", "J12")),
        (Act("pause", "J12"), "paused", None),
        (Act("resume", "J12"), "paused", Act("pause", "J12")),
        (Act("resume", "J12"), "running", None),
        (Act("priority", "J12", "70"), "50", Act("priority", "J12", "50")),
        (Act("priority", "J12", "50"), "50", None),
        (Act("skip", "J12/beauty/17"), "queued", Act("retry", "J12/beauty/17")),
        (Act("skip", "J12/beauty/17"), "failed", None),
        (Act("node-drain", "3"), "enabled", Act("node-enable", "3")),
        (Act("node-enable", "3"), "disabled", Act("node-disable", "3")),
        (Act("node-enable", "3"), "enabled", None),
        (Act("cancel", "J12"), "running", None),
        (Act("delete", "J12"), "done", None),
    ],
)
def test_what_takes_an_action_back(act: Act, before: str, inverse: Act | None) -> None:
    assert inverse_of(act, before) == inverse


READING = {
    "status", "jobs", "job", "frames", "log", "preview", "why", "nodes", "gpus", "policy", "estimate",
    "spend",
}  # fmt: skip
#: Acted on in other places, where nothing is offered to be taken back.
ELSEWHERE = {
    "submit", "policy-set", "keys-list", "keys-invite", "keys-revoke", "record", "shutdown",
    "node-update-stop",
}  # fmt: skip
BEFORE = {"priority": "1", "set": "1", "skip": "queued", "node-enable": "drained", "node-set": "1"}
BEFORE |= {"next": '{"rank": "0"}', "last": '{"rank": "0"}', "requeue": "J1/beauty/4-5"}


def test_every_action_that_changes_something_has_an_inverse_or_says_why_not() -> None:
    for name in set(ACTIONS) - READING - ELSEWHERE:
        found = inverse_of(Act(name, "J1", "2"), BEFORE.get(name, ""))
        assert (found is None) == (name in FINAL), name
        assert found is None or found.action in ACTIONS


def test_undo_is_offered_for_a_while_and_taken_once() -> None:
    stack = UndoStack()
    done = [(Act("priority", "J1", "9"), "5"), (Act("priority", "J2", "9"), "6"), (Act("delete", "J3"), "")]
    undo = stack.push("Set the priority of 2 jobs", done, 1000)
    assert undo is not None
    assert undo.acts == (Act("priority", "J2", "6"), Act("priority", "J1", "5")), (
        "the last is taken back first"
    )
    assert stack.push("Deleted J3", [(Act("delete", "J3"), "")], 1000) is None
    later = stack.push("Paused J4", [(Act("pause", "J4"), "running")], 2000)
    assert later is not None
    assert stack.left_us(3000) == OFFERED_US - 1000
    assert stack.take(3000, undo.number) == undo
    assert stack.take(3000, undo.number) is None
    assert stack.take(3000) == later
    assert stack.take(3000) is None
    stack.push("Paused J5", [(Act("pause", "J5"), "running")], 0)
    assert stack.offered(OFFERED_US) == ()
    assert stack.left_us(OFFERED_US) == 0


# -- activity -----------------------------------------------------------------------------------------


def test_notices_are_kept_and_found() -> None:
    activity = Activity(most=3)
    activity.add(Level.INFO, "J1 is done", 1, about="J1")
    for moment in (2, 3, 4):
        activity.add(Level.ERROR, "J2/beauty/7 failed", moment, hint="look at its log", about="J2/beauty/7")
    assert len(activity) == 2
    last = list(activity)[-1]
    assert (last.times, last.at_us, last.number) == (3, 4, 2)
    assert activity.unseen == 3
    activity.seen()
    activity.add(Level.DONE, "Paused J2", 5, about="J2", undo=7)
    activity.add(Level.DONE, "Paused J2", 6, about="J2", undo=8)
    assert [notice.undo for notice in activity] == [0, 7, 8], "what can be undone is told each time"
    assert activity.unseen == 0
    assert [notice.at_us for notice in activity.find(about="J2")] == [6, 5, 4]
    assert [notice.at_us for notice in activity.find("LOG")] == [4]
    assert activity.find("j1", about="J2") == []
    assert [notice.at_us for notice in activity.find(levels=frozenset({Level.ERROR}))] == [4]

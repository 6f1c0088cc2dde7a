"""Points of the farm: what they say, how coarse they get, and that the loop is never held up for them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.broker.series import LEVELS, OTHERS, PIECE, PROJECTS, PROJECTS_TOLD, Point, Series, merged
from farm.core.rows import AnyRow
from tests.support.core_rig import RATE, Rig, step

S = 1_000_000


class Watched(Rig):
    """A farm whose series is ticked and told of what is stored, as the loop does."""

    def __init__(self) -> None:
        super().__init__()
        self.series = Series(self.core.farm, lambda: 0.0)
        self.stored: list[AnyRow] = []

    def seconds(self, count: float) -> None:
        """Time passes in ticks of a second."""
        for _ in range(int(count)):
            self.now_us += S
            self.series.tick(self.now_us)

    def work(self, good: bool = True) -> None:
        """A frame is rendered, or not."""
        lease = self.lease()
        self.done(lease) if good else self.fail(lease, "renderer")
        self.series.committed(self.out.rows)


def test_a_point_says_what_the_farm_does() -> None:
    rig = Watched()
    rig.join("ant", 4)
    rig.join("bee", 8)
    rig.bye(rig.join("cat", 16))
    rig.submit(step("beauty", "1-9"), project="dune")
    rig.submit(step("depth", "1-3"), project="ice")
    rig.dispatch()
    rig.seconds(1)
    (point,) = rig.series.points()
    assert (point.nodes, point.cores, point.cores_used) == (2, 12, 12)
    assert (point.queued, point.running) == (0, 12)
    assert point.burn_nano_h == 2 * RATE
    assert point.projects == {"dune": 9.0, "ice": 3.0}
    assert (point.gpus, point.gpus_used) == (0, 0)


def test_rates_are_of_the_time_since_the_point_before() -> None:
    rig = Watched()
    rig.join("ant", 1)
    rig.submit(step("beauty", "1-9", attempts=9))
    rig.seconds(1)
    for good in (True, False, True):
        rig.work(good)
        rig.wait(300, 1)
    rig.series.tick(rig.now_us)
    first, second = rig.series.points()
    assert (first.done_s, first.failed_s) == (0.0, 0.0)
    since_s = (second.at_us - first.at_us) / S
    assert since_s == 900
    assert second.done_s == pytest.approx(2 / since_s)
    assert second.failed_s == pytest.approx(1 / since_s)


def test_a_point_is_due_every_ten_seconds_however_often_it_is_asked_for() -> None:
    rig = Watched()
    rig.seconds(65)
    assert [point.at_us // S % 10 for point in rig.series.points()][1:] == [0] * 6
    assert len(rig.series.points()) == 7


def test_a_large_farm_is_sampled_a_slice_at_a_time() -> None:
    spent = iter(range(10_000))
    rig = Watched()
    rig.series = Series(rig.core.farm, lambda: float(next(spent)))
    for number in range(3 * PIECE):
        rig.join(f"n{number}", 1)
    rig.series.tick(rig.now_us)
    assert rig.series.points() == [], "the slice was over"
    begun_us = rig.now_us
    for _ in range(20):
        rig.now_us += S // 4
        rig.series.tick(rig.now_us)
    (point,) = rig.series.points()
    assert (point.at_us, point.nodes) == (begun_us, 3 * PIECE)


def filled(days: float) -> Series:
    """A series of so many days; ``queued`` counts the points, and so many cores are in use."""
    series = Series(Rig().core.farm)
    for number in range(int(days * 86_400 / 10)):
        series._add(Point(number * 10 * S, queued=number, cores_used=5.0, projects={"dune": 5.0}))
    return series


def test_what_is_long_ago_is_coarser_and_nothing_grows_for_ever() -> None:
    series = filled(40)
    points = series.points()
    assert len(points) <= sum(most for _, most in LEVELS)
    times = [point.at_us for point in points]
    assert times == sorted(set(times))
    gaps = [(later - earlier) // S for earlier, later in itertools.pairwise(times)]
    assert gaps[-1] == 10
    assert gaps[0] == 600
    assert {10, 60, 600} <= set(gaps)
    assert max(gaps) <= 600 + 60
    assert (times[-1] - times[0]) / S > 29 * 86_400
    assert {point.cores_used for point in points} == {5.0}
    assert {tuple(point.projects.items()) for point in points} == {(("dune", 5.0),)}


@given(st.integers(0, 3 * 86_400))
def test_only_what_is_newer_is_told(since_s: int) -> None:
    points = SERIES.points(since_s * S)
    assert points == [point for point in SERIES.points() if point.at_us > since_s * S]


SERIES = filled(2)


def test_a_mean_is_a_mean() -> None:
    points = [Point(10, queued=4, projects={"a": 2.0}), Point(20, queued=8, projects={"b": 4.0})]
    assert merged(points) == Point(20, queued=6, projects={"a": 1.0, "b": 2.0})


def many(count: int) -> dict[str, float]:
    return {f"p{number:02d}": float(number) for number in range(count)}


def test_small_projects_are_added_up() -> None:
    point = merged([Point(1, projects=many(PROJECTS + 5))])
    assert len(point.projects) == PROJECTS + 1
    assert sum(point.projects.values()) == sum(many(PROJECTS + 5).values())
    assert point.projects[OTHERS] == 0 + 1 + 2 + 3 + 4


def test_a_reply_names_the_largest_projects_and_adds_up_the_rest() -> None:
    series = Series(Rig().core.farm)
    for at in range(1, 4):
        series._add(Point(at, cores_used=10.0, projects={f"q{at}{n}": float(n + 1) for n in range(6)}))
    reply = series.reply(7, 0, 99)
    assert (reply.id, reply.now_us, reply.at_us) == (7, 99, (1, 2, 3))
    assert len(reply.projects) == PROJECTS_TOLD + 1
    for at in range(3):
        assert sum(column[at] for column in reply.projects.values()) == 21.0
    columns = [
        getattr(reply, name) for name in reply.__struct_fields__ if name not in ("id", "now_us", "projects")
    ]
    assert {len(column) for column in columns} == {3}


def test_of_nothing_there_is_nothing() -> None:
    reply = Series(Rig().core.farm).reply(1, 0, 5)
    assert (reply.at_us, reply.cores, reply.projects) == ((), (), {})

"""The broker's time follows the wall clock, and a second of it stays nearly a second whatever is set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.broker.clock import SLEW, SteadyClock
from farm.core import meter
from tests.support.core_rig import Rig, step

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
setting = pytest.mark.allow_log("clock-set")


class Clocks:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.wall_us = START_US
        self.elapsed_us = 5_000
        self.clock = SteadyClock(lambda: self.wall_us, lambda: self.elapsed_us)

    def go(self, us: int) -> int:
        self.wall_us += us
        self.elapsed_us += us
        return self.clock.now_us()

    def seconds_until_agreed(self, most_s: int) -> int:
        """Lets time pass by seconds until the clock is the wall clock again."""
        for second in range(1, most_s + 1):
            if self.go(SECOND_US) == self.wall_us:
                return second
        raise AssertionError(f"{self.clock.now_us() - self.wall_us} us apart after {most_s} s")


def test_it_is_the_wall_clock_s_time_while_nobody_sets_that() -> None:
    clocks = Clocks()
    assert clocks.clock.now_us() == START_US
    for _ in range(1_000):
        assert clocks.go(250_001) == clocks.wall_us
    # A machine that slept: both clocks went on.
    assert clocks.go(9 * HOUR_US) == clocks.wall_us
    assert clocks.clock.alerts() == []


@setting
@pytest.mark.parametrize("way", [1, -1])
def test_a_clock_that_was_set_is_followed_at_a_bounded_rate(way: int) -> None:
    clocks = Clocks()
    before_us = clocks.go(SECOND_US)
    clocks.wall_us += way * HOUR_US
    for second in range(1, 61):
        assert clocks.go(SECOND_US) == before_us + int(second * SECOND_US * (1 + way * SLEW))
    (alert,) = clocks.clock.alerts()
    assert ("behind" if way > 0 else "ahead of") in alert
    assert "they agree in 20.0 h" in alert
    # ... until they agree, and then it is the time again.
    assert clocks.seconds_until_agreed(int(3_600 / SLEW)) > 3_500 / SLEW
    assert clocks.clock.alerts() == []


@setting
def test_a_mistaken_hour_that_is_set_right_has_done_next_to_nothing() -> None:
    clocks = Clocks()
    clocks.wall_us += HOUR_US
    clocks.go(250_000)
    clocks.wall_us -= HOUR_US
    assert clocks.clock.now_us() - clocks.wall_us == int(250_000 * SLEW)
    assert clocks.seconds_until_agreed(1) == 1
    # Noticed after ten minutes: time is half a minute ahead, and right again ten minutes later.
    clocks.wall_us += HOUR_US
    for _ in range(600):
        clocks.go(SECOND_US)
    clocks.wall_us -= HOUR_US
    assert clocks.clock.now_us() - clocks.wall_us == 600 * SECOND_US * SLEW
    assert clocks.seconds_until_agreed(600) == 600


@setting
@pytest.mark.parametrize("step_s", [120, 3_600, 30 * 86_400])
def test_no_node_is_lost_or_charged_for_a_step_of_the_clock(step_s: int) -> None:
    rig = Rig()
    clocks = Clocks()
    clocks.wall_us = rig.now_us
    clocks.clock = SteadyClock(lambda: clocks.wall_us, lambda: clocks.elapsed_us)
    nodes = (rig.join("n", 4), rig.join("m", 4))
    rig.submit(step("a", "1-8"))
    rig.dispatch()
    assert rig.states("J1/a") == "RRRRRRRR"
    before_us = rig.now_us
    clocks.wall_us += step_s * SECOND_US
    for second in range(40):  # heartbeats every two seconds
        rig.now_us = clocks.go(SECOND_US)
        rig.wait(0, *(nodes if second % 2 else ()))
        assert {rig.node(node).state.value for node in nodes} == {"online"}
    assert rig.states("J1/a") == "RRRRRRRR"
    for number in nodes:
        node = rig.node(number)
        charged_us = meter.projected(node, rig.now_us)[0] * HOUR_US / node.meter_rate
        assert charged_us == pytest.approx(rig.now_us - before_us, rel=0.01)
        assert charged_us <= 40 * SECOND_US * (1 + SLEW) * 1.01


def test_looks_of_less_than_a_microsecond_lose_nothing() -> None:
    clocks = Clocks()
    clocks.wall_us -= 100
    before_us = clocks.clock.now_us()
    for _ in range(1_000):
        now_us = clocks.go(1)
    assert now_us - before_us == 950


@setting
@given(st.lists(st.tuples(st.integers(-HOUR_US, HOUR_US), st.integers(0, HOUR_US)), max_size=50))
def test_a_span_of_it_is_real_time_within_the_bound(steps: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    last_us = clocks.clock.now_us()
    for jump_us, went_us in steps:
        clocks.wall_us = max(0, clocks.wall_us + jump_us)
        apart_us = abs(clocks.wall_us - last_us)
        now_us = clocks.go(went_us)
        assert int(went_us * (1 - SLEW)) - 1 <= now_us - last_us <= int(went_us * (1 + SLEW)) + 1
        # ... and it comes nearer, by all it may.
        assert abs(clocks.wall_us - now_us) <= max(0, apart_us - int(went_us * SLEW)) + 1
        last_us = now_us

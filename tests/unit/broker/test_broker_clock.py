"""The broker's time follows the wall clock forwards, and neither goes back nor stands still."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.broker.clock import SLEW, SteadyClock

START_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000


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


def test_it_is_the_wall_clock_s_time_and_follows_it_forwards() -> None:
    clocks = Clocks()
    assert clocks.clock.now_us() == START_US
    assert clocks.go(250_000) == START_US + 250_000
    clocks.wall_us += HOUR_US
    assert clocks.go(1) == clocks.wall_us


def test_a_clock_set_back_slows_time_and_does_not_stop_it() -> None:
    clocks = Clocks()
    before_us = clocks.go(1_000_000)
    clocks.wall_us -= HOUR_US
    for second in range(1, 61):
        now_us = clocks.go(1_000_000)
        assert now_us == before_us + int(second * 1_000_000 * (1 - SLEW))
    # ... until the wall clock has caught up, and then it is the time again.
    for _ in range(int(1.1 / SLEW)):
        now_us = clocks.go(HOUR_US)
    assert now_us == clocks.wall_us


def test_looks_of_less_than_a_microsecond_lose_nothing() -> None:
    clocks = Clocks()
    before_us = clocks.clock.now_us()
    clocks.wall_us -= HOUR_US
    for _ in range(1_000):
        now_us = clocks.go(1)
    assert now_us - before_us in (949, 950)


@given(st.lists(st.tuples(st.integers(-HOUR_US, HOUR_US), st.integers(0, HOUR_US)), max_size=50))
def test_it_never_goes_back_and_never_stands_still(steps: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    last_us = clocks.clock.now_us()
    for jump_us, went_us in steps:
        clocks.wall_us = max(0, clocks.wall_us + jump_us)
        now_us = clocks.go(went_us)
        assert now_us >= clocks.wall_us
        assert now_us - last_us >= int(went_us * (1 - SLEW)) - 1
        last_us = now_us

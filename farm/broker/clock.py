"""The broker's time: it follows the wall clock, but never much faster or slower than real time.

What belongs here: one clock made of two.  What may not: what happens at which time.

Leases, suspicion, hours, time-outs and money all hang on this time, so a second of it must be nearly a
second.  A wall clock that is set back must not freeze them until it has caught up; one that is set forward
must not make nodes lost that were never silent, nor charge them for time that never was.  So a wall clock
that was set is followed at a bounded rate, in both directions: a mistaken hour that is set right again soon
has moved this time by the share of the time in between, and no more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from farm.config.options import CLOCK_SLEW

log = logging.getLogger("overcrank.broker")

#: While this time and the wall clock differ, time goes slower or faster by this share until they agree.  It
#: bounds what a lease may lose: of 60 s of silence 57 s are left, and an agent gives up its files after 45.
SLEW = CLOCK_SLEW
#: A wall clock that moves by more than this between two looks was set, and the log says so.
SET_US = 1_000_000
#: A difference people are told of.
ALERT_US = 60_000_000

_PARTS = round(1 / SLEW)


def _wall_us() -> int:
    return time.time_ns() // 1000


def _elapsed_us() -> int:
    """Microseconds that only grow, those of a suspended machine too where the system counts them."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.clock_gettime_ns(boottime) if boottime is not None else time.monotonic_ns()) // 1000


class SteadyClock:
    """Microseconds since the epoch that begin at the wall clock and are slewed towards it ever after.

    Args:
        wall_us: The wall clock.
        elapsed_us: A clock that nobody can set.
    """

    def __init__(
        self, wall_us: Callable[[], int] = _wall_us, elapsed_us: Callable[[], int] = _elapsed_us
    ) -> None:
        self._wall_us = wall_us
        self._elapsed_us = elapsed_us
        self._last_us = wall_us()
        self._seen_us = elapsed_us()
        #: Time that went by and was too short to move anything by its share.
        self._rest_us = 0
        #: How far the wall clock is ahead; negative: behind.
        self._apart_us = 0

    def now_us(self) -> int:
        """The time."""
        seen_us = self._elapsed_us()
        went_us = max(0, seen_us - self._seen_us)
        self._seen_us = seen_us
        due_us = self._last_us + went_us
        apart_us = self._wall_us() - due_us
        if abs(apart_us - self._apart_us) > SET_US:
            log.warning(
                "clock-set by_s=%.1f apart_s=%.1f slew=%g",
                (apart_us - self._apart_us) / 1e6,
                apart_us / 1e6,
                SLEW,
            )
        most_us, self._rest_us = divmod(went_us + self._rest_us, _PARTS)
        step_us = min(most_us, apart_us) if apart_us >= 0 else -min(most_us, -apart_us)
        self._apart_us = apart_us - step_us
        self._last_us = due_us + step_us
        return self._last_us

    def alerts(self) -> list[str]:
        """What administrators should know: that this time and the wall clock are far apart."""
        apart_s = abs(self._apart_us) / 1e6
        if apart_s * 1e6 < ALERT_US:
            return []
        way = "behind" if self._apart_us > 0 else "ahead of"
        return [
            f"the farm's time is {apart_s:.0f} s {way} the broker's machine, whose clock was set: they agree "
            f"in {apart_s / SLEW / 3600:.1f} h, or at once after a restart of the broker"
        ]

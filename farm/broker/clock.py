"""The broker's time: what the wall clock says, but it never goes back and never stands still.

What belongs here: one clock made of two.  What may not: what happens at which time.

Leases, suspicion, hours and time-outs all hang on this time.  A wall clock that is set back must not freeze
them until it has caught up, and must not undo what was decided by the later time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: While the wall clock lies behind, time goes slower by this share, until the clock has caught up.  Slower
#: is the safe side: an agent gives up its leases by its own clock, before the broker gives them to another.
SLEW = 0.05


def _wall_us() -> int:
    return time.time_ns() // 1000


def _elapsed_us() -> int:
    """Microseconds that only grow, those of a suspended machine too where the system counts them."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.clock_gettime_ns(boottime) if boottime is not None else time.monotonic_ns()) // 1000


class SteadyClock:
    """Microseconds since the epoch that follow the wall clock forwards and are slewed when it was set back.

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
        #: Parts of a microsecond that a slewed clock still owes.
        self._owed = 0.0

    def now_us(self) -> int:
        """The time."""
        seen_us = self._elapsed_us()
        went_us = max(0, seen_us - self._seen_us)
        self._seen_us = seen_us
        wall_us = self._wall_us()
        if wall_us >= self._last_us + went_us:
            self._last_us, self._owed = wall_us, 0.0
            return wall_us
        # The wall clock lies behind: it was set back, or is being slewed itself.
        due = went_us * (1 - SLEW) + self._owed
        whole_us = int(due)
        self._owed = due - whole_us
        self._last_us = max(self._last_us + whole_us, wall_us)
        return self._last_us

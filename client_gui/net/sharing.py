"""How the threads of this program share Python's one lock.

What belongs here: the one setting there is.  What may not: what the threads do.

Only one thread runs Python at a time, and one that wants to waits until the one that does gives way: after
5 ms, unless told otherwise.  Nearly every call into Qt hands the lock over, so that a window that is painted
while the sockets' thread reads or a worker counts lines would wait for that many times in one painting.
"""

from __future__ import annotations

import sys
from typing import Final

#: After so long a thread gives way to another that wants to run.
GIVE_WAY_S: Final = 0.0005


def share_the_lock() -> None:
    """Has threads give way soon, so that the window's never waits for long."""
    sys.setswitchinterval(GIVE_WAY_S)

"""Showing something again and again while it changes, for ``--watch``.

On a terminal the screen is repainted at most five times a second; in a pipe every change is printed after
the one before; with ``--json`` each change is a document on one line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from farm.cli.console import Console
from farm.sdk.client import Farm
from farm.sdk.mirror import Mirror

#: Shortest time between two repaints.
_REPAINT_S = 0.2


def watch(
    console: Console,
    farm: Farm,
    topics: tuple[str, ...],
    show: Callable[[Mirror], None],
    shape: Callable[[Mirror], Any],
    *,
    ended: Callable[[Mirror], bool] = lambda mirror: False,
    idle_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Shows a view of what is followed until it has ended, or Ctrl-C.

    Args:
        console: Where to.
        farm: The farm.
        topics: What to follow.
        show: Prints the view for people.
        shape: The view for JSON.
        ended: Whether there is nothing more to come.
        idle_s: Repaint after so many seconds without news (times and progress move on).
        clock: Seconds that only grow.
    """
    last: Any = None
    painted_s = float("-inf")
    for mirror in farm.subscribe(*topics, idle_s=idle_s):
        end = not mirror.trouble and ended(mirror)
        now_s = clock()
        # A change that comes too soon after the last paint is shown by the next message or idle turn.
        if console.is_terminal and not end and now_s - painted_s < _REPAINT_S:
            continue
        painted_s = now_s
        shown = ("trouble", mirror.trouble) if mirror.trouble else shape(mirror)
        if shown == last and not console.is_terminal:
            if end:
                return
            continue
        again, last = last is not None, shown
        if mirror.trouble and not console.is_terminal:
            console.note(f"farm: {mirror.trouble}")
        elif console.json:
            console.document(shown, one_line=True)
        else:
            if again and not console.is_terminal:
                console.line()
            console.clear()
            show(mirror)
            if mirror.trouble:
                console.line(f"({mirror.trouble})")
        console.flush()
        if end:
            return

"""Waiting in tests: for a condition with a deadline, never for a time.

What belongs here: the one polling loop of the integration tests.  What it may not know: farms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: How long anything may take on a loaded machine before a test gives up.
PATIENCE_S = 30.0
_POLL_S = 0.01


def eventually(
    condition: Callable[[], T], what: str | Callable[[], str], patience_s: float = PATIENCE_S
) -> T:
    """Polls until the condition is true; returns what it gave.

    Args:
        condition: Asked again and again; cheap.
        what: What is waited for, for the failure; a callable is asked only then.
        patience_s: Deadline.
    """
    deadline_s = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {patience_s:g} s for: {text}")
        time.sleep(_POLL_S)
    return value


def throughout(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Watches that a condition holds during a span: for what must *not* happen.

    The span is part of the promise under test (a fence that must stay shut for longer than a broken one
    would take), not a guess about how long something takes.
    """
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        assert condition(), what
        time.sleep(_POLL_S)
    assert condition(), what

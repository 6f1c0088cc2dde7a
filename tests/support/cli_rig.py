"""Calling ``farm`` as a shell does, without a process: arguments in; exit code, output and errors out.

What belongs here: what a call gives (the fixtures that call are in tests/unit/cli/conftest.py).  What it may
not know: which verbs there are, nor what answers them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Result(NamedTuple):
    """What a call left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, which must be one document."""
        return json.loads(self.out)


Run = Callable[..., Result]

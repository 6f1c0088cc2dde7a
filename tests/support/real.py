"""Tests that need something real of this machine: a renderer, a mount, a device.

What belongs here: the one place that decides between skipping and failing.  Where the real things are
required (``OVERCRANK_REQUIRE_REAL=1``, as in CI), their absence is a failure; elsewhere the test is skipped
and says what to install.
"""

from __future__ import annotations

import os

import pytest


def require(found: object, what: str, cure: str = "") -> None:
    """Skips the running test unless ``found``, or fails it where real things are required.

    Args:
        found: Whether the thing is there.
        what: What the test needs, in words.
        cure: How to get it.
    """
    if found:
        return
    message = f"needs {what}" + (f"; {cure}" if cure else "")
    if os.environ.get("OVERCRANK_REQUIRE_REAL") == "1":
        pytest.fail(message)
    pytest.skip(message)

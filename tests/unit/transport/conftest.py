"""A broker with real sockets and whatever a test opens on it, which must all be gone afterwards.

What belongs here: fixtures that several tests of the transport share.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.curve import Farm, nothing_left, running_farm


@pytest.fixture
def farm() -> Iterator[Farm]:
    with nothing_left(), running_farm() as running:
        yield running

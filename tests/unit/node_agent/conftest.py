"""A supervisor for a test, which leaves no process behind.

What belongs here: fixtures that several tests of the agent share.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from node_agent.supervisor import find_leftovers
from tests.support.farmhand import Farmhand


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Farmhand]:
    made = Farmhand(tmp_path)
    yield made
    made.close()
    assert find_leftovers(made.supervisor.agent_id) == []

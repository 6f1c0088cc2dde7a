"""What the farm says would help, read as actions: only what is exactly one action becomes a button."""

from __future__ import annotations

import pytest

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.cures import Cure, read_cure
from client_gui.store.farmstore import FarmStore
from farm.protocol.client import SnapshotMsg
from tests.support.client_rows import job_row, node_row


@pytest.fixture
def store() -> FarmStore:
    found = FarmStore()
    rows = (job_row(12), job_row(4))
    found.snapshot(SnapshotMsg(id=1, n=1, jobs=rows, nodes=(node_row(7),)))
    return found


def test_commands_that_are_one_action(store: FarmStore) -> None:
    jobs = ActionContext("jobs", (12,))
    assert read_cure("farm resume J12", store) == Cure("resume", jobs, "J12")
    assert read_cure("farm resume J12 (at once)", store) == Cure("resume", jobs, "J12")
    assert read_cure("farm priority J12 71", store) == Cure("priority", jobs, "J12", "71")
    assert read_cure("farm priority J12 N", store) == Cure("priority", jobs, "J12", "")
    frames = UnitsOf(12, "beauty", (16, 17, 18, 19), "17-20", frozenset({"failed"}))
    retry = Cure("retry", ActionContext("frames", (12,), (frames,)), "J12/beauty/17-20")
    assert read_cure("farm retry J12/beauty/17-20", store) == retry
    assert read_cure("farm node enable rack-007", store) == Cure(
        "node-enable", ActionContext("nodes", nodes=(7,)), "rack-007"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "start its agent",
        "farm agent",
        "farm set J12/beauty ram=32GiB",
        "a wrangler: farm policy set limits.nuke.total=N",
        "farm retry J12/nothing",
        "farm retry somewhere",
        "farm node enable nobody",
        "farm node forget rack-007",
        "farm delete J12",
        "farm resume J12; rm -rf /",
        "farm resume 'J12",
    ],
)
def test_anything_else_stays_words(store: FarmStore, text: str) -> None:
    assert read_cure(text, store) is None

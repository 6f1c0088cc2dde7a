"""The count on a chip is the count of a fresh look, whatever the farm did in between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client_gui.models.counts import LiveCount
from client_gui.store.columns import JOB_COLUMNS, job_values
from client_gui.store.filter import job_filter
from client_gui.store.table import Table
from farm.model.query import Context
from farm.protocol.rows import JobRow

HOUR_US = 3_600_000_000
NOW_US = 100 * HOUR_US


def job(number: int, state: str, failed: int, user: str, age_h: int) -> JobRow:
    return JobRow(
        job=number, name=f"j{number}", user=user, project="p", priority=50, state=state, reason="",
        submitted_us=NOW_US - age_h * HOUR_US, started_us=0, ended_us=0, units=10, done=0, failed=failed,
        running=0, spend_nano=0, waste_nano=0,
    )  # fmt: skip


rows = st.builds(
    job,
    st.integers(1, 20),
    st.sampled_from(["running", "failed", "dreaming"]),
    st.integers(0, 2),
    st.sampled_from(["ana", "bo"]),
    st.integers(1, 9),
)
batches = st.lists(st.tuples(st.lists(rows, max_size=6), st.sets(st.integers(1, 20), max_size=3)), max_size=8)
FILTERS = ("mine", "state:running", "failed>0 -state:dreaming", "age<5h", "")


@given(batches, st.sampled_from(FILTERS))
def test_a_live_count_is_the_count(changes: list[tuple[list[JobRow], set[int]]], text: str) -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    context = Context(NOW_US, "ana")
    live = LiveCount(table, job_filter(table, text, context))
    for fresh, gone in changes:
        before = live.count
        ids, values = [row.job for row in fresh], [job_values(row) for row in fresh]
        told = live.apply(table.apply(ids, values, gone))
        assert live.count == LiveCount(table, job_filter(table, text, context)).count
        assert told == (live.count != before)
    if live.moves:
        live.rebuild(NOW_US + 100 * HOUR_US)
        assert live.count == 0, "by now all of them are older"

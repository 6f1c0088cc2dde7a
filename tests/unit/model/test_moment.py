"""Moments people write: what a farm can show in UTC is taken, all else refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError, JobFileError
from farm.model.jobs import read_job
from farm.model.moment import moment_text, read_moment
from farm.model.nodeset import read_rates


@given(st.datetimes(timezones=st.timezones()))
def test_what_is_taken_can_be_shown(moment: object) -> None:
    try:
        at_us = read_moment(str(moment))
    except CallError:
        return
    assert moment_text(at_us).endswith(" UTC")


def test_the_last_moment_is_that_of_the_year_9999_in_utc() -> None:
    assert moment_text(read_moment("9999-12-31T23:59:59Z")) == "9999-12-31 23:59:59 UTC"
    for text in ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59-00:01"):
        with pytest.raises(CallError, match="beyond the year 9999"):
            read_moment(text)
        with pytest.raises(CallError, match="beyond the year 9999"):
            read_rates(f"0.80@{text}")


def job(**fields: object) -> dict[str, object]:
    """A job file with these fields of its step."""
    step = {"name": "s", "renderer": "command", "kind": "single", **fields}
    return {"overcrank_job": 1, "name": "j", "steps": [step]}


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e308, 1e9 + 1])
@pytest.mark.parametrize("name", ["timeout_s", "failure.min_run_s", "failure.frame_timeout_s"])
def test_times_that_no_clock_counts_are_refused_by_name(name: str, value: float) -> None:
    head, _, inner = name.partition(".")
    read_job(job(**{head: {inner: 1e9} if inner else 1e9}))
    with pytest.raises(JobFileError, match=inner or head):
        read_job(job(**{head: {inner: value} if inner else value}))

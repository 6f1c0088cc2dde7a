"""What `farm job` says of a job's end and cost: ranges, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from farm.cli.shapes import job_shape
from farm.cli.verbs_work import forecast_text
from farm.protocol.client import JobRow

_BASE: dict[str, Any] = {
    "job": 12,
    "name": "shot",
    "user": "kim",
    "project": "film",
    "priority": 50,
    "state": "running",
    "reason": "",
    "submitted_us": 1,
    "started_us": 1,
    "ended_us": 0,
    "units": 10,
    "done": 2,
    "failed": 0,
    "running": 1,
    "spend_nano": 0,
    "waste_nano": 0,
}
_ETA = {"eta_low_us": 1_900_000_000_000_000, "eta_high_us": 1_900_003_600_000_000}
_COST = {"cost_low_nano": 1_500_000_000, "cost_high_nano": 2_000_000_000}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, []),
        (_ETA | _COST, ["done between", "cost 1.500000 USD to 2.000000 USD in all"]),
        (_COST, ["expected: cost 1.500000 USD to"]),
        (_ETA | _COST | {"not_estimated": ("film",)}, ["(without film)"]),
    ],
)
def test_ranges_are_told_and_what_is_not_known_is_not(fields: dict[str, Any], words: list[str]) -> None:
    text = forecast_text(JobRow(**_BASE, **fields))
    assert bool(text) == bool(words)
    for part in words:
        assert part in text


def test_json_has_null_where_nothing_is_known() -> None:
    shape = job_shape(JobRow(**_BASE))
    assert [shape[key] for key in ("eta_low", "eta_high", "cost_low_usd", "cost_high_usd")] == [None] * 4
    shape = job_shape(JobRow(**_BASE, **_ETA, **_COST))
    assert str(shape["eta_low"]).startswith("2030-03-17T")
    assert (shape["cost_low_usd"], shape["cost_high_usd"]) == ("1.500000", "2.000000")

"""Requests about nodes: time zones become data, and what the core gets agrees with the zone database."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.broker.nodedesk import ZONE_YEARS, zone_offsets
from farm.model.errors import CallError

NOW_US = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 1_000_000
#: Half an hour of summer time, two changes a year, none, a negative offset, one that skips.
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca")


@given(zone=st.sampled_from(ZONES), after_s=st.integers(0, ZONE_YEARS * 365 * 86_400))
def test_the_offsets_are_those_of_the_zone_database(zone: str, after_s: int) -> None:
    offsets = zone_offsets(zone, NOW_US)
    at_s = NOW_US // 1_000_000 + after_s
    expected = datetime.fromtimestamp(at_s, ZoneInfo(zone)).utcoffset()
    assert expected is not None
    found = [seconds for from_us, seconds in offsets if from_us <= at_s * 1_000_000][-1]
    assert found == expected.total_seconds()


def test_changes_are_found_to_the_second() -> None:
    offsets = zone_offsets("Europe/Berlin", NOW_US)
    spring = int(datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert offsets[:2] == ((0, 3600), (spring, 7200))
    assert len(offsets) == 1 + 2 * ZONE_YEARS


def test_fixed_zones_need_no_table_and_unknown_ones_are_named() -> None:
    assert zone_offsets("UTC", NOW_US) == ()
    assert zone_offsets("-05:30", NOW_US) == ((0, -19_800),)
    for zone in ("Mars/Olympus", "XYZ", "A/../../etc/passwd"):
        with pytest.raises(CallError) as caught:
            zone_offsets(zone, NOW_US)
        assert repr(zone) in caught.value.message

"""Timetables of nodes: the grammar, and moments found by the arithmetic against moments found by looking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.model.nodeset import read_change, read_rates, read_share
from farm.model.schedule import DAYS, Schedule, fixed_offset_s, read_schedule

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
#: Berlin's changes of the clocks in 2026.
SPRING_US = int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()) * 1_000_000
AUTUMN_US = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()) * 1_000_000
BERLIN = ((0, 3600), (SPRING_US, 7200), (AUTUMN_US, 3600))


def at(text: str) -> int:
    """Microseconds of a moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def said_open(parts: list[tuple[list[int], int, int]], wall: datetime) -> bool:
    """Whether a wall time is inside, by the words of the grammar and nothing else."""
    minute = wall.hour * 60 + wall.minute
    day = wall.weekday()
    for days, start, end in parts:
        if end > start:
            if day in days and start <= minute < end:
                return True
        elif (day in days and minute >= start) or ((day - 1) % 7 in days and minute < end):
            return True
    return False


_minute = st.integers(0, 24 * 60 - 1)
_part = st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True), _minute, _minute)


def words(parts: list[tuple[list[int], int, int]]) -> str:
    return ", ".join(
        f"{'+'.join(DAYS[day] for day in days)} {start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
        for days, start, end in parts
    )


def test_the_words_of_the_guide() -> None:
    night = read_schedule("mon-fri 19:00-07:00, sat-sun")
    assert night.is_open(at("2026-11-30T19:00:00")), "Monday evening"
    assert not night.is_open(at("2026-11-30T18:59:59"))
    assert night.is_open(at("2026-12-01T06:59:59")), "Monday's night ends on Tuesday"
    assert not night.is_open(at("2026-12-01T07:00:00"))
    assert night.is_open(at("2026-12-05T12:00:00")), "Saturday"
    assert not night.is_open(at("2026-11-30T03:00:00")), (
        "the night before Monday belongs to Sunday: it is over"
    )
    assert night.next_change(at("2026-12-04T19:30:00")) == at("2026-12-07T00:00:00"), (
        "Friday to Monday in one"
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("always", ""),
        ("19:00-7:00", "19:00-07:00"),
        ("daily 19:00-07:00", "19:00-07:00"),
        ("sat-sun", "sat-sun"),
        ("daily", "daily"),
        ("  mon+wed   8:00-12:30 ,fri  UTC", "mon+wed 08:00-12:30, fri"),
        ("fri-mon 22:00-24:00 Europe/Berlin", "fri-mon 22:00-24:00 Europe/Berlin"),
        ("mon +01:00", "mon +01:00"),
        ("mon UTC-05:30", "mon -05:30"),
        ("mon CET", "mon CET"),
    ],
)
def test_texts_have_one_canonical_form(text: str, canonical: str) -> None:
    assert read_schedule(text).text == canonical
    again = read_schedule(canonical)
    assert (again.text, again.hours, again.zone) == (
        canonical,
        read_schedule(text).hours,
        read_schedule(text).zone,
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("mon-fri 19:00", "19:00"),
        ("mon-fri 25:00-07:00", "25:00-07:00"),
        ("mon-fri 24:00-07:00", "24:00"),
        ("mon 10:00-24:30", "24:00"),
        ("moonday", "moonday"),
        ("mon-fri at 19:00-07:00", "is not days and hours"),
        ("mon berlin", "berlin"),
        ("Europe/Berlin", "before the time zone"),
        ("mon,,tue", "is not days and hours"),
        ("10:00-11:00 12:00-13:00", "one word too many"),
        (",", ""),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(CallError) as caught:
        read_schedule(text)
    assert text in caught.value.message
    assert named in caught.value.message


@given(
    parts=st.lists(_part, min_size=1, max_size=4),
    moments=st.lists(st.integers(0, 4 * 7 * 24 * 60), min_size=1, max_size=20),
)
def test_a_moment_is_open_exactly_when_the_words_say_so(
    parts: list[tuple[list[int], int, int]], moments: list[int]
) -> None:
    schedule = read_schedule(words(parts))
    for minutes in moments:
        moment = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)
        at_us = int(moment.timestamp()) * 1_000_000
        assert schedule.is_open(at_us) == said_open(parts, moment)
        assert schedule.is_open(at_us + MINUTE_US - 1) == said_open(parts, moment)


@given(
    parts=st.lists(_part, min_size=1, max_size=3),
    start_min=st.integers(-3 * 24 * 60, 3 * 24 * 60),
    season=st.sampled_from([SPRING_US, AUTUMN_US]),
)
def test_hours_follow_the_clock_on_the_wall_through_both_changes(
    parts: list[tuple[list[int], int, int]], start_min: int, season: int
) -> None:
    schedule = read_schedule(words(parts) + " Europe/Berlin")
    at_us = season + start_min * MINUTE_US
    wall = datetime.fromtimestamp(at_us // 1_000_000, ZoneInfo("Europe/Berlin"))
    assert schedule.is_open(at_us, BERLIN) == said_open(parts, wall)


@given(
    parts=st.lists(_part, min_size=1, max_size=3),
    start_s=st.integers(0, 3 * 24 * 3600),
    season=st.sampled_from([SPRING_US, AUTUMN_US]),
)
def test_the_next_change_is_the_first_minute_that_differs(
    parts: list[tuple[list[int], int, int]], start_s: int, season: int
) -> None:
    schedule = read_schedule(words(parts))
    at_us = season - 2 * 24 * HOUR_US + start_s * 1_000_000
    found = schedule.next_change(at_us, BERLIN)
    now = schedule.is_open(at_us, BERLIN)
    # Hours change at full minutes only.
    minute_us = at_us - at_us % MINUTE_US + MINUTE_US
    end_us = at_us + 9 * 24 * HOUR_US
    looked = next(
        (m for m in range(minute_us, end_us, MINUTE_US) if schedule.is_open(m, BERLIN) != now), None
    )
    assert found == looked
    if found is None:
        assert schedule.always


def test_a_timetable_that_covers_the_week_never_changes() -> None:
    for text in ("", "daily", "mon-sun 00:00-24:00", "mon-sun 12:00-12:00", "mon-wed, thu-sun"):
        schedule = read_schedule(text)
        assert schedule.always, text
        assert schedule.next_change(at("2026-11-30T00:00:00"), BERLIN) is None
        assert schedule.is_open(0)


def test_the_first_offset_holds_before_its_time_too() -> None:
    schedule = Schedule("", "", ((0, 60),))
    monday_us = at("2026-11-30T00:00:00")
    later = ((monday_us + 30 * 24 * HOUR_US, 3600), (monday_us + 60 * 24 * HOUR_US, 0))
    assert not schedule.is_open(monday_us, later)
    assert schedule.is_open(monday_us - HOUR_US, later)
    assert schedule.next_change(monday_us, later) == monday_us + 7 * 24 * HOUR_US - HOUR_US


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [("UTC", 0), ("+01:00", 3600), ("-05:30", -19800), ("Europe/Berlin", None), ("+25:00", None)],
)
def test_fixed_zones_need_no_zone_database(zone: str, seconds: int | None) -> None:
    assert fixed_offset_s(zone) == seconds


# ---------------------------------------------------------------- what else a node is set to


def test_rates_count_from_their_time_on() -> None:
    change = read_change({"rate": "0.80@2026-12-01, 1.2@2027-01-01T08:00+01:00,0.5"})
    assert change.rates is not None
    assert [(entry.from_us, entry.nano_h) for entry in change.rates] == [
        (0, 500_000_000),
        (at("2026-12-01T00:00:00"), 800_000_000),
        (at("2027-01-01T07:00:00"), 1_200_000_000),
    ]
    assert read_rates("") == ()


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({}, "nothing to set"),
        ({"slot": "2"}, "'slot'"),
        ({"slots": "-1"}, "slots=-1"),
        ({"slots": "two"}, "slots=two"),
        ({"slots": "100001"}, "100001"),
        ({"schedule": "moonday"}, "moonday"),
        ({"rate": "cheap"}, "cheap"),
        ({"rate": "1@tomorrow"}, "tomorrow"),
        ({"rate": "1@1969-01-01"}, "1970"),
        ({"rate": "1,2"}, "same time"),
    ],
)
def test_a_wrong_setting_is_named(given_: dict[str, str], named: str) -> None:
    with pytest.raises(CallError) as caught:
        read_change(given_)
    assert named in caught.value.message


@pytest.mark.parametrize(
    ("text", "of", "count"), [("10%", 40, 4), ("10%", 3, 1), ("5", 3, 5), ("100%", 7, 7)]
)
def test_a_share_of_nodes_is_at_least_one(text: str, of: int, count: int) -> None:
    assert read_share(text, of) == count


@pytest.mark.parametrize("text", ["0", "0%", "101%", "ten", "-1", "1.5%"])
def test_no_share_of_nodes(text: str) -> None:
    with pytest.raises(CallError):
        read_share(text, 10)

"""Money adds up to the last nano-USD."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.model.money import MAX_USD, NANO_PER_USD, parse_usd, rate_cost, split_cost, usd_text

nano = st.integers(-(10**19), 10**19)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1_234_000, "0.001234"),
        (0, "0.000000"),
        (499, "0.000000"),
        (500, "0.000001"),
        (-499, "0.000000"),
        (-500, "-0.000001"),
        (1_500, "0.000002"),
        (2_500, "0.000003"),
        (999_999_999, "1.000000"),
        (-1_234_567_890_123, "-1234.567890"),
        (10**18, "1000000000.000000"),
    ],
)
def test_shows_six_decimals_half_away_from_zero(amount: int, text: str) -> None:
    assert usd_text(amount) == text


@given(nano)
def test_text_is_decimal_rounding(amount: int) -> None:
    exact = Decimal(amount) / NANO_PER_USD
    rounded = exact.quantize(Decimal("0.000001"), rounding=ROUND_HALF_UP)
    assert Decimal(usd_text(amount)) == rounded
    assert usd_text(amount) == f"{rounded + 0:f}"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("0.50", 500_000_000),
        (" 12 ", 12_000_000_000),
        ("0.000000001", 1),
        ("1e-9", 1),
        ("1.", 1_000_000_000),
        (".5", 500_000_000),
        ("1E+3", 10**12),
        ("0e999", 0),
        (0.1, 100_000_000),
        (0.1 + 0.2, 300_000_000),
        (1e-10, 0),
        (-0.0, 0),
        (3, 3 * 10**9),
        (0, 0),
        (MAX_USD, MAX_USD * 10**9),
        ("3.000000000000", 3 * 10**9),
    ],
)
def test_reads_exactly(amount: str | float, expected: int) -> None:
    assert parse_usd(amount) == expected


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("nan", "not an amount"),
        ("inf", "not an amount"),
        ("Infinity", "not an amount"),
        (float("nan"), "not an amount"),
        (float("inf"), "not an amount"),
        (float("-inf"), "not an amount"),
        ("-1", "negative"),
        (-1, "negative"),
        (-0.25, "negative"),
        pytest.param(-(10**5000), "negative", id="huge-negative"),
        ("", "not an amount"),
        ("free", "not an amount"),
        ("1_000", "not an amount"),
        ("1,50", "not an amount"),
        ("$1", "not an amount"),
        ("１", "not an amount"),
        ("--1", "not an amount"),
        ("0.0000000001", "finer"),
        ("0.1000000005", "finer"),
        ("1e-200", "finer"),
        ("1e999", "above"),
        ("1e9999999999", "not an amount"),
        ("9" * 61, "not an amount"),
        pytest.param(10**5000, "above", id="huge"),
        (1e300, "above"),
        (True, "not an amount"),
        (None, "not an amount"),
        (Decimal(1), "not an amount"),
    ],
)
def test_refuses_what_is_no_amount(amount: object, words: str) -> None:
    with pytest.raises(CallError, match=words):
        parse_usd(amount)  # type: ignore[arg-type]


@given(st.integers(0, MAX_USD * 10**9))
def test_what_is_written_in_full_reads_back(amount: int) -> None:
    whole, part = divmod(amount, 10**9)
    assert parse_usd(f"{whole}.{part:09d}") == amount
    shown = parse_usd(usd_text(amount))
    assert abs(shown - amount) <= 500


@given(
    st.integers(0, 10**14),
    st.integers(0, 10**16),
    st.lists(st.integers(0, 10**12), min_size=1, max_size=20),
)
def test_intervals_add_up_to_the_whole(rate: int, origin: int, lengths: list[int]) -> None:
    """However often the meter is read, the readings sum to one reading at the end."""
    times = [origin]
    for length in lengths:
        times.append(times[-1] + length)
    readings = [rate_cost(rate, a, b, origin) for a, b in pairwise(times)]
    assert sum(readings) == rate_cost(rate, origin, times[-1], origin)
    assert sum(readings) == rate * sum(lengths) // 3_600_000_000
    for reading, length in zip(readings, lengths, strict=True):
        assert abs(reading - Fraction(rate * length, 3_600_000_000)) < 1


def test_an_hour_costs_the_rate() -> None:
    half = parse_usd("0.50")
    assert rate_cost(half, 5, 3_600_000_005, 5) == half
    assert rate_cost(half, 0, 1_000_000, 0) == 138_888
    assert sum(rate_cost(half, s * 10**6, (s + 1) * 10**6, 0) for s in range(3600)) == half
    assert rate_cost(half, 1_000_000, 0, 0) == -138_888


shares = st.lists(st.integers(0, 1_000_000), max_size=12)


@given(st.integers(0, 10**15), shares)
@example(1, [])
@example(10, [333_333, 333_333, 333_333])
def test_parts_and_idle_are_the_whole(total: int, ppm: list[int]) -> None:
    parts, idle = split_cost(total, ppm)
    assert len(parts) == len(ppm)
    assert sum(parts) + idle == total
    whole = max(1_000_000, sum(ppm))
    for part, share in zip([*parts, idle], [*ppm, whole - sum(ppm)], strict=True):
        assert abs(part - Fraction(total * share, whole)) < 1
        assert part >= 0
        assert share or not part
    for one, two in [(i, j) for i in range(len(ppm)) for j in range(len(ppm)) if ppm[i] > ppm[j]]:
        assert parts[one] >= parts[two], "a larger share never pays less"
    for one, two in [(i, j) for i in range(len(ppm)) for j in range(i) if ppm[i] == ppm[j]]:
        assert parts[two] >= parts[one], "ties go to the lower index"


@pytest.mark.parametrize(
    ("total", "ppm", "parts", "idle"),
    [
        (100, [], [], 100),
        (100, [500_000], [50], 50),
        (100, [500_000, 500_000], [50, 50], 0),
        (100, [1_000_000, 1_000_000], [50, 50], 0),
        (3, [500_000, 500_000], [2, 1], 0),
        (1, [500_000], [1], 0),
        (1, [250_000, 250_000], [0, 0], 1),
        (10, [1_000_000, 1_000_000, 1_000_000], [4, 3, 3], 0),
        (0, [700_000], [0], 0),
        (7, [0, 0], [0, 0], 7),
    ],
)
def test_largest_remainder(total: int, ppm: list[int], parts: list[int], idle: int) -> None:
    assert split_cost(total, ppm) == (parts, idle)


def test_negative_amounts_cannot_be_split() -> None:
    with pytest.raises(CallError, match="negative"):
        split_cost(-1, [1])
    with pytest.raises(CallError, match="-5"):
        split_cost(1, [3, -5])

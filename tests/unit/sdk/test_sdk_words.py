"""Words for values: what lists show of money."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.sdk.words import price_text


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (None, "-"),
        (0, "0 USD"),
        (1, "0.000000001 USD"),
        (12_345, "0.000012 USD"),
        (1_234_567, "0.0012 USD"),
        (99_499_999, "0.099 USD"),
        (99_500_000, "0.10 USD"),
        (1_234_567_890, "1.23 USD"),
        (-50_000_000, "-0.050 USD"),
        (1_234_567_000_000_000, "1,234,567 USD"),
    ],
)
def test_prices_are_rounded_to_what_is_worth_reading(nano: int | None, text: str) -> None:
    assert price_text(nano) == text


@given(st.integers(-(10**18), 10**18))
def test_no_price_has_an_exponent_and_every_price_is_near_the_amount(nano: int) -> None:
    text = price_text(nano)
    assert "e" not in text
    shown = float(text.removesuffix(" USD").replace(",", ""))
    assert shown == pytest.approx(nano / 1e9, rel=0.06, abs=1e-9)

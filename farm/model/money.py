"""Money: whole nano-USD, exact from the rate to the sum on the bill.

What belongs here: reading and printing amounts, the cost of an interval at a rate, and splitting a
node's cost over the attempts on it.  What must not: floats in any sum, clocks, and who pays.

Amounts are integers in nano-USD (1 USD = 1 000 000 000), so that a rate of 0.50 USD/h still gives
138 889 units a second and no sum ever depends on its order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, NewType

from farm.model.errors import CallError

#: An amount of money in nano-USD; rates are nano-USD per hour.
NanoUsd = NewType("NanoUsd", int)

NANO_PER_USD: Final = 1_000_000_000
#: Larger amounts are refused: this one fits a 64-bit column nine times over.
MAX_USD: Final = 1_000_000_000

_NANO_PER_MICRO_USD = 1000
_US_PER_HOUR = 3_600_000_000
_FULL_PPM = 1_000_000
_AMOUNT = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_MAX_TEXT = 60
#: Wide enough that no amount of at most 60 characters is rounded before we say so.
_EXACT = Context(prec=1200)


def usd_text(nano: int) -> str:
    """An amount as people see it: USD with six decimals, without the currency.

    Rounds half away from zero, as invoices do; what rounds to nothing has no sign.
    """
    micro = (abs(nano) + _NANO_PER_MICRO_USD // 2) // _NANO_PER_MICRO_USD
    whole, part = divmod(micro, 1_000_000)
    return f"{'-' if nano < 0 and micro else ''}{whole}.{part:06d}"


def parse_usd(amount: str | float | int) -> NanoUsd:
    """Reads an amount in USD, e.g. ``0.50``.

    A text must be a whole number of nano-USD; it is never rounded behind the writer's back.  A float
    (from JSON) is taken as the shortest decimal that names it, so 0.1 is 0.1, and is rounded to the
    nearest nano-USD, since 0.1 + 0.2 has seventeen decimals that nobody wrote.

    Raises:
        CallError: It is no amount, not finite, negative, finer than a nano-USD or too large.
    """
    if isinstance(amount, bool) or not isinstance(amount, str | float | int):
        raise CallError(f"{amount!r} is not an amount in USD", hint="write a number such as 0.50")
    if isinstance(amount, int) and abs(amount) > MAX_USD:
        # Before str(), which refuses (and would be slow for) numbers of thousands of digits.
        raise CallError("the amount is negative" if amount < 0 else f"the amount is above {MAX_USD} USD")
    text = amount.strip() if isinstance(amount, str) else repr(amount)
    if text.startswith("-") and _AMOUNT.fullmatch(text[1:]) and float(text) != 0:
        raise CallError(f"{text} USD is negative")
    text = text.removeprefix("-") if isinstance(amount, float) else text
    if len(text) > _MAX_TEXT or _AMOUNT.fullmatch(text) is None:
        raise CallError(f"{text[:_MAX_TEXT]!r} is not an amount in USD", hint="write a number such as 0.50")
    usd = Decimal(text)
    if usd > MAX_USD:
        raise CallError(f"{text} USD is above {MAX_USD} USD")
    nano = _EXACT.multiply(usd, Decimal(NANO_PER_USD))
    whole = nano.to_integral_value(rounding=ROUND_HALF_UP)
    if whole != nano and not isinstance(amount, float):
        raise CallError(f"{text} USD is finer than a nano-USD", hint="write at most nine decimals")
    return NanoUsd(int(whole))


def rate_cost(rate_nano_per_hour: int, start_us: int, end_us: int, origin_us: int) -> NanoUsd:
    """Cost of an interval, such that consecutive intervals add up exactly.

    The cost since ``origin_us`` is ``floor(rate * elapsed / hour)``, and an interval costs the
    difference at its ends: however often a meter is read, the readings sum to the cost of the whole.

    Args:
        rate_nano_per_hour: Rate in nano-USD per hour, constant since the origin.
        start_us: Begin of the interval in microseconds.
        end_us: Its end; before ``start_us`` the cost is negative, so that the sums still hold.
        origin_us: When this rate began to count, the same for all intervals that must add up.
    """
    until_end = rate_nano_per_hour * (end_us - origin_us) // _US_PER_HOUR
    until_start = rate_nano_per_hour * (start_us - origin_us) // _US_PER_HOUR
    return NanoUsd(until_end - until_start)


def split_cost(total: int, shares_ppm: Sequence[int]) -> tuple[list[int], int]:
    """Splits a node's cost over the attempts on it.

    Each pays ``total * share / max(1, sum of shares)``; what no share covers is idle.  Rounding is by
    largest remainder (Hamilton's method): every part gets the floor of its quota, and the units left
    go to the largest remainders, ties to the lower index, idle counting as the last.

    Args:
        total: Cost in nano-USD, not negative.
        shares_ppm: Dominant resource share of each attempt in parts per million.

    Returns:
        The parts, and the idle rest; together exactly ``total``, each within one unit of its quota.

    Raises:
        CallError: The total or a share is negative.
    """
    if total < 0:
        raise CallError(f"a cost to split cannot be negative ({total} nano-USD)")
    if any(share < 0 for share in shares_ppm):
        raise CallError(f"a share cannot be negative ({min(shares_ppm)} ppm)")
    used = sum(shares_ppm)
    whole = max(_FULL_PPM, used)
    quotas = [divmod(total * share, whole) for share in (*shares_ppm, whole - used)]
    parts = [floor for floor, _ in quotas]
    left = total - sum(parts)
    for index in sorted(range(len(parts)), key=lambda index: -quotas[index][1])[:left]:
        parts[index] += 1
    return parts[:-1], parts[-1]

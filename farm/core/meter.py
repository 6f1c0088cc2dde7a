"""The money meter: every interval's node cost splits over the attempts on the node; the rest is idle.

An interval ends whenever the set of attempts on the node changes, never at a tick: so a replay of the
stored rows cuts time at the same points and gives the same nano-USD.  Costs telescope from an origin, so
that the parts of any number of intervals add up to the whole exactly.

A node's rate may change at times that were set beforehand (``NodeSettings.rates``).  Whatever looks at the
meter first after such a time cuts there, to the microsecond, and only then charges the rest at the new
rate.
"""

from __future__ import annotations

import msgspec

from farm.core.rows import MeterRow
from farm.core.state import Attempt, Farm, Node
from farm.model.money import rate_cost, split_cost

_ENCODE = msgspec.msgpack.Encoder().encode
_US_PER_HOUR = 3_600_000_000


def rate_at(node: Node, at_us: int) -> int:
    """What the node costs at a time, nano-USD per hour: its own rate, else the farm's for it."""
    found = node.rate_nano_h
    for entry in node.settings.rates:
        if entry.from_us > at_us:
            break
        found = entry.nano_h
    return found


def next_rate_us(node: Node) -> int | None:
    """The first time after the last cut at which its rate changes, None = never."""
    return next((entry.from_us for entry in node.settings.rates if entry.from_us > node.metered_us), None)


def advance(node: Node, now_us: int) -> None:
    """Charges the time since the last cut to the node's attempts, the rest to idle."""
    if now_us <= node.metered_us or not node.meter_on:
        return
    if node.settings.rates:
        since_us = node.metered_us
        for entry in node.settings.rates:
            if since_us < entry.from_us <= now_us:
                _charge(node, entry.from_us)
                node.meter_rate, node.origin_us = entry.nano_h, entry.from_us
    _charge(node, now_us)


def _charge(node: Node, now_us: int) -> None:
    """Charges the time since the last cut, all of it at the present rate."""
    since_us = node.metered_us
    node.metered_us = now_us
    rate = node.meter_rate
    if not rate:
        return
    # farm.model.money.rate_cost, written out: this runs twice a frame.
    origin_us = node.origin_us
    amount = rate * (now_us - origin_us) // _US_PER_HOUR - rate * (since_us - origin_us) // _US_PER_HOUR
    node.total_nano += amount
    attempts = node.attempts
    if not attempts:
        node.idle_nano += amount
        return
    if len(attempts) == 1:
        (attempt,) = attempts.values()
        part, rest = divmod(amount * attempt.share_ppm, 1_000_000)
        # Largest remainder between two parties; a tie goes to the attempt.
        if rest * 2 >= 1_000_000:
            part += 1
        attempt.charge_nano += part
        node.idle_nano += amount - part
        return
    parts, idle = split_cost(amount, [attempt.share_ppm for attempt in attempts.values()])
    for attempt, part in zip(attempts.values(), parts, strict=True):
        attempt.charge_nano += part
    node.idle_nano += idle


def projected(node: Node, now_us: int) -> tuple[int, dict[int, int], int]:
    """What ``advance`` would make of (total, charge by attempt id, idle), without doing it."""
    charges = {attempt.id: attempt.charge_nano for attempt in node.attempts.values()}
    total, idle = node.total_nano, node.idle_nano
    if not node.meter_on or now_us <= node.metered_us:
        return total, charges, idle
    shares = [attempt.share_ppm for attempt in node.attempts.values()]
    since_us, origin_us, rate = node.metered_us, node.origin_us, node.meter_rate
    cuts = [entry for entry in node.settings.rates if since_us < entry.from_us <= now_us]
    for until_us, next_rate in [(entry.from_us, entry.nano_h) for entry in cuts] + [(now_us, 0)]:
        amount = rate_cost(rate, since_us, until_us, origin_us)
        parts, rest = split_cost(amount, shares)
        for attempt, part in zip(node.attempts.values(), parts, strict=True):
            charges[attempt.id] += part
        total += amount
        idle += rest
        since_us = origin_us = until_us
        rate = next_rate
    return total, charges, idle


def projected_charge(attempt: Attempt, now_us: int) -> int:
    """What ``advance`` would make of one attempt's charge, without doing it.

    Most nodes run one attempt at a rate that stays: then it is as ``_charge`` has it, and nothing is made.
    """
    node = attempt.node
    since_us = node.metered_us
    if not node.meter_on or now_us <= since_us:
        return attempt.charge_nano
    if len(node.attempts) > 1 or node.settings.rates:
        return projected(node, now_us)[1][attempt.id]
    amount = rate_cost(node.meter_rate, since_us, now_us, node.origin_us)
    part, rest = divmod(amount * attempt.share_ppm, 1_000_000)
    return attempt.charge_nano + part + (rest * 2 >= 1_000_000)


def start(node: Node, now_us: int, rate_nano_h: int) -> None:
    """Starts the meter at a rate; a running meter with the same rate just goes on."""
    if node.meter_on and node.meter_rate == rate_nano_h:
        return
    advance(node, now_us)
    if node.meter_on and node.meter_rate == rate_nano_h:
        # A change that was set beforehand had been due and is made now.
        return
    node.meter_on = True
    node.meter_rate = rate_nano_h
    node.origin_us = node.metered_us = now_us


def stop(node: Node, at_us: int) -> None:
    """Stops the meter as of ``at_us``, which may lie in the past (last heartbeat)."""
    advance(node, at_us)
    node.meter_on = False


def meter_row(farm: Farm, node: Node) -> MeterRow:
    """The row that stores the node's meter as it is."""
    charges = {attempt.id: attempt.charge_nano for attempt in node.attempts.values()}
    return MeterRow(
        node.id,
        farm.next_seq(),
        int(node.meter_on),
        node.origin_us,
        node.metered_us,
        node.meter_rate,
        node.total_nano,
        node.idle_nano,
        node.waste_nano,
        _ENCODE(charges),
    )


def waste_of(attempt: Attempt, now_us: int) -> int:
    """The part of an attempt's charge that bought nothing.

    None of it when all its units got done (start-up is useful then); otherwise all but the share of the
    attempt's time that went into units that got done.
    """
    if not attempt.wasted:
        return 0
    lasted_us = max(1, now_us - attempt.started_us)
    useful_us = min(attempt.useful_us, lasted_us)
    return attempt.charge_nano - attempt.charge_nano * useful_us // lasted_us

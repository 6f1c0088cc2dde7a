"""What nodes cost when their rate changes: to the microsecond, once, and stored.

What belongs here: rates of a node's own and those of its farm.  Who owes what is in test_core_money.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from farm.core import invariants, meter
from farm.core.rows import MeterRow
from farm.model.nodes import RateFrom
from tests.support.core_node_acts import run_to, set_
from tests.support.core_rig import Rig, step

HOUR_US = 3_600_000_000
#: A rate that costs 1,000 nano-USD a second.
KILO = 3_600 * 1_000


def test_the_meter_is_cut_at_the_very_moment_a_rate_begins() -> None:
    rig = Rig()
    node = rig.join(cores=4, rate=KILO)
    rig.submit(step(frames="1"))
    lease = rig.lease()
    change_us = rig.now_us + 7_300_000
    set_(rig, node, rates=(RateFrom(change_us, 10 * KILO),))
    run_to(rig, rig.now_us + 20_000_000, node)
    rig.done(lease, elapsed_s=20)
    # 7.3 s at 1,000 and 12.7 s at 10,000 a second; the attempt has a quarter of the node.
    assert rig.node(node).total_nano == 7_300 + 127_000
    assert rig.step("J1/beauty").spend_nano == (7_300 + 127_000) // 4
    assert rig.node(node).meter_rate == 10 * KILO


def test_a_tick_at_its_moment_tells_people_and_stores_the_meter() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(rig.now_us + 4_000_000, 2 * KILO),))
    rig.wait(3.9, node)
    assert not any(isinstance(row, MeterRow) for row in rig.out.rows)
    rig.wait(0.2, node)
    assert any(isinstance(row, MeterRow) for row in rig.out.rows)
    assert rig.told() == ["it was set to begin now"]
    rig.wait(1, node)
    assert rig.out.rows == [], "once"


def test_a_lease_between_the_moment_and_the_tick_does_not_blur_it() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(rig.now_us + 5_000_000, 3 * KILO),))
    rig.submit(step(frames="1"))
    rig.now_us += 6_000_000
    lease = rig.lease()
    assert rig.node(node).total_nano == 5_000 + 3_000
    rig.now_us += 1_000_000
    rig.done(lease)
    assert rig.step("J1/beauty").spend_nano == 3_000


def test_a_rate_without_a_time_counts_from_now_and_none_gives_the_farms_back() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    rig.wait(10, node)
    assert "costs 0.010800 USD/h" in set_(rig, node, rates=(RateFrom(0, 3 * KILO),)).message
    rig.wait(10, node)
    assert set_(rig, node, rates=()).message == "ant: costs what the farm says"
    rig.wait(10, node)
    rig.bye(node)
    assert rig.node(node).total_nano == 10_000 + 30_000 + 10_000


def test_an_agents_hello_brings_the_farms_rate_and_not_the_nodes_own_back() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(0, 5 * KILO),))
    rig.bye(node)
    rig.wait(100)
    rig.join(rate=2 * KILO)
    rig.wait(10, node)
    rig.bye(node)
    assert rig.node(node).total_nano == 50_000
    assert meter.rate_at(rig.node(node), 0) == 2 * KILO, "before its own rate began"


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 60_000_000), st.integers(0, 10**12)), max_size=6, unique_by=lambda c: c[0]
    ),
    waits=st.lists(st.integers(1, 9_000_000), min_size=1, max_size=8),
    down=st.booleans(),
)
def test_rates_charge_every_microsecond_once_however_time_is_cut(
    changes: list[tuple[int, int]], waits: list[int], down: bool
) -> None:
    rig = Rig(lost_us=10**12, suspect_us=10**11)
    node = rig.join(cores=3, rate=KILO)
    start_us = rig.now_us
    rates = tuple(RateFrom(start_us + 1 + after, nano) for after, nano in sorted(changes))
    if rates:
        set_(rig, node, rates=rates)
    rig.submit(step(frames="1-100"))
    for wait_us in waits:
        leases = rig.dispatch()
        rig.wait(wait_us / 1e6, node)
        projected = meter.projected(rig.node(node), rig.now_us)[0]
        if leases:
            rig.done(leases[0])
            assert rig.node(node).total_nano == projected
    if down:
        rig.checkpoint()
        rig.restart(grace_s=10**5)
        rig.join(cores=3, rate=KILO, running=list(rig.node(node).attempts))
    rig.bye(node)
    cuts = [(start_us, KILO), *((entry.from_us, entry.nano_h) for entry in rates), (rig.now_us, 0)]
    expected = sum(
        rate * (min(until, rig.now_us) - since) // HOUR_US
        for (since, rate), (until, _) in pairwise(cuts)
        if since < rig.now_us
    )
    assert rig.node(node).total_nano == expected
    invariants.check_money(rig.core.farm)

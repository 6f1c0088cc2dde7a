"""Money: exact to the nano-USD, split by shares, through outages, with waste and idle of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import invariants
from farm.model.resources import Resources
from tests.support.core_rig import RATE, Rig, step

SECOND = RATE // 3600


def test_an_attempt_pays_its_share_of_its_node_and_the_rest_is_idle() -> None:
    rig = Rig()
    node = rig.join(cores=4, rate=3_600 * 1_000)
    rig.submit(step(frames="1"))
    rig.wait(10, node)
    lease = rig.lease()
    rig.wait(20, node)
    rig.done(lease, elapsed_s=20)
    rig.wait(5, node)
    rig.bye(node)
    assert rig.node(node).total_nano == 35 * 1_000
    assert rig.step("J1/beauty").spend_nano == 20 * 250
    assert rig.node(node).idle_nano == 10 * 1_000 + 20 * 750 + 5 * 1_000
    assert rig.step("J1/beauty").waste_nano == 0


def test_the_larger_of_cores_memory_and_gpus_is_the_share() -> None:
    rig = Rig()
    node = rig.join(cores=4, ram_mib=1_000, vram=(8_000, 8_000), rate=3_600 * 1_000)
    rig.submit(step(frames="1", resources=Resources(cores=1, ram_mib=100, gpus=1)))
    lease = rig.lease()
    rig.wait(10, node)
    rig.done(lease)
    assert rig.step("J1/beauty").spend_nano == 10 * 500


def test_rounding_gives_the_left_over_nano_to_the_largest_remainder_ties_to_the_first() -> None:
    rig = Rig()
    node = rig.join(cores=3, rate=3_600)
    rig.submit(step(frames="1-3", chunk=1))
    leases = rig.dispatch()
    rig.wait(1, node)
    for lease in leases:
        rig.done(lease)
    charges = [
        row.charge_nano
        for row in sorted(rig.store.disk.tables[type(rig.results()[0])].values(), key=lambda r: r.seq)
    ]
    assert charges == [1, 0, 0], "one nano-USD, three attempts of a third each"
    assert rig.node(node).idle_nano == 0


@given(
    rate=st.integers(1, 10**13),
    cores=st.integers(1, 7),
    waits=st.lists(st.integers(1, 50_000_000), min_size=1, max_size=8),
)
def test_however_time_is_cut_the_parts_are_the_whole(rate: int, cores: int, waits: list[int]) -> None:
    rig = Rig()
    node = rig.join(cores=cores, rate=rate)
    rig.submit(step(frames="1-100"))
    start_us = rig.now_us
    for wait_us in waits:
        leases = rig.dispatch()
        rig.wait(wait_us / 1e6, node)
        if leases:
            rig.done(leases[0])
    rig.bye(node)
    assert rig.node(node).total_nano == rate * (rig.now_us - start_us) // 3_600_000_000
    invariants.check_money(rig.core.farm)


def test_failed_and_taken_back_work_is_waste_done_work_of_the_same_attempt_is_not() -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1-2", chunk=2))
    lease = rig.lease()
    rig.wait(30, node)
    rig.done(lease, 0, elapsed_s=30, closed=False)
    rig.wait(10, node)
    rig.fail(lease, "renderer", 1)
    assert rig.step("J1/beauty").spend_nano == 40 * 1_000
    assert rig.step("J1/beauty").waste_nano == 10 * 1_000


def test_a_lost_attempt_is_charged_to_its_last_heartbeat() -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1-2", chunk=2))
    lease = rig.lease()
    rig.wait(30, node)
    rig.done(lease, 0, elapsed_s=30, closed=False)
    rig.wait(61)
    assert rig.step("J1/beauty").spend_nano == 30 * 1_000
    assert rig.step("J1/beauty").waste_nano == 0, "all it was charged for went into the frame that is done"
    assert rig.node(node).total_nano == 30 * 1_000
    rig.wait(1000)
    assert rig.node(node).total_nano == 30 * 1_000


def test_all_of_a_lost_attempt_without_a_done_frame_is_waste() -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1"))
    rig.lease()
    rig.wait(30, node)
    rig.wait(61)
    assert rig.step("J1/beauty").spend_nano == rig.step("J1/beauty").waste_nano == 30 * 1_000


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_attempt_offered_again_after_an_outage_is_charged_through_the_gap(checkpoint: bool) -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1"))
    lease = rig.lease()
    rig.wait(10, node)
    if checkpoint:
        rig.checkpoint()
    rig.restart(down_s=3_600)
    rig.join(rate=3_600 * 1_000, running=[lease.attempt])
    rig.wait(10, node)
    rig.done(lease, elapsed_s=3_620)
    assert rig.step("J1/beauty").spend_nano == 3_620 * 1_000
    assert rig.step("J1/beauty").waste_nano == 0
    assert rig.node(node).total_nano == 3_620 * 1_000


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_attempt_lost_in_an_outage_is_charged_to_the_last_heartbeat_that_was_stored(
    checkpoint: bool,
) -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1"))
    rig.lease()
    for _ in range(6):
        rig.wait(2, node)
    if checkpoint:
        rig.checkpoint()
    rig.restart(down_s=3_600)
    rig.wait(61)
    assert rig.states() == "Q"
    assert rig.step("J1/beauty").spend_nano == 10 * 1_000, "heartbeats are stored every 10 s"
    assert rig.step("J1/beauty").waste_nano == 10 * 1_000


def test_a_changed_rate_counts_from_the_hello_that_told_it() -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.wait(10, node)
    rig.join(rate=3_600 * 5_000)
    rig.wait(10, node)
    rig.restart()
    rig.join(rate=3_600 * 5_000)
    rig.bye(node)
    assert rig.node(node).total_nano == 10 * 1_000 + 10 * 5_000


def test_an_idle_farm_costs_what_its_nodes_cost() -> None:
    rig = Rig()
    node = rig.join(rate=RATE)
    rig.wait(50, node)
    rig.wait(50, node)
    rig.bye(node)
    assert rig.node(node).total_nano == rig.node(node).idle_nano == RATE * 100 // 3600


def test_what_the_meter_would_show_now_is_what_it_then_charges() -> None:
    from farm.core.meter import projected

    rig = Rig()
    node = rig.join(cores=3, rate=7_777_777)
    rig.submit(step(frames="1-2", chunk=1))
    leases = rig.dispatch()
    rig.wait(13.7, node)
    total, charges, idle = projected(rig.node(node), rig.now_us)
    rig.done(leases[0])
    assert rig.results()[0].charge_nano == charges[leases[0].attempt]
    assert (rig.node(node).total_nano, rig.node(node).idle_nano) == (total, idle)


def test_a_look_at_files_is_charged_but_is_no_waste() -> None:
    rig = Rig()
    node = rig.join(rate=3_600 * 1_000)
    rig.submit(step(frames="1", out=True, existing="skip"))
    lease = rig.lease()
    rig.wait(4, node)
    rig.fail(lease, "output")
    assert rig.step("J1/beauty").spend_nano == 4 * 1_000
    assert rig.step("J1/beauty").waste_nano == 0

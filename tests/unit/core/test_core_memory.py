"""Out of memory: the next try takes a bigger placement, nobody is blamed, and it ends at a cap."""

from __future__ import annotations

from farm.core.chunks import SKIPPED_MOST
from farm.core.explain import why
from farm.core.outcome import LeaseCommand
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def test_a_try_that_ran_out_of_memory_is_followed_by_one_with_twice_as_much() -> None:
    rig = Rig()
    rig.join(cores=8, ram_mib=64_000)
    rig.submit(step(frames="1-2", resources=Resources(cores=1, ram_mib=4_000), chunk=2))
    first = rig.lease()
    assert first.resources.ram_mib == 4_000
    rig.fail(first, "oom-ram", 0, 1)
    again, other = rig.dispatch()
    assert [lease.units for lease in (again, other)] == [(0,), (1,)], "each goes alone"
    assert again.resources.ram_mib == other.resources.ram_mib == 8_000
    rig.fail(again, "oom-ram", 0)
    assert rig.lease().resources.ram_mib == 16_000


def test_no_try_asks_for_more_than_the_largest_node_has() -> None:
    rig = Rig()
    small, large = rig.join("ant", cores=4, ram_mib=6_000), rig.join("bee", cores=4, ram_mib=10_000)
    rig.submit(step(frames="1", resources=Resources(cores=1, ram_mib=6_000)))
    lease = rig.lease()
    assert lease.node_id == small
    rig.fail(lease, "oom-ram", 0)
    again = rig.lease()
    assert (again.node_id, again.resources.ram_mib) == (large, 10_000)


def test_frames_that_did_not_run_out_are_leased_as_ever() -> None:
    rig = Rig()
    rig.join(cores=1, ram_mib=10_000)
    rig.submit(step(frames="1-3", resources=Resources(cores=1, ram_mib=1_000)))
    rig.fail(rig.lease(), "oom-ram", 0)
    sizes = []
    for _ in range(3):
        lease = rig.lease()
        sizes.append((lease.units, lease.resources.ram_mib))
        rig.done(lease)
    assert sorted(sizes) == [((0,), 2_000), ((1,), 1_000), ((2,), 1_000)]


def test_a_restart_remembers_what_a_frame_needs() -> None:
    rig = Rig()
    node = rig.join(cores=2, ram_mib=64_000)
    rig.submit(step(frames="1", resources=Resources(cores=1, ram_mib=4_000)))
    rig.fail(rig.lease(), "oom-ram", 0)
    rig.restart()
    rig.join(rig.node(node).name, cores=2, ram_mib=64_000)
    assert rig.lease().resources.ram_mib == 8_000


def test_a_gpu_that_was_too_small_is_followed_by_a_larger_one_while_there_is_one() -> None:
    rig = Rig()
    rig.join("ant", cores=2, vram=(8_000,))
    rig.join("bee", cores=2, vram=(8_000,))
    large = rig.join("cow", cores=2, vram=(24_000,))
    rig.submit(step(frames="1", resources=Resources(cores=1, gpus=1)))
    first = rig.lease()
    assert first.node_id != large
    rig.fail(first, "oom-vram", 0)
    again = rig.lease()
    assert again.node_id == large, "not the other small one"
    rig.fail(again, "oom-vram", 0)
    assert rig.dispatch(), "where all were too small any will do, until the cap"


# ---------------------------------------------------------------- second copies of what ran out


def straggler(rig: Rig, failure: str, need: Resources) -> LeaseCommand:
    """Of nine frames the last one ran out of memory; its next try, which runs for long, is returned."""
    rig.submit(step(frames="1-9", out=True, resources=need))
    last: list[LeaseCommand] = []
    while not last:
        leases = rig.dispatch()
        rig.now_us += 10_000_000
        for lease in leases:
            if lease.units == (8,):
                last.append(lease)
            else:
                rig.done(lease, elapsed_s=10)
    rig.fail(last[0], failure)
    return rig.lease()


def test_a_second_copy_goes_only_where_the_memory_is_that_the_frame_needs_by_now() -> None:
    rig = Rig()
    nodes = [rig.join("ant", 4, ram_mib=16_000), rig.join("bee", 4, ram_mib=16_000)]
    first = straggler(rig, "oom-ram", Resources(cores=1, ram_mib=4_000))
    assert first.resources.ram_mib == 8_000
    (other,) = [node for node in nodes if node != first.node_id]
    rig.submit(step("fill", "1-3", resources=Resources(cores=1, ram_mib=4_500)))
    fill = rig.dispatch()
    full = [lease for lease in fill if lease.node_id == other]
    assert full, "the other node has cores and the step's memory free, not the frame's"
    assert 4_000 <= rig.node(other).ram_free < 8_000
    for _ in range(6):
        rig.wait(10.0, *nodes)
        assert rig.dispatch() == []
    for lease in full:
        rig.done(lease, elapsed_s=10)
    rig.wait(10.0, *nodes)
    copy = rig.lease()
    assert (copy.node_id, copy.resources.ram_mib) == (other, 8_000)


def test_a_second_copy_has_the_gpus_its_step_asks_for() -> None:
    rig = Rig()
    nodes = [rig.join("ant", 4, vram=(8_000, 24_000)), rig.join("bee", 4, vram=(8_000, 24_000))]
    first = straggler(rig, "oom-vram", Resources(cores=1, gpus=1))
    assert first.gpus == (1,), "the larger one"
    (other,) = [node for node in nodes if node != first.node_id]
    rig.submit(step("fill", "1", resources=Resources(cores=1, gpus=1, vram_mib=20_000)))
    fill = rig.lease()
    assert (fill.node_id, fill.gpus) == (other, (1,))
    for _ in range(6):
        rig.wait(10.0, *nodes)
        assert rig.dispatch() == [], "only a GPU that is too small is free there"
    rig.done(fill, elapsed_s=10)
    rig.wait(10.0, *nodes)
    copy = rig.lease()
    assert (copy.node_id, copy.gpus, copy.resources.gpus) == (other, (1,), 1)
    rig.submit(step("next", "1", resources=Resources(cores=1, gpus=1)))
    after = rig.lease()
    assert len(after.gpus) == after.resources.gpus == 1


# ---------------------------------------------------------------- its turn


def hungry(rig: Rig) -> tuple[list[tuple[int, LeaseCommand]], int]:
    """A frame of high priority ran out of memory on a node that lesser work keeps busy frame by frame."""
    node = rig.join("ant", 4, ram_mib=16_000)
    rig.submit(step(frames="1-2", resources=Resources(cores=1, ram_mib=6_000)), priority=60)
    rig.submit(step("small", "1-4000", resources=Resources(cores=1, ram_mib=2_000)), priority=50)
    leases = rig.dispatch()
    running = [(rig.now_us + (at + 1) * 2_500_000, lease) for at, lease in enumerate(leases)]
    (failed,) = [pair for pair in running if pair[1].step.spec.name == "beauty" and pair[1].units == (0,)]
    running.remove(failed)
    rig.now_us += 1_000_000
    rig.fail(failed[1], "oom-ram")
    return running + [(rig.now_us + 10_000_000, lease) for lease in rig.dispatch()], node


def turn(rig: Rig, running: list[tuple[int, LeaseCommand]], node: int) -> list[LeaseCommand]:
    """The next attempt ends; what is leased then runs for ten seconds each."""
    running.sort(key=lambda pair: (pair[0], pair[1].attempt))
    at_us, lease = running.pop(0)
    rig.now_us = max(rig.now_us, at_us)
    rig.wait(0.0, node)
    rig.done(lease, elapsed_s=10)
    leases = rig.dispatch()
    running += [(rig.now_us + 10_000_000, one) for one in leases]
    return leases


def test_a_frame_that_ran_out_of_memory_is_not_overtaken_for_ever() -> None:
    rig = Rig()
    running, node = hungry(rig)
    since_us = rig.now_us
    kept = False
    while True:
        started = [lease for lease in turn(rig, running, node) if lease.step.spec.name == "beauty"]
        if started:
            break
        kept = kept or bool(rig.core.farm.reservations)
        assert rig.now_us < since_us + 120_000_000, "it starves"
    assert kept
    assert [(lease.units, lease.resources.ram_mib) for lease in started] == [((0,), 12_000)]
    while "Q" in rig.states("J1/beauty") or "R" in rig.states("J1/beauty"):
        turn(rig, running, node)
    turn(rig, running, node)
    rig.wait(0.5, node)
    assert rig.core.farm.reservations == {}


def test_why_it_waits_names_the_memory_and_promises_no_date_while_no_node_is_kept() -> None:
    rig = Rig()
    running, _ = hungry(rig)
    farm, one = rig.core.farm, rig.step("J1/beauty")
    small = [pair for pair in running if pair[1].step.spec.name == "small"]
    running.remove(small[0])
    rig.now_us = small[0][0]
    rig.done(small[0][1], elapsed_s=10)
    for unit in (0, None):
        answer = why(farm, one, unit, rig.now_us)
        assert "the next one waits for 12000 MiB of memory on ant" in answer.causes[0][0]
        assert answer.nodes[0].filter == "room"
        assert "12000 needed since a try ran out of less" in answer.nodes[0].reason
        assert answer.wait is not None
        assert answer.wait.low_us is not None
        assert answer.wait.low_us > rig.now_us
        assert answer.wait.high_us is None


def test_why_it_waits_says_which_node_is_kept_for_it_and_when_it_may_start() -> None:
    rig = Rig()
    running, node = hungry(rig)
    while not rig.core.farm.reservations:
        turn(rig, running, node)
    answer = why(rig.core.farm, rig.step("J1/beauty"), 0, rig.now_us)
    assert answer.causes[0][0].startswith("ant is kept for it")
    assert answer.wait is not None
    assert answer.wait.high_us is not None


def test_a_node_is_no_longer_kept_when_its_frame_needs_no_more_than_others() -> None:
    rig = Rig()
    running, node = hungry(rig)
    while not rig.core.farm.reservations:
        turn(rig, running, node)
    rig.act("cancel", "J1/beauty/1")
    rig.wait(0.5, node)
    assert rig.core.farm.reservations == {}
    assert rig.node(node).reserved is None


# ---------------------------------------------------------------- very many


def test_very_many_frames_that_may_not_go_to_a_node_are_looked_at_in_turns_and_none_is_forgotten() -> None:
    """Those in front failed on the free node; the one that may go there is found, some at a time."""
    rig = Rig()
    ant, bee = rig.join("ant"), rig.join("bee")
    rig.submit(step("other", "1-2"), priority=90)
    leases = rig.dispatch()
    many = 3 * SKIPPED_MOST + 7
    rig.submit(step(frames=f"1-{many}", chunk=1))
    one = rig.step("J2/beauty")
    for unit in range(many - 1):
        one.note(unit).failed_on.add(ant)
        one.note(unit).failure = "renderer"
    (free,) = [lease for lease in leases if lease.node_id == ant]
    rig.done(free)
    found: list[LeaseCommand] = []
    looks = 0
    while not found:
        found = rig.dispatch()
        looks += 1
        assert looks <= 5, "each look goes on where the last one ended"
    assert looks > 1, "and passes over no more than some hundreds"
    assert [(lease.node_id, lease.units) for lease in found] == [(ant, (many - 1,))]
    before = dict(one.looked)
    why(rig.core.farm, one, None, rig.now_us)
    assert one.looked == before, "who asks changes nothing"
    (busy,) = [lease for lease in leases if lease.node_id == bee]
    rig.done(busy)
    assert rig.lease().units == (0,), "the other node takes them in order"

"""Out of memory: the next try takes a bigger placement, nobody is blamed, and it ends at a cap."""

from __future__ import annotations

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

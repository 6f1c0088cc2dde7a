"""Memory of process trees, and whom the guard chooses."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_agent.memory import (
    AttemptMemory,
    MemoryGuard,
    available_mib,
    process_mib,
    tree_rss_mib,
    trees_mib,
)

GUARD = MemoryGuard(slice_mib=32768, machine_mib=32768)
#: Less than a tenth of that machine.
SHORT = 3000


def use(key: str, request_mib: int, used_mib: int) -> AttemptMemory:
    return AttemptMemory(key, request_mib, used_mib)


def test_over_its_request_is_no_reason_while_there_is_memory() -> None:
    assert GUARD.choose([use("a", 1000, 30000)], available=3300) is None


def test_short_memory_is_no_reason_against_those_who_keep_to_their_request() -> None:
    assert GUARD.choose([use("a", 20000, 21000), use("b", 8000, 11900)], available=100) is None


def test_the_largest_of_those_far_over_is_chosen_not_the_largest_of_all() -> None:
    uses = [use("fair", 20000, 20000), use("b", 2000, 4000), use("c", 4000, 7000)]
    victim = GUARD.choose(uses, SHORT)
    assert victim is not None
    assert victim.key == "c"
    assert victim.reason == (
        "out of memory: it used 6.8 GiB, asked for 3.9 GiB, and the machine had only 2.9 GiB left"
    )


def test_far_over_needs_both_the_factor_and_the_amount() -> None:
    assert GUARD.choose([use("a", 100, 611)], SHORT) is None  # six times, but only 511 MiB
    assert GUARD.choose([use("a", 100, 612)], SHORT) is not None
    assert GUARD.choose([use("a", 10000, 15000)], SHORT) is None  # 5,000 MiB, but not more than 1.5 times
    assert GUARD.choose([use("a", 10000, 15001)], SHORT) is not None


def test_an_attempt_that_asked_for_nothing_may_use_its_even_share() -> None:
    assert GUARD.choose([use("a", 0, 24000), use("b", 0, 4000)], SHORT) is None
    victim = GUARD.choose([use("a", 0, 25000), use("b", 0, 4000)], SHORT)
    assert victim is not None
    assert victim.key == "a"
    assert "did not say" in victim.reason


def test_more_than_the_whole_slice_is_killed_even_with_memory_to_spare() -> None:
    guard = MemoryGuard(slice_mib=8192, machine_mib=65536)
    victim = guard.choose([use("a", 8192, 8193), use("b", 100, 200)], available=50000)
    assert victim is not None
    assert victim.key == "a"
    assert "the whole node has 8.0 GiB" in victim.reason
    assert guard.choose([use("a", 8192, 8192)], available=50000) is None


@pytest.mark.parametrize(("machine_mib", "short_mib"), [(65536, 6553), (4096, 1024), (1000, 500)])
def test_short_is_a_tenth_or_a_gibibyte_but_never_more_than_half(machine_mib: int, short_mib: int) -> None:
    assert MemoryGuard(machine_mib, machine_mib).short_mib == short_mib


_USES = st.lists(st.tuples(st.integers(0, 40000), st.integers(0, 40000)), max_size=8)


@given(_USES, st.integers(0, 32768), st.randoms())
def test_the_choice_is_one_of_them_is_justified_and_ignores_order(
    pairs: list[tuple[int, int]], available: int, random: object
) -> None:
    uses = [use(f"a{number}", *pair) for number, pair in enumerate(pairs)]
    victim = GUARD.choose(uses, available)
    shuffled = list(uses)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert GUARD.choose(shuffled, available) == victim
    if victim is not None:
        (chosen,) = [each for each in uses if each.key == victim.key]
        assert chosen.used_mib > GUARD.slice_mib or (
            available < GUARD.short_mib and chosen.used_mib > chosen.request_mib
        )
    elif available < GUARD.short_mib:
        assert not [each for each in uses if GUARD.far_over(each, len(uses))]


# -- measured -----------------------------------------------------------------------------------------

HOG = """
import os, sys, time
if len(sys.argv) > 1 and os.fork() == 0:
    more = bytearray(os.urandom(1 << 20)) * 40
data = bytearray(os.urandom(1 << 20)) * 60
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def hog() -> Iterator[tuple[int, str]]:
    """A process of some 60 MiB and its child of some 100 MiB; first pid and tag."""
    tag = f"test-{uuid.uuid4().hex}"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HOG, "fork"],
        stdout=subprocess.PIPE,
        env={**os.environ, "OVERCRANK_ATTEMPT": tag, "OVERCRANK_SPAWN": tag},
        start_new_session=True,
    )
    assert process.stdout is not None
    with process, process.stdout:
        for _ in range(2):
            assert process.stdout.readline()
        yield process.pid, tag
        os.killpg(process.pid, 9)


def test_a_tree_is_measured_with_its_children_by_pid_or_by_tag(hog: tuple[int, str]) -> None:
    pid, tag = hog
    assert 60 <= process_mib(pid) <= 100
    whole = tree_rss_mib([pid])
    assert 160 <= whole <= 200
    assert abs(tree_rss_mib(tag=tag) - whole) <= 2
    assert abs(tree_rss_mib([pid], tag=tag) - whole) <= 2  # nothing counts twice
    both = trees_mib({"a": pid, "me": os.getpid()})
    assert abs(both["a"] - whole) <= 2
    assert both["me"] > both["a"]  # the hog is our child


def test_orphans_of_the_supervisor_count_for_the_attempt_they_came_from(hog: tuple[int, str]) -> None:
    pid, _ = hog
    (child,) = psutil.Process(pid).children()
    # Seen from the hog as supervisor, its child is an orphan with its own tag.
    assert trees_mib({"a": child.pid}, supervisor_pid=pid)["a"] == trees_mib({"a": child.pid})["a"]
    alone = trees_mib({"a": child.pid})["a"]
    assert 95 <= alone <= 130


def test_what_is_gone_uses_nothing() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert process_mib(process.pid) == 0
    assert tree_rss_mib([process.pid]) == 0
    assert trees_mib({"a": process.pid}) == {"a": 0}
    assert tree_rss_mib() == 0


def test_available_memory_is_positive_and_within_the_machine() -> None:
    assert 0 < available_mib() <= psutil.virtual_memory().total >> 20

"""The merge of sources in order, and what the store reads of the core's checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from farm.core.rows import BulkRow
from farm.storage.merge import merge_by_seq
from farm.storage.openings import open_leases
from tests.support.core_rig import Rig, step
from tests.unit.storage.samples import Writer


def row(seq: int) -> BulkRow:
    return BulkRow(seq, 1, "*", 0, 1, 0, "", "", 0)


@given(
    owners=st.lists(st.integers(0, 2), max_size=80),
    size=st.integers(1, 7),
    jump=st.lists(st.integers(1, 1000), min_size=80, max_size=80),
)
def test_sources_in_pages_come_out_in_order(owners: list[int], size: int, jump: list[int]) -> None:
    rows: list[list[BulkRow]] = [[], [], []]
    everything, seq = [], 0
    for owner, ahead in zip(owners, jump, strict=False):
        seq += ahead
        rows[owner].append(row(seq))
        everything.append(rows[owner][-1])

    def pages(source: list[BulkRow]) -> Iterator[list[BulkRow]]:
        for start in range(0, len(source), size):
            yield source[start : start + size]

    assert list(merge_by_seq(*map(pages, rows))) == everything


def test_a_page_is_asked_for_only_when_it_is_needed() -> None:
    asked: list[int] = []

    def pages() -> Iterator[list[BulkRow]]:
        for number in range(5):
            asked.append(number)
            yield [row(number * 2), row(number * 2 + 1)]

    reading = merge_by_seq(pages())
    assert [next(reading).seq for _ in range(3)] == [0, 1, 2]
    assert asked == [0, 1]


def test_the_open_attempts_of_the_cores_checkpoint_are_found() -> None:
    rig = Rig()
    rig.join(cores=3)
    rig.submit(step(frames="1-9", chunk=2))
    leases = rig.dispatch()
    rig.done(leases[1])
    found = open_leases(rig.checkpoint().rows[-1])  # type: ignore[arg-type]
    assert [(row.id, row.units) for row in found] == [(1, "0-1"), (3, "4-5")]


def test_a_checkpoint_that_names_no_attempts_gives_none() -> None:
    for other in (b"", b"\x80", b"\x93\x01\x02\x03", b"\xc1", msgspec.msgpack.encode({"attempts": {"a": 1}})):
        assert open_leases(Writer().checkpoint(other)) == []

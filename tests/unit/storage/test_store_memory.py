"""The stand-in in memory keeps what every store promises, and fails when a test asks it to."""

from __future__ import annotations

import pytest

from farm.model.errors import StorageError
from farm.storage.memory import MemoryDisk, MemoryStore
from tests.unit.storage.conformance import StoreConformance
from tests.unit.storage.conformance_compaction import CompactionConformance, Worlds
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import Opens


@pytest.fixture
def worlds() -> Worlds:
    def make() -> Opens:
        disk = MemoryDisk()
        return lambda: MemoryStore(disk)

    return make


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def opens(self, worlds: Worlds) -> Opens:
        return worlds()

    @pytest.fixture
    def fresh(self) -> Opens:
        return MemoryStore


class TestMemoryCompaction(CompactionConformance):
    """With the fixtures of this module."""


def test_a_failure_asked_for_is_a_failed_commit() -> None:
    w = Writer()
    store = MemoryStore()
    store.commit(w.ground())
    held = store.load().last_seq
    store.fail_next = "the disk is full"
    store.commit([])  # stores nothing, so nothing can fail
    with pytest.raises(StorageError, match="the disk is full"):
        store.commit([w.history()])
    with pytest.raises(StorageError, match="no more changes"):
        store.commit([w.history()])
    store.close()
    again = MemoryStore(store.disk)
    assert again.load().last_seq == held
    again.commit([w.history()])
    again.close()

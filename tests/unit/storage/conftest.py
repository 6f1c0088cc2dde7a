"""Shared by the storage tests."""

from __future__ import annotations

import pytest

# They are no test modules by name, and without this their asserts would fail without showing values.
pytest.register_assert_rewrite("tests.unit.storage.conformance", "tests.unit.storage.conformance_compaction")

"""Shared by the storage tests."""

from __future__ import annotations

import pytest

# They are no test modules by name, and without this their asserts would fail without showing values.
for _name in ("conformance", "conformance_compaction", "conformance_history", "conformance_restart"):
    pytest.register_assert_rewrite(f"tests.unit.storage.{_name}")

"""Shared by the storage tests."""

from __future__ import annotations

import pytest

# It is no test module by name, and without this its asserts would fail without showing values.
pytest.register_assert_rewrite("tests.unit.storage.conformance")

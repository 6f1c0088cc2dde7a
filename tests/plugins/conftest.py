"""Fixtures of the plug-ins' tests: the add-on's modules, and settings of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.addon import Addon


@pytest.fixture(scope="session")
def addon(tmp_path_factory: pytest.TempPathFactory) -> Addon:
    """The modules that need no Blender."""
    return Addon(tmp_path_factory.mktemp("addon"))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.delenv("FARM_CLI", raising=False)

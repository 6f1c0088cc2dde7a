"""The farms a user can choose from are those joined here and those served here."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.config.places import Endpoint, Places, known_farms, remember_joined

ENDPOINT = Endpoint(control="h:1", join="h:2", bulk="h:3", public="p", farm_id="f")


def test_farms_joined_and_served_are_known_and_private_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert known_farms() == []
    for name in ("studio", "Attic"):
        remember_joined(Places(name), ENDPOINT)
    for name in ("local", "studio", "private/20261130-120000-abcdef"):
        ENDPOINT.write(Places(name).endpoint)
    Places("empty").make()
    (tmp_path / "config" / "overcrank" / "not a farm!").mkdir()
    assert known_farms() == ["local", "Attic", "studio"]

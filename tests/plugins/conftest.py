"""Fixtures of the plug-ins' tests: the add-on's modules, a Blender on a farm, and settings of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.cli.plugin.sources import build_blender, farm_command
from tests.support.addon import Addon
from tests.support.blender_host import BlenderHost, install
from tests.support.blender_submits import BLENDER, WHEEL
from tests.support.farmhouse import Farmhouse
from tests.support.real import require


@pytest.fixture(scope="session")
def addon(tmp_path_factory: pytest.TempPathFactory) -> Addon:
    """The modules that need no Blender."""
    return Addon(tmp_path_factory.mktemp("addon"))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.delenv("FARM_CLI", raising=False)


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A file that stands for the artist's."""
    path = tmp_path / "shot.blend"
    path.write_bytes(b"BLENDER")
    return path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farmhouse]:
    """A farm with one node."""
    require(BLENDER, "Blender", "install blender")
    with Farmhouse(tmp_path_factory.mktemp("house")) as made:
        made.agent("a")
        made.wait_online()
        yield made


@pytest.fixture(scope="module")
def host(house: Farmhouse, tmp_path_factory: pytest.TempPathFactory) -> BlenderHost:
    """A Blender with the add-on, put there by `farm plugin install` (a wheel: by its setup script)."""
    folder = tmp_path_factory.mktemp("host")
    if WHEEL:
        made = BlenderHost(folder, (WHEEL,), house.env)
        packed = build_blender(folder / "overcrank.zip", extension=True, command=farm_command())
        told = made.setup("install", packed)
        assert (told.get("error"), told["form"], told["enabled"]) == (None, "extension", True)
        return made
    made = BlenderHost(folder, (BLENDER,), house.env)
    told = install(made, BLENDER, {})
    assert [(row["error"], row["enabled"]) for row in told["programs"]] == [("", True)]
    return made

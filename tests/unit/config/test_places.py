"""Where files live, which farm is meant, and that keys and endpoints are private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from farm.config.places import (
    Endpoint,
    Places,
    farm_name,
    find_endpoint,
    private_farms,
    prune_private,
    read_endpoint,
    remember_joined,
    write_private,
)
from farm.model.errors import CallError, StorageError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    return tmp_path


def endpoint(**fields: object) -> Endpoint:
    made = {
        "control": "127.0.0.1:7460",
        "join": "127.0.0.1:7461",
        "bulk": "127.0.0.1:7462",
        "public": "k" * 40,
        "farm_id": "f00d",
    }
    return Endpoint(**(made | fields))  # type: ignore[arg-type]


def test_which_farm_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert farm_name() == "local"
    remember_joined(Places("studio"), endpoint())
    assert farm_name() == "studio"
    monkeypatch.setenv("OVERCRANK_FARM", "other")
    assert farm_name() == "other"
    assert farm_name("third") == "third"


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", " ", ".hidden", "a\nb", "private/", "private/../x", "x" * 65, "ä"]
)
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(CallError, match="is not the name of a farm"):
        Places(name)


def test_folders_and_files(home: Path) -> None:
    places = Places("studio")
    assert places.database == home / "state/overcrank/studio/farm.db"
    assert places.logs == home / "state/overcrank/studio/logs"
    assert places.previews == home / "state/overcrank/studio/previews"
    assert places.client_key == home / "config/overcrank/studio/client.key"
    assert Places("private/7").state == home / "state/overcrank/private/7"


def test_a_relative_xdg_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Places("local").state == tmp_path / ".local/state/overcrank/local"


def test_what_is_written_is_for_the_owner_only(home: Path) -> None:
    os.umask(os.umask(0))  # whatever the umask is
    places = Places("studio")
    places.make()
    endpoint(pid=os.getpid()).write(places.endpoint)
    assert stat.S_IMODE(places.endpoint.stat().st_mode) == 0o600
    assert stat.S_IMODE(places.state.stat().st_mode) & 0o077 == 0
    found = read_endpoint(places.endpoint)
    assert found is not None
    assert (found.control, found.pid, found.process_gone) == ("127.0.0.1:7460", os.getpid(), False)
    assert [path.name for path in places.endpoint.parent.iterdir()] == ["broker.json"]


def test_a_write_that_fails_leaves_the_old_file(home: Path) -> None:
    target = home / "file"
    target.mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        write_private(target, "x")
    assert [path.name for path in home.iterdir()] == ["file"]


def test_the_broker_of_this_machine_comes_before_a_joined_one() -> None:
    places = Places("studio")
    assert find_endpoint(places) is None
    remember_joined(places, endpoint(control="10.0.0.1:7460"))
    found = find_endpoint(places)
    assert found is not None
    assert found.control == "10.0.0.1:7460"
    endpoint(control="127.0.0.1:9000").write(places.endpoint)
    found = find_endpoint(places)
    assert found is not None
    assert found.control == "127.0.0.1:9000"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"control": 1}', '{"control": "a:1"}', "\xff"])
def test_a_damaged_endpoint_file_is_named(text: str) -> None:
    places = Places("local")
    places.make()
    places.endpoint.write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match=r"broker\.json does not say where a broker listens"):
        read_endpoint(places.endpoint)


def make_private(count: int) -> None:
    for index in range(count):
        places = Places(f"private/p{index}")
        places.make()
        endpoint(pid=1000 + index).write(places.endpoint)
        os.utime(places.state, (1_000_000 + index, 1_000_000 + index))


def test_the_newest_private_farms_are_kept() -> None:
    make_private(13)
    removed = prune_private(alive=lambda pid: False)
    assert sorted(removed) == ["private/p0", "private/p1", "private/p2"]
    assert private_farms()[0] == "private/p12"
    assert len(private_farms()) == 10
    assert not Places("private/p0").config.exists()


def test_a_private_farm_that_runs_is_never_removed() -> None:
    make_private(3)
    removed = prune_private(keep=1, alive=lambda pid: pid == 1000)
    assert removed == ["private/p1"]
    assert set(private_farms()) == {"private/p0", "private/p2"}

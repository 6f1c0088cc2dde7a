"""`farm db`: what it says and how it ends, on a farm's own file and on a server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from farm.cli.main import main
from farm.config.places import Places
from farm.model.errors import StorageError
from farm.storage.postgres import PostgresStore
from farm.storage.sqlite import SqliteStore
from farm.storage.troubles import database_trouble
from tests.support.core_rig import Rig, step
from tests.support.postgres import PostgresServer


class Result(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `farm db ...` for a farm of its own."""
    for kind in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))

    def call(*words: str) -> Result:
        code = main(["--farm", "test", "db", *words])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


def fill(store: SqliteStore | PostgresStore) -> None:
    """A farm with a job, half of it done, and a checkpoint."""
    rig = Rig()
    rig.store = store  # type: ignore[assignment]
    rig.join(cores=2)
    rig.submit(step(frames="1-4"))
    for lease in rig.dispatch():
        rig.done(lease)
    rig.checkpoint()
    rig.dispatch()
    store.close()


@pytest.fixture
def database(run: Run) -> Path:
    """The farm's file, with rows."""
    path = Places("test").database
    fill(SqliteStore(path))
    return path


def damage(path: Path, sql: str) -> None:
    """Damages the file."""
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(sql)
    raw.close()


def test_check_says_sound_or_what_is_wrong(run: Run, database: Path) -> None:
    result = run("check")
    assert result.code == 0
    assert result.out.startswith(f"{database} is sound: 1 jobs, 1 nodes, ")
    assert run("check", "--quick").code == 0
    document = json.loads(run("check", "--json").out)
    assert (document["sound"], document["problems"], document["jobs"]) == (True, [], 1)

    damage(database, "DELETE FROM journal")
    damage(database, "UPDATE checkpoints SET extra = x'c1'")
    result = run("check")
    assert result.code == 1
    assert result.out.splitlines()[0] == f"{database} is damaged:"
    assert "checkpoint" in result.out
    assert "farm db repair" in result.err
    assert json.loads(run("check", "--json").out)["sound"] is False


def test_repair_says_what_was_lost_and_where_the_original_is(run: Run, database: Path) -> None:
    assert run("repair").out == f"{database} is sound; nothing was done\n"
    damage(database, "UPDATE checkpoints SET extra = x'c1'")
    result = run("repair")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{database} was made anew: 1 jobs, ")
    assert lines[1] == f"the damaged one is {database}.damaged"
    assert lines[2] == "lost:"
    assert "made anew from its whole history" in lines[3]
    assert run("check").code == 0
    assert json.loads(run("repair", "--json").out)["damaged"] is False


def test_repair_invents_no_figures(run: Run, database: Path) -> None:
    raw = sqlite3.connect(database)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'keys'").fetchone()
    (size,) = raw.execute("PRAGMA page_size").fetchone()
    raw.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert run("check").code == 1
    result = run("repair")
    assert result.code == 0
    assert "  keys: no row can be read" in result.out.splitlines()
    assert run("check").code == 0


def test_of_what_is_no_database_at_all_nothing_is_made(run: Run, database: Path) -> None:
    database.write_bytes(b"\x00\x17" * 50)
    result = run("repair")
    assert result.code == 3
    assert "can be read" in result.err or "is not a database" in result.err
    assert "put a backup in its place" in result.err
    assert database.read_bytes() == b"\x00\x17" * 50


def test_an_empty_file_is_called_empty(run: Run, database: Path) -> None:
    database.write_bytes(b"")
    result = run("check")
    assert result.code == 1
    assert result.out == (
        f"{database} is not damaged, but cannot be checked: it is empty, and holds no farm\n"
    )
    assert "put a backup in its place" in result.err
    assert "alembic" not in result.out + result.err
    refused = run("repair")
    assert refused.code == 3
    assert "nothing of" in refused.err


def test_a_start_on_a_damaged_file_names_the_repair(run: Run, database: Path) -> None:
    with pytest.raises(StorageError, match="farm db repair") as caught:
        raise database_trouble(database, _corrupt())
    assert "put a backup in its place" in caught.value.hint


def _corrupt() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorname = "SQLITE_CORRUPT"
    return error


@pytest.mark.parametrize("words", [("check", "--farm", "test"), ("--farm", "test", "check")])
def test_the_farm_may_be_named_before_and_after_the_action(
    database: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main(["db", *words]) == 0
    assert capsys.readouterr().out.startswith(f"{database} is sound")


def test_a_repair_beside_a_broker_is_refused(run: Run, database: Path) -> None:
    with SqliteStore(database):
        result = run("repair")
    assert result.code == 3
    assert "in use by another broker" in result.err


def test_backup_prints_where_it_is(run: Run, database: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with SqliteStore(database):  # a broker runs
        result = run("backup", str(target))
    assert (result.code, result.out) == (0, f"{target}\n")
    assert "not in it" in result.err
    refused = run("backup", str(target))
    assert refused.code == 3
    assert "--force" in refused.err
    assert run("backup", str(target), "--force").code == 0
    beside = Path(run("backup").out.strip())
    assert beside.parent == database.parent
    assert beside.name.startswith("farm.db.backup-2")
    document = json.loads(run("backup", str(tmp_path / "b.db"), "--json").out)
    assert document["bytes"] == (tmp_path / "b.db").stat().st_size


def test_upgrade_says_the_schema_and_makes_a_copy_before(run: Run, database: Path) -> None:
    assert run("upgrade").out == f"{database} has schema 0002\n"
    database.unlink()
    raw = sqlite3.connect(database)
    fixture = Path(__file__).parents[2] / "fixtures" / "databases" / "schema-0001.sql"
    raw.executescript(fixture.read_text(encoding="utf-8"))
    raw.close()
    first = run("check")
    assert first.code == 1
    assert (
        "is not damaged, but cannot be checked: it is old: its schema is 0001, here it is 0002" in first.out
    )
    assert "`farm db upgrade`" in first.err
    assert "repair" not in first.out + first.err
    document = json.loads(run("check", "--json").out)
    assert document["sound"] is False
    assert document["problems"] == ["it is old: its schema is 0001, here it is 0002"]
    result = run("upgrade")
    assert result.out.splitlines() == [
        f"{database} has schema 0002",
        f"the one before is {database}.before-upgrade-from-0001",
    ]
    assert run("check").code == 0


@pytest.mark.parametrize("action", ["check", "repair", "backup", "upgrade"])
def test_where_there_is_no_database_it_says_so(run: Run, action: str) -> None:
    result = run(action)
    assert result.code == 3
    assert "there is no database" in result.err


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server with one database."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_a_database_on_a_server(run: Run, server: PostgresServer) -> None:
    url = server.make_database()
    assert run("upgrade", "--database", url).code == 0
    fill(PostgresStore(url))
    with PostgresStore(url):  # a broker runs
        result = run("check", "--database", url)
    assert result.code == 0
    assert " is sound: 1 jobs, 1 nodes, " in result.out
    backup = run("backup", "--database", url)
    assert backup.code == 0
    assert backup.out.startswith("pg_dump --format=custom --file=farm.dump 'postgresql://overcrank@127.0.0.1")
    refused = run("repair", "--database", url)
    assert refused.code == 2
    assert "its own tools" in refused.err
    with server.connection(url.rpartition("/")[2]) as raw:
        raw.execute("UPDATE checkpoints SET extra = '\\xc1'")
    damaged = run("check", "--database", url)
    assert damaged.code == 1
    for told in (result, backup, refused, damaged):
        assert server.password not in told.out + told.err


def test_a_database_no_farm_can_use_is_refused_by_name(run: Run) -> None:
    result = run("check", "--database", "mysql://db/farm")
    assert result.code == 3
    assert "mysql:// databases" in result.err

"""The schema, the rows, the migrations and the SQL a new farm is made with all say the same."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import BigInteger, LargeBinary, Text, create_engine, pool
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from farm.broker.ports import KeyRecord
from farm.core.rows import AnyRow, BulkRow, LeaseRow, MeterRow, NodeRow, ResultRow
from farm.model.errors import StorageError
from farm.storage import upgrade as upgrading
from farm.storage.ddl import HEAD
from farm.storage.schema import build
from farm.storage.sqlite import SqliteStore
from farm.storage.tables import BY_ROW, JOURNALED, TABLES
from farm.storage.upgrade import upgrade
from tests.unit.storage.samples import Writer


def differences(path: Path) -> list[Any]:
    """What Alembic would still change in a database to reach the metadata."""
    raw = sqlite3.connect(path)
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=pool.StaticPool)
    try:
        with engine.connect() as connection:
            return list(compare_metadata(MigrationContext.configure(connection), build()))
    finally:
        engine.dispose()
        raw.close()


def statements(path: Path) -> set[str]:
    """The statements a database was made with, blanks aside."""
    raw = sqlite3.connect(path)
    try:
        found = raw.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    finally:
        raw.close()
    return {" ".join(sql.split()) for (sql,) in found}


# -- rows and tables --


def test_every_kind_of_row_has_its_table_or_is_journaled() -> None:
    assert set(BY_ROW) | set(JOURNALED) == set(AnyRow.__args__)
    assert {LeaseRow, ResultRow, BulkRow, NodeRow, MeterRow} < set(JOURNALED), "these are one row a commit"
    assert len({table.name for table in TABLES}) == len(TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_are_the_fields_of_the_row_in_order(table: Any) -> None:
    made = build().tables[table.name]
    kinds = {int: BigInteger, str: Text, bytes: LargeBinary}
    fields = msgspec.structs.fields(table.row)
    assert [(column.name, type(column.type)) for column in made.columns] == [
        (field.name, kinds[field.type]) for field in fields
    ]
    assert [column.name for column in made.primary_key.columns] == [table.key]
    assert not any(column.nullable for column in made.columns)


def test_keys_have_the_fields_of_the_record() -> None:
    columns = tuple(column.name for column in build().tables["keys"].columns)
    assert columns == (*KeyRecord.__struct_fields__, "n")


def test_tables_stand_after_those_they_refer_to() -> None:
    # Inserting in this order is what satisfies references within one commit.
    seen: set[str] = set()
    for table in TABLES:
        assert {other for _, other in table.refers} <= seen
        seen.add(table.name)


def test_the_schema_is_one_postgresql_can_hold() -> None:
    for table in build().sorted_tables:
        text = str(CreateTable(table).compile(dialect=postgresql.dialect()))
        assert "INTEGER" not in text  # 32 bits there: microseconds and nano-dollars need 64
        assert "SERIAL" not in text


# -- migrations --


def test_migrations_lead_from_nothing_to_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    assert upgrade(path) is None
    assert differences(path) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_farm_is_made_as_migrations_make_it(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    upgrade(tmp_path / "migrated.db")
    assert statements(tmp_path / "new.db") == statements(tmp_path / "migrated.db")
    assert differences(tmp_path / "new.db") == []


def test_the_plain_sql_is_up_to_date() -> None:
    path = Path(upgrading.__file__).parent / "ddl.py"
    assert path.read_text(encoding="utf-8") == upgrading.render_ddl(), "see the top of ddl.py"


def test_upgrading_what_is_current_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    w = Writer()
    with SqliteStore(path) as store:
        store.commit(w.ground())
    before = path.read_bytes()
    for _ in range(2):
        assert upgrade(path) is None
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["farm.db", "farm.db.lock"]


# -- an older database --

Version = Callable[[str], None]


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Version:
    """Adds a migration after the last one."""

    def add(body: str) -> None:
        folder = tmp_path / "more 100%s"
        folder.mkdir()
        (folder / "9000_next.py").write_text(
            "import sqlalchemy as sa\nfrom alembic import op\n"
            f"revision = '9000'\ndown_revision = {HEAD!r}\n"
            f"def upgrade():\n    {body}\n",
            encoding="utf-8",
        )
        monkeypatch.setattr(upgrading, "VERSIONS", [*upgrading.VERSIONS, folder])
        monkeypatch.setattr("farm.storage.database.HEAD", "9000")

    return add


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database of this version, with rows."""
    path = tmp_path / "state" / "farm.db"
    w = Writer()
    with SqliteStore(path) as store:
        store.commit([*w.ground(), *w.batch(20)])
    return path


def test_an_older_database_is_upgraded_when_opened_and_the_original_kept(
    old: Path, next_version: Version
) -> None:
    before = old.read_bytes()
    next_version("op.add_column('jobs', sa.Column('note', sa.Text, nullable=False, server_default='none'))")
    with SqliteStore(old) as store:
        assert len(store.recent_leases(99)) == 20
        assert len(list(store.replay(0))) == 45
        assert store._query("SELECT note FROM jobs") == [("none",)]
    backup = old.with_name(f"farm.db.before-upgrade-from-{HEAD}")
    assert backup.read_bytes() == before
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    SqliteStore(old).close()  # once is enough
    assert sorted(entry.name for entry in old.parent.iterdir()) == ["farm.db", backup.name, "farm.db.lock"]


def test_what_is_only_in_the_log_is_upgraded_too(old: Path, next_version: Version) -> None:
    w = Writer(1000, 100)
    copy = old.parent / "crashed" / "farm.db"
    copy.parent.mkdir()
    with SqliteStore(old) as store:
        store.commit([w.history()])
        for name in ("farm.db", "farm.db-wal"):  # as a crash leaves them
            shutil.copy(old.with_name(name), copy.with_name(name))
    next_version("op.create_index('ix_jobs_user', 'jobs', ['user'])")
    assert upgrade(copy) is not None
    with SqliteStore(copy) as store:
        assert store.load().last_seq == 1001


def test_an_older_backup_is_never_overwritten(old: Path, next_version: Version) -> None:
    earlier = old.with_name(f"farm.db.before-upgrade-from-{HEAD}")
    earlier.write_bytes(b"precious")
    next_version("op.create_index('ix_jobs_user', 'jobs', ['user'])")
    assert upgrade(old) == earlier.with_name(earlier.name + ".2")
    assert earlier.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("op.drop_table('meta'); op.execute('SELECT no_such_column FROM jobs')", "no_such_column"),
        # Rows that refer to what is gone: each statement works, the whole is wrong.
        ("op.execute('DELETE FROM jobs')", "contradict"),
    ],
)
def test_an_upgrade_that_fails_leaves_the_original(
    old: Path, next_version: Version, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    before = old.read_bytes()
    next_version(body)
    with pytest.raises(StorageError, match=reason):
        SqliteStore(old)
    assert old.read_bytes() == before
    assert not old.with_name("farm.db.upgrading").exists()
    monkeypatch.setattr("farm.storage.database.HEAD", HEAD)
    with SqliteStore(old) as store:  # the version before can go on with it
        assert len(store.recent_leases(99)) == 20


def test_a_full_disk_during_an_upgrade_is_named_and_leaves_the_original(
    old: Path, next_version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = old.read_bytes()
    next_version("pass")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(upgrading.shutil, "copyfileobj", full)
    with pytest.raises(StorageError, match=r"the disk is full: .*farm\.db"):
        SqliteStore(old)
    assert old.read_bytes() == before
    assert sorted(entry.name for entry in old.parent.iterdir()) == ["farm.db", "farm.db.lock"]


def test_a_database_a_broker_uses_is_not_upgraded(old: Path, next_version: Version) -> None:
    with SqliteStore(old):
        next_version("pass")
        with pytest.raises(StorageError, match="in use by another broker"):
            upgrade(old)

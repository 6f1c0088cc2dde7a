"""Brings a database's tables to the newest schema with Alembic, never touching the original halfway.

What belongs here: everything that needs SQLAlchemy and Alembic at run time; importing them is slow, so
this module is imported only when a database is not as it should be.  What must not: reading rows.

Work is done on a copy that takes the original's place by one rename: whatever stops it (a crash, a full
disk, a broken migration) leaves the original as it was.  The original is kept as a backup besides.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from pprint import pformat

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.exc import SQLAlchemyError

from farm.model.errors import StorageError
from farm.storage.ground import OwnerLock, refuse_network, refuse_orphan_log, sync_folder
from farm.storage.postgres import connect
from farm.storage.troubles import database_trouble, file_trouble

HERE = Path(__file__).parent / "migrations"
#: Folders with migrations, oldest first (tests add one).
VERSIONS: list[Path] = [HERE / "versions"]


def upgrade(path: Path) -> Path | None:
    """Brings a database that no broker uses to the newest schema, or makes a new one.

    Returns:
        The backup made of the original, None when there was nothing to back up or to do.

    Raises:
        StorageError: A broker runs on it, it is newer than this version, or the upgrade failed; the
            original is then as it was.
    """
    refuse_network(path.parent)
    lock = OwnerLock(path)
    try:
        return upgrade_owned(path)
    finally:
        lock.release()


def upgrade_owned(path: Path) -> Path | None:
    """As ``upgrade``, for the holder of the lock."""
    script = ScriptDirectory.from_config(_config())
    head = script.get_current_head() or ""
    work = path.with_name(path.name + ".upgrading")
    try:
        old = _settled_revision(path)
        if old == head:
            return None
        _refuse_unknown(path, script, old, head)
        work.unlink(missing_ok=True)
        backup = None
        if old:
            backup = _backup(path, old)
            shutil.copyfile(path, work)
        work.touch(mode=0o600)
        work.chmod(0o600)
        _migrate(work)
        _sync_file(work)
        work.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise file_trouble(path, error, "upgraded") from error
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    except (SQLAlchemyError, CommandError) as error:
        cause = getattr(error, "orig", None)
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorname", "") == "SQLITE_FULL":
            raise database_trouble(path, cause) from error
        reason = str(error).splitlines()[0]
        raise StorageError(
            f"{path} cannot be upgraded from schema {old or 'nothing'} to {head}: {reason}",
            hint="it was left as it was",
        ) from error
    finally:
        work.unlink(missing_ok=True)
    return backup


def upgrade_postgres(url: str, label: str) -> None:
    """Brings a PostgreSQL database to the newest schema in one transaction, for the holder of its lock.

    Raises:
        StorageError: It is newer than this version, or the upgrade failed; it is then as it was.
    """
    raw = connect(url)
    engine = create_engine("postgresql+psycopg://", creator=lambda: raw, poolclass=pool.StaticPool)
    old = ""
    try:
        raw.autocommit = False
        script = ScriptDirectory.from_config(_config())
        with engine.begin() as connection:
            old = MigrationContext.configure(connection).get_current_revision() or ""
            _refuse_unknown(label, script, old, script.get_current_head() or "")
            _upgrade_on(connection)
    except (SQLAlchemyError, CommandError) as error:
        cause = getattr(error, "orig", None) or error
        raise StorageError(
            f"{label} cannot be upgraded from schema {old or 'nothing'}: {str(cause).splitlines()[0]}",
            hint="it was left as it was",
        ) from error
    finally:
        engine.dispose()
        raw.close()


def render_ddl() -> str:
    """Text of ``farm/storage/ddl.py``: the newest schema as plain SQL, taken from a migrated database."""
    with sqlite3.connect(":memory:") as raw:
        _run(raw)
        head = raw.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        rows = raw.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    raw.close()
    statements = ",\n".join(f'    """{_tidy(sql)}"""' for (sql,) in rows)
    return f'''"""The newest schema as plain SQL, so that a new farm starts without importing SQLAlchemy.

Generated from the migrations; a test compares.  To make it anew after adding a migration:
``python -c "from farm.storage import upgrade; upgrade.write_ddl()"``
"""

from __future__ import annotations

#: Revision these statements lead to.
HEAD = "{head}"

STATEMENTS: tuple[str, ...] = (
{statements},
)
'''


def write_ddl() -> None:
    """Writes ``farm/storage/ddl.py`` anew."""
    (Path(__file__).parent / "ddl.py").write_text(render_ddl(), encoding="utf-8")


def _tidy(sql: str) -> str:
    return "\n".join(line.rstrip() for line in str(sql).replace("\t", "  ").splitlines() if line.strip())


def _config() -> Config:
    config = Config()
    # Alembic reads these through configparser, to which a percent sign is special.
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(str(at).replace("%", "%%") for at in VERSIONS))
    return config


def _settled_revision(path: Path) -> str:
    """The revision a database is at ("" = a new or empty one), with its write-ahead log merged into it."""
    if not path.exists() or path.stat().st_size == 0:
        refuse_orphan_log(path)
        return ""
    raw = sqlite3.connect(path, isolation_level=None)
    try:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "alembic_version" not in tables:
            if tables:
                raise StorageError(
                    f"{path} is a database, but not a farm's: it holds {pformat(sorted(tables)[:5])}",
                    hint="move it away, or put a backup in its place",
                )
            return ""
        found = raw.execute("SELECT version_num FROM alembic_version").fetchall()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        raw.close()
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{path} is in use by another program", hint="close it, then upgrade again")
    if len(found) != 1:
        raise StorageError(f"{path} does not say which schema it has", hint="put a backup in its place")
    return str(found[0][0])


def _refuse_unknown(path: Path | str, script: ScriptDirectory, old: str, head: str) -> None:
    if old and old not in {revision.revision for revision in script.walk_revisions()}:
        raise StorageError(
            f"{path} was written by a newer version of Overcrank: its schema is {old}, here {head} is known",
            hint="install that version, or put a backup from before its upgrade in its place",
        )


def _backup(path: Path, revision: str) -> Path:
    """Copies the database beside itself; an older backup of the same name is never overwritten."""
    number = 1
    target = path.with_name(f"{path.name}.before-upgrade-from-{revision}")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.before-upgrade-from-{revision}.{number}")
    partial = target.with_name(target.name + ".partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as into:
            with path.open("rb") as source:
                shutil.copyfileobj(source, into, 1 << 20)
            into.flush()
            os.fsync(into.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _migrate(path: Path) -> None:
    raw = sqlite3.connect(path)
    try:
        _run(raw)
        broken = raw.execute("PRAGMA foreign_key_check").fetchall()
        verdict = raw.execute("PRAGMA quick_check").fetchall()
    finally:
        raw.close()
    if broken or verdict != [("ok",)]:
        raise StorageError(
            f"{path}: its rows contradict each other after the upgrade", hint="it was left as it was"
        )


def _run(raw: sqlite3.Connection) -> None:
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=pool.StaticPool)
    with engine.begin() as connection:
        _upgrade_on(connection)


def _upgrade_on(connection: Connection) -> None:
    config = _config()
    try:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    finally:
        config.attributes.clear()


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

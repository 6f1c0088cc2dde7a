"""SQLite as the farm's store: what only a file can do wrong, and what must stay true of its statements."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from farm.broker.ports import Store
from farm.model.errors import StorageError
from farm.storage import ground, histories, sql
from farm.storage.opening import open_follower
from farm.storage.sqlite import SqliteFollower, SqliteStore
from tests.unit.storage.conformance import StoreConformance
from tests.unit.storage.conformance_compaction import CompactionConformance, Worlds
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import Opens

ROOT = Path(__file__).parents[3]


@pytest.fixture
def worlds(tmp_path: Path) -> Worlds:
    numbers = count()

    def make() -> Opens:
        path = tmp_path / f"{next(numbers)}.db"
        return lambda: SqliteStore(path)

    return make


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def opens(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: SqliteStore(tmp_path / "farm.db")

    @pytest.fixture
    def fresh(self, worlds: Worlds) -> Callable[[], Store]:
        return lambda: worlds()()


class TestSqliteCompaction(CompactionConformance):
    """With the fixtures of this module."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A farm's database with a few rows, closed."""
    path = tmp_path / "state" / "farm.db"
    w = Writer()
    with SqliteStore(path) as store:
        store.commit([*w.ground(), *w.batch(50)])
    return path


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# -- durability and statements --


def test_the_connection_is_set_for_durability(database: Path) -> None:
    with SqliteStore(database) as store:
        db = store._opened()
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_reads_are_ranges_of_the_primary_key(database: Path) -> None:
    # A scan or a sort here would make a restart as slow as the farm is old.
    seen: list[str] = []
    with SqliteStore(database) as store:
        db = store._opened()
        db.set_trace_callback(seen.append)
        list(store.replay(60))
        store.step_history(1, (3, 5))
        store.recent_history(1, 5)
        store.bulks_of_step(1)
        store.recent_leases(5)
        db.set_trace_callback(None)
        plans = {
            statement: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}")]
            for statement in seen
            if " journal " in statement or " segments " in statement
        }
    assert len(plans) > 5
    for statement, plan in plans.items():
        # "SCAN journal" in the order of its key, from where it is asked for, is what reading the rest is.
        keyed = ("USING INTEGER PRIMARY KEY", "ix_segments_step_id", "SCAN journal")
        wanted = "ORDER BY seq_first" in statement or any(name in plan[0] for name in keyed)
        assert wanted, (statement, plan)


def test_the_hot_tables_have_no_index_of_their_own(database: Path) -> None:
    with sqlite3.connect(database) as db:
        indexed = {row[0] for row in db.execute("SELECT tbl_name FROM sqlite_master WHERE type = 'index'")}
    db.close()
    assert "journal" not in indexed


def test_a_commit_of_what_happens_all_the_time_is_one_row(database: Path) -> None:
    w = Writer(1000, 50)
    with SqliteStore(database) as store:
        seen: list[str] = []
        store._opened().set_trace_callback(seen.append)
        store.commit([*w.batch(40), w.bulk(), w.meter(), w.node(), w.stale(), w.spec(), w.verify()])
        store._opened().set_trace_callback(None)
        assert [statement.split(" (")[0] for statement in seen if not statement.startswith("SELECT")] == [
            "BEGIN IMMEDIATE",
            "INSERT INTO journal",
            "COMMIT",
        ]


def test_replay_holds_a_page_and_not_the_farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "PAGE", 3)
    monkeypatch.setattr(sql, "PAGE_ROWS", 20)
    w = Writer()
    with SqliteStore(tmp_path / "farm.db") as store:
        store.commit(w.ground())
        rows = []
        for _ in range(12):
            rows.append([*w.batch(7), w.bulk()])
            store.commit(rows[-1])
        wanted = [row for batch in rows for row in batch]
        statements: list[str] = []
        store._opened().set_trace_callback(statements.append)
        reading = store.replay(5)
        assert next(reading) == wanted[0]
        first = len(statements)
        assert [wanted[0], *reading] == wanted
        assert len(statements) > first + 2
        assert list(store.replay(wanted[40].seq)) == wanted[41:]


def test_neither_sqlalchemy_nor_alembic_is_imported_to_start(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from farm.storage.sqlite import SqliteStore\n"
        "for _ in range(2):\n"  # a new farm, then one that is there
        "    SqliteStore(sys.argv[1]).close()\n"
        "assert not {'sqlalchemy', 'alembic'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "farm.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_closed_farm_is_one_file_that_only_its_owner_reads(database: Path) -> None:
    assert sorted(entry.name for entry in database.parent.iterdir()) == ["farm.db", "farm.db.lock"]
    for path in database.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    with SqliteStore(database):
        assert stat.S_IMODE(database.with_name("farm.db-wal").stat().st_mode) == 0o600


def test_values_that_are_no_text_are_refused_whole(database: Path) -> None:
    w = Writer(1000, 50)
    with SqliteStore(database) as store:
        with pytest.raises(StorageError, match="cannot hold a value"):
            store.commit([w.history(), w.history(reason="\ud800")])
        assert store.history(0, 0, 10) == []


def test_an_interrupt_within_a_commit_leaves_nothing(database: Path) -> None:
    w = Writer(1000, 50)

    class Interrupting(list):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[object]:
            yield (1001, 1, 0, "a", "b", "c", "d", "e")
            raise KeyboardInterrupt

    with SqliteStore(database) as store:
        with pytest.raises(KeyboardInterrupt):
            store._write([(sql._INSERTS[type(w.history())][1], Interrupting())])
        assert not store._opened().in_transaction
        assert store.history(0, 0, 10) == []
        with pytest.raises(StorageError, match="interrupted"):
            store.commit([w.history()])


# -- one owner --


def test_another_process_is_told_who_uses_the_farm(database: Path) -> None:
    code = (
        "import sys\n"
        "from farm.model.errors import StorageError\n"
        "from farm.storage.sqlite import SqliteStore\n"
        "try:\n"
        "    SqliteStore(sys.argv[1])\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(database)]
    with SqliteStore(database):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert f"{database} is in use by another broker (process {os.getpid()})" in done.stdout
    free = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (free.returncode, free.stdout, free.stderr) == (0, "", "")


def test_another_program_that_writes_is_waited_for_then_named(database: Path) -> None:
    w = Writer(1000, 50)
    other = sqlite3.connect(database, isolation_level=None)
    try:
        with SqliteStore(database, busy_s=0.05) as store:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match=r"farm\.db is in use by another program"):
                store.commit([w.history()])
            other.execute("ROLLBACK")
            assert store.history(0, 0, 10) == []
    finally:
        other.close()


# -- places where no database may live --


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /mnt rw - tmpfs tmpfs rw
31 30 0:41 / {point} rw,relatime shared:2 master:1 - {kind} server:/export rw,vers=4.2
32 31 0:42 / {point}/local rw - ext4 /dev/sdb rw
"""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "lustre", "fuse.glusterfs"]
)
def test_network_file_systems_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    share = tmp_path / "a share"
    (share / "local").mkdir(parents=True)
    (tmp_path / "a share too").mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(point=str(share).replace(" ", "\\040"), kind=kind), encoding="utf-8")
    monkeypatch.setattr(ground, "MOUNTS", mounts)
    with pytest.raises(StorageError, match=rf"a share/farm is on a network file system \({kind}\)") as caught:
        SqliteStore(share / "farm" / "farm.db")
    assert "XDG_STATE_HOME" in caught.value.hint
    assert list((share / "farm").iterdir()) == []
    link = tmp_path / "link"
    link.symlink_to(share)
    with pytest.raises(StorageError, match="network"):
        SqliteStore(link / "farm.db")
    # Next to it, below it on a disk of its own, and under a name that only begins alike: all local.
    for folder in (tmp_path, share / "local", tmp_path / "a share too"):
        SqliteStore(folder / "farm.db").close()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.gocryptfs", "9p"])
def test_local_file_systems_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 254:0 / / rw shared:1 - {kind} none rw\n", encoding="utf-8")
    monkeypatch.setattr(ground, "MOUNTS", mounts)
    assert ground.file_system(tmp_path) == kind
    SqliteStore(tmp_path / "farm.db").close()


def test_of_two_mounts_on_one_point_the_later_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 0:1 / / rw - nfs a rw\n2 1 0:2 / / rw - ext4 b rw\n", encoding="utf-8")
    monkeypatch.setattr(ground, "MOUNTS", mounts)
    assert ground.file_system(tmp_path) == "ext4"


def test_where_the_kernel_does_not_say_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground, "MOUNTS", tmp_path / "none")
    assert ground.file_system(tmp_path) == ""
    SqliteStore(tmp_path / "farm.db").close()


# -- files that are no farm's --


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    text = b"this is the diary of a render wrangler\n" * 300
    path.write_bytes(text)
    with pytest.raises(StorageError, match=r"farm\.db is not a database"):
        SqliteStore(path)
    assert path.read_bytes() == text


def test_a_damaged_database_is_refused_or_says_so_when_read(database: Path) -> None:
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    with pytest.raises(StorageError, match=r"farm\.db is damaged"):
        SqliteStore(database)
    # Only the rows of the journal: the schema reads well, the rows must not.
    database.write_bytes(whole)
    with sqlite3.connect(database) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'journal'").fetchone()
    db.close()
    page = int.from_bytes(whole[16:18], "big")
    database.write_bytes(whole[: page * (root - 1)] + b"\xa5" * page + whole[page * root :])
    with SqliteStore(database) as store, pytest.raises(StorageError, match="damaged"):
        list(store.replay(0))


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"not a farm's: it holds .*bookmarks"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused_by_name(database: Path) -> None:
    with sqlite3.connect(database) as db:
        db.execute("UPDATE alembic_version SET version_num = '0999'")
    db.close()
    before = database.read_bytes()
    with pytest.raises(StorageError, match=r"newer version of Overcrank: its schema is 0999"):
        SqliteStore(database)
    assert database.read_bytes() == before
    assert sorted(entry.name for entry in database.parent.iterdir()) == ["farm.db", "farm.db.lock"]


def test_an_empty_file_becomes_a_farm(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    path.touch()
    with SqliteStore(path) as store:
        store.commit(Writer().ground())


def test_a_log_without_its_database_is_not_played_into_a_new_one(database: Path) -> None:
    w = Writer(1000, 50)
    kept = database.with_name("kept-wal")
    with SqliteStore(database) as store:
        store.commit([w.history()])
        shutil.copy(database.with_name("farm.db-wal"), kept)
    database.unlink()
    kept.rename(database.with_name("farm.db-wal"))
    with pytest.raises(StorageError, match=r"missing or empty, but farm\.db-wal holds changes"):
        SqliteStore(database)
    assert not database.exists()


@pytest.mark.parametrize("inside", [False, True])
def test_a_folder_where_a_file_should_be_is_refused(tmp_path: Path, inside: bool) -> None:
    path = tmp_path / "farm.db"
    if inside:
        path.write_bytes(b"")
        path = path / "farm.db"  # its folder is a file
    else:
        path.mkdir()
    with pytest.raises(StorageError, match=r"farm\.db"):
        SqliteStore(path)


def test_a_folder_without_permission_is_named() -> None:
    # Not below pytest's folder: that one is closed to others, and root is let in everywhere.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    code = (
        "import sys\n"
        "from farm.model.errors import StorageError\n"
        "from farm.storage.sqlite import SqliteStore\n"
        "if sys.argv[2] == 'drop':\n"
        "    import os\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for name in ('farm.db', 'below/farm.db'):\n"
        "    try:\n"
        "        SqliteStore(sys.argv[1] + '/' + name)\n"
        "    except StorageError as error:\n"
        "        print(error)\n"
    )
    try:
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder), "drop" if os.geteuid() == 0 else "keep"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.splitlines() == [
            f"{folder}/farm.db.lock cannot be opened: Permission denied",
            f"{folder}/below cannot be made: Permission denied",
        ], done.stderr
    finally:
        folder.chmod(0o700)
        folder.rmdir()


def test_refusals_leave_no_descriptor_and_no_lock_behind(tmp_path: Path, database: Path) -> None:
    good = database.read_bytes()
    before = descriptors()
    for spoiled in (b"not a database" * 100, good[:100] + b"\xa5" * (len(good) - 100)):
        database.write_bytes(spoiled)
        for _ in range(3):
            with pytest.raises(StorageError):
                SqliteStore(database)
    database.write_bytes(good)
    with SqliteStore(database) as store:
        assert len(store.recent_leases(99)) == 50
        with pytest.raises(StorageError):
            SqliteStore(database)
    assert descriptors() == before


def test_a_follower_leaves_the_log_to_the_broker(tmp_path: Path) -> None:
    path, w = tmp_path / "farm.db", Writer()
    with SqliteStore(path) as store:
        store.commit(w.ground())
        follower = open_follower("", path)
        assert follower.step_named(1, "beauty") == (1, 1000)
        follower.close()
        follower.close()
        lease = w.lease()
        store.commit([lease])
        again = open_follower("", path)
        assert again.told_after({1: 0}).rows == {1: [lease]}
        assert isinstance(again, SqliteFollower)
        with pytest.raises(StorageError, match="opened for reading"):
            again.commit([w.lease()])
        again.close()
    with pytest.raises(StorageError, match="there is no database"):
        open_follower("", tmp_path / "none.db")

"""PostgreSQL as the farm's store: a real server, what only a server can do wrong, what must not be told."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, pool

from farm.broker.ports import Store
from farm.model.errors import StorageError
from farm.storage import opening, postgres
from farm.storage.opening import open_store
from farm.storage.postgres import PostgresStore, label_of
from farm.storage.schema import build
from farm.storage.sqlite import SqliteStore
from tests.support.postgres import PostgresServer
from tests.support.waiting import eventually
from tests.unit.storage.conformance import StoreConformance
from tests.unit.storage.conformance_compaction import CompactionConformance, Worlds
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import Opens, replayed

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server with a template of an empty farm."""
    server = PostgresServer()
    try:
        server.start()
        template = server.make_database()
        PostgresStore(template).close()
        yield server
    finally:
        server.close()


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """An empty farm's address."""
    url = server.make_database("farm1")
    yield url
    # Else a crash of the server would have to look at all of them.
    server.drop_database(url)


@pytest.fixture
def worlds(server: PostgresServer, url: str) -> Worlds:
    """The same database, emptied each time."""

    def make() -> Opens:
        names = "journal segments jobs steps job_states step_edits policies history node_maps step_maps"
        names += " shelf deleted meta"
        with server.connection(urlsplit(url).path.strip("/")) as connection:
            connection.execute(f"TRUNCATE {names.replace(' ', ', ')}, checkpoints")
        return lambda: PostgresStore(url)

    return make


class TestPostgresStore(StoreConformance):
    @pytest.fixture
    def opens(self, url: str) -> Callable[[], Store]:
        return lambda: PostgresStore(url, wait_s=0.0)

    @pytest.fixture
    def fresh(self, worlds: Worlds) -> Callable[[], Store]:
        return lambda: worlds()()


class TestPostgresCompaction(CompactionConformance):
    """With the fixtures of this module."""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# -- durability --


def test_the_connection_is_set_for_durability(url: str) -> None:
    with PostgresStore(url) as store:
        for name, value in (
            ("synchronous_commit", "on"),
            ("fsync", "on"),
            ("default_transaction_isolation", "serializable"),
        ):
            assert store._query(f"SHOW {name}") == [(value,)]


def test_what_was_acknowledged_survives_a_crash_of_the_server(server: PostgresServer, url: str) -> None:
    w = Writer()
    ground, first = w.ground(), w.batch(20)
    store = PostgresStore(url)
    store.commit(ground)
    store.commit(first)
    store.commit([w.node_map(), w.step_map(), w.checkpoint()])
    second = w.batch(20)
    store.commit(second)
    server.crash()
    try:
        with pytest.raises(StorageError, match=r"cannot be reached"):
            store.commit(w.batch(1))
        with pytest.raises(StorageError, match="no more changes since a commit failed"):
            store.commit(w.batch(1))
        store.close()
        with pytest.raises(StorageError, match="cannot be opened") as caught:
            PostgresStore(url)
        assert "is the database server running" in caught.value.hint
        assert server.password not in str(caught.value)
    finally:
        server.start()
    with PostgresStore(url) as again:
        assert replayed(again) == [*ground, *first, *second]
        last = w.batch(1)
        again.commit(last)
        assert replayed(again, again.load().after) == [*second, *last]


def test_a_connection_that_is_cut_in_the_middle_of_a_commit_leaves_nothing(
    server: PostgresServer, url: str
) -> None:
    w = Writer()
    store = PostgresStore(url)
    ground = w.ground()
    store.commit(ground)
    ((pid,),) = store._query("SELECT pg_backend_pid()")

    def cutting() -> Iterator[tuple[str, list[object]]]:
        yield "INSERT INTO meta (name, value) VALUES (?, ?)", [("first", "x"), ("half", "done")]
        with server.connection() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        yield "INSERT INTO meta (name, value) VALUES (?, ?)", [("other", "half")]

    with pytest.raises(StorageError, match="cannot be reached"):
        store._write(cutting())
    store.close()
    with PostgresStore(url) as again:
        assert [again.meta(name) for name in ("first", "half", "other")] == [None] * 3
        assert replayed(again) == ground


def test_a_commit_of_what_happens_all_the_time_is_one_row(url: str) -> None:
    w = Writer()
    with PostgresStore(url) as store:
        store.commit(w.ground())
        ((before,),) = store._query("SELECT count(*) FROM journal")
        store.commit([*w.batch(40), w.bulk(), w.meter(), w.node(), w.stale()])
        assert store._query("SELECT count(*) FROM journal") == [(before + 1,)]


def test_a_zero_byte_in_what_people_wrote_stops_no_broker(url: str) -> None:
    # PostgreSQL's text cannot hold it; SQLite's can.
    w = Writer()
    with PostgresStore(url) as store:
        store.commit([w.history(reason="a\0b")])
        assert store.history(0, 0, 1)[0].reason == "a\ufffdb"


# -- the schema --


def test_migrations_lead_to_the_metadata(url: str, server: PostgresServer) -> None:
    name = urlsplit(url).path.strip("/")
    with server.connection(name) as raw:
        raw.autocommit = False
        engine = create_engine("postgresql+psycopg://", creator=lambda: raw, poolclass=pool.StaticPool)
        with engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), build()) == []
        engine.dispose()


def test_another_programs_database_is_refused_and_left_alone(server: PostgresServer) -> None:
    url = server.make_database()
    name = urlsplit(url).path.strip("/")
    with server.connection(name) as raw:
        raw.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(StorageError, match="not a farm's: it holds bookmarks"):
        PostgresStore(url)
    with server.connection(name) as raw:
        found = raw.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'")
        assert found.fetchone() == (1,)


def test_a_database_of_a_newer_version_is_refused_by_name(server: PostgresServer, url: str) -> None:
    with server.connection(urlsplit(url).path.strip("/")) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(StorageError, match=r"newer version of Overcrank: its schema is 0999"):
        PostgresStore(url)


# -- one owner --


def test_a_broker_that_was_killed_lets_go_by_itself(url: str) -> None:
    code = (
        "import sys, time\n"
        "from farm.storage.postgres import PostgresStore\n"
        "store = PostgresStore(sys.argv[1])\n"
        "print('mine', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "mine\n"
        with pytest.raises(
            StorageError, match=r"in use by another broker \(server process \d+, from 127"
        ) as caught:
            PostgresStore(url, wait_s=0.0)
        assert urlsplit(url).password not in str(caught.value)
        child.send_signal(signal.SIGKILL)
    PostgresStore(url).close()


def test_who_just_ends_is_waited_for(url: str) -> None:
    first = PostgresStore(url)
    ending = threading.Timer(0.3, first.close)
    ending.start()
    try:
        PostgresStore(url, wait_s=30).close()
    finally:
        ending.join()


def test_farms_in_databases_of_their_own_do_not_meet(server: PostgresServer, url: str) -> None:
    with PostgresStore(url), PostgresStore(server.make_database("farm1")):
        pass


# -- what is refused, and what is told --


def test_a_wrong_password_and_a_missing_database_are_named(server: PostgresServer) -> None:
    wrong = server.url("farm1").replace(server.password, "Tr0ub4dor&3".replace("&", "%26"))
    with pytest.raises(StorageError, match="cannot be opened") as caught:
        PostgresStore(wrong)
    assert "Tr0ub4dor" not in str(caught.value)
    with pytest.raises(StorageError, match="cannot be opened"):
        PostgresStore(server.url("nowhere"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://ana:s3cret@db.example:5433/farm?sslmode=require",
            "postgresql://ana@db.example:5433/farm",
        ),
        ("postgresql:///farm", "postgresql:///farm"),
        ("postgres://[::1]:5432/farm", "postgresql://[::1]:5432/farm"),
        ("postgresql://ana:s3cret@db:notaport/farm", "postgresql://(an address that cannot be read)"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert label_of(url) == shown


def test_an_address_that_cannot_be_read_keeps_its_secret() -> None:
    pytest.importorskip("psycopg")
    for url in (
        "postgresql://ana:s3cret@db:notaport/farm",
        "postgresql://ana:s3cret@127.0.0.1:1/farm?nonsense=1",
        "postgresql://ana:s3cret@/farm?host=/nowhere",
    ):
        with pytest.raises(StorageError) as caught:
            PostgresStore(url, connect_s=2)
        assert "s3cret" not in str(caught.value) + caught.value.hint


def test_the_option_chooses_the_database(tmp_path: Path, url: str) -> None:
    for database, kind in (("", SqliteStore), (url, PostgresStore)):
        store = open_store(database, tmp_path / "farm.db")
        assert isinstance(store, kind)
        store.close()


@pytest.mark.parametrize(
    ("database", "named"),
    [
        ("mysql://db/farm", "mysql:// databases"),
        ("sqlite:///farm.db", "sqlite:// databases"),
        ("/srv/farm.db", "a database '/srv/farm.db'"),
        ("postgresql", "a database 'postgresql'"),
    ],
)
def test_databases_no_farm_can_use_are_refused_by_name(tmp_path: Path, database: str, named: str) -> None:
    with pytest.raises(StorageError, match=f"cannot use {named}"):
        opening.open_store(database, tmp_path / "farm.db")
    assert not list(tmp_path.iterdir())


def test_a_follower_sees_what_is_committed_and_changes_nothing(url: str, tmp_path: Path) -> None:
    w = Writer()
    with PostgresStore(url) as store:
        store.commit(w.ground())
        follower = opening.open_follower(url, tmp_path)
        assert follower.step_named(1, "beauty") == (1, 1000)
        lease = w.lease()
        store.commit([lease])
        assert follower.told_after({1: 0}).rows == {1: [lease]}
        later = w.lease()
        store.commit([later, w.checkpoint()])
        store.compact(1000)
        assert list(follower.segments_after(1, 0, 9))[-1][1][-1] == later
        assert isinstance(follower, PostgresStore)
        with pytest.raises(StorageError, match="opened for reading"):
            follower.commit([w.lease()])
        follower.close()


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match="needs the driver psycopg") as caught:
        postgres.PostgresStore("postgresql://db/farm")
    assert caught.value.hint == "pip install 'overcrank[postgres]'"


def test_refusals_leave_no_connection_behind(server: PostgresServer, url: str) -> None:
    with PostgresStore(url):
        before = descriptors()
        for _ in range(3):
            with pytest.raises(StorageError):
                PostgresStore(url, wait_s=0.0)
        assert descriptors() == before

    def ours() -> int:
        with server.connection() as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'overcrank broker'"
            return int(connection.execute(asked).fetchone()[0])

    eventually(lambda: ours() == 0, "the server forgets our connections")

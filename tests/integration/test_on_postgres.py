"""A farm with its state in PostgreSQL: server and broker die at their worst moments, nothing is lost."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from farm.storage.tables import TABLES
from tests.support.farmhouse import Farmhouse
from tests.support.postgres import PostgresServer
from tests.support.truth import (
    Ledger,
    Renders,
    assert_exactly_once,
    expected_names,
    folder_names,
)
from tests.support.waiting import eventually


class ServerLedger(Ledger):
    """A farm's database on a server, looked at as if it were a file."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        super().__init__(Path(name))
        self._server = server
        self._name = name

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A copy of it, taken in one moment."""
        copied = {table.name: table.columns for table in TABLES}
        copied |= {"journal": ("id", "blob"), "segments": ("id", "blob")}
        with (
            self._server.connection(self._name) as server,
            contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db,
        ):
            server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for name, columns in copied.items():
                listed = ", ".join(f'"{column}"' for column in columns)
                db.execute(f"CREATE TABLE {name} ({listed})")
                marks = ", ".join("?" * len(columns))
                for row in server.execute(f"SELECT {listed} FROM {name}"):
                    db.execute(f"INSERT INTO {name} VALUES ({marks})", row)
            yield db


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, since it will be killed."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def house(
    server: PostgresServer, new_house: Callable[..., Farmhouse], monkeypatch: pytest.MonkeyPatch
) -> Farmhouse:
    """A farm with two nodes, its state on the server."""
    parts = urlsplit(server.make_database())
    monkeypatch.setenv("PGPASSWORD", server.password)
    place = f"postgresql://{parts.username}@{parts.hostname}:{parts.port}{parts.path}"
    made = new_house(broker_flags=("--database", place))
    made.agent("a")
    made.agent("b")
    made.wait_online()
    return made


@pytest.mark.slow
def test_server_and_broker_killed_while_frames_are_rendered(
    house: Farmhouse, server: PostgresServer, renders: Renders
) -> None:
    ledger = ServerLedger(server, "farm1")
    number = house.admin.submit(renders.job("1-60", chunk=3, takes_s=0.02)).job

    def reach(count: int) -> None:
        eventually(lambda: renders.published() >= count, f"{count} frames published")

    def log() -> Any:
        return house.broker.text()

    # The database dies under the broker, which goes on by itself once it is back.
    reach(5)
    server.crash()
    eventually(lambda: "storage-failed" in log(), "the broker notices")
    server.start()
    reach(15)
    # The broker dies; the new one takes over the lock of the dead one.
    house.restart_broker()
    reach(25)
    # Both at once.
    house.broker.kill()
    server.crash()
    server.start()
    house.start_broker()
    reach(35)
    # The database restarts between two looks of the broker.
    server.crash()
    server.start()
    house.wait_job(number)

    assert_exactly_once(ledger, number, renders.pattern, "1-60")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-60")
    frames = house.admin.frames(f"J{number}", limit=5000).steps["render"]
    assert sum(frame.cost_nano for frame in frames) == house.job(number).spend_nano
    before = house.job(number)
    house.restart_broker()
    assert house.job(number) == before, "the same job from the same rows"
    assert server.password not in log()
    assert not house.database.exists(), "no file besides"

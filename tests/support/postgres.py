"""A real PostgreSQL server of the tests' own: made in a temporary folder, fsync on, gone afterwards.

What belongs here: its life (start, crash, stop) and databases in it.  The server refuses to run as root, so
root starts it as the user ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.managed import reserve_ports
from tests.support.real import require

CURE = "install PostgreSQL (apt-get install postgresql) and psycopg (pip install 'overcrank[postgres]')"
USER = "overcrank"


def programs() -> Path | None:
    """The folder with initdb and pg_ctl of the newest version installed."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).parent]
    return max(found, key=_version, default=None)


def _version(folder: Path) -> list[int]:
    return [int(number) for number in folder.parent.name.split(".") if number.isdigit()]


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        return None
    return psycopg


class PostgresServer:
    """A server.

    Attributes:
        password: Of its only user.
    """

    def __init__(self) -> None:
        self._bin = programs()
        require(self._bin and _driver(), "a PostgreSQL server and its driver", CURE)
        assert self._bin is not None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            name = next((name for name in ("postgres", "nobody") if _known(name)), "")
            require(name, "a user to run a database server as", "add the user postgres")
            account = pwd.getpwnam(name)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        # Not below pytest's folder: that one is closed to other users, and its path too long for a socket.
        self._folder = Path(tempfile.mkdtemp(prefix="overcrank-pg-", dir="/tmp"))
        self.password = secrets.token_hex(12)
        # Kept while it is down for a moment, too.
        ((self.port, self._reserved),) = reserve_ports(1)
        secret = self._folder / "password"
        secret.write_text(self.password + "\n", encoding="ascii")
        if self._as:
            for path in (self._folder, secret):
                os.chown(path, self._as["user"], self._as["group"])
        access = ("-U", USER, "-A", "scram-sha-256", "--pwfile=password")
        self._run("initdb", "-D", "data", "-E", "UTF8", "--no-sync", *access)
        self._databases = 0

    def _run(self, program: str, *arguments: str) -> None:
        assert self._bin is not None
        done = subprocess.run(
            [self._bin / program, *arguments],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            **self._as,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}"

    def start(self) -> None:
        """Starts it; returns once it takes connections."""
        flags = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._folder} -c max_connections=40"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", "60", "-o", flags, "start")

    def crash(self) -> None:
        """Ends it as a crash would: no checkpoint, every connection cut; the next start recovers."""
        self._run("pg_ctl", "-D", "data", "-w", "-t", "60", "-m", "immediate", "stop")

    def close(self) -> None:
        """Ends it and removes all it made."""
        with contextlib.suppress(AssertionError):
            self.crash()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._reserved.close()

    def url(self, database: str) -> str:
        """Address of a database."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    @contextlib.contextmanager
    def connection(self, database: str = "postgres") -> Iterator[Any]:
        """A connection of our own."""
        with _driver().connect(self.url(database), autocommit=True) as connection:
            yield connection

    def drop_database(self, url: str) -> None:
        """Removes a database, whoever uses it."""
        with self.connection() as connection:
            connection.execute(f"DROP DATABASE {urlsplit(url).path.strip('/')} WITH (FORCE)")

    def make_database(self, like: str = "template0") -> str:
        """Makes a new database, a copy of another; returns its address."""
        self._databases += 1
        name = f"farm{self._databases}"
        with self.connection() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like}")
        return self.url(name)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

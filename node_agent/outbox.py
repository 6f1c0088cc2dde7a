"""The durable outbox: reports the farm has not acknowledged, and what this agent has begun.

What belongs here: one SQLite file in the agent's state folder.  What it may not know: sockets, threads of
others, what a report means.

Durability.  The file is in WAL mode.  A report survives the end of the agent by any signal as soon as
``put`` returns, whatever the synchronous setting, because the write has reached the kernel.  Against a
power cut two cases differ.  While the broker answers, a report is acknowledged (and durable there)
within milliseconds; if the power goes in between, the broker sees a new agent without the attempt and
leases its frames again: some work is repeated, nothing false is ever told.  That is ``synchronous=NORMAL``
and costs no disk flush for a chunk.  While the broker is away results may have to wait for hours: then
``put`` flushes (``durable=True``), and ``harden`` flushes what was written before the line was cut.

Numbers count up for ever: they are reserved in blocks that are flushed before any number of the block is
used, so that no crash makes a number come twice.

That an attempt has begun is written at once when it owns folders, which the next start must find.  Without
any it is written with the next report or by ``tidy``, within seconds: a start that finds no word of it kills
its processes by their tag all the same, and the broker misses it in the hello and leases its frames again.

A full or broken disk does not lose a report: it stays in memory, ``trouble`` says what is wrong, and every
later call tries again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from farm.model.errors import StorageError
from farm.model.reports import UnitReport
from farm.protocol.agent import ReportMsg
from farm.protocol.codec import encode

log = logging.getLogger("overcrank.agent")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (n INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS begun (attempt INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""
#: Numbers reserved at once.
BLOCK = 1 << 20
#: So many acknowledged reports may lie in the file while new ones come.
ACKED_MOST = 32
_SET_NEXT = "INSERT OR REPLACE INTO meta VALUES ('next', ?)"
_PUT = "INSERT OR REPLACE INTO report VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM report WHERE n = ?"
_FULL, _NORMAL = "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"


class Begun(msgspec.Struct, frozen=True):
    """An attempt this agent has begun and not closed, or whose files it keeps for adoption.

    Attributes:
        attempt: Attempt id.
        nonce: The lease's nonce.
        job: Job number.
        step: Step name.
        no: Attempt number within the step.
        units: Unit indices leased.
        folders: The attempt's own folders (absolute paths).
        kept: Units whose verified files stay there until they are adopted or discarded; with any, the
            attempt is closed.
    """

    attempt: int
    nonce: int
    job: int
    step: str
    no: int
    units: tuple[int, ...] = ()
    folders: tuple[str, ...] = ()
    kept: tuple[int, ...] = ()


_DECODE_REPORT = msgspec.msgpack.Decoder(ReportMsg).decode
_DECODE_BEGUN = msgspec.msgpack.Decoder(Begun).decode


class Outbox:
    """Reports not acknowledged yet and attempts begun; safe to use from several threads.

    Reads come from memory, so that the thread of the heartbeat never waits for a disk.
    """

    def __init__(self, path: Path) -> None:
        """Opens (or makes) the outbox.

        Raises:
            StorageError: The folder cannot be used, or the file is no outbox.
        """
        self.path = path
        self._disk = threading.RLock()
        self._memory = threading.Lock()
        self._reports: dict[int, tuple[int, bytes]] = {}
        self._begun: dict[int, Begun] = {}
        self._unsaved: set[int] = set()
        self._unsaved_begun: set[int] = set()
        self._begun_on_disk: set[int] = set()
        self._ended: set[int] = set()
        self._acked: set[int] = set()
        self._soft = False
        self.trouble = ""
        self.farm_id = ""
        self._next = 1
        self._limit = 1
        self._open()

    # -- opening --

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10.0, cached_statements=32
            )
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"the agent's outbox {self.path} cannot be opened: {error}") from error
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(_FULL)
            self._db.executescript(_SCHEMA)
            self._load()
            self._reserve()
            self._db.execute(_NORMAL)
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            self._db.close()
            raise StorageError(
                f"the agent's outbox {self.path} cannot be read: {error}",
                hint="free space on its disk; if the file is damaged move it away, its results are lost",
            ) from error

    def _load(self) -> None:
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        self.farm_id = meta.get("farm_id", "")
        self._next = int(meta.get("next", "1"))
        self._limit = self._next
        for n, attempt, body in self._db.execute("SELECT n, attempt, body FROM report ORDER BY n"):
            self._reports[n] = (attempt, body)
        for attempt, body in self._db.execute("SELECT attempt, body FROM begun ORDER BY attempt"):
            self._begun[attempt] = _DECODE_BEGUN(body)
            self._begun_on_disk.add(attempt)

    def _reserve(self) -> None:
        limit = self._next + BLOCK
        self._db.execute(_SET_NEXT, (str(limit),))
        self._limit = limit

    def join(self, farm_id: str) -> None:
        """Says which farm this outbox belongs to from now on."""
        if farm_id == self.farm_id:
            return
        self.farm_id = farm_id
        with self._writing(durable=True) as db:
            if db is not None:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('farm_id', ?)", (farm_id,))

    def set_aside(self) -> Path | None:
        """Puts the outbox of another farm away and starts an empty one; returns where it lies now.

        Its reports are never applied to the farm that answers now.  Numbers go on counting.  An outbox
        without a report leaves nothing behind.
        """
        with self._disk:
            following, reports = self._next, len(self._reports)
            with contextlib.suppress(sqlite3.Error):
                self._flush(durable=True)
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            aside = None
            try:
                if reports:
                    aside = self._free_name()
                    os.rename(self.path, aside)  # noqa: PTH104
                else:
                    self.path.unlink(missing_ok=True)
                for suffix in ("-wal", "-shm"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"the outbox {self.path} cannot be set aside: {error}") from error
            with self._memory:
                self._reports.clear()
                self._begun.clear()
                for numbers in (
                    *(self._unsaved, self._unsaved_begun, self._begun_on_disk),
                    *(self._ended, self._acked),
                ):
                    numbers.clear()
            self.farm_id = ""
            self._open()
            self._next = max(self._next, following)
            self._limit = min(self._limit, self._next)
            self._save(durable=True, force=True)
            return aside

    def _free_name(self) -> Path:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        farm = "".join(c for c in self.farm_id if c.isalnum() or c in "-_")[:40] or "unknown"
        for number in range(1000):
            name = self.path.with_name(f"aside-{farm}-{stamp}{f'-{number}' if number else ''}.db")
            if not name.exists():
                return name
        raise StorageError(f"no free name beside {self.path} to set the outbox aside")

    # -- reports --

    def put(
        self,
        attempt: int,
        nonce: int,
        units: tuple[UnitReport, ...] = (),
        *,
        closed: bool = False,
        kept: tuple[int, ...] = (),
        durable: bool = False,
    ) -> tuple[int, bytes]:
        """Writes a report down; returns its number and encoded message.

        A closing report ends the attempt's entry in the same transaction, unless files are kept.

        Args:
            attempt: Attempt id.
            nonce: The lease's nonce.
            units: Outcomes.
            closed: Nothing of the attempt runs any more.
            kept: Units whose files stay in the attempt's folder.
            durable: Flush to the disk before returning (the broker is away).
        """
        with self._disk:
            with self._memory:
                n = self._next
                self._next += 1
                body = encode(ReportMsg(n, attempt, nonce, units, closed, kept))
                self._reports[n] = (attempt, body)
                self._unsaved.add(n)
                if closed:
                    self._end(attempt, kept)
            self._save(durable=durable)
            return n, body

    def _end(self, attempt: int, kept: tuple[int, ...]) -> None:
        begun = self._begun.get(attempt)
        if begun is None:
            return
        if kept:
            self._begun[attempt] = msgspec.structs.replace(begun, kept=kept)
            self._unsaved_begun.add(attempt)
        else:
            self._forget_begun(attempt)

    def _forget_begun(self, attempt: int) -> None:
        if self._begun.pop(attempt, None) is not None:
            self._unsaved_begun.discard(attempt)
            if attempt in self._begun_on_disk:
                self._ended.add(attempt)

    def ack(self, numbers: Iterable[int]) -> None:
        """The farm has these reports: forget them.  Touches no disk; ``tidy`` or a later put does."""
        with self._memory:
            for n in numbers:
                if self._reports.pop(n, None) is None:
                    continue
                if n in self._unsaved:
                    self._unsaved.discard(n)
                else:
                    self._acked.add(n)

    def pending(self) -> list[tuple[int, int, bytes]]:
        """Reports not acknowledged: number, attempt and encoded message, oldest first."""
        with self._memory:
            return [(n, attempt, body) for n, (attempt, body) in sorted(self._reports.items())]

    def pending_attempts(self) -> tuple[int, ...]:
        """Attempts with such reports."""
        with self._memory:
            return tuple(dict.fromkeys(attempt for attempt, _ in self._reports.values()))

    def __len__(self) -> int:
        return len(self._reports)

    # -- attempts begun --

    def begin(self, begun: Begun) -> str:
        """Writes down that an attempt is begun; returns what is wrong with the disk, "" if nothing."""
        soon = not begun.folders and not begun.kept
        if soon and not self.trouble:
            with self._memory:
                self._note_begun(begun)
            return ""
        with self._disk:
            with self._memory:
                self._note_begun(begun)
            self._save(durable=False)
            return self.trouble

    def _note_begun(self, begun: Begun) -> None:
        self._begun[begun.attempt] = begun
        self._ended.discard(begun.attempt)
        self._unsaved_begun.add(begun.attempt)

    def discard(self, attempt: int) -> None:
        """Kept files were adopted or deleted: forget the attempt."""
        with self._disk:
            with self._memory:
                self._forget_begun(attempt)
            self._save(durable=False)

    def begun(self) -> list[Begun]:
        """Attempts begun and not closed, and those with kept files."""
        with self._memory:
            return list(self._begun.values())

    def find_begun(self, attempt: int) -> Begun | None:
        """The entry of one attempt."""
        return self._begun.get(attempt)

    # -- writing --

    def harden(self) -> None:
        """Flushes what is only in the kernel's memory: the broker went away."""
        with self._disk:
            if (self._soft or self._unsaved_begun) and (self._reports or self._begun):
                self._save(durable=True, force=True)

    def tidy(self) -> None:
        """Removes what was acknowledged and retries what could not be written."""
        with self._disk:
            if self._acked or self._unsaved or self._unsaved_begun or self._ended:
                self._save(durable=False)

    def close(self) -> None:
        """Writes what is left and closes the file."""
        with self._disk:
            self._save(durable=True, force=bool(self._reports))
            self._db.close()

    def _save(self, *, durable: bool, force: bool = False) -> None:
        try:
            self._flush(durable=durable, force=force)
        except sqlite3.Error as error:
            if not self.trouble:
                log.error("event=outbox-trouble path=%s error=%s", self.path, error)
            self.trouble = f"the disk of the agent's state ({self.path.parent}): {error}"
        else:
            if self.trouble:
                log.info("event=outbox-well path=%s", self.path)
            self.trouble = ""

    def _flush(self, *, durable: bool, force: bool = False) -> None:
        """Writes what memory has and the disk has not.

        Only ``ack`` changes the memory meanwhile; what it acknowledged while it was being written is
        left for the next removal.
        """
        with self._memory:
            unsaved = self._unsaved
            reports = [(n, *self._reports[n]) for n in (sorted(unsaved) if len(unsaved) > 1 else unsaved)]
            begun = [(a, msgspec.msgpack.encode(self._begun[a])) for a in self._unsaved_begun]
            ended = list(self._ended)
            # Removed now and then, or by ``tidy``: one that is sent again after a crash changes nothing.
            acked = list(self._acked) if force or not unsaved or len(self._acked) >= ACKED_MOST else []
            reserve = self._next >= self._limit
            limit = self._next + BLOCK if reserve or force else self._limit
        if not (reports or begun or acked or ended or reserve or force):
            return
        durable = durable or reserve
        if len(reports) == 1 and not (acked or begun or ended or durable or force):
            self._db.execute(_PUT, reports[0])  # a transaction by itself
        else:
            with self._transaction(durable=durable) as db:
                if reserve or force:
                    db.execute(_SET_NEXT, (str(limit),))
                if acked:
                    db.executemany(_REMOVE, [(n,) for n in acked])
                if ended:
                    db.executemany("DELETE FROM begun WHERE attempt = ?", [(a,) for a in ended])
                if begun:
                    db.executemany("INSERT OR REPLACE INTO begun VALUES (?, ?)", begun)
                if reports:
                    db.executemany(_PUT, reports)
        with self._memory:
            self._limit = limit
            self._acked.difference_update(acked)
            self._ended.difference_update(ended)
            self._begun_on_disk.difference_update(ended)
            self._begun_on_disk.update(attempt for attempt, _ in begun)
            self._unsaved_begun.difference_update(attempt for attempt, _ in begun)
            for n, _, _ in reports:
                self._unsaved.discard(n)
                if n not in self._reports:
                    self._acked.add(n)
        self._soft = not durable

    @contextlib.contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        db = self._db
        if durable:
            db.execute(_FULL)
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
        finally:
            if durable:
                with contextlib.suppress(sqlite3.Error):
                    db.execute(_NORMAL)

    @contextlib.contextmanager
    def _writing(self, *, durable: bool) -> Iterator[sqlite3.Connection | None]:
        with self._disk:
            try:
                with self._transaction(durable=durable) as db:
                    yield db
            except sqlite3.Error as error:
                self.trouble = f"the disk of the agent's state ({self.path.parent}): {error}"


def decode_report(body: bytes) -> ReportMsg:
    """Reads a report as it lies in the outbox."""
    return _DECODE_REPORT(body)

"""Looks after a farm's database: is it sound, and a copy of it while the broker runs.

What belongs here: checks that need no broker, in words that say where.  What must not: changing the
database that is looked at (``farm.storage.mend`` makes another).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from farm.core import invariants
from farm.core.checkpoint import BEFORE_ALL, Stored, restore, restore_shelved
from farm.core.rows import AnyRow
from farm.core.state import Farm, Settings
from farm.core.sums import total
from farm.model.errors import OvercrankError, StorageError
from farm.model.states import UnitState
from farm.storage.ddl import HEAD
from farm.storage.ground import sync_folder
from farm.storage.journal import decode_rows, span_of
from farm.storage.leaving import INCOMPLETE
from farm.storage.sql import SqlStore
from farm.storage.sqlite import SqliteReader
from farm.storage.troubles import database_trouble, file_trouble

#: Problems of one kind that are told one by one.
TOLD_MOST = 20
_EMPTY_CURE = "put a backup in its place; without one a broker begins a new farm in it"
_NO_CHECKPOINT = Stored(None, [], [], [], 0)


class Health(msgspec.Struct):
    """What a check found.

    Attributes:
        database: Which.
        problems: What is wrong and where; none when it is sound.
        unfit: Why it was not checked though nothing of it is damaged: it is old, new or empty; else "".
        cure: What to do about that.
        jobs, steps, nodes: How many there are.
        rows: Rows of history and journal.
        checkpoint: ``seq`` of the checkpoint, None without one.
        last_seq: ``seq`` of the last row.
    """

    database: str
    problems: list[str] = []
    unfit: str = ""
    cure: str = ""
    jobs: int = 0
    steps: int = 0
    nodes: int = 0
    rows: int = 0
    checkpoint: int | None = None
    last_seq: int = 0

    def tell(self, found: Iterable[str]) -> bool:
        """Takes problems of one kind, the first ones by name; returns whether there were any."""
        problems = list(found)
        self.problems += problems[:TOLD_MOST]
        if len(problems) > TOLD_MOST:
            self.problems.append(f"... and {len(problems) - TOLD_MOST} more like it")
        return bool(problems)


def check_file(path: Path, *, quick: bool = False, owned: bool = False) -> Health:
    """Checks the farm's file; a broker may be running on it.

    Args:
        path: The file.
        quick: Leave out the replay of the whole history.
        owned: Whether the caller holds the file's lock.

    Raises:
        StorageError: There is none.
    """
    with SqliteReader(path, owned=owned) as store:
        health = Health(store.label)
        try:
            if path.stat().st_size == 0 and not store._log().exists():
                health.unfit, health.cure = "it is empty, and holds no farm", _EMPTY_CURE
                return health
            # One moment of it, however long the look takes.
            store._query("BEGIN")
            if health.tell(_file_problems(store)):
                return health
            return check_store(store, health, quick=quick)
        except StorageError as error:
            health.problems.append(str(error))
            return health


def check_server(url: str, *, quick: bool = False) -> Health:
    """Checks a database on a server; a broker may be running on it.

    Raises:
        StorageError: It cannot be reached.
    """
    from farm.storage.postgres import PostgresReader

    with PostgresReader(url) as store:
        health = Health(store.label)
        try:
            store._query("SELECT 1")
            return check_store(store, health, quick=quick)
        except StorageError as error:
            health.problems.append(str(error))
            return health


def _file_problems(store: SqlStore) -> Iterator[str]:
    for (verdict,) in store._query("PRAGMA integrity_check"):
        if verdict != "ok":
            yield f"the file: {verdict}"
    for table, row, other, _ in store._query("PRAGMA foreign_key_check"):
        yield f"{table}, row {row}: refers to nothing in {other}"


def check_store(store: SqlStore, health: Health, *, quick: bool = False) -> Health:
    """Checks rows: they decode, they are in order, they make a farm, and the checkpoint is that farm's."""
    revision = [row[0] for row in store._query("SELECT version_num FROM alembic_version")]
    if revision != [HEAD]:
        _tell_schema(health, revision)
        return health
    steps = {number for (number,) in store._query("SELECT id FROM steps")}
    health.steps = len(steps)
    health.jobs = store._query("SELECT count(*) FROM jobs")[0][0]
    broken = health.tell(_journal_problems(store, steps, health))
    broken = health.tell(_segment_problems(store, steps, health)) or broken
    if broken:
        return health
    image = store.load()
    health.last_seq = image.last_seq
    health.checkpoint = image.checkpoint.seq if image.checkpoint is not None else None
    health.tell(_holes(store, image))
    health.tell(text for _, text in unreadable(store))
    farm = rebuilt(image, store.replay(image.after), health, "the checkpoint and the rows after it")
    if farm is not None:
        health.tell(_sums_problems(store, farm))
        health.nodes = len(farm.nodes)
        whole = store.meta(INCOMPLETE) is None
        if not quick and whole and image.checkpoint is not None:
            _compare(store, image, farm, health)
    return health


def _tell_schema(health: Health, revision: list[str]) -> None:
    """Says what another schema than this version's means."""
    if len(revision) != 1:
        health.problems.append(f"it does not say which schema it has ({', '.join(revision) or 'none'})")
    elif revision[0] < HEAD:
        health.unfit = f"it is old: its schema is {revision[0]}, here it is {HEAD}"
        health.cure = "`farm db upgrade`, which keeps a copy; the broker does the same when it starts"
    else:
        health.unfit = f"it is of a newer version: its schema is {revision[0]}, here {HEAD} is known"
        health.cure = "install that version"


def rebuilt(
    image: Stored, rows: Iterable[AnyRow], health: Health, what: str, settings: Settings | None = None
) -> Farm | None:
    """The farm that rows make, None when they make none; what is wrong goes to ``health``."""
    at = [image.after]

    def counted() -> Iterator[AnyRow]:
        for row in rows:
            at[0] = row.seq
            yield row

    try:
        farm = restore(settings or Settings(), image, counted())
    except OvercrankError as error:
        health.problems.append(f"{what}: {error}")
        return None
    except Exception as error:  # rows that contradict each other fail in as many ways as there are
        health.problems.append(f"{what} make no farm: row {at[0]}: {type(error).__name__}: {error}")
        return None
    try:
        invariants.check(farm)
        invariants.check_money(farm)
    except invariants.Violation as error:
        health.problems.append(f"{what}: {error}")
        return None
    return farm


def _compare(store: SqlStore, image: Stored, farm: Farm, health: Health) -> None:
    again = from_history(store, image, health)
    if again is None:
        return
    for step in farm.steps.values():
        other = again.steps.get(step.id)
        if other is None or bytes(other.state) != bytes(step.state):
            health.problems.append(f"the checkpoint of {step.address} does not agree with its rows")
    if invariants.digest(farm) != invariants.digest(again) and not health.problems:
        health.problems.append("the checkpoint does not agree with the rows it was made from")


def from_history(store: SqlStore, image: Stored, health: Health) -> Farm | None:
    """The farm that all rows from the first on make, without the checkpoint."""
    everything = msgspec.structs.replace(_NO_CHECKPOINT, last_seq=image.last_seq)
    return rebuilt(everything, store.replay(BEFORE_ALL), health, "all rows from the first on")


def _journal_problems(store: SqlStore, steps: set[int], health: Health) -> Iterator[str]:
    settled = _settled(store)
    # What a checkpoint has settled may have been regrouped, up to some entry: no row is in both places.
    ((regrouped,),) = store._query("SELECT max(id) FROM segments WHERE id <= ?", (settled,))
    last = BEFORE_ALL if regrouped is None else regrouped
    # Rows of jobs that were deleted leave the journal when they are regrouped, later than their steps.
    gone = settled if store.meta(INCOMPLETE) is not None else BEFORE_ALL
    for number, seq_last, blob in store._query("SELECT id, seq_last, blob FROM journal ORDER BY id"):
        where = f"journal entry {number}"
        try:
            rows = decode_rows(blob, where)
        except StorageError as error:
            yield error.message
            continue
        health.rows += len(rows)
        seqs = [row.seq for row in rows]
        if not seqs or seqs[0] != number or seqs[-1] != seq_last or seqs != sorted(set(seqs)):
            yield f"{where}: its rows are not those numbered {number} to {seq_last}"
        if number <= last:
            yield f"{where}: begins before the one before it ends ({last})"
        last = max(last, seq_last)
        if number > gone:
            yield from _strays(rows, steps, where)


def _settled(store: SqlStore) -> int:
    """Number of the last row a checkpoint has settled."""
    seq = store._checkpoint_seq()
    return seq if seq is not None else BEFORE_ALL


def _segment_problems(store: SqlStore, steps: set[int], health: Health) -> Iterator[str]:
    named = "id, step_id, seq_first, unit_low, unit_high, rows, bulks"
    # Not all blobs at once: there may be years of them.
    for number, step_id, first, low, high, count, bulks in store._query(
        f"SELECT {named} FROM segments ORDER BY id"
    ):
        where = f"history segment {number}"
        ((blob,),) = store._query("SELECT blob FROM segments WHERE id = ?", (number,))
        try:
            rows = decode_rows(blob, where)
        except StorageError as error:
            yield error.message
            continue
        health.rows += len(rows)
        seqs = [row.seq for row in rows]
        if not seqs or (seqs[0], seqs[-1], len(seqs)) != (first, number, count) or seqs != sorted(set(seqs)):
            yield f"{where}: its rows are not the {count} from {first} to {number}"
        if any(getattr(row, "step_id", 0) != step_id for row in rows):
            yield f"{where}: it holds rows of another step than {step_id}"
        spans = [span for span in map(span_of, rows) if span is not None]
        if spans and (min(span[0] for span in spans) < low or max(span[1] for span in spans) > high):
            yield f"{where}: it concerns more units than {low} to {high}"
        if sum(hasattr(row, "fresh") for row in rows) != bulks:
            yield f"{where}: it does not hold {bulks} moves of many units"
        yield from _strays(rows, steps, where)


def unreadable(store: SqlStore) -> Iterator[tuple[int, str]]:
    """Jobs of the archive that cannot be looked at, or are not what was kept of them: number, and what."""
    nobody, before = Farm(Settings()), 0
    while page := store.shelved(before, "", (), 200):
        before = page[-1].job_id
        for row in page:
            where = f"J{row.job_id} in the archive"
            try:
                stored = store.shelved_job(row.job_id)
                assert stored is not None
                found = restore_shelved(nobody, stored)
            except StorageError:
                raise
            except Exception as error:  # rows that contradict each other fail in as many ways as there are
                yield row.job_id, f"{where} cannot be read: {type(error).__name__}: {error}"
                continue
            counts = found.jobs[row.job_id].counts()
            spend = sum(step.spend_nano for step in found.steps.values())
            figures = (counts[UnitState.DONE], counts[UnitState.FAILED], spend)
            if figures != (row.done, row.failed, row.spend_nano):
                yield row.job_id, f"{where} does not agree with its steps"


def _sums_problems(store: SqlStore, farm: Farm) -> Iterator[str]:
    """Sums of what is not in memory any more that its rows do not make."""
    for what, table, ledger in (
        ("archived", "shelf", farm.shelved.archived),
        ("deleted", "deleted", farm.shelved.deleted),
    ):
        ((count, spend),) = store._query(f"SELECT count(*), coalesce(sum(spend_nano), 0) FROM {table}")
        sums = total(ledger)
        waiting = 0
        if table == "shelf":
            # Deleted since the checkpoint: their rows are still there.
            ((waiting, more),) = store._query(
                "SELECT count(*), coalesce(sum(spend_nano), 0) FROM shelf"
                " WHERE EXISTS (SELECT 1 FROM deleted WHERE deleted.job_id = shelf.job_id)"
            )
            count, spend = count - waiting, int(spend) - int(more)
        if (count, int(spend)) != (sums.jobs, sums.spend_nano):
            yield f"{sums.jobs} {what} jobs cost {sums.spend_nano}, but there are {count} that cost {spend}"


def _strays(rows: Iterable[Any], steps: set[int], where: str) -> Iterator[str]:
    strays = {getattr(row, "step_id", 0) for row in rows} - steps - {0}
    if strays:
        yield f"{where}: refers to steps that are not there: {', '.join(map(str, sorted(strays)))}"


def _holes(store: SqlStore, image: Stored) -> Iterator[str]:
    """Numbers after the checkpoint that no row has: the rows that had them are gone.

    Before it there are holes by design: maps are replaced by later ones.
    """
    if image.checkpoint is None:
        return
    after = image.checkpoint.seq
    seen = [row.seq for row in store.replay(after)]
    seen += [row[0] for row in store._query("SELECT seq FROM history WHERE seq > ?", (after,))]
    wanted = after + 1
    for seq in sorted(seen):
        if seq != wanted:
            yield f"rows {wanted} to {seq - 1} are missing after the checkpoint ({after})"
        wanted = seq + 1


# ---------------------------------------------------------------- backup


def backup_file(path: Path, target: Path, *, force: bool = False) -> int:
    """Copies the farm's file as it is in one moment, while a broker may be writing it.

    Returns:
        Bytes of the copy.

    Raises:
        StorageError: There is no database, the target is there already, or it cannot be written.
    """
    if not path.is_file():
        raise StorageError(f"there is no database {path}")
    if target.exists() and not force:
        raise StorageError(f"{target} is there already", hint="choose another name, or say --force")
    if target.resolve() == path.resolve():
        raise StorageError(f"{target} is the database itself", hint="choose another name")
    partial = target.with_name(target.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with SqliteReader(path) as store:
            _copy(store._opened(), partial)
        handle = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        partial.replace(target)
        sync_folder(target.parent)
        return target.stat().st_size
    except OSError as error:
        raise file_trouble(target, error) from error
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    finally:
        for name in (partial.name, partial.name + "-journal"):
            partial.with_name(name).unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, target: Path) -> None:
    into = sqlite3.connect(target)
    try:
        # All pages in one step: the broker's next commit would make it begin anew.
        source.backup(into, pages=-1)
    finally:
        into.close()

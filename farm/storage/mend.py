"""Makes a sound database of a damaged one: what can be read is kept, what cannot is told.

What belongs here: putting together a farm from what is left (``farm.storage.salvage`` reads it).  What must
not: touching the original, which keeps all its bytes under another name.

A farm comes back from its checkpoint and the rows after it; where the checkpoint is damaged, from its whole
history.  After the checkpoint the journal is kept up to the first entry that is missing, unreadable or does
not fit: what comes after it builds on what is gone.  Entries before the checkpoint that wait to be regrouped
are history alone, and each can be lost for itself.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from farm.core.checkpoint import BEFORE_ALL, Stored
from farm.core.core import Core
from farm.core.events import CheckpointEvent
from farm.core.invariants import digest
from farm.core.rows import StepMapRow
from farm.core.state import Farm
from farm.model.errors import StorageError
from farm.storage.care import Health, check_file, from_history, rebuilt, unreadable
from farm.storage.database import REPAIRING
from farm.storage.ground import OwnerLock, refuse_network, sync_folder
from farm.storage.journal import decode_rows
from farm.storage.leaving import IN_MEMORY, INCOMPLETE
from farm.storage.salvage import Mended, last_settled, salvage
from farm.storage.sqlite import SqliteStore
from farm.storage.tables import BY_ROW, GROUND, LEAVING
from farm.storage.troubles import database_trouble, file_trouble

#: Rows regrouped in one transaction.
_AT_ONCE = 50_000


def repair_file(path: Path) -> Mended:
    """Puts a sound database in the place of a damaged one.

    Returns:
        What was done; nothing when the database is sound.

    Raises:
        StorageError: A broker uses it, it is of another version, or too little of it can be read.
    """
    refuse_network(path.parent)
    work = path.with_name(path.name + REPAIRING)
    if not path.exists() and not work.exists():
        raise StorageError(f"there is no database {path}")
    lock = OwnerLock(path)
    try:
        if not path.exists() and work.exists():
            # A repair was stopped when all was done but this; the original has its other name already.
            work.replace(path)
            sync_folder(path.parent)
        if not _problems(path):
            return Mended()
        _remove(work)
        try:
            mended = Mended()
            salvage(path, work, mended)
            _make_a_farm(work, mended)
        except BaseException:
            _remove(work)
            raise
        _exchange(path, work, mended)
        return mended
    except OSError as error:
        raise file_trouble(path, error, "repaired") from error
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    finally:
        lock.release()


def _problems(path: Path) -> list[str]:
    try:
        health = check_file(path, owned=True)
        return health.problems + ([health.unfit] if health.unfit else [])
    except StorageError as error:
        return [error.message]


# ---------------------------------------------------------------- putting together


def _make_a_farm(work: Path, mended: Mended) -> None:
    """Cuts off what does not fit, until the rest makes a farm, and writes its checkpoint."""
    with SqliteStore(work) as store:
        settled = last_settled(store._query)
        _straighten(store, settled, mended)
        _cut_torn_tail(store, settled, mended)
        whole = store.meta(INCOMPLETE) is None
        taken_off = whole and _take_off_the_shelf(store, mended)
        image = store.load()
        if image.checkpoint is None and not whole:
            raise _too_little()
        farm = _longest(store, image, settled, mended)
        if farm is not None and whole and image.checkpoint is not None:
            told = from_history(store, store.load(), Health(store.label))
            differs = told is not None and digest(told) != digest(farm)
            if told is None or (differs and not taken_off and _lacks_history(store, image)):
                mended.lost.append("parts of the history before the checkpoint: the farm was made of that")
                store.set_meta(INCOMPLETE, "repaired")
            elif differs:
                # Where both can be read and do not agree, the rows are what happened.
                mended.lost.append("the checkpoint did not agree with its rows: the farm was made of those")
                farm = told
        if farm is None and image.checkpoint is not None and whole:
            mended.lost.append("the checkpoint is damaged: the farm was made anew from its whole history")
            # The maps of jobs in the archive stay: nothing else says what became of them.
            maps = ("checkpoints", f"step_maps WHERE {IN_MEMORY[StepMapRow]}", "node_maps")
            store._write([(f"DELETE FROM {name}", [()]) for name in maps])
            farm = _longest(store, store.load(), settled, mended)
        if farm is None:
            raise _too_little()
        for step in farm.steps.values():
            step.dirty = True
        farm.seq = store.load().last_seq
        at_us = max((row[0] for row in store._query("SELECT max(at_us) FROM history")), default=0) or 0
        store.commit(Core(farm=farm).handle(CheckpointEvent(at_us)).rows)
        while store.compact(_AT_ONCE):
            pass
        mended.jobs = store._query("SELECT count(*) FROM jobs")[0][0]
        mended.rows = store._query("SELECT coalesce(sum(rows), 0) FROM segments")[0][0]
    problems = check_file(work, quick=True).problems
    if problems:
        raise StorageError(
            f"what can be read makes no sound database: {problems[0]}", hint="put a backup in its place"
        )


def _too_little() -> StorageError:
    return StorageError(
        "too little of the database can be read to make a farm of it", hint="put a backup in its place"
    )


def _lacks_history(store: SqliteStore, image: Stored) -> bool:
    """Whether rows that waited to be regrouped may be gone: numbers up to the checkpoint that none has.

    Maps that later ones replaced leave such holes, too: then nobody can tell, and the checkpoint is believed.
    """
    ((first,),) = store._query("SELECT min(id) FROM journal WHERE id <= ?", (image.after,))
    if first is None:
        return False
    seen = {row.seq for row in store.replay(first - 1)}
    for name in ("history", "step_maps", "node_maps", "checkpoints"):
        seen.update(seq for (seq,) in store._query(f"SELECT seq FROM {name} WHERE seq >= ?", (first,)))
    return any(seq not in seen for seq in range(first, image.after + 1))


def _take_off_the_shelf(store: SqliteStore, mended: Mended) -> bool:
    """Jobs of the archive that are damaged come back to memory, where their history makes them anew.

    Returns:
        Whether there were any.
    """
    damaged = list(unreadable(store))
    if damaged:
        store._write([("DELETE FROM shelf WHERE job_id = ?", [(number,) for number, _ in damaged])])
        mended.lost += [f"{text}: it was made anew from its history" for _, text in damaged]
    return bool(damaged)


def _straighten(store: SqliteStore, settled: int, mended: Mended) -> None:
    """Drops entries before the checkpoint that are not what their numbers say; no state builds on them."""
    until = settled if store._checkpoint_seq() is not None else BEFORE_ALL
    ((last,),) = store._query("SELECT max(id) FROM segments WHERE id <= ?", (until,))
    last = BEFORE_ALL if last is None else last
    for number, seq_last, blob in store._query(
        "SELECT id, seq_last, blob FROM journal WHERE id <= ? ORDER BY id", (until,)
    ):
        seqs = [row.seq for row in decode_rows(blob, "")]
        if seqs[0] != number or not last < number <= seqs[-1] <= until or seqs != sorted(set(seqs)):
            mended.lost.append(f"journal entry {number}: its rows are not those it is numbered for")
            drop = ("DELETE FROM journal WHERE id = ?", [(number,)])
            store._write([drop])
            store.set_meta(INCOMPLETE, "repaired")
            continue
        last = seqs[-1]
        if seq_last != last:
            store._write([("UPDATE journal SET seq_last = ? WHERE id = ?", [(last, number)])])


def _cut_torn_tail(store: SqliteStore, settled: int, mended: Mended) -> None:
    """Drops the journal from the first hole on: what comes after it builds on rows that are gone."""
    image = store.load()
    present = {row[0] for row in store._query("SELECT seq FROM history")}
    for kind in (*GROUND, *LEAVING):
        present.update(row[0] for row in store._query(f"SELECT seq FROM {BY_ROW[kind].name}"))
    sql = "SELECT id, seq_last, blob FROM journal WHERE id > ? ORDER BY id"
    entries = store._query(sql, (image.after,))
    wanted = image.after + 1 if image.checkpoint is not None else None
    for number, seq_last, blob in entries:
        seqs = [row.seq for row in decode_rows(blob, "")]
        fits = seqs[0] == number and seqs[-1] == seq_last and seqs == sorted(set(seqs))
        for seq in seqs:
            while wanted is not None and wanted < seq and wanted in present:
                wanted += 1
            fits = fits and (wanted is None or wanted == seq)
            wanted = seq + 1 if wanted is not None else None
        if not fits:
            if number <= settled:
                raise _too_little()  # without its checkpoint the farm is made of all rows or not at all
            _cut(store, number, mended)
            return


def _cut(store: SqliteStore, number: int, mended: Mended) -> None:
    ((count,),) = store._query("SELECT count(*) FROM journal WHERE id >= ?", (number,))
    store._write([("DELETE FROM journal WHERE id >= ?", [(number,)])])
    mended.lost.append(f"the journal from row {number} on ({count} commits) builds on what is gone")


def _longest(store: SqliteStore, image: Stored, settled: int, mended: Mended) -> Farm | None:
    """The farm of as many commits as fit after a base; cuts off the others.  None when the base is bad.

    To the base belongs all that a checkpoint has settled, be it read from that or made anew from its rows: a
    farm without it is not the one that was.
    """

    def upto(last: int | None) -> Farm | None:
        rows = (row for row in store.replay(image.after) if last is None or row.seq <= last)
        return rebuilt(image, rows, Health(store.label), "")

    whole = upto(None)
    if whole is not None:
        return whole
    ends = store._query("SELECT id, seq_last FROM journal WHERE id > ? ORDER BY id", (settled,))
    first = ends[0][0] - 1 if ends else BEFORE_ALL
    farm = upto(first) if ends else None
    if farm is None:
        return None
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = upto(ends[middle - 1][1])
        if found is None:
            bad = middle
        else:
            good, farm = middle, found
    if image.checkpoint is None and not good:
        return None  # not even the first row of all fits
    last = ends[good - 1][1] if good else first
    _cut(store, ends[good][0], mended)
    for kind in ("shelf", "deleted", "step_edits", "job_states", "policies", "steps", "jobs"):
        store._write([(f"DELETE FROM {kind} WHERE seq > ?", [(last,)])])
    return farm


# ---------------------------------------------------------------- files


def _exchange(path: Path, work: Path, mended: Mended) -> None:
    """Puts the new database in the place of the old one, which keeps all its bytes."""
    number, kept = 1, path.with_name(path.name + ".damaged")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged.{number}")
    # While neither is in place, no broker starts a farm anew: it sees the one that waits (``REPAIRING``).
    path.replace(kept)
    for ending in ("-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + ending))
    work.replace(path)
    work.with_name(work.name + ".lock").unlink(missing_ok=True)
    sync_folder(path.parent)
    mended.kept = str(kept)


def _remove(work: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal", ".lock", ".new"):
        work.with_name(work.name + ending).unlink(missing_ok=True)

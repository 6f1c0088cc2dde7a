"""Damage is found and named; a repair keeps what can be read; a backup is one moment of the farm."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from farm.broker.ports import KeyRecord
from farm.core import invariants
from farm.core.checkpoint import restore
from farm.core.events import DeleteEvent
from farm.core.state import Farm, Settings
from farm.model.errors import StorageError
from farm.storage import salvage
from farm.storage.care import backup_file, check_file
from farm.storage.mend import repair_file
from farm.storage.sqlite import SqliteStore
from tests.support.core_rig import Rig, step
from tests.unit.storage.samples import Writer


def restored(path: Path) -> Farm:
    """The farm a broker would start with."""
    with SqliteStore(path) as store:
        image = store.load()
        return restore(Settings(), image, store.replay(image.after))


#: What was regrouped when the farm was closed: all that the checkpoint had settled, a part, or nothing.
REGROUPED = ("all", "some", "none")


@pytest.fixture(scope="module", params=REGROUPED)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm's database: jobs done, failed and open, a checkpoint midway, rows after it; closed."""
    path = tmp_path_factory.mktemp("farm") / "farm.db"
    rig = Rig()
    rig.store = SqliteStore(path)  # type: ignore[assignment]
    ant = rig.join("ant", cores=3)
    bee = rig.join("bee", cores=2, rate=500_000_000)
    rig.submit(step(frames="1-12", chunk=2), step("comp", "1-12", after=("beauty",)), user="ann")
    rig.submit(step("fx", "1-9", attempts=1), user="bob")
    for turn in range(6):
        for lease in rig.dispatch():
            rig.now_us += 300_000
            if lease.step.spec.name == "fx" and turn % 2:
                rig.fail(lease, "renderer")
            else:
                rig.done(lease)
        rig.wait(1, ant, bee)
        if turn == 2:
            # The last row before the checkpoint: without it all others still make a farm, and another one.
            rig.node_act("node-drain", rig.join("cat"), "no air")
            rig.checkpoint()
    rig.submit(step("late", "1-4"), user="cid")
    rig.dispatch()
    rig.node_act("node-drain", bee, "its fan")
    if request.param != "none":
        regroup(rig.store, 12, all_of_it=request.param == "all")
    rig.store.put_key(KeyRecord(public="k" * 40, role="admin", user="ann"))
    rig.store.put_invite("h", b"invited")
    rig.store.set_meta("farm_id", "f")
    rig.store.close()
    return path


@pytest.fixture
def database(original: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copy(original, tmp_path / "farm.db"))


def regroup(store: Any, most_rows: int, *, all_of_it: bool = True) -> None:
    """Regroups what the checkpoint has settled, or the first part of it."""
    while store.compact(most_rows) and all_of_it:
        pass


def change(path: Path, sql: str, *values: Any) -> None:
    """Damages a database with SQL."""
    raw = sqlite3.connect(path)
    with raw:
        assert raw.execute(sql, values).rowcount > 0
    raw.close()


def look(path: Path, sql: str) -> Any:
    """One value of a database."""
    raw = sqlite3.connect(path)
    try:
        return raw.execute(sql).fetchone()[0]
    finally:
        raw.close()


# -- sound --


def test_a_sound_farm_is_sound_and_a_repair_leaves_it_alone(database: Path) -> None:
    before = database.read_bytes()
    health = check_file(database)
    assert health.problems == []
    assert (health.jobs, health.steps, health.nodes) == (3, 4, 3)
    assert health.rows > 60
    assert health.checkpoint is not None
    assert health.last_seq > health.checkpoint
    assert repair_file(database).kept == ""
    assert database.read_bytes() == before
    assert sorted(entry.name for entry in database.parent.iterdir()) == ["farm.db", "farm.db.lock"]


def test_a_check_may_run_beside_a_broker_and_a_repair_may_not(database: Path) -> None:
    with SqliteStore(database) as store:
        store.commit([Writer(5_000).history()])
        assert "to 5000 are missing" in str(check_file(database).problems)
        with pytest.raises(StorageError, match="in use by another broker"):
            repair_file(database)


def test_there_must_be_a_database(tmp_path: Path) -> None:
    for look_after in (check_file, repair_file):
        with pytest.raises(StorageError, match="there is no database"):
            look_after(tmp_path / "farm.db")  # type: ignore[operator]
    assert not (tmp_path / "farm.db").exists()


# -- damage of rows --

AFTER = "id > (SELECT seq FROM checkpoints)"
LAST_ENTRY = "(SELECT max(id) FROM journal)"
SOME_ENTRY = f"(SELECT id FROM journal WHERE {AFTER} ORDER BY id LIMIT 1 OFFSET 3)"
#: One that the checkpoint has settled and that waits to be regrouped.
OLD_ENTRY = "(SELECT id FROM journal WHERE id <= (SELECT seq FROM checkpoints) ORDER BY id LIMIT 1 OFFSET {})"
LAST_OLD = "(SELECT max(id) FROM journal WHERE id <= (SELECT seq FROM checkpoints))"


@pytest.mark.parametrize(
    ("sql", "named", "lost"),
    [
        pytest.param(
            f"UPDATE journal SET blob = substr(blob, 1, length(blob) - 3) WHERE id = {LAST_ENTRY}",
            r"journal entry \d+ is damaged",
            "journal entry",
            id="torn end",
        ),
        pytest.param(
            f"UPDATE journal SET blob = x'c1c1c1' WHERE id = {SOME_ENTRY}",
            r"journal entry \d+ is damaged",
            "builds on what is gone",
            id="nonsense midway",
        ),
        pytest.param(
            f"DELETE FROM journal WHERE id = {SOME_ENTRY}",
            r"rows \d+ to \d+ are missing after the checkpoint",
            "builds on what is gone",
            id="an entry gone",
        ),
        pytest.param(
            "UPDATE journal SET seq_last = seq_last + 1 WHERE id = " + LAST_ENTRY,
            "its rows are not those numbered",
            "builds on what is gone",
            id="an entry that lies",
        ),
    ],
)
def test_a_damaged_journal_is_cut_where_it_is_damaged(
    database: Path, sql: str, named: str, lost: str
) -> None:
    change(database, sql)
    problems = check_file(database).problems
    assert problems
    assert re.search(named, " ".join(problems)), problems
    damaged = database.read_bytes()
    mended = repair_file(database)
    assert lost in " ".join(mended.lost)
    assert Path(mended.kept).read_bytes() == damaged
    assert check_file(database).problems == []
    farm = restored(database)
    assert bytes(farm.steps[1].state) == b"\x03" * 12, "what was done before the damage stays done"
    with SqliteStore(database) as store:
        assert store.keys()[0].public == "k" * 40
        assert store.invites() == [b"invited"]
        assert store.meta("farm_id") == "f"


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        pytest.param(
            "UPDATE checkpoints SET extra = x'c1'", "the checkpoint and the rows after it", id="extra"
        ),
        pytest.param(
            "UPDATE step_maps SET state = zeroblob(length(state)) WHERE step_id = 1",
            "waits for nothing|running|make no farm|not agree",
            id="map",
        ),
        pytest.param(
            "UPDATE step_maps SET state = x'03030303030303030303030303' WHERE step_id = 1", "", id="length"
        ),
        pytest.param("DELETE FROM node_maps WHERE node_id = 1", "make no farm", id="node gone"),
    ],
)
def test_a_damaged_checkpoint_is_made_anew_from_the_history(database: Path, sql: str, named: str) -> None:
    wanted = restored(database)
    change(database, sql)
    problems = check_file(database).problems
    assert re.search(named, " ".join(problems)), problems
    assert problems
    mended = repair_file(database)
    assert mended.kept
    assert check_file(database).problems == []
    farm = restored(database)
    farm.seq = wanted.seq
    assert invariants.digest(farm) == invariants.digest(wanted)


@pytest.mark.parametrize("original", ["all"], indirect=True)
def test_a_damaged_part_of_the_history_costs_that_part_alone(database: Path) -> None:
    wanted = restored(database)
    change(database, "UPDATE segments SET blob = x'dc0001' WHERE step_id = 1")
    assert "history segment" in check_file(database).problems[0]
    mended = repair_file(database)
    assert "history segment" in " ".join(mended.lost)
    farm = restored(database)
    farm.seq = wanted.seq
    assert invariants.digest(farm) == invariants.digest(wanted)
    with SqliteStore(database) as store:
        assert store.step_history(1, None) == []
        assert len(store.step_history(2, None)) > 20
        assert len(store.recent_leases(999)) < farm.next_attempt - 1
    assert check_file(database).problems == []


@pytest.mark.parametrize("original", ["some", "none"], indirect=True)
@pytest.mark.parametrize("at", [0, 3, -1])
@pytest.mark.parametrize(
    ("sql", "named", "lost"),
    [
        pytest.param(
            "UPDATE journal SET blob = x'c1c1' WHERE id = ",
            r"journal entry \d+ is damaged",
            "is damaged",
            id="nonsense",
        ),
        pytest.param(
            "DELETE FROM journal WHERE id = ",
            "from the first on|not agree",
            "parts of the history",
            id="gone",
        ),
        pytest.param(
            "UPDATE journal SET id = -id WHERE id = ",
            "its rows are not those numbered",
            "not those it is numbered for",
            id="misnumbered",
        ),
        pytest.param(
            "UPDATE journal SET seq_last = 99999 WHERE id = ",
            "its rows are not those numbered",
            "",
            id="ends too late",
        ),
    ],
)
def test_damage_of_what_waits_to_be_regrouped_costs_history_alone(
    database: Path, at: int, sql: str, named: str, lost: str
) -> None:
    wanted = restored(database)
    number = look(database, f"SELECT {OLD_ENTRY.format(at) if at >= 0 else LAST_OLD}")
    with SqliteStore(database) as store:
        (gone,) = store._entries([number])
    change(database, sql + str(number))
    problems = check_file(database).problems
    assert re.search(named, " ".join(problems)), problems
    mended = repair_file(database)
    assert any(lost in text for text in mended.lost) or not lost, mended.lost
    assert not any("builds on what is gone" in text for text in mended.lost)
    farm = restored(database)
    farm.seq = wanted.seq
    assert invariants.digest(farm) == invariants.digest(wanted)
    assert check_file(database).problems == []
    kept = set() if lost else {row.seq for row in gone}
    with SqliteStore(database) as store:
        assert store.compact(0) == 0
        history = {row.seq for row in store.replay(-(2**62))}
        assert {row.seq for row in gone} & history == kept
        assert len(history) > 60


def test_rows_that_refer_to_nothing_are_found(database: Path) -> None:
    change(database, "DELETE FROM steps WHERE id = 4")
    problems = " ".join(check_file(database).problems)
    assert "refers to steps that are not there: 4" in problems or "refers to nothing" in problems


@pytest.mark.parametrize(
    ("original", "sql"),
    [
        ("all", "DELETE FROM segments"),
        ("some", "DELETE FROM segments"),
        ("some", "DELETE FROM journal WHERE id = " + OLD_ENTRY.format(1)),
        ("none", "DELETE FROM journal WHERE id = " + OLD_ENTRY.format(0)),
        ("none", "UPDATE journal SET blob = x'c1' WHERE id = " + OLD_ENTRY.format(4)),
        ("none", f"UPDATE journal SET blob = x'c1' WHERE id = {LAST_OLD}"),
        ("some", f"UPDATE journal SET blob = x'c1' WHERE id = {LAST_OLD}"),
    ],
    indirect=["original"],
)
@pytest.mark.parametrize("checkpoint", ["UPDATE checkpoints SET extra = x'c1'", "DELETE FROM checkpoints"])
def test_where_too_little_is_left_the_original_stays(database: Path, sql: str, checkpoint: str) -> None:
    change(database, sql)
    change(database, checkpoint)
    before = database.read_bytes()
    with pytest.raises(StorageError, match="too little of the database can be read"):
        repair_file(database)
    assert database.read_bytes() == before
    assert sorted(entry.name for entry in database.parent.iterdir()) == ["farm.db", "farm.db.lock"]


@pytest.mark.parametrize("original", ["none"], indirect=True)
def test_without_a_checkpoint_what_it_had_settled_is_not_cut_off(database: Path) -> None:
    change(database, "UPDATE journal SET seq_last = 99999 WHERE id = " + OLD_ENTRY.format(4))
    change(database, "DELETE FROM checkpoints")
    with pytest.raises(StorageError, match="too little of the database can be read"):
        repair_file(database)


# -- damage of the file --


@pytest.mark.parametrize("table", ["journal", "segments", "history", "step_maps", "checkpoints", "keys"])
def test_a_page_of_nonsense_costs_what_was_on_it(database: Path, table: str) -> None:
    root = look(database, f"SELECT rootpage FROM sqlite_master WHERE name = '{table}'")
    whole = database.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    database.write_bytes(whole[: page * (root - 1)] + b"\xa5" * page + whole[page * root :])
    assert check_file(database).problems
    mended = repair_file(database)
    assert mended.kept
    assert mended.lost
    assert check_file(database).problems == []
    assert len(restored(database).jobs) >= 2


def test_damage_anywhere_is_survived_or_refused(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "TRIES", 300)
    whole = database.read_bytes()
    rng = random.Random(11)
    mended = 0
    for number in range(25):
        path = tmp_path / str(number) / "farm.db"
        path.parent.mkdir()
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 4))):
            at = rng.randrange(100, len(whole) - 600)
            damaged[at : at + 512] = rng.randbytes(512)
        path.write_bytes(damaged)
        try:
            problems = check_file(path).problems
            result = repair_file(path)
        except StorageError:
            assert path.read_bytes() == damaged, "what cannot be repaired is left as it was"
            continue
        assert bool(result.kept) == bool(problems)
        assert check_file(path).problems == []
        farm = restored(path)
        invariants.check(farm)
        assert farm.jobs, "no empty farm is made of what cannot be read"
        mended += bool(result.kept)
        shutil.rmtree(path.parent)
    assert mended >= 5


def test_a_repair_that_was_stopped_at_its_last_step_is_finished_by_the_next(database: Path) -> None:
    change(database, f"DELETE FROM journal WHERE id = {LAST_ENTRY}")
    repair_file(database)
    waiting = database.with_name("farm.db.repairing")
    database.rename(waiting)
    with pytest.raises(StorageError, match=r"a repair of .* was interrupted"):
        SqliteStore(database)
    assert repair_file(database).kept == ""
    assert not waiting.exists()
    assert len(restored(database).jobs) == 3


def test_the_second_damaged_original_is_kept_beside_the_first(database: Path) -> None:
    for number in range(2):
        change(database, "UPDATE checkpoints SET extra = x'c1'")
        kept = Path(repair_file(database).kept)
        assert kept.name == ("farm.db.damaged" if not number else "farm.db.damaged.2")


# -- backups --


def test_a_backup_is_one_moment_of_a_farm_that_goes_on(database: Path, tmp_path: Path) -> None:
    target = tmp_path / "backups" / "farm.db"
    target.parent.mkdir()
    with SqliteStore(database) as store:
        w = Writer(store.load().last_seq, 10_000)
        before = list(store.replay(0))
        size = backup_file(database, target)
        store.commit([w.stale()])
    assert size == target.stat().st_size
    assert target.stat().st_mode & 0o777 == 0o600
    with SqliteStore(target) as copy:
        assert list(copy.replay(0)) == before
    assert check_file(target).problems == []


def test_what_is_only_in_the_log_is_in_the_backup(database: Path, tmp_path: Path) -> None:
    with SqliteStore(database) as store:
        w = Writer(store.load().last_seq, 10_000)
        store.commit([w.stale()])
        assert database.with_name("farm.db-wal").stat().st_size > 0
        backup_file(database, tmp_path / "copy.db")
    with SqliteStore(tmp_path / "copy.db") as copy:
        assert copy.load().last_seq == w.seq


def test_a_backup_never_replaces_a_file_unasked(database: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    with pytest.raises(StorageError, match="is there already"):
        backup_file(database, target)
    assert target.read_bytes() == b"precious"
    backup_file(database, target, force=True)
    assert check_file(target).problems == []
    with pytest.raises(StorageError, match="the database itself"):
        backup_file(database, database, force=True)
    with pytest.raises(StorageError, match="cannot be written"):
        backup_file(database, tmp_path / "no" / "such" / "folder")
    assert not list(tmp_path.glob("*.partial*"))


# -- the archive --


@pytest.fixture
def archived(tmp_path: Path) -> tuple[Path, Rig]:
    """A farm whose job 1 is in the archive while job 2 goes on."""
    path = tmp_path / "farm.db"
    rig = Rig(archive_after_us=60_000_000)
    rig.store = SqliteStore(path)  # type: ignore[assignment]
    rig.join(cores=1)
    rig.submit(step(frames="1-3", attempts=1), user="ann", token="t")
    for _ in range(3):
        lease = rig.lease()
        rig.now_us += 5_000_000
        rig.done(lease) if lease.units != (1,) else rig.fail(lease, "renderer")
    rig.submit(step("open", "1-4"), user="bob")
    rig.now_us += 70_000_000
    rig.checkpoint()
    assert list(rig.core.farm.jobs) == [2]
    rig.act("priority", "J2", "70")
    return path, rig


def test_a_farm_with_an_archive_is_sound(archived: tuple[Path, Rig]) -> None:
    path, rig = archived
    for write in (lambda: None, rig.checkpoint):
        write()
        # Also all rows from the first on make it.
        health = check_file(path)
        assert health.problems == []
        assert (health.jobs, health.steps) == (2, 2)
    shelf = rig.store.shelf(1)
    rig.handle(DeleteEvent(rig.now_us, 1, "", "wim", shelf))
    assert check_file(path).problems == []
    rig.checkpoint()
    health = check_file(path)
    assert health.problems == []
    assert health.jobs == 1
    rig.store.close()
    assert repair_file(path).kept == ""


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("DELETE FROM shelf", "money"),
        ("DELETE FROM step_maps WHERE step_id = 1", "J1 in the archive cannot be read"),
        ("UPDATE step_maps SET state = x'030303' WHERE step_id = 1", "J1 in the archive does not agree"),
        ("UPDATE step_maps SET extra = x'c1' WHERE step_id = 1", "J1 in the archive cannot be read"),
        ("UPDATE shelf SET spend_nano = spend_nano + 1", "J1 in the archive does not agree"),
        ("DELETE FROM checkpoints", ""),
    ],
)
def test_a_damaged_archive_is_named_and_made_anew(archived: tuple[Path, Rig], sql: str, named: str) -> None:
    path, rig = archived
    wanted = invariants.digest(rig.core.farm)
    rig.store.close()
    raw = sqlite3.connect(path)
    states = raw.execute("SELECT state FROM step_maps WHERE step_id = 1").fetchone()[0]
    raw.close()
    change(path, sql)
    problems = check_file(path).problems
    assert named in str(problems)
    assert bool(problems) is bool(named)
    mended = repair_file(path)
    assert bool(mended.kept) is bool(named)
    assert check_file(path).problems == []
    farm = restored(path)
    if 1 in farm.jobs:
        # It is in memory again, until it goes into the archive once more.
        assert bytes(farm.steps[1].state) == states
        assert farm.jobs[1].told_rest
    else:
        assert invariants.digest(farm) == wanted
    assert farm.jobs[2].priority == 70


def test_where_jobs_were_deleted_damage_of_the_archive_needs_a_backup(archived: tuple[Path, Rig]) -> None:
    path, rig = archived
    rig.act("cancel", "J2")
    rig.handle(DeleteEvent(rig.now_us, 2, "", "wim"))
    assert check_file(path).problems == [], "its numbers have no holes"
    rig.checkpoint()
    rig.store.close()
    change(path, "DELETE FROM step_maps WHERE step_id = 1")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="put a backup in its place"):
        repair_file(path)
    assert path.read_bytes() == before

"""A full disk and a broker killed at any moment: what was acknowledged is there, and nothing by halves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.core.rows import AnyRow, LeaseRow, ResultRow
from farm.model.errors import StorageError
from farm.storage.logs import LogStore
from farm.storage.previews import PreviewStore
from farm.storage.sqlite import SqliteStore
from tests.support.real import require
from tests.unit.storage.samples import Writer

ROOT = Path(__file__).parents[3]
BATCH = 25


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 1 MiB."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    require(mount and unmount and os.geteuid() == 0, "a small disk that fills up", "run as root, with mount")
    assert mount is not None
    assert unmount is not None
    folder = Path(tempfile.mkdtemp(prefix="overcrank-small-"))
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    if made.returncode != 0:
        folder.rmdir()
    require(made.returncode == 0, "a tmpfs of its own", made.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run([unmount, str(folder)], check=True, timeout=30)
        folder.rmdir()


def resize(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True, timeout=30)


def commit_until_full(store: SqliteStore, w: Writer, good: list[AnyRow]) -> None:
    """Commits batches, noting those that were acknowledged, far beyond what the small disk holds."""
    for _ in range(1000):
        rows = w.batch(BATCH)
        store.commit(rows)
        good += rows


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_fails_the_commit_whole(small_disk: Path) -> None:
    path = small_disk / "farm.db"
    w = Writer()
    good: list[AnyRow] = []
    store = SqliteStore(path)
    ground = w.ground()
    store.commit(ground)
    with pytest.raises(StorageError) as caught:
        commit_until_full(store, w, good)
    assert caught.value.message == f"the disk is full: {path} cannot grow"
    assert caught.value.code == "storage"
    assert len(good) > 5 * BATCH
    # What was acknowledged still reads, though the disk is full; nothing more is taken.
    assert list(store.replay(0)) == ground + good
    with pytest.raises(StorageError, match="no more changes since a commit failed: the disk is full"):
        store.commit([w.history()])
    store.close()

    with SqliteStore(path) as again:  # still full
        assert list(again.replay(0)) == ground + good
        with pytest.raises(StorageError, match="the disk is full"):
            commit_until_full(again, w, good)

    resize(small_disk, "4m")
    with SqliteStore(path) as roomy:
        assert list(roomy.replay(0)) == ground + good
        rows = w.batch(BATCH)
        roomy.commit(rows)
        assert list(roomy.replay(good[-1].seq)) == rows
        assert roomy._query("PRAGMA integrity_check") == [("ok",)]
        assert roomy._query("PRAGMA foreign_key_check") == []


def test_a_farm_cannot_be_made_on_a_full_disk_and_can_be_later(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill(filler)
    with pytest.raises(StorageError, match="full"):
        SqliteStore(small_disk / "farm.db")
    assert not (small_disk / "farm.db").exists()
    filler.unlink()
    with SqliteStore(small_disk / "farm.db") as store:
        store.commit(Writer().ground())


def test_a_full_disk_leaves_logs_a_true_beginning(small_disk: Path) -> None:
    text = os.urandom(64 * 1024)
    logs = LogStore(small_disk / "logs")
    sizes = [0]

    def send_until_full() -> None:
        for _ in range(100):
            sizes.append(logs.append(1, "beauty", 7, sizes[-1], text).size)

    with pytest.raises(StorageError, match=r"the disk is full: .*7\.log"):
        send_until_full()
    held = logs.read(1, "beauty", 7, 0)
    assert held.size >= sizes[-1] > 0
    expected = text * 20
    assert held.data == expected[: len(held.data)]
    # Once there is room the sender goes on where the farm is, and the log comes out whole.
    resize(small_disk, "4m")
    size = logs.size(1, "beauty", 7)
    assert logs.append(1, "beauty", 7, size, expected[size:], end=True) == (len(expected), "")
    whole = b"".join(logs.read(1, "beauty", 7, at).data for at in range(0, len(expected), 256 * 1024))
    assert whole == expected
    logs.close()


def test_a_full_disk_keeps_the_preview_that_is_there(small_disk: Path) -> None:
    previews = PreviewStore(small_disk / "previews")
    first = os.urandom(100_000)
    previews.put(1, "beauty", 0, 1, first)

    def put_until_full() -> None:
        for unit in range(1, 50):
            previews.put(1, "beauty", unit, 1, bytes(100_000))

    with pytest.raises(StorageError, match="the disk is full"):
        put_until_full()
    with pytest.raises(StorageError, match="the disk is full"):
        previews.put(1, "beauty", 0, 2, bytes(200_000))
    assert previews.get(1, "beauty", 0) == first
    assert not list(small_disk.rglob("*.partial"))
    assert PreviewStore(small_disk / "previews").get(1, "beauty", 0) == first


WRITER = """
import sys
sys.path.insert(0, {root!r})
from farm.storage.sqlite import SqliteStore
from tests.unit.storage.samples import Writer
store = SqliteStore(sys.argv[1])
w = Writer(store.load().last_seq, *(row.id for row in store.recent_leases(1)))
if not w.seq:
    store.commit(w.ground())
number = 0
while True:
    number += 1
    store.commit(w.batch({batch}) if number % 4 else [w.node_map(), w.step_map(), w.checkpoint()])
    if number % 3 == 0:
        store.compact(70)
    sys.stdout.write(str(w.seq) + "\\n")
    sys.stdout.flush()
"""


def whole(store: SqliteStore) -> int:
    """Checks that only whole commits are there, moved to history or not; returns the last row's number."""
    rows = [row for row in store.replay(0) if isinstance(row, LeaseRow | ResultRow)]
    leases = [row for row in rows if isinstance(row, LeaseRow)]
    results = [row for row in rows if isinstance(row, ResultRow)]
    # Whole batches alone: as many results as leases, each of a lease, a multiple of a batch.
    assert [row.id for row in leases] == [row.attempt_id for row in results]
    assert [row.id for row in leases] == list(range(1, len(leases) + 1))
    assert len(leases) % BATCH == 0
    assert store.step_history(1, None) == rows
    assert store._query("PRAGMA integrity_check") == [("ok",)]
    image = store.load()
    if image.checkpoint is not None:
        # A checkpoint is there with its maps or not at all, and nothing after it was regrouped.
        assert [row.seq for row in (*image.nodes, *image.maps)] == [image.after - 2, image.after - 1]
        assert store._query("SELECT count(*) FROM segments WHERE id > ?", (image.after,)) == [(0,)]
    # Each row is in one place: those of segments before those of the journal.
    ((regrouped,),) = store._query("SELECT max(id) FROM segments")
    if regrouped is not None:
        assert store._query("SELECT count(*) FROM journal WHERE id <= ?", (regrouped,)) == [(0,)]
    return image.last_seq


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_killed_broker_loses_nothing_it_acknowledged(tmp_path: Path, after: int) -> None:
    path = tmp_path / "farm.db"
    acknowledged = 0
    code = WRITER.format(root=str(ROOT), batch=BATCH)
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            try:
                for _ in range(after):
                    acknowledged = int(child.stdout.readline())
            finally:
                child.kill()  # wherever it is within the next commits
            told = child.stdout.read().splitlines()
            acknowledged = max([acknowledged, *(int(line) for line in told if line.strip())])
        with SqliteStore(path) as store:
            last = whole(store)
        # All that was told, and at most the one commit that was not told yet.
        assert last in (acknowledged, acknowledged + 2 * BATCH, acknowledged + 3)


def committed(log: bytes) -> int:
    """Where the last commit of a write-ahead log ends: what the file has room for comes after it."""
    frame, end = 24 + int.from_bytes(log[8:12], "big"), 32
    for at in range(32, len(log) - frame + 1, frame):
        # Of a frame that ends a commit: how large the file is then, and the log's own mark.
        if log[at + 8 : at + 16] == log[16:24] and any(log[at + 4 : at + 8]):
            end = at + frame
    return end


def test_a_log_cut_off_at_any_byte_holds_whole_commits(tmp_path: Path) -> None:
    # A power cut leaves the log's end as it likes: torn within a page, within a commit, between two.
    path = tmp_path / "farm.db"
    w = Writer()
    with SqliteStore(path) as store:
        store.commit(w.ground())
    ends = [w.seq]
    with SqliteStore(path) as store:
        for number in range(1, 9):
            store.commit(w.batch(BATCH) if number % 3 else [w.node_map(), w.step_map(), w.checkpoint()])
            store.compact(70)
            ends.append(w.seq)
        base, log = path.read_bytes(), path.with_name("farm.db-wal").read_bytes()
        log = log[: committed(log) + 5_000]
    found = []
    for at, cut in enumerate([*range(0, len(log), 1_531), len(log)]):
        torn = tmp_path / str(at) / "farm.db"
        torn.parent.mkdir()
        torn.write_bytes(base)
        torn.with_name("farm.db-wal").write_bytes(log[:cut])
        with SqliteStore(torn) as store:
            found.append(whole(store))
        shutil.rmtree(torn.parent)
    assert found == sorted(found)
    assert set(found) == set(ends), "each commit shows whole as soon as all of it is in the log"

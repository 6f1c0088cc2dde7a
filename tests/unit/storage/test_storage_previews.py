"""The newest preview of each unit is kept, whole, and all of them within a cap."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from farm.model.errors import CallError, StorageError
from farm.storage.previews import PreviewStore


@pytest.fixture
def previews(tmp_path: Path) -> PreviewStore:
    return PreviewStore(tmp_path / "previews")


def files(previews: PreviewStore) -> list[str]:
    return sorted(str(p.relative_to(previews.root)) for p in previews.root.rglob("*") if p.is_file())


def test_the_newest_of_each_unit_is_kept(previews: PreviewStore) -> None:
    assert previews.get(1, "beauty", 17) == b""
    assert previews.put(1, "beauty", 17, 3, b"first")
    assert previews.put(1, "beauty", 17, 3, b"same attempt, further on")
    assert previews.put(1, "beauty", 18, 3, b"another unit")
    assert previews.get(1, "beauty", 17) == b"same attempt, further on"
    assert previews.put(1, "beauty", 17, 5, b"retry")
    assert previews.get(1, "beauty", 17) == b"retry"
    assert previews.get(1, "beauty", 18) == b"another unit"
    assert previews.get(1, "comp", 17) == previews.get(2, "beauty", 17) == b""
    assert files(previews) == ["J1/beauty/17.5.jpg", "J1/beauty/18.3.jpg"]
    assert previews.total == len(b"retry") + len(b"another unit")


def test_files_are_private(previews: PreviewStore) -> None:
    previews.put(1, "beauty", 0, 1, b"x")
    for path in (previews.root, *previews.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_an_earlier_attempt_that_comes_late_changes_nothing(previews: PreviewStore) -> None:
    previews.put(1, "beauty", 0, 10, b"new")
    assert not previews.put(1, "beauty", 0, 9, b"old")
    assert previews.get(1, "beauty", 0) == b"new"
    assert files(previews) == ["J1/beauty/0.10.jpg"]


def test_a_restart_finds_them_and_clears_what_a_crash_left(previews: PreviewStore) -> None:
    previews.put(1, "beauty", 0, 9, b"newer")
    previews.put(7, "comp", 2, 1, b"other")
    folder = previews.root / "J1" / "beauty"
    (folder / "0.8.jpg").write_bytes(b"older")  # ended between keeping one and removing the other
    (folder / ".3.partial").write_bytes(b"ha")
    (folder / "notes.txt").write_bytes(b"an administrator's")
    (previews.root / "stray").mkdir()
    again = PreviewStore(previews.root)
    assert again.get(1, "beauty", 0) == b"newer"
    assert again.get(7, "comp", 2) == b"other"
    assert again.total == 10
    assert files(again) == ["J1/beauty/0.9.jpg", "J1/beauty/notes.txt", "J7/comp/2.1.jpg"]
    assert not again.put(1, "beauty", 0, 8, b"older again")


def test_over_the_total_the_ones_written_longest_ago_go(tmp_path: Path) -> None:
    previews = PreviewStore(tmp_path, total=100)
    for unit in range(10):
        previews.put(1, "beauty", unit, 1, bytes(10))
    previews.put(1, "beauty", 0, 1, bytes(10))  # written anew: now the youngest
    previews.put(2, "beauty", 0, 1, bytes(25))
    assert previews.total == 95
    assert [unit for unit in range(10) if previews.get(1, "beauty", unit)] == [0, 4, 5, 6, 7, 8, 9]
    assert len(previews.get(2, "beauty", 0)) == 25
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.jpg")) == 95


def test_after_a_restart_age_is_that_of_the_file_and_a_smaller_total_counts(tmp_path: Path) -> None:
    previews = PreviewStore(tmp_path)
    for unit in range(5):
        previews.put(1, "beauty", unit, 1, bytes(10))
        path = tmp_path / "J1" / "beauty" / f"{unit}.1.jpg"
        os.utime(path, ns=(0, (10 - unit) * 10**9))  # the highest unit is the oldest
    again = PreviewStore(tmp_path, total=30)
    assert again.total == 30
    assert [unit for unit in range(5) if again.get(1, "beauty", unit)] == [0, 1, 2]


def test_emptied_folders_go_too(tmp_path: Path) -> None:
    previews = PreviewStore(tmp_path, total=10)
    previews.put(1, "beauty", 0, 1, bytes(10))
    previews.put(2, "beauty", 0, 1, bytes(10))
    assert [path.name for path in tmp_path.iterdir()] == ["J2"]
    assert previews.put(1, "beauty", 0, 1, bytes(10))


def test_too_large_and_empty_ones_are_refused(tmp_path: Path) -> None:
    previews = PreviewStore(tmp_path / "previews", largest=100)
    for data in (b"", bytes(101)):
        with pytest.raises(CallError, match="1 to 100 are taken"):
            previews.put(1, "beauty", 0, 1, data)
    assert previews.put(1, "beauty", 0, 1, bytes(100))


@pytest.mark.parametrize(
    ("job", "step", "unit", "no"),
    [(1, "../x", 0, 1), (1, "", 0, 1), (0, "s", 0, 1), (1, "s", -1, 1), (1, "s", 0, 0), (1, "s", 10**9, 1)],
)
def test_names_and_numbers_that_are_none_never_reach_the_disk(
    tmp_path: Path, job: int, step: str, unit: int, no: int
) -> None:
    previews = PreviewStore(tmp_path / "previews")
    with pytest.raises(CallError):
        previews.put(job, step, unit, no, b"x")
    if no:
        with pytest.raises(CallError):
            previews.get(job, step, unit)
    assert list(tmp_path.iterdir()) == []


def test_a_preview_removed_by_hand_is_none(previews: PreviewStore) -> None:
    previews.put(1, "beauty", 0, 1, b"x")
    (previews.root / "J1" / "beauty" / "0.1.jpg").unlink()
    assert previews.get(1, "beauty", 0) == b""
    assert previews.total == 0
    assert previews.put(1, "beauty", 0, 1, b"y")
    assert previews.get(1, "beauty", 0) == b"y"


def test_a_job_is_removed_with_all_its_previews(previews: PreviewStore) -> None:
    for job in (1, 11):
        previews.put(job, "beauty", 0, 1, b"xx")
    previews.remove_job(1)
    previews.remove_job(1)
    assert previews.get(1, "beauty", 0) == b""
    assert previews.get(11, "beauty", 0) == b"xx"
    assert previews.total == 2
    assert files(previews) == ["J11/beauty/0.1.jpg"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "previews").mkdir()
    (tmp_path / "previews" / "J1").write_bytes(b"")
    with pytest.raises(StorageError, match="previews/J1/beauty"):
        PreviewStore(tmp_path / "previews").put(1, "beauty", 0, 1, b"x")

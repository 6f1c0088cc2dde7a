"""Threads and scratch folders that are used again, and what is never shared by it."""

# The folders are given and taken as plain names:
# ruff: noqa: PTH101, PTH106, PTH112, PTH114, PTH208, PTH211

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from node_agent.crew import Crew
from node_agent.home import ScratchFolders
from tests.support.waiting import PATIENCE_S


def test_work_that_waits_for_each_other_gets_threads_of_its_own() -> None:
    crew = Crew(8, "test")
    meet = threading.Barrier(5)
    for _ in range(5):
        crew.start(lambda: meet.wait(PATIENCE_S))
    crew.close()
    assert not meet.broken


def test_a_free_thread_is_used_again() -> None:
    crew = Crew(8, "test")
    names: list[str] = []
    for number in range(20):
        done = threading.Event()

        def work(done: threading.Event = done) -> None:
            names.append(threading.current_thread().name)
            done.set()

        crew.start(work)
        assert done.wait(PATIENCE_S), number
        # The thread says that it is free a moment after its work.
        for _ in range(10_000):
            if crew._free == 1:
                break
            threading.Event().wait(0.001)
    crew.close()
    assert set(names) == {"test_1"}


def test_more_work_than_threads_waits_its_turn_and_all_is_done_at_the_end() -> None:
    crew = Crew(2, "test")
    gate = threading.Event()
    done: list[int] = []
    for number in range(10):
        crew.start(lambda number=number: (gate.wait(PATIENCE_S), done.append(number)))
    gate.set()
    crew.close()
    crew.close()
    assert sorted(done) == list(range(10))
    with pytest.raises(RuntimeError):
        crew.start(lambda: None)


def test_work_that_fails_is_logged_and_its_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    crew = Crew(1, "test")
    done = threading.Event()
    crew.start(lambda: 1 / 0)
    crew.start(done.set)
    crew.close()
    assert done.is_set()
    assert "event=work-failed" in caplog.text


def test_an_empty_folder_serves_the_next_attempt_and_no_other_at_the_same_time(tmp_path: Path) -> None:
    folders = ScratchFolders(str(tmp_path))
    first, second = folders.take(), folders.take()
    assert first != second
    folders.give(first)
    assert folders.take() == first
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2"}


def test_what_an_attempt_left_is_never_seen_by_another(tmp_path: Path) -> None:
    target = tmp_path / "of somebody else"
    target.mkdir()
    (target / "file").write_text("stays")
    root = tmp_path / "scratch"
    root.mkdir()
    folders = ScratchFolders(str(root))

    def leave_file(path: str) -> None:
        (Path(path) / "deep").mkdir()
        (Path(path) / "deep" / "secret").write_text("x")

    def swap_for_link(path: str) -> None:
        os.rmdir(path)
        os.symlink(target, path)

    def swap_for_file(path: str) -> None:
        os.rmdir(path)
        Path(path).write_text("x")

    for spoil in (leave_file, swap_for_link, swap_for_file, os.rmdir, lambda path: os.chmod(path, 0o755)):
        path = folders.take()
        spoil(path)
        folders.give(path)
        fresh = folders.take()
        assert os.lstat(fresh).st_mode & 0o777 == 0o700
        assert os.path.isdir(fresh)
        assert not os.path.islink(fresh)
        assert os.listdir(fresh) == []
        assert fresh != path
        folders.give(fresh)
        folders._spare.clear()
        os.rmdir(fresh)
    assert (target / "file").read_text() == "stays"
    assert list(root.iterdir()) == []

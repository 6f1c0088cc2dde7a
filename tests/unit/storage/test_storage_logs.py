"""Logs grow only where they belong, whatever is sent twice, late, out of order or with a strange name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from farm.model.errors import CallError, StorageError
from farm.storage.logs import PAGE, Appended, LogStore, Page
from farm.storage.shelves import OPEN, SHORT, SPAN


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogStore]:
    store = LogStore(tmp_path / "logs")
    yield store
    store.close()


def descriptors_below(folder: Path) -> int:
    """How many files below a folder this process holds open."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            count += str(link.readlink()).startswith(str(folder))
        except FileNotFoundError:
            continue
    return count


def test_pieces_in_order_make_the_log(logs: LogStore) -> None:
    assert logs.append(12, "beauty", 7, 0, b"Fra:1 ") == (6, "")
    assert logs.append(12, "beauty", 7, 6, b"Mem:20M\n") == (14, "")
    assert logs.read(12, "beauty", 7) == Page(0, 14, b"Fra:1 Mem:20M\n", False)
    assert logs.append(12, "beauty", 7, 14, b"", end=True) == (14, "")
    assert logs.read(12, "beauty", 7).ended
    logs.close()


def test_attempts_do_not_mix(logs: LogStore) -> None:
    for job, step, no in ((1, "a", 1), (1, "a", 11), (1, "A", 1), (11, "a", 1), (1, "a.log", 1)):
        logs.append(job, step, no, 0, f"{job}/{step}@{no}".encode())
    for job, step, no in ((1, "a", 1), (1, "a", 11), (1, "A", 1), (11, "a", 1), (1, "a.log", 1)):
        assert logs.read(job, step, no).data == f"{job}/{step}@{no}".encode()
    logs.close()


def test_a_gap_is_refused_and_the_sender_told_where_to_go_on(logs: LogStore) -> None:
    logs.append(1, "beauty", 1, 0, b"0123")
    refused = logs.append(1, "beauty", 1, 10, b"abcd", end=True)
    assert refused.size == 4
    assert "gap" in refused.reason
    assert logs.read(1, "beauty", 1) == Page(0, 4, b"0123", False)  # nor has it ended
    assert logs.append(1, "beauty", 2, 1, b"x").size == 0
    logs.close()


def test_a_repeated_or_overlapping_piece_changes_nothing_held(logs: LogStore) -> None:
    logs.append(1, "beauty", 1, 0, b"0123456789")
    assert logs.append(1, "beauty", 1, 0, b"0123456789") == (10, "")
    assert logs.append(1, "beauty", 1, 3, b"XXX") == (10, "")
    assert logs.append(1, "beauty", 1, 8, b"89ab") == (12, "")
    assert logs.append(1, "beauty", 1, 8, b"XXXXcd") == (14, "")
    assert logs.read(1, "beauty", 1).data == b"0123456789abcd"
    logs.close()


def test_an_ended_log_takes_its_last_piece_again_but_nothing_new(logs: LogStore) -> None:
    logs.append(1, "beauty", 1, 0, b"all of it", end=True)
    assert logs.append(1, "beauty", 1, 4, b"of it", end=True) == (9, "")  # the answer got lost
    late = logs.append(1, "beauty", 1, 9, b"!")
    assert late.size == 9
    assert "ended" in late.reason
    assert logs.read(1, "beauty", 1) == Page(0, 9, b"all of it", True)


def test_what_is_over_the_cap_is_dropped_and_said_so(tmp_path: Path) -> None:
    logs = LogStore(tmp_path, cap=10)
    assert logs.append(1, "beauty", 1, 0, b"0123456") == (7, "")
    over = logs.append(1, "beauty", 1, 7, b"789abc")
    assert over.size == 10
    assert "full at 10 bytes" in over.reason
    assert logs.append(1, "beauty", 1, 10, b"more").reason != ""
    assert logs.append(1, "beauty", 1, 10, b"", end=True) == Appended(10)
    assert logs.read(1, "beauty", 1) == Page(0, 10, b"0123456789", True)


def test_pages_from_either_end(logs: LogStore) -> None:
    data = bytes(range(100))
    logs.append(1, "beauty", 1, 0, data)
    assert logs.read(1, "beauty", 1, 10, 5) == Page(10, 100, data[10:15], False)
    assert logs.read(1, "beauty", 1, 98, 5) == Page(98, 100, data[98:], False)
    assert logs.read(1, "beauty", 1, 100, 5) == Page(100, 100, b"", False)
    assert logs.read(1, "beauty", 1, 5000, 5) == Page(100, 100, b"", False)
    assert logs.read(1, "beauty", 1, -10) == Page(90, 100, data[90:], False)
    assert logs.read(1, "beauty", 1, -10, 3) == Page(90, 100, data[90:93], False)
    assert logs.read(1, "beauty", 1, -1000) == Page(0, 100, data, False)
    assert logs.read(1, "beauty", 1, 0, -5) == Page(0, 100, b"", False)
    assert logs.read(1, "beauty", 2) == logs.read(9, "none", 1, -5) == Page(0, 0, b"", False)
    logs.close()


def test_no_page_is_larger_than_a_message(logs: LogStore) -> None:
    logs.append(1, "beauty", 1, 0, bytes(PAGE + 10))
    page = logs.read(1, "beauty", 1, 0, 1 << 40)
    assert (len(page.data), page.size) == (PAGE, PAGE + 10)
    logs.close()


def test_a_restart_goes_on_where_the_log_is(tmp_path: Path) -> None:
    first = LogStore(tmp_path)
    first.append(1, "beauty", 1, 0, b"before ")
    first.append(1, "beauty", 2, 0, b"done", end=True)
    first.close()
    again = LogStore(tmp_path)
    assert again.size(1, "beauty", 1) == 7
    assert again.append(1, "beauty", 1, 7, b"after") == (12, "")
    assert again.read(1, "beauty", 1).data == b"before after"
    assert again.read(1, "beauty", 2) == Page(0, 4, b"done", True)
    again.close()


@pytest.mark.parametrize(
    "step",
    [
        "",
        "..",
        ".",
        "../../etc",
        "a/b",
        "/etc",
        ".hidden",
        "a\0b",
        "a\nb",
        "beauty\n",
        "1st",
        "é",
        "a" * 65,
        "a\\b",
        None,
        7,
    ],
)
def test_names_that_are_no_steps_never_reach_the_disk(tmp_path: Path, step: str) -> None:
    logs = LogStore(tmp_path / "logs")
    with pytest.raises(CallError):
        logs.append(1, step, 1, 0, b"x")
    with pytest.raises(CallError):
        logs.read(1, step, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("job", "no", "offset"), [(0, 1, 0), (-1, 1, 0), (10**15, 1, 0), (1, 0, 0), (1, -7, 0), (1, 1, -1)]
)
def test_numbers_that_are_none_are_refused(logs: LogStore, job: int, no: int, offset: int) -> None:
    with pytest.raises(CallError):
        logs.append(job, "beauty", no, offset, b"x")
    assert not logs.root.exists()


@given(step=st.text(max_size=80) | st.from_regex(r"[A-Za-z_./\\][A-Za-z0-9_./\\-]{0,70}", fullmatch=True))
@settings(max_examples=200, deadline=None)
def test_no_step_name_leads_out_of_the_root(step: str) -> None:
    from farm.storage.logs import unit_folder

    root = Path("/state/logs")
    try:
        folder = unit_folder(root, 1, step)
    except CallError:
        return
    assert Path(os.path.normpath(folder)).parent == root / "J1"


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    folder = tmp_path / "logs" / "J1" / "beauty"
    folder.mkdir(parents=True)
    (folder / "1.log.open").symlink_to(secret)
    (folder / "2.log").symlink_to(secret)
    logs = LogStore(tmp_path / "logs")
    with pytest.raises(StorageError):
        logs.append(1, "beauty", 1, 0, b"over")
    with pytest.raises(StorageError):
        logs.read(1, "beauty", 2)
    assert secret.read_bytes() == b"key"


def test_files_are_private(logs: LogStore) -> None:
    logs.append(1, "beauty", 1, 0, b"x")
    for path in (logs.root, *logs.root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    logs.close()


def test_few_files_are_held_open_and_none_after_closing(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs", handles=4)
    for turn in range(3):
        for no in range(1, 21):
            assert logs.append(1, "beauty", no, turn * 2, b"ab") == (turn * 2 + 2, "")
            assert descriptors_below(tmp_path) <= 4
    logs.append(1, "beauty", 20, 6, b"", end=True)
    assert descriptors_below(tmp_path) == 3
    logs.close()
    assert descriptors_below(tmp_path) == 0
    assert logs.append(1, "beauty", 1, 6, b"cd") == (8, "")  # closing is no end
    logs.close()


def test_a_job_is_removed_with_all_its_logs(logs: LogStore) -> None:
    for job in (1, 11):
        logs.append(job, "beauty", 1, 0, b"x")
        logs.append(job, "comp", 1, 0, b"x", end=True)
    logs.remove_job(1)
    logs.remove_job(1)
    assert logs.read(1, "beauty", 1).size == logs.read(1, "comp", 1).size == 0
    assert logs.read(11, "comp", 1).size == 1
    assert logs.append(1, "beauty", 1, 0, b"y") == (1, "")
    assert logs.read(1, "beauty", 1).data == b"y"
    logs.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_bytes(b"")
    with pytest.raises(StorageError, match="logs/J1/beauty"):
        LogStore(tmp_path / "logs").append(1, "beauty", 1, 0, b"x")


def test_whatever_comes_in_whatever_order_the_log_is_a_beginning_of_the_text(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = bytes(range(256))

    class Sender(RuleBasedStateMachine):
        """An agent that repeats, skips ahead and comes back, to a farm that restarts."""

        @initialize()
        def start(self) -> None:
            self.root = tmp_path_factory.mktemp("logs")
            self.logs = LogStore(self.root, handles=1)
            self.size = 0
            self.ended = False

        @rule(offset=st.integers(0, 255), length=st.integers(0, 255), end=st.booleans())
        def send(self, offset: int, length: int, end: bool) -> None:
            piece = text[offset : offset + length]
            answer = self.logs.append(1, "s", 1, offset, piece, end=end)
            behind = offset + len(piece)
            if self.ended:
                taken = behind <= self.size
            else:
                taken = offset <= self.size
                if taken:
                    self.size = max(self.size, behind)
                    self.ended = end
            assert answer.size == self.size
            assert (answer.reason == "") == taken

        @rule()
        def other_logs(self) -> None:
            self.logs.append(2, "s", 1, 0, b"pushes the handle out")

        @rule()
        @precondition(lambda self: self.size)
        def restart(self) -> None:
            self.logs.close()
            self.logs = LogStore(self.root, handles=1)

        @invariant()
        def is_a_beginning(self) -> None:
            assert self.logs.read(1, "s", 1) == Page(0, self.size, text[: self.size], self.ended)

        def teardown(self) -> None:
            self.logs.close()

    run_state_machine_as_test(
        Sender, settings=settings(max_examples=30, stateful_step_count=20, deadline=None)
    )


# -- short logs share a file --------------------------------------------------------------------------


#: Length of what ``whole`` makes of a number of one digit.
SIZE = len(b"log of 7\n")


def whole(numbers: Iterable[int], step: str = "beauty") -> list[tuple[int, str, int, bytes]]:
    return [(1, step, no, b"log of %d\n" % no) for no in numbers]


def test_logs_that_come_whole_share_files_and_one_flush(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[int] = []
    flush = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (flushes.append(fd), flush(fd))[1])
    some = whole(range(1, 501))
    assert logs.append_whole(some) == [Appended(len(data)) for *_, data in some]
    assert len(flushes) == 1
    assert len(list(logs.root.rglob("*.*"))) == 1
    for _, step, no, data in some:
        assert logs.read(1, step, no) == Page(0, len(data), data, True)
        assert logs.size(1, step, no) == len(data)
    assert logs.read(1, "beauty", 501) == Page(0, 0, b"", False)
    assert logs.read(1, "beauty", 7, -2, 1) == Page(SIZE - 2, SIZE, b"7", True)


def test_a_log_sent_whole_again_changes_nothing(logs: LogStore) -> None:
    first = whole([7])
    assert logs.append_whole([*first, *first]) == [Appended(SIZE), Appended(SIZE)]
    assert logs.append_whole(first) == [Appended(SIZE)]
    assert logs.append(1, "beauty", 7, 0, b"XXXX") == Appended(SIZE)
    assert logs.append(1, "beauty", 7, 4, b"of 7\n", end=True) == Appended(SIZE)
    assert "ended" in logs.append(1, "beauty", 7, SIZE, b"!").reason
    assert "ended" in logs.append_whole([(1, "beauty", 7, b"log of 7\nand more")])[0].reason
    logs.close()
    assert logs.read(1, "beauty", 7).data == first[0][3]


def test_a_log_whose_beginning_is_held_is_ended_where_it_lies(logs: LogStore) -> None:
    logs.append(1, "beauty", 7, 0, b"log")
    assert logs.append_whole(whole([7, 8])) == [Appended(SIZE), Appended(SIZE)]
    logs.close()
    logs.append(1, "beauty", 9, 0, b"log")
    logs.close()  # as after a restart: no handle is open, but the file is there
    assert logs.append_whole(whole([9])) == [Appended(SIZE)]
    for no in (7, 8, 9):
        assert logs.read(1, "beauty", no) == Page(0, SIZE, b"log of %d\n" % no, True)
    assert not list(logs.root.rglob("*.open"))


def test_a_log_too_long_for_a_shelf_gets_its_own_file(tmp_path: Path) -> None:
    logs = LogStore(tmp_path, cap=SHORT + 10)
    long = bytes(SHORT + 5)
    assert logs.append_whole([(1, "a", 1, long), (1, "a", 2, bytes(SHORT + 11))])[0] == Appended(len(long))
    assert logs.read(1, "a", 1) == Page(0, len(long), long, True)
    assert logs.read(1, "a", 2).size == SHORT + 10
    logs.close()
    small = LogStore(tmp_path / "small", cap=4)
    assert "full at 4 bytes" in small.append_whole([(1, "a", 1, b"12345")])[0].reason
    assert small.read(1, "a", 1) == Page(0, 4, b"1234", True)
    small.close()


def test_neighbours_share_a_shelf_and_strangers_do_not(tmp_path: Path) -> None:
    logs = LogStore(tmp_path)
    logs.append_whole([*whole([SPAN - 1, SPAN]), *whole([1], "comp"), (2, "beauty", 1, b"other job\n")])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.shelf")) == [
        "J1/beauty/0.shelf",
        "J1/beauty/1.shelf",
        "J1/comp/0.shelf",
        "J2/beauty/0.shelf",
    ]
    logs.remove_job(1)
    assert logs.read(1, "beauty", SPAN) == Page(0, 0, b"", False)
    assert logs.append_whole(whole([SPAN])) == [Appended(len(b"log of %d\n" % SPAN))]
    assert logs.read(2, "beauty", 1).data == b"other job\n"
    logs.close()
    assert descriptors_below(tmp_path) == 0


def test_many_shelves_are_closed_again_and_lose_nothing(tmp_path: Path) -> None:
    logs = LogStore(tmp_path)
    numbers = [SPAN * number + 3 for number in range(3 * OPEN)]
    logs.append_whole(whole(numbers))
    assert descriptors_below(tmp_path) <= OPEN
    assert [logs.read(1, "beauty", no).data for no in numbers] == [b"log of %d\n" % no for no in numbers]
    logs.close()


@given(cut=st.integers(0, 200), rubbish=st.binary(max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_a_crash_left_half_written_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int, rubbish: bytes
) -> None:
    root = tmp_path_factory.mktemp("logs")
    logs = LogStore(root)
    logs.append_whole(whole(range(1, 6)))
    logs.close()
    path = root / "J1" / "beauty" / "0.shelf"
    size = path.stat().st_size
    os.truncate(path, max(0, size - cut))
    with path.open("ab") as file:
        file.write(rubbish)
    record = size // 5
    kept = max(0, size - cut) // record
    for no in range(1, 6):
        page = logs.read(1, "beauty", no)
        assert page == (Page(0, SIZE, b"log of %d\n" % no, True) if no <= kept else Page(0, 0, b"", False))
    # The agent sends again what it has no answer for; new ones go behind the rubbish.
    assert logs.append_whole(whole(range(1, 9))) == [Appended(SIZE)] * 8
    logs.close()
    for no in range(1, 9):
        assert logs.read(1, "beauty", no).data == b"log of %d\n" % no
    logs.close()


def test_a_link_in_place_of_a_shelf_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    folder = tmp_path / "logs" / "J1" / "beauty"
    folder.mkdir(parents=True)
    (folder / "0.shelf").symlink_to(secret)
    logs = LogStore(tmp_path / "logs")
    with pytest.raises(StorageError):
        logs.append_whole(whole([1]))
    with pytest.raises(StorageError):
        logs.read(1, "beauty", 1)
    assert secret.read_bytes() == b"key"

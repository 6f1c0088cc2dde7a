"""The log of an attempt on the agent's disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import StorageError
from node_agent.logs import MAX_READ_BYTES, NOTES_BYTES, LogSpool
from tests.support.real import require


def read_all(spool: LogSpool, piece: int = MAX_READ_BYTES) -> bytes:
    data = b""
    while part := spool.read(len(data), piece):
        data += part
    return data


def test_bytes_come_back_as_they_came_between_our_own_lines(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "logs" / "a.log") as spool:
        spool.note("J1/beauty@7 on node three\nstarts")
        spool.append(b"Fra:1 \x1b[31m\xff\r\n")
        spool.append(b"no line end")
        spool.note("exit code 0")
        spool.settle()
        assert spool.size == spool.path.stat().st_size
        expected = (
            b"== overcrank: J1/beauty@7 on node three starts\nFra:1 \x1b[31m\xff\r\nno line end\n"
            b"== overcrank: exit code 0\n"
        )
        assert read_all(spool) == expected
        assert read_all(spool, 7) == expected
        assert spool.read(10**9) == b""
        assert spool.dropped == 0
    assert read_all(spool, 9) == expected  # a closed log is still uploaded
    with pytest.raises(StorageError, match="closed"):
        spool.append(b"late")
    with pytest.raises(StorageError, match="closed"):
        spool.note("late")
    spool.remove()
    assert not spool.path.exists()
    spool.remove()
    with pytest.raises(StorageError, match="cannot read"):
        spool.read(0)


def test_a_read_is_bounded_and_refuses_nonsense(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "a.log") as spool:
        spool.append(b"x" * (MAX_READ_BYTES + 5))
        assert len(spool.read(0, 10**9)) == MAX_READ_BYTES
        assert len(spool.read(MAX_READ_BYTES)) == 5
        for offset, limit in ((-1, 5), (0, -5)):
            with pytest.raises(ValueError):
                spool.read(offset, limit)


def test_a_full_log_keeps_its_beginning_its_last_lines_and_the_footer(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "a.log", cap_bytes=8000) as spool:
        spool.note("header")
        for number in range(2000):
            spool.append(f"line {number:04d}\n".encode())
        assert 0 < spool.dropped < 20000
        held = spool.size
        spool.close("exit code 1")
    data = read_all(spool)
    assert held <= 8000 + 200
    assert len(data) <= 8000 + 400
    lines = data.decode().splitlines()
    assert lines[:2] == ["== overcrank: header", "line 0000"]
    assert lines[-2:] == ["line 1999", "== overcrank: exit code 1"]
    ours = [line for line in lines if line.startswith("== overcrank: ")]
    assert "full" in ours[1]
    missing = int(ours[2].split()[2])
    # What is said to be missing is exactly what is missing; the full log's note cut a line in two.
    whole = b"".join(b"line %04d\n" % number for number in range(2000))
    head, _, rest = data.partition(b"\n" + ours[1].encode() + b"\n")
    head = head.removeprefix(b"== overcrank: header\n")
    tail = rest.partition(ours[2].encode() + b"\n")[2].removesuffix(b"== overcrank: exit code 1\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert missing == len(whole) - len(head) - len(tail)
    after = lines[lines.index(ours[2]) + 1 : -1]
    assert after == [f"line {number:04d}" for number in range(2000 - len(after), 2000)]


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(0, 2000))
def test_the_cap_holds_for_any_appends(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], cap: int
) -> None:
    spool = LogSpool(tmp_path_factory.mktemp("cap") / "a.log", cap_bytes=cap)
    for part in parts:
        spool.append(part)
    spool.close()
    data, whole = read_all(spool), b"".join(parts)
    if len(whole) <= cap - cap // 8:
        assert data == whole
        assert spool.dropped == 0
    else:
        assert len(data) <= cap + 300
        assert data.startswith(whole[: cap - cap // 8])
    spool.remove()


def test_an_agent_that_restarts_goes_on_after_the_end(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "a.log") as spool:
        spool.append(b"before")
    with LogSpool(tmp_path / "a.log") as spool:
        assert spool.size == 6
        spool.note("the agent was restarted")
        assert read_all(spool) == b"before\n== overcrank: the agent was restarted\n"


def test_a_full_disk_does_not_raise_but_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(Path("/dev/full").exists(), "/dev/full")
    with LogSpool(tmp_path / "a.log") as spool:
        spool.append(b"fits\n")
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, spool._fd)
        os.close(full)
        spool.append(b"does not\n")
        spool.note("nor this")
        spool.settle()
        assert "No space left" in spool.trouble
        assert str(spool.path) in spool.trouble
        assert spool.size == 5


def test_notes_of_a_silent_program_are_in_the_file_in_time_and_in_place(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "a.log") as spool:
        for number in range(3):
            spool.note(f"note {number}")
            assert spool.size == len(spool.read(0))  # whoever asks sees all of it
        spool.note("before the words")
        spool.append(b"words\n")
        lines = spool.path.read_bytes().splitlines()
        assert lines[-2:] == [b"== overcrank: before the words", b"words"]
        for number in range(1000):
            spool.note(f"silence {number}")
        assert spool.size - spool.path.stat().st_size <= NOTES_BYTES
        spool.note("last")
    assert spool.path.read_bytes().endswith(b"== overcrank: last\n")
    assert spool.size == spool.path.stat().st_size


def test_a_log_that_cannot_be_opened_is_a_storage_error_naming_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/a\.log"):
        LogSpool(tmp_path / "file" / "a.log")


def test_threads_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    with LogSpool(tmp_path / "a.log") as spool:
        threads = [
            threading.Thread(target=lambda n=n: [spool.append(b"%d" % n * 50 + b"\n") for _ in range(200)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = read_all(spool).split(b"\n")
    assert len(lines) == 801
    assert set(lines) == {b"0" * 50, b"1" * 50, b"2" * 50, b"3" * 50, b""}

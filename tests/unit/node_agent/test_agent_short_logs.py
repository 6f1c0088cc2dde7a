"""Short logs share files: nothing is lost, whoever ends first, and nothing is left lying about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.protocol.bulk import BulkErrorMsg, LogAckMsg, LogPutMsg, LogsAckMsg, LogsPutMsg
from farm.protocol.codec import bulk_in_codec
from node_agent import smalllogs
from node_agent.logs import REMEMBER_BYTES, LogSpool
from node_agent.smalllogs import SUFFIX, SmallLogs, read_shelf
from node_agent.uploads import REFUSALS, WHOLE_BYTES, WINDOW, Uploader
from tests.support.agent_far_end import FakeLine
from tests.support.waiting import PATIENCE_S, eventually


def shelves(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


class Keeper:
    """The far end of a bulk line: keeps pieces as the broker does."""

    def __init__(self) -> None:
        self.line = FakeLine(self._take)
        self.logs: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.answer = True
        self.flying = 0
        self.most_flying = 0
        self.waiting: list[LogAckMsg | LogsAckMsg | BulkErrorMsg] = []
        #: Messages that held several logs; whether it is of a version that knows them.
        self.parcels = 0
        self.knows_parcels = True
        self._decode = bulk_in_codec().decode

    def _take(self, line: FakeLine, body: bytes) -> None:
        message = self._decode(body)
        if isinstance(message, LogsPutMsg):
            self._take_parcel(message)
            return
        assert isinstance(message, LogPutMsg)
        held = self.logs.get(message.attempt, b"")
        assert message.offset <= len(held)
        self.logs[message.attempt] = held + message.data[len(held) - message.offset :]
        if message.end:
            self.ended.add(message.attempt)
        self._say(LogAckMsg(message.attempt, len(self.logs[message.attempt])))

    def _take_parcel(self, message: LogsPutMsg) -> None:
        if not self.knows_parcels:
            self._say(BulkErrorMsg(0, "peer", "unknown kind of message: logs-put"))
            return
        self.parcels += 1
        for one in message.logs:
            self.logs[one.attempt] = one.data
            self.ended.add(one.attempt)
        self._say(LogsAckMsg(tuple(LogAckMsg(one.attempt, len(one.data)) for one in message.logs)))

    def _say(self, answer: LogAckMsg | LogsAckMsg | BulkErrorMsg) -> None:
        self.waiting.append(answer)
        self.most_flying = max(self.most_flying, len(self.waiting))
        if self.answer:
            self.release()

    def release(self) -> None:
        waiting, self.waiting = self.waiting, []
        for message in waiting:
            self.line.push(message)


class Running:
    """An uploader in its thread."""

    def __init__(self, folder: Path, keeper: Keeper) -> None:
        self.uploader = Uploader(keeper.line, folder)
        self._thread = threading.Thread(target=self.uploader.run)

    def __enter__(self) -> Uploader:
        self._thread.start()
        return self.uploader

    def __exit__(self, *_: object) -> None:
        self.uploader.end(0.0)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@given(
    texts=st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=300)), max_size=20),
    cut=st.integers(0, 40),
)
def test_what_was_put_is_read_up_to_a_torn_end(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, bytes]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("shelf")
    small = SmallLogs(str(folder))
    places = [small.put(name, text) for name, text in texts]
    for place, (_, text) in zip(places, texts, strict=True):
        assert place.read(0, 1000) == text
        assert place.read(7, 5) == text[7:12]
    small.close()
    for path in shelves(folder):
        assert list(read_shelf(path)) == texts
        size = path.stat().st_size
        os.truncate(path, max(0, size - cut))
        found = list(read_shelf(path))
        assert found == texts[: len(found)]
        assert len(found) >= len(texts) - cut  # a record is longer than a byte
    assert bool(shelves(folder)) == bool(texts)


def test_a_full_file_goes_with_its_last_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smalllogs, "FULL_BYTES", 1000)
    small = SmallLogs(str(tmp_path))
    places = [small.put(f"{number}.log", b"x" * 300) for number in range(9)]
    assert len(shelves(tmp_path)) == 3
    for place in places[1:]:
        place.release()
    assert len(shelves(tmp_path)) == 2  # the first one holds a log still, the last one is in use
    assert places[0].read(0, 3) == b"xxx"
    places[0].release()
    small.close()
    assert shelves(tmp_path) == []


def test_a_log_closed_young_has_no_file_and_an_older_or_longer_one_has(tmp_path: Path) -> None:
    small = SmallLogs(str(tmp_path / "short"))
    young, old, long = (LogSpool(tmp_path / f"{name}.log", small=small) for name in ("young", "old", "long"))
    for spool in (young, old, long):
        spool.append(b"one\n")
    old.settle()
    assert (tmp_path / "old.log").read_bytes() == b"one\n"
    long.append(b"x" * REMEMBER_BYTES)
    assert (tmp_path / "long.log").stat().st_size == 4 + REMEMBER_BYTES
    for spool in (young, old, long):
        spool.note("two")
        spool.close()
    assert not (tmp_path / "young.log").exists()
    assert young.read(0) == b"one\n== overcrank: two\n"
    assert young.size == len(young.read(0))
    young.forget_text()
    assert young.read(4, 12) == b"== overcrank"
    assert (tmp_path / "old.log").read_bytes() == young.read(0)
    for spool in (young, old, long):
        spool.remove()
    small.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_disk_that_takes_nothing_is_told_and_the_text_is_still_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    small = SmallLogs(str(tmp_path / "file" / "short"))
    spool = LogSpool(tmp_path / "file" / "a.log", small=small)
    spool.append(b"what it said\n")
    spool.settle()
    assert str(spool.path) in spool.trouble
    spool.note("and we")
    spool.close()
    assert spool.read(0) == b"what it said\n== overcrank: and we\n"
    spool.remove()


def test_hundreds_of_logs_arrive_whole_and_leave_nothing(tmp_path: Path) -> None:
    keeper = Keeper()
    with Running(tmp_path / "logs", keeper) as uploader:
        for attempt in range(1, 301):
            spool = uploader.open_log(12, "beauty", attempt, attempt)
            spool.append(b"frame %d\n" % attempt)
            spool.close()
            uploader.log_ended(attempt)
        eventually(lambda: uploader.waiting() == 0, "all logs are sent")
    assert keeper.logs == {attempt: b"frame %d\n" % attempt for attempt in range(1, 301)}
    assert keeper.ended == set(keeper.logs)
    assert keeper.parcels < 100  # they share messages as they share files
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_broker_that_knows_no_parcels_gets_every_log_by_itself(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper.knows_parcels = False
    with Running(tmp_path / "logs", keeper) as uploader:
        for attempt in range(1, 101):
            spool = uploader.open_log(12, "beauty", attempt, attempt)
            spool.append(b"frame %d\n" % attempt)
            spool.close()
            uploader.log_ended(attempt)
        eventually(lambda: uploader.waiting() == 0, "all logs are sent")
    assert keeper.logs == {attempt: b"frame %d\n" % attempt for attempt in range(1, 101)}
    assert keeper.most_flying <= WINDOW


def test_a_log_refused_in_a_parcel_is_sent_again_by_itself(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper.answer = False
    with Running(tmp_path / "logs", keeper) as uploader:
        for attempt in (1, 2):
            spool = uploader.open_log(12, "beauty", attempt, attempt)
            spool.append(b"frame %d\n" % attempt)
            spool.close()
            uploader.log_ended(attempt)
        eventually(lambda: keeper.ended >= {1, 2}, "both are sent")
        keeper.waiting.clear()
        del keeper.logs[1]
        for attempt in keeper.ended:
            refused = attempt == 1
            ack = LogAckMsg(attempt, 0 if refused else 8, "the disk is full" if refused else "")
            keeper.line.push(LogsAckMsg((ack,)))
        keeper.answer = True
        eventually(lambda: uploader.waiting() == 0, "the refused one is sent again")
    assert keeper.logs == {1: b"frame 1\n", 2: b"frame 2\n"}


@pytest.mark.parametrize("ended", [True, False])
def test_a_log_that_is_not_taken_at_all_is_given_up_and_others_go_on(tmp_path: Path, ended: bool) -> None:
    """As when the farm knows no such lease (any more): it answers with a size below zero."""
    keeper = Keeper()
    keeper.answer = False
    with Running(tmp_path / "logs", keeper) as uploader:
        spool = uploader.open_log(12, "beauty", 1, 1)
        spool.append(bytes(WHOLE_BYTES + 1))
        if ended:
            spool.close()
            uploader.log_ended(1)
        for _ in range(REFUSALS):
            eventually(lambda: keeper.waiting, "it is sent")
            keeper.waiting.clear()
            keeper.line.push(LogAckMsg(1, -1, "this attempt was not leased to this key"))
        keeper.answer = True
        other = uploader.open_log(12, "beauty", 2, 2)
        other.append(b"frame 2\n")
        other.close()
        uploader.log_ended(2)
        eventually(lambda: 2 in keeper.ended, "the other log is sent")
        if not ended:
            spool.close()
            uploader.log_ended(1)
        eventually(lambda: uploader.waiting() == 0, "the refused one is given up")
        assert keeper.logs[2] == b"frame 2\n"


def test_never_more_pieces_fly_than_a_broker_answers(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper.answer = False
    with Running(tmp_path / "logs", keeper) as uploader:
        for attempt in range(1, 101):
            spool = uploader.open_log(12, "beauty", attempt, attempt)
            spool.append(bytes(WHOLE_BYTES + 1))  # longer than what is sent with others
            spool.close()
            uploader.log_ended(attempt)
        eventually(lambda: len(keeper.waiting) == WINDOW, "the window is full")
        while len(keeper.ended) < 100 or uploader.waiting():
            keeper.release()
            uploader._line.wake()
            eventually(lambda: keeper.waiting or not uploader.waiting(), "more is sent")
    assert keeper.most_flying == WINDOW


def test_logs_not_sent_are_sent_by_the_next_agent(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper.line.cut()
    with Running(tmp_path / "logs", keeper) as uploader:
        for attempt in (1, 2):
            spool = uploader.open_log(12, "beauty", attempt, attempt)
            spool.append(b"frame %d\n" % attempt)
            spool.close()
            uploader.log_ended(attempt)
        running = uploader.open_log(12, "beauty", 3, 3)
        running.append(b"cut short\n")
    running.close()
    assert keeper.logs == {}
    keeper = Keeper()
    with Running(tmp_path / "logs", keeper) as uploader:
        eventually(lambda: uploader.waiting() == 0, "all logs are sent")
    assert keeper.logs == {1: b"frame 1\n", 2: b"frame 2\n", 3: b"cut short\n"}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


KILLED = """
import os, signal, sys
from node_agent.uploads import Uploader
from tests.support.agent_far_end import FakeLine
uploader = Uploader(FakeLine(lambda line, body: None), __import__("pathlib").Path(sys.argv[1]))
for attempt in range(1, 41):
    spool = uploader.open_log(12, "beauty", attempt, attempt)
    spool.append(b"frame %d" % attempt)
    spool.close()
    uploader.log_ended(attempt)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_ended_logs_survive_a_killed_agent(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "logs")], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    keeper = Keeper()
    with Running(tmp_path / "logs", keeper) as uploader:
        eventually(lambda: uploader.waiting() == 0, "all logs are sent")
    assert keeper.logs == {attempt: b"frame %d" % attempt for attempt in range(1, 41)}


def test_another_farms_short_logs_are_put_aside(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper.line.cut()
    with Running(tmp_path / "logs", keeper) as uploader:
        spool = uploader.open_log(12, "beauty", 1, 1)
        spool.append(b"of the old farm")
        spool.close()
        uploader.log_ended(1)
        uploader.forget(tmp_path / "aside")
        assert uploader.waiting() == 0
        keeper.line.mend()
        spool = uploader.open_log(1, "new", 1, 2)
        spool.close()
        uploader.log_ended(2)
        eventually(lambda: uploader.waiting() == 0, "the new farm's log is sent")
    assert set(keeper.logs) == {2}
    assert [path.read_bytes() for path in (tmp_path / "aside").iterdir()] == [b"of the old farm"]

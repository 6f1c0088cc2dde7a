"""The window's end of the line to a farm: decoding, the mailbox, the thread, and the watchdog."""

from __future__ import annotations

import logging
import re
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from client_gui.net.decoding import GentleCodec
from client_gui.net.dialer import Route
from client_gui.net.mailbox import Mailbox
from client_gui.net.port import Answer, Dial, Follow, Heard, Incoming, News, Resync, Standing, Wakes, Welcomed
from client_gui.net.thread import SocketsThread
from client_gui.net.watchdog import Watchdog, stack_of, watchdog_wanted
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable, PeerError
from farm.protocol.client import JobsReply, SnapshotMsg, StatusReq
from farm.protocol.codec import AnyToClient, Codec, encode
from farm.protocol.common import WelcomeMsg
from tests.support.gui_net import FakeDialer
from tests.support.gui_rig import FakePort, Rig, job_row, node_row
from tests.support.waiting import PATIENCE_S

# -- decoding, mailbox, thread -----------------------------------------------------------------------


@given(
    jobs=st.integers(0, 30),
    nodes=st.integers(0, 5),
    maps=st.dictionaries(st.text(max_size=5), st.binary(max_size=40), max_size=3),
    large=st.sampled_from([1, 1000, 1 << 20]),
)
def test_a_state_read_in_slices_is_the_same_state(
    jobs: int, nodes: int, maps: dict[str, bytes], large: int
) -> None:
    message = SnapshotMsg(
        id=3,
        n=9,
        jobs=tuple(job_row(number) for number in range(1, jobs + 1)),
        nodes=tuple(node_row(number) for number in range(1, nodes + 1)),
        maps=maps,
    )
    body = encode(message)
    assert GentleCodec(large).decode(body) == message == Codec[Any](AnyToClient, 1 << 30).decode(body)


def test_what_is_large_and_no_state_or_spoilt_is_told_apart() -> None:
    codec = GentleCodec(large=10)
    reply = JobsReply(id=1, jobs=(job_row(1),))
    assert codec.decode(encode(reply)) == reply
    body = encode(SnapshotMsg(id=1, n=1, jobs=(job_row(1),)))
    with pytest.raises(PeerError, match="does not decode"):
        codec.decode(body[:-3])
    spoilt = msgspec.msgpack.encode({"type": "snapshot", "id": 1, "n": 1, "jobs": [{"job": "first"}]})
    with pytest.raises(PeerError, match="does not decode"):
        codec.decode(spoilt)


def test_a_mailbox_tells_once_until_it_is_emptied_and_only_of_what_is_urgent() -> None:
    told: list[int] = []
    box: Mailbox[int] = Mailbox(lambda: told.append(len(told)), urgent=lambda item: item > 10)
    for item in (1, 20, 2, 30):
        box.put(item)
    assert told == [0]
    assert box.take() == [1, 20, 2, 30]
    assert box.take() == []
    box.put(3)
    assert told == [0]
    box.put(40)
    assert told == [0, 1]


def test_a_mailbox_loses_nothing_between_threads() -> None:
    box: Mailbox[tuple[int, int]] = Mailbox()
    writers = [
        threading.Thread(target=lambda who=who: [box.put((who, n)) for n in range(2000)])  # type: ignore[misc]
        for who in range(4)
    ]
    for writer in writers:
        writer.start()
    got: list[tuple[int, int]] = []
    while any(writer.is_alive() for writer in writers):
        got += box.take()
    for writer in writers:
        writer.join()
    got += box.take()
    for who in range(4):
        assert [n for one, n in got if one == who] == list(range(2000))


def test_the_thread_ends_whatever_it_was_doing_and_may_be_ended_twice(qapp: Any) -> None:
    dialer = FakeDialer()
    dialer.trouble = FarmUnreachable("no farm answers")
    thread = SocketsThread(dialer)
    assert isinstance(thread, Wakes)
    came = threading.Event()
    thread.listen(came.set)
    thread.post(Dial("studio"))  # before it begins: not lost
    thread.start()
    assert came.wait(PATIENCE_S)
    assert any(isinstance(message, Standing) for message in thread.take())
    assert thread.stop(PATIENCE_S)
    assert thread.stop()
    assert not thread.isRunning()
    never = SocketsThread(dialer)
    assert never.stop()
    never.start()
    assert not never.isRunning(), "an ended port does not begin again"


@pytest.mark.allow_log("sockets-fault")
def test_a_fault_in_the_thread_is_told_and_it_goes_on(qapp: Any) -> None:
    class Broken(FakeDialer):
        def find(self, farm: str | None, done: Callable[[], None]) -> Route:
            raise ZeroDivisionError("a bug")

    thread = SocketsThread(Broken())
    came = threading.Event()
    thread.listen(came.set)
    thread.start()
    thread.post(Dial("studio"))
    given: list[Incoming] = []
    while not any(isinstance(one, Standing) and one.link is Link.LOST for one in given):
        assert came.wait(PATIENCE_S)
        came.clear()
        given += thread.take()
    assert "a fault in the client: ZeroDivisionError" in given[-1].trouble  # type: ignore[union-attr]
    assert thread.stop(PATIENCE_S)


# -- the window's end --------------------------------------------------------------------------------


def welcome(farm: str, farm_id: str) -> Welcomed:
    message = WelcomeMsg(version=1, session=2, farm_name=farm, software="0.1.0", role="artist", user="ana")
    return Welcomed(message, farm, "h:1", farm_id=farm_id)


def test_another_farm_s_numbers_are_not_taken_for_those_of_the_one_before(rig: Rig) -> None:
    rig.give(welcome("farm-A", "id-a"), Standing(Link.LIVE))
    rig.client.look("jobs", jobs=True, nodes=True, opened=frozenset({1}))
    rig.snapshot((job_row(1), job_row(2)), (node_row(1),), {"J1/beauty": bytes(100)})
    moved: list[bool] = []
    changes: list[Any] = []
    rig.client.moved.connect(lambda: moved.append(True))
    rig.client.changed.connect(changes.append)
    store = rig.client.store
    rig.give(Standing(Link.LOST, "the line broke"), welcome("farm-A", "id-a"), Standing(Link.LIVE))
    assert moved == []
    assert len(store.jobs) == 2, "the same farm again: nothing is thrown away"
    rig.give(Standing(Link.CONNECTING), welcome("farm-B", "id-b"), Standing(Link.LIVE))
    assert moved == [True]
    assert (len(store.jobs), len(store.nodes), len(store.steps), store.maps) == (0, 0, 0, {})
    assert len(changes[0].jobs.removed) == 2, "rows are taken out, nothing is reset"
    assert rig.followed() == ("jobs", "nodes")
    assert store.link is Link.LIVE
    assert store.needs_snapshot
    rig.snapshot((job_row(1, name="quite another"),))
    assert store.jobs.row(1)["name"] == "quite another"


def test_what_came_before_a_line_broke_does_not_make_it_look_alive(rig: Rig) -> None:
    rig.client.look("jobs", jobs=True)
    topics = rig.client.store.topics()
    rig.port.waiting += [
        News(SnapshotMsg(id=1, n=1, jobs=(job_row(1),)), topics),
        Standing(Link.LOST, "the line broke"),
    ]
    rig.settle()
    assert rig.client.store.link is Link.LOST
    rig.give(Standing(Link.LIVE), News(SnapshotMsg(id=2, n=1, jobs=(job_row(1),)), topics))
    assert rig.client.store.link is Link.LIVE
    assert len(rig.client.store.jobs) == 1


def test_the_round_trip_is_that_of_a_small_question(rig: Rig) -> None:
    rig.give(Heard(1_500))
    number = rig.client.ask(StatusReq, rig.client, lambda reply: None)
    rig.give(Answer(number, JobsReply(id=number, jobs=()), None, 900_000))
    assert rig.client.store.round_trip_us == 1_500


@pytest.mark.parametrize("make", [FakePort, lambda: SocketsThread(FakeDialer())], ids=["fake", "real"])
def test_a_port_keeps_what_is_posted_and_ends_more_than_once(make: Callable[[], Any], qapp: Any) -> None:
    port = make()
    assert port.take() == []
    port.post(Follow(("jobs",)))
    port.start()
    port.post(Dial("studio"))
    assert port.stop(PATIENCE_S)
    assert port.stop()
    port.post(Resync())  # to one that has ended: no matter
    port.take()
    assert port.take() == []


def hang_until(told: Callable[[], bool]) -> None:
    """Answers nobody until the watchdog has written: this is the window's thread."""
    go = threading.Event()
    for _ in range(20):
        if told():
            break
        go.wait(0.05)


def hang_in(hang: Callable[[], None], told: Callable[[], bool], dog: Watchdog, qtbot: QtBot) -> None:
    """Hangs until that is told of.

    On a busy machine something else may have been too slow right before it began: one who does not answer is
    told of once, so it has to answer and hang again.
    """
    timer = QTimer(dog)
    timer.timeout.connect(hang)
    timer.start(20)
    qtbot.waitUntil(told)
    timer.stop()


@pytest.mark.allow_log("window-blocked")
def test_the_watchdog_says_what_the_window_was_doing(
    qtbot: QtBot, allow_log: list[logging.LogRecord]
) -> None:
    dog = Watchdog(too_long_ms=30)
    dog.start()

    def told() -> bool:
        return any("in hang_until" in record.getMessage() for record in allow_log)

    def read_a_large_file() -> None:
        hang_until(told)

    hang_in(read_a_large_file, told, dog, qtbot)
    dog.stop()
    assert all("window-blocked" in record.getMessage() for record in allow_log)
    found = next(text for record in allow_log if "in hang_until" in (text := record.getMessage()))
    assert found.startswith("window-blocked for_ms=")
    # Who was called by whom, in which file and line; nothing of other threads, though one of them wrote this.
    assert found.index("in hang_until") < found.index("in read_a_large_file")
    assert re.search(r'File ".*test_gui_net_thread\.py", line \d+ in read_a_large_file', found)
    assert found.count("most recent call first") == 1
    assert "watchdog.py" not in found


@pytest.mark.allow_log("window-blocked")
def test_the_watchdog_tells_of_every_time_by_itself(qtbot: QtBot, allow_log: list[logging.LogRecord]) -> None:
    dog = Watchdog(too_long_ms=30)
    dog.start()

    def first() -> None:
        hang_until(lambda: told("in first"))

    def second() -> None:
        hang_until(lambda: told("in second"))

    def told(name: str) -> bool:
        return any(name in record.getMessage() for record in allow_log)

    hang_in(first, lambda: told("in first"), dog, qtbot)
    hang_in(second, lambda: told("in second"), dog, qtbot)
    dog.stop()
    texts = [record.getMessage() for record in allow_log]
    assert not any("in first" in text and "in second" in text for text in texts)
    assert all(text.count("most recent call first") == 1 for text in texts)


@pytest.mark.allow_log("window-blocked")
def test_the_watchdog_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, allow_log: list[logging.LogRecord]
) -> None:
    opened: list[IO[bytes]] = []
    real = tempfile.TemporaryFile

    def noted() -> IO[bytes]:
        opened.append(real())
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    dog = Watchdog(too_long_ms=30)
    dog.start()
    hang_in(lambda: hang_until(lambda: bool(allow_log)), lambda: bool(allow_log), dog, qtbot)
    dog.stop()
    assert [file.closed for file in opened] == [True]
    assert not [thread for thread in threading.enumerate() if thread.name == "watchdog"]


@pytest.mark.allow_log("window-unwatched")
def test_a_watchdog_that_cannot_keep_stacks_says_so(
    monkeypatch: pytest.MonkeyPatch, allow_log: list[logging.LogRecord]
) -> None:
    def refused() -> IO[bytes]:
        raise OSError("no room left")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    dog = Watchdog()
    dog.start()
    dog.stop()
    assert ["no room left" in record.getMessage() for record in allow_log] == [True]


def test_of_all_stacks_the_one_that_is_asked_for_is_told() -> None:
    stacks = (
        'Thread 0x00007f01 (most recent call first):\n  File "a.py", line 1 in ask\n\n'
        'Current thread 0x0000002a [watchdog] (most recent call first):\n  File "b.py", line 2 in watch\n\n'
        'Thread 0x00007f02 [MainThread] (most recent call first):\n  File "c.py", line 3 in paint\n'
    )
    assert stack_of(stacks, 0x7F01).endswith("line 1 in ask")
    assert stack_of(stacks, 42).split("\n") == [
        "Current thread 0x0000002a [watchdog] (most recent call first):",
        '  File "b.py", line 2 in watch',
    ]
    assert stack_of(stacks, 0x7F02).endswith("line 3 in paint")
    assert stack_of(stacks, 7) == stacks.strip()
    assert stack_of("", 7) == ""


def test_the_watchdog_is_off_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in (("", 0), ("no", 0), ("0", 0), ("1", 50), ("200", 200)):
        monkeypatch.setenv("OVERCRANK_GUI_WATCHDOG", text)
        assert watchdog_wanted() == wanted

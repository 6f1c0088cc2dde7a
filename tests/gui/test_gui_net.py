"""The line to a farm, turn by turn: wires without sockets that say what the test says, a clock by hand."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from client_gui.net.decoding import GentleCodec
from client_gui.net.dialer import Dialer, Route
from client_gui.net.line import DIAL_S, GREET_S, VERSION_CODE, Line
from client_gui.net.mailbox import Mailbox
from client_gui.net.port import (
    Answer,
    Ask,
    Cancel,
    Dial,
    Follow,
    Heard,
    Incoming,
    News,
    Resync,
    Standing,
    Wakes,
    Welcomed,
)
from client_gui.net.pulse import SILENT_S
from client_gui.net.retries import RETRY_MOST_S
from client_gui.net.thread import SocketsThread
from client_gui.net.watchdog import Watchdog, watchdog_wanted
from client_gui.store.farmstore import Link
from farm.config.places import Endpoint
from farm.model.errors import FarmUnreachable, OvercrankError, PeerError, SessionRefused
from farm.protocol.agent import ByeMsg
from farm.protocol.bulk import BulkErrorMsg, LogGetMsg, LogPageMsg
from farm.protocol.client import (
    ActReply,
    ActReq,
    DeltaMsg,
    ErrorReply,
    JobsReply,
    JobsReq,
    SnapshotMsg,
    StatusReq,
    SubscribeReq,
)
from farm.protocol.codec import AnyToClient, Codec, broker_codec, bulk_in_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, RehelloMsg, WelcomeMsg
from farm.sdk.connect import Access
from farm.transport.client_link import LinkState, LinkStatus
from farm.transport.keys import generate_keypair
from tests.support.gui_rig import FakePort, Rig, job_row, node_row

PAIR = generate_keypair()
CONTROL, BULK = "10.0.0.5:7460", "10.0.0.5:7462"


class FakeWire:
    """A connection that is as the test says."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0
        self.status = LinkStatus(LinkState.CONNECTING, f"dialling {address}")
        self.inbox: deque[bytes] = deque()
        self.sent: list[Any] = []
        self.pending = False
        self.closed = False
        self.linger_s = -1.0
        self.full = False
        self._codec = broker_codec() if address == CONTROL else bulk_in_codec()

    def up(self) -> None:
        self.connections += 1
        self.status = LinkStatus(LinkState.UP)

    def down(self, state: LinkState = LinkState.CONNECTING, reason: str = "the line broke") -> None:
        self.status = LinkStatus(state, reason, "look at the cable")

    def send(self, body: bytes) -> bool:
        assert not self.closed
        if self.status.state is not LinkState.UP or self.full:
            return False
        self.sent.append(self._codec.decode(body))
        return True

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        assert not self.closed
        if self.inbox:
            return self.inbox.popleft()
        if self.status.state is LinkState.REFUSED:
            raise self.error()
        return None

    def error(self) -> FarmUnreachable:
        return FarmUnreachable(self.status.reason, hint=self.status.hint)

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True
        self.linger_s = linger_s

    def poll_sockets(self) -> tuple[Any, ...]:
        return ()

    def put(self, *messages: msgspec.Struct) -> None:
        self.inbox.extend(encode(message) for message in messages)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if type(message) is kind]


class FakeDialer(Dialer):
    def __init__(self) -> None:
        self.wires: list[FakeWire] = []
        self.finds: list[str | None] = []
        self.trouble: OvercrankError | None = None

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        self.finds.append(farm)
        if self.trouble is not None:
            raise self.trouble
        endpoint = Endpoint(
            control=CONTROL, join="10.0.0.5:7461", bulk=BULK, public=PAIR.public, farm_id="f1"
        )
        return Route(Access(farm or "studio", endpoint, PAIR), done)

    def open(self, route: Route, address: str) -> FakeWire:
        self.wires.append(FakeWire(address))
        return self.wires[-1]


class Stand:
    """A line, what it gave, and the hours."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.given: list[Incoming] = []
        self.dialer = FakeDialer()
        self.line = Line(self.given.append, self.dialer, clock=lambda: self.now_s, draw=lambda: 0.5)

    @property
    def wire(self) -> FakeWire:
        return next(wire for wire in reversed(self.dialer.wires) if wire.address == CONTROL)

    @property
    def bulk(self) -> FakeWire:
        return next(wire for wire in reversed(self.dialer.wires) if wire.address == BULK)

    def turn(self, after_s: float = 0.0) -> float | None:
        self.now_s += after_s
        return self.line.turn()

    def settle(self) -> None:
        """Turns until nothing is due at once."""
        for _ in range(50):
            if self.turn() != 0.0:
                return
        raise AssertionError("the line never comes to rest")

    def post(self, *messages: Any) -> None:
        for message in messages:
            self.line.post(message)
        self.turn()

    def dial(self, farm: str | None = "studio") -> None:
        self.post(Dial(farm))

    def welcome(self) -> None:
        """Lets the connection come up and the session open."""
        self.wire.up()
        self.turn()
        assert isinstance(self.wire.sent[-1], HelloMsg)
        self.hello()

    def hello(self) -> None:
        self.wire.put(
            WelcomeMsg(version=1, session=7, farm_name="Studio", software="0.1", role="artist", user="ana")
        )
        self.turn()

    def live(self) -> None:
        self.dial()
        self.welcome()

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.given if type(message) is kind]

    @property
    def standing(self) -> Standing:
        return self.of(Standing)[-1]

    def answer(self, number: int) -> Answer:
        found = [answer for answer in self.of(Answer) if answer.number == number]
        assert len(found) == 1, f"{len(found)} answers to {number}"
        return found[0]

    def pong(self) -> None:
        """Answers every small question that is open."""
        for ping in self.wire.of(JobsReq):
            if ping.id > 1 << 40:
                self.wire.put(JobsReply(id=ping.id, jobs=()))


@pytest.fixture
def stand() -> Stand:
    return Stand()


def act(number: int) -> Ask:
    return Ask(number, ActReq(id=number, action="pause", address="J1"), repeat=False)


def read(number: int, timeout_s: float = 10.0) -> Ask:
    return Ask(number, StatusReq(id=number), timeout_s=timeout_s)


def page(number: int, timeout_s: float = 10.0) -> Ask:
    return Ask(number, LogGetMsg(id=number, job=1, step="a", no=1), bulk=True, timeout_s=timeout_s)


# -- dialling ----------------------------------------------------------------------------------------


def test_nothing_is_dialled_before_it_is_asked_for(stand: Stand) -> None:
    assert stand.turn() is None
    assert stand.dialer.finds == []


def test_a_session_is_opened_and_told(stand: Stand) -> None:
    stand.live()
    assert [standing.link for standing in stand.of(Standing)] == [Link.CONNECTING, Link.LIVE]
    (welcomed,) = stand.of(Welcomed)
    assert (welcomed.farm, welcomed.place, welcomed.farm_id) == ("studio", CONTROL, "f1")
    assert welcomed.welcome.user == "ana"


def test_a_farm_that_is_not_there_is_tried_again_ever_more_slowly(stand: Stand) -> None:
    stand.dialer.trouble = FarmUnreachable("no farm answers at 127.0.0.1:7460", hint="start one")
    stand.dial(None)
    waits = []
    for _ in range(8):
        standing = stand.standing
        assert standing.link is Link.LOST
        assert (standing.trouble, standing.hint) == ("no farm answers at 127.0.0.1:7460", "start one")
        assert standing.code == "unreachable"
        assert standing.retry_in_s is not None
        waits.append(standing.retry_in_s)
        due = stand.turn()
        assert due == pytest.approx(standing.retry_in_s)
        stand.turn(standing.retry_in_s)
    assert waits == sorted(waits)
    assert waits[0] <= 1
    assert waits[-1] == RETRY_MOST_S
    stand.dialer.trouble = None
    stand.turn(RETRY_MOST_S)
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_a_silent_address_is_given_up_and_dialled_afresh(stand: Stand) -> None:
    stand.dial()
    first = stand.wire
    stand.turn(DIAL_S / 2)
    assert stand.standing.link is Link.CONNECTING
    stand.turn(DIAL_S / 2)
    assert first.closed
    assert stand.standing.link is Link.LOST
    stand.turn(stand.standing.retry_in_s or 0)
    assert stand.wire is not first
    assert len(stand.dialer.finds) == 2, "where the farm is may have changed: it is looked up again"


def test_a_broker_that_takes_the_line_and_says_nothing_is_given_up(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    stand.turn(GREET_S)
    assert stand.standing.link is Link.LOST
    assert "did not answer in 10 s" in stand.standing.trouble


def test_a_host_that_is_being_looked_up_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go = threading.Event(), threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> Any:
        asked.set()
        go.wait(20)
        raise OSError("no such name")

    monkeypatch.setattr("client_gui.net.dialer.socket.getaddrinfo", getaddrinfo)
    endpoint = Endpoint(control="farm.lan:7460", join="farm.lan:7461", bulk=BULK, public="", farm_id="f")
    done = threading.Event()
    route = Route(Access("studio", endpoint, PAIR), done.set)
    assert asked.wait(10)
    assert not route.ready
    go.set()
    assert done.wait(10)
    assert route.ready
    assert route.trouble == "host name 'farm.lan' cannot be looked up"


def test_a_looked_up_host_is_dialled_by_number_and_named_as_people_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        import socket

        return [
            (socket.AF_INET6, 1, 6, "", ("fe80::1", 7460, 0, 0)),
            (socket.AF_INET, 1, 6, "", ("10.9.9.9", 7460)),
        ]

    monkeypatch.setattr("client_gui.net.dialer.socket.getaddrinfo", getaddrinfo)
    endpoint = Endpoint(
        control="farm.lan:7460", join="farm.lan:7461", bulk="farm.lan:9", public="", farm_id="f"
    )
    done = threading.Event()
    route = Route(Access("studio", endpoint, PAIR), done.set)
    assert done.wait(10)
    assert str(route.numeric("farm.lan:9")) == "10.9.9.9:9"
    assert str(route.numeric("other.lan:9")) == "other.lan:9"
    error = Dialer().why(route, "farm.lan:9", FarmUnreachable("nothing answers at 10.9.9.9:9"))
    assert error.message == "nothing answers at farm.lan:9"


# -- refusals ----------------------------------------------------------------------------------------


def test_a_refused_key_is_final_until_somebody_asks_again(stand: Stand) -> None:
    stand.dial()
    stand.post(read(1))
    stand.wire.down(LinkState.REFUSED, "the farm does not know this key")
    stand.turn()
    assert stand.standing == Standing(
        Link.REFUSED, "the farm does not know this key", "look at the cable", "refused"
    )
    assert isinstance(stand.answer(1).error, SessionRefused)
    stand.post(read(2), page(3))
    assert isinstance(stand.answer(2).error, SessionRefused)
    assert isinstance(stand.answer(3).error, SessionRefused)
    assert stand.turn(1000) is None, "nothing is due"
    assert len(stand.dialer.wires) == 1
    stand.post(Resync())
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_another_version_has_its_own_code_and_words_from_this_side(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    hint = "the peer is too old: upgrade it"
    stand.wire.put(RefusedMsg("peer", "no protocol version in common: peer 1-1, here 3-4", hint))
    stand.turn()
    assert stand.standing.link is Link.REFUSED
    assert stand.standing.code == VERSION_CODE
    assert "no protocol version in common" in stand.standing.trouble
    assert "this installation" in stand.standing.hint
    assert "is too old: upgrade it" in stand.standing.hint
    assert not stand.wire.closed
    # The broker is upgraded: it breaks the connection and is back on the next.
    stand.wire.down()
    stand.turn()
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_a_broker_whose_words_are_not_understood_is_of_another_version(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    stand.wire.inbox.append(msgspec.msgpack.encode({"type": "greetings-earthling"}))
    stand.turn()
    assert (stand.standing.link, stand.standing.code) == (Link.REFUSED, VERSION_CODE)
    assert "version" in stand.standing.hint


def test_a_key_that_is_revoked_ends_what_is_under_way(stand: Stand) -> None:
    stand.live()
    stand.post(act(1), read(2))
    stand.wire.put(RefusedMsg("denied", "this key was revoked", "ask for a new token"))
    stand.turn()
    assert (stand.standing.link, stand.standing.code) == (Link.REFUSED, "denied")
    assert "look before doing it again" in str(stand.answer(1).error), "it may have been done"
    assert stand.answer(2).error is not None


def test_a_request_that_an_older_broker_cannot_read_does_not_end_the_day(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)), read(1))
    stand.wire.put(RefusedMsg("peer", "a message does not decode"))
    stand.turn()
    assert "does not decode" in str(stand.answer(1).error)
    assert stand.standing.link is Link.RESYNC
    assert isinstance(stand.wire.sent[-1], HelloMsg)
    stand.hello()
    assert stand.standing == Standing(Link.LIVE)
    assert len(stand.wire.of(SubscribeReq)) == 2


def test_a_message_of_a_newer_broker_is_passed_over(stand: Stand) -> None:
    stand.live()
    stand.wire.inbox.append(msgspec.msgpack.encode({"type": "horoscope", "sign": "leo"}))
    stand.settle()
    assert stand.standing == Standing(Link.LIVE)


# -- asking ------------------------------------------------------------------------------------------


def test_what_is_asked_before_the_session_is_open_waits_for_it(stand: Stand) -> None:
    stand.dial()
    stand.post(read(1), act(2))
    assert stand.wire.sent == []
    stand.welcome()
    assert [type(message) for message in stand.wire.sent[:1]] == [HelloMsg]
    assert [message.id for message in stand.wire.sent if isinstance(message, (StatusReq, ActReq))] == [1, 2]
    stand.now_s += 0.25
    stand.wire.put(ActReply(id=2, changed=1, message="done"))
    stand.turn()
    answer = stand.answer(2)
    assert isinstance(answer.reply, ActReply)
    assert answer.took_us == 250_000
    stand.wire.put(ErrorReply(id=1, code="denied", message="no", hint="ask a wrangler"))
    stand.turn()
    error = stand.answer(1).error
    assert (type(error).__name__, str(error)) == ("Denied", "no (ask a wrangler)")


def test_a_lost_line_repeats_reads_and_says_of_acts_that_nobody_knows(stand: Stand) -> None:
    stand.live()
    stand.post(read(1), act(2))
    stand.wire.down()
    stand.turn()
    assert stand.standing.link is Link.LOST
    assert stand.standing.trouble == "the line broke"
    error = stand.answer(2).error
    assert isinstance(error, FarmUnreachable)
    assert "look before doing it again" in error.hint
    stand.post(act(3))
    stand.welcome()
    assert [message.id for message in stand.wire.of(StatusReq)] == [1, 1]
    assert [message.id for message in stand.wire.of(ActReq)] == [2, 3], "what was not sent yet is sent now"
    assert [answer.number for answer in stand.of(Answer)] == [2]


def test_an_answer_that_came_before_the_line_broke_counts(stand: Stand) -> None:
    stand.live()
    stand.post(act(1))
    stand.wire.put(ActReply(id=1, changed=1, message="paused"))
    stand.wire.down()
    stand.turn()
    assert isinstance(stand.answer(1).reply, ActReply)


def test_a_line_that_broke_and_is_back_between_two_looks_is_greeted_anew(stand: Stand) -> None:
    stand.live()
    stand.post(act(1))
    stand.wire.connections += 1
    stand.turn()
    assert stand.answer(1).error is not None
    assert isinstance(stand.wire.sent[-1], HelloMsg)
    assert stand.standing.link is Link.LOST


def test_what_a_broker_never_took_is_sent_again_even_if_it_must_not_be_done_twice(stand: Stand) -> None:
    stand.live()
    stand.post(act(1))
    stand.wire.put(RehelloMsg())
    stand.turn()
    assert stand.of(Answer) == []
    stand.hello()
    assert [message.id for message in stand.wire.of(ActReq)] == [1, 1]


def test_missed_numbers_begin_the_session_anew_and_show_what_was_there(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)), act(1))
    asked = stand.wire.of(SubscribeReq)[0]
    stand.wire.put(SnapshotMsg(id=asked.id, n=1), DeltaMsg(n=2), DeltaMsg(n=4))
    stand.turn()
    assert [news.message.n for news in stand.of(News)] == [1, 2]
    assert stand.standing.link is Link.RESYNC
    assert stand.answer(1).error is not None, "its answer may be among what was missed"
    stand.hello()
    assert stand.standing == Standing(Link.LIVE)
    assert len(stand.wire.of(SubscribeReq)) == 2


def test_an_answer_that_does_not_come_is_told_in_time(stand: Stand) -> None:
    stand.live()
    stand.post(read(1, timeout_s=3), act(2))
    for _ in range(30):
        stand.pong()
        stand.settle()
        stand.now_s += 0.1
    stand.turn(0.01)
    assert "gave no answer in 3 s" in str(stand.answer(1).error)
    for _ in range(75):
        stand.pong()
        stand.settle()
        stand.now_s += 0.1
    assert "gave no answer in 10 s" in str(stand.answer(2).error)
    assert "look before doing it again" in str(stand.answer(2).error)
    stand.wire.put(ActReply(id=2, changed=1, message="late"))
    stand.settle()
    assert stand.answer(2).reply is None, "one answer to a question"


def test_without_a_connection_the_trouble_is_the_answer(stand: Stand) -> None:
    stand.dialer.trouble = FarmUnreachable("no farm answers", hint="start one")
    stand.dial()
    stand.post(read(1, timeout_s=2), page(2, timeout_s=2))
    stand.turn(2.5)
    assert str(stand.answer(1).error) == "no farm answers (start one)"
    assert str(stand.answer(2).error) == "no farm answers (start one)"


def test_what_is_canceled_is_not_sent_and_gets_no_answer(stand: Stand) -> None:
    stand.dial()
    stand.post(read(1), read(2), page(3), Cancel(1), Cancel(3))
    stand.welcome()
    assert [message.id for message in stand.wire.of(StatusReq)] == [2]
    stand.post(Cancel(2))
    stand.wire.put(ErrorReply(id=2, code="denied", message="no"))
    stand.turn(20)
    assert stand.of(Answer) == []


def test_a_connection_that_takes_nothing_more_is_tried_again_in_order(stand: Stand) -> None:
    stand.live()
    stand.wire.full = True
    stand.post(act(1), act(2))
    due = stand.turn()
    assert due is not None
    assert 0 < due <= 0.1
    stand.wire.full = False
    stand.turn(due)
    assert [message.id for message in stand.wire.of(ActReq)] == [1, 2]


def test_another_farm_ends_what_was_asked_of_the_one_before(stand: Stand) -> None:
    stand.live()
    before = stand.wire
    stand.post(read(1), page(2))
    stand.post(Dial("other"))
    assert before.closed
    assert isinstance(before.sent[-1], ByeMsg)
    assert before.linger_s > 0, "the goodbye gets the time to leave"
    assert "another farm" in str(stand.answer(1).error)
    assert "another farm" in str(stand.answer(2).error)
    stand.welcome()
    assert stand.of(Welcomed)[-1].farm == "other"


def test_a_fault_of_this_program_ends_no_thread(stand: Stand) -> None:
    stand.live()
    stand.post(read(1))
    stand.line.fault(OvercrankError("a fault in the client"))
    assert "a fault" in str(stand.answer(1).error)
    assert stand.standing.link is Link.LOST
    stand.turn(RETRY_MOST_S)
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


# -- still there? ------------------------------------------------------------------------------------


def test_the_round_trip_is_measured_about_once_a_second_with_one_question_at_a_time(stand: Stand) -> None:
    stand.live()
    for _ in range(50):
        stand.now_s += 0.04
        stand.pong()
        stand.settle()
        stand.now_s += 0.06
        stand.settle()
    pings = stand.wire.of(JobsReq)
    assert 4 <= len(pings) <= 7
    assert len({ping.id for ping in pings}) == len(pings)
    heard = stand.of(Heard)
    assert len(pings) - 1 <= len(heard) <= len(pings)
    assert all(one.round_trip_us and one.round_trip_us <= 100_000 for one in heard)


def test_a_broker_that_falls_silent_is_given_up_and_dialled_anew(stand: Stand) -> None:
    stand.live()
    first = stand.wire
    stand.pong()
    stand.settle()
    stand.turn(1)
    stand.turn(SILENT_S - 1)
    assert stand.standing.link is Link.LIVE
    assert len(first.of(JobsReq)) == 2, "no second question while one is open"
    stand.turn(1)
    assert first.closed
    lost = [standing for standing in stand.of(Standing) if standing.link is Link.LOST]
    assert lost[-1].trouble == f"{CONTROL} has said nothing for 10 s"
    stand.turn()
    assert stand.wire is not first
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_a_large_state_on_a_slow_line_is_not_taken_for_silence(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)))
    stand.turn(3 * SILENT_S)
    assert not stand.wire.closed
    stand.wire.put(SnapshotMsg(id=stand.wire.of(SubscribeReq)[0].id, n=1))
    stand.turn()
    assert len(stand.of(News)) == 1


# -- following ---------------------------------------------------------------------------------------


def test_what_is_followed_is_asked_for_after_every_new_session(stand: Stand) -> None:
    stand.dial()
    stand.post(Follow(("jobs", "job:4")))
    stand.welcome()
    (asked,) = stand.wire.of(SubscribeReq)
    assert asked.topics == ("jobs", "job:4")
    stand.wire.put(SnapshotMsg(id=asked.id, n=3, jobs=(job_row(4),)), DeltaMsg(n=4, jobs=(job_row(4),)))
    stand.wire.put(SnapshotMsg(id=0, n=5, jobs=(job_row(4),)))
    stand.settle()
    news = stand.of(News)
    assert [one.message.n for one in news] == [3, 4, 5]
    assert [one.topics for one in news] == [("jobs", "job:4"), (), ("jobs", "job:4")]
    stand.wire.down()
    stand.turn()
    stand.welcome()
    assert [one.topics for one in stand.wire.of(SubscribeReq)] == [("jobs", "job:4")] * 2
    stand.post(Follow(()))
    assert stand.wire.of(SubscribeReq)[-1].topics == (), "what nobody looks at is followed no more"
    stand.post(Follow(("jobs",)), Follow(("nodes",)))
    stand.post(Resync())
    assert [one.topics for one in stand.wire.of(SubscribeReq)][-2:] == [("nodes",), ("nodes",)]


def test_only_the_state_of_what_is_new_is_asked_for(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)))
    stand.wire.put(SnapshotMsg(id=stand.wire.of(SubscribeReq)[-1].id, n=1, jobs=(job_row(4), job_row(5))))
    stand.settle()
    stand.post(Follow(("jobs", "job:4")))
    opened = stand.wire.of(SubscribeReq)[-1]
    assert (opened.topics, opened.state_of) == (("jobs", "job:4"), ("job:4",))
    stand.wire.put(SnapshotMsg(id=opened.id, n=2, jobs=(job_row(4),), maps={"J4/beauty": b"\1"}))
    stand.wire.put(SnapshotMsg(id=0, n=3, jobs=(job_row(4), job_row(5))))
    stand.settle()
    assert [one.topics for one in stand.of(News)] == [("jobs",), ("job:4",), ("jobs", "job:4")]
    stand.post(Follow(("jobs",)))
    closed = stand.wire.of(SubscribeReq)[-1]
    assert (closed.topics, closed.state_of) == (("jobs",), ()), "nothing is new"


def test_a_state_that_is_asked_for_anew_is_asked_for_whole(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)))
    for message in (Follow(("jobs",)), Resync()):
        stand.post(message)
        stand.turn()
        assert stand.wire.of(SubscribeReq)[-1].state_of is None
    stand.post(Follow(("jobs", "job:9")))
    refused = stand.wire.of(SubscribeReq)[-1]
    assert refused.state_of == ("job:9",)
    stand.wire.put(ErrorReply(id=refused.id, code="unknown", message="there is no job J9"))
    stand.settle()
    probe = stand.wire.of(SubscribeReq)[-1]
    stand.wire.put(ErrorReply(id=probe.id, code="unknown", message="there is no job J9"))
    stand.settle()
    last = stand.wire.of(SubscribeReq)[-1]
    assert (last.topics, last.state_of) == (("jobs",), None), "what the broker follows now is one job at most"


def test_nobody_looks_and_nothing_is_asked(stand: Stand) -> None:
    stand.live()
    assert stand.wire.of(SubscribeReq) == []


def test_a_job_that_is_gone_is_left_out_and_told_as_gone(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs", "job:4", "job:9")))
    whole = stand.wire.of(SubscribeReq)[0]
    stand.wire.put(ErrorReply(id=whole.id, code="unknown", message="there is no job J9"))
    stand.settle()
    alone = stand.wire.of(SubscribeReq)[1:]
    assert sorted(one.topics for one in alone) == [("job:4",), ("job:9",)]
    for n, one in enumerate(alone, start=1):
        answer: Any = SnapshotMsg(id=one.id, n=n, jobs=(job_row(4),))
        if one.topics == ("job:9",):
            answer = ErrorReply(id=one.id, code="unknown", message="there is no job J9")
        stand.wire.put(answer)
    stand.settle()
    assert stand.of(News) == [], "trying jobs alone is nobody's news"
    last = stand.wire.of(SubscribeReq)[-1]
    assert last.topics == ("jobs", "job:4")
    stand.wire.put(SnapshotMsg(id=last.id, n=3, jobs=(job_row(4),)))
    stand.settle()
    (news,) = stand.of(News)
    assert news.topics == ("jobs", "job:4", "job:9"), "so that the store lets J9 go"


# -- bulk --------------------------------------------------------------------------------------------


def test_logs_have_a_connection_of_their_own_made_when_first_needed(stand: Stand) -> None:
    stand.live()
    assert [wire.address for wire in stand.dialer.wires] == [CONTROL]
    stand.post(page(1))
    stand.bulk.up()
    stand.turn()
    assert [message.id for message in stand.bulk.sent] == [1]
    stand.bulk.put(LogPageMsg(1, 0, 4, b"line", True))
    stand.settle()
    assert stand.answer(1).reply == LogPageMsg(1, 0, 4, b"line", True)
    assert len(stand.line.sources()) == 2


def test_few_questions_are_under_way_so_that_the_others_can_be_given_up(stand: Stand) -> None:
    stand.live()
    for number in range(1, 31):
        stand.line.post(page(number))
    stand.turn()
    stand.bulk.up()
    stand.turn()
    sent = [message.id for message in stand.bulk.sent]
    assert sent == list(range(1, len(sent) + 1))
    assert len(sent) < 30
    for number in range(len(sent) + 1, 30):
        stand.line.post(Cancel(number))
    stand.bulk.put(*(LogPageMsg(number, 0, 1, b"x", True) for number in sent))
    stand.settle()
    assert [message.id for message in stand.bulk.sent] == [*sent, 30]


def test_the_bulk_socket_s_errors_find_their_question(stand: Stand) -> None:
    stand.live()
    stand.post(page(1), page(2), page(3))
    stand.bulk.up()
    stand.turn()
    stand.bulk.put(BulkErrorMsg(2, "unknown", "no such log"))
    stand.settle()
    assert type(stand.answer(2).error).__name__ == "UnknownName"
    stand.bulk.put(BulkErrorMsg(0, "peer", "a message does not decode"))
    stand.settle()
    assert isinstance(stand.answer(1).error, PeerError), "the oldest is the one it could not read"
    assert [answer.number for answer in stand.of(Answer)] == [2, 1]
    stand.bulk.put(BulkErrorMsg(0, "denied", "this key is revoked"))
    stand.settle()
    assert type(stand.answer(3).error).__name__ == "Denied"


def test_a_bulk_line_that_broke_asks_again_and_one_that_is_not_there_says_so(stand: Stand) -> None:
    stand.live()
    stand.post(page(1))
    stand.bulk.up()
    stand.turn()
    stand.bulk.down()
    stand.turn()
    stand.bulk.up()
    stand.turn()
    assert [message.id for message in stand.bulk.sent] == [1, 1]
    gone = stand.bulk
    gone.down(LinkState.UNREACHABLE, "nothing answers at 10.0.0.5:7462")
    stand.turn()
    assert stand.of(Answer) == []
    stand.turn(1.5)
    assert stand.answer(1).error is not None
    assert "nothing answers" in str(stand.answer(1).error)
    assert gone.closed
    stand.post(page(2))
    assert stand.bulk is not gone, "the next question dials afresh"
    assert stand.standing == Standing(Link.LIVE)


def test_an_unanswered_log_page_is_told(stand: Stand) -> None:
    stand.live()
    stand.post(page(1, timeout_s=2))
    stand.bulk.up()
    stand.turn()
    stand.turn(1.9)
    assert stand.of(Answer) == []
    stand.turn(0.2)
    assert "the bulk socket of 10.0.0.5:7460 gave no answer in 2 s" in str(stand.answer(1).error)


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
    assert came.wait(10)
    assert any(isinstance(message, Standing) for message in thread.take())
    assert thread.stop()
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
        assert came.wait(10)
        came.clear()
        given += thread.take()
    assert "a fault in the client: ZeroDivisionError" in given[-1].trouble  # type: ignore[union-attr]
    assert thread.stop()


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
    assert port.stop()
    assert port.stop()
    port.post(Resync())  # to one that has ended: no matter
    port.take()
    assert port.take() == []


@pytest.mark.allow_log("window-blocked")
def test_the_watchdog_says_what_the_window_was_doing(
    qtbot: QtBot, allow_log: list[logging.LogRecord]
) -> None:
    dog = Watchdog(too_long_ms=30)
    dog.start()
    go = threading.Event()

    def hang() -> None:
        # Until the watchdog has written: this is the window's thread, and it answers nobody meanwhile.
        for _ in range(400):
            if any("window-blocked" in record.getMessage() for record in allow_log):
                break
            go.wait(0.05)

    QTimer.singleShot(0, dog, hang)
    qtbot.waitUntil(lambda: bool(allow_log), timeout=20_000)
    dog.stop()
    assert "in hang" in allow_log[0].getMessage()


def test_the_watchdog_is_off_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in (("", 0), ("no", 0), ("0", 0), ("1", 50), ("200", 200)):
        monkeypatch.setenv("OVERCRANK_GUI_WATCHDOG", text)
        assert watchdog_wanted() == wanted

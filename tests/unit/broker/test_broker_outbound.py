"""What a turn has to say goes out once, to whom it is for, and is forgotten if it did not become durable."""

from __future__ import annotations

import sys

import msgspec
import pytest

from farm.broker.book import LeaseBook
from farm.broker.outbound import Outbound
from farm.core.outcome import DiscardCommand, DrainCommand, GrantCommand, StopCommand
from farm.core.rows import LeaseRow
from farm.protocol.agent import BatchMsg, DrainMsg, GrantMsg, StopMsg
from farm.protocol.codec import agent_codec
from farm.protocol.common import RehelloMsg
from farm.protocol.session import BrokerSession


class Line:
    """A control socket's sending half: keeps what was sent; some peers may be gone."""

    def __init__(self) -> None:
        self.gone: set[bytes] = set()
        self.sent: list[tuple[bytes, object]] = []
        self._decode = agent_codec().decode

    def __call__(self, routing_id: bytes, body: bytes) -> bool:
        if routing_id in self.gone:
            return False
        self.sent.append((routing_id, self._decode(body)))
        return True

    def take(self) -> list[tuple[bytes, object]]:
        sent, self.sent = self.sent, []
        return sent


def session(number: int) -> BrokerSession:
    return BrokerSession(
        routing_id=b"r%d" % number,
        key="k",
        version=1,
        session=7,
        role="agent",
        user="",
        node_id=number,
        leases={},
    )


@pytest.fixture
def sessions() -> dict[int, BrokerSession]:
    return {number: session(number) for number in (1, 2)}


def outbound() -> Outbound:
    return Outbound(lambda _step: msgspec.Raw(b"\x80"))


def test_one_message_an_agent_and_turn_whatever_it_holds(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    out.ack(2, 11)
    out.add([StopCommand(1, 5, "canceled", (3,)), GrantCommand(2, 6, 0, ""), DiscardCommand(2, 4)])
    out.ack(2, 12)
    out.add([StopCommand(1, 6, "canceled", ())])
    assert out.flush(sessions, line) == []
    assert line.take() == [
        (b"r2", BatchMsg(1, (11, 12), (), (GrantMsg(6, 0),), (), (4,))),
        (b"r1", BatchMsg(1, (), (), (), (StopMsg(5, "canceled", (3,)), StopMsg(6, "canceled")), ())),
    ]


def test_nothing_of_a_turn_comes_again_in_the_next(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    out.ack(1, 1)
    out.add([StopCommand(1, 5, "canceled", ()), GrantCommand(1, 5, 0, "no"), DiscardCommand(1, 3)])
    out.flush(sessions, line)
    line.take()
    assert out.flush(sessions, line) == []
    assert line.take() == []
    out.ack(1, 2)
    out.flush(sessions, line)
    assert line.take() == [(b"r1", BatchMsg(2, (2,)))]


def test_what_was_not_stored_is_said_to_nobody(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    out.ack(1, 1)
    out.add([StopCommand(2, 5, "canceled", ()), DrainCommand(1, True, "maintenance")])
    out.reply(b"r2", RehelloMsg())
    out.drop()
    out.ack(2, 9)
    out.flush(sessions, line)
    assert line.take() == [(b"r2", BatchMsg(1, (9,)))], "numbers go on without a gap"


def test_a_node_without_a_session_loses_its_batch_and_only_that(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    del sessions[1]
    out.ack(1, 1)
    out.ack(2, 2)
    out.flush(sessions, line)
    assert line.take() == [(b"r2", BatchMsg(1, (2,)))]
    sessions[1] = session(1)
    out.ack(1, 3)
    out.flush(sessions, line)
    assert line.take() == [(b"r1", BatchMsg(1, (3,)))], "what waited for the old session is gone"


def test_a_peer_that_is_gone_is_named(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    line.gone.add(b"r1")
    out.ack(1, 1)
    out.ack(2, 1)
    assert out.flush(sessions, line) == [1]
    assert [routing_id for routing_id, _ in line.take()] == [b"r2"]


def test_drains_are_messages_of_their_own(sessions: dict[int, BrokerSession]) -> None:
    out, line = outbound(), Line()
    out.add([DrainCommand(2, True, "maintenance"), DrainCommand(3, True, "nobody there")])
    out.flush(sessions, line)
    assert line.take() == [(b"r2", DrainMsg(True, "maintenance"))]


def lease(step: int, no: int, node: int) -> LeaseRow:
    return LeaseRow(no, no, step, no, node, 1, 0, "0", 1, 1, "", 1, 0, 0, 1, 2, "")


def lease_book(most: int = 2_000_000) -> LeaseBook:
    names = {1: (1, "a"), 2: (1, "b"), 3: (1, "c"), 4: (2, "a")}
    return LeaseBook(names.get, lambda node: f"key-{node}" if node < 900 else None, most)


def test_the_lease_book_forgets_the_oldest_attempts_of_the_largest_step_first() -> None:
    book = lease_book(most=8)
    book.note_rows([lease(1, no, no) for no in range(1, 7)])
    book.note_rows([lease(step, no, no) for step in (2, 3) for no in (1, 2)])
    known = {step: [book.key_of(1, step, number) for number in range(8)] for step in "abc"}
    assert known["a"] == [None, None, None, None, "key-4", "key-5", "key-6", None]
    assert known["b"] == known["c"] == [None, "key-1", "key-2", None, None, None, None, None]


def test_two_steps_that_run_never_make_the_lease_book_forget_what_runs() -> None:
    book = lease_book(most=1_000)
    for no in range(1, 2_000):
        book.note_rows([lease(1, no, 7), lease(2, no, 8)])
        assert (book.key_of(1, "a", no), book.key_of(1, "b", no)) == ("key-7", "key-8")


def test_what_is_known_of_a_step_after_a_restart_takes_no_room_for_what_came_before() -> None:
    book = lease_book(most=10)
    book.note_rows([lease(1, no, 7) for no in range(1_000_001, 1_000_006)])
    book.note_rows([lease(2, 1, 8)])
    assert book.key_of(1, "a", 1_000_001) == "key-7"
    assert book.key_of(1, "a", 1_000_000) is None
    assert book.key_of(1, "b", 1) == "key-8"


def test_the_lease_book_knows_what_came_in_any_order_and_only_what_there_is() -> None:
    book = lease_book()
    book.note_rows([lease(2, 3, 8), lease(2, 5, 7), lease(9, 1, 1), lease(4, 1, 6), lease(2, 6, 900)])
    book.note_rows([lease(2, 2, 8)])
    assert [book.key_of(1, "b", number) for number in range(-1, 8)] == [
        *(None, None, None, None, "key-8"),
        *(None, "key-7", None, None),
    ]
    assert book.key_of(2, "a", 1) == "key-6"
    assert book.key_of(7, "a", 1) is None
    book.note_rows([lease(4, 2, 5)])
    book.forget(2)
    assert book.key_of(2, "a", 1) is None
    assert book.key_of(2, "a", 2) is None
    assert book.key_of(1, "b", 5) == "key-7"


def test_the_lease_book_is_small() -> None:
    book = lease_book()
    for first in range(1, 50_001, 1_000):
        book.note_rows([lease(1, no, no % 100) for no in range(first, first + 1_000)])
    assert book.key_of(1, "a", 49_901) == "key-1"
    assert sys.getsizeof(book._nodes[1]) < 50_000 * 6

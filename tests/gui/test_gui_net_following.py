"""What is followed over the line to a farm, and the line of its own that logs come by."""

from __future__ import annotations

from typing import Any

from client_gui.net.port import Answer, Cancel, Follow, News, Resync, Standing
from client_gui.store.farmstore import Link
from farm.model.errors import PeerError
from farm.protocol.bulk import BulkErrorMsg, LogPageMsg
from farm.protocol.client import DeltaMsg, ErrorReply, SnapshotMsg, SubscribeReq
from farm.transport.client_link import LinkState
from tests.support.gui_net import CONTROL, Stand, page
from tests.support.gui_rig import job_row

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

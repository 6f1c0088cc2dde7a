"""What is asked over the line to a farm: answered once and in time, or with the reason; and is it there?"""

from __future__ import annotations

from client_gui.net.port import Answer, Cancel, Dial, Follow, Heard, News, Standing, Welcomed
from client_gui.net.pulse import SILENT_S
from client_gui.net.retries import RETRY_MOST_S
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.agent import ByeMsg
from farm.protocol.client import (
    ActReply,
    ActReq,
    DeltaMsg,
    ErrorReply,
    JobsReq,
    SnapshotMsg,
    StatusReq,
    SubscribeReq,
)
from farm.protocol.common import HelloMsg, RehelloMsg
from tests.support.gui_net import CONTROL, Stand, act, page, read

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

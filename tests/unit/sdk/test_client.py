"""The client's promises: one reply per request, nothing done twice, words for every kind of trouble."""

from __future__ import annotations

import msgspec
import pytest

from farm.model.errors import (
    Denied,
    FarmUnreachable,
    IllegalMove,
    OvercrankError,
    PeerError,
    SessionRefused,
    UnknownName,
    from_wire,
)
from farm.protocol import client as wire
from farm.protocol.codec import CONTROL_LIMIT, encode
from farm.protocol.common import RefusedMsg
from tests.support.fake_broker import FakeBroker, FakeLink, job_row, node_row


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.jobs[12] = job_row()
    made.nodes = [node_row()]
    return made


def test_a_request_gets_its_reply(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        assert farm.job(12).job == job_row()
        assert [row.name for row in farm.nodes().nodes] == ["ws-12"]
        assert farm.welcome.user == "kim"
    assert broker.links[0].closed


def test_a_session_that_was_opened_ends_with_a_word_and_only_once(broker: FakeBroker) -> None:
    with broker.farm():
        pass
    assert broker.goodbyes == 0
    farm = broker.farm()
    farm.open()
    farm.close()
    farm.close()
    assert broker.goodbyes == 1


@pytest.mark.parametrize(
    "error", [UnknownName("no such job", hint="look"), IllegalMove("no"), Denied("not yours")]
)
def test_an_error_reply_is_raised_as_what_it_is(broker: FakeBroker, error: Exception) -> None:
    broker.errors[wire.ActReq] = error  # type: ignore[assignment]
    with broker.farm() as farm, pytest.raises(type(error)) as caught:
        farm.act("cancel", "J12")
    assert caught.value.message == error.message  # type: ignore[attr-defined]
    assert caught.value.hint == error.hint  # type: ignore[attr-defined]


def test_replies_of_earlier_requests_are_passed_over(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        farm.open()
        broker.links[0].put(wire.OkReply(id=999))
        assert farm.job(12).job.job == 12


def test_an_answer_of_the_wrong_kind_is_the_broker_at_fault(broker: FakeBroker) -> None:
    broker.silent.add(wire.JobReq)
    broker.script.append(lambda link: link.put(wire.OkReply(id=1)))
    with broker.farm() as farm, pytest.raises(PeerError, match="answered JobReq with OkReply"):
        farm.job(12)


def test_no_answer_in_time(broker: FakeBroker) -> None:
    broker.silent.add(wire.JobsReq)
    with (
        broker.farm(timeout_s=4.0) as farm,
        pytest.raises(FarmUnreachable, match="no answer in 4 s") as caught,
    ):
        farm.jobs()
    assert caught.value.exit_code == 3
    assert broker.clock.now_s == pytest.approx(4.0, abs=0.6)


def test_nobody_there(broker: FakeBroker) -> None:
    broker.up = False
    with broker.farm() as farm, pytest.raises(FarmUnreachable, match="nothing answers"):
        farm.open()


def test_a_refusal_of_the_hello_says_why(broker: FakeBroker) -> None:
    broker.refuse = RefusedMsg("denied", "this key was revoked", "ask an administrator")
    with broker.farm() as farm, pytest.raises(SessionRefused, match="revoked") as caught:
        farm.open()
    assert caught.value.exit_code == 3
    assert caught.value.hint == "ask an administrator"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("the peer is too old: upgrade it", "this installation"),
        ("this side is too old: upgrade it", "the broker is too old"),
    ],
)
def test_a_version_mismatch_is_told_from_this_side(broker: FakeBroker, theirs: str, ours: str) -> None:
    broker.refuse = RefusedMsg("peer", "no protocol version in common: peer 1-1, here 3-4", theirs)
    with (
        broker.farm() as farm,
        pytest.raises(SessionRefused, match="no protocol version in common") as caught,
    ):
        farm.open()
    assert ours in caught.value.hint


def test_a_restarted_broker_is_greeted_again_and_the_request_repeated(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        farm.open()
        broker.links[0].known = False  # it restarted and forgot the session
        assert farm.act("pause", "J12").changed == 1
    # Refused by rehello the first time, so it was done exactly once.
    assert [type(request) for request in broker.requests] == [wire.ActReq]


def test_an_action_whose_answer_was_lost_is_not_done_again(broker: FakeBroker) -> None:
    broker.silent.add(wire.ActReq)
    broker.script.append(FakeLink.drop)
    with broker.farm() as farm, pytest.raises(FarmUnreachable, match="lost before the answer came") as caught:
        farm.act("cancel", "J12")
    assert "not known" in caught.value.hint
    assert len(broker.requests) == 1


def test_an_answer_that_came_together_with_the_loss_counts(broker: FakeBroker) -> None:
    broker.silent.add(wire.ActReq)

    def answer_and_go(link: FakeLink) -> None:
        (request,) = broker.requests
        link.put(wire.ErrorReply(id=request.id, code="error", message="the broker failed; nothing was done"))
        link.connections += 1
        link.known = False

    broker.script.append(answer_and_go)
    with broker.farm() as farm:
        with pytest.raises(OvercrankError, match="nothing was done"):
            farm.act("cancel", "J12")
        assert farm.job(12).job.job == 12  # on the new connection, after a new hello
    assert [type(request) for request in broker.requests] == [wire.ActReq, wire.JobReq]


def test_a_question_whose_answer_was_lost_is_asked_again(broker: FakeBroker) -> None:
    broker.silent.add(wire.JobReq)

    def lose(link: FakeLink) -> None:
        link.drop()
        broker.silent.clear()

    broker.script.append(lose)
    with broker.farm() as farm:
        assert farm.job(12).job.job == 12
    assert len(broker.requests) == 2


def test_a_submit_with_a_token_is_sent_again_and_gives_one_job(broker: FakeBroker) -> None:
    body = b'{"overcrank_job": 1, "token": "t-1"}'
    with broker.farm() as farm:
        first = farm.submit(body, repeat=True)

        def lose(link: FakeLink) -> None:
            link.drop()

        broker.script.append(lose)
        broker.links[0].inbox.clear()
        again = farm.submit(body, repeat=True)
    assert (first.job, first.again) == (1, False)
    assert (again.job, again.again) == (1, True)


def test_the_mirror_follows_deltas(broker: FakeBroker) -> None:
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(done=7),)))
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(13),), gone=("J12",)))
    with broker.farm() as farm:
        seen = []
        for mirror in farm.subscribe("jobs"):
            seen.append({number: row.done for number, row in mirror.jobs.items()})
            if len(seen) == 3:
                break
    assert seen == [{12: 6}, {12: 7}, {13: 6}]


def test_a_farm_of_fifty_thousand_jobs_can_be_followed(broker: FakeBroker) -> None:
    row = job_row(12)
    broker.jobs = {number: msgspec.structs.replace(row, job=number) for number in range(1, 50_001)}
    state = wire.SnapshotMsg(id=1, n=1, jobs=tuple(broker.jobs.values()))
    assert len(encode(state)) > CONTROL_LIMIT, "more than any other message may be"
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(12, done=7),)))
    with broker.farm() as farm:
        follow = farm.subscribe("jobs")
        assert len(next(follow).jobs) == 50_000
        assert next(follow).jobs[12].done == 7


def test_deltas_that_come_while_something_else_is_asked_are_kept(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        follow = farm.subscribe("jobs")
        next(follow)
        broker.delta(broker.links[0], jobs=(job_row(done=9),))
        farm.status()
        assert next(follow).jobs[12].done == 9


def test_a_snapshot_in_between_replaces_everything(broker: FakeBroker) -> None:
    def resync(link: FakeLink) -> None:
        broker.delta_n += 1
        link.put(wire.SnapshotMsg(id=0, n=broker.delta_n, jobs=(job_row(20),)))

    broker.script.append(resync)
    with broker.farm() as farm:
        follow = farm.subscribe("jobs")
        next(follow)
        assert set(next(follow).jobs) == {20}


def test_a_gap_in_the_deltas_leads_to_a_fresh_snapshot(broker: FakeBroker) -> None:
    def skip(link: FakeLink) -> None:
        broker.jobs[12] = job_row(done=10)
        broker.delta_n += 5
        broker.delta(link, jobs=(job_row(done=8),))

    broker.script.append(skip)
    with broker.farm() as farm:
        follow = farm.subscribe("jobs")
        assert next(follow).jobs[12].done == 6
        assert "lost" in next(follow).trouble
        mirror = next(follow)
    assert (mirror.jobs[12].done, mirror.trouble) == (10, "")


def test_following_survives_a_broker_that_goes_and_comes_back(broker: FakeBroker) -> None:
    def go(link: FakeLink) -> None:
        link.drop()
        broker.up = False

    def come_back(link: FakeLink) -> None:
        broker.up = True
        broker.jobs[12] = job_row(done=10, state="done")

    broker.script.extend([go, come_back])
    with broker.farm() as farm:
        follow = farm.subscribe("job:12")
        next(follow)
        assert next(follow).trouble
        back = next(follow)
    assert (back.trouble, back.jobs[12].state) == ("", "done")


def test_a_session_greeted_anew_by_another_request_is_followed_again(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        follow = farm.subscribe("jobs")
        next(follow)
        broker.links[0].drop()
        farm.status()
        broker.jobs[12] = job_row(done=8)
        assert next(follow).jobs[12].done == 8


def test_idle_turns_let_the_caller_look(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        follow = farm.subscribe("jobs", idle_s=2.0)
        next(follow)
        next(follow)
    assert broker.clock.now_s == pytest.approx(2.0, abs=0.6)


def test_a_log_is_read_to_its_end_in_pieces(broker: FakeBroker) -> None:
    text = bytes(range(256)) * 3000
    broker.logs[12, "beauty", 7] = (text, True)
    with broker.farm() as farm:
        pieces = list(farm.log_stream(12, "beauty", 7))
        assert b"".join(pieces) == text
        assert len(pieces) == 3
        assert b"".join(farm.log_stream(12, "beauty", 7, -100)) == text[-100:]


def test_a_growing_log_is_followed_until_the_attempt_ends(broker: FakeBroker) -> None:
    broker.logs[12, "beauty", 7] = (b"one\n", False)
    with broker.farm() as farm:
        follow = farm.log_stream(12, "beauty", 7, follow=True)
        assert next(follow) == b"one\n"
        broker.logs[12, "beauty", 7] = (b"one\ntwo\n", True)
        assert list(follow) == [b"two\n"]


def test_a_log_that_grows_is_not_waited_for_unless_asked(broker: FakeBroker) -> None:
    broker.logs[12, "beauty", 7] = (b"one\n", False)
    with broker.farm() as farm:
        assert list(farm.log_stream(12, "beauty", 7)) == [b"one\n"]


def test_bulk_errors_are_errors(broker: FakeBroker) -> None:
    with broker.farm() as farm:
        with pytest.raises(UnknownName, match="no attempt 9"):
            farm.log_page(12, "beauty", 9)
        with pytest.raises(UnknownName, match="no preview"):
            farm.preview(12, "beauty", 0)
        broker.previews[12, "beauty", 0] = b"jpeg"
        assert farm.preview(12, "beauty", 0) == b"jpeg"


def test_the_error_tree_crosses_the_wire() -> None:
    for error in (UnknownName("x"), IllegalMove("x"), Denied("x"), FarmUnreachable("x")):
        assert type(from_wire(error.code, "x")) is type(error)


def test_a_message_that_is_none_while_greeting_means_another_version(broker: FakeBroker) -> None:
    farm = broker.farm()
    broker.links[0].inbox.append(encode({"type": "from-the-future"}))
    with farm, pytest.raises(SessionRefused, match="does not decode"):
        farm.open()

"""Sessions without a socket: versions, greeting, numbering, gaps, refusals, heartbeats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import Denied, FarmUnreachable, PeerError
from farm.model.nodes import AttemptProgress, NodeFacts, NodeLoad
from farm.protocol.agent import AgentHello, AgentWelcome, BatchMsg, BeatAckMsg, BeatMsg, DrainMsg, Timings
from farm.protocol.client import DeltaMsg, OkReply, SnapshotMsg
from farm.protocol.codec import agent_codec, broker_codec, client_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, RehelloMsg, WelcomeMsg
from farm.protocol.session import BrokerSession, PeerSession, Phase, accept_hello, never_arrived
from farm.protocol.version import OLDEST, VERSION, negotiate

# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("theirs", "ours", "spoken"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 2), (1, 1), 1),
        ((1, 1), (1, 2), 1),
        ((1, 2), (1, 2), 2),
        ((2, 3), (1, 2), 2),
        ((1, 2), (2, 3), 2),
        ((1, 9), (3, 4), 4),
        ((3, 3), (2, 4), 3),
    ],
)
def test_the_newest_version_both_speak_is_spoken(
    theirs: tuple[int, int], ours: tuple[int, int], spoken: int
) -> None:
    assert negotiate(theirs, ours) == spoken


@pytest.mark.parametrize(
    ("theirs", "ours", "older"),
    [
        ((1, 1), (2, 3), "the peer"),
        ((1, 2), (3, 4), "the peer"),
        ((3, 4), (1, 2), "this side"),
        ((2, 2), (1, 1), "this side"),
    ],
)
def test_without_one_in_common_it_says_who_is_too_old(
    theirs: tuple[int, int], ours: tuple[int, int], older: str
) -> None:
    with pytest.raises(PeerError) as caught:
        negotiate(theirs, ours)
    assert caught.value.hint == f"{older} is too old: upgrade it"
    assert f"peer {theirs[0]}-{theirs[1]}, here {ours[0]}-{ours[1]}" in caught.value.message


def test_a_range_the_wrong_way_round_is_no_range() -> None:
    with pytest.raises(PeerError, match="which is no range"):
        negotiate((2, 1))


@given(*[st.integers(0, 9)] * 4)
def test_negotiation_agrees_with_the_sets_of_versions(a: int, b: int, c: int, d: int) -> None:
    theirs, ours = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    both = set(range(theirs[0], theirs[1] + 1)) & set(range(ours[0], ours[1] + 1))
    if both:
        assert negotiate(theirs, ours) == negotiate(ours, theirs) == max(both)
    else:
        with pytest.raises(PeerError):
            negotiate(theirs, ours)


def test_this_build_speaks_its_own_version_and_the_one_before() -> None:
    assert VERSION - OLDEST <= 1
    assert negotiate((OLDEST, OLDEST)) == OLDEST
    assert negotiate((VERSION, VERSION + 1)) == VERSION


@pytest.mark.parametrize(
    ("peer", "broker", "spoken"),
    [((1, 1), (1, 2), 1), ((1, 2), (1, 1), 1), ((1, 2), (1, 2), 2), ((2, 3), (1, 2), 2)],
)
def test_neighbours_open_a_session_in_the_version_they_share(
    peer: tuple[int, int], broker: tuple[int, int], spoken: int
) -> None:
    session = PeerSession(agent_codec(), make_hello, peer)
    hello = broker_codec().decode(session.greet())
    assert isinstance(hello, HelloMsg)
    assert accept_hello(hello, broker) == spoken
    (welcome_back,) = session.receive(encode(welcome(spoken)))
    assert welcome_back.version == spoken
    assert session.phase is Phase.OPEN


def test_strangers_two_versions_apart_are_told_so_on_both_sides() -> None:
    session = PeerSession(agent_codec(), make_hello, (1, 1))
    hello = broker_codec().decode(session.greet())
    assert isinstance(hello, HelloMsg)
    with pytest.raises(PeerError, match="no protocol version in common"):
        accept_hello(hello, (2, 3))
    with pytest.raises(PeerError, match="no protocol version in common"):
        session.receive(encode(welcome(2)))
    assert session.phase is Phase.GREETING


# ---------------------------------------------------------------- the peer's end


def make_hello(oldest: int, newest: int) -> HelloMsg:
    return HelloMsg(oldest=oldest, newest=newest, agent=AgentHello(facts=NodeFacts(name="ant"), running=(7,)))


def welcome(version: int = 1, agent: bool = True) -> WelcomeMsg:
    part = AgentWelcome(node_id=3, farm_id="f0", timings=Timings()) if agent else None
    return WelcomeMsg(
        version=version, session=1, farm_name="local", software="0", role="agent", user="", agent=part
    )


def opened(codec: Any = None) -> PeerSession:
    session = PeerSession(codec or agent_codec(), make_hello)
    session.greet()
    session.receive(encode(welcome()))
    assert session.phase is Phase.OPEN
    return session


def test_nothing_is_said_or_heard_before_the_welcome() -> None:
    session = PeerSession(agent_codec(), make_hello)
    assert session.phase is Phase.NEW
    assert session.receive(encode(welcome())) == [], "a welcome nobody asked for"
    session.greet()
    assert session.receive(encode(BatchMsg(n=1))) == []
    assert session.got == 0
    assert session.receive(encode(DrainMsg(on=True))) == []
    assert session.phase is Phase.GREETING


def test_a_greeting_names_what_the_peer_holds_at_that_moment() -> None:
    held: list[int] = []
    session = PeerSession(
        agent_codec(),
        lambda oldest, newest: HelloMsg(
            oldest=oldest, newest=newest, agent=AgentHello(facts=NodeFacts(name="ant"), running=tuple(held))
        ),
    )
    for _ in range(3):
        hello = broker_codec().decode(session.greet())
        assert isinstance(hello, HelloMsg)
        assert hello.agent is not None
        assert hello.agent.running == tuple(held)
        assert (hello.oldest, hello.newest) == (OLDEST, VERSION)
        held.append(len(held))


def test_batches_in_order_are_taken_and_counted() -> None:
    session = opened()
    for n in (1, 2, 3):
        assert session.receive(encode(BatchMsg(n=n))) == [BatchMsg(n=n)]
        assert session.got == n


@pytest.mark.parametrize("n", [0, 1, 3, 99])
def test_a_gap_or_a_repetition_makes_the_session_start_again(n: int) -> None:
    session = opened()
    session.receive(encode(BatchMsg(n=1)))
    assert session.receive(encode(BatchMsg(n=n))) == []
    assert (session.phase, session.gaps, session.got) == (Phase.NEW, 1, 1)
    assert session.receive(encode(BatchMsg(n=2))) == [], "whatever still comes belongs to the old session"
    session.greet()
    assert session.got == 0
    session.receive(encode(welcome()))
    assert session.receive(encode(BatchMsg(n=1))) == [BatchMsg(n=1)]


def test_rehello_puts_an_open_session_back_and_disturbs_no_other() -> None:
    session = opened()
    assert session.receive(encode(RehelloMsg())) == []
    assert session.phase is Phase.NEW
    session.greet()
    session.receive(encode(RehelloMsg()))
    assert session.phase is Phase.GREETING, "it is greeting already"


def test_a_refusal_is_kept_with_its_reason_and_cure() -> None:
    session = opened()
    (message,) = session.receive(encode(RefusedMsg("denied", "this key is revoked", "ask for a token")))
    assert isinstance(message, RefusedMsg)
    assert session.phase is Phase.REFUSED
    assert session.refusal is not None
    assert (session.refusal.message, session.refusal.hint) == ("this key is revoked", "ask for a token")
    assert isinstance(session.refusal, FarmUnreachable)
    assert not isinstance(session.refusal, Denied), "the farm cannot be reached: exit code 3, not 2"


def test_a_refusal_with_a_code_unknown_here_is_one_all_the_same() -> None:
    session = opened()
    session.receive(encode(RefusedMsg("too-loud", "be quiet")))
    assert session.refusal is not None
    assert session.refusal.message == "be quiet"


def test_malformed_messages_are_the_brokers_fault_and_leave_the_session_as_it_is() -> None:
    session = opened()
    with pytest.raises(PeerError):
        session.receive(b"\xc1")
    assert session.phase is Phase.OPEN
    assert session.receive(encode(BatchMsg(n=1))) == [BatchMsg(n=1)]


def test_an_agent_needs_the_agents_part_of_the_welcome() -> None:
    session = opened()
    assert session.agent.node_id == 3
    other = PeerSession(client_codec(), make_hello)
    with pytest.raises(PeerError, match="no agent part"):
        _ = other.agent
    other.greet()
    other.receive(encode(welcome(agent=False)))
    with pytest.raises(PeerError, match="no agent part"):
        _ = other.agent


def test_deltas_go_on_from_their_snapshot() -> None:
    session = opened(client_codec())
    assert session.receive(encode(SnapshotMsg(id=1, n=1)))[0].n == 1
    assert session.receive(encode(DeltaMsg(n=2)))[0].n == 2
    assert session.receive(encode(OkReply(id=2))) == [OkReply(id=2)]
    assert session.receive(encode(SnapshotMsg(id=0, n=3)))[0].n == 3, "another snapshot goes on too"
    assert session.receive(encode(DeltaMsg(n=4)))[0].n == 4
    assert session.receive(encode(DeltaMsg(n=6))) == []
    assert (session.phase, session.gaps) == (Phase.NEW, 1)


def test_a_delta_without_a_snapshot_is_a_gap() -> None:
    session = opened(client_codec())
    assert session.receive(encode(DeltaMsg(n=5))) == []
    assert session.phase is Phase.NEW


# ---------------------------------------------------------------- heartbeats


def test_heartbeats_count_up_and_say_how_far_batches_were_read() -> None:
    session = opened()
    session.receive(encode(BatchMsg(n=1)))
    progress, load = (AttemptProgress(7, 16, 0.5, 9),), NodeLoad(50.0, 1, 2)
    beat = broker_codec().decode(session.beat(1_000, (7, 8), progress, load))
    assert beat == BeatMsg(n=1, held=(7, 8), got=1, progress=progress, load=load)
    again = broker_codec().decode(session.beat(2_000, ()))
    assert again == BeatMsg(n=2, got=1)


def test_an_answer_counts_from_when_its_beat_was_sent() -> None:
    session = opened()
    for at_us in (1_000, 2_000, 3_000):
        session.beat(at_us, ())
    assert session.beat_answered(BeatAckMsg(2)) == 2_000
    assert session.last_answered_us == 2_000
    assert session.beat_answered(BeatAckMsg(1)) is None, "an answer that was overtaken opens nothing"
    assert session.beat_answered(BeatAckMsg(2)) is None, "nor does one that comes twice"
    assert session.beat_answered(BeatAckMsg(9)) is None
    assert session.last_answered_us == 2_000
    assert session.beat_answered(BeatAckMsg(3)) == 3_000


def test_answers_to_beats_of_an_earlier_session_do_not_count() -> None:
    session = opened()
    session.beat(1_000, ())
    session.greet()
    session.receive(encode(welcome()))
    assert session.beat_answered(BeatAckMsg(1)) is None
    session.beat(5_000, ())
    assert session.beat_answered(BeatAckMsg(2)) == 5_000, (
        "numbers go on, so that old answers cannot be mistaken"
    )


def test_beats_nobody_answers_do_not_pile_up() -> None:
    session = opened()
    for at_us in range(1_000):
        session.beat(at_us, ())
    assert session.beat_answered(BeatAckMsg(900)) is None
    assert session.beat_answered(BeatAckMsg(1_000)) == 999


# ---------------------------------------------------------------- the broker's end


def broker_session() -> BrokerSession:
    return BrokerSession(b"r", "k", 1, 5, "agent", "", node_id=3, leases={})


def test_batches_are_numbered_from_one() -> None:
    session = broker_session()
    assert [session.next_batch() for _ in range(3)] == [1, 2, 3]


def test_sessions_do_not_share_their_leases() -> None:
    one, two = broker_session(), BrokerSession(b"s", "k", 1, 6, "agent", "")
    one.leases[7] = 1
    assert two.leases == {}
    assert BrokerSession(b"t", "k", 1, 7, "agent", "").leases == {}


def test_a_lease_that_was_read_but_is_not_held_is_named_once() -> None:
    session = broker_session()
    session.leases = {7: 1, 8: 1, 9: 2}
    assert never_arrived(session, (), got=0) == (), "nothing was read yet"
    assert never_arrived(session, (8,), got=1) == (7,)
    assert never_arrived(session, (), got=1) == (), "8 was held once, its end comes as a report"
    assert session.leases == {9: 2}
    assert never_arrived(session, (9,), got=5) == ()
    assert session.leases == {}


@given(
    leases=st.dictionaries(st.integers(1, 30), st.integers(1, 5)),
    beats=st.lists(st.tuples(st.integers(0, 6), st.sets(st.integers(1, 30))), max_size=8),
)
def test_each_lease_is_missed_at_most_once_and_only_after_it_was_read(
    leases: dict[int, int], beats: list[tuple[int, set[int]]]
) -> None:
    session = broker_session()
    session.leases = dict(leases)
    missed: list[int] = []
    for got, held in beats:
        missing = never_arrived(session, tuple(held), got)
        assert all(leases[attempt] <= got and attempt not in held for attempt in missing)
        missed += missing
    assert len(missed) == len(set(missed))

"""Who is known, and how a token makes a stranger known exactly once."""

from __future__ import annotations

import threading

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from farm.model.errors import CallError
from farm.model.ids import KeyText
from farm.transport.keyring import (
    TOKEN_TTL_US,
    JoinDesk,
    JoinGranted,
    JoinRecord,
    JoinRefused,
    KeyEntry,
    Keyring,
    Role,
)
from farm.transport.keys import z85_encode
from farm.transport.token import hash_secret

SECRETS = [bytes([n]) * 32 for n in range(1, 4)]
KEYS = [KeyText(z85_encode(bytes([n]) * 32)) for n in range(11, 16)]
NOW = 1_800_000_000_000_000


def entry(number: int, key: KeyText, role: Role = Role.AGENT) -> KeyEntry:
    return KeyEntry(key_id=number, public=key, role=role, user="ann")


def test_known_revoked_and_unknown_keys() -> None:
    ring = Keyring([entry(1, KEYS[0])])
    assert ring.admits(KEYS[0])
    assert not ring.admits(KEYS[1])
    assert ring.lookup(KEYS[1]) is None
    revoked = ring.revoke(KEYS[0])
    assert revoked is not None
    assert revoked.revoked
    assert not ring.admits(KEYS[0])
    assert ring.lookup(KEYS[0]) == revoked  # still known, so that a live connection can be told apart
    assert ring.revoke(KEYS[1]) is None


def test_key_numbers_are_never_reused() -> None:
    ring = Keyring([entry(7, KEYS[0])])
    assert [ring.allocate_id(), ring.allocate_id()] == [8, 9]
    ring.add(entry(3, KEYS[1]))
    assert ring.allocate_id() == 10


def test_a_text_that_is_no_key_is_refused_and_adds_nothing() -> None:
    ring = Keyring()
    with pytest.raises(CallError):
        ring.add(entry(1, KEYS[0]), entry(2, KeyText("nonsense")))
    assert len(ring) == 0


def test_readers_never_see_half_a_change() -> None:
    ring = Keyring([entry(n, key) for n, key in enumerate(KEYS)])
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            found = ring.entries()
            roles = {e.role for e in found}
            if len(found) != len(KEYS) or len(roles) != 1:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(500):
        role = (Role.AGENT, Role.ARTIST)[turn % 2]
        ring.add(*(entry(n, key, role) for n, key in enumerate(KEYS)))
    stop.set()
    reader.join()
    assert wrong == []


@pytest.fixture
def ring() -> Keyring:
    return Keyring()


@pytest.fixture
def desk(ring: Keyring) -> JoinDesk:
    desk = JoinDesk(ring)
    desk.issue(
        hash_secret(SECRETS[0]), role="agent", user="", pool="gpu", site="local", label="r1", now_us=NOW
    )
    return desk


def granted(outcome: JoinGranted | JoinRefused) -> JoinGranted:
    assert isinstance(outcome, JoinGranted), outcome
    return outcome


def refused(outcome: JoinGranted | JoinRefused) -> JoinRefused:
    assert isinstance(outcome, JoinRefused), outcome
    return outcome


def test_the_token_fixes_what_the_key_becomes(desk: JoinDesk) -> None:
    answer = granted(desk.redeem(SECRETS[0], KEYS[0], NOW + 1))
    assert (answer.entry.role, answer.entry.pool, answer.entry.site) == (Role.AGENT, "gpu", "local")
    assert answer.entry.public == KEYS[0]
    assert not answer.repeated
    assert answer.record.redeemed_by == KEYS[0]


def test_a_lost_reply_is_repeated_word_for_word(desk: JoinDesk, ring: Keyring) -> None:
    first = granted(desk.redeem(SECRETS[0], KEYS[0], NOW + 1))
    ring.add(first.entry)
    again = granted(desk.redeem(SECRETS[0], KEYS[0], NOW + TOKEN_TTL_US - 1))
    assert again.entry == first.entry
    assert again.repeated
    late = refused(desk.redeem(SECRETS[0], KEYS[0], NOW + TOKEN_TTL_US))
    assert "expired" in late.reason
    assert late.revoke is None
    assert ring.admits(KEYS[0])


@pytest.mark.parametrize("when_us", [NOW + 2, NOW + TOKEN_TTL_US + 1, NOW + 100 * TOKEN_TTL_US])
def test_a_second_key_is_refused_alerted_and_revokes_the_first(
    desk: JoinDesk, ring: Keyring, when_us: int
) -> None:
    ring.add(granted(desk.redeem(SECRETS[0], KEYS[0], NOW + 1)).entry)
    second = refused(desk.redeem(SECRETS[0], KEYS[1], when_us))
    assert second.revoke == KEYS[0]
    assert "r1" in second.alert
    assert second.record is not None
    assert second.record.burnt
    ring.revoke(second.revoke)
    # The token is dead for everybody, the first key included.
    for key in KEYS[:3]:
        refused(desk.redeem(SECRETS[0], key, NOW + 3))


def test_expired_unknown_and_withdrawn_tokens(desk: JoinDesk) -> None:
    assert "expired" in refused(desk.redeem(SECRETS[0], KEYS[0], NOW + TOKEN_TTL_US)).reason
    assert "not known" in refused(desk.redeem(b"x" * 32, KEYS[0], NOW)).reason
    desk.withdraw(hash_secret(SECRETS[0]))
    assert "withdrawn" in refused(desk.redeem(SECRETS[0], KEYS[0], NOW + 1)).reason
    assert desk.withdraw("no such hash") is None


def test_a_known_or_revoked_key_cannot_change_itself_by_a_token(desk: JoinDesk, ring: Keyring) -> None:
    ring.add(entry(1, KEYS[0], Role.ARTIST), entry(2, KEYS[1]))
    ring.revoke(KEYS[1])
    assert "already joined" in refused(desk.redeem(SECRETS[0], KEYS[0], NOW)).reason
    answer = refused(desk.redeem(SECRETS[0], KEYS[1], NOW))
    assert "revoked" in answer.reason
    assert answer.alert
    granted(desk.redeem(SECRETS[0], KEYS[2], NOW))  # neither try used the token up


def test_one_key_cannot_take_two_tokens_before_the_first_is_stored(desk: JoinDesk) -> None:
    desk.issue(hash_secret(SECRETS[1]), role="admin", user="eve", now_us=NOW)
    granted(desk.redeem(SECRETS[0], KEYS[0], NOW))
    refused(desk.redeem(SECRETS[1], KEYS[0], NOW))


def test_wrong_issues_are_refused(desk: JoinDesk) -> None:
    with pytest.raises(CallError, match="role"):
        desk.issue("h", role="king", user="x", now_us=NOW)
    with pytest.raises(CallError, match="user"):
        desk.issue("h", role="artist", user="", now_us=NOW)
    with pytest.raises(CallError, match="already"):
        desk.issue(hash_secret(SECRETS[0]), role="agent", user="", now_us=NOW)
    with pytest.raises(CallError, match="0 s"):
        desk.issue("h", role="agent", user="", now_us=NOW, ttl_us=0)


def test_open_tokens_and_pruning(desk: JoinDesk, ring: Keyring) -> None:
    desk.issue(hash_secret(SECRETS[1]), role="artist", user="ann", now_us=NOW)
    assert len(desk.open_tokens(NOW)) == 2
    granted(desk.redeem(SECRETS[0], KEYS[0], NOW))
    assert [r.user for r in desk.open_tokens(NOW)] == ["ann"]
    assert desk.open_tokens(NOW + TOKEN_TTL_US) == []
    assert desk.prune(NOW + TOKEN_TTL_US) == []
    assert [r.user for r in desk.prune(NOW + 2 * 86_400_000_000)] == ["ann"]
    assert len(desk.records()) == 1  # the used one stays, to catch a second key at any time


class JoinMachine(RuleBasedStateMachine):
    """Any mixture of tries, delays and restarts keeps the promise about tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.ring = Keyring()
        self.stored: dict[str, JoinRecord] = {}
        self.desk = JoinDesk(self.ring)
        self.users: dict[bytes, set[str]] = {s: set() for s in SECRETS}
        for secret in SECRETS:
            self.keep(self.desk.issue(hash_secret(secret), role="agent", user="", now_us=NOW))

    def keep(self, record: JoinRecord) -> None:
        self.stored[record.secret_hash] = record

    @rule(secret=st.sampled_from(SECRETS), key=st.sampled_from(KEYS))
    def redeem(self, secret: bytes, key: KeyText) -> None:
        before = self.ring.lookup(key)
        outcome = self.desk.redeem(secret, key, self.now)
        if outcome.record is not None:
            self.keep(outcome.record)
        if isinstance(outcome, JoinGranted):
            assert self.now < NOW + TOKEN_TTL_US
            assert before is None or before == outcome.entry
            assert outcome.repeated == (key in self.users[secret])
            self.users[secret].add(key)
            self.ring.add(outcome.entry)
        elif self.users[secret] and key not in self.users[secret]:
            assert outcome.alert
            assert outcome.revoke in self.users[secret]
            self.ring.revoke(outcome.revoke)

    @rule(minutes=st.integers(1, 10))
    def later(self, minutes: int) -> None:
        self.now += minutes * 60_000_000

    @rule()
    def restart(self) -> None:
        records = msgspec.msgpack.decode(
            msgspec.msgpack.encode(list(self.stored.values())), type=list[JoinRecord]
        )
        self.ring = Keyring(self.ring.entries())
        self.desk = JoinDesk(self.ring, records)

    @rule()
    def prune(self) -> None:
        for record in self.desk.prune(self.now):
            del self.stored[record.secret_hash]

    @invariant()
    def one_key_a_token(self) -> None:
        assert all(len(users) <= 1 for users in self.users.values())

    @invariant()
    def burnt_tokens_leave_no_live_key(self) -> None:
        for record in self.desk.records():
            if record.burnt and record.redeemed_by is not None:
                assert not self.ring.admits(record.redeemed_by)

    @invariant()
    def stored_is_all_there_is(self) -> None:
        assert self.desk.records() == sorted(self.stored.values(), key=lambda r: (r.issued_us, r.secret_hash))

    @invariant()
    def numbers_are_unique(self) -> None:
        numbers = [e.key_id for e in self.ring.entries()]
        assert len(numbers) == len(set(numbers))


TestJoinMachine = JoinMachine.TestCase
TestJoinMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

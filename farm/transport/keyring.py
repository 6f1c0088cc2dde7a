"""Which keys a farm knows, and how a join token turns a stranger's key into a known one.

What belongs here: the registry that the broker's loop writes and the authenticator's thread reads, and the
rules of joining as pure logic (time and key numbers come from the caller).  What it may not know: sockets,
the database, and what a role may do.  Keeping either across a restart is the broker's business; both give
their state as plain records.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec

from farm.model.errors import CallError
from farm.model.ids import KeyText
from farm.model.roles import Role, parse_role
from farm.transport.keys import fingerprint, key_bytes
from farm.transport.token import hash_secret

#: How long a join token may be redeemed.
TOKEN_TTL_US = 15 * 60 * 1_000_000
#: How long an expired token that nobody used is remembered, so that its holder hears "expired".
_FORGET_UNUSED_US = 24 * 3600 * 1_000_000


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key a farm knows.

    Attributes:
        key_id: Number in this farm; people revoke by it.
        public: Z85 text of the public key.
        role: What it may do.
        user: Whose key it is; a submit's user must be this one.
        pool: Pool of an agent; empty for people.
        site: Site of an agent; empty for people.
        label: Free text for people, such as a machine's name.
        revoked: True once it must not be let in again.
    """

    key_id: int
    public: KeyText
    role: Role
    user: str = ""
    pool: str = ""
    site: str = ""
    label: str = ""
    revoked: bool = False


class Keyring:
    """Every key of a farm, readable from any thread without a lock.

    Writers replace the whole dictionary, so a reader on the authenticator's thread sees either the old or
    the new one and never a half-made change.
    """

    def __init__(self, entries: Iterable[KeyEntry] = ()) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, KeyEntry] = {}
        self._next_id = 1
        self.add(*entries)

    def add(self, *entries: KeyEntry) -> None:
        """Adds entries, or replaces those of the same keys.

        Raises:
            CallError: An entry's key is no key; nothing was added.
        """
        for entry in entries:
            key_bytes(entry.public)
        with self._lock:
            fresh = dict(self._entries)
            fresh.update((entry.public, entry) for entry in entries)
            self._entries = fresh
            self._next_id = max([self._next_id, *(entry.key_id + 1 for entry in entries)])

    def revoke(self, public: str) -> KeyEntry | None:
        """Marks a key revoked and returns its entry; None when the farm does not know the key.

        New connections are refused from now on.  A live one stays open, so its messages must be checked
        with :meth:`lookup`.
        """
        with self._lock:
            entry = self._entries.get(public)
            if entry is None:
                return None
            entry = msgspec.structs.replace(entry, revoked=True)
            self._entries = {**self._entries, public: entry}
            return entry

    def lookup(self, public: str) -> KeyEntry | None:
        """The entry of a key, revoked or not; None for a stranger."""
        return self._entries.get(public)

    def admits(self, public: str) -> bool:
        """True if the farm knows the key and has not revoked it."""
        entry = self._entries.get(public)
        return entry is not None and not entry.revoked

    def entries(self) -> list[KeyEntry]:
        """All entries by number."""
        return sorted(self._entries.values(), key=lambda entry: entry.key_id)

    def allocate_id(self) -> int:
        """A key number that no entry has had here."""
        with self._lock:
            number = self._next_id
            self._next_id += 1
            return number

    def __len__(self) -> int:
        return len(self._entries)


class JoinRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One join token as the broker remembers it; holds the hash, never the secret.

    Attributes:
        secret_hash: Hash of the single-use secret.
        role, user, pool, site, label: What the key that redeems it becomes.
        issued_us: When it was made, microseconds of the epoch.
        expires_us: From when on it is refused.
        redeemed_by: The first key that used it; None while unused.
        redeemed_us: When that was; 0 while unused.
        key_id: Number of that key; 0 while unused.
        burnt: True once a second key tried it, or an administrator withdrew it.
    """

    secret_hash: str
    role: Role
    user: str = ""
    pool: str = ""
    site: str = ""
    label: str = ""
    issued_us: int
    expires_us: int
    redeemed_by: KeyText | None = None
    redeemed_us: int = 0
    key_id: int = 0
    burnt: bool = False


class JoinGranted(msgspec.Struct, frozen=True):
    """The key is let in.

    Attributes:
        entry: What the key is from now on.
        record: The token's new state, to be stored before the answer is sent.
        repeated: True when the same key had the same answer before (its reply was lost).
    """

    entry: KeyEntry
    record: JoinRecord
    repeated: bool = False


class JoinRefused(msgspec.Struct, frozen=True):
    """The key is not let in.

    Attributes:
        reason: For the one who asked.
        alert: For the administrator; empty when nothing is wrong with the farm.
        revoke: Key that must be revoked because of this, if any.
        record: The token's new state to be stored, if it changed.
    """

    reason: str
    alert: str = ""
    revoke: KeyText | None = None
    record: JoinRecord | None = None


class JoinDesk:
    """Issues and redeems join tokens.

    A desk only decides.  The caller stores ``record`` and the key, then calls :meth:`Keyring.add` or
    :meth:`Keyring.revoke`, then answers: nobody is told of a key that a crash could forget.

    Args:
        keyring: Consulted for keys the farm already knows, and for free key numbers.
        records: Tokens remembered from before a restart.
    """

    def __init__(self, keyring: Keyring, records: Iterable[JoinRecord] = ()) -> None:
        self._keyring = keyring
        self._records = {record.secret_hash: record for record in records}
        self._granted = {r.redeemed_by: r for r in self._records.values() if r.redeemed_by is not None}

    def issue(
        self,
        secret_hash: str,
        *,
        role: str,
        user: str,
        pool: str = "",
        site: str = "",
        label: str = "",
        now_us: int,
        ttl_us: int = TOKEN_TTL_US,
    ) -> JoinRecord:
        """Remembers a new token and returns the record to store.

        Raises:
            CallError: No such role, a person without a user name, or a hash already in use.
        """
        parse_role(role)
        if role != Role.AGENT and not user:
            raise CallError(f"a join token for role {role} names a user", hint="add --user NAME")
        if ttl_us <= 0:
            raise CallError("a join token must live longer than 0 s")
        if secret_hash in self._records:
            raise CallError("this join token was already issued; make a new one")
        record = JoinRecord(
            secret_hash=secret_hash,
            role=Role(role),
            user=user,
            pool=pool,
            site=site,
            label=label,
            issued_us=now_us,
            expires_us=now_us + ttl_us,
        )
        self._records[secret_hash] = record
        return record

    def redeem(self, secret: bytes, public: str, now_us: int) -> JoinGranted | JoinRefused:
        """Decides whether a key may join with this secret.

        The first key may repeat within the token's life and gets the same answer.  Another key at any time
        means that two parties hold the secret: it is refused and alerted, and the first key is revoked,
        since nobody can tell which of the two was meant.
        """
        key = KeyText(public)
        key_bytes(key)
        record = self._records.get(hash_secret(secret))
        if record is None:
            return JoinRefused("this join token is not known here: it is of another farm, or long expired")
        if record.redeemed_by is not None and record.redeemed_by != key:
            return self._second_key(record, key)
        if record.burnt:
            return JoinRefused("this join token was withdrawn or used by two machines; ask for a new one")
        if now_us >= record.expires_us:
            return JoinRefused("this join token has expired; ask for a new one")
        known = self._keyring.lookup(key)
        if record.redeemed_by == key:
            if known is not None and known.revoked:
                return JoinRefused("this key was revoked; make a new key and ask for a new token")
            return JoinGranted(known or _entry(record, key), record, repeated=True)
        return self._first_key(record, key, known, now_us)

    def _first_key(
        self, record: JoinRecord, key: KeyText, known: KeyEntry | None, now_us: int
    ) -> JoinGranted | JoinRefused:
        # One key, one role: else a token could turn a known key into something else, or bring a revoked
        # one back.  The desk's own grants count too, as the keyring learns of them only once stored.
        if known is not None and known.revoked:
            return JoinRefused(
                "this key was revoked and cannot join again; make a new key",
                alert=f"revoked key {fingerprint(key)} (number {known.key_id}) tried to join again",
            )
        if known is not None or key in self._granted:
            return JoinRefused("this key has already joined; use it, or make a new key for this token")
        fresh = msgspec.structs.replace(
            record, redeemed_by=key, redeemed_us=now_us, key_id=self._keyring.allocate_id()
        )
        self._keep(fresh)
        return JoinGranted(_entry(fresh, key), fresh)

    def _second_key(self, record: JoinRecord, key: KeyText) -> JoinRefused:
        first = record.redeemed_by
        assert first is not None
        fresh = record
        if not record.burnt:
            fresh = msgspec.structs.replace(record, burnt=True)
            self._keep(fresh)
        who = record.label or record.user or record.role
        return JoinRefused(
            "this join token was already used by another key; it is withdrawn and that key is revoked",
            alert=(
                f"join token for {who} was used by a second key {fingerprint(key)}; "
                f"the first key {fingerprint(first)} (number {record.key_id}) is revoked"
            ),
            revoke=first,
            record=None if fresh is record else fresh,
        )

    def withdraw(self, secret_hash: str) -> JoinRecord | None:
        """Makes a token useless before its time; None when it is not known.

        A key that already joined with it stays.
        """
        record = self._records.get(secret_hash)
        if record is None or record.burnt:
            return record
        fresh = msgspec.structs.replace(record, burnt=True)
        self._keep(fresh)
        return fresh

    def open_tokens(self, now_us: int) -> list[JoinRecord]:
        """Tokens that a new key could still redeem, oldest first."""
        waiting = [
            r
            for r in self._records.values()
            if r.redeemed_by is None and not r.burnt and now_us < r.expires_us
        ]
        return sorted(waiting, key=lambda record: (record.issued_us, record.secret_hash))

    def prune(self, now_us: int) -> list[JoinRecord]:
        """Forgets tokens that expired unused a day ago and returns them.

        Used ones are kept for good: a second key may turn up at any time and must still be caught.
        """
        old = [
            r
            for r in self._records.values()
            if r.redeemed_by is None and now_us >= r.expires_us + _FORGET_UNUSED_US
        ]
        for record in old:
            del self._records[record.secret_hash]
        return old

    def records(self) -> list[JoinRecord]:
        """All that is needed to go on after a restart."""
        return sorted(self._records.values(), key=lambda record: (record.issued_us, record.secret_hash))

    def _keep(self, record: JoinRecord) -> None:
        self._records[record.secret_hash] = record
        if record.redeemed_by is not None:
            self._granted[record.redeemed_by] = record


def _entry(record: JoinRecord, key: KeyText) -> KeyEntry:
    return KeyEntry(
        key_id=record.key_id,
        public=key,
        role=record.role,
        user=record.user,
        pool=record.pool,
        site=record.site,
        label=record.label,
    )

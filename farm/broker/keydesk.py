"""Keys and invitations: what is known, what is asked for, what is stored before anybody is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from farm.broker.ports import KeyRecord, Store
from farm.model.errors import CallError, UnknownName
from farm.model.ids import KeyText
from farm.model.roles import parse_role
from farm.protocol.bulk import JoinedMsg, JoinMsg, JoinRefusedMsg
from farm.protocol.client import KeyRow, KeysReply, KeysReq
from farm.transport.keyring import JoinDesk, JoinGranted, JoinRecord, KeyEntry, Keyring
from farm.transport.keys import fingerprint, key_bytes
from farm.transport.token import hash_secret, make_token, new_secret

log = logging.getLogger("overcrank.broker")

#: Longest time in seconds a join token can be good for: ten years.
TTL_MOST_S = 10 * 366 * 86_400.0
_RECORD = msgspec.msgpack.Decoder(JoinRecord)


class KeyDesk:
    """Keeps the keyring, the join desk and the store agreeing."""

    def __init__(
        self, store: Store, keyring: Keyring, farm_id: str, farm_name: str, bulk_port: int = 0
    ) -> None:
        self._store = store
        self.keyring = keyring
        self._farm_id = farm_id
        self._farm_name = farm_name
        #: Told to those who join.
        self.bulk_port = bulk_port
        known = store.keys()
        for record in known:
            self._remember(record)
        self._desk = JoinDesk(keyring, _records(store))
        #: What administrators should look at, newest last.
        self.alerts: list[str] = []
        #: Told of every key that is revoked: whoever still speaks with it must be shut out.
        self.on_revoked: Callable[[str], None] = lambda _public: None

    def _remember(self, record: KeyRecord) -> KeyEntry:
        known = self.keyring.lookup(record.public)
        entry = KeyEntry(
            key_id=known.key_id if known is not None else self.keyring.allocate_id(),
            public=KeyText(record.public),
            role=parse_role(record.role),
            user=record.user,
            pool=record.pool,
            site=record.site,
            label=record.label,
            revoked=record.revoked,
        )
        self.keyring.add(entry)
        return entry

    def add(self, record: KeyRecord) -> KeyEntry:
        """Stores a key, then lets it in."""
        key_bytes(record.public)
        self._store.put_key(record)
        return self._remember(record)

    def handle(
        self, request: KeysReq, join_address: str, control_address: str, public: str, now_us: int
    ) -> KeysReply:
        """Answers a request about keys.

        Raises:
            CallError: A wrong role, key or name.
        """
        if request.action == "keys-list":
            rows = [_row(entry) for entry in self.keyring.entries()]
            return KeysReply(id=request.id, keys=tuple(rows))
        if request.action == "keys-add":
            known = self.keyring.lookup(request.key)
            if known is not None and known.revoked:
                raise CallError("this key was revoked and stays so", hint="make a new key")
            entry = self.add(
                KeyRecord(
                    public=request.key,
                    role=parse_role(request.role).value,
                    user=request.user,
                    pool=request.pool,
                    site=request.site,
                    label=request.label,
                    added_us=now_us,
                )
            )
            return KeysReply(id=request.id, keys=(_row(entry),))
        if request.action == "keys-invite":
            return self._invite(request, join_address, control_address, public, now_us)
        if request.action == "keys-revoke":
            entry = self._revoke(self._find(request.key))
            return KeysReply(id=request.id, keys=(_row(entry),))
        raise UnknownName(f"there is no action {request.action!r} on keys")

    def _invite(
        self, request: KeysReq, join_address: str, control_address: str, public: str, now_us: int
    ) -> KeysReply:
        if not 0 < request.ttl_s <= TTL_MOST_S:
            raise CallError(f"a token is good for up to {TTL_MOST_S:.0f} s, not {request.ttl_s:g}")
        secret = new_secret()
        record = self._desk.issue(
            hash_secret(secret),
            role=request.role,
            user=request.user,
            pool=request.pool,
            site=request.site,
            label=request.label,
            now_us=now_us,
            ttl_us=int(request.ttl_s * 1e6),
        )
        self._keep(record)
        token = make_token(control_address, join_address, public, secret, farm=self._farm_name[:64])
        return KeysReply(id=request.id, token=token)

    def _keep(self, record: JoinRecord) -> None:
        self._store.put_invite(record.secret_hash, msgspec.msgpack.encode(record))

    def _find(self, text: str) -> KeyEntry:
        if not text:
            raise CallError("which key?", hint="name it by public key, fingerprint, number or label")
        matches = [
            entry
            for entry in self.keyring.entries()
            if text in (entry.public, fingerprint(entry.public), str(entry.key_id)) or (entry.label == text)
        ]
        if not matches:
            raise UnknownName(f"no key is called {text!r}", hint="see `farm keys list`")
        if len(matches) > 1:
            raise CallError(f"{len(matches)} keys are called {text!r}", hint="name it by its public key")
        return matches[0]

    def _revoke(self, entry: KeyEntry) -> KeyEntry:
        self._store.put_key(
            KeyRecord(
                public=entry.public,
                role=entry.role.value,
                user=entry.user,
                pool=entry.pool,
                site=entry.site,
                label=entry.label,
                revoked=True,
            )
        )
        self.keyring.revoke(entry.public)
        self.on_revoked(entry.public)
        return msgspec.structs.replace(entry, revoked=True)

    def join(self, message: JoinMsg, public: str, now_us: int) -> JoinedMsg | JoinRefusedMsg:
        """Redeems a token for the sender's key: stored first, then let in, then told."""
        outcome = self._desk.redeem(message.secret, public, now_us)
        if isinstance(outcome, JoinGranted):
            entry = outcome.entry
            if not outcome.repeated:
                record = KeyRecord(
                    public=entry.public,
                    role=entry.role.value,
                    user=entry.user,
                    pool=entry.pool,
                    site=entry.site,
                    label=entry.label or message.label[:64],
                    added_us=now_us,
                )
                self._keep(outcome.record)
                self._store.put_key(record)
                self.keyring.add(msgspec.structs.replace(entry, label=record.label))
            return JoinedMsg(
                farm_id=self._farm_id,
                farm_name=self._farm_name,
                role=entry.role.value,
                user=entry.user,
                pool=entry.pool,
                site=entry.site,
                bulk_port=self.bulk_port,
            )
        if outcome.record is not None:
            self._keep(outcome.record)
        if outcome.revoke is not None:
            first = self.keyring.lookup(outcome.revoke)
            if first is not None and not first.revoked:
                self._revoke(first)
        if outcome.alert:
            self.alerts.append(outcome.alert)
            del self.alerts[:-100]
        return JoinRefusedMsg(outcome.reason)


def _records(store: Store) -> list[JoinRecord]:
    """The invitations; one that cannot be read invites nobody, and must not keep a farm from starting."""
    found: list[JoinRecord] = []
    for raw in store.invites():
        try:
            found.append(_RECORD.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("invite-unreadable reason=%s", error)
    return found


def _row(entry: KeyEntry) -> KeyRow:
    return KeyRow(
        public=entry.public,
        role=entry.role.value,
        user=entry.user,
        pool=entry.pool,
        site=entry.site,
        label=entry.label,
        revoked=entry.revoked,
    )

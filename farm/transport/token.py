"""Join tokens: one string to copy that carries all a newcomer needs to trust a broker and be trusted.

What belongs here: the string, its checks, and the hash a broker stores instead of the secret.  Whether a
token is still good is :mod:`farm.transport.keyring`'s to say.  No sockets, no clock, no ZeroMQ.

Format: ``ovc1-`` and base64url without padding of: payload length (2 bytes, big endian), payload
(MessagePack array), and the first 4 bytes of SHA-256 over prefix, length and payload.  The length tells a
cut-off paste from a mangled one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass, field

import msgspec

from farm.model.errors import CallError
from farm.model.ids import KeyText
from farm.transport.addresses import HostPort, as_host_port
from farm.transport.keys import KEY_BYTES, key_bytes, z85_encode

VERSION = 1
#: Bytes of a token's secret (256 bit).
SECRET_BYTES = 32
#: A secret shorter than 128 bit could be guessed by a patient peer.
MIN_SECRET_BYTES = 16

_PREFIX = f"ovc{VERSION}-"
_CHECK_BYTES = 4
_ASK_AGAIN = "copy the whole token again, from ovc1- to its last character"


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What a token says.

    Attributes:
        control: Where sessions are held.
        join: Where the secret is redeemed.
        broker: The broker's public key; a broker that does not own it is refused.
        secret: Single-use secret, 32 bytes.
        farm: Name of the farm, so that the newcomer files the key under it; may be empty.
    """

    control: HostPort
    join: HostPort
    broker: KeyText
    secret: bytes = field(repr=False)
    farm: str = ""


class _Payload(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    broker: bytes
    secret: bytes
    host: str
    control_port: int
    join_port: int
    #: Empty when both sockets are on one host, which is nearly always.
    join_host: str = ""
    farm: str = ""


def new_secret() -> bytes:
    """A fresh single-use secret of 256 bit."""
    return secrets.token_bytes(SECRET_BYTES)


def hash_secret(secret: bytes) -> str:
    """Hex text a broker stores and looks a secret up by.

    A plain hash is enough: the secret has 256 random bits, so nobody can try them all.
    """
    return hashlib.sha256(b"overcrank join secret\0" + secret).hexdigest()


def make_token(
    control: HostPort | str, join: HostPort | str, broker: str, secret: bytes | None = None, *, farm: str = ""
) -> str:
    """Writes a token.

    Args:
        control: Address of the control socket as the newcomer must dial it.
        join: Address of the join socket.
        broker: The broker's public key.
        secret: Single-use secret; made here when not given.
        farm: Name of the farm, at most 64 characters.

    Raises:
        CallError: An address nobody can dial, no key, or a secret under 128 bit.
    """
    secret = new_secret() if secret is None else secret
    control, join = as_host_port(control), as_host_port(join)
    for address in (control, join):
        if address.is_wildcard or not 0 < address.port <= 65535:
            raise CallError(
                f"{address} cannot be dialled from another machine, so a token must not carry it",
                hint="give the broker's own host name or IP address",
            )
    if len(secret) < MIN_SECRET_BYTES:
        raise CallError(f"a join secret has at least {MIN_SECRET_BYTES} bytes, not {len(secret)}")
    if len(farm) > 64:
        raise CallError(f"a farm's name has at most 64 characters, not {len(farm)}")
    payload = msgspec.msgpack.encode(
        _Payload(
            broker=key_bytes(broker),
            secret=secret,
            host=control.host,
            control_port=control.port,
            join_port=join.port,
            join_host="" if join.host == control.host else join.host,
            farm=farm,
        )
    )
    body = len(payload).to_bytes(2, "big") + payload
    return _PREFIX + _text(body + _check(body))


def parse_token(text: str) -> JoinToken:
    """Reads a token as somebody pasted it; line breaks and blanks inside are forgiven.

    Raises:
        CallError: No token, of another version, cut off, or mangled; says which.  The message never shows
            the token.
    """
    text = "".join(text.split()).strip("'\"`")
    match = re.match(r"ovc(\d{1,6})-", text)
    if match is None:
        raise CallError("this is no join token: one starts with ovc1-", hint=_ASK_AGAIN)
    if int(match[1]) != VERSION or match[0] != _PREFIX:
        raise CallError(
            f"this join token has version {match[1]}; this program reads version {VERSION}",
            hint="use the same version of Overcrank as the broker",
        )
    encoded = text[len(_PREFIX) :]
    if not re.fullmatch(r"[A-Za-z0-9_-]*", encoded):
        strange = re.sub(r"[A-Za-z0-9_-]", "", encoded)[0]
        raise CallError(
            f"this join token holds the character {strange!r}, which no token has", hint=_ASK_AGAIN
        )
    body = _bytes(encoded)
    if len(body) < 2:
        raise _truncated()
    end = 2 + int.from_bytes(body[:2], "big")
    if len(body) < end + _CHECK_BYTES:
        raise _truncated()
    if len(body) > end + _CHECK_BYTES:
        raise CallError("this join token has more characters than it should, or was mangled", hint=_ASK_AGAIN)
    # Comparing the text again catches the last character's unused bits, which decoding ignores.
    if _check(body[:end]) != body[end:] or _text(body) != encoded:
        raise _mangled()
    return _read(body[2:end])


def _read(payload: bytes) -> JoinToken:
    try:
        record = msgspec.msgpack.decode(payload, type=_Payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _mangled() from None
    if len(record.broker) != KEY_BYTES or len(record.secret) < MIN_SECRET_BYTES:
        raise _mangled()
    control = HostPort.parse(str(HostPort(record.host, record.control_port)))
    join = HostPort.parse(str(HostPort(record.join_host or record.host, record.join_port)))
    return JoinToken(control, join, KeyText(z85_encode(record.broker)), record.secret, record.farm)


def _check(body: bytes) -> bytes:
    return hashlib.sha256(_PREFIX.encode("ascii") + body).digest()[:_CHECK_BYTES]


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode("ascii")


def _bytes(encoded: str) -> bytes:
    # One character alone in the last group carries no whole byte: it is what a cut-off paste leaves.
    whole = encoded[:-1] if len(encoded) % 4 == 1 else encoded
    try:
        return base64.urlsafe_b64decode(whole + "=" * (-len(whole) % 4))
    except binascii.Error:
        raise _mangled() from None


def _truncated() -> CallError:
    return CallError("this join token is cut off: its end is missing", hint=_ASK_AGAIN)


def _mangled() -> CallError:
    return CallError("this join token was mangled: its checksum does not match", hint=_ASK_AGAIN)

"""The authenticator: answers ZeroMQ's question "may this key connect?" (ZAP, RFC 27).

What belongs here: the thread behind ``inproc://zeromq.zap.01`` and its answers.  It decides by domain and
key alone; roles, users and sessions are checked by the broker on every message.

Why not pyzmq's own authenticator: it matches domains exactly, so keys configured for ``*`` are refused
without a word on a socket that has a domain; and it reads keys from files, while ours come and go.  Every
socket sets ZAP_ENFORCE_DOMAIN, because a CURVE socket whose authenticator is gone otherwise lets any key in.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque

import msgspec
import zmq

from farm.model.errors import FarmUnreachable
from farm.transport.addresses import Domain
from farm.transport.keyring import Keyring
from farm.transport.keys import KEY_BYTES, fingerprint, z85_encode

ENDPOINT = "inproc://zeromq.zap.01"

_log = logging.getLogger(__name__)

_ALLOWED = b"200"
_DENIED = b"400"
_BROKEN = b"500"
_VERSION = b"1.0"
#: Refusals remembered for ``farm doctor`` and the log.
_KEEP_REFUSALS = 64
#: At most one line in the log in this time, however many peers knock.
_LOG_EVERY_S = 5.0


class Refusal(msgspec.Struct):
    """Peers turned away for one reason.

    Attributes:
        domain: Socket they tried.
        address: IP address they came from.
        key: Fingerprint of the key shown; empty when none was.
        reason: Why, in words.
        times: How often in a row.
    """

    domain: str
    address: str
    key: str
    reason: str
    times: int = 1


class ZapServer:
    """Answers authentication requests of every socket of one ZeroMQ context.

    Args:
        context: Context whose sockets are guarded; one authenticator a context.
        keyring: Keys that may use the control and bulk sockets.

    Raises:
        FarmUnreachable: The context already has an authenticator.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring) -> None:
        self._keyring = keyring
        self._lock = threading.Lock()
        self._refusals: deque[Refusal] = deque(maxlen=_KEEP_REFUSALS)
        self._refused_count = 0
        self._unlogged = 0
        self._log_after_s = 0.0
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        try:
            self._socket.bind(ENDPOINT)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise FarmUnreachable(f"no authenticator can be started: {error.strerror}") from None
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="farm-zap", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while requests are answered.  When False nobody new gets in."""
        return self._thread.is_alive()

    @property
    def refused_count(self) -> int:
        """Peers turned away since the start."""
        return self._refused_count

    @property
    def refused(self) -> list[Refusal]:
        """The last distinct refusals, newest last."""
        with self._lock:
            return [msgspec.structs.replace(refusal) for refusal in self._refusals]

    def stop(self) -> None:
        """Stops the thread and waits for its end; may be called twice."""
        if self._thread.is_alive():
            try:
                self._stop_write.send(b"x")
            except OSError:  # the thread ended in between and closed its side
                pass
            self._thread.join()
        self._stop_write.close()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._stop_read, zmq.POLLIN)
        try:
            while True:
                ready = dict(poller.poll())
                if self._stop_read.fileno() in ready:
                    return
                try:
                    frames = self._socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    continue
                self._answer(frames)
        except zmq.ContextTerminated:
            return
        except zmq.ZMQError as error:
            _log.error("authenticator stopped, nobody new gets in: %s", error.strerror)
        finally:
            self._socket.close(0)
            self._stop_read.close()

    def _answer(self, frames: list[bytes]) -> None:
        """Answers one request; whatever is in it, the thread lives on."""
        # A request is: routing id, empty, version, request id, domain, address, routing id of the peer,
        # mechanism, credentials.
        if len(frames) < 3 or frames[1] != b"":
            self._note("", "", "", "malformed authentication request")
            return
        request_id = frames[3] if len(frames) > 3 else b""
        user_id = b""
        try:
            status, text, user_id = self._decide(frames[2:])
        except Exception:
            _log.exception("authenticator could not judge a request; it was refused")
            status, text = _BROKEN, b"internal error"
        self._socket.send_multipart([frames[0], b"", _VERSION, request_id, status, text, user_id, b""])

    def _decide(self, request: list[bytes]) -> tuple[bytes, bytes, bytes]:
        """Status, text and User-Id for one request (version, request id, domain, ...)."""
        if request[0] != _VERSION or len(request) < 6:
            self._note("", "", "", "malformed authentication request")
            return _BROKEN, b"malformed request", b""
        domain = request[2].decode("utf-8", "replace")
        address = request[3].decode("utf-8", "replace")
        mechanism = request[5]
        if mechanism != b"CURVE":
            self._note(
                domain, address, "", f"mechanism {mechanism[:16].decode('ascii', 'replace')} is not used here"
            )
            return _DENIED, b"only CURVE is accepted", b""
        if len(request) != 7 or len(request[6]) != KEY_BYTES:
            self._note(domain, address, "", "malformed CURVE credentials")
            return _BROKEN, b"malformed credentials", b""
        key = z85_encode(request[6])
        if domain == Domain.JOIN:
            return _ALLOWED, b"OK", key.encode("ascii")
        if domain not in (Domain.CONTROL, Domain.BULK):
            self._note(domain, address, key, "no such domain")
            return _DENIED, b"no such domain", b""
        entry = self._keyring.lookup(key)
        if entry is None:
            self._note(domain, address, key, "the farm does not know this key")
            return _DENIED, b"unknown key", b""
        if entry.revoked:
            self._note(domain, address, key, f"key {entry.key_id} is revoked")
            return _DENIED, b"revoked key", b""
        return _ALLOWED, b"OK", key.encode("ascii")

    def _note(self, domain: str, address: str, key: str, reason: str) -> None:
        """Counts a refusal; equal ones in a row share an entry and log lines are limited."""
        shown = fingerprint(key) if key else ""
        with self._lock:
            self._refused_count += 1
            last = self._refusals[-1] if self._refusals else None
            if last and (last.domain, last.address, last.key, last.reason) == (
                domain,
                address,
                shown,
                reason,
            ):
                last.times += 1
            else:
                self._refusals.append(Refusal(domain, address, shown, reason))
        self._unlogged += 1
        now_s = time.monotonic()
        if now_s >= self._log_after_s:
            self._log_after_s = now_s + _LOG_EVERY_S
            _log.warning(
                "refused %s on %s, key %s: %s (%d since the last such line)",
                address or "a peer",
                domain or "an unnamed socket",
                shown or "none",
                reason,
                self._unlogged,
            )
            self._unlogged = 0

"""Thin wrappers round ZeroMQ sockets: options, binding, and the two calls of the hot path.

What belongs here: every socket option in one place with its reason, and receive and send as the broker's
loop needs them.  What it may not know: messages, sessions and roles.

Limits of what libzmq itself can refuse: it bounds one frame (MAXMSGSIZE), the messages waiting for one peer
(high-water marks) and the time of a handshake, but not the number of frames of one message.  Until such a
message ends, all of it is held in memory (240 MiB sent took 230), and only then can it be dropped.  A peer
must be past the handshake for that; on the join socket any key is, so keep that port on trusted networks.
"""

from __future__ import annotations

import errno
import socket as stdlib_socket
from collections.abc import Mapping
from typing import TypeAlias

import msgspec
import zmq
import zmq.backend

from farm.model.errors import CallError, FarmUnreachable
from farm.transport.addresses import Domain, HostPort, as_host_port
from farm.transport.keys import KeyPair, key_bytes

Socket: TypeAlias = "zmq.Socket[bytes]"
Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"

#: Bytes CURVE adds to a body: command name 8, nonce 8, authenticator 16, flags 1.  libzmq measures the
#: encrypted frame, so this is added for a limit to hold for the body.
_CURVE_OVERHEAD = 33
#: First libzmq without the known holes in CURVE (CVE-2019-13132, CVE-2020-15166).
_MIN_LIBZMQ = (4, 3, 3)
#: With libzmq's 100, connecting 1,000 agents at once leaves some waiting a second for TCP's retry.
_BACKLOG = 8192
#: A peer that has not finished its handshake by then is closed.  Generous, because thousands of agents may
#: shake hands at once with a broker that has one core: a handshake takes it about half a millisecond, and if
#: those that wait were closed and began anew, none would ever be done.
_HANDSHAKE_MS = 30_000
_HEARTBEAT_MS = 10_000
_HEARTBEAT_TIMEOUT_MS = 30_000
#: Messages dropped in one call before the loop is given back, so that no flood can hold it.
_MAX_DROPS = 100
#: Flags as plain numbers: joining two of zmq's enumeration costs as much as sending.
_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
#: The key a connection was let in by; as bytes, which is how libzmq takes it.
_USER_ID = b"User-Id"
#: The compiled send under ``zmq.Socket.send``, which only adds options for kinds of sockets not used here.
_send = zmq.backend.Socket.send


class SocketLimits(msgspec.Struct, frozen=True):
    """How much one peer may make a socket hold.

    Attributes:
        max_message: Longest body accepted, bytes.
        send_queue: Messages waiting for one peer; more are not sent.
        receive_queue: Messages waiting from one peer; more stay in TCP.
    """

    max_message: int
    send_queue: int
    receive_queue: int


#: A peer can make the broker hold receive_queue * max_message bytes: 64 MiB, 256 KiB and 16 MiB.
LIMITS: Mapping[Domain, SocketLimits] = {
    Domain.CONTROL: SocketLimits(max_message=1 << 20, send_queue=4096, receive_queue=64),
    Domain.JOIN: SocketLimits(max_message=64 << 10, send_queue=4, receive_queue=4),
    Domain.BULK: SocketLimits(max_message=512 << 10, send_queue=32, receive_queue=32),
}
#: Clients trust the broker whose key they pinned; snapshots of large farms are long.
CLIENT_LIMITS = SocketLimits(max_message=64 << 20, send_queue=1024, receive_queue=1024)


def new_context() -> Context:
    """A ZeroMQ context of its own.

    Raises:
        FarmUnreachable: The ZeroMQ library is too old to be safe or has no CURVE.
    """
    if zmq.zmq_version_info() < _MIN_LIBZMQ or not zmq.has("curve"):
        raise FarmUnreachable(
            f"the ZeroMQ library here ({zmq.zmq_version()}) is older than 4.3.3 or has no CURVE",
            hint="install pyzmq from its wheels: pip install --force-reinstall pyzmq",
        )
    return zmq.Context()


def _common(socket: Socket, limits: SocketLimits) -> None:
    socket.linger = 0
    socket.setsockopt(zmq.MAXMSGSIZE, limits.max_message + _CURVE_OVERHEAD)
    socket.setsockopt(zmq.SNDHWM, limits.send_queue)
    socket.setsockopt(zmq.RCVHWM, limits.receive_queue)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    # Nets for a peer that vanished without a word: TCP looks after quiet connections, and ends one on which
    # what was sent is not taken.  The dialling end has ZeroMQ's own heartbeat besides, see client_socket.
    socket.setsockopt(zmq.TCP_MAXRT, _HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 10)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)


def server_socket(
    context: Context,
    address: HostPort | str,
    pair: KeyPair,
    domain: Domain | str,
    *,
    max_message: int | None = None,
) -> tuple[Socket, HostPort]:
    """Binds an encrypted ROUTER socket.

    Args:
        context: The context whose authenticator decides who may connect.
        address: Where to listen; port 0 takes a free one, host ``*`` every interface.
        pair: The broker's keys.
        domain: Which of the three sockets; chooses the limits and what the authenticator asks.
        max_message: Longest body accepted, bytes; default by domain.

    Returns:
        The socket and where it really listens.

    Raises:
        FarmUnreachable: The port is taken, forbidden, or the address is not of this machine.
    """
    address, domain = as_host_port(address), Domain(domain)
    limits = LIMITS[domain]
    if max_message is not None:
        limits = msgspec.structs.replace(limits, max_message=max_message)
    numeric = _resolve_to_listen(address)
    socket = context.socket(zmq.ROUTER)
    try:
        _common(socket, limits)
        socket.setsockopt(zmq.BACKLOG, _BACKLOG)
        # An unknown or full peer is an error of that send, not a message lost in silence.
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A second connection must not take over the first one's routing id.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        socket.setsockopt(zmq.IPV6, int(numeric.is_ipv6))
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode("ascii"))
        socket.setsockopt(zmq.ZAP_DOMAIN, domain.value.encode("ascii"))
        # Without this a CURVE socket lets any key in once the authenticator is gone.
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        socket.bind(numeric.endpoint)
        bound = HostPort.parse(socket.getsockopt_string(zmq.LAST_ENDPOINT))
    except zmq.ZMQError as error:
        socket.close(0)
        raise _bind_error(error, address, domain) from None
    except BaseException:
        socket.close(0)
        raise
    # The host is given back as it was asked for: "*" is reported by libzmq as 0.0.0.0.
    return socket, HostPort(address.host, bound.port)


def _resolve_to_listen(address: HostPort) -> HostPort:
    """Looks a host name up: libzmq binds only numbers and interface names."""
    if not address.is_name:
        return address
    try:
        found = stdlib_socket.getaddrinfo(address.host, address.port, type=stdlib_socket.SOCK_STREAM)
    except OSError:
        raise FarmUnreachable(f"host name {address.host!r} to listen on does not resolve") from None
    found.sort(key=lambda entry: entry[0] != stdlib_socket.AF_INET)
    return HostPort(str(found[0][4][0]), address.port)


def _bind_error(error: zmq.ZMQError, address: HostPort, domain: Domain) -> FarmUnreachable:
    where = f"port {address.port} on {address.host} ({domain.value} socket)"
    match error.errno:
        case errno.EADDRINUSE:
            return FarmUnreachable(
                f"{where} is already in use",
                hint="another broker may run here: try `farm status`, or choose another port",
            )
        case errno.EACCES | errno.EPERM:
            return FarmUnreachable(f"{where} may not be used by this user", hint="choose a port above 1023")
        case errno.EADDRNOTAVAIL | errno.ENODEV:
            return FarmUnreachable(
                f"{address.host} is no address of this machine, so nothing can listen on {where}",
                hint="listen on 127.0.0.1, on one of this machine's addresses, or on * for all",
            )
        case errno.EMFILE | zmq.EMTHREAD:
            return FarmUnreachable(f"{where}: out of files or sockets", hint="raise `ulimit -n`")
        case _:
            return FarmUnreachable(f"{where} cannot be opened: {error.strerror}")


def client_socket(
    context: Context,
    address: HostPort | str,
    pair: KeyPair,
    server_public: str,
    *,
    limits: SocketLimits = CLIENT_LIMITS,
    connect: bool = True,
) -> Socket:
    """An encrypted DEALER socket that dials a broker and trusts only the key given.

    Args:
        context: Any context.
        address: The broker's socket.
        pair: The caller's keys.
        server_public: The broker's public key; another broker at that address is not talked to.
        limits: Queues and the longest body accepted.
        connect: False leaves dialling to the caller, who may want to watch it.

    Raises:
        CallError: The address cannot be dialled, or a key is none.
    """
    address = as_host_port(address)
    key_bytes(server_public)
    if address.is_wildcard or address.port == 0:
        raise CallError(
            f"{address} cannot be dialled", hint="give the broker's host name or IP address and port"
        )
    socket = context.socket(zmq.DEALER)
    try:
        _common(socket, limits)
        # Nothing is queued while there is no connection: a session says hello first on every new one, and
        # what a dead connection held must not arrive before that.  (libzmq then drops what was received but
        # not read when a connection ends: ``ClientLink`` turns it off and keeps that order by itself.)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        # The broker answers heartbeats and has none of its own, nor is it told to time this end: libzmq looks
        # through the timers of all connections to end one, so that with ten thousand agents its thread did
        # little else.  A lost agent is noticed by what agents say themselves.
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, 5_000)
        socket.setsockopt(zmq.IPV6, int(_dials_ipv6(address)))
        socket.setsockopt(zmq.CURVE_SERVERKEY, server_public.encode("ascii"))
        socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode("ascii"))
        socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode("ascii"))
        if connect:
            socket.connect(address.endpoint)
    except zmq.ZMQError as error:
        socket.close(0)
        raise CallError(f"{address} cannot be dialled: {error.strerror}") from None
    except BaseException:
        socket.close(0)
        raise
    return socket


def _dials_ipv6(address: HostPort) -> bool:
    """Whether libzmq must look at IPv6: told to, it takes it where it can and never falls back."""
    if not address.is_name:
        return address.is_ipv6
    try:
        found = stdlib_socket.getaddrinfo(address.host, address.port, type=stdlib_socket.SOCK_STREAM)
    except OSError:
        return False  # libzmq goes on trying the name; the link reports what it sees
    families = {entry[0] for entry in found}
    return stdlib_socket.AF_INET6 in families and stdlib_socket.AF_INET not in families


def recv_nowait(socket: Socket) -> tuple[bytes, bytes, str] | None:
    """Takes one message off a ROUTER socket.

    Messages of more than one part are dropped whole: ours have one, so such a peer is broken or hostile.

    Returns:
        Routing id, body and the verified key (Z85 text) of its sender; None when nothing waits, or when so
        many bad messages came that the loop should look at something else first.
    """
    drops = 0
    while drops < _MAX_DROPS:
        try:
            routing_id = socket.recv(_NOBLOCK)
            # Not copied: a frame knows whether more follow and who sent it without asking the socket.
            frame = socket.recv(_NOBLOCK, False)
        except zmq.Again:
            return None
        try:
            if not frame.more:
                return routing_id, frame.bytes, frame.get(_USER_ID)
            _drain(socket)
        except zmq.ZMQError:  # no authenticator vouched for it; cannot happen with the domain enforced
            pass
        drops += 1
    return None


def _drain(socket: Socket) -> None:
    """Drops the other parts of a message; they are all here, since libzmq delivers whole messages."""
    while socket.getsockopt(zmq.RCVMORE):
        socket.recv(_NOBLOCK, False)


def send_nowait(socket: Socket, routing_id: bytes, body: bytes) -> bool:
    """Sends one message from a ROUTER socket.

    Returns:
        False when the peer is gone or takes nothing more; the message was then not sent.  A True only says
        that it was queued: what must arrive is acknowledged by the session above.
    """
    try:
        _send(socket, routing_id, _NOBLOCK_MORE)
        _send(socket, body, _NOBLOCK)
    except zmq.ZMQError as error:
        # When the peer goes away between the two parts, libzmq drops the second by itself.
        if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
            return False
        raise FarmUnreachable(f"the broker's socket cannot send: {error.strerror}") from None
    return True

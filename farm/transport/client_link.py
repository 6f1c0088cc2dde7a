"""A client's or agent's end: one connection to a broker that can say why it does not come up.

What belongs here: dialling, sending and receiving bytes, and telling a refused key from a silent network.
What it may not know: messages and sessions.

A refused ZeroMQ client makes one try, tells its program nothing and never tries again (libzmq issue 2329), so
without this the user would see a command that hangs.  The socket monitor knows; its events are read here.

Long because messages and what the monitor tells must be taken in one order, and are read side by side.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections import deque
from enum import Enum, StrEnum, auto

import msgspec
import zmq

from farm.model.errors import FarmUnreachable
from farm.transport.addresses import HostPort, as_host_port
from farm.transport.keys import KeyPair, fingerprint
from farm.transport.poller import Poller
from farm.transport.sockets import CLIENT_LIMITS, Context, Socket, SocketLimits, client_socket, new_context


class LinkState(StrEnum):
    """How a connection stands."""

    #: The first try is under way, or a connection was just lost.
    CONNECTING = "connecting"
    UP = "up"
    #: The other side said no, or is no broker.  Final until :meth:`ClientLink.reconnect`.
    REFUSED = "refused"
    #: Nothing answers as it should; trying goes on by itself.
    UNREACHABLE = "unreachable"


class LinkStatus(msgspec.Struct, frozen=True):
    """State of a link with its reason.

    Attributes:
        state: How the connection stands.
        reason: Why, for people; empty when up.
        hint: What to do about it, when known.
    """

    state: LinkState
    reason: str = ""
    hint: str = ""


_EVENTS = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_CONNECT_DELAYED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
#: libzmq names the retry right after the loss; if it did not, there will be none.
_RETRY_NOTICE_MS = 50
_CHECK_PORT = "check host and port; a broker's control port is 7460 unless it was given another"
_serial = itertools.count()


class _Phase(Enum):
    """How far the present try has come."""

    IDLE = auto()
    DIALLING = auto()
    #: TCP is there, the handshake is not done.
    ANSWERED = auto()
    UP = auto()
    #: The try failed and its reason is in the status.
    FAILED = auto()


class ClientLink:
    """One connection to a broker's socket, used from one thread.

    Dials at once and again by itself after a loss.  Nothing is queued while it is down: :meth:`send` says
    False.  ``connections`` counts the times it came up, so that a session can say hello on each.

    What had arrived when a connection ended is given by :meth:`recv` before ``connections`` rises: the last
    thing a broker says before it goes is why.  (Who looks at the state without receiving until the next
    connection is up loses it: no message of an ended connection may be taken for one of the new.)  Anything
    else that was under way may be lost, or what was just given to :meth:`send` be sent on the next connection
    before its hello, where the broker takes nothing but a hello: the session above repeats what was not
    acknowledged.

    Args:
        address: The broker's socket.
        pair: The caller's keys.
        server_public: The broker's public key.
        limits: Queues and the longest body accepted.

    Raises:
        CallError: The address cannot be dialled, or a key is none.
        FarmUnreachable: The ZeroMQ library here cannot be used.
    """

    def __init__(
        self,
        address: HostPort | str,
        pair: KeyPair,
        server_public: str,
        *,
        limits: SocketLimits = CLIENT_LIMITS,
    ) -> None:
        self.address = as_host_port(address)
        self.connections = 0
        self._pair = pair
        self._server_public = server_public
        self._limits = limits
        self._context: Context = new_context()
        self._socket: Socket | None = None
        self._monitor: Socket | None = None
        #: What came on a connection that has ended since.
        self._arrived: deque[bytes] = deque()
        self._status = LinkStatus(LinkState.CONNECTING)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # -- life ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._phase = _Phase.IDLE
        self._status = LinkStatus(LinkState.CONNECTING, f"dialling {self.address}")
        self._socket = client_socket(
            self._context,
            self.address,
            self._pair,
            self._server_public,
            limits=self._limits,
            connect=False,
        )
        # With IMMEDIATE libzmq drops what it received and nobody read yet as soon as the connection ends.
        # Without, it would queue what is sent while there is none: ``send`` looks at the state instead.
        self._socket.setsockopt(zmq.IMMEDIATE, 0)
        endpoint = f"inproc://link-monitor-{next(_serial)}"
        self._socket.monitor(endpoint, _EVENTS)
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.linger = 0
        # Unbounded: a full queue would block ZeroMQ's own thread.  A try makes five small events, at most
        # every 100 ms.
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._monitor.connect(endpoint)
        self._poller = Poller([self._socket, self._monitor])
        try:
            self._socket.connect(self.address.endpoint)
        except zmq.ZMQError as error:
            raise FarmUnreachable(f"{self.address} cannot be dialled: {error.strerror}") from None

    def _shut(self, linger_s: float = 0.0) -> None:
        if self._socket is not None:
            self._socket.disable_monitor()
            self._socket.close(max(0, int(linger_s * 1000)))
            self._socket = None
        if self._monitor is not None:
            self._monitor.close(0)
            self._monitor = None
        self._arrived.clear()

    def reconnect(self, address: HostPort | str | None = None) -> None:
        """Drops the connection and dials afresh, with a new socket; the way out of a refusal.

        Args:
            address: Dial another address from now on.
        """
        if self._context.closed:
            raise FarmUnreachable(f"the link to {self.address} is closed")
        self._shut()
        if address is not None:
            self.address = as_host_port(address)
        self._open()

    def close(self, linger_s: float = 0.0) -> None:
        """Closes the link; may be called twice.

        Args:
            linger_s: Longest wait for messages that are still on their way out.
        """
        self._shut(linger_s)
        if not self._context.closed:
            self._context.term()

    def __enter__(self) -> ClientLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- use -------------------------------------------------------------------------------------------

    @property
    def status(self) -> LinkStatus:
        """State and reason as of now."""
        self._read_monitor()
        return self._status

    @property
    def state(self) -> LinkState:
        """State as of now."""
        return self.status.state

    @property
    def pending(self) -> bool:
        """Whether messages wait here that show on no socket any more."""
        return bool(self._arrived)

    def send(self, body: bytes) -> bool:
        """Sends one message.

        Returns:
            False when there is no connection or it takes nothing more; the message was not sent.
        """
        socket = self._live()
        if self._status.state is not LinkState.UP or self._has_news():
            self._read_monitor()
            if self._status.state is not LinkState.UP:
                return False
        try:
            socket.send(body, zmq.NOBLOCK)
        except zmq.Again:
            # libzmq looks at its own news only now and then; asking for the events makes it look.
            if not int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT:
                return False
            try:
                socket.send(body, zmq.NOBLOCK)
            except zmq.Again:
                return False
        return True

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        """Waits for one message.

        Args:
            timeout_s: Longest wait; 0 only looks, None waits for ever.

        Returns:
            The body, or None after the timeout.

        Raises:
            FarmUnreachable: The broker refused this key, or what answers is no broker: nothing will come.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            body = self._take()
            if body is not None:
                return body
            # No further than to a loss while what came before it waits to be given.
            while not self._arrived and self._read_news():
                pass
            if self._arrived:
                continue
            if self._status.state is LinkState.REFUSED:
                raise self.error()
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            self._poller.wait(left_s)

    def wait_up(self, timeout_s: float) -> None:
        """Waits until the broker has let this key in.

        Raises:
            FarmUnreachable: It was refused, or is not up in time; says why and what to do.
        """
        self._live()
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._read_monitor()
            if self._status.state is LinkState.UP:
                return
            left_s = deadline_s - time.monotonic()
            if self._status.state is LinkState.REFUSED or left_s <= 0:
                raise self.error()
            # News only: a message that waits to be read must not turn this into a busy loop.
            assert self._monitor is not None
            self._monitor.poll(max(1, int(left_s * 1000)))

    def error(self) -> FarmUnreachable:
        """The present trouble as an error to raise."""
        status = self._status
        if status.state is LinkState.CONNECTING and self._phase is _Phase.ANSWERED:
            return FarmUnreachable(
                f"{self.address} takes connections but says nothing",
                hint="is it an Overcrank broker, and is it not stuck?",
            )
        return FarmUnreachable(status.reason or f"no connection to {self.address}", hint=status.hint)

    def poll_sockets(self) -> tuple[Socket, ...]:
        """For :class:`~farm.transport.poller.Poller`: wakes for messages and for news of the connection.

        After a wake call :meth:`recv` until it gives None; that reads the news, too.
        """
        if self._socket is None or self._monitor is None:
            return ()
        return (self._socket, self._monitor)

    # -- inside ----------------------------------------------------------------------------------------

    def _live(self) -> Socket:
        if self._socket is None:
            raise FarmUnreachable(f"the link to {self.address} is closed")
        return self._socket

    def _take(self) -> bytes | None:
        if self._arrived:
            return self._arrived.popleft()
        socket = self._live()
        try:
            while True:
                frame = socket.recv(zmq.NOBLOCK, False)
                if not frame.more:
                    return frame.bytes
                while socket.getsockopt(zmq.RCVMORE):  # ours have one part; this is dropped whole
                    socket.recv(zmq.NOBLOCK, False)
        except zmq.Again:
            return None

    def _set_aside(self) -> None:
        """Takes what came on the connection that has just ended.

        libzmq tells of an end after it has queued everything it read; so all of it is here.
        """
        waiting, self._arrived = self._arrived, deque()
        while (body := self._take()) is not None:
            waiting.append(body)
        self._arrived = waiting

    def _has_news(self) -> bool:
        """Whether events of the connection wait; costs less than a receive that finds none."""
        assert self._monitor is not None
        return bool(int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _read_monitor(self) -> None:
        """Takes all events of the connection and draws the state from them."""
        while self._read_news():
            pass

    def _read_news(self) -> bool:
        """Takes the next event of the connection; False when there is none."""
        monitor = self._monitor
        if monitor is None:
            return False
        try:
            head, _ = monitor.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return False
        event, value = struct.unpack("=HI", head)
        if event == zmq.EVENT_DISCONNECTED:
            self._set_aside()
        self._on_event(event, value)
        lost = event == zmq.EVENT_DISCONNECTED and self._phase is not _Phase.FAILED
        # libzmq gives up for good on a peer that breaks its protocol, and says so only by not
        # announcing a retry, which otherwise follows at once.
        if lost and not monitor.poll(_RETRY_NOTICE_MS):
            self._give_up()
        return True

    def _on_event(self, event: int, value: int) -> None:
        match event:
            case zmq.EVENT_CONNECT_DELAYED:
                self._phase = _Phase.DIALLING
            case zmq.EVENT_CONNECTED:
                self._phase = _Phase.ANSWERED
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._phase = _Phase.UP
                self._arrived.clear()
                self.connections += 1
                self._status = LinkStatus(LinkState.UP)
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._phase = _Phase.FAILED
                self._refused_key(value)
            case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._phase = _Phase.FAILED
                self._refuse(f"what answers at {self.address} is no Overcrank broker", _CHECK_PORT)
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._phase = _Phase.FAILED
                self._unreachable(
                    f"{self.address} answers but breaks off the handshake: its key is not the one expected "
                    f"({fingerprint(self._server_public)}), or it cannot check keys just now",
                    "if the broker was set up anew, join it again",
                )
            case zmq.EVENT_CLOSED:
                self._phase = _Phase.FAILED
                self._unreachable(
                    f"nothing answers at {self.address}",
                    "is the broker running, does it listen on this address, and is no firewall in between?",
                )
            case zmq.EVENT_DISCONNECTED:
                if self._phase is _Phase.UP:
                    self._status = LinkStatus(
                        LinkState.CONNECTING, f"the connection to {self.address} was lost; dialling again"
                    )
            case zmq.EVENT_CONNECT_RETRIED:
                if self._phase is _Phase.IDLE:  # not even a try: there was nothing to dial
                    self._unreachable(
                        f"host name {self.address.host!r} cannot be looked up"
                        if self.address.is_name
                        else f"this machine has no way to {self.address}",
                        "check the name, and this machine's network",
                    )
                elif self._phase is _Phase.ANSWERED:
                    self._unreachable(f"{self.address} answers but hangs up at once", _CHECK_PORT)
                self._phase = _Phase.IDLE
            case _:
                pass

    def _refused_key(self, status: int) -> None:
        key = fingerprint(self._pair.public)
        if status == 400:
            self._refuse(
                f"the farm at {self.address} does not know this key ({key}), or has revoked it",
                "ask its administrator for a join token",
            )
        else:
            self._refuse(
                f"the farm at {self.address} could not check this key ({key}), status {status}",
                "the broker's log says why",
            )

    def _give_up(self) -> None:
        if self._phase is _Phase.UP:
            self._refuse(
                f"the connection to {self.address} broke: what was sent breaks the protocol",
                "if it happens again, report it with both sides' versions",
            )
        else:
            self._refuse(f"what answers at {self.address} is no Overcrank broker", _CHECK_PORT)
        self._phase = _Phase.FAILED

    def _refuse(self, reason: str, hint: str) -> None:
        self._status = LinkStatus(LinkState.REFUSED, reason, hint)

    def _unreachable(self, reason: str, hint: str) -> None:
        self._status = LinkStatus(LinkState.UNREACHABLE, reason, hint)

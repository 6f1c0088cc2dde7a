"""The line to a farm: dialling, the session, and how the connection stands.

What belongs here: everything the sockets' thread decides, one turn after another, with the clock and the
connections handed in.  What may not: threads, Qt, ZeroMQ, and what becomes of requests (``asking``).

Dialling and the session share one order: what arrived is taken first, a lost connection is told next, and
only then is anything sent.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from client_gui.net.asking import Asking
from client_gui.net.bulkline import bulk_line_of
from client_gui.net.decoding import GentleCodec
from client_gui.net.dialer import Dialer, Route, Wire
from client_gui.net.follow import Following
from client_gui.net.port import (
    Answer,
    Ask,
    Cancel,
    Dial,
    Follow,
    Heard,
    Incoming,
    News,
    Outgoing,
    Resync,
    Welcomed,
)
from client_gui.net.pulse import Pulse
from client_gui.net.retries import RETRY_MOST_S, Retries, Telling
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable, OvercrankError, PeerError, SessionRefused, from_wire
from farm.protocol.agent import ByeMsg
from farm.protocol.client import DeltaMsg, JobsReq, SnapshotMsg
from farm.protocol.codec import encode
from farm.protocol.common import RefusedMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk import talk
from farm.sdk.connect import PATIENCE_S
from farm.transport.client_link import LinkState
from farm.transport.poller import PollSource

log = logging.getLogger("overcrank.client")

#: Code of a ``Standing`` for a broker that speaks no version this program speaks.
VERSION_CODE: Final = "version"
#: How long a connection that is neither made nor refused is waited for, and the answer to a hello.
DIAL_S: Final = 10.0
GREET_S: Final = 10.0
#: How long the goodbye may take.
BYE_S: Final = 0.5
#: Own requests are numbered from here, those of the window from 1.
_OWN: Final = 1 << 40
#: Messages taken in one go, so that what the window posts is not kept waiting.
_TAKEN_AT_ONCE: Final = 64
#: A connection that takes nothing more is tried again so soon.
_FULL_S: Final = 0.05


class Line:
    """A client's line to one farm at a time.

    Args:
        give: Takes what is for the window.
        dialer: Finds farms and opens connections.
        wake: Makes ``turn`` be called soon; from any thread.
        clock: Seconds that only grow.
        draw: A number from 0 to 1, so that a thousand clients do not dial a broker that is back at once.
    """

    def __init__(
        self,
        give: Callable[[Incoming], None],
        dialer: Dialer,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._give = give
        self._dialer = dialer
        self._wake = wake
        self._clock = clock
        self._codec = GentleCodec()
        self._farm: str | None = None
        self._wanted = False
        self._route: Route | None = None
        self._wire: Wire | None = None
        self._session = self._new_session()
        self._greeted_on = -1
        self._greeted_s = 0.0
        #: Whether the window was told that the session is open, and by what it is to be told otherwise.
        self._open = False
        self._gaps = 0
        #: The broker's last word, until Dial, Resync or a new connection.
        self._refusal: OvercrankError | None = None
        self._down_s = 0.0
        self._retries = Retries(draw)
        self._telling = Telling(give)
        self._trouble: OvercrankError | None = None
        self._number = _OWN
        self._pulse = Pulse()
        self._asking = Asking(give, clock, lambda: self._place)
        self._following = Following(self._own_number, self._send_own, give)
        self._full = False
        self._more = False

    # -- for the thread --

    def post(self, message: Outgoing) -> None:
        """Takes something from the window; ``turn`` does it."""
        match message:
            case Ask() if self._refusal is not None:
                self._give(Answer(message.number, None, self._refusal))
            case Ask():
                self._asking.add(message)
            case Cancel():
                self._asking.cancel(message.number)
            case Follow():
                self._following.want(message.topics)
            case Dial():
                self._dial(message.farm)
            case Resync():
                self._following.again()
                if self._wanted and not self._open:
                    self._refusal = None
                    self._restart()

    def turn(self) -> float | None:
        """Does all that can be done now; returns in how many seconds it is due again, None = when woken."""
        if self._wire is not None:
            self._receive(self._wire)
        self._advance()
        if self._open:
            self._following.turn(self._clock())
            if self._wire is not None and not self._asking.send(self._wire):
                self._full = True
        self._asking.turn(self._trouble)
        return self._due_in_s()

    def sources(self) -> list[PollSource]:
        """The connections to wait for."""
        return [wire for wire in (self._wire, self._asking.bulk_wire) if wire is not None]

    def close(self) -> None:
        """Says goodbye and closes; what was asked gets no answer any more."""
        linger_s = 0.0
        if self._wire is not None and self._session.phase is Phase.OPEN:
            try:
                # So that the broker forgets this session at once; where that is lost, it does so later.
                linger_s = BYE_S if self._wire.send(encode(ByeMsg())) else 0.0
            except OvercrankError:
                pass
        if self._wire is not None:
            self._wire.close(linger_s)
            self._wire = None
        self._asking.close_bulk()
        self._wanted = self._open = False

    def fault(self, error: OvercrankError) -> None:
        """A fault of this program came up in a turn: everything begins anew, after a pause."""
        self._asking.fail_all(error)
        self._give_up(error, after_s=RETRY_MOST_S)

    # -- dialling --

    def _dial(self, farm: str | None) -> None:
        self._asking.fail_all(FarmUnreachable("another farm was chosen before the answer came"))
        self.close()
        self._farm, self._wanted = farm, True
        self._refusal = self._trouble = None
        self._restart()

    def _restart(self) -> None:
        """Begins to dial at once."""
        self._drop_wire()
        self._retries.begin(self._clock())
        self._telling.stand(Link.CONNECTING, self._trouble)

    def _advance(self) -> None:
        now_s = self._clock()
        if not self._wanted:
            return
        if self._wire is None:
            if self._refusal is None:
                self._try_to_dial(now_s)
            return
        status = self._wire.status
        if status.state is LinkState.REFUSED:
            self._refused(self._why(self._wire.error()))
        elif status.state is not LinkState.UP:
            if self._session.phase is not Phase.NEW or self._open:
                self._lost(FarmUnreachable(status.reason, hint=status.hint))
                self._down_s = now_s
            waited_s = now_s - self._down_s
            silent = status.state is LinkState.UNREACHABLE and waited_s >= PATIENCE_S
            if silent or waited_s >= DIAL_S:
                self._give_up(self._why(self._wire.error()))
        elif self._wire.connections != self._greeted_on:
            if self._open:
                self._lost(FarmUnreachable(f"the connection to {self._place} was lost; dialling again"))
            self._refusal = None
            self._greet(now_s)
        elif self._session.phase is Phase.NEW:
            self._greet(now_s)
        elif self._session.phase is Phase.GREETING:
            if now_s - self._greeted_s >= GREET_S:
                self._give_up(talk.no_welcome(self._place, GREET_S))
        elif self._open:
            self._listen(now_s)

    def _try_to_dial(self, now_s: float) -> None:
        if self._route is None:
            if self._retries.due_s is None or now_s < self._retries.due_s:
                return
            self._telling.stand(Link.CONNECTING, self._trouble)
            try:
                self._route = self._dialer.find(self._farm, self._wake)
            except OvercrankError as error:
                self._give_up(error)
                return
        route = self._route
        if not route.ready:
            return
        if route.trouble:
            self._give_up(FarmUnreachable(route.trouble, hint="check the name, and this machine's network"))
            return
        try:
            self._wire = self._dialer.open(route, route.access.endpoint.control)
        except OvercrankError as error:
            self._give_up(error)
            return
        self._session = self._new_session()
        self._greeted_on, self._down_s = -1, now_s
        self._retries.end()
        self._asking.open_bulk(bulk_line_of(self._give, self._dialer, route, self._clock))

    def _drop_wire(self) -> None:
        """Closes the connections; questions that may be asked twice go on waiting."""
        if self._open:
            self._lost(self._trouble or FarmUnreachable(f"the connection to {self._place} was given up"))
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._asking.drop_bulk()
        self._route = None
        self._session = self._new_session()

    def _give_up(self, error: OvercrankError, after_s: float | None = None) -> None:
        """This try failed; the next is made after a pause."""
        self._trouble, self._refusal = error, None
        self._drop_wire()
        retry_in_s = self._retries.failed(self._clock(), after_s)
        self._telling.stand(Link.LOST, error, retry_in_s=retry_in_s)

    def _refused(self, error: OvercrankError, *, code: str = SessionRefused.code, keep: bool = False) -> None:
        """The broker does not want this client: no more tries, until somebody says so or it is another one.

        Args:
            error: Why.
            code: Of the standing.
            keep: Leave the connection open: when it breaks, another broker may be there.
        """
        self._refusal = SessionRefused(error.message, hint=error.hint)
        self._trouble = self._refusal
        self._open = False
        self._following.lost()
        self._asking.fail_all(self._refusal)
        if keep:
            self._session.phase = Phase.REFUSED
        else:
            self._drop_wire()
        self._retries.end()
        self._telling.stand(Link.REFUSED, self._refusal, code=code)

    # -- the session --

    def _new_session(self) -> PeerSession:
        return PeerSession(self._codec, talk.hello)

    def _greet(self, now_s: float) -> None:
        assert self._wire is not None
        if self._wire.send(self._session.greet()):
            self._greeted_on, self._greeted_s = self._wire.connections, now_s
        else:
            self._session.phase = Phase.NEW
            self._full = True

    def _receive(self, wire: Wire) -> None:
        self._more = False
        for _ in range(_TAKEN_AT_ONCE):
            try:
                body = wire.recv(0.0)
            except FarmUnreachable:
                return  # ``_advance`` sees that it was refused
            if body is None:
                return
            self._pulse.heard_s = self._clock()
            self._understand(body)
            if self._wire is not wire:
                return
        self._more = True

    def _understand(self, body: bytes) -> None:
        phase = self._session.phase
        try:
            found = self._session.receive(body)
        except PeerError as error:
            if phase is not Phase.OPEN:
                self._refused(talk.not_understood(error), code=VERSION_CODE, keep=True)
                return
            # Of a newer broker, or spoilt: what it was about hears nothing, and numbers that miss it tell.
            log.info("bad-message reason=%s", error.message)
            return
        for message in found:
            match message:
                case WelcomeMsg():
                    self._welcomed(message)
                case RefusedMsg():
                    self._refused_by_message(message, phase)
                case _:
                    self._take(message)
        if phase is Phase.OPEN and self._session.phase is Phase.NEW:
            self._rehello()

    def _welcomed(self, welcome: WelcomeMsg) -> None:
        route = self._route
        self._open, self._trouble = True, None
        self._retries.reached()
        self._gaps = self._session.gaps
        self._pulse.begin()
        self._following.opened()
        endpoint = route.access.endpoint if route is not None else None
        self._give(
            Welcomed(
                welcome,
                route.access.farm if route is not None else "",
                self._place,
                farm_id=endpoint.farm_id if endpoint is not None else "",
            )
        )
        self._telling.stand(Link.LIVE)

    def _refused_by_message(self, message: RefusedMsg, phase: Phase) -> None:
        error = from_wire(message.code, message.reason, message.hint)
        refusal = talk.refusal(SessionRefused(error.message, hint=error.hint))
        if message.code == PeerError.code and phase is Phase.OPEN:
            # It could not read one of our messages, and goes on with the session.
            self._session.phase = Phase.NEW
            self._asking.fail_all(refusal)
            self._lost(refusal, link=Link.RESYNC)
            return
        code = VERSION_CODE if message.code == PeerError.code else message.code
        self._refused(refusal, code=code, keep=True)

    def _rehello(self) -> None:
        """The broker asks for a hello, or numbers were missed: the session begins anew on this connection."""
        missed = self._session.gaps != self._gaps
        self._gaps = self._session.gaps
        words = "numbers were missed" if missed else "the broker asked for a hello"
        self._lost(FarmUnreachable(words), link=Link.RESYNC, taken=missed)

    def _lost(self, error: OvercrankError, *, link: Link = Link.LOST, taken: bool = True) -> None:
        """The session has ended.

        Args:
            error: Why.
            link: How the connection stands now.
            taken: Whether what was sent may have been taken.
        """
        was_open, self._open = self._open, False
        self._trouble = error
        self._session.phase = Phase.NEW
        self._asking.lost(taken=taken)
        self._following.lost()
        self._pulse.begin()
        if was_open:
            self._telling.stand(link, error)

    def _listen(self, now_s: float) -> None:
        """Looks whether the broker is still there."""
        silent_s = self._pulse.silent_for_s(now_s, large=self._following.awaited)
        if silent_s:
            self._give_up(FarmUnreachable(f"{self._place} has said nothing for {silent_s:g} s"), after_s=0.0)
        elif self._pulse.wanted(now_s):
            number = self._own_number()
            # The newest job and nothing else: it costs the broker next to nothing.
            if self._send_own(JobsReq(id=number, limit=1)):
                self._pulse.asked(number, now_s)

    # -- requests --

    def _own_number(self) -> int:
        self._number += 1
        return self._number

    def _send_own(self, message: Any) -> bool:
        if self._wire is None or not self._wire.send(encode(message)):
            self._full = True
            return False
        return True

    def _take(self, message: Any) -> None:
        if isinstance(message, DeltaMsg):
            if not self._following.probing:
                self._give(News(message))
            return
        number = getattr(message, "id", None)
        if isinstance(message, SnapshotMsg) or self._following.answers(number):
            self._following.take(message)
        elif self._pulse.answered(number):
            self._give(Heard(int((self._clock() - self._pulse.sent_s) * 1e6)))
        else:
            self._asking.take(number, message)

    # -- telling --

    @property
    def _place(self) -> str:
        return self._route.access.endpoint.control if self._route is not None else "the broker"

    def _why(self, error: FarmUnreachable) -> FarmUnreachable:
        return error if self._route is None else self._dialer.why(self._route, self._place, error)

    def _due_in_s(self) -> float | None:
        now_s = self._clock()
        if self._more or (self._wire is not None and self._wire.pending):
            return 0.0
        found: list[float] = []
        if self._full:
            self._full = False
            found.append(_FULL_S)
        if self._wire is None and self._route is None and self._retries.due_s is not None:
            found.append(self._retries.due_s - now_s)
        if self._wire is not None:
            if self._session.phase is Phase.GREETING:
                found.append(self._greeted_s + GREET_S - now_s)
            elif self._open:
                found.append(self._pulse.due_s(large=self._following.awaited) - now_s)
            elif self._refusal is None:
                # Down, or nearly so: its patience is looked at now and then.
                found.append(_FULL_S)
        found += self._asking.due_in_s()
        return max(0.0, min(found)) if found else None

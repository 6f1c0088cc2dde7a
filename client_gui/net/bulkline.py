"""The connection for logs, previews and columns: questions only, each may be asked twice.

What belongs here: the bulk socket, opened when first needed.  What may not: the session (``line``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from client_gui.net.dialer import Dialer, Route, Wire
from client_gui.net.port import Answer, Ask
from client_gui.store.unitcolumns import unpacked
from farm.model.errors import FarmUnreachable, OvercrankError, PeerError, SessionRefused
from farm.protocol.bulk import BulkErrorMsg, ColumnsMsg
from farm.protocol.codec import bulk_out_codec, encode
from farm.sdk import talk
from farm.sdk.connect import PATIENCE_S
from farm.transport.client_link import LinkState

#: How many questions are under way at once; the others can still be given up at no cost.
AT_ONCE: Final = 8
#: Messages taken in one go.
_TAKEN_AT_ONCE: Final = 64


@dataclass(slots=True)
class _Asked:
    ask: Ask
    posted_s: float
    sent_s: float = 0.0
    #: Connection it was sent on, -1 = on none.
    sent_on: int = -1


class BulkLine:
    """The bulk socket of one farm.

    Args:
        give: Takes answers.
        open_wire: Makes the connection.
        why: Puts the trouble of the connection into words.
        place: Where the broker is, for messages.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        give: Callable[[Answer], None],
        open_wire: Callable[[], Wire],
        why: Callable[[FarmUnreachable], FarmUnreachable],
        place: str,
        clock: Callable[[], float],
    ) -> None:
        self.wire: Wire | None = None
        self._give = give
        self._open_wire = open_wire
        self._why = why
        self._place = place
        self._clock = clock
        self._codec = bulk_out_codec()
        self._asked: dict[int, _Asked] = {}
        #: When the connection began to be down.
        self._down_s: float | None = None
        self._more = False

    def ask(self, ask: Ask, posted_s: float) -> None:
        """Takes a question."""
        self._asked[ask.number] = _Asked(ask, posted_s)

    def cancel(self, number: int) -> bool:
        """Gives a question up; whether it was one of these."""
        return self._asked.pop(number, None) is not None

    def close(self, error: OvercrankError | None = None) -> None:
        """Closes the connection; with an error every question ends with it."""
        if self.wire is not None:
            self.wire.close()
            self.wire = None
        if error is not None:
            self._fail(error)
        for asked in self._asked.values():
            asked.sent_on = -1
        self._down_s = None

    def waiting(self) -> list[tuple[Ask, float]]:
        """Questions without an answer and when they were posted, for another connection."""
        return [(asked.ask, asked.posted_s) for asked in self._asked.values()]

    def turn(self) -> None:
        """Does all that can be done now."""
        now_s = self._clock()
        if self._asked and self.wire is None:
            try:
                self.wire = self._open_wire()
            except OvercrankError as error:
                self._fail(error)
                return
            self._down_s = now_s
        if self.wire is not None:
            self._receive(self.wire)
        if self.wire is not None:
            self._look(self.wire, now_s)
        if self.wire is not None:
            self._send(self.wire)
        for asked in list(self._asked.values()):
            if self._left_s(asked, now_s) <= 0:
                self._end(asked, error=talk.no_bulk_answer(self._place, asked.ask.timeout_s))

    def due_in_s(self) -> float | None:
        """When ``turn`` is due though nothing comes; None = never."""
        if self._more or (self.wire is not None and self.wire.pending):
            return 0.0
        if not self._asked:
            return None
        now_s = self._clock()
        found = [self._left_s(asked, now_s) for asked in self._asked.values()]
        if self._down_s is not None:
            found.append(max(0.05, self._down_s + PATIENCE_S - now_s))
        elif self._ready():
            found.append(0.05)  # the connection took nothing more
        return max(0.0, min(found))

    # -- inside --

    def _receive(self, wire: Wire) -> None:
        self._more = False
        for _ in range(_TAKEN_AT_ONCE):
            try:
                body = wire.recv(0.0)
            except FarmUnreachable as error:
                why = self._why(error)
                self.close(SessionRefused(why.message, hint=why.hint))
                return
            if body is None:
                return
            try:
                message = self._codec.decode(body)
            except PeerError:
                continue  # of a newer broker; who asked hears that no answer came
            number = getattr(message, "id", None)
            if isinstance(message, BulkErrorMsg) and number == 0:
                self._refused(message)
            elif number is not None and (asked := self._asked.get(number)) is not None:
                if isinstance(message, BulkErrorMsg):
                    self._end(asked, error=talk.bulk_error(message))
                else:
                    self._end(asked, reply=unpacked(message) if isinstance(message, ColumnsMsg) else message)
        self._more = True

    def _refused(self, message: BulkErrorMsg) -> None:
        """An error without a number: about the sender (its key is let in no more), or about a question that
        the broker could not read."""
        error = talk.bulk_error(message)
        sent = [asked for asked in self._asked.values() if asked.sent_on != -1]
        if message.code == PeerError.code and sent:
            self._end(min(sent, key=lambda asked: asked.sent_s), error=error)  # they are answered in order
        else:
            self._fail(error)

    def _look(self, wire: Wire, now_s: float) -> None:
        state = wire.status.state
        if state is LinkState.UP:
            self._down_s = None
            for asked in self._asked.values():
                if asked.sent_on not in (-1, wire.connections):
                    asked.sent_on = -1
            return
        for asked in self._asked.values():
            asked.sent_on = -1
        if self._down_s is None:
            self._down_s = now_s
        if state is LinkState.UNREACHABLE and now_s - self._down_s >= PATIENCE_S:
            self.close(self._why(wire.error()))

    def _left_s(self, asked: _Asked, now_s: float) -> float:
        """How long an answer may still take; what stands behind others waits as long as those do."""
        if asked.sent_s:
            return asked.sent_s + asked.ask.timeout_s - now_s
        if self._down_s is None and self.wire is not None:
            return float("inf")
        return asked.posted_s + asked.ask.timeout_s - now_s

    def _ready(self) -> list[_Asked]:
        """What is to be sent now."""
        under_way = sum(asked.sent_on != -1 for asked in self._asked.values())
        waiting = [asked for asked in self._asked.values() if asked.sent_on == -1]
        return waiting[: max(0, AT_ONCE - under_way)]

    def _send(self, wire: Wire) -> None:
        if self._down_s is not None:
            return
        for asked in self._ready():
            if not wire.send(encode(asked.ask.body)):
                return
            asked.sent_s, asked.sent_on = asked.sent_s or self._clock(), wire.connections

    def _end(self, asked: _Asked, reply: object = None, error: OvercrankError | None = None) -> None:
        del self._asked[asked.ask.number]
        took_us = int((self._clock() - asked.sent_s) * 1e6) if asked.sent_s else 0
        self._give(Answer(asked.ask.number, reply, error, took_us))

    def _fail(self, error: OvercrankError) -> None:
        for asked in list(self._asked.values()):
            self._end(asked, error=error)


def bulk_line_of(
    give: Callable[[Answer], None], dialer: Dialer, route: Route, clock: Callable[[], float]
) -> BulkLine:
    """The bulk line of a farm that was found; it connects when it is first asked something."""
    address = route.access.endpoint.bulk
    return BulkLine(
        give,
        lambda: dialer.open(route, address),
        lambda error: dialer.why(route, address, error),
        route.access.endpoint.control,
        clock,
    )

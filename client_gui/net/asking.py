"""What the window has asked and gets an answer to, whatever becomes of the connection.

What belongs here: requests that wait, that are under way, and what they end with; also those for the bulk
socket until there is one.  What may not: dialling and the session (``line``).

The rules of asking again are those of ``farm.sdk.client``: a request whose connection is lost is sent again
when asking twice does no harm; otherwise its outcome is unknown and told as such.  A request that the broker
never took (it asked for a hello) is sent again in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from client_gui.net.bulkline import BulkLine
from client_gui.net.dialer import Wire
from client_gui.net.port import Answer, Ask, Incoming
from farm.model.errors import FarmUnreachable, OvercrankError, from_wire
from farm.protocol.client import ErrorReply
from farm.protocol.codec import encode
from farm.sdk import talk


@dataclass(slots=True)
class _Asked:
    ask: Ask
    posted_s: float
    sent_s: float = 0.0
    #: Whether it is under way in the present session.
    under_way: bool = False


class Asking:
    """Requests of the window.

    Args:
        give: Takes answers.
        clock: Seconds that only grow.
        place: Says where the broker is.

    Attributes:
        bulk: The line for what is large, None while there is no way to the farm.
    """

    def __init__(
        self, give: Callable[[Incoming], None], clock: Callable[[], float], place: Callable[[], str]
    ) -> None:
        self._give = give
        self._clock = clock
        self._place = place
        self.bulk: BulkLine | None = None
        self._asked: dict[int, _Asked] = {}
        #: Questions for the bulk socket from before there was a way to the farm.
        self._early: list[tuple[Ask, float]] = []

    # -- from the window --

    def add(self, ask: Ask) -> None:
        """Takes a request; it is sent in the next turn with an open session."""
        if not ask.bulk:
            self._asked[ask.number] = _Asked(ask, self._clock())
        elif self.bulk is not None:
            self.bulk.ask(ask, self._clock())
        else:
            self._early.append((ask, self._clock()))

    def cancel(self, number: int) -> None:
        """An answer is of no use any more."""
        if self._asked.pop(number, None) is None:
            self._early = [one for one in self._early if one[0].number != number]
            if self.bulk is not None:
                self.bulk.cancel(number)

    # -- the bulk line --

    def open_bulk(self, bulk: BulkLine) -> None:
        """There is a way to the farm: what waited for it goes to this line."""
        early, self._early = self._early, []
        for ask, posted_s in early:
            bulk.ask(ask, posted_s)
        self.bulk = bulk

    def drop_bulk(self) -> None:
        """The way is lost; what was asked there goes on waiting."""
        if self.bulk is not None:
            self._early += self.bulk.waiting()
            self.close_bulk()

    def close_bulk(self) -> None:
        """Ends the line; what was asked there gets no answer any more."""
        if self.bulk is not None:
            self.bulk.close()
            self.bulk = None

    # -- from and to the broker --

    def send(self, wire: Wire) -> bool:
        """Sends what was not yet; False when the connection takes nothing more."""
        for asked in list(self._asked.values()):
            if asked.under_way:
                continue
            if not wire.send(encode(asked.ask.body)):
                return False
            asked.under_way = True
            asked.sent_s = self._clock()
        return True

    def take(self, number: int | None, message: Any) -> None:
        """Takes an answer, if it is one to something that is under way."""
        asked = self._asked.get(number) if number is not None else None
        if asked is None or not asked.under_way:
            return
        if isinstance(message, ErrorReply):
            self._end(asked, error=from_wire(message.code, message.message, message.hint))
        else:
            self._end(asked, reply=message)

    def lost(self, *, taken: bool) -> None:
        """The session has ended; ``taken`` says whether what was sent may have been taken."""
        for asked in list(self._asked.values()):
            if asked.under_way and taken and not asked.ask.repeat:
                self._end(asked, error=talk.outcome_unknown(self._place()))
            asked.under_way = False

    def fail_all(self, error: OvercrankError) -> None:
        """Ends everything with an error."""
        unknown = FarmUnreachable(error.message, hint=talk.outcome_unknown(self._place()).hint)
        for asked in list(self._asked.values()):
            self._end(asked, error=unknown if asked.under_way and not asked.ask.repeat else error)
        early, self._early = self._early, []
        for ask, _ in early:
            self._give(Answer(ask.number, None, error))
        if self.bulk is not None:
            self.bulk.close(error)

    # -- time --

    def turn(self, trouble: OvercrankError | None) -> None:
        """Goes on with what is large, and ends what has waited for too long.

        Args:
            trouble: What is wrong with the connection, None for nothing.
        """
        if self.bulk is not None:
            self.bulk.turn()
        self._expire(trouble)

    @property
    def bulk_wire(self) -> Wire | None:
        """The connection for what is large, to be waited for."""
        return self.bulk.wire if self.bulk is not None else None

    def _expire(self, trouble: OvercrankError | None) -> None:
        now_s, place = self._clock(), self._place()
        for asked in list(self._asked.values()):
            if now_s - asked.posted_s < asked.ask.timeout_s:
                continue
            if not asked.under_way and trouble is not None:
                # Nothing was sent: what is wrong with the connection says more than the time it took.
                self._end(asked, error=FarmUnreachable(trouble.message, hint=trouble.hint))
            elif not asked.under_way or asked.ask.repeat:
                self._end(asked, error=talk.no_answer(place, asked.ask.timeout_s))
            else:
                late = talk.no_answer(place, asked.ask.timeout_s)
                unknown = talk.outcome_unknown(place)
                self._end(asked, error=FarmUnreachable(late.message, hint=unknown.hint))
        for ask, posted_s in [one for one in self._early if now_s - one[1] >= one[0].timeout_s]:
            self._early.remove((ask, posted_s))
            why = trouble or talk.no_bulk_answer(place, ask.timeout_s)
            self._give(Answer(ask.number, None, FarmUnreachable(why.message, hint=why.hint)))

    def due_in_s(self) -> Iterator[float]:
        """In how many seconds something is due."""
        now_s = self._clock()
        yield from (asked.posted_s + asked.ask.timeout_s - now_s for asked in self._asked.values())
        yield from (posted_s + ask.timeout_s - now_s for ask, posted_s in self._early)
        if self.bulk is not None and (bulk_s := self.bulk.due_in_s()) is not None:
            yield bulk_s

    def _end(self, asked: _Asked, reply: Any = None, error: OvercrankError | None = None) -> None:
        self._asked.pop(asked.ask.number, None)
        took_us = int((self._clock() - asked.sent_s) * 1e6) if asked.sent_s else 0
        self._give(Answer(asked.ask.number, reply, error, took_us))

"""What is followed: subscribing, subscribing again, and jobs that are not there any more.

What belongs here: the subscription of one session.  What may not: sessions and connections.

Of what was followed before, the window has the state, and goes on with changes of it: only the state of what
is new is asked for.  Opening a job of a farm of fifty thousand must not bring its whole list anew.

A subscription that names one job the broker does not follow is refused as a whole.  Then each job is tried
alone, and those that can be are followed: somebody who left a job open that was deleted overnight sees the
others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from client_gui.net.port import News
from farm.protocol.client import ErrorReply, SnapshotMsg, SubscribeReq

log = logging.getLogger("overcrank.client")

#: A subscription without an answer is asked for again after so long.
AGAIN_S: Final = 60.0


class Following:
    """What the window follows.

    Args:
        number: Makes a number for a request.
        send: Sends a request; False when the connection takes nothing more.
        give: Takes news.
    """

    def __init__(
        self, number: Callable[[], int], send: Callable[[Any], bool], give: Callable[[News], None]
    ) -> None:
        self._number = number
        self._send = send
        self._give = give
        self._wanted: tuple[str, ...] = ()
        self._due = False
        #: Topics the broker tells changes of, in order, by all that was asked; None = not known.
        self._told: tuple[str, ...] | None = None
        #: What was asked of the broker and is not answered: number -> topics it stands for, and those of them
        #: whose state was asked for.
        self._asked: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._asked_s = 0.0
        #: Topics of the last answer: what unasked snapshots are about.
        self._answered: tuple[str, ...] = ()
        #: Jobs that are tried one by one: number of the question -> topic.
        self._probes: dict[int, str] = {}
        self._missing: set[str] = set()

    @property
    def awaited(self) -> bool:
        """Whether a state is on its way."""
        return bool(self._asked or self._probes)

    @property
    def probing(self) -> bool:
        """Whether jobs are being tried: changes that come now follow on no state the window has."""
        return bool(self._probes)

    def want(self, topics: tuple[str, ...]) -> None:
        """Follows these from now on; what is followed already is asked for anew."""
        if topics == self._wanted:
            self._told = None
        self._wanted, self._due = topics, True
        self._missing &= set(topics)

    def again(self) -> None:
        """Asks for the whole state anew."""
        self._due, self._told = True, None
        self._missing.clear()

    def opened(self) -> None:
        """A session was opened: it follows nothing yet."""
        self.lost()
        self._due = bool(self._wanted)

    def lost(self) -> None:
        """The session has ended."""
        self._asked.clear()
        self._probes.clear()
        self._missing.clear()
        self._answered, self._told = (), None

    def turn(self, now_s: float) -> None:
        """Asks for what is due; only while a session is open."""
        if self._asked and now_s - self._asked_s >= AGAIN_S:
            self._asked.clear()
            self._due, self._told = True, None
        if not self._due or self._probes:
            return
        number = self._number()
        topics = tuple(topic for topic in self._wanted if topic not in self._missing)
        told = self._told
        new = None if told is None else tuple(topic for topic in topics if topic not in told)
        if self._send(SubscribeReq(id=number, topics=topics, state_of=new)):
            self._asked[number] = (self._wanted, self._wanted if new is None else new)
            self._asked_s = now_s
            self._due, self._told = False, topics

    def answers(self, number: Any) -> bool:
        """Whether a message with that number is for this."""
        return number in self._asked or number in self._probes

    def take(self, message: Any) -> None:
        """Takes a state, or an answer to a question of this."""
        if message.id in self._probes:
            topic = self._probes.pop(message.id)
            if isinstance(message, ErrorReply):
                self._missing.add(topic)
        elif isinstance(message, SnapshotMsg):
            asked = self._asked.pop(message.id, None)
            if asked is not None:
                self._answered = asked[0]
            if not self._probes:
                self._give(News(message, asked[1] if asked is not None else self._answered))
        elif message.id in self._asked:
            self._refused(message)

    def _refused(self, message: Any) -> None:
        topics, _ = self._asked.pop(message.id)
        self._told = None
        jobs = [topic for topic in topics if topic.startswith("job:") and topic not in self._missing]
        if not isinstance(message, ErrorReply) or not jobs:
            log.warning("not followed topics=%s reason=%s", topics, getattr(message, "message", "nonsense"))
            return
        for topic in jobs:
            number = self._number()
            if self._send(SubscribeReq(id=number, topics=(topic,))):
                self._probes[number] = topic
        self._due = True

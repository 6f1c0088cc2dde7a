"""Asking the farm again and again while somebody looks.

What belongs here: when a dock's question is asked, and when it is given up.  What may not: what is asked, and
how the answer is shown.

Asked as soon as the dock is shown, and then every few seconds, counted from the answer: a farm that takes
long is not asked over itself.  A hidden dock asks nothing, nor is anything asked without a connection; when
it is back it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer, Slot

from client_gui.views.base import View
from farm.model.errors import OvercrankError
from farm.protocol.client import Request

#: After a change, so that a batch of them asks once.
SOON_MS: Final = 250


class AskAgain(QObject):
    """A dock's question, of one request or several, of which one is under way at a time.

    Args:
        view: Whose question it is.
        every_ms: From an answer, or an error, to the next time.
        question: Asks by ``ask``; asks nothing when there is nothing to ask about, and is left alone then
            until ``soon``.
        offline: Says that the farm cannot be asked.
    """

    def __init__(
        self,
        view: View,
        every_ms: int,
        question: Callable[[], object],
        offline: Callable[[], object],
    ) -> None:
        super().__init__(view)
        self._view = view
        self._client = view.desk.client
        self._every_ms = every_ms
        self._question = question
        self._offline = offline
        #: Requests of the question that is under way, and how many of them have no answer yet.
        self._asked: list[int] = []
        self._left = 0
        self._nothing = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._due)
        self._client.stood.connect(self._stood)

    @property
    def due_ms(self) -> int | None:
        """How long it is to the next time; None while there will be none by itself."""
        if not self._view.on or not self._timer.isActive():
            return None
        return max(0, self._timer.remainingTime())

    def soon(self, in_ms: int = 0) -> None:
        """Asks in so many milliseconds, unless it is about to anyway; what is under way then is given up."""
        if self._view.on and (not self._timer.isActive() or self._timer.remainingTime() > in_ms):
            self._timer.start(in_ms)

    def ask(
        self,
        request: type[Request],
        then: Callable[[Any], object],
        failed: Callable[[OvercrankError], object],
        *,
        reply: type[Any],
        **fields: Any,
    ) -> None:
        """Asks the broker; only within ``question``.

        Args:
            request: Of ``farm.protocol.client``.
            then: Takes the reply.
            failed: Takes the error.
            reply: What is expected.
            fields: Of the request.
        """
        self._left += 1
        came, went = partial(self._came, then), partial(self._came, failed)
        self._asked.append(self._client.ask(request, self, came, went, reply=reply, **fields))

    @Slot()
    def _stood(self) -> None:
        if self._client.live and not self._left and not self._nothing and not self._timer.isActive():
            self.soon(SOON_MS)

    @Slot()
    def _due(self) -> None:
        if not self._view.on:
            return
        if not self._client.live:
            self._offline()
            return
        for number in self._asked:
            self._client.forget(number)
        self._asked = []
        self._left = 0
        self._question()
        self._nothing = not self._asked

    def _came(self, take: Callable[[Any], object], answer: Any) -> None:
        self._left -= 1
        take(answer)
        if not self._left:
            self.soon(self._every_ms)

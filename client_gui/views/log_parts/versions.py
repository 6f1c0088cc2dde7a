"""The log of the same frame in another version of the job, to compare with.

What belongs here: which versions there are, and finding the newest attempt of one.  What may not: comparing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from client_gui.net.client import FarmClient
from client_gui.store.attempts import address_of
from client_gui.store.versions import other_versions
from farm.protocol.client import AttemptRow, AttemptsReply, AttemptsReq

#: Most other versions that are offered.
_MOST = 8
#: So many attempts are asked for; only the newest is taken.
_ATTEMPTS = 30


class Versions(QObject):
    """Other versions of a job."""

    #: There is no log to compare with: why.
    missing = Signal(str)

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._asking = 0

    def offers(self, job: int) -> list[tuple[str, int]]:
        """Words and numbers of other versions, the most likely one to compare with first."""
        found = other_versions(self._client.store.jobs, job, _MOST)
        return [(f"J{number}  {name}", number) for number, name in found]

    def find(self, job: int, step: str, frame: int | None, then: Callable[[AttemptRow], None]) -> None:
        """Finds the newest attempt of a frame in another job."""
        self.give_up()
        address = address_of(job, step, frame)
        self._asking = self._client.ask(
            AttemptsReq,
            self,
            partial(self._found, address, then),
            lambda error: self._none(f"{address} cannot be compared with: {error}"),
            reply=AttemptsReply,
            address=address,
            limit=_ATTEMPTS,
        )

    def give_up(self) -> None:
        """Something else is looked at."""
        if self._asking:
            self._client.forget(self._asking)
            self._asking = 0

    def _found(self, address: str, then: Callable[[AttemptRow], None], reply: AttemptsReply) -> None:
        self._asking = 0
        newest = max(reply.attempts, key=lambda row: row.no, default=None)
        if newest is None:
            self._none(f"{address} was not attempted: there is no log to compare with")
        else:
            then(newest)

    def _none(self, why: str) -> None:
        self._asking = 0
        self.missing.emit(why)

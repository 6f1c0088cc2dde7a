"""Replays a recording: restores the farm it began with, feeds its events to a core, compares.

What belongs here: reading the file and finding where two runs part.  What may not: writing it (the broker
does) and its format (``farm.core.recording``).  The broker keeps a fingerprint of its state beside every
event and a digest now and then, so that a difference is found at the event that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from farm.core import invariants
from farm.core.core import Core
from farm.core.events import AnyEvent
from farm.core.outcome import Outcome
from farm.core.recording import (
    MAGIC,
    VERSION,
    Header,
    Mark,
    decode_event,
    decode_header,
    decode_mark,
    fingerprint,
    revive,
)
from farm.model.errors import CallError, OvercrankError, StorageError

__all__ = ["MAGIC", "Replay", "ReplayResult"]


class ReplayResult(msgspec.Struct, frozen=True):
    """What a replay found.

    Attributes:
        events: Events that were fed to the core.
        identical: Everything recorded is as it was.
        complete: The recording was ended in order.
        differs_at: Number of the first event (from 1) after which it differs, 0 for none.
        what: In words, how it differs.
        digest: Of the state at the end.
    """

    events: int
    identical: bool
    complete: bool
    differs_at: int
    what: str
    digest: str


class Replay:
    """A recording being replayed.

    Attributes:
        header: What it says at its start.
        core: The core that is fed.

    Raises:
        StorageError: The file cannot be read.
        CallError: It is no recording, damaged, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        entries = self._entries()
        first = next(entries, None)
        if not (isinstance(first, list) and len(first) == 3 and first[0] == MAGIC):
            raise CallError(f"{path} is no recording of a farm")
        if first[1] != VERSION:
            raise CallError(f"{path} is a recording of format {first[1]!r}; this version reads {VERSION}")
        self._rest = entries
        try:
            self.header: Header = decode_header(first[2])
            self.core = Core(farm=revive(self.header))
        except (msgspec.DecodeError, ValueError) as error:
            raise CallError(f"{path}: the state it begins with cannot be read: {error}") from error
        self.events = 0
        self.complete = False
        self.differs_at = 0
        self.what = ""

    def _entries(self) -> Iterator[Any]:
        try:
            with self._path.open("rb") as file:
                unpacker = msgpack.Unpacker(file, raw=False, max_buffer_size=1 << 30)
                yield from unpacker
        except OSError as error:
            raise StorageError(
                f"the recording {self._path} cannot be read: {error.strerror or error}"
            ) from error
        except (ValueError, msgpack.exceptions.UnpackException) as error:
            raise CallError(f"{self._path} is damaged or no recording: {error}") from error

    def outcomes(self) -> Iterator[tuple[AnyEvent, Outcome]]:
        """Feeds the events one by one; what the recording says of the state is compared on the way."""
        for entry in self._rest:
            if not (isinstance(entry, list) and len(entry) == 2):
                raise CallError(f"{self._path} is damaged after event {self.events}")
            said, body = entry
            try:
                if said is None:
                    self._compare_mark(decode_mark(body))
                    continue
                event = decode_event(body)
            except msgspec.DecodeError as error:
                raise CallError(f"{self._path} is damaged after event {self.events}: {error}") from error
            self.events += 1
            try:
                out = self.core.handle(event)
            except OvercrankError as error:
                # What was recorded was taken then.
                self._differ(f"{type(event).__name__} is refused: {error.message}")
                return
            if fingerprint(self.core.farm) != said:
                self._differ(
                    f"after {type(event).__name__} it stands at {fingerprint(self.core.farm)}, not {said}"
                )
            yield event, out

    def _compare_mark(self, mark: Mark) -> None:
        self.complete = self.complete or mark.end
        if mark.events != self.events:
            self._differ(f"the recording counts {mark.events} events here, not {self.events}")
        elif mark.digest != invariants.digest(self.core.farm):
            self._differ("the state is another one here, though every event left the same fingerprint")

    def _differ(self, what: str) -> None:
        if not self.differs_at:
            self.differs_at, self.what = max(1, self.events), what

    def run(self) -> ReplayResult:
        """Replays to the end, or to the first difference."""
        for _ in self.outcomes():
            if self.differs_at:
                break
        return ReplayResult(
            self.events,
            not self.differs_at,
            self.complete,
            self.differs_at,
            self.what,
            invariants.digest(self.core.farm),
        )

"""Writes every event the core handles into a file, so that a simulation can replay what happened.

What belongs here: the file, its name, and what becomes of it when the disk is full.  What may not: the format
(``farm.core.recording``).  While nothing is recorded this costs the broker nothing: the recorder takes the
core's place in front of the state only while it runs.  A recording that cannot be written ends; the farm goes
on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

import farm
from farm.core import invariants
from farm.core.core import Core
from farm.core.events import AnyEvent
from farm.core.outcome import Outcome
from farm.core.recording import Mark, encode_event, encode_header, encode_mark
from farm.model.errors import CallError, IllegalMove, StorageError, UnknownName
from farm.protocol.client import RecordingRow, RecordReply, RecordReq

log = logging.getLogger("overcrank.broker")

Handle = Callable[[AnyEvent], Outcome]

#: Events between two digests of the state: one costs milliseconds on a large farm.
MARK_EVERY = 20_000
#: Bytes gathered before they are written.
_BUFFER = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_SUFFIX = ".recording"


class Recorder:
    """Records a core's events.

    Args:
        core: The core.
        folder: Where recordings lie.
        watch: Called with what must handle events from now on; None = the core itself.
    """

    def __init__(self, core: Core, folder: Path, watch: Callable[[Handle | None], None]) -> None:
        self._core = core
        self._folder = folder
        self._watch = watch
        self._file: IO[bytes] | None = None
        self._name = ""
        self._events = 0
        self._trouble: dict[str, str] = {}

    def answer(self, request: RecordReq, now_us: int) -> RecordReply:
        """Answers a request about recordings.

        Raises:
            CallError: A wrong name, one that is taken or unknown, or nothing to stop.
            StorageError: The file cannot be written.
        """
        if request.action == "start":
            self.start(request.name, now_us)
        elif request.action == "stop":
            if self._file is None:
                raise IllegalMove("nothing is being recorded", hint="start one with `farm record start NAME`")
            name = self._name
            self.close()
            return RecordReply(id=request.id, recordings=(self._row(self._path(name)),))
        elif request.action == "get":
            path = self._path(request.name)
            if not path.is_file():
                raise UnknownName(f"there is no recording {request.name!r}", hint="see `farm record list`")
            return RecordReply(id=request.id, recordings=(self._row(path),))
        elif request.action != "list":
            raise UnknownName(f"there is no action {request.action!r} on recordings")
        rows = (self._row(path) for path in sorted(self._folder.glob(f"*{_SUFFIX}")))
        return RecordReply(id=request.id, recordings=tuple(rows))

    def _path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise CallError(
                f"{name!r} is not the name of a recording", hint="letters, digits, _ . - and at most 64"
            )
        return self._folder / f"{name}{_SUFFIX}"

    def _row(self, path: Path) -> RecordingRow:
        name = path.name.removesuffix(_SUFFIX)
        running = self._file is not None and name == self._name
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        return RecordingRow(
            name=name,
            path=str(path),
            size=size,
            running=running,
            events=self._events if running else 0,
            trouble=self._trouble.get(name, ""),
        )

    def start(self, name: str, now_us: int) -> None:
        """Begins a recording with the state as it is.

        Raises:
            CallError: One runs already, or the name is wrong or taken.
            StorageError: The file cannot be written.
        """
        path = self._path(name)
        if self._file is not None:
            raise IllegalMove(f"{self._name} is being recorded", hint="stop it with `farm record stop`")
        header = encode_header(self._core.farm, farm.__version__, now_us)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # What users typed is in it: readable by the broker's own user only.
            path.touch(0o600, exist_ok=False)
            self._file = path.open("wb", _BUFFER)
            self._file.write(header)
        except FileExistsError:
            raise CallError(f"there is a recording {name!r} already", hint="choose another name") from None
        except OSError as error:
            self._drop()
            raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
        self._name, self._events = name, 0
        self._trouble.pop(name, None)
        self._watch(self._handle)
        log.info("recording name=%s", name)

    def _handle(self, event: AnyEvent) -> Outcome:
        outcome = self._core.handle(event)
        # Only what was taken is recorded: a refused event changed nothing.
        self._events += 1
        self._write(encode_event(self._core.farm, event))
        if self._events % MARK_EVERY == 0:
            self._mark(end=False)
        return outcome

    def _mark(self, *, end: bool) -> None:
        self._write(encode_mark(Mark(self._events, invariants.digest(self._core.farm), end)))

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        log.error("recording-failed name=%s reason=%s", self._name, reason)
        self._trouble[self._name] = f"it could not be written on: {reason}"
        self._drop()

    def _drop(self) -> None:
        """Lets go of the file, whatever is still in its buffer."""
        file, self._file = self._file, None
        self._watch(None)
        if file is not None:
            try:
                file.close()
            except OSError:
                file.close()  # the second time nothing is left to write

    def close(self) -> None:
        """Ends the recording in order; may be called when nothing is recorded."""
        if self._file is None:
            return
        self._mark(end=True)
        file, self._file = self._file, None
        self._watch(None)
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            self._file = None
            self._fail(error)
        log.info("recorded name=%s events=%d", self._name, self._events)

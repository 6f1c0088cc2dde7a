"""Decoding by processes of our own: verification and previews that cannot take the agent down.

What belongs here: a small pool of ``farm.media.worker`` processes.  What it may not know: attempts.

A picture that crashes its decoder costs one such process and is a bad file; the agent goes on.  Files of no
known kind are only hashed, which is done right here.
"""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from farm.media.files import kind_of
from farm.media.verify import verify_plain
from farm.media.worker import Answer, PreviewRequest, Request, VerifyRequest, read_answer, write_message
from farm.model.errors import OutputError, OvercrankError
from farm.model.outputs import FileFacts, PictureSpec

#: Idle processes kept; more are ended when they are done.
KEEP = 2
#: Longest time for one picture or preview, in seconds; a movie takes what it takes.
PICTURE_S = 300.0


class _Gone(Exception):
    """The process ended before it answered."""


class _Worker:
    """One process, used by one thread at a time."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A signal for the agent's group is the agent's affair.
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Request, timeout_s: float | None) -> Answer:
        """Asks and waits.

        Raises:
            _Gone: The process ended, or was ended because it took too long.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            write_message(stdin, request)  # type: ignore[arg-type]
            if timeout_s is not None and not select.select([stdout.fileno()], [], [], timeout_s)[0]:
                self.end()
                raise _Gone(f"took longer than {timeout_s:.0f} s to decode")
            answer = read_answer(stdout)  # type: ignore[arg-type]
        except BrokenPipeError:
            answer = None
        if answer is None:
            code = self._process.wait()
            self._close()
            if code < 0:
                raise _Gone(f"crashed its decoder ({_signal_name(-code)})")
            raise _Gone("" if code == 0 else f"ended its decoder with code {code}")
        return answer

    def end(self) -> None:
        """Kills the process and waits for it."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Pixels:
    """The pool.  Any thread may ask; as many processes run as threads ask at once."""

    def __init__(
        self,
        keep: int = KEEP,
        argv: Sequence[str] = (sys.executable, "-m", "farm.media.worker"),
        picture_s: float = PICTURE_S,
    ) -> None:
        """Starts nothing yet.

        Args:
            keep: Idle processes kept.
            argv: The process.
            picture_s: Longest time for one picture or preview.
        """
        self._keep = keep
        self._argv = tuple(argv)
        self._picture_s = picture_s
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._closed = False

    def verify(
        self,
        path: str,
        kind: Literal["picture", "movie", "plain"] | None,
        *,
        expected: PictureSpec | None = None,
        checks: Sequence[str] = (),
        neighbour: Path | None = None,
        frames: int | None = None,
    ) -> FileFacts:
        """Verifies a file; see ``farm.media.verify.verify_file``.

        Raises:
            OutputError: The file is missing, empty, damaged, not as expected, or crashes its decoder.
        """
        chosen = kind or kind_of(path)
        if chosen == "plain":
            return verify_plain(path)
        request = VerifyRequest(path, chosen, expected, tuple(checks), str(neighbour or ""), frames)
        try:
            answer = self._ask(request, None if chosen == "movie" else self._picture_s)
        except _Gone as gone:
            raise OutputError(f"{path}: the file {gone}", path) from None
        if answer.facts is None:
            if answer.bad:
                raise OutputError(answer.trouble, path, hint=answer.hint)
            raise OvercrankError(answer.trouble, hint=answer.hint)
        return answer.facts

    def preview(self, source: str, target: Path, *, max_px: int) -> None:
        """Makes a preview; see ``farm.media.preview.make_preview``.

        Raises:
            OvercrankError: There is none to be had of this file.
        """
        try:
            answer = self._ask(PreviewRequest(source, str(target), max_px), self._picture_s)
        except _Gone as gone:
            raise OutputError(f"{source}: the file {gone}", source) from None
        if answer.trouble:
            raise OvercrankError(answer.trouble, hint=answer.hint)

    def _ask(self, request: Request, timeout_s: float | None) -> Answer:
        """Asks an idle process or a new one; one that had just ended for idleness is replaced."""
        while True:
            worker, fresh = self._take()
            try:
                answer = worker.ask(request, timeout_s)
            except _Gone as gone:
                if not fresh and not str(gone):
                    continue
                raise
            except BaseException:
                worker.end()
                raise
            self._give(worker)
            return answer

    def _take(self) -> tuple[_Worker, bool]:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker, False
                worker.end()
        return _Worker(self._argv), True

    def _give(self, worker: _Worker) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < self._keep:
                self._idle.append(worker)
                return
        worker.end()

    def close(self) -> None:
        """Ends all idle processes; those at work end with their answer."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

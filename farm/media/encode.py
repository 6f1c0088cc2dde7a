"""Runs the ffmpeg program as an encoder fed with raw frames on its standard input.

Belongs here: the process, its pipe, its last words.  What the frames mean and what the options should
be is the caller's.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Self

from farm.media.sequence import StitchError
from farm.model.errors import WorkFailed

#: How often a waiting encoder is asked whether the work was cancelled.
_POLL_S = 0.2
#: How long an encoder may take to die after it was killed.
_DEATH_S = 10.0
#: Bytes of the encoder's messages that are looked at.
_TAIL = 16_384
#: Linux: larger pipe, fewer switches between us and the encoder.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class Cancelled(WorkFailed):
    """The work was cancelled by its caller."""

    code = "stitch-cancelled"


class Encoder:
    """One ffmpeg process.  Used as a context: leaving it never leaves the process behind.

    Args:
        argv: Program and arguments; raw frames go to ``pipe:0``.
        cancelled: Asked often; True ends the work.
    """

    def __init__(self, argv: Sequence[str], cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._messages, bufsize=0
            )
        except (OSError, ValueError) as error:
            self._messages.close()
            raise StitchError(f"{argv[0]} cannot be started: {error}", problem="renderer") from error
        pipe = self._process.stdin
        if pipe is None:
            raise AssertionError("the pipe was asked for")
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.fcntl(pipe.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
        self._selector = selectors.DefaultSelector()
        self._selector.register(pipe, selectors.EVENT_WRITE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        with contextlib.suppress(OSError):
            self._pipe.close()
        if self._process.poll() is None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DEATH_S)
        self._messages.close()

    @property
    def pid(self) -> int:
        """Process id of the encoder."""
        return self._process.pid

    def write(self, frame: memoryview) -> None:
        """Hands one frame to the encoder, waiting until it has taken it all.

        Raises:
            Cancelled: The caller cancelled while waiting.
            StitchError: The encoder ended early.
        """
        view = frame.cast("B")
        while view:
            if self._cancelled():
                raise Cancelled("the stitch was cancelled")
            if not self._selector.select(_POLL_S):
                continue
            try:
                view = view[os.write(self._pipe.fileno(), view) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                self._wait()
                raise self._failure() from None

    def finish(self) -> list[str]:
        """Says that there are no more frames and waits for the end; returns messages worth a look.

        Raises:
            Cancelled: The caller cancelled while waiting.
            StitchError: The encoder failed.
        """
        self._selector.unregister(self._pipe)
        self._pipe.close()
        self._wait()
        if self._process.returncode:
            raise self._failure()
        return self._last_lines()

    def _wait(self) -> None:
        while True:
            try:
                self._process.wait(_POLL_S)
                return
            except subprocess.TimeoutExpired:
                if self._cancelled():
                    raise Cancelled("the stitch was cancelled") from None

    def _last_lines(self, count: int = 4) -> list[str]:
        """The encoder's last messages without addresses, repeats and the echoes of one cause."""
        end = self._messages.seek(0, os.SEEK_END)
        self._messages.seek(max(0, end - _TAIL))
        text = self._messages.read().decode("utf-8", "replace")
        lines: list[str] = []
        for raw in re.split(r"[\r\n]+", text):
            line = re.sub(r"^\[([\w,:#/ .-]+?) @ 0x[0-9a-f]+\]\s*", r"\1: ", raw.strip())
            if line and line not in lines and not _ECHO.search(line):
                lines.append(line)
        return lines[-count:]

    def _failure(self) -> StitchError:
        code = self._process.returncode
        end = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        lines = self._last_lines()
        text = "; ".join(lines) or "it said nothing"
        full = _DISK.search(text)
        return StitchError(f"ffmpeg {end}: {text}", problem="path" if full else "renderer")


#: Lines that only repeat that something failed.
_ECHO = re.compile(
    r"^(Conversion failed!?|Exiting normally.*|Error while (?:filtering|processing).*: (?:Immediate exit).*)$"
)
#: The destination's fault, not the encoder's.
_DISK = re.compile(
    r"No space left|Permission denied|Read-only file system|Disk quota|No such file|File too large"
)

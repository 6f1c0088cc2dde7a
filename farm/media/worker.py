"""A process that decodes for another: ``python -m farm.media.worker``, requests in, facts out.

What belongs here: the loop and its two requests.  Why a process: a damaged picture can crash a decoder, and
the libraries that decode keep their memory for good; neither must be the agent's.  What must not: deciding
what a failure means.

Protocol: MessagePack messages, each after its length in 4 bytes, big-endian.  The process ends when its
input closes, or by itself after IDLE_S without a request.
"""

from __future__ import annotations

import os
import select
import struct
import sys
from typing import BinaryIO, Literal

import msgspec

from farm.model.errors import OutputError, OvercrankError
from farm.model.outputs import FileFacts, PictureSpec

#: Seconds without a request after which the process ends, and gives its memory back.
IDLE_S = 60.0
HEAD = struct.Struct(">I")


class VerifyRequest(msgspec.Struct, frozen=True, tag="verify"):
    """See ``farm.media.verify.verify_file``."""

    path: str
    kind: Literal["picture", "movie", "plain"] | None = None
    expected: PictureSpec | None = None
    checks: tuple[str, ...] = ()
    neighbour: str = ""
    frames: int | None = None


class PreviewRequest(msgspec.Struct, frozen=True, tag="preview"):
    """See ``farm.media.preview.make_preview``."""

    source: str
    target: str
    max_px: int


class Answer(msgspec.Struct, frozen=True):
    """What became of a request: facts of a verified file, or what is wrong with it.

    ``bad`` tells a file that is not good from trouble of any other kind.
    """

    facts: FileFacts | None = None
    trouble: str = ""
    hint: str = ""
    bad: bool = False


Request = VerifyRequest | PreviewRequest
_ENCODE = msgspec.msgpack.Encoder().encode
_REQUEST = msgspec.msgpack.Decoder(Request)
_ANSWER = msgspec.msgpack.Decoder(Answer)


def write_message(stream: BinaryIO, message: msgspec.Struct) -> None:
    """Writes one message."""
    body = _ENCODE(message)
    stream.write(HEAD.pack(len(body)) + body)
    stream.flush()


def read_answer(stream: BinaryIO) -> Answer | None:
    """Reads one answer; None when the process has ended."""
    body = _read_body(stream)
    return _ANSWER.decode(body) if body is not None else None


def _read_body(stream: BinaryIO) -> bytes | None:
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (size,) = HEAD.unpack(head)
    body = stream.read(size)
    return body if len(body) == size else None


def answer(request: Request) -> Answer:
    """Does what is asked."""
    try:
        if isinstance(request, PreviewRequest):
            from farm.media.preview import make_preview

            make_preview(request.source, request.target, max_px=request.max_px)
            return Answer()
        from pathlib import Path

        from farm.media.verify import verify_file

        facts = verify_file(
            request.path,
            request.kind,
            expected=request.expected,
            checks=request.checks,
            neighbour=Path(request.neighbour) if request.neighbour else None,
            frames=request.frames,
        )
        return Answer(facts)
    except OutputError as error:
        return Answer(trouble=error.message, hint=error.hint, bad=True)
    except OvercrankError as error:
        return Answer(trouble=error.message, hint=error.hint)
    except OSError as error:
        return Answer(trouble=str(error))
    except MemoryError:
        return Answer(trouble="there is not enough memory to decode this file", bad=True)


def main() -> int:
    """The loop."""
    # What a library prints must not mix with the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    stdin = sys.stdin.buffer
    while True:
        if not select.select([stdin.fileno()], [], [], IDLE_S)[0]:
            return 0
        body = _read_body(stdin)
        if body is None:
            return 0
        try:
            write_message(out, answer(_REQUEST.decode(body)))
        except BrokenPipeError:
            # Whoever asked was killed.  What was not written must not be tried again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            return 0


if __name__ == "__main__":
    sys.exit(main())

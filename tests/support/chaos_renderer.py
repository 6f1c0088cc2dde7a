"""The program the frames of a chaos run are made with: ``KIND LEDGER PAUSE_S SLOW_S PATTERN FRAMES``.

What belongs here: one small file per frame that names itself, and one line per execution in a ledger outside
the farm.  What it may not know: the farm's packages; it runs with ``python -I -S``, so that it starts in
milliseconds.

A line is ``frame attempt's-folder pid mark``, appended in one write before anything else happens.  The file
holds ``frame address mark`` as text, or as the comment of a small PNG.  Now and then an execution takes
SLOW_S, so that it outlives its lease when its agent is cut off; which one follows from frame and attempt.
"""
# pathlib costs more to import than all else here:
# ruff: noqa: PTH119, PTH120, PTH123

from __future__ import annotations

import os
import struct
import sys
import time
import zlib

#: One of so many executions is slow.
SLOW_EVERY = 40
#: Begins the words in a file by which it is known again.
WORD = "chaos"


def frames_of(text: str) -> list[int]:
    """Frames of range text as the farm writes it: ``7``, ``1-20``, ``1-9x2,12``."""
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition("x")
        first, _, last = span.partition("-")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def path_of(pattern: str, frame: int) -> str:
    """A pattern's file of a frame; a path without ``#`` is that file."""
    head, mark, rest = pattern.partition("#")
    if not mark:
        return pattern
    tail = rest.lstrip("#")
    return f"{head}{frame:0{1 + len(rest) - len(tail)}d}{tail}"


def picture(frame: int, words: str) -> bytes:
    """A PNG of 8 x 8 pixels in a colour of its frame, with those words as its comment."""
    rows = (b"\0" + bytes((frame & 255, frame >> 8 & 255, 128)) * 8) * 8
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)),
        (b"tEXt", b"Comment\0" + words.encode("latin-1")),
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    )
    body = b"\x89PNG\r\n\x1a\n"
    for name, data in parts:
        body += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return body


def main(kind: str, ledger: str, pause: str, slow: str, pattern: str, frames: str) -> None:
    """Renders the frames."""
    lines = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    address = os.environ["OVERCRANK_ATTEMPT"]
    folder = os.path.basename(os.path.dirname(pattern))
    pid = os.getpid()
    for frame in frames_of(frames):
        mark = os.urandom(8).hex()
        os.write(lines, f"{frame} {folder} {pid} {mark}\n".encode())
        words = f"{WORD} {frame} {address} {mark} "
        with open(path_of(pattern, frame), "wb", buffering=0) as file:
            file.write(picture(frame, words) if kind == "picture" else words.encode())
        lasts = slow if zlib.crc32(f"{frame} {address}".encode()) % SLOW_EVERY == 0 else pause
        time.sleep(float(lasts))
        print(f'FARM {{"event": "finish", "frame": {frame}}}', flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

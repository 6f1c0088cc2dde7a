"""Bytes of a process's output in, clean text lines out.

What belongs here: line ends, escape sequences, character decoding, a bound on the length of a line.
What it may not know: what the lines mean (a renderer's log parser) or where they go.
"""

from __future__ import annotations

import codecs
import re

#: Bytes kept of one line; renderers print whole meshes or base64 pictures at times.
MAX_LINE_BYTES = 64 * 1024
_LF = 0x0A

# ECMA-48: CSI with parameter, intermediate and final bytes; strings (OSC, DCS, SOS, PM, APC) up to BEL or
# ST; other escapes; a sequence cut off by the end of the line; then the control characters that are left.
# An unended string loses only its introducer: no words may vanish because a terminator did.
_NOISE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[\]PX^_]"
    r"|\x1b[ -/]*(?:[0-~]|\Z)"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def clean_text(text: str) -> str:
    """``text`` without escape sequences and control characters (tabs stay)."""
    # Most lines are plain; isprintable is far cheaper than the pattern.
    return text if text.isprintable() else _NOISE.sub("", text)


class LineSplitter:
    """Splits a stream into lines, whatever pieces it comes in.

    A line ends at ``\\n``, ``\\r\\n`` or ``\\r``: programs redraw a progress line with a lone ``\\r``, and
    each redraw is a line of its own here.  Escape sequences never reach across a line end.  Text is
    UTF-8; what is not becomes U+FFFD.

    Args:
        max_line_bytes: Of a longer line the rest is dropped, and a marker says how much.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._parts: list[bytes] = []
        self._kept = 0
        self._dropped = 0
        self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        """The lines that ``data`` completes."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        lines = []
        # bytes.splitlines knows exactly our three line ends.
        for piece in data.splitlines(keepends=True):
            body = piece.rstrip(b"\r\n")
            self._keep(body)
            if len(body) < len(piece):
                lines.append(self._take())
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        return lines

    def close(self) -> list[str]:
        """The last line, if the stream did not end with a line end."""
        return [self._take()] if self._kept or self._dropped else []

    def _keep(self, body: bytes) -> None:
        room = self._max - self._kept
        if len(body) > room:
            self._dropped += len(body) - room
            body = body[:room]
        if body:
            self._parts.append(body)
            self._kept += len(body)

    def _take(self) -> str:
        raw, dropped = b"".join(self._parts), self._dropped
        self._parts.clear()
        self._kept = self._dropped = 0
        if not dropped:
            return clean_text(raw.decode("utf-8", "replace"))
        # The cut may split a character: leave it out instead of showing it as broken.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
        return f"{clean_text(text)} [overcrank: {dropped} bytes of this line dropped]"

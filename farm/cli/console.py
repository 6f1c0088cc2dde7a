"""Where a verb prints: text or JSON, on a terminal or into a pipe.

What belongs here: streams, the terminal's size, and repainting for ``--watch``.  What must not: what is
said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from farm.cli.text import clean, table


class Console:
    """Output of one command.

    Attributes:
        json: Whether JSON was asked for.
        out: Standard output.
        err: Standard error.
    """

    def __init__(self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
        self.out = out or sys.stdout
        self.err = err or sys.stderr

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at standard output."""
        return bool(self.out.isatty())

    @property
    def width(self) -> int:
        """Columns of the terminal; 0 in a pipe, where nothing is cut."""
        if not self.is_terminal:
            return 0
        try:
            return os.get_terminal_size(self.out.fileno()).columns
        except (OSError, ValueError):
            return 80

    def line(self, text: str = "") -> None:
        """Prints a line."""
        self.out.write(clean(text) + "\n")

    def note(self, text: str) -> None:
        """Says something beside the result, on standard error."""
        self.err.write(clean(text) + "\n")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Prints a table that fits; see ``farm.cli.text.table``."""
        self.out.write("\n".join(table(heads, rows, self.width)) + "\n")

    def document(self, value: Any, *, one_line: bool = False) -> None:
        """Prints a JSON document, ASCII only so that no console mangles it."""
        self.out.write(json_text(value, one_line=one_line) + "\n")

    def data(self, data: bytes) -> None:
        """Writes bytes as they are."""
        self.out.flush()
        buffer = getattr(self.out, "buffer", None)
        if buffer is None:
            self.out.write(data.decode("utf-8", "replace"))
        else:
            buffer.write(data)
            buffer.flush()

    def clear(self) -> None:
        """Begins a repaint: on a terminal at the top of an empty screen."""
        if self.is_terminal:
            self.out.write("\x1b[H\x1b[2J")

    def flush(self) -> None:
        """Sends everything out."""
        self.out.flush()


def json_text(value: Any, *, one_line: bool = False) -> str:
    """JSON text, ASCII only."""
    import json

    return json.dumps(value, indent=None if one_line else 2)

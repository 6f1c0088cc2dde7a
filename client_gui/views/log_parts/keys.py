"""Keys of the Log dock.

What belongs here: which key means what.  What may not: what that does.
"""

from __future__ import annotations

from typing import Final

#: Keys of this view and the action each means; said to the window as its own, so that no shortcut takes them.
KEYS: Final[dict[str, str]] = {
    "Ctrl+F": "find",
    "F3": "find-next",
    "Shift+F3": "find-previous",
    "Ctrl+G": "go-to-line",
    "F8": "error-next",
    "Shift+F8": "error-previous",
    ",": "attempt-previous",
    ".": "attempt-next",
    "/": "find",
    "Ctrl+S": "save",
    "Ctrl+Shift+C": "copy-command",
    "Esc": "close",
}
#: Actions of the window that this view does while it has the focus.
HANDLED: Final = (
    *("find", "select-all", "attempt-previous", "attempt-next", "error-next", "error-previous"),
)
#: Keys of the lines themselves.
OF_LINES: Final = frozenset(
    {"Ctrl+A", "Ctrl+C", "Home", "End", "PgUp", "PgDown", "Up", "Down", "Left", "Right"}
)

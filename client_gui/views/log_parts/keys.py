"""Keys of the Log dock.

What belongs here: which key means what.  What may not: what that does.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt

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


def step_of(key: int, page: int, count: int) -> int | None:
    """How many rows further a key of the lines leads, None when it leads nowhere.

    Args:
        key: The key.
        page: Rows of a page.
        count: All rows.
    """
    page = max(1, page)
    return {
        int(Qt.Key.Key_Up): -1,
        int(Qt.Key.Key_Down): 1,
        int(Qt.Key.Key_PageUp): -page,
        int(Qt.Key.Key_PageDown): page,
        int(Qt.Key.Key_Home): -count,
    }.get(int(key))

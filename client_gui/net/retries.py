"""When a farm that was not reached is dialled again, and what is told of how the connection stands.

What belongs here: growing pauses, and telling a standing once.  What may not: dialling (``line``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.model.errors import OvercrankError

#: Seconds between two tries to dial: the first, and the most.
RETRY_S: Final = 0.5
RETRY_MOST_S: Final = 5.0


class Retries:
    """Tries to dial.

    Args:
        draw: A number from 0 to 1, so that a thousand clients do not dial a broker that is back at once.

    Attributes:
        due_s: When the next try is due, None when there will be none.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._tries = 0
        self.due_s: float | None = None

    def begin(self, now_s: float) -> None:
        """The first try is due at once."""
        self._tries, self.due_s = 0, now_s

    def reached(self) -> None:
        """A session is open: the next pause is short again."""
        self._tries = 0

    def end(self) -> None:
        """No more tries."""
        self.due_s = None

    def failed(self, now_s: float, after_s: float | None = None) -> float:
        """A try failed; returns in how many seconds the next one is made.

        Args:
            now_s: Now.
            after_s: The pause; None = a longer one each time.
        """
        if after_s is None:
            after_s = min(RETRY_MOST_S, RETRY_S * 2**self._tries) * (0.75 + 0.5 * self._draw())
        self._tries = min(self._tries + 1, 16)
        self.due_s = now_s + after_s
        return after_s


class Telling:
    """How the connection stands, told when it is another.

    Args:
        give: Takes a standing.
    """

    def __init__(self, give: Callable[[Standing], None]) -> None:
        self._give = give
        self._told: Standing | None = None

    def stand(
        self,
        link: Link,
        error: OvercrankError | None = None,
        *,
        code: str = "",
        retry_in_s: float | None = None,
    ) -> None:
        """Tells it; the code is that of the error unless one is given."""
        trouble, hint = (error.message, error.hint) if error is not None else ("", "")
        code = code or (error.code if error is not None else "")
        standing = Standing(link, trouble, hint, code, retry_in_s)
        if standing != self._told:
            self._told = standing
            self._give(standing)

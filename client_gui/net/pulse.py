"""Whether the broker is still there: a small question once a second, and how long its silence is borne.

What belongs here: when to ask and when to give up.  What may not: asking (``line`` does).
"""

from __future__ import annotations

from typing import Final

#: How often the broker is asked something small, and how long it may say nothing before the line is given up.
PING_EVERY_S: Final = 1.0
SILENT_S: Final = 10.0
#: The same while a large state is on its way: nothing else comes before it is there whole.
SILENT_LARGE_S: Final = 60.0


class Pulse:
    """The small question of one session, and when anything was heard last.

    Attributes:
        heard_s: When anything came last, of this session or not.
        sent_s: When the small question was asked last.
    """

    def __init__(self) -> None:
        self.heard_s = 0.0
        self.sent_s = float("-inf")
        self._number = 0
        self._open = False

    def begin(self) -> None:
        """A session began or ended: nothing is asked yet."""
        self.sent_s, self._number, self._open = float("-inf"), 0, False

    def asked(self, number: int, now_s: float) -> None:
        """The small question was sent under a number."""
        self.sent_s, self._number, self._open = now_s, number, True

    def answered(self, number: int | None) -> bool:
        """Whether an answer is the one to the small question; it is open no more then."""
        if number != self._number or not self._open:
            return False
        self._open = False
        return True

    def silent_for_s(self, now_s: float, *, large: bool) -> float:
        """How long nothing came, once that is longer than is borne; 0 before.

        Args:
            now_s: Now.
            large: Whether a large state is on its way.
        """
        limit_s = SILENT_LARGE_S if large else SILENT_S
        return limit_s if self._open and now_s - max(self.heard_s, self.sent_s) >= limit_s else 0.0

    def wanted(self, now_s: float) -> bool:
        """Whether the small question is to be asked."""
        return not self._open and now_s - self.sent_s >= PING_EVERY_S

    def due_s(self, *, large: bool) -> float:
        """When it is to be looked at again."""
        if not self._open:
            return self.sent_s + PING_EVERY_S
        return max(self.heard_s, self.sent_s) + (SILENT_LARGE_S if large else SILENT_S)

"""What was done and how to take it back, while it still can be.

What belongs here: the inverse of each action, worked out from what was there before, and how long it is
offered.  What may not: sending anything, clocks, and Qt.

What cannot be taken back exactly has no inverse, and says why: an undo that only looks like one is worse than
none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

#: How long an undo is offered.
OFFERED_US: Final = 10_000_000
#: So many are remembered.
MOST: Final = 50

#: Why some actions cannot be taken back.
FINAL: Final[Mapping[str, str]] = {
    "retry": "frames that are queued again cannot be made failed or done again",
    "cancel": "what was stopped has lost its work; `retry` renders it again",
    "mark-done": "it was verified; `retry` renders it again",
    "archive": "an archived job stays in the archive",
    "delete": "a deleted job is gone",
    "node-forget": "a forgotten node comes back when its agent does",
    "node-update": "nodes that were updated stay so; `node-update-stop` spares the others",
}


@dataclass(frozen=True, slots=True)
class Act:
    """One action on one thing, as ``ActReq`` and ``NodeActReq`` take it.

    Attributes:
        action: Name in ``farm.model.roles.ACTIONS``.
        target: Address of work, or number of a node.
        value: Its argument.
    """

    action: str
    target: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Undo:
    """Something that can be taken back.

    Attributes:
        number: Counts up.
        text: What was done, in words: ``Paused 3 jobs``.
        acts: What takes it back, in order.
        expires_us: Until when it is offered.
    """

    number: int
    text: str
    acts: tuple[Act, ...]
    expires_us: int


def inverse_of(act: Act, before: str = "") -> Act | None:
    """What takes an action back; None when nothing does (``FINAL`` says why).

    Args:
        act: The action.  Of ``skip`` the target names frames, since a retry of a whole job or step means its
            failed ones.
        before: What was there before: for ``priority`` the priority, for ``pause`` and ``resume`` the state,
            for ``next`` and ``last`` what the ranks, or the frames that went first and last, were as ``set``
            takes them, for ``requeue`` the address of the frames that ran,
            for ``skip`` the word of the frames' state, for ``node-drain``, ``-disable`` and ``-enable`` the
            word ``enabled``, ``drained`` or ``disabled``, for ``set`` and ``node-set`` what the same fields
            had, in the form of the action's value.
    """
    match act.action:
        case "pause":
            return None if before == "paused" else Act("resume", act.target)
        case "resume":
            return Act("pause", act.target) if before in ("", "paused") else None
        case "priority":
            return Act("priority", act.target, before) if before and before != act.value else None
        case "next" | "last":
            # Of frames it is their step that says which go first.
            return Act("set", "/".join(act.target.split("/")[:2]), before) if before else None
        case "requeue":
            # What they did is lost; but nothing else of their step shall come before them.
            return Act("next", before) if before else None
        case "skip":
            # Of a failed frame only the state would come back, not the failure.
            return Act("retry", act.target) if before in ("queued", "blocked") else None
        case "set" | "node-set":
            return Act(act.action, act.target, before) if before and before != act.value else None
        case "node-drain" | "node-disable":
            return Act("node-enable", act.target) if before in ("", "enabled") else None
        case "node-enable":
            back = {"drained": "node-drain", "disabled": "node-disable"}.get(before)
            return Act(back, act.target) if back else None
        case _:
            return None


class UndoStack:
    """What can be taken back now, newest last."""

    def __init__(self, most: int = MOST) -> None:
        self._kept: deque[Undo] = deque(maxlen=most)
        self._next = 1

    def push(
        self,
        text: str,
        done: Iterable[tuple[Act, str]],
        now_us: int,
        offered_us: int = OFFERED_US,
    ) -> Undo | None:
        """Remembers what was done.

        Args:
            text: In words.
            done: Every action that the broker confirmed, in order, with what was there before.
            now_us: Now.
            offered_us: For how long it is offered.

        Returns:
            The undo; None when nothing of it can be taken back.
        """
        inverses = [inverse_of(act, before) for act, before in done]
        acts = tuple(act for act in reversed(inverses) if act is not None)
        if not acts:
            return None
        undo = Undo(self._next, text, acts, now_us + offered_us)
        self._next += 1
        self._kept.append(undo)
        return undo

    def offered(self, now_us: int) -> tuple[Undo, ...]:
        """What is still offered, newest last; what is not is forgotten."""
        self._kept = deque((undo for undo in self._kept if undo.expires_us > now_us), self._kept.maxlen)
        return tuple(self._kept)

    def take(self, now_us: int, number: int | None = None) -> Undo | None:
        """The newest one, or one by its number; it is offered no more."""
        for undo in reversed(self.offered(now_us)):
            if number is None or undo.number == number:
                self._kept.remove(undo)
                return undo
        return None

    def left_us(self, now_us: int) -> int:
        """How long the newest one is still offered, 0 when there is none."""
        offered = self.offered(now_us)
        return offered[-1].expires_us - now_us if offered else 0

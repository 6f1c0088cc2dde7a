"""What is possible with a selection, as it is now: the farm's rows, who asks, and what waits for the farm.

What belongs here: putting these together for the rules.  What may not: the rules (``possible``), and doing
anything (``book``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from client_gui.actions.context import ActionContext
from client_gui.actions.facts import Facts, facts_of, gather
from client_gui.actions.kinds import sample_with
from client_gui.actions.later import Later
from client_gui.actions.possible import UPDATING, Who, why_not_here, why_not_one
from client_gui.actions.records import BY_ID, Record, works_on_rows
from client_gui.net.client import FarmClient


def who_asks(client: FarmClient, *, waits: bool = False) -> Who:
    """Who asks, and how the connection stands.

    Args:
        client: The farm.
        waits: Whether what may be sent later can wait for it.
    """
    nodes = client.store.nodes
    updates = nodes.values("update")
    updating = any(updates[slot] in UPDATING for slot in nodes.slots().tolist()) if len(nodes) else False
    trouble = client.store.trouble or client.standing.trouble
    software = client.welcome.software if client.welcome is not None else ""
    return Who(client.role, client.user, client.live, trouble, software, updating, waits)


class Judging:
    """Says what is possible.

    Args:
        client: The farm.
        later: What waits for it.
        undoable: Whether something can be taken back that was done.
        nobody_does: Why a client's own action cannot be done now; "" when somebody here does it.
    """

    def __init__(
        self,
        client: FarmClient,
        later: Later,
        undoable: Callable[[], bool],
        nobody_does: Callable[[Record], str],
    ) -> None:
        self._client, self._later = client, later
        self._undoable, self._nobody_does = undoable, nobody_does

    def who(self) -> Who:
        """Who asks now."""
        return who_asks(self._client, waits=self._later.can_wait)

    def sample(self, context: ActionContext) -> ActionContext:
        """Some of a selection that stand for all of it when it is asked what is possible."""
        marks = self._later.waits.marks if self._later.away else _nothing
        return sample_with(self._client.store, context, self.who(), marks)

    def seen(self, facts: Facts) -> Facts:
        """Something as what is asked now finds it: with what waits before it done."""
        return self._later.waits.seen(facts) if self._later.away else facts

    def gather(self, context: ActionContext) -> Generator[None, None, tuple[Facts, ...]]:
        """All of a selection as it is seen, a step for each thing."""
        if not (self._later.away and self._later.waits):
            return (yield from gather(self._client.store, context))
        found: list[Facts] = []
        for one in facts_of(self._client.store, context):
            found.append(self.seen(one))
            yield
        return tuple(found)

    def judge(self, context: ActionContext) -> Callable[[str], str]:
        """Why an action is not possible with a selection, looked up once for all that are asked for."""
        who = self.who()
        facts: list[Facts] = []
        rest = map(self.seen, facts_of(self._client.store, self.sample(context)))

        def every() -> Iterator[Facts]:
            yield from facts
            for one in rest:
                facts.append(one)
                yield one

        def why_not(action: str) -> str:
            record = BY_ID.get(action)
            if record is None:
                return f"there is no action {action!r}"
            reason = why_not_here(record, context, who)
            if reason:
                return reason
            if action == "undo":
                return self._no_undo(who)
            if action.startswith("waiting") and (reason := self._later.why_not(action)):
                return reason
            if not works_on_rows(record):
                return self._nobody_does(record)
            first = ""
            for one in every():
                reason = why_not_one(record, one, who)
                if not reason:
                    return "" if record.changes else self._nobody_does(record)
                first = first or reason
            return first or "nothing is selected"

        return why_not

    def _no_undo(self, who: Who) -> str:
        if self._later.waits and (not who.live or not self._undoable()):
            return ""  # what waits is taken back
        if not who.live:
            return "not connected"
        return "" if self._undoable() else "nothing can be taken back now"


def _nothing(_kind: str, _row_id: int) -> tuple[()]:
    """What waits for a row while nothing does."""
    return ()

"""Sending what a gesture asks, in order, and gathering the answers into one notice.

What belongs here: requests under way, cells that show it, what can be taken back.  What may not: what is
sent (``plan``), and widgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.actions.pending import LOOKS_US, PendingCells
from client_gui.actions.plan import Item, Plan
from client_gui.actions.results import Fate, Outcome, tell, verb_of
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.store.activity import Level
from client_gui.store.farmstore import FarmChange
from client_gui.store.undo import Undo, UndoStack
from farm.model.errors import FarmUnreachable, OvercrankError, PeerError
from farm.protocol.client import ActReply, ActReq, NodeActReq

#: So many requests of a gesture are under way at once: in order, yet not one round trip each.
AT_ONCE: Final = 16
#: How long the broker may take to answer one, and how much longer nobody waits for whoever should say so.
TIMEOUT_S: Final = 10.0
_GRACE_US: Final = 5_000_000
#: So many reasons of one gesture are kept in the list of what happened.
DETAILS_MOST: Final = 100
#: How often is looked what has waited for too long, while something is under way.
TICK_MS: Final = 500


@dataclass(slots=True)
class _Gesture:
    plan: Plan
    reason: str
    force: bool
    then: Callable[[list[Outcome]], None] | None
    next: int = 0
    halted: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    #: Requests without an answer so far: place of the item and when it was sent, by number.
    out: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Looked:
    """A request that got no answer, and until when it is looked for; 0 until the farm is back."""

    key: int
    item: Item
    verb: str
    until_us: int


class Doer(QObject):
    """Sends gestures.

    Args:
        client: The farm.
        notices: Who is told.

    Attributes:
        cells: What is shown as under way.
        stack: What can be taken back.
    """

    #: What is shown as under way changed.
    pending_changed = Signal()
    #: What can be taken back changed.
    offer_changed = Signal()

    def __init__(self, client: FarmClient, notices: Notices, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cells = PendingCells()
        self.stack = UndoStack()
        self._client = client
        self._notices = notices
        self._gestures: list[_Gesture] = []
        self._looked: list[_Looked] = []
        self._key = 0
        self._offered = 0
        self._keys: dict[int, int] = {}
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.tick)
        client.changed.connect(self._farm_changed)
        client.stood.connect(self._stood)
        client.moved.connect(self._moved)

    @property
    def busy(self) -> bool:
        """Whether answers are still waited for."""
        return bool(self._gestures)

    @property
    def offered(self) -> frozenset[int]:
        """Numbers of everything that can be taken back now."""
        return frozenset(undo.number for undo in self.stack.offered(self._client.now_us()))

    @property
    def offer(self) -> Undo | None:
        """What can be taken back now."""
        offered = self.stack.offered(self._client.now_us())
        return offered[-1] if offered else None

    def start(
        self,
        plan: Plan,
        reason: str = "",
        *,
        force: bool = False,
        then: Callable[[list[Outcome]], None] | None = None,
    ) -> None:
        """Sends what a plan asks for.

        Args:
            plan: The plan; what it asks first was answered.
            reason: What somebody says about it.
            force: Of settings: also when no node could ever take the step then.
            then: Is told what became of every request.
        """
        gesture = _Gesture(plan, reason, force, then)
        self._gestures.append(gesture)
        self._go_on(gesture)
        self._arm()

    def take(self, number: int | None = None) -> Undo | None:
        """The newest that can be taken back, or one by its number; it is offered no more."""
        undo = self.stack.take(self._client.now_us(), number)
        self._tell_offer()
        return undo

    # -- sending --

    def _go_on(self, gesture: _Gesture) -> None:
        items = gesture.plan.items
        shown = False
        while not gesture.halted and gesture.next < len(items) and len(gesture.out) < AT_ONCE:
            place = gesture.next
            gesture.next += 1
            item = items[place]
            self._key += 1
            key = self._key
            now_us = self._client.now_us()
            gesture.out[key] = (place, now_us)
            shown = self.cells.add(key, item.cells, now_us) or shown
            self._keys[key] = self._send(item, gesture, key)
        if shown:
            self.pending_changed.emit()
        if not gesture.out and (gesture.halted or gesture.next >= len(items)):
            self._finish(gesture)

    def _send(self, item: Item, gesture: _Gesture, key: int) -> int:
        act = item.act

        def then(reply: object) -> None:
            assert isinstance(reply, ActReply)
            self._answered(gesture, key, Fate.DONE, reply.message, reply.lost_core_us)

        def failed(error: OvercrankError) -> None:
            lost = isinstance(error, FarmUnreachable | PeerError)
            self._answered(gesture, key, Fate.UNKNOWN if lost else Fate.REFUSED, str(error))

        if item.of_node:
            return self._client.ask(
                NodeActReq,
                self,
                then,
                failed,
                reply=ActReply,
                repeat=False,
                timeout_s=TIMEOUT_S,
                action=act.action,
                node=act.target,
                reason=item.reason or gesture.reason,
                value=act.value,
            )
        return self._client.ask(
            ActReq,
            self,
            then,
            failed,
            reply=ActReply,
            repeat=False,
            timeout_s=TIMEOUT_S,
            action=act.action,
            address=act.target,
            value=act.value,
            reason=item.reason or gesture.reason,
            force=gesture.force,
        )

    # -- answers --

    def _answered(self, gesture: _Gesture, key: int, fate: Fate, text: str, lost_core_us: int = 0) -> None:
        found = gesture.out.pop(key, None)
        self._keys.pop(key, None)
        if found is None:
            return
        item = gesture.plan.items[found[0]]
        gesture.outcomes[found[0]] = Outcome(item, fate, text, lost_core_us)
        now_us = self._client.now_us()
        if fate is Fate.DONE:
            if self.cells.confirmed(key, self._client.store, now_us):
                self.pending_changed.emit()
        elif fate is Fate.REFUSED:
            if self.cells.refused(key):
                self.pending_changed.emit()
        else:
            gesture.halted = True
            self.cells.unknown(key, now_us)
            self._looked.append(_Looked(key, item, verb_of(gesture.plan), now_us + LOOKS_US))
            self.pending_changed.emit()
        self._go_on(gesture)
        self._arm()

    def _finish(self, gesture: _Gesture) -> None:
        if gesture not in self._gestures:
            return
        self._gestures.remove(gesture)
        plan = gesture.plan
        outcomes = [
            gesture.outcomes.get(place) or Outcome(item, Fate.UNSENT) for place, item in enumerate(plan.items)
        ]
        told = tell(plan, outcomes)
        done = [one.item for one in outcomes if one.fate is Fate.DONE]
        undo = self._remember(plan, told.text, done)
        now_us = self._client.now_us()
        more = len(told.details) - DETAILS_MOST
        for text in (*told.details[:DETAILS_MOST], *([f"and {more:,} more like these"] if more > 0 else ())):
            # Kept, not shown by itself: one gesture is one notice.
            self._notices.activity.add(Level.WARNING, text, now_us)
        self._notices.say(
            told.text,
            told.level,
            hint=told.hint,
            about=plan.items[0].label if len(plan.items) == 1 else "",
            undo=undo.number if undo is not None else 0,
        )
        if any(one.fate is Fate.UNKNOWN for one in outcomes):
            self._client.resync()
        self._tell_offer()
        if gesture.then is not None:
            gesture.then(outcomes)

    def _remember(self, plan: Plan, text: str, done: Sequence[Item]) -> Undo | None:
        if plan.record.id == "undo":
            return None
        pairs = [pair for item in done for pair in item.undo]
        return self.stack.push(text, pairs, self._client.now_us()) if pairs else None

    # -- time and news --

    def _moved(self) -> None:
        """Another farm answers: numbers mean other jobs there, so nothing may be taken back in it."""
        for gesture in self._gestures:
            for key in gesture.out:
                if (number := self._keys.pop(key, None)) is not None:
                    self._client.forget(number)
        self._gestures.clear()
        self._looked.clear()
        # Taken one by one, not made anew: numbers go on, and a toast of before means no undo of later.
        while self.stack.take(self._client.now_us()) is not None:
            pass
        if self.cells.forget():
            self.pending_changed.emit()
        self._tell_offer()

    def _farm_changed(self, change: FarmChange) -> None:
        if self.cells and self.cells.reconcile(self._client.store, self._client.now_us(), news=True):
            self.pending_changed.emit()
        self._look()
        self._arm()

    def _stood(self) -> None:
        if self._looked:
            self._look()
            self._arm()

    def _look(self) -> None:
        """Says of requests without an answer what became of them, as far as rows tell."""
        if not self._client.live:
            # Nothing can be seen of it now: the time to look begins when the farm is back.
            self._looked = [replace(one, until_us=0) for one in self._looked]
            return
        now_us, store, left = self._client.now_us(), self._client.store, []
        for one in self._looked:
            cells = one.item.cells
            if cells and all(cell.reached(store) for cell in cells):
                self._notices.say(f"{one.item.label}: the farm did {one.verb} it, though no answer came")
            elif not one.until_us:
                left.append(replace(one, until_us=now_us + LOOKS_US))
            elif one.until_us <= now_us:
                self._notices.say(
                    f"{one.item.label}: no answer came to {one.verb!r}, and nothing shows that it was done",
                    Level.WARNING,
                    hint="what is shown is what the farm says; try again if it is still wanted",
                )
            else:
                left.append(one)
        self._looked = left

    def tick(self) -> None:
        """Ends what has waited for too long."""
        now_us = self._client.now_us()
        late_us = int(TIMEOUT_S * 1e6) + _GRACE_US
        for gesture in list(self._gestures):
            for key, (_, sent_us) in list(gesture.out.items()):
                if now_us - sent_us >= late_us:
                    number = self._keys.get(key)
                    if number is not None:
                        self._client.forget(number)
                    self._answered(gesture, key, Fate.UNKNOWN, "the broker gave no answer")
        if self.cells.reconcile(self._client.store, now_us):
            self.pending_changed.emit()
        self._look()
        self._tell_offer()
        self._arm()

    def _tell_offer(self) -> None:
        number = offer.number if (offer := self.offer) is not None else 0
        if number != self._offered:
            self._offered = number
            self.offer_changed.emit()

    def _arm(self) -> None:
        """Asks to be woken while something is under way or offered; not at all when nothing is."""
        if self.cells or self._gestures or (self._looked and self._client.live):
            if not self._timer.isActive() or self._timer.remainingTime() > TICK_MS:
                self._timer.start(TICK_MS)
        elif left_us := self.stack.left_us(self._client.now_us()):
            self._timer.start(left_us // 1000 + 5)
        else:
            self._timer.stop()

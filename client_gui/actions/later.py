"""Actions asked for while the farm is away: they wait in sight of everybody, and go out when it is back.

What belongs here: when they wait, when they are judged and sent, and telling what became of them.  What may
not: what replaces what (``waiting``), whether one is still wanted (``judged``), and widgets.

They go out once, when the first whole state has been taken after the connection came back.  Those that waited
for too long, or whose thing somebody else has changed meanwhile, wait for a yes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, Signal

from client_gui.actions.doing import DETAILS_MOST, Doer
from client_gui.actions.judged import Judged, Verdict, dropped, held, judge_all, plan_of
from client_gui.actions.plan import Plan
from client_gui.actions.possible import Who
from client_gui.actions.results import Fate, Outcome, Told
from client_gui.actions.slices import Slices
from client_gui.actions.waiting import Taken, Wait, Waits, may_wait, together
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Setting, Settings
from client_gui.store.activity import Level
from client_gui.store.farmstore import STALE_US, Link
from farm.sdk.words import plural

#: After so many minutes they are not sent without a yes.
ASK_AFTER_MIN: Final = Setting("later/ask-after-min", 10)
_LOOKER: Final = "later"


class Later(QObject):
    """What waits for the farm.

    Args:
        client: The farm.
        notices: Who is told.
        settings: After how long a yes is needed.
        doer: Who sends.
        who: Says who asks.
        parent: Its owner.

    Attributes:
        waits: What waits; to be changed by way of this class alone.
        farm: Of which farm it is, as it is kept under here; "" while nothing waits.
    """

    #: Something waits that did not, or the other way round, or needs a yes.
    changed = Signal()

    def __init__(
        self,
        client: FarmClient,
        notices: Notices,
        settings: Settings,
        doer: Doer,
        who: Callable[[], Who],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.waits = Waits()
        self.farm = ""
        self._client, self._notices, self._settings = client, notices, settings
        self._doer, self._who = doer, who
        self._slices = Slices(self)
        #: Whether the state after the connection came back was taken.
        self._settled = False
        self._asks = False
        #: How often the connection was found gone.
        self._away = 0
        self._looks = (False, False)
        client.stood.connect(self._look)
        client.changed.connect(self._look)
        client.moved.connect(self._moved)

    # -- how it stands --

    @property
    def away(self) -> bool:
        """Whether what may be sent later is to wait now."""
        if not self._client.live:
            return self.can_wait
        return self._mute or (bool(self.waits) and not self._settled)

    @property
    def _mute(self) -> bool:
        """Whether the farm has said nothing for so long that the window says so, and is not given up yet."""
        age_us = self._client.store.age_us(self._client.now_us())
        return age_us is not None and age_us >= STALE_US

    @property
    def can_wait(self) -> bool:
        """Whether the farm is away and may come back by itself."""
        client = self._client
        lost = client.store.link in (Link.CONNECTING, Link.LOST)
        return lost and client.welcome is not None and not client.elsewhere

    @property
    def asks(self) -> tuple[Wait, ...]:
        """What waited for so long that it is not sent without a yes; none while the farm is away."""
        return tuple(one for one in self.waits if not one.held) if self._asks else ()

    @property
    def held(self) -> tuple[Wait, ...]:
        """What was not sent, since somebody else has changed it meanwhile."""
        return tuple(one for one in self.waits if one.held)

    def why_not(self, action: str) -> str:
        """Why one of the client's own actions on what waits is not possible; "" when it is."""
        if not self.waits:
            return "nothing waits for the farm"
        if action == "waiting-send":
            if not self._client.live:
                return "not connected: it is sent when the farm is back"
            return "" if self.asks or self.held else "it is being sent"
        return ""

    # -- coming --

    def takes(self, plan: Plan) -> bool:
        """Whether a gesture is to wait, and may."""
        return self.away and may_wait(plan)

    def put(self, plan: Plan, reason: str = "") -> None:
        """Has a gesture wait."""
        self._settled = self._settled and not self._mute
        steps = self.waits.take_steps(plan, self._client.store, self._client.now_us(), reason)
        self._slices.do(steps, len(plan.items), partial(self._taken, plan))

    def _taken(self, plan: Plan, taken: Taken) -> None:
        self.farm = self._client.farm
        text = f"Waits for {self.name}: {together(taken.waits)}" if taken.waits else ""
        if taken.undone:
            what = taken.undone[0] if len(taken.undone) == 1 else f"{len(taken.undone)} of them"
            same = f"nothing waits for {what} any more: it is to stay as it was"
            text = f"{text}; {same}" if text else same[0].upper() + same[1:]
        if plan.left_out:
            text += f"; {len(plan.left_out)} left out: {plan.left_out[0][1]}"
        self._notices.say(text, about=taken.waits[0].label if len(taken.waits) == 1 else "")
        self._tell()

    def replaced_by(self, plan: Plan) -> None:
        """Something is being sent: what waited for the same is not meant any more."""
        if self.waits.remove_meant(plan):
            self._tell()

    @property
    def name(self) -> str:
        """What people call the farm it waits for."""
        welcome = self._client.welcome
        return (welcome.farm_name if welcome is not None else "") or self._client.farm or "the farm"

    # -- being taken back --

    def take_back(self, numbers: Collection[int]) -> None:
        """Takes some back."""
        self._told_back(self.waits.remove(numbers))

    def take_back_last(self) -> None:
        """Takes back what was asked last; what it replaced waits again."""
        self._told_back(self.waits.remove_last())

    def take_back_all(self) -> None:
        """Takes all back."""
        self._told_back(self.waits.clear())

    def _told_back(self, gone: Sequence[Wait]) -> None:
        if not gone:
            return
        self._notices.say(f"Taken back, nothing was sent: {together(gone)}")
        self._tell()

    # -- being sent --

    def send(self, numbers: Collection[int] | None = None) -> None:
        """Somebody says yes: sends what is left of it, also what was changed meanwhile.

        Args:
            numbers: Which; None = all.
        """
        if not self._client.live:
            self._notices.say("Not connected: it is sent when the farm is back", Level.WARNING)
            return
        some = [one for one in self.waits if numbers is None or one.number in numbers]
        self._judge(some, meant=True)

    def _look(self, *_: object) -> None:
        """The connection or the farm is another."""
        client = self._client
        if not client.live:
            self._settled = False
            self._away += 1
            if self._asks:
                self._asks = False
                self.changed.emit()
            return
        if self._settled or client.store.n is None or client.feeding or self._mute:
            return
        self._settled = True
        if self.waits:
            self._judge(list(self.waits), meant=False)

    def _judge(self, some: Sequence[Wait], *, meant: bool) -> None:
        steps = judge_all(some, self._client.store, self._who(), anyway=meant)
        self._slices.do(steps, len(some), partial(self._judged, meant, self._away))

    def _judged(self, meant: bool, away: int, judged: Sequence[Judged]) -> None:
        if away != self._away:
            return  # gone again before it was known: judged anew when it is back
        there = {one.number for one in self.waits}
        judged = [one for one in judged if one.wait.number in there]
        gone = {one.wait.number for one in judged if one.verdict in (Verdict.SO, Verdict.IDLE)}
        self.waits.remove(gone)
        for one in judged:
            if one.verdict is Verdict.CHANGED:
                self.waits.hold(one.wait.number, one.text)
            elif one.verdict is Verdict.SEND and one.wait.held and not meant:
                self.waits.hold(one.wait.number, "")  # changed back meanwhile
        for told in (dropped(judged), held(judged)):
            if told is not None:
                self._say(told)
        sent = [one for one in judged if one.verdict is Verdict.SEND]
        if sent and not meant and self._too_old([one.wait for one in sent]):
            self._asks = True
        elif sent:
            self.waits.remove({one.wait.number for one in sent})
            self._doer.start(plan_of(sent), then=partial(self._sent, [one.wait for one in sent]))
        self._tell()

    def _sent(self, waits: Sequence[Wait], outcomes: Sequence[Outcome]) -> None:
        """What was not sent, since one before it got no answer, waits again; of the rest the answers tell."""
        unsent = [wait for wait, one in zip(waits, outcomes, strict=True) if one.fate is Fate.UNSENT]
        if unsent and self.waits.give_back(unsent):
            self._asks = self._client.live
            self._tell()

    def _too_old(self, waits: Sequence[Wait]) -> bool:
        most_us = self._settings.get(ASK_AFTER_MIN) * 60_000_000
        now_us = self._client.now_us()
        # Of one from the future the clock was put back: nobody knows how old it is.
        return not all(0 <= now_us - one.asked_us < most_us for one in waits)

    # -- another farm, and telling --

    def forget(self) -> None:
        """Drops all of it, since somebody said so."""
        self._drop(f"dropped: meant for {self.name}")

    def _moved(self) -> None:
        self._slices.forget()
        self._drop(f"dropped: meant for {self.farm or 'another farm'}", Level.WARNING)

    def _drop(self, why: str, level: Level = Level.INFO) -> None:
        gone = self.waits.clear()
        if gone:
            what = f"“{gone[0].text}” was" if len(gone) == 1 else f"{plural(len(gone), 'action')} were"
            lines = tuple(one.text for one in gone) if len(gone) > 1 else ()
            self._say(Told(level, f"{what} {why}", "", lines))
        self._tell()

    def _say(self, told: Told) -> None:
        now_us = self._client.now_us()
        for text in told.details[:DETAILS_MOST]:
            # Kept, not shown by itself: one thing that happened is one notice.
            self._notices.activity.add(Level.WARNING, text, now_us)
        self._notices.say(told.text, told.level, hint=told.hint)

    def _tell(self) -> None:
        if not any(not one.held for one in self.waits):
            self._asks = False
        if not self.waits:
            self.farm = ""
        self._follow()
        self.changed.emit()

    def _follow(self) -> None:
        """Follows the rows it is about: they are judged by what is, whatever is looked at meanwhile."""
        kinds = {one.key[0] for one in self.waits}
        wanted = ("jobs" in kinds, "nodes" in kinds)
        if wanted != self._looks:
            self._looks = wanted
            self._client.look(_LOOKER, jobs=wanted[0], nodes=wanted[1])


def count_text(later: Later) -> str:
    """How many wait: ``2 actions wait for farm-A``, or for a yes when it is back."""
    count = len(later.waits)
    what = "your yes" if later.asks or len(later.held) == count else later.name
    return f"{plural(count, 'action')} {'waits' if count == 1 else 'wait'} for {what}" if count else ""


def asked_text(waits: Sequence[Wait]) -> str:
    """From when they are: ``14:02``, or ``14:02 to 14:31``."""
    first, last = (_clock(pick(one.asked_us for one in waits)) for pick in (min, max))
    return first if first == last else f"{first} to {last}"


def _clock(at_us: int) -> str:
    return time.strftime("%H:%M", time.localtime(at_us / 1e6))

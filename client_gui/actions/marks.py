"""Stars, bells and colours somebody put on jobs, remembered on this machine.

What belongs here: the marks, by farm, and telling when a job with a bell is over.  What may not: how a mark
looks.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QObject, Signal

from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Setting, Settings
from client_gui.store.activity import Level
from client_gui.store.farmstore import FarmChange
from farm.model.states import WorkState

MARKS: Final[Setting[dict[str, Any]]] = Setting("marks", {})
#: So many jobs of a farm may be marked in each way; the oldest marks go.
MOST: Final = 2000
_OVER: Final = frozenset({WorkState.DONE.value, WorkState.FAILED.value, WorkState.CANCELED.value})


class Marks(QObject):
    """Marks of jobs of the farm that is connected."""

    #: Numbers of jobs whose marks changed.
    changed = Signal(object)

    def __init__(
        self, client: FarmClient, notices: Notices, settings: Settings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._notices = notices
        self._settings = settings
        self._farm = ""
        self._stars: dict[int, None] = {}
        self._bells: dict[int, None] = {}
        self._colours: dict[int, int] = {}
        #: What jobs with a bell showed last.
        self._states: dict[int, str] = {}
        client.welcomed.connect(self._load)
        client.changed.connect(self._farm_changed)
        self._load()

    def starred(self, job: int) -> bool:
        """Whether a job has a star."""
        return job in self._stars

    def belled(self, job: int) -> bool:
        """Whether somebody wants to be told of a job."""
        return job in self._bells

    def colour(self, job: int) -> int:
        """The colour of a job, 1 to 9; 0 for none."""
        return self._colours.get(job, 0)

    def toggle_star(self, jobs: tuple[int, ...]) -> bool:
        """Puts a star on jobs, or takes it off when all have one; says whether they have one now."""
        on = _toggle(self._stars, jobs)
        self._save(jobs)
        return on

    def toggle_bell(self, jobs: tuple[int, ...]) -> bool:
        """Wants to be told of jobs, or no more when that holds for all; says whether it does now."""
        on = _toggle(self._bells, jobs)
        for job in jobs:
            if on:
                self._states[job] = self._state(job)
            else:
                self._states.pop(job, None)
        self._save(jobs)
        return on

    def set_colour(self, jobs: tuple[int, ...], colour: int) -> None:
        """Gives jobs a colour; 0 takes it off, and so does the colour they have all."""
        same = colour and all(self._colours.get(job) == colour for job in jobs)
        for job in jobs:
            self._colours.pop(job, None)
            if colour and not same:
                self._colours[job] = colour
        self._save(jobs)

    # -- inside --

    def _load(self) -> None:
        welcome = self._client.welcome
        self._farm = (welcome.farm_name if welcome is not None else "") or self._client.farm
        found = self._settings.get(MARKS).get(self._farm)
        kept = found if isinstance(found, dict) else {}
        before = {*self._stars, *self._bells, *self._colours}
        self._stars = _numbers(kept.get("stars"))
        self._bells = _numbers(kept.get("bells"))
        colours = kept.get("colours")
        self._colours = {
            int(job): colour
            for job, colour in (colours.items() if isinstance(colours, dict) else ())
            if str(job).isdecimal() and isinstance(colour, int) and 1 <= colour <= 9
        }
        self._states = {job: self._state(job) for job in self._bells}
        touched = before | {*self._stars, *self._bells, *self._colours}
        if touched:
            self.changed.emit(tuple(sorted(touched)))

    def _save(self, jobs: tuple[int, ...]) -> None:
        kept: dict[int, Any]
        for kept in (self._stars, self._bells, self._colours):
            while len(kept) > MOST:
                del kept[next(iter(kept))]
        everything = self._settings.get(MARKS).copy()
        everything[self._farm] = {
            "stars": list(self._stars),
            "bells": list(self._bells),
            "colours": {str(job): colour for job, colour in self._colours.items()},
        }
        self._settings.set(MARKS, everything)
        self.changed.emit(jobs)

    def _state(self, job: int) -> str:
        store = self._client.store
        slot = store.jobs.slot(job)
        return str(store.jobs.get(slot, "state")) if slot >= 0 else ""

    def _farm_changed(self, change: FarmChange) -> None:
        if not self._bells or not change.jobs:
            return
        store = self._client.store
        for job in self._bells:
            slot = store.jobs.slot(job)
            if slot < 0:
                continue
            state, before = str(store.jobs.get(slot, "state")), self._states.get(job, "")
            self._states[job] = state
            if state != before and before and state in _OVER:
                name = store.jobs.get(slot, "name")
                level = Level.DONE if state == WorkState.DONE else Level.WARNING
                self._notices.say(f"J{job} {name} is {state}", level, about=f"J{job}")


def _toggle(kept: dict[int, None], jobs: tuple[int, ...]) -> bool:
    on = not all(job in kept for job in jobs)
    for job in jobs:
        kept.pop(job, None)
        if on:
            kept[job] = None
    return on


def _numbers(found: object) -> dict[int, None]:
    return {one: None for one in found if isinstance(one, int)} if isinstance(found, list) else {}

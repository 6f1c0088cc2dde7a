"""Which job and which frame a picture is made of.

What belongs here: choosing from the store, the same for the same farm.  What may not: Qt.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from client_gui.store.farmstore import FarmStore
from client_gui.store.table import Slots
from farm.model.states import UnitState

#: A job with more frames is looked at as a whole, not as somebody's shot.
A_SHOT: Final = 5000


def hero_job(store: FarmStore) -> int:
    """The job with most to see: failed and running frames, several steps; 0 when there is none."""
    jobs = store.jobs
    slots = _slots(store)
    if not len(slots):
        return 0
    shots = slots[jobs.numbers("units")[slots] <= A_SHOT]
    chosen = shots if len(shots) else slots
    steps = np.array([len(jobs.values("steps")[slot] or ()) for slot in chosen.tolist()])
    worth = (
        4 * (jobs.numbers("failed")[chosen] > 0)
        + 3 * (jobs.numbers("running")[chosen] > 0)
        + 2 * (jobs.numbers("done")[chosen] > 0)
        + (jobs.numbers("waiting")[chosen] > 0)
        + np.minimum(steps, 4)
    )
    return _number(store, int(chosen[int(worth.argmax())]))


def biggest_job(store: FarmStore) -> int:
    """The job with most frames; 0 when there is none."""
    slots = _slots(store)
    if not len(slots):
        return 0
    return _number(store, int(slots[int(store.jobs.numbers("units")[slots].argmax())]))


def share_done(store: FarmStore, job: int) -> float:
    """How much of a job is done, 0 to 1."""
    slot = store.jobs.slot(job)
    if slot < 0:
        return 0.0
    units = int(store.jobs.numbers("units")[slot])
    return int(store.jobs.numbers("done")[slot]) / units if units else 0.0


def failed_units(store: FarmStore, job: int, most: int) -> list[tuple[str, int]]:
    """Failed frames of a job that is opened, as step and unit.

    Those come first that stand most alone: an attempt of many frames tells of the first that failed.
    """
    found: list[tuple[int, str, int]] = []
    for row in store.steps_of(job):
        known = store.maps.get(f"J{job}/{row.name}")
        if known is not None:
            units = known.units_in(int(UnitState.FAILED))
            gaps = np.diff(units, prepend=0, append=len(known))
            alone = np.minimum(gaps[:-1], gaps[1:])
            found += [(-int(gap), row.name, int(unit)) for gap, unit in zip(alone, units, strict=True)]
    return [(step, unit) for _, step, unit in sorted(found)[:most]]


def _slots(store: FarmStore) -> Slots:
    """Slots of jobs in the order they came."""
    numbers = sorted(store.jobs.all_ids())
    return np.array([store.jobs.slot(number) for number in numbers], np.int32)


def _number(store: FarmStore, slot: int) -> int:
    return next(number for number in store.jobs.all_ids() if store.jobs.slot(number) == slot)

"""What nobody needs any more leaves memory: shapes without steps, and what users hold who have no jobs.

What belongs here: which of these may go, and what else remembers them by number.  What may not: jobs
(``farm.core.shelves``) and accounts, whose going is part of what is stored (``farm.core.shares``).

Nothing here is stored: a restart makes both anew from the jobs that are left.
"""

from __future__ import annotations

from heapq import heapify

from farm.core.order import Queue
from farm.core.state import Farm


def tidy(farm: Farm) -> None:
    """Forgets what no job in memory needs."""
    _shapes(farm)
    users = {job.user for job in farm.jobs.values()}
    for user in [user for user in farm.holders if user not in users]:
        holder = farm.holders[user]
        if not holder.cores and not holder.kept:
            del farm.holders[user]


def _shapes(farm: Farm) -> None:
    """Shapes without steps go, and all that is known of them by number; no number is given twice."""
    used = {step.shape.id for step in farm.steps.values() if step.shape is not None}
    gone = {shape.id for shape in farm.shapes.values() if shape.id not in used}
    held = {shape.id for holder in farm.holders.values() for shape in holder.kept.values()}
    for shape in farm.shapes.values():
        idle = shape.id not in farm.busy and shape.id not in farm.fresh and shape.id not in farm.unable
        if idle and shape.lined is None and shape.id not in gone and shape.id not in held:
            # Its queue still holds the lines of all projects and users that ever waited in it.
            shape.queue = Queue()
    if not gone:
        return
    farm.shapes = {key: shape for key, shape in farm.shapes.items() if shape.id not in gone}
    for known in (farm.busy, farm.fresh, farm.unable, farm.misfits):
        for number in gone.intersection(known):
            del known[number]
    farm.lineup = [pair for pair in farm.lineup if pair[1].id not in gone]
    heapify(farm.lineup)
    for klass in farm.classes.values():
        for number in gone.intersection(klass.refused):
            del klass.refused[number]
        for number in gone.intersection(klass.asks):
            del klass.asks[number]
    for bucket in farm.buckets.values():
        for number in gone.intersection(bucket.scores):
            del bucket.scores[number]
    # Kept only to save work: they are made again when nodes come back to the same amounts.
    farm.empty_buckets.clear()

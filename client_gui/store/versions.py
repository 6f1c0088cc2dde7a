"""Other versions of a job among those of the farm: what its pictures and logs are compared with.

What belongs here: finding them.  What may not: the rule what a version is (``attempts``), and Qt.
"""

from __future__ import annotations

from client_gui.store.attempts import base_name, versions_of
from client_gui.store.table import Table


def name_of(jobs: Table[int], job: int) -> str:
    """What a job is called; its number when it is not known (any more)."""
    slot = jobs.slot(job)
    return str(jobs.get(slot, "name")) if slot >= 0 else (f"J{job}" if job else "")


def other_versions(jobs: Table[int], job: int, most: int = 20) -> list[tuple[int, str]]:
    """Other versions of a job and their names, the most likely one to compare with first.

    Found without a look at the other columns.
    """
    name = name_of(jobs, job)
    base, _ = base_name(name)
    names, numbers = jobs.values("name"), jobs.numbers("job")
    near = [place for place, other in enumerate(names) if other and other.startswith(base)]
    found = {int(numbers[place]): str(names[place]) for place in near if int(numbers[place]) in jobs}
    return [(number, found[number]) for number in versions_of(name, job, found.items())[:most]]

"""Jobs that are not in memory any more: how statements tell them apart, and how deleted ones leave the store.

What belongs here: SQL that every database understands.  What must not: connections, and when a job leaves
(``farm.core.shelves``).
"""

from __future__ import annotations

from farm.core.rows import JobRow, JobStateRow, Row, StepEditRow, StepMapRow, StepRow

#: Name of the stored value that says parts of the history are gone: the rest makes no farm by itself.
INCOMPLETE = "history_incomplete"

_STEP_ON_SHELF = (
    "SELECT 1 FROM shelf JOIN steps ON steps.job_id = shelf.job_id WHERE steps.id = {table}.step_id"
)

#: By kind of row: the test that it is of no job in the archive.
IN_MEMORY: dict[type[Row], str] = {
    JobRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = jobs.id)",
    StepRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = steps.job_id)",
    JobStateRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = job_states.job_id)",
    StepEditRow: f"NOT EXISTS ({_STEP_ON_SHELF.format(table='step_edits')})",
    StepMapRow: f"NOT EXISTS ({_STEP_ON_SHELF.format(table='step_maps')})",
}

_OF_STEPS = "step_id IN (SELECT id FROM steps WHERE job_id = ?)"

#: Takes a job out of the store (its number is the only value): what refers goes before what is referred to.
CLEARED: tuple[str, ...] = (
    f"DELETE FROM segments WHERE {_OF_STEPS}",
    f"DELETE FROM step_maps WHERE {_OF_STEPS}",
    f"DELETE FROM step_edits WHERE {_OF_STEPS}",
    "DELETE FROM job_states WHERE job_id = ?",
    "DELETE FROM shelf WHERE job_id = ?",
    "DELETE FROM steps WHERE job_id = ?",
    "DELETE FROM jobs WHERE id = ?",
)

"""The list of jobs for tests: jobs to show, and what is seen of them.

What belongs here: rows, typing, and reading cells.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from typing import Any

from pytestqt.qtbot import QtBot

from client_gui.models.order_model import ID_ROLE
from client_gui.views.chips import Chip
from client_gui.views.jobs import JobsView
from tests.support.gui_rig import NOW_US, job_row, step_row

HOUR_US = 3_600_000_000


def jobs() -> tuple[Any, ...]:
    """Six jobs of two users in several states."""
    return (
        job_row(1, name="sh010_lgt", user="ana", submitted_us=NOW_US - HOUR_US),
        job_row(
            2,
            name="sh020_fx",
            user="bo",
            state="failed",
            failed=3,
            running=0,
            submitted_us=NOW_US - 2 * HOUR_US,
            steps=(step_row(counts=(0, 57, 0, 40, 3, 0, 0)),),
        ),
        job_row(
            3,
            name="sh100_lgt",
            user="ana",
            state="queued",
            running=0,
            done=0,
            submitted_us=NOW_US - 3 * HOUR_US,
        ),
        job_row(
            4, name="sh030_cmp", user="ana", state="paused", running=0, submitted_us=NOW_US - 4 * HOUR_US
        ),
        job_row(
            5,
            name="sh040_cmp",
            user="cy",
            project="arctic",
            state="done",
            done=100,
            running=0,
            ended_us=NOW_US - HOUR_US,
            eta_low_us=None,
            eta_high_us=None,
            submitted_us=NOW_US - 5 * HOUR_US,
            steps=(step_row(counts=(0, 0, 0, 100, 0, 0, 0)),),
        ),
        job_row(
            6,
            name="sh050_fx",
            user="bo",
            state="running",
            failed=2,
            priority=80,
            submitted_us=NOW_US - 6 * HOUR_US,
        ),
    )


def shown(view: JobsView) -> list[int]:
    """Numbers of the jobs that are listed, in order."""
    model = view.model
    return [model.index(row, 0).data(ID_ROLE) for row in range(model.rowCount())]


def cell(view: JobsView, job: int, column: str) -> str:
    """What a cell of a job says."""
    model = view.model
    return str(model.index(model.row_of(job), model.column_of(column)).data())


def type_filter(qtbot: QtBot, view: JobsView, text: str) -> None:
    """Types a filter, in place of the one before."""
    view.bar.edit.clear()
    qtbot.keyClicks(view.bar.edit, text)


def chips(view: JobsView) -> dict[str, Chip]:
    """The chips of the filter, by what they say."""
    return {chip.text(): chip for chip in view.bar.findChildren(Chip) if chip.isVisible()}

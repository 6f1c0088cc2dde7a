"""What tests of all docks alike stand on: a farm at work, and what a dock shows and says.

What belongs here: reading any dock from outside.  What may not: what is promised, and any dock in particular.
"""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QHeaderView,
    QLabel,
    QLineEdit,
    QWidget,
)

from client_gui.views.blank import Blank
from client_gui.views.registry import DOCKS, DockRecord
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_rig import Rig

SECOND = 1_000_000


def look_at(rig: Rig) -> None:
    rig.focus.set_job(12)
    rig.focus.set_unit("beauty", 41)
    rig.focus.set_node(1)


def at_work(rig: Rig) -> None:
    """A job with frames in every state and three nodes; job, frame and node are looked at."""
    job = JobOf(
        rig,
        {"sim": StepOf(states_of(1, done=1)), "beauty": StepOf(states_of(100, done=40, running=5, failed=3))},
    )
    look_at(rig)
    rig.settle()
    job.show()
    rig.settle()


def shown(view: QWidget, kind: type[Any] = QWidget) -> list[Any]:
    """Its widgets of a kind that can be seen."""
    return [widget for widget in view.findChildren(kind) if widget.isVisible()]


def said(view: QWidget) -> list[str]:
    """What a view says, of itself and not on buttons: words, rows, and what painted widgets tell a reader."""
    found = [label.text() for label in shown(view, QLabel) if len(label.text().split()) > 1]
    for rows in shown(view, QAbstractItemView):
        model = rows.model()
        if not isinstance(rows, QHeaderView) and model is not None and model.rowCount():
            found.append(f"{model.rowCount()} rows")
    found += [blank.accessibleName() for blank in shown(view, Blank)]
    for widget in shown(view):
        if (
            not isinstance(widget, QAbstractButton | QLineEdit)
            and len(widget.accessibleDescription().split()) > 1
        ):
            found.append(widget.accessibleDescription())
    return found


def every(records: tuple[DockRecord, ...] = DOCKS) -> Any:
    return pytest.mark.parametrize("record", records, ids=lambda record: record.name)

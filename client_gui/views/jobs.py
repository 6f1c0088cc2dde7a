"""The list of jobs.

What belongs here: what is special to jobs: columns, sums, views, what a click leads to.  What may not: what
all lists do (``listing``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from PySide6.QtWidgets import QWidget

from client_gui.actions.context import ActionContext
from client_gui.desk import Desk
from client_gui.models.column import Shown
from client_gui.models.job_columns import JOB_SHOWN
from client_gui.models.marks import marks_shown
from client_gui.settings import Setting
from client_gui.store.farmstore import FarmChange
from client_gui.store.filter import JOB_FACETS, JOB_SOURCES, Sources
from client_gui.store.groups import Grouping
from client_gui.store.jobgroups import TITLES, job_grouping
from client_gui.store.table import MISSING, Change, Table
from client_gui.views.groupby import NONE, GroupBy
from client_gui.views.listing import OF_LISTS, ListView
from client_gui.views.savedviews import JOB_VIEWS, SavedView
from farm.model.query import JOBS, Query, Vocabulary
from farm.model.roles import Role
from farm.sdk.words import plural, price_text

#: The filter as it was left.
FILTER: Final[Setting[str]] = Setting("jobs/filter", "")
#: Whether anybody has ever chosen a filter here: artists begin with their own jobs.
CHOSEN: Final[Setting[bool]] = Setting("jobs/filter-chosen", False)
#: Actions that put jobs in groups.
OF_GROUPS: Final = (*(f"group-{by}" for by in (NONE, *TITLES)), "group-close", "group-open")


class JobsView(ListView):
    """The list of jobs.

    Attributes:
        group_by: Says and lets choose what jobs are grouped by.
    """

    name: ClassVar[str] = "jobs"
    title: ClassVar[str] = "Jobs"
    scope: ClassVar[str] = "jobs"
    vocabulary: ClassVar[Vocabulary] = JOBS
    sources: ClassVar[Sources] = JOB_SOURCES
    facet_columns: ClassVar[Mapping[str, str]] = JOB_FACETS
    given_views: ClassVar[tuple[SavedView, ...]] = JOB_VIEWS
    likely: ClassVar[tuple[str, ...]] = ("retry", "pause-toggle", "priority", "why")
    does: ClassVar[tuple[str, ...]] = (*OF_LISTS, *OF_GROUPS)

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        if not self.model.sort_by:
            self.model.set_sort((("submitted", True),))
        self.group_by = GroupBy(
            self.model, TITLES, self._grouping, desk.settings, self.name, desk.theme, self
        )
        self.bar.extra.insertWidget(0, self.group_by)
        kept = desk.settings.get(FILTER)
        if not desk.settings.get(CHOSEN) and desk.client.role is Role.ARTIST:
            kept = "mine"
        self.bar.set_text(kept)
        self.bar.queried.connect(self._keep_filter)
        desk.focus.job_changed.connect(self._focus_moved)
        #: A job that was just made and is not in the list yet, 0 for none.
        self._awaited = 0
        desk.focus.job_made.connect(self._job_made)
        self.model.updated.connect(self._look_for_made)
        desk.actions.marks.changed.connect(self._marks_changed)

    # -- what it lists --

    def rows(self) -> Table[int]:
        """Jobs of the store."""
        return self.desk.client.store.jobs

    def columns(self) -> Sequence[Shown]:
        """Marks, and what is known of a job."""
        return (marks_shown(self.desk.actions.marks), *JOB_SHOWN)

    def change_of(self, change: FarmChange) -> Change[int]:
        """Of jobs."""
        return change.jobs

    def refresh(self) -> None:
        """Also looks for a job that was made while nobody looked at the list."""
        super().refresh()
        self._look_for_made()

    def farm_changed(self, change: FarmChange) -> None:
        """Also looks for a job that was just made."""
        super().farm_changed(change)
        self._look_for_made()

    def look(self) -> None:
        """Follows the list of jobs."""
        self.desk.client.look(self.looker, jobs=True)

    def _grouping(self, by: str) -> Grouping | None:
        return job_grouping(by, lambda: self.model.reading.zone)

    def kept(self) -> dict[str, Any]:
        """Also what jobs are grouped by."""
        return {**super().kept(), "group": self.group_by.by}

    def _view_chosen(self, view: SavedView) -> None:
        super()._view_chosen(view)
        if isinstance(by := view.columns.get("group"), str):
            self.group_by.set_by(by)

    def do(self, action: str) -> bool:
        """Also puts jobs in groups, and closes and opens these."""
        if action in ("group-close", "group-open"):
            self.group_by.close_all(action == "group-close")
        elif action in OF_GROUPS:
            self.group_by.set_by(action.removeprefix("group-"))
        else:
            return super().do(action)
        return True

    def _keep_filter(self, query: Query) -> None:
        self.desk.settings.set(CHOSEN, True)
        self.desk.settings.set(FILTER, str(query))

    def _marks_changed(self, _: object) -> None:
        self.table.viewport().update()

    # -- what somebody does --

    def arrived(self, row_id: int) -> None:
        """Looks at the job."""
        self.desk.focus.set_job(row_id)

    def opened(self, row_id: int) -> None:
        """Shows the job in full."""
        self.desk.focus.set_job(row_id)
        self.desk.focus.show("job")

    def _focus_moved(self) -> None:
        self.follow_focus(self.desk.focus.job)

    def _job_made(self, job: int) -> None:
        self._awaited = job
        self._look_for_made()

    def _look_for_made(self) -> None:
        """Makes a new job the selected one, so that keys act on it; says so when the filter hides it."""
        job = self._awaited
        if job != self.desk.focus.job:  # somebody has gone on to another one
            self._awaited = 0
        elif job and self.on and self.rows().slot(job) >= 0:
            self._select_made(job)

    def _select_made(self, job: int) -> None:
        group = self.model.order.group_of(job)
        if group is not None and group.name in self.model.closed:
            self.model.fold([group], closed=False)
        if self.model.row_of(job) >= 0:
            self._awaited = 0
            self.table.go_to(job)
        elif self.bar.query and not self.model.order.pending:
            self._awaited = 0
            self.desk.notices.say(
                f"J{job} is hidden by the filter of the job list", hint="clear the filter to act on it there"
            )

    def context_of(self, ids: tuple[int, ...], hidden: int = 0) -> ActionContext:
        """Jobs."""
        return ActionContext("jobs", jobs=ids, hidden=hidden)

    def totals(self, ids: Sequence[int]) -> str:
        """How many jobs, how far they are, and what they cost."""
        table = self.rows()
        if not ids:
            order = self.model.order
            slots = order.view if order.groups is None else order.listed
            if not len(slots):
                return ""
            head = f"{plural_of(len(slots), 'job')}"
        else:
            slots = np.array([slot for one in ids if (slot := table.slot(one)) >= 0], np.int32)
            head = f"{len(slots):,} selected{self._of_groups()}"
        sums = {
            name: int(table.numbers(name)[slots].sum()) for name in ("units", "done", "failed", "running")
        }
        money = table.numbers("spend_nano")[slots]
        cost = int(money[money != MISSING].sum())
        parts = [head, f"{sums['done']:,} of {plural_of(sums['units'], 'frame')} done"]
        if sums["running"]:
            parts.append(f"{sums['running']:,} running")
        if sums["failed"]:
            parts.append(f"{sums['failed']:,} failed")
        parts.append(price_text(cost))
        return "  ·  ".join(parts)

    def _of_groups(self) -> str:
        """Which groups are selected as a whole: ``, all of dune``."""
        order, groups = self.model.order, self.model.selection.groups
        rows = sorted(row for key in groups if (row := order.row_of(key)) >= 0)
        if not rows:
            return ""
        if len(rows) > 1:
            return f", all of {len(rows):,} groups"
        return f", all of {self.model.heads.title(order.slot_at(rows[0]))}"

    def nothing_yet(self) -> tuple[str, str, str]:
        """No jobs: how to submit."""
        return (
            "No jobs yet",
            "Submit one here, from Blender's render menu, or with `farm submit` on the command line.",
            "Submit a job",
        )

    def blank_pressed(self) -> None:
        """Clears the filter, or submits when there is nothing to be hidden."""
        if len(self.rows()):
            self.bar.clear()
        else:
            self.desk.focus.show("submit")


def plural_of(count: int, word: str) -> str:
    """``1 job``, ``1,284 jobs``."""
    return plural(count, word).replace(str(count), f"{count:,}", 1)

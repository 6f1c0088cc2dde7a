"""Actions that only look, copy or mark: nothing of them is sent as a change.

What belongs here: what the client does itself when no view or shell took it.  What may not: docks; they
follow ``Focus`` and are asked to come to the front by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from client_gui.actions.context import ActionContext
from client_gui.actions.facts import JobFacts, NodeFacts, facts_of
from client_gui.actions.marks import Marks
from client_gui.actions.places import Places
from client_gui.actions.records import COLOURS
from client_gui.desk import Focus
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from farm.model.states import UnitState
from farm.sdk.words import plural

#: The dock that shows in full what a scope selects.
_DOCKS = {"jobs": "job", "steps": "job", "frames": "log", "nodes": "nodes"}


class Looking(QObject):
    """What looks, copies and marks."""

    def __init__(
        self,
        client: FarmClient,
        focus: Focus,
        notices: Notices,
        marks: Marks,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._focus = focus
        self._notices = notices
        self._marks = marks
        self.places = Places(client, notices, self)

    def actions(self) -> dict[str, Callable[[ActionContext], object]]:
        """What it does, by id."""
        found: dict[str, Callable[[ActionContext], object]] = {
            "open": lambda context: self.look_at(context, _DOCKS.get(context.scope, "job")),
            "log": lambda context: self.look_at(context, "log"),
            "preview": lambda context: self.look_at(context, "preview"),
            "why": lambda context: self.look_at(context, "why"),
            "folder": lambda context: self.places.open_folder(self._addresses(context)[0]),
            "copy-id": self._copy_id,
            "copy-name": self._copy_name,
            "copy-path": self._copy_path,
            "star": lambda context: self._marks.toggle_star(context.jobs),
            "bell": self._bell,
            "resync": lambda context: self._client.resync(),
            "submit": lambda context: self._focus.show("submit"),
            "spend": lambda context: self._focus.show("spend"),
        }
        for colour in range(COLOURS + 1):
            found[f"colour-{colour}"] = partial(self._colour, colour)
        return found

    def job(self, job: int) -> None:
        """Looks at a job."""
        self._focus.set_job(job)
        self._focus.show("job")

    def node(self, node: int) -> None:
        """Looks at a node."""
        self._focus.set_node(node)
        self._focus.show("nodes")

    def look_at(self, context: ActionContext, dock: str) -> None:
        """Looks at the first of what is selected, in a dock."""
        if context.scope == "nodes" and context.nodes:
            self._focus.set_node(context.nodes[0])
        elif context.units:
            units = context.units[0]
            self._focus.set_job(units.job)
            self._focus.set_unit(units.step, units.units[0] if units.units else -1)
        elif context.jobs:
            self._focus.set_job(context.jobs[0])
            if dock == "log" and not self._focus.step:
                self._focus.set_unit(self._telling_step(context.jobs[0]))
        self._focus.show(dock)

    # -- inside --

    def _telling_step(self, job: int) -> str:
        """The step whose log tells most: the first with failures, else what runs, else what was done last."""
        steps = self._client.store.steps_of(job)
        for state in (UnitState.FAILED, UnitState.RUNNING):
            for row in steps:
                if row.counts[state]:
                    return row.name
        return next((row.name for row in reversed(steps) if row.counts[UnitState.DONE]), "")

    def _colour(self, colour: int, context: ActionContext) -> None:
        self._marks.set_colour(context.jobs, colour)

    def _addresses(self, context: ActionContext) -> tuple[str, ...]:
        return tuple(one.address for one in facts_of(self._client.store, context))

    def _copy(self, texts: tuple[str, ...], what: str, whats: str) -> None:
        QGuiApplication.clipboard().setText("\n".join(texts))
        told = texts[0] if len(texts) == 1 else f"{len(texts):,} {what if len(texts) == 1 else whats}"
        self._notices.say(f"Copied {told}")

    def _copy_id(self, context: ActionContext) -> None:
        words = ("name", "names") if context.scope == "nodes" else ("address", "addresses")
        self._copy(self._addresses(context), *words)

    def _copy_name(self, context: ActionContext) -> None:
        facts = facts_of(self._client.store, context)
        names = tuple(one.name for one in facts if isinstance(one, JobFacts | NodeFacts) and one.name)
        self._copy(names or self._addresses(context), "name", "names")

    def _copy_path(self, context: ActionContext) -> None:
        if context.scope == "frames":
            self.places.copy_paths(self._addresses(context))
            return
        if context.scope == "jobs":
            self.places.copy_patterns(context.jobs)
            return
        jobs = tuple(dict.fromkeys(units.job for units in context.units))
        self.places.copy_patterns(jobs, frozenset((units.job, units.step) for units in context.units))

    def _bell(self, context: ActionContext) -> None:
        on = self._marks.toggle_bell(context.jobs)
        one = len(context.jobs) == 1
        what = f"J{context.jobs[0]}" if one else plural(len(context.jobs), "job")
        if on:
            self._notices.say(f"You will be told when {what} {'is' if one else 'are'} over")
        else:
            self._notices.say(f"You will not be told of {what} any more")

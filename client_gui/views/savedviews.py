"""Views somebody keeps of a list: a name, a filter, perhaps columns; the first ones are given.

What belongs here: the records, and reading and writing them.  What may not: widgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from client_gui.settings import Setting, Settings


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view of a list.

    Attributes:
        name: What its chip says.
        filter: Its filter, as it would be typed.
        columns: Columns and order that come with it; empty = as they are.
    """

    name: str
    filter: str
    columns: dict[str, Any] = field(default_factory=dict)


JOB_VIEWS: tuple[SavedView, ...] = (
    SavedView("Mine", "mine"),
    SavedView("Running", "state:running"),
    SavedView("Failing", "failed>0 -state:done,canceled"),
    SavedView("Waiting", "state:queued,blocked"),
    SavedView("Done today", "state:done ended<24h"),
)
NODE_VIEWS: tuple[SavedView, ...] = (
    SavedView("Busy", "busy:yes"),
    SavedView("Idle", "busy:no state:online enabled:yes"),
    SavedView("Out of service", "enabled:no"),
    SavedView("Trouble", "state:suspect,lost"),
    SavedView("GPUs", "gpus>0"),
)


class SavedViews:
    """The saved views of a list.

    Args:
        settings: Where they are kept.
        name: Of the list.
        given: What there is before anybody changed anything.
    """

    def __init__(self, settings: Settings, name: str, given: Sequence[SavedView]) -> None:
        self._settings = settings
        # None of them is a choice, too: an empty list is not the same as never having chosen.
        self._setting: Setting[dict[str, Any]] = Setting(f"{name}/views", {})
        self._given = tuple(given)

    def all(self) -> tuple[SavedView, ...]:
        """All of them, in their order."""
        kept: Any = self._settings.get(self._setting)
        views = kept.get("views")
        if not isinstance(views, list):
            return self._given
        found: dict[str, SavedView] = {}
        for one in views:
            if (
                isinstance(one, dict)
                and isinstance(one.get("name"), str)
                and isinstance(one.get("filter"), str)
            ):
                columns = one.get("columns")
                found[one["name"]] = SavedView(
                    one["name"], one["filter"], columns if isinstance(columns, dict) else {}
                )
        return tuple(found.values())

    def save(self, view: SavedView) -> None:
        """Adds one, or puts it in the place of the one of that name."""
        views = list(self.all())
        names = [one.name for one in views]
        if view.name in names:
            views[names.index(view.name)] = view
        else:
            views.append(view)
        self._write(views)

    def remove(self, name: str) -> None:
        """Takes one away."""
        self._write([one for one in self.all() if one.name != name])

    def rename(self, name: str, to: str) -> None:
        """Gives one another name, unless that is taken."""
        names = {one.name for one in self.all()}
        if to and to not in names:
            self._write(
                [SavedView(to, one.filter, one.columns) if one.name == name else one for one in self.all()]
            )

    def reset(self) -> None:
        """Those that are given, and no others."""
        self._settings.set(self._setting, {})

    def _write(self, views: Sequence[SavedView]) -> None:
        made = [{"name": one.name, "filter": one.filter, "columns": one.columns} for one in views]
        self._settings.set(self._setting, {"views": made})

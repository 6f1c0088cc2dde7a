"""Every dock of the window as a record; the window, its View menu and its workspaces are made from these.

What belongs here: names, titles, glyphs.  What may not: where a dock stands (``shell.workspaces``), and
importing a view: each is imported when it is first shown, so that a window opens at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from client_gui.desk import Desk
    from client_gui.views.base import View


@dataclass(frozen=True, slots=True)
class DockRecord:
    """One dock.

    Attributes:
        name: Stable: of its layout, its settings, ``Focus.show``.
        title: What its tab and the View menu say.
        glyph: Name of its drawing in ``style.glyphs``.
        factory: ``module:Class`` of the view; imported when first shown.
    """

    name: str
    title: str
    glyph: str
    factory: str

    def make(self, desk: Desk) -> View:
        """Imports and makes the view."""
        module, _, name = self.factory.partition(":")
        view: View = getattr(import_module(module), name)(desk)
        return view


#: In the order of the View menu.
DOCKS: Final[tuple[DockRecord, ...]] = (
    DockRecord("jobs", "Jobs", "jobs", "client_gui.views.jobs:JobsView"),
    DockRecord("job", "Job", "job", "client_gui.views.job:JobView"),
    DockRecord("log", "Log", "log", "client_gui.views.log:LogView"),
    DockRecord("preview", "Preview", "preview", "client_gui.views.preview:PreviewView"),
    DockRecord("why", "Why", "why", "client_gui.views.why:WhyView"),
    DockRecord("nodes", "Nodes", "nodes", "client_gui.views.nodes:NodesView"),
    DockRecord("spend", "Spend", "spend", "client_gui.views.spend:SpendView"),
    DockRecord("plots", "Farm plots", "plots", "client_gui.views.plots:PlotsView"),
    DockRecord("activity", "Activity", "activity", "client_gui.views.activity:ActivityView"),
    DockRecord("submit", "Submit", "submit", "client_gui.views.submit:SubmitView"),
)

#: The page that fills the window while no farm is known or wanted; it has a signal ``connect_to(str)``.
WELCOME: Final = "client_gui.views.welcome:WelcomeView"


def find_dock(name: str) -> DockRecord | None:
    """The record of that name."""
    return next((record for record in DOCKS if record.name == name), None)

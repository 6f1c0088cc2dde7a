"""The list of nodes, as a table or as tiles, and why the selected one is idle.

What belongs here: what is special to nodes.  What may not: what all lists do (``listing``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QAction, QActionGroup, QPalette
from PySide6.QtWidgets import QLabel, QMenu, QToolButton, QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext
from client_gui.desk import Desk
from client_gui.models.column import Shown
from client_gui.models.node_columns import node_shown
from client_gui.models.node_heat import GroupBy, Heat
from client_gui.settings import Setting
from client_gui.store.farmstore import FarmChange
from client_gui.store.filter import NODE_FACETS, NODE_SOURCES, Sources
from client_gui.store.table import Change, Table
from client_gui.style.glyphs import icon
from client_gui.style.lazily import when_seen
from client_gui.views.listing import ListView
from client_gui.views.nodetiles import NodeTiles
from client_gui.views.savedviews import NODE_VIEWS, SavedView
from farm.model.errors import OvercrankError
from farm.model.query import NODES, Query, Vocabulary
from farm.protocol.client import WhyReply, WhyReq
from farm.sdk.words import plural, price_text

FILTER: Final[Setting[str]] = Setting("nodes/filter", "")
TILES: Final[Setting[bool]] = Setting("nodes/tiles", False)
HEAT: Final[Setting[str]] = Setting("nodes/heat", Heat.STATE.value)
GROUP: Final[Setting[str]] = Setting("nodes/group", GroupBy.POOL.value)
#: Why a node is idle is asked again after so long while somebody looks at it.
_WHY_MS: Final = 10_000


class NodesView(ListView):
    """The list of nodes.

    Attributes:
        tiles: The same nodes as tiles.
    """

    name: ClassVar[str] = "nodes"
    title: ClassVar[str] = "Nodes"
    scope: ClassVar[str] = "nodes"
    vocabulary: ClassVar[Vocabulary] = NODES
    sources: ClassVar[Sources] = NODE_SOURCES
    facet_columns: ClassVar[Mapping[str, str]] = NODE_FACETS
    given_views: ClassVar[tuple[SavedView, ...]] = NODE_VIEWS
    likely: ClassVar[tuple[str, ...]] = ("node-drain", "node-enable", "node-set")

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        self._as_tiles = False
        super().__init__(desk, parent)
        settings = desk.settings
        if not self.model.sort_by:
            self.model.set_sort((("name", False),))
        self.tiles = NodeTiles(self.model, desk.theme, self)
        self.tiles.chosen.connect(self._tiles_chosen)
        self.tiles.arrived.connect(self.arrived)
        self.tiles.opened.connect(self.opened)
        self.tiles.menu_wanted.connect(self._tiles_menu)
        self.pages.addWidget(self.tiles)
        self._why_line = QLabel(self)
        self._why_line.setTextFormat(Qt.TextFormat.PlainText)
        self._why_line.setWordWrap(True)
        self._why_line.setVisible(False)
        edge = desk.theme.em(0.4)
        self._why_line.setContentsMargins(edge, desk.theme.em(0.2), edge, 0)
        box = self.layout()
        assert isinstance(box, QVBoxLayout)
        box.insertWidget(2, self._why_line)
        self._why_request = 0
        self._why_timer = QTimer(self)
        self._why_timer.setInterval(_WHY_MS)
        self._why_timer.timeout.connect(self._ask_why)
        self._make_buttons()
        self.bar.set_text(settings.get(FILTER))
        self.bar.queried.connect(self._keep_filter)
        desk.focus.node_changed.connect(self._focus_moved)
        when_seen(desk.theme, self, self._restyle)
        self._restyle()
        self.tiles.set_heat(_choice(Heat, settings.get(HEAT), Heat.STATE))
        self.tiles.set_group_by(_choice(GroupBy, settings.get(GROUP), GroupBy.POOL))
        self.set_tiles(settings.get(TILES))

    def _make_buttons(self) -> None:
        self._switch = QToolButton(self)
        self._switch.setCheckable(True)
        self._switch.setAccessibleName("show nodes as tiles")
        self._switch.setToolTip("Show nodes as tiles")
        self._switch.toggled.connect(self.set_tiles)
        self._how = QToolButton(self)
        self._how.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._how.setAccessibleName("how tiles are coloured and grouped")
        self._how.setToolTip("How tiles are coloured and grouped")
        menu = QMenu(self._how)
        self._add_choices(menu, "Colour by", Heat, HEAT, lambda heat: self.tiles.set_heat(heat))
        self._add_choices(menu, "Group by", GroupBy, GROUP, lambda by: self.tiles.set_group_by(by))
        self._how.setMenu(menu)
        for button in (self._how, self._switch):
            self.bar.extra.addWidget(button)

    def _add_choices(self, menu: QMenu, title: str, kinds: Any, setting: Setting[str], take: Any) -> None:
        menu.addSection(title)
        group = QActionGroup(menu)
        chosen = self.desk.settings.get(setting)
        for kind in kinds:
            act = QAction(str(kind.value), group)
            act.setCheckable(True)
            act.setChecked(kind.value == chosen)

            def pick(_: bool = False, kind: Any = kind) -> None:
                self.desk.settings.set(setting, kind.value)
                take(kind)

            act.triggered.connect(pick)
            menu.addAction(act)

    def _restyle(self) -> None:
        theme = self.desk.theme
        self._switch.setIcon(icon(theme, "grid"))
        self._how.setIcon(icon(theme, "gear"))
        self._why_line.setFont(theme.font(small=True))
        palette = QPalette(self._why_line.palette())
        palette.setColor(QPalette.ColorRole.WindowText, theme.colour("dim"))
        self._why_line.setPalette(palette)

    # -- what it lists --

    def rows(self) -> Table[int]:
        """Nodes of the store."""
        return self.desk.client.store.nodes

    def columns(self) -> Sequence[Shown]:
        """What is known of a node, and what it runs."""
        return node_shown(self.desk.client.store.jobs)

    def change_of(self, change: FarmChange) -> Change[int]:
        """Of nodes."""
        return change.nodes

    def look(self) -> None:
        """Follows the list of nodes."""
        self.desk.client.look(self.looker, nodes=True)

    def farm_changed(self, change: FarmChange) -> None:
        """Takes what changed; names of jobs that are new are looked up anew."""
        super().farm_changed(change)
        if len(change.jobs.inserted):
            self.model.texts_changed()

    def refresh(self) -> None:
        """Puts everything right from the store."""
        super().refresh()
        self._ask_why()

    def hideEvent(self, event: Any) -> None:  # noqa: N802
        """Asks nothing while nobody looks."""
        super().hideEvent(event)
        self._forget_why()

    def _stood(self) -> None:
        super()._stood()
        self.tiles.stale = self.table.cells.stale
        self.tiles.viewport().update()

    def _keep_filter(self, query: Query) -> None:
        self.desk.settings.set(FILTER, str(query))

    # -- tiles --

    def page(self) -> QWidget:
        """The table or the tiles."""
        return self.tiles if self._as_tiles else self.table

    def set_tiles(self, on: bool) -> None:
        """Shows nodes as tiles, or as a table."""
        had = self.page().hasFocus()
        self._as_tiles = on
        self._switch.setChecked(on)
        self._how.setVisible(on)
        self.desk.settings.set(TILES, on)
        self.setFocusProxy(self.page())
        if on:
            self.tiles.arrange()
        self._turn()
        if had:
            self.page().setFocus()

    def _tiles_chosen(self) -> None:
        self.table.select_ids(self.model.selection.ids)

    def _tiles_menu(self, at: QPoint) -> None:
        self._menu(at)

    # -- what somebody does --

    def arrived(self, row_id: int) -> None:
        """Looks at the node."""
        self.desk.focus.set_node(row_id)

    def opened(self, row_id: int) -> None:
        """Looks at what the node runs."""
        self.desk.focus.set_node(row_id)
        slot = self.rows().slot(row_id)
        running: tuple[str, ...] = (self.rows().values("running")[slot] or ()) if slot >= 0 else ()
        job = running[0].partition("/")[0][1:] if running else ""
        if job.isdecimal():
            self.desk.focus.set_job(int(job))
            self.desk.focus.show("job")
        else:
            self.desk.focus.show("why")

    def _focus_moved(self) -> None:
        if self.follow_focus(self.desk.focus.node):
            self.tiles.viewport().update()
        if self.on:
            self._ask_why()

    def context_of(self, ids: tuple[int, ...], hidden: int = 0) -> ActionContext:
        """Nodes."""
        return ActionContext("nodes", nodes=ids, hidden=hidden)

    def totals(self, ids: Sequence[int]) -> str:
        """How many nodes, what they have and how much of it is busy, what they cost an hour."""
        table = self.rows()
        if ids:
            slots = np.array([slot for one in ids if (slot := table.slot(one)) >= 0], np.int32)
            head = f"{len(slots):,} selected"
        else:
            slots = self.model.order.view
            head = plural(len(slots), "node")
        if not len(slots):
            return ""
        cores, free = (int(table.numbers(name)[slots].sum()) for name in ("cores", "cores_free"))
        gpus, gpus_free = (int(table.numbers(name)[slots].sum()) for name in ("gpus", "gpus_free"))
        busy = int((table.numbers("running_count")[slots] > 0).sum())
        parts = [head, f"{busy:,} busy", f"{cores - free:,} of {cores:,} cores at work"]
        if gpus:
            parts.append(f"{gpus - gpus_free:,} of {gpus:,} GPUs at work")
        rate = int(table.numbers("rate_nano_h")[slots].sum())
        if rate:
            parts.append(f"{price_text(rate)} an hour")
        return "  ·  ".join(parts)

    def nothing_yet(self) -> tuple[str, str, str]:
        """No nodes: how to add one."""
        return (
            "No nodes yet",
            "Start an agent on a machine that should render: `farm agent`.",
            "",
        )

    # -- why idle --

    def why_text(self) -> str:
        """What is said of the node somebody looks at."""
        return self._why_line.text() if self._why_line.isVisibleTo(self) else ""

    def _forget_why(self) -> None:
        self._why_timer.stop()
        if self._why_request:
            self.desk.client.forget(self._why_request)
            self._why_request = 0

    def _ask_why(self) -> None:
        self._forget_why()
        node = self.desk.focus.node
        if not self.on or not node or self.rows().slot(node) < 0 or not self.desk.client.live:
            if not node or self.rows().slot(node) < 0:
                self._why_line.setVisible(False)
            return
        self._why_timer.start()
        self._why_request = self.desk.client.ask(
            WhyReq, self, self._why_is, self._why_failed, reply=WhyReply, node=str(node)
        )

    def _why_is(self, reply: WhyReply) -> None:
        self._why_request = 0
        node = self.desk.focus.node
        slot = self.rows().slot(node)
        name = reply.node or (str(self.rows().get(slot, "name")) if slot >= 0 else f"node {node}")
        if reply.reason:
            text = f"{name} {reply.reason}"
        elif reply.work:
            first = reply.work[0]
            cure = f" ({first.cure})" if first.cure else ""
            others = f"; {plural(reply.waiting - 1, 'other step')} waits, too" if reply.waiting > 1 else ""
            others = others.replace("steps waits", "steps wait")
            text = f"{name} does not take {first.address}: {first.reason}{cure}{others}"
        else:
            text = f"{name} is in service and has room; nothing waits in the farm"
        self._say_why(text)

    def _why_failed(self, error: OvercrankError) -> None:
        self._why_request = 0
        self._say_why(f"why it is idle cannot be told: {error.message}")

    def _say_why(self, text: str) -> None:
        self._why_line.setText(text)
        self._why_line.setVisible(True)


def _choice(kinds: Any, word: str, usual: Any) -> Any:
    try:
        return kinds(word)
    except ValueError:
        return usual

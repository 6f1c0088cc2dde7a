"""A dock that is a list: filter on top, table in the middle, what is selected at the foot.

What belongs here: what the lists of jobs and nodes have in common.  What may not: what is special to one.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext
from client_gui.actions.kinds import JUDGED_ALL
from client_gui.desk import Desk
from client_gui.models.column import Shown
from client_gui.models.grouped_model import GroupedModel
from client_gui.models.readying import Readying
from client_gui.store.farmstore import FarmChange, Link
from client_gui.store.filter import Sources, TableFilter, facets
from client_gui.store.groups import GroupKey
from client_gui.store.table import Change, Table
from client_gui.style.glyphs import icon
from client_gui.views.base import View
from client_gui.views.blank import Blank
from client_gui.views.filterbar import FilterBar
from client_gui.views.grouptable import GroupTable
from client_gui.views.savedviews import SavedView, SavedViews
from client_gui.views.selectionbar import SelectionBar
from farm.model.query import Context, Query, Vocabulary

#: Actions of views that lists do.
OF_LISTS: Final = (
    "find",
    "clear-filter",
    "next-view",
    "previous-view",
    "save-view",
    "select-all",
    "select-invert",
    "select-none",
)
#: How often ages are written anew, and filters that change with time are run again.
TICK_MS: Final = 30_000
#: Facets are collected anew when they are older than this.
_FACETS_US: Final = 5_000_000
#: Rows that are still to come are hinted at when they take longer than this.
_SKELETON_MS: Final = 150
#: Lists from this length on get ready for orders of names.
_READY_FROM: Final = 1000
#: Totals of what is selected follow changes of the farm no faster than this.
_FOOT_MS: Final = 120


class ListView(View):
    """A list of the farm.

    Attributes:
        model: Its rows.
        bar: The filter.
        table: The rows on the screen.
        foot: What is selected.
        pages: The table, what stands in for it, and what a list adds.
    """

    #: Of rows in ``ActionContext`` and ``ActionBook.pending``, and of the filter language.
    scope: ClassVar[str] = ""
    vocabulary: ClassVar[Vocabulary]
    sources: ClassVar[Sources]
    facet_columns: ClassVar[Mapping[str, str]]
    given_views: ClassVar[tuple[SavedView, ...]] = ()
    likely: ClassVar[tuple[str, ...]] = ()
    #: Actions of views that it does.
    does: ClassVar[tuple[str, ...]] = OF_LISTS
    #: Columns of texts that are worth getting ready for before anybody sorts by them.
    names: ClassVar[tuple[str, ...]] = ("name",)

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._facets: dict[str, dict[str, int]] = {}
        self._facets_at_us = 0
        self._n_at_look: int | None = None
        self.model: GroupedModel[int] = GroupedModel(
            self.rows(),
            self.columns(),
            desk.client.now_us,
            self._pending,
            parent=self,
            waits=self._waits,
        )
        self.views = SavedViews(desk.settings, self.name, self.given_views)
        self.bar = FilterBar(
            self.vocabulary, self.sources, self.rows(), self.facets, self.views, desk.theme, self
        )
        self.table = GroupTable(self.model, desk.theme, desk.settings, self.name, self)
        self.table.setAccessibleName(f"table of {self.scope}")
        self.blank = Blank(desk.theme, self)
        self.blank.pressed.connect(self.blank_pressed)
        self.foot = SelectionBar(
            desk.actions, self.likely, self.action_context, self.judged_context, desk.theme, self
        )
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self.table)
        self.pages.addWidget(self.blank)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.bar)
        box.addWidget(self.pages, 1)
        box.addWidget(self.foot)
        self.setFocusProxy(self.table)
        self._columns_button = QToolButton(self)
        self._columns_button.setAutoRaise(True)
        self._columns_button.setAccessibleName("columns")
        self._columns_button.setToolTip("Which columns are shown")
        self._columns_button.clicked.connect(self._columns_menu)
        self.bar.extra.addWidget(self._columns_button)
        desk.theme.changed.connect(self._renew_icons)
        self._renew_icons()
        self._wire()

    def _wire(self) -> None:
        client, actions = self.desk.client, self.desk.actions
        self.bar.queried.connect(self._queried)
        self.bar.chosen.connect(self._view_chosen)
        self.bar.save_wanted.connect(self.save_view)
        self.bar.left.connect(self._to_rows)
        self.table.selected.connect(self._selection_changed)
        self.table.arrived.connect(self.arrived)
        self.table.opened.connect(self.opened)
        self.table.menu_wanted.connect(self._menu)
        self.table.fold_wanted.connect(self._fold)
        self.model.held_back.connect(self.foot.hold)
        self.model.edited.connect(self._edited)
        actions.pending_changed.connect(self.model.promises_changed)
        actions.later.changed.connect(self.foot.renew)
        for action in self.does:
            actions.handle(action, partial(_do, weakref.ref(self), action), self)
        client.stood.connect(self._stood)
        client.welcomed.connect(self._welcomed)
        self._readying = Readying(self.model.order, self.names, self)
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self.tick)
        self._skeleton = QTimer(self)
        self._skeleton.setSingleShot(True)
        self._skeleton.setInterval(_SKELETON_MS)
        self._skeleton.timeout.connect(self._turn)
        self._foot_due = QTimer(self)
        self._foot_due.setSingleShot(True)
        self._foot_due.setInterval(_FOOT_MS)
        self._foot_due.timeout.connect(self._renew_foot)

    def _renew_icons(self) -> None:
        self._columns_button.setIcon(icon(self.desk.theme, "more", "dim"))

    def _columns_menu(self) -> None:
        menu = self.table.columns.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._columns_button.mapToGlobal(self._columns_button.rect().bottomLeft()))

    # -- for lists --

    @abstractmethod
    def rows(self) -> Table[int]:
        """The table of the store."""

    @abstractmethod
    def columns(self) -> Sequence[Shown]:
        """Its columns."""

    @abstractmethod
    def change_of(self, change: FarmChange) -> Change[int]:
        """What of a change is this list's."""

    @abstractmethod
    def arrived(self, row_id: int) -> None:
        """Somebody rests on a row."""

    @abstractmethod
    def opened(self, row_id: int) -> None:
        """Somebody opens a row."""

    @abstractmethod
    def totals(self, ids: Sequence[int]) -> str:
        """What is selected, in words."""

    @abstractmethod
    def nothing_yet(self) -> tuple[str, str, str]:
        """What to say when the farm has no rows: heading, advice, words of a button or ""."""

    def blank_pressed(self) -> None:
        """The button of what stands in for the table: clears the filter, unless a list has another."""
        self.bar.clear()

    # -- following --

    def refresh(self) -> None:
        """Puts everything right from the store."""
        self._n_at_look = self.desk.client.store.n
        self._tick.start()
        self._skeleton.start()
        self.model.put_right()
        self.bar.set_context(self.desk.client.now_us(), self.desk.client.user)
        self._queried(self.bar.query)
        self._stood()

    def farm_changed(self, change: FarmChange) -> None:
        """Takes what changed."""
        mine = self.change_of(change)
        if mine:
            self.model.take(mine)
            self.bar.farm_changed(mine)
            self._turn()
            if not self._foot_due.isActive():
                self._foot_due.start()

    def hideEvent(self, event: Any) -> None:  # noqa: N802
        """Nothing ticks while nobody looks."""
        super().hideEvent(event)
        for timer in (self._tick, self._skeleton, self._foot_due):
            timer.stop()
        self._readying.stop()

    def tick(self) -> None:
        """Time went by."""
        self.model.tick()
        self.bar.time_moved(self.model.reading.now_us)
        self._turn()

    def _welcomed(self) -> None:
        if self.on:
            self.bar.set_context(self.desk.client.now_us(), self.desk.client.user)
            self._queried(self.bar.query)

    def _stood(self) -> None:
        if not self.on:
            return
        stale = not self.desk.client.live
        if stale != self.table.cells.stale:
            self.table.cells.stale = stale
            self.table.viewport().update()
        self.foot.renew()
        self._turn()
        if len(self.rows()) >= _READY_FROM and not self.desk.client.feeding:
            self._readying.start()

    # -- the filter --

    def facets(self) -> Mapping[str, Mapping[str, int]]:
        """Values that rows have now, for completion."""
        now_us = self.desk.client.now_us()
        if not self._facets or now_us - self._facets_at_us > _FACETS_US:
            self._facets = facets(self.rows(), self.facet_columns)
            self._facets_at_us = now_us
        return self._facets

    def _queried(self, query: Query) -> None:
        client = self.desk.client
        if not query:
            self.model.set_filter(None)
        else:
            context = Context(client.now_us(), client.user)
            self.model.set_filter(TableFilter(self.rows(), query, self.sources, context))
        self._turn()
        self._renew_foot()

    def _view_chosen(self, view: SavedView) -> None:
        if view.columns:
            self.table.columns.apply(view.columns)

    def kept(self) -> dict[str, Any]:
        """What a saved view keeps besides the filter."""
        return self.table.columns.kept()

    def save_view(self, name: str) -> None:
        """Keeps filter and columns as a view."""
        self.views.save(SavedView(name, str(self.bar.query), self.kept()))
        self.bar.rebuild_views()

    def _to_rows(self) -> None:
        self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        selection, order = self.model.selection, self.model.order
        # One that the filter has hidden is not what the next key is meant for; several were chosen with care.
        lost = len(selection) <= 1 and (selection.current is None or order.row_of(selection.current) < 0)
        if len(order) and (lost or not self.table.currentIndex().isValid()):
            # The first row, not the header above it, which means a whole group.
            first = 1 if len(order) > 1 and order.slot_at(0) < 0 <= order.slot_at(1) else 0
            self.table.go_to(order.key_at(first))

    # -- what is selected --

    def action_context(self) -> ActionContext:
        """What is selected, by itself or with its group; else the current row."""
        selection, order = self.model.selection, self.model.order
        ids, current = selection.acting(order), selection.current
        if not ids and current is not None and order.row_of(current) >= 0:
            ids = order.ids_of(order.slots_of(current)) if isinstance(current, GroupKey) else [current]
        return self.context_of(tuple(ids), selection.hidden(order))

    def judged_context(self) -> ActionContext:
        """What is asked whether actions are possible: of very many rows one of each kind."""
        selection, order = self.model.selection, self.model.order
        if selection.count(order) <= JUDGED_ALL:
            return self.action_context()
        ids = selection.acting(order) if selection.groups else selection.ids
        return self.desk.actions.sample(self.context_of(tuple(ids)))

    @abstractmethod
    def context_of(self, ids: tuple[int, ...], hidden: int = 0) -> ActionContext:
        """Some rows as what actions act on."""

    def follow_focus(self, row_id: int) -> bool:
        """Goes to a row that was chosen elsewhere, unless that would undo a selection of several."""
        selection = self.model.selection
        if not row_id or row_id == self.table.current_id() or len(selection) > 1 or selection.groups:
            return False
        return self.model.row_of(row_id) >= 0 and self.table.go_to(row_id)

    def _selection_changed(self) -> None:
        if not self._foot_due.isActive():
            self._foot_due.start(0 if self.table.hasFocus() else _FOOT_MS)

    def _renew_foot(self) -> None:
        selection = self.model.selection
        ids = selection.acting(self.model.order) if selection.groups else sorted(selection.ids)
        self.foot.say(self.totals(ids))
        self.foot.renew()
        self._say_shown()

    def _say_shown(self) -> None:
        order = self.model.order
        grouped = order.groups is not None
        hidden = self.model.selection.hidden(order) if self.bar.query or grouped else 0
        self.bar.say_shown(len(order.listed if grouped else order), len(self.rows()), hidden)

    def _pending(self, row_id: Hashable, field: str) -> str | None:
        return self.desk.actions.pending(self.scope, row_id, field)

    def _waits(self, row_id: Hashable, field: str) -> bool:
        return self.desk.actions.waits(self.scope, row_id, field)

    def _edited(self, column: Shown, row_id: int, value: str) -> None:
        self.desk.actions.run(column.edit, self.context_of((row_id,)), value)

    def _menu(self, at: QPoint) -> None:
        # The book tells ``hold_still`` and ``let_go`` when it opens and closes.
        self.desk.actions.menu(self.action_context(), self).popup(at)

    def _fold(self, key: GroupKey | None, closed: bool) -> None:
        self.model.fold(None if key is None else [key], closed=closed)

    def hold_still(self) -> None:
        """Rows keep their places from now on."""
        self.table.hold_still()

    def let_go(self) -> None:
        """Rows may move again."""
        self.table.let_go()

    # -- what stands in for the table --

    def page(self) -> QWidget:
        """What is shown when there are rows."""
        return self.table

    def _turn(self) -> None:
        """Shows the rows, or why there are none."""
        self._say_shown()
        if len(self.model.order):
            self._show(self.page())
            return
        client = self.desk.client
        store = client.store
        have = len(self.rows())
        came = store.n is not None and store.n != self._n_at_look and not client.feeding
        if have:
            one = have == 1
            what = self.scope[:-1] if one else self.scope
            number = "the only one" if one else f"all {have:,}"
            self.blank.say(
                f"The filter hides {number if one else f'{number} {what}'}",
                f"It asks for {self.bar.query.explain()}",
                "Clear filter",
            )
        elif store.link is Link.REFUSED:
            self.blank.say("The farm does not let this client in", store.trouble)
        elif came or (
            client.live and store.heard_us and not self._skeleton.isActive() and store.n is not None
        ):
            self.blank.say(*self.nothing_yet())
        elif store.link in (Link.LOST, Link.CONNECTING) and store.trouble:
            self.blank.say(f"No {self.scope} to show yet: the farm cannot be reached", store.trouble)
        elif self._skeleton.isActive():
            # Most farms answer before anything had to be said.
            self._show(self.page())
            return
        else:
            self.blank.say("")
        self._show(self.blank)

    def _show(self, page: QWidget) -> None:
        before = self.pages.currentWidget()
        if before is page:
            return
        focus = QApplication.focusWidget()
        had = bool(before is not None and focus and (focus is before or before.isAncestorOf(focus)))
        # Whoever gives the list the keys must not give them to what is hidden: nobody would have them.
        self.setFocusProxy(page)
        self.pages.setCurrentWidget(page)
        if had:
            page.setFocus(Qt.FocusReason.OtherFocusReason)

    # -- keys --

    def do(self, action: str) -> bool:
        """Does an action of views (``find``, ``clear-filter``, ``next-view`` ...); False for others."""
        match action:
            case "find":
                self.bar.focus_field()
            case "clear-filter":
                self.bar.edit.escape()
            case "next-view":
                self.bar.next_view(1)
            case "previous-view":
                self.bar.next_view(-1)
            case "save-view":
                self.bar.ask_name()
            case "select-all":
                self.model.selection.select_all(self.model.order)
                self.table.show_selection()
            case "select-invert":
                self.model.selection.invert(self.model.order)
                self.table.show_selection()
            case "select-none":
                self.table.select_ids(())
            case _:
                return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """What the window has not taken before: keys of the list itself."""
        key, control = event.key(), bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if event.text() == "/" or (control and key == Qt.Key.Key_F):
            self.do("find")
        elif key == Qt.Key.Key_Escape:
            self.do("clear-filter")
        elif control and key == Qt.Key.Key_Tab:
            self.do("next-view")
        else:
            super().keyPressEvent(event)


def _do(view: weakref.ref[ListView], action: str, context: ActionContext, value: str) -> None:
    """Does an action of a view that may be gone: the book outlives every window."""
    if (found := view()) is not None:
        found.do(action)

"""Every action of the client by its id, and what keys, menus and buttons make of them.

What belongs here: the interface views and the shell use: is it possible now, why not, do it, what is under
way, what can be taken back.  What may not: the rules (``possible``), requests (``plan``, ``doing``), and how
sheets look.

A view hands its selection over (``View.action_context``) and asks for a menu, a button or a run.  What only a
view or the shell can do (find, zoom, select all ...) they take with ``handle``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import shiboken6
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractButton, QApplication, QMenu, QWidget

from client_gui.actions import finding
from client_gui.actions.buttons import action_button
from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext
from client_gui.actions.doing import Doer
from client_gui.actions.facts import Facts, JobFacts
from client_gui.actions.handlers import Handler, Handlers
from client_gui.actions.judging import Judging, who_asks
from client_gui.actions.keys import KeyMap
from client_gui.actions.keysheet import KeySheet
from client_gui.actions.later import Later
from client_gui.actions.looking import Looking
from client_gui.actions.marks import Marks
from client_gui.actions.menus import context_menu, fill_menu, label_of
from client_gui.actions.palette import Palette, Source
from client_gui.actions.plan import Plan, plan_steps
from client_gui.actions.possible import needs_value, why_not_one
from client_gui.actions.prompts import FieldSheet, Given, PrioritySheet
from client_gui.actions.records import BY_ID, Menu, Record, Value
from client_gui.actions.sheet import Sheet
from client_gui.actions.shortcuts import Shortcuts
from client_gui.actions.slices import Slices
from client_gui.actions.takeback import undo_steps
from client_gui.desk import Focus
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Setting, Settings
from client_gui.store.activity import Level
from client_gui.store.undo import Undo
from client_gui.style.theme import Theme

#: Keys somebody chose, by action.
KEYS: Final[Setting[dict[str, Any]]] = Setting("keys", {})
#: What was chosen in the palette, newest first.
RECENT: Final[Setting[list[Any]]] = Setting("palette/recent", [])
RECENT_MOST: Final = 30


class ActionBook(QObject):
    """Every action by its id.

    Args:
        client: The farm.
        focus: What is looked at.
        notices: Who is told.
        settings: What is remembered.
        parent: Its owner.
        shared: The book of all windows: marks, keys, what is under way and what can be taken back are its
            own.

    Attributes:
        theme: The look of sheets; the shell puts its own here before the first one opens.
        marks: Stars, bells and colours of jobs.
        keymap: Keys in force.
        doer: What is under way.
        later: What waits until the farm is back.
    """

    #: What is shown as under way changed: pending cells (``pending``) are to be painted anew.
    pending_changed = Signal()
    #: What can be taken back changed (``offer``).
    offer_changed = Signal()
    #: An action of a view or of the shell was asked for: id, context, value.
    invoked = Signal(str, object, str)
    #: Keys were changed: menus are to be made anew.
    keys_changed = Signal()

    def __init__(
        self,
        client: FarmClient,
        focus: Focus,
        notices: Notices,
        settings: Settings,
        parent: QObject | None = None,
        shared: ActionBook | None = None,
    ) -> None:
        super().__init__(parent)
        self.client = client
        self.focus = focus
        self.notices = notices
        self.settings = settings
        self.theme: Theme | None = None
        self.marks: Marks = Marks(client, notices, settings, self) if shared is None else shared.marks
        self.keymap: KeyMap = KeyMap(settings.get(KEYS)) if shared is None else shared.keymap
        self.doer: Doer = Doer(client, notices, self) if shared is None else shared.doer
        self.later: Later = (
            Later(client, notices, settings, self.doer, partial(who_asks, client), self)
            if shared is None
            else shared.later
        )
        self._judging = Judging(client, self.later, lambda: self.offer is not None, self._nobody_does)
        self.looking = Looking(client, focus, notices, self.marks, self)
        self._own: dict[str, Callable[[ActionContext], object]] = self.looking.actions() | {
            "palette": lambda context: self.open_palette(),
            "shortcuts": lambda context: self.open_keys(),
            "waiting": lambda context: focus.show("activity"),
            "waiting-send": lambda context: self.later.send(),
            "waiting-drop": lambda context: self.later.take_back_all(),
        }
        self._handlers = Handlers()
        self._sources: list[Source] = []
        self._windows: list[QWidget] = []
        self._shortcuts: list[Shortcuts] = []
        self._sheet: Sheet | None = None
        self._menu: QMenu | None = None
        self._slices = Slices(self)
        client.moved.connect(self._moved)
        self.doer.pending_changed.connect(self.pending_changed)
        self.doer.offer_changed.connect(self.offer_changed)
        self.later.changed.connect(self.pending_changed)
        settings.changed.connect(self._setting_changed)

    # -- may it be done --

    def why_not(self, action: str, context: ActionContext) -> str:
        """Why an action is not possible with what is selected; "" when it is."""
        return self.judge(context)(action)

    def judge(self, context: ActionContext) -> Callable[[str], str]:
        """``why_not`` for one selection, which is looked up once for all actions that are asked for.

        Of very many rows one of each kind is looked at.  What it says is of this moment: not to be kept.
        """
        return self._judging.judge(context)

    def sample(self, context: ActionContext) -> ActionContext:
        """Some of a selection that stand for all of it when it is asked what is possible."""
        return self._judging.sample(context)

    def possible(self, action: str, context: ActionContext) -> bool:
        """Whether an action is possible with what is selected."""
        return not self.why_not(action, context)

    # -- do it --

    def run(
        self,
        action: str,
        context: ActionContext,
        value: str = "",
        before: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Does it, if it is possible; says so otherwise.

        What cannot be taken back is asked about first, and what needs a value is asked for it, in sheets over
        the window; then this has returned long before anything is sent.  Of very many rows what is to be sent
        is worked out in slices, after it has returned.

        Args:
            action: Its id.
            context: What it acts on.
            value: A priority, or settings as a JSON object of texts; "" = ask.
            before: What the settings were, by address, as whoever gives ``value`` knows: for undo.
        """
        reason = self.why_not(action, context)
        if reason:
            record = BY_ID.get(action)
            what = self.text(action) if record is not None else action
            self.notices.say(f"{what}: {reason}", Level.WARNING)
            return
        record = BY_ID[action]
        if action == "undo":
            self.take_back()
        elif record.changes:
            count = len(context.jobs) + len(context.units) + len(context.nodes)
            given = Given(value, before=dict(before or {}))
            self._slices.do(self._judging.gather(context), count, partial(self._gathered, record, given))
        else:
            self._dispatch(record, context, value)

    def handle(self, action: str, do: Handler, owner: QObject | None = None) -> None:
        """Takes an action that only a view or the shell can do, or one this book does otherwise.

        Args:
            action: Its id.
            do: What to do; takes context and value.
            owner: Whose it is.  Of several views the one with the focus is asked, else the one that came
                last; without an owner it is for everybody.  A deleted owner takes nothing any more.
        """
        if action not in BY_ID:
            raise ValueError(f"there is no action {action!r}")
        self._handlers.add(action, do, owner)

    def take_back(self, number: int | None = None) -> None:
        """Takes back what was done last, or what an undo of that number is about.

        While the farm is away that is what was asked last and waits for it.
        """
        if number is None and self.later.waits and (not self.client.live or self.offer is None):
            self.later.take_back_last()
            return
        if not self.client.live:
            self.notices.say("Undo: not connected", Level.WARNING)
            return
        undo = self.doer.take(number)
        if undo is None:
            self.notices.say("That cannot be taken back any more", Level.WARNING)
            return
        steps = undo_steps(undo, self.client.store, self._judging.who())
        self._slices.do(steps, len(undo.acts), self._undo_planned)

    @property
    def offered(self) -> frozenset[int]:
        """Numbers of everything that can be taken back now."""
        return self.doer.offered

    @property
    def offer(self) -> Undo | None:
        """What can be taken back now, with until when; ``offer_changed`` tells when it is another."""
        return self.doer.offer

    # -- what is under way --

    def pending(self, kind: str, row_id: object, field: str) -> str | None:
        """What a cell is about to become (``jobs``, 12, ``state`` -> ``paused``), None when nothing is.

        Kinds are ``jobs``, ``steps``, ``nodes`` and ``units``; of these the row is ``("J12/beauty", 41)``.
        Fields are columns of the store's tables; whether a node takes work is shown as its ``state``.
        """
        under_way = self.doer.cells.shown(kind, row_id, field)
        return under_way if under_way is not None else self.later.waits.shown(kind, row_id, field)

    def waits(self, kind: str, row_id: object, field: str) -> bool:
        """Whether what a cell is about to become (``pending``) waits for the farm to be back."""
        if not self.later.waits or self.doer.cells.shown(kind, row_id, field) is not None:
            return False
        return self.later.waits.shown(kind, row_id, field) is not None

    def unsure(self, kind: str, row_id: object, field: str) -> bool:
        """Whether what a cell is about to become got no answer, so that nobody knows yet."""
        return self.doer.cells.unsure(kind, row_id, field)

    # -- menus, buttons, keys --

    def text(self, action: str) -> str:
        """What an action is called in menus."""
        record = BY_ID.get(action)
        return record.text if record is not None else action.replace("-", " ").capitalize()

    def menu(self, context: ActionContext, parent: QWidget) -> QMenu:
        """The context menu of what is selected; to be opened with ``popup``, which does not wait.

        While it is open, rows must not move under it: the nearest widget from ``parent`` outwards that has
        ``hold_still`` and ``let_go`` (or ``freeze`` and ``thaw``), called without arguments, is told when it
        opens and after it closed.  The menu means what was selected when it was made.
        """
        self._menu = context_menu(context, parent, self.keymap, self.judge(context), self.run)
        return self._menu

    def fill_menu(self, menu: QMenu, which: Menu, context: Callable[[], ActionContext] | None = None) -> None:
        """Fills a menu of the menu bar; call it from its ``aboutToShow``, since reasons change."""
        meant = (context or self.current_context)()
        fill_menu(
            menu,
            which,
            self.keymap,
            self.judge(meant),
            lambda action: self.run(action, meant),
        )

    def label(self, action: str) -> str:
        """Text and key of an action, as an entry of a menu says it."""
        return label_of(BY_ID[action], self.keymap)

    def button(
        self,
        action: str,
        context: Callable[[], ActionContext],
        parent: QWidget,
        judged: Callable[[], ActionContext] | None = None,
    ) -> QAbstractButton:
        """A button for an action: grey with the reason as its tip while it is not possible.

        Args:
            action: Its id.
            context: What it would act on, asked when the button is pressed.
            parent: Where the button stands.
            judged: Some of it that stand for all, asked whether it is possible.
        """
        return action_button(self, action, context, judged or context, parent)

    def watch(self, window: QWidget) -> None:
        """Hears the keys of a window and opens sheets over it; once for every window of the shell."""
        self._windows.append(window)
        shortcuts = Shortcuts(window, lambda: self.keymap, self.press)
        self._shortcuts.append(shortcuts)
        window.destroyed.connect(partial(self._unwatch, window, shortcuts))

    def press(self, key: str) -> None:
        """Does what a key means with what is selected in the view that has the focus."""
        context = self.current_context()
        record = self.keymap.meant(key, context.scope)
        if record is not None:
            self.run(record.id, context)

    def set_keys(self, action: str, keys: Iterable[str]) -> None:
        """Gives an action other keys, and remembers it.

        Raises:
            UnknownName: There is no such action.
            CallError: One is no key, or means something else already; says what.
        """
        self.keymap.change(action, keys)
        self.settings.set(KEYS, dict(self.keymap.chosen()))

    def current_context(self) -> ActionContext:
        """What is selected in the view that has the focus; nothing when none has it."""
        at = QApplication.focusWidget()
        while at is not None:
            found = getattr(at, "action_context", None)
            if callable(found):
                context = found()
                if isinstance(context, ActionContext):
                    return context
            at = at.parentWidget()
        return ActionContext()

    # -- sheets --

    def open_palette(self) -> None:
        """Opens the palette over the window that has the focus."""
        context = self.current_context()
        host = self._host()
        if host is None:
            return
        store = self.client.store
        why_not = self.judge(context)
        sources: list[Source] = [
            lambda query: finding.actions(context, self.keymap, why_not, self.run),
            *self._sources,
            lambda query: finding.jobs(query, store, self.looking.job),
            lambda query: finding.nodes(query, store, self.looking.node),
        ]
        recent = [key for key in self.settings.get(RECENT) if isinstance(key, str)]
        self._open(Palette(host, self._theme(), sources, recent, self._chosen))

    def add_source(self, source: Source) -> None:
        """Lets the palette find more: docks and saved views; gives ``palette.Entry`` for a query."""
        self._sources.append(source)

    def open_keys(self) -> None:
        """Opens the sheet of keys over the window that has the focus."""
        host = self._host()
        if host is not None:
            self._open(KeySheet(host, self._theme(), self.keymap, self.set_keys))

    # -- inside --

    def _setting_changed(self, name: str) -> None:
        """Keys were changed, in this window or another."""
        if name == KEYS.name:
            for shortcuts in self._shortcuts:
                shortcuts.renew()
            self.keys_changed.emit()

    def _theme(self) -> Theme:
        if self.theme is None:
            self.theme = Theme("dark", self)
        return self.theme

    def _host(self) -> QWidget | None:
        """The window a sheet belongs over."""
        focus = QApplication.focusWidget()
        active = focus.window() if focus is not None else QApplication.activeWindow()
        if active is not None and (active in self._windows or not self._windows):
            return active
        return next((one for one in reversed(self._windows) if one.isVisible()), None) or active

    def _open(self, sheet: ConfirmSheet | PrioritySheet | FieldSheet | Palette | KeySheet) -> None:
        self._close_sheet()
        self._sheet = sheet
        sheet.open()

    def _close_sheet(self) -> None:
        if self._sheet is not None and shiboken6.isValid(self._sheet) and self._sheet.isVisible():
            self._sheet.close_with(False)

    def _ask_value(self, record: Record, facts: tuple[Facts, ...]) -> None:
        who = self._judging.who()
        able = [one for one in facts if not why_not_one(record, one, who)]
        host = self._host()
        if host is None:
            self.notices.say(
                f"{record.text}: there is no window to ask for {record.value.value}", Level.ERROR
            )
            return
        take = partial(self._start, record, facts)
        if record.value is Value.PRIORITY:
            jobs = [one for one in able if isinstance(one, JobFacts)]
            self._open(PrioritySheet(host, self._theme(), jobs, who.role, take))
        else:
            away = not who.live
            self._open(FieldSheet(host, self._theme(), self.client, able, who.role, take, away))

    def _gathered(self, record: Record, given: Given, facts: tuple[Facts, ...]) -> None:
        if needs_value(record) and not given.value:
            self._ask_value(record, facts)
        else:
            self._start(record, facts, given)

    def _start(self, record: Record, facts: tuple[Facts, ...], given: Given) -> None:
        steps = plan_steps(record, facts, self._judging.who(), given.value, given.before)
        self._slices.do(steps, len(facts), partial(self._planned, record, given))

    def _planned(self, record: Record, given: Given, plan: Plan) -> None:
        if not plan.items:
            reason = plan.left_out[0][1] if plan.left_out else "nothing is selected"
            self.notices.say(f"{record.text}: {reason}", Level.WARNING)
            return
        host = self._host()
        if plan.question is None:
            self._do(plan, given.reason, given.force)
        elif host is not None:
            self._open(ConfirmSheet(host, self._theme(), self.client, plan.question, partial(self._do, plan)))
        else:
            self.notices.say(f"{record.text}: there is no window to ask in", Level.ERROR)

    def _do(self, plan: Plan, reason: str, force: bool = False) -> None:
        if self.later.takes(plan):
            self.later.put(plan, reason)
            return
        if not self.client.live:
            self.notices.say(f"{plan.record.text}: not connected, nothing was sent", Level.ERROR)
            return
        self.later.replaced_by(plan)
        self.doer.start(plan, reason, force=force)

    def _undo_planned(self, plan: Plan) -> None:
        self._do(plan, "")

    def _moved(self) -> None:
        """Another farm: what was asked, chosen or being worked out is about the one before."""
        self._slices.forget()
        if isinstance(self._sheet, ConfirmSheet | PrioritySheet | FieldSheet):
            self._close_sheet()
        if self._menu is not None and shiboken6.isValid(self._menu):
            self._menu.close()

    def _chosen(self, key: str) -> None:
        recent = [key, *(one for one in self.settings.get(RECENT) if one != key)]
        self.settings.set(RECENT, recent[:RECENT_MOST])

    def _unwatch(self, window: QWidget, shortcuts: Shortcuts, *_: object) -> None:
        self._windows = [one for one in self._windows if one is not window]
        self._shortcuts = [one for one in self._shortcuts if one is not shortcuts]

    # -- what is no request --

    def _nobody_does(self, record: Record) -> str:
        """Why a client's own action cannot be done now: nobody here does it."""
        if record.id in self._own:
            return ""
        if self._handlers.of(record.id) is not None or self.receivers("2invoked(QString,PyObject,QString)"):
            return ""
        return "nothing that is open does that"

    def _dispatch(self, record: Record, context: ActionContext, value: str) -> None:
        handler = self._handlers.of(record.id)
        if handler is not None:
            handler(context, value)
        elif (own := self._own.get(record.id)) is not None:
            own(context)
        self.invoked.emit(record.id, context, value)

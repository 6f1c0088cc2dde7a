"""Menus made from the records: of what is selected, and those of the window.

What belongs here: which entries a menu has and what a disabled one says.  What may not: what an entry does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from client_gui.actions.context import ActionContext
from client_gui.actions.keys import KeyMap
from client_gui.actions.keysheet import shown
from client_gui.actions.records import RECORDS, Menu, Record, works_on_rows

#: Most entries a context menu shows at once, More among them.
TOP_MOST: Final = 12


def label_of(record: Record, keymap: KeyMap) -> str:
    """What an entry says: its text, and its key where keys stand.

    The key is text only: a window hears its keys itself (``shortcuts``).
    """
    key = keymap.shown(record.id)
    text = record.text.replace("&", "&&")
    return f"{text}\t{shown(key)}" if key else text


def context_menu(
    context: ActionContext,
    parent: QWidget,
    keymap: KeyMap,
    why_not: Callable[[str], str],
    run: Callable[[str, ActionContext], object],
) -> QMenu:
    """The menu of what is selected: a dozen entries, the rest under More; rows stand still meanwhile."""
    menu = QMenu(parent)
    menu.setToolTipsVisible(True)
    menu.setAccessibleName(f"Actions on {context.scope or 'nothing'}")
    wanted = [record for record in RECORDS if context.scope in {one.value for one in record.scopes}]
    if not context.scope:
        wanted = [record for record in RECORDS if record.menu is Menu.EDIT and not works_on_rows(record)]
    tops = [record for record in wanted if record.top or not context.scope][: TOP_MOST - 1]
    rest = [record for record in wanted if record not in tops]
    before: Menu | None = None
    for record in tops:
        if before is not None and record.menu is not before:
            menu.addSeparator()
        before = record.menu
        menu.addAction(_entry(record, menu, context, keymap, why_not, run))
    if rest:
        menu.addSeparator()
        more = menu.addMenu("More")
        more.setToolTipsVisible(True)
        for record in rest:
            more.addAction(_entry(record, more, context, keymap, why_not, run))
    _stand_still(menu, parent)
    menu.aboutToHide.connect(menu.deleteLater)
    return menu


def _entry(
    record: Record,
    menu: QMenu,
    context: ActionContext,
    keymap: KeyMap,
    why_not: Callable[[str], str],
    run: Callable[[str, ActionContext], object],
) -> QAction:
    action = QAction(label_of(record, keymap), menu)
    action.setObjectName(record.id)
    reason = why_not(record.id)
    action.setEnabled(not reason)
    told = f"Not possible: {reason}" if reason else record.summary
    action.setToolTip(told)
    action.setStatusTip(told)
    action.triggered.connect(lambda _checked=False: run(record.id, context))
    return action


def _stand_still(menu: QMenu, parent: QWidget) -> None:
    """Lets no row move under the menu, where the list it belongs to can stand still.

    That is the nearest widget around the menu with ``hold_still`` and ``let_go``, or ``freeze`` and ``thaw``.
    """
    at: QWidget | None = parent
    while at is not None:
        for hold, release in (("hold_still", "let_go"), ("freeze", "thaw")):
            holds, releases = getattr(at, hold, None), getattr(at, release, None)
            if callable(holds) and callable(releases):
                menu.aboutToShow.connect(lambda holds=holds: holds())
                # What was chosen is done first: it means the rows as they were seen.
                menu.aboutToHide.connect(
                    lambda owner=at, releases=releases: QTimer.singleShot(0, owner, releases)
                )
                return
        at = at.parentWidget()


def fill_menu(
    menu: QMenu,
    which: Menu,
    keymap: KeyMap,
    why_not: Callable[[str], str],
    run: Callable[[str], object],
) -> None:
    """Fills a menu of the menu bar; to be done when it is about to open, since reasons change."""
    menu.clear()
    menu.setToolTipsVisible(True)
    for record in RECORDS:
        if record.menu is not which:
            continue
        action = QAction(label_of(record, keymap), menu)
        action.setObjectName(record.id)
        reason = why_not(record.id)
        action.setEnabled(not reason)
        told = f"Not possible: {reason}" if reason else record.summary
        action.setToolTip(told)
        action.setStatusTip(told)
        action.triggered.connect(lambda _checked=False, name=record.id: run(name))
        menu.addAction(action)

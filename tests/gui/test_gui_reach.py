"""Everybody can reach everything: by Tab, by name, and without windows that nobody asked for.

What belongs here: what holds for all docks and sheets alike.  What may not: what one of them shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QMenuBar,
    QTabBar,
    QTabWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from client_gui.actions.sheet import Sheet
from client_gui.net.port import Standing
from client_gui.shell.windows import Windows
from client_gui.store.farmstore import Link
from client_gui.style.dress import Dress
from client_gui.views.base import View
from client_gui.views.registry import DOCKS, DockRecord
from tests.support.gui_docks import SECOND, at_work, every, said, shown
from tests.support.gui_rig import Rig


class Whole:
    """A window as it is opened, with a farm at work."""

    def __init__(self, qtbot: QtBot, app: QApplication) -> None:
        self.bot = qtbot
        self.rig = Rig()
        self._dress = Dress(app, self.rig.theme)
        rig = self.rig
        self.windows = Windows(rig.client, rig.notices, rig.settings, rig.theme, parent=rig.client)
        self.window = self.windows.restore()
        self.window.resize(1500, 950)
        rig.focus = self.window.desk.focus
        at_work(rig)
        self.settle()

        def active() -> bool:
            self.window.activateWindow()
            self.settle()
            return self.window.isActiveWindow()

        qtbot.waitUntil(active)

    def settle(self) -> None:
        for _ in range(3):
            QApplication.processEvents()
            self.rig.settle()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def open(self, name: str) -> View:
        """A dock in front, with something in it."""
        self.window.show_dock(name)
        self.settle()
        view = self.window.room.docks[name].view
        self.bot.waitUntil(lambda: bool(said(view)))
        self.settle()
        return view

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        self.bot.keyClick(QApplication.focusWidget() or self.window, key, modifier)
        self.settle()

    def close(self) -> None:
        self.windows.quit()
        self.settle()
        self._dress.take_off()
        self.rig.close()


@pytest.fixture
def whole(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Whole]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Whole(qtbot, qapp)
    yield found
    found.close()


#: Parts of Qt's own widgets, which speak for the widget they are in.
_PARTS = (
    "qt_scrollarea_viewport",
    "qt_spinbox_lineedit",
    "qt_tabwidget_stackedwidget",
    "qt_menubar_ext_button",
    "qt_tabwidget_tabbar",
)


def takes_keys(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.isEnabled()


def spoken(widget: QWidget) -> str:
    """What a screen reader calls it."""
    for name in ("text", "currentText", "placeholderText"):
        said_of = getattr(widget, name, None)
        if callable(said_of) and not widget.accessibleName() and name != "currentText" and said_of():
            return str(said_of())
    return widget.accessibleName()


def nameless(top: QWidget) -> list[str]:
    """What can have the keys, or be pressed, and has no name."""
    found = []
    for widget in shown(top):
        if widget.objectName() in _PARTS or isinstance(widget, QHeaderView | QMenuBar):
            continue
        if isinstance(widget.parent(), QLineEdit | QAbstractSpinBox | QComboBox):
            continue
        matters = takes_keys(widget) or isinstance(widget, QAbstractButton)
        if isinstance(widget, QAbstractScrollArea) and not takes_keys(widget):
            matters = False
        if matters and not spoken(widget).strip():
            path, at = [], widget
            while at is not None and len(path) < 4:
                path.append(f"{type(at).__name__}({at.objectName()})")
                at = at.parentWidget()
            found.append(" in ".join(path))
    return found


@every()
def test_everything_that_can_have_the_keys_has_a_name(whole: Whole, record: DockRecord) -> None:
    view = whole.open(record.name)
    assert nameless(view) == []
    for tabs in shown(view, QTabWidget):
        for place in range(tabs.count()):
            tabs.setCurrentIndex(place)
            whole.settle()
            assert nameless(view) == [], tabs.tabText(place)


def test_bars_banners_and_toasts_have_names(whole: Whole) -> None:
    whole.rig.notices.say("J12 is paused", undo=1)
    whole.rig.give(Standing(Link.LOST, "no answer", "is the broker up?", "farm-unreachable", 4.0))
    whole.rig.now_us += 60 * SECOND
    whole.windows.tick()
    whole.settle()
    assert nameless(whole.window) == []


#: Actions that open a sheet, or a page, over the window.
SHEETS = ("palette", "shortcuts", "settings", "help", "connect", "priority", "set", "cancel")


@pytest.mark.parametrize("sheet", SHEETS)
def test_sheets_have_names_and_esc_closes_them(whole: Whole, sheet: str) -> None:
    whole.open("jobs")
    whole.press(Qt.Key.Key_Home)
    context = whole.window.desk.actions.current_context()
    assert context.jobs == (12,)
    whole.rig.actions.theme = whole.rig.theme
    whole.window.desk.actions.run(sheet, context)
    whole.settle()
    assert nameless(whole.window) == []
    sheets = shown(whole.window, Sheet)
    if sheet == "connect":
        return
    assert sheets, sheet
    at = QApplication.focusWidget()
    assert at is not None
    assert sheets[0].isAncestorOf(at), "the sheet has the keys"
    # Tab stays in it and comes round: behind it nothing can be meant.
    seen = []
    for _ in range(400):
        whole.press(Qt.Key.Key_Tab)
        now = QApplication.focusWidget()
        assert now is not None
        assert sheets[0].isAncestorOf(now), f"Tab left the sheet for {now}"
        if now in seen:
            break
        seen.append(now)
    else:
        raise AssertionError("Tab does not come round")
    whole.press(Qt.Key.Key_Escape)
    assert not shown(whole.window, Sheet)


@every()
def test_tab_goes_through_a_dock_and_out_of_it(whole: Whole, record: DockRecord) -> None:
    """By Tab everything in a dock is reached that takes keys, and no widget keeps them."""
    view = whole.open(record.name)
    start = QApplication.focusWidget()
    assert start is not None
    assert view.isAncestorOf(start) or start is view or start.isAncestorOf(view), "the dock has the keys"
    reached: list[QWidget] = []
    outside = 0
    now: QWidget | None = start
    for _ in range(400):
        if now is None or now in reached:
            break
        reached.append(now)
        outside += not (view.isAncestorOf(now) or now is view)
        before = now
        whole.press(Qt.Key.Key_Tab, Qt.KeyboardModifier.NoModifier)
        now = QApplication.focusWidget()
        if now is before:
            whole.press(Qt.Key.Key_Tab, Qt.KeyboardModifier.ControlModifier)
            now = QApplication.focusWidget()
            assert now is not before, f"{type(before).__name__} {before.accessibleName()!r} keeps the keys"
    assert outside, f"Tab never leaves the dock: {[_called(one) for one in reached]}, then {_called(now)}"
    # A dock may be given the keys where Tab does not lead; all else is on the way round.
    ring = reached[reached.index(now) :] if now in reached else []
    strays = [one for one in reached if one not in ring and takes_keys(one) and one.isVisible()]
    assert not strays, f"Tab comes to {_called(now)} again, not to {[_called(one) for one in strays]}"
    wanted = [
        widget
        for widget in shown(view)
        if takes_keys(widget) and widget.focusProxy() is None and not isinstance(widget, QTabBar)
    ]
    missed = [
        f"{type(w).__name__} {spoken(w)!r}" for w in wanted if w not in reached and not _in_group(w, reached)
    ]
    assert not missed, f"only the mouse reaches {missed}"


def _called(widget: QWidget | None) -> str:
    return "nothing" if widget is None else f"{type(widget).__name__} {spoken(widget)!r}"


def _in_group(widget: QWidget, reached: list[QWidget]) -> bool:
    """Whether arrows lead to it from a button beside it: of a group that is one choice, Tab stops at one."""
    if not isinstance(widget, QAbstractButton):
        return False
    group = widget.group()
    if group is not None and any(button in reached for button in group.buttons()):
        return True
    return widget.autoExclusive() and any(
        isinstance(one, QAbstractButton) and one.parent() is widget.parent() for one in reached
    )


def test_f6_goes_round_all_docks(whole: Whole) -> None:
    room = whole.window.room
    names = {dock.record.name for dock in room.shown()}
    assert len(names) > 3
    seen = set()
    for _ in range(len(names)):
        whole.press(Qt.Key.Key_F6)
        seen.add(room.keys)
    assert seen == names


class _Shown(QObject):
    """Takes note of windows that open."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        # Menus and tips come and go; what else opens is a part that has no place yet.
        if (
            event.type() is QEvent.Type.Show
            and isinstance(watched, QWidget)
            and watched.isWindow()
            and (watched.windowType() not in (Qt.WindowType.Popup, Qt.WindowType.ToolTip))
        ):
            self.titles.append(f"{type(watched).__name__} {spoken(watched)!r}")
        return False


def test_nothing_opens_a_window_that_was_not_asked_for(whole: Whole, qapp: QApplication) -> None:
    """A part that is shown before it has its place is a window of its own for a moment, with the keys."""
    seen = _Shown()
    qapp.installEventFilter(seen)
    try:
        for record in DOCKS:
            whole.open(record.name)
        whole.open("jobs")
        whole.press(Qt.Key.Key_Home)
        context = whole.window.desk.actions.current_context()
        for sheet in SHEETS:
            whole.window.desk.actions.run(sheet, context)
            whole.settle()
            for one in shown(whole.window, Sheet):
                one.close_with(False)
            whole.settle()
        whole.rig.give(Standing(Link.LOST, "no answer", "is the broker up?", "farm-unreachable", 4.0))
        whole.rig.now_us += 60 * SECOND
        whole.windows.tick()
        whole.settle()
    finally:
        qapp.removeEventFilter(seen)
    assert seen.titles == []

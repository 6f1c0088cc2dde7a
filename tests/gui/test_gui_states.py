"""Every dock in every state of the farm: it says something, in each look and size, and all of it is reached.

What belongs here: what holds for all docks alike.  What may not: what one of them shows in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenuBar,
    QPushButton,
    QTabBar,
    QTabWidget,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from client_gui.actions.sheet import Sheet
from client_gui.net.port import Incoming, Standing
from client_gui.shell.windows import Windows
from client_gui.store.farmstore import Link
from client_gui.style.dress import Dress, wear
from client_gui.style.theme import ZOOM_MOST
from client_gui.style.tokens import LOOKS
from client_gui.views.base import View
from client_gui.views.blank import Blank
from client_gui.views.registry import DOCKS, DockRecord
from farm.model.errors import Denied
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_rig import Rig, job_row, node_row, step_row

SECOND = 1_000_000


class Unmet(Rig):
    """A rig that has heard of no farm yet."""

    met = False

    def give(self, *messages: Incoming) -> None:
        if self.met:
            super().give(*messages)


class _Refuses(dict[type, Callable[[Any], Any]]):
    """Answers to everything: no."""

    def get(self, kind: type, default: Any = None) -> Any:
        def refuse(_body: Any) -> Any:
            raise Denied("this takes the role wrangler", hint="ask a wrangler")

        return refuse


def _look_at(rig: Rig) -> None:
    rig.focus.set_job(12)
    rig.focus.set_unit("beauty", 41)
    rig.focus.set_node(1)


def _work(rig: Rig) -> None:
    """A job with frames in every state and three nodes; job, frame and node are looked at."""
    job = JobOf(
        rig,
        {"sim": StepOf(states_of(1, done=1)), "beauty": StepOf(states_of(100, done=40, running=5, failed=3))},
    )
    _look_at(rig)
    rig.settle()
    job.show()
    rig.settle()


def _no_farm(rig: Rig) -> None:
    rig.give(Standing(Link.CONNECTING, "no farm is known here", "farm join FARM", "farm-unreachable"))


def _connecting(rig: Rig) -> None:
    rig.give(Standing(Link.CONNECTING))


def _empty(rig: Rig) -> None:
    rig.snapshot()


def _offline(rig: Rig) -> None:
    _work(rig)
    rig.give(
        Standing(Link.LOST, "no answer from 10.0.0.5:7460", "is the broker up?", "farm-unreachable", 4.0)
    )
    rig.now_us += 60 * SECOND
    rig.client.stood.emit()


def _refused(rig: Rig) -> None:
    _work(rig)
    rig.give(Standing(Link.REFUSED, "the broker does not know this key", "ask an administrator", "denied"))


def _denied(rig: Rig) -> None:
    _work(rig)
    rig.port.answers = _Refuses()


def _newer(rig: Rig) -> None:
    """Words, kinds and numbers that this version has never heard of."""
    _look_at(rig)
    rig.settle()
    step = step_row("beauty", kind="hologram", state="dreaming", counts=(0, 50, 10, 37, 0, 0, 0, 3))
    job = job_row(12, name="new\x1b[31m <b>wave</b>", state="pondering", reason="a new one", steps=(step,))
    node = node_row(1, state="levitating", apps=("thing 9",))
    rig.snapshot((job,), (node,), {"J12/beauty": bytes([9] * 50 + [3] * 37 + [2] * 10 + [200] * 3)})


def _many(rig: Rig) -> None:
    _look_at(rig)
    rig.settle()
    jobs = tuple(job_row(number, steps=(step_row(),)) for number in range(1, 301))
    nodes = tuple(node_row(number) for number in range(1, 41))
    rig.snapshot(jobs, nodes, {"J12/beauty": bytes([3] * 40 + [2] * 10 + [1] * 50)})


STATES: dict[str, tuple[type[Rig], str, Callable[[Rig], None]]] = {
    "no farm yet": (Unmet, "", _no_farm),
    "connecting": (Unmet, "", _connecting),
    "empty": (Rig, "wrangler", _empty),
    "offline": (Rig, "wrangler", _offline),
    "refused": (Rig, "wrangler", _refused),
    "denied": (Rig, "artist", _denied),
    "newer broker": (Rig, "wrangler", _newer),
    "300 jobs": (Rig, "wrangler", _many),
}


class Stage:
    """A dock alone, with the farm in a state."""

    def __init__(self, qtbot: QtBot, app: QApplication, record: DockRecord, state: str) -> None:
        kind, role, feed = STATES[state]
        self.bot = qtbot
        self.rig = kind(role) if role else kind()
        if isinstance(self.rig, Unmet):
            self.rig.met = True
        self._dress = Dress(app, self.rig.theme)
        self.view: View = record.make(self.rig.desk)
        wear(self.view, self.rig.theme)
        qtbot.addWidget(self.view)
        self.view.resize(900, 640)
        self.view.show()
        feed(self.rig)
        # What a view asks for and is answered leads to more: until it says something.
        self.until(lambda: bool(said(self.view)), lambda: f"{record.name} says nothing while {state}")

    def until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        def check() -> None:
            self.rig.settle()
            assert condition(), what()

        self.bot.waitUntil(check, timeout=5_000)

    def settle(self) -> None:
        for _ in range(3):
            QApplication.processEvents()
            self.rig.settle()

    def close(self) -> None:
        self.view.close()
        self._dress.take_off()
        self.rig.close()


@pytest.fixture
def stage(qtbot: QtBot, qapp: QApplication) -> Iterator[Callable[[DockRecord, str], Stage]]:
    made: list[Stage] = []

    def make(record: DockRecord, state: str) -> Stage:
        made.append(Stage(qtbot, qapp, record, state))
        return made[-1]

    yield make
    for one in made:
        one.close()


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


def colours(view: QWidget) -> int:
    """How many different pixels there are."""
    image = view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint32)
    return len(np.unique(data))


def cut_off(view: QWidget) -> list[str]:
    """Texts of labels and buttons that their place is too small for."""
    found = []
    for label in shown(view, QLabel):
        if label.wordWrap() or not label.text() or label.text().endswith("…") or label.toolTip():
            continue
        wide = max(label.fontMetrics().horizontalAdvance(line) for line in label.text().split("\n"))
        if wide > label.contentsRect().width() + 2 or label.fontMetrics().height() > label.height() + 2:
            found.append(f"label {label.text()!r}: {wide} in {label.size().toTuple()}")
    for button in shown(view, QAbstractButton):
        if not button.text() or not isinstance(button, QPushButton | QToolButton):
            continue
        if isinstance(button.parent(), QLineEdit):
            continue  # a sign in the line: its words are for a reader
        wanted = button.sizeHint()
        if wanted.width() > button.width() + 2 or wanted.height() > button.height() + 2:
            found.append(f"button {button.text()!r}: {wanted.toTuple()} in {button.size().toTuple()}")
    return found


def every(records: tuple[DockRecord, ...] = DOCKS) -> Any:
    return pytest.mark.parametrize("record", records, ids=lambda record: record.name)


@every()
@pytest.mark.parametrize("state", list(STATES))
def test_no_dock_is_ever_blank(stage: Callable[..., Stage], record: DockRecord, state: str) -> None:
    """In each look and size something can be read, and a warning of Qt or an error in a slot fails this."""
    found = stage(record, state)
    theme = found.rig.theme
    for look in LOOKS:
        theme.set_look(look)
        found.settle()
        assert colours(found.view) > 5, f"{record.name} paints nothing while {state} in {look}"
        assert said(found.view)
    for zoom, size in ((0.8, (900, 640)), (2.0, (1500, 950)), (ZOOM_MOST, (1500, 950))):
        theme.set_zoom(zoom)
        found.view.resize(*size)
        found.settle()
        assert said(found.view)
        assert colours(found.view) > 5
        if zoom < ZOOM_MOST:
            # Margins and small pictures follow the words a moment later.
            found.until(
                lambda: not cut_off(found.view),
                lambda zoom=zoom: f"{record.name} while {state} at {zoom}: {cut_off(found.view)}",
            )


# -- everybody can reach everything --


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
        _work(rig)
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
        self.bot.waitUntil(lambda: bool(said(view)), timeout=5_000)
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

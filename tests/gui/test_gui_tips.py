"""What people call things is shown as they called it: no tip is HTML, and no tip loads anything."""

from __future__ import annotations

import html
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPoint, QSize, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QMenu,
    QPushButton,
    QTabBar,
    QTableWidget,
    QTableWidgetItem,
    QToolTip,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from client_gui.shell.statusline import StatusLine
from client_gui.store.undo import Undo
from client_gui.style.dress import Dress
from client_gui.style.tips import plain_tip
from client_gui.views.activity import ActivityView
from client_gui.views.job import JobView
from client_gui.views.jobs import JobsView
from client_gui.views.nodes import NodesView
from tests.support.gui_rig import Rig, job_row, node_row

#: A tip is a window: what the screen that is none says of windows.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

NAME = "<img src=x>a<b>b</b> & c"


@pytest.fixture(autouse=True)
def dressed(qapp: QApplication, rig: Rig) -> Iterator[Dress]:
    found = Dress(qapp, rig.theme)
    yield found
    found.take_off()
    QToolTip.hideText()


def shown(widget: QWidget, at: QPoint) -> str:
    """What the tip says when the mouse rests at a place of a widget, as it is read by the eye.

    Proves that it is read so: what Qt would take for HTML has nothing in it that is not escaped.
    """
    QToolTip.hideText()
    QApplication.sendEvent(widget, QHelpEvent(QEvent.Type.ToolTip, at, widget.mapToGlobal(at)))
    text = QToolTip.text() if QToolTip.isVisible() else ""
    head, tail = "<p style='white-space:pre-wrap'>", "</p>"
    if not text.startswith(head):
        assert "<img" not in text
        return text
    inner = text.removeprefix(head).removesuffix(tail)
    assert "<" not in inner, text
    return html.unescape(inner)


def rest_on(table: QTableWidget | QTreeView, row: int, column: int) -> str:
    model = table.model()
    return shown(table.viewport(), table.visualRect(model.index(row, column)).center())


def test_a_job_is_no_picture_in_the_list(rig: Rig, qtbot: QtBot) -> None:
    view = JobsView(rig.desk)
    qtbot.addWidget(view)
    view.resize(1100, 500)
    view.show()
    rig.snapshot((job_row(7, name=NAME),))
    model = view.table.model()
    tips = [
        shown(view.table.viewport(), view.table.visualRect(model.index(0, column)).center())
        for column in range(model.columnCount())
    ]
    assert [tip for tip in tips if NAME in tip], tips


def test_a_job_is_no_picture_in_its_dock(rig: Rig, qtbot: QtBot) -> None:
    rig.snapshot((job_row(7, name=NAME),))
    rig.focus.set_job(7)
    view = JobView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    rig.settle()
    named = [label for label in view.findChildren(QLabel) if NAME in label.toolTip()]
    assert named
    for label in named:
        assert NAME in shown(label, label.rect().center())


@pytest.mark.parametrize("tiles", [False, True])
def test_a_node_is_no_picture(rig: Rig, qtbot: QtBot, tiles: bool) -> None:
    view = NodesView(rig.desk)
    qtbot.addWidget(view)
    view.resize(1000, 500)
    view.show()
    rig.snapshot((), (node_row(name=NAME),))
    view.set_tiles(tiles)
    if tiles:
        assert NAME in shown(view.tiles.viewport(), view.tiles.tile_rect(0).center())
        return
    model = view.table.model()
    for column in range(model.columnCount()):
        shown(view.table.viewport(), view.table.visualRect(model.index(0, column)).center())


def test_what_happened_is_no_picture(rig: Rig, qtbot: QtBot) -> None:
    view = ActivityView(rig.desk)
    qtbot.addWidget(view)
    view.resize(900, 300)
    view.show()
    rig.notices.say(f"{NAME} is done", hint=NAME)
    qtbot.waitUntil(lambda: view.table.model().rowCount() == 1)
    at = view.table.visualRect(view.table.model().index(0, 2)).center()
    assert shown(view.table.viewport(), at) == f"{NAME} is done\n{NAME}"


def test_heads_tabs_menus_and_buttons_show_words(qtbot: QtBot) -> None:
    table = QTableWidget(1, 1)
    qtbot.addWidget(table)
    head = QTableWidgetItem("name")
    head.setToolTip(NAME)
    table.setHorizontalHeaderItem(0, head)
    table.show()
    assert shown(table.horizontalHeader().viewport(), QPoint(5, 5)) == NAME
    table.setToolTip(f"the table {NAME}")
    assert shown(table.viewport(), table.viewport().rect().bottomRight()) == f"the table {NAME}"
    tabs = QTabBar()
    qtbot.addWidget(tabs)
    tabs.addTab("one")
    tabs.setTabToolTip(0, NAME)
    tabs.show()
    assert shown(tabs, tabs.tabRect(0).center()) == NAME
    menu = QMenu()
    qtbot.addWidget(menu)
    menu.setToolTipsVisible(True)
    entry = menu.addAction("one")
    entry.setToolTip(NAME)
    menu.popup(QPoint(0, 0))
    assert shown(menu, menu.actionGeometry(entry).center()) == NAME
    menu.close()
    button = QPushButton("one")
    qtbot.addWidget(button)
    button.show()
    button.setToolTip(NAME)
    assert shown(button, QPoint(2, 2)) == NAME
    button.setToolTip("just words & a < b")
    assert shown(button, QPoint(2, 2)) == "just words & a < b"
    within = QLabel("x", button)
    within.resize(QSize(3, 3))
    within.show()
    assert shown(within, QPoint(1, 1)) == "just words & a < b", "a widget without a tip has its parent's"


def test_no_tip_loads_what_it_names(qtbot: QtBot, qapp: QApplication) -> None:
    """What a tip looks like does not depend on whether there is such a picture: it has no picture."""
    button = QPushButton("one")
    qtbot.addWidget(button)
    button.show()
    button.setToolTip(NAME)
    shown(button, QPoint(2, 2))
    tips = [
        one for one in qapp.topLevelWidgets() if isinstance(one, QLabel) and one.text() == plain_tip(NAME)
    ]
    assert tips
    tips[0].setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    tips[0].setSelection(0, len(NAME))
    assert tips[0].selectedText() == NAME, "the picture would be one letter"


def test_an_ampersand_in_what_can_be_taken_back_is_shown(rig: Rig, qtbot: QtBot) -> None:
    line = StatusLine(rig.desk)
    qtbot.addWidget(line)
    line.show()
    undo = Undo(1, "Paused a & b", (), rig.now_us + 5_000_000)
    line.offer(undo, rig.now_us)
    assert line.undo.text() == "Paused a && b · Undo (5 s)"

"""Words made larger and smaller while windows are open: quickly, everywhere, and nothing is cut off by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QTableView, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from client_gui.settings import ZOOM
from client_gui.shell.windows import Windows
from client_gui.style.dress import Dress, wear
from client_gui.style.lazily import when_seen
from client_gui.style.theme import ZOOM_MOST, Theme
from client_gui.views.heads import SortHead
from farm.protocol.client import SpendLine, SpendReply, SpendReq, StatusReply, StatusReq
from tests.support.gui_rig import Rig, job_row, node_row


class Dressed:
    """The client as it comes, in the size of an artist's screen, with a farm in it."""

    def __init__(self, qapp: QApplication, qtbot: QtBot, rig: Rig) -> None:
        self.rig = rig
        self.bot = qtbot
        rig.port.answers |= {
            StatusReq: lambda r: StatusReply(
                id=r.id,
                farm_name="farm-A",
                farm_id="f",
                software="0.1.0",
                up_s=60.0,
                jobs={"running": 20},
                units={"queued": 1388, "running": 146},
                nodes={"online": 40},
                spend_nano=1_234_000_000_000,
                burn_nano_h=112_400_000_000,
            ),
            SpendReq: lambda r: SpendReply(
                id=r.id,
                by=r.by,
                lines=(_line("J1", 812), _line("J2", 423)),
                total=_line("", 1235),
            ),
        }
        self.dress = Dress(qapp, rig.theme)
        self.windows = Windows(rig.client, rig.notices, rig.settings, rig.theme, parent=rig.client)
        self.window = self.windows.restore()
        self.window.resize(1800, 1000)
        rig.snapshot(
            tuple(job_row(n) for n in range(1, 31)),
            tuple(node_row(n) for n in range(1, 20)),
            maps={"J1/beauty": bytes([3] * 40 + [2] * 10 + [1] * 50)},
        )
        self.settle()

    def settle(self) -> None:
        for _ in range(4):
            self.rig.settle()
            QApplication.processEvents()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def zoom(self, zoom: float) -> None:
        """Makes words this large, and waits until margins have followed."""
        changed: list[int] = []
        self.rig.theme.sheet_changed.connect(lambda: changed.append(1))
        self.rig.theme.set_zoom(zoom)
        self.bot.waitUntil(lambda: bool(changed))
        self.settle()

    def fits(self, dock: str) -> None:
        """Waits until no word is cut off; margins may follow a moment later."""

        def check() -> None:
            self.settle()
            assert not cut_off(self.window), dock

        self.bot.waitUntil(check)

    def close(self) -> None:
        self.windows.quit()
        self.settle()
        self.dress.take_off()


def _line(key: str, usd: int) -> SpendLine:
    return SpendLine(
        key=key,
        useful_nano=usd * 900_000_000,
        waste_nano=usd * 60_000_000,
        idle_nano=usd * 40_000_000,
        total_nano=usd * 1_000_000_000,
        busy_s=3600.0,
        frames=400,
    )


@pytest.fixture
def dressed(qapp: QApplication, qtbot: QtBot, rig: Rig) -> Iterator[Dressed]:
    found = Dressed(qapp, qtbot, rig)
    yield found
    found.close()


def cut_off(root: QWidget) -> list[str]:
    """Words of labels and buttons that their place is too small for and that do not say that they are cut."""
    found = []
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or not isinstance(widget, QLabel | QPushButton | QToolButton):
            continue
        text = widget.text()
        # What ends in dots says that there is more; what must not keep a dock wide says it in its tip.
        if not text or text.endswith("…") or widget.toolTip() == text:
            continue
        if isinstance(widget, QLabel) and (
            widget.wordWrap() or widget.sizePolicy().horizontalPolicy().name == "Ignored"
        ):
            continue
        wanted = widget.sizeHint()
        if wanted.width() > widget.width() or wanted.height() > widget.height():
            found.append(f"{text!r}: {wanted.toTuple()} in {widget.size().toTuple()} of {_dock(widget)}")
    return found


def _dock(widget: QWidget) -> str:
    names = []
    parent: QWidget | None = widget
    while parent is not None:
        names.append(parent.objectName() or type(parent).__name__)
        parent = parent.parentWidget()
    return " < ".join(names[:6])


def test_nothing_is_cut_off_after_words_grew_and_shrank(dressed: Dressed) -> None:
    window = dressed.window
    window.desk.focus.set_job(1)
    for dock in window.room.docks:
        window.show_dock(dock)
        dressed.settle()
    assert not cut_off(window), "before"
    dressed.zoom(2.0)
    dressed.zoom(1.0)
    for dock in window.room.docks:
        window.show_dock(dock)
        dressed.fits(dock)


@pytest.mark.parametrize("zoom", [0.8, 1.3])
def test_nothing_is_cut_off_while_words_are_larger(dressed: Dressed, zoom: float) -> None:
    window = dressed.window
    window.desk.focus.set_job(1)
    dressed.zoom(zoom)
    for dock in window.room.docks:
        window.show_dock(dock)
        dressed.fits(dock)


def test_a_font_reaches_every_word_at_once(dressed: Dressed, qapp: QApplication) -> None:
    """Also those that rules of the style sheet hold for, before margins follow."""
    window = dressed.window
    dressed.rig.theme.set_zoom(1.5)
    points = qapp.font().pointSizeF()
    assert window.top.workspace.font().pointSizeF() == pytest.approx(points)
    small = dressed.rig.theme.font(small=True).pointSizeF()
    sizes = {
        round(widget.font().pointSizeF() / points, 2)
        for widget in window.findChildren(QWidget)
        if widget.isVisible() and isinstance(widget, QLabel | QPushButton | QToolButton)
    }
    # Plain, small, the name of a job, a large figure.
    assert sizes <= {1.0, round(small / points, 2), 1.15, 1.5}, sizes


def test_no_title_covers_what_it_is_the_title_of(dressed: Dressed) -> None:
    for zoom in (1.0, 1.6, 1.0):
        if dressed.rig.theme.zoom != zoom:
            dressed.zoom(zoom)
        for dock in dressed.window.room.shown():
            title, inside = dock.titleBarWidget(), dock.widget()
            assert title is not None
            assert inside is not None
            assert title.geometry().bottom() < inside.geometry().top(), (dock.record.name, zoom)


def test_a_key_that_is_held_down_is_added_up_and_the_last_wish_holds(dressed: Dressed) -> None:
    other = dressed.windows.new()
    dressed.settle()
    theme = dressed.rig.theme
    told: list[float] = []
    theme.changed.connect(lambda: told.append(theme.zoom))
    for _ in range(8):
        dressed.window.commands.zoom(1)
    assert told == [pytest.approx(1.1)], "the first at once, the others when the windows are done with it"
    dressed.bot.waitUntil(lambda: len(told) == 2)
    assert told[-1] == pytest.approx(1.8)
    for _ in range(3):
        dressed.window.commands.zoom(1)
    dressed.window.commands.zoom(0)
    dressed.bot.waitUntil(lambda: theme.zoom == 1.0)
    assert len(told) <= 4
    assert dressed.rig.settings.get(ZOOM) == 1.0
    for _ in range(60):
        other.commands.zoom(1)
    dressed.bot.waitUntil(lambda: theme.zoom == ZOOM_MOST)


def test_margins_follow_once_words_have_found_their_size(dressed: Dressed) -> None:
    theme, window = dressed.rig.theme, dressed.window
    worn: list[str] = []
    theme.sheet_changed.connect(lambda: worn.append(theme.sheet))
    for step in range(1, 5):
        theme.set_zoom(1.0 + step / 10)
    assert not worn
    dressed.bot.waitUntil(lambda: bool(worn))
    assert len(worn) == 1
    assert window.styleSheet() == worn[0]
    theme.set_look("light")
    assert len(worn) == 2, "colours change at once"
    assert window.styleSheet() == worn[1]


def test_signs_on_buttons_grow_with_the_words_beside_them(dressed: Dressed) -> None:
    def sides() -> set[int]:
        found = [*dressed.window.findChildren(QToolButton), *dressed.window.findChildren(QPushButton)]
        return {one.iconSize().height() for one in found if not one.icon().isNull() and one.isVisible()}

    usual = sides()
    assert max(usual) <= 18
    dressed.zoom(ZOOM_MOST)
    assert min(sides()) > 1.5 * max(usual)
    dressed.zoom(1.0)
    assert sides() == usual


def test_what_nobody_sees_is_restyled_when_it_is_looked_at(qtbot: QtBot) -> None:
    theme = Theme("dark")
    widget = QWidget()
    qtbot.addWidget(widget)
    done: list[float] = []
    when_seen(theme, widget, lambda: done.append(theme.zoom))
    theme.set_zoom(1.2)
    theme.set_zoom(1.4)
    assert done == []
    widget.show()
    assert done == [1.4], "once, for all that changed meanwhile"
    theme.set_zoom(1.5)
    assert done == [1.4, 1.5]
    widget.hide()
    widget.show()
    assert done == [1.4, 1.5], "nothing changed"


@pytest.mark.parametrize("zoom", [0.8, 1.0, 1.6, 2.5])
@pytest.mark.parametrize("aligned", [Qt.AlignmentFlag.AlignRight, Qt.AlignmentFlag.AlignLeft])
def test_the_arrow_of_a_sorted_column_covers_no_word(
    qapp: QApplication, qtbot: QtBot, zoom: float, aligned: Qt.AlignmentFlag
) -> None:
    theme = Theme("dark")
    dress = Dress(qapp, theme)
    theme.set_zoom(zoom)
    dress.put_on()
    table = QTableView()
    wear(table, theme)
    qtbot.addWidget(table)
    table.setHorizontalHeader(SortHead(table))
    model = QStandardItemModel(1, 2, table)
    model.setHorizontalHeaderLabels(["Frame", "Other"])
    model.setHeaderData(
        0,
        Qt.Orientation.Horizontal,
        aligned | Qt.AlignmentFlag.AlignVCenter,
        Qt.ItemDataRole.TextAlignmentRole,
    )
    table.setModel(model)
    table.setSortingEnabled(True)
    head = table.horizontalHeader()
    head.resizeSection(0, theme.em(6))
    table.resize(theme.em(30), theme.em(10))
    table.show()

    def ink(until: int) -> int:
        image = head.viewport().grab().toImage()
        plain = image.pixelColor(2, image.height() // 2)
        return sum(
            image.pixelColor(x, y) != plain for x in range(2, until) for y in range(3, image.height() - 3)
        )

    head.setSortIndicator(1, Qt.SortOrder.AscendingOrder)
    word = ink(theme.em(6) - 3)
    head.setSortIndicator(0, Qt.SortOrder.AscendingOrder)
    # The arrow comes on top of it: of the word nothing is missing.
    assert ink(theme.em(6) - 3) > word
    dress.take_off()

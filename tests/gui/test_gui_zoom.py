"""Words made larger and smaller while windows are open: quickly, everywhere, and nothing is cut off by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from client_gui.shell.windows import Windows
from client_gui.style.dress import Dress
from farm.protocol.client import SpendLine, SpendReply, SpendReq, StatusReply, StatusReq
from tests.support.gui_rig import Rig, job_row, node_row

CTRL = Qt.KeyboardModifier.ControlModifier


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
        self.bot.waitUntil(lambda: bool(changed), timeout=10_000)
        self.settle()

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
    dressed.settle()
    assert not cut_off(window), "as it comes"
    for dock in window.room.docks:
        window.show_dock(dock)
        dressed.settle()
    for name in ("jobs", "job", "log", "preview"):
        window.show_dock(name)
    before = {dock: window.room.docks[dock].size() for dock in window.room.docks}
    dressed.zoom(2.0)
    dressed.zoom(1.0)
    assert {dock: window.room.docks[dock].size() for dock in before if window.room.docks[dock].isVisible()}
    for dock in window.room.docks:
        window.show_dock(dock)
        dressed.settle()
        assert not cut_off(window), dock

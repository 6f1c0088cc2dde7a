"""The whole window against a real broker and real agents, driven by the keyboard alone.

What belongs here: what somebody does in a working day, from submitting to money, judged by the broker and by
the files.  What may not: how a single dock is built (``tests/gui``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from client_gui.net.client import FarmClient
from client_gui.net.dialer import Dialer, Route
from client_gui.net.thread import SocketsThread
from client_gui.notices import Notices
from client_gui.settings import Settings
from client_gui.shell.window import FarmWindow
from client_gui.shell.windows import Windows
from client_gui.style.theme import Theme
from client_gui.views.log_parts.pane import LinePane
from client_gui.views.spend import SpendView
from client_gui.views.submit import SubmitView
from client_gui.views.table import FarmTable
from tests.support.farmhouse import Farmhouse
from tests.support.truth import Renders, job_file
from tests.support.waiting import PATIENCE_S

_CTRL, _SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


class HouseDialer(Dialer):
    """Dials the broker of a house with a wrangler's key."""

    def __init__(self, house: Farmhouse) -> None:
        self.house = house
        self.pair = house.key("wrangler", "wim")

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        return Route(self.house.access(self.pair), done)


class Desktop:
    """The client as ``farm gui`` makes it, on a house; keys go to whoever has the focus."""

    def __init__(self, house: Farmhouse, bot: QtBot) -> None:
        self.bot = bot
        self.client = FarmClient(SocketsThread(HouseDialer(house)))
        self.notices = Notices(self.client.now_us)
        self.windows = Windows(self.client, self.notices, Settings(), Theme("dark"))
        self.window: FarmWindow = self.windows.restore()
        self.window.resize(1500, 950)
        self.client.start("test")
        self.take_keys()
        self.until(lambda: self.client.live and not self.client.store.needs_snapshot, "live")

    def take_keys(self) -> None:
        """Gives the window the keys; without a desktop it has to be asked until it is shown."""

        def active() -> bool:
            self.window.activateWindow()
            return self.window.isActiveWindow()

        self.bot.waitUntil(active)

    def close(self) -> None:
        self.windows.quit()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        assert self.client.stop(), "the sockets' thread did not end"

    def until(self, condition: Callable[[], object], what: str) -> None:
        def check() -> None:
            told = [notice.text for notice in self.notices.activity]
            assert condition(), f"waited for: {what}; told: {told}"

        self.bot.waitUntil(check, timeout=int(PATIENCE_S * 1000))

    def key(self, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
        """Presses a key where the focus is."""
        if QApplication.focusWidget() is None:
            self.take_keys()
        held = Qt.KeyboardModifier.NoModifier
        for one in modifiers:
            held |= one
        self.bot.keyClick(QApplication.focusWidget() or self.window, key, held)

    def type(self, text: str) -> None:
        """Types where the focus is."""
        self.bot.keyClicks(QApplication.focusWidget(), text)

    def command(self, words: str) -> None:
        """Does something by the palette: Ctrl+K, words, Enter."""
        self.key(Qt.Key.Key_K, _CTRL)
        self.until(lambda: isinstance(QApplication.focusWidget(), QLineEdit), "the palette has the keys")
        self.type(words)
        self.key(Qt.Key.Key_Return)

    def view(self, kind: type[Any], dock: str = "") -> Any:
        """A dock's view, made when it was not there yet."""
        if dock:
            self.window.show_dock(dock)
        self.until(lambda: self.window.findChildren(kind), kind.__name__)
        return self.window.findChildren(kind)[0]

    def button(self, parent: QWidget, text: str) -> QAbstractButton:
        found = [b for b in parent.findChildren(QAbstractButton) if b.text().replace("&", "") == text]
        assert found, f"no button {text!r} in {[b.text() for b in parent.findChildren(QAbstractButton)]}"
        return found[0]

    def jobs(self) -> FarmTable:
        """The table of jobs, with the focus."""
        self.window.show_dock("jobs")
        table = next(t for t in self.window.findChildren(FarmTable) if t.accessibleName() == "table of jobs")
        table.setFocus()
        return table

    def choose(self, job: int) -> None:
        """Makes a job the current and only selected one, by keys."""
        self.until(lambda: self.client.store.jobs.slot(job) >= 0, f"J{job} in the list")
        table = self.jobs()
        self.until(lambda: table.rows.row_of(job) >= 0, f"the row of J{job}")
        self.key(Qt.Key.Key_Home)  # with Ctrl, what was selected before would stay so
        for _ in range(table.model().rowCount()):
            if table.current_id() == job:
                break
            self.key(Qt.Key.Key_Down)
        self.until(lambda: self.window.desk.focus.job == job, f"J{job} looked at")

    def state(self, job: int) -> str:
        jobs = self.client.store.jobs
        return str(jobs.get(jobs.slot(job), "state")) if jobs.slot(job) >= 0 else ""


@pytest.fixture
def desktop(house: Farmhouse, qapp: QApplication, qtbot: QtBot) -> Iterator[Desktop]:
    found = Desktop(house, qtbot)
    yield found
    found.close()


def test_a_working_day(house: Farmhouse, desktop: Desktop, renders: Renders, tmp_path: Path) -> None:
    """Submit, watch frames arrive, pause, resume, retry, read the log, cancel, see the money."""
    # -- submit in the dialog --
    asked = tmp_path / "shot.json"
    asked.write_bytes(renders.job("1-6", gated=True, job={"name": "sh010", "user": "wim"}))
    view = desktop.view(SubmitView, "submit")
    view.open_file(str(asked))
    desktop.until(lambda: view.draft() is not None and view.form() is not None, "the file's form")
    desktop.until(lambda: desktop.button(view, "Submit").isEnabled(), "a draft that can be submitted")
    desktop.button(view, "Submit").setFocus()
    desktop.key(Qt.Key.Key_Space)
    desktop.until(lambda: desktop.state(1) in ("queued", "running"), "J1 in the list")
    assert house.job(1).name == "sh010"
    desktop.until(lambda: desktop.window.desk.focus.job == 1, "the new job is looked at")

    # -- frames arrive --
    renders.open_gate(frame=1)
    renders.open_gate(frame=2)
    jobs = desktop.client.store.jobs
    desktop.until(lambda: jobs.get(jobs.slot(1), "done") == 2, "two frames done")
    states = desktop.client.store.maps["J1/render"]
    desktop.until(lambda: states.count(3) == 2, "two done cells in the grid")
    assert renders.published() == 2, "what the window calls done lies there under its final name"

    # -- pause and resume --
    desktop.choose(1)
    desktop.key(Qt.Key.Key_P)
    desktop.until(lambda: house.job(1).state == "paused", "the broker has paused J1")
    desktop.until(lambda: desktop.state(1) == "paused", "the window shows it")
    desktop.key(Qt.Key.Key_Z, _CTRL)
    desktop.until(lambda: house.job(1).state != "paused", "undone")
    renders.open_gate()
    desktop.until(lambda: desktop.state(1) == "done", "J1 done")
    assert renders.published() == 6

    # -- a job that fails: its log, and again --
    mark = tmp_path / "mended"
    script = tmp_path / "bake.sh"
    fails = "echo starting; echo ERROR: no texture wood.exr >&2; exit 3"
    script.write_text(f'[ -e {mark} ] || {{ {fails}; }}\necho x > "$1"\n')
    step = {
        "name": "bake",
        "kind": "per_frame",
        "renderer": "command",
        "frames": "1-2",
        "retries": 0,
        "params": {"command": ["/bin/sh", str(script), "{output}"]},
        "outputs": [{"pattern": f"{tmp_path}/bake/b.####.txt"}],
    }
    assert house.admin.submit(job_file(step, name="bake", user="wim")).job == 2
    desktop.until(lambda: desktop.state(2) == "failed", "J2 failed")
    desktop.choose(2)
    desktop.window.desk.focus.set_unit("bake", 0)
    desktop.key(Qt.Key.Key_L)
    pane = desktop.view(LinePane, "log")
    desktop.until(lambda: "no texture wood.exr" in _lines(desktop, pane), "the error in the log")
    mark.touch()
    desktop.choose(2)
    desktop.key(Qt.Key.Key_R)
    desktop.until(lambda: desktop.state(2) == "done", "J2 done after a retry")
    assert (tmp_path / "bake" / "b.0001.txt").read_text() == "x\n"

    # -- cancel, which asks first --
    other = Renders(tmp_path, "long")
    assert house.admin.submit(other.job("1-3", gated=True, job={"name": "long", "user": "wim"})).job == 3
    desktop.until(lambda: desktop.state(3) == "running", "J3 runs")
    desktop.choose(3)
    desktop.key(Qt.Key.Key_X, _SHIFT)
    desktop.key(Qt.Key.Key_Escape)
    assert house.job(3).state == "running", "Esc cancels nothing"
    desktop.choose(3)
    desktop.key(Qt.Key.Key_X, _SHIFT)
    desktop.key(Qt.Key.Key_Tab)
    assert "Cancel J3" in _focus_words()
    desktop.key(Qt.Key.Key_Return)
    desktop.until(lambda: house.job(3).state == "canceled", "the broker has canceled J3")
    desktop.until(lambda: desktop.state(3) == "canceled", "the window shows it")

    # -- the money --
    spend = desktop.view(SpendView, "spend")
    desktop.until(lambda: {line.key for line in spend.model.lines} >= {"J1", "J2", "J3"}, "lines of money")
    told = {line.key: line.total_nano for line in spend.model.lines}
    asked_now = {line.key: line.total_nano for line in house.admin.spend("job").lines}
    assert told["J1"] == asked_now["J1"] > 0, "to the nano-dollar what the broker says"


def _focus_words() -> str:
    widget = QApplication.focusWidget()
    return widget.text() if isinstance(widget, QAbstractButton) else repr(widget)


def _lines(desktop: Desktop, pane: LinePane) -> str:
    """What the log shows, taken as somebody would: select all, copy."""
    pane.setFocus()
    QGuiApplication.clipboard().clear()
    desktop.bot.keyClick(pane, Qt.Key.Key_A, _CTRL)
    desktop.bot.keyClick(pane, Qt.Key.Key_C, _CTRL)
    return QGuiApplication.clipboard().text()


def test_the_palette_leads_everywhere(house: Farmhouse, desktop: Desktop, renders: Renders) -> None:
    house.admin.submit(renders.job("1-2", gated=True, job={"name": "findme", "user": "wim"}))
    desktop.until(lambda: desktop.state(1) != "", "J1 in the list")
    desktop.jobs()
    desktop.command("findme")
    desktop.until(lambda: desktop.window.desk.focus.job == 1, "the job by its name")
    desktop.command("Spend")
    desktop.until(lambda: any(v.isVisible() for v in desktop.window.findChildren(SpendView)), "the dock")
    renders.open_gate()
    desktop.until(lambda: desktop.state(1) == "done", "J1 done")

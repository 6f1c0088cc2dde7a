"""The window round the views: every dock is found, no layout is lost, and news take no keys away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPointF, Qt
from PySide6.QtGui import QAction, QEnterEvent
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.records import Menu
from client_gui.net.port import Resync, Standing, Welcomed
from client_gui.net.programs import LocalFarm, State
from client_gui.settings import ASIDE, LOOK, WINDOWS, Settings, open_settings
from client_gui.shell.standing import chip_text
from client_gui.shell.window import FarmWindow
from client_gui.shell.windows import Windows
from client_gui.shell.workspaces import ARTIST, BUILT_IN, LAYOUT_VERSION, PLANS, WRANGLER, places
from client_gui.store.activity import Level
from client_gui.store.draft import Draft, Stage
from client_gui.store.farmstore import Link
from client_gui.views.registry import DOCKS
from client_gui.views.submit_parts.shelf import Shelf
from farm.protocol.client import (
    ActReply,
    ActReq,
    JobReply,
    JobReq,
    StatusReply,
    StatusReq,
    SubmitReply,
    SubmitReq,
)
from farm.protocol.common import WelcomeMsg
from tests.support.gui_rig import Rig, job_row, node_row

SECOND = 1_000_000
#: Windows of their own and pop-ups are raised; the platform of the tests says that it cannot.
no_raise = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@dataclass
class Shell:
    """Windows on a farm without sockets."""

    rig: Rig
    qtbot: QtBot
    made: list[Windows] = field(default_factory=list)
    restarts: int = 0

    def open(self, settings: Settings | None = None, safe: bool = False) -> Windows:
        """As a start of the client does."""

        def restart() -> None:
            self.restarts += 1

        rig = self.rig
        windows = Windows(
            rig.client, rig.notices, settings or rig.settings, rig.theme, restart, parent=rig.client
        )
        self.made.append(windows)
        windows.restore(safe)
        self.settle()
        return windows

    def one(self) -> FarmWindow:
        """A window that has the keys."""
        window = self.open().open[0]
        self.keys_to(window)
        return window

    def keys_to(self, window: FarmWindow) -> None:
        def active() -> bool:
            window.activateWindow()
            self.settle()
            return window.isActiveWindow()

        self.qtbot.waitUntil(active)
        self.settle()

    def settle(self) -> None:
        self.rig.settle()
        for _ in range(3):
            QApplication.processEvents()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def later(self, seconds: float) -> None:
        """Lets time go by, as far as the windows know."""
        self.rig.now_us += int(seconds * SECOND)
        for windows in self.made:
            windows.tick()

    def close(self) -> None:
        for windows in self.made:
            windows.quit()
        self.settle()


@pytest.fixture
def shell(rig: Rig, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Shell(rig, qtbot)
    yield found
    found.close()


def seen(window: FarmWindow) -> set[str]:
    """Docks that can be seen."""
    return {dock.record.name for dock in window.room.shown()}


def press(
    shell: Shell, window: FarmWindow, key: Qt.Key, modifier: Any = Qt.KeyboardModifier.NoModifier
) -> None:
    shell.qtbot.keyClick(QApplication.focusWidget() or window, key, modifier)
    shell.settle()


def entries(menu: QMenu) -> dict[str, QAction]:
    """What a menu shows once it is open, without keys."""
    menu.aboutToShow.emit()
    return {action.text().partition("\t")[0]: action for action in menu.actions() if action.text()}


def submenu(window: FarmWindow, *path: str) -> QMenu:
    """A menu, opened by way of those it is in."""
    for depth in range(1, len(path)):
        window.menus.found[path[:depth]].aboutToShow.emit()
    return window.menus.found[path]


# -- docks --


@pytest.mark.parametrize("name", [record.name for record in DOCKS])
def test_every_dock_opens_and_looks_at_the_farm_only_while_it_is_seen(shell: Shell, name: str) -> None:
    window = shell.one()
    window.show_dock(name)
    shell.settle()
    dock = window.room.docks[name]
    assert name in seen(window)
    assert dock.view.name == name
    assert dock.view.title == dock.record.title
    assert dock.view.on
    window.toggle_dock(name)
    shell.settle()
    assert name not in seen(window)
    assert not dock.view.on


def test_a_dock_behind_a_tab_follows_nothing(shell: Shell) -> None:
    window = shell.one()
    window.show_dock("activity")
    assert "why" not in seen(window)
    assert not window.room.docks["why"].made or not window.room.docks["why"].view.on
    window.show_dock("why")
    shell.settle()
    assert "activity" not in seen(window)
    assert window.room.docks["why"].view.on
    assert not window.room.docks["activity"].view.on


def test_the_view_menu_has_every_dock_and_brings_a_hidden_one_back(shell: Shell) -> None:
    window = shell.one()
    docks = entries(submenu(window, "View", "Docks"))
    assert list(docks) == [record.title for record in DOCKS]
    for record in DOCKS:
        if record.name in seen(window):
            window.toggle_dock(record.name)
    for record in DOCKS:
        docks[record.title].trigger()
        shell.settle()
        assert record.name in seen(window)
        again = entries(submenu(window, "View", "Docks"))
        assert again[record.title].isChecked()


def test_with_every_dock_hidden_the_window_says_how_they_come_back(shell: Shell) -> None:
    window = shell.one()
    for dock in window.room.docks.values():
        dock.close()
    window.tick()
    button = next(one for one in window.pages.currentWidget().findChildren(QPushButton))
    assert button.isVisible()
    button.setFocus()
    shell.qtbot.keyClick(button, Qt.Key.Key_Space)
    shell.settle()
    assert {"jobs", "job", "log", "preview"} <= seen(window)


def test_the_keyboard_goes_round_all_docks(shell: Shell) -> None:
    window = shell.one()
    window.show_dock("jobs")
    visited = []
    for _ in range(len(seen(window))):
        visited.append(window.room.keys)
        press(shell, window, Qt.Key.Key_F6)
    assert set(visited) == seen(window)
    assert window.room.keys == visited[0], "it comes back to where it began"
    press(shell, window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert window.room.keys == visited[-1]


def test_a_view_that_is_wanted_comes_to_the_front_with_the_keys(shell: Shell) -> None:
    window = shell.one()
    window.desk.focus.show("activity")
    shell.settle()
    assert "activity" in seen(window)
    assert window.room.keys == "activity"
    window.desk.focus.show("job/steps")
    shell.settle()
    assert window.room.keys == "job"
    window.desk.focus.show("no such dock")


@no_raise
def test_a_dock_in_a_window_of_its_own_comes_back_by_reset(shell: Shell) -> None:
    window = shell.one()
    dock = window.room.docks["log"]
    dock.setFloating(True)
    shell.settle()
    assert dock.isFloating()
    window.reset_workspace()
    shell.settle()
    assert not dock.isFloating()
    assert "log" in seen(window)


@no_raise
def test_a_dock_whose_screen_is_gone_is_brought_back(shell: Shell) -> None:
    window = shell.one()
    dock = window.room.docks["log"]
    dock.setFloating(True)
    dock.move(50_000, 50_000)
    shell.settle()
    shell.rig.settings.set(WINDOWS, [window.layout_record()])
    window.close()
    shell.settle()
    again = shell.open().open[0]
    log = again.room.docks["log"]
    assert not log.isFloating() or log.screen().availableGeometry().intersects(log.frameGeometry())
    assert "log" in seen(again)


def test_a_dock_that_fails_says_so_and_the_others_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: told.append(str(error)))

    def fail(*_: object) -> None:
        raise ValueError("a <b>bad</b> day")

    monkeypatch.setattr("client_gui.views.activity.ActivityView.__init__", fail)
    window = shell.one()
    window.show_dock("activity")
    shell.settle()
    words = " ".join(label.text() for label in window.room.docks["activity"].findChildren(QLabel))
    assert "This dock cannot be shown: a <b>bad</b> day" in words
    assert told == ["a <b>bad</b> day"]
    window.show_dock("why")
    assert window.room.docks["why"].view.on


# -- workspaces --


def test_plans_name_docks_that_are_there_and_each_once() -> None:
    names = {record.name for record in DOCKS}
    for plan in PLANS.values():
        placed = [dock for docks, _ in places(plan) for dock in docks]
        assert len(placed) == len(set(placed))
        assert set(placed) <= names


def test_workspaces_change_by_key_and_remember_how_they_were_left(shell: Shell) -> None:
    window = shell.one()
    assert window.workspace == ARTIST
    window.toggle_dock("preview")
    press(shell, window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert window.workspace == WRANGLER
    assert {"jobs", "nodes", "activity", "plots"} <= seen(window)
    assert "preview" not in seen(window)
    press(shell, window, Qt.Key.Key_1, Qt.KeyboardModifier.ControlModifier)
    assert window.workspace == ARTIST
    assert "preview" not in seen(window), "as it was left"
    window.reset_workspace()
    shell.settle()
    assert "preview" in seen(window), "as it comes"


def test_a_workspace_can_be_saved_found_by_key_and_forgotten(shell: Shell) -> None:
    window = shell.one()
    window.toggle_dock("preview")
    window.commands.ask_workspace_name()
    line = QApplication.focusWidget()
    assert isinstance(line, QLineEdit)
    shell.qtbot.keyClicks(line, "Lighting")
    shell.qtbot.keyClick(line, Qt.Key.Key_Return)
    shell.settle()
    assert window.workspace == "Lighting"
    assert window.workspaces() == (*BUILT_IN, "Lighting")
    press(shell, window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    window.reset_workspace()
    press(shell, window, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert window.workspace == "Lighting"
    assert "preview" not in seen(window)
    assert "Lighting" in window.windowTitle()
    window.toggle_dock("log")
    window.reset_workspace()
    shell.settle()
    assert "log" in seen(window), "reset means as it was saved"
    entries(submenu(window, "View", "Workspaces", "Forget"))["Lighting"].trigger()
    shell.settle()
    assert window.workspaces() == BUILT_IN
    assert window.workspace == ARTIST


def test_a_name_that_comes_with_the_client_is_refused_in_words(shell: Shell) -> None:
    window = shell.one()
    assert "comes with the client" in window.save_workspace(WRANGLER)
    assert window.save_workspace("  ") == "a workspace needs a name"
    assert window.workspaces() == BUILT_IN


def test_a_key_of_a_workspace_that_is_not_there_says_how_to_make_one(shell: Shell) -> None:
    window = shell.one()
    press(shell, window, Qt.Key.Key_7, Qt.KeyboardModifier.ControlModifier)
    assert window.workspace == ARTIST
    assert "there is no workspace 7 yet" in window.toasts.texts[-1]


# -- what is remembered --


def test_after_closing_with_the_cross_everything_stands_as_before(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "gui.ini"
    first = open_settings(path)
    window = shell.open(first).open[0]
    window.change_workspace(WRANGLER)
    window.toggle_dock("activity")
    window.resize(700, 577)
    shell.settle()
    size = window.size()
    assert size.width() == 700, "it fits on a small screen"
    window.close()
    shell.settle()
    assert first.write()
    again = shell.open(open_settings(path)).open
    assert len(again) == 1
    assert again[0].workspace == WRANGLER
    assert "activity" not in seen(again[0])
    assert again[0].size() == size
    again[0].change_workspace(ARTIST)
    shell.settle()
    assert {"jobs", "log"} <= seen(again[0])


def test_the_layout_is_kept_while_the_client_runs(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_gui.shell.window.KEEP_AFTER_MS", 10)
    window = shell.open().open[0]
    window.toggle_dock("preview")

    def kept() -> bool:
        records = shell.rig.settings.get(WINDOWS)
        return bool(records) and records[0]["states"].get(ARTIST) == window.layout_record()["states"][ARTIST]

    shell.qtbot.waitUntil(kept)


def test_quitting_keeps_all_windows_and_closing_one_of_two_does_not(shell: Shell) -> None:
    windows = shell.open()
    windows.new()
    assert len(windows.open) == 2
    windows.quit()
    shell.settle()
    windows = shell.open()
    assert len(windows.open) == 2
    windows.open[1].close()
    shell.settle()
    windows.open[0].close()
    shell.settle()
    assert len(shell.open().open) == 1


@pytest.mark.parametrize(
    "record",
    [
        {"version": LAYOUT_VERSION + 1, "workspace": ARTIST, "states": {ARTIST: "AAAA"}},
        {"version": LAYOUT_VERSION, "workspace": ARTIST, "states": {ARTIST: "AAAA"}},
        {"version": LAYOUT_VERSION, "workspace": ARTIST, "states": {ARTIST: "no base64!"}},
        {"version": LAYOUT_VERSION, "workspace": 3, "states": {}},
        {"version": LAYOUT_VERSION, "workspace": ARTIST, "states": []},
        {},
    ],
)
def test_a_layout_that_cannot_be_used_is_kept_aside_and_the_window_is_as_it_comes(
    shell: Shell, record: dict[str, Any]
) -> None:
    shell.rig.settings.set(WINDOWS, [record])
    window = shell.open().open[0]
    assert {"jobs", "job", "log", "preview"} <= seen(window)
    assert shell.rig.settings.get(ASIDE) == [record]


@pytest.mark.parametrize("junk", [None, 7, "AAAA", ["x"]])
def test_junk_for_a_layout_is_passed_over(shell: Shell, junk: object) -> None:
    shell.rig.settings.set(WINDOWS, [junk])
    assert {"jobs", "job"} <= seen(shell.open().open[0])


def test_safe_mode_passes_over_what_was_remembered(shell: Shell) -> None:
    window = shell.open().open[0]
    window.change_workspace(WRANGLER)
    window.close()
    shell.settle()
    assert shell.open(safe=True).open[0].workspace == ARTIST


# -- several windows --


def test_windows_look_at_different_jobs_and_share_the_farm(shell: Shell) -> None:
    windows = shell.open()
    one, two = windows.open[0], windows.new()
    shell.settle()
    shell.rig.snapshot((job_row(1), job_row(2)), (node_row(1),))
    one.desk.focus.set_job(1)
    two.desk.focus.set_job(2)
    shell.settle()
    assert (one.desk.focus.job, two.desk.focus.job) == (1, 2)
    assert {"job:1", "job:2"} <= set(shell.rig.followed())
    assert one.desk.client is two.desk.client


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_closing_one_window_leaves_the_other_looking(shell: Shell, order: tuple[int, int]) -> None:
    windows = shell.open()
    windows.new()
    both = windows.open
    shell.settle()
    both[order[0]].close()
    shell.settle()
    assert windows.open == (both[order[1]],)
    assert "jobs" in shell.rig.followed(), "the other one still shows jobs"
    shell.rig.snapshot((job_row(1),))
    ended: list[bool] = []
    windows.all_closed.connect(lambda: ended.append(True))
    both[order[1]].close()
    shell.settle()
    assert windows.open == ()
    assert ended == [True]
    assert shell.rig.followed() == (), "nobody looks any more"


def test_what_one_window_did_can_be_taken_back_in_another(shell: Shell) -> None:
    windows = shell.open()
    one, two = windows.open[0], windows.new()
    assert one.desk.actions.doer is two.desk.actions.doer
    assert one.desk.actions.marks is two.desk.actions.marks
    one.close()
    shell.settle()
    two.desk.actions.marks.toggle_star((7,))
    assert two.desk.actions.marks.starred(7)


def test_notices_come_up_in_the_window_in_use_only(shell: Shell) -> None:
    windows = shell.open()
    one, two = windows.open[0], windows.new()
    shell.keys_to(two)
    shell.rig.notices.say("for two", Level.DONE)
    shell.keys_to(one)
    shell.rig.notices.say("for one", Level.DONE)
    assert one.toasts.texts == ["for one"]
    assert two.toasts.texts == ["for two"]


# -- the connection --


@pytest.mark.parametrize(
    ("seconds", "tone", "word"),
    [
        (0, "good", "0.9 ms  live"),
        (2.9, "good", "0.9 ms  live"),
        (3, "warn", "no word for 3 s"),
        (9.9, "warn", "no word for 9 s"),
        (10, "bad", "no word for 10 s"),
        (200, "bad", "no word for 3 m 20 s"),
        (7500, "bad", "no word for 2 h 05 m"),
    ],
)
def test_the_chip_says_how_old_everything_is(shell: Shell, seconds: float, tone: str, word: str) -> None:
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.client.store.heard(shell.rig.now_us, 900)
    shell.later(seconds)
    assert window.top.chip_text == f"farm-A  {word}"
    assert window.top.chip.accessibleName() == f"Farm farm-A  {word}"
    found = chip_text(shell.rig.client, shell.rig.now_us)
    assert found.tone == tone


@no_raise
def test_a_lost_connection_says_why_since_when_and_when_it_is_tried_again(shell: Shell) -> None:
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.give(Standing(Link.LOST, "the broker gave no answer", "is it running?", "unreachable", 15.0))
    assert window.banners.text("offline") == "", "a hiccup needs no banner"
    assert window.top.chip_text == "farm-A  connection lost"
    shell.later(11)
    banner = window.banners.text("offline")
    assert banner.startswith("No answer from farm-A: the broker gave no answer. Everything is as of ")
    assert "Is it running?" in banner
    assert banner.endswith("Next try in 4 s.")
    window.top.open_card()
    lines = window.top.card.accessibleDescription()
    assert "Trouble: the broker gave no answer" in lines
    assert "Next try: in 4 s" in lines
    assert "You are: ana, wrangler" in lines
    shell.qtbot.keyClick(window.top.card, Qt.Key.Key_Escape)
    assert not window.top.card.isVisible()
    shell.rig.give(Standing(Link.LIVE))
    shell.rig.client.store.heard(shell.rig.now_us)
    shell.later(0)
    assert window.banners.text("offline") == ""


@no_raise
def test_a_farm_of_this_machine_that_died_is_started_from_the_banner(
    shell: Shell, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[LocalFarm] = []
    monkeypatch.setattr(LocalFarm, "restart", lambda local: started.append(local))
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.give(Standing(Link.LOST, "nothing answers at x", "is it on?", "unreachable", 15.0))
    shell.later(11)

    def texts() -> list[str]:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        return [one.text() for one in window.banners.findChildren(QPushButton)]

    assert texts() == ["Try now", "Connect to another farm…"], "another machine's broker is not ours to start"
    ended = "no farm answers at x: its broker (process 9) has ended"
    shell.rig.give(Standing(Link.LOST, ended, "start one with `farm broker`", "unreachable", 15.0))
    window.tick()
    assert texts() == ["Start it again", "Try now", "Connect to another farm…"]
    assert "`farm broker`" not in window.banners.text("offline")
    next(one for one in window.banners.findChildren(QPushButton) if one.text() == "Start it again").click()
    (local,) = started
    assert local.farm == (shell.rig.client.farm or "local")
    local.state = State.STARTING
    local.changed.emit()
    window.tick()
    assert texts() == ["Try now", "Connect to another farm…"]
    assert window.banners.text("offline").endswith("It is being started.")
    before = len(shell.rig.port.posted)
    local.state = State.SERVING
    local.serving.emit(local.farm)
    assert Resync() in shell.rig.port.posted[before:]
    local.state, local.trouble = State.IDLE, "the broker ended: the disk is full"
    local.changed.emit()
    assert "the disk is full" in window.toasts.texts[-1]


def test_trying_at_once_is_a_button(shell: Shell) -> None:
    window = shell.one()
    shell.rig.give(Standing(Link.LOST, "gone", "", "unreachable", 15.0))
    shell.later(11)
    posted = len(shell.rig.port.posted)
    button = next(b for b in window.banners.findChildren(QPushButton) if b.text() == "Try now")
    button.setFocus()
    shell.qtbot.keyClick(button, Qt.Key.Key_Space)
    assert [type(one).__name__ for one in shell.rig.port.posted[posted:]] == ["Resync"]


def test_a_refusal_says_so_and_leads_to_another_farm(shell: Shell) -> None:
    window = shell.one()
    shell.rig.give(Standing(Link.REFUSED, "the key was revoked", "ask for a new token", "refused"))
    shell.later(0)
    assert window.top.chip_text == "farm-A  refused"
    assert "farm-A refuses this client: the key was revoked" in window.banners.text("offline")
    window.top.card.other_wanted.emit()
    shell.settle()
    page = window.pages.currentWidget()
    assert page is not window.room
    page.connect_to.emit("west")  # type: ignore[attr-defined]
    assert shell.rig.dialled()[-1] == "west"


def test_with_no_farm_at_all_the_window_is_the_welcome_page(shell: Shell) -> None:
    shell.rig.client.welcome = None
    shell.rig.client.store.heard_us = 0
    shell.rig.give(Standing(Link.LOST, "no farm was joined", "", "unreachable"))
    window = shell.one()
    assert window.pages.currentWidget() is not window.room
    assert window.top.chip_text.endswith("not connected")
    assert "jobs" not in shell.rig.followed(), "docks behind it follow nothing"
    shell.rig.give(
        Welcomed(
            WelcomeMsg(version=1, session=2, farm_name="west", software="0.1.0", role="artist", user="bo"),
            "west",
            "10.0.0.6:7460",
        ),
        Standing(Link.LIVE),
    )
    shell.settle()
    assert window.pages.currentWidget() is window.room
    assert window.windowTitle().startswith("west – Artist")


def test_a_broker_in_another_version_is_told_with_a_way_to_start_anew(shell: Shell) -> None:
    windows = shell.open()
    window = windows.open[0]

    def welcomed(software: str) -> None:
        shell.rig.give(
            Welcomed(
                WelcomeMsg(
                    version=1, session=3, farm_name="farm-A", software=software, role="wrangler", user="ana"
                ),
                "farm-A",
                "10.0.0.5:7460",
            ),
            Standing(Link.LIVE),
        )  # fmt: skip

    welcomed("0.1.0")
    assert window.banners.text("upgraded") == ""
    welcomed("0.2.0")
    assert "from 0.1.0 to 0.2.0" in window.banners.text("upgraded")
    button = next(b for b in window.banners.findChildren(QPushButton) if b.text() == "Start anew")
    button.click()
    shell.settle()
    assert shell.restarts == 1
    assert windows.open == ()
    assert len(shell.rig.settings.get(WINDOWS)) == 1, "the window comes back"


# -- the foot --


def test_the_foot_has_the_farm_in_four_figures(shell: Shell) -> None:
    def status(request: StatusReq) -> StatusReply:
        return StatusReply(
            id=request.id,
            farm_name="farm-A",
            farm_id="f",
            software="0.1.0",
            up_s=1.0,
            jobs={},
            units={"queued": 1388, "running": 46},
            nodes={},
            spend_nano=0,
            burn_nano_h=12_400_000_000,
            cores=64,
            cores_used=16,
        )

    shell.rig.port.answers[StatusReq] = status
    window = shell.one()
    assert "nodes" not in shell.rig.followed(), "a sum is asked for, not every node followed"
    window.toggle_dock("jobs")
    shell.later(5)
    shell.settle()
    assert window.status.figures.text() == "queued 1,388 · running 46 · 16/64 cores · 12.40 USD/h"
    asked = len(shell.rig.port.asked(StatusReq))
    shell.later(1)
    assert len(shell.rig.port.asked(StatusReq)) == asked, "not at every tick"
    shell.later(5)
    assert len(shell.rig.port.asked(StatusReq)) == asked + 1
    # While jobs are followed what runs is told by them, at once.
    window.show_dock("jobs")
    shell.settle()
    shell.rig.snapshot((job_row(1, running=3), job_row(2, running=4)))
    shell.later(0.5)
    assert "running 7 ·" in window.status.figures.text()
    shell.rig.delta((job_row(1, running=0), job_row(2, running=0)))
    shell.later(0.5)
    assert "running 0 ·" in window.status.figures.text()


def test_nothing_moves_when_there_is_something_to_take_back_and_its_buttons_go_together(shell: Shell) -> None:
    window = shell.one()
    rig = shell.rig
    rig.port.answers[ActReq] = lambda req: ActReply(id=req.id, changed=1)
    rig.snapshot((job_row(1), job_row(2)))
    shell.settle()
    high = window.status.height(), window.room.height()
    window.desk.actions.run("pause", ActionContext("jobs", (1,)))
    shell.settle()
    assert window.status.undo.isVisible()
    assert (window.status.height(), window.room.height()) == high

    def buttons() -> list[bool]:
        return [
            button.isVisible()
            for card in window.toasts.cards
            for button in card.findChildren(QPushButton)
            if button.text() == "Undo"
        ]

    assert buttons() == [True]
    window.status.undo.click()
    shell.settle()
    shell.later(0.5)
    assert not any(buttons()), "what was taken back cannot be taken back once more"


@pytest.mark.parametrize("size", [(1280, 800), (1600, 1000), (1800, 1000), (2560, 1440)])
def test_an_artist_has_the_job_beside_everything_else(shell: Shell, size: tuple[int, int]) -> None:
    window = shell.one()
    window.resize(*size)
    window.change_workspace(WRANGLER)
    window.change_workspace(ARTIST)
    window.reset_workspace()
    shell.settle()
    docks = window.room.docks
    job, jobs, log, preview = (docks[name].geometry() for name in ("job", "jobs", "log", "preview"))
    assert job.height() > window.room.height() * 0.9, "it has the whole height"
    assert job.width() > window.room.width() * 0.38
    assert jobs.left() < job.left()
    assert log.top() > jobs.bottom()
    assert preview.top() > jobs.bottom()
    assert log.right() < preview.left() < job.left()
    assert min(log.height(), preview.height()) > window.room.height() * 0.3
    window.show_dock("submit")
    shell.settle()
    assert docks["submit"].height() > window.room.height() * 0.9
    for name in ("why", "activity"):
        window.show_dock(name)
        shell.settle()
        assert not docks["log"].made_visible
        assert docks[name].geometry().size() == log.size(), "it is a tab beside the log"


# -- toasts --


def test_toasts_go_by_themselves_and_stay_under_the_pointer(shell: Shell) -> None:
    window = shell.one()
    notices = shell.rig.notices
    notices.say("Paused J1", Level.DONE)
    notices.say("the broker is slow", Level.WARNING, hint="nothing to be done")
    assert window.toasts.texts == ["Paused J1", "the broker is slow"]
    shell.later(6)
    assert window.toasts.texts == ["the broker is slow"]
    toast = window.toasts.cards[0]
    QApplication.sendEvent(toast, QEnterEvent(QPointF(1, 1), QPointF(1, 1), QPointF(1, 1)))
    shell.later(60)
    assert window.toasts.texts == ["the broker is slow"]
    QApplication.sendEvent(toast, QEvent(QEvent.Type.Leave))
    shell.later(0)
    assert window.toasts.texts == ["the broker is slow"], "it does not vanish under the hand"
    shell.later(5)
    assert window.toasts.texts == []
    assert len(notices.activity) == 2, "what happened is kept"


def test_toasts_take_no_keys_stack_and_count(shell: Shell) -> None:
    window = shell.one()
    before = QApplication.focusWidget()
    for n in range(6):
        shell.rig.notices.say(f"notice {n}", Level.ERROR)
    assert window.toasts.texts == [f"notice {n}" for n in range(2, 6)]
    shell.rig.notices.say("notice 5", Level.ERROR)
    assert window.toasts.texts[-1] == "notice 5  (×2)"
    shell.settle()
    assert QApplication.focusWidget() is before
    corners = [card.geometry() for card in window.toasts.cards]
    for one, other in pairwise(corners):
        assert one.bottom() < other.top(), "they stand one above the other"
    assert all(window.pages.rect().contains(corner) for corner in corners)


def test_a_click_on_a_toast_opens_activity(shell: Shell) -> None:
    window = shell.one()
    shell.rig.notices.say("something <b>odd</b>", Level.WARNING)
    assert window.toasts.texts == ["something <b>odd</b>"], "what a farm says is never markup"
    shell.qtbot.mouseClick(window.toasts.cards[0], Qt.MouseButton.LeftButton)
    shell.settle()
    assert "activity" in seen(window)
    assert window.toasts.texts == []


# -- menus and keys --


def test_every_menu_opens_and_what_is_not_possible_says_why(shell: Shell) -> None:
    window = shell.one()
    assert [action.text() for action in window.top.menus.actions()] == [f"&{menu.value}" for menu in Menu]
    for menu in Menu:
        found = entries(submenu(window, menu.value))
        assert 0 < len(found) <= 20, menu
        for entry in found.values():
            if not entry.isEnabled():
                assert entry.toolTip(), entry.text()
    work = entries(submenu(window, "Work"))
    assert not work["Retry failed"].isEnabled()
    assert "Not now:" in work["Retry failed"].toolTip()


@pytest.mark.parametrize(
    ("key", "modifier", "zoom"),
    [(Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier, 1.1),
     (Qt.Key.Key_Minus, Qt.KeyboardModifier.ControlModifier, 0.9)],
)  # fmt: skip
def test_words_grow_and_shrink_by_key_and_it_is_remembered(
    shell: Shell, key: Qt.Key, modifier: Qt.KeyboardModifier, zoom: float
) -> None:
    window = shell.one()
    press(shell, window, key, modifier)
    assert window.desk.theme.zoom == pytest.approx(zoom)
    assert shell.rig.settings._values["look/zoom"] == pytest.approx(zoom)
    press(shell, window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    shell.qtbot.waitUntil(lambda: window.desk.theme.zoom == 1.0)
    assert shell.rig.settings._values["look/zoom"] == 1.0


def test_looks_and_rows_change_at_once_by_key(shell: Shell) -> None:
    window = shell.one()
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    press(shell, window, Qt.Key.Key_T, both)
    assert window.desk.theme.look.name == "light"
    assert shell.rig.settings.get(LOOK) == "light"
    press(shell, window, Qt.Key.Key_T, both)
    assert window.desk.theme.look.name == "contrast"
    high = window.desk.theme.row_height()
    press(shell, window, Qt.Key.Key_D, both)
    assert window.desk.theme.row_height() < high
    entries(submenu(window, "View", "Looks"))["Dark"].trigger()
    assert window.desk.theme.look.name == "dark"


def test_a_new_window_and_the_end_by_key(shell: Shell) -> None:
    windows = shell.open()
    window = windows.open[0]
    shell.keys_to(window)
    press(
        shell, window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    )
    assert len(windows.open) == 2
    shell.keys_to(windows.open[1])
    press(shell, windows.open[1], Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)
    assert windows.open == ()


@pytest.mark.parametrize("name", ["show_about", "show_help", "show_settings", "ask_workspace_name"])
def test_sheets_open_and_esc_gives_the_keys_back(shell: Shell, name: str) -> None:
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    window.show_dock("jobs")
    shell.settle()
    before = QApplication.focusWidget()
    getattr(window.commands, name)()
    shell.settle()
    inside = QApplication.focusWidget()
    assert inside is not before
    shell.qtbot.keyClick(inside, Qt.Key.Key_Escape)
    shell.settle()
    assert QApplication.focusWidget() is before


def test_a_report_of_the_last_end_is_offered_and_can_be_read(shell: Shell) -> None:
    window = shell.one()
    shell.made[0].offer_report("ValueError: <odd>")
    assert window.banners.text("report")
    button = next(b for b in window.banners.findChildren(QPushButton) if b.text() == "Show the report")
    button.click()
    shell.settle()
    text = QApplication.focusWidget()
    assert isinstance(text, QWidget)
    assert "ValueError: <odd>" in text.toPlainText()  # type: ignore[attr-defined]


def test_everything_that_can_be_pressed_has_a_name(shell: Shell) -> None:
    window = shell.one()
    parts = (
        window.top,
        window.banners,
        window.status,
        *(d.titleBarWidget() for d in window.room.docks.values()),
    )
    for part in parts:
        for button in part.findChildren(QWidget):
            own = not button.objectName().startswith("qt_")  # Qt names what it makes itself
            if own and hasattr(button, "icon") and hasattr(button, "text") and not button.text():
                assert button.accessibleName(), button


# -- offline, again, sent off before --


@no_raise
def test_the_keyboard_stays_in_the_list_while_the_farm_is_away(shell: Shell) -> None:
    window, rig = shell.one(), shell.rig
    rig.snapshot((job_row(1), job_row(2)), (node_row(1),))
    shell.settle()
    view = window.room.docks["jobs"].view
    table = QApplication.focusWidget()
    assert view.isAncestorOf(table)
    table.go_to(2)  # type: ignore[union-attr]
    for standing in (
        Standing(Link.LOST, "no answer", "is it up?", "unreachable", 4.0),
        Standing(Link.CONNECTING, "no answer"),
        Standing(Link.LOST, "no answer", "is it up?", "unreachable", 4.0),
        Standing(Link.REFUSED, "the key was revoked"),
        Standing(Link.LIVE),
    ):
        rig.give(standing)
        shell.later(15)
        shell.settle()
        assert QApplication.focusWidget() is table, standing
        assert window.room.keys == "jobs"
    assert view.action_context().jobs == (2,)


def test_the_keys_go_to_the_list_when_the_welcome_page_gives_way(qapp: QApplication, qtbot: QtBot) -> None:
    rig = Rig()
    rig.client.welcome = None
    rig.give(Standing(Link.LOST, "no farm is known here"))
    shell = Shell(rig, qtbot)
    try:
        window = shell.one()
        assert window.pages.currentWidget() is not window.room
        assert window.pages.currentWidget().isAncestorOf(QApplication.focusWidget())
        hello = WelcomeMsg(version=1, session=2, farm_name="a", software="0.1.0", role="admin", user="ana")
        rig.give(Welcomed(hello, "a", "10.0.0.5:7460"), Standing(Link.LIVE))
        shell.settle()
        assert window.pages.currentWidget() is window.room
        rig.snapshot((job_row(1),), (node_row(1),))
        shell.keys_to(window)
        assert window.room.docks["jobs"].view.isAncestorOf(QApplication.focusWidget())
        assert window.room.keys == "jobs"
    finally:
        shell.close()
        rig.close()


@no_raise
def test_a_job_is_submitted_again_by_key(shell: Shell) -> None:
    window, rig = shell.one(), shell.rig
    rig.snapshot((job_row(1), job_row(2)))
    document = {"overcrank_job": 1, "name": "again", "steps": [
        {"name": "beauty", "renderer": "blender", "frames": "1-100", "params": {"scene": "/p/a.blend"},
         "outputs": [{"pattern": "/p/out/a.####.exr"}]}]}  # fmt: skip
    rig.port.answers[JobReq] = lambda body: JobReply(
        id=body.id, job=job_row(body.job), spec=msgspec.json.encode(document)
    )
    shell.settle()
    window.room.docks["jobs"].view.table.go_to(2)  # type: ignore[attr-defined]
    press(shell, window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    view: Any = window.room.docks["submit"].view

    def there() -> bool:
        shell.settle()
        return view.draft() is not None

    shell.qtbot.waitUntil(there)
    assert rig.port.asked(JobReq)[-1].job == 2
    assert view.draft().document["steps"][0]["frames"] == "1-100"
    assert "submit" in seen(window)
    frames = ActionContext("frames", units=(UnitsOf(1, "beauty", (3, 4), "4-5"),))
    window.desk.actions.run("resubmit", frames)
    shell.qtbot.waitUntil(lambda: there() and view.draft().document["steps"][0]["frames"] == "4-5")
    both = ActionContext("jobs", jobs=(1, 2))
    assert window.desk.actions.why_not("resubmit", both) == "works on one job at a time"
    for draft in list(view.outbox.drafts):
        view.outbox.close(draft)


def test_what_was_sent_off_before_a_restart_goes_out_without_the_submit_dock(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"overcrank_job": 1, "name": "kept", "steps": [
        {"name": "beauty", "renderer": "blender", "frames": "1-4", "params": {"scene": "/p/a.blend"},
         "outputs": [{"pattern": "/p/out/a.####.exr"}]}]}  # fmt: skip
    kept = Draft("11111111-2222-4333-8444-555555555555", document)
    kept.seal("a-token")
    kept.stage = Stage.WAITING
    Shelf().write(kept.id, msgspec.json.encode(kept.record()))
    shell.rig.port.answers[SubmitReq] = lambda body: SubmitReply(id=body.id, job=77)
    windows = shell.open()
    windows.open_outbox()

    def sent() -> bool:
        shell.settle()
        return bool(shell.rig.port.asked(SubmitReq))

    shell.qtbot.waitUntil(sent)
    (asked,) = shell.rig.port.asked(SubmitReq)
    assert msgspec.json.decode(asked.job)["token"] == "a-token"
    shell.settle()
    assert any("J77" in notice.text for notice in shell.rig.notices.activity)
    outbox = shell.rig.client.property("outbox")
    outbox.end()


def test_what_happened_can_be_read_in_a_narrow_dock(shell: Shell) -> None:
    window = shell.one()
    window.change_workspace(WRANGLER)
    window.show_dock("activity")
    shell.rig.notices.say("Paused 38 jobs, 3 left out", Level.WARNING, hint="artists act on their own jobs")
    shell.settle()
    table: Any = window.room.docks["activity"].view.table  # type: ignore[attr-defined]
    what = table.columnWidth(2)
    assert what > table.viewport().width() * 0.5
    assert "artists act on their own jobs" in table.model().index(0, 2).data(Qt.ItemDataRole.ToolTipRole)

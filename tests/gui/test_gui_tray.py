"""The icon beside the clock: how my jobs stand, and word of one with a bell."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QSystemTrayIcon
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.shell.tray import MOST, TRAY, Tray
from client_gui.store.activity import Level
from client_gui.store.farmstore import Link
from client_gui.style.glyphs import app_icon
from tests.support.gui_rig import Rig, job_row


def tray(rig: Rig, opened: list[Any], *, there: bool = True) -> Tray:
    found = Tray(
        rig.client,
        rig.notices,
        rig.settings,
        app_icon(),
        opened.append,
        lambda: opened.append("quit"),
        lambda: there,
        rig.client,
    )
    rig.client.destroyed.connect(found.menu.deleteLater)
    return found


def entries(found: Tray) -> list[str]:
    found.menu.aboutToShow.emit()
    return [entry.text() for entry in found.menu.actions() if not entry.isSeparator()]


def test_my_jobs_under_way_running_ones_first(rig: Rig, qtbot: QtBot) -> None:
    opened: list[Any] = []
    found = tray(rig, opened)
    assert rig.followed() == ("jobs",)
    rig.snapshot(
        (
            job_row(1, state="queued", done=0, name="wait & see"),
            job_row(2, failed=3),
            job_row(3, user="bo"),
            job_row(4, state="done"),
        )
    )
    found.tick()
    lines = entries(found)
    assert lines[0].startswith("sh0002_lgt_v001  running, 40 %, 3 failed, ")
    assert lines[1] == "wait && see  queued, 0 %"
    assert lines[2:] == ["Open the window", "Quit"]
    assert found.icon.toolTip().splitlines()[0] == "Overcrank: farm-A"
    for entry in found.menu.actions():
        entry.trigger()
    assert opened == [2, 1, 0, "quit"]
    found.end()


def test_many_jobs_are_counted_and_none_is_said(rig: Rig, qtbot: QtBot) -> None:
    found = tray(rig, [])
    assert "no jobs of yours are under way" in found.summary()
    rig.snapshot(tuple(job_row(n) for n in range(1, 16)))
    assert "and 12 more jobs" in found.summary()
    assert entries(found)[MOST] == "5 more jobs …"
    rig.give(Standing(Link.LOST, "the broker is gone"))
    assert "the broker is gone" in found.summary()
    found.end()


def test_it_can_be_turned_off_and_follows_nothing_then(rig: Rig, qtbot: QtBot) -> None:
    found = tray(rig, [])
    rig.settings.set(TRAY, False)
    assert not found.on
    assert rig.followed() == ()
    rig.settings.set(TRAY, True)
    assert found.on
    found.end()
    assert not tray(rig, [], there=False).on, "a desktop without such icons has none"


def test_a_job_that_is_over_is_told_once_no_window_is_in_use(
    rig: Rig, qtbot: QtBot, monkeypatch: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr(QSystemTrayIcon, "showMessage", lambda self, title, text, *_: told.append(text))
    opened: list[Any] = []
    found = tray(rig, opened)
    rig.notices.say("J7 sh010 is done", Level.DONE, about="J7")
    rig.notices.say("Paused J7", Level.DONE, about="J7")
    rig.notices.say("the broker is gone", Level.ERROR)
    assert told == ["J7 sh010 is done"]
    found.icon.messageClicked.emit()
    assert opened == [7]
    found.end()

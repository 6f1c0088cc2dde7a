"""Workspaces, what is remembered, several windows: no layout is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit

from client_gui.settings import ASIDE, WINDOWS, open_settings
from client_gui.shell.workspaces import ARTIST, BUILT_IN, LAYOUT_VERSION, PLANS, WRANGLER, places
from client_gui.store.activity import Level
from client_gui.views.registry import DOCKS
from tests.support.gui_rig import job_row, node_row
from tests.support.gui_shell import Shell, entries, press, seen, submenu

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

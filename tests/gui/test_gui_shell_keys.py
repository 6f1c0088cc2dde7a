"""Menus, keys and sheets of the window."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from client_gui.actions.records import Menu
from client_gui.settings import LOOK
from tests.support.gui_rig import job_row
from tests.support.gui_shell import Shell, entries, press, submenu

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

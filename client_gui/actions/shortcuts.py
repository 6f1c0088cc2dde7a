"""The keys of a window: hears them, and lets a list or a text have those that are its own.

What belongs here: hanging ``keys.KeyMap`` on a window.  What may not: what a key means.

Keys that type a character or move within a widget work only while a list or grid has the focus; in a text
they are typed, and on a button they press it.  Menus show keys as text and do not hear them: a key has one
owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QWidget,
)

from client_gui.actions.keys import KeyMap, canonical, is_plain
from client_gui.actions.sheet import Sheet

#: Widgets that have a use of their own for plain keys.
_OWN_KEYS: Final = (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QMenu,
    QMenuBar,
    QTabBar,
)
#: What views do themselves with these while a row has the focus.
_OF_VIEWS: Final = frozenset({"Return", "Enter"})
#: What works in a text, too: going there and leaving it.
_IN_TEXT: Final = frozenset({"Esc"})


class Shortcuts(QObject):
    """Hears the keys of one window.

    Args:
        window: The window.
        keymap: Gives the keys in force.
        pressed: Is told a key.
    """

    def __init__(
        self, window: QWidget, keymap: Callable[[], KeyMap], pressed: Callable[[str], object]
    ) -> None:
        super().__init__(window)
        self._window = window
        self._keymap = keymap
        self._pressed = pressed
        self._shortcuts: dict[str, QShortcut] = {}
        self.renew()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_changed)

    def renew(self) -> None:
        """Takes the keys in force."""
        wanted = [key for key in self._keymap().all_keys() if key not in _OF_VIEWS]
        for key in [key for key in self._shortcuts if key not in wanted]:
            self._shortcuts.pop(key).deleteLater()
        for key in wanted:
            if key not in self._shortcuts:
                shortcut = QShortcut(
                    QKeySequence.fromString(key, QKeySequence.SequenceFormat.PortableText), self._window
                )
                shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
                shortcut.setAutoRepeat(canonical(key) in ("[", "]", ",", ".", "F8", "Ctrl++", "Ctrl+-"))
                shortcut.activated.connect(lambda key=key: self._pressed(key))
                self._shortcuts[key] = shortcut
        self._focus_changed(None, QApplication.focusWidget())

    def _focus_changed(self, _old: QWidget | None, now: QWidget | None) -> None:
        if now is not None and now.window() is not self._window:
            return
        sheet = _inside(now, Sheet)
        plain = not takes_plain_keys(now)
        text = isinstance(now, QLineEdit | QTextEdit | QPlainTextEdit)
        for key, shortcut in self._shortcuts.items():
            on = not sheet and (plain or not is_plain(key) or (text and key in _IN_TEXT))
            if shortcut.isEnabled() != on:
                shortcut.setEnabled(on)


def takes_plain_keys(widget: QWidget | None) -> bool:
    """Whether a widget has a use of its own for letters, Return, Space and Backspace."""
    if isinstance(widget, QTextEdit | QPlainTextEdit):
        return not widget.isReadOnly()
    return isinstance(widget, _OWN_KEYS)


def _inside(widget: QWidget | None, kind: type[QWidget]) -> bool:
    while widget is not None:
        if isinstance(widget, kind):
            return True
        widget = widget.parentWidget()
    return False

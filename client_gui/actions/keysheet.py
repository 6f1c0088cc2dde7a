"""The sheet of keys: every action and its key, made from the records.

What belongs here: showing them, and giving an action another key.  What may not: what a key means (``keys``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QGridLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.keys import KeyMap
from client_gui.actions.records import RECORDS, Menu, Record, where_text
from client_gui.actions.sheet import Sheet
from client_gui.style.theme import Theme
from farm.model.errors import OvercrankError

#: Where keys are told that actions have none for: what every list and form knows anyway.
BESIDES: Final[Mapping[str, str]] = {
    "Tab, Shift+Tab": "to the next or previous part of the window",
    "Arrows, Page up, Page down, Home, End": "move in lists and grids; with Shift they select",
    "Space, Ctrl+Space": "selects the current row, or takes it out",
    "Left, Right, Enter, Space": "collapse or expand a group, on its header; Left and Right with Shift all",
    "F2": "edits the current cell where it can be edited",
    "Menu, Shift+F10": "opens the menu of what is selected",
}
#: What is asked for most comes first.
_ORDER: Final = (Menu.WORK, Menu.LOOK, Menu.NODES, Menu.EDIT, Menu.VIEW, Menu.FILE, Menu.HELP)


class KeySheet(Sheet):
    """Every key, by menu; a key is changed by choosing an action and pressing another.

    Args:
        host: The window.
        theme: The look.
        keymap: The keys in force.
        change: Gives an action other keys; raises when that cannot be.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        keymap: KeyMap,
        change: Callable[[str, tuple[str, ...]], None],
    ) -> None:
        super().__init__(host, theme, "Keys", wide_em=46, high=0.85)
        self._keymap = keymap
        self._change = change
        self._waiting = ""
        self._buttons: dict[str, QPushButton] = {}
        self._rows: dict[str, list[QWidget]] = {}
        self._heads: dict[Menu, QLabel] = {}
        self.search = QLineEdit(self.card)
        self.search.setPlaceholderText("Which action, or which key?")
        self.search.setAccessibleName("Which action, or which key")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._narrow)
        self.column.addWidget(self.search)
        inner = QWidget()
        inner.setAutoFillBackground(False)
        column = QVBoxLayout(inner)
        column.setSpacing(theme.em(0.3))
        for menu in _ORDER:
            column.addWidget(self._section(menu))
        rest = QGridLayout()
        head = QLabel("In every list")
        head.setFont(theme.font(bold=True))
        column.addWidget(head)
        for row, (keys, text) in enumerate(BESIDES.items()):
            rest.addWidget(QLabel(keys), row, 0)
            rest.addWidget(QLabel(text), row, 1)
        rest.setColumnStretch(1, 1)
        column.addLayout(rest)
        column.addStretch(1)
        area = QScrollArea(self.card)
        area.setWidget(inner)
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.viewport().setAutoFillBackground(False)
        inner.setAutoFillBackground(False)
        self._area = area
        self.column.addWidget(area, 1)
        self.foot = self.label("Enter on a key changes it.", dim=True)
        self.foot.setAccessibleName("What the keys are doing")
        close = QPushButton("Close", self.card)
        close.clicked.connect(lambda: self.close_with(True))
        self.buttons(close)

    def first(self) -> QWidget:
        """The line to search in."""
        return self.search

    # -- inside --

    def _section(self, menu: Menu) -> QWidget:
        part = QWidget()
        grid = QGridLayout(part)
        grid.setContentsMargins(0, 0, 0, self.theme.em(0.4))
        head = QLabel(menu.value)
        head.setFont(self.theme.font(bold=True))
        grid.addWidget(head, 0, 0, 1, 3)
        self._heads[menu] = head
        row = 1
        for record in RECORDS:
            if record.menu is not menu:
                continue
            text = QLabel(record.text)
            text.setMinimumWidth(self.theme.em(9))
            button = QPushButton("")
            button.setFlat(True)
            button.setMinimumWidth(self.theme.em(7))
            button.clicked.connect(lambda _checked=False, name=record.id: self._wait(name))
            button.installEventFilter(self)
            where = QLabel(f"{record.summary}  \N{MIDDLE DOT}  {where_text(record)}")
            where.setTextFormat(Qt.TextFormat.PlainText)
            where.setFont(self.theme.font(small=True))
            where.setWordWrap(True)
            colours = where.palette()
            colours.setColor(where.foregroundRole(), self.theme.colour("dim"))
            where.setPalette(colours)
            grid.addWidget(button, row, 0)
            grid.addWidget(text, row, 1)
            grid.addWidget(where, row, 2)
            self._buttons[record.id] = button
            self._rows[record.id] = [text, button, where]
            self._label(record)
            row += 1
        grid.setColumnStretch(2, 1)
        return part

    def _label(self, record: Record) -> None:
        keys = [shown(key) for key in self._keymap.keys(record.id)]
        button = self._buttons[record.id]
        button.setText("  ".join(keys).replace("&", "&&") or "\N{EN DASH}")
        button.setAccessibleName(f"{record.text}: {' or '.join(keys) or 'no key'}; press to change")

    def _narrow(self, text: str) -> None:
        words = text.casefold().split()
        for record in RECORDS:
            keys = " ".join(self._keymap.keys(record.id))
            told = f"{record.text} {record.summary} {keys} {record.id}".casefold()
            fits = all(word in told for word in words)
            for widget in self._rows[record.id]:
                widget.setVisible(fits)
        for menu, head in self._heads.items():
            head.setVisible(
                any(not self._buttons[one.id].isHidden() for one in RECORDS if one.menu is menu)
            )  # fmt: skip

    def _wait(self, action: str) -> None:
        self._waiting = action
        record = next(one for one in RECORDS if one.id == action)
        self.foot.setText(f"Press the new key of {record.text!r}; Backspace takes it away, Esc leaves it.")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Takes the key that is to be the new one; what has the focus is scrolled to."""
        if event.type() == QEvent.Type.FocusIn and isinstance(watched, QPushButton):
            self._area.ensureWidgetVisible(watched)
        if self._waiting and event.type() in (QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride):
            assert isinstance(event, QKeyEvent)
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            return self._taken(event)
        return super().eventFilter(watched, event)

    def _taken(self, event: QKeyEvent) -> bool:
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Shift, Qt.Key.Key_Control, Qt.Key.Key_Alt, Qt.Key.Key_Meta, Qt.Key.Key_AltGr):
            return True
        action, self._waiting = self._waiting, ""
        if key == Qt.Key.Key_Escape:
            self.foot.setText("Nothing was changed.")
            return True
        if key == Qt.Key.Key_Tab:
            self.foot.setText("Tab goes through the window: choose another.")
            return True
        keys: tuple[str, ...] = ()
        if key != Qt.Key.Key_Backspace or event.modifiers() != Qt.KeyboardModifier.NoModifier:
            keys = (QKeySequence(event.keyCombination()).toString(QKeySequence.SequenceFormat.PortableText),)
            text = event.text()
            if len(text) == 1 and text.isprintable() and not text.isalnum() and text != " ":
                keys = (text,)  # a character, however this keyboard makes it
        try:
            self._change(action, keys)
        except OvercrankError as error:
            self.foot.setText(f"{error}.")
            return True
        for record in RECORDS:
            self._label(record)
        self.foot.setText("Changed." if keys else "Taken away.")
        return True


def shown(key: str) -> str:
    """A key as this system writes it."""
    return QKeySequence.fromString(key, QKeySequence.SequenceFormat.PortableText).toString(
        QKeySequence.SequenceFormat.NativeText
    )

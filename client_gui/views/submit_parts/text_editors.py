"""Editors of several lines: lists of texts, tables, JSON; and lists with a row for each thing.

What belongs here: what is written one thing a line, and the base of lists of rows.  What may not: records of
the job file (``list_editors``).
"""

from __future__ import annotations

from typing import Any

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from client_gui.store.draft import Path
from client_gui.store.fields import UNSET, Field
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.editors import Editor, decoded, json_text, same, tabbed


class TextEditor(Editor):
    """Several lines; the base of what is written one thing a line."""

    placeholder = ""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.text = QPlainTextEdit(self)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(theme.font(mono=True))
        self.text.setAcceptDrops(False)  # files that are dropped are for the view
        self.text.setPlaceholderText(self.placeholder)
        self.text.textChanged.connect(self._changed)
        self.text.horizontalScrollBar().rangeChanged.connect(self._fit)
        self.row.addWidget(self.text, 1)
        self._showing = False
        self._fit()

    def read(self, text: str) -> Any:
        """The value of a text."""
        raise NotImplementedError

    def write(self, value: Any) -> str:
        """The text of a value."""
        raise NotImplementedError

    def show_value(self, value: Any) -> None:
        """Its text; nothing moves when it is shown already."""
        if self.read(self.text.toPlainText()) == value:
            return
        self._showing = True
        self.text.setPlainText("" if value is UNSET else self.write(value))
        self._showing = False
        self._fit()

    def _changed(self) -> None:
        self._fit()
        if not self._showing:
            self.tell(self.read(self.text.toPlainText()))

    def show_hint(self, text: str) -> None:
        """In the box, as long as it is empty."""
        self.text.setPlaceholderText(text)

    def lines(self) -> int:
        """How many lines stand below each other."""
        return self.text.blockCount()

    def _fit(self) -> None:
        """As high as its lines, from one to ten, and the bar below those that are too long."""
        metrics = QFontMetrics(self.text.font())
        lines = max(1, min(10, self.lines()))
        edge = 2 * round(self.text.document().documentMargin()) + self.theme.em(0.6)
        across = self.text.horizontalScrollBar()
        if across.maximum() > across.minimum():
            edge += across.sizeHint().height()
        self.text.setFixedHeight(lines * metrics.lineSpacing() + edge)
        bar = Qt.ScrollBarPolicy.ScrollBarAsNeeded if lines == 10 else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.text.setVerticalScrollBarPolicy(bar)


class TextsEditor(TextEditor):
    """A list of texts, one a line."""

    placeholder = "one a line"

    def read(self, text: str) -> Any:
        """The lines; a line may be empty, but for the last."""
        if text == "":
            return UNSET
        if text.startswith('["') and isinstance(made := decoded(text), list):
            return made
        lines = text.split("\n")
        return lines[:-1] if lines[-1] == "" and len(lines) > 1 else lines

    def write(self, value: Any) -> str:
        """A line each; what cannot be a line is JSON."""
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            text = "\n".join(value) + ("\n" if value and value[-1] == "" else "")
            if self.read(text) == value:
                return text
        return json_text(value)


class TableEditor(TextEditor):
    """A table, ``NAME = VALUE`` a line."""

    placeholder = "NAME = VALUE"

    def read(self, text: str) -> Any:
        """The table; a text that is none stays a text, so that it is refused."""
        if not text.strip():
            return UNSET
        if text.startswith("{") and isinstance(made := decoded(text), dict):
            return made
        found: dict[str, Any] = {}
        for line in text.split("\n"):
            if not line.strip():
                continue
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                return text
            found[name.strip()] = self._value(value.strip())
        return found

    def _value(self, text: str) -> Any:
        if self.field.items == "text" and not text.startswith('"'):
            return text
        try:
            made = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return text
        return float(made) if self.field.items == "float" and type(made) is int else made

    def write(self, value: Any) -> str:
        """A line each."""
        if not isinstance(value, dict):
            return value if isinstance(value, str) else json_text(value)
        text = "\n".join(f"{name} = {self._word(one)}" for name, one in value.items())
        return text if self.read(text) == value else json_text(value)

    def _word(self, value: Any) -> str:
        if isinstance(value, str):
            text = value
            if text == text.strip() and "\n" not in text and same(self._value(text), value):
                return text
        return json_text(value)


class JsonEditor(TextEditor):
    """Anything else, as JSON."""

    placeholder = "JSON"

    def read(self, text: str) -> Any:
        """What the JSON says; a text that is none stays a text."""
        if not text.strip():
            return UNSET
        made = decoded(text)
        return text if made is UNSET else made

    def write(self, value: Any) -> str:
        """JSON over several lines."""
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


class ListEditor(Editor):
    """Rows of a list, each with a button that takes it away, and one more to add; see its subclasses."""

    add_words = "Add"
    #: Rows that cannot be taken away.
    least = 0

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.box = QVBoxLayout()
        self.box.setSpacing(theme.em(0.25))
        self.row.addLayout(self.box, 1)
        self.items: list[Any] = []
        self.rows: list[QWidget] = []
        self.add = QToolButton(self)
        self.add.setText(f"+ {self.add_words}")
        self.add.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.add.clicked.connect(self._add)
        self.box.addWidget(self.add, 0, Qt.AlignmentFlag.AlignLeft)

    def make_row(self, index: int, layout: QHBoxLayout) -> None:
        """Fills a row with editors of the item."""
        raise NotImplementedError

    def new_item(self) -> Any:
        """What a new row holds."""
        raise NotImplementedError

    def inputs(self) -> list[QWidget]:
        """Those of the rows, then the button that adds one."""
        return [one for row in self.rows for one in tabbed(row)] + [self.add]

    def target(self, rest: Path) -> QWidget | None:
        """The first input of a row; the button that adds one when there is no row."""
        at = rest[0] if rest and isinstance(rest[0], int) else self.first_wrong()
        inputs = tabbed(self.rows[at]) if at < len(self.rows) else []
        return self.input_of(inputs, rest[1:]) if inputs else self.add

    def first_wrong(self) -> int:
        """The row somebody means who says that something is wrong with the list."""
        return 0

    def input_of(self, inputs: list[QWidget], rest: Path) -> QWidget:
        """The input of a row for a part of its item."""
        return inputs[0]

    def show_value(self, value: Any) -> None:
        """Rows of the list; nothing is made anew when it shows that already."""
        found = list(value) if isinstance(value, list) else []
        if found != self.items or len(found) != len(self.rows):
            self.items = found
            self._fill()

    def set_item(self, index: int, item: Any) -> None:
        """Somebody changed a row."""
        self.items = [*self.items[:index], item, *self.items[index + 1 :]]
        self.tell(list(self.items))

    def _add(self) -> None:
        self.items = [*self.items, self.new_item()]
        self._fill()
        self.tell(list(self.items))
        first = next(iter(self.rows[-1].findChildren(QLineEdit)), None)
        if first is not None:
            first.setFocus(Qt.FocusReason.TabFocusReason)

    def _remove(self, index: int) -> None:
        del self.items[index]
        self._fill()
        self.tell(list(self.items))
        self.add.setFocus(Qt.FocusReason.TabFocusReason)

    def _fill(self) -> None:
        for row in self.rows:
            row.hide()
            row.deleteLater()
        self.rows = []
        # Rows stand before the button, also for Tab; a new widget is the last of the window at first.
        previous: QWidget = self.add.previousInFocusChain() or self
        for index in range(len(self.items)):
            row = QWidget(self)
            layout = QHBoxLayout(row)
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(self.theme.em(0.35))
            self.make_row(index, layout)
            gone = QToolButton(row)
            gone.setText("×")
            gone.setToolTip("Take it away")
            gone.setAccessibleName(f"Take away {self.field.label} {index + 1}")
            gone.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            gone.clicked.connect(lambda _checked=False, at=index: self._remove(at))
            gone.setVisible(len(self.items) > self.least)
            layout.addWidget(gone)
            self.box.insertWidget(index, row)
            self.rows.append(row)
            for widget in tabbed(row):
                QWidget.setTabOrder(previous, widget)
                previous = widget
        self.name_inputs(self.field.label)

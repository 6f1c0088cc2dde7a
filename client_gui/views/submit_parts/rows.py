"""A field in the form: its name, its editor, a way back to the default, and what is wrong with it.

What belongs here: one row, and headings that open and close.  What may not: which rows there are (``form``).
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.store.draft import Draft, Path, path_text
from client_gui.store.fields import UNSET, Field
from client_gui.style.glyphs import icon
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.list_editors import EDITORS


def said(text: str, tone: str, font: QFont, parent: QWidget | None = None) -> QLabel:
    """Plain words that wrap."""
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setFont(font)
    label.setText(text)
    set_tone(label, tone)
    return label


def set_tone(widget: QWidget, tone: str) -> None:
    """The colour of its words: ``dim``, ``bad``, ``warn``, ``good`` or "" (see the view's style)."""
    if widget.property("tone") != tone:
        widget.setProperty("tone", tone)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


class FieldRow(QWidget):
    """A field in the form.

    Attributes:
        path: Where its value lies in the draft.
        field: What it is.
        problem: What is wrong with it, "" when nothing is.
    """

    #: Somebody gave the field another value: the path and the value.
    edited = Signal(object, object)

    def __init__(self, path: Path, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.path = path
        self.field = field
        self.problem = ""
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(theme.em(0.5))
        self.label = QLabel(field.label, self)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self.label.setFixedWidth(theme.em(7.5))
        self.label.setToolTip(path_text(path))
        self.label.setContentsMargins(0, theme.em(0.2), 0, 0)
        row.addWidget(self.label, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout()
        column.setSpacing(theme.em(0.1))
        self.editor = EDITORS[field.kind](field, theme, self)
        self.editor.name_inputs(field.label)
        column.addWidget(self.editor)
        small = theme.font(small=True)
        self.help = said(field.help, "dim", small, self)
        self.help.setVisible(bool(field.help))
        column.addWidget(self.help)
        self.wrong = said("", "bad", small, self)
        self.wrong.hide()
        column.addWidget(self.wrong)
        row.addLayout(column, 1)
        self.reset = QToolButton(self)
        self.reset.setIcon(icon(theme, "undo", "dim"))
        self.reset.setAutoRaise(True)
        self.reset.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.reset.setAccessibleName(f"Reset {field.label} to its default")
        keep = self.reset.sizePolicy()
        keep.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(keep)
        row.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignTop)
        self.reset.clicked.connect(self._reset)
        self.editor.edited.connect(lambda value: self.edited.emit(self.path, value))

    def show_draft(self, draft: Draft) -> None:
        """Shows the draft's value."""
        if len(self.path) > 1 and isinstance(self.path[1], int):
            self.editor.show_draft(draft, self.path[1])
        value = draft.value(self.path)
        self.editor.show_value(value)
        plain = self.field.required or self.field.key in ("frames", "outputs", "scene", "kind", "name")
        self.reset.setVisible(not plain and value is not UNSET and value != self.field.default)
        default = self.field.default
        self.reset.setToolTip(
            f"Back to the default: {default!r}" if default not in ("", None) else "Empty it"
        )

    def set_problem(self, text: str, hint: str = "", *, soft: bool = False) -> None:
        """What is wrong with it; softly, when nobody has filled it in yet."""
        self.problem = text
        words = f"{text} ({hint})" if text and hint else text
        self.wrong.setText(f"{'○' if soft else '✕'} {words}" if words else "")
        set_tone(self.wrong, "warn" if soft else "bad")
        self.wrong.setVisible(bool(words))
        self.help.setVisible(bool(self.field.help) and not words)
        self.editor.set_problem(words)

    def focus(self, rest: Path = ()) -> None:
        """Gives the keys to the input that changes the value, or a part of it."""
        target = self.editor.target(rest)
        if target is not None:
            target.setFocus(Qt.FocusReason.TabFocusReason)

    def _reset(self) -> None:
        self.edited.emit(self.path, UNSET)
        self.focus()


class Fold(QFrame):
    """A heading that opens and closes what is below it; closed, it says what is set there.

    Attributes:
        body: Layout of what is below.
    """

    #: It is opened for the first time, or again.
    opened = Signal()

    def __init__(
        self, title: str, theme: Theme, *, card: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("card" if card else "fold")
        edge = theme.em(0.5) if card else 0
        column = QVBoxLayout(self)
        column.setContentsMargins(edge, edge // 2, edge, edge // 2)
        column.setSpacing(theme.em(0.2))
        self.top = QHBoxLayout()
        self.top.setSpacing(theme.em(0.4))
        self.button = QToolButton(self)
        self.button.setObjectName("heading")
        self.button.setCheckable(True)
        self.button.setAutoRaise(True)
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self.button.setFont(theme.font(bold=card))
        self.button.toggled.connect(self._toggled)
        self.top.addWidget(self.button)
        self.summary = QLabel(self)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.summary.setProperty("tone", "dim")
        self.summary.setFont(theme.font(small=True))
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.top.addWidget(self.summary, 1)
        column.addLayout(self.top)
        self.inside = QWidget(self)
        self.body = QVBoxLayout(self.inside)
        indent = 0 if card else theme.em(0.9)
        self.body.setContentsMargins(indent, theme.em(0.2), 0, theme.em(0.3))
        self.body.setSpacing(theme.em(0.4))
        self.inside.hide()
        column.addWidget(self.inside)
        self.set_title(title)

    @property
    def is_open(self) -> bool:
        """Whether what is below is shown."""
        return self.button.isChecked()

    def set_title(self, title: str) -> None:
        """Another heading."""
        self.button.setText(title.replace("&", "&&"))
        self.button.setAccessibleName(title)

    def set_summary(self, text: str) -> None:
        """What is set below, in short."""
        self.summary.setText(text)
        self.summary.setToolTip(text)
        self.button.setAccessibleDescription(text)

    def open(self, wanted: bool = True) -> None:
        """Opens or closes it."""
        self.button.setChecked(wanted)

    def _toggled(self, on: bool) -> None:
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        if on:
            self.opened.emit()
        self.inside.setVisible(on)


def short(value: Any) -> str:
    """A value in a few letters, for a heading."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, dict):
        text = ", ".join(f"{name}={one}" for name, one in value.items())
    text = " ".join(text.split())
    return text if len(text) <= 30 else text[:29] + "…"

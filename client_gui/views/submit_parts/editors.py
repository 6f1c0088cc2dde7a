"""One editor for each kind of field: shows a value, says when somebody changed it.

What belongs here: editors of single values, and which editor a kind has.  What may not: what a value means,
and where it lies in a job.

An editor never refuses what is typed: a value of the wrong type goes into the draft as it is, and the same
check that reads job files says beside the field what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QDropEvent, QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QToolButton,
    QWidget,
)

from client_gui.store.draft import Draft, Path
from client_gui.store.fields import UNSET, Field
from client_gui.style.theme import Theme
from farm.config.load import parse_size
from farm.model.errors import FrameRangeError
from farm.model.frames import FrameRange
from farm.model.frametext import read_runs
from farm.sdk.words import mib_text, plural


class Editor(QWidget):
    """An editor of one field.

    Attributes:
        field: What it edits.
    """

    #: Somebody changed it: the new value, ``UNSET`` when the default holds.
    edited = Signal(object)

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.theme = theme
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(0, 0, 0, 0)
        self.row.setSpacing(theme.em(0.35))

    def show_value(self, value: Any) -> None:
        """Shows a value of the draft."""
        raise NotImplementedError

    def tell(self, value: Any) -> None:
        """Somebody made it another; what equals the default is left out of the job."""
        self.edited.emit(UNSET if same(value, self.field.default) else value)

    def show_draft(self, draft: Draft, step: int) -> None:
        """The draft it stands in is another, or its steps are; for editors that offer some of them."""

    def show_hint(self, text: str) -> None:
        """What holds as long as nothing is given, in words; for editors with a line."""

    def set_problem(self, words: str) -> None:
        """What is wrong with the value, for those who do not see it beside the field."""
        for widget in self.inputs():
            widget.setAccessibleDescription(words or self.field.help)

    def inputs(self) -> list[QWidget]:
        """The widgets that take the keys, in order."""
        return tabbed(self)

    def target(self, rest: Path) -> QWidget | None:
        """The input that changes a part of the value, () for all of it: where the keys go for a problem."""
        return next((one for one in self.inputs() if one.isVisibleTo(self) and one.isEnabled()), None)

    def name_inputs(self, name: str) -> None:
        """Gives its inputs a name for screen readers."""
        for widget in self.inputs():
            if not widget.accessibleName():
                widget.setAccessibleName(name)
            widget.setAccessibleDescription(self.field.help)


def tabbed(holder: QWidget) -> list[QWidget]:
    """Widgets within another that take the keys, in order; not those of pop-ups, which are windows."""
    window = holder.window()
    found = (one for one in holder.findChildren(QWidget) if one.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return [one for one in found if one.window() is window and not isinstance(one.parent(), QComboBox)]


def same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def quiet_wheel(widget: QWidget) -> None:
    """A wheel over it scrolls the form, unless it has the keys: nobody changes a value by scrolling."""
    widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    widget.installEventFilter(_WHEEL)


class _Wheel(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


_WHEEL: Final = _Wheel()


class BoolEditor(Editor):
    """A tick."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.box = QCheckBox("yes", self)
        self.row.addWidget(self.box)
        self.row.addStretch(1)
        self.box.clicked.connect(self.tell)

    def show_value(self, value: Any) -> None:
        """Ticked or not."""
        self.box.setChecked((self.field.default if value is UNSET else value) is True)


class LineEditor(Editor):
    """A line of text."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.line = self.make_line()
        self.line.textEdited.connect(lambda text: self.tell(self.read(text)))
        if field.default not in (UNSET, None, ""):
            self.line.setPlaceholderText(self.write(field.default))
        self.row.addWidget(self.line, 1)

    def show_hint(self, text: str) -> None:
        """In the line, as long as it is empty."""
        self.line.setPlaceholderText(text)

    def make_line(self) -> QLineEdit:
        """The line; files that are dropped on it are for the view."""
        line = QLineEdit(self)
        line.setAcceptDrops(False)
        return line

    def read(self, text: str) -> Any:
        """The value that a text is; nothing typed is the default."""
        return UNSET if text == "" and self.field.default is not UNSET else text

    def write(self, value: Any) -> str:
        """The text of a value."""
        return value if isinstance(value, str) else "" if value in (UNSET, None) else json_text(value)

    def show_value(self, value: Any) -> None:
        """Its text; the caret stays where it is when it is shown already."""
        text = self.write(value)
        if self.read(self.line.text()) != value and self.line.text() != text:
            self.line.setText(text)


class NumberEditor(LineEditor):
    """A figure; up and down make it more and less."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.line.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.line.installEventFilter(self)
        self.row.setStretch(0, 0)
        self.line.setFixedWidth(theme.em(7))
        if field.unit and field.kind != "mib":
            unit = QLabel(field.unit, self)
            unit.setProperty("tone", "dim")
            self.row.addWidget(unit)
        self.extra = QLabel(self)
        self.extra.setProperty("tone", "dim")
        self.extra.setTextFormat(Qt.TextFormat.PlainText)
        self.row.addWidget(self.extra)
        self.row.addStretch(1)

    def read(self, text: str) -> Any:
        """A number where it is one."""
        text = text.strip()
        if not text:
            return UNSET
        try:
            return float(text) if self.field.kind == "float" else int(text)
        except ValueError:
            return text

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Up and down."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            step = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()))
            if step is not None:
                self._step(step)
                return True
        return super().eventFilter(watched, event)

    def _step(self, by: int) -> None:
        value = self.read(self.line.text())
        if value is UNSET:
            value = self.field.default if isinstance(self.field.default, (int, float)) else 0
        if isinstance(value, str) or self.line.isReadOnly() or not self.line.isEnabled():
            return
        value += by * self.stride(value)
        if self.field.low is not None:
            value = max(value, type(value)(self.field.low))
        if self.field.high is not None:
            value = min(value, type(value)(self.field.high))
        self.line.setText(self.write(value))
        self.tell(value)

    def stride(self, value: float) -> int:
        """How much a key makes it more."""
        return 1


class SizeEditor(NumberEditor):
    """An amount of memory: MiB, or a number with its unit."""

    def read(self, text: str) -> Any:
        """MiB."""
        text = text.strip()
        if not text:
            return UNSET
        try:
            return parse_size(text, unit_bytes=1 << 20)
        except (ValueError, OverflowError):
            return text

    def write(self, value: Any) -> str:
        """MiB as a plain figure: what it comes to stands beside it."""
        return str(value) if value is not UNSET else ""

    def stride(self, value: float) -> int:
        """A GiB."""
        return 1024

    def tell(self, value: Any) -> None:
        """Also says what it comes to."""
        self._say(value)
        super().tell(value)

    def show_value(self, value: Any) -> None:
        """MiB."""
        super().show_value(value)
        self._say(value)

    def _say(self, value: Any) -> None:
        good = isinstance(value, int) and not isinstance(value, bool) and value > 0
        self.extra.setText(f"MiB = {mib_text(value)}" if good and value >= 1024 else "MiB")


class FramesEditor(LineEditor):
    """A range of frames, with their count."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.line.setPlaceholderText("1-100, 1-100x5, 1,5,9-12")
        self.count = QLabel(self)
        self.count.setTextFormat(Qt.TextFormat.PlainText)
        self.count.setProperty("tone", "dim")
        self.count.setMinimumWidth(theme.em(5.5))
        self.row.addWidget(self.count)

    def tell(self, value: Any) -> None:
        """Also counts."""
        self._count(value)
        super().tell(value)

    def show_value(self, value: Any) -> None:
        """Also counts."""
        super().show_value(value)
        self._count(value)

    def _count(self, value: Any) -> None:
        words = ""
        if isinstance(value, str) and value.strip():
            try:
                words = counted(value)
            except FrameRangeError:
                words = ""
        self.count.setText(words)
        twice = "A frame that is listed twice is rendered once, at its first place"
        self.count.setToolTip(twice if "different" in words else "")


def counted(text: str) -> str:
    """How many frames a range has: each counts once, and what is listed twice is said.

    Raises:
        FrameRangeError: It is none.
    """
    different = len(FrameRange.parse(text))
    listed = sum(run.count for run in read_runs(text)[0])
    if listed == different:
        return plural(different, "frame")
    return f"{listed} listed, {different} different"


class PathLine(QLineEdit):
    """A line that takes the path of a file that is dropped on it."""

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """The path of the file, not its address."""
        paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if not paths:
            super().dropEvent(event)
            return
        event.acceptProposedAction()
        self.setText(paths[0])
        self.setModified(True)
        self.textEdited.emit(paths[0])
        self.editingFinished.emit()


class PathEditor(LineEditor):
    """A file or folder, with a button to look for it."""

    def make_line(self) -> QLineEdit:
        """A line that takes files."""
        return PathLine(self)

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.row.addWidget(browse_button(self, self.line, lambda: self.tell(self.read(self.line.text()))))


def browse_button(owner: QWidget, line: QLineEdit, then: Callable[[], None]) -> QToolButton:
    """A button that looks for a file and puts its path into a line."""
    button = QToolButton(owner)
    button.setText("…")
    button.setToolTip("Look for it")
    button.setAccessibleName("Browse")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def chosen(path: str) -> None:
        line.setText(path)
        then()

    def browse() -> None:
        dialog = QFileDialog(owner, "Choose a file")
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Choose")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if line.text():
            dialog.selectFile(line.text())
        dialog.fileSelected.connect(chosen)
        dialog.open()

    button.clicked.connect(browse)
    return button


class ChoiceEditor(Editor):
    """One of some words."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.box = QComboBox(self)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        quiet_wheel(self.box)
        for choice in field.choices:
            self.box.addItem(field.name_of(choice) if choice != "" else "–", choice)
        self.box.activated.connect(lambda index: self.tell(self.box.itemData(index)))
        self.row.addWidget(self.box)
        self.row.addStretch(1)

    def show_value(self, value: Any) -> None:
        """The word; one that is none of them is shown, too."""
        shown = self.field.default if value is UNSET else value
        found = next((i for i in range(self.box.count()) if same(self.box.itemData(i), shown)), -1)
        if found < 0 and shown is not UNSET:
            self.box.addItem(f"{shown} ?", shown)
            found = self.box.count() - 1
        self.box.setCurrentIndex(found)


class WordEditor(LineEditor):
    """A word or a whole number: ``auto`` or ``5``."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.line.setFixedWidth(theme.em(7))
        self.row.addStretch(1)

    def read(self, text: str) -> Any:
        """A number where it is one."""
        text = text.strip()
        if not text:
            return UNSET
        return int(text) if text.isascii() and text.isdigit() else text


class FlagsEditor(Editor):
    """Some of some words."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.boxes: list[QCheckBox] = []
        self._rest: list[Any] = []
        for choice in field.choices:
            box = QCheckBox(str(choice), self)
            box.clicked.connect(self._clicked)
            self.boxes.append(box)
            self.row.addWidget(box)
        self.row.addStretch(1)

    def show_value(self, value: Any) -> None:
        """Ticks; what is none of them is kept."""
        found = value if isinstance(value, list) else []
        self._rest = [one for one in found if one not in self.field.choices]
        for choice, box in zip(self.field.choices, self.boxes, strict=True):
            box.setChecked(choice in found)

    def _clicked(self) -> None:
        ticked = [c for c, box in zip(self.field.choices, self.boxes, strict=True) if box.isChecked()]
        self.tell([*ticked, *self._rest])


def decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return UNSET


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def below(widget: QWidget) -> QPoint:
    """Where a menu of a button opens."""
    return widget.mapToGlobal(QPoint(0, widget.height()))

"""Editors of outputs, of what is waited for, and of inputs that may be another step's output.

What belongs here: editors that know records of the job file.  What may not: single values (``editors``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from client_gui.store.draft import Draft, Path
from client_gui.store.fields import UNSET, Field
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.command_editor import CommandEditor
from client_gui.views.submit_parts.editors import (
    BoolEditor,
    ChoiceEditor,
    Editor,
    FlagsEditor,
    FramesEditor,
    LineEditor,
    NumberEditor,
    PathEditor,
    PathLine,
    SizeEditor,
    WordEditor,
    browse_button,
    quiet_wheel,
)
from client_gui.views.submit_parts.inputs import resolved_output, suffix_of_step
from client_gui.views.submit_parts.text_editors import JsonEditor, ListEditor, TableEditor, TextsEditor

_OUTPUT_KINDS: Final = (
    ("sequence", "per frame"),
    ("movie", "movie"),
    ("single", "one file"),
)
_FAILURES: Final = (
    ("wait", "a failure: wait"),
    ("go", "a failure: go on"),
    ("skip", "a failure: skip"),
    ("cancel", "a failure: cancel"),
)


class OutputsEditor(ListEditor):
    """The files a step writes."""

    add_words = "Output"
    least = 1

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self._step: dict[str, Any] = {}

    def show_draft(self, draft: Draft, step: int) -> None:
        """The step whose outputs they are."""
        self._step = draft.steps[step]

    def show_value(self, value: Any) -> None:
        """There is always one to fill in."""
        if value is UNSET or value == []:
            if len(self.items) == 1 and isinstance(self.items[0], dict) and not self.items[0].get("pattern"):
                return  # it is shown already; making it anew would take the keys away
            value = [{"pattern": "", **self._default_kind()}]
        super().show_value(value)

    def first_wrong(self) -> int:
        """The first that says no place."""
        empty = (at for at, one in enumerate(self.items) if isinstance(one, dict) and not one.get("pattern"))
        return next(empty, 0)

    def input_of(self, inputs: list[QWidget], rest: Path) -> QWidget:
        """The pattern, or the kind."""
        boxes = [one for one in inputs if isinstance(one, QComboBox)]
        return boxes[0] if rest[:1] == ("kind",) and boxes else inputs[0]

    def _default_kind(self) -> dict[str, str]:
        return {"kind": "single"} if self._step.get("kind") == "single" else {}

    def new_item(self) -> Any:
        """An empty one."""
        return {"pattern": "", **self._default_kind()}

    def make_row(self, index: int, layout: QHBoxLayout) -> None:
        """Pattern and kind."""
        item = self.items[index]
        known = item if isinstance(item, dict) else {}
        line = PathLine(self)
        line.setText(str(known.get("pattern", "")))
        line.setPlaceholderText("/out/  or  /out/sh.####.png")
        line.setAccessibleName(f"{self.field.label} {index + 1}")
        line.textEdited.connect(lambda text, at=index: self._put(at, pattern=text))
        line.editingFinished.connect(partial(self._finish, index, line))
        layout.addWidget(line, 1)
        layout.addWidget(browse_button(self, line, partial(self._browsed, index, line)))
        kinds = _combo(_OUTPUT_KINDS, str(known.get("kind", "sequence")), self)
        kinds.setAccessibleName(f"Kind of output {index + 1}")
        kinds.activated.connect(lambda row, at=index, box=kinds: self._put(at, kind=box.itemData(row)))
        layout.addWidget(kinds)

    def tell(self, value: Any) -> None:
        """One that is empty is none: some renderers need none."""
        only = value[0] if isinstance(value, list) and len(value) == 1 else None
        super().tell([] if isinstance(only, dict) and not only.get("pattern") else value)

    def _put(self, index: int, **changes: Any) -> None:
        item = self.items[index]
        made = {**(item if isinstance(item, dict) else {}), **changes}
        if made.get("kind") == "sequence":
            del made["kind"]
        self.set_item(index, made)

    def _browsed(self, index: int, line: QLineEdit) -> None:
        self._put(index, pattern=line.text())
        self._finish(index, line)

    def _finish(self, index: int, line: QLineEdit) -> None:
        """A folder becomes a pattern in it, as with `farm submit -o`."""
        if index >= len(self.items) or not line.isModified():
            return
        line.setModified(False)
        pattern, kind = resolved_output(line.text(), self._step, suffix_of_step(self._step))
        if pattern != line.text():
            line.setText(pattern)
        item = self.items[index]
        before = item.get("kind", "sequence") if isinstance(item, dict) else ""
        if pattern == (item.get("pattern") if isinstance(item, dict) else None) and kind == before:
            return
        self._put(index, pattern=pattern, kind=kind)
        box = next(iter(self.rows[index].findChildren(QComboBox)), None)
        if box is not None:
            box.setCurrentIndex(box.findData(kind))


class AfterEditor(ListEditor):
    """What a step waits for."""

    add_words = "Wait for"

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self._frames = True

    def show_draft(self, draft: Draft, step: int) -> None:
        """Whether there are frames that may wait one by one."""
        self._frames = draft.steps[step].get("kind", "per_frame") == "per_frame"

    def new_item(self) -> Any:
        """Not said yet."""
        return ""

    def make_row(self, index: int, layout: QHBoxLayout) -> None:
        """Address, how, and what a failure means."""
        item = self.items[index]
        known = item if isinstance(item, dict) else {"step": str(item)}
        line = QLineEdit(self)
        line.setPlaceholderText("beauty, J12 or J12/beauty")
        line.setAccessibleName(f"Waits for {index + 1}")
        line.setText(_address(known))
        how = _combo((("whole", "all of it"), ("frames", "frame by frame")), "", self)
        how.setCurrentIndex(1 if known.get("frames") else 0)
        how.setAccessibleName(f"How it waits for {index + 1}")
        offset = QLineEdit(self)
        offset.setAlignment(Qt.AlignmentFlag.AlignRight)
        offset.setFixedWidth(self.theme.em(3))
        offset.setPlaceholderText("0")
        offset.setToolTip("Added to the frame number: -1 waits for the frame before")
        offset.setAccessibleName(f"Offset of frames {index + 1}")
        offset.setText(str(known.get("offset", "")) if known.get("offset") else "")
        failure = _combo(_FAILURES, str(known.get("on_failure", "wait")), self)
        failure.setAccessibleName(f"What a failure means {index + 1}")

        def changed() -> None:
            by_frame = how.currentIndex() == 1
            offset.setVisible(by_frame)
            self.set_item(index, _after(known, line.text(), by_frame, offset.text(), failure.currentData()))

        offset.setVisible(how.currentIndex() == 1)
        how.setVisible(self._frames or bool(known.get("frames")))
        line.setAcceptDrops(False)
        line.textEdited.connect(changed)
        offset.textEdited.connect(changed)
        how.activated.connect(changed)
        failure.activated.connect(changed)
        # Below each other: a dock is narrow.
        column = QVBoxLayout()
        column.setSpacing(self.theme.em(0.2))
        column.addWidget(line)
        for widgets in ((how, offset), (failure,)):
            ways = QHBoxLayout()
            ways.setSpacing(self.theme.em(0.35))
            for widget in widgets:
                ways.addWidget(widget)
            ways.addStretch(1)
            column.addLayout(ways)
        layout.addLayout(column, 1)


def _address(after: dict[str, Any]) -> str:
    job, step = str(after.get("job", "")), str(after.get("step", ""))
    return f"{job}/{step}" if job and step else job or step


def _after(before: dict[str, Any], text: str, frames: bool, offset: str, failure: str) -> Any:
    """The entry that a row says, as short as the job file allows; what else it held is kept."""
    import re

    found = re.match(r"(J\d+)(?:/(.*))?\Z", text.strip())
    job, step = (found[1], found[2] or "") if found else ("", text.strip())
    made = {key: value for key, value in before.items() if key not in _AFTER_KEYS}
    made |= {"step": step} if step or not job else {}
    made |= {"job": job} if job else {}
    if frames:
        made["frames"] = True
        if offset.strip():
            try:
                made["offset"] = int(offset)
            except ValueError:
                made["offset"] = offset
    if failure != "wait":
        made["on_failure"] = failure
    return step if made == {"step": step} else made


_AFTER_KEYS: Final = ("step", "job", "frames", "offset", "on_failure")


class InputEditor(Editor):
    """A path or pattern, or the output of another step."""

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.box = QComboBox(self)
        quiet_wheel(self.box)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.setMinimumContentsLength(9)
        self.box.activated.connect(self._chosen)
        self.line = PathLine(self)
        self.line.setPlaceholderText("/proj/in/shot.####.exr")
        self.line.textEdited.connect(lambda text: self.tell(text or UNSET))
        self.row.addWidget(self.box)
        self.row.addWidget(self.line, 1)
        self.look = browse_button(self, self.line, lambda: self.tell(self.line.text() or UNSET))
        self.row.addWidget(self.look)
        self._choices: list[tuple[str, Any]] = []
        self._offer([])

    def target(self, rest: Path) -> QWidget | None:
        """The line of a file, or the choice of a step."""
        return self.line if self.box.currentIndex() == 0 else self.box

    def show_draft(self, draft: Draft, step: int) -> None:
        """Offers the outputs of earlier steps."""
        found: list[tuple[str, Any]] = []
        for other in draft.steps[:step]:
            given = other.get("outputs")
            outputs = given if isinstance(given, list) else []
            for number in range(len(outputs)):
                word = f" output {number + 1}" if len(outputs) > 1 else ""
                found.append(
                    (f"of step {other.get('name')}{word}", {"step": other.get("name"), "output": number})
                )
        if found != self._choices:
            self._offer(found)

    def _offer(self, choices: list[tuple[str, Any]]) -> None:
        self._choices = choices
        now = self.box.currentData()
        self.box.clear()
        self.box.addItem("a file", None)
        for words, value in choices:
            self.box.addItem(words, value)
        self.box.setVisible(bool(choices))
        self._point(now)

    def show_value(self, value: Any) -> None:
        """A path, or the step."""
        if isinstance(value, dict):
            self._point({"output": 0, **value})
            return
        self._point(None)
        text = value if isinstance(value, str) else ""
        if self.line.text() != text:
            self.line.setText(text)

    def _point(self, value: Any) -> None:
        found = next((i for i in range(self.box.count()) if self.box.itemData(i) == value), -1)
        if found < 0:
            self.box.addItem(f"of step {value.get('step')} ?", value)
            self.box.setVisible(True)
            found = self.box.count() - 1
        self.box.setCurrentIndex(found)
        self.line.setVisible(found == 0)
        self.look.setVisible(found == 0)

    def _chosen(self, index: int) -> None:
        self._point(self.box.itemData(index))
        self.tell(self.box.itemData(index) or self.line.text() or UNSET)


def _combo(choices: tuple[tuple[str, str], ...], now: str, parent: QWidget) -> QComboBox:
    box = QComboBox(parent)
    quiet_wheel(box)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(max(len(words) for _, words in choices) * 3 // 4)
    for value, words in choices:
        box.addItem(words, value)
    found = box.findData(now)
    if found < 0 and now:
        box.addItem(f"{now} ?", now)
        found = box.count() - 1
    box.setCurrentIndex(max(found, 0))
    return box


#: The editor of each kind of field.
EDITORS: Final[dict[str, type[Editor]]] = {
    "bool": BoolEditor,
    "int": NumberEditor,
    "float": NumberEditor,
    "mib": SizeEditor,
    "text": LineEditor,
    "path": PathEditor,
    "choice": ChoiceEditor,
    "word": WordEditor,
    "frames": FramesEditor,
    "texts": TextsEditor,
    "flags": FlagsEditor,
    "table": TableEditor,
    "input": InputEditor,
    "outputs": OutputsEditor,
    "after": AfterEditor,
    "command": CommandEditor,
    "json": JsonEditor,
}

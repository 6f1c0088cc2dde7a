"""The card of one step: its heading, which renderer it is, and the button that takes it away.

What belongs here: what stands round a step's rows.  What may not: the rows (``form``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QWidget

from client_gui.store.fields import title_of
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.editors import quiet_wheel
from client_gui.views.submit_parts.rows import Fold, said, set_tone, short
from farm.model.errors import FrameRangeError
from farm.model.frames import FrameRange
from farm.sdk.words import plural

if TYPE_CHECKING:
    from client_gui.views.submit_parts.form import Form


class SceneBar(QWidget):
    """Offers to read a step's scene with the Blender of this machine, and says what came of it.

    Attributes:
        button: Reads, or stops reading.
        said: How it goes, and what the scene is.
    """

    #: The scene is to be read, or not any more.
    wanted = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = False
        row = QHBoxLayout(self)
        row.setContentsMargins(theme.em(8), 0, 0, 0)
        row.setSpacing(theme.em(0.5))
        self.button = QToolButton(self)
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.button.clicked.connect(lambda: self.wanted.emit(not self._reading))
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        self.said = said("", "dim", theme.font(small=True), self)
        row.addWidget(self.said, 1)
        self.show_reading("", on=False, possible=False)

    def show_reading(self, words: str, *, on: bool, possible: bool, tone: str = "dim") -> None:
        """Whether it is being read, whether it can be, and what is said of it."""
        self._reading = on
        self.button.setText("Stop" if on else "Read from Blender")
        self.button.setAccessibleName("Stop reading the scene" if on else "Read from Blender")
        tip = "Frames and output as the scene was saved; what is filled in stays.  Its Python is not run"
        self.button.setToolTip("" if on else tip)
        self.button.setAccessibleDescription(words or tip)
        self.button.setEnabled(on or possible)
        self.said.setText(words)
        set_tone(self.said, tone)


class StepCard(Fold):
    """The card of one step."""

    def __init__(self, form: Form, index: int) -> None:
        super().__init__("", form.theme, card=True, parent=form.widget())
        self.index = index
        self.renderers: QComboBox | None = None
        self.scene: SceneBar | None = None
        self._form = form
        self._wrong = 0
        self._gone = QToolButton(self)
        self._gone.setText("×")
        self._gone.setAutoRaise(True)
        self._gone.setToolTip("Take this step away")
        self._gone.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._gone.clicked.connect(lambda: form.remove_step(self.index))
        self.top.addWidget(self._gone)
        self.opened.connect(self._open)

    def _open(self) -> None:
        if not self.body.count():
            self._form.fill_step(self)

    def renderer_row(self, names: list[str], now: Any) -> QWidget:
        """The row that says which renderer it is."""
        theme = self._form.theme
        holder = QWidget(self)
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(theme.em(0.5))
        label = QLabel("Renderer", holder)
        label.setFixedWidth(theme.em(7.5))
        box = QComboBox(holder)
        box.setAccessibleName("Renderer")
        quiet_wheel(box)
        for name in names:
            box.addItem(title_of(name), name)
        if now not in names:
            box.addItem(f"{now} ?", now)
            box.setCurrentIndex(len(names))
        else:
            box.setCurrentIndex(names.index(now))
        box.activated.connect(lambda at: self._form.set_renderer(self.index, box.itemData(at)))
        row.addWidget(label)
        row.addWidget(box)
        if now not in names:
            row.addWidget(said("not installed here", "bad", theme.font(small=True), holder), 1)
        else:
            row.addStretch(1)
        self.renderers = box
        return holder

    def focus_renderer(self) -> None:
        """Gives the keys to the choice of the renderer."""
        if self.renderers is not None:
            self.renderers.setFocus(Qt.FocusReason.TabFocusReason)

    def count(self, wrong: int) -> None:
        """How many problems it has."""
        self._wrong = wrong
        self.refresh(self._form.draft.editable, len(self._form.draft.steps) > 1)

    def refresh(self, editable: bool, removable: bool) -> None:
        """Heading and what may be done."""
        step = self._form.draft.steps[self.index]
        name, renderer = step.get("name", "?"), step.get("renderer", "?")
        self.set_title(f"{self.index + 1}  {name}")
        words = [title_of(renderer)]
        frames = step.get("frames")
        if isinstance(frames, str) and frames.strip():
            try:
                words.append(plural(len(FrameRange.parse(frames)), "frame"))
            except FrameRangeError:
                words.append(f"frames {short(frames)}")
        if step.get("after"):
            waits = [one if isinstance(one, str) else _need(one) for one in step["after"]]
            words.append(f"after {short(waits)}")
        if self._wrong:
            words.insert(0, f"✕ {plural(self._wrong, 'problem')}")
        self.set_summary("  ·  ".join(words))
        self._gone.setAccessibleName(f"Take step {name} away")
        self._gone.setVisible(removable)
        self._gone.setEnabled(editable)
        if self.renderers is not None:
            self.renderers.setEnabled(editable)


def _need(one: Any) -> str:
    if not isinstance(one, dict):
        return str(one)
    return "/".join(str(one[key]) for key in ("job", "step") if one.get(key))

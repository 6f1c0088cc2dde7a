"""The form of one draft: the job, then its steps, each a card that is filled when it is first opened.

What belongs here: which rows stand where, and changes of the draft's shape.  What may not: judging,
estimating and sending (the view does), and editors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLayout, QScrollArea, QToolButton, QVBoxLayout, QWidget

from client_gui.store.draft import Draft, Path, Problem, read_path
from client_gui.store.fields import (
    JOB_GROUPS,
    STEP_ESSENTIALS,
    STEP_GROUPS,
    UNSET,
    Field,
    Group,
    fields_of_renderer,
    title_of,
)
from client_gui.store.placewords import part_words
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.cards import SceneBar, StepCard
from client_gui.views.submit_parts.editors import quiet_wheel, tabbed
from client_gui.views.submit_parts.rows import FieldRow, Fold, said, short
from farm.renderers.base import Renderer


class Form(QScrollArea):
    """The form of one draft.

    Attributes:
        draft: What is filled in.
        rows: Every row that was made, by the place of its value.
    """

    #: Something was filled in.
    edited = Signal()
    #: The scene of a step is to be read by Blender, or not any more.
    scene_wanted = Signal(int, bool)

    def __init__(
        self,
        draft: Draft,
        renderers: dict[str, Renderer],
        theme: Theme,
        parent: QWidget | None = None,
        *,
        blender: bool = False,
    ) -> None:
        super().__init__(parent)
        self.draft = draft
        self.rows: dict[Path, FieldRow] = {}
        self._renderers = renderers
        self._theme = theme
        self._folds: list[tuple[Fold, Path, Group]] = []
        self._cards: list[StepCard] = []
        self._problems: tuple[Problem, ...] = ()
        self._blender = blender
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._inside = QWidget(self)
        self._inside.setObjectName("form")
        self._column = QVBoxLayout(self._inside)
        edge = theme.em(0.5)
        self._column.setContentsMargins(edge, edge, edge, edge)
        self._column.setSpacing(theme.em(0.5))
        self.setWidget(self._inside)
        self._job_card()
        for index in range(len(draft.steps)):
            self._step_card(index)
        self._add = self._add_row()
        self._column.addWidget(self._add)
        self._strange = said("", "dim", theme.font(small=True), self._inside)
        self._column.addWidget(self._strange)
        self._column.addStretch(1)
        self.refresh()
        self._put_in_order()

    # -- building --

    def _job_card(self) -> None:
        card = Fold("Job", self._theme, card=True, parent=self._inside)
        origin = f"from {self.draft.origin}" if self.draft.origin else ""
        card.set_summary(origin)
        for note in self.draft.notes:
            card.body.addWidget(said(note, "dim", self._theme.font(small=True), card.inside))
        for group in JOB_GROUPS:
            self._group(card.body, (), group)
        card.open()
        self._column.addWidget(card)

    def _step_card(self, index: int) -> None:
        card = StepCard(self, index)
        self._cards.append(card)
        self._column.insertWidget(1 + index, card)
        if len(self.draft.steps) <= 2:
            card.open()

    def _group(self, layout: QVBoxLayout, base: Path, group: Group) -> None:
        """Rows of a group, below a heading when it has one."""
        if not group.title:
            for field in group.fields:
                self._row(layout, base, field)
            return
        fold = Fold(group.title, self._theme, parent=self._inside)
        layout.addWidget(fold)
        self._folds.append((fold, base, group))
        fold.opened.connect(partial(self._fill, fold, base, group))
        if not group.folded:
            fold.open()

    def _fill(self, fold: Fold, base: Path, group: Group) -> None:
        if fold.body.count():
            return
        for field in group.fields:
            self._row(fold.body, base, field)
        self.show_problems(self._problems)
        self._put_in_order()

    def _row(self, layout: QVBoxLayout, base: Path, field: Field) -> None:
        path = (*base, *field.path)
        row = FieldRow(path, field, self._theme, self._inside)
        row.edited.connect(self._edited)
        self.rows[path] = row
        layout.addWidget(row)
        row.show_draft(self.draft)
        row.editor.setEnabled(self.draft.editable)

    def _add_row(self) -> QWidget:
        holder = QWidget(self._inside)
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        box = QComboBox(holder)
        box.setAccessibleName("Renderer of the new step")
        quiet_wheel(box)
        for name in self._renderers:
            box.addItem(title_of(name), name)
        add = QToolButton(holder)
        add.setText("+ Step")
        add.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        add.clicked.connect(lambda: self.add_step(box.currentData()))
        film = QToolButton(holder)
        film.setText("+ Movie of the frames")
        film.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        film.clicked.connect(self.add_film)
        for widget in (film, add, box):
            row.addWidget(widget)
        row.addStretch(1)
        self._film = film
        return holder

    def fill_step(self, card: StepCard) -> None:
        """Makes the rows of a step's card, when it is first opened."""
        base: Path = ("steps", card.index)
        step = self.draft.steps[card.index]
        name = step.get("renderer")
        card.body.addWidget(card.renderer_row(list(self._renderers), name))
        frames = step.get("kind", "per_frame") == "per_frame"
        renderer = self._renderers.get(name) if isinstance(name, str) else None
        essentials = {field.key: field for field in STEP_ESSENTIALS}
        if renderer is None or len(renderer.kinds) > 1 or step.get("kind", "per_frame") not in renderer.kinds:
            self._row(card.body, base, essentials["kind"])
        near, rest = _parameters(renderer, step.get("params", {})) if renderer is not None else ((), ())
        for field in near:
            self._row(card.body, (*base, "params"), field)
            if self._blender and name == "blender" and field.key == "scene":
                card.scene = SceneBar(self._theme, card.inside)
                card.scene.wanted.connect(lambda on, at=card.index: self.scene_wanted.emit(at, on))
                card.body.addWidget(card.scene)
        if frames:
            self._row(card.body, base, essentials["frames"])
        self._row(card.body, base, essentials["outputs"])
        if rest and renderer is not None:
            title = f"{title_of(renderer.name)} settings"
            self._group(card.body, (*base, "params"), Group(title, rest, folded=False))
        for group in STEP_GROUPS:
            kept = tuple(one for one in group.fields if frames or one.key not in ("chunk", "order"))
            self._group(card.body, base, Group(group.title, kept, group.folded))
        self._group(card.body, base, Group("Name of the step", (essentials["name"],)))
        self.show_problems(self._problems)
        self._put_in_order()

    def _put_in_order(self) -> None:
        """Tab goes down the form: without a word, what is made last comes last."""
        found: list[QWidget] = []
        _collect(self._column, found)
        for before, after in pairwise(found):
            QWidget.setTabOrder(before, after)

    # -- what Blender says of a scene --

    def offer_blender(self, on: bool) -> None:
        """Whether there is a Blender here that could read scenes."""
        if on != self._blender:
            self._blender = on
            if self._cards:
                self._rebuild()

    def show_reading(self, index: int, words: str, *, on: bool, tone: str = "dim") -> None:
        """A step's scene is being read, or what came of it."""
        if index < len(self._cards) and (bar := self._cards[index].scene) is not None:
            bar.show_reading(words, on=on, possible=self._readable(index), tone=tone)

    def _readable(self, index: int) -> bool:
        scene = self.draft.value(("steps", index, "params", "scene"))
        return self.draft.editable and isinstance(scene, str) and bool(scene.strip())

    def show_filled(self) -> None:
        """Fields were filled in by something else than a hand."""
        for row in self.rows.values():
            row.show_draft(self.draft)
        self.refresh()

    def show_hints(self, index: int, hints: Mapping[str, str]) -> None:
        """What holds for parameters of a step that are left empty."""
        for name, text in hints.items():
            row = self.rows.get(("steps", index, "params", name))
            if row is not None:
                row.editor.show_hint(text)

    # -- changes --

    def _edited(self, path: Path, value: Any) -> None:
        draft = self.draft
        if not draft.editable:
            return
        step = path[1] if len(path) > 1 and isinstance(path[1], int) else -1
        if path[2:] == ("name",) and step >= 0 and isinstance(value, str):
            draft.rename_step(step, value)
        elif path[2:] == ("kind",) and step >= 0:
            draft.set_kind(step, value if isinstance(value, str) else "per_frame")
            self._reshape(step)
        else:
            draft.put(path, value)
        row = self.rows.get(path)
        if row is not None:
            row.show_draft(draft)
            row.set_problem(row.field.problem(draft.value(path)))
        self.refresh()
        self.edited.emit()

    def set_renderer(self, index: int, name: str) -> None:
        """Gives a step another renderer."""
        if self.draft.editable and name in self._renderers:
            self.draft.set_renderer(index, self._renderers[name])
            self._reshape(index)
            self.edited.emit()

    def add_step(self, name: str) -> None:
        """Adds a step and goes there."""
        if self.draft.editable and name in self._renderers:
            self._new_step(self.draft.add_step(self._renderers[name]))

    def add_film(self) -> None:
        """Adds a step that joins the frames of the last step that has some."""
        source = self._film_source()
        if self.draft.editable and source >= 0:
            self._new_step(self.draft.add_film(source))

    def _new_step(self, index: int) -> None:
        self._step_card(index)
        self._cards[index].open()
        self.refresh()
        self.edited.emit()
        self._cards[index].focus_renderer()

    def _film_source(self) -> int:
        for index in range(len(self.draft.steps) - 1, -1, -1):
            step = self.draft.steps[index]
            if step.get("kind", "per_frame") == "per_frame":
                return index
        return -1

    def remove_step(self, index: int) -> None:
        """Takes a step away; the last one stays."""
        if self.draft.editable and len(self.draft.steps) > 1:
            self.draft.remove_step(index)
            self._rebuild()
            self.edited.emit()

    def _reshape(self, index: int) -> None:
        """A step has other fields now: its card is made anew."""
        was_open = self._cards[index].is_open
        self._drop(index)
        card = StepCard(self, index)
        self._cards[index] = card
        self._column.insertWidget(1 + index, card)
        card.open(was_open)
        self.refresh()
        if card.renderers is not None:
            card.renderers.setFocus(Qt.FocusReason.OtherFocusReason)

    def _rebuild(self) -> None:
        """Steps have other indices now: all their cards are made anew."""
        open_ones = {card.index for card in self._cards if card.is_open}
        for index in range(len(self._cards)):
            self._drop(index)
        self._cards = []
        for index in range(len(self.draft.steps)):
            card = StepCard(self, index)
            self._cards.append(card)
            self._column.insertWidget(1 + index, card)
            card.open(index in open_ones)
        self.refresh()

    def _drop(self, index: int) -> None:
        card = self._cards[index]
        base: Path = ("steps", index)
        self.rows = {path: row for path, row in self.rows.items() if path[:2] != base}
        self._folds = [one for one in self._folds if one[1][:2] != base]
        card.hide()
        self._column.removeWidget(card)
        card.deleteLater()

    # -- showing --

    def refresh(self) -> None:
        """Shows the draft as it is now: values, headings, what may be done."""
        editable = self.draft.editable
        for path, row in self.rows.items():
            if path[-1] in ("movie_frames", "after", "input"):
                row.show_draft(self.draft)
            row.editor.setEnabled(editable)
            row.reset.setEnabled(editable)
        for fold, base, group in self._folds:
            fold.set_summary(self._set_in(base, group))
        for card in self._cards:
            card.refresh(editable, len(self.draft.steps) > 1)
            if card.scene is not None and card.scene.button.text() != "Stop":
                card.scene.button.setEnabled(self._readable(card.index))
        self._film.setEnabled(editable and self._film_source() >= 0)
        self._add.setEnabled(editable)
        strange = self.draft.strange()
        self._strange.setVisible(bool(strange))
        self._strange.setText(
            f"Kept as they are, and without effect here: {', '.join(strange)}" if strange else ""
        )

    def _set_in(self, base: Path, group: Group) -> str:
        found = []
        for field in group.fields:
            value = self.draft.value((*base, *field.path))
            if value is not UNSET and value != field.default:
                found.append(f"{field.label.lower()} {short(value)}")
        return " · ".join(found)

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Shows each beside its field; those without a row of their own go to the nearest."""
        self._problems = problems
        told: dict[Path, Problem] = {}
        for problem in problems:
            path = self._place(problem.path)
            if path is not None:
                told.setdefault(path, problem)
        for path, row in self.rows.items():
            found = told.get(path)
            if found is None:
                row.set_problem("")
            else:
                exact = found.path == path
                rest = "" if exact else part_words(found.path[len(path) :])
                text = f"{rest}: {found.text}" if rest else found.text
                fresh = found.missing and path not in self.draft.touched
                row.set_problem(text, found.hint, soft=fresh)
        for card in self._cards:
            base: Path = ("steps", card.index)
            card.count(sum(1 for problem in problems if problem.path[:2] == base))

    def _place(self, path: Path) -> Path | None:
        """The row nearest above a place, None when there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.rows:
                return path[:length]
        return None

    def go(self, path: Path) -> bool:
        """Opens what a place lies in and gives it the keys; whether there is such a place."""
        if len(path) > 1 and path[0] == "steps" and isinstance(path[1], int) and path[1] < len(self._cards):
            self._cards[path[1]].open()
            if path[2:3] == ("renderer",):
                self._cards[path[1]].focus_renderer()
                return True
        if self._place(path) is None:
            for fold, base, group in self._folds:
                if any((*base, *one.path) == path[: len(base) + len(one.path)] for one in group.fields):
                    fold.open()
        place = self._place(path)
        if place is None:
            return False
        row = self.rows[place]
        for fold, _, _ in self._folds:
            if fold.isAncestorOf(row):
                fold.open()
        row.focus(path[len(place) :])
        QTimer.singleShot(0, row, lambda: self.ensureWidgetVisible(row))
        return True

    def focus_first(self) -> None:
        """Gives the keys to the first field."""
        row = self.rows.get(read_path("name"))
        if row is not None:
            row.focus()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Tab moves on; what has the keys then is brought into view."""
        moved = super().focusNextPrevChild(forward)
        widget = self.focusWidget()
        if widget is not None and self._inside.isAncestorOf(widget):
            self.ensureWidgetVisible(widget, 0, self._theme.em(2))
        return moved

    @property
    def theme(self) -> Theme:
        """The look."""
        return self._theme


def _collect(layout: QLayout, found: list[QWidget]) -> None:
    """What takes the keys in a layout, from top to bottom."""
    for at in range(layout.count()):
        item = layout.itemAt(at)
        widget = item.widget() if item is not None else None
        if isinstance(widget, Fold):
            found += [one for one in tabbed(widget) if not widget.inside.isAncestorOf(one)]
            _collect(widget.body, found)
        elif isinstance(widget, FieldRow):
            found += widget.editor.inputs()
        elif widget is not None:
            found += tabbed(widget)


def _parameters(renderer: Renderer, given: dict[str, Any]) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """A renderer's parameters: what must be given and where its files come from, and the rest."""
    fields = fields_of_renderer(renderer)
    files = [one for one in fields if one.kind in ("path", "input")]
    near = tuple(
        one for one in fields if one.required or (one in files and (one is files[0] or one.key in given))
    )
    return near, tuple(one for one in fields if one not in near)

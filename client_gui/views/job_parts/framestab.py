"""The tab of frames: what the cells show, the grid, its legend, the filter, the table, and frame times.

What belongs here: the parts and how they share room.  What may not: what each of them does.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.context import ActionContext
from client_gui.actions.records import SELECT_STATES
from client_gui.settings import Setting
from client_gui.style.glyphs import state_icon
from client_gui.style.lazily import when_seen
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framecard import FrameCard
from client_gui.views.job_parts.framegrid import FrameGrid
from client_gui.views.job_parts.framemodel import FrameModel
from client_gui.views.job_parts.frameset import many
from client_gui.views.job_parts.frametable import FrameTable
from client_gui.views.job_parts.gridlegend import GridLegend
from client_gui.views.job_parts.heat import MODE_HELP, Mode
from client_gui.views.job_parts.remembered import remember_shares
from client_gui.views.job_parts.selecting import select_word
from client_gui.views.job_parts.timespanel import TimesPanel
from client_gui.views.job_parts.unitfilter import partial_fields
from farm.model.query import FRAMES, Query, QueryError
from farm.model.states import UnitState

MODE: Final = Setting("job/grid_mode", Mode.STATE.value)
TIMES: Final = Setting("job/times", True)
#: Below these heights of the tab, in heights of the font, times are shown only when somebody asks for them.
TIMES_BESIDE_EM, TIMES_BELOW_EM = 24, 36
#: How long somebody must stop typing before a filter is run.
TYPED_MS: Final = 120


class FramesTab(QWidget):
    """Everything about a job's frames."""

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.grid = FrameGrid(board)
        self.legend = GridLegend(board, self.grid.picture)
        self.model = FrameModel(board, self)
        self.table = FrameTable(board, self.model)
        self.times = TimesPanel(board)
        self.card = FrameCard(board, self)
        self.card.hide()
        self._shown_states: set[int] = set()
        self._low = False
        self._times_asked = False
        self._empty = QLabel()
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setTextFormat(Qt.TextFormat.PlainText)

        self._pages = QStackedWidget()
        self._pages.addWidget(self._build())
        self._pages.addWidget(self._empty)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self._pages)

        self.grid.hovered.connect(self._hover)
        self.grid.legend_changed.connect(self.legend.refresh)
        self._typed = QTimer(self)
        self._typed.setSingleShot(True)
        self._typed.setInterval(TYPED_MS)
        self._typed.timeout.connect(self._filter)
        self.filter.textEdited.connect(lambda: self._typed.start())
        self.filter.returnPressed.connect(self._filter)
        self.model.counted.connect(self._counted)
        board.steps_changed.connect(self.refresh)
        board.step_changed.connect(self._step_changed)
        board.states_changed.connect(self._states_changed)
        board.picked.changed.connect(self._counted)
        when_seen(self._theme, self, self._restyle)
        self._set_mode(_mode_of(board.desk.settings.get(MODE)))
        self.times.setVisible(board.desk.settings.get(TIMES))
        self._times_button.setChecked(board.desk.settings.get(TIMES))
        self._handle()
        self._restyle()
        self.refresh()

    def _handle(self) -> None:
        """Takes the actions that only a list of frames can do."""
        book, picked = self._board.desk.actions, self._board.picked

        def find(context: ActionContext, value: str) -> None:
            self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.filter.selectAll()

        def invert(context: ActionContext, value: str) -> None:
            for step in self._board.frames:
                picked.invert(step)

        book.handle("find", find, self)
        book.handle("clear-filter", lambda context, value: self._clear_filter(), self)
        book.handle("select-all", lambda context, value: self.table.selectAll(), self)
        book.handle("select-none", lambda context, value: picked.clear(), self)
        book.handle("select-invert", invert, self)
        for word in SELECT_STATES:
            book.handle(f"select-{word}", partial(self._select_word, word), self)

    def _select_word(self, word: str, context: ActionContext, value: str) -> None:
        select_word(self._board, word)

    # -- parts --

    def _build(self) -> QWidget:
        upper = QWidget()
        box = QVBoxLayout(upper)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._build_modes())
        box.addWidget(self.grid, 1)
        self._legend_box = QWidget()
        legend = QVBoxLayout(self._legend_box)
        legend.addWidget(self.legend)
        box.addWidget(self._legend_box)
        lower = QWidget()
        box = QVBoxLayout(lower)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._build_filter())
        box.addWidget(self._trouble_label())
        below = QSplitter(Qt.Orientation.Horizontal)
        below.addWidget(self.table)
        below.addWidget(self.times)
        below.setStretchFactor(0, 3)
        below.setStretchFactor(1, 2)
        below.setChildrenCollapsible(False)
        box.addWidget(below, 1)
        both = QSplitter(Qt.Orientation.Vertical)
        both.addWidget(upper)
        both.addWidget(lower)
        both.setStretchFactor(0, 2)
        both.setStretchFactor(1, 3)
        both.setChildrenCollapsible(False)
        both.setSizes([400, 600])
        self.splitter, self.below = both, below
        for splitter, name in ((both, "rows"), (below, "table")):
            remember_shares(splitter, self._board.desk.settings, f"job/frames_{name}")
        return both

    def _build_modes(self) -> QWidget:
        bar = QWidget()
        box = QHBoxLayout(bar)
        self._mode_bar = box
        self._modes = QButtonGroup(self)
        self._mode_buttons: dict[Mode, QToolButton] = {}
        for number, mode in enumerate(Mode):
            button = QToolButton()
            button.setText(mode.value.capitalize())
            button.setCheckable(True)
            button.setAutoRaise(True)
            button.setToolTip(f"Cells show {MODE_HELP[mode]}")
            button.setAccessibleName(f"Cells show {mode}")
            self._modes.addButton(button, number)
            self._mode_buttons[mode] = button
            box.addWidget(button)
        self._modes.idClicked.connect(lambda number: self._set_mode(list(Mode)[number]))
        box.addStretch(1)
        for text, name, slot in (
            ("−", "Smaller cells (−)", lambda: self.grid.zoom(-1)),
            ("+", "Larger cells (+)", lambda: self.grid.zoom(1)),
            ("Fit", "As large as everything can be seen (0)", self.grid.fit),
        ):
            button = QToolButton()
            button.setText(text)
            button.setAutoRaise(True)
            button.setToolTip(name)
            button.setAccessibleName(name)
            button.clicked.connect(slot)
            box.addWidget(button)
        return bar

    def _build_filter(self) -> QWidget:
        bar = QWidget()
        box = QHBoxLayout(bar)
        self._filter_bar = box
        self.steps = QComboBox()
        self.steps.setAccessibleName("Step whose frames the table shows")
        self.steps.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.steps.activated.connect(lambda at: self._board.set_step(self.steps.itemText(at)))
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter: time>5m tries>1 node:rack frame:1001-1020")
        self.filter.setAccessibleName("Filter of frames")
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(lambda text: None if text else self._filter())
        self.filter.installEventFilter(self)
        box.addWidget(self.steps)
        self.chips: dict[UnitState, QToolButton] = {}
        for number, word in enumerate(SELECT_STATES):
            state = next((one for one in UnitState if one.word == word), None)
            if state is None:
                continue
            chip = QToolButton()
            chip.setCheckable(True)
            chip.setAutoRaise(True)
            chip.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            chip.clicked.connect(lambda on, state=state: self._chip(state, on))
            chip.setToolTip(f"Show only {state.word} frames; Alt+{number + 1} selects them")
            self.chips[state] = chip
            box.addWidget(chip)
        box.addWidget(self.filter, 1)
        self.count = QLabel()
        self.count.setTextFormat(Qt.TextFormat.PlainText)
        box.addWidget(self.count)
        self._times_button = QToolButton()
        self._times_button.setText("Times")
        self._times_button.setCheckable(True)
        self._times_button.setAutoRaise(True)
        self._times_button.setToolTip("Show how long frames take")
        self._times_button.toggled.connect(self._show_times)
        box.addWidget(self._times_button)
        return bar

    def _trouble_label(self) -> QLabel:
        self._trouble = QLabel()
        self._trouble.setTextFormat(Qt.TextFormat.PlainText)
        self._trouble.setWordWrap(True)
        self._trouble.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._trouble.hide()
        return self._trouble

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Where there is no room beside the table, times stand below it."""
        super().resizeEvent(event)
        wide = self.width() >= self._theme.em(64)
        self.below.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)
        self._fit_times()

    def _fit_times(self) -> None:
        """In a low dock frames have the room, unless somebody asks for times there."""
        wide = self.below.orientation() is Qt.Orientation.Horizontal
        self._low = self.height() < self._theme.em(TIMES_BESIDE_EM if wide else TIMES_BELOW_EM)
        if not self._low:
            self._times_asked = False
        on = bool(self._board.desk.settings.get(TIMES)) and (not self._low or self._times_asked)
        self.times.setVisible(on)
        if on != self._times_button.isChecked():
            self._times_button.blockSignals(True)
            self._times_button.setChecked(on)
            self._times_button.blockSignals(False)

    def _restyle(self) -> None:
        theme = self._theme
        edge = theme.em(0.35)
        for bar in (self._mode_bar, self._filter_bar):
            bar.setContentsMargins(edge, theme.em(0.15), edge, theme.em(0.15))
            bar.setSpacing(theme.em(0.15))
        legend = self._legend_box.layout()
        assert legend is not None
        legend.setContentsMargins(theme.em(0.5), theme.em(0.15), theme.em(0.5), theme.em(0.15))
        self._trouble.setContentsMargins(theme.em(0.5), 0, theme.em(0.5), theme.em(0.2))
        small = theme.font(small=True)
        for widget in (*self._mode_buttons.values(), *self.chips.values(), self.count, self._trouble):
            widget.setFont(small)
        for label, token in ((self.count, "dim"), (self._empty, "dim")):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, theme.colour(token))
            label.setPalette(palette)
        self._chips_refresh()

    # -- what is shown --

    def refresh(self) -> None:
        """Puts steps, chips and empty texts right."""
        board = self._board
        names = list(board.frames)
        if [self.steps.itemText(at) for at in range(self.steps.count())] != names:
            self.steps.clear()
            self.steps.addItems(names)
        self.steps.setVisible(len(names) > 1)
        self._step_changed()
        text = self._empty_text()
        self._empty.setText(text)
        self._pages.setCurrentIndex(1 if text else 0)
        self._states_changed()

    def _empty_text(self) -> str:
        board = self._board
        if not board.job:
            return "No job is chosen.\nChoose one in the list of jobs."
        if board.row is None:
            if not board.desk.client.live:
                return f"J{board.job} is not known here: the farm cannot be asked just now."
            return f"J{board.job} is loading…"
        if not board.frames:
            return f"J{board.job} has no steps."
        return ""

    def _step_changed(self) -> None:
        at = self.steps.findText(self._board.step)
        if at >= 0 and at != self.steps.currentIndex():
            self.steps.setCurrentIndex(at)
        self.grid.viewport().update()
        self._chips_refresh()

    def _states_changed(self, *_: Any) -> None:
        self.legend.refresh()
        self._chips_refresh()

    def _chips_refresh(self) -> None:
        counts = self._board.counts(self._board.step)
        for state, chip in self.chips.items():
            count = int(counts[state]) if counts is not None else 0
            text = f"{count:,}"
            chip.setIcon(state_icon(self._theme, state.word))
            if chip.text() != text:
                chip.setText(text)
                chip.setAccessibleName(f"Show only {state.word} frames, {count}")
            chip.setVisible(count > 0 or chip.isChecked())

    def _set_mode(self, mode: Mode) -> None:
        self._mode_buttons[mode].setChecked(True)
        self.grid.set_mode(mode)
        self._board.desk.settings.set(MODE, mode.value)
        self.legend.refresh()

    def _show_times(self, on: bool) -> None:
        self._times_asked = on and self._low
        if on or not self._low:
            self._board.desk.settings.set(TIMES, on)
        self.times.setVisible(on)

    def _hover(self, step: str, unit: int, at: QPoint) -> None:
        if step or self.card.isVisible():
            self.card.tell(step, unit, at)

    # -- filtering --

    def _chip(self, state: UnitState, on: bool) -> None:
        (self._shown_states.add if on else self._shown_states.discard)(int(state))
        self.model.set_states(frozenset(self._shown_states))
        self._chips_refresh()

    def _clear_filter(self) -> None:
        self.filter.clear()
        for chip in self.chips.values():
            chip.setChecked(False)
        self._shown_states.clear()
        self.model.set_states(frozenset())
        self._chips_refresh()

    def _filter(self) -> None:
        self._typed.stop()
        text = self.filter.text().strip()
        note = ""
        try:
            query = Query.parse(text, FRAMES) if text else None
        except QueryError as error:
            # What was shown before stays while somebody is still writing.
            self._say(
                f"{error.message} (at {error.position + 1}){': ' + error.hint if error.hint else ''}", "bad"
            )
            return
        if query is not None:
            doubts = query.doubts()
            partly = partial_fields(query)
            if doubts:
                note = doubts[0].message
            elif partly:
                note = f"{', '.join(partly)}: known of failed frames, and of those that were on the screen"
            if partly and (frames := self._board.current) is not None:
                self._board.details.fetch_failed(frames)
        self._say(note, "warn")
        self.model.set_query(query)

    def _say(self, text: str, token: str) -> None:
        palette = self._trouble.palette()
        palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour(token))
        self._trouble.setPalette(palette)
        self._trouble.setText(text)
        self._trouble.setVisible(bool(text))

    def _counted(self) -> None:
        frames = self._board.current
        if frames is None:
            self.count.clear()
            return
        shown = len(self.model.units)
        text = many(frames.units, "frame") if shown == frames.units else f"{shown:,} of {frames.units:,}"
        if chosen := self._board.picked.count:
            rows = self.model.units
            visible = int(np.count_nonzero(self._board.picked.marks(frames.step)[rows])) if len(rows) else 0
            text += f", {chosen:,} selected"
            if visible < chosen and shown < frames.units:
                text += f" ({chosen - visible:,} not shown)"
        self.count.setText(text)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Escape in the filter clears it; Down goes to the table."""
        if watched is self.filter and event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape and self.filter.text():
                self.filter.clear()
                return True
            if event.key() == Qt.Key.Key_Down:
                self.table.setFocus(Qt.FocusReason.ShortcutFocusReason)
                return True
        return super().eventFilter(watched, event)


def _mode_of(word: str) -> Mode:
    try:
        return Mode(word)
    except ValueError:
        return Mode.STATE

"""The frames of the current step as rows of a table: any number of them, none of them an object.

What belongs here: which units are shown in which order, and the value of a cell.  What may not: widgets, and
what is selected (``picked``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
    Signal,
)

from client_gui.store import times
from client_gui.store.moves import StepKind
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framearrange import (
    NO_ROWS,
    Arranged,
    Rows,
    Wish,
    arrange,
    arranged_none,
    ascending,
)
from client_gui.views.job_parts.framecolumns import HEADS, MODE_OF, MODES, RIGHT, Col, note_of, source_of
from client_gui.views.job_parts.frameset import FrameSet, state_word
from client_gui.views.job_parts.heat import WRITTEN, Mode
from client_gui.views.job_parts.sums import AT_ONCE as IN_PARTS
from client_gui.views.job_parts.sums import Sums
from client_gui.views.job_parts.unitfilter import OF_ROWS
from farm.model.query import Query
from farm.model.states import UnitState
from farm.sdk.words import duration_text, price_text

Index = QModelIndex | QPersistentModelIndex
_DISPLAY: Final = Qt.ItemDataRole.DisplayRole
_ALIGN: Final = Qt.ItemDataRole.TextAlignmentRole
_TIP: Final = Qt.ItemDataRole.ToolTipRole
_SPOKEN: Final = Qt.ItemDataRole.AccessibleTextRole
#: The index of the unit; the part of its bar, of the longest shown; whether it stands out.
UNIT_ROLE: Final = Qt.ItemDataRole.UserRole + 1
BAR_ROLE: Final = Qt.ItemDataRole.UserRole + 2
OUTLIER_ROLE: Final = Qt.ItemDataRole.UserRole + 3
#: How far a running frame is, 0 to 1.
PROGRESS_ROLE: Final = Qt.ItemDataRole.UserRole + 4
#: Steps with more frames than this are not arranged anew with every change.
AT_ONCE: Final = 20_000
#: How long their figures are gathered before they are counted anew.
COUNT_MS: Final = 500


class FrameModel(QAbstractTableModel):
    """Frames of the current step that a filter lets through, in the order of a column.

    Attributes:
        units: Units by row.
    """

    #: How many rows there are changed, or of how many.
    counted = Signal()

    def __init__(self, board: JobBoard, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self.units: Rows = NO_ROWS
        self._rows: Rows = NO_ROWS
        self._step: FrameSet | None = None
        self._query: Query | None = None
        self._states: frozenset[int] = frozenset()
        self._column, self._down = Col.FRAME, False
        self._seconds = np.zeros(0)
        self._known: times.Statistics | None = None
        self._frozen = False
        self._late = False
        self._sums, self._counts = Sums(self), Sums(self)
        self._sums.stood.connect(self.counted)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.timeout.connect(self.arrange)
        self._count_soon = QTimer(self)
        self._count_soon.setSingleShot(True)
        self._count_soon.setInterval(COUNT_MS)
        self._count_soon.timeout.connect(self._recount)
        board.step_changed.connect(self.reload)
        board.steps_changed.connect(self._steps)
        board.states_changed.connect(self._states_changed)
        board.figures_changed.connect(self._figures_changed)
        board.details.came.connect(self._rows_came)
        self.reload()

    # -- what is shown --

    @property
    def frames(self) -> FrameSet | None:
        """The step whose frames are shown."""
        return self._step

    def set_query(self, query: Query | None) -> None:
        """Shows only what a filter lets through."""
        self._query = query
        self.arrange()

    def set_states(self, states: frozenset[int]) -> None:
        """Shows only frames in some states; none = all."""
        self._states = states
        self.arrange()

    def freeze(self, frozen: bool) -> None:
        """While a menu is open or the mouse is held, nothing stands elsewhere than it was."""
        self._frozen = frozen
        if not frozen and self._late:
            self._late = False
            self.arrange()

    def row_of(self, unit: int) -> int:
        """The row of a unit, -1 when it is not shown."""
        return int(self._rows[unit]) if 0 <= unit < len(self._rows) else -1

    def unit_at(self, row: int) -> int:
        """The unit of a row."""
        return int(self.units[row])

    def median_s(self) -> float | None:
        """Median of the step's known times."""
        return self._known.median_s if self._known is not None else None

    # -- arranging --

    def reload(self) -> None:
        """Another step, or the same with other frames."""
        self._step = self._board.current
        self._late = False
        self._take_seconds()
        if self._step is None or self._step.units >= IN_PARTS:
            # Rows of another step must not stand there while those of this one are being arranged.
            self._show(arranged_none(self.units))
        self._order()

    def arrange(self) -> None:
        """Filters and sorts anew; rows that stay keep their place in the list and what is selected."""
        if self._frozen:
            self._late = True
            return
        self._soon.stop()
        began_s = time.perf_counter()
        self._order()
        # To show a million frames anew takes a while: the window's turns must stay many times longer.
        self._soon.setInterval(round(20_000 * (time.perf_counter() - began_s)))

    @property
    def busy(self) -> bool:
        """Whether frames are being arranged."""
        return self._sums.busy

    def _order(self) -> None:
        frames = self._step
        if frames is None:
            self._sums.give_up()
            return
        states = self._board.states(frames.step)
        known = states is not None and len(states) == frames.units
        wish = Wish(self._query, self._states if known else frozenset(), self._column, self._down)
        many = frames.units >= IN_PARTS
        needed = tuple(Mode) if wish.query else (MODE_OF.get(wish.column),)
        source = source_of(self._board, frames, self._seconds, needed, apart=many)
        before = self.units
        # As they come they are there at once, however many they are.
        count = 0 if wish.plain and ascending(frames) and not len(before) else frames.units
        self._sums.make(
            (frames.job, frames.step, frames.units),
            count,
            partial(arrange, wish, source, before),
            partial(self._arranged, before),
        )

    def _arranged(self, before: Rows, found: Arranged) -> None:
        if self._frozen:
            self._late = True
        elif self.units is not before:
            self._order()
        else:
            self._show(found)

    def _arrange_soon(self) -> None:
        if self._step is None or self._step.units <= AT_ONCE:
            self.arrange()
        elif not self._soon.isActive():
            self._soon.start()

    def _steps(self) -> None:
        if self._board.current is not self._step:
            self.reload()

    def _show(self, found: Arranged) -> None:
        for step, rows in found.steps:
            nothing = QModelIndex()
            if step.kind is StepKind.REMOVE:
                self.beginRemoveRows(nothing, step.first, step.last)
                self.units, self._rows = step.view, rows
                self.endRemoveRows()
            elif step.kind is StepKind.INSERT:
                self.beginInsertRows(nothing, step.first, step.last)
                self.units, self._rows = step.view, rows
                self.endInsertRows()
            elif step.kind is StepKind.MOVE:
                to = step.to + 1 if step.to > step.first else step.to
                self.beginMoveRows(nothing, step.first, step.first, nothing, to)
                self.units, self._rows = step.view, rows
                self.endMoveRows()
            else:
                self.layoutAboutToBeChanged.emit()
                old = self.persistentIndexList()
                new = [self.index(int(step.new_rows[index.row()]), index.column()) for index in old]
                self.units, self._rows = step.view, rows
                self.changePersistentIndexList(old, new)
                self.layoutChanged.emit()
        self.units, self._rows = found.units, found.rows
        self.counted.emit()

    # -- changes --

    def _take_seconds(self) -> None:
        frames = self._step
        if frames is None:
            self._seconds, self._known = np.zeros(0), None
            self._counts.give_up()
            return
        self._seconds = self._board.figures.seconds(frames.step, frames.units)
        self._known = None
        self._count(lambda: None)

    def _count(self, then: Callable[[], None]) -> None:
        """Takes the step's times in a few numbers, and goes on."""
        frames = self._step
        if frames is None:
            return

        def counted(known: times.Statistics | None) -> None:
            self._known = known
            then()

        seconds = self._seconds.copy() if frames.units >= IN_PARTS else self._seconds
        about = (frames.job, frames.step, frames.units)
        self._counts.make(about, frames.units, partial(times.statistics, seconds), counted)

    def _states_changed(self, step: str, units: Any) -> None:
        if self._step is None or step != self._step.step:
            return
        fields = self._query.fields() if self._query is not None and self._query else frozenset()
        if self._states or self._column is Col.STATE or "state" in fields:
            self._arrange_soon()
        self._touched(units)

    def _figures_changed(self, step: str, units: Any) -> None:
        frames = self._step
        if frames is None or step != frames.step:
            return
        if units is not None and len(self._seconds) == frames.units:
            known = units[units < frames.units]
            self._seconds[known] = self._board.figures.some(Mode.TIME, step, known)
        else:
            self._seconds = self._board.figures.seconds(step, frames.units)
        if frames.units <= AT_ONCE:
            self._recount()
        else:
            self._touched(units)
            if not self._count_soon.isActive():
                self._count_soon.start()

    def _recount(self) -> None:
        """Figures are others: the median is, and with it every bar, and perhaps what fits and its order."""
        self._count_soon.stop()
        self._count(self._recounted)

    def _recounted(self) -> None:
        fields = self._query.fields() if self._query is not None and self._query else frozenset()
        if self._column not in (Col.FRAME, Col.STATE) or fields & {"time", "cost", "tries", "node"}:
            self._arrange_soon()
        self._touched(None)

    def _rows_came(self, step: str, units: Any) -> None:
        if self._step is None or step != self._step.step:
            return
        if self._query is not None and self._query and self._query.fields() & OF_ROWS:
            self._arrange_soon()
        self._touched(units)

    def _touched(self, units: Any) -> None:
        if not len(self.units):
            return
        first, last = 0, len(self.units) - 1
        if units is not None:
            changed = np.asarray(units, np.int64)
            rows = self._rows[changed[changed < len(self._rows)]]
            rows = rows[rows >= 0]
            if not len(rows):
                return
            first, last = int(rows.min()), int(rows.max())
        self.dataChanged.emit(self.index(first, 0), self.index(last, len(Col) - 1))

    # -- Qt --

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Frames that are shown."""
        return 0 if parent.isValid() else len(self.units)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Columns."""
        return 0 if parent.isValid() else len(Col)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Heads of columns."""
        if orientation is Qt.Orientation.Horizontal and 0 <= section < len(HEADS):
            if role == _DISPLAY:
                return HEADS[section]
            if role == _ALIGN:
                side = Qt.AlignmentFlag.AlignRight if section in RIGHT else Qt.AlignmentFlag.AlignLeft
                return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column."""
        self._column, self._down = Col(max(column, 0)), order is Qt.SortOrder.DescendingOrder
        self.arrange()

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """A cell."""
        frames = self._step
        if not index.isValid() or frames is None or index.row() >= len(self.units):
            return None
        unit = int(self.units[index.row()])
        column = index.column()
        if role == _DISPLAY:
            return self.text(frames, unit, column)
        if role == _ALIGN:
            side = Qt.AlignmentFlag.AlignRight if column in RIGHT else Qt.AlignmentFlag.AlignLeft
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        if role == UNIT_ROLE:
            return unit
        if role == PROGRESS_ROLE:
            return self._progress(frames.step, unit) if column == Col.STATE else None
        if column == Col.TIME and role in (BAR_ROLE, OUTLIER_ROLE, _TIP, _SPOKEN):
            return self._time(unit, role)
        if column == Col.NOTE and role == _TIP:
            return self.text(frames, unit, column) or None
        if role == _SPOKEN:
            text = self.text(frames, unit, column)
            selected = (
                ", selected" if column == Col.FRAME and self._board.picked.has(frames.step, unit) else ""
            )
            return f"{HEADS[column]} {text or 'not known'}{selected}"
        return None

    def text(self, frames: FrameSet, unit: int, column: int) -> str:
        """What a cell says."""
        step = frames.step
        if column == Col.FRAME:
            return frames.name(unit)
        row = self._board.details.row(step, unit)
        if column == Col.STATE:
            state = self._board.state(step, unit)
            if state is None:
                return ""
            part = self._progress(step, unit)
            return f"{state_word(state)} {part:.0%}" if part is not None else state_word(state)
        if column == Col.TIME:
            seconds = self._seconds[unit]
            return duration_text(float(seconds)) if seconds == seconds else ""
        if column == Col.NODE:
            number = self._board.figures.one(Mode.NODE, step, unit)
            return self._board.node_name(int(number)) if number else row.node if row is not None else ""
        if column == Col.NOTE:
            return note_of(row) if row is not None else ""
        mode = MODES[Col(column)]
        value = self._board.figures.one(mode, step, unit)
        if value is None and column == Col.COST and row is not None and row.cost_nano:
            return price_text(row.cost_nano)
        return WRITTEN[mode](value) if value is not None else ""

    def _progress(self, step: str, unit: int) -> float | None:
        """How far a frame is, while it runs and the farm tells."""
        if self._board.state(step, unit) != UnitState.RUNNING:
            return None
        row = self._board.details.row(step, unit)
        part = row.progress if row is not None else None
        return None if part is None else min(max(part, 0.0), 1.0)

    def _time(self, unit: int, role: int) -> Any:
        known, seconds = self._known, float(self._seconds[unit])
        if known is None or seconds != seconds:
            return None
        if role == BAR_ROLE:
            # Twice the median is a full half of the room; what is beyond the 95th percentile is cut.
            whole = max(known.p95_s, known.median_s * 2) or 1.0
            return min(1.0, seconds / whole)
        slow = known.median_s > 0 and seconds > times.slow_from_s(known.median_s)
        if role == OUTLIER_ROLE:
            return slow
        if known.median_s <= 0:
            return None
        times_of = f"{seconds / known.median_s:.1f} times the median of {duration_text(known.median_s)}"
        said = f"{duration_text(seconds)}, {times_of}"
        return f"{said}, far above the others" if slow else said

"""How long frames take: figures, a line, a histogram, the slowest frames, and the nodes beside each other.

What belongs here: the panel, for the selected frames or for the whole step.  What may not: drawing charts
(``charts``) and statistics (``store.times``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from client_gui.models.figures import local_zone
from client_gui.store import times
from client_gui.store.eta import eta_text, left_text, standstill
from client_gui.style.lazily import when_seen
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.charts import Bar, Bars, HistogramChart, Sparkline
from client_gui.views.job_parts.frameset import FrameSet, many
from client_gui.views.job_parts.nodetimes import ratio_said, ratio_words
from client_gui.views.job_parts.sums import AT_ONCE, Sums
from client_gui.views.job_parts.timesums import TimeSums, time_sums
from farm.model.states import UnitState
from farm.sdk.words import duration_text

#: Frames of a selection smaller than this are not worth statistics of their own.
SELECTED_FROM: Final = 2
#: How often it is drawn anew at most while figures come.
EVERY_MS: Final = 400
_SLOWEST: Final = 6


class TimesPanel(QScrollArea):
    """Frame times of the current step, or of what is selected in it."""

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.setAccessibleName("Frame times")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inside = QWidget()
        self.setWidget(inside)
        box = QVBoxLayout(inside)
        self._box = box
        self._about = QLabel()
        self._figures = QLabel()
        self._ahead = QLabel()
        self.line = Sparkline(self._theme, 2.6)
        self.histogram = HistogramChart(self._theme)
        self.slowest = Bars(self._theme, "Slowest frames", "no frame times yet")
        self.nodes = Bars(self._theme, "Nodes beside each other", "no frame times by node yet")
        self._numbers: dict[str, tuple[QLabel, QLabel]] = {}
        numbers = QGridLayout()
        self._grid = numbers
        for place, name in enumerate(("median", "mean", "95 %", "slowest", "in all")):
            value, word = QLabel("—"), QLabel(name)
            self._numbers[name] = (value, word)
            for label in (value, word):
                label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            numbers.addWidget(value, place // 3 * 2, place % 3)
            numbers.addWidget(word, place // 3 * 2 + 1, place % 3)
            numbers.setColumnStretch(place % 3, 1)
        self._slow_head, self._node_head = QLabel("Slowest frames"), QLabel("Nodes, median of their frames")
        box.addWidget(self._about)
        box.addLayout(numbers)
        box.addWidget(self.line)
        box.addWidget(self.histogram)
        box.addWidget(self._ahead)
        box.addWidget(self._slow_head)
        box.addWidget(self.slowest)
        box.addWidget(self._node_head)
        box.addWidget(self.nodes)
        box.addStretch(1)
        for label in (self._about, self._ahead):
            label.setWordWrap(True)
        for label in inside.findChildren(QLabel):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.slowest.chosen.connect(self._pick_frame)
        self.nodes.chosen.connect(self._pick_node)
        self.histogram.chosen.connect(self._pick_times)
        self._sums = Sums(self)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(EVERY_MS)
        self._soon.timeout.connect(self.refresh)
        board.figures_changed.connect(self._later)
        board.states_changed.connect(self._later)
        board.step_changed.connect(self.refresh)
        board.row_changed.connect(self._later)
        board.picked.changed.connect(self._later)
        when_seen(self._theme, self, self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        theme = self._theme
        edge = theme.em(0.5)
        self._box.setContentsMargins(edge, edge, edge, edge)
        self._box.setSpacing(theme.em(0.3))
        self._grid.setHorizontalSpacing(theme.em(0.6))
        self._grid.setVerticalSpacing(0)
        for value, word in self._numbers.values():
            value.setFont(theme.font(bold=True))
            word.setFont(theme.font(small=True))
            _ink(value, theme.colour("text"))
            _ink(word, theme.colour("dim"))
        for label in (self._slow_head, self._node_head, self._about):
            label.setFont(theme.font(bold=True, small=True))
            _ink(label, theme.colour("text"))
        self._ahead.setFont(theme.font(small=True))
        _ink(self._ahead, theme.colour("text"))
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Window, theme.colour("window"))
        self.setPalette(palette)

    # -- what is shown --

    def _later(self, *_: Any) -> None:
        if self.isVisible() and not self._soon.isActive():
            self._soon.start()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Puts itself right."""
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Shows what is known now."""
        self._soon.stop()
        if not self.isVisible():
            return
        board, frames = self._board, self._board.current
        if frames is None:
            self._sums.give_up()
            self._about.setText("no step")
            return
        seconds = board.figures.seconds(frames.step, frames.units)
        nodes = board.figures.nodes(frames.step, frames.units)
        chosen = board.picked.units(frames.step)
        units = np.arange(frames.units)
        about = many(frames.units, "frame")
        if len(chosen) >= SELECTED_FROM:
            units, seconds, nodes = chosen, seconds[chosen], nodes[chosen]
            about = many(len(chosen), "selected frame")
        name_of = board.node_name if len(units) < AT_ONCE else board.names_now()
        self._sums.make(
            (frames.job, frames.step),
            len(units),
            partial(time_sums, units, seconds, nodes, name_of, _SLOWEST),
            partial(self._show, frames, f"{frames.step}, {about}"),
        )

    @property
    def busy(self) -> bool:
        """Whether figures are being summed up."""
        return self._sums.busy

    def _show(self, frames: FrameSet, about: str, sums: TimeSums) -> None:
        known = sums.line.known
        self._about.setText(about)
        self._show_numbers(frames, known)
        self.line.set(sums.line)
        self.histogram.set(sums.bins, known)
        self._show_slowest(frames, sums.slowest, known)
        self._show_nodes(sums)
        self._show_ahead(frames)

    def _show_numbers(self, frames: FrameSet, known: times.Statistics | None) -> None:
        said = {}
        if known is not None:
            said = {
                "median": known.median_s,
                "mean": known.mean_s,
                "95 %": known.p95_s,
                "slowest": known.most_s,
                "in all": known.total_s,
            }
        for name, (value, _) in self._numbers.items():
            value.setText(duration_text(said[name]) if name in said else "—")
            value.setAccessibleName(f"{name} frame time: {value.text()}")
        if known is None and (trouble := self._board.figures.trouble(frames.step)):
            self._about.setText(f"{self._about.text()}: {trouble}")
        elif known is None and self._board.figures.loading(frames.step):
            self._about.setText(f"{self._about.text()}: figures are loading")

    def _show_slowest(
        self, frames: FrameSet, found: list[tuple[int, float]], known: times.Statistics | None
    ) -> None:
        median = known.median_s if known is not None else 0.0
        self.slowest.set(
            [
                Bar(
                    frames.name(unit),
                    duration_text(took),
                    took / found[0][1] if found[0][1] else 0.0,
                    "warn" if median and took > times.slow_from_s(median) else "accent",
                    f"{took / median:.1f}× the median" if median else "",
                    unit,
                )
                for unit, took in found
            ]
        )

    def _show_nodes(self, sums: TimeSums) -> None:
        found = sums.nodes
        most = max((one.median_s for one in found), default=0.0) or 1.0
        self.nodes.set(
            [
                Bar(
                    one.node,
                    duration_text(one.median_s),
                    one.median_s / most,
                    "warn" if one.ratio is not None and one.ratio >= 1.5 else "accent",
                    f"{ratio_words(one.ratio)}, {one.count:,}" if one.ratio else f"{one.count:,}",
                    sums.numbers.get(one.node, 0),
                )
                for one in found
            ]
        )
        said = [f"{one.node} is {ratio_said(one.ratio)}" for one in found if one.ratio is not None]
        if said:
            self.nodes.setAccessibleDescription("; ".join(said))

    def _show_ahead(self, frames: FrameSet) -> None:
        board = self._board
        row, step = board.row, board.step_row(frames.step)
        counts = board.counts(frames.step)
        parts = []
        if counts is not None:
            left = int(counts[UnitState.QUEUED] + counts[UnitState.BLOCKED] + counts[UnitState.RUNNING])
            if left:
                work = ""
                if step is not None and step.expected_frame_s > 0:
                    work = f", about {duration_text(left * step.expected_frame_s)} of node time"
                parts.append(f"{many(left, 'frame')} left{work}")
        if (
            row is not None
            and row["eta_high_us"] is not None
            and not standstill(str(row["state"]), row["running"])
        ):
            now_us = board.desk.client.now_us()
            low, high = row["eta_low_us"], row["eta_high_us"]
            parts.append(
                f"job done {eta_text(low, high, now_us, local_zone())} ({left_text(low, high, now_us)} left)"
            )
        self._ahead.setText("; ".join(parts))
        self._ahead.setVisible(bool(parts))

    # -- choosing --

    def _pick_frame(self, unit: object) -> None:
        if isinstance(unit, int):
            self._board.picked.click(self._board.step, unit)

    def _pick_node(self, node: object) -> None:
        frames = self._board.current
        if isinstance(node, int) and node and frames is not None:
            nodes = self._board.figures.nodes(frames.step, frames.units)
            self._select(frames, np.flatnonzero(nodes == node))

    def _pick_times(self, low: float, high: float) -> None:
        frames = self._board.current
        if frames is None:
            return
        seconds = self._board.figures.seconds(frames.step, frames.units)
        with np.errstate(invalid="ignore"):
            self._select(frames, np.flatnonzero((seconds >= low) & (seconds <= high)))

    def _select(self, frames: FrameSet, units: Any) -> None:
        if not len(units):
            return
        self._board.picked.select(frames.step, units)
        self._board.picked.move(frames.step, int(units[0]))


def _ink(label: QLabel, colour: Any) -> None:
    palette = label.palette()
    palette.setColor(QPalette.ColorRole.WindowText, colour)
    label.setPalette(palette)

"""The head of the job's dock: what it is, how far it is, when it will be done, what it costs, what to do.

What belongs here: showing the job's row.  What may not: its frames.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from client_gui.actions.buttons import show_possible
from client_gui.actions.records import BY_ID
from client_gui.delegates.bars import PARTS_ORDER, draw_parts
from client_gui.models.figures import local_zone
from client_gui.store.columns import summed_counts
from client_gui.store.eta import UNKNOWN, eta_text, left_text, standstill
from client_gui.style.glyphs import icon, state_icon
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.views.chips import FlowLayout
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.charts import Sparkline
from client_gui.views.job_parts.frameset import many, state_word
from client_gui.views.job_parts.sums import Sums
from client_gui.views.job_parts.timesums import line_of
from farm.model.states import UnitState
from farm.sdk.words import price_text, time_text

#: Buttons: the action's id, its words, its key as the tip says it.
_BUTTONS: Final = (
    ("retry", "Retry failed"),
    ("pause", "Pause"),
    ("resume", "Resume"),
    ("priority", "Priority…"),
    ("cancel", "Cancel…"),
)


def paint_counts(painter: QPainter, area: QRectF, counts: tuple[int, ...], theme: Theme) -> None:
    """Units by state as a bar, as the list of jobs has it."""
    colours = [theme.state_colour(state.word) for state in UnitState] + [theme.colour("dim")]
    draw_parts(painter, area, counts, colours, theme.colour("raised"))


def counts_words(counts: tuple[int, ...]) -> str:
    """Units by state in words: ``40 done, 10 running``."""
    order = [*map(int, PARTS_ORDER), *range(len(UnitState), len(counts))]
    said = [
        f"{counts[state]:,} {state_word(state)}" for state in order if state < len(counts) and counts[state]
    ]
    return ", ".join(said)


class CountsBar(QWidget):
    """Units by state."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._counts: tuple[int, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Progress")

    def set(self, counts: tuple[int, ...]) -> None:
        """Shows other counts."""
        if counts != self._counts:
            self._counts = counts
            self.setToolTip(counts_words(counts))
            self.setAccessibleDescription(counts_words(counts))
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A thin bar."""
        return QSize(self._theme.em(10), self._theme.em(0.6))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The bar."""
        area = QRectF(self.rect()).adjusted(0, 2, 0, 0)
        paint_counts(QPainter(self), area, self._counts, self._theme)


class JobHeader(QWidget):
    """What there is to know of a job at a glance."""

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.setAccessibleName("Job")
        self._glyph, self._state, self._name, self._who = QLabel(), QLabel(), QLabel(), QLabel()
        self._counts, self._reason = QLabel(), QLabel()
        self.bar = CountsBar(self._theme)
        self._sums = Sums(self)
        self.line = Sparkline(self._theme, 1.8, name="Frame times of the current step")
        self._values: dict[str, tuple[QLabel, QLabel]] = {}
        self.buttons: dict[str, QPushButton] = {}
        box = QVBoxLayout(self)
        self._box = box
        top = QHBoxLayout()
        self._top = top
        top.addWidget(self._glyph)
        top.addWidget(self._state)
        top.addWidget(self._name, 1)
        top.addWidget(self._who)
        box.addLayout(top)
        box.addWidget(self._reason)
        box.addWidget(self.bar)
        box.addWidget(self._counts)
        facts = QWidget()
        # Large words in a narrow dock: better two rows of figures than figures that are cut.
        self._facts = FlowLayout(facts)
        for word in ("done", "ready", "so far", "at the end", "waste"):
            value, name, fact = QLabel(UNKNOWN), QLabel(word), QWidget()
            column = QVBoxLayout(fact)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            column.addWidget(value)
            column.addWidget(name)
            self._facts.addWidget(fact)
            self._values[word] = (value, name)
        beside = QHBoxLayout()
        beside.setContentsMargins(0, 0, 0, 0)
        beside.addWidget(facts)
        beside.addWidget(self.line, 1)
        box.addLayout(beside)
        row = QHBoxLayout()
        self._row = row
        for action, words in _BUTTONS:
            button = QPushButton()
            button.setText(words)
            button.clicked.connect(lambda _=False, action=action: self._run(action))
            row.addWidget(button)
            self.buttons[action] = button
        row.addStretch(1)
        box.addLayout(row)
        for label in self.findChildren(QLabel):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._reason.setWordWrap(True)
        self._name.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        # A long name must not keep the dock from being narrow.
        for label in (self._name, self._counts, self._reason):
            label.setMinimumWidth(self._theme.em(4))
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(400)
        self._soon.timeout.connect(self._draw_line)
        board.row_changed.connect(self.refresh)
        board.step_changed.connect(self._draw_line)
        board.figures_changed.connect(lambda *_: self._soon.isActive() or self._soon.start())
        board.desk.actions.pending_changed.connect(self.refresh)
        self._live = board.desk.client.live
        board.desk.client.stood.connect(self._stood)
        when_seen(self._theme, self, self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        theme = self._theme
        edge = theme.em(0.5)
        self._box.setContentsMargins(edge, edge, edge, theme.em(0.3))
        self._box.setSpacing(theme.em(0.25))
        self._top.setSpacing(theme.em(0.4))
        self._facts.set_gap(theme.em(0.9))
        self._row.setSpacing(theme.em(0.3))
        name = theme.font(bold=True)
        name.setPointSizeF(name.pointSizeF() * 1.15)
        self._name.setFont(name)
        self._state.setFont(theme.font(bold=True))
        for label in (self._who, self._counts, self._reason):
            label.setFont(theme.font(small=True))
        for label, token in (
            (self._name, "text"),
            (self._who, "dim"),
            (self._counts, "dim"),
            (self._reason, "text"),
        ):
            _ink(label, theme, token)
        for value, word in self._values.values():
            value.setFont(theme.font(bold=True))
            word.setFont(theme.font(small=True))
            _ink(value, theme, "text")
            _ink(word, theme, "dim")
        for button in self.buttons.values():
            button.setFont(theme.font(small=True))
        self.refresh()

    # -- what is shown --

    def refresh(self) -> None:
        """Shows the job as it is now."""
        board = self._board
        row = board.row
        self.setVisible(row is not None)
        if row is None:
            return
        theme = self._theme
        pending = board.desk.actions.pending("jobs", board.job, "state")
        word = pending or str(row["state"])
        waits = board.desk.actions.waits("jobs", board.job, "state")
        sign = icon(theme, "clock", "warn") if waits else state_icon(theme, word)
        self._glyph.setPixmap(sign.pixmap(theme.em(1.0), theme.em(1.0)))
        self._state.setText(f"{word}, waits" if waits else f"{word}{'…' if pending else ''}")
        self._state.setToolTip(f"{row['state']}; {word} when the farm is back" if waits else "")
        palette = self._state.palette()
        colour = theme.colour("warn") if waits else theme.state_colour(word)
        palette.setColor(QPalette.ColorRole.WindowText, colour)
        self._state.setPalette(palette)
        told = " when the farm is back" if waits else ", under way" if pending else ""
        self._state.setAccessibleName(f"State: {word}{told}")
        self._name.setText(str(row["name"]))
        self._name.setToolTip(f"J{board.job} {row['name']}\nsubmitted {time_text(row['submitted_us'])}")
        priority = board.desk.actions.pending("jobs", board.job, "priority")
        urgent = f"priority {priority or row['priority']}"
        if board.desk.actions.waits("jobs", board.job, "priority"):
            urgent += ", waits"
        # Only where somebody put it ahead or behind: of most jobs there is nothing to say.
        ahead = f"rank {row['rank']}" if row.get("rank") else ""
        who = [f"J{board.job}", row["user"], row["project"], urgent, ahead]
        self._who.setText(" · ".join(str(part) for part in who if part))
        self._reason.setText(str(row["reason"]))
        self._reason.setVisible(bool(row["reason"]))
        counts = summed_counts(board.rows)
        self.bar.set(counts)
        self._counts.setText(counts_words(counts))
        self._show_facts(row)
        self._show_buttons(row)
        self.setAccessibleDescription(
            f"{row['name']}, {word}, {counts_words(counts)}, ready {self._values['ready'][0].text()}"
        )

    def _show_facts(self, row: dict[str, Any]) -> None:
        now_us = self._board.desk.client.now_us()
        low, high = row["eta_low_us"], row["eta_high_us"]
        ended = row["ended_us"] and row["state"] in ("done", "canceled", "failed")
        still = "" if ended else standstill(str(row["state"]), row["running"])
        if still:
            # The broker's range is of work that would go on.
            low = high = None
        ready = (
            time_text(row["ended_us"], now_us / 1e6) if ended else eta_text(low, high, now_us, local_zone())
        )
        spend, waste = row["spend_nano"], row["waste_nano"]
        cost_low, cost_high = row["cost_low_nano"], row["cost_high_nano"]
        forecast = UNKNOWN
        if cost_low is not None and cost_high is not None and not ended:
            # What is spent is spent: no forecast ends below it.
            forecast = price_range(max(cost_low, spend), max(cost_high, spend))
        share = f" ({waste / spend:.0%})" if waste and spend else ""
        said = {
            "done": f"{row['done']:,} / {row['units']:,}",
            "ready": ready,
            "so far": price_text(spend),
            "at the end": forecast,
            "waste": f"{price_text(waste)}{share}" if waste else "none",
        }
        for name, text in said.items():
            value, _ = self._values[name]
            value.setText(text)
            value.setAccessibleName(f"{name}: {text}")
            if name == "at the end" and (fact := value.parentWidget()) is not None:
                fact.setVisible(forecast != UNKNOWN)
        self._values["ready"][1].setText("ended" if ended else "ready")
        without = row["not_estimated"]
        tip = left_text(low, high, now_us)
        tip = f"{tip} left; holds in about four of five cases" if high is not None and not ended else ""
        tip = still or tip
        if without and not still:
            tip += f"\nwithout {', '.join(without)}"
        self._values["ready"][0].setToolTip(tip)
        self._values["at the end"][0].setToolTip(
            "" if still else tip and "what it will have cost; " + tip.partition("; ")[2]
        )

    def _show_buttons(self, row: dict[str, Any]) -> None:
        book, context = self._board.desk.actions, self._board.job_context()
        why_not = book.judge(context)
        # Of what waits for the farm the opposite can be asked for, too.
        pending = book.pending("jobs", self._board.job, "state")
        waits = book.waits("jobs", self._board.job, "state")
        paused = (pending if waits else row["state"]) == "paused"
        for action, button in self.buttons.items():
            if action in ("pause", "resume"):
                button.setVisible((action == "resume") == paused)
            why = why_not(action)
            show_possible(button, why, f"{BY_ID[action].summary}  {book.keymap.shown(action)}".strip())
            button.setAccessibleName(button.text().rstrip("…"))
        self.buttons["retry"].setVisible(bool(row["failed"]))
        if row["failed"]:
            self.buttons["retry"].setText(f"Retry {many(row['failed'], 'failed frame')}")

    def _stood(self) -> None:
        """Without a connection nothing can be done, and the buttons say so."""
        live = self._board.desk.client.live
        if live != self._live:
            self._live = live
            self.refresh()

    def _draw_line(self) -> None:
        frames = self._board.current
        if frames is not None and self.isVisible():
            seconds = self._board.figures.seconds(frames.step, frames.units)
            about = (frames.job, frames.step)
            self._sums.make(about, frames.units, partial(line_of, seconds), self.line.set)

    def _run(self, action: str) -> None:
        self._board.desk.actions.run(action, self._board.job_context())


def price_range(low_nano: int, high_nano: int) -> str:
    """A range of money: ``2.80–3.40 USD``."""
    low, high = price_text(low_nano), price_text(high_nano)
    if low == high:
        return low
    return f"{low.removesuffix(' USD')}–{high}"


def _ink(label: QLabel, theme: Theme, token: str) -> None:
    palette = label.palette()
    palette.setColor(QPalette.ColorRole.WindowText, theme.colour(token))
    label.setPalette(palette)

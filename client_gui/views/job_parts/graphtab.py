"""The tab of the graph: which step waits for which, and for which other jobs.

What belongs here: asking for the job's file, drawing the graph, going through it with keys.  What may not:
where its nodes stand (``layers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from client_gui.style.glyphs import paint_glyph
from client_gui.style.lazily import when_seen
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.header import counts_words, paint_counts
from client_gui.views.job_parts.jobspec import JobFile
from client_gui.views.job_parts.layers import Spot, layered

#: Prefix of nodes that are other jobs; no step's name has it.
_OTHER: Final = "\0"


@dataclass(frozen=True, slots=True)
class Need:
    """A line of the graph.

    Attributes:
        before: What is waited for.
        after: What waits.
        by_frame: Whether frame waits for frame.
        words: How, in words.
    """

    before: str
    after: str
    by_frame: bool
    words: str


def needs_of(steps: list[dict[str, Any]]) -> list[Need]:
    """The lines of a job file's steps; what a newer farm writes otherwise is passed over."""
    found = []
    for step in steps:
        name = str(step.get("name", ""))
        for item in step.get("after", ()):
            if isinstance(item, str):
                found.append(Need(item, name, False, f"{name} waits for {item}"))
            elif isinstance(item, Mapping):
                found.append(_need(name, item))
        params = step.get("params")
        source = params.get("input") if isinstance(params, Mapping) else None
        taken = source.get("step") if isinstance(source, Mapping) else None
        if isinstance(taken, str) and not any(one.before == taken and one.after == name for one in found):
            found.append(Need(taken, name, False, f"{name} takes files of {taken}"))
    return found


def _need(name: str, item: Mapping[str, Any]) -> Need:
    job, step = str(item.get("job") or ""), str(item.get("step") or "")
    before = f"{_OTHER}{job}/{step}".rstrip("/") if job else step
    words = f"{name} waits for {f'{job}/{step}'.strip('/') if job else step}"
    by_frame = bool(item.get("frames"))
    if by_frame:
        offset = item.get("offset") or 0
        words += f" frame by frame{f', {offset:+d}' if isinstance(offset, int) and offset else ''}"
    on_failure = item.get("on_failure")
    if on_failure not in (None, "wait"):
        words += f", on failure: {on_failure}"
    return Need(before, name, by_frame, words)


class Graph(QWidget):
    """The steps and what they wait for."""

    #: Another job that somebody wants to see.
    job_wanted = Signal(int)

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self._needs: list[Need] = []
        self._spots: dict[str, Spot] = {}
        self._at = ""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Graph of the job's steps")
        board.row_changed.connect(self.update)
        board.step_changed.connect(self._follow)
        when_seen(self._theme, self, self._restyle)

    def set(self, needs: list[Need]) -> None:
        """Shows other lines."""
        self._needs = needs
        names = [
            *dict.fromkeys(one.before for one in needs if one.before.startswith(_OTHER)),
            *self._board.frames,
        ]
        by_name: dict[str, list[str]] = {}
        for one in needs:
            by_name.setdefault(one.after, []).append(one.before)
        self._spots = layered(names, by_name)
        if self._at not in self._spots:
            self._at = self._board.step
        self._tell()
        self.setFixedSize(self._whole())
        self.update()

    def _restyle(self) -> None:
        self.setFixedSize(self._whole())
        self.update()

    def _whole(self) -> QSize:
        layers = max((spot.layer for spot in self._spots.values()), default=0) + 1
        places = max((spot.place for spot in self._spots.values()), default=0) + 1
        em = self._theme.em
        return QSize(layers * em(13) + em(1), places * em(4.6) + em(1))

    def rect_of(self, name: str) -> QRect:
        """Where a node stands."""
        spot, em = self._spots[name], self._theme.em
        return QRect(em(1) + spot.layer * em(13), em(1) + spot.place * em(4.6), em(10), em(3.4))

    @property
    def at(self) -> str:
        """The node that keys act on."""
        return self._at

    def _follow(self) -> None:
        if self._board.step in self._spots and not self._at.startswith(_OTHER):
            self._at = self._board.step
        self._tell()
        self.update()

    def _tell(self) -> None:
        said = [one.words for one in self._needs]
        row = self._board.step_row(self._at)
        here = f"{self._at}: {row.state}, {counts_words(row.counts)}; " if row is not None else ""
        if self._at.startswith(_OTHER):
            here = f"{self._at[1:]}, another job; "
        self.setAccessibleDescription(here + ("; ".join(said) or "no step waits for another"))

    # -- drawing --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Lines first, nodes over them."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for need in self._needs:
            if need.before in self._spots and need.after in self._spots:
                self._line(painter, need)
        for name in self._spots:
            self._node(painter, name)

    def _line(self, painter: QPainter, need: Need) -> None:
        theme = self._theme
        one, other = self.rect_of(need.before), self.rect_of(need.after)
        start = QPointF(one.right(), one.center().y())
        end = QPointF(other.left() - theme.em(0.3), other.center().y())
        bend = max(theme.em(1.5), (end.x() - start.x()) / 2)
        path = QPainterPath(start)
        path.cubicTo(QPointF(start.x() + bend, start.y()), QPointF(end.x() - bend, end.y()), end)
        lit = self._at in (need.before, need.after)
        colour = theme.colour("accent" if lit else "dim")
        style = Qt.PenStyle.DotLine if need.by_frame else Qt.PenStyle.SolidLine
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colour, 1.6 if lit else 1.2, style))
        painter.drawPath(path)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        tip, size = QPointF(end.x() + theme.em(0.3), end.y()), theme.em(0.35)
        painter.drawPolygon(
            QPolygonF(
                [
                    tip,
                    QPointF(tip.x() - size, tip.y() - size / 2),
                    QPointF(tip.x() - size, tip.y() + size / 2),
                ]
            )
        )

    def _node(self, painter: QPainter, name: str) -> None:
        theme = self._theme
        rect = self.rect_of(name)
        row = self._board.step_row(name)
        edge = theme.em(0.3)
        here = name == self._at
        painter.setBrush(theme.colour("raised"))
        painter.setPen(QPen(theme.colour("accent" if here else "line"), 2 if here and self.hasFocus() else 1))
        painter.drawRoundedRect(QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5), edge, edge)
        inner = rect.adjusted(theme.em(0.5), theme.em(0.35), -theme.em(0.5), -theme.em(0.35))
        painter.setFont(theme.font(bold=True))
        painter.setPen(theme.colour("text"))
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
        title = name.lstrip(_OTHER)
        painter.drawText(
            inner, left, painter.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, inner.width())
        )
        painter.setFont(theme.font(small=True))
        below = inner.adjusted(0, theme.em(1.15), 0, 0)
        if row is None:
            painter.setPen(theme.colour("dim"))
            painter.drawText(below, left, "another job")
            return
        side = theme.em(0.75)
        colour = theme.state_colour(row.state)
        paint_glyph(
            painter, row.state, QRectF(below.left(), below.top() + theme.em(0.08), side, side), colour
        )
        painter.setPen(colour)
        painter.drawText(below.adjusted(side + theme.em(0.3), 0, 0, 0), left, row.state)
        painter.setPen(theme.colour("dim"))
        done = row.counts[3] if len(row.counts) > 3 else 0
        painter.drawText(
            below, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, f"{done:,} / {row.units:,}"
        )
        high = theme.em(0.35)
        paint_counts(
            painter, QRectF(inner.left(), inner.bottom() - high, inner.width(), high), row.counts, theme
        )

    # -- going through it --

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows follow the lines; Enter shows the step's frames."""
        key = event.key()
        target = ""
        if key == Qt.Key.Key_Left:
            target = next((one.before for one in self._needs if one.after == self._at), "")
        elif key == Qt.Key.Key_Right:
            target = next((one.after for one in self._needs if one.before == self._at), "")
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            target = self._neighbour(1 if key == Qt.Key.Key_Down else -1)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open(self._at)
            return
        else:
            super().keyPressEvent(event)
            return
        if target in self._spots:
            self.go(target)

    def _neighbour(self, by: int) -> str:
        spot = self._spots.get(self._at)
        if spot is None:
            return next(iter(self._spots), "")
        want = Spot(spot.layer, spot.place + by)
        return next((name for name, other in self._spots.items() if other == want), "")

    def go(self, name: str) -> None:
        """Makes a node the current one; a step is then the one that is shown everywhere."""
        self._at = name
        if not name.startswith(_OTHER):
            self._board.set_step(name)
        self._tell()
        self.update()
        area = self.parent()
        holder = area.parent() if area is not None else None
        if isinstance(holder, QScrollArea):
            rect = self.rect_of(name)
            holder.ensureVisible(rect.center().x(), rect.center().y(), rect.width(), rect.height())

    def _open(self, name: str) -> None:
        if name.startswith(_OTHER):
            number = name[1:].partition("/")[0].lstrip("Jj")
            if number.isdigit():
                self.job_wanted.emit(int(number))
        elif name:
            self._board.set_step(name)
            self._board.desk.focus.show("job/frames")

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Chooses a node."""
        at = event.position().toPoint()
        for name in self._spots:
            if self.rect_of(name).contains(at):
                self.go(name)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Opens a node."""
        at = event.position().toPoint()
        for name in list(self._spots):
            if self.rect_of(name).contains(at):
                self._open(name)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Seen as where keys go."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """No longer."""
        super().focusOutEvent(event)
        self.update()


class GraphTab(QWidget):
    """The graph, or why there is none."""

    def __init__(self, board: JobBoard, file: JobFile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._file = file
        self.graph = Graph(board)
        self._note = QLabel()
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        self._note.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._note.setWordWrap(True)
        area = QScrollArea()
        area.setAccessibleName("Graph of the steps")
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidget(self.graph)
        self._area = area
        self._pages = QStackedWidget()
        self._pages.addWidget(area)
        self._pages.addWidget(self._note)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self._pages)
        file.changed.connect(self.refresh)
        board.steps_changed.connect(self.refresh)
        when_seen(board.desk.theme, self, self._restyle)
        self.graph.job_wanted.connect(board.desk.focus.set_job)
        self._restyle()
        self.refresh()

    def _restyle(self) -> None:
        theme = self._board.desk.theme
        for widget in (self._area, self.graph):
            palette = widget.palette()
            palette.setColor(QPalette.ColorRole.Window, QColor(theme.colour("base")))
            widget.setPalette(palette)
        palette = self._note.palette()
        palette.setColor(QPalette.ColorRole.WindowText, theme.colour("dim"))
        self._note.setPalette(palette)

    def refresh(self) -> None:
        """Shows the job's graph."""
        text = self._file.trouble or ("" if self._file.spec is not None else "The job file is loading…")
        if not self._board.job:
            text = "No job is chosen."
        self._note.setText(text)
        self._pages.setCurrentIndex(1 if text else 0)
        if self._file.spec is not None:
            self.graph.set(needs_of(self._file.steps))

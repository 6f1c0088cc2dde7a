"""The card beside the mouse that says what a cell is: frame, state, node, time, money, and its picture.

What belongs here: one card, filled from what is known and from one small question.  What may not: when it is
shown (``FrameGrid.hovered``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint, QSize, Qt
from PySide6.QtGui import QImageReader, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QFormLayout, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from client_gui.style.glyphs import state_icon
from client_gui.style.lazily import when_seen
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.frameset import state_word
from client_gui.views.job_parts.heat import WRITTEN, Mode
from farm.model.errors import OvercrankError
from farm.protocol.bulk import PreviewGetMsg, PreviewMsg
from farm.protocol.rows import FrameRow

#: Pictures that are kept.
KEPT: Final = 200
_WHO: Final = "card"


class FrameCard(QFrame):
    """A card about a frame; it takes no focus and no mouse."""

    def __init__(self, board: JobBoard, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._board = board
        self._over = parent
        self._theme = board.desk.theme
        self._step, self._unit = "", -1
        self._asked = 0
        self._pictures: OrderedDict[tuple[int, str, int, int], QPixmap | None] = OrderedDict()
        self._head = QLabel()
        self._picture = QLabel()
        self._form = QFormLayout()
        box = QVBoxLayout(self)
        self._glyph = QLabel()
        top = QHBoxLayout()
        top.addWidget(self._glyph)
        top.addWidget(self._head, 1)
        box.addLayout(top)
        box.addWidget(self._picture)
        box.addLayout(self._form)
        self._labels: dict[str, tuple[QLabel, QLabel]] = {}
        for name in ("node", "time", "memory", "attempts", "cost", "why", "warning", "files"):
            key, value = QLabel(name), QLabel()
            value.setWordWrap(name in ("why", "warning"))
            for label in (key, value):
                label.setTextFormat(Qt.TextFormat.PlainText)
            self._form.addRow(key, value)
            self._labels[name] = (key, value)
        self._head.setTextFormat(Qt.TextFormat.PlainText)
        board.details.came.connect(self._came)
        when_seen(self._theme, self, self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        theme = self._theme
        edge = theme.em(0.5)
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(edge, edge, edge, edge)
        layout.setSpacing(theme.em(0.3))
        self._form.setHorizontalSpacing(theme.em(0.7))
        self._form.setVerticalSpacing(theme.em(0.1))
        self._head.setFont(theme.font(bold=True))
        for key, value in self._labels.values():
            key.setFont(theme.font(small=True))
            value.setFont(theme.font(small=True))
            key.setStyleSheet(f"color: {theme.colour('dim').name()}")
            value.setStyleSheet(f"color: {theme.colour('text').name()}")
        self._head.setStyleSheet(f"color: {theme.colour('text').name()}")
        self.setMaximumWidth(theme.em(22))

    def tell(self, step: str, unit: int, at: QPoint) -> None:
        """Shows a frame at a place of the screen; ``""`` hides the card."""
        self._give_up()
        if not step or step not in self._board.frames:
            self._step = ""
            self._board.details.look(_WHO, None)
            self.hide()
            return
        self._step, self._unit = step, unit
        self._board.details.look(_WHO, self._board.frames[step], (unit,))
        self._fill()
        self._ask()
        self.adjustSize()
        self._stand(at)
        self.show()
        self.raise_()

    def _stand(self, at: QPoint) -> None:
        """Stands beside a place of the screen, inside of what it belongs to."""
        over = self._over
        corner, size, gap = over.mapFromGlobal(at), self.sizeHint(), self._theme.em(0.4)
        x, y = corner.x() + gap, corner.y() + gap
        if x + size.width() > over.width():
            x = corner.x() - size.width() - 3 * gap
        if y + size.height() > over.height():
            y = corner.y() - size.height() - 3 * gap
        self.move(max(0, x), max(0, y))

    def words(self) -> list[tuple[str, str]]:
        """What is said, by name."""
        board, step, unit = self._board, self._step, self._unit
        row = board.details.row(step, unit)
        found: list[tuple[str, str]] = []
        node = row.node if row is not None and row.node else ""
        number = board.figures.one(Mode.NODE, step, unit)
        node = node or (board.node_name(int(number)) if number else "")
        found.append(("node", node))
        for name, mode in (("time", Mode.TIME), ("memory", Mode.MEMORY), ("attempts", Mode.ATTEMPTS)):
            value = board.figures.one(mode, step, unit)
            found.append((name, WRITTEN[mode](value) if value is not None else _of_row(row, mode)))
        cost = float(row.cost_nano) if row is not None and row.cost_nano else None
        cost = cost if cost is not None else board.figures.one(Mode.COST, step, unit)
        found.append(("cost", WRITTEN[Mode.COST](cost) if cost else ""))
        if row is not None:
            found.append(("why", row.reason))
            found.append(("warning", row.warning))
            found.append(("files", row.files[0].rpartition("/")[2] if row.files else ""))
        return found

    def _fill(self) -> None:
        board, step, unit = self._board, self._step, self._unit
        frames = board.frames[step]
        state = board.state(step, unit)
        word = state_word(state) if state is not None else "loading"
        row = board.details.row(step, unit)
        progress = f" {row.progress:.0%}" if row is not None and row.progress is not None else ""
        self._glyph.setPixmap(state_icon(self._theme, word).pixmap(self._theme.em(1), self._theme.em(1)))
        self._head.setText(f"{step} {frames.name(unit)} — {word}{progress}")
        said = dict(self.words())
        for name, (key, value) in self._labels.items():
            text = said.get(name, "")
            value.setText(text[:300])
            key.setVisible(bool(text))
            value.setVisible(bool(text))
        picture = self._pictures.get(self._key())
        self._picture.setVisible(picture is not None)
        if picture is not None:
            self._picture.setPixmap(picture)
        self.setAccessibleName(self._head.text())

    def _came(self, step: str, units: object) -> None:
        if self.isVisible() and step == self._step and self._board.details.row(step, self._unit) is not None:
            self._fill()
            self.adjustSize()

    # -- the picture --

    def _key(self) -> tuple[int, str, int, int]:
        tries = self._board.figures.one(Mode.ATTEMPTS, self._step, self._unit)
        return (self._board.job, self._step, self._unit, int(tries or 0))

    def _ask(self) -> None:
        key = self._key()
        client = self._board.desk.client
        if key in self._pictures or not client.live:
            return
        job, step, unit, _ = key

        def then(reply: PreviewMsg) -> None:
            self._asked = 0
            self._keep(key, reply.data)
            if self.isVisible() and (step, unit) == (self._step, self._unit):
                self._fill()
                self.adjustSize()

        def failed(error: OvercrankError) -> None:
            # Not worth a notice: the card says all it knows.
            self._asked = 0

        self._asked = client.ask_bulk(
            lambda number: PreviewGetMsg(number, job, step, unit), self, then, failed, reply=PreviewMsg
        )

    def _give_up(self) -> None:
        if self._asked:
            self._board.desk.client.forget(self._asked)
            self._asked = 0

    def _keep(self, key: tuple[int, str, int, int], data: bytes) -> None:
        self._pictures[key] = self._thumbnail(data) if data else None
        while len(self._pictures) > KEPT:
            self._pictures.popitem(last=False)

    def _thumbnail(self, data: bytes) -> QPixmap | None:
        """A small picture, made small while it is read: a large one takes longer than a card may."""
        held = QByteArray(data)
        buffer = QBuffer(held)
        buffer.open(QIODevice.OpenModeFlag.ReadOnly)
        reader = QImageReader(buffer)
        size = reader.size()
        ratio = self.devicePixelRatioF()
        room = QSize(self._theme.em(12), self._theme.em(8)) * ratio
        if size.isValid():
            reader.setScaledSize(size.scaled(room, Qt.AspectRatioMode.KeepAspectRatio))
        image = reader.read()
        if image.isNull():
            return None
        found = QPixmap.fromImage(image)
        found.setDevicePixelRatio(ratio)
        return found

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The card."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.colour("raised"))
        painter.setPen(self._theme.colour("line"))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))


def _of_row(row: FrameRow | None, mode: Mode) -> str:
    """A figure as the frame's own row has it."""
    if row is None:
        return ""
    if mode is Mode.TIME and row.elapsed_s is not None:
        return WRITTEN[mode](row.elapsed_s)
    return str(row.attempts) if mode is Mode.ATTEMPTS and row.attempts else ""

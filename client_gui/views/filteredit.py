"""The field a filter is typed into: what is wrong is underlined, what could follow is offered.

What belongs here: one line of the filter language of ``farm.model.query``.  What may not: what is filtered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QFocusEvent,
    QHideEvent,
    QInputMethodEvent,
    QKeyEvent,
    QPainter,
    QTextCharFormat,
    QTextFormat,
)
from PySide6.QtWidgets import (
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from client_gui.style.glyphs import icon
from client_gui.style.theme import Theme
from farm.model.query import Candidate, Completion, Doubt, Query, QueryError, Vocabulary, complete

Index = QModelIndex | QPersistentModelIndex
#: Values by field, and how many rows have each.
FacetsOf = Callable[[], Mapping[str, Mapping[str, int]]]
_LINES: Final = 12
_PAUSE_MS: Final = 600
_LAST_WORD: Final = re.compile(r"(?:^|[\s(-])([A-Za-z]+)\Z")
#: What an empty field suggests.
_EXAMPLES: Final = {
    "jobs": "words, mine, state:failed, age<2d",
    "nodes": "words, pool:gpu, busy:no, ram>64g",
    "frames": "state:failed, node:rack, time>10m",
}


class _Candidates(QAbstractListModel):
    """What could be typed next."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.found: tuple[Candidate, ...] = ()

    def offer(self, found: tuple[Candidate, ...]) -> None:
        self.beginResetModel()
        self.found = found
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """How many there are."""
        return 0 if parent.isValid() else len(self.found)

    def data(self, index: Index, role: int = 0) -> Any:
        """The text; a screen reader hears what it means, too."""
        one = self.found[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return one.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join([one.text, one.help, *([f"{one.count} now"] if one.count is not None else [])])
        return None


class _Line(QStyledItemDelegate):
    """A candidate: its text, what it is, and how many rows have it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """A line."""
        return QSize(self._theme.em(22), self._theme.row_height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints it."""
        model = index.model()
        assert isinstance(model, _Candidates)
        one = model.found[index.row()]
        theme, rect = self._theme, option.rect
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, theme.colour("selected"))
        gap = theme.em(0.5)
        inner = rect.adjusted(gap, 0, -gap, 0)
        painter.setFont(theme.font())
        metrics = painter.fontMetrics()
        count = "" if one.count is None else f"{one.count:,}"
        right = metrics.horizontalAdvance("00,000") if count else 0
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(theme.colour("text"))
        painter.drawText(inner, int(middle | Qt.AlignmentFlag.AlignLeft), one.text)
        painter.setPen(theme.colour("dim"))
        painter.drawText(inner, int(middle | Qt.AlignmentFlag.AlignRight), count)
        taken = max(metrics.horizontalAdvance(one.text) + 2 * gap, theme.em(8))
        room = QRect(inner.left() + taken, inner.top(), inner.width() - taken - right - gap, inner.height())
        if room.width() > theme.em(2):
            text = metrics.elidedText(one.help, Qt.TextElideMode.ElideRight, room.width())
            painter.drawText(room, int(middle | Qt.AlignmentFlag.AlignLeft), text)


class FilterEdit(QLineEdit):
    """A line of the filter language.

    Attributes:
        query: The last text that could be read: what is in force.
        error: Why the text cannot be read now, None when it can.
        doubts: What is read but probably means something else.
    """

    #: What is in force changed: a ``Query``.
    queried = Signal(object)
    #: ``error`` or ``doubts`` changed.
    judged = Signal()
    #: Somebody is done with typing: the list may have the focus.
    left = Signal()

    def __init__(
        self, vocabulary: Vocabulary, facets: FacetsOf, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.query = Query("", None, vocabulary)
        self.error: QueryError | None = None
        self.doubts: tuple[Doubt, ...] = ()
        self._vocabulary = vocabulary
        self._facets = facets
        self._theme = theme
        self._completion = Completion(0, 0)
        self._marking = False
        self._typing = False
        #: A word that may become a field is not looked for before somebody stops to think.
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_PAUSE_MS)
        self._pause.timeout.connect(self._judge)
        self._candidates = _Candidates(self)
        # A child of the window and no window of its own: it takes no focus, and keys stay here.
        self._popup = QListView(self)
        self._popup.setModel(self._candidates)
        self._popup.setItemDelegate(_Line(theme, self._popup))
        self._popup.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._popup.setAccessibleName("what could be typed next")
        self._popup.setUniformItemSizes(True)
        self._popup.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._popup.setFrameShape(QListView.Shape.Box)
        self._popup.hide()
        self._popup.clicked.connect(self._take)
        self._lens = self.addAction(icon(theme, "filter", "dim"), QLineEdit.ActionPosition.LeadingPosition)
        self._lens.setText("filter")
        self.setClearButtonEnabled(True)
        self.setPlaceholderText(f"filter: {_EXAMPLES.get(vocabulary.name, 'words')} …")
        self.setAccessibleName(f"filter of {vocabulary.name}")
        self.textChanged.connect(self._read)
        self.textEdited.connect(self._offer)
        theme.changed.connect(self._restyle)

    def _restyle(self) -> None:
        self._lens.setIcon(icon(self._theme, "filter", "dim"))
        self._underline()

    # -- reading --

    def _read(self, text: str) -> None:
        if not self._typing:
            self._hide()
        self._pause.stop()
        if self._typing and self._half_written(text):
            self._pause.start()
        else:
            self._judge()

    def _half_written(self, text: str) -> bool:
        """Whether what is being typed is probably the beginning of a field's name, or of one of its words."""
        if self.cursorPosition() != len(text):
            return False
        found = _LAST_WORD.search(text)
        if found is None:
            try:
                doubts = Query.parse(text, self._vocabulary).doubts()
            except QueryError:
                return False
            return any(doubt.end == len(text) for doubt in doubts)
        typed = found[1].casefold()
        return any(
            name.startswith(typed) and not field.bare
            for field in self._vocabulary.fields
            for name in (field.name, *field.aliases)
        )

    def _judge(self) -> None:
        self._pause.stop()
        text = self.text()
        try:
            found = Query.parse(text, self._vocabulary)
        except QueryError as error:
            # What was in force stays: a list that empties with every half-written word is of no use.
            self.error, self.doubts = error, ()
        else:
            self.error, self.doubts = None, found.doubts()
            if found != self.query or str(found) != str(self.query):
                self.query = found
                self.queried.emit(found)
            else:
                self.query = found
        self.setToolTip(self.error.message if self.error is not None else self.query.explain())
        self.setAccessibleDescription(self.toolTip())
        self._underline()
        self.judged.emit()

    def message(self) -> str:
        """What is wrong or doubtful with the text, "" for nothing."""
        if self.error is not None:
            return f"{self.error.message}{f'; {self.error.hint}' if self.error.hint else ''}"
        return self.doubts[0].message if self.doubts else ""

    def _underline(self) -> None:
        """Underlines what is wrong, in the way input methods mark what they are about to write."""
        if self._marking:
            return
        text = self.text()
        if self.error is not None:
            marks = [(self.error.position, self.error.end, "bad")]
        else:
            marks = [(doubt.start, doubt.end, "warn") for doubt in self.doubts]
        cursor = self.cursorPosition()
        made: list[QInputMethodEvent.Attribute] = []
        for start, end, token in marks:
            start = max(0, min(start, len(text) - 1))
            style = QTextCharFormat()
            style.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            style.setUnderlineColor(self._theme.colour(token))
            made.append(
                QInputMethodEvent.Attribute(
                    QInputMethodEvent.AttributeType.TextFormat,
                    start - cursor,
                    max(1, min(end, len(text)) - start),
                    # Qt looks for a QTextFormat, and takes nothing that is derived from it.
                    QTextFormat(style),
                )
            )
        self._marking = True
        self.inputMethodEvent(QInputMethodEvent("", made))
        self._marking = False

    # -- what could follow --

    def _offer(self, *_: object) -> None:
        text, cursor = self.text(), self.cursorPosition()
        self._completion = complete(text, cursor, self._vocabulary, self._facets())
        typed = text[self._completion.start : cursor]
        found = self._completion.candidates
        if (
            [one.text for one in found] == [typed]
            or not found
            or (not typed and text[:cursor][-1:] in ("", " "))
        ):
            self._hide()
            return
        self._show(found)

    def offer_all(self) -> None:
        """Offers what could stand here, asked for by Ctrl+Space or the down key."""
        self._completion = complete(self.text(), self.cursorPosition(), self._vocabulary, self._facets())
        if self._completion.candidates:
            self._show(self._completion.candidates)

    def _show(self, found: tuple[Candidate, ...]) -> None:
        self._candidates.offer(found)
        popup, window = self._popup, self.window()
        popup.setParent(window)
        popup.setFont(self._theme.font())
        back, edge = self._theme.colour("raised").name(), self._theme.colour("accent").name()
        popup.setStyleSheet(f"QListView {{ background: {back}; border: 1px solid {edge}; }}")
        corner = self.mapTo(window, QPoint(0, self.height()))
        high = min(len(found), _LINES) * self._theme.row_height() + 2 * popup.frameWidth()
        wide = min(max(self.width() // 2, self._theme.em(30)), window.width() - corner.x())
        popup.setGeometry(corner.x(), corner.y(), wide, min(high, window.height() - corner.y()))
        popup.show()
        popup.raise_()

    def _hide(self) -> None:
        if self._popup.parent() is not self:
            # It goes with this field, should the field go.
            self._popup.setParent(self)
        self._popup.hide()

    def _take(self, index: QModelIndex) -> None:
        row = index.row()
        if not 0 <= row < len(self._candidates.found):
            return
        chosen = self._candidates.found[row]
        self._hide()
        text, cursor = self._completion.apply(self.text(), chosen)
        self.setText(text)
        self.setCursorPosition(cursor)
        if chosen.goes_on:
            self.offer_all()

    @property
    def offered(self) -> tuple[str, ...]:
        """What is offered now; empty while nothing is."""
        if not self._popup.isVisible():
            return ()
        return tuple(one.text for one in self._candidates.found)

    # -- keys --

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter takes or leaves, Escape closes, clears or leaves, down offers or leaves."""
        key = event.key()
        enter = key in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if self._popup.isVisible() and self._popup_key(key):
            return
        if key == Qt.Key.Key_Space and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.offer_all()
        elif enter or key == Qt.Key.Key_Down:
            self._hide()
            if self._pause.isActive():
                self._judge()
            self.left.emit()
        elif key == Qt.Key.Key_Escape:
            self.escape()
        else:
            self._typing = True
            super().keyPressEvent(event)
            self._typing = False

    def _popup_key(self, key: int) -> bool:
        """Moves in what is offered, or takes it; False for keys that have another meaning."""
        popup = self._popup
        row, last = popup.currentIndex().row(), len(self._candidates.found) - 1
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab) and row >= 0:
            self._take(popup.currentIndex())
            return True
        to = {
            Qt.Key.Key_Down: row + 1,
            Qt.Key.Key_Up: row - 1 if row > 0 else last,
            Qt.Key.Key_PageDown: min(last, row + _LINES),
            Qt.Key.Key_PageUp: max(0, row - _LINES),
        }.get(Qt.Key(key))
        if to is None:
            return False
        popup.setCurrentIndex(self._candidates.index(to if to <= last else 0))
        return True

    def escape(self) -> None:
        """Closes what is offered; else clears the text; else leaves."""
        if self._popup.isVisible():
            self._hide()
        elif self.text():
            self.clear()
        else:
            self.left.emit()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """What was marked is marked again: an input method clears its marks when the focus moves."""
        super().focusInEvent(event)
        self._underline()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Nothing is offered to somebody who is elsewhere."""
        super().focusOutEvent(event)
        self._hide()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Nothing is offered while it cannot be seen."""
        super().hideEvent(event)
        self._hide()

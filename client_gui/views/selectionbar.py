"""The bar at the foot of a list: what is selected, in all, and what is probably wanted with it.

What belongs here: words and buttons.  What may not: sums (the list makes them) and actions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QSizePolicy, QWidget

from client_gui.actions.book import ActionBook
from client_gui.actions.buttons import show_possible
from client_gui.actions.context import ActionContext
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme


class _CutLabel(QLabel):
    """A line of words that is cut where there is no room: it gives way before the buttons do."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The words, as far as there is room."""
        painter = QPainter(self)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), text)


class SelectionBar(QWidget):
    """What is selected, and buttons.

    Args:
        actions: Every action.
        likely: Ids of those with a button.
        context: What they would act on.
        judged: What is asked whether they are possible: ``context``, or some of it that stand for all.
        theme: How it looks.
    """

    def __init__(
        self,
        actions: ActionBook,
        likely: Sequence[str],
        context: Callable[[], ActionContext],
        judged: Callable[[], ActionContext],
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._actions = actions
        self._judged = judged
        self._theme = theme
        self._words = _CutLabel(self)
        self._hint = QLabel(self)
        self._hint.setTextFormat(Qt.TextFormat.PlainText)
        self._hint.setVisible(False)
        self.buttons: dict[str, QAbstractButton] = {}
        box = QHBoxLayout(self)
        edge = theme.em(0.4)
        box.setContentsMargins(edge, theme.em(0.2), edge, theme.em(0.2))
        box.setSpacing(edge)
        box.addWidget(self._words, 1)
        box.addWidget(self._hint)
        for action in likely:
            button = actions.button(action, context, self, judged)
            self.buttons[action] = button
            box.addWidget(button)
        when_seen(theme, self, self._restyle)
        self._restyle()

    def say(self, text: str) -> None:
        """Says what is selected."""
        self._words.setText(text)
        self._words.setToolTip(text)

    def words(self) -> str:
        """What it says."""
        return self._words.text()

    def renew(self) -> None:
        """What is possible may be another now."""
        why_not = self._actions.judge(self._judged())
        for action, button in self.buttons.items():
            show_possible(button, why_not(action), self._actions.label(action))

    def hold(self, count: int) -> None:
        """How many changes wait until somebody lets go."""
        self._hint.setVisible(count > 0)
        self._hint.setText(f"{count:,} change{'s' if count != 1 else ''} pending")

    def hint(self) -> str:
        """What is said of changes that wait, "" for nothing."""
        return self._hint.text() if self._hint.isVisibleTo(self) else ""

    def _restyle(self) -> None:
        for label, token in ((self._words, "text"), (self._hint, "accent")):
            label.setFont(self._theme.font(small=True))
            palette = QPalette(label.palette())
            palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour(token))
            label.setPalette(palette)
        for button in self.buttons.values():
            button.setFont(self._theme.font(small=True))

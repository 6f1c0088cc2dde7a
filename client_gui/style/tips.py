"""Tool tips are words, never markup: names of jobs and files are whatever somebody typed.

What belongs here: keeping Qt from reading a tip as HTML, wherever it comes from.  What may not: what tips
say.

Qt takes a text for HTML as soon as it looks like it, and loads what pictures it names: a job that is called
like a picture on a server that hangs would stop the window of everybody who rests the mouse on it.
"""

from __future__ import annotations

import html
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtGui import Qt as Texts
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractScrollArea,
    QApplication,
    QHeaderView,
    QMenu,
    QTabBar,
    QToolTip,
    QWidget,
)

_TIP: Final = QEvent.Type.ToolTip
_ROLE: Final = Qt.ItemDataRole.ToolTipRole


def plain_tip(text: str) -> str:
    """A tip that shows just these words; for whoever calls ``QToolTip.showText`` itself."""
    if not Texts.mightBeRichText(text):
        return text
    return f"<p style='white-space:pre-wrap'>{html.escape(text)}</p>"


class PlainTips(QObject):
    """Shows every tip that Qt would read as HTML as the words it is; the others it leaves to Qt.

    Args:
        app: Whose tips; it is heard as long as this lives, or until ``end``.
    """

    def __init__(self, app: QApplication, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._app = app
        app.installEventFilter(self)

    def end(self) -> None:
        """Leaves all tips to Qt again."""
        self._app.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Takes the place of the widget that is asked for its tip."""
        # Every event of the window comes by here: nothing may stand before this line.
        if event.type() != _TIP or not isinstance(event, QHelpEvent) or not isinstance(watched, QWidget):
            return False
        tip = _tip_of(watched, event)
        if not tip or not Texts.mightBeRichText(tip):
            return False
        QToolTip.showText(event.globalPos(), plain_tip(tip), watched)
        event.accept()
        return True


def _tip_of(widget: QWidget, event: QHelpEvent) -> str:
    """What Qt is about to show, "" for nothing or what is not known."""
    found: object = ""
    owner = widget.parentWidget()
    area = owner if isinstance(owner, QAbstractScrollArea) and owner.viewport() is widget else None
    if isinstance(area, QHeaderView):
        section, model = area.logicalIndexAt(event.pos()), area.model()
        if section >= 0 and model is not None:
            found = model.headerData(section, area.orientation(), _ROLE)
    elif isinstance(area, QAbstractItemView):
        found = area.indexAt(event.pos()).data(_ROLE)
    elif isinstance(widget, QTabBar):
        found = widget.tabToolTip(widget.tabAt(event.pos()))
    elif isinstance(widget, QMenu):
        action = widget.actionAt(event.pos())
        found = action.toolTip() if action is not None and widget.toolTipsVisible() else ""
    if isinstance(found, str) and found:
        return found
    return widget.toolTip() or (area.toolTip() if area is not None else "")

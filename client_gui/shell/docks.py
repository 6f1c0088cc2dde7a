"""Docks: one for each record, with its view made when first shown, and a title that says where the keys go.

What belongs here: the dock, its title, and the room they stand in.  What may not: which docks there are
(``views.registry``), where they stand (``workspaces``).
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QTabBar,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.desk import Desk
from client_gui.style.glyphs import icon
from client_gui.views.base import View
from client_gui.views.registry import DockRecord


class _Title(QWidget):
    """The title of a dock: its words where it stands alone, a thin line where a tab has them already."""

    def __init__(self, dock: Dock) -> None:
        super().__init__(dock)
        self._dock = dock
        self._slim = False
        self._layout = QHBoxLayout(self)
        self._layout.setSpacing(0)
        self._layout.addStretch(1)
        self._float = self._button("float", "Own window")
        self._float.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self._close = self._button("close", "Hide")
        self._close.clicked.connect(dock.close)
        self.restyle()

    def _button(self, glyph: str, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setAutoRaise(True)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.setToolTip(words)
        button.setAccessibleName(f"{words}: {self._dock.record.title}")
        button.setProperty("glyph", glyph)
        self._layout.addWidget(button)
        return button

    def restyle(self) -> None:
        """Takes sizes and icons of the theme, and the shape that the dock's place asks for."""
        theme = self._dock.desk.theme
        self._slim = self._dock.tabbed
        edge = max(2, theme.em(0.12))
        self._layout.setContentsMargins(theme.em(0.5), 0, theme.em(0.2), 0)
        for button in (self._float, self._close):
            button.setVisible(not self._slim)
            button.setIcon(icon(theme, str(button.property("glyph")), "dim"))
            button.setFixedSize(theme.em(1.3), theme.em(1.3))
        self.setFixedHeight(edge if self._slim else theme.em(1.7))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as it is: a dock asks for nothing else before it lays out what is below."""
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """As high as it is."""
        return QSize(super().minimumSizeHint().width(), self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draws words and the line that says whether the keys go here."""
        theme = self._dock.desk.theme
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.colour("window"))
        edge = max(2, theme.em(0.12))
        if self._dock.has_keys:
            painter.fillRect(0, 0, self.width(), edge, theme.colour("accent"))
        if not self._slim:
            size = theme.em(0.85)
            box = self.rect().adjusted(theme.em(0.5), edge, -self._close.width() * 2 - theme.em(0.4), 0)
            token = "text" if self._dock.has_keys else "dim"
            drawn = icon(theme, self._dock.record.glyph, token)
            drawn.paint(painter, box.left(), box.center().y() - size // 2, size, size)
            painter.setPen(theme.colour(token))
            painter.setFont(theme.font(bold=True))
            box.setLeft(box.left() + size + theme.em(0.4))
            words = painter.fontMetrics().elidedText(
                self._dock.windowTitle(), Qt.TextElideMode.ElideRight, box.width()
            )
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)
        painter.end()


def give_keys(widget: QWidget) -> bool:
    """Gives the keys to the first thing in a widget that takes them; whether there is one."""
    for child in widget.findChildren(QWidget):
        if child.isVisible() and child.isEnabled() and child.focusPolicy() & Qt.FocusPolicy.TabFocus:
            child.setFocus(Qt.FocusReason.OtherFocusReason)
            return True
    return False


class Dock(QDockWidget):
    """One dock.

    Attributes:
        record: What it is.
        desk: What its view is given.
        has_keys: Whether the keyboard's focus is in it.
    """

    def __init__(self, record: DockRecord, desk: Desk, room: DockRoom) -> None:
        super().__init__(record.title, room)
        self.record = record
        self.desk = desk
        self.has_keys = False
        self._seen = False
        self._room = room
        self._view: View | None = None
        # Qt keeps the docks behind a tab "visible" and moves them out of sight; their views must not
        # follow anything there, so they are hidden within this.
        self._body = QWidget(self)
        self._body.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # where nothing in a view takes the keys
        self._inside = QVBoxLayout(self._body)
        self._inside.setContentsMargins(0, 0, 0, 0)
        self.setObjectName(f"dock-{record.name}")
        self.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
        self.setWidget(self._body)
        self._title = _Title(self)
        self.setTitleBarWidget(self._title)
        self.setWindowIcon(icon(desk.theme, record.glyph, "dim"))
        self.visibilityChanged.connect(self._shown)

    @property
    def view(self) -> View:
        """Its view, made now if it was not yet."""
        if self._view is None:
            try:
                self._view = self.record.make(self.desk)
            except Exception as error:
                # One dock that fails must not take the others along; the hook writes it down and tells.
                sys.excepthook(type(error), error, error.__traceback__)
                self._view = _Broken(self.desk, error)
            self._inside.addWidget(self._view)
        return self._view

    @property
    def made(self) -> bool:
        """Whether its view is there already."""
        return self._view is not None

    @property
    def made_visible(self) -> bool:
        """Whether it can be seen: shown, and not behind another tab."""
        return self._view is not None and self._view.isVisible()

    @property
    def tabbed(self) -> bool:
        """Whether it shares its place with others, so that a tab says its title."""
        return not self.isFloating() and bool(self._room.tabifiedDockWidgets(self))

    def front(self) -> None:
        """Shows it, before those it shares its place with, and gives its view the keys."""
        self.show()
        if self.isFloating():
            self.activateWindow()
        else:
            self.raise_()
        self._room.settle()
        self.take_keys()

    def take_keys(self) -> None:
        """Gives the keys to its view, or to the first thing in it that takes them."""
        self.view.setFocus(Qt.FocusReason.OtherFocusReason)
        if not self._holds(self.window().focusWidget()) and not give_keys(self.view):
            self._body.setFocus(Qt.FocusReason.OtherFocusReason)

    def _holds(self, widget: QWidget | None) -> bool:
        return widget is not None and self.isAncestorOf(widget)

    def set_keys(self, has_keys: bool) -> None:
        """Takes note of where the keyboard's focus is."""
        if has_keys != self.has_keys:
            self.has_keys = has_keys
            self._title.update()

    def restyle(self) -> None:
        """Takes the theme anew."""
        self.setWindowIcon(icon(self.desk.theme, self.record.glyph, "dim"))
        # A dock may be made smaller than its view would like: on a small screen with large words better
        # that something is cut off than that the window does not fit.
        self._body.setMinimumSize(self.desk.theme.em(8), self.desk.theme.em(4))
        self._title.restyle()

    def _shown(self, visible: bool) -> None:
        # Not now: Qt is in the middle of laying docks out, and does not bear widgets that come and go.
        self._seen = visible
        self._room.later()

    def settle(self) -> None:
        """Lets its view know whether it can be seen, and makes it when that is for the first time."""
        if self._seen or self._view is not None:
            self.view.setVisible(self._seen)


class _Broken(View):
    """Stands where a view could not be made."""

    def __init__(self, desk: Desk, error: Exception) -> None:
        super().__init__(desk)
        words = QLabel(f"This dock cannot be shown: {error}\nThe others go on; Activity says more.")
        words.setTextFormat(Qt.TextFormat.PlainText)
        words.setWordWrap(True)
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        QVBoxLayout(self).addWidget(words)


class DockRoom(QMainWindow):
    """Where the docks stand.

    It is a window within the window, so that the welcome page can take its place and so that its layout is
    kept apart from bars and banners.

    Attributes:
        desk: What the views are given.
        docks: Every dock by its name.
    """

    #: A dock was moved, shown, hidden or resized.
    moved = Signal()
    #: The dock (its name) that has the keyboard is another one.
    keys_moved = Signal(str)

    def __init__(self, desk: Desk, records: tuple[DockRecord, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setObjectName("docks")
        self.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks
            | QMainWindow.DockOption.AllowTabbedDocks
            | QMainWindow.DockOption.GroupedDragging
        )
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.desk = desk
        self._keys = ""
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self.settle)
        self.docks = {record.name: Dock(record, desk, self) for record in records}
        for dock in self.docks.values():
            dock.installEventFilter(self)
            dock.topLevelChanged.connect(self.later)
            dock.dockLocationChanged.connect(self.later)
        QApplication.instance().focusChanged.connect(self._focus_moved)  # type: ignore[union-attr]
        desk.theme.changed.connect(self.restyle)

    @property
    def keys(self) -> str:
        """Name of the dock that has the keyboard, or had it last; "" for none yet."""
        return self._keys

    def shown(self) -> list[Dock]:
        """Docks that can be seen now."""
        return [dock for dock in self.docks.values() if not dock.isHidden() and dock.made_visible]

    def next_dock(self, step: int = 1) -> None:
        """Gives the keys to the next dock that can be seen, or the one before it."""
        shown = self.shown()
        if not shown:
            return
        names = [dock.record.name for dock in shown]
        place = names.index(self._keys) + step if self._keys in names else 0
        shown[place % len(shown)].front()

    def restyle(self) -> None:
        """Takes the theme anew."""
        self.settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Takes note of docks being moved and resized."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self.moved.emit()
        return super().eventFilter(watched, event)

    def later(self) -> None:
        """Settles as soon as Qt has done what it is at."""
        self._soon.start()
        self.moved.emit()

    def settle(self) -> None:
        """Lets views know whether they are seen; gives titles the shape that fits where docks stand now."""
        self._soon.stop()
        for dock in self.docks.values():
            dock.settle()
            dock.restyle()
        for bar in self.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
            bar.setElideMode(Qt.TextElideMode.ElideRight)
            bar.setUsesScrollButtons(True)
            bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            bar.setAccessibleName("Docks in one place")

    def _focus_moved(self, before: QWidget | None, now: QWidget | None) -> None:
        if now is None:
            return
        found = ""
        for name, dock in self.docks.items():
            if dock is now or dock.isAncestorOf(now):
                found = name
        if not found and now.window() is not self.window():
            return  # a dialog, or another window
        for name, dock in self.docks.items():
            dock.set_keys(name == found)
        if found and found != self._keys:
            self._keys = found
            self.keys_moved.emit(found)

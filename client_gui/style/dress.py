"""Puts the theme on the application: palette, font, and a small style sheet for what a palette cannot say.

What belongs here: what holds for every widget.  What may not: values of colours (``tokens``), and rules for
one view: a view paints itself.

The sheet is worn by windows (``wear``), not by the application: Qt takes many times as long to put one on
an application.  A font goes to all widgets by itself, in a fraction of that, so the sheet follows words that
grow or shrink only when they have found their size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTemporaryDir, QTimer, Slot
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import QApplication, QWidget

from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import SYSTEM, Theme
from client_gui.style.tips import PlainTips

_PROPAGATE: Final = Qt.ApplicationAttribute.AA_UseStyleSheetPropagationInWidgetStyles
#: How long words must keep their size before margins and small pictures follow.
SHEET_AFTER_MS: Final = 400


class Dress(QObject):
    """What the application wears; changes with the theme, at once and everywhere.

    To be made right after the theme and before any view, so that sizes are right when views ask for them.
    """

    def __init__(self, app: QApplication, theme: Theme) -> None:
        super().__init__(theme)
        self._app = app
        self._theme = theme
        self._font = QFont(app.font())
        self._before = (QPalette(app.palette()), app.style().name())
        self._colours: tuple[object, ...] = ()
        self._pictures = _Pictures()
        self._tips = PlainTips(app, self)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SHEET_AFTER_MS)
        self._soon.timeout.connect(self._write)
        # Counted from when windows have laid out and painted what changed, however long that takes them.
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(0)
        self._idle.timeout.connect(self._soon.start)
        # Without it no widget that a sheet has a rule for learns of another font but by another sheet.
        app.setAttribute(_PROPAGATE)
        app.setStyle("Fusion")
        self.put_on()
        theme.changed.connect(self.put_on)

    def put_on(self) -> None:
        """Makes everything look like the theme."""
        theme = self._theme
        font = QFont(self._font)
        size = self._font.pointSizeF()
        if size <= 0:  # given in pixels
            size = self._font.pixelSize() * 0.75
        font.setPointSizeF(size * theme.zoom)
        if font != self._app.font():
            self._app.setFont(font)
            # Now: whoever is told of the theme measures its words.
            QCoreApplication.sendPostedEvents(None, QEvent.Type.ApplicationFontChange)
        colours = (theme.choice, theme.look, theme.dense)
        if colours == self._colours:
            self._soon.stop()
            self._idle.start()
            return
        self._colours = colours
        scheme = Qt.ColorScheme.Dark if theme.look.dark else Qt.ColorScheme.Light
        hints = QGuiApplication.styleHints()
        if theme.choice == SYSTEM:
            hints.unsetColorScheme()
        elif hints.colorScheme() is not scheme:
            hints.setColorScheme(scheme)  # so that frames round the window match
        self._app.setPalette(palette(theme))
        QCoreApplication.sendPostedEvents(None, QEvent.Type.ApplicationPaletteChange)
        self._write()

    def _write(self) -> None:
        """Writes the sheet that windows wear."""
        self._idle.stop()
        self._soon.stop()
        theme = self._theme
        sheet = style_sheet(theme, self._pictures.draw(theme))
        if sheet != theme.sheet:
            theme.sheet = sheet
            theme.sheet_changed.emit()

    def take_off(self) -> None:
        """Gives the application back what it wore before."""
        self._theme.changed.disconnect(self.put_on)
        self._tips.end()
        self._idle.stop()
        self._soon.stop()
        self._theme.sheet = ""
        self._theme.sheet_changed.emit()
        colours, style = self._before
        QGuiApplication.styleHints().unsetColorScheme()
        self._app.setAttribute(_PROPAGATE, False)
        self._app.setStyle(style)
        self._app.setPalette(colours)
        self._app.setFont(self._font)
        self._pictures.remove()


class _Worn(QObject):
    """The sheet on a window."""

    def __init__(self, window: QWidget, theme: Theme) -> None:
        super().__init__(window)
        self._window = window
        self._theme = theme
        theme.sheet_changed.connect(self.take)
        self.take()

    @Slot()
    def take(self) -> None:
        """Takes the sheet as it is now."""
        if self._window.styleSheet() != self._theme.sheet:
            self._window.setStyleSheet(self._theme.sheet)


def wear(window: QWidget, theme: Theme) -> None:
    """Lets a window wear the theme's style sheet, with everything that is in it or opened from it.

    To be called before the window has anything in it: that is cheapest.
    """
    _Worn(window, theme)


class _Pictures:
    """The few small pictures a style sheet needs, as files: it knows no other way to a tick or an arrow."""

    def __init__(self) -> None:
        self._folder = QTemporaryDir()
        self._drawn: dict[tuple[str, int], str] = {}

    def draw(self, theme: Theme) -> dict[str, str]:
        """Paths of the pictures in the colours in force, by name."""
        return {
            name: self._file(glyph, theme.colour(token).name(), theme.em(0.8))
            for name, (glyph, token) in PICTURES.items()
        }

    def remove(self) -> None:
        """Removes the files."""
        self._folder.remove()

    def _file(self, glyph: str, colour: str, side: int) -> str:
        path = f"{self._folder.path()}/{glyph}-{colour[1:]}-{side}.png"
        if (path, side) not in self._drawn:
            for scale, suffix in ((1, ""), (2, "@2x"), (3, "@3x")):
                picture = QPixmap(side * scale, side * scale)
                picture.fill(Qt.GlobalColor.transparent)
                painter = QPainter(picture)
                paint_glyph(painter, glyph, picture.rect(), QColor(colour))
                painter.end()
                picture.save(f"{path[:-4]}{suffix}.png")
            self._drawn[path, side] = path
        return path


def palette(theme: Theme) -> QPalette:
    """The theme's colours as Qt's roles."""
    role = QPalette.ColorRole
    found = QPalette()
    for name, token in (
        (role.Window, "window"),
        (role.WindowText, "text"),
        (role.Base, "base"),
        (role.AlternateBase, "shade"),
        (role.Text, "text"),
        (role.PlaceholderText, "dim"),
        (role.Button, "raised"),
        (role.ButtonText, "text"),
        (role.BrightText, "bad"),
        (role.ToolTipBase, "raised"),
        (role.ToolTipText, "text"),
        (role.Highlight, "selected"),
        (role.HighlightedText, "text"),
        (role.Accent, "accent"),
        (role.Link, "accent"),
        (role.LinkVisited, "accent"),
        (role.Light, "raised"),
        (role.Midlight, "raised"),
        (role.Mid, "line"),
        (role.Dark, "line"),
        (role.Shadow, "base"),
    ):
        found.setColor(name, theme.colour(token))
    off: QColor = theme.colour("disabled")
    for name in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        found.setColor(QPalette.ColorGroup.Disabled, name, off)
    return found


def style_sheet(theme: Theme, pictures: Mapping[str, str]) -> str:
    """Rules for what a palette cannot say: docks, tabs, tool buttons, scroll bars, focus, menus, headers.

    Args:
        theme: The look in force.
        pictures: Paths of the pictures of ``PICTURES``.
    """
    em = theme.em
    near = 0.7 if theme.dense else 1.0
    sizes = {
        "hair": 1,
        "ring": max(1, em(0.07)),
        "round": max(2, em(0.2)),
        "gap": max(1, em(0.12 * near)),
        "pad": max(2, em(0.28 * near)),
        "wide": max(4, em(0.6)),
        "bar": max(8, em(0.62)),
        "grip": max(20, em(1.6)),
        "tick": max(11, em(0.85)),
        "tiny": max(8, em(0.6)),
        "half": max(5, em(0.42)),
        "split": max(3, em(0.22)),
        "line_h": em(1.0),
        "icon": max(16, em(1.0)),
    }
    sheet = re.sub(r"%(\w+)", lambda found: f'url("{pictures[found[1]]}")', _SHEET)
    sheet = re.sub(r"@(\w+)", lambda found: str(getattr(theme.look, found[1])), sheet)
    return re.sub(r"\$(\w+)", lambda found: f"{sizes[found[1]]}px", sheet)


#: Glyph and colour of each picture of the style sheet.
PICTURES: Final = {
    "tick": ("done", "on_accent"),
    "mark": ("done", "text"),
    "dot": ("dot", "on_accent"),
    "up": ("up", "text"),
    "down": ("down", "text"),
    "up_off": ("up", "disabled"),
    "down_off": ("down", "disabled"),
    "right": ("right", "text"),
}

# `@name` is a colour of the look, `$name` a size that grows with the font, `%name` a picture.
_SHEET = """
QToolTip { color: @text; background: @raised; border: $hair solid @line; padding: $gap $pad; }

QMainWindow::separator { background: @line; width: $hair; height: $hair; }
QMainWindow::separator:hover { background: @accent; }
QSplitter::handle { background: @window; }
QSplitter::handle:hover { background: @accent; }
QSplitter::handle:horizontal { width: $split; }
QSplitter::handle:vertical { height: $split; }

QTabBar { qproperty-drawBase: 0; background: @window; }
QTabBar::tab {
  color: @dim; background: transparent; border: none; border-top: $ring solid transparent;
  padding: $pad $wide; margin: 0;
}
QTabBar::tab:hover { color: @text; background: @hover; }
QTabBar::tab:selected { color: @text; background: @raised; border-top: $ring solid @accent; }
QTabBar::tab:disabled { color: @disabled; }
QTabBar:focus { outline: none; }
QTabBar::tab:selected:focus { border: $ring solid @focus; }
QTabWidget::pane { border: none; border-top: $hair solid @line; }

QMenuBar { background: @window; color: @text; border: none; spacing: 0; }
QMenuBar::item { padding: $pad $pad; background: transparent; border-radius: $round; }
QMenuBar::item:selected, QMenuBar::item:pressed { background: @selected; }
QMenu { background: @raised; color: @text; border: $hair solid @line; padding: $gap 0; }
QMenu::item { padding: $pad $wide; padding-right: $grip; border: $ring solid transparent; }
QMenu::item:selected { background: @selected; border-color: @focus; }
QMenu::item:disabled { color: @disabled; }
QMenu::separator { height: $hair; background: @line; margin: $gap 0; }
QMenu::icon { padding-left: $pad; }
QMenu::indicator { width: $tick; height: $tick; left: $pad; }
QMenu::indicator:checked { image: %mark; }
QMenu::right-arrow { image: %right; width: $tick; height: $tick; right: $pad; }

QToolButton, QPushButton, QTabBar, QCheckBox, QRadioButton { icon-size: $icon; }
QToolButton { color: @text; background: transparent; border: $ring solid transparent; border-radius: $round;
  padding: $gap; }
QToolButton:hover { background: @hover; border-color: @line; }
QToolButton:pressed, QToolButton:checked { background: @selected; }
QToolButton:focus { border-color: @focus; }
QToolButton:disabled { color: @disabled; }
QToolButton::menu-indicator { image: none; width: 0; }

QPushButton { color: @text; background: @raised; border: $ring solid @line; border-radius: $round;
  padding: $pad $wide; min-height: $line_h; }
QPushButton:hover { background: @hover; }
QPushButton:pressed, QPushButton:checked { background: @selected; }
QPushButton:default { color: @on_accent; background: @accent; border-color: @accent; }
QPushButton:focus { border-color: @focus; }
QPushButton:default:focus { border-color: @text; }
QPushButton:disabled { color: @disabled; background: @window; border-color: @line; }
QPushButton:flat { background: transparent; border-color: transparent; }
QPushButton:flat:focus { border-color: @focus; }

QLineEdit, QPlainTextEdit, QTextEdit, QAbstractSpinBox {
  color: @text; background: @base; border: $ring solid @line; border-radius: $round;
  padding: $gap $pad; selection-background-color: @accent; selection-color: @on_accent; }
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QAbstractSpinBox:focus { border-color: @focus; }
QLineEdit:disabled, QPlainTextEdit:disabled, QAbstractSpinBox:disabled {
  color: @disabled; background: @window; }
QLineEdit, QPlainTextEdit, QTextEdit { placeholder-text-color: @dim; }
QLineEdit[problem="true"] { border-color: @bad; }
QComboBox { color: @text; background: @raised; border: $ring solid @line; border-radius: $round;
  padding: $gap $pad; min-height: $line_h; }
QComboBox:hover { background: @hover; }
QComboBox::drop-down { border: none; width: $grip; subcontrol-position: center right; }
QComboBox::down-arrow { image: %down; width: $tick; height: $tick; }
QComboBox::down-arrow:disabled { image: %down_off; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {
  border: none; background: transparent; width: $grip; }
QAbstractSpinBox::up-button { subcontrol-position: top right; }
QAbstractSpinBox::down-button { subcontrol-position: bottom right; }
QAbstractSpinBox::up-arrow { image: %up; width: $tiny; height: $tiny; }
QAbstractSpinBox::down-arrow { image: %down; width: $tiny; height: $tiny; }
QAbstractSpinBox::up-arrow:off, QAbstractSpinBox::up-arrow:disabled { image: %up_off; }
QAbstractSpinBox::down-arrow:off, QAbstractSpinBox::down-arrow:disabled { image: %down_off; }
QComboBox:focus { border-color: @focus; }
QComboBox:disabled { color: @disabled; }
QComboBox QAbstractItemView { background: @raised; color: @text; border: $hair solid @line;
  selection-background-color: @selected; selection-color: @text; outline: none; }

QAbstractItemView { background: @base; alternate-background-color: @shade; color: @text;
  border: $ring solid transparent; selection-background-color: @selected; selection-color: @text;
  outline: none; }
QAbstractItemView:focus { border-color: @focus; }
QHeaderView { background: @window; border: none; }
QHeaderView::section { background: @window; color: @dim; border: none; border-right: $hair solid @line;
  border-bottom: $hair solid @line; padding: $gap $pad; }
QHeaderView::section:hover { color: @text; background: @hover; }
QHeaderView::up-arrow { image: %up; width: $tiny; height: $tiny; subcontrol-position: center right;
  right: $gap; }
QHeaderView::down-arrow { image: %down; width: $tiny; height: $tiny; subcontrol-position: center right;
  right: $gap; }
QTableCornerButton::section { background: @window; border: none; }

QScrollBar { background: transparent; border: none; margin: 0; }
QScrollBar:vertical { width: $bar; }
QScrollBar:horizontal { height: $bar; }
QScrollBar::handle { background: @line; border-radius: $round; margin: 1px; }
QScrollBar::handle:vertical { min-height: $grip; }
QScrollBar::handle:horizontal { min-width: $grip; }
QScrollBar::handle:hover, QScrollBar::handle:pressed { background: @dim; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QAbstractScrollArea::corner { background: transparent; }

QCheckBox, QRadioButton { spacing: $pad; }
QCheckBox::indicator, QRadioButton::indicator, QAbstractItemView::indicator, QGroupBox::indicator {
  width: $tick; height: $tick; border: $ring solid @dim; border-radius: $round; background: @base; }
QRadioButton::indicator { border-radius: $half; }
QCheckBox::indicator:checked, QAbstractItemView::indicator:checked, QGroupBox::indicator:checked {
  background: @accent; border-color: @accent; image: %tick; }
QRadioButton::indicator:checked { background: @accent; border-color: @accent; image: %dot; }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border-color: @focus; }
QCheckBox:focus, QRadioButton:focus { color: @focus; }
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {
  border-color: @disabled; background: @window; }
QCheckBox:disabled, QRadioButton:disabled { color: @disabled; }
QProgressBar { color: @text; background: @base; border: $hair solid @line; border-radius: $round;
  text-align: center; }
QProgressBar::chunk { background: @selected; }
QStatusBar { background: @window; color: @dim; border-top: $hair solid @line; }
QStatusBar::item { border: none; }
QGroupBox { border: $hair solid @line; border-radius: $round; margin-top: $line_h; padding: $pad; }
QGroupBox::title { subcontrol-origin: margin; left: $pad; color: @dim; }
"""

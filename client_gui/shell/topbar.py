"""The bar at the top: menus, the workspace, how the farm stands, who one is, palette and theme.

What belongs here: the bar and the card behind the farm's chip.  What may not: texts of the connection
(``standing``), and what buttons do: they call the window.
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenuBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.desk import Desk
from client_gui.shell.standing import TONE_GLYPHS, ChipText, chip_text, user_text
from client_gui.style.glyphs import icon


class FarmCard(QFrame):
    """What is known of the connection, and the way to another farm; opens below the chip."""

    #: Somebody wants another farm.
    other_wanted = Signal()
    #: Somebody wants to try at once.
    retry_wanted = Signal()

    def __init__(self, desk: Desk, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._desk = desk
        self.setObjectName("farm-card")
        self.setAccessibleName("The farm")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        outer = QVBoxLayout(self)
        self._lines = QGridLayout()
        self._lines.setColumnStretch(1, 1)
        outer.addLayout(self._lines)
        buttons = QHBoxLayout()
        outer.addLayout(buttons)
        self.retry = QPushButton("Ask for everything anew")
        self.retry.clicked.connect(self._retry)
        self.other = QPushButton("Connect to another farm…")
        self.other.clicked.connect(self._other)
        buttons.addStretch(1)
        buttons.addWidget(self.retry)
        buttons.addWidget(self.other)
        self._shown: tuple[tuple[str, str], ...] = ()

    def put(self, chip: ChipText) -> None:
        """Shows what is known now."""
        if chip.details == self._shown:
            return
        self._shown = chip.details
        theme = self._desk.theme
        while (item := self._lines.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        self._lines.setHorizontalSpacing(theme.em(0.8))
        self._lines.setVerticalSpacing(theme.em(0.25))
        for row, (name, text) in enumerate(chip.details):
            label, value = QLabel(name), QLabel(text)
            label.setStyleSheet(f"color: {theme.look.dim}")
            for one in (label, value):
                one.setTextFormat(Qt.TextFormat.PlainText)
            value.setWordWrap(True)
            value.setMinimumWidth(theme.em(16))
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._lines.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            self._lines.addWidget(value, row, 1)
        self.setAccessibleDescription("; ".join(f"{name}: {text}" for name, text in chip.details))
        self.adjustSize()

    def open_below(self, chip: QWidget) -> None:
        """Opens below the chip, and gives its button the keys."""
        corner = chip.mapToGlobal(QPoint(chip.width(), chip.height()))
        self.adjustSize()
        self.move(corner.x() - self.width(), corner.y())
        self.show()
        self.other.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Esc closes it."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
            return
        super().keyPressEvent(event)

    def _other(self) -> None:
        self.close()
        self.other_wanted.emit()

    def _retry(self) -> None:
        self.close()
        self.retry_wanted.emit()


class TopBar(QWidget):
    """The bar at the top.

    Attributes:
        menus: The menu bar.
        workspace: Says which workspace it is; its menu is filled by the window.
        chip: How the farm stands.
        palette_button, theme_button: For the palette of actions and the next theme.
        card: What opens below the chip.
    """

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.setObjectName("top-bar")
        self._layout = QHBoxLayout(self)
        self.menus = QMenuBar(self)
        self.menus.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Preferred)
        self._layout.addWidget(self.menus, 0, Qt.AlignmentFlag.AlignVCenter)
        self._layout.addStretch(1)
        self.workspace = self._button("", "Workspace")
        self.workspace.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.workspace.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.chip = self._button("done", "The farm")
        self.chip.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.chip.clicked.connect(self.open_card)
        self._user = QLabel(self)
        self._user.setTextFormat(Qt.TextFormat.PlainText)
        self._layout.addWidget(self._user)
        self.palette_button = self._button("find", "Find an action")
        self.theme_button = self._button("contrast", "Next theme")
        self.card = FarmCard(desk, self)
        self._chip: ChipText | None = None
        desk.theme.changed.connect(self.restyle)
        self.restyle()

    def _button(self, glyph: str, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setAutoRaise(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setAccessibleName(words)
        button.setToolTip(words)
        button.setProperty("glyph", glyph)
        self._layout.addWidget(button)
        return button

    @property
    def chip_text(self) -> str:
        """What the chip says now."""
        return self._chip.text if self._chip is not None else ""

    def open_card(self) -> None:
        """Shows what is known of the connection."""
        self.card.put(chip_text(self._desk.client, self._desk.client.now_us()))
        self.card.open_below(self.chip)

    def tick(self, now_us: int) -> None:
        """Says how the farm stands now."""
        found = chip_text(self._desk.client, now_us)
        if self.card.isVisible():
            self.card.put(found)
        before = self._chip
        if before is not None and (found.tone, found.text) == (before.tone, before.text):
            self._chip = found
        else:
            self._chip = found
            self._show_chip(found)
        who = user_text(self._desk.client)
        if who != self._user.text():
            self._user.setText(who)
            self._user.setAccessibleName(f"You are {who}" if who else "")

    def _show_chip(self, chip: ChipText) -> None:
        theme = self._desk.theme
        self.chip.setIcon(icon(theme, TONE_GLYPHS[chip.tone], chip.tone.value))
        self.chip.setText(chip.text.replace("&", "&&"))
        self.chip.setStyleSheet(f"QToolButton {{ color: {getattr(theme.look, chip.tone.value)} }}")
        self.chip.setAccessibleName(f"Farm {chip.text}")
        self.chip.setToolTip("How the connection stands")

    def restyle(self) -> None:
        """Takes the theme anew."""
        theme = self._desk.theme
        self._layout.setContentsMargins(theme.em(0.2), 0, theme.em(0.3), 0)
        self._layout.setSpacing(theme.em(0.35))
        for button in (self.workspace, self.palette_button, self.theme_button):
            if glyph := str(button.property("glyph")):
                button.setIcon(icon(theme, glyph))
        self._user.setStyleSheet(f"color: {theme.look.dim}")
        if self._chip is not None:
            self._show_chip(self._chip)

"""The Farm plots dock: utilisation, queue, rates, burn and projects over an hour to a month.

What belongs here: asking for the series and drawing it with pyqtgraph.  What may not: what is drawn
(``client_gui.store.series``), and when to ask (``askagain``).

Points come every ten seconds and are drawn as often; a hidden dock asks and draws nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QButtonGroup,
    QGridLayout,
    QHBoxLayout,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.series import RANGES, series_of
from client_gui.style.lazily import when_seen
from client_gui.views.askagain import AskAgain
from client_gui.views.base import View
from client_gui.views.cards import words
from client_gui.views.plot_panel import Panel
from farm.model.errors import OvercrankError
from farm.protocol.client import SeriesReply, SeriesReq

_EVERY_MS: Final = 10_000
_RANGE: Final = Setting("plots/range", "1 h")


class PlotsView(View):
    """How the farm goes."""

    name = "plots"
    title = "Farm plots"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._reply: SeriesReply | None = None
        self._panels: dict[str, Panel] = {}
        chosen = desk.settings.get(_RANGE)
        self._range = chosen if chosen in RANGES else _RANGE.default
        box = QVBoxLayout(self)
        edge = desk.theme.em(0.4)
        box.setContentsMargins(edge, edge, edge, edge)
        line = QHBoxLayout()
        self._buttons = QButtonGroup(self)
        for word in RANGES:
            button = QToolButton()
            button.setText(word)
            button.setCheckable(True)
            button.setChecked(word == self._range)
            button.setAccessibleName(f"Show the last {word}")
            button.clicked.connect(partial(self._choose, word))
            self._buttons.addButton(button)
            line.addWidget(button)
        line.addStretch(1)
        box.addLayout(line)
        self._said = words("", theme=desk.theme, token="dim")
        box.addWidget(self._said)
        self._area = QScrollArea()
        self._area.setAccessibleName("Plots")
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QScrollArea.Shape.NoFrame)
        self._inner = QWidget()
        self._grid = QGridLayout(self._inner)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(edge)
        self._grid.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._area.setWidget(self._inner)
        box.addWidget(self._area, 1)
        self.again = AskAgain(self, _EVERY_MS, self._ask, self._offline)
        when_seen(desk.theme, self, self._restyle)
        self._say("The farm's figures come in a moment.")

    # -- what is asked --

    def refresh(self) -> None:
        """Asks anew."""
        self.again.soon()

    def _choose(self, word: str) -> None:
        self._range = word
        self.desk.settings.set(_RANGE, word)
        self._draw()

    def _ask(self) -> None:
        self.again.ask(SeriesReq, self._answered, self._failed, reply=SeriesReply)

    def _offline(self) -> None:
        if self._reply is None:
            self._say("The farm cannot be asked just now; its figures come when it is back.")

    def _answered(self, reply: SeriesReply) -> None:
        self._reply = reply
        self._draw()

    def _failed(self, error: OvercrankError) -> None:
        self._say(f"{error.message}\n{error.hint}" if error.hint else error.message)

    def _say(self, text: str) -> None:
        self._said.setText(text)
        self._said.setVisible(bool(text))

    # -- what is drawn --

    def _draw(self) -> None:
        if self._reply is None:
            return
        series = series_of(self._reply, RANGES[self._range])
        short = len(series.at_s) < 2
        self._say("Figures are taken every ten seconds; there are too few to draw yet." if short else "")
        names = [plot.name for plot in series.plots]
        for name in [known for known in self._panels if known not in names]:
            self._panels.pop(name).end()
        for place, plot in enumerate(series.plots):
            panel = self._panels.get(plot.name)
            if panel is None:
                panel = self._panels[plot.name] = Panel(self.desk, self._inner)
            self._grid.addWidget(panel, place // self._columns(), place % self._columns())
            panel.put(series, plot, RANGES[self._range], self._reply.now_us / 1e6)

    def _columns(self) -> int:
        return 2 if self.width() > self.desk.theme.em(50) else 1

    def _restyle(self) -> None:
        for panel in self._panels.values():
            panel.restyle()
        self._draw()

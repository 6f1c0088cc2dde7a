"""Farm plots: what is drawn, said and asked; pyqtgraph draws it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.store.series import in_words, series_of, stacked
from client_gui.views.plot_panel import Legend, Panel
from client_gui.views.plots import PlotsView
from farm.protocol.client import SeriesReply, SeriesReq
from tests.support.gui_rig import NOW_US, Rig


def reply(points: int = 360, id_: int = 1, gpus: float = 0.0) -> SeriesReply:
    """A point every ten seconds up to now; cores in use rise by one each."""
    at_us = tuple(NOW_US - (points - 1 - n) * 10_000_000 for n in range(points))
    flat = (1.0,) * points
    return SeriesReply(
        id=id_,
        now_us=NOW_US,
        at_us=at_us,
        cores=(400.0,) * points,
        cores_used=tuple(float(n) for n in range(points)),
        gpus=(gpus,) * points,
        gpus_used=(0.0,) * points,
        queued=(5000.0,) * points,
        running=flat,
        nodes=(20.0,) * points,
        burn_nano_h=(4.2e9,) * points,
        done_s=(0.5,) * points,
        failed_s=(0.0,) * points,
        projects={"dune": (100.0,) * points, "<b>arrakis</b>": (50.0,) * points, "": flat},
    )


def test_a_range_cuts_what_is_older() -> None:
    told = reply(720)
    assert len(series_of(told, 3600.0).at_s) == 361
    assert len(series_of(told, 86400.0).at_s) == 720
    assert series_of(reply(0), 3600.0).at_s.size == 0


def test_words_say_what_a_plot_shows() -> None:
    plots = {plot.name: plot for plot in series_of(reply(), 7200.0).plots}
    assert in_words(plots["cores"]) == (
        "Cores: in service 400 now, between 400 and 400; in use 359 now, between 0 and 359"
    )
    assert (
        in_words(plots["burn"]) == "USD an hour: cost of the farm 4.20 USD now, between 4.20 USD and 4.20 USD"
    )
    assert in_words(plots["rates"]).startswith("Frames a minute: done 30 now")
    assert "gpus" not in plots, "a farm without GPUs has no plot of them"
    assert "gpus" in {plot.name for plot in series_of(reply(gpus=8.0), 7200.0).plots}
    nothing = {plot.name: plot for plot in series_of(reply(0), 7200.0).plots}
    assert in_words(nothing["cores"]) == "Cores: nothing yet"


def test_projects_stand_on_each_other() -> None:
    curves = next(p for p in series_of(reply(3), 7200.0).plots if p.name == "projects").curves
    assert [curve.name for curve in curves] == ["dune", "<b>arrakis</b>", "(none)"]
    assert [edge.tolist() for edge in stacked(curves)] == [[100.0] * 3, [150.0] * 3, [151.0] * 3]


def test_the_dock_draws_what_the_farm_says_and_a_cursor_reads_it(rig: Rig, qtbot: QtBot) -> None:
    rig.port.answers[SeriesReq] = lambda req: reply(id_=req.id)
    view = PlotsView(rig.desk)
    qtbot.addWidget(view)
    view.resize(900, 600)
    view.show()
    qtbot.waitUntil(lambda: bool(rig.port.asked(SeriesReq)))
    rig.settle()
    panels = {panel.accessibleName(): panel for panel in view.findChildren(Panel)}
    assert set(panels) == {"Cores", "Frames", "Frames a minute", "USD an hour", "Nodes", "Cores by project"}
    cores = panels["Cores"]
    x, y = cores._lines[1].getData()
    assert x.dtype == np.float64
    assert (len(x), y[-1]) == (360, 359.0)
    legend = cores.findChildren(Legend)[0]
    assert legend.accessibleName() == "in service 400, in use 359"
    cores.setFocus()
    qtbot.keyClick(cores, Qt.Key.Key_Home)
    assert legend.accessibleName().endswith("in service 400, in use 0")
    qtbot.keyClick(cores, Qt.Key.Key_Right)
    assert legend.accessibleName().endswith("in use 1")
    qtbot.keyClick(cores, Qt.Key.Key_Escape)
    assert legend.accessibleName() == "in service 400, in use 359"


def test_range_by_keyboard_theme_and_offline(rig: Rig, qtbot: QtBot) -> None:
    rig.port.answers[SeriesReq] = lambda req: reply(720, id_=req.id)
    rig.give(Standing(Link.LOST, "the broker is gone"))
    view = PlotsView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: "cannot be asked just now" in view._said.text())
    rig.give(Standing(Link.LIVE))
    rig.snapshot()
    qtbot.waitUntil(lambda: bool(rig.port.asked(SeriesReq)))
    rig.settle()
    panel = next(p for p in view.findChildren(Panel) if p.accessibleName() == "Cores")
    assert len(panel._lines[1].getData()[0]) == 361
    day = next(b for b in view.findChildren(QAbstractButton) if b.accessibleName() == "Show the last 24 h")
    day.setFocus()
    qtbot.keyClick(day, Qt.Key.Key_Space)
    assert len(panel._lines[1].getData()[0]) == 720
    rig.theme.set_look("light")
    assert len(panel._lines[1].getData()[0]) == 720
    asked = len(rig.port.asked(SeriesReq))
    view.hide()
    view.refresh()
    assert view.again.due_ms is None
    assert len(rig.port.asked(SeriesReq)) == asked, "a hidden dock asks nothing"


def test_titles_can_be_read_in_another_look(rig: Rig, qtbot: QtBot) -> None:
    rig.port.answers[SeriesReq] = lambda req: reply(id_=req.id)
    view = PlotsView(rig.desk)
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(
        lambda: bool(rig.settle()) or any(one.text() == "Cores" for one in view.findChildren(QLabel))
    )
    for look in ("light", "contrast", "dark"):
        rig.theme.set_look(look)
        for label in view.findChildren(QLabel):
            assert label.palette().color(QPalette.ColorRole.WindowText).name() in (
                rig.theme.colour("text").name(),
                rig.theme.colour("dim").name(),
            ), (look, label.text())

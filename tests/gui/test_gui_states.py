"""Every dock in every state of the farm: it says something, in each look and size.

What belongs here: what holds for all docks alike.  What may not: what one of them shows in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QLineEdit,
    QPushButton,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.net.port import Incoming, Standing
from client_gui.store.farmstore import Link
from client_gui.style.dress import Dress, wear
from client_gui.style.theme import ZOOM_MOST
from client_gui.style.tokens import LOOKS
from client_gui.views.base import View
from client_gui.views.registry import DockRecord
from farm.model.errors import Denied
from tests.support.gui_docks import SECOND, at_work, every, look_at, said, shown
from tests.support.gui_rig import Rig, job_row, node_row, step_row


class Unmet(Rig):
    """A rig that has heard of no farm yet."""

    met = False

    def give(self, *messages: Incoming) -> None:
        if self.met:
            super().give(*messages)


class _Refuses(dict[type, Callable[[Any], Any]]):
    """Answers to everything: no."""

    def get(self, kind: type, default: Any = None) -> Any:
        def refuse(_body: Any) -> Any:
            raise Denied("this takes the role wrangler", hint="ask a wrangler")

        return refuse


def _no_farm(rig: Rig) -> None:
    rig.give(Standing(Link.CONNECTING, "no farm is known here", "farm join FARM", "farm-unreachable"))


def _connecting(rig: Rig) -> None:
    rig.give(Standing(Link.CONNECTING))


def _empty(rig: Rig) -> None:
    rig.snapshot()


def _offline(rig: Rig) -> None:
    at_work(rig)
    rig.give(
        Standing(Link.LOST, "no answer from 10.0.0.5:7460", "is the broker up?", "farm-unreachable", 4.0)
    )
    rig.now_us += 60 * SECOND
    rig.client.stood.emit()


def _waiting(rig: Rig) -> None:
    """Actions wait for the farm."""
    _offline(rig)
    rig.actions.run("pause", ActionContext("jobs", jobs=(12,)))
    rig.actions.run("priority-up", ActionContext("jobs", jobs=(12,)))
    assert len(rig.actions.later.waits) == 2


def _refused(rig: Rig) -> None:
    at_work(rig)
    rig.give(Standing(Link.REFUSED, "the broker does not know this key", "ask an administrator", "denied"))


def _denied(rig: Rig) -> None:
    at_work(rig)
    rig.port.answers = _Refuses()


def _newer(rig: Rig) -> None:
    """Words, kinds and numbers that this version has never heard of."""
    look_at(rig)
    rig.settle()
    step = step_row("beauty", kind="hologram", state="dreaming", counts=(0, 50, 10, 37, 0, 0, 0, 3))
    job = job_row(12, name="new\x1b[31m <b>wave</b>", state="pondering", reason="a new one", steps=(step,))
    node = node_row(1, state="levitating", apps=("thing 9",))
    rig.snapshot((job,), (node,), {"J12/beauty": bytes([9] * 50 + [3] * 37 + [2] * 10 + [200] * 3)})


def _many(rig: Rig) -> None:
    look_at(rig)
    rig.settle()
    jobs = tuple(job_row(number, steps=(step_row(),)) for number in range(1, 301))
    nodes = tuple(node_row(number) for number in range(1, 41))
    rig.snapshot(jobs, nodes, {"J12/beauty": bytes([3] * 40 + [2] * 10 + [1] * 50)})


STATES: dict[str, tuple[type[Rig], str, Callable[[Rig], None]]] = {
    "no farm yet": (Unmet, "", _no_farm),
    "connecting": (Unmet, "", _connecting),
    "empty": (Rig, "wrangler", _empty),
    "offline": (Rig, "wrangler", _offline),
    "waiting": (Rig, "wrangler", _waiting),
    "refused": (Rig, "wrangler", _refused),
    "denied": (Rig, "artist", _denied),
    "newer broker": (Rig, "wrangler", _newer),
    "300 jobs": (Rig, "wrangler", _many),
}


class Stage:
    """A dock alone, with the farm in a state."""

    def __init__(self, qtbot: QtBot, app: QApplication, record: DockRecord, state: str) -> None:
        kind, role, feed = STATES[state]
        self.bot = qtbot
        self.rig = kind(role) if role else kind()
        if isinstance(self.rig, Unmet):
            self.rig.met = True
        self._dress = Dress(app, self.rig.theme)
        self.view: View = record.make(self.rig.desk)
        wear(self.view, self.rig.theme)
        qtbot.addWidget(self.view)
        self.view.resize(900, 640)
        self.view.show()
        feed(self.rig)
        # What a view asks for and is answered leads to more: until it says something.
        self.until(lambda: bool(said(self.view)), lambda: f"{record.name} says nothing while {state}")

    def until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        def check() -> None:
            self.rig.settle()
            assert condition(), what()

        self.bot.waitUntil(check)

    def settle(self) -> None:
        for _ in range(3):
            QApplication.processEvents()
            self.rig.settle()

    def close(self) -> None:
        self.view.close()
        self._dress.take_off()
        self.rig.close()


@pytest.fixture
def stage(qtbot: QtBot, qapp: QApplication) -> Iterator[Callable[[DockRecord, str], Stage]]:
    made: list[Stage] = []

    def make(record: DockRecord, state: str) -> Stage:
        made.append(Stage(qtbot, qapp, record, state))
        return made[-1]

    yield make
    for one in made:
        one.close()


def colours(view: QWidget) -> int:
    """How many different pixels there are."""
    image = view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(image.constBits(), np.uint32)
    return len(np.unique(data))


def cut_off(view: QWidget) -> list[str]:
    """Texts of labels and buttons that their place is too small for."""
    found = []
    for label in shown(view, QLabel):
        if label.wordWrap() or not label.text() or label.text().endswith("…") or label.toolTip():
            continue
        wide = max(label.fontMetrics().horizontalAdvance(line) for line in label.text().split("\n"))
        if wide > label.contentsRect().width() + 2 or label.fontMetrics().height() > label.height() + 2:
            found.append(f"label {label.text()!r}: {wide} in {label.size().toTuple()}")
    for button in shown(view, QAbstractButton):
        if not button.text() or not isinstance(button, QPushButton | QToolButton):
            continue
        if isinstance(button.parent(), QLineEdit):
            continue  # a sign in the line: its words are for a reader
        wanted = button.sizeHint()
        if wanted.width() > button.width() + 2 or wanted.height() > button.height() + 2:
            found.append(f"button {button.text()!r}: {wanted.toTuple()} in {button.size().toTuple()}")
    return found


@every()
@pytest.mark.parametrize("state", list(STATES))
def test_no_dock_is_ever_blank(stage: Callable[..., Stage], record: DockRecord, state: str) -> None:
    """In each look and size something can be read, and a warning of Qt or an error in a slot fails this."""
    found = stage(record, state)
    theme = found.rig.theme
    for look in LOOKS:
        theme.set_look(look)
        found.settle()
        assert colours(found.view) > 5, f"{record.name} paints nothing while {state} in {look}"
        assert said(found.view)
    for zoom, size in ((0.8, (900, 640)), (2.0, (1500, 950)), (ZOOM_MOST, (1500, 950))):
        theme.set_zoom(zoom)
        found.view.resize(*size)
        found.settle()
        assert said(found.view)
        assert colours(found.view) > 5
        if zoom < ZOOM_MOST:
            # Margins and small pictures follow the words a moment later.
            found.until(
                lambda: not cut_off(found.view),
                lambda zoom=zoom: f"{record.name} while {state} at {zoom}: {cut_off(found.view)}",
            )

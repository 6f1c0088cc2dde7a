"""The Submit dock for tests: the view, what a person does with it, and what the farm answers.

What belongs here: keys, files and answers, and what is seen.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overcrank_povray import RENDERER as POVRAY
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QWidget
from pytestqt.qtbot import QtBot

from client_gui.store.draft import Draft
from client_gui.views.submit import SubmitView
from farm.protocol.client import EstimateReply, EstimateReq, SubmitReply, SubmitReq
from farm.renderers.registry import renderers
from tests.support.gui_rig import Rig

#: The renderers of this installation, and one of another package.
ALL = {**renderers(), "povray": POVRAY}


def known(request: EstimateReq) -> EstimateReply:
    """An estimate of a job whose like was rendered before."""
    return EstimateReply(
        id=request.id,
        frames=10,
        low_s=60.0,
        high_s=125.0,
        cost_low_nano=1_200_000_000,
        cost_high_nano=2_000_000_000,
    )


class Dock:
    """The view, and what a person does with it."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig, self.bot = rig, qtbot
        self.wanted: list[str] = []
        rig.focus.wanted.connect(self.wanted.append)
        rig.port.answers.setdefault(EstimateReq, known)
        self.view = SubmitView(rig.desk)
        self.view.resize(560, 800)
        with qtbot.waitExposed(self.view):
            self.view.show()
            self.view.activateWindow()
        self.until(lambda: self.view.bar.new.isEnabled() and self.view.outbox.loaded)

    def until(self, true: Callable[[], object]) -> None:
        def settled() -> bool:
            self.rig.settle()
            return bool(true())

        self.bot.waitUntil(settled)

    def close(self) -> None:
        self.view.outbox.end()
        self.view._tasks.end()
        self.view._scenes.reader.end()
        self.view.close()
        self.view.deleteLater()

    # -- by keyboard --

    def has_keys(self) -> QWidget:
        if QApplication.focusWidget() is None:  # a menu has closed: without a desktop nobody gives them back
            self.view.activateWindow()
            self.bot.waitUntil(lambda: QApplication.focusWidget() is not None)
        found = QApplication.focusWidget()
        assert found is not None
        return found

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        self.bot.keyClick(self.has_keys(), key, modifier)

    def type(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self.press(Qt.Key.Key_Return)
            else:
                self.bot.keyClicks(self.has_keys(), char)

    def tab_to(self, name: str) -> None:
        seen = []
        for _ in range(120):
            now = self.has_keys()
            if now.accessibleName() == name:
                return
            seen.append(now.accessibleName() or type(now).__name__)
            self.press(Qt.Key.Key_Tab)
        raise AssertionError(f"Tab never comes to {name!r}: {seen}")

    def begin(self, renderer: str) -> None:
        self.view.bar.new.setFocus()
        self.press(Qt.Key.Key_Space)
        menu = next(one for one in self.view.findChildren(QMenu) if one.isVisible())
        for _ in range(20):
            active = menu.activeAction()
            if active is not None and active.data() == renderer:
                break
            self.bot.keyClick(menu, Qt.Key.Key_Down)
        self.bot.keyClick(menu, Qt.Key.Key_Return)
        self.until(lambda: self.view.form() is not None)

    def fill(self, name: str, text: str) -> None:
        self.tab_to(name)
        self.press(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        self.type(text)

    def send(self) -> None:
        self.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)

    # -- what is seen --

    @property
    def standing(self) -> str:
        return self.view.footer.standing.text()

    @property
    def ready(self) -> bool:
        return self.view.footer.submit.isEnabled() and self.view._trial.ready

    def draft(self) -> Draft:
        found = self.view.draft()
        assert found is not None
        return found

    def open(self, *paths: Path) -> None:
        before = self.view.tabs.count()
        self.view.open_paths([str(path) for path in paths])
        self.until(lambda: self.view.tabs.count() > before)

    def beside(self, path: str) -> str:
        """What is said below a field."""
        form = self.view.form()
        assert form is not None
        row = next(row for place, row in form.rows.items() if ".".join(map(str, place)) == path)
        return row.wrong.text() if row.wrong.isVisibleTo(form) else ""

    def words(self) -> str:
        return "\n".join(label.text() for label in self.view.findChildren(QLabel) if label.isVisible())


def taken(job: int = 12, **more: Any) -> Callable[[SubmitReq], SubmitReply]:
    """A farm that takes every job."""
    return lambda request: SubmitReply(id=request.id, job=job, **more)


def sent(rig: Rig) -> list[dict[str, Any]]:
    """Jobs that were submitted, as the farm reads them."""
    return [json.loads(request.job) for request in rig.port.asked(SubmitReq)]


def command_file(path: Path, **fields: Any) -> Path:
    """A job of one step that runs a command for ten frames."""
    step = {
        "name": "make",
        "renderer": "command",
        "frames": "1-10",
        "params": {"command": ["/bin/echo", "{frame}"]},
    }
    path.write_text(json.dumps({"overcrank_job": 1, "name": "made", "steps": [step], **fields}))
    return path

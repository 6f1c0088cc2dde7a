"""A real window of the client without a screen, and what it is measured with.

What belongs here: opening the window, waiting, when something was drawn, how long its thread was away.  What
may not: what is measured (``gui_window``).

``drawn`` is when the widget's paint event has returned: the window is drawn into memory, as it is without a
graphics card; what a compositor takes after that is not in any figure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from common import percentile
from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget

from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Settings
from client_gui.shell.program import make_app, make_theme
from client_gui.shell.windows import Windows
from client_gui.style.dress import Dress

#: How long anything may take that should take a moment.
PATIENCE_S = 600.0
PAGE_MS = 16


class Drawn(QObject):
    """Notes when a widget was drawn."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        self.last_s = 0.0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Draws it, and takes the time after that."""
        if event.type() is QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QCoreApplication.sendEvent(watched, event)
            watched.installEventFilter(self)
            self.count += 1
            self.last_s = time.monotonic()
            return True
        return False


class Gaps:
    """How long the window's thread does not come round: a timer of a millisecond that looks at the clock."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._last_s = 0.0
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(1)
        self._timer.timeout.connect(self._tick)

    def _tick(self) -> None:
        now_s = time.perf_counter()
        self.ms.append((now_s - self._last_s) * 1e3)
        self._last_s = now_s

    def start(self) -> None:
        """Begins anew."""
        self.ms = []
        self._last_s = time.perf_counter()
        self._timer.start()

    def end(self) -> dict[str, float]:
        """Ends; what was seen, milliseconds.  The timer's own millisecond is in it."""
        self._timer.stop()
        found = self.ms or [0.0]
        return {"p50": percentile(found, 0.5), "p99": percentile(found, 0.99), "max": max(found)}


def live(seconds: float) -> None:
    """Lets the window live."""
    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1e3), loop.quit)
    loop.exec()


def until(holds: Callable[[], bool], what: str) -> None:
    """Lets the window live until something holds."""
    ends_s = time.monotonic() + PATIENCE_S
    loop = QEventLoop()
    look = QTimer()
    look.setInterval(1)
    look.timeout.connect(lambda: loop.quit() if holds() or time.monotonic() > ends_s else None)
    look.start()
    if not holds():
        loop.exec()
    look.stop()
    if not holds():
        raise SystemExit(f"waited {PATIENCE_S:g} s for {what}")


class Window:
    """The real client with one window."""

    def __init__(self, port: Any, farm: str | None = None) -> None:
        self.app = make_app()
        self.app.setQuitOnLastWindowClosed(False)
        settings = Settings(None)
        theme = make_theme(settings, "dark")
        Dress(self.app, theme)
        self.client = FarmClient(port)
        self.windows = Windows(self.client, Notices(self.client.now_us), settings, theme)
        self.window = self.windows.restore(safe=True)
        self.window.resize(1600, 1000)
        self.client.start(farm)

    def view(self, dock: str) -> Any:
        """The view of a dock."""
        return self.window.room.docks[dock].view

    def end(self) -> None:
        """Ends it."""
        self.windows.quit()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        self.client.stop()


def rows_there(window: Window, jobs: int) -> None:
    """Waits until the list has all jobs."""
    model = window.view("jobs").model
    until(lambda: model.rowCount() >= jobs and not window.client.feeding, f"{jobs} jobs in the list")

"""What holds for tests of windows: no screen, no warnings of Qt, nothing of a window left behind.

A test fails when it leaves a window, a running ``QThread``, or a ``QTimer`` without a parent that ticks.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.support.gui_rig import Rig


@pytest.fixture(autouse=True)
def _nothing_left(qapp: QApplication) -> Iterator[None]:
    before = set(map(id, qapp.topLevelWidgets()))
    yield
    for widget in qapp.topLevelWidgets():
        if id(widget) not in before and widget.parent() is None and not widget.isVisible():
            widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    left = [w for w in qapp.topLevelWidgets() if id(w) not in before and w.isVisible()]
    assert not left, f"windows are still open: {left}"
    kept = gc.get_objects()
    threads = [one for one in kept if type(one) is not type and isinstance(one, QThread) and _runs(one)]
    assert not threads, f"threads still run: {threads}"
    timers = [one for one in kept if type(one) is QTimer and _ticks(one)]
    assert not timers, f"timers still tick: {timers}"


def _runs(thread: QThread) -> bool:
    try:
        return thread.isRunning() and thread is not QThread.currentThread()
    except RuntimeError:  # its C++ half is gone
        return False


def _ticks(timer: QTimer) -> bool:
    try:
        return timer.isActive() and timer.parent() is None
    except RuntimeError:
        return False


@pytest.fixture
def rig(qapp: QApplication, qtbot: QtBot) -> Iterator[Rig]:
    """A desk on a fake port."""
    found = Rig()
    yield found
    found.close()

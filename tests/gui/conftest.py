"""What holds for tests of windows: no screen, no warnings of Qt, nothing of a window left behind.

A test fails when it leaves a window, a running ``QThread``, or a ``QTimer`` without a parent that ticks.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.views.job import JobView
from client_gui.views.jobs import JobsView
from tests.support.gui_job import JobOf, StepOf, states_of
from tests.support.gui_job_dock import SPEC
from tests.support.gui_jobs import jobs
from tests.support.gui_log_bench import Bench, spools
from tests.support.gui_net import Stand
from tests.support.gui_rig import Rig
from tests.support.gui_shell import Shell
from tests.support.gui_stage import Stage
from tests.support.gui_submit import Dock
from tests.support.gui_welcome import Page


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


# -- what several files about the same part of the window stand on; others have fixtures of these names of
# their own


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    """A window with a list that has the focus, for actions."""
    found = Stage()
    qtbot.addWidget(found)
    with qtbot.waitActive(found):
        found.show()
    found.list.setFocus()
    return found


@pytest.fixture
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the test's own, and no farm that is meant by the environment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)


@pytest.fixture
def dock(rig: Rig, qtbot: QtBot) -> Iterator[Dock]:
    """The Submit dock."""
    made = Dock(rig, qtbot)
    yield made
    made.close()


@pytest.fixture
def stand() -> Stand:
    """A line to a farm, turned by hand."""
    return Stand()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without farms: settings and state of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    return tmp_path


@pytest.fixture
def page(rig: Rig, qtbot: QtBot) -> Iterator[Page]:
    """The welcome page of a window that has no farm."""
    rig.client.welcome, rig.client.farm, rig.client.place = None, "", ""
    rig.give(Standing(Link.CONNECTING))
    made = Page(rig, qtbot)
    # The folders of this machine are read by a thread: wait, so that no test is overtaken by it.
    with qtbot.waitSignal(made.discovery.changed):
        made.discovery.refresh()
    yield made
    made.view.hide()


@pytest.fixture
def bench(
    rig: Rig, qtbot: QtBot, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """A Log dock, whose files of logs are gone when it is."""
    # Tests of other processes leave theirs in the machine's folder meanwhile.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("spools")))
    found = Bench(rig, qtbot)
    yield found
    found.close()
    qtbot.waitUntil(lambda: not spools())


@pytest.fixture
def make(rig: Rig, qtbot: QtBot) -> Callable[..., JobsView]:
    """Makes a list of jobs: of the usual six, of other rows, or of none yet."""

    def made(rows: tuple[Any, ...] | None = None, *, feed: bool = True) -> JobsView:
        view = JobsView(rig.desk)
        qtbot.addWidget(view)
        view.resize(1100, 500)
        view.show()
        if feed:
            rig.snapshot(jobs() if rows is None else rows)
        return view

    return made


@pytest.fixture
def job(rig: Rig) -> JobOf:
    """J12: a step that is done, one that is under way, and one that waits for it."""
    found = JobOf(
        rig,
        {
            "sim": StepOf(states_of(1, done=1)),
            "beauty": StepOf(states_of(100, done=40, running=5, failed=3)),
            "comp": StepOf(states_of(100, blocked=100)),
        },
        name="sh0420_fx_v018",
        priority=60,
        spend_nano=1_250_000_000,
        waste_nano=50_000_000,
        cost_low_nano=2_800_000_000,
        cost_high_nano=3_400_000_000,
    )
    found.spec = SPEC
    return found


@pytest.fixture
def view(rig: Rig, job: JobOf, qtbot: QtBot) -> Iterator[JobView]:
    """The dock of that job."""
    rig.focus.set_job(12)
    found = JobView(rig.desk)
    qtbot.addWidget(found)
    found.resize(1000, 900)
    with qtbot.waitExposed(found):
        found.show()
    job.show()
    rig.settle()
    yield found
    found.hide()
    rig.settle()


@pytest.fixture
def shell(rig: Rig, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Shell(rig, qtbot)
    yield found
    found.close()

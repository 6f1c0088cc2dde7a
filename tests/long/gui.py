"""The desktop client on a busy farm, used all the time, as long as one likes: figures, and ``ok`` or why not.

A simulated farm is served at high speed by a process of its own; the client is the real one, its window drawn
without a screen.  A script with a seed scrolls, sorts, filters, opens jobs, reads logs, changes docks,
workspaces, looks and sizes.  What an hour must not bring: an exception, a warning of Qt, a lost selection, or
objects, threads and memory that grow after the first third.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

#: How often the script does something, and figures are taken, milliseconds.
EVERY_MS, SAMPLE_MS = 120, 1000
#: What may be added after the first third: MiB, and parts of what there was.
RSS_MIB, PART = 48.0, 0.15
#: Parts of ``QMainWindow`` that it makes anew whenever all docks are placed, and never gives back (Qt 6.11):
#: four small hidden ones each time the workspace changes.
_OF_QT = "qt_qmainwindow_extended_splitter"
#: Said by the plugin for machines without a screen.
_HARMLESS = ("This plugin does not support", "systemTrayWindowChanged")

SCENARIO = """
name = "soak"
seed = {seed}
end_s = 8640000

[[nodes]]
name = "rack"
count = 60
cores = 16
ram_mib = 65536
rate_usd_h = 0.50
speed = [0.7, 1.3]

[[nodes]]
name = "gpu"
count = 12
cores = 32
gpus = 2
vram_mib = 24576
rate_usd_h = 2.50
pool = "gpu"
site = "cloud"

[[jobs]]
name = "first"
count = {jobs}
user = ["ann", "bob", "eve"]
project = ["feature", "series"]

[[jobs.steps]]
name = "beauty"
frames = 20
frame_s = 60

[[jobs.steps]]
name = "comp"
frames = 20
frame_s = 8
after = ["beauty"]

[[jobs]]
name = "shot"
count = {arriving}
every_s = 100
poisson = true
user = ["ann", "bob", "eve"]
project = ["feature", "series"]

[[jobs.steps]]
name = "beauty"
frames = 60
frame_s = {{ kind = "lognormal", mean = 60, sigma = 0.4 }}
startup_s = 5
resources = {{ cores = 8, ram_mib = 16384 }}
pictures = true

[[jobs.steps]]
name = "comp"
frames = 60
frame_s = 8
after = ["beauty"]

[faults]
frame_failure = 0.03
"""


class Sample(NamedTuple):
    """What there is at a moment; memory without the pictures that are kept, which has a bound of its own."""

    rss_mib: float
    threads: int
    widgets: int
    objects: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long gui``."""
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--speed", type=float, default=40.0, help="virtual seconds a second (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="seed of farm and script (default 1)")
    parser.add_argument(
        "--jobs", type=int, default=100, help="jobs there are at once to begin with (default 100)"
    )


def run(args: argparse.Namespace) -> int:
    """Runs it; returns an exit code."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from client_gui.screens.served import ServedFarm

    with tempfile.TemporaryDirectory(prefix="overcrank-soak-") as folder:
        home = Path(folder)
        scenario = home / "soak.toml"
        arriving = int(args.minutes * 60 * args.speed / 100) + 10
        scenario.write_text(
            SCENARIO.format(seed=args.seed, jobs=args.jobs, arriving=arriving), encoding="utf-8"
        )
        with ServedFarm(scenario, home, args.speed) as farm, farm.at_home():
            wrong = Soak(farm.name, args).run()
    for one in wrong[:20]:
        print(f"VIOLATION seed={args.seed} {one}")
    print("ok" if not wrong else f"{len(wrong)} things are wrong")
    return int(bool(wrong))


class Soak:
    """The client, its script and its figures."""

    def __init__(self, farm: str, args: argparse.Namespace) -> None:
        from PySide6.QtCore import QTimer, qInstallMessageHandler

        from client_gui.net.client import FarmClient
        from client_gui.net.thread import SocketsThread
        from client_gui.notices import Notices
        from client_gui.settings import Settings
        from client_gui.shell.program import make_app
        from client_gui.shell.windows import Windows
        from client_gui.style.dress import Dress
        from client_gui.style.theme import Theme

        self._ends_s = args.minutes * 60
        self._random = random.Random(args.seed)
        self._wrong: list[str] = []
        self._did: Counter[str] = Counter()
        self._gaps_ms: list[float] = []
        self._samples: list[Sample] = []
        self._kinds: Counter[str] = Counter()
        self._last_kinds: Counter[str] = Counter()
        self._changes = self._rows = 0
        self._chosen: tuple[int, ...] = ()
        self._process = psutil.Process()
        sys.excepthook = lambda kind, error, trace: self._note(f"{kind.__name__}: {error} {_where(trace)}")
        sys.unraisablehook = lambda found: self._note(f"unraisable {found.exc_value!r} in {found.object!r}")
        threading.excepthook = lambda found: self._note(f"{found.exc_value!r} in a thread")
        qInstallMessageHandler(self._qt_says)
        self._app = make_app()
        self._theme = Theme("dark")
        Dress(self._app, self._theme)
        self._client = FarmClient(SocketsThread())
        self._threads_before = self._process.num_threads()
        notices = Notices(self._client.now_us)
        self._windows = Windows(self._client, notices, Settings(), self._theme)
        self._window: Any = self._windows.restore()
        self._window.resize(1500, 950)
        self._client.changed.connect(self._changed)
        self._client.start(farm)
        self._beat_s = self._started_s = time.perf_counter()
        self._timers = []
        for every_ms, do in ((0, self._beat), (EVERY_MS, self._step), (SAMPLE_MS, self._sample)):
            timer = QTimer()
            timer.setInterval(every_ms)
            timer.timeout.connect(do)
            timer.start()
            self._timers.append(timer)

    def run(self) -> list[str]:
        """Runs to the end; returns what went wrong."""
        self._app.exec()
        for timer in self._timers:
            timer.stop()
        self._windows.quit()
        self._app.processEvents()
        if not self._client.stop():
            self._note("the sockets' thread did not end")
        self._judge()
        self._report()
        return self._wrong

    # -- what is watched --

    def _note(self, text: str) -> None:
        if len(self._wrong) < 100 and text not in self._wrong:
            self._wrong.append(text)
            print(f"{time.perf_counter() - self._started_s:7.1f} s  {text}", flush=True)

    def _qt_says(self, kind: Any, _context: Any, text: str) -> None:
        if "Debug" not in str(kind) and "Info" not in str(kind) and not text.startswith(_HARMLESS):
            self._note(f"Qt: {text}")

    def _changed(self, change: Any) -> None:
        self._changes += 1
        self._rows += len(change.jobs.changed) + len(change.nodes.changed)

    def _beat(self) -> None:
        # A timer of 0 ms is due with every turn of the loop: between two of them the window did not answer.
        now_s = time.perf_counter()
        self._gaps_ms.append((now_s - self._beat_s) * 1000)
        self._beat_s = now_s
        self._timers[0].setInterval(2)

    def _sample(self) -> None:
        done_s = time.perf_counter() - self._started_s
        if done_s > self._ends_s:
            self._last_kinds = self._widgets()
            self._app.quit()
            return
        gc.collect()
        self._samples.append(
            Sample(
                (self._process.memory_info().rss - self._pictures()) / 2**20,
                self._process.num_threads(),
                sum(one.objectName() != _OF_QT for one in self._app.allWidgets()),
                len(gc.get_objects()),
            )
        )
        if done_s > self._ends_s / 3 and not self._kinds:
            self._kinds = self._widgets()
        self._beat_s = time.perf_counter()  # this was ours, not the client's
        if len(self._samples) % 30 == 0:
            last = self._samples[-1]
            print(
                f"{done_s:7.1f} s  {last.rss_mib:.0f} MiB, {last.threads} threads, {last.widgets} widgets,"
                f" {last.objects} objects, {len(self._client.store.jobs)} jobs",
                flush=True,
            )

    def _pictures(self) -> int:
        dock = self._window.room.docks["preview"]
        return int(dock.view.loader.kept_bytes) if dock.made else 0

    def _widgets(self) -> Counter[str]:
        return Counter(f"{type(one).__name__} {one.objectName()}".strip() for one in self._app.allWidgets())

    def _judge(self) -> None:
        if not self._changes:
            self._note("nothing was heard of the farm")
        if len(self._samples) < 30:
            self._note("too short a run to tell what grows")
            return
        third = len(self._samples) // 3
        early, late = self._samples[third : third + third // 2], self._samples[-third // 2 :]
        jobs = len(self._client.store.jobs)
        for name, slack in (
            ("rss_mib", RSS_MIB),
            ("threads", 2),
            ("widgets", 150),
            ("objects", 4000 + 60 * jobs),
        ):
            before = median(getattr(one, name) for one in early)
            after = median(getattr(one, name) for one in late)
            if after > before + slack + PART * before * (name == "rss_mib"):
                self._note(f"{name} grew from {before:.0f} to {after:.0f}")

    def _report(self) -> None:
        took_s = time.perf_counter() - self._started_s
        gaps = sorted(self._gaps_ms)
        p99 = gaps[int(len(gaps) * 0.99)] if gaps else 0.0
        print("did: " + ", ".join(f"{what} {count}" for what, count in sorted(self._did.items())))
        print(f"heard: {self._changes} changes of {self._rows} rows, {self._rows / took_s:.0f} rows/s")
        print(f"event loop: p99 gap {p99:.1f} ms, largest {gaps[-1]:.0f} ms, {len(gaps)} turns")
        if self._samples:
            third = self._samples[len(self._samples) // 3]
            last = self._samples[-1]
            print(
                f"from a third on: {third.rss_mib:.0f} -> {last.rss_mib:.0f} MiB, {third.threads} ->"
                f" {last.threads} threads, {third.widgets} -> {last.widgets} widgets,"
                f" {third.objects} -> {last.objects} objects"
            )
            more = self._last_kinds - self._kinds
            print("widgets more than at a third: " + ", ".join(f"{k} {n}" for k, n in more.most_common(12)))
        print(f"{took_s / 60:.1f} minutes, {len(self._client.store.jobs)} jobs")

    # -- the script --

    def _step(self) -> None:
        """Does one of many things, as people do; before that, what was selected must still be."""
        self._check_selection()
        acts = (
            (self._scroll, 8),
            (self._sort, 3),
            (self._filter, 3),
            (self._open_job, 6),
            (self._open_frame, 5),
            (self._change_dock, 4),
            (self._change_tab, 3),
            (self._change_workspace, 1),
            (self._look, 1),
            (self._menu, 1),
        )
        act = self._random.choices([one for one, _ in acts], [weight for _, weight in acts])[0]
        self._did[act.__name__.strip("_").replace("_", " ")] += 1
        act()

    def _jobs_view(self) -> Any:
        return self._window.room.docks["jobs"].view

    def _check_selection(self) -> None:
        view = self._jobs_view()
        if not (self._chosen and view.on):
            return
        jobs = self._client.store.jobs
        there = {job for job in self._chosen if jobs.slot(job) >= 0}
        context = view.action_context()
        kept = set(context.jobs)
        if there and kept != there:
            self._note(f"selected {sorted(there)} became {sorted(kept)}")
            self._chosen = ()

    def _select(self, jobs: tuple[int, ...]) -> None:
        view = self._jobs_view()
        if not view.on:
            return
        view.table.select_ids(jobs)
        self._chosen = tuple(view.action_context().jobs)

    def _scroll(self) -> None:
        from PySide6.QtWidgets import QAbstractScrollArea

        areas = [one for one in self._window.findChildren(QAbstractScrollArea) if one.isVisible()]
        if areas:
            bar = self._random.choice(areas).verticalScrollBar()
            bar.setValue(self._random.randint(bar.minimum(), bar.maximum()))

    def _sort(self) -> None:
        from PySide6.QtCore import Qt

        table = self._jobs_view().table
        order = self._random.choice((Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder))
        table.sortByColumn(self._random.randrange(table.model().columnCount()), order)

    def _filter(self) -> None:
        text = self._random.choice(("", "", "state:running", "shot user:ann", "-bob", "failed>0", "state:("))
        self._chosen = ()
        self._jobs_view().bar.set_text(text)

    def _some_job(self) -> int:
        jobs = [one for one in self._client.store.jobs.ids if one is not None]
        return self._random.choice(jobs) if jobs else 0

    def _open_job(self) -> None:
        job = self._some_job()
        if job:
            self._select(tuple({job, self._some_job()}))
            self._window.desk.focus.set_job(job)

    def _open_frame(self) -> None:
        focus = self._window.desk.focus
        if focus.job:
            focus.set_unit(self._random.choice(("beauty", "comp")), self._random.randrange(60))

    def _change_dock(self) -> None:
        self._window.show_dock(self._random.choice(list(self._window.room.docks)))

    def _change_tab(self) -> None:
        from PySide6.QtWidgets import QTabWidget

        tabs = [one for one in self._window.findChildren(QTabWidget) if one.isVisible()]
        if tabs:
            one = self._random.choice(tabs)
            one.setCurrentIndex(self._random.randrange(max(1, one.count())))

    def _change_workspace(self) -> None:
        self._window.change_workspace(self._random.choice(self._window.workspaces()))

    def _look(self) -> None:
        if self._random.random() < 0.5:
            self._theme.set_look(self._random.choice(("dark", "light", "contrast")))
        else:
            self._theme.set_zoom(self._random.choice((0.8, 1.0, 1.0, 1.5)))

    def _menu(self) -> None:
        book = self._window.desk.actions
        book.open_palette()
        book.menu(self._jobs_view().action_context(), self._jobs_view()).deleteLater()
        self._close_sheets()

    def _close_sheets(self) -> None:
        from client_gui.actions.sheet import Sheet

        for sheet in self._window.findChildren(Sheet):
            sheet.close_with(False)


def _where(trace: Any) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""

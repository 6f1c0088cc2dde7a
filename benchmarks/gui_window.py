"""One part of ``gui.py`` in a process of its own: a real window without a screen, measured from inside.

    python benchmarks/gui_window.py PART JSON

What belongs here: what is done with the window; each part prints its figures as one line of JSON.  What may
not: limits and tables (``gui.py``), and the probes (``gui_probe``).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from common import cpu_us, memory_mib
from gui_probe import PAGE_MS, Drawn, Gaps, Window, live, rows_there, until
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import QApplication, QTreeWidget, QTreeWidgetItem, QWidget

from client_gui.net.decoding import GentleCodec
from client_gui.net.thread import SocketsThread

# -- parts --


def start(order: dict[str, Any]) -> dict[str, Any]:
    """A real farm: when the list is first drawn with rows, and when it has all of them."""
    window = Window(SocketsThread(), order["farm"])
    jobs = window.view("jobs")
    drawn = Drawn(jobs.table.viewport())
    first_s = 0.0
    while not first_s:
        before = drawn.count
        until(lambda before=before: drawn.count > before, "a drawing")
        first_s = drawn.last_s if jobs.model.rowCount() else 0.0
    until(lambda: jobs.model.rowCount() >= order["jobs"] and not window.client.feeding, "all jobs")
    before = drawn.count
    jobs.table.viewport().update()
    until(lambda: drawn.count > before, "a drawing")
    found = {"first_s": first_s, "all_s": drawn.last_s}
    window.end()
    return found


def open_jobs(order: dict[str, Any]) -> dict[str, Any]:
    """A real farm: from choosing a job to its grid and its table drawn."""
    window = Window(SocketsThread(), order["farm"])
    rows_there(window, 1)
    live(1.0)
    found: dict[str, Any] = {}
    view = window.view("job")
    grid, table = Drawn(view.frames.grid.viewport()), Drawn(view.frames.table.viewport())
    for name, (one, other) in order["pairs"].items():
        times_ms, paints_ms = [], []
        for turn in range(order["rounds"]):
            opening = Opening(window, (one, other)[turn % 2], order["units"][name])
            times_ms.append(opening.took_ms(grid, table))
            begun_s = time.perf_counter()
            view.frames.grid.viewport().repaint()
            paints_ms.append((time.perf_counter() - begun_s) * 1e3)
            live(0.1)
        found[name] = {"times_ms": times_ms, "paints_ms": paints_ms}
    window.end()
    return found


class Opening:
    """Choosing a job, until all of its frames are on the screen."""

    def __init__(self, window: Window, job: int, units: int) -> None:
        self._window = window
        self._job = job
        self._units = units
        self._address = f"J{job}/work"
        self._came_s = 0.0

    def took_ms(self, grid: Drawn, table: Drawn) -> float:
        """Chooses it, and waits until grid and table were drawn with its frames."""
        window = self._window
        view, store = window.view("job"), window.client.store
        begun_s = time.monotonic()
        window.client.changed.connect(self._came)
        window.window.desk.focus.set_job(self._job)
        until(
            lambda: (
                len(store.maps.get(self._address, b"")) == self._units
                and view.frames.model.rowCount() == self._units
                and min(grid.last_s, table.last_s) > self._came_s > begun_s
            ),
            f"J{self._job} on the screen",
        )
        window.client.changed.disconnect(self._came)
        return (max(grid.last_s, table.last_s) - begun_s) * 1e3

    def _came(self, change: Any) -> None:
        if self._address in change.maps and not self._came_s:
            self._came_s = time.monotonic()


def listing(order: dict[str, Any]) -> dict[str, Any]:
    """A made-up farm: filling, filtering, sorting, changing and scrolling a list; memory and idle CPU."""
    from gui_feed import FeedPort

    jobs, frames = order["jobs"], tuple(order["frames"])
    app_mib = memory_mib(os.getpid())[0]
    port = FeedPort(0, big=frames)
    window = Window(port)
    until(lambda: window.client.live and not window.client.feeding, "a session")
    live(1.0)
    view, drawn = window.view("jobs"), Drawn(window.view("jobs").table.viewport())
    port.jobs = jobs
    begun_s = time.monotonic()
    window.client.resync()
    rows_there(window, jobs)
    count = drawn.count
    view.table.viewport().update()
    until(lambda: drawn.count > count, "the list drawn")
    found: dict[str, Any] = {"fill_s": time.monotonic() - begun_s, "base_mib": app_mib}
    live(2.0)  # gets ready to sort by names, as it does when nobody looks
    found |= _filters(view) | _sorts(view) | _changes(window, port)
    gc.collect()
    found["list_mib"] = memory_mib(os.getpid())[0]
    if order["opened"]:
        for place in range(len(frames)):
            window.window.desk.focus.set_job(place + 1)
            until(lambda place=place: f"J{place + 1}/beauty" in window.client.store.maps, "frames")
            live(1.0)
        found["opened_mib"] = memory_mib(os.getpid())[0]
    found["streams"] = {}
    for rows_s in order["streams"]:
        found["streams"][str(rows_s)] = _stream(window, port, rows_s, order["stream_s"])
    found["resize_fps"] = _resize(view, order["stream_s"] / 4)
    live(1.0)
    found["peak_mib"] = memory_mib(os.getpid())[0]
    cpu, begun_s = cpu_us(os.getpid()), time.monotonic()
    live(order["idle_s"])
    found["idle_percent"] = (cpu_us(os.getpid()) - cpu) / (time.monotonic() - begun_s) / 1e4
    window.end()
    return found


def _timed(times_ms: list[float], table: Any, what: Callable[[], None]) -> None:
    begun_s = time.perf_counter()
    what()
    table.viewport().repaint()
    times_ms.append((time.perf_counter() - begun_s) * 1e3)
    live(0.02)


def _filters(view: Any) -> dict[str, Any]:
    """Filters as they are typed, letter by letter, and taken away again."""
    times_ms: list[float] = []
    for text in ("lgt_v01", "state:running", "sh0123", "user:ana state:failed,queued", "-fx progress<50"):
        for size in range(1, len(text) + 1):
            if text[size - 1] not in ":<":
                _timed(times_ms, view.table, lambda typed=text[:size]: view.bar.set_text(typed))
        _timed(times_ms, view.table, lambda: view.bar.set_text(""))
    return {"filter_ms": times_ms}


def _sorts(view: Any) -> dict[str, Any]:
    """Sorting by columns of all kinds, both ways; the first time by each is told apart."""
    first_ms: list[float] = []
    times_ms: list[float] = []
    columns = ("name", "state", "progress", "priority", "user", "spend_nano", "submitted_us", "failed")
    for turn in range(4):
        for column in columns:
            _timed(
                times_ms if turn else first_ms,
                view.table,
                lambda column=column, turn=turn: view.model.set_sort(((column, bool(turn % 2)),)),
            )
    view.model.set_sort((("submitted", True),))
    return {"sort_ms": times_ms, "first_sort_ms": first_ms}


def _changes(window: Window, port: Any) -> dict[str, Any]:
    """10,000 changed rows: taken into the store, then into the list and drawn."""
    view = window.view("jobs")
    store_ms: list[float] = []
    shown_ms: list[float] = []
    codec, store = GentleCodec(), window.client.store
    for message in port.deltas(10_000, 6):
        delta = codec.decode(message)
        live(0.05)
        begun_s = time.perf_counter()
        change = store.delta(msgspec.structs.replace(delta, n=store.n + 1), window.client.now_us())
        port._n = store.n
        store_ms.append((time.perf_counter() - begun_s) * 1e3)
        begun_s = time.perf_counter()
        window.client.changed.emit(change)
        view.table.viewport().repaint()
        shown_ms.append((time.perf_counter() - begun_s) * 1e3)
    return {"store_ms": store_ms, "change_ms": shown_ms}


def _stream(window: Window, port: Any, rows_s: int, seconds: float) -> dict[str, Any]:
    """Changes at a rate, while somebody scrolls."""
    view = window.view("jobs")
    bar, drawn, gaps = view.table.verticalScrollBar(), Drawn(view.table.viewport()), Gaps()
    down = [7]

    def scroll() -> None:
        if not 0 < bar.value() + down[0] < bar.maximum():
            down[0] = -down[0]
        bar.setValue(bar.value() + down[0])

    pages = QTimer()
    pages.setTimerType(Qt.TimerType.PreciseTimer)
    pages.setInterval(PAGE_MS)
    pages.timeout.connect(scroll)
    bar.setValue(bar.maximum() // 3)
    live(0.5)
    stream = port.stream(rows_s)
    live(0.5)
    count, begun_s = drawn.count, time.monotonic()
    pages.start()
    gaps.start()
    live(seconds)
    found: dict[str, Any] = gaps.end()
    pages.stop()
    took_s = time.monotonic() - begun_s
    found["fps"] = (drawn.count - count) / took_s
    found["rows_s"] = stream.end() / (took_s + 0.5)
    until(lambda: not window.client.feeding, "the last change")
    return found


def _resize(view: Any, seconds: float) -> float:
    """Drawings a second while somebody drags the edge of a column."""
    head, drawn, turn = view.table.horizontalHeader(), Drawn(view.table.viewport()), [0]

    def drag() -> None:
        turn[0] += 1
        head.resizeSection(1, 200 + abs(turn[0] % 80 - 40))

    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(PAGE_MS)
    timer.timeout.connect(drag)
    count, begun_s = drawn.count, time.monotonic()
    timer.start()
    live(seconds)
    timer.stop()
    return (drawn.count - count) / (time.monotonic() - begun_s)


def log(order: dict[str, Any]) -> dict[str, Any]:
    """A log of any size: its first screen, all of it, and every place where something stands."""
    from gui_feed import FeedPort

    from client_gui.views.log_parts.finder import Finder

    window = Window(FeedPort(3, big=(100,), log=Path(order["path"])))
    rows_there(window, 3)
    focus, view = window.window.desk.focus, window.view("log")
    focus.set_job(1)
    until(lambda: "J1/beauty" in window.client.store.maps, "frames")
    live(0.5)
    pane, gaps = Drawn(view.reader.pane.viewport()), Gaps()
    first_ms = []
    for unit in range(1, order["rounds"] + 1):
        first_ms.append(_first_lines(window, unit, pane))
        live(0.1)
    found: dict[str, Any] = {"first_ms": first_ms}
    document = view.reader.document
    gaps.start()
    begun_s = time.monotonic()
    view.reader.fetch_all()
    until(lambda: bool(document.map.whole), "all of it")
    found["fetch_s"], found["fetch_gaps"] = time.monotonic() - begun_s, gaps.end()
    view.reader.open_find()
    gaps.start()
    begun_s = time.monotonic()
    view.reader.find_bar.regex.setChecked(True)
    view.reader.find_bar.edit.setText(r"std::bad_\w+")
    until(lambda: bool(view.reader.findChildren(Finder)), "a search")
    finder = view.reader.findChildren(Finder)[-1]
    until(lambda: not finder.busy, "every hit")
    found["find_s"], found["find_gaps"] = time.monotonic() - begun_s, gaps.end()
    found["hits"] = finder.count
    window.end()
    return found


def _first_lines(window: Window, unit: int, pane: Drawn) -> float:
    """Milliseconds from choosing a frame to the first lines of its log drawn."""
    view = window.view("log")
    before, begun_s = view.reader.document, time.monotonic()
    window.window.desk.focus.set_unit("beauty", unit)
    until(
        lambda: (
            view.reader.document not in (None, before)
            and view.reader.document.map.rows > 0
            and pane.last_s > begun_s
        ),
        "the first lines",
    )
    return (pane.last_s - begun_s) * 1e3


def tree(order: dict[str, Any]) -> dict[str, Any]:
    """The same jobs in a QTreeWidget, as farm managers commonly do it."""
    from gui_feed import job_row

    app = QApplication([])
    rows = [job_row(job) for job in range(1, order["jobs"] + 1)]
    gc.collect()
    base_mib = memory_mib(os.getpid())[0]
    tree = QTreeWidget()
    tree.setColumnCount(8)
    tree.setUniformRowHeights(True)
    tree.resize(1600, 1000)
    tree.show()
    live(0.1)
    begun_s = time.perf_counter()
    items = [QTreeWidgetItem(_texts(row)) for row in rows]
    tree.addTopLevelItems(items)
    tree.viewport().repaint()
    found: dict[str, Any] = {"fill_s": time.perf_counter() - begun_s, "base_mib": base_mib}
    change_ms, filter_ms, sort_ms = [], [], []
    inks = {row.state: QBrush(QColor.fromHsv(len(row.state) * 40, 160, 200)) for row in rows}
    for turn in range(1, 7):
        some = [job_row(1 + (turn * 7919 + place * 13) % len(rows), turn=turn) for place in range(10_000)]
        live(0.02)
        begun_s = time.perf_counter()
        for row in some:
            item = items[row.job - 1]
            for column, text in enumerate(_texts(row)):
                item.setText(column, text)
            item.setForeground(1, inks[row.state])
        tree.viewport().repaint()
        change_ms.append((time.perf_counter() - begun_s) * 1e3)
    for text in ("lgt_v01", "sh0123", "fx", ""):
        begun_s = time.perf_counter()
        for item in items:
            item.setHidden(text not in item.text(0))
        tree.viewport().repaint()
        filter_ms.append((time.perf_counter() - begun_s) * 1e3)
        live(0.02)
    for column in (0, 1, 2):
        begun_s = time.perf_counter()
        tree.sortItems(column, Qt.SortOrder.AscendingOrder)
        tree.viewport().repaint()
        sort_ms.append((time.perf_counter() - begun_s) * 1e3)
    gc.collect()
    found |= {"change_ms": change_ms, "filter_ms": filter_ms, "sort_ms": sort_ms}
    found["mib"] = memory_mib(os.getpid())[0] - base_mib
    tree.close()
    app.processEvents()
    return found


def _texts(row: Any) -> list[str]:
    return [
        row.name, row.state, f"{row.done}/{row.units}", str(row.failed), str(row.running), row.user,
        row.project, f"{row.spend_nano / 1e9:.2f}",
    ]  # fmt: skip


def bare(order: dict[str, Any]) -> dict[str, Any]:
    """What any such client has to do before it shows a row: load its libraries and show a window."""
    import zmq  # noqa: F401

    app = QApplication([])
    widget = QWidget()
    drawn = Drawn(widget)
    widget.resize(1600, 1000)
    widget.show()
    until(lambda: drawn.count > 0, "a window")
    found = {"first_s": drawn.last_s}
    widget.close()
    app.processEvents()
    return found


PARTS = {
    "start": start,
    "open": open_jobs,
    "list": listing,
    "log": log,
    "tree": tree,
    "bare": bare,
}


if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](json.loads(sys.argv[2]))), flush=True)

"""The search of a log, as a view uses it: a process that is started, fed, counted and, if need be, killed.

What belongs here: the life of that process, and where its hits are.  What may not: widgets, and the search
itself (``process``).
"""

from __future__ import annotations

import json
import os
import sys
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any, Final

import numpy as np
import shiboken6
from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from client_gui.store.logscan import Offsets
from client_gui.views.log_parts.document import LogDocument

#: Without a word for so long, an expression is taken to have run away.
PATIENCE_MS: Final = 4000
#: Most hits that are kept.
MOST_HITS: Final = 200_000

_ROOT = Path(__file__).resolve().parents[3]


class Helper(QObject):
    """A process that takes and gives lines of JSON; ends with its owner."""

    #: One line it said.
    said = Signal(object)
    #: It is gone; whether it was killed.
    ended = Signal()

    def __init__(self, query: dict[str, Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rest = b""
        process = QProcess()
        self._process = process
        environment = QProcessEnvironment.systemEnvironment()
        known = environment.value("PYTHONPATH")
        environment.insert("PYTHONPATH", f"{_ROOT}{os.pathsep}{known}" if known else str(_ROOT))
        process.setProcessEnvironment(environment)
        process.setStandardErrorFile(QProcess.nullDevice())
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._finished)
        self.destroyed.connect(lambda: end(process))
        process.start(sys.executable, ["-m", "client_gui.views.log_parts.process"])
        self.tell(query)

    def tell(self, what: Any) -> None:
        """Writes a line."""
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.write(json.dumps(what).encode() + b"\n")

    def close(self) -> None:
        """Kills it."""
        self.blockSignals(True)
        end(self._process)

    @property
    def running(self) -> bool:
        """Whether it is there."""
        return self._process.state() != QProcess.ProcessState.NotRunning

    def _read(self) -> None:
        if not shiboken6.isValid(self._process):
            return
        self._rest += bytes(self._process.readAllStandardOutput().data())
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self.said.emit(json.loads(line))

    def _finished(self) -> None:
        self._read()
        self.ended.emit()


def end(process: QProcess) -> None:
    """Kills a process and does away with it."""
    # When the program ends, Qt may have done away with it before its owner.
    if shiboken6.isValid(process) and process.state() != QProcess.ProcessState.NotRunning:
        process.kill()
        process.waitForFinished(1000)


class Finder(QObject):
    """Hits of one expression in one log, as they are found; what comes later is looked through, too.

    Attributes:
        trouble: Why it stopped, "" while it did not.
        full: There were more hits than are kept.
    """

    #: There are more hits, or it got further.
    found = Signal()

    def __init__(
        self, document: LogDocument, text: str, regex: bool, case: bool, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.text = text
        self.trouble = ""
        self.full = False
        self._document = document
        self._rows: list[int] = []
        self._hits: list[tuple[int, int, int]] = []
        self._sorted = True
        self._marks: Offsets | None = None
        self._fed: list[tuple[int, int]] = []
        self._busy = 0
        self._told = 0
        self._query = {"do": "find", "text": text, "regex": regex, "case": case}
        self._helper: Helper | None = None
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(PATIENCE_MS)
        self._patience.timeout.connect(self._run_away)
        document.grew.connect(self._feed)
        document.stood.connect(self._feed)
        self._feed()

    # -- what was found --

    @property
    def count(self) -> int:
        """How many hits there are so far."""
        return len(self._hits)

    @property
    def busy(self) -> bool:
        """Whether it is still looking."""
        return self._busy > 0

    @property
    def hits(self) -> list[tuple[int, int, int]]:
        """Row (by where it begins), column and length of each, in order."""
        if not self._sorted:
            self._hits.sort()  # nearly in order already
            self._rows = [hit[0] for hit in self._hits]
            self._sorted = True
            self._marks = None
        return self._hits

    def found_rows(self) -> Offsets:
        """Where rows with hits begin, in order."""
        if self._marks is None or len(self._marks) != len(self.hits):
            self._marks = np.array(self._rows, np.uint32)
        return self._marks

    def in_row(self, offset: int) -> list[tuple[int, int]]:
        """Column and length of the hits in a row."""
        hits = self.hits
        low, high = bisect_left(self._rows, offset), bisect_right(self._rows, offset)
        return [hit[1:] for hit in hits[low:high]]

    def next(self, at: tuple[int, int], *, back: bool = False) -> int | None:
        """Which hit follows (or comes before) a place, round the end of the log; None when there are none."""
        hits = self.hits
        if not hits:
            return None
        if back:
            return (bisect_left(hits, (*at, 0)) - 1) % len(hits)
        return bisect_right(hits, (*at, 1 << 30)) % len(hits)

    # -- the process --

    def close(self) -> None:
        """Ends it; what was found stays."""
        self._patience.stop()
        self._busy = 0
        if self._helper is not None:
            self._helper.close()
            self._helper = None

    def _feed(self) -> None:
        """Has it look through what it was not given yet."""
        if self.trouble or not self._document.path or self.full:
            return
        todo: list[tuple[int, int]] = []
        for run in self._document.map.runs:
            at, end_at = run.start, run.complete(self._document.ended and self._document.map.whole)
            for low, high in sorted(self._fed):
                if low <= at < high:
                    at = high
                elif at < low < end_at:
                    todo.append((at, low))
                    at = high
            if at < end_at:
                todo.append((at, end_at))
        if not todo:
            return
        if self._helper is None:
            self._helper = Helper({**self._query, "path": self._document.path}, self)
            self._helper.said.connect(self._said)
            self._helper.ended.connect(self._gone)
        for part in todo:
            self._fed.append(part)
            self._busy += 1
            self._helper.tell(part)
        self._fed = _joined(self._fed)
        self._patience.start()

    def _said(self, said: dict[str, Any]) -> None:
        self._patience.start()
        if "hits" in said:
            self._hits += [(row, column, length) for row, column, length in said["hits"]]
            self._sorted = False
            if len(self._hits) >= MOST_HITS:
                self.full = True
                self.close()
        elif "done" in said:
            self._busy = max(0, self._busy - 1)
        elif "error" in said:
            self.trouble = said["error"]
            if said.get("position", -1) > 0:
                self.trouble += f", at character {said['position'] + 1}"
            self.close()
        else:
            self._told = said.get("at", 0)
        if not self._busy:
            self._patience.stop()
        self.found.emit()

    def _gone(self) -> None:
        if self._busy:
            self.trouble = "the search ended by itself"
            self.close()
            self.found.emit()

    def _run_away(self) -> None:
        row = self._document.map.row_at(self._told)
        number, _ = self._document.map.number(row) if self._document.map.rows else (None, False)
        where = f"line {number:,}" if number is not None else f"byte {self._told:,}"
        self.trouble = f"this expression takes too long, stopped at {where}"
        self.close()
        self.found.emit()


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts with those that touch made one."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out

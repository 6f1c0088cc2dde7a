"""What only a frame's own row says (why, files, warning, progress), asked for what is on the screen alone.

What belongs here: when rows are asked for, kept, and asked for anew.  What may not: how they are shown.

A step may have a million frames; nobody sees more than a hundred at a time.  What is scrolled away before the
answer came is not waited for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.net.client import FarmClient
from client_gui.views.job_parts.frameset import FrameSet
from farm.model.errors import OvercrankError
from farm.model.states import UnitState
from farm.protocol.client import FramesReply, FramesReq
from farm.protocol.rows import FrameRow

#: Rows that are kept.
KEPT: Final = 5000
#: Frames that are asked for in one question.
AT_ONCE: Final = 400
#: Failed frames that a filter looks at.
FAILED_MOST: Final = 2000
#: How long what is looked at must stand still before it is asked for.
STILL_MS: Final = 60
#: How often rows of running frames are asked for anew: their progress changes without their state.
AGAIN_MS: Final = 5000


class FrameDetails(QObject):
    """Rows of frames that are looked at."""

    #: Rows of a step came: its name and the units, ascending.
    came = Signal(str, object)

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._job = 0
        self._rows: OrderedDict[tuple[str, int], FrameRow] = OrderedDict()
        self._stale: set[tuple[str, int]] = set()
        self._seen: dict[str, tuple[FrameSet, tuple[int, ...]]] = {}
        self._asked: dict[int, tuple[str, frozenset[int]]] = {}
        self._failed: set[tuple[str, int]] = set()
        self._fetching = 0
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MS)
        self._still.timeout.connect(self.ask)
        self._again = QTimer(self)
        self._again.setInterval(AGAIN_MS)
        self._again.timeout.connect(self._ask_running)
        client.welcomed.connect(self._retry)

    def set_job(self, job: int) -> None:
        """Rows of another job from now on."""
        if job == self._job:
            return
        self._job = job
        self._rows.clear()
        self._stale.clear()
        self._failed.clear()
        self._seen.clear()
        self._give_up(frozenset())
        self._again.stop()

    def row(self, step: str, unit: int) -> FrameRow | None:
        """What is known of a frame, be it a little old."""
        return self._rows.get((step, unit))

    def rows_of(self, step: str) -> dict[int, FrameRow]:
        """All that is known of a step's frames."""
        return {unit: row for (name, unit), row in self._rows.items() if name == step}

    def look(self, who: str, frames: FrameSet | None, units: tuple[int, ...] = ()) -> None:
        """Says which frames somebody (the table, the hover card) looks at now."""
        if frames is None or not units:
            self._seen.pop(who, None)
        else:
            self._seen[who] = (frames, units[:AT_ONCE])
        self._give_up(self._wanted())
        if self._seen:
            if not self._still.isActive():
                self._still.start()
            if not self._again.isActive():
                self._again.start()
        else:
            self._still.stop()
            self._again.stop()

    def spoil(self, step: str, units: Any) -> None:
        """These frames changed (None = any of the step): what is known of them is old."""
        if units is None:
            self._stale.update(key for key in self._rows if key[0] == step)
        elif len(units) > len(self._rows):
            changed = set(np.asarray(units).tolist())
            self._stale.update(key for key in self._rows if key[0] == step and key[1] in changed)
        else:
            self._stale.update(
                key for unit in np.asarray(units).tolist() if (key := (step, int(unit))) in self._rows
            )
        self._failed = {key for key in self._failed if key[0] != step}
        if self._seen and not self._still.isActive():
            self._still.start()

    def fetch_failed(self, frames: FrameSet) -> None:
        """Asks for the failed frames of a step, so that a filter may ask why; the first so many of them."""
        if not self._client.live:
            return
        number = self._client.ask(
            FramesReq,
            self,
            lambda reply: self._take_failed(frames, reply),
            lambda error: None,
            reply=FramesReply,
            address=frames.address,
            states=(UnitState.FAILED.word,),
            limit=FAILED_MOST,
        )
        if self._fetching:
            self._client.forget(self._fetching)
        self._fetching = number

    def _take_failed(self, frames: FrameSet, reply: FramesReply) -> None:
        self._fetching = 0
        if frames.job == self._job:
            self._take(frames.step, frozenset(), reply)

    # -- asking --

    def _wanted(self) -> frozenset[tuple[str, int]]:
        return frozenset((frames.step, unit) for frames, units in self._seen.values() for unit in units)

    def _give_up(self, wanted: frozenset[tuple[str, int]]) -> None:
        """Questions of which no frame is looked at any more need no answer."""
        for number, (step, units) in list(self._asked.items()):
            if not any((step, unit) in wanted for unit in units):
                del self._asked[number]
                self._client.forget(number)

    def _retry(self) -> None:
        self._failed.clear()
        self._asked.clear()
        if self._seen:
            self._still.start()

    def _ask_running(self) -> None:
        for step, unit in self._wanted():
            row = self._rows.get((step, unit))
            if row is not None and row.state == UnitState.RUNNING.word:
                self._stale.add((step, unit))
        self.ask()

    def ask(self) -> None:
        """Asks for what is looked at and not known; usually it does so by itself."""
        if not self._client.live:
            return
        under_way = {(step, unit) for step, units in self._asked.values() for unit in units}
        for frames, units in self._seen.values():
            keys = [(frames.step, unit) for unit in units]
            missing = sorted(
                unit
                for key, unit in zip(keys, units, strict=True)
                if (key not in self._rows or key in self._stale)
                and key not in under_way
                and key not in self._failed
            )
            if not missing:
                continue
            under_way.update((frames.step, unit) for unit in missing)
            text = frames.text(np.array(missing, np.int64))
            address = f"{frames.address}/{text}" if text else frames.address
            self._send(frames.step, frozenset(missing), address)

    def _send(self, step: str, units: frozenset[int], address: str) -> None:
        job = self._job
        number = 0

        def then(reply: FramesReply) -> None:
            self._asked.pop(number, None)
            if job == self._job:
                self._take(step, units, reply)

        def failed(error: OvercrankError) -> None:
            self._asked.pop(number, None)
            self._failed.update((step, unit) for unit in units)

        number = self._client.ask(
            FramesReq, self, then, failed, reply=FramesReply, address=address, limit=AT_ONCE + 1
        )
        self._asked[number] = (step, units)

    def _take(self, step: str, units: frozenset[int], reply: FramesReply) -> None:
        got = []
        for row in reply.steps.get(step, ()):
            key = (step, row.unit)
            self._rows[key] = row
            self._rows.move_to_end(key)
            self._stale.discard(key)
            got.append(row.unit)
        # What the farm does not tell of is not asked for again and again.
        self._failed.update((step, unit) for unit in units.difference(got))
        while len(self._rows) > KEPT:
            key, _ = self._rows.popitem(last=False)
            self._stale.discard(key)
        if got:
            self.came.emit(step, np.array(sorted(got), np.int64))

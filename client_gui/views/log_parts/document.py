"""A log of one attempt as a view reads it: fetched in pieces, spooled, indexed, followed while it grows.

What belongs here: what is asked of the farm when, what is kept where.  What may not: widgets.

Opening takes one piece: the end, or the beginning.  A log up to ``ALL_BYTES`` is then fetched whole in the
background; of a longer one only what is looked at, unless somebody wants it all.  Bytes go into a temporary
file in a worker, which also finds the rows; the window's thread holds only offsets and the rows it shows.
What comes is told a few times a second, however many pieces it is: each time the window shows its figures
anew.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.lanes import Lane, Ticket
from client_gui.net.client import FarmClient
from client_gui.store.logindex import Gap, LogMap
from client_gui.store.logscan import Intake, Piece
from client_gui.store.logtext import Line, line_of
from client_gui.views.log_parts.spool import Spool
from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.bulk import PIECE, LogGetMsg, LogPageMsg

#: A log no longer than this is fetched whole, unasked.
ALL_BYTES: Final = 64 << 20
#: Pieces that are asked for at the same time.
AT_ONCE: Final = 6
#: How often a log that is being written is asked for more; and one without an end though its attempt ended.
POLL_MS: Final = 1000
SLOW_POLL_MS: Final = 10_000
#: After somebody was told of what came, what comes next waits for so long, unless nothing more is on its way.
TELL_MS: Final = 80
#: Rows kept ready to be painted, in characters.
READY_CHARS: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LogId:
    """A log: of which attempt."""

    job: int
    step: str
    no: int

    def __str__(self) -> str:
        return f"J{self.job}/{self.step}@{self.no}"


class LogDocument(QObject):
    """A log.

    Attributes:
        log: Which.
        map: What is here of it, and its rows.
        ended: Nothing will follow.
        trouble: Why it cannot be read now, None while it can.
        asked: Whether the first piece has come.
        shrunk: The farm has less of it than it had: it was deleted.
        running: Whether its attempt still runs; said by the view.
    """

    #: More is here, or it became known how long it is.
    grew = Signal()
    #: Rows that were missing can be painted.
    ready = Signal()
    #: ``trouble``, ``ended`` or ``asked`` changed.
    stood = Signal()

    def __init__(self, client: FarmClient, log: LogId, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.log = log
        self.map = LogMap()
        self.ended = False
        self.asked = False
        self.shrunk = False
        self.running = False
        self.trouble: OvercrankError | None = None
        self._client = client
        self._lane = Lane()
        self._reader = Lane()
        self._intake = Intake(lambda: time.sleep(0.0001))
        self._spool: Spool | None = None
        self._asked: dict[int, tuple[int, int]] = {}
        self._taking: list[tuple[int, int]] = []
        #: What is in the spool and not in the map yet: bytes that were asked for, and what was found in them.
        self._come: list[tuple[tuple[int, int], Piece]] = []
        self._untold = False
        self._whole = False
        self._on = False
        self._closed = False
        self._lines: OrderedDict[tuple[int, int], Line] = OrderedDict()
        self._chars = 0
        self._wanted: set[tuple[int, int]] = set()
        self._poll = QTimer(self)
        self._poll.setSingleShot(True)
        self._poll.timeout.connect(self._ask_more)
        self._told = QTimer(self)
        self._told.setSingleShot(True)
        self._told.setInterval(TELL_MS)
        self._told.timeout.connect(self._tell_again)
        client.stood.connect(self._connection)

    # -- reading --

    def line(self, row: int) -> Line | None:
        """A row's text, None while it has to be fetched from the spool (``want``)."""
        found = self.map.at(row)
        if isinstance(found, Gap):
            return None
        span = found[0].span(found[1])
        line = self._lines.get(span)
        if line is not None:
            self._lines.move_to_end(span)
        return line

    def want(self, first: int, last: int) -> None:
        """Gets rows ready; ``ready`` tells when they are.  Fetches what is missing between them."""
        spans: list[tuple[int, int]] = []
        for row in range(max(0, first), min(last, self.map.rows - 1) + 1):
            found = self.map.at(row)
            if isinstance(found, Gap):
                self._fetch_gap(found, row <= (first + last) // 2)
                continue
            span = found[0].span(found[1])
            if span not in self._lines and span not in self._wanted:
                spans.append(span)
        if spans and self._spool is not None:
            self._wanted.update(spans)
            spool = self._spool
            self._reader.run(lambda _: _read(spool, spans), self, self._read, lambda e: self._unread(spans))

    def read(self, start: int, end: int) -> bytes:
        """Bytes that are here; for a worker."""
        return self._spool.read(start, end) if self._spool is not None else b""

    @property
    def path(self) -> str:
        """Where the bytes are spooled, "" before the first."""
        return self._spool.path if self._spool is not None else ""

    @property
    def fetching(self) -> bool:
        """Whether something is on its way."""
        return bool(self._asked or self._taking or self._come)

    @property
    def whole_wanted(self) -> bool:
        """Whether all of it is being fetched, however long it is."""
        return self._whole or self.map.size <= ALL_BYTES

    # -- life --

    def open(self, *, at_end: bool) -> None:
        """Fetches the first piece: the end, or the beginning."""
        self._on = True
        if not self.asked and not self._asked:
            self._ask(-PIECE if at_end else 0, PIECE)
        else:
            self._go_on()

    def pause(self) -> None:
        """Nobody looks: nothing is fetched any more."""
        self._on = False
        self._poll.stop()
        for number in self._asked:
            self._client.forget(number)
        self._asked.clear()

    def fetch_all(self) -> None:
        """Fetches all of it, however long it is."""
        self._whole = True
        self._go_on()

    def fetch_end(self) -> None:
        """Fetches the end."""
        if self.map.size and (not self.map.runs or self.map.runs[-1].end < self.map.size):
            self._fetch(max(0, self.map.size - PIECE), self.map.size)

    def want_at(self, offset: int) -> None:
        """Fetches what lies at an offset, unless it is here."""
        for gap in self.map.gaps():
            if gap.start <= offset < gap.end:
                start = max(gap.start, min(offset, gap.end - PIECE))
                self._fetch(start, min(gap.end, start + PIECE))

    def close(self) -> None:
        """Ends it and removes what was spooled."""
        self.pause()
        self._closed = True
        self._told.stop()
        self._come.clear()
        self._lane.clear()
        self._reader.clear()
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    # -- fetching --

    def _fetch(self, start: int, end: int) -> None:
        """Fetches some bytes, unless they are on their way."""
        if start < end and not any(a <= start < b for a, b in self._busy()):
            self._ask(start, end - start)

    def _busy(self) -> list[tuple[int, int]]:
        """What is on its way."""
        return [*self._asked.values(), *self._taking, *(span for span, _ in self._come)]

    def _fetch_gap(self, gap: Gap, from_end: bool) -> None:
        """Fetches the side of a gap that is looked at."""
        if not self._on or self.fetching:
            return
        if from_end and gap.start and gap.end < self.map.size:
            self._fetch(gap.start, min(gap.end, gap.start + PIECE))
        elif from_end:
            self._fetch(max(gap.start, gap.end - PIECE), gap.end)
        else:
            self._fetch(gap.start, min(gap.end, gap.start + PIECE))

    def _go_on(self) -> None:
        """Fetches what is missing in the background, in order; looks for more at the end."""
        if not self._on:
            return
        if self.whole_wanted:
            busy = self._busy()
            for gap in self.map.gaps():
                at = gap.start
                while at < gap.end and len(self._asked) < AT_ONCE and len(self._taking) < AT_ONCE:
                    held = next((b for a, b in busy if a <= at < b), None)
                    if held is not None:
                        at = held
                        continue
                    end = min(gap.end, at + PIECE, min((a for a, _ in busy if a > at), default=gap.end))
                    self._ask(at, end - at)
                    at = end
        if self.asked and not self.ended and not self.trouble and not self._poll.isActive():
            self._poll.start(POLL_MS if self.running else SLOW_POLL_MS)

    def _ask_more(self) -> None:
        if self._on and not self.ended and self._client.live:
            self._ask(self.map.size, PIECE)

    def _ask(self, offset: int, limit: int) -> None:
        log = self.log
        number = self._client.ask_bulk(
            lambda id_: LogGetMsg(id=id_, job=log.job, step=log.step, no=log.no, offset=offset, limit=limit),
            self,
            lambda page: self._page(number, page),
            lambda error: self._failed(number, error),
            reply=LogPageMsg,
        )
        self._asked[number] = (offset, offset + limit) if offset >= 0 else (0, 0)

    def _page(self, number: int, page: LogPageMsg) -> None:
        self._asked.pop(number, None)
        first, self.asked = not self.asked, True
        said = self.trouble is not None or first or self.ended != page.ended
        self.trouble = None
        if page.size < self.map.size:
            said = said or not self.shrunk
            self.shrunk, self.ended = True, True
        else:
            self.ended = page.ended
            if page.size != self.map.size:
                self.map.grow(page.size)
                self._untold = True
                if not page.data:
                    self._tell_soon()
        if page.data and not self.shrunk:
            span = (page.offset, page.offset + len(page.data))
            self._taking.append(span)
            self._lane.run(
                lambda _: self._take(page.offset, page.data),
                self,
                lambda piece: self._taken(span, piece),
                lambda error: self._untaken(span, error),
            )
        if said:
            self.stood.emit()
        self._go_on()

    def _take(self, offset: int, data: bytes) -> Piece | None:
        """In the worker: finds rows and keeps the bytes."""
        if self._closed:
            return None
        # Held here: the window may close the document while this goes on.
        spool = self._spool
        if spool is None:
            spool = self._spool = Spool()
        found = self._intake.take(offset, data)
        if found is None:
            return None
        piece, kept = found
        try:
            spool.write(piece.start, kept)
        except OSError:
            if self._closed:
                return None
            raise
        return piece

    def _taken(self, span: tuple[int, int], piece: Piece | None) -> None:
        self._taking.remove(span)
        if piece is not None:
            self._come.append((span, piece))
            self._untold = True
        self._tell_soon()
        self._go_on()

    def _tell_soon(self) -> None:
        """Tells of what came: at once when nothing was told lately or nothing more is on its way."""
        if self._untold and (not self._told.isActive() or not (self._asked or self._taking)):
            self._tell()

    def _tell(self) -> None:
        """Puts what came into the map, all of it, and tells."""
        come, self._come, self._untold = self._come, [], False
        for _, piece in come:
            self.map.add(piece)
        self._told.start()
        self.grew.emit()

    def _tell_again(self) -> None:
        if self._untold:
            self._tell()
            self._go_on()

    def _untaken(self, span: tuple[int, int], error: OvercrankError) -> None:
        self._taking.remove(span)
        self.trouble = error
        self.stood.emit()

    def _failed(self, number: int, error: OvercrankError) -> None:
        self._asked.pop(number, None)
        self.trouble = error
        self.stood.emit()

    def _connection(self) -> None:
        """The connection is back: goes on where it stopped."""
        if self._on and self._client.live and isinstance(self.trouble, FarmUnreachable):
            self.trouble = None
            if self.asked:
                self._go_on()
            elif not self._asked:
                self._ask(-PIECE, PIECE)
            self.stood.emit()

    # -- rows --

    def _read(self, lines: dict[tuple[int, int], Line]) -> None:
        for span, line in lines.items():
            self._wanted.discard(span)
            if span not in self._lines:
                self._lines[span] = line
                self._chars += len(line.text) + 64
        while self._chars > READY_CHARS and len(self._lines) > 400:
            _, old = self._lines.popitem(last=False)
            self._chars -= len(old.text) + 64
        self.ready.emit()

    def _unread(self, spans: list[tuple[int, int]]) -> None:
        self._wanted.difference_update(spans)


def _read(spool: Spool, spans: list[tuple[int, int]]) -> dict[tuple[int, int], Line]:
    """In a worker: rows as they are shown."""
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    if high - low > 4 << 20:
        return {span: line_of(spool.read(*span)) for span in spans}
    data = spool.read(low, high)
    return {(start, end): line_of(data[start - low : end - low]) for start, end in spans}


def selected_text(document: LogDocument, start: int, end: int, ticket: Ticket[str]) -> str:
    """In a worker: some rows as text, as they are shown."""
    lines = document.read(start, end).split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    out: list[str] = []
    for line in lines:
        if ticket.given_up:
            break
        out.append(line_of(line).text)
    return "\n".join(out)

"""Logs and pictures for tests and measurements of the window, made up but like real ones.

What belongs here: making them, of any size, always the same.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from farm.protocol.bulk import LogGetMsg, LogPageMsg
from farm.protocol.client import AttemptRow
from tests.support.gui_rig import NOW_US

LINE = (
    "14:02:{s:02d} INFO  Fra:{f} Mem:{m}M (Peak 58900.00M) | Time:00:{s:02d}.34 | Scene, ViewLayer"
    " | Sample {n}/512\n"
)


def render_log(size: int, *, errors_at: tuple[float, ...] = (0.9,), frame: int = 1037) -> Iterator[bytes]:
    """A renderer's log of about so many bytes, in blocks; with an error at each of some parts of it.

    A log of 1 GB takes a few seconds and 1 MB of memory: ``benchmarks/gui.py`` writes it to a file.
    """
    block = "".join(LINE.format(s=n % 60, f=frame, m=38000 + n, n=n % 512) for n in range(512)).encode()
    trouble = (
        b"14:03:02 WARNING  texture cache 58.9 GB, texture fx_smoke.1042.vdb not found\n"
        b"14:03:09 ERROR  std::bad_alloc\n"
    )
    at, places = 0, sorted(int(size * part) for part in errors_at)
    while at < size:
        while places and places[0] <= at:
            places.pop(0)
            yield trouble
        yield block if size - at >= len(block) else block[: block.rfind(b"\n", 0, size - at) + 1]
        at += len(block)
    for _ in places:
        yield trouble


def attempt_row(no: int = 1, **fields: Any) -> AttemptRow:
    """An attempt that failed."""
    base: dict[str, Any] = {
        "attempt": 100 + no,
        "step": "J1/beauty",
        "node": "rack-114",
        "kind": "render",
        "frames": "17",
        "started_us": NOW_US - 600_000_000,
        "ended_us": NOW_US - 400_000_000,
        "outcome": "oom-ram",
        "reason": "the machine ran out of memory",
        "charge_nano": 1_000_000,
        "waste_nano": 1_000_000,
    }
    return AttemptRow(no=no, **(base | fields))


def picture(unit: int, wide: int = 480, high: int = 270, version: int = 1) -> bytes:
    """A JPEG that differs from unit to unit: a disc that wanders over a graded ground."""
    from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPointF, Qt
    from PySide6.QtGui import QColor, QImage, QImageWriter, QLinearGradient, QPainter

    image = QImage(wide, high, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    ground = QLinearGradient(0, 0, 0, high)
    ground.setColorAt(0, QColor.fromHsv((200 + 40 * version) % 360, 120, 150))
    ground.setColorAt(1, QColor.fromHsv((30 + 40 * version) % 360, 90, 70))
    painter.fillRect(image.rect(), ground)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor.fromHsv(unit * 7 % 360, 160, 220))
    painter.drawEllipse(QPointF((unit * 37) % wide, high * 0.6), high * 0.22, high * 0.22)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"jpeg")).write(image)
    return bytes(buffer.data().data())


class Logs:
    """Logs that a broker would hold.

    Attributes:
        texts: By the attempt's number; whether it has ended.
        asked: Offsets that were asked for, in order.
    """

    def __init__(self) -> None:
        self.texts: dict[int, tuple[bytes, bool]] = {}
        self.asked: list[tuple[int, int]] = []
        self.trouble: Exception | None = None

    def put(self, no: int, text: bytes, *, ended: bool = True) -> None:
        """Holds a log."""
        self.texts[no] = (text, ended)

    def page(self, request: LogGetMsg) -> LogPageMsg:
        """A page, as ``farm.storage.logs`` gives it."""
        self.asked.append((request.no, request.offset))
        if self.trouble is not None:
            raise self.trouble
        text, ended = self.texts.get(request.no, (b"", False))
        start = max(0, len(text) + request.offset) if request.offset < 0 else min(request.offset, len(text))
        data = text[start : start + min(request.limit, 256 * 1024)]
        return LogPageMsg(request.id, start, len(text), data, ended)

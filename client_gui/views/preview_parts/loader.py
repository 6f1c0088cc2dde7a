"""Pictures of frames: asked for while somebody looks at them, decoded in a worker, kept while there is room.

What belongs here: what is asked for when, and what is kept.  What may not: widgets.

Each looker says what it wants, the most urgent first, and says so anew whenever that changes; what nobody
wants any more is given up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QObject, Signal
from PySide6.QtGui import QImage, QImageReader

from client_gui.lanes import Lane
from client_gui.net.client import FarmClient
from farm.model.errors import FarmUnreachable, OutputError, OvercrankError
from farm.protocol.bulk import PreviewGetMsg, PreviewMsg

#: Job, step, unit.
Key = tuple[int, str, int]
#: Most that is asked for at the same time, and most bytes of pictures that are kept.
AT_ONCE: Final = 4
KEPT_BYTES: Final = 192 << 20
#: Largest picture that is taken, in pixels of a side, and its formats: it comes from somebody's machine.
LARGEST: Final = 4096
FORMATS: Final = ("jpeg", "png")

NONE_YET: Final = "no picture yet"


@dataclass(slots=True)
class _Entry:
    image: QImage | None
    text: str
    stale: bool = False


class PreviewLoader(QObject):
    """Pictures by frame.

    Args:
        client: The farm.
    """

    #: The picture of a key came, or why there is none.
    came = Signal(object)

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._lane = Lane(2)
        self._kept: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0
        self._wanted: dict[str, tuple[Key, ...]] = {}
        self._asked: dict[Key, int] = {}
        self._decoding: set[Key] = set()
        self._down = False
        client.stood.connect(self._connection)

    def picture(self, key: Key) -> QImage | None:
        """The picture, None while there is none."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        self._kept.move_to_end(key)
        return entry.image

    def text(self, key: Key) -> str:
        """What is said in place of a picture."""
        entry = self._kept.get(key)
        if entry is not None:
            return entry.text
        return "not connected" if self._down or not self._client.live else "…"

    def want(self, who: str, keys: Sequence[Key]) -> None:
        """Says what somebody looks at now, the most urgent first; replaces what it said before."""
        if keys:
            self._wanted[who] = tuple(keys)
        else:
            self._wanted.pop(who, None)
        wanted = {key for some in self._wanted.values() for key in some}
        for key in [key for key in self._asked if key not in wanted]:
            self._client.forget(self._asked.pop(key))
        self._go_on()

    def outdated(self, keys: Sequence[Key]) -> None:
        """There may be other pictures of these now; the old ones are shown until they are here."""
        for key in keys:
            entry = self._kept.get(key)
            if entry is not None:
                entry.stale = True
        self._go_on()

    @property
    def busy(self) -> int:
        """How many are on their way."""
        return len(self._asked) + len(self._decoding)

    @property
    def kept_bytes(self) -> int:
        """How much memory the pictures take."""
        return self._bytes

    def close(self) -> None:
        """Gives everything up."""
        self._wanted.clear()
        for number in self._asked.values():
            self._client.forget(number)
        self._asked.clear()
        self._lane.clear()

    def _go_on(self) -> None:
        if self._down and not self._client.live:
            return
        for keys in self._wanted.values():
            for key in keys:
                if self.busy >= AT_ONCE:
                    return
                entry = self._kept.get(key)
                if (entry is None or entry.stale) and key not in self._asked and key not in self._decoding:
                    self._ask(key)

    def _ask(self, key: Key) -> None:
        job, step, unit = key
        self._asked[key] = self._client.ask_bulk(
            lambda id_: PreviewGetMsg(id=id_, job=job, step=step, unit=unit),
            self,
            lambda reply: self._answered(key, reply),
            lambda error: self._failed(key, error),
            reply=PreviewMsg,
        )

    def _answered(self, key: Key, reply: PreviewMsg) -> None:
        self._asked.pop(key, None)
        self._down = False
        if not reply.data:
            self._keep(key, None, NONE_YET)
            return
        self._decoding.add(key)
        data = reply.data
        self._lane.run(
            lambda _: decode(data),
            self,
            lambda image: self._keep(key, image, ""),
            lambda error: self._keep(key, None, error.message),
        )

    def _failed(self, key: Key, error: OvercrankError) -> None:
        self._asked.pop(key, None)
        if isinstance(error, FarmUnreachable):
            self._down = True
            self.came.emit(key)
            return
        self._keep(key, None, error.message)

    def _connection(self) -> None:
        if self._client.live and self._down:
            self._down = False
            self._go_on()

    def _keep(self, key: Key, image: QImage | None, text: str) -> None:
        self._decoding.discard(key)
        old = self._kept.pop(key, None)
        if old is not None and old.image is not None:
            self._bytes -= old.image.sizeInBytes()
        self._kept[key] = _Entry(image, text)
        self._bytes += image.sizeInBytes() if image is not None else 0
        looked_at = {wanted for some in self._wanted.values() for wanted in some[:64]}
        for other in list(self._kept):
            if self._bytes <= KEPT_BYTES:
                break
            entry = self._kept[other]
            if other == key or other in looked_at or entry.image is None:
                continue
            self._bytes -= entry.image.sizeInBytes()
            del self._kept[other]
        self.came.emit(key)
        self._go_on()


def decode(data: bytes) -> QImage:
    """In a worker: a picture from its bytes, which may be anything.

    Raises:
        OutputError: They are no picture, or one that is too large.
    """
    buffer = QBuffer()
    buffer.setData(QByteArray(data))
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer)
    reader.setAutoTransform(False)
    kind = bytes(reader.format().data()).decode("ascii", "replace")
    if kind not in FORMATS:
        raise OutputError("not a picture")
    size = reader.size()
    if not size.isValid():
        raise OutputError("the picture is damaged")
    if max(size.width(), size.height()) > LARGEST:
        raise OutputError(f"a picture of {size.width()} × {size.height()} is not shown")
    image = reader.read()
    if image.isNull():
        raise OutputError("the picture is damaged")
    return image.convertToFormat(QImage.Format.Format_RGB32)

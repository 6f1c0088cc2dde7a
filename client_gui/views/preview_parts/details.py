"""What the farm knows of the frame that is shown: files, node, time; asked for a moment after it is chosen.

What belongs here: asking, once somebody rests on a frame.  What may not: pictures, and how it is said.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.net.client import FarmClient
from client_gui.store.attempts import address_of, frame_of
from farm.model.errors import OvercrankError
from farm.protocol.client import FrameRow, FramesReply, FramesReq, StepRow

#: How long somebody rests on a frame before it is asked about.
_REST_MS: Final = 120


class Details(QObject):
    """A frame's row.

    Attributes:
        row: It; None while it is not known.
    """

    #: It is known.
    came = Signal()
    #: Somebody has come to rest: ``ask`` is to be called with what is shown, unless nobody looks.
    wanted = Signal()

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.row: FrameRow | None = None
        self._client = client
        self._asking = 0
        self._about = -1
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_REST_MS)
        self._soon.timeout.connect(self.wanted)

    def forget(self) -> None:
        """Another frame is shown."""
        self.row, self._about = None, -1

    def ask_soon(self) -> None:
        """Asks when somebody has come to rest."""
        self._soon.start()

    def stop(self) -> None:
        """Asks nothing."""
        self._soon.stop()

    def ask(self, job: int, step: StepRow, unit: int) -> None:
        """Asks about a frame."""
        if self._asking:
            self._client.forget(self._asking)
        self._about = unit
        self._asking = self._client.ask(
            FramesReq,
            self,
            lambda reply: self._are(unit, reply),
            self._refused,
            reply=FramesReply,
            address=address_of(job, step.name, frame_of(step, unit)),
            limit=1,
        )

    def _are(self, unit: int, reply: FramesReply) -> None:
        self._asking = 0
        rows = [row for some in reply.steps.values() for row in some if row.unit == unit]
        if rows and unit == self._about:
            self.row = rows[0]
            self.came.emit()

    def _refused(self, error: OvercrankError) -> None:
        self._asking = 0

"""Getting ready to sort by names before anybody asks for it, a few milliseconds at a time.

What belongs here: doing it while the window has nothing better to do.  What may not: what has to be done
(``Order.prepare``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer

from client_gui.store.order import Order

_EVERY_MS: Final = 20
_AT_ONCE_S: Final = 0.003


class Readying(QObject):
    """Gets an order ready.

    Args:
        order: The order.
        columns: Columns of texts that somebody will sort by.
        parent: Whose it is.

    Attributes:
        done: Whether it is ready.
    """

    def __init__(self, order: Order[Any], columns: tuple[str, ...], parent: QObject) -> None:
        super().__init__(parent)
        self.done = False
        self._order = order
        self._columns = columns
        self._steps: Iterator[None] | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self._go_on)

    def start(self) -> None:
        """Begins, or goes on."""
        if not self.done:
            self._timer.start()

    def stop(self) -> None:
        """Rests."""
        self._timer.stop()

    def _go_on(self) -> None:
        if self._steps is None:
            self._steps = self._order.prepare(self._columns)
        ends_s = time.perf_counter() + _AT_ONCE_S
        while time.perf_counter() < ends_s:
            if next(self._steps, self) is self:
                self.done = True
                self._timer.stop()
                return

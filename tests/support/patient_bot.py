"""pytest-qt's robot with the patience of all other tests.

What belongs here: its waits, with another deadline.  What may not: anything it does by itself.

Its own five seconds are gone before a busy machine has drawn a window twice.  A wait that comes true ends at
once, so patience costs nothing but when a test fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pytestqt.qtbot import QtBot

from tests.support.waiting import PATIENCE_S

#: As ``waitUntil`` and its like want it.
PATIENCE_MS: Final = int(PATIENCE_S * 1000)


class PatientBot(QtBot):
    """The fixture ``qtbot`` of all tests."""

    def waitUntil(  # noqa: N802
        self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS
    ) -> None:
        """Until it is true, or has no assert that fails."""
        __tracebackhide__ = True
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = PATIENCE_MS, **words: Any) -> Any:  # noqa: N802
        """Until it was emitted."""
        return super().waitSignal(signal, timeout=timeout, **words)

    def waitSignals(self, signals: Any, *, timeout: int = PATIENCE_MS, **words: Any) -> Any:  # noqa: N802
        """Until all were emitted."""
        return super().waitSignals(signals, timeout=timeout, **words)

    def waitActive(self, widget: Any, *, timeout: int = PATIENCE_MS) -> Any:  # noqa: N802
        """Until a window has the keys."""
        return super().waitActive(widget, timeout=timeout)

    def waitExposed(self, widget: Any, *, timeout: int = PATIENCE_MS) -> Any:  # noqa: N802
        """Until a window can be seen."""
        return super().waitExposed(widget, timeout=timeout)

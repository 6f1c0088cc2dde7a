"""``farm broker`` with one fault that can be switched on: SIGUSR1 stops its authenticator.

What belongs here: that switch.  Nothing of the product knows it.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import farm.broker.app as app
from farm.cli.main import entry
from farm.transport.server_link import ServerLink

_LINKS: list[ServerLink] = []


class _Frail(ServerLink):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _LINKS.append(self)


def _stop_authenticator(_number: int, _frame: object) -> None:
    def stop() -> None:
        _LINKS[-1].zap.stop()
        sys.stderr.write(f"authenticator alive: {_LINKS[-1].zap.alive}\n")
        sys.stderr.flush()

    threading.Thread(target=stop).start()


if __name__ == "__main__":
    app.ServerLink = _Frail  # type: ignore[misc]
    signal.signal(signal.SIGUSR1, _stop_authenticator)
    entry()

"""A process with one window of the real client, at one scale, that takes pictures of itself.

What belongs here: starting and ending the client without a screen, and the words to ``taking``: lines of JSON
on standard output (``took``, ``left``, ``waits``), and one line back.  What may not: what is on a picture.

It ends when its standard input ends, whatever became of the other side.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QCoreApplication, QEvent

from client_gui.net.client import FarmClient
from client_gui.net.port import Incoming, Welcomed
from client_gui.net.thread import SocketsThread
from client_gui.notices import Notices
from client_gui.screens.scenes import SCENES, LeftOut
from client_gui.screens.stage import Stage
from client_gui.settings import Settings
from client_gui.shell.program import make_app, make_theme
from client_gui.shell.windows import Windows
from client_gui.style.dress import Dress

#: How long to wait for a first word of the farm, and for what the last picture needs, seconds.
CONNECT_S = 30.0


class NamedPort(SocketsThread):
    """Sockets that call a served farm by a name people would give it: its own is a private farm's number."""

    name = ""

    def take(self) -> list[Incoming]:
        """All that has come since the last call, in order."""
        found = super().take()
        return [self._named(one) if isinstance(one, Welcomed) and self.name else one for one in found]

    def _named(self, message: Welcomed) -> Welcomed:
        welcome = msgspec.structs.replace(message.welcome, farm_name=self.name)
        return Welcomed(welcome, message.farm, message.place, message.farm_id, message.notes)


class Line:
    """The other side: what it is told, and what it says."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        threading.Thread(target=self._listen, name="leash", daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "lost":
                self.lost.set()
        # Nobody waits for the pictures any more; a window that is shown nowhere has nothing to save.
        os._exit(3)

    def say(self, **told: Any) -> None:
        """Tells something."""
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def main(order: dict[str, Any]) -> int:
    """Takes all pictures of an order."""
    # Ctrl-C is for the other side alone; it ends this process by its leash.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line()
    app = make_app()
    app.setQuitOnLastWindowClosed(False)
    # Kept in memory: neither layout nor choices of this user are looked at, nor changed.
    settings = Settings(None)
    theme = make_theme(settings, order["looks"][0])
    Dress(app, theme)
    port = NamedPort()
    port.name = order["name"]
    client = FarmClient(port)
    windows = Windows(client, Notices(client.now_us), settings, theme)
    window = windows.restore(safe=True)
    client.start(order["farm"])
    stage = Stage(window, Path(order["folder"]), order["scale"], tuple(order["looks"]))
    stage.own, stage.lost, stage.say = order["own"], line.lost, line.say
    try:
        _take_all(stage, line)
    finally:
        windows.quit()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        client.stop()
    return 0


def _take_all(stage: Stage, line: Line) -> None:
    if not stage.until(lambda: bool(stage.client.live and stage.client.store.n), CONNECT_S):
        why = stage.client.standing.trouble or "the farm does not answer"
        for scene in SCENES:
            line.say(left=scene.name, why=why)
        return
    for scene in SCENES:
        try:
            scene.show(stage)
        except LeftOut as reason:
            line.say(left=scene.name, why=str(reason))
            continue
        for name in stage.shoot(scene.name):
            line.say(took=name)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

"""The desktop client as a program: its parts made in order, and ended in order.

What belongs here: making and ending.  What may not: what any part does.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication, QEvent, QProcess, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from client_gui.app import Options
from client_gui.net.client import FarmClient
from client_gui.net.sharing import share_the_lock
from client_gui.net.thread import SocketsThread
from client_gui.net.watchdog import Watchdog, watchdog_wanted
from client_gui.notices import Notices
from client_gui.settings import CALM, DENSE, FILE, LOOK, SAFE, ZOOM, Settings, open_settings
from client_gui.shell.crash import Crashes
from client_gui.shell.handover import Meeting, Wish, hand_over, meeting_name
from client_gui.shell.tray import Tray
from client_gui.shell.windows import Windows
from client_gui.store.activity import Level
from client_gui.style.dress import Dress
from client_gui.style.glyphs import app_icon
from client_gui.style.theme import CHOICES, SYSTEM, Theme
from farm import __version__
from farm.config.places import LOCAL, Places

#: With it a desktop lets a window come to the front.
_TOKEN: Final = "XDG_ACTIVATION_TOKEN"
#: How long after the windows drafts are read that may still have to be sent.
OUTBOX_AFTER_MS: Final = 300
#: Ctrl-C in the terminal and the end of a session close the windows in order.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def settings_path() -> Path:
    """The file of the settings, beside the farms' folders."""
    return Places(LOCAL).config.parent / FILE


def report_folder() -> Path:
    """Where reports of errors are written."""
    return Places(LOCAL).state.parent


def make_app(arguments: list[str] | None = None) -> QApplication:
    """The Qt application, with its name and icon."""
    share_the_lock()
    QGuiApplication.setHighDpiScaleFactorRoundingPolicy(Qt.HighDpiScaleFactorRoundingPolicy.PassThrough)
    QGuiApplication.setDesktopFileName("overcrank")
    app = QApplication(["overcrank", *(arguments or [])])
    app.setApplicationName("overcrank")
    app.setApplicationDisplayName("Overcrank")
    app.setApplicationVersion(__version__)
    app.setWindowIcon(app_icon())
    return app


def make_theme(settings: Settings, look: str = "") -> Theme:
    """The theme as it was chosen; ``look`` holds for this run alone."""
    wanted = look or settings.get(LOOK)
    theme = Theme(wanted if wanted in CHOICES else SYSTEM)
    theme.set_safe(settings.get(SAFE))
    theme.set_zoom(settings.get(ZOOM))
    theme.set_dense(settings.get(DENSE))
    theme.set_calm(settings.get(CALM))
    return theme


def open_on(windows: Windows, options: Options) -> None:
    """Shows what the command line asks for in the first window."""
    if options.job:
        windows.show_job(options.job)
    if options.submit is not None:
        windows.submit_file(options.submit)


def run(options: Options) -> int:
    """Opens the client and returns its exit code when it has ended."""
    app = make_app()
    meets = not (options.new or options.safe or options.look)
    name = meeting_name(settings_path(), report_folder())
    if meets and hand_over(name, wish_of(options)):
        return 0
    kept = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return _run(app, options, name)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def wish_of(options: Options) -> Wish:
    """What a start asks of a client that runs already."""
    submit = str(options.submit.absolute()) if options.submit is not None else ""
    return Wish(options.farm or "", options.job, submit, os.environ.get(_TOKEN, ""))


def grant(windows: Windows, wish: Wish, first: str = "") -> bool:
    """Brings the window in use to the front with what a second start asked for.

    Args:
        windows: The windows.
        wish: What was asked for.
        first: The farm this client was started with, "" for none by name.

    Returns:
        Whether it did: what is of another farm than the one that is shown it leaves alone.
    """
    client = windows.client
    if not windows.open or (wish.farm and wish.farm != (client.farm or first)):
        return False
    if wish.token:
        os.environ[_TOKEN] = wish.token  # Qt hands it to the desktop with the next wish to come to the front
    windows.show_job(wish.job)
    if wish.submit:
        windows.submit_file(Path(wish.submit))
    return True


def _run(app: QApplication, options: Options, name: str = "") -> int:
    crashes = Crashes(report_folder())
    left = crashes.install()
    settings = open_settings(settings_path())
    theme = make_theme(settings, options.look)
    Dress(app, theme)
    port = SocketsThread()
    client = FarmClient(port)
    notices = Notices(client.now_us)
    again: list[str] = []
    windows = Windows(
        client, notices, settings, theme, restart=lambda: again.extend([sys.executable, "-m", "farm", "gui"])
    )
    app.setQuitOnLastWindowClosed(False)
    windows.all_closed.connect(app.quit)
    crashes.noted.connect(
        lambda line: notices.say(
            f"something went wrong in this client: {line}",
            Level.ERROR,
            hint=f"it is written down in {crashes.report}",
        )
    )
    windows.restore(options.safe)
    Tray(client, notices, settings, app_icon(), windows.show_job, windows.leave, parent=windows)
    if settings.trouble:
        notices.say(settings.trouble, Level.WARNING)
    if left:
        windows.offer_report(left)
    client.start(options.farm)
    QTimer.singleShot(0, windows, lambda: open_on(windows, options))
    meeting = Meeting(name, lambda wish: grant(windows, wish, options.farm or ""), windows)
    # Jobs that were sent off before a restart go out though nobody opens the submit dock.
    QTimer.singleShot(OUTBOX_AFTER_MS, windows, windows.open_outbox)
    watchdog = Watchdog(too_long_ms, windows) if (too_long_ms := watchdog_wanted()) else None
    if watchdog is not None:
        watchdog.start()
    app.commitDataRequest.connect(lambda _: windows.save())
    # Python sees a signal only while it runs, which it does with every tick of the windows, and in the middle
    # of whatever runs then: a window that is being painted must not be closed from there.
    for number in _SIGNALS:
        signal.signal(number, lambda *_: QTimer.singleShot(0, windows, windows.quit))
    code = app.exec()
    meeting.close()
    if watchdog is not None:
        watchdog.stop()
    # In order: windows go, nothing comes any more, what was chosen is written.
    windows.quit()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    ended = client.stop()
    settings.write()
    crashes.remove()
    if again:
        QProcess.startDetached(again[0], [*again[1:], *(["--farm", client.farm] if client.farm else [])])
    if not ended:
        # A name that is looked up may keep the sockets' thread for minutes; Qt aborts a program that ends
        # while a thread of its own still runs.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code

"""The client as a program: it ends in order and leaves nothing, and what goes wrong in it is written down."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.settings import DENSE, LOOK, SAFE, ZOOM, Settings, open_settings
from client_gui.shell.crash import Crashes, about_text, redacted
from client_gui.shell.program import make_theme, settings_path
from farm import __version__
from farm.config.places import Places


@pytest.fixture
def crashes(tmp_path: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crashes]:
    monkeypatch.setattr(sys, "stderr", _Nowhere())
    was_on = faulthandler.is_enabled()
    found = Crashes(tmp_path / "state")
    found.install()
    yield found
    found.remove()
    if was_on:
        faulthandler.enable(sys.__stderr__ or 2)


class _Nowhere:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def _raised(error: Exception) -> tuple[type[Exception], Exception, Any]:
    try:
        raise error
    except Exception as caught:
        return type(caught), caught, caught.__traceback__


def test_an_error_nobody_caught_is_written_down_and_told(crashes: Crashes, qtbot: QtBot) -> None:
    with qtbot.waitSignal(crashes.noted) as told:
        sys.excepthook(*_raised(ValueError("the odd one")))
    assert told.args == ["ValueError: the odd one"]
    text = crashes.report.read_text()
    assert "ValueError: the odd one" in text
    assert "_raised" in text, "where it happened is in it"


def test_an_error_in_a_thread_is_told_in_the_window_s_thread(crashes: Crashes, qtbot: QtBot) -> None:
    def fail() -> None:
        raise RuntimeError("in a thread")

    threads: list[str] = []
    crashes.noted.connect(lambda line: threads.append(threading.current_thread().name))
    with qtbot.waitSignal(crashes.noted):
        thread = threading.Thread(target=fail, name="sockets")
        thread.start()
        thread.join()
    assert threads == [threading.current_thread().name]
    assert "in the thread sockets" in crashes.report.read_text()


def test_the_same_error_is_told_once(crashes: Crashes, qtbot: QtBot) -> None:
    told: list[str] = []
    crashes.noted.connect(told.append)
    for n in range(50):
        sys.excepthook(*_raised(ValueError(str(n))))
    sys.excepthook(*_raised(KeyError("another")))
    qtbot.waitUntil(lambda: len(told) >= 2)
    assert told == ["ValueError: 0", "KeyError: 'another'"]


def test_the_next_start_offers_what_the_last_one_left_once(
    tmp_path: Path, qapp: QApplication, crashes: Crashes
) -> None:
    crashes.note(ValueError("the odd one"))
    left = Crashes(tmp_path / "state").take_left()
    assert "ValueError: the odd one" in left
    assert f"Overcrank {__version__}" in left
    assert Crashes(tmp_path / "state").take_left() == ""


def test_a_good_end_leaves_nothing_to_offer(tmp_path: Path, qapp: QApplication) -> None:
    crashes = Crashes(tmp_path / "state")
    was_on = faulthandler.is_enabled()
    hooks = (sys.excepthook, threading.excepthook)
    assert crashes.install() == ""
    crashes.remove()
    if was_on:
        faulthandler.enable(sys.__stderr__ or 2)
    assert (sys.excepthook, threading.excepthook) == hooks
    assert crashes.install() == ""
    crashes.remove()
    assert list((tmp_path / "state").iterdir()) == []


def test_a_sudden_end_is_offered_at_the_next_start(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from PySide6.QtCore import QCoreApplication\n"
        "from client_gui.shell.crash import Crashes\n"
        "app = QCoreApplication([])\n"
        "crashes = Crashes(Path(sys.argv[1]))\n"
        "crashes.install()\n"
        "import ctypes; ctypes.string_at(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    left = Crashes(tmp_path).take_left()
    assert "string_at" in left
    assert about_text().splitlines()[0] in left


def test_what_is_nobody_s_business_is_taken_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "anabelle")
    monkeypatch.setattr("socket.gethostname", lambda: "ws-13")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/anabelle"))
    key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
    assert len(key) == 40
    text = redacted(
        f'File "/home/anabelle/farm/x.py", line 3\nkey {key}\ntoken=abc.def\n'
        "anabelle on ws-13, not ws-130\nan ordinary line of more than forty characters stays as it is\n"
        "----------------------------------------------------------------\n"
    )
    assert key not in text
    assert "anabelle" not in text
    assert "abc.def" not in text
    assert 'File "~/farm/x.py", line 3' in text
    assert "<user> on <machine>, not ws-130" in text
    assert "an ordinary line of more than forty characters stays as it is" in text
    assert "-----" in text


def test_the_theme_is_as_it_was_chosen_and_the_command_line_counts_for_once(qapp: QApplication) -> None:
    settings = Settings()
    settings.set(LOOK, "light")
    settings.set(SAFE, True)
    settings.set(ZOOM, 1.2)
    settings.set(DENSE, True)
    theme = make_theme(settings)
    assert (theme.look.name, theme.safe, theme.zoom, theme.dense) == ("light", True, 1.2, True)
    assert make_theme(settings, "contrast").look.name == "contrast"
    assert settings.get(LOOK) == "light"
    settings.set(LOOK, "one that a newer client had")
    assert make_theme(settings).choice == "system"


def test_settings_stand_beside_the_farms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path().parent == Places("west").config.parent


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or sys.platform == "win32", reason="no such signal there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_whole_program_starts_without_a_farm_and_ends_in_order(tmp_path: Path, number: int) -> None:
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }
    code = (
        "import sys\n"
        "from PySide6.QtCore import QTimer\n"
        "import client_gui.shell.windows as module\n"
        "kept = module.Windows.restore\n"
        "def restore(self, safe=False):\n"
        "    window = kept(self, safe)\n"
        "    def tell():\n"
        "        if window.pages.currentWidget() is not window.room:\n"  # the welcome page
        "            print('ready', flush=True)\n"
        "            timer.stop()\n"
        "    timer = QTimer(window)\n"
        "    timer.timeout.connect(tell)\n"
        "    timer.start(50)\n"
        "    return window\n"
        "module.Windows.restore = restore\n"
        "from farm.cli.main import main\n"
        "code = main(['gui', '--look', 'light'])\n"
        "import threading\n"
        "print('left', [one.name for one in threading.enumerate()], flush=True)\n"
        "sys.exit(code)\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    first = program.stdout.readline()
    program.send_signal(number)
    out, err = program.communicate(timeout=60)
    assert first == "ready\n", err
    assert program.returncode == 0, err
    assert out == "left ['MainThread']\n"
    assert "Traceback" not in err
    settings = open_settings(tmp_path / "config" / "overcrank" / "gui.ini")
    assert settings.trouble == ""
    assert settings.get(LOOK) == "system", "the look of the command line is for once"
    assert not list((tmp_path / "state").rglob("gui-*")), "no report of an end that was good"


_STUCK = """
import sys, threading
import client_gui.net.thread as sockets
import client_gui.shell.windows as module
from PySide6.QtCore import QTimer

class Stuck:
    def __init__(self, *_):
        pass

    def turn(self):
        print("stuck", flush=True)
        threading.Event().wait()  # as a look-up of a name that nobody answers

    def close(self):
        pass

    def post(self, message):
        pass

sockets.Line = Stuck
kept = module.Windows.restore

def restore(self, safe=False):
    window = kept(self, safe)
    QTimer.singleShot(300, self, self.quit)
    return window

module.Windows.restore = restore
from farm.cli.main import main
sys.exit(main(["gui", "--look", "light"]))
"""


def test_a_look_up_that_hangs_does_not_make_the_end_a_crash(tmp_path: Path) -> None:
    done = _run_alone(_STUCK, tmp_path)
    assert (done.returncode, done.stdout) == (0, "stuck\n"), done.stderr
    assert "QThread" not in done.stderr
    assert not list((tmp_path / "state").rglob("gui-*")), "no report of an end that was good"


_PAINTED = """
import signal, sys
from PySide6.QtWidgets import QWidget
import client_gui.shell.windows as module

class Patch(QWidget):
    told = False

    def paintEvent(self, event):
        if not Patch.told:
            Patch.told = True
            signal.raise_signal(signal.SIGTERM)

kept = module.Windows.restore

def restore(self, safe=False):
    window = kept(self, safe)
    patch = Patch(window)
    patch.setGeometry(0, 0, 50, 50)
    patch.show()
    patch.raise_()
    return window

module.Windows.restore = restore
from farm.cli.main import main
code = main(["gui", "--look", "light"])
print("ended", Patch.told, flush=True)
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_a_signal_that_comes_while_a_window_is_painted_ends_the_program_in_order(tmp_path: Path) -> None:
    done = _run_alone(_PAINTED, tmp_path)
    assert (done.returncode, done.stdout) == (0, "ended True\n"), done.stderr
    assert "QBackingStore" not in done.stderr, "a window was closed in the middle of its painting"


def _run_alone(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program in a home of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {
            "QT_QPA_PLATFORM": "offscreen",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "HOME": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

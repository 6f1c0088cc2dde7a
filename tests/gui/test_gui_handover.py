"""A second ``farm gui`` raises the first one's window, and nothing of that can keep a client from opening."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.shell.handover import SECRET, Meeting, Wish, hand_over, meeting_name

posix = pytest.mark.skipif(sys.platform == "win32", reason="there pipes need no file")


@pytest.fixture
def name(qapp: QApplication) -> Iterator[str]:
    found = f"overcrank-{uuid.uuid4().hex}"
    yield found
    QLocalServer.removeServer(found)


@pytest.fixture
def meet(name: str) -> Iterator[Callable[..., Meeting]]:
    made: list[Meeting] = []

    def meeting(grant: Callable[[Wish], bool]) -> Meeting:
        made.append(Meeting(name, grant))
        return made[-1]

    yield meeting
    for one in made:
        one.close()
        one.deleteLater()


def second(qtbot: QtBot, name: str, wish: Wish) -> bool:
    """What a second start does, in a process of its own while this one goes on as a window's does."""
    code = (
        "import json, sys; from PySide6.QtCore import QCoreApplication; app = QCoreApplication([])\n"
        "import client_gui.shell.handover as handover\n"
        # What hangs is not waited for long; what is only slow, as all is on a busy machine, does not hang.
        "handover._CONNECT_MS = handover._ANSWER_MS = 30_000\n"
        "wish = handover.Wish(**json.loads(sys.argv[2]))\n"
        "sys.exit(0 if handover.hand_over(sys.argv[1], wish) else 9)"
    )
    program = subprocess.Popen([sys.executable, "-c", code, name, json.dumps(asdict(wish))])
    try:
        qtbot.waitUntil(lambda: program.poll() is not None, timeout=60_000)
    finally:
        program.kill()
        program.wait()
    assert program.returncode in (0, 9)
    return program.returncode == 0


def said(qtbot: QtBot, name: str, line: bytes) -> bytes:
    """What is answered to a line."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    qtbot.waitUntil(lambda: socket.state() is QLocalSocket.LocalSocketState.ConnectedState)
    socket.write(line)
    qtbot.waitUntil(lambda: socket.state() is QLocalSocket.LocalSocketState.UnconnectedState)
    return socket.readAll().data()


def test_a_wish_arrives_as_it_was_said(qtbot: QtBot, name: str, meet: Callable[..., Meeting]) -> None:
    heard: list[Wish] = []
    assert meet(lambda wish: bool(heard.append(wish)) or True).open
    wish = Wish("west", 12, "/shots/ä b.blend", "token")
    assert second(qtbot, name, wish)
    assert second(qtbot, name, Wish())
    assert heard == [wish, Wish()]


def test_what_is_not_granted_is_for_the_second_to_do(
    qtbot: QtBot, name: str, meet: Callable[..., Meeting]
) -> None:
    meet(lambda wish: wish.farm == "west")
    assert second(qtbot, name, Wish("west"))
    assert not second(qtbot, name, Wish("east"))


def test_with_nobody_there_it_is_said_at_once(qtbot: QtBot, name: str) -> None:
    assert not hand_over(name, Wish())
    assert not hand_over("", Wish())


def test_one_that_hangs_is_not_waited_for(qtbot: QtBot, name: str) -> None:
    deaf = QLocalServer()
    assert deaf.listen(name)
    # This thread never takes what comes in: it blocks in here as a client that hangs does.
    assert not hand_over(name, Wish(job=3))
    deaf.close()


@pytest.mark.parametrize(
    "line",
    [b"\n", b"[]\n", b"{\n", b'{"farm": 1}\n', b'{"farm":"","job":-1,"submit":"","token":""}\n',
     b'{"farm":"","job":true,"submit":"","token":""}\n', b"[" * 5000 + b"\n", b"\xff\xfe\n", b"x" * 70_000],
    ids=["empty", "list", "cut", "types", "negative", "flag", "deep", "bytes", "long"],
)  # fmt: skip
def test_noise_grants_nothing_and_ends(
    qtbot: QtBot, name: str, meet: Callable[..., Meeting], line: bytes
) -> None:
    heard: list[Wish] = []
    meet(lambda wish: bool(heard.append(wish)) or True)
    assert said(qtbot, name, line) == b""
    assert not heard
    assert said(qtbot, name, json.dumps(asdict(Wish(job=5))).encode() + b"\n") == b"taken\n"
    assert [one.job for one in heard] == [5]


@posix
def test_only_this_user_can_ask(name: str, meet: Callable[..., Meeting]) -> None:
    meeting = meet(lambda wish: True)
    path = Path(meeting.findChild(QLocalServer).fullServerName())
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_the_name_is_of_the_settings_and_of_a_secret(tmp_path: Path) -> None:
    one = meeting_name(tmp_path / "gui.ini", tmp_path / "state")
    assert one == meeting_name(tmp_path / "gui.ini", tmp_path / "state")
    assert one != meeting_name(tmp_path / "other.ini", tmp_path / "state")
    secret = tmp_path / "state" / SECRET
    if sys.platform != "win32":
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    secret.unlink()
    assert one != meeting_name(tmp_path / "gui.ini", tmp_path / "state")
    (tmp_path / "file").write_text("")
    assert meeting_name(tmp_path / "gui.ini", tmp_path / "file" / "state") == ""


@pytest.mark.parametrize("left", [b"", b"short", b"0" * 63 + b"\n", b"\xff" * 64])
def test_a_secret_that_was_cut_short_is_made_anew(tmp_path: Path, left: bytes) -> None:
    secret = tmp_path / SECRET
    secret.write_bytes(left)
    one = meeting_name(tmp_path / "gui.ini", tmp_path)
    assert one != ""
    assert one == meeting_name(tmp_path / "gui.ini", tmp_path), "the next client finds the first one"
    assert len(secret.read_bytes()) == 64
    if sys.platform != "win32":
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [SECRET]


@posix
def test_a_secret_that_cannot_be_written_keeps_no_client_from_opening(tmp_path: Path) -> None:
    (tmp_path / SECRET).mkdir()
    assert meeting_name(tmp_path / "gui.ini", tmp_path) == ""
    assert [path.name for path in tmp_path.iterdir()] == [SECRET]


# -- two programs --

_FIRST = """
import sys
from PySide6.QtCore import QTimer
import client_gui.shell.handover as handover
import client_gui.shell.windows as module
handover._CONNECT_MS = handover._ANSWER_MS = 30_000
kept = module.Windows.restore
def restore(self, safe=False):
    window = kept(self, safe)
    self._told = set()
    def tell():
        page = window.pages.currentWidget()
        if page is not window.room and 'ready' not in self._told:
            self._told.add('ready'); print('ready', flush=True)
    timer = QTimer(window); timer.timeout.connect(tell); timer.start(50)
    return window
def show_job(self, job):
    print('raised', job, flush=True)
def submit_file(self, path):
    print('submit', path.name, flush=True)
module.Windows.restore, module.Windows.show_job, module.Windows.submit_file = restore, show_job, submit_file
from farm.cli.main import main
sys.exit(main(['gui', *sys.argv[1:]]))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "TMPDIR": "/tmp",
    }
    made: list[subprocess.Popen[str]] = []

    def started(*arguments: str) -> subprocess.Popen[str]:
        made.append(
            subprocess.Popen(
                [sys.executable, "-c", _FIRST, *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return made[-1]

    yield started
    for one in made:
        if one.poll() is None:
            one.kill()
        one.communicate(timeout=30)


def _line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


@posix
def test_a_second_start_raises_the_first_and_a_dead_one_is_replaced(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"BLENDER")
    first = start()
    assert _line(first) == "ready"
    handed = start("--job", "J12", "--submit", str(scene))
    assert handed.wait(timeout=60) == 0
    assert [_line(first), _line(first)] == ["raised 12", "submit shot.blend"]
    other = start("--new")
    assert _line(other) == "ready", "asked for another one, it opens another one"
    other.send_signal(signal.SIGTERM)
    assert other.wait(timeout=60) == 0
    first.kill()
    first.wait(timeout=60)
    after = start()
    assert _line(after) == "ready", "what a dead one left behind is in nobody's way"
    again = start()
    assert again.wait(timeout=60) == 0
    assert _line(after) == "raised 0"
    after.send_signal(signal.SIGTERM)
    assert after.wait(timeout=60) == 0

"""One client for each user: a second ``farm gui`` raises the first one's window instead of opening another.

What belongs here: finding the client that runs, handing over what was asked for, and hearing it.  What may
not: what is done about it (``program``).

They meet under a name made of the path of the settings and a secret that only this user can read, so that no
other user of the machine can answer, or guess where to ask.  Nothing of this can keep a client from opening:
where a client does not answer at once, the second one opens its own window.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer
from PySide6.QtNetwork import QLocalServer, QLocalSocket

#: Of the file with the secret, beside the reports.
SECRET: Final = "client-meeting"
#: How long a client that runs may take to let somebody in, and to answer.
_CONNECT_MS: Final = 500
_ANSWER_MS: Final = 2000
#: Longer than any wish; who sends more is not listened to.
_MOST_BYTES: Final = 64 * 1024
_TAKEN: Final = b"taken\n"
_WHOLE: Final = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of the client.

    Attributes:
        farm: Name of a farm, "" for whichever is shown.
        job: Number of a job to open, 0 for none.
        submit: Absolute path of a file for the submit dock, "" for none.
        token: Of a desktop that lets windows come to the front only with one.
    """

    farm: str = ""
    job: int = 0
    submit: str = ""
    token: str = ""


def meeting_name(settings: Path, folder: Path) -> str:
    """The name under which the clients of this user meet; "" when no secret can be kept.

    Args:
        settings: The file of the settings: clients that share it are one.
        folder: Where the secret is kept.
    """
    path = folder / SECRET
    try:
        folder.mkdir(parents=True, exist_ok=True)
        secret = _read_secret(path)
        if not secret:  # none yet, or one that was cut short: the disk was full, the machine went down
            _write_secret(path)
            secret = _read_secret(path)  # what stands there: another client may have written it just now
    except OSError:
        return ""
    if not secret:
        return ""
    mixed = f"{settings.absolute()}\0{secret}".encode()
    return f"overcrank-{hashlib.sha256(mixed).hexdigest()[:32]}"


def _read_secret(path: Path) -> str:
    """The secret that is kept, "" for none, or none that is whole."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return ""
    return found.decode() if _WHOLE.fullmatch(found) else ""


def _write_secret(path: Path) -> None:
    """Puts a new secret in the place of what is there, whole or not at all."""
    made, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # readable by this user alone
    try:
        with os.fdopen(made, "wb") as file:
            file.write(secrets.token_hex(32).encode())
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def hand_over(name: str, wish: Wish) -> bool:
    """Hands a wish to the client that runs; False when none does, or it has no use for it.

    It takes a few milliseconds, and never longer than two and a half seconds.
    """
    if not name:
        return False
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(_CONNECT_MS):
        return False
    socket.write(json.dumps(asdict(wish)).encode() + b"\n")
    answer = b""
    while len(answer) < len(_TAKEN) and socket.waitForReadyRead(_ANSWER_MS):
        answer += socket.readAll().data()
    socket.abort()
    return answer == _TAKEN


class Meeting(QObject):
    """Hears what later clients were asked for.

    Args:
        name: Of ``meeting_name``; with "" it hears nothing.
        grant: Does what a ``Wish`` asks; says whether it did, else that client opens a window of its own.
    """

    def __init__(self, name: str, grant: Callable[[Wish], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._grant = grant
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._let_in)
        self._open = bool(name) and self._listen(name)

    @property
    def open(self) -> bool:
        """Whether it hears."""
        return self._open

    def close(self) -> None:
        """Hears nothing any more."""
        self._open = False
        self._server.close()

    def _listen(self, name: str) -> bool:
        if self._server.listen(name):
            return True
        # A client that ended suddenly left it behind, unless another one came first just now.
        probe = QLocalSocket()
        probe.connectToServer(name)
        there = probe.waitForConnected(_CONNECT_MS)
        probe.abort()
        if there:
            return False
        QLocalServer.removeServer(name)
        return self._server.listen(name)

    def _let_in(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            _Visitor(self, socket)

    def hear(self, data: bytes) -> bool:
        """Takes a line; whether what it wishes was done."""
        wish = _read(data)
        return wish is not None and self._open and self._grant(wish)


class _Visitor(QObject):
    """A client at the door: says one line, gets one, and leaves or is put out."""

    def __init__(self, meeting: Meeting, socket: QLocalSocket) -> None:
        super().__init__(meeting)
        self._meeting = meeting
        self._socket = socket
        self._data = b""
        socket.setParent(self)
        socket.readyRead.connect(self._read)
        socket.disconnected.connect(self.deleteLater)
        patience = QTimer(self)
        patience.setSingleShot(True)
        patience.timeout.connect(self._put_out)
        patience.start(_ANSWER_MS)
        self._read()

    def _put_out(self) -> None:
        self._socket.abort()

    def _read(self) -> None:
        self._data += self._socket.readAll().data()
        if b"\n" in self._data:
            if self._meeting.hear(self._data.partition(b"\n")[0]):
                self._socket.write(_TAKEN)
            self._socket.disconnectFromServer()
        elif len(self._data) > _MOST_BYTES:
            self._socket.abort()


def _read(data: bytes) -> Wish | None:
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    farm, job, submit, token = (found.get(name) for name in ("farm", "job", "submit", "token"))
    texts = all(isinstance(one, str) for one in (farm, submit, token))
    if not texts or not isinstance(job, int) or isinstance(job, bool) or job < 0:
        return None
    return Wish(str(farm), job, str(submit), str(token))

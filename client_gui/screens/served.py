"""A scenario served as a farm for as long as the pictures take.

What belongs here: the process, the folders it may write, the user it is looked at as.  What may not: Qt.

Everything it writes is in a folder of its own that goes with it: no farm of this user is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from farm.config.places import Places, read_endpoint, write_private
from farm.model.errors import CallError, FarmUnreachable, OvercrankError, StorageError
from farm.sdk.client import Farm
from farm.transport.keys import generate_keypair, save_keypair

#: How long the broker may take to serve.
START_S: Final = 60.0
#: How long everything may take to end in order before it is ended.
STOP_S: Final = 20.0
#: Name the farm is joined under by whoever looks at it.
NAME: Final = "pictures"
#: Whom the window belongs to when the scenario's jobs have no owner yet.
NOBODY: Final = "artist"


class ServedFarm:
    """A scenario served as a farm; a context manager.

    Args:
        scenario: The scenario file.
        home: Folder for all it writes; not removed.
        speed: Virtual seconds a second.

    Attributes:
        name: What it is called among the private farms.
    """

    def __init__(self, scenario: Path, home: Path, speed: float) -> None:
        self._scenario = scenario
        self._home = home
        self._speed = speed
        self._process: subprocess.Popen[str] | None = None
        self._broker = 0
        self._said: list[str] = []
        self._reader: threading.Thread | None = None
        self.name = ""

    def _places_of(self) -> dict[str, str]:
        return {
            "XDG_STATE_HOME": str(self._home / "state"),
            "XDG_CONFIG_HOME": str(self._home / "config"),
        }

    @contextlib.contextmanager
    def at_home(self) -> Iterator[None]:
        """Looks for farms in its folders, not in the user's."""
        wanted = self._places_of()
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def __enter__(self) -> ServedFarm:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- life --

    def _start(self) -> None:
        command = [sys.executable, "-m", "farm", "--json", "simulate", str(self._scenario), "--serve"]
        with (self._home / "simulate.log").open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [*command, "--speed", f"{self._speed:g}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | self._places_of(),
            )
        line = self._first_line()
        try:
            self.name = str(json.loads(line)["farm"])
        except (ValueError, KeyError, TypeError) as error:
            trouble = f"{self._scenario} cannot be served"
            raise self._error() or FarmUnreachable(trouble, hint=self._last_words()) from error

    def _first_line(self) -> str:
        """What the process says first, "" when it ends or says nothing in time."""
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        first: queue.SimpleQueue[str] = queue.SimpleQueue()

        def read() -> None:
            with contextlib.suppress(ValueError):  # closed by ``close``
                for line in stream:
                    self._said.append(line)
                    if len(self._said) == 1:
                        first.put(line)
            first.put("")

        self._reader = threading.Thread(target=read, name="simulator", daemon=True)
        self._reader.start()
        try:
            return first.get(timeout=START_S)
        except queue.Empty:
            return ""

    def _error(self) -> OvercrankError | None:
        """What the process said when it ended by itself, None when it said nothing that can be read."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        if self._reader is not None:
            self._reader.join(1.0)
        text = "".join(self._said)
        start = text.find("{", text.find("\n") + 1 if self.name else 0)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(text[start:])["error"]
            return CallError(str(told["message"]), hint=str(told.get("hint") or ""))
        return None

    def _last_words(self) -> str:
        lines = (self._home / "simulate.log").read_text("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def check(self, wait_s: float = 0.0) -> None:
        """Passes while the farm is there.

        Args:
            wait_s: How long to wait for its end, when something else tells that it is near.

        Raises:
            OvercrankError: It has ended; says why.
        """
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        if self._process.poll() is None:
            return
        code = self._process.returncode
        raise self._error() or FarmUnreachable(f"the simulated farm has ended with code {code}")

    def lose(self) -> None:
        """Ends its broker without a word, as a power cut does; its agents are left alone."""
        if self._broker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._broker, getattr(signal, "SIGKILL", signal.SIGTERM))

    def close(self) -> None:
        """Ends everything; may be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    # -- whoever looks at it --

    def guest(self, name: str) -> dict[str, str]:
        """The environment of somebody who has joined it; drafts of one are nothing another may show.

        Args:
            name: Another one for each.

        Raises:
            StorageError: The disk is full, or the like.
        """
        places = {
            "XDG_CONFIG_HOME": self._home / f"config-{name}",
            "XDG_STATE_HOME": self._home / f"state-{name}",
        }
        try:
            shutil.copytree(self._home / "config", places["XDG_CONFIG_HOME"])
        except OSError as error:
            raise StorageError(f"{places['XDG_CONFIG_HOME']} cannot be written: {error}") from error
        return os.environ | {variable: str(path) for variable, path in places.items()}

    def admit(self) -> Farm:
        """Lets somebody look at it as the owner of most jobs, under the name ``pictures``.

        Returns:
            A session with an administrator's rights, to be closed.

        Raises:
            OvercrankError: It cannot be asked.
        """
        try:
            with self.at_home():
                return self._admit()
        except FarmUnreachable:
            self.check(wait_s=3.0)  # it knows better why
            raise

    def _admit(self) -> Farm:
        places, door = Places(self.name), Places(NAME)
        endpoint = read_endpoint(places.endpoint)
        if endpoint is None:
            raise FarmUnreachable("the simulated farm does not say where it is")
        self._broker = endpoint.pid
        farm = Farm.connect(self.name)
        try:
            pair = generate_keypair()
            farm.keys("keys-add", role="wrangler", key=pair.public, label="pictures", user=_owner(farm))
            door.make()
            save_keypair(door.client_key, pair, replace=True)
            joined = msgspec.structs.replace(endpoint, pid=0)
            write_private(door.joined, msgspec.json.encode(joined).decode())
        except BaseException:
            farm.close()
            raise
        return farm


def _owner(farm: Farm, wait_s: float = 10.0) -> str:
    """Who owns most of the jobs there are; waits a moment for the first ones."""
    ends_s = time.monotonic() + wait_s
    while True:
        owners = [row.user for row in farm.jobs().jobs if row.user]
        if owners:
            return max(sorted(set(owners)), key=owners.count)
        if time.monotonic() > ends_s:
            return NOBODY
        time.sleep(0.1)

"""The agent's own folders: its state folder with lock and id, and its scratch folder.

What belongs here: making and locking them.  What it may not know: what is kept in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from farm.model.errors import StorageError
from node_agent.options import AgentOptions

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+\Z")


def lock_state(state: Path) -> int:
    """Makes the state folder and locks it; the handle holds the lock.

    Raises:
        StorageError: The folder cannot be used, or another agent uses it.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(state / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"the agent's folder {state} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise StorageError(
            f"another agent uses {state}", hint="each agent needs a state folder of its own"
        ) from error
    return handle


def claim(folder: Path) -> int | None:
    """Takes a state folder for whoever starts its agent; the handle holds it, None when it is in use.

    Raises:
        StorageError: The folder cannot be used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "starter.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        agent = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"the agent's folder {folder} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The agent of an earlier starter may not be gone yet.
        fcntl.flock(agent, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    finally:
        os.close(agent)
    return handle


def agent_id(state: Path) -> str:
    """The agent's own random id, made once per state folder.

    Raises:
        StorageError: It cannot be read or written.
    """
    path = state / "agent.id"
    try:
        if path.exists():
            return path.read_text(encoding="ascii").strip()
        name = os.urandom(8).hex()
        path.write_text(name + "\n", encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be used: {error}") from error
    return name


def make_scratch(options: AgentOptions, state: Path) -> str:
    """The agent's scratch folder, empty: a path that is plain ASCII without blanks.

    Raises:
        StorageError: It cannot be made.
    """
    base = Path(options.scratch) if options.scratch else state
    folder = (base / f"scratch-{options.name}" if options.scratch else base / "scratch").absolute()
    if not _PLAIN.match(str(folder)):
        # Several programs break on blanks or umlauts in the paths of their own temporary files.
        label = f"overcrank-{os.getuid()}-{abs(_hash(str(folder))):x}"
        folder = Path(tempfile.gettempdir()) / label
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StorageError(f"the scratch folder {folder} cannot be made: {error.strerror}") from error
    return str(folder)


class ScratchFolders:
    """Hands out empty scratch folders; one that an attempt leaves empty serves the next.

    Making and removing a folder for each of a hundred short chunks a second costs more than the rest of a
    chunk: ext4 does not use an inode again for seconds and looks past all such ones for a free one.  Safe to
    use from several threads.
    """

    def __init__(self, root: str) -> None:
        """Takes over an empty root folder."""
        self.root = root
        self._spare: list[str] = []
        self._count = itertools.count(1)

    def take(self) -> str:
        """An empty folder (0700) of nobody else's.

        Raises:
            OSError: It cannot be made.
        """
        try:
            return self._spare.pop()
        except IndexError:
            path = f"{self.root}/{next(self._count)}"
            os.mkdir(path, 0o700)  # noqa: PTH102
            return path

    def give(self, path: str) -> None:
        """Takes a folder back, with all that was left in it."""
        try:
            found = os.lstat(path)
            whole = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
            if whole and found.st_uid == os.geteuid() and not os.listdir(path):  # noqa: PTH208
                self._spare.append(path)
                return
        except OSError:
            pass  # the attempt's own processes may have done anything to it
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
            return
        with contextlib.suppress(OSError):  # a link, or a file, in its place
            os.unlink(path)  # noqa: PTH108


def _hash(text: str) -> int:
    """A number for a text that is the same in every run."""
    import zlib

    return zlib.crc32(text.encode("utf-8", "surrogateescape"))

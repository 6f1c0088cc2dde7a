"""Logs of attempts as files: ``<root>/J12/beauty/7.log``, pieces appended where they belong.

A short log that comes whole goes on a shelf with its neighbours (``farm.storage.shelves``); it is read like
any other.

What belongs here: files, offsets and limits.  What must not: who may read or write (the broker's bulk
thread decides that before it calls), or sockets.  Used by one thread.

While an attempt runs its file is called ``7.log.open``; the end marker renames it, so that whether a log
has ended outlives the broker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from farm.model.errors import CallError, StorageError
from farm.model.ids import STEP_NAME
from farm.storage.shelves import SHORT, SPAN, Shelves
from farm.storage.troubles import file_trouble

#: Most bytes kept of one attempt.
CAP = 1 << 30
#: Most bytes returned at once.
PAGE = 256 * 1024
#: How names of folders begin that are to be removed.
ASIDE = ".gone-"
#: Files held open between pieces; a farm's agents each write one or two logs at a time.
HANDLES = 64


class Appended(NamedTuple):
    """What is held after a piece: the size to go on from, and why the piece was not taken ("" = it was)."""

    size: int
    reason: str = ""


class Page(NamedTuple):
    """A part of a log: where it starts, how long the log is now, whether it has ended."""

    offset: int
    size: int
    data: bytes
    ended: bool


class LogStore:
    """Attempts' logs below a folder.

    An attempt is given by its job's number, its step's name and its number within the step.  Every method
    may raise CallError (these are no job, step and number) and StorageError (the disk is full or broken).
    """

    def __init__(self, root: Path | str, *, cap: int = CAP, handles: int = HANDLES) -> None:
        """Logs below ``root``, which is made (0700) with the first of them.

        Args:
            root: The folder.
            cap: Most bytes kept of one attempt.
            handles: Most files held open.
        """
        self.root = Path(root)
        self._cap = cap
        self._most = max(1, handles)
        self._handles: OrderedDict[tuple[int, str, int], int] = OrderedDict()
        self._shelves = Shelves()

    def append(
        self, job: int, step: str, no: int, offset: int, data: bytes, *, end: bool = False
    ) -> Appended:
        """Appends the part of a piece that is not held yet.

        A repeated piece, or one that overlaps, changes nothing that is held.  A piece that would leave a gap
        is refused: the sender goes on from ``size``.  What goes beyond the cap is dropped, and said so.

        Args:
            job, step, no: The attempt.
            offset: Where the piece belongs.
            data: The piece.
            end: Nothing follows this piece.
        """
        self._path(job, step, no)
        if offset < 0:
            raise CallError(f"J{job}/{step}@{no}: a log has no offset {offset}")
        if end and offset == 0 and len(data) <= SHORT:
            (kept,) = self.append_whole([(job, step, no, data)])
            return kept
        return self._append(job, step, no, offset, data, end=end)

    def _append(self, job: int, step: str, no: int, offset: int, data: bytes, *, end: bool) -> Appended:
        path = self._path(job, step, no)
        size = None
        if (job, step, no) not in self._handles:
            size = _size(path)
            if size is None:
                shelf = self._shelves.find(str(path.parent), no)
                size = shelf.size(no) if shelf is not None else None
        if size is not None:
            behind = offset + len(data) > size
            return Appended(size, "the log has ended already" if behind else "")
        handle = self._handle(job, step, no, path)
        try:
            size = os.fstat(handle).st_size
            if offset > size:
                return Appended(size, f"the log holds {size} bytes, a piece at {offset} would leave a gap")
            new = data[size - offset :][: max(0, self._cap - size)]
            size = _write(handle, new, size)
            dropped = offset + len(data) > size
            if end:
                os.fsync(handle)
                self._drop((job, step, no))
                _open_name(path).replace(path)
        except OSError as error:
            # What was written of the piece is right and stays; the sender learns the size next time.
            self._drop((job, step, no))
            raise file_trouble(path, error) from error
        if dropped:
            return Appended(size, f"the log is full at {self._cap} bytes, the rest is dropped")
        return Appended(size)

    def append_whole(self, logs: Sequence[tuple[int, str, int, bytes]]) -> list[Appended]:
        """Keeps logs that came whole, each with its job, step, number and text; one flush for all of them.

        Any that is long, or of which a part is held already, is treated as a last piece from offset 0.
        """
        answers: list[Appended] = []
        shelved: dict[str, list[tuple[int, bytes]]] = {}
        seen: dict[tuple[int, str, int], int] = {}
        for job, step, no, data in logs:
            key = (job, step, no)
            folder = str(self._path(job, step, no).parent)
            size = seen.get(key)
            if size is None:
                size = self._held(key, folder, no)
            if size is not None:
                behind = len(data) > size
                answers.append(Appended(size, "the log has ended already" if behind else ""))
            elif (
                len(data) > min(SHORT, self._cap) or key in self._handles or _lies(f"{folder}/{no}.log.open")
            ):
                answers.append(self._append(job, step, no, 0, data, end=True))
            else:
                seen[key] = len(data)
                shelved.setdefault(folder, []).append((no, data))
                answers.append(Appended(len(data)))
        for folder, texts in shelved.items():
            self._shelve(folder, texts)
        self._shelves.flush()
        return answers

    def _held(self, key: tuple[int, str, int], folder: str, no: int) -> int | None:
        """Length of a log that has ended, None when it has not."""
        if key in self._handles:
            return None
        shelf = self._shelves.find(folder, no)
        size = shelf.size(no) if shelf is not None else None
        if size is None and _lies(f"{folder}/{no}.log"):
            size = _size(Path(folder, f"{no}.log"))
        return size

    def _shelve(self, folder: str, texts: list[tuple[int, bytes]]) -> None:
        by_shelf: dict[int, list[tuple[int, bytes]]] = {}
        for no, data in texts:
            by_shelf.setdefault(no // SPAN, []).append((no, data))
        for some in by_shelf.values():
            path = Path(folder, f"{some[0][0]}.log")
            try:
                shelf = self._shelves.find(folder, some[0][0])
                if shelf is None:
                    make_folders(self.root, Path(folder))
                    shelf = self._shelves.find(folder, some[0][0], make=True)
                    assert shelf is not None
                shelf.add(some)
            except OSError as error:
                raise file_trouble(path, error) from error

    def read(self, job: int, step: str, no: int, offset: int = 0, limit: int = PAGE) -> Page:
        """A page of a log, empty where there is none.

        Args:
            job, step, no: The attempt.
            offset: Where to start; negative counts from the end.
            limit: Most bytes; never more than PAGE.
        """
        path = self._path(job, step, no)
        for name, ended in ((path, True), (_open_name(path), False), (path, True)):
            # The third look is for a log that ended between the first two.
            try:
                handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise file_trouble(name, error, "read") from error
            try:
                size = os.fstat(handle).st_size
                start = max(0, size + offset) if offset < 0 else min(offset, size)
                data = os.pread(handle, max(0, min(limit, PAGE, size - start)), start)
            except OSError as error:
                raise file_trouble(name, error, "read") from error
            finally:
                os.close(handle)
            return Page(start, size, data, ended)
        return self._read_shelf(path, no, offset, limit)

    def _read_shelf(self, path: Path, no: int, offset: int, limit: int) -> Page:
        shelf = self._shelves.find(str(path.parent), no)
        held = shelf.size(no) if shelf is not None else None
        if shelf is None or held is None:
            return Page(0, 0, b"", False)
        start = max(0, held + offset) if offset < 0 else min(offset, held)
        try:
            data = shelf.read(no, start, max(0, min(limit, PAGE)))
        except OSError as error:
            raise file_trouble(path, error, "read") from error
        return Page(start, held, data, True)

    def size(self, job: int, step: str, no: int) -> int:
        """How many bytes are held."""
        path = self._path(job, step, no)
        return _size(path) or _size(_open_name(path)) or self._read_shelf(path, no, 0, 0).size

    def remove_job(self, job: int) -> None:
        """Removes all logs of a job."""
        folder = self.root / job_folder(job)
        for key in [key for key in self._handles if key[0] == job]:
            self._drop(key)
        self._shelves.forget(str(folder))
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise file_trouble(folder, error, "removed") from error

    def set_aside(self, job: int) -> bool:
        """Takes all logs of a job out of the way at once; somebody else removes them.

        Returns:
            Whether there were any.
        """
        folder = self.root / job_folder(job)
        for key in [key for key in self._handles if key[0] == job]:
            self._drop(key)
        self._shelves.forget(str(folder))
        return aside(folder)

    def close(self) -> None:
        """Closes every file; the store may be used again."""
        for key in list(self._handles):
            self._drop(key)
        self._shelves.close()

    # -- files --

    def _path(self, job: int, step: str, no: int) -> Path:
        if not 0 < no < 1_000_000_000:
            raise CallError(f"J{job}/{step}: there is no attempt {no}")
        return unit_folder(self.root, job, step) / f"{no}.log"

    def _handle(self, job: int, step: str, no: int, path: Path) -> int:
        key = (job, step, no)
        handle = self._handles.get(key)
        if handle is not None:
            self._handles.move_to_end(key)
            return handle
        name = _open_name(path)
        try:
            make_folders(self.root, path.parent)
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise file_trouble(name, error) from error
        self._handles[key] = handle
        while len(self._handles) > self._most:
            self._drop(next(iter(self._handles)))
        return handle

    def _drop(self, key: tuple[int, str, int]) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)


def unit_folder(root: Path, job: int, step: str) -> Path:
    """The folder of a step's files below a root.

    Step names start with a letter or ``_`` and hold no separator, so none leads out of the root; anything
    else is refused here whatever was checked before.

    Raises:
        CallError: No job has that number, or no step that name.
    """
    if not isinstance(step, str) or not STEP_NAME.match(step):
        raise CallError(f"{step!r} is not the name of a step")
    return root / job_folder(job) / step


def make_folders(root: Path, folder: Path) -> None:
    """Makes a step's folder and those above it up to the root, each readable by its owner only."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def aside(folder: Path) -> bool:
    """Gives a job's folder a name under which nobody looks for it; False = there is none.

    Raises:
        StorageError: The disk refuses.
    """
    number, target = 1, folder.with_name(f"{ASIDE}{folder.name}")
    try:
        while target.exists():
            number += 1
            target = folder.with_name(f"{ASIDE}{folder.name}.{number}")
        folder.rename(target)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise file_trouble(folder, error, "removed") from error
    return True


def job_folder(job: int) -> str:
    """Name of the folder of a job's files.

    Raises:
        CallError: No job has that number.
    """
    if not 0 < job < 10**15:
        raise CallError(f"there is no job {job}")
    return f"J{job}"


def _open_name(path: Path) -> Path:
    return path.with_name(path.name + ".open")


def _lies(path: str) -> bool:
    """Whether something has that name; cheaper than asking for its size where there is nothing, as a rule."""
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise file_trouble(path, error, "read") from error


def _write(handle: int, data: bytes, offset: int) -> int:
    """Writes all of it and returns the offset behind it."""
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, offset)
        if count == 0:
            raise StorageError("a log takes no more bytes")
        view, offset = view[count:], offset + count
    return offset

"""Preview pictures as files, the newest of each unit: ``<root>/J12/beauty/17.7.jpg`` (unit 17, attempt 7).

What belongs here: files and limits.  What must not: pixels (the bytes are an agent's JPEG, passed on as
they are), who may see them, or sockets.  Used by one thread.

Previews are a convenience: when they take more than the cap, the ones written longest ago go.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from farm.model.errors import CallError
from farm.model.ids import STEP_NAME
from farm.storage.logs import aside, job_folder, make_folders, unit_folder
from farm.storage.troubles import file_trouble

#: Largest preview: one message on the bulk socket.
LARGEST = 256 * 1024
#: Most bytes of all previews together.
TOTAL = 512 * 1024 * 1024

_JOB = re.compile(r"J([1-9]\d{0,14})\Z")
_FILE = re.compile(r"(\d{1,9})\.([1-9]\d{0,8})\.jpg\Z")


class _Kept(NamedTuple):
    no: int
    size: int


class PreviewStore:
    """The newest preview of each unit below a folder.

    Every method may raise CallError (these are no job, step and unit) and StorageError (the disk is full
    or broken).
    """

    def __init__(self, root: Path | str, *, largest: int = LARGEST, total: int = TOTAL) -> None:
        """Previews below ``root``; what is there already is looked at with the first use.

        Args:
            root: The folder, made (0700) with the first preview.
            largest: Most bytes of one preview.
            total: Most bytes of all.
        """
        self.root = Path(root)
        self._largest = largest
        self._most = total
        self._index: OrderedDict[tuple[int, str, int], _Kept] | None = None
        self._bytes = 0

    def put(self, job: int, step: str, unit: int, no: int, data: bytes) -> bool:
        """Keeps a preview, unless a later attempt's is held; a reader sees the old one or the new, whole.

        Args:
            job, step: The step.
            unit: Index of the unit.
            no: Attempt number within the step.
            data: The picture.

        Returns:
            Whether it is kept.

        Raises:
            CallError: It is empty or too large, besides.
        """
        folder = self._folder(job, step, unit)
        if not 0 < no < 1_000_000_000:
            raise CallError(f"J{job}/{step}: there is no attempt {no}")
        if not 0 < len(data) <= self._largest:
            raise CallError(
                f"J{job}/{step}@{no}: a preview of {len(data)} bytes; 1 to {self._largest} are taken"
            )
        index = self._scanned()
        key = (job, step, unit)
        old = index.get(key)
        if old is not None and old.no > no:
            return False
        path = folder / _name(unit, no)
        partial = folder / f".{unit}.partial"
        try:
            make_folders(self.root, folder)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise file_trouble(path, error) from error
        if old is not None and old.no != no:
            _remove(folder / _name(unit, old.no))
        self._forget(key)
        index[key] = _Kept(no, len(data))
        self._bytes += len(data)
        self._prune()
        return True

    def get(self, job: int, step: str, unit: int) -> bytes:
        """The newest preview of a unit, empty when there is none."""
        folder = self._folder(job, step, unit)
        key = (job, step, unit)
        kept = self._scanned().get(key)
        if kept is None:
            return b""
        path = folder / _name(unit, kept.no)
        try:
            return path.read_bytes()
        except FileNotFoundError:  # someone cleaned up by hand
            self._forget(key)
            return b""
        except OSError as error:
            raise file_trouble(path, error, "read") from error

    def remove_job(self, job: int) -> None:
        """Removes all previews of a job."""
        folder = self.root / job_folder(job)
        for key in [key for key in self._scanned() if key[0] == job]:
            self._forget(key)
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise file_trouble(folder, error, "removed") from error

    def set_aside(self, job: int) -> bool:
        """Takes all previews of a job out of the way at once; somebody else removes them.

        Returns:
            Whether there were any.
        """
        for key in [key for key in self._scanned() if key[0] == job]:
            self._forget(key)
        return aside(self.root / job_folder(job))

    @property
    def total(self) -> int:
        """Bytes of all previews held."""
        self._scanned()
        return self._bytes

    # -- what is there --

    def _folder(self, job: int, step: str, unit: int) -> Path:
        if not 0 <= unit < 1_000_000_000:
            raise CallError(f"J{job}/{step}: there is no unit {unit}")
        return unit_folder(self.root, job, step)

    def _scanned(self) -> OrderedDict[tuple[int, str, int], _Kept]:
        """The index, oldest first; made from the files the first time."""
        if self._index is None:
            try:
                self._index = self._scan()
            except OSError as error:
                raise file_trouble(self.root, error, "read") from error
            self._bytes = sum(kept.size for kept in self._index.values())
            self._prune()
        return self._index

    def _scan(self) -> OrderedDict[tuple[int, str, int], _Kept]:
        found: list[tuple[int, tuple[int, str, int], _Kept]] = []
        newest: dict[tuple[int, str, int], int] = {}
        for job, step, entry in _entries(self.root):
            match = _FILE.match(entry.name)
            if match is None:
                if entry.name.endswith(".partial"):  # a broker ended while it wrote this
                    _remove(Path(entry.path))
                continue
            facts = entry.stat(follow_symlinks=False)
            key, no = (job, step, int(match[1])), int(match[2])
            newest[key] = max(no, newest.get(key, 0))
            found.append((facts.st_mtime_ns, key, _Kept(no, facts.st_size)))
        index: OrderedDict[tuple[int, str, int], _Kept] = OrderedDict()
        for _, key, kept in sorted(found):
            if kept.no == newest[key]:
                index[key] = kept
            else:  # a broker ended between keeping the new one and removing this
                _remove(unit_folder(self.root, key[0], key[1]) / _name(key[2], kept.no))
        return index

    def _forget(self, key: tuple[int, str, int]) -> None:
        kept = self._index.pop(key, None) if self._index is not None else None
        if kept is not None:
            self._bytes -= kept.size

    def _prune(self) -> None:
        index = self._index
        while index and self._bytes > self._most:
            key = next(iter(index))
            folder = unit_folder(self.root, key[0], key[1])
            _remove(folder / _name(key[2], index[key].no))
            self._forget(key)
            with contextlib.suppress(OSError):  # only an empty folder goes
                folder.rmdir()
                folder.parent.rmdir()


def _name(unit: int, no: int) -> str:
    return f"{unit}.{no}.jpg"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _entries(root: Path) -> list[tuple[int, str, os.DirEntry[str]]]:
    found: list[tuple[int, str, os.DirEntry[str]]] = []
    for job in _listed(root):
        match = _JOB.match(job.name)
        if match is None or not job.is_dir(follow_symlinks=False):
            continue
        for step in _listed(Path(job.path)):
            if STEP_NAME.match(step.name) and step.is_dir(follow_symlinks=False):
                found += [(int(match[1]), step.name, entry) for entry in _listed(Path(step.path))]
    return found


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []

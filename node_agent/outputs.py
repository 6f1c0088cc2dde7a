"""Output files of one attempt: its own folders, verification, publishing, adoption, removal.

What belongs here: everything that touches the files a step is to write.  What it may not know: processes,
threads, the broker; whether a file may be published is asked through a callable.

An attempt writes into a folder of its own inside each destination folder, hence on the same file system, so
that publishing is one atomic rename.  The folder is only ever reached relative to its destination's
descriptor, without following links, and must be the very one that was made: a link planted in its place
leads nowhere.  A link planted at a file's final name is replaced by the rename, not followed.
"""

# Paths are data: their text stays as the job says it, and files are reached by folder descriptors.
# ruff: noqa: PTH103, PTH112, PTH113, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from farm.media.verify import Kind, verify_file
from farm.model.errors import OutputError
from farm.model.ids import ATTEMPT_FOLDER
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.paths import basename_of, folder_of, frame_of
from farm.model.states import FailureClass
from node_agent.troubles import Superseded, WorkTrouble, destination_trouble

log = logging.getLogger("overcrank.agent")

#: How long a folder is emptied that a process of a lost attempt still fills, and how often it is looked at.
FILLS_S = 10.0
_LOOK_S = 0.02
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OWN_FOLDER = _FOLDER | os.O_NOFOLLOW


class Expected(msgspec.Struct, frozen=True):
    """One file a unit must have.

    Attributes:
        output: Index of the step's output.
        frame: Frame number, None for a single step.
        final: Where it is published: absolute path on this machine.
        kind: ``sequence``, ``movie`` or ``single``, as the job says.
        neighbour: Final path of the frame before, "" if there is none.
        any_frame: ``final`` is a pattern, and the program decides which frames it writes (a single step
            with a sequence as its output): at least one, and every one of them is verified.
    """

    output: int
    frame: int | None
    final: str
    kind: str
    neighbour: str = ""
    any_frame: bool = False

    @property
    def folder(self) -> str:
        """Destination folder."""
        return folder_of(self.final)

    @property
    def name(self) -> str:
        """File name."""
        return basename_of(self.final)


class Hooks(msgspec.Struct, frozen=True):
    """Fault injection for tests and the demo; never set in ordinary work.

    Attributes:
        damage_frame: This frame's files are cut to half before every verification.
        pause_before_publish: Path of a FIFO that is opened for reading between the last check of the
            fence and the rename.
    """

    damage_frame: int | None = None
    pause_before_publish: str = ""


class AttemptFiles:
    """The folders and files of one attempt."""

    def __init__(
        self,
        name: str,
        expected: Iterable[Expected],
        hooks: Hooks | None = None,
        verify: Callable[..., FileFacts] = verify_file,
    ) -> None:
        """Plans the files; touches nothing.

        Args:
            name: The attempt folder's name (``farm.model.ids.attempt_folder``).
            expected: All files of the attempt.
            hooks: Fault injection.
            verify: Verifies one file, as ``farm.media.verify.verify_file`` does.
        """
        if not ATTEMPT_FOLDER.match(name):
            raise ValueError(f"{name!r} is not the name of an attempt's folder")
        self.name = name
        self.expected = tuple(expected)
        self.folders = tuple(dict.fromkeys(file.folder for file in self.expected))
        self._hooks = hooks or Hooks()
        self._verify_file = verify
        self._made: dict[str, tuple[int, int]] = {}

    @property
    def own_folders(self) -> tuple[str, ...]:
        """Paths of the attempt's own folders."""
        return tuple(os.path.join(folder, self.name) for folder in self.folders)

    def path_of(self, file: Expected) -> str:
        """Where the renderer writes the file: inside the attempt's own folder."""
        return os.path.join(file.folder, self.name, file.name)

    def make_folders(self) -> None:
        """Makes the destination folders that are missing, and the attempt's own folder in each.

        Raises:
            WorkTrouble: A destination cannot be used.
        """
        for folder in self.folders:
            self._make_destination(folder)
            try:
                with _opened(folder) as place:
                    os.mkdir(self.name, dir_fd=place)
                    facts = os.stat(self.name, dir_fd=place, follow_symlinks=False)
            except FileExistsError:
                raise WorkTrouble(
                    FailureClass.PATH, f"something already has the name {folder}/{self.name}; not touched"
                ) from None
            except OSError as error:
                raise destination_trouble(error, folder, "cannot write to the folder") from error
            self._made[folder] = (facts.st_dev, facts.st_ino)

    @staticmethod
    def _make_destination(folder: str) -> None:
        if os.path.isdir(folder):
            return
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError:
            raise WorkTrouble(FailureClass.PATH, f"{folder} is a file, not a folder") from None
        except OSError as error:
            raise destination_trouble(error, folder, "cannot make the folder") from error

    @contextlib.contextmanager
    def _own(self, folder: str) -> Iterator[tuple[int, int]]:
        """Descriptors of a destination folder and of the attempt's own folder in it."""
        with _opened(folder) as place:
            try:
                own = os.open(self.name, _OWN_FOLDER, dir_fd=place)
            except FileNotFoundError:
                raise Superseded(f"{folder}/{self.name} is gone") from None
            try:
                facts = os.fstat(own)
                made = self._made.get(folder)
                if made is not None and made != (facts.st_dev, facts.st_ino):
                    raise WorkTrouble(
                        FailureClass.PATH, f"{folder}/{self.name} is not the folder this attempt made"
                    )
                yield place, own
            finally:
                os.close(own)

    # -- verification --

    def verify(
        self,
        files: Sequence[Expected],
        specs: Sequence[PictureSpec | None],
        checks: Sequence[str],
        movie_frames: int | None,
        *,
        in_place: bool = False,
    ) -> tuple[FileFacts, ...]:
        """Verifies the files of one unit; what is found good is flushed to the disk.

        Args:
            files: All files of the unit.
            specs: Expected specification per output; shorter or None where unknown.
            checks: Optional picture checks.
            movie_frames: Frames a movie must have, None = not checked.
            in_place: Look at the final files instead of those in the attempt's folder.

        Returns:
            Facts with final paths.

        Raises:
            OutputError: A file is missing, empty, damaged or not as specified.
            WorkTrouble: The file system is in trouble.
        """
        found = []
        for planned in files:
            for file in self._written(planned, in_place=in_place) if planned.any_frame else (planned,):
                path = file.final if in_place else self.path_of(file)
                expected = specs[file.output] if file.output < len(specs) else None
                found.append(self._verify(file, path, expected, checks, movie_frames, flush=not in_place))
        return tuple(found)

    def changed_ns(self, files: Sequence[FileFacts]) -> int:
        """When the last of these files, still in the attempt's folder, was changed in any way; 0 = unknown.

        By the file's own clock, not by the time a program may set: a copy can look older than it is.
        """
        latest = 0
        for facts in files:
            folder, name = os.path.split(facts.path)
            try:
                latest = max(latest, os.lstat(os.path.join(folder, self.name, name)).st_ctime_ns)
            except OSError:
                return 0
        return latest

    def _written(self, planned: Expected, *, in_place: bool) -> list[Expected]:
        """What a program wrote of a sequence whose frames it chose itself, in frame order."""
        folder = planned.folder if in_place else os.path.join(planned.folder, self.name)
        frames = {}
        try:
            for name in os.listdir(folder):
                frame = frame_of(planned.name, name)
                if frame is not None:
                    frames[frame] = msgspec.structs.replace(
                        planned, final=os.path.join(planned.folder, name), any_frame=False
                    )
        except FileNotFoundError:
            pass
        except OSError as error:
            raise destination_trouble(error, folder, "cannot look into") from error
        if not frames:
            raise OutputError(f"{planned.final}: no file of this sequence was written", planned.final)
        return [frames[frame] for frame in sorted(frames)]

    def _verify(
        self,
        file: Expected,
        path: str,
        expected: PictureSpec | None,
        checks: Sequence[str],
        movie_frames: int | None,
        *,
        flush: bool,
    ) -> FileFacts:
        if flush:
            _refuse_odd(path, file.final)
            if self._hooks.damage_frame is not None and file.frame == self._hooks.damage_frame:
                _damage(path)
        kind: Kind | None = "movie" if file.kind == "movie" else None
        neighbour = Path(file.neighbour) if "neighbour" in checks and _is_file(file.neighbour) else None
        used = tuple(check for check in checks if check != "neighbour" or neighbour is not None)
        try:
            facts = self._verify_file(
                path,
                kind,
                expected=expected,
                checks=used,
                neighbour=neighbour,
                frames=movie_frames if kind == "movie" else None,
            )
        except OutputError as error:
            raise OutputError(error.message.replace(path, file.final), file.final, hint=error.hint) from error
        if flush:
            try:
                _flush_file(path)
            except OSError as error:
                raise destination_trouble(error, file.final, "cannot flush") from error
        return msgspec.structs.replace(facts, path=file.final, output=file.output)

    # -- publishing --

    def publish(self, finals: Sequence[str], allowed: Callable[[], bool]) -> int:
        """Moves a unit's files to their final names, each by one atomic rename.

        Args:
            finals: Final paths of the unit's verified files that are not published yet, in order.
            allowed: The fence; asked right before every rename.

        Returns:
            How many were moved: fewer than all when the fence closed in between.

        Raises:
            Superseded: Another attempt emptied this one's folder.
            WorkTrouble: The destination refuses.
        """
        for count, final in enumerate(finals):
            name = basename_of(final)
            try:
                with self._own(folder_of(final)) as (place, own):
                    if not allowed():
                        return count
                    if self._hooks.pause_before_publish:
                        _pause(self._hooks.pause_before_publish)
                    try:
                        os.rename(name, name, src_dir_fd=own, dst_dir_fd=place)
                    except FileNotFoundError:
                        raise Superseded(f"{name} is gone from {self.name}") from None
                    _flush_folder(place)
            except OSError as error:
                raise destination_trouble(error, final, "cannot publish") from error
        return len(finals)

    # -- other attempts' folders --

    def empty(self, names: Iterable[str]) -> None:
        """Removes the folders of attempts that this one supersedes.

        A stalled rename of such an attempt then finds no source.

        Raises:
            WorkTrouble: One cannot be removed: then nothing may be published.
        """
        for name in names:
            for folder in self.folders:
                remove_folder(folder, name)

    def adopt(self, name: str, files: Sequence[Expected]) -> None:
        """Takes a unit's files over from the folder of a lost attempt of this agent.

        Raises:
            OutputError: A file is not there any more.
            WorkTrouble: The file system is in trouble.
        """
        if not ATTEMPT_FOLDER.match(name):
            raise WorkTrouble(FailureClass.CONFIG, f"{name!r} is not the name of an attempt's folder")
        for file in files:
            try:
                with self._own(file.folder) as (place, own):
                    old = os.open(name, _OWN_FOLDER, dir_fd=place)
                    try:
                        os.rename(file.name, file.name, src_dir_fd=old, dst_dir_fd=own)
                    finally:
                        os.close(old)
            except FileNotFoundError:
                raise OutputError(f"{file.final}: the kept file is not there any more", file.final) from None
            except OSError as error:
                raise destination_trouble(error, file.final, "cannot adopt") from error

    # -- the end --

    def keep_only(self, finals: Iterable[str]) -> None:
        """Removes all but the files of these final paths from the attempt's folders, and empty ones."""
        wanted: dict[str, set[str]] = {folder: set() for folder in self.folders}
        for final in finals:
            wanted[folder_of(final)].add(basename_of(final))
        for folder, names in wanted.items():
            if not names:
                self._remove(folder)
                continue
            with contextlib.suppress(OSError, Superseded), self._own(folder) as (_, own):
                for entry in os.listdir(own):
                    if entry not in names:
                        with contextlib.suppress(OSError):
                            if stat.S_ISDIR(os.lstat(entry, dir_fd=own).st_mode):
                                shutil.rmtree(entry, dir_fd=own)
                            else:
                                os.unlink(entry, dir_fd=own)

    def remove(self) -> None:
        """Removes the attempt's own folders; what cannot be removed is logged and left."""
        for folder in self.folders:
            if folder in self._made:
                self._remove(folder)

    def _remove(self, folder: str) -> None:
        try:
            remove_folder(folder, self.name)
        except WorkTrouble as trouble:
            log.warning("event=folder-left path=%s/%s reason=%s", folder, self.name, trouble.message)


def remove_folder(folder: str, name: str, patience_s: float = FILLS_S) -> None:
    """Removes one attempt's folder from a destination folder; nothing there is fine.

    A process of a lost attempt may still be writing there: it is looked at again until nothing is left, since
    such a process is stopped by its own agent before long.

    Raises:
        WorkTrouble: It cannot be removed, or the name is not one of the farm's own.
    """
    if not ATTEMPT_FOLDER.match(name):
        raise WorkTrouble(FailureClass.CONFIG, f"{name!r} is not the name of an attempt's folder")
    path, until_s = os.path.join(folder, name), time.monotonic() + patience_s
    while True:
        try:
            _remove_once(folder, name)
            return
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise destination_trouble(error, path, "cannot remove") from error
            if not os.path.lexists(path):
                return  # the destination itself is gone, or somebody else removed it
            if time.monotonic() > until_s:
                raise WorkTrouble(FailureClass.PATH, f"cannot remove {path}: it fills again") from None
        time.sleep(_LOOK_S)


def _remove_once(folder: str, name: str) -> None:
    with _opened(folder) as place:
        try:
            facts = os.stat(name, dir_fd=place, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(facts.st_mode):
            shutil.rmtree(name, dir_fd=place)
        else:
            # A link or file planted there: only itself goes, never what it points to.
            os.unlink(name, dir_fd=place)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    place = os.open(folder, _FOLDER)
    try:
        yield place
    finally:
        os.close(place)


def _is_file(path: str) -> bool:
    return bool(path) and os.path.isfile(path)


def _refuse_odd(path: str, final: str) -> None:
    """Only a plain file counts as written; a link could point anywhere once it is moved."""
    try:
        facts = os.lstat(path)
    except OSError:
        return
    if stat.S_ISLNK(facts.st_mode):
        raise OutputError(f"{final}: the program wrote a link, not a file", final)


def _flush_file(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_folder(place: int) -> None:
    try:
        os.fsync(place)
    except OSError as error:
        # Some network file systems cannot flush a folder; their server orders names itself.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise


def _damage(path: str) -> None:
    with contextlib.suppress(OSError):
        size = os.stat(path, follow_symlinks=False).st_size
        os.truncate(path, size // 2)
        log.warning("event=damaged-on-purpose path=%s bytes=%d", path, size // 2)


def _pause(fifo: str) -> None:
    log.warning("event=paused-on-purpose fifo=%s", fifo)
    with open(fifo, "rb") as pipe:
        pipe.read()

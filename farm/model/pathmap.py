"""Absolute paths of any system as data, and the rules that map them from one machine to another.

What belongs here: telling POSIX, drive-letter and UNC paths apart, comparing them the way their
system does, and swapping one prefix for another.  What must not: the file system; whether a path
exists is for whoever stands on that machine.  Callers import this through ``farm.model.paths``.

Only the prefix is ever interpreted.  What follows passes through as it is (tokens such as ``<UDIM>``,
``$F4``, ``####`` or ``%04d`` included), except that separators become those of the other system.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from farm.model.errors import CallError

Os = Literal["", "linux", "macos", "windows"]
PathStyle = Literal["posix", "drive", "unc", "relative"]

#: Win32 file namespace: ``\\?\C:\x`` is ``C:\x``, ``\\?\UNC\host\share`` is ``\\host\share``.
_LONG = re.compile(r"[\\/]{2}\?[\\/](?:(?P<unc>[Uu][Nn][Cc][\\/])|(?=[A-Za-z]:))")
_DRIVE = re.compile(r"[A-Za-z]:(?=[\\/]|\Z)")
_UNC = re.compile(r"(?:\\\\|//)(?=[^\\/])|\\/|/\\")
_POSIX_PART = re.compile(r"[^/]+")
_WINDOWS_PART = re.compile(r"[^\\/]+")


class PathRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mapping: what lies under ``source`` on an artist's machine lies under ``target`` here.

    Attributes:
        source: Absolute folder as the submitting machine sees it, e.g. ``P:\\proj`` or ``/Volumes/proj``.
        target: Absolute folder as the agents of the site see it.
        os: System of the source; ``""`` tells it from the path.  Given, it only guards against a
            source that no machine of that system can have.
    """

    source: str
    target: str
    os: Os = ""

    def __post_init__(self) -> None:
        for name, path in (("source", self.source), ("target", self.target)):
            if "\0" in path:
                raise CallError(f"the {name} of a path rule holds a NUL: {path!r}")
            if path_style(path) == "relative":
                raise CallError(
                    f"the {name} of a path rule must be absolute, not {path!r}",
                    hint="write /folder, P:\\folder or \\\\HOST\\share",
                )
        style = path_style(self.source)
        if self.os and (self.os == "windows") != (style != "posix"):
            raise CallError(
                f"{self.source!r} is no path of {self.os}", hint="mend the rule's source or its os"
            )


class _Side(msgspec.Struct, frozen=True):
    """A prefix ready to be compared: its style, its comparable parts, and the other side's root."""

    style: PathStyle
    parts: tuple[str, ...]
    root: str


class PathMapper:
    """Maps paths by the rule with the longest matching prefix; of equals, the first listed.

    Prefixes match whole components, so ``/proj`` has nothing to say about ``/project``.  Windows
    paths (drive letter or UNC) compare without regard to case and with ``/`` and ``\\`` alike, POSIX
    paths exactly; Unicode composed and decomposed compare equal, since macOS hands out the latter.
    A path that climbs out of its prefix by ``..`` is not under it.  A path is mapped once, never
    through two rules.
    """

    def __init__(self, rules: Iterable[PathRule] = ()) -> None:
        self.rules = tuple(rules)
        self._forward = _sides([(rule.source, rule.target) for rule in self.rules])
        self._backward = _sides([(rule.target, rule.source) for rule in self.rules])

    def map(self, path: str) -> str:
        """The path as the rules' targets see it; unchanged when no rule covers it."""
        return _swap(path, self._forward)

    def reverse(self, path: str) -> str:
        """The path as the artist's machine sees it; unchanged when it is under no target."""
        return _swap(path, self._backward)

    def covers(self, path: str) -> bool:
        """Whether a rule has something to say about this path."""
        return _match(path, self._forward) is not None


def path_style(path: str) -> PathStyle:
    r"""What kind of absolute path this is.

    ``//HOST/share`` is the same UNC path as ``\\HOST\share``; a drive letter without a separator
    (``C:x``) and a lone leading backslash depend on a current folder, hence are relative.
    """
    return _style(path)[0]


def is_absolute(path: str) -> bool:
    """Whether the path means the same wherever a program stands: POSIX, drive-letter or UNC."""
    return path_style(path) != "relative" and not re.fullmatch("[A-Za-z]:", path)


def is_windows(path: str) -> bool:
    """Whether the path has a drive letter or is UNC, so that a backslash separates."""
    return path_style(path) in ("drive", "unc")


def separator_of(path: str) -> str:
    """The separator to use under this folder: its own where it shows one."""
    if not is_windows(path):
        return "/"
    return "/" if "/" in path and "\\" not in path else "\\"


def join(folder: str, rest: str) -> str:
    """``rest`` under ``folder``, with the folder's separator and never two in a row."""
    if not folder or not rest:
        return folder + rest
    ends = "\\/" if is_windows(folder) else "/"
    return folder + rest if folder[-1] in ends else folder + separator_of(folder) + rest


def comparable(path: str) -> tuple[PathStyle, tuple[str, ...]]:
    """Style and parts such that equal values name the same file, as far as text can tell.

    ``.`` and doubled separators are dropped and ``..`` is resolved by text (a symbolic link in
    between is not seen).
    """
    style, parts = _parse(path)
    kept: list[str] = []
    for part, _ in parts:
        if part == ".." and kept and kept[-1] != ".." and len(kept) > _fixed(style):
            kept.pop()
        elif part != ".." or style == "relative":
            kept.append(part)
    return style, tuple(kept)


def _fixed(style: PathStyle) -> int:
    """How many leading parts ``..`` cannot remove: a drive, or a host and its share."""
    return {"drive": 1, "unc": 2}.get(style, 0)


def _style(path: str) -> tuple[PathStyle, int]:
    """Style, and where the first part begins at the earliest."""
    long = _LONG.match(path)
    start = long.end() if long else 0
    if long and long["unc"]:
        return "unc", start
    if _DRIVE.match(path, start):
        return "drive", start
    if _UNC.match(path):
        return "unc", start
    return ("posix" if path.startswith("/") else "relative"), start


def _parse(path: str) -> tuple[PathStyle, list[tuple[str, int]]]:
    """Style, and the comparable parts (``.`` left out), each with where it ends in ``path``."""
    style, start = _style(path)
    windows = style in ("drive", "unc")
    matches = (_WINDOWS_PART if windows else _POSIX_PART).finditer(path, start)
    return style, [(_fold(match[0], windows), match.end()) for match in matches if match[0] != "."]


def _fold(part: str, windows: bool) -> str:
    part = unicodedata.normalize("NFC", part)
    # lower(), not casefold(): Windows holds "ß" and "ss" apart.
    return part.lower() if windows else part


def _sides(pairs: Sequence[tuple[str, str]]) -> list[_Side]:
    sides = []
    for prefix, root in pairs:
        style, parts = comparable(prefix)
        sides.append(_Side(style, parts, root))
    # Stable: of equally long prefixes the first listed comes first.
    return sorted(sides, key=lambda side: -len(side.parts))


def _match(path: str, sides: list[_Side]) -> tuple[_Side, str] | None:
    """The longest matching side, and what follows its prefix in ``path``."""
    style, parts = _parse(path)
    if style == "relative":
        return None
    for side in sides:
        size = len(side.parts)
        if side.style != style or tuple(part for part, _ in parts[:size]) != side.parts:
            continue
        if _climbs([part for part, _ in parts[size:]]):
            continue
        end = parts[size - 1][1] if size else 0
        return side, path[end:]
    return None


def _climbs(parts: list[str]) -> bool:
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _swap(path: str, sides: list[_Side]) -> str:
    found = _match(path, sides)
    if found is None:
        return path
    side, rest = found
    windows = side.style != "posix"
    bare = rest.lstrip("\\/" if windows else "/")
    if not bare:
        return side.root + (separator_of(side.root) if rest and side.root[-1] not in "\\/" else "")
    if windows:
        bare = bare.replace("\\", "/")
    if is_windows(side.root):
        # A POSIX name may hold a backslash; no Windows machine can see such a file anyway.
        bare = bare.replace("/", separator_of(side.root))
    return join(side.root, bare)

"""Looks at the artist's disk for what a job needs and for where it writes; by name only.

What belongs here: plain descriptions in, messages out, so that it may run beside the host's window.  What it
may not know: the host.

A look is a dictionary with ``look``: ``file``, ``folder``, ``frames``, ``tiles`` or ``output``; ``path``;
``what`` (how people call it); ``severity`` of what is missing; for frames and tiles ``numbers``.
"""

import os
import re
import tempfile

from . import messages

_NUMBER = re.compile(r"(\d+)(\D*)$")
_UDIM = re.compile(r"<UDIM>", re.IGNORECASE)
#: Numbers named in a message; more are counted.
_NAMED = 5


def look(wanted):
    """Messages about all of them."""
    found, listings = [], {}
    for one in wanted:
        found.extend(_KINDS[one["look"]](one, listings))
    return found


def pattern_of(path):
    """A sequence's pattern and its digits' width: ``tex_0007.png`` gives ``tex_####.png`` and 4."""
    folder, name = os.path.split(path)
    match = _NUMBER.search(name)
    if match is None:
        return path, 0
    width = len(match.group(1))
    return os.path.join(folder, name[: match.start()] + "#" * width + match.group(2)), width


def frame_path(path, number):
    """The file of a sequence that has this number, by the name of one of its files."""
    folder, name = os.path.split(path)
    match = _NUMBER.search(name)
    if match is None:
        return path
    width = len(match.group(1))
    return os.path.join(folder, "%s%0*d%s" % (name[: match.start()], width, number, match.group(2)))


def _lacks(path):
    """Why a file is of no use, or nothing."""
    try:
        if os.path.isfile(path):
            if not os.access(path, os.R_OK):
                return "may not be read"
            return "" if os.path.getsize(path) else "is empty"
        if os.path.isdir(path):
            return "is a folder"
    except (OSError, ValueError) as error:
        return str(error)
    return "does not exist"


def _say(one, text, code="asset-missing"):
    cure = one.get("cure", "Find it, pack it into the file, or remove what uses it")
    return messages.Message(one.get("severity", messages.ERROR), code, text, cure)


def _file(one, _listings):
    reason = _lacks(one["path"])
    if reason:
        yield _say(one, "The %s %s %s" % (one["what"], one["path"], reason))


def _folder(one, _listings):
    path = one["path"]
    if not os.path.isdir(path):
        yield _say(one, "The %s %s does not exist" % (one["what"], path))
        return
    with os.scandir(path) as entries:
        if next(entries, None) is None:
            yield _say(one, "The %s %s is empty" % (one["what"], path))


def _names(folder, listings):
    """File names of a folder, read once."""
    if folder not in listings:
        try:
            listings[folder] = set(os.listdir(folder))
        except OSError:
            listings[folder] = set()
    return listings[folder]


def _frames(one, listings):
    path = one["path"]
    # Which files thousands of frames need is worked out here, not before the host's window is free again.
    numbers = sorted(one["numbers"]() if callable(one["numbers"]) else one["numbers"])
    if not numbers:
        return
    paths = [frame_path(path, number) for number in numbers] if pattern_of(path)[1] else [path]
    names = _names(os.path.dirname(path), listings)
    gone = [each for each in paths if os.path.basename(each) not in names]
    if gone:
        yield _say(
            one,
            "%d of %d files of the %s are missing: %s" % (len(gone), len(paths), one["what"], _some(gone)),
        )


def _tiles(one, listings):
    path = one["path"]
    folder, name = os.path.split(path)
    if one.get("numbers"):
        paths = [tile_path(path, number) for number in sorted(set(one["numbers"]))]
        names = _names(folder, listings)
        gone = [each for each in paths if os.path.basename(each) not in names]
        if gone:
            yield _say(one, "Tiles of the %s are missing: %s" % (one["what"], _some(gone)))
        return
    expression = re.compile("[1-9][0-9]{3}".join(re.escape(part) for part in _UDIM.split(name)))
    if not any(expression.match(each) for each in _names(folder, listings)):
        yield _say(one, "The %s %s has no tiles" % (one["what"], path))


def tile_path(path, number):
    """The file of one tile: ``<UDIM>`` is its number, ``<UVTILE>`` its column and row."""
    column, row = (number - 1001) % 10, (number - 1001) // 10
    return path.replace("<UDIM>", str(number)).replace("<UVTILE>", "u%d_v%d" % (column + 1, row + 1))


def _some(paths):
    shown = ", ".join(paths[:_NAMED])
    return shown if len(paths) <= _NAMED else "%s and %d more" % (shown, len(paths) - _NAMED)


def _output(one, _listings):
    path = one["path"]
    folder = os.path.dirname(path)
    above = nearest_parent(folder)
    choose = "Choose another output folder"
    if above is None:
        yield messages.error("output-folder", "No folder above the output %s exists" % path, choose)
        return
    if not os.path.isdir(above):
        yield messages.error(
            "output-folder", "%s is a file, so the output %s cannot be written" % (above, path), choose
        )
        return
    if not os.access(above, os.W_OK | os.X_OK) or _read_only(above):
        yield messages.error("output-folder", "The output folder %s cannot be written" % above, choose)
        return
    if _inside(folder, tempfile.gettempdir()) or _inside(folder, "/tmp"):
        text = "The output goes to %s, a temporary folder that only this machine sees" % folder
        yield messages.warning("output-temporary", text, "Choose a folder that all machines of the farm see")


def nearest_parent(folder):
    """The nearest folder above that exists, None when there is none."""
    while folder:
        if os.path.lexists(folder):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return None


def _read_only(folder):
    if not hasattr(os, "statvfs"):
        return False
    try:
        return bool(os.statvfs(folder).f_flag & getattr(os, "ST_RDONLY", 1))
    except OSError:
        return False


def _inside(path, folder):
    path, folder = os.path.normcase(os.path.abspath(path)), os.path.normcase(os.path.abspath(folder))
    return path == folder or path.startswith(folder.rstrip("\\/") + os.sep)


_KINDS = {"file": _file, "folder": _folder, "frames": _frames, "tiles": _tiles, "output": _output}

"""Names made of names: parts of file names, steps, patterns with a part in them.

What belongs here: text in, text out.  What must not: Blender and the disk.
"""

import os
import re

from ._shared.disk import pattern_of as sequence_pattern
from ._shared.disk import tile_path

__all__ = [
    "NODE_SUFFIXES",
    "SUFFIXES",
    "Unique",
    "ends_with",
    "file_part",
    "misread_token",
    "sequence_pattern",
    "step_name",
    "tile_path",
    "with_part",
    "with_suffix",
    "with_view",
]

#: Suffix of a format, by the farm's name of it.
SUFFIXES = {"PNG": ".png", "EXR": ".exr", "EXR_MULTILAYER": ".exr", "JPEG": ".jpg", "TIFF": ".tif"}
#: Suffixes a file of the format may have already.
KNOWN_SUFFIXES = {
    "PNG": (".png",),
    "EXR": (".exr",),
    "EXR_MULTILAYER": (".exr",),
    "JPEG": (".jpg", ".jpeg"),
    "TIFF": (".tif", ".tiff"),
}
#: Suffixes of what a File Output node writes, by Blender's name of the format, its own first.
NODE_SUFFIXES = {
    "BMP": (".bmp",),
    "IRIS": (".rgb",),
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "JPEG2000": (".jp2",),
    "TARGA": (".tga",),
    "TARGA_RAW": (".tga",),
    "CINEON": (".cin",),
    "DPX": (".dpx",),
    "OPEN_EXR": (".exr",),
    "OPEN_EXR_MULTILAYER": (".exr",),
    "HDR": (".hdr",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
_OTHERS = (".bmp", ".tga", ".hdr", ".dpx", ".cin", ".jp2", ".j2c", ".webp", ".rgb", ".avif")
_TOKEN = re.compile(r"%%|#+|%(?:0[0-9]{1,2})?d")


class Unique(object):
    """Hands out names once: the second ``a`` becomes ``a_2``."""

    def __init__(self):
        self._taken = set()

    def take(self, name):
        """The name, or the first free one made of it."""
        free, number = name, 1
        while free.lower() in self._taken:
            number += 1
            free = "%s_%d" % (name, number)
        self._taken.add(free.lower())
        return free


def file_part(name):
    """A word of a file name for a camera's or view layer's name: no separators, no frame tokens."""
    return re.sub(r"[\\/:*?\"<>|#%\x00-\x1f]", "_", name).strip(" .") or "_"


def step_name(name):
    """A step's name for any text."""
    made = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:60]
    return made if re.match("[A-Za-z_]", made) else "_" + made


def misread_token(pattern):
    """What the farm would take for the frame's place though it is none, "" when all is well."""
    found = [match.group(0) for match in _TOKEN.finditer(os.path.basename(pattern)) if match.group(0) != "%%"]
    return found[-1] if found and not set(found[-1]) <= {"#"} else ""


def with_part(pattern, part):
    """The pattern with a word before the frame's number: ``a_####.png``, ``Sky``: ``a_Sky_####.png``."""
    folder, name = os.path.split(pattern)
    begin = name.rfind("#")
    while begin > 0 and name[begin - 1] == "#":
        begin -= 1
    before, after = name[:begin], name[begin:]
    gap = before[-1] if before and before[-1] in "._-" else "_"
    if before and before[-1] not in "._- ":
        before += gap
    return os.path.join(folder, before + part + gap + after)


def with_view(pattern, suffix):
    """The pattern of a stereo view, as Blender names it: ``a_####.png``, ``_L``: ``a_####_L.png``."""
    stem, ending = os.path.splitext(pattern)
    return stem + suffix + ending


def ends_with(path, suffixes):
    """Whether a path has one of the suffixes, in any case of letters."""
    return path.lower().endswith(tuple(suffixes))


def with_suffix(pattern, form):
    """The pattern with the suffix of another format."""
    stem, suffix = os.path.splitext(pattern)
    known = [each for group in KNOWN_SUFFIXES.values() for each in group] + list(_OTHERS)
    return (stem if suffix.lower() in known else pattern) + SUFFIXES[form]

"""Where the sources of the plug-ins lie, and packing them.

What belongs here: the folder (beside the packages in a source tree, in ``share/overcrank/plugins`` of an
installed one) and zips of it.  What must not: the programs they go into.

They are data to this package: they run inside other programs, whose Python may be older than ours.
"""

from __future__ import annotations

import json
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import farm
from farm.model.errors import CallError, StorageError

_SHARE = ("share", "overcrank", "plugins")
#: A file that only our folder has.
_MARK = ("blender", "blender_manifest.toml")
#: How the installed plug-in calls the farm, see ``plugins/_shared/farm_program.py``.
INSTALLED = "installed.json"
#: Of every file in a zip: the same sources give the same bytes.
_MOMENT = (2024, 1, 1, 0, 0, 0)


@cache
def sources() -> Path:
    """The folder of the plug-ins' sources.

    Raises:
        StorageError: They are not there; says where was looked.
    """
    places = list(_places())
    for place in places:
        if place.joinpath(*_MARK).is_file():
            return place
    raise StorageError(
        f"the plug-ins' sources are missing: {', '.join(map(str, places))}", hint="install overcrank again"
    )


def _places() -> Iterator[Path]:
    above = Path(farm.__file__).resolve().parents[1]
    yield above / "plugins"
    # pip --target puts data beside the packages; everything else below the prefix.
    yield above.joinpath(*_SHARE)
    for scheme in (None, sysconfig.get_preferred_scheme("user")):
        data = sysconfig.get_path("data", scheme) if scheme else sysconfig.get_path("data")
        if data:
            yield Path(data).joinpath(*_SHARE)


def plugin_version(app: str) -> str:
    """The version of an application's plug-in."""
    import tomllib

    text = sources().joinpath(app, "blender_manifest.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["version"])


def farm_command() -> list[str]:
    """How this very farm is called from outside: the program beside the Python, else the module."""
    name = "farm.exe" if sys.platform == "win32" else "farm"
    # Not resolved: a virtual environment's python is a link out of it.
    beside = Path(sys.executable).parent / name
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "farm"]


def build_blender(target: Path, *, extension: bool, command: list[str] | None = None) -> Path:
    """Packs the add-on for Blender.

    Args:
        target: The zip to write.
        extension: As an extension (4.2 and later: files at the top, with a manifest), else as a legacy add-on
            (a folder ``overcrank`` in the zip).
        command: Command line of the farm to be called; None for a zip that is given away, which looks for
            the farm on the machine it comes to.

    Raises:
        CallError: The zip cannot be written.
    """
    root = sources()
    top = "" if extension else "overcrank/"
    members: list[tuple[str, bytes]] = []
    for folder, inside in ((root / "blender", ""), (root / "_shared", "_shared/")):
        for path in sorted(folder.iterdir()):
            is_code = path.suffix == ".py"
            if is_code or (extension and path.name == "blender_manifest.toml"):
                members.append((f"{top}{inside}{path.name}", path.read_bytes()))
    if command is not None:
        text = json.dumps({"command": command}, indent=1) + "\n"
        members.append((f"{top}{INSTALLED}", text.encode("ascii")))
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in members:
                entry = zipfile.ZipInfo(name, _MOMENT)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, data)
    except OSError as error:
        raise CallError(f"{target} cannot be written: {error.strerror or error}") from error
    return target

"""The add-on's modules that need no Blender, imported as they lie in the installed add-on.

What belongs here: putting ``plugins/blender`` and ``plugins/_shared`` together as the zips do, without the
module that Blender calls.  What it may not know: what is tested.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

PLUGINS = Path(__file__).parents[2] / "plugins"
_NAME = "overcrank_addon"


@cache
def _package(folder: Path) -> str:
    root = folder / _NAME
    shutil.copytree(PLUGINS / "blender", root, ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))
    shutil.copytree(PLUGINS / "_shared", root / "_shared", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "__init__.py").write_text('"""The add-on without its entry, which needs Blender."""\n')
    for name in [name for name in sys.modules if name.split(".")[0] == _NAME]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    return _NAME


class Addon:
    """Modules of the add-on by their path: ``addon.job``, ``addon.shared.disk``."""

    def __init__(self, folder: Path, inside: str = "") -> None:
        self._folder, self._inside = folder, inside

    def __getattr__(self, name: str) -> Any:
        if name == "shared":
            return Addon(self._folder, "._shared")
        if not (PLUGINS / ("_shared" if self._inside else "blender") / f"{name}.py").is_file():
            raise AttributeError(name)
        module: ModuleType = importlib.import_module(f"{_package(self._folder)}{self._inside}.{name}")
        return module


def shot(saved_as: Path, /, **more: Any) -> dict[str, Any]:
    """What ``collect`` says of a plain scene that was saved."""
    frames = saved_as.parent / "out" / "shot_####.png"
    output = {
        "kind": "sequence",
        "path": "//out/shot_####",
        "pattern": str(frames),
        "movie": "",
        "error": "",
        "blender_format": "PNG",
        "format": "PNG",
        "codec": "",
        "audio": False,
        "added_suffix": "",
    }
    plain: dict[str, Any] = {
        "file": str(saved_as),
        "dirty": False,
        "version": (3, 4, 1),
        "scene": "Scene",
        "scenes": ["Scene"],
        "engine": "CYCLES",
        "own_engine": True,
        "device": "CPU",
        "rate": "24/1",
        "layers": ["ViewLayer"],
        "frames": {"start": 1, "end": 10, "step": 1, "current": 4},
        "camera": "Cam",
        "cameras": ["Cam"],
        "bound_cameras": [],
        "sequencer": False,
        "compositing": False,
        "views": [],
        "views_format": "",
        "node_outputs": [],
        "size": (1920, 1080, 100),
        "border": False,
        "crop": False,
        "overwrite": True,
        "sound": False,
        "python": [],
        "unsaved_images": [],
        "unpackable": [],
        "assets": [],
        "simulations": [],
    }
    output |= more.pop("output", {})
    return plain | {"output": output} | more

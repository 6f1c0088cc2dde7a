"""Which Blender the add-on is tried in, and what came of a job that it submitted.

What belongs here: reading files, jobs and messages.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.farmhouse import Farmhouse

WHEEL = os.environ.get("OVERCRANK_TEST_BPY_PYTHON", "")
BLENDER = shutil.which("blender") or ""
#: A wheel's scenes cannot be rendered by the node's own Blender, which is older: there submitting counts.
rendered = pytest.mark.skipif(bool(WHEEL), reason="the node's Blender is another version than the wheel")


def digest(path: Path) -> str:
    """What a file holds, in short."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(folder: Path) -> list[str]:
    """What lies in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def spec(house: Farmhouse, number: int) -> dict[str, Any]:
    """The job as the farm has it."""
    done = house.farm("job", f"J{number}", "--spec", "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def codes(said: Mapping[str, Any], severity: str = "error") -> set[str]:
    """Codes of the messages of a severity."""
    return {code for kind, code, _ in said["messages"] if kind == severity}

"""The add-on in the bpy wheel: installs one into an environment of its own (1 GB) and submits with it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.long.bpy import VERSIONS

TESTS = "tests/plugins/test_blender_submits.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long blender``."""
    parser.add_argument("--version", default="", help="version of the wheel (default: by this Python)")
    parser.add_argument("--python", default="", help="an interpreter that has bpy already")


def run(args: argparse.Namespace) -> int:
    """Runs the tests of the add-on in the wheel; returns pytest's exit code."""
    if args.python:
        return _test(args.python)
    version = args.version or VERSIONS.get(sys.version_info[:2], "")
    if not version:
        print(f"there is no bpy wheel for Python {sys.version_info[0]}.{sys.version_info[1]}")
        return 2
    with tempfile.TemporaryDirectory(prefix="overcrank-bpy-") as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"bpy=={version}"], check=True)
        return _test(str(python))


def _test(python: str) -> int:
    environment = os.environ | {"OVERCRANK_TEST_BPY_PYTHON": python, "OVERCRANK_REQUIRE_REAL": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", TESTS, "-q"], env=environment, check=False
    ).returncode

"""The bpy wheels as Blender: installs each into an environment of its own (1 GB), renders, submits."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Wheels for the Pythons they exist for: before and after 5.0, which changed engines, compositor and nodes.
VERSIONS = {(3, 11): ("4.2.*", "5.0.*"), (3, 13): ("5.3.*",)}
#: Tests of the renderer, of which some are about the wheel, and of the add-on.
TESTS = (
    ("tests/unit/renderers/test_blender_real.py", "-k", "wheel or bpy"),
    ("tests/unit/renderers/test_blender_files_real.py", "-k", "wheel or bpy"),
    ("tests/unit/renderers/test_blender_caches_real.py", "-k", "wheel or bpy"),
    (
        "tests/plugins/test_blender_submits.py",
        "tests/plugins/test_blender_submits_checks.py",
        "tests/plugins/test_blender_submits_files.py",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m tests.long bpy``."""
    parser.add_argument("--version", default="", help="version of the wheel (default: by this Python)")
    parser.add_argument("--python", default="", help="an interpreter that has bpy already")


def run(args: argparse.Namespace) -> int:
    """Runs the tests of the wheel; returns pytest's first exit code that is not 0."""
    if args.python:
        return _test(args.python)
    versions = (args.version,) if args.version else VERSIONS.get(sys.version_info[:2], ())
    if not versions:
        print(f"there is no bpy wheel for Python {sys.version_info[0]}.{sys.version_info[1]}")
        return 2
    return next(filter(None, [_install_and_test(version) for version in versions]), 0)


def _install_and_test(version: str) -> int:
    with tempfile.TemporaryDirectory(prefix="overcrank-bpy-") as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"bpy=={version}"], check=True)
        return _test(str(python))


def _test(python: str) -> int:
    environment = os.environ | {"OVERCRANK_TEST_BPY_PYTHON": python, "OVERCRANK_REQUIRE_REAL": "1"}
    codes = [
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *tests], env=environment, check=False
        ).returncode
        for tests in TESTS
    ]
    return next(filter(None, codes), 0)

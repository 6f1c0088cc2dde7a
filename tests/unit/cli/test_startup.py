"""What a command imports: each library that creeps in costs every call of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Slow to import, and of no use to somebody who lists jobs.
HEAVY = {
    "rich", "numpy", "cv2", "OpenImageIO", "av", "sqlalchemy", "alembic", "psutil", "fileseq", "mitsuba",
    "sqlite3", "asyncio", "email", "http", "xml", "unittest", "subprocess", "logging",
    "farm.broker", "farm.core", "farm.storage", "farm.media", "farm.renderers", "node_agent",
}  # fmt: skip


def modules_of(code: str, tmp_path: Path) -> set[str]:
    """Modules that ``code`` loads in a fresh interpreter."""
    script = (
        f"import sys\nbefore = set(sys.modules)\n{code}\n"
        "print('\\n'.join(set(sys.modules) - before), file=sys.stderr)"
    )
    environment = os.environ | {
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "XDG_STATE_HOME": str(tmp_path / "s"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split("\n"))


def test_help_imports_next_to_nothing(tmp_path: Path) -> None:
    found = modules_of("from farm.cli.main import main\nassert main(['--help']) == 0", tmp_path)
    assert not found & (HEAVY | {"argparse", "typing", "re", "zmq", "msgspec", "dataclasses", "pathlib"})


@pytest.mark.parametrize("verb", ["jobs", "status", "nodes"])
def test_reading_verbs_import_no_more_than_they_need(verb: str, tmp_path: Path) -> None:
    found = modules_of(f"from farm.cli.main import main\nassert main(['{verb}']) == 3", tmp_path)
    assert "zmq" in found
    assert not found & HEAVY


def test_the_process_ends_with_the_code_and_all_output(tmp_path: Path) -> None:
    script = "import sys\nsys.argv = ['farm', '--help']\nfrom farm.cli.main import entry\nentry()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.endswith("3 the farm cannot be reached.\n")


def test_exit_handlers_run(tmp_path: Path) -> None:
    script = (
        "import atexit, sys\natexit.register(lambda: print('bye', flush=True))\n"
        "sys.argv = ['farm', 'nonsense']\nfrom farm.cli.main import entry\nentry()"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "bye\n")


def test_a_pipe_that_is_closed_early_is_quiet() -> None:
    code = "import sys\nsys.argv = ['farm', '--help']\nfrom farm.cli.main import entry\nentry()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.stderr == ""

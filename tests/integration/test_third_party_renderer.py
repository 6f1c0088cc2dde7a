"""A renderer that comes in another package: `farm run` finds it by its entry point and renders with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.real import require

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "overcrank-povray"

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the example is installed: the module, and the metadata pip would write."""
    require(shutil.which("povray"), "POV-Ray", "apt-get install povray")
    site = tmp_path / "site"
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = site / f"overcrank_povray-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    shutil.copy(EXAMPLE / "overcrank_povray.py", site)
    return os.environ | {
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def farm(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "farm", *words],
        env=environment,
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_its_parameters_are_described(environment: dict[str, str]) -> None:
    done = farm(environment, "schema", "renderer", "povray", "--json")
    assert done.returncode == 0, done.stderr
    names = [param["name"] for param in json.loads(done.stdout)["params"]]
    assert names[:3] == ["scene", "width", "height"]


def test_it_renders_and_every_frame_is_verified(environment: dict[str, str], tmp_path: Path) -> None:
    scene = EXAMPLE / "ball.pov"
    done = farm(
        environment, "run", "--json", "--renderer", "povray", "--param", f"scene={scene}",
        "--param", "width=64", "--param", "height=36", "--frames", "1-5", "--chunk", "3",
        "-o", str(tmp_path / "ball.####.png"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["renderer"], told["state"], told["frames_done"], told["verified"]) == (
        "povray",
        "done",
        5,
        True,
    )
    assert sorted(path.name for path in tmp_path.glob("ball.*")) == [f"ball.{n:04}.png" for n in range(1, 6)]


def test_a_missing_include_is_told_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    scene = tmp_path / "broken.pov"
    scene.write_text('#version 3.7;\n#include "gone.inc"\n')
    done = farm(
        environment, "run", "--json", "--renderer", "povray", "--param", f"scene={scene}", "--frames", "1",
        "-o", str(tmp_path / "x.####.png"),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["frames_done"] == 0
    assert not list(tmp_path.glob("x.*"))
    assert "gone.inc is missing" in json.dumps(told) + done.stderr

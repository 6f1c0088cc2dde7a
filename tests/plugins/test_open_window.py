"""A job opened in the farm's window: another program, with the job file, which the host never waits for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.addon import Addon
from tests.support.blender_host import BlenderHost, install
from tests.support.real import require
from tests.support.waiting import eventually

JOB = {"overcrank_job": 1, "name": "Ñandú", "steps": []}


def window(path: Path, body: str) -> Path:
    """A program that stands for the farm: ``body`` is Python and knows ``argv``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib, sys, time\nargv = sys.argv[1:]\n"
        f"if argv == ['--version']:\n    print('overcrank 1'); sys.exit(0)\n{body}\n"
    )
    path.chmod(0o755)
    return path


def opening(addon: Addon, farm: Path, **more: Any) -> Any:
    made = addon.shared.submission.Submission(
        dict(JOB), more.pop("found", []), setting=str(farm), window=True, **more
    )
    made.start()
    return made


def words(made: Any) -> list[str]:
    return [str(message) for message in made.messages]


def test_the_window_gets_the_job_without_a_token_and_with_the_warnings(addon: Addon, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    farm = window(tmp_path / "farm", f"pathlib.Path({str(seen)!r}).write_text(json.dumps(argv))")
    warning = addon.shared.messages.warning("x", "Käse", "Eat it")
    made = opening(addon, farm, found=[warning], farm_name="studio")
    assert made.wait()
    assert made.phase == "opened"
    assert made.job is None
    argv = json.loads(seen.read_text())
    assert argv == ["--farm", "studio", "gui", "--submit", made.job_file]
    document = json.loads(Path(made.job_file).read_text())
    assert document == {**JOB, "warnings": ["Käse. Eat it"]}


def test_a_window_that_stays_open_is_not_waited_for_and_not_ended(
    addon: Addon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addon.shared.submission, "_OPENS_S", 0.5)
    pid = tmp_path / "pid"
    body = f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    farm = window(tmp_path / "farm", body)
    made = opening(addon, farm)
    assert made.wait()
    eventually(lambda: pid.exists() and bool(pid.read_text()), "the window is there")
    number = int(pid.read_text())
    try:
        os.kill(number, 0)  # it lives
        assert os.getsid(number) != os.getsid(0), "it does not end with the host"
    finally:
        os.kill(number, signal.SIGKILL)
        for process in addon.shared.submission._WINDOWS:
            process.wait()


def test_a_farm_without_a_window_is_quoted(addon: Addon, tmp_path: Path) -> None:
    made = opening(addon, window(tmp_path / "farm", "print('no PySide6 here'); sys.exit(2)"))
    assert not made.wait()
    assert words(made) == [
        "The farm's window does not open (exit code 2): no PySide6 here. "
        "Submit it from here, or install the window"
    ]


def test_what_stands_against_the_job_opens_no_window(addon: Addon, tmp_path: Path) -> None:
    called = tmp_path / "called"
    farm = window(tmp_path / "farm", f"pathlib.Path({str(called)!r}).touch()")
    look = {"look": "file", "path": str(tmp_path / "gone.png"), "what": "texture"}
    made = opening(addon, farm, looks=[look])
    assert not made.wait()
    assert "does not exist" in words(made)[0]
    assert not called.exists()


@pytest.mark.real
@pytest.mark.slow
def test_the_button_in_blender_opens_the_scene(tmp_path: Path) -> None:
    blender = shutil.which("blender") or ""
    require(blender, "Blender", "install blender")
    seen = tmp_path / "seen.json"
    farm = window(
        tmp_path / "farm",
        f"job = json.loads(pathlib.Path(argv[-1]).read_text())\n"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps([argv, job]))",
    )
    host = BlenderHost(tmp_path / "host", (blender,))
    install(host, blender, {})
    scene = host.make(tmp_path / "shot.blend")
    said = host.submit(scene, {"FARM_CLI": str(farm)}, operator="open_window", priority=66)
    assert said["ok"], said
    assert said["title"] == "It is open in the farm's window: submit it there"
    argv, job = json.loads(seen.read_text())
    assert argv[:2] == ["gui", "--submit"]
    assert job["priority"] == 66
    assert job["steps"][0]["params"]["scene"] == str(scene)
    assert job["steps"][0]["frames"] == "1-3"

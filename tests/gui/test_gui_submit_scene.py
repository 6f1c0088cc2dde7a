"""The Submit dock with a scene: what a Blender here says of it, and what is offered without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QProcess, Qt
from PySide6.QtWidgets import QLineEdit, QToolButton
from pytestqt.qtbot import QtBot

from client_gui.views.submit_parts.sceneread import find_blender
from tests.support.gui_rig import Rig
from tests.support.gui_submit import Dock
from tests.support.run_invocation import need_real

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


# -- what Blender says of a scene ------------------------------------------------------------------------


def _fake_blender(path: Path, prints: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{prints}\n")
    path.chmod(0o755)
    return path


posix = pytest.mark.skipif(sys.platform == "win32", reason="programs are scripts here")


@posix
def test_reading_a_scene_fills_only_what_is_empty(dock: Dock, tmp_path: Path) -> None:
    facts = {
        "scene": "Shot",
        "start": 5,
        "end": 25,
        "step": 5,
        "engine": "CYCLES",
        "camera": "CamA",
        "cameras": ["CamA", "CamB"],
        "layers": ["fg", "bg"],
        "output": {"path": "//r/", "kind": "sequence", "pattern": "/show/r/####.exr"},
    }
    dock.view._scenes.program = str(
        _fake_blender(tmp_path / "blender", f"print('FARM ' + {json.dumps(facts)!r})")
    )
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    dock.fill("Frames", "1-2")
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "Filled in: Output" in dock.words())
    step = dock.draft().steps[0]
    assert step["frames"] == "1-2", "what was typed stays"
    assert step["outputs"] == [{"pattern": "/show/r/####.exr"}]
    assert "camera CamA (of CamA, CamB), view layers fg, bg" in dock.words()
    form = dock.view.form()
    assert form is not None
    engine = form.rows["steps", 0, "params", "engine"].findChild(QLineEdit)
    assert engine is not None
    assert (engine.text(), engine.placeholderText()) == ("", "CYCLES"), "the scene's own stays the scene's"


@posix
def test_reading_a_scene_can_be_stopped_ends_in_time_and_says_what_failed(dock: Dock, tmp_path: Path) -> None:
    scenes = dock.view._scenes
    scenes.program = str(_fake_blender(tmp_path / "blender", "import time; time.sleep(600)"))
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    assert "Blender reads shot.blend…" in dock.words()
    dock.press(Qt.Key.Key_Space)
    assert "Blender reads" not in dock.words()
    dock.until(lambda: not scenes.reader.findChildren(QProcess))
    dock.press(Qt.Key.Key_Space)
    scenes.reader._late.timeout.emit()  # its time has come
    dock.until(lambda: "took longer than" in dock.words())
    scenes.program = str(tmp_path / "none")
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "Blender cannot be started" in dock.words())
    scenes.program = str(_fake_blender(tmp_path / "blender", "print('no answer')"))
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "ended without a word about the scene" in dock.words())
    dock.until(lambda: not scenes.reader.findChildren(QProcess))


def test_without_blender_here_nothing_is_offered(
    rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("client_gui.views.submit_parts.scenedesk.find_blender", lambda: "")
    dock = Dock(rig, qtbot)
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    assert not [one for one in dock.view.findChildren(QToolButton) if one.text() == "Read from Blender"]
    dock.close()


@pytest.mark.real
def test_a_real_blender_reads_a_real_scene(dock: Dock, tmp_path: Path) -> None:
    program = find_blender()
    need_real(bool(program), "Blender: apt install blender")
    scene = tmp_path / "shot é.blend"
    made = tmp_path / "make.py"
    program_in_scene = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    made.write_text(
        "import bpy\n"
        "s = bpy.context.scene\n"
        "s.frame_start, s.frame_end, s.frame_step = 1001, 1101, 5\n"
        "s.render.filepath = '//out/sh010_'\n"
        "s.render.resolution_percentage = 50\n"
        "text = bpy.data.texts.new('boom.py')\n"
        f"text.write({program_in_scene!r})\n"
        "text.use_module = True\n"
        f"bpy.ops.wm.save_as_mainfile(filepath={str(scene)!r})\n"
    )
    subprocess.run(
        [program, "--background", "--factory-startup", "--python", str(made)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
    )
    dock.until(lambda: dock.view._scenes.program)
    dock.open(scene)
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    dock.bot.waitUntil(lambda: "Filled in: Frames, Output" in dock.words(), timeout=120_000)
    step = dock.draft().steps[0]
    assert step["frames"] == "1001-1101x5"
    assert step["outputs"] == [{"pattern": f"{tmp_path}/out/sh010_####.png"}]
    assert "1920 x 1080 at 50 %" in dock.words()
    assert not (tmp_path / "ran").exists(), "Python that is saved in the scene is not run"
    dock.until(lambda: dock.ready)

"""Blender as a host of the add-on: settings of its own, scripts run in it, what they said.

What belongs here: a Blender (program, or an interpreter with the bpy wheel) that reads and writes nothing of
this user's, scenes made by it, and calls of the add-on's operators.  What it may not know: farms and what is
asserted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Longest time of one Blender in a test.
PATIENCE_S = 180.0

#: Runs inside Blender: enables what is installed, opens the file, runs the test's code, keeps what it said.
_FRAME = """
import json, sys, time, traceback
import bpy
words = sys.argv[sys.argv.index("--") + 1:]
said = {}
try:
    spec = json.load(open(words[0], encoding="utf-8"))
    names = bpy.context.preferences.addons.keys()
    module = next((name for name in names if name.split(".")[-1] == "overcrank"), "")
    if not module and spec["module"]:
        # The wheel starts with factory settings, whatever was saved.
        bpy.ops.preferences.addon_enable(module=spec["module"])
        module = spec["module"]
    said["module"] = module
    addon = sys.modules.get(module)
    if spec["file"]:
        bpy.ops.wm.open_mainfile(filepath=spec["file"])
    def part(name):
        return sys.modules[module + "." + name]
    def submit(operator="submit", then=None, **choices):
        # As a person does it: choices, the button, and then waiting for the panel to say something.  ``then``
        # is called once the button has returned.
        group = bpy.context.window_manager.overcrank
        for key, value in choices.items():
            setattr(group, key, value)
        try:
            result = getattr(bpy.ops.overcrank, operator)()
            said["refused"] = ""
        except RuntimeError as error:
            result, said["refused"] = {"CANCELLED"}, str(error)
        said["result"] = sorted(result)
        tray = part("tray")
        said["under_way"] = tray.TRAY.submission is not None
        if then is not None:
            then()
        while tray.TRAY.submission is not None:
            tray.watch()
            time.sleep(0.02)
        said["messages"] = [[m.severity, m.code, str(m)] for m in tray.TRAY.messages]
        said["title"], said["ok"], said["job"] = tray.TRAY.title, tray.TRAY.ok, tray.TRAY.job
        said["dirty"] = bpy.data.is_dirty
        said["filepath"] = bpy.data.filepath
        return tray.TRAY.ok
    exec(compile(spec["code"], "<test>", "exec"))
except BaseException:
    said["failed"] = traceback.format_exc()
with open(words[1], "w", encoding="utf-8") as stream:
    json.dump(said, stream)
sys.stdout.flush()
import os
os._exit(0)
"""

#: A scene that renders in a blink, and says by its picture which frame it is.
SCENE = """
import bpy
scene = bpy.context.scene
bpy.context.preferences.filepaths.save_version = 0
for thing in list(scene.objects):
    bpy.data.objects.remove(thing)
bpy.ops.mesh.primitive_cube_add()
cube = bpy.context.object
camera = bpy.data.objects.new("Cam", bpy.data.cameras.new("Cam"))
camera.location = (0, 0, 9)
scene.collection.objects.link(camera)
scene.camera = camera
scene.collection.objects.link(bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", "SUN")))
cube.location.x = -2.0
cube.keyframe_insert("location", frame=1)
cube.location.x = 2.0
cube.keyframe_insert("location", frame=20)
scene.render.engine = "CYCLES"
scene.cycles.samples = 1
scene.cycles.use_denoising = False
scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = 64, 36, 100
scene.render.image_settings.file_format = "PNG"
scene.render.image_settings.color_mode = "RGB"
scene.frame_start, scene.frame_end = 1, 3
"""


class BlenderHost:
    """One Blender with settings of its own.

    Attributes:
        env: Environment of its processes.
    """

    def __init__(self, folder: Path, argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> None:
        """Prepares; nothing runs yet.

        Args:
            folder: Everything of it lies below.
            argv: The program, or an interpreter that has bpy (then its name holds ``python``).
            env: Environment to start from.
        """
        self.folder = folder
        self._argv = argv
        self.is_wheel = "python" in Path(argv[0]).name
        user = folder / "blender-user"
        for name in ("config", "scripts", "home"):
            (user / name).mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ if env is None else env) | {
            "BLENDER_USER_RESOURCES": str(user),
            "BLENDER_USER_CONFIG": str(user / "config"),
            "BLENDER_USER_SCRIPTS": str(user / "scripts"),
            "BLENDER_USER_EXTENSIONS": str(user / "extensions"),
        }
        self.env.setdefault("XDG_STATE_HOME", str(folder / "state"))
        self._calls = 0
        self._module = ""

    def make(self, target: Path, code: str = "") -> Path:
        """Makes a .blend: ``SCENE``, then ``code``, saved as ``target``."""
        target.parent.mkdir(parents=True, exist_ok=True)
        script = self._script(
            f"{SCENE}\n"
            f"bpy.ops.wm.save_as_mainfile(filepath={str(target)!r})\n"
            f"scene.render.filepath = {'//out/shot_####'!r}\n"
            f"{code}\n"
            f"bpy.ops.wm.save_as_mainfile(filepath={str(target)!r}, compress=False)\n"
        )
        done = self._start(script, [], factory=True)
        assert target.exists(), done.stdout[-4000:]
        return target

    def setup(self, action: str, path: Path | None = None) -> dict[str, Any]:
        """Runs the setup script of ``farm plugin`` in it: the only way into an interpreter with bpy."""
        answer = self.folder / "answer.json"
        script = Path(__file__).parents[2] / "plugins" / "_install" / "blender_setup.py"
        done = self._start(script, [action, str(answer), *([str(path)] if path else [])])
        assert answer.exists(), done.stdout[-4000:]
        told: dict[str, Any] = json.loads(answer.read_text())
        self._module = told.get("module", "")
        return told

    def call(
        self, code: str, file: Path | None = None, env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Runs ``code`` in it with the add-on enabled; see ``_FRAME`` for what the code has.

        Returns:
            What the code put into ``said``.
        """
        spec, answer = self._own("spec.json"), self._own("said.json")
        spec.write_text(
            json.dumps({"file": str(file or ""), "code": code, "module": self._module}), encoding="utf-8"
        )
        done = self._start(self._script(_FRAME), [str(spec), str(answer)], env=env)
        assert answer.exists(), done.stdout[-4000:]
        said: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        assert "failed" not in said, said["failed"] + done.stdout[-2000:]
        said["stdout"] = done.stdout
        return said

    def submit(
        self, file: Path | None, env: Mapping[str, str] | None = None, **choices: Any
    ) -> dict[str, Any]:
        """Opens a file, chooses, and presses the button; returns what the panel says at the end."""
        return self.call(f"submit(**{choices!r})", file, env)

    def version(self) -> tuple[int, int]:
        """Major and minor version of this Blender."""
        major, minor = self.call("said['version'] = list(bpy.app.version[:2])")["version"]
        return major, minor

    def _own(self, name: str) -> Path:
        self._calls += 1
        return self.folder / f"{self._calls}-{name}"

    def _script(self, text: str) -> Path:
        path = self._own("script.py")
        path.write_text(text, encoding="utf-8")
        return path

    def _start(
        self, script: Path, words: list[str], *, factory: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        if self.is_wheel:
            argv = [*self._argv, str(script), "--", *words]
        else:
            flags = ["--factory-startup"] if factory else []
            argv = [*self._argv, "-b", "-noaudio", *flags, "--python", str(script), "--", *words]
        return subprocess.run(
            argv,
            env=self.env | dict(env or {}),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )


def install(host: BlenderHost, program: str, env: Mapping[str, str]) -> dict[str, Any]:
    """``farm plugin install blender`` for this host; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "farm", "plugin", "install", "blender", "--blender", program, "--json"],
        env={**host.env, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told

"""The add-on in a real Blender, a real farm, and the frames that come of it.

``OVERCRANK_TEST_BPY_PYTHON`` names an interpreter with the bpy wheel to run the same there, as an extension.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.cli.plugin.sources import farm_command
from farm.media.probe import probe
from tests.support.blender_host import BlenderHost, install
from tests.support.blender_submits import BLENDER, WHEEL, codes, digest, names, rendered, spec
from tests.support.farmhouse import Farmhouse
from tests.support.real import require

pytestmark = [pytest.mark.real, pytest.mark.slow]


# -- the whole way ---------------------------------------------------------------------------------------


@rendered
def test_a_scene_is_submitted_rendered_and_the_artists_file_is_as_it_was(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    before, changed_ns = digest(scene), scene.stat().st_mtime_ns
    said = host.submit(scene, cores=1, name="Böcklin %d", priority=70)
    assert said["ok"], said
    assert said["result"] == ["FINISHED"]
    assert said["under_way"], "the button must not hold the window until the farm has answered"
    assert said["dirty"] is False
    row = house.wait_job(said["job"]["number"], "done")
    assert (row.name, row.priority) == ("Böcklin %d", 70)
    assert names(tmp_path / "out") == ["shot_0001.png", "shot_0002.png", "shot_0003.png"]
    assert (digest(scene), scene.stat().st_mtime_ns) == (before, changed_ns)
    assert names(tmp_path)[:2] == ["out", "shot.blend"]


@rendered
def test_a_movie_is_rendered_as_frames_and_stitched(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "scene.render.image_settings.file_format = 'FFMPEG'\n"
        "scene.render.ffmpeg.format, scene.render.ffmpeg.codec = 'MPEG4', 'H264'\n"
        "scene.render.filepath = '//film_'",
    )
    said = host.submit(scene, cores=1)
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    movie = tmp_path / "film_0001-0003.mp4"
    assert names(tmp_path / "film_0001-0003_frames") == [
        f"film_0001-0003.{frame:04d}.png" for frame in (1, 2, 3)
    ]
    facts = probe(movie)
    assert facts.frames == 3


@rendered
def test_view_layers_and_cameras_become_different_pictures(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "layer = scene.view_layers.new('Leer')\n"
        "layer.layer_collection.exclude = True\n"
        "for child in layer.layer_collection.children: child.exclude = True\n"
        "scene.collection.objects.unlink(cube) if cube.name in scene.collection.objects else None\n"
        "inside = bpy.data.collections.new('Inside'); scene.collection.children.link(inside)\n"
        "[one.objects.unlink(cube) for one in list(cube.users_collection)]; inside.objects.link(cube)\n"
        "layer.layer_collection.children['Inside'].exclude = True\n"
        "second = bpy.data.objects.new('Weit/weg', bpy.data.cameras.new('C2'))\n"
        "second.location = (0, 0, 90)\n"
        "scene.collection.objects.link(second)\n"
        "scene.frame_end = 1",
    )
    said = host.submit(scene, cores=1, camera_from="EACH")
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    files = names(tmp_path / "out")
    assert files == [
        "shot_Cam_Leer_0001.png",
        "shot_Cam_ViewLayer_0001.png",
        "shot_Weit_weg_Leer_0001.png",
        "shot_Weit_weg_ViewLayer_0001.png",
    ]
    pictures = {name: digest(tmp_path / "out" / name) for name in files}
    assert pictures["shot_Cam_ViewLayer_0001.png"] != pictures["shot_Cam_Leer_0001.png"]
    assert pictures["shot_Cam_ViewLayer_0001.png"] != pictures["shot_Weit_weg_ViewLayer_0001.png"]


@rendered
def test_names_beyond_ascii_survive_a_shell_without_them(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "Größe 日本 ñ" / "Schuß #1.blend", "scene.frame_end = 1")
    said = host.submit(scene, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii:replace"}, cores=1)
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    assert names(scene.parent / "out") == ["shot_0001.png"]


@rendered
def test_the_cameras_of_markers_switch_on_the_farm(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "second = bpy.data.objects.new('Weg', bpy.data.cameras.new('C2')); second.location = (0, 0, 9000)\n"
        "scene.collection.objects.link(second)\n"
        "scene.timeline_markers.new('a', frame=1).camera = camera\n"
        "scene.timeline_markers.new('b', frame=3).camera = second\n",
    )
    said = host.submit(scene, cores=1)
    assert "camera-markers" in codes(said, "note")
    house.wait_job(said["job"]["number"], "done")
    sizes = [(tmp_path / "out" / f"shot_{frame:04d}.png").stat().st_size for frame in (1, 3)]
    assert sizes[0] > sizes[1], "the cube is too far away for the second camera"


# -- the answer, while it is waited for and when there is none -------------------------------------------


def test_the_window_is_free_while_the_farm_takes_its_time(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    go, slow = tmp_path / "go", tmp_path / "slow-farm"
    slow.write_text(
        f"#!/bin/sh\nwhile [ ! -e '{go}' ]; do sleep 0.05; done\n"
        f'PYTHONPATH="{house.env["PYTHONPATH"]}" exec "{sys.executable}" -m farm "$@"\n'
    )
    slow.chmod(0o755)
    said = host.call(
        # The farm answers only once this very thread opens the door: a button or a look that waited for it
        # would wait until the time-out.
        "tray = part('tray')\n"
        "def open_door():\n"
        "    while tray.busy() != 'Waiting for the farm…':\n"
        "        tray.watch()\n"
        "    for _ in range(20):\n"
        "        tray.watch()\n"
        "    said['still'] = tray.busy()\n"
        "    said['could_submit_twice'] = bpy.ops.overcrank.submit.poll()\n"
        "    try:\n"
        "        bpy.ops.overcrank.submit()\n"
        "    except RuntimeError as error:\n"
        "        said['why_not'] = str(error)\n"
        f"    open({str(go)!r}, 'w').close()\n"
        "submit(then=open_door, cores=1, version='ANY', paused=True)\n",
        scene,
        env={"FARM_CLI": str(slow)},
    )
    assert said["ok"], said
    assert said["under_way"]
    assert said["still"] == "Waiting for the farm…"
    assert said["could_submit_twice"] is False
    assert "still on its way (a script waits for it with wait=True): Waiting for the farm…" in said["why_not"]
    assert spec(house, said["job"]["number"])["paused"] is True


def test_a_farm_that_is_away_and_one_that_is_not_installed_are_told_apart(
    host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    away = {"XDG_CONFIG_HOME": str(tmp_path / "c"), "OVERCRANK_FARM": "nirgends"}
    said = host.submit(scene, env=away, cores=1)
    assert not said["ok"]
    (message,) = [text for severity, _, text in said["messages"] if severity == "error"]
    assert message.startswith("The farm cannot be reached: this machine knows no farm named 'nirgends'")
    said = host.submit(scene, env={"FARM_CLI": "/nowhere/farm"}, cores=1)
    assert codes(said) == {"farm-missing"}


def test_a_refusal_of_the_farm_is_shown(host: BlenderHost, tmp_path: Path) -> None:
    scene = host.make(tmp_path / "shot.blend")
    said = host.submit(scene, cores=900)
    assert not said["ok"]
    (message,) = [text for severity, _, text in said["messages"] if severity == "error"]
    assert "The farm refused the job" in message
    assert "900" in message or "core" in message


# -- what is checked -------------------------------------------------------------------------------------


def test_choices_are_remembered_outside_of_the_file(host: BlenderHost, tmp_path: Path) -> None:
    scene, other = host.make(tmp_path / "shot.blend"), host.make(tmp_path / "other.blend")
    before = digest(scene)
    said = host.call("submit(operator='check', priority=66, project='film', scout=4)", scene)
    assert said["dirty"] is bool(WHEEL), (
        "a choice is no change of the file (the wheel always says there is one)"
    )
    shown = (
        "(lambda group: [group.priority, group.project, group.scout])(bpy.context.window_manager.overcrank)"
    )
    said = host.call(
        f"said['kept'] = {shown}\nbpy.ops.wm.open_mainfile(filepath={str(other)!r})\nsaid['other'] = {shown}",
        scene,
    )
    assert said["kept"] == [66, "film", 4]
    assert said["other"] == [50, "", 0]
    assert digest(scene) == before


# -- installing ------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(WHEEL), reason="a wheel is no program that can be found")
def test_it_is_listed_and_removed(tmp_path: Path) -> None:
    require(BLENDER, "Blender", "install blender")
    host = BlenderHost(tmp_path, (BLENDER,))
    install(host, BLENDER, {})

    def plugin(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "farm", "plugin", *words, "--blender", BLENDER, "--json"],
            env=host.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["programs"]
        return dict(row)

    assert plugin("list", "blender")["enabled"] is True
    installed = next(tmp_path.rglob("installed.json"))
    assert json.loads(installed.read_text()) == {"command": farm_command()}
    assert plugin("remove", "blender")["message"] == "removed"
    assert plugin("list", "blender")["form"] == ""
    assert not list(tmp_path.rglob("installed.json"))


def test_disabling_and_enabling_again_leaves_nothing_behind(host: BlenderHost) -> None:
    said = host.call(
        "before = [len(bpy.app.handlers.load_post), len(bpy.app.handlers.save_post)]\n"
        "for _ in range(2):\n"
        "    bpy.ops.preferences.addon_disable(module=module)\n"
        "    said['gone'] = [hasattr(bpy.types.WindowManager, 'overcrank')]\n"
        "    said['gone'].append(hasattr(bpy.types, 'OVERCRANK_PT_render'))\n"
        "    bpy.ops.preferences.addon_enable(module=module)\n"
        "said['same'] = before == [len(bpy.app.handlers.load_post), len(bpy.app.handlers.save_post)]"
    )
    assert said["gone"] == [False, False]
    assert said["same"] is True

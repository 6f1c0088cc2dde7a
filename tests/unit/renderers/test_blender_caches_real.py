"""Real renders by Blender of what is baked and cached: cloth, Alembic, USD, volumes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from farm.model.states import FailureClass
from farm.renderers.base import AppInstall
from tests.support.blender_scenes import APPS, SCENE, pixels, render, save_blend
from tests.support.run_invocation import need_real

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(params=["exe", "bpy"] if APPS["bpy"].argv else ["exe"])
def app(request: pytest.FixtureRequest) -> AppInstall:
    found = APPS[request.param]
    need_real(bool(found.argv and found.argv[0]), "Blender: apt install blender")
    return found


def has(app: AppInstall, feature: str) -> bool:
    """Whether this build of Blender has a feature; Debian's 3.4 is built without Alembic and USD."""
    code = f"import bpy, json; print('HAS', json.dumps(bool(bpy.app.build_options.{feature})))"
    flag = "-c" if app.flavour == "bpy" else "--python-expr"
    argv = [*app.argv, *(() if app.flavour == "bpy" else ("-b", "--factory-startup")), flag, code]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=100).stdout
    return bool(json.loads(said.partition("HAS ")[2].splitlines()[0]))


#: Not every build of Blender has the denoiser, which is on by default.
PLAIN = "\nscene.render.engine = 'CYCLES'\nscene.cycles.use_denoising = False\n"
CLOTH = """
cube.hide_render = True
bpy.ops.mesh.primitive_grid_add(x_subdivisions=8, y_subdivisions=8, size=3)
flag = bpy.context.object
flag.rotation_euler.y = 1.2
cloth = flag.modifiers.new("Tuch", "CLOTH")
pins = flag.vertex_groups.new(name="Pin")
pins.add([0, 8], 1.0, "REPLACE")
cloth.settings.vertex_group_mass = "Pin"
cloth.point_cache.frame_start, cloth.point_cache.frame_end = 1, 8
scene.frame_start, scene.frame_end = 1, 8
"""


def test_a_baked_simulation_is_the_same_wherever_a_chunk_begins(tmp_path: Path, app: AppInstall) -> None:
    """The bake is in the file, and frame 8 does not need frames 1 to 7."""
    bake = CLOTH + "bpy.ops.ptcache.bake_all(bake=True)\nassert cloth.point_cache.is_baked\n"
    scene = save_blend(tmp_path, app, SCENE + PLAIN + bake)
    run, whole = render(tmp_path, app, scene=str(scene), frames=(1, 4, 8), names=("w.{}.png",))
    assert run.verdict.failure is None, run.lines[-20:]
    run, late = render(tmp_path, app, scene=str(scene), frames=(8,), names=("l.{}.png",))
    assert run.verdict.failure is None, run.lines[-20:]
    assert pixels(late[0, 8]) == pixels(whole[0, 8])
    assert pixels(whole[0, 8]) != pixels(whole[0, 1]), "it falls"


@pytest.mark.parametrize("kind", ["alembic", "usd"])
@pytest.mark.parametrize("app", ["bpy"], indirect=True)
def test_a_geometry_cache_is_rendered_and_missed_by_name(tmp_path: Path, app: AppInstall, kind: str) -> None:
    need_real(has(app, kind), f"a Blender built with {kind}")
    cache = tmp_path / ("cache ü.abc" if kind == "alembic" else "cache_u.usdc")
    file = f"filepath={str(cache)!r}"
    write, read = {
        "alembic": (
            f"bpy.ops.wm.alembic_export({file}, start=1, end=9, as_background_job=False)",
            f"bpy.ops.wm.alembic_import({file}, as_background_job=False)",
        ),
        "usd": (
            f"bpy.ops.wm.usd_export({file}, export_animation=True)",
            f"bpy.ops.wm.usd_import({file})",
        ),
    }[kind]
    scene = save_blend(
        tmp_path,
        app,
        SCENE
        + PLAIN
        + f"""
scene.frame_start, scene.frame_end = 1, 9
for other in [one for one in scene.objects if one != cube]: other.select_set(False)
{write}
bpy.data.objects.remove(cube)
{read}
scene.camera = bpy.data.objects["Cam"]
assert len(bpy.data.cache_files) == 1, [one.name for one in scene.objects]
""",
    )
    run, paths = render(tmp_path, app, scene=str(scene), frames=(1, 9))
    assert run.verdict.failure is None, run.lines[-20:]
    assert pixels(paths[0, 1]) != pixels(paths[0, 9]), "the cache moves"
    cache.unlink()
    run, _ = render(tmp_path, app, scene=str(scene), frames=(1,), names=("gone.{}.png",))
    assert run.verdict.failure is FailureClass.PATH
    assert cache.name in run.verdict.reason


if not APPS["bpy"].argv:
    # Debian's Blender is built without both caches; the wheel has them, in the long tier (`bpy`).
    del test_a_geometry_cache_is_rendered_and_missed_by_name


def test_a_missing_volume_is_named(tmp_path: Path, app: AppInstall) -> None:
    gone = tmp_path / "rauch.vdb"
    run, _ = render(
        tmp_path,
        app,
        SCENE
        + f"""
volume = bpy.data.volumes.new("Rauch")
volume.filepath = {str(gone)!r}
scene.collection.objects.link(bpy.data.objects.new("Rauch", volume))
""",
    )
    assert run.verdict.failure is FailureClass.PATH
    assert str(gone) in run.verdict.reason

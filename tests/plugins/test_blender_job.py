"""What the add-on makes of a scene: jobs that the farm takes, and words for what stands against it."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.cli.main import main
from farm.cli.plugin.sources import build_blender, farm_command, sources
from farm.model.errors import FrameRangeError, JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import read_job
from farm.model.paths import find_token
from farm.sdk.jobfile import check_job_here
from tests.support.addon import PLUGINS, Addon, shot


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A file that stands for the artist's."""
    path = tmp_path / "shot.blend"
    path.write_bytes(b"BLENDER")
    return path


def built(addon: Addon, shot: dict[str, Any], **chosen: Any) -> dict[str, Any]:
    """The job, which the farm's own reader and the renderers must take without a word."""
    document: dict[str, Any] = addon.job.build(shot, addon.job.DEFAULTS | chosen, shot["file"])
    job, warnings = read_job(json.dumps(document))
    assert warnings == []
    assert check_job_here(job) == []
    return document


def patterns(document: dict[str, Any]) -> list[str]:
    return [
        Path(output["pattern"]).name
        for step in document["steps"]
        for output in step["outputs"]
        if output["kind"] == "sequence"
    ]


def said(
    addon: Addon, shot: dict[str, Any], changed: bool | list[str] = False, **chosen: Any
) -> dict[str, tuple[str, str]]:
    """Messages by their code."""
    found = addon.checks.check(shot, addon.job.DEFAULTS | chosen, changed)
    return {message.code: (message.severity, str(message)) for message in found}


# -- jobs ------------------------------------------------------------------------------------------------


def test_a_plain_scene_is_one_step(addon: Addon, scene: Path) -> None:
    document = built(addon, shot(scene), project="film", priority=70, paused=True, scout=3, pools="gpu, big")
    assert {key: document[key] for key in ("name", "project", "priority", "paused", "scout")} == {
        "name": "shot",
        "project": "film",
        "priority": 70,
        "paused": True,
        "scout": 3,
    }
    (step,) = document["steps"]
    assert (step["frames"], step["chunk"], step["pools"]) == ("1-10", "auto", ["gpu", "big"])
    assert step["version"] == ">=3.4,<3.5"
    assert step["params"]["view_layer"] == "ViewLayer"
    assert "camera" not in step["params"], "markers must go on switching cameras"


def test_every_view_layer_gets_files_of_its_own(addon: Addon, scene: Path) -> None:
    layers = ["Sky", "sky", "Boden/Wand #2"]
    document = built(addon, shot(scene, layers=layers))
    assert patterns(document) == ["shot_Sky_####.png", "shot_sky_2_####.png", "shot_Boden_Wand _2_####.png"]
    assert document["steps"][0]["params"]["view_layers"] == layers


@pytest.mark.parametrize(
    "one", [{"compositing": True}, {"output": {"format": "EXR_MULTILAYER", "pattern": "/tmp/a.####.exr"}}]
)
def test_layers_that_are_joined_stay_in_one_file(addon: Addon, scene: Path, one: dict[str, Any]) -> None:
    document = built(addon, shot(scene, layers=["Sky", "Ground"], **one))
    assert len(patterns(document)) == 1
    assert "view_layers" not in document["steps"][0]["params"]


def test_cameras_and_layers_are_multiplied(addon: Addon, scene: Path) -> None:
    document = built(addon, shot(scene, cameras=["A b", "A/b"], layers=["Sky", "Ground"]), camera_from="EACH")
    assert [(step["name"], step["params"]["camera"]) for step in document["steps"]] == [
        ("render_A_b", "A b"),
        ("render_A_b_2", "A/b"),
    ]
    names = patterns(document)
    assert names[:2] == ["shot_A b_Sky_####.png", "shot_A b_Ground_####.png"]
    assert len(set(names)) == 4


def test_a_movie_is_frames_and_then_a_stitch(addon: Addon, scene: Path) -> None:
    movie = {
        "kind": "movie",
        "movie": str(scene.parent / "film0001-0010.mov"),
        "pattern": "",
        "format": "",
        "codec": "H264",
    }
    document = built(addon, shot(scene, output=movie, rate="24000/1001"))
    frames, film = document["steps"]
    assert frames["outputs"][0]["pattern"].endswith("/film0001-0010_frames/film0001-0010.####.png")
    assert frames["params"]["format"] == "PNG"
    assert film["params"] == {
        "input": {"step": "render", "output": 0},
        "rate": "24000/1001",
        "encode": "h264",
    }
    assert film["outputs"] == [{"pattern": movie["movie"], "kind": "movie"}]
    assert (film["after"], film["movie_frames"]) == (["render"], 10)
    two = built(addon, shot(scene, output=movie, layers=["Sky", "Ground"]))
    assert [Path(step["outputs"][0]["pattern"]).name for step in two["steps"]] == [
        "film0001-0010.Sky.####.png",
        "film0001-0010.Sky.mov",
        "film0001-0010.Ground.mov",
    ]


def test_a_movie_of_another_kind_says_what_it_becomes(addon: Addon, scene: Path) -> None:
    movie = {
        "kind": "movie",
        "movie": "/p/film.avi",
        "pattern": "",
        "format": "",
        "codec": "MPEG4",
        "audio": True,
    }
    told = said(addon, shot(scene, output=movie, sound=True), frames_from="LIST", frames="1-9x2")
    assert told["movie-codec"] == ("warning", "The movie is encoded as H.264, not MPEG4")
    assert told["movie-container"] == ("warning", "The movie is written as film.mp4")
    assert told["movie-sound"][0] == "warning"
    lossless = said(addon, shot(scene, output=movie | {"movie": "/p/film.mkv", "codec": "FFV1"}))
    assert not {"movie-codec", "movie-container"} & set(lossless)


@pytest.mark.parametrize(
    ("chosen", "frames"),
    [
        ({}, "1-10"),
        ({"frames_from": "CURRENT"}, "4"),
        ({"frames_from": "LIST", "frames": "1-5x2,  9"}, "1-5x2, 9"),
    ],
)
def test_frames_are_those_that_were_chosen(
    addon: Addon, scene: Path, chosen: dict[str, Any], frames: str
) -> None:
    assert built(addon, shot(scene), **chosen)["steps"][0]["frames"] == frames


def test_the_step_of_the_range_is_kept(addon: Addon, scene: Path) -> None:
    frames = {"start": -5, "end": 20, "step": 5, "current": 0}
    assert built(addon, shot(scene, frames=frames))["steps"][0]["frames"] == "-5-20x5"


@given(st.text(alphabet="0123456789-,x: ", max_size=20))
def test_frames_are_counted_as_the_farm_counts_them(addon: Addon, text: str) -> None:
    mine = addon.job.frames_list(text)
    if mine is None:
        return
    try:
        assert set(FrameRange.parse(text)) == set(mine)
    except FrameRangeError:
        pass  # the farm is stricter, and says so itself


@given(
    st.text(alphabet="ab#%d0._- ü", max_size=12), st.integers(1, 8), st.sampled_from(["", ".png", "_x.exr"])
)
def test_a_part_in_a_name_leaves_the_frames_place_alone(
    addon: Addon, before: str, width: int, after: str
) -> None:
    pattern = f"/out/{before.rstrip('#')}{'#' * width}{after}"
    made = addon.naming.with_part(pattern, "Sky")
    token = find_token(made)
    assert token is not None
    assert token.width == width
    assert "Sky" in Path(made).name


def test_a_gpu_scene_asks_for_a_gpu_and_says_so(addon: Addon, scene: Path) -> None:
    gpu = shot(scene, device="GPU")
    assert built(addon, gpu)["steps"][0]["resources"]["gpus"] == 1
    assert said(addon, gpu)["gpu"][0] == "note"
    told = said(addon, gpu, gpus=0)["gpu"]
    assert told[0] == "warning"
    assert "rendered on the CPU" in told[1]


def test_an_engine_of_an_add_on_uses_the_nodes_own_settings(addon: Addon, scene: Path) -> None:
    octane = shot(scene, engine="octane", own_engine=False)
    assert built(addon, octane)["steps"][0]["params"]["user_settings"] is True
    assert said(addon, octane)["engine-addon"][0] == "warning"


@pytest.mark.parametrize(
    ("overwrite", "chosen", "existing"),
    [
        (True, "SCENE", "overwrite"),
        (False, "SCENE", "skip"),
        (False, "OVERWRITE", "overwrite"),
        (True, "REFUSE", "refuse"),
    ],
)
def test_overwrite_becomes_what_to_do_about_files(
    addon: Addon, scene: Path, overwrite: bool, chosen: str, existing: str
) -> None:
    assert built(addon, shot(scene, overwrite=overwrite), existing=chosen)["steps"][0]["existing"] == existing


def test_assets_are_named_as_the_farm_names_them(addon: Addon, scene: Path) -> None:
    folder = scene.parent
    for name in ("lib.blend", "a_0003.png", "skin.1101.png", "uv.u1_v1.png", "icon.png"):
        (folder / name).write_bytes(b"x")
    (folder / "cache").mkdir()
    assets = [
        {"path": f"{folder}/lib.blend", "kind": "file", "what": "linked library", "rendered": True},
        {"path": f"{folder}/a_0003.png", "kind": "sequence", "what": "s", "users": [], "rendered": True},
        {
            "path": f"{folder}/skin.<UDIM>.png",
            "kind": "udim",
            "what": "t",
            "numbers": [1101],
            "rendered": True,
        },
        {
            "path": f"{folder}/uv.<UVTILE>.png",
            "kind": "udim",
            "what": "t",
            "numbers": [1001],
            "rendered": True,
        },
        {"path": f"{folder}/icon.png", "kind": "file", "what": "t", "rendered": False},
    ]
    simulations = [{"what": "fluid", "baked": True, "folder": f"{folder}/cache"}]
    document = built(addon, shot(scene, assets=assets, simulations=simulations))
    assert [(Path(one["path"]).name, one["kind"], one["required"]) for one in document["assets"]] == [
        ("lib.blend", "file", True),
        ("a_####.png", "sequence", True),
        ("skin.<UDIM>.png", "udim", True),
        ("uv.u1_v1.png", "file", True),
        ("icon.png", "file", False),
        ("cache", "dir", True),
    ]


def test_a_sequence_is_looked_for_by_the_frames_that_show_it(addon: Addon, scene: Path) -> None:
    users = [(3, 5, 10, False)]  # three pictures from frame 5 on, the first is number 11
    asset = {"path": "/p/a_0001.png", "kind": "sequence", "what": "s", "users": users, "rendered": True}
    (_, look) = addon.checks.looks(shot(scene, assets=[asset]), addon.job.DEFAULTS)
    assert look["look"] == "frames"
    assert look["numbers"]() == {11, 12, 13}, "it stops at its last picture"
    assert addon.checks.sequence_number((3, 1, 0, True), 7) == 1, "and begins again when it is cyclic"


# -- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene_is", "chosen", "code", "words"),
    [
        ({"file": ""}, {}, "unsaved", "never been saved"),
        ({"dirty": True}, {}, "dirty", "Save it (Ctrl+S), or submit a copy"),
        (
            {"frames": {"start": 9, "end": 1, "step": 1, "current": 1}},
            {},
            "frames-empty",
            "starts at 9 and ends at 1",
        ),
        ({}, {"frames_from": "LIST"}, "frames-empty", "No frames are named"),
        ({"camera": "", "cameras": []}, {}, "camera-missing", "The scene has no camera"),
        ({"cameras": []}, {"camera_from": "EACH"}, "camera-missing", "The scene has no camera"),
        ({}, {"camera_from": "ONE", "camera": "Kran"}, "camera-missing", "no camera named 'Kran'"),
        ({"layers": []}, {}, "layer-missing", "No view layer is on"),
        ({"output": {"kind": ""}}, {}, "output-missing", "no output path"),
        ({"output": {"error": "unknown variable"}}, {}, "output-path", "unknown variable"),
        ({"output": {"format": "", "blender_format": "TARGA"}}, {}, "format", "cannot write TARGA"),
        ({"output": {"pattern": "/p/a_####_%04d.png"}}, {}, "output-token", "would read %04d"),
        (
            {"views": [("left", "_L"), ("right", "_l")], "views_format": "INDIVIDUAL"},
            {},
            "views",
            "The stereo views left, right would write the same files",
        ),
        ({"output": {"pattern": "/p/\udcff/a_####.png"}}, {}, "name-encoding", "is not UTF-8"),
    ],
)
def test_what_stops_a_submission_is_said_in_words(
    addon: Addon, scene: Path, scene_is: dict[str, Any], chosen: dict[str, Any], code: str, words: str
) -> None:
    severity, text = said(addon, shot(scene, **scene_is), **chosen)[code]
    assert severity == "error"
    assert words in text


def test_a_good_scene_has_nothing_against_it(addon: Addon, scene: Path) -> None:
    assert said(addon, shot(scene)) == {}


def test_a_camera_that_a_marker_binds_is_enough(addon: Addon, scene: Path) -> None:
    told = said(addon, shot(scene, camera="", bound_cameras=[(1, "A"), (50, "B")]))
    assert told == {"camera-markers": ("note", "Markers switch cameras: A from frame 1, B from frame 50")}


def test_a_script_that_changed_the_scene_is_noticed(addon: Addon, scene: Path) -> None:
    assert said(addon, shot(scene), changed=True)["changed"][0] == "error"
    assert "changed" not in said(addon, shot(scene), changed=True, source="COPY")


def test_simulations_that_are_not_baked_are_warned_of(addon: Addon, scene: Path) -> None:
    loose = [{"what": "cloth flag", "baked": False, "folder": ""}]
    assert said(addon, shot(scene, simulations=loose))["simulation"][0] == "warning"
    assert "simulation" not in said(addon, shot(scene, simulations=loose), frames_from="CURRENT")
    beside = [{"what": "cloth flag", "baked": True, "folder": str(scene.parent / "blendcache_shot")}]
    assert said(addon, shot(scene, simulations=beside), source="COPY")["copy-caches"][0] == "error"


# -- File Output nodes, stereo, sound --------------------------------------------------------------------

PASSES = {
    "node": "Passes",
    "tree": "",
    "error": "",
    "files": [
        {"slot": "Z", "pattern": "/p/z_####.exr", "format": "OPEN_EXR", "view": ""},
        {"slot": "Mist", "pattern": "/p/mist####.png", "format": "PNG", "view": ""},
    ],
}
INNER = {
    "node": "Joined",
    "tree": "Grp",
    "error": "",
    "files": [{"slot": "", "pattern": "/p/all####.exr", "format": "OPEN_EXR_MULTILAYER", "view": ""}],
}
EYES = [("left", "_L"), ("right", "_R")]


def test_every_file_of_file_output_nodes_is_an_output(addon: Addon, scene: Path) -> None:
    """Whatever a version calls the fields, all files are outputs, so that the farm verifies them."""
    here = shot(scene, compositing=True, node_outputs=[PASSES, INNER])
    (step,) = built(addon, here)["steps"]
    assert [output["pattern"] for output in step["outputs"][1:]] == [
        "/p/z_####.exr",
        "/p/mist####.png",
        "/p/all####.exr",
    ]
    assert step["params"]["node_outputs"] == [
        {"node": "Passes", "slot": "Z"},
        {"node": "Passes", "slot": "Mist"},
        {"node": "Joined", "tree": "Grp"},
    ]
    told = said(addon, here)["node-output"]
    assert told[0] == "note"
    looks = addon.checks.looks(here, addon.job.DEFAULTS)
    assert [one["path"] for one in looks][1:] == ["/p/z_####.exr", "/p/mist####.png", "/p/all####.exr"]


def test_each_camera_has_files_of_its_own_from_nodes_too(addon: Addon, scene: Path) -> None:
    """Cameras are multiplied with everything, and no two steps write one file."""
    here = shot(scene, cameras=["A", "B"], compositing=True, node_outputs=[PASSES])
    found = patterns(built(addon, here, camera_from="EACH"))
    assert found[:3] == ["shot_A_####.png", "z_A_####.exr", "mist_A_####.png"]
    assert len(set(found)) == 6


def test_two_nodes_that_write_one_file_are_refused(addon: Addon, scene: Path) -> None:
    """Outputs of a job are pairwise different: the add-on says which are not, and the farm refuses."""
    here = shot(scene, compositing=True, node_outputs=[PASSES, dict(PASSES, node="Twin")])
    severity, text = said(addon, here)["output-twice"]
    assert severity == "error"
    assert "/p/mist####.png" in text
    document = addon.job.build(here, addon.job.DEFAULTS, here["file"])
    job, _ = read_job(json.dumps(document))
    with pytest.raises(JobFileError, match="the same file"):
        check_job_here(job)


def test_a_node_that_cannot_be_verified_stops_it_by_name(addon: Addon, scene: Path) -> None:
    bad = {"node": "Passes", "tree": "Grp", "files": [], "error": "the farm cannot verify CINEMA files"}
    severity, text = said(addon, shot(scene, compositing=True, node_outputs=[bad]))["node-output"]
    assert severity == "error"
    assert "File Output node Passes in the node group Grp" in text
    assert "CINEMA" in text
    odd = dict(PASSES, files=[dict(PASSES["files"][0], pattern="/p/z_####_%04d.exr")])
    assert said(addon, shot(scene, compositing=True, node_outputs=[odd]))["output-token"][0] == "error"


def test_every_stereo_view_is_an_output(addon: Addon, scene: Path) -> None:
    """All views, each verified, in the names Blender gives them."""
    here = shot(scene, views=EYES, views_format="INDIVIDUAL", layers=["Sky", "Ground"])
    (step,) = built(addon, here)["steps"]
    assert patterns({"steps": [step]}) == [
        "shot_Sky_####_L.png",
        "shot_Sky_####_R.png",
        "shot_Ground_####_L.png",
        "shot_Ground_####_R.png",
    ]
    assert step["params"]["views"] == ["left", "right"]
    assert said(addon, here)["views"][0] == "note"


@pytest.mark.parametrize(
    ("views_format", "form", "files"),
    [
        ("STEREO_3D", "PNG", 1),
        ("MULTIVIEW", "EXR", 1),
        ("MULTIVIEW", "EXR_MULTILAYER", 1),
        ("MULTIVIEW", "PNG", 2),
        ("INDIVIDUAL", "EXR", 2),
    ],
)
def test_views_in_one_file_stay_in_one(
    addon: Addon, scene: Path, views_format: str, form: str, files: int
) -> None:
    here = shot(scene, views=EYES, views_format=views_format)
    (step,) = built(addon, here, format=form)["steps"]
    assert len(step["outputs"]) == files
    assert ("views" in step["params"]) == (files == 2)


def test_a_stereo_movie_is_a_film_for_each_eye(addon: Addon, scene: Path) -> None:
    movie = {"kind": "movie", "movie": "/p/film.mp4", "pattern": "", "format": "", "codec": "H264"}
    document = built(
        addon,
        shot(
            scene,
            output=movie,
            views=EYES,
            views_format="INDIVIDUAL",
            compositing=True,
            node_outputs=[PASSES],
        ),
    )
    frames, *films = document["steps"]
    assert len(frames["outputs"]) == 4
    assert [Path(film["outputs"][0]["pattern"]).name for film in films] == ["film_L.mp4", "film_R.mp4"]
    assert [film["params"]["input"]["output"] for film in films] == [0, 1], "what nodes write is no film"


def test_the_sound_of_the_scene_is_mixed_by_a_step_and_laid_under_every_film(
    addon: Addon, scene: Path
) -> None:
    movie = {
        "kind": "movie",
        "movie": str(scene.parent / "film.mp4"),
        "pattern": "",
        "format": "",
        "codec": "H264",
        "audio": True,
    }
    here = shot(scene, output=movie, sound=True, layers=["Sky", "Ground"])
    document = built(addon, here, allow_missing=True, pools="gpu")
    render, sound, *films = document["steps"]
    assert (sound["name"], sound["kind"], sound["renderer"]) == ("sound", "single", "blender")
    assert sound["params"]["mixdown"] == "1-10"
    assert sound["params"]["missing"] == "warn"
    assert (sound["version"], sound["pools"]) == (render["version"], ["gpu"])
    assert sound["outputs"] == [
        {"pattern": str(scene.parent / "film_frames" / "film.flac"), "kind": "single"}
    ]
    assert len(films) == 2
    for film in films:
        assert film["params"]["sound"] == {"step": "sound", "output": 0}
        assert film["after"] == ["render", "sound"]
    assert said(addon, here)["movie-sound"][0] == "note"


@pytest.mark.parametrize(
    ("chosen", "output", "sound"),
    [
        ({"frames_from": "LIST", "frames": "1-9x2"}, {}, True),
        ({"frames_from": "LIST", "frames": "9-1"}, {}, True),
        ({}, {"audio": False}, True),
        ({}, {}, False),
    ],
)
def test_a_film_without_sound_has_no_step_for_it(
    addon: Addon, scene: Path, chosen: dict[str, Any], output: dict[str, Any], sound: bool
) -> None:
    movie = {"kind": "movie", "movie": "/p/film.mp4", "pattern": "", "format": "", "codec": "H264"}
    here = shot(scene, output=movie | {"audio": True} | output, sound=sound)
    assert [step["renderer"] for step in built(addon, here, **chosen)["steps"]] == ["blender", "stitch"]
    told = said(addon, here, **chosen)
    assert ("movie-sound" in told) == (sound and output == {})
    assert told.get("movie-sound", ("warning",))[0] == "warning"


def test_what_cannot_be_packed_is_said(addon: Addon, scene: Path) -> None:
    """Packed images are no assets; sequences and movies stay files though the artist packs."""
    severity, text = said(addon, shot(scene, unpackable=["walk", "sky.mov"]))["unpackable"]
    assert severity == "warning"
    assert "walk, sky.mov" in text


def test_a_render_region_and_a_percentage_are_shown(addon: Addon, scene: Path) -> None:
    told = said(addon, shot(scene, border=True, crop=True, size=(1920, 1080, 50)))
    assert "cropped to it" in told["border"][1]
    assert "50 % of 1920 x 1080" in told["percent"][1]
    assert "the rest stays empty" in said(addon, shot(scene, border=True))["border"][1]


def test_what_a_script_changed_is_named(addon: Addon, scene: Path) -> None:
    """Blender does not say that a script changed the scene."""
    severity, text = said(addon, shot(scene), changed=["objects", "lights"])["changed"]
    assert severity == "error"
    assert "a script changed it: objects, lights" in text
    assert "changed" not in said(addon, shot(scene), changed=[])


def test_letters_beyond_ascii_are_a_note(addon: Addon, scene: Path) -> None:
    told = said(addon, shot(scene, output={"pattern": "/p/Größe/日本_####.png"}))
    assert told["name-letters"][0] == "note"


# -- the sources and the zips ----------------------------------------------------------------------------


def python_files() -> list[Path]:
    return sorted(path for path in PLUGINS.rglob("*.py"))


@pytest.mark.parametrize("path", python_files(), ids=lambda path: path.relative_to(PLUGINS).as_posix())
def test_a_plug_in_is_old_python_and_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert names <= set(sys.stdlib_module_names) | {"bpy"}
    pure = path.parent.name == "_shared" or path.name in ("job.py", "naming.py", "checks.py")
    assert not (pure and "bpy" in names)


def test_every_source_is_in_the_wheel() -> None:
    project = tomllib.loads((PLUGINS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    globs = [one for group in project["tool"]["setuptools"]["data-files"].values() for one in group]
    names = [
        path.relative_to(PLUGINS.parent).as_posix()
        for path in PLUGINS.rglob("*")
        if path.suffix in (".py", ".toml")
    ]
    assert [
        name for name in names if name != "plugins/ruff.toml" and not any(fnmatch(name, one) for one in globs)
    ] == []


def test_all_say_the_same_version() -> None:
    manifest = tomllib.loads((PLUGINS / "blender" / "blender_manifest.toml").read_text(encoding="utf-8"))
    entry = ast.parse((PLUGINS / "blender" / "__init__.py").read_text(encoding="utf-8"))
    info = next(
        ast.literal_eval(node.value)
        for node in entry.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "bl_info"
    )
    assert manifest["version"] == ".".join(map(str, info["version"])) == farm.__version__
    assert len(manifest["tagline"]) <= 64
    # An older Blender says itself that it is too old, before it runs a line of the add-on.
    assert (info["blender"], manifest["blender_version_min"]) == ((3, 4, 0), "4.2.0")


def test_the_zips_have_the_two_forms_and_are_the_same_each_time(tmp_path: Path) -> None:
    forms = {}
    for extension in (False, True):
        path = build_blender(tmp_path / "a.zip", extension=extension, command=["/opt/farm", "--x"])
        first = path.read_bytes()
        assert (
            build_blender(tmp_path / "b.zip", extension=extension, command=["/opt/farm", "--x"]).read_bytes()
            == first
        )
        with zipfile.ZipFile(path) as packed:
            forms[extension] = set(packed.namelist())
            told = packed.read("installed.json" if extension else "overcrank/installed.json")
            assert json.loads(told) == {"command": ["/opt/farm", "--x"]}
    assert {"blender_manifest.toml", "__init__.py", "_shared/submission.py"} <= forms[True]
    assert {"overcrank/__init__.py", "overcrank/_shared/submission.py"} <= forms[False]
    assert "overcrank/blender_manifest.toml" not in forms[False], "4.2 would take it for an extension"


def test_the_farm_writes_down_how_it_is_called() -> None:
    command = farm_command()
    assert Path(command[0]).is_file()
    assert sources() == PLUGINS


# -- the verb --------------------------------------------------------------------------------------------


def test_zips_are_built_for_others_without_this_machines_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "build", "blender", "--out", str(tmp_path / "zips"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["built"]
    assert [one["form"] for one in told] == ["add-on", "extension"]
    for one in told:
        with zipfile.ZipFile(one["path"]) as packed:
            assert not [name for name in packed.namelist() if name.endswith("installed.json")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["install", "maya"], "a plug-in for maya is not built yet"),
        (["build", "Nuke", "--out", "x"], "a plug-in for Nuke is not built yet"),
        (["install", "gimp"], "there is no plug-in for 'gimp'"),
        (["install", ""], "there is no plug-in for ''"),
        (["remove", ""], "there is no plug-in for ''"),
        (["build", "blender", "--out", ""], "--out and --path take a folder"),
        (["install", "blender", "--path", ""], "--out and --path take a folder"),
        (["install", "blender", "--blender", "/nowhere/blender"], "--blender /nowhere/blender is no Blender"),
        (["list", "blender", "--path", "/nowhere"], "--path /nowhere is no folder"),
    ],
)
def test_what_there_is_not_is_refused_by_name(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", *words]) == 2
    assert said in capsys.readouterr().err

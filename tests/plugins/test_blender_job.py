"""What the add-on makes of a scene: jobs that the farm takes, and words for what stands against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import FrameRangeError
from farm.model.frames import FrameRange
from farm.model.paths import find_token
from tests.support.addon import Addon, shot
from tests.support.addon_jobs import built, patterns, said

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

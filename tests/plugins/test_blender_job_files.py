"""What the add-on makes of File Output nodes, stereo and sound: every file is an output, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import JobFileError
from farm.model.jobs import read_job
from farm.sdk.jobfile import check_job_here
from tests.support.addon import Addon, shot
from tests.support.addon_jobs import built, patterns, said

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

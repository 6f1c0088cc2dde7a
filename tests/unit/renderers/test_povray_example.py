"""The worked example of CONTRIBUTING.md: found by its entry point, and real renders by POV-Ray."""

from __future__ import annotations

import shutil
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import OpenImageIO as oiio  # noqa: N813
import pytest
from overcrank_povray import RENDERER

from farm.model.frames import FrameRange
from farm.model.states import FailureClass
from farm.renderers import registry
from farm.renderers.base import ChunkContext, PlannedFile, read_params
from tests.support.run_invocation import Run, need_real, run_all

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "overcrank-povray"
SCENE = """#version 3.7;
#include "parts.inc"
global_settings { assumed_gamma 1.0 }
camera { location <0, 1, -4> look_at <0, 0.5, 0> }
light_source { <2, 4, -3> rgb 1 }
background { rgb Level }
Ball(clock)
#warning concat("clock ", str(clock, 0, 3), " frame ", str(frame_number, 0, 0))
"""
PARTS = "#macro Ball(T) sphere { <0, T, 0>, 0.5 pigment { rgb <1, 0.3, 0.1> } } #end"


@pytest.fixture
def _povray() -> None:
    need_real(shutil.which("povray") is not None, "POV-Ray: apt-get install povray")


def render(
    folder: Path, frames: tuple[int, ...], suffix: str, scene: str = SCENE, **params: object
) -> list[Run]:
    project = folder / "pro ' jêct #%d"
    project.mkdir(exist_ok=True)
    (project / "sc ene.pov").write_text(scene)
    (project / "parts.inc").write_text(PARTS)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    given = {
        "scene": str(project / "sc ene.pov"),
        "width": 48,
        "height": 32,
        "declare": {"Level": 0.5},
        **params,
    }
    context = ChunkContext(
        params=read_params(RENDERER, given),
        frames=frames,
        step_frames=FrameRange.parse("0-10"),
        files=tuple(PlannedFile(0, frame, str(picture(folder, frame, suffix))) for frame in frames),
        patterns=(),
        scratch=str(scratch),
    )
    return run_all(RENDERER, context)


def picture(folder: Path, frame: int, suffix: str = ".png") -> Path:
    return folder / f"öut #%d.{frame:04}{suffix}"


def test_its_entry_point_makes_it_a_renderer_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert list(points) == [registry.GROUP]
    made = EntryPoints(
        EntryPoint(name, value, registry.GROUP) for name, value in points[registry.GROUP].items()
    )
    monkeypatch.setattr(registry, "entry_points", lambda group: made)
    assert registry.broken_renderers() == {}
    assert registry.renderer_for_file("/p/ball.POV") is RENDERER
    params = {info.name: info for info in registry.describe(registry.get_renderer("povray"))}
    assert params["scene"].required
    assert params["scene"].type == "path"
    assert all(info.help for info in params.values())


@pytest.mark.parametrize(
    ("suffix", "params", "kind"),
    [(".png", {}, "uint8"), (".png", {"color_depth": "16"}, "uint16"), (".exr", {}, "half")],
)
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.usefixtures("_povray")
def test_frames_land_where_they_are_expected(
    tmp_path: Path, suffix: str, params: dict[str, object], kind: str
) -> None:
    runs = render(tmp_path, (10, 3), suffix, **params)
    assert [run.verdict.failure for run in runs] == [None, None], runs[-1].lines[-20:]
    assert [run.uncollected for run in runs] == [[], []]
    assert [run.warnings for run in runs] == [["clock 1.000 frame 10"], ["clock 0.300 frame 3"]]
    assert [run.started for run in runs] == [[10], [3]]
    pixels = []
    for frame in (3, 10):
        image = oiio.ImageBuf(str(picture(tmp_path, frame, suffix)))
        assert image.read(force=True), image.geterror()
        assert (image.spec().width, image.spec().height, str(image.spec().format)) == (48, 32, kind)
        pixels.append(list(image.get_pixels(oiio.FLOAT).flatten()))
    assert pixels[0] != pixels[1]


@pytest.mark.parametrize(
    ("scene", "failure", "words"),
    [
        (SCENE.replace("parts.inc", "gone.inc"), FailureClass.PATH, "gone.inc is missing"),
        (SCENE.replace("rgb Level", "rgb Lewel"), FailureClass.CONFIG, "Lewel"),
    ],
)
@pytest.mark.real
@pytest.mark.slow
@pytest.mark.usefixtures("_povray")
def test_what_is_wrong_with_a_scene_is_said(
    tmp_path: Path, scene: str, failure: FailureClass, words: str
) -> None:
    (run,) = render(tmp_path, (1, 2), ".png", scene)
    assert run.verdict.failure is failure
    assert words in run.verdict.reason
    assert not picture(tmp_path, 1).exists()

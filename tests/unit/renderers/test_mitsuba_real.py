"""Real renders by Mitsuba, from XML and from a script."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.model.frames import FrameRange
from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, PlannedFile, read_params
from farm.renderers.mitsuba import RENDERER
from tests.support.run_invocation import Run, need_real, run_all

pytestmark = [pytest.mark.real, pytest.mark.slow]

XML = """<scene version="3.0.0">
  <default name="level" value="0.5"/>
  <integrator type="path"/>
  <sensor type="perspective"><transform name="to_world"><translate x="$frame"/></transform>
    <sampler type="independent"><integer name="sample_count" value="2"/></sampler>
    <film type="hdrfilm"><integer name="width" value="32"/><integer name="height" value="18"/></film></sensor>
  <shape type="sphere"><point name="center" x="0" y="0" z="5"/></shape>
  <emitter type="constant"><rgb name="radiance" value="$level"/></emitter>
</scene>
"""
SCRIPT = """
def build(frame, first, last, parameters):
    print("BUILD", frame, first, last, sorted(parameters))
    if frame == 13:
        raise ValueError("unlucky")
    return {
        "type": "scene",
        "integrator": {"type": "path"},
        "sensor": {"type": "perspective", "film": {"type": "hdrfilm", "width": 24, "height": 16}},
        "ball": {"type": "sphere", "center": [0.3 * frame, 0, 5]},
        "light": {"type": "constant"},
    }
"""


@pytest.fixture(autouse=True)
def _mitsuba() -> None:
    need_real(importlib.util.find_spec("mitsuba") is not None, "Mitsuba: pip install mitsuba")


def render(
    tmp_path: Path, frames: tuple[int, ...] = (1,), name: str = "m %d #'é.{}.exr", **params: object
) -> tuple[Run, dict[int, Path]]:
    (tmp_path / "out").mkdir(exist_ok=True)
    scratch = tmp_path / f"scratch-{len(list(tmp_path.glob('scratch-*')))}"
    scratch.mkdir()
    if not {"scene", "scene_script"} & set(params):
        (tmp_path / "s.py").write_text(SCRIPT)
        params["scene_script"] = str(tmp_path / "s.py")
    paths = {frame: tmp_path / "out" / name.format(frame) for frame in frames}
    context = ChunkContext(
        params=read_params(RENDERER, {"spp": 2, **params}),
        frames=frames,
        step_frames=FrameRange.parse("-5-20"),
        files=tuple(PlannedFile(0, frame, str(path)) for frame, path in paths.items()),
        patterns=(),
        app=AppInstall("mitsuba", "", (sys.executable,)),
        scratch=str(scratch),
    )
    (run,) = run_all(RENDERER, context)
    return run, paths


def write_xml(tmp_path: Path, text: str = XML) -> str:
    path = tmp_path / "scene é.xml"
    path.write_text(text)
    return str(path)


def pixels(path: Path) -> list[float]:
    image = oiio.ImageBuf(str(path))
    assert image.read(force=True), image.geterror()
    return list(image.get_pixels(oiio.FLOAT).flatten())


def test_negative_and_sparse_frames_of_a_script(tmp_path: Path) -> None:
    run, paths = render(tmp_path, (-2, 3, 1), parameters={"b": 1, "a": 2})
    assert run.verdict.failure is None, run.lines[-20:]
    assert run.started == run.finished == [-2, 3, 1]
    assert "BUILD -2 -5 20 ['a', 'b']" in run.lines
    assert len({tuple(pixels(path)) for path in paths.values()}) == 3
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in paths.values()}
    assert run.progress(3)[-1] == 1.0


def test_noise_depends_on_the_frame_not_on_the_chunk(tmp_path: Path) -> None:
    _, one = render(tmp_path, (3,), name="one.{}.exr")
    _, many = render(tmp_path, (-1, 3), name="many.{}.exr")
    # Threads add up what overlaps between blocks in any order, so the last bit may differ.
    assert pixels(one[3]) == pytest.approx(pixels(many[3]), abs=1e-5)
    assert pixels(one[3]) != pytest.approx(pixels(many[-1]), abs=1e-2)


def test_xml_takes_the_frame_parameters_and_size(tmp_path: Path) -> None:
    scene = write_xml(tmp_path)
    run, paths = render(tmp_path, (0, 1), scene=scene, parameters={"level": 0.25}, width=40, height=20)
    assert run.verdict.failure is None, run.lines[-20:]
    assert pixels(paths[0]) != pixels(paths[1])
    assert pixels(paths[0])[0] == pytest.approx(0.25, abs=0.01)
    assert oiio.ImageBuf(str(paths[0])).spec().width == 40
    still = write_xml(tmp_path, XML.replace("$frame", "0"))
    run, paths = render(tmp_path, (0,), scene=still)
    assert run.verdict.failure is None, run.lines[-20:]
    run, _ = render(tmp_path, (0,), scene=scene, parameters={"lvl": 1})
    assert run.verdict.failure is FailureClass.CONFIG
    assert "$lvl" in run.verdict.reason


@pytest.mark.parametrize(
    ("suffix", "depth", "kind"),
    [
        ("exr", "16", "half"),
        ("exr", "32", "float"),
        ("png", "", "uint8"),
        ("png", "16", "uint16"),
        ("jpg", "", "uint8"),
    ],
)
def test_formats(tmp_path: Path, suffix: str, depth: str, kind: str) -> None:
    run, paths = render(tmp_path, (1,), name=f"f.{{}}.{suffix}", scene=write_xml(tmp_path), color_depth=depth)
    assert run.verdict.failure is None, run.lines[-20:]
    spec = oiio.ImageBuf(str(paths[1])).spec()
    assert (str(spec.format), spec.nchannels, spec.width) == (kind, 3, 32)
    # The background is 0.5 in linear light: 0.735 in sRGB.
    assert pixels(paths[1])[0] == pytest.approx(0.5 if suffix == "exr" else 0.735, abs=0.02)


def test_what_goes_wrong_is_told_in_the_right_class(tmp_path: Path) -> None:
    texture = XML.replace(
        "<point",
        '<bsdf type="diffuse"><texture type="bitmap" name="reflectance">'
        '<string name="filename" value="/nowhere/t.png"/></texture></bsdf><point',
    )
    for params, frames, kind, words in (
        ({"scene": "/nowhere/a.xml"}, (1,), FailureClass.CONFIG, "/nowhere/a.xml does not exist"),
        ({"scene": write_xml(tmp_path, "<scene")}, (1,), FailureClass.CONFIG, ""),
        ({"scene_script": "/nowhere/s.py"}, (1,), FailureClass.CONFIG, "does not exist"),
        ({"variant": "scalar_mono_double"}, (1,), FailureClass.CONFIG, "scalar_mono_double"),
        ({"sensor": 3}, (1,), FailureClass.CONFIG, "no sensor 3"),
        ({}, (13,), FailureClass.CONFIG, "ValueError: unlucky"),
    ):
        run, _ = render(tmp_path, frames, **params)  # type: ignore[arg-type]
        assert run.verdict.failure is kind, (params, run.verdict)
        assert words in run.verdict.reason
        assert run.exit_code == 64
    run, _ = render(tmp_path, scene=write_xml(tmp_path, texture))
    assert run.verdict.failure is FailureClass.PATH
    assert "/nowhere/t.png" in run.verdict.reason


def test_frames_before_a_bad_one_are_kept(tmp_path: Path) -> None:
    run, paths = render(tmp_path, (12, 13, 14))
    assert run.finished == [12]
    assert paths[12].is_file()
    assert not paths[14].exists()
    assert run.verdict.failure is FailureClass.CONFIG


def test_a_destination_that_is_gone_is_a_path_problem(tmp_path: Path) -> None:
    run, _ = render(tmp_path, name="nowhere/a.{}.exr")
    assert run.verdict.failure is FailureClass.PATH
    assert "nowhere/a.1.exr" in run.verdict.reason

"""Real filtering by ffmpeg, in both versions at hand: exact numbers, exact depth, every lie caught."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, PlannedFile, PlannedInput, read_params
from farm.renderers.ffmpeg import RENDERER
from tests.support.run_invocation import Run, need_real, run_all

pytestmark = [pytest.mark.real, pytest.mark.slow]

FRAMES = tuple(range(-3, 9))
NUMBERS = "drawtext=fontfile={font}:text='f {frame:04}':fontsize=24:fontcolor=white:x=4:y=4"


def _bundled() -> str:
    """The ffmpeg of the imageio-ffmpeg package, if it is installed."""
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        return ""
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


@pytest.fixture(params=["system", "bundled"])
def app(request: pytest.FixtureRequest) -> AppInstall:
    if request.param == "system":
        program = shutil.which("ffmpeg") or ""
        need_real(bool(program), "ffmpeg: apt install ffmpeg")
    else:
        program = _bundled()
        need_real(bool(program), "a second ffmpeg: pip install imageio-ffmpeg")
    return AppInstall("ffmpeg", "", (program,))


def write_picture(
    path: Path, kind: str = "uint8", channels: int = 3, width: int = 96, height: int = 36
) -> None:
    spec = oiio.ImageSpec(width, height, channels, kind)
    out = oiio.ImageOutput.create(str(path))
    assert out is not None
    assert out.open(str(path), spec)
    ramp = np.linspace(0.1, 0.9, width, dtype=np.float32)
    assert out.write_image(np.broadcast_to(ramp[None, :, None], (height, width, channels)).copy())
    out.close()


def pixels(path: Path) -> np.ndarray:
    image = oiio.ImageBuf(str(path))
    assert image.read(force=True), image.geterror()
    return np.asarray(image.get_pixels(image.spec().format))


def kind_of(path: Path) -> str:
    return str(oiio.ImageBuf(str(path)).spec().format)


class Shot:
    """A sequence on disk, with odd names, and a way to filter it."""

    def __init__(self, root: Path, app: AppInstall, kind: str = "uint8", suffix: str = "png") -> None:
        self.root, self.app, self.count = root, app, 0
        (root / "in").mkdir()
        self.sources = {frame: root / "in" / f"a %d'[x];:.{frame:04d}.{suffix}" for frame in FRAMES}
        for path in self.sources.values():
            write_picture(path, kind)

    def filter(
        self, frames: tuple[int, ...], chain: str, suffix: str = "png", **params: object
    ) -> tuple[list[Run], dict[int, Path]]:
        self.count += 1
        out, scratch = self.root / f"out{self.count} #", self.root / f"scratch{self.count}"
        out.mkdir()
        scratch.mkdir()
        targets = {frame: out / f"b %04d.{frame}.{suffix}" for frame in frames}
        context = ChunkContext(
            params=read_params(RENDERER, {"input": {"step": "x"}, "filter": chain, **params}),
            frames=frames,
            step_frames=None,
            files=tuple(PlannedFile(0, frame, str(path)) for frame, path in targets.items()),
            patterns=(),
            inputs={"input": PlannedInput(FRAMES, tuple(map(str, self.sources.values())))},
            app=self.app,
            cores=1,
            scratch=str(scratch),
        )
        return run_all(RENDERER, context), targets

    def clip(self, paths: tuple[str, ...], name: str, **params: object) -> tuple[Run, Path]:
        self.count += 1
        scratch = self.root / f"scratch{self.count}"
        scratch.mkdir()
        target = self.root / name
        context = ChunkContext(
            params=read_params(RENDERER, {"input": {"step": "x"}, **params}),
            frames=(),
            step_frames=None,
            files=(PlannedFile(0, None, str(target)),),
            patterns=(),
            inputs={"input": PlannedInput(FRAMES if len(paths) > 1 else (), paths)},
            app=self.app,
            cores=1,
            scratch=str(scratch),
        )
        (run,) = run_all(RENDERER, context)
        return run, target


def assert_well(runs: list[Run]) -> None:
    for run in runs:
        assert run.verdict.failure is None, (run.verdict, run.lines[-20:])
        assert run.uncollected == []


def test_burnt_in_numbers_do_not_depend_on_the_chunks(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    runs, whole = shot.filter(FRAMES, NUMBERS)
    assert len(runs) == 1
    assert_well(runs)
    pictures = {frame: pixels(path) for frame, path in whole.items()}
    assert len({picture.tobytes() for picture in pictures.values()}) == len(FRAMES)
    for chunk in ((-3,), (8, 7, 6), (-3, 0, 3, 6, 4), (5, 2, 8, 1)):
        runs, parts = shot.filter(chunk, NUMBERS)
        assert_well(runs)
        for frame in chunk:
            assert np.array_equal(pixels(parts[frame]), pictures[frame]), (chunk, frame)
    unquoted = NUMBERS.replace("'f {frame:04}'", r"f\ {frame:04}")
    _, parts = shot.filter((2, 3), unquoted)
    assert np.array_equal(pixels(parts[3]), pictures[3])


def test_sixteen_bits_stay_sixteen_or_the_step_fails(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app, "uint16")
    runs, flipped = shot.filter((1, 2), "hflip")
    assert_well(runs)
    assert kind_of(flipped[1]) == "uint16"
    assert np.array_equal(pixels(flipped[1])[:, ::-1], pixels(shot.sources[1]))
    for chain in ("eq=gamma=1.2", "hue=s=0"):
        (run,), _ = shot.filter((1, 2), chain)
        assert run.verdict.failure is FailureClass.CONFIG
        assert "16-bit rgb48be into" in run.verdict.reason
    (run,), _ = shot.filter((1, 2), "eq=gamma=1.2", pix_fmt="rgb48be")  # would only look like 16 bits
    assert run.verdict.failure is FailureClass.CONFIG
    runs, curved = shot.filter((1, 2), "curves=m='0/0 .5/.6 1/1'", pix_fmt="rgb48be")
    assert_well(runs)
    assert kind_of(curved[1]) == "uint16"
    runs, given_up = shot.filter((1, 2), "eq=gamma=1.2", pix_fmt="rgb24")
    assert_well(runs)
    assert kind_of(given_up[1]) == "uint8"
    runs, as_jpeg = shot.filter((1, 2), "hflip", "jpg")
    assert_well(runs)
    assert kind_of(as_jpeg[1]) == "uint8"


def test_a_gap_and_a_damaged_picture_fail(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    shot.sources[2].write_bytes(b"not a picture")
    (run,), targets = shot.filter((1, 2, 3), "hflip")
    assert run.verdict.failure is FailureClass.PATH
    assert "damaged" in run.verdict.reason
    assert not targets[3].exists()
    shot.sources[2].unlink()
    (run,), _ = shot.filter((1, 2, 3), "hflip")
    assert run.exit_code == 0  # the lie
    assert run.verdict.failure is FailureClass.OUTPUT
    assert "stopped before frame 2" in run.verdict.reason
    truncated = shot.sources[5].read_bytes()
    shot.sources[5].write_bytes(truncated[: len(truncated) * 2 // 3])
    (run,), _ = shot.filter((4, 5, 6), "hflip")
    assert run.verdict.failure in (FailureClass.PATH, FailureClass.RENDERER)  # 5.1 gives no reason
    assert "frame 5" in run.verdict.reason or "damaged" in run.verdict.reason


def test_pictures_of_another_kind_are_not_fitted_in_silence(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    write_picture(shot.sources[2], width=48)
    (run,), _ = shot.filter((1, 2, 3), "hflip")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "not of one size" in run.verdict.reason
    runs, scaled = shot.filter((1, 2, 3), "scale=24:24")  # meant: the chain makes them one size
    assert_well(runs)
    assert pixels(scaled[2]).shape[:2] == (24, 24)
    write_picture(shot.sources[2], "uint16")
    (run,), _ = shot.filter((1, 2, 3), "hflip")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "rgb48be" in run.verdict.reason


def test_alpha_is_kept_or_its_loss_is_told(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    write_picture(shot.sources[1], channels=4)
    runs, kept = shot.filter((1,), "hflip")
    assert_well(runs)
    assert pixels(kept[1]).shape[2] == 4
    runs, _ = shot.filter((1,), "eq=gamma=1.2")  # knows alpha
    assert_well(runs)
    assert runs[0].warnings == []
    runs, _ = shot.filter((1,), "gradfun")  # does not
    assert any("alpha" in text for text in runs[0].warnings)


def test_a_wrong_filter_is_the_jobs_fault(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    for chain, words in (("nosuch=1", ""), ("eq=nosuch=2", "nosuch"), ("scale=w=abc", "")):
        (run,), _ = shot.filter((1,), chain)
        assert run.verdict.failure is FailureClass.CONFIG, (chain, run.verdict, run.lines[-9:])
        assert words in run.verdict.reason


def test_a_colour_table_and_a_number_outside_drawtext(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    table = tmp_path / "in" / "look 'é.cube"
    corners = "\n".join(f"{1 - r} {1 - g} {1 - b}" for b in (0, 1) for g in (0, 1) for r in (0, 1))
    table.write_text(f"LUT_3D_SIZE 2\n{corners}\n")
    runs, negative = shot.filter((1, 2), "lut3d={lut}", lut=str(table))
    assert_well(runs)
    total = pixels(negative[1]).astype(int) + pixels(shot.sources[1]).astype(int)
    assert abs(total - 255).max() <= 1
    runs, levels = shot.filter((0, 8), "lutrgb=r={frame}*10:g=0:b=0")
    assert_well(runs)
    assert len(runs) == 2
    assert [int(pixels(levels[frame])[0, 0, 0]) for frame in (0, 8)] == [0, 80]


def test_whole_clips(tmp_path: Path, app: AppInstall) -> None:
    shot = Shot(tmp_path, app)
    paths = tuple(map(str, shot.sources.values()))
    run, film = shot.clip(paths, "film %d é.mkv", encode="ffv1", filter="hqdn3d")
    assert_well([run])
    assert run.progress(None)[-1] == 1.0
    assert film.stat().st_size
    run, copy = shot.clip((str(film),), "copy.mkv", encode="none")
    assert_well([run])
    assert copy.stat().st_size
    run, small = shot.clip((str(film),), "small.mp4", filter="scale=48:18,tmix=frames=3", preset="ultrafast")
    assert_well([run])
    assert small.stat().st_size
    run, _ = shot.clip(paths, "numbers.mov", encode="prores", filter=NUMBERS)
    assert_well([run])
    run, _ = shot.clip((str(tmp_path / "gone.mov"),), "x.mp4")
    assert run.verdict.failure is FailureClass.PATH
    assert "gone.mov" in run.verdict.reason
    run, _ = shot.clip(paths, "nowhere/x.mp4")
    assert run.verdict.failure is FailureClass.PATH
    run, _ = shot.clip(paths, "odd.mp4", filter="scale=47:17")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "even numbers" in run.verdict.reason
    shot.sources[2].unlink()
    run, _ = shot.clip(paths, "gap.mkv", encode="ffv1")
    assert run.verdict.failure is FailureClass.PATH
    assert f"{shot.sources[2]} does not exist" in run.verdict.reason

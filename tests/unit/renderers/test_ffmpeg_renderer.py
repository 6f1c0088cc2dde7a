"""The ffmpeg renderer from outside: what it refuses, and the command lines it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.model.errors import JobFileError
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.states import FailureClass
from farm.renderers import ffmpeg
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, PlannedInput, read_params
from farm.renderers.ffmpeg import RENDERER
from farm.renderers.ffmpeg_log import depth_of, has_alpha
from tests.support.run_invocation import replay

INPUT = {"step": "beauty", "output": 0}


def checked(
    pattern: str, kind: str = "per_frame", output_kind: str = "sequence", **params: object
) -> list[str]:
    given = {"input": INPUT, **params}
    step = StepSpec(
        name="grade",
        renderer="ffmpeg",
        kind=kind,  # type: ignore[arg-type]
        frames="1-3" if kind == "per_frame" else None,
        params=given,
        outputs=(OutputSpec(pattern, output_kind),),  # type: ignore[arg-type]
    )
    return RENDERER.check(step, read_params(RENDERER, given))


def chunk(frames: tuple[int, ...], version: str = "5.1.9", **params: object) -> ChunkContext:
    given = PlannedInput(tuple(range(-3, 12)), tuple(f"/in/a %d:'{n}.png" for n in range(-3, 12)))
    files = tuple(PlannedFile(0, frame, f"/out/b %d #{frame}.png") for frame in frames)
    return ChunkContext(
        params=read_params(RENDERER, {"input": INPUT, **params}),
        frames=frames,
        step_frames=None,
        files=files or (PlannedFile(0, None, "/out/film.mp4"),),
        patterns=(),
        inputs={"input": given},
        app=AppInstall("ffmpeg", version, ("/usr/bin/ffmpeg",)),
        cores=2,
        scratch="/scratch",
    )


def option(made: Invocation, name: str) -> str:
    return made.argv[made.argv.index(name) + 1]


def test_one_process_reads_numbered_links_in_planned_order() -> None:
    (made,) = RENDERER.invocations(chunk((5, -3, 0), filter="hflip"))
    assert made.frames == (5, -3, 0)
    assert made.link == {
        "/scratch/run0/in/00000001.png": "/in/a %d:'5.png",
        "/scratch/run0/in/00000002.png": "/in/a %d:'-3.png",
        "/scratch/run0/in/00000003.png": "/in/a %d:'0.png",
    }
    assert made.collect == {
        "/scratch/run0/out/00000001.png": "/out/b %d #5.png",
        "/scratch/run0/out/00000002.png": "/out/b %d #-3.png",
        "/scratch/run0/out/00000003.png": "/out/b %d #0.png",
    }
    assert option(made, "-i") == "/scratch/run0/in/%08d.png"
    assert made.argv[-1] == "/scratch/run0/out/%08d.png"
    assert option(made, "-frames:v") == "3"
    assert option(made, "-fps_mode") == "passthrough"
    assert option(made, "-vf") == "hflip"
    for flag in ("-xerror", "-nostdin", "-nostats", "-y"):
        assert flag in made.argv
    assert made.argv.index("-err_detect") < made.argv.index("-i")
    # No name of the job is ever on the command line.
    assert not any("/in/a" in word or "/out/b" in word for word in made.argv)


def test_frame_numbers_split_the_chunk_into_arithmetic_runs() -> None:
    text = "drawtext=text='{frame}':fontfile={font}"
    made = RENDERER.invocations(chunk((1, 2, 3, 7, 9, 11, 0), filter=text))
    assert [invocation.frames for invocation in made] == [(1, 2, 3), (7, 9, 11), (0,)]
    assert [option(invocation, "-vf").partition(":font")[0] for invocation in made] == [
        r"drawtext=text='%{eif\:1+n*(1)\:d}'",
        r"drawtext=text='%{eif\:7+n*(2)\:d}'",
        "drawtext=text='0'",
    ]
    links = [link for invocation in made for link in invocation.link]
    assert len(links) == len(set(links))
    assert made[0].link["/scratch/font.ttf"] == ffmpeg.FONT
    font = Path(ffmpeg.FONT)
    assert font.is_file()
    assert font.with_name("DejaVuSansMono-LICENSE.txt").is_file()


def test_a_number_outside_drawtext_takes_a_process_per_frame() -> None:
    made = RENDERER.invocations(chunk((1, 2), filter="hue=h={frame}*3"))
    assert [option(invocation, "-vf") for invocation in made] == ["hue=h=1*3", "hue=h=2*3"]


def test_a_colour_table_is_linked_under_a_plain_name() -> None:
    (made,) = RENDERER.invocations(chunk((1,), filter="lut3d={lut}", lut="/p/Täl;k'.CUBE"))
    assert option(made, "-vf") == "lut3d=/scratch/lut.cube"
    assert made.link["/scratch/lut.cube"] == "/p/Täl;k'.CUBE"


def test_old_versions_get_their_own_word_for_passthrough() -> None:
    (made,) = RENDERER.invocations(chunk((1,), "4.4.2", filter="hflip"))
    assert option(made, "-vsync") == "passthrough"
    for version in ("5.1.9", "n9.0.2", "", "git-2026"):
        (made,) = RENDERER.invocations(chunk((1,), version, filter="hflip"))
        assert option(made, "-fps_mode") == "passthrough"


def test_a_frame_without_input_is_refused_by_number() -> None:
    with pytest.raises(JobFileError, match="no frame 40"):
        RENDERER.invocations(chunk((40,), filter="hflip"))


def test_a_sequence_becomes_a_clip_with_declared_colours() -> None:
    (made,) = RENDERER.invocations(
        chunk((), filter="hqdn3d,drawtext=text={frame}:fontfile={font}", rate="25")
    )
    assert made.frames == ()
    assert made.collect == {}
    assert option(made, "-framerate") == "25/1"
    chain = option(made, "-vf")
    assert chain.startswith(r"hqdn3d,drawtext=text='%{eif\:-3+n*(1)\:d}'")
    assert chain.endswith("scale=out_color_matrix=bt709:out_range=tv,format=yuv420p")
    assert option(made, "-colorspace") == "bt709"
    assert made.argv[-1] == "file:/out/film.mp4"
    assert "-frames:v" not in made.argv  # hqdn3d keeps the count, but others of its kind do not


@pytest.mark.parametrize(
    ("pattern", "options", "words"),
    [
        ("/o/a.####.mp4", {}, "stitch step"),
        ("/o/a.####.exr", {}, "linear light"),
        ("/o/a.####.png", {"input": "/i/a.####.exr"}, "linear light"),
        ("/o/a.####.png", {"input": "/i/clip.mov"}, "use a single step"),
        ("/o/a.####.png", {"filter": "hqdn3d"}, "hqdn3d needs more than one frame.*single step"),
        ("/o/a.####.png", {"filter": "lut3d={lut}"}, "belong together"),
        ("/o/a.####.png", {"lut": "/p/x.cube"}, "belong together"),
        ("/o/a.####.png", {"pix_fmt": "rgb24 -y"}, "not a pixel format"),
        ("/o/a.####.png", {"rate": "29.97"}, "30000/1001"),
        ("/o/a.mp4", {"kind": "single"}, "writes one file"),
        ("/o/a.avi", {"kind": "single", "output_kind": "movie"}, "h264 does not go into .avi"),
        ("/o/a.mp4", {"kind": "single", "output_kind": "movie", "encode": "ffv1"}, "use .mkv"),
        (
            "/o/a.mov",
            {"kind": "single", "output_kind": "movie", "encode": "none", "filter": "hflip"},
            "copies",
        ),
        ("/o/a.mov", {"kind": "single", "output_kind": "movie", "audio": "loud"}, "audio"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(pattern: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(JobFileError, match=words):
        checked(pattern, **options)  # type: ignore[arg-type]


def test_what_works_is_accepted() -> None:
    assert checked("/o/a.####.png", filter="eq=gamma=1.1") == []
    assert checked("/o/a.####.exr", filter="hflip", linear="untouched") == []
    assert checked("/o/a.mov", "single", "movie", filter="hqdn3d,fade=t=in:n=5", encode="prores") == []
    assert checked("/o/a.mkv", "single", "movie", encode="none", input="/i/clip.mov") == []


def test_frames_that_are_not_written_are_named() -> None:
    context = chunk((4, 5, 6), filter="hflip")
    (made,) = RENDERER.invocations(context)
    run = replay(RENDERER, context, made, ["frame=1", "dup_frames=0", "progress=end"], 0)
    assert run.verdict.failure is FailureClass.OUTPUT
    assert "1 of 3 frames; it stopped before frame 5" in run.verdict.reason
    run = replay(RENDERER, context, made, ["frame=3", "dup_frames=1", "progress=end"], 0)
    assert run.verdict.failure is FailureClass.OUTPUT
    assert "twice" in run.verdict.reason
    run = replay(RENDERER, context, made, ["frame=2", "progress=continue", "frame=3", "progress=end"], 0)
    assert run.verdict.failure is None
    assert [run.progress(frame) for frame in (4, 5, 6)] == [[1.0], [1.0], [1.0]]


def test_a_missing_input_is_called_by_its_own_name() -> None:
    context = chunk((4,), filter="hflip")
    (made,) = RENDERER.invocations(context)
    lines = ["/scratch/run0/in/00000001.png: No such file or directory"]
    run = replay(RENDERER, context, made, lines, 1)
    assert run.verdict.failure is FailureClass.PATH
    assert "/in/a %d:'4.png does not exist" in run.verdict.reason


def test_a_full_disk_is_the_nodes_when_it_is_scratch_and_the_jobs_when_it_is_the_output() -> None:
    frames, clip = chunk((4,), filter="hflip"), chunk(())
    lines = ["av_interleaved_write_frame(): No space left on device"]
    for context, kind in ((frames, FailureClass.NODE), (clip, FailureClass.PATH)):
        (made,) = RENDERER.invocations(context)
        assert replay(RENDERER, context, made, lines, 1).verdict.failure is kind


@pytest.mark.parametrize(
    ("name", "bits", "alpha"),
    [
        ("rgb24", 8, False),
        ("rgba", 8, True),
        ("rgb48be", 16, False),
        ("rgba64le", 16, True),
        ("yuv420p", 8, False),
        ("yuv444p10le", 10, False),
        ("yuva444p12be", 12, True),
        ("gray", 8, False),
        ("gray16le", 16, False),
        ("ya8", 8, True),
        ("ya16be", 16, True),
        ("gbrp16le", 16, False),
        ("gbrapf32le", 32, True),
        ("pal8", 8, True),
    ],
)
def test_pixel_formats_by_their_names(name: str, bits: int, alpha: bool) -> None:
    assert (depth_of(name), has_alpha(name)) == (bits, alpha)

"""Filter chains: ffmpeg's grammar, what chunks would get wrong, and the farm's tokens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange, Run
from farm.renderers.ffmpeg_filters import (
    TEMPORAL,
    check_filters,
    counts_in_drawtext,
    expand_filters,
    has_token,
    parse_filters,
    stated_formats,
)

PATHS = {"font": "/scratch/font.ttf", "lut": "/scratch/lut.cube"}


def test_chains_graphs_labels_and_quotes_parse_as_ffmpeg_reads_them() -> None:
    text = r" eq=gamma=1.1:saturation=1 , split@s1 [a] [b]; "
    text += r"[a]drawtext=text='a,b;[c]\: %':x=4\,5[c]; [c][b] overlay=0:h-10"
    calls = parse_filters(text)
    assert [call.name for call in calls] == ["eq", "split", "drawtext", "overlay"]
    assert calls[0].options == (("gamma", "1.1"), ("saturation", "1"))
    assert calls[2].options == (("text", "a,b;[c]: %"), ("x", "4,5"))
    assert calls[3].options == (("", "0"), ("", "h-10"))


@pytest.mark.parametrize("text", [",", "eq,,hflip", "eq='x", "[a", "eq;", "eq]", "=1", "scale=1[a]x"])
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(JobFileError):
        check_filters(text, per_frame=True, allow_files=False)


@given(st.text(alphabet="abt=,;:[]'\\{}% frame01", max_size=24))
def test_no_text_breaks_the_checks(text: str) -> None:
    for per_frame in (True, False):
        try:
            check_filters(text, per_frame=per_frame, allow_files=False)
        except JobFileError as error:
            assert_is_named(error)


def assert_is_named(error: JobFileError) -> None:
    assert error.path == "params.filter"


@pytest.mark.parametrize(
    "text",
    [
        *(f"eq=gamma=1.1,{name}" for name in sorted(TEMPORAL)),
        "hqdn3d=4:3",
        "fade=t=in:s=0:n=10",
        "tmix@x=frames=5",
        "[in]split[a][b];[a]minterpolate[c];[c][b]overlay",
        "noise=alls=10:allf=t",
        "noise=alls=10:allf=u+t",
        "rotate=t*2",
        "hue=h=2*PI*t",
        "geq=lum='lum(X,Y)+N'",
        "crop=w=10:h=10:x=mod(n\\,7)",
        "drawtext=text='%{n}':fontfile={font}",
        "drawtext=text='%{pts}':fontfile={font}",
        r"drawtext=text='%{eif\:n\:d}':fontfile={font}",
        "drawtext=text=hello:x=t*10:fontfile={font}",
        "drawbox=enable='gt(t,1)'",
        "normalize=smoothing=5",
    ],
)
def test_filters_that_need_other_frames_belong_into_a_single_step(text: str) -> None:
    with pytest.raises(JobFileError) as caught:
        check_filters(text, per_frame=True, allow_files=True)
    assert "single step" in str(caught.value) or "{frame}" in str(caught.value)
    check_filters(text, per_frame=False, allow_files=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eq=contrast=1.1:brightness=0.05",
        "scale=w=iw/2:h=-2:flags=lanczos,unsharp=5:5:1.0",
        "drawbox=x=0:y=0:w=iw:h=20:color=black@0.5:t=fill",
        "drawtext=fontfile={font}:text='shot 12 {frame:04}':x=(w-text_w)/2:y=h-th-4:fontsize=24",
        "curves=m='0/0 0.5/0.6 1/1',hflip,transpose=clock,pad=ceil(iw/2)*2:ceil(ih/2)*2",
        "noise=alls=10:allf=u",
        "lut3d=file={lut}:interp=tetrahedral",
        "lut3d={lut}",
        "hue=s=0,format=rgb24",
        "normalize",
        "vignette=PI/4,colorchannelmixer=.393:.769:.189:0:.349:.686:.168:0:.272:.534:.131",
    ],
)
def test_filters_of_one_frame_are_accepted(text: str) -> None:
    assert check_filters(text, per_frame=True, allow_files=False) == []


@pytest.mark.parametrize(
    "text",
    [
        "movie=/etc/passwd[a];[in][a]overlay",
        "subtitles=x.srt",
        "drawtext=textfile=/etc/passwd:fontfile={font}",
        "drawtext=text=a:fontfile=/usr/share/fonts/x.ttf",
        "lut3d=/p/look.cube",
        "lut3d=file=/p/look.cube",
        "frei0r=glow",
        "zmq",
        "curves=psfile=/p/x.acv",
        "psnr=stats_file=/tmp/x",
    ],
)
def test_names_of_files_in_a_chain_are_refused_unless_asked_for(text: str) -> None:
    with pytest.raises(JobFileError, match="allow_files"):
        check_filters(text, per_frame=True, allow_files=False)
    check_filters(text, per_frame=False, allow_files=True)


def test_a_token_nobody_knows_is_named() -> None:
    with pytest.raises(JobFileError, match=r"unknown token \{farme\}"):
        check_filters("drawtext=text={farme}:fontfile={font}", per_frame=True, allow_files=False)


def test_drawtext_without_our_font_is_pointed_out() -> None:
    (warning,) = check_filters("drawtext=text=x", per_frame=True, allow_files=False)
    assert "{font}" in warning


def test_frame_numbers_are_constants_for_one_frame_and_expressions_for_a_run() -> None:
    text = "drawtext=text='f {frame:04}':fontfile={font},drawtext=text={frame}:fontfile={font}"
    one = expand_filters(text, Run(-7, 1, 1), PATHS)
    assert one == (
        "drawtext=text='f -007':fontfile=/scratch/font.ttf,drawtext=text=-7:fontfile=/scratch/font.ttf"
    )
    many = expand_filters(text, Run(10, -2, 3), PATHS)
    assert r"text='f %{eif\:10+n*(-2)\:d\:4}'" in many
    assert r"text='%{eif\:10+n*(-2)\:d}':" in many


def test_where_drawtext_cannot_count_is_known() -> None:
    assert counts_in_drawtext("drawtext=text={frame}")
    assert counts_in_drawtext("eq")
    assert not counts_in_drawtext("hue=h={frame}*3,drawtext=text={frame}")
    assert has_token("lut3d={lut}", "lut")
    assert not has_token("drawtext=text=%{lut}", "lut")


def test_stated_formats() -> None:
    assert stated_formats("hue=s=0,format=rgb24") == ["rgb24"]
    assert stated_formats("format=pix_fmts=rgb48le|gray16le,eq") == ["rgb48le", "gray16le"]
    assert stated_formats("") == []


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=30, unique=True),
    st.sampled_from(["drawtext=text='{frame}'", "drawtext=text={frame}"]),
)
def test_the_runs_of_any_chunk_count_to_exactly_its_frames(frames: list[int], text: str) -> None:
    told: list[int] = []
    for run in FrameRange.from_frames(frames).runs:
        done = expand_filters(text, run, {})
        match = re.search(r"eif\\:(-?\d+)\+n\*\((-?\d+)\)\\:d", done)
        if match:
            told += [int(match.group(1)) + n * int(match.group(2)) for n in range(run.count)]
        else:
            assert run.count == 1
            constant = re.search(r"-?\d+", done)
            assert constant
            told.append(int(constant.group()))
    assert told == frames


_PATH = st.text(alphabet="ab /:',;[]\\=.é", min_size=1, max_size=20)


@given(_PATH, st.booleans())
def test_any_path_survives_both_levels_of_escaping(path: str, quoted: bool) -> None:
    text = "lut3d=file='{lut}':interp=nearest" if quoted else "lut3d=file={lut}:interp=nearest"
    (call,) = parse_filters(expand_filters(text, Run(1, 1, 1), {"lut": path}))
    assert call.options == (("file", path), ("interp", "nearest"))

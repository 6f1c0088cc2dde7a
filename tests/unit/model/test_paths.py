"""Frame tokens, the -o rule, and outputs that would write the same file."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.paths import (
    basename_of,
    check_output_conflicts,
    expand,
    find_token,
    folder_of,
    frame_of,
    has_frame_token,
    resolve_output,
    shared_file,
    split_pattern,
    token_width,
    with_folder,
)

#: What artists call things.
NASTY = "ab 1-'\"%#ä$&;()[]{}!~^+=,@€|*?<>."
plain_text = st.text(alphabet="ab 1-'\"ä$&;()[]{}!.", max_size=8)
nasty_names = st.text(alphabet=NASTY, min_size=1, max_size=10)
folders = st.lists(nasty_names.filter(lambda name: name not in (".", "..")), max_size=3).map("/".join)
frames_in = st.integers(-20_000, 20_000)


@pytest.mark.parametrize(
    ("pattern", "width", "path"),
    [
        ("/out/beauty.####.exr", 4, "/out/beauty.0007.exr"),
        ("/out/beauty.%04d.exr", 4, "/out/beauty.0007.exr"),
        ("/out/f_%d.png", 1, "/out/f_7.png"),
        ("/out/f#.png", 1, "/out/f7.png"),
        ("/out/take#2.####.png", 4, "/out/take#2.0007.png"),
        ("/out/####.take#.png", 1, "/out/####.take7.png"),
        ("/out/v%02d.####.png", 4, "/out/v%02d.0007.png"),
        ("/out/v##.%03d.png", 3, "/out/v##.007.png"),
        ("/out/100%%.####.png", 4, "/out/100%%.0007.png"),
        ("/out/%%%04d.png", 4, "/out/%%0007.png"),
        ("/out/50% of.####.png", 4, "/out/50% of.0007.png"),
        ("/shot####/%03d/b.####.exr", 4, "/shot####/%03d/b.0007.exr"),
        ("-####.png", 4, "-0007.png"),
        (r"C:\out####\b.##.png", 2, r"C:\out####\b.07.png"),
        (r"\\HOST\####\b.##.png", 2, r"\\HOST\####\b.07.png"),
        (r"/out/odd####\name.png", 4, r"/out/odd0007\name.png"),
        ("/out/%00d", 1, "/out/7"),
    ],
)
def test_the_last_token_of_the_name_counts(pattern: str, width: int, path: str) -> None:
    assert has_frame_token(pattern)
    assert token_width(pattern) == width
    assert expand(pattern, 7) == path
    assert frame_of(pattern, path) == 7


@pytest.mark.parametrize(
    "path",
    [
        "/out/plain.png",
        "/out####/plain.png",
        "/out/%04d/plain.png",
        "/out/100%.png",
        "/out/%%04d.png",
        "/out/%4d.png",
        "/out/%s.png",
        "/out/%0999d.png",
        "C:\\####\\plain.png",
        "",
        "/out/####/",
    ],
)
def test_paths_without_a_token_are_their_own_path(path: str) -> None:
    assert not has_frame_token(path)
    assert token_width(path) == 0
    assert expand(path, 7) == path
    assert frame_of(path, path) is None
    with pytest.raises(CallError, match="no frame token"):
        split_pattern(path)


@pytest.mark.parametrize(
    ("frame", "text"),
    [(0, "0000"), (9999, "9999"), (10000, "10000"), (-3, "-003"), (-999, "-999"), (-1000, "-1000")],
)
def test_width_is_a_minimum_and_the_sign_counts(frame: int, text: str) -> None:
    assert expand("f_####", frame) == f"f_{text}"
    assert frame_of("f_####", f"f_{text}") == frame


@pytest.mark.parametrize(
    "name", ["f_7", "f_00007", "f_-0007", "f_0007 ", "f_", "f_+007", "f_٠٠٠٧", "f_-000", "g_0007"]
)
def test_only_the_exact_spelling_is_a_frame_of_the_pattern(name: str) -> None:
    assert frame_of("f_####", name) is None


def test_absurd_names_do_no_harm() -> None:
    assert frame_of("f_####", "f_" + "9" * 10_000) is None
    assert frame_of("f_" + "#" * 5000, "f_" + "0" * 4999 + "7") == 7
    assert frame_of("f_####", "f_" + "0" * 10_000 + "7") is None


@given(folders, plain_text, st.integers(1, 8), plain_text, frames_in, st.booleans())
@example("100% #1", "-a ", 4, "'\".png", -3, True)
def test_expanding_changes_nothing_but_the_token(
    folder: str, prefix: str, width: int, suffix: str, frame: int, printf: bool
) -> None:
    head = "/" + folder + "/" + prefix
    pattern = head + (f"%0{width}d" if printf else "#" * width) + suffix
    assert split_pattern(pattern) == (head, width, suffix)
    path = expand(pattern, frame)
    assert path == head + f"%0{width}d" % frame + suffix
    assert frame_of(pattern, path) == frame
    assert folder_of(path) == folder_of(pattern)


@given(nasty_names, folders, folders)
def test_moving_to_another_folder_keeps_the_name(name: str, old: str, new: str) -> None:
    pattern = "/" + old + "/" + name if old else "/" + name
    moved = with_folder(pattern, "/" + new)
    assert basename_of(moved) == basename_of(pattern) == name
    assert folder_of(moved) == "/" + new
    token, moved_token = find_token(pattern), find_token(moved)
    assert (token is None) == (moved_token is None)
    if token and moved_token:
        assert pattern[token.start : token.stop] == moved[moved_token.start : moved_token.stop]


@pytest.mark.parametrize(
    ("path", "folder", "name"),
    [
        ("/a/b.png", "/a", "b.png"),
        ("/b.png", "/", "b.png"),
        ("b.png", "", "b.png"),
        ("/a//b.png", "/a", "b.png"),
        ("/a/", "/a", ""),
        ("C:\\b.png", "C:\\", "b.png"),
        ("C:/a/b.png", "C:/a", "b.png"),
        ("C:\\a/b.png", "C:\\a", "b.png"),
        ("\\\\HOST\\share\\b.png", "\\\\HOST\\share", "b.png"),
        ("//HOST/share/b.png", "//HOST/share", "b.png"),
        ("/a/back\\slash.png", "/a", "back\\slash.png"),
    ],
)
def test_folder_and_name(path: str, folder: str, name: str) -> None:
    assert (folder_of(path), basename_of(path)) == (folder, name)


def test_moving_takes_the_separator_of_the_new_folder() -> None:
    assert with_folder("/a/b.####.exr", "C:\\out") == "C:\\out\\b.####.exr"
    assert with_folder("/a/b.####.exr", "C:/out/") == "C:/out/b.####.exr"
    assert with_folder("C:\\a\\b.%04d.exr", "/mnt/out") == "/mnt/out/b.%04d.exr"
    assert with_folder("/a/b.exr", "/") == "/b.exr"
    assert with_folder("/a/b.exr", "") == "b.exr"


# -- the -o rule ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("o", "kind", "pattern", "output_kind"),
    [
        ("/out/b.####.exr", "per_frame", "/out/b.####.exr", "sequence"),
        ("/out/b.%04d.exr", "single", "/out/b.%04d.exr", "sequence"),
        ("film.mp4", "single", "film.mp4", "movie"),
        ("/x/Film.MOV", "single", "/x/Film.MOV", "movie"),
        ("/x/100% 'ä\" -.webm", "single", "/x/100% 'ä\" -.webm", "movie"),
        ("/x/####.mkv", "single", "/x/####.mkv", "sequence"),
        ("/out", "per_frame", "/out/beauty.####.png", "sequence"),
        ("/out/", "per_frame", "/out/beauty.####.png", "sequence"),
        ("/out/film.mp4/", "per_frame", "/out/film.mp4/beauty.####.png", "sequence"),
        ("out/####/", "per_frame", "out/####/beauty.####.png", "sequence"),
        ("v1.2", "per_frame", "v1.2/beauty.####.png", "sequence"),
        ("P:\\out", "per_frame", "P:\\out\\beauty.####.png", "sequence"),
        ("-", "per_frame", "-/beauty.####.png", "sequence"),
        ("out", "single", "out/beauty.png", "single"),
    ],
)
def test_o(o: str, kind: str, pattern: str, output_kind: str) -> None:
    for extension in ("png", ".png"):
        assert resolve_output(o, "beauty", extension, kind) == (pattern, output_kind)  # type: ignore[arg-type]


def test_o_of_a_single_movie_step_is_a_movie_in_the_folder() -> None:
    assert resolve_output("out", "film", "mp4", "single") == ("out/film.mp4", "movie")


@pytest.mark.parametrize("o", ["", "  ", "a\0b"])
def test_o_refuses_what_is_no_path(o: str) -> None:
    with pytest.raises(CallError, match="-o"):
        resolve_output(o, "beauty", "png", "per_frame")


def test_o_refuses_a_folder_when_the_step_has_no_format() -> None:
    with pytest.raises(CallError, match="beauty"):
        resolve_output("out", "beauty", "", "per_frame")
    assert resolve_output("f.####", "beauty", "", "per_frame") == ("f.####", "sequence")


@given(folders.filter(bool), st.sampled_from(["per_frame", "single"]))
def test_o_never_loses_what_was_typed(o: str, kind: str) -> None:
    if not o.strip():
        return
    pattern, output_kind = resolve_output(o, "beauty", "exr", kind)  # type: ignore[arg-type]
    assert pattern.startswith(o)
    assert (output_kind == "sequence") == has_frame_token(pattern)
    if pattern != o:
        assert folder_of(pattern) == o.rstrip("/")


# -- conflicts ------------------------------------------------------------------------------------

fr = FrameRange.parse


@pytest.mark.parametrize(
    ("one", "one_frames", "two", "two_frames", "file"),
    [
        ("/o/b.####.exr", "1-10", "/o/b.####.exr", "10-20", "/o/b.0010.exr"),
        ("/o/b.####.exr", "1-10", "/o/b.%04d.exr", "5", "/o/b.0005.exr"),
        ("/o/b.####.exr", "1-10", "/o/b.####.exr", "11-20", None),
        ("/o/b.####.exr", "1-9x2", "/o/b.####.exr", "2-10x2", None),
        ("/o/b.####.exr", "1-10", "/p/b.####.exr", "1-10", None),
        ("/o/b.####.exr", "1-10", "/o/b.####.png", "1-10", None),
        ("/o//./b.####.exr", "1", "/x/../o/b.####.exr", "1", "/o//./b.0001.exr"),
        ("/o/b.####.exr", "1-10", "/o/b.##.exr", "1-10", None),
        ("/o/b.####.exr", "990-1010", "/o/b.##.exr", "990-1010", "/o/b.1010.exr"),
        ("/o/b.####.exr", "-200--50", "/o/b.##.exr", "-120--110", "/o/b.-110.exr"),
        ("/o/b.####.exr", "1-10", "/o/b.0007.exr", None, "/o/b.0007.exr"),
        ("/o/b.0007.exr", None, "/o/b.####.exr", "1-10", "/o/b.0007.exr"),
        ("/o/b.####.exr", "1-10", "/o/b.0011.exr", None, None),
        ("/o/b.####.exr", "1-10", "/o/b.7.exr", None, None),
        ("/o/film.mp4", None, "/o/film.mp4", None, "/o/film.mp4"),
        ("/o/film.mp4", None, "/o/Film.mp4", None, None),
        ("P:\\o\\film.mp4", None, "p:/O/Film.mp4", None, "P:\\o\\film.mp4"),
        ("\\\\H\\s\\b.####.exr", "1", "//h/S/B.%04d.EXR", "1", "\\\\H\\s\\b.0001.exr"),
        ("/o/b.####.exr", None, "/o/b.%04d.exr", "3-4", "/o/b.0003.exr"),
        ("/o/b.####.exr", None, "/o/b.####.exr", None, "/o/b.####.exr"),
        ("/o/b1####", "1-10", "/o/b####", "1-10", None),
        ("/o/b1####", "1-10", "/o/b####", "10003", "/o/b10003"),
        ("/o/b####", "10003", "/o/b1####", None, "/o/b10003"),
        ("/o/b####5", "1-3", "/o/b#####", "25", "/o/b00025"),
        ("/o/b%d", "-5", "/o/b-#", "5", "/o/b-5"),
        ("/o/b####", "1-5", "/o/c####", "1-5", None),
    ],
)
def test_shared_files(
    one: str, one_frames: str | None, two: str, two_frames: str | None, file: str | None
) -> None:
    first = fr(one_frames) if one_frames else None
    second = fr(two_frames) if two_frames else None
    assert shared_file(one, first, two, second) == file
    assert (shared_file(two, second, one, first) is None) == (file is None)


small_ranges = st.lists(st.integers(-12, 120), min_size=1, max_size=12).map(FrameRange.from_frames)
small_patterns = st.tuples(
    st.sampled_from(["/o/", "/o/./", "/p/"]),
    st.text(alphabet="a1-0", max_size=2),
    st.sampled_from(["#", "##", "###", "%d", "%02d", "", "7", "0012"]),
    st.text(alphabet="0a1", max_size=2),
).map("".join)


@given(small_patterns, small_ranges, small_patterns, small_ranges)
@example("/o/a##1", fr("1-12"), "/o/a#", fr("11,121"))
def test_shared_file_agrees_with_writing_everything(
    one: str, one_frames: FrameRange, two: str, two_frames: FrameRange
) -> None:
    def files(pattern: str, frames: FrameRange) -> set[str]:
        return {expand(pattern, frame).replace("/./", "/") for frame in frames}

    both = files(one, one_frames) & files(two, two_frames)
    found = shared_file(one, one_frames, two, two_frames)
    if both:
        assert found is not None
        assert found.replace("/./", "/") in both
    else:
        assert found is None


def test_conflicts_are_told_by_name_and_file() -> None:
    found = check_output_conflicts(
        [
            ("J1/beauty", "/o/b.####.exr", fr("1-100")),
            ("J2/beauty", "/o/b.%04d.exr", fr("100-200")),
            ("J3/beauty", "/o/b.####.exr", fr("201-300")),
            ("J3/film", "/o/film.mp4", None),
            ("J4/grade", "/o/b.0042.exr", None),
        ]
    )
    assert found == [
        "J1/beauty and J2/beauty would both write /o/b.0100.exr",
        "J1/beauty and J4/grade would both write /o/b.0042.exr",
    ]


def test_a_step_may_conflict_with_itself() -> None:
    assert check_output_conflicts([("a", "/o/b.png", fr("1-3"))]) == [
        "all 3 frames of a would write /o/b.png"
    ]
    assert check_output_conflicts([("a", "/o/b.png", fr("1"))]) == []
    assert check_output_conflicts([("a", "/o/b#.png", fr("1")), ("a", "/o/b%d.png", fr("1"))]) == [
        "two outputs of a would both write /o/b1.png"
    ]


def test_a_million_frames_are_compared_without_being_listed() -> None:
    whole = fr("1-10000000")
    assert shared_file("/o/b.####", whole, "/o/b.####", fr("10000000-10000005")) == "/o/b.10000000"
    assert shared_file("/o/b.####", fr("1-9999999x2"), "/o/b.%04d", fr("2-10000000x2")) is None
    assert check_output_conflicts([(f"J{i}", f"/o{i}/b.####.exr", whole) for i in range(2000)]) == []

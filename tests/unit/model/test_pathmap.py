"""Mapping paths from the artist's machine to the agents' and back."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.model.paths import PathMapper, PathRule, is_absolute, path_style

STUDIO = PathMapper(
    [
        PathRule("/Volumes/proj", "/mnt/proj", "macos"),
        PathRule("P:\\", "/mnt/proj", "windows"),
        PathRule("P:\\cache", "/fast/cache", "windows"),
        PathRule("\\\\NAS\\proj", "/mnt/nas", "windows"),
        PathRule("/Volumes/Bücher", "/mnt/bücher", "macos"),
    ]
)


@pytest.mark.parametrize(
    ("path", "mapped"),
    [
        ("/Volumes/proj/a.blend", "/mnt/proj/a.blend"),
        ("/Volumes/proj", "/mnt/proj"),
        ("/Volumes/proj/", "/mnt/proj/"),
        ("/Volumes//./proj//a/./b", "/mnt/proj/a/./b"),
        ("/Volumes/project/a.blend", "/Volumes/project/a.blend"),
        ("/volumes/proj/a.blend", "/volumes/proj/a.blend"),
        ("/elsewhere/Volumes/proj/a", "/elsewhere/Volumes/proj/a"),
        ("P:\\a\\b.blend", "/mnt/proj/a/b.blend"),
        ("p:/a/b.blend", "/mnt/proj/a/b.blend"),
        ("P:\\CACHE\\sim\\F.vdb", "/fast/cache/sim/F.vdb"),
        ("P:\\cached\\x", "/mnt/proj/cached/x"),
        ("P:", "/mnt/proj"),
        ("Q:\\a", "Q:\\a"),
        ("\\\\nas\\PROJ\\a b\\c.exr", "/mnt/nas/a b/c.exr"),
        ("//NAS/proj/a.exr", "/mnt/nas/a.exr"),
        ("\\\\?\\P:\\a\\b", "/mnt/proj/a/b"),
        ("\\\\?\\UNC\\NAS\\proj\\a", "/mnt/nas/a"),
        ("//NAS2/proj/a.exr", "//NAS2/proj/a.exr"),
        ("proj/a.blend", "proj/a.blend"),
        ("P:a.blend", "P:a.blend"),
        ("", ""),
        ("/Volumes/proj/tex.<UDIM>.exr", "/mnt/proj/tex.<UDIM>.exr"),
        ("P:\\tex\\f.$F4.exr", "/mnt/proj/tex/f.$F4.exr"),
        ("P:\\out\\f.####.exr", "/mnt/proj/out/f.####.exr"),
        ("P:\\out\\f.%04d.exr", "/mnt/proj/out/f.%04d.exr"),
        ("/Volumes/proj/-a 'b\" 100%# ü\\x", "/mnt/proj/-a 'b\" 100%# ü\\x"),
        (
            unicodedata.normalize("NFD", "/Volumes/Bücher/ä.png"),
            "/mnt/bücher/" + unicodedata.normalize("NFD", "ä.png"),
        ),
    ],
)
def test_longest_prefix_on_whole_components(path: str, mapped: str) -> None:
    assert STUDIO.map(path) == mapped
    assert STUDIO.covers(path) == (mapped != path)


@pytest.mark.parametrize(
    "path",
    ["/Volumes/proj/../secret", "/Volumes/proj/a/../../secret", "/Volumes/proj/./../proj2/x"],
)
def test_a_path_that_climbs_out_of_its_prefix_is_not_under_it(path: str) -> None:
    assert not STUDIO.covers(path)
    assert STUDIO.map(path) == path
    assert STUDIO.map("/Volumes/proj/a/../b") == "/mnt/proj/a/../b"


def test_climbing_out_of_the_longer_prefix_falls_back_to_the_shorter() -> None:
    assert STUDIO.map("P:\\cache\\..\\a") == "/mnt/proj/cache/../a"


@pytest.mark.parametrize(
    ("path", "back"),
    [
        ("/mnt/proj/a/b.exr", "/Volumes/proj/a/b.exr"),
        ("/mnt/projects/a", "/mnt/projects/a"),
        ("/fast/cache/a/b", "P:\\cache\\a\\b"),
        ("/mnt/nas/a b/c", "\\\\NAS\\proj\\a b\\c"),
        ("/mnt/nas", "\\\\NAS\\proj"),
    ],
)
def test_reverse_shows_it_as_the_artist_does(path: str, back: str) -> None:
    assert STUDIO.reverse(path) == back


def test_of_equal_prefixes_the_first_listed_counts() -> None:
    mapper = PathMapper([PathRule("/a", "/one"), PathRule("/a/", "/two")])
    assert mapper.map("/a/x") == "/one/x"


def test_a_path_is_mapped_once() -> None:
    mapper = PathMapper([PathRule("/a", "/b"), PathRule("/b", "/c"), PathRule("/c", "/a")])
    assert [mapper.map(f"/{x}/f") for x in "abc"] == ["/b/f", "/c/f", "/a/f"]


def test_to_windows_and_between_windows() -> None:
    mapper = PathMapper(
        [
            PathRule("/proj", "P:\\proj"),
            PathRule("/lib", "//NAS/lib"),
            PathRule("X:/old", "Y:\\"),
            PathRule("/tmp", "T:"),
        ]
    )
    assert mapper.map("/proj/a/b.####.exr") == "P:\\proj\\a\\b.####.exr"
    assert mapper.map("/lib/a/b") == "//NAS/lib/a/b"
    assert mapper.map("x:\\OLD\\a/b") == "Y:\\a\\b"
    assert mapper.map("/tmp/a/b") == "T:\\a\\b"
    assert mapper.reverse("p:/PROJ/a/b") == "/proj/a/b"
    assert mapper.reverse("\\\\nas\\LIB\\a") == "/lib/a"


def test_the_root_may_be_a_source() -> None:
    mapper = PathMapper([PathRule("/", "/mnt/all"), PathRule("/proj", "/fast")])
    assert mapper.map("/x/y") == "/mnt/all/x/y"
    assert mapper.map("/proj/y") == "/fast/y"
    assert mapper.reverse("/mnt/all/x") == "/x"
    assert not mapper.covers("//HOST/share/x")


def test_no_rules_map_nothing() -> None:
    assert PathMapper().map("/a") == "/a"
    assert not PathMapper().covers("/a")


names = st.text(alphabet="abAB 1-'\"%#äÄ$&;()<>_.", min_size=1, max_size=6).filter(lambda n: n.strip("."))
rests = st.lists(names, max_size=4)
posix_roots = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@given(rests, st.sampled_from([("/", "\\"), ("\\", "/")]), st.data())
def test_there_and_back(rest: list[str], separators: tuple[str, str], data: st.DataObject) -> None:
    posix = data.draw(posix_roots)
    windows_parts = data.draw(st.lists(names, max_size=2))
    windows = separators[0].join(
        [data.draw(st.sampled_from(["P:", separators[0] * 2 + "NAS" + separators[0] + "s"])), *windows_parts]
    )
    for mapper, one, two in (
        (PathMapper([PathRule(posix, windows)]), posix, windows),
        (PathMapper([PathRule(windows, posix)]), windows, posix),
    ):
        slash = "/" if one == posix else "\\" if "\\" in windows or "/" not in windows else "/"
        other = "/" if two == posix else "\\" if "\\" in windows or "/" not in windows else "/"
        path = slash.join([one, *rest])
        assert mapper.covers(path)
        assert mapper.map(path) == other.join([two, *rest])
        assert mapper.reverse(mapper.map(path)) == path
        if one == windows:
            assert mapper.map(path.upper().replace(slash, separators[1])).lower() == mapper.map(path).lower()


@given(posix_roots, posix_roots, rests)
def test_only_paths_under_the_prefix_are_covered(source: str, other: str, rest: list[str]) -> None:
    mapper = PathMapper([PathRule(source, "/t")])
    path = "/".join([other, *rest])
    under = path == source or path.startswith(source + "/")
    assert mapper.covers(path) == under
    if not under:
        assert mapper.map(path) == path


@pytest.mark.parametrize(
    ("path", "style", "absolute"),
    [
        ("/a", "posix", True),
        ("/", "posix", True),
        ("///a", "posix", True),
        ("C:\\a", "drive", True),
        ("c:/a", "drive", True),
        ("C:\\", "drive", True),
        ("C:", "drive", False),
        ("C:a", "relative", False),
        ("\\\\HOST\\share", "unc", True),
        ("//HOST/share", "unc", True),
        ("\\a", "relative", False),
        ("a/b", "relative", False),
        ("./a", "relative", False),
        ("", "relative", False),
        ("~/a", "relative", False),
        ("$HOME/a", "relative", False),
        ("CC:/a", "relative", False),
        ("-/a", "relative", False),
    ],
)
def test_absolute_paths(path: str, style: str, absolute: bool) -> None:
    assert path_style(path) == style
    assert is_absolute(path) == absolute


@pytest.mark.parametrize(
    ("source", "target", "system", "words"),
    [
        ("proj", "/mnt", "", "source of a path rule must be absolute"),
        ("/proj", "mnt", "", "target of a path rule must be absolute"),
        ("", "/mnt", "", "absolute"),
        ("/proj", "/m\0nt", "", "NUL"),
        ("/proj", "/mnt", "windows", "no path of windows"),
        ("P:\\", "/mnt", "linux", "no path of linux"),
    ],
)
def test_rules_that_can_never_work_are_refused(source: str, target: str, system: str, words: str) -> None:
    with pytest.raises(CallError, match=words):
        PathRule(source, target, system)  # type: ignore[arg-type]

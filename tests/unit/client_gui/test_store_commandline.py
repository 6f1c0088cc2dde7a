"""A typed command: cut as a shell cuts it, and written so that it comes out as it went in."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.store.commandline import by_line, quoted, read, shell_words, split, write

_LETTERS = st.text(alphabet=" ab'\"\\$|>&;*~=-{}/\té", max_size=12)


@given(_LETTERS)
def test_a_line_is_cut_as_a_shell_cuts_it(text: str) -> None:
    line = split(text, windows=False)
    try:
        words = shlex.split(text)
    except ValueError:
        assert not line.closed
        return
    assert line.closed
    if "\\" not in text:  # of a backslash within double quotes shlex takes less than a shell does
        assert list(line.words) == words


@given(st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_arguments_come_out_as_they_went_in(words: list[str]) -> None:
    assert read(write(words)) == tuple(words)


@given(st.lists(_LETTERS, min_size=1, max_size=5), st.booleans())
def test_quoted_words_are_one_word_each_and_need_no_shell(words: list[str], windows: bool) -> None:
    typed = [quoted(one, windows=windows) for one in words]
    if "" in typed:
        return
    line = split(" ".join(typed), windows=windows)
    assert list(line.words) == words
    assert line.closed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bash -c 'echo hi'", ("bash", "-c", "echo hi")),
        ('prog "a b"  c\\ d', ("prog", "a b", "c d")),
        ("prog ''", ("prog", "")),
        ("/bin/echo\na b\n{frame}", ("/bin/echo", "a b", "{frame}")),
        ("prog\n", ("prog",)),
        ("prog -x \\\n  -y", ("prog", "-x", "-y")),
        ("bash -c 'a\nb'", ("bash", "-c", "a\nb")),
        ('["a","b c"]', ("a", "b c")),
        ("prog 'open", "prog 'open"),
    ],
)
def test_what_is_typed_becomes_these_arguments(text: str, words: tuple[str, ...] | str) -> None:
    assert read(text) == words


def test_backslashes_of_windows_paths_stay() -> None:
    assert split(r'"C:\Program Files\x.exe" C:\in\{frame}.exr', windows=True).words == (
        r"C:\Program Files\x.exe",
        r"C:\in\{frame}.exr",
    )


@pytest.mark.parametrize(
    ("text", "shell"),
    [
        ("a | b && c > d 2>&1", ("|", "&&", ">", ">", "&")),
        ("a $HOME ${X} $(ls) `ls`", ("$HOME", "${X}", "$(", "`")),
        ('a "$HOME | x"', ("$HOME",)),
        ("a '$HOME | x' \\$HOME \\|", ()),
        ("FOO=1 a ~/x *.exr", ("FOO=", "~", "*")),
        ("a x~ b=1 5$", ()),
        ("a\n$HOME\n|", ()),
    ],
)
def test_what_only_a_shell_understands_is_found(text: str, shell: tuple[str, ...]) -> None:
    assert shell_words(text) == tuple(dict.fromkeys(shell))


def test_several_lines_are_arguments_unless_the_first_goes_on() -> None:
    assert by_line("a\nb")
    assert not by_line("a")
    assert not by_line("a 'b\nc'")
    assert not by_line("a \\\nb")


@pytest.mark.parametrize(
    "text", ["prog a {frame}\n", "\nprog a {frame}", "prog a {frame}\r\n", "\n prog a {frame} \n"]
)
def test_a_pasted_line_with_its_line_breaks_is_one_line(text: str) -> None:
    assert not by_line(text)
    assert read(text) == ("prog", "a", "{frame}")
    assert read("one\ntwo words\n\n") == ("one", "two words")

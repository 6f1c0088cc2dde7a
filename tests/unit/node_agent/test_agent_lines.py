"""Splitting a process's output into lines, whatever pieces it comes in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_agent.lines import MAX_LINE_BYTES, LineSplitter, clean_text


def split(*pieces: bytes, limit: int = MAX_LINE_BYTES) -> list[str]:
    splitter = LineSplitter(limit)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.close()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\n", ["", ""]),
        (b"\r\r\n\n", ["", "", ""]),
        (b"Fra:1\rFra:2\rdone\n", ["Fra:1", "Fra:2", "done"]),
        # Only the three line ends split: not form feeds, not what str.splitlines also takes.
        ("a\x0bb\x0cc\u2028d\u0085e\n".encode(), ["abc\u2028de"]),
        ("é文\U0001f3ac\n".encode(), ["é文\U0001f3ac"]),
        (b"caf\xe9 \xff\n", ["caf\ufffd \ufffd"]),
        (b"tab\tkept, bell\x07 and nul\x00 not\n", ["tab\tkept, bell and nul not"]),
    ],
)
def test_line_ends_and_characters(data: bytes, lines: list[str]) -> None:
    assert split(data) == lines
    assert split(*(bytes([byte]) for byte in data)) == lines


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mError\x1b[0m: out of memory", "Error: out of memory"),
        ("\x1b[1;38;2;255;0;0mred\x1b[m", "red"),
        ("\x1b[2K\x1b[1Gprogress 50%\x1b[?25l", "progress 50%"),
        ("\x1b]0;window title\x07text", "text"),
        ("\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b(Bascii\x1b=keys\x1b7", "asciikeys"),
        ("\x9b31mC1\x9b0m", "C1"),
        ("cut \x1b[31", "cut "),
        ("cut \x1b", "cut "),
        ("\x1b]0;a title that never ends: Error!", "0;a title that never ends: Error!"),
        ('plain [31m and 100% #quoted"', 'plain [31m and 100% #quoted"'),
    ],
)
def test_escape_sequences_go_and_words_stay(raw: str, text: str) -> None:
    assert clean_text(raw) == text


_PIECES = st.lists(
    st.sampled_from(
        [
            *(b"a", b"Error: ", b"\n", b"\r", b"\r\n", b"\x1b", b"[", b"31m", b"\x1b[0m", b"\x1b]0;t\x07"),
            *(b"\x1b\\", "é".encode(), "文".encode()[:2], "文".encode()[2:], b"\xff", b"\x00", b"x" * 30),
        ]
    ),
    max_size=40,
).map(b"".join)


@given(_PIECES, st.data())
def test_any_chunking_gives_the_same_lines(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=12)))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    limit = draw.draw(st.sampled_from([MAX_LINE_BYTES, 16]))
    assert split(*pieces, limit=limit) == split(data, limit=limit)


@given(_PIECES)
def test_lines_hold_no_control_characters_and_are_as_many_as_line_ends(data: bytes) -> None:
    lines = split(data)
    for line in lines:
        assert all(char == "\t" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in line)
    ends = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert len(lines) == ends.count(b"\n") + (not ends.endswith(b"\n") and ends != b"")


@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs"))), max_size=20))
def test_plain_text_comes_back_unchanged(lines: list[str]) -> None:
    assert split("".join(line + "\n" for line in lines).encode()) == lines


def test_a_long_line_is_cut_with_a_marker_and_the_next_is_whole() -> None:
    data = b"x" * (MAX_LINE_BYTES + 1000) + b"\nnext\n"
    first, second = split(data)
    assert first == "x" * MAX_LINE_BYTES + " [overcrank: 1000 bytes of this line dropped]"
    assert second == "next"
    assert split(b"y" * MAX_LINE_BYTES + b"\n") == ["y" * MAX_LINE_BYTES]


def test_a_cut_does_not_break_a_character() -> None:
    assert split("abc文".encode() + b"def\n", limit=5) == ["abc [overcrank: 4 bytes of this line dropped]"]


def test_ten_megabytes_without_a_line_end_cost_no_more_than_their_length() -> None:
    splitter = LineSplitter()
    piece = b"z" * 4096
    began = time.process_time()
    for _ in range(10 * 256):
        assert splitter.feed(piece) == []
    small = time.process_time() - began
    (line,) = splitter.close()
    assert line.endswith(f"{10 * 256 * 4096 - MAX_LINE_BYTES} bytes of this line dropped]")
    assert small < 1.0  # takes about 5 ms; joining at each piece takes tens of seconds
    many = b"\x1b]" * (MAX_LINE_BYTES // 2)
    began = time.process_time()
    assert split(many + b"\n") == [""]
    assert time.process_time() - began < 1.0  # unended escape strings must not be quadratic either

"""Figures and tables for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.cli.text import clean, cut, duration_text, iso_time, size_text, table, time_text, width_of


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 * 1024, "10 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1 << 30, "1.0 GiB"),
        (1023 * 1024, "1.0 MiB"),
        (5 << 50, "5.0 PiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "0 s"),
        (0.042, "0.042 s"),
        (0.999, "1.0 s"),
        (9.96, "10 s"),
        (59.6, "1 m 00 s"),
        (65, "1 m 05 s"),
        (3725, "1 h 02 m"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_times() -> None:
    assert iso_time(1_900_000_000_123_456) == "2030-03-17T17:46:40.123456Z"
    assert iso_time(0) is None
    assert time_text(0) == "-"
    assert len(time_text(1_900_000_000_000_000, 1_900_000_100.0)) in (8, 16)


def test_wide_and_combining_characters_are_measured() -> None:
    assert width_of("日本") == 4
    assert width_of("e\u0301") == 1
    assert cut("日本語", 5) == "日本…"
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 1) == "…"


cells = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)


@given(rows=st.lists(st.tuples(cells, cells, cells), max_size=6), width=st.integers(1, 100))
def test_a_table_fits_whatever_is_in_it(rows: list[tuple[str, str, str]], width: int) -> None:
    for line in table(("NAME~", "COUNT>", "REASON~"), rows, width):
        assert width_of(line) <= width
        assert all(char.isprintable() for char in line)


@given(rows=st.lists(st.tuples(cells, cells), max_size=6))
def test_in_a_pipe_nothing_is_cut(rows: list[tuple[str, str]]) -> None:
    lines = table(("A", "B~"), rows, 0)
    assert len(lines) == len(rows) + 1
    for line, row in zip(lines[1:], rows, strict=True):
        assert clean(row[0]).rstrip() in line
        assert clean(row[1]).rstrip() in line


@given(cells)
def test_clean_text_has_nothing_a_terminal_obeys(text: str) -> None:
    assert clean(text).isprintable()

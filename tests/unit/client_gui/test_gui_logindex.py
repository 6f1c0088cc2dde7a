"""Rows of a log: the same however its bytes come; their text is safe, and what is bad is found."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store.logindex import Gap, LogMap
from client_gui.store.logscan import GRAMS, Intake, Scanner
from client_gui.store.logtext import COMMAND, KEYWORDS, LONGEST, Level, level_of, line_of, shown, stamp_length
from node_agent.logs import LogSpool

LINES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from(
            [
                b"",
                b"ERROR  std::bad_alloc",
                b"WARNING: texture not found",
                b"Fra:12 Sample 1/2",
                b"\r",
                b"a\rb",
            ]
        ),
    ),
    max_size=30,
).map(b"\n".join)


def whole(text: bytes) -> LogMap:
    """The map of a log that came in one piece."""
    intake, found = Intake(), LogMap()
    taken = intake.take(0, text)
    if taken is not None:
        found.add(taken[0])
    return found


def rows(found: LogMap) -> list[tuple[int, int]]:
    return [found.span(row) for row in range(found.rows)]


@given(LINES, st.data())
@settings(max_examples=150, deadline=None)
def test_any_chunking_gives_the_same_rows(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    intake, found = Intake(), LogMap()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        taken = intake.take(start, text[start:end])
        if taken is not None:
            found.add(taken[0])
    once = whole(text)
    lines = text.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    assert [text[a:b].rstrip(b"\n") for a, b in rows(found)] == [line.rstrip(b"\n") for line in lines]
    assert rows(found) == rows(once)
    assert found.marks().tolist() == once.marks().tolist()
    assert found.marks(Level.ERROR).tolist() == once.marks(Level.ERROR).tolist()
    assert found.mark_rows().tolist() == once.mark_rows().tolist()
    assert found.whole
    assert found.lines == len(lines)


@given(LINES, st.integers(1, 50), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_pieces_in_any_order_end_with_the_same_rows(text: bytes, size: int, chance: random.Random) -> None:
    intake, found = Intake(), LogMap()
    found.grow(len(text))
    places = list(range(0, len(text), size))
    chance.shuffle(places)
    for place in places:
        taken = intake.take(place, text[place : place + size])
        if taken is not None:
            piece, kept = taken
            assert text[piece.start : piece.end] == kept
            found.add(piece)
    while gaps := found.gaps():  # what was left over before a line's end, as a view fetches it
        assert all(found.number(found.row_at(gap.start))[0] is None for gap in gaps)
        taken = intake.take(gaps[0].start, text[gaps[0].start : gaps[0].end])
        assert taken is not None
        found.add(taken[0])
    once = whole(text)
    if all(b"\n" in text[place : place + size][:-1] for place in places if place):
        assert rows(found) == rows(once)
    assert b"".join(text[a:b] for a, b in rows(found)) == text
    assert found.whole


def test_rows_of_gaps_are_said_and_numbers_behind_them_are_not() -> None:
    text = b"".join(b"line %d\n" % n for n in range(1000))
    intake, found = Intake(), LogMap()
    found.grow(len(text))
    assert found.rows == 1
    assert found.at(0) == Gap(0, len(text))
    for start in (len(text) - 500, 0):
        taken = intake.take(start, text[start : start + 500])
        assert taken is not None
        found.add(taken[0])
    assert [run.start == 0 for run in found.runs] == [True, False]
    head = found.runs[0].rows
    assert isinstance(found.at(head), Gap)
    assert found.number(3) == (4, False)
    assert found.number(found.rows - 1) == (None, False)
    assert found.lines is None
    assert found.row_of_line(5) == 4
    assert found.row_of_line(900) is None
    last = text[slice(*found.span(found.rows - 1))]
    assert last == b"line 999\n"
    assert found.row_at(len(text) - 1) == found.rows - 1
    gap = found.gaps()[0]
    taken = intake.take(gap.start, text[gap.start : gap.end])
    assert taken is not None
    found.add(taken[0])
    assert found.lines == 1000
    assert found.number(999) == (1000, False)
    assert found.row_of_line(900) == 899


@pytest.mark.parametrize("char", ["x", "é", "日", "🎬"])
@pytest.mark.parametrize("piece", [1000, 8192, 100_000])
def test_a_line_without_end_is_cut_into_rows_and_never_inside_a_character(char: str, piece: int) -> None:
    text = f"a\n{char * 40_000}\nlast".encode()
    found, intake = LogMap(), Intake()
    for start in range(0, len(text), piece):
        taken = intake.take(start, text[start : start + piece])
        assert taken is not None
        found.add(taken[0])
    parts = [text[a:b] for a, b in rows(found)]
    assert max(map(len, parts)) <= LONGEST + 1
    assert "".join(part.decode() for part in parts) == text.decode()
    assert found.lines == 3
    assert [found.number(row) for row in (0, 1, 2, found.rows - 1)] == [
        (1, False),
        (2, False),
        (2, True),
        (3, False),
    ]
    assert found.row_of_line(2) == 1
    assert found.row_of_line(3) == found.rows - 1
    assert rows(found) == rows(whole(text))


def test_bytes_that_came_before_change_nothing() -> None:
    intake = Intake()
    assert intake.take(0, b"one\ntwo\n") is not None
    assert intake.take(0, b"one\ntwo\n") is None
    again = intake.take(4, b"two\nthree\n")
    assert again is not None
    assert again[1] == b"three\n"
    assert not again[0].new


def test_an_index_of_many_rows_stays_small() -> None:
    block = b"14:02:11 INFO  Sample 128/512\n" * 8000
    intake, found = Intake(), LogMap()
    for n in range(20):
        taken = intake.take(n * len(block), block)
        assert taken is not None
        found.add(taken[0])
    assert found.rows == 160_000
    # Four bytes a row, and what an array keeps to grow: never the text.
    kept = sum(array._kept.nbytes for array in (found.runs[0]._starts, found.runs[0]._marks))
    assert kept < 8 * found.rows
    assert found.next_mark(-1) is None


def test_going_from_error_to_error() -> None:
    text = b"ok\nERROR one\nok\nWARNING two\nok\nERROR three"
    found = whole(text)
    first, third = text.index(b"ERROR one"), text.index(b"ERROR three")
    assert found.next_mark(-1) == first
    assert found.next_mark(first) == third, "the line that has not ended counts, too"
    assert found.next_mark(third) is None
    assert found.next_mark(third, back=True) == first
    assert found.next_mark(first, back=True) is None
    assert found.next_mark(first, least=Level.WARNING) == text.index(b"WARNING")


def test_an_open_line_is_judged_as_far_as_it_goes() -> None:
    scanner = Scanner()
    assert scanner.feed(b"Err").open_level is Level.NONE
    assert scanner.feed(b"or: no camera").open_level is Level.ERROR
    scan = scanner.feed(b"\n")
    assert scan.marks.tolist() == [0]
    assert scan.open_level is Level.NONE


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (b"\x1b[31mred\x1b[0m plain\n", "red plain"),
        (b"\x1b]0;title\x07after\r\n", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"10%\r50%\r100%\n", "100%"),
        (b"10%\r50%\r\n", "50%"),
        (b"a\tb", "a       b"),
        (b"bell\x07 nul\x00", "bell\\x07 nul\\x00"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("turn \u202e round".encode(), "turn \\u202e round"),
        (b"\x1b[2J\x1b[1;1H<b>not html</b>", "<b>not html</b>"),
        (b"lone \x1b", "lone "),
    ],
)
def test_nothing_in_a_row_steers_the_window(row: bytes, text: str) -> None:
    assert shown(row)[0] == text


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_become_text_that_can_be_painted(row: bytes) -> None:
    line = line_of(row)
    assert line.text.isprintable()
    assert all(0 <= span.start < span.end <= len(line.text) for span in line.spans)


def test_colours_of_the_program() -> None:
    text, spans = shown(b"\x1b[1;31mE\x1b[0m \x1b[38;5;200mfancy\x1b[39m \x1b[90mdim")
    assert text == "E fancy dim"
    assert [(text[s.start : s.end], s.token, s.bold) for s in spans] == [
        ("E", "bad", True),
        ("dim", "dim", False),
    ]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("14:03:09 E  std::bad_alloc", Level.ERROR),
        ("System is out of GPU memory", Level.ERROR),
        ("Error: Cannot read file '/a.blend'", Level.ERROR),
        ("ValueError: bad", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ("[ERROR] could not open", Level.ERROR),
        ("Could not obtain a Nuke licence", Level.ERROR),
        ('FARM {"event": "problem", "failure": "config", "text": "x", "fatal": true}', Level.ERROR),
        ('FARM {"event": "warning", "text": "x"}', Level.WARNING),
        ("00:01.2  render  | WARNING Texture not found", Level.WARNING),
        ("Warning: deprecated option", Level.WARNING),
        ("INFO: failed over to the second server, no harm", Level.NONE),
        ("0 errors, 0 warnings", Level.NONE),
        ("Finished without errors", Level.NONE),
        ("adaptive error threshold 0.01", Level.NONE),
        ("Fra:12 Mem:120M (Peak 130M) | Sample 1/128", Level.NONE),
        ("", Level.NONE),
        ("== overcrank: $ python -c 'print(\"Error: no such file\")'", Level.NONE),
        ("== overcrank: config: Error: no such file", Level.ERROR),
    ],
)
def test_what_is_bad(text: str, level: Level) -> None:
    assert level_of(text) is level
    row = text.encode() + b"\n"
    assert (whole(b"ok\n" + row).marks().tolist() == [3]) is bool(level)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("14:02:11 INFO", 8),
        ("[2026-11-30T14:02:11.123Z] x", 26),
        ("2026-11-30 14:02:11,5 x", 21),
        ("Time:00:12", 0),
        ("12 frames", 0),
    ],
)
def test_times_at_the_start_of_a_line(text: str, length: int) -> None:
    assert stamp_length(text) == length


def test_the_command_of_a_log_is_what_the_agent_writes(tmp_path: Path) -> None:
    """Its words are no output: a log must not open at a command that merely mentions an error."""
    with LogSpool(tmp_path / "log") as log:
        log.note(f"$ {shlex.join(['sh', '-c', 'echo Error: x'])}")
        log.note("config: Error: x")
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.startswith(COMMAND)
    assert level_of(first) is Level.NONE
    assert level_of(second) is Level.ERROR


def test_three_bytes_are_looked_for_of_every_keyword() -> None:
    assert set(GRAMS) == set(KEYWORDS)
    assert all(len(part) == 3 and part in word for word, part in GRAMS.items())


@given(
    st.lists(
        st.sampled_from(
            [
                *(word.decode() for word in KEYWORDS),
                "ERROR",
                "Warning:",
                "INFO",
                "Mem:",
                "0 errors",
                "\n",
                "\n",
                "x" * 70,
            ]
        ),
        max_size=60,
    ),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_row_that_is_bad_is_passed_over(words: list[str], large: bool) -> None:
    text = " ".join(words).encode() + b"\n"
    text = text.upper() if large else text
    found = whole(text)
    expected = []
    for row in range(found.rows):
        start, end = found.span(row)
        if level_of(shown(text[start:end])[0]) is not Level.NONE:
            expected.append(start)
    assert found.marks().tolist() == expected

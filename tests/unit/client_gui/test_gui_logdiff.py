"""Comparing logs, and searching them in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.store.attempts import base_name, cause_of, label_of, units_of, versions_of
from client_gui.store.logdiff import blocks, compare
from client_gui.store.logindex import LogMap
from client_gui.store.logscan import Intake
from client_gui.store.logtext import shown
from client_gui.views.log_parts.process import lines_of, rows_of
from tests.support.gui_logs import attempt_row, render_log
from tests.support.gui_rig import step_row

ROOT = Path(__file__).parents[3]
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=40)


@given(WORDS, WORDS)
def test_blocks_cover_both_and_only_equal_lines_are_called_equal(a: list[str], b: list[str]) -> None:
    at_a = at_b = 0
    for kind, a0, a1, b0, b1 in blocks(a, b):
        assert (a0, b0) == (at_a, at_b)
        if kind == "=":
            assert a[a0:a1] == b[b0:b1]
            assert a1 > a0
        else:
            assert (a1 > a0, b1 > b0) == ((True, False) if kind == "-" else (False, True))
        at_a, at_b = a1, b1
    assert (at_a, at_b) == (len(a), len(b))


@given(st.lists(st.integers(), unique=True, max_size=60), st.data())
def test_what_was_taken_out_is_all_that_differs(whole: list[int], data: st.DataObject) -> None:
    kept = [n for n in whole if data.draw(st.booleans())]
    found = blocks(whole, kept)
    assert not [block for block in found if block[0] == "+"]
    gone = [n for kind, a0, a1, _, _ in found if kind == "-" for n in whole[a0:a1]]
    assert gone == [n for n in whole if n not in set(kept)]


def test_a_hundred_thousand_repeated_lines_are_compared_soon_enough() -> None:
    pattern = ["Sample #", "Denoise #", "Sample #"]
    a, b = pattern * 2000, [*pattern * 1000, "ERROR", *pattern * 1000]
    found = blocks(a, b)
    assert [(kind, b1 - b0) for kind, _, _, b0, b1 in found if kind == "+"] == [("+", 1)]


def test_times_and_figures_do_not_count_unless_asked_for(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"".join(b"14:02:%02d Sample %d/512\n" % (n, n) for n in range(50)) + b"done in 12.5 s\n")
    b.write_bytes(
        b"".join(b"15:11:%02d Sample %d/512\n" % (n, n) for n in range(40))
        + b"ERROR no camera\ndone in 9 s\n"
    )
    query = {"a": [str(a), a.stat().st_size], "b": [str(b), b.stat().st_size]}
    found = compare(query)
    assert [row for row in found["rows"] if row[0] in "+-"] == [("+", 0, 41, "ERROR no camera")]
    assert [row[3] for row in found["rows"] if row[0] == "~"] == [
        "37 lines alike, 1 of them more often in one of the logs"
    ]
    assert (found["added"], found["removed"], found["left_out"]) == (1, 0, 0)
    exact = compare({**query, "figures": True})
    assert exact["removed"] == 51
    assert exact["added"] == 42


@given(st.lists(st.binary(max_size=30), max_size=20).map(b"\n".join), st.integers(20_000, 30_000))
def test_the_search_sees_the_rows_that_the_index_has(text: bytes, length: int) -> None:
    text += b"\n" + "é".encode() * length + b"\nend"
    intake, index = Intake(), LogMap()
    taken = intake.take(0, text)
    assert taken is not None
    index.add(taken[0])
    import io

    found = [
        (at + offset, row)
        for at, line in lines_of(io.BytesIO(text), 0, len(text))
        for offset, row in rows_of(line)
    ]
    assert [at for at, _ in found] == [index.span(row)[0] for row in range(index.rows)]
    assert [row for _, row in found] == [text[slice(*index.span(row))] for row in range(index.rows)]


def search(path: Path, query: dict[str, object], parts: list[tuple[int, int]]) -> list[dict[str, object]]:
    """What the process says."""
    lines = [json.dumps({"do": "find", "path": str(path), **query}), *map(json.dumps, parts)]
    told = subprocess.run(
        [sys.executable, "-m", "client_gui.views.log_parts.process"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    assert told.stderr == ""
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_a_search_finds_rows_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = b"".join(render_log(100_000, errors_at=(0.2, 0.7)))
    text += b"\x1b[31mstd::bad_\x1b[0malloc in colours\n"
    path.write_bytes(text)
    said = search(path, {"text": "std::bad_alloc", "regex": False, "case": True}, [(0, len(text))])
    hits = [hit for line in said for hit in line.get("hits", [])]  # type: ignore[attr-defined]
    assert len(hits) == 3
    for row, column, length in hits:
        line = shown(text[row : text.index(b"\n", row)])[0]
        assert line[column : column + length] == "std::bad_alloc"
    assert said[-1] == {"done": [0, len(text)]}


@pytest.mark.parametrize(("text", "position"), [("(", 0), ("a)b", 1), ("*", 0)])
def test_an_expression_that_is_none_is_told_with_its_place(tmp_path: Path, text: str, position: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x\n")
    (said,) = search(path, {"text": text, "regex": True}, [(0, 2)])
    assert said["position"] == position
    assert "no such expression" in str(said["error"])


def test_words_for_attempts() -> None:
    row = attempt_row(7, frames="17-20")
    assert label_of(row, 2, 2, frames=False) == "2 of 2 · failed · rack-114"
    assert label_of(row, 2, 2, frames=True) == "2 of 2 · 17-20 · failed · rack-114"
    assert cause_of(row) == "The machine ran out of memory (rack-114)"
    assert cause_of(attempt_row(1, outcome="path", reason="/p/a.vdb is missing")) == (
        "A file or folder cannot be reached on rack-114: /p/a.vdb is missing"
    )
    assert cause_of(attempt_row(1, outcome="done, done")) == ""
    missing = "cannot start trace: no program trace on PATH (/usr/local/bin:/usr/bin:/bin)"
    assert cause_of(attempt_row(1, outcome="config", reason=missing)) == (
        "Cannot start trace: no program trace on PATH (rack-114)"
    )
    assert cause_of(attempt_row(1, outcome="config", reason="")) == (
        "Something in the scene or its settings is wrong on rack-114."
    )
    assert (
        label_of(attempt_row(1, ended_us=0, outcome="running"), 1, 1, frames=False)
        == "1 of 1 · running · rack-114"
    )
    assert label_of(attempt_row(1, outcome="evaporated"), 1, 1, frames=False).split(" · ")[1] == "evaporated"


def test_the_version_before_is_suggested_first() -> None:
    jobs = [
        (1, "sh0420_fx_v017"),
        (2, "sh0420_fx_v018"),
        (3, "sh0420_fx_v016"),
        (4, "sh0420_fx_v019"),
        (5, "x_v017"),
    ]
    assert versions_of("sh0420_fx_v018", 2, jobs) == [1, 3, 4]
    assert versions_of("sh0420_fx_v018", 2, [*jobs, (9, "SH0420_fx.v17")]) == [9, 1, 3, 4]
    assert base_name("turntable") == ("turntable", None)
    assert versions_of("turntable", 5, [(2, "turntable"), (7, "turntable"), (8, "other")]) == [2, 7]


def test_units_of_frames_that_a_step_does_not_have_are_passed_over() -> None:
    assert units_of(step_row(frames="1001-1010x3"), "1001,1004-1007,2000") == [0, 1, 2]
    assert units_of(step_row(frames=""), "1") == []
    assert units_of(step_row(), "nonsense") == []


def test_what_is_rare_is_found_however_much_is_passed_over(tmp_path: Path) -> None:
    """Across the edges of what is read in one go, in lines longer than that, and in what only shows as it."""
    path, dull = tmp_path / "log", b"nothing to see here\n" * 60_000
    odd = b"\x1b[31mNee\x1b[0mdle\n"
    edge, long = dull[: (1 << 20) - 3] + b" needle\n", b"z" * (3 << 20) + b" needle\n"
    text = edge + dull + long + dull + odd + b"needle"
    path.write_bytes(text)
    said = search(path, {"text": "needle", "regex": False, "case": False}, [(0, len(text))])
    hits = [tuple(hit) for one in said for hit in one.get("hits", [])]  # type: ignore[attr-defined]
    assert len(hits) == 4
    row = edge.rindex(b"\n", 0, -1) + 1
    assert hits[0] == (row, len(edge) - 7 - row, 6)
    assert hits[2:] == [(text.index(odd), 0, 6), (len(text) - 6, 0, 6)]
    assert said[-1] == {"done": [0, len(text)]}

"""Frame ranges against a naive expander, their limits, their refusals and their cost."""

from __future__ import annotations

import copy
import pickle
import re
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm.model import runs as runs_module
from farm.model.errors import CallError, FrameRangeError
from farm.model.frames import FRAME_MAX, FRAME_MIN, FrameRange, Run, format_indices
from farm.model.runs import overlap

# -- the reference: expands everything, shares no code with the product ---------------------------


def expand(text: str) -> list[int]:
    """Frames of a valid text, the slow and obvious way."""
    frames: list[int] = []
    for part in re.split(r"\s*,\s*|\s+", text.strip()):
        match = re.fullmatch(r"(-?\d+)(?:-(-?\d+))?(?:[x:](-?\d+))?", part)
        assert match, part
        first = int(match[1])
        last = int(match[2] or first)
        step = abs(int(match[3] or 1))
        frame = first
        while (frame <= last) if last >= first else (frame >= last):
            if frame not in frames:
                frames.append(frame)
            frame += step if last >= first else -step
    return frames


small = st.integers(-40, 60)


@st.composite
def parts(draw: st.DrawFn) -> str:
    first = draw(small)
    if draw(st.booleans()):
        return str(first)
    last = draw(small)
    text = f"{first}-{last}"
    if draw(st.booleans()):
        step = draw(st.integers(1, 9))
        sign = "-" if last < first and draw(st.booleans()) else ""
        text += draw(st.sampled_from("x:")) + sign + str(step)
    return text


@st.composite
def texts(draw: st.DrawFn) -> str:
    chosen = draw(st.lists(parts(), min_size=1, max_size=8))
    text = chosen[0]
    for part in chosen[1:]:
        text += draw(st.sampled_from([",", ", ", " ", "  ", " , ", "\t", "\n"])) + part
    return draw(st.sampled_from(["", " "])) + text + draw(st.sampled_from(["", " ", "\n"]))


ranges = texts().map(FrameRange.parse)


# -- grammar --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "frames", "canonical"),
    [
        ("1-5", [1, 2, 3, 4, 5], "1-5"),
        ("7", [7], "7"),
        ("1-100:25", [1, 26, 51, 76], "1-76x25"),
        ("1-100x25", [1, 26, 51, 76], "1-76x25"),
        ("-5--1", [-5, -4, -3, -2, -1], "-5--1"),
        ("-2-2", [-2, -1, 0, 1, 2], "-2-2"),
        ("5-1", [5, 4, 3, 2, 1], "5-1"),
        ("10-1x3", [10, 7, 4, 1], "10-1x3"),
        ("30-28:-1", [30, 29, 28], "30-28"),
        ("5-5x-3", [5], "5"),
        ("1-3 7,9", [1, 2, 3, 7, 9], "1-3,7,9"),
        ("0001-0003", [1, 2, 3], "1-3"),
        ("-0", [0], "0"),
        ("0" * 5000 + "7--" + "0" * 5000 + "1x" + "0" * 5000 + "4", [7, 3, -1], "7--1x4"),
        ("3,1-5", [3, 1, 2, 4, 5], "3,1-2,4-5"),
        ("1-3,2-5,1", [1, 2, 3, 4, 5], "1-5"),
        ("1,5,6,7", [1, 5, 6, 7], "1,5-7"),
        ("1-10,11-20", list(range(1, 21)), "1-20"),
        ("1-9x2,2-10x2", [1, 3, 5, 7, 9, 2, 4, 6, 8, 10], "1-9x2,2-10x2"),
        ("2,1", [2, 1], "2-1"),
        ("3,17", [3, 17], "3,17"),
        ("1-2x9999999999999", [1], "1"),
        (f"{FRAME_MIN},{FRAME_MAX}", [FRAME_MIN, FRAME_MAX], "-2147483648,2147483647"),
    ],
)
def test_reads_and_prints(text: str, frames: list[int], canonical: str) -> None:
    made = FrameRange.parse(text)
    assert list(made) == frames
    assert str(made) == canonical
    assert len(made) == len(frames)
    assert (made.first, made.last) == (frames[0], frames[-1])


@given(texts())
def test_same_frames_as_the_naive_expander(text: str) -> None:
    made = FrameRange.parse(text)
    expected = expand(text)
    assert list(made) == expected
    assert len(made) == len(expected)
    again = FrameRange.parse(str(made))
    assert again == made
    assert hash(again) == hash(made)
    assert str(again) == str(made)
    assert list(again) == expected
    assert FrameRange.from_frames(expected) == made
    assert FrameRange.from_frames(iter(expected + expected[::-1])) == made


@given(texts(), texts())
def test_equal_exactly_when_frames_and_order_are(one: str, two: str) -> None:
    assert (FrameRange.parse(one) == FrameRange.parse(two)) == (expand(one) == expand(two))


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "empty"),
        ("  \n", 3, "empty"),
        (",", 0, "comma"),
        ("1,,2", 2, "comma"),
        (",1", 0, "comma"),
        ("1-10,", 4, "comma"),
        ("1-10x0", 5, "zero"),
        ("1-10:00", 5, "zero"),
        ("5,1-10x-2", 7, "negative step"),
        ("1.5", 1, "subframe"),
        ("1-10x0.5", 6, "subframe"),
        (".5", 0, "subframe"),
        ("1-99999999999", 0, "99999999999"),
        ("4,1-10000001", 2, "10000001"),
        ("2147483648", 0, "2147483648"),
        ("3 -2147483649", 2, "-2147483649"),
        ("2147483640-2147483650", 11, "2147483650"),
        ("9" * 5000, 0, "too large"),
        ("1-10x" + "9" * 5000, 5, "too large"),
        ("1-", 1, "'-'"),
        ("1x3", 1, "'x'"),
        ("1-10x2x2", 6, "'x'"),
        ("1-10x", 4, "'x'"),
        ("--5", 1, "'-'"),
        ("1 - 3", 3, "frame number"),
        ("1–10", 1, "hyphen"),
        ("frames", 0, "'f'"),
        ("+5", 0, "'+'"),
        ("1-10;12", 4, "';'"),
        ("１", 0, "frame number"),
        ("1-10X2", 4, "'X'"),
        ("0x10", 1, "'x'"),
        ("1_000", 1, "'_'"),
    ],
)
def test_refuses_with_the_position(text: str, position: int, words: str) -> None:
    with pytest.raises(FrameRangeError) as caught:
        FrameRange.parse(text)
    if text.strip():
        assert caught.value.position == position
    assert words in caught.value.message


@given(st.text(alphabet="0123456789-,x: .a", max_size=14))
def test_any_text_is_read_or_refused_with_a_position_inside_it(text: str) -> None:
    try:
        made = FrameRange.parse(text)
    except FrameRangeError as error:
        place = error.position
    else:
        place = 0
        assert len(made) >= 1
        if len(made) < 2000:
            assert list(made) == expand(text)
    assert 0 <= place <= max(0, len(text) - 1)


def test_refuses_what_is_not_text() -> None:
    with pytest.raises(FrameRangeError, match="int"):
        FrameRange.parse(5)  # type: ignore[arg-type]


# -- limits and cost ------------------------------------------------------------------------------


def test_ten_million_frames_are_the_limit_counted_without_repeats() -> None:
    assert len(FrameRange.parse("1-10000000")) == 10_000_000
    assert len(FrameRange.parse("1-10000000,5-90,10000000-1")) == 10_000_000
    with pytest.raises(FrameRangeError) as caught:
        FrameRange.parse("1-10000000,5-90,0")
    assert caught.value.position == 16
    with pytest.raises(FrameRangeError) as caught:
        FrameRange.parse("1-6000000, 7000001-13000000")
    assert caught.value.position == 11
    with pytest.raises(FrameRangeError):
        FrameRange.parse(",".join(["1-10000000"] * 11))
    with pytest.raises(FrameRangeError):
        FrameRange.from_frames(range(10_000_001))


def test_a_long_range_costs_no_more_than_a_short_one() -> None:
    tracemalloc.start()
    try:
        made = FrameRange.parse("1-10000000")
        other = FrameRange.parse("10000000-1x3, 2-9999999x3")
        assert made != other
        assert made.frame_at(9_999_999) == 10_000_000
        assert made.index_of(5_000_000) == 4_999_999
        assert 10_000_001 not in made
        assert str(made.slice(1_000_000, 2_000_000)) == "1000001-2000000"
        assert made.intersects(other)
        assert str(made.difference(FrameRange.parse("17-9999990"))) == "1-16,9999991-10000000"
        assert other.intersection(made) == other
        assert hash(made) != hash(other)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert len(pickle.dumps(made)) < 500


def test_overlap_of_millions_keeps_each_frame_at_its_first_place() -> None:
    every_third_first = FrameRange.parse("1-3000000x3,1-3000000")
    assert len(every_third_first) == 3_000_000
    assert every_third_first.frame_at(999_999) == 2_999_998
    assert [every_third_first.frame_at(i) for i in range(1_000_000, 1_000_004)] == [2, 3, 5, 6]
    halves = FrameRange.parse("1-5000000x2,5000000-1")
    assert str(halves) == "1-4999999x2,5000000-2x2"
    many = FrameRange.parse(",".join(f"{i}-100000x{i}" for i in range(150, 0, -1)))
    assert len(many) == 100_000
    assert many.frame_at(0) == 150
    assert many.index_of(149) == 100_000 // 150


def test_sparse_frames_far_apart_need_no_memory_between_them() -> None:
    text = ",".join(f"{i}-2000000000x{19_999_999 + i}" for i in range(100))
    made = FrameRange.parse(text)
    expected = dict.fromkeys(f for i in range(100) for f in range(i, 2_000_000_001, 19_999_999 + i))
    assert list(made) == list(expected)


# -- positions and algebra ------------------------------------------------------------------------


@given(texts())
def test_positions_and_membership(text: str) -> None:
    made, frames = FrameRange.parse(text), expand(text)
    assert [made.frame_at(i) for i in range(len(frames))] == frames
    assert [made.index_of(frame) for frame in frames] == list(range(len(frames)))
    assert {f for f in range(-60, 80) if f in made} == set(frames)
    for bad in (-1, len(frames)):
        with pytest.raises(CallError, match=str(bad)):
            made.frame_at(bad)
    with pytest.raises(CallError, match="999"):
        made.index_of(999)
    assert "1" not in made


@given(texts(), st.integers(-3, 130), st.integers(-3, 130))
def test_slices(text: str, start: int, stop: int) -> None:
    frames = expand(text)
    cut = FrameRange.parse(text).slice(start, stop)
    assert list(cut) == frames[max(0, start) : max(0, stop)]
    assert cut == FrameRange.from_frames(frames[max(0, start) : max(0, stop)])


@given(texts(), texts())
def test_set_algebra_keeps_the_order_of_the_left(one: str, two: str) -> None:
    a, b = FrameRange.parse(one), FrameRange.parse(two)
    left, right = expand(one), set(expand(two))
    both, only = [f for f in left if f in right], [f for f in left if f not in right]
    assert list(a.intersection(b)) == both
    assert list(a.difference(b)) == only
    assert a.intersects(b) == bool(both)
    assert a.intersection(b) == FrameRange.from_frames(both)
    assert a.difference(b) == FrameRange.from_frames(only)


@given(texts(), texts(), st.integers(2, 40))
def test_the_bitmap_agrees_with_the_pairwise_algebra(one: str, two: str, window: int) -> None:
    """Many interleaving runs take another path; force it, with windows that cut runs apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "PAIRWISE_RUNS", 0)
        patch.setattr(runs_module, "WINDOW", window)
        a, b = FrameRange.parse(one), FrameRange.parse(two)
        left, right = expand(one), set(expand(two))
        assert list(a) == left
        assert list(a.intersection(b)) == [f for f in left if f in right]
        assert list(a.difference(b)) == [f for f in left if f not in right]


run_strategy = st.builds(
    lambda first, step, count: Run(first, step if count > 1 else 1, count),
    st.integers(-50, 50),
    st.integers(-12, 12).filter(bool),
    st.integers(1, 30),
)


@given(run_strategy, run_strategy)
@example(Run(0, 6, 20), Run(3, 4, 20))
@example(Run(10, -3, 4), Run(1, 1, 1))
def test_overlap_of_two_runs(one: Run, two: Run) -> None:
    numbers = [one.first + i * one.step for i in range(one.count)]
    others = {two.first + i * two.step for i in range(two.count)}
    expected = [i for i, number in enumerate(numbers) if number in others]
    hit = overlap(one, two)
    got = [] if hit is None else [hit[0] + i * hit[1] for i in range(hit[2])]
    assert got == expected


@given(texts())
def test_runs_are_the_frames(text: str) -> None:
    made = FrameRange.parse(text)
    frames = [run.first + i * run.step for run in made.runs for i in range(run.count)]
    assert frames == expand(text)
    assert made.is_single_run == (len(made.runs) == 1)
    for run in made.runs:
        assert (run.low, run.high, run.last) == (
            min(run.first, run.last),
            max(run.first, run.last),
            run.first + run.step * (run.count - 1),
        )


def test_any_one_or_two_frames_are_a_single_run() -> None:
    assert FrameRange.parse("3,17").runs == (Run(3, 14, 2),)
    assert FrameRange.parse("3,17").is_single_run
    assert FrameRange.parse("1-20x3").is_single_run
    assert not FrameRange.parse("1,2,4").is_single_run


def test_the_empty_range() -> None:
    empty = FrameRange.from_frames([])
    full = FrameRange.parse("1-3")
    assert (len(empty), str(empty), list(empty), empty.runs) == (0, "", [], ())
    assert not empty
    assert full.slice(2, 2) == full.difference(full) == full.intersection(empty) == empty
    assert full.difference(empty) == full
    assert not full.intersects(empty)
    assert not empty.intersects(full)
    assert 1 not in empty
    for attribute in ("first", "last"):
        with pytest.raises(CallError):
            getattr(empty, attribute)


def test_from_frames_refuses_what_is_no_frame() -> None:
    for bad in ([1.5], ["1"], [None]):
        with pytest.raises(FrameRangeError, match="whole number"):
            FrameRange.from_frames(bad)  # type: ignore[arg-type]
    for far in ([FRAME_MAX + 1], [FRAME_MIN - 1], [2**70]):
        with pytest.raises(FrameRangeError, match="beyond"):
            FrameRange.from_frames(far)
    assert str(FrameRange.from_frames(range(10, 0, -3))) == "10-1x3"


@given(ranges)
def test_immutable_and_copyable(made: FrameRange) -> None:
    text = str(made)
    for action in (
        lambda: setattr(made, "_length", 5),
        lambda: setattr(made, "extra", 5),
        lambda: delattr(made, "_firsts"),
    ):
        with pytest.raises(AttributeError):
            action()
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) is made
    assert copy.copy(made) is made
    assert FrameRange(text) == made
    assert eval(repr(made)) == made
    assert made != text
    assert str(made) == text


@given(texts(), st.data())
def test_format_indices(text: str, data: st.DataObject) -> None:
    made, frames = FrameRange.parse(text), expand(text)
    indices = data.draw(st.lists(st.integers(0, len(frames) - 1), min_size=1, max_size=20))
    shown = format_indices(made, indices)
    assert expand(shown) == [frames[i] for i in sorted(set(indices))]


def test_format_indices_for_messages() -> None:
    made = FrameRange.parse("10-40")
    assert format_indices(made, {7, 8, 9, 10, 15}) == "17-20,25"
    assert format_indices(made, []) == ""
    assert format_indices(made, [0, 2, 3, 9, 30], most=2) == "10,12-13 and 2 more"
    with pytest.raises(CallError, match="31"):
        format_indices(made, [31])


def test_hash_does_not_depend_on_the_process() -> None:
    """The same events give the same state in every process, so nothing may hang on string hashing."""
    assert hash(FrameRange.parse("1-10,20")) == hash(((1, 20), (1, 1), (10, 1)))

"""Where the cells of a frame grid stand: places and cells answer to each other, whatever the sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client_gui.views.job_parts.cells import Cells, Place, columns_in, fitting_cell

STEPS = st.lists(st.integers(0, 400), min_size=1, max_size=6).map(
    lambda sizes: [(f"s{number}", size) for number, size in enumerate(sizes)]
)
LAYOUTS = st.builds(
    Cells,
    STEPS,
    st.integers(30, 900),
    st.integers(1, 40),
    st.integers(0, 60),
    st.integers(1, 30),
    st.integers(0, 9),
)


@given(LAYOUTS)
def test_every_cell_is_found_at_its_middle_and_no_two_share_a_place(cells: Cells) -> None:
    taken: set[tuple[int, int]] = set()
    for number, strip in enumerate(cells.strips):
        for unit in range(strip.units):
            x, y, wide, high = cells.rect(Place(number, unit))
            assert cells.at(x + wide // 2, y + high // 2) == Place(number, unit)
            assert x >= cells.gutter
            assert strip.top <= y
            assert y + high <= strip.top + strip.height
            taken.add((x, y))
    assert len(taken) == sum(strip.units for strip in cells.strips)


@given(LAYOUTS, st.integers(-50, 1000), st.integers(-50, 3000))
def test_the_nearest_cell_exists_and_is_the_one_at_the_point_where_there_is_one(
    cells: Cells, x: int, y: int
) -> None:
    found = cells.nearest(x, y)
    if not any(strip.units for strip in cells.strips):
        assert found is None
        return
    assert found is not None
    assert 0 <= found.unit < cells.strips[found.strip].units
    here = cells.at(x, y)
    assert here is None or here == found


@given(LAYOUTS, st.data())
def test_going_stays_on_cells_and_down_undoes_up_within_a_step(cells: Cells, data: st.DataObject) -> None:
    full = [number for number, strip in enumerate(cells.strips) if strip.units]
    if not full:
        return
    number = data.draw(st.sampled_from(full))
    place = Place(number, data.draw(st.integers(0, cells.strips[number].units - 1)))
    for _ in range(12):
        by = data.draw(st.integers(-5, 5))
        place = data.draw(st.sampled_from([cells.beside(place, by), cells.below(place, by)]))
        assert 0 <= place.unit < cells.strips[place.strip].units
    down = cells.below(place, 1)
    if down.strip == place.strip and down.unit - place.unit == cells.columns:
        assert cells.below(down, -1) == place


def test_arrows_go_from_one_step_to_the_next_in_the_same_column() -> None:
    cells = Cells([("a", 25), ("empty", 0), ("b", 30)], 200, 10, 0, 10, 4)
    assert cells.columns == 20
    assert cells.below(Place(0, 22), 1) == Place(2, 2)
    assert cells.below(Place(0, 7), 1) == Place(0, 24), "the last line is short: its last cell"
    assert cells.below(Place(2, 3), -1) == Place(0, 23)
    assert cells.below(Place(2, 29), 1) == Place(2, 29), "there is nothing below"


def test_lines_hold_tens_of_frames_where_there_is_room() -> None:
    assert columns_in(199, 10) == 19
    assert columns_in(209, 10) == 20
    assert columns_in(998, 10) == 90
    assert columns_in(3, 10) == 1


@given(STEPS, st.integers(60, 900), st.integers(20, 900))
def test_the_cell_that_fits_is_the_largest_that_does(
    steps: list[tuple[str, int]], width: int, height: int
) -> None:
    def needed(cell: int) -> int:
        return Cells(steps, width, cell, 20, 8, 2).height

    cell = fitting_cell(steps, width, height, 20, 8, 2, (2, 26))
    assert 2 <= cell <= 26
    if needed(2) <= height:
        assert needed(cell) <= height
        assert all(needed(larger) > height for larger in range(cell + 1, 27))
    else:
        assert needed(cell) <= needed(2) * 1.1 + 1, "nobody has to scroll much more for larger cells"


def test_a_million_cells_are_laid_out_without_counting_them() -> None:
    cells = Cells([("beauty", 1_000_000)], 1000, 2, 40, 20, 3)
    assert cells.at(40, cells.strips[0].first) == Place(0, 0)
    last = cells.rect(Place(0, 999_999))
    assert cells.at(last[0], last[1]) == Place(0, 999_999)
    first, end = cells.lines_in(cells.strips[0], 1000, 1400)
    assert end - first in (200, 201)

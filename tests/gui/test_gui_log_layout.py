"""Where rows and characters of a log are, what is selected from the cursor, and what keys lead to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFont

from client_gui.store.logtext import Line
from client_gui.views.log_parts.cursor import ROW_END, Cursor
from client_gui.views.log_parts.keys import step_of
from client_gui.views.log_parts.layout import Layout
from client_gui.views.log_parts.paint import Grid, Place, Pointed, width_of
from client_gui.views.log_parts.rows import spoken

#: Letters of 10 by 20, texts from 50 on, 8 letters beside each other.
GRID = Grid(10.0, 20, 15, 50.0, 140, 8, 0, False, QFont())
BROKEN = Grid(10.0, 20, 15, 50.0, 140, 8, 0, True, QFont())


@dataclass
class Texts:
    """Rows of texts; None is one that is not here yet."""

    texts: list[str | None]

    @property
    def count(self) -> int:
        return len(self.texts)

    def line(self, row: int) -> Line | None:
        text = self.texts[row]
        return None if text is None else Line(text)

    def want(self, first: int, last: int) -> None:
        """All that there is is here."""

    def key(self, row: int) -> int:
        return row * 100

    def row_of(self, key: int) -> int:
        return key // 100

    def number(self, row: int) -> str:
        return f"{row + 1}" if row < 3 else " "

    def note(self, row: int) -> str:
        return "5 MB not fetched yet" if self.texts[row] is None else ""

    def mark(self, row: int, line: Line) -> tuple[str, str, str] | None:
        return ("cross", "bad", "error") if line.text.startswith("Error") else None

    def hits(self, row: int) -> list[tuple[int, int]]:
        return []

    def digits(self) -> int:
        return 1


def test_a_point_is_a_character() -> None:
    layout = Layout(Texts(["alpha", "", None, "wide 語 too"]), GRID, 0)
    assert layout.place_at(50, 0) == Place(0)
    assert layout.place_at(50 + 29, 19) == Place(0, 3)
    assert layout.place_at(0, 5) == Place(0)  # on its number
    assert layout.place_at(500, 5) == Place(0, 5)  # behind its end
    assert layout.place_at(80, 25) == Place(100)
    assert layout.place_at(80, 45) == Place(200)
    assert layout.place_at(50 + 70, 65) == Place(300, 6)  # the letter before is two wide
    assert layout.place_at(50, 999) == Place(300)  # below the last
    assert Layout(Texts(["a", "b"]), GRID, 1).place_at(50, -3) == Place(0)  # dragged out at the top


def test_a_broken_row_has_as_many_lines_as_it_needs() -> None:
    layout = Layout(Texts(["12345678", "123456789", "", None, "x" * 17]), BROKEN, 0)
    assert [layout.lines_of(row) for row in range(5)] == [1, 2, 1, 1, 3]
    assert layout.place_at(50, 45) == Place(100, 8)
    assert [layout.area(row, 100) for row in (0, 1, 2)] == [
        QRect(0, 0, 140, 20),
        QRect(0, 20, 140, 40),
        QRect(0, 60, 140, 20),
    ]
    assert layout.area(4, 100).isEmpty()
    assert Layout(Texts(["a", "b"]), GRID, 1).area(0, 100).isEmpty()


@given(
    texts=st.lists(st.none() | st.text("ab語", max_size=30), min_size=1, max_size=30),
    fits=st.integers(1, 20),
    wrap=st.booleans(),
)
def test_at_the_end_the_last_row_is_visible_and_no_room_is_left(
    texts: list[str | None], fits: int, wrap: bool
) -> None:
    layout = Layout(Texts(texts), BROKEN if wrap else GRID, 0)
    top = layout.last_top(fits)
    lines = [
        -(-max(1, width_of(text or "")) // BROKEN.columns) if wrap and text is not None else 1
        for text in texts
    ]
    assert 0 <= top < len(texts)
    assert sum(lines[top:]) <= fits or top == len(texts) - 1
    assert top == 0 or sum(lines[top - 1 :]) > fits


def test_what_is_selected_lies_between_where_it_began_and_the_cursor() -> None:
    cursor = Cursor()
    assert cursor.selection is None
    cursor.put(Place(100, 4))
    cursor.put(Place(0, 2), select=True)
    assert cursor.selection == (Place(0, 2), Place(100, 4))
    cursor.put(Place(200), select=True)
    assert cursor.selection == (Place(100, 4), Place(200))
    cursor.point_out(3)
    assert cursor.pointed == Pointed((Place(100, 4), Place(200)), Place(200), 3)
    cursor.put(Place(300))
    assert cursor.pointed == Pointed(None, Place(200), 3)
    cursor.point_out(0)
    cursor.select(Place(0), Place(0, ROW_END))
    assert cursor.place == Place(0, ROW_END)
    assert cursor.pointed == Pointed((Place(0), Place(0, ROW_END)))


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        (Qt.Key.Key_Up, -1),
        (Qt.Key.Key_Down, 1),
        (Qt.Key.Key_PageUp, -19),
        (Qt.Key.Key_PageDown, 19),
        (Qt.Key.Key_Home, -500),
        (Qt.Key.Key_A, None),
    ],
)
def test_keys_lead_so_many_rows_further(key: Qt.Key, rows: int | None) -> None:
    assert step_of(key, 19, 500) == rows


def test_a_page_is_a_row_at_least() -> None:
    assert step_of(Qt.Key.Key_PageDown, 0, 500) == 1


def test_a_row_is_said_with_its_number_and_mark() -> None:
    rows = Texts(["Error: no camera", "", None, "x" * 400])
    assert spoken(rows, 0) == "line 1, error, Error: no camera"
    assert spoken(rows, 1) == "line 2, empty"
    assert spoken(rows, 2) == "line 3, 5 MB not fetched yet"
    assert spoken(rows, 3) == "line not counted yet, " + "x" * 300

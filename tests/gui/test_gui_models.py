"""Rows in a real table: whatever the farm does, what is shown is what a plain list says, and nobody's
selection, current row or place on the screen is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QApplication, QSpinBox
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.models.column import Shown, count_of, text_of
from client_gui.models.order_model import ID_ROLE, OrderModel
from client_gui.settings import Settings
from client_gui.store.filter import TableFilter, numbers, states, texts
from client_gui.store.natural import natural_key
from client_gui.store.table import Column, Kind, Table
from client_gui.style.theme import Theme
from client_gui.views.table import RESTORED_FROM, FarmTable
from farm.model.query import JOBS, Context, Query

COLUMNS = (
    Column("name", Kind.TEXT),
    Column("state", Kind.STATE, words=("queued", "running", "done")),
    Column("failed", Kind.INT),
)
SHOWN = (
    Shown("name", "Name", ("name",), text_of("name"), sort="name"),
    Shown("state", "State", ("state",), lambda r, s: str(r.get(s, "state")), sort="state", field="state"),
    Shown("failed", "Failed", ("failed",), count_of("failed"), right=True, sort="failed", edit="fail"),
)
SOURCES = {"name": texts("name", plain=True), "state": states("state"), "failed": numbers("failed")}
WORDS = ("queued", "running", "done")
Row = tuple[str, str, int]


def names(model: OrderModel[int]) -> list[str]:
    return [str(model.index(row, 0).data()) for row in range(model.rowCount())]


def fits(text: str) -> Callable[[Row], bool]:
    if not text:
        return lambda row: True
    if text.startswith("state:"):
        return lambda row: row[1] == text.partition(":")[2]
    return lambda row: row[2] > int(text.partition(">")[2])


class Oracle:
    """What a table should show, worked out from nothing each time."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.sort: tuple[tuple[str, bool], ...] = ()
        self.filter = ""

    def ids(self) -> list[int]:
        found = [row_id for row_id, row in self.rows.items() if fits(self.filter)(row)]
        found.sort()
        for name, down in reversed(self.sort):
            key: dict[str, Callable[[int], Any]] = {
                "name": lambda one: natural_key(self.rows[one][0]),
                "state": lambda one: WORDS.index(self.rows[one][1]),
                "failed": lambda one: self.rows[one][2],
            }
            found.sort(key=key[name], reverse=down)
            if down:
                # Rows that are equal keep their places, whichever way the others are sorted.
                found = self._stable(found, key[name])
        return found

    def _stable(self, ids: list[int], key: Callable[[int], Any]) -> list[int]:
        groups: list[list[int]] = []
        for one in ids:
            if groups and key(groups[-1][0]) == key(one):
                groups[-1].append(one)
            else:
                groups.append([one])
        return [one for group in groups for one in group]


class Screen:
    """A table of the farm on a screen, and its oracle."""

    def __init__(self, qtbot: QtBot | None = None, rows: int = 0) -> None:
        self.now_us = 10_000_000
        self.table: Table[int] = Table(COLUMNS)
        self.oracle = Oracle()
        self.promises: dict[tuple[object, str], str] = {}
        self.model: OrderModel[int] = OrderModel(
            self.table, SHOWN, lambda: self.now_us, lambda row_id, name: self.promises.get((row_id, name))
        )
        self.theme = Theme()
        self.settings = Settings()
        self.view = FarmTable(self.model, self.theme, self.settings, "test")
        self.view.resize(400, 30 + 8 * self.theme.row_height())
        if qtbot is not None:
            qtbot.addWidget(self.view)
        self.view.show()
        if rows:
            self.put({n: (f"sh{n:04d}", WORDS[n % 3], n % 7) for n in range(1, rows + 1)})

    def put(self, rows: dict[int, Row], gone: tuple[int, ...] = ()) -> None:
        rows = {row_id: row for row_id, row in rows.items() if row_id not in gone}
        for one in gone:
            self.oracle.rows.pop(one, None)
        self.oracle.rows |= rows
        self.model.take(self.table.apply(list(rows), list(rows.values()), gone))

    def filter(self, text: str) -> None:
        self.oracle.filter = text
        query = Query.parse(text, JOBS)
        self.model.set_filter(TableFilter(self.table, query, SOURCES, Context(0, "")) if text else None)

    def sort(self, keys: tuple[tuple[str, bool], ...]) -> None:
        self.oracle.sort = keys
        self.model.set_sort(keys)

    def shown(self) -> list[int]:
        return [
            self.model.index(row, 0).data(ID_ROLE)
            for row in range(self.model.rowCount())
        ]  # fmt: skip

    def selected(self) -> set[int]:
        """What Qt shows as selected."""
        return {index.data(ID_ROLE) for index in self.view.selectionModel().selectedRows(0)}

    def current(self) -> int | None:
        index = self.view.currentIndex()
        found: int | None = index.data(ID_ROLE) if index.isValid() else None
        return found

    def top(self) -> tuple[int | None, int]:
        """What stands at the top, and how much of it is cut off."""
        index = self.view.indexAt(self.view.viewport().rect().topLeft())
        return (index.data(ID_ROLE), self.view.visualRect(index).top()) if index.isValid() else (None, 0)

    def close(self) -> None:
        self.view.close()
        self.view.deleteLater()


@pytest.fixture
def screen(qtbot: QtBot) -> Iterator[Screen]:
    found = Screen(qtbot, 60)
    yield found
    found.view.close()


def test_a_model_keeps_qts_rules_whatever_happens(screen: Screen, qtmodeltester: ModelTester) -> None:
    qtmodeltester.check(screen.model)
    screen.sort((("failed", True), ("name", False)))
    screen.put({n: (f"sh{n:04d}_b", "running", n % 5) for n in range(1, 100)}, gone=(3, 7, 200))
    screen.filter("failed>2")
    screen.put({500: ("late", "queued", 6), 8: ("sh0008", "done", 0)})
    screen.filter("")
    screen.put({n: (f"x{n}", "done", 9 - n % 10) for n in range(1, 300)})
    screen.model.put_right()
    qtmodeltester.check(screen.model)
    assert screen.shown() == screen.oracle.ids()


ids = st.integers(1, 40)
rows = st.tuples(st.sampled_from(["a1", "a10", "a2", "B", "c"]), st.sampled_from(WORDS), st.integers(0, 3))
operations = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(ids, rows, max_size=25), st.frozensets(ids, max_size=8)),
    st.tuples(st.just("put"), st.dictionaries(ids, rows, max_size=3), st.frozensets(ids, max_size=1)),
    st.tuples(st.just("filter"), st.sampled_from(["", "state:running", "failed>1", "failed>0"])),
    st.tuples(
        st.just("sort"),
        st.sampled_from(
            [
                (),
                (("name", False),),
                (("failed", True), ("name", False)),
                (("state", False), ("failed", False)),
            ]
        ),
    ),
    st.tuples(st.just("freeze")),
    st.tuples(st.just("thaw")),
    st.tuples(st.just("select"), st.frozensets(ids, min_size=1, max_size=12)),
    st.tuples(st.just("current"), ids),
    st.tuples(st.just("scroll"), st.integers(0, 400)),
)


def persistent(screen: Screen) -> dict[int, QPersistentModelIndex]:
    model = screen.model
    return {
        model.order.id_at(row): QPersistentModelIndex(model.index(row, 1)) for row in range(model.rowCount())
    }


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(st.lists(operations, min_size=3, max_size=25))
def test_any_updates_show_what_a_plain_list_would_and_lose_nothing(
    qapp: QApplication, steps: list[tuple[Any, ...]]
) -> None:
    screen = Screen()
    try:
        screen.put({n: (f"n{n}", WORDS[n % 3], n % 4) for n in range(1, 31)})
        model, selection = screen.model, screen.model.selection
        for step in steps:
            kept_ids, kept_current = set(selection.ids), selection.current
            kept_top = screen.top()
            scrolled = screen.view.verticalScrollBar().value() > 0
            held = persistent(screen) if not model.order.frozen else {}
            update = True
            match step:
                case ("put", new, gone):
                    screen.put(new, tuple(gone))
                case ("filter", text):
                    screen.filter(text)
                case ("sort", keys):
                    screen.sort(keys)
                case ("freeze",):
                    model.freeze()
                case ("thaw",):
                    model.thaw()
                case ("select", wanted):
                    update = False
                    screen.view.select_ids(one for one in wanted if one in screen.oracle.rows)
                case ("current", one):
                    update = False
                    if one in screen.oracle.rows:
                        screen.view.go_to(one)
                case ("scroll", value):
                    update = False
                    screen.view.verticalScrollBar().setValue(value)
            if not model.order.frozen:
                assert screen.shown() == screen.oracle.ids()
                assert names(model) == [screen.oracle.rows[one][0] for one in screen.oracle.ids()]
                here = set(screen.shown())
                assert screen.selected() == selection.ids & here
                if selection.current in here:
                    assert screen.current() == selection.current
                for one, index in held.items():
                    # What other parts of the window hold on to is still the same row, or nothing.
                    assert not index.isValid() or index.data(ID_ROLE) == one
            if update:
                alive = {one for one in kept_ids if one in screen.oracle.rows}
                assert selection.ids == alive
                if kept_current in screen.oracle.rows:
                    assert selection.current == kept_current
                top = screen.top()
                bar = screen.view.verticalScrollBar()
                if scrolled and kept_top[0] in screen.shown() and bar.value() < bar.maximum():
                    assert top == kept_top
        model.thaw()
        assert screen.shown() == screen.oracle.ids()
    finally:
        screen.close()


def test_many_selected_rows_are_selected_after_a_new_order(qtbot: QtBot) -> None:
    screen = Screen(qtbot, 3 * RESTORED_FROM)
    chosen = set(random.Random(1).sample(range(1, 3 * RESTORED_FROM), 2 * RESTORED_FROM))
    screen.view.select_ids(chosen)
    assert screen.selected() == chosen
    screen.sort((("failed", True),))
    assert screen.shown() == screen.oracle.ids()
    assert screen.selected() == chosen
    screen.put({n: (f"sh{n}", "done", (n * 31) % 11) for n in range(1, 3 * RESTORED_FROM + 1)})
    assert screen.shown() == screen.oracle.ids()
    assert screen.selected() == chosen


def test_what_is_filtered_out_stays_selected_and_comes_back(screen: Screen) -> None:
    screen.view.select_ids({3, 4, 5})
    screen.view.go_to(4)
    screen.view.select_ids({3, 4, 5})
    screen.filter("state:done")
    assert screen.selected() == {5}
    assert screen.model.selection.ids == {3, 4, 5}
    screen.filter("")
    assert screen.selected() == {3, 4, 5}
    assert screen.current() == 4


def test_a_click_lets_go_of_what_is_selected_but_hidden(qtbot: QtBot, screen: Screen) -> None:
    screen.view.select_ids({3, 4, 5})
    screen.filter("state:done")
    qtbot.mouseClick(
        screen.view.viewport(),
        Qt.MouseButton.LeftButton,
        pos=screen.view.visualRect(screen.model.index(0, 0)).center(),
    )
    assert screen.model.selection.ids == {screen.model.order.id_at(0)}


def test_keys_move_and_draw_a_range(qtbot: QtBot, screen: Screen) -> None:
    arrived: list[int] = []
    screen.view.arrived.connect(arrived.append)
    screen.view.go_to(1)
    qtbot.keyClick(screen.view, Qt.Key.Key_Down)
    assert screen.model.selection.ids == {2}
    qtbot.keyClick(screen.view, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(screen.view, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert screen.model.selection.ids == {2, 3, 4}
    assert screen.model.selection.current == 4
    qtbot.waitUntil(lambda: arrived == [4])


def test_rows_stand_still_while_a_button_is_held_down(qtbot: QtBot, screen: Screen) -> None:
    held: list[int] = []
    screen.model.held_back.connect(held.append)
    viewport = screen.view.viewport()
    second = screen.view.visualRect(screen.model.index(1, 0)).center()
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=second)
    before = screen.shown()
    screen.put({0: ("first of all", "done", 0), 2: ("changed", "done", 0)}, gone=(1, 5))
    assert screen.shown()[1:4] == before[1:4], "what is pointed at does not run away"
    assert screen.model.index(1, 0).data() == "changed", "values are told all the same"
    assert screen.model.is_gone(0)
    assert held[-1] == 3
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=second)
    assert screen.shown() == screen.oracle.ids()
    assert screen.model.selection.ids == {2}
    assert held[-1] == 0


def test_a_list_that_is_scrolled_stays_where_it_is(screen: Screen) -> None:
    bar = screen.view.verticalScrollBar()
    high = screen.theme.row_height()
    bar.setValue(20 * high + 5)
    assert screen.top() == (21, -5)
    screen.put({n: (f"sh{n:04d}", "running", 0) for n in range(-30, 0)})
    assert screen.top() == (21, -5)
    screen.put({}, gone=(21,))
    assert screen.top() == (22, -5)
    screen.filter("state:running")
    assert screen.top()[0] == 22


def test_a_list_at_its_top_shows_what_is_new(screen: Screen) -> None:
    screen.put({0: ("new", "running", 0)})
    assert screen.top() == (0, 0)


def test_only_what_changed_is_painted_anew(screen: Screen) -> None:
    told: list[tuple[int, int, int, int]] = []

    def note(first: QModelIndex, last: QModelIndex, roles: Any = None) -> None:
        told.append((first.row(), last.row(), first.column(), last.column()))

    screen.model.dataChanged.connect(note)
    screen.put({4: ("sh0004", "done", 4), 5: ("sh0005", "done", 5)})
    assert told == [(3, 3, 1, 1)], "5 is as it was"
    told.clear()
    screen.put({n: (f"sh{n:04d}", WORDS[n % 3], 99) for n in range(1, 60, 2)})
    assert [one for one in told if one[0] < 9] == [(n, n, 2, 2) for n in range(0, 9, 2)], (
        "what is seen, exactly"
    )
    assert len(told) < 8, "what is not seen costs one signal"
    assert max(one[1] for one in told) == 58


def test_an_edit_is_told_and_not_taken(qtbot: QtBot, screen: Screen) -> None:
    told: list[tuple[str, int, str]] = []
    screen.model.edited.connect(lambda column, row_id, text: told.append((column.edit, row_id, text)))
    screen.view.go_to(2)
    qtbot.keyClick(screen.view, Qt.Key.Key_F2)
    editor = screen.view.findChild(QSpinBox)
    assert editor is not None
    screen.put({2: ("sh0002", "done", 6), 1: ("zzz", "done", 0)}, gone=(3,))
    qtbot.keyClicks(editor, "42")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: told == [("fail", 2, "42")])
    qtbot.waitUntil(lambda: not screen.model.order.frozen)
    assert screen.model.index(screen.model.row_of(2), 2).data() == "6", "the farm has the last word"
    assert screen.shown() == screen.oracle.ids()


def test_a_cell_says_what_it_is_about_to_become(screen: Screen) -> None:
    screen.promises[(2, "state")] = "running"
    screen.model.promises_changed()
    index = screen.model.index(1, 1)
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "done, about to become running"
    assert "about to become running" in index.data(Qt.ItemDataRole.ToolTipRole)
    assert index.data() == "done"


def test_heads_sort_and_with_shift_sort_further(screen: Screen) -> None:
    screen.view.columns.sort_by("state")
    screen.view.columns.sort_by("name", more=True)
    screen.view.columns.sort_by("name", more=True)
    screen.oracle.sort = (("state", False), ("name", True))
    assert screen.shown() == screen.oracle.ids()
    heads = [screen.model.headerData(n, Qt.Orientation.Horizontal) for n in range(3)]
    assert heads == ["Name ▾2", "State ▴1", "Failed"]
    screen.view.columns.sort_by("name")
    assert screen.model.sort_by == (), "the third time it is not sorted at all"


def test_columns_are_remembered(qtbot: QtBot, screen: Screen) -> None:
    view = screen.view
    view.horizontalHeader().moveSection(2, 0)
    view.setColumnWidth(0, screen.theme.em(20))
    view.columns.show(1, False)
    view.columns.sort_by("failed")
    key = "test/columns"
    with qtbot.waitSignal(screen.settings.changed, check_params_cb=lambda name: name == key):
        pass
    other = FarmTable(OrderModel(screen.table, SHOWN, lambda: 0), screen.theme, screen.settings, "test")
    qtbot.addWidget(other)
    assert [other.horizontalHeader().logicalIndex(n) for n in range(3)] == [2, 0, 1]
    assert abs(other.columnWidth(0) - screen.theme.em(20)) <= 1
    assert other.isColumnHidden(1)
    assert other.rows.sort_by == (("failed", False),)
    view.columns.show(0, False)
    view.columns.show(2, False)
    assert not view.isColumnHidden(2), "one column stays"
    view.columns.reset()
    assert not any(view.isColumnHidden(n) for n in range(3))


@pytest.mark.parametrize(
    "kept", [{"order": 7}, {"order": [[]], "widths": [1], "sort": "x"}, {"shown": [None], "sort": [[1, 2]]}]
)
def test_what_cannot_be_read_of_the_columns_is_passed_over(
    qtbot: QtBot, screen: Screen, kept: dict[str, Any]
) -> None:
    screen.view.columns.apply(kept)
    assert screen.view.columnWidth(0) == screen.theme.em(SHOWN[0].width)


def test_a_selection_made_by_qt_is_a_selection_of_ids(screen: Screen) -> None:
    flags = QItemSelectionModel.SelectionFlag
    model = screen.view.selectionModel()
    model.select(screen.model.index(3, 0), flags.Select | flags.Rows)
    model.select(screen.model.index(5, 0), flags.Select | flags.Rows)
    model.select(screen.model.index(3, 0), flags.Deselect | flags.Rows)
    assert screen.model.selection.ids == {6}


def test_rows_that_came_and_went_while_nobody_looked(screen: Screen) -> None:
    screen.view.select_ids({2, 3})
    # The model is not told: its dock was hidden.
    screen.table.apply([], [], [1, 2])
    screen.table.apply([100, 101], [("new", "done", 0), ("newer", "done", 0)])
    screen.table.apply([3], [("renamed", "done", 1)])
    screen.model.put_right()
    assert screen.shown() == [*range(3, 61), 100, 101]
    assert names(screen.model)[0] == "renamed"
    assert screen.model.selection.ids == {3} == screen.selected()

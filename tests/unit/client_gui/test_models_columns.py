"""What columns say: every figure of a job or node in the words of the command line, and nothing invented."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

pytest.importorskip("PySide6.QtCore", reason="pip install 'overcrank[gui]'")

from client_gui.models.column import NOTHING, Reading, Shown, by_name
from client_gui.models.figures import age, gib, length, moment, money, money_range
from client_gui.models.job_columns import JOB_SHOWN, counts_text
from client_gui.models.node_columns import NODE_SHOWN, node_shown, shown_state
from client_gui.models.step_columns import STEP_SHOWN
from client_gui.settings import Settings
from client_gui.store.columns import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    STEP_COLUMNS,
    job_values,
    mean_frame_s,
    node_values,
    step_values,
    waiting_units,
)
from client_gui.store.table import Kind, Table
from client_gui.views.savedviews import JOB_VIEWS, NODE_VIEWS, SavedView, SavedViews
from farm.model.query import JOBS, NODES, Query
from tests.support.gui_rig import NOW_US, job_row, node_row, step_row

TABLES: tuple[tuple[tuple[Shown, ...], Any], ...] = (
    (JOB_SHOWN, JOB_COLUMNS),
    (STEP_SHOWN, STEP_COLUMNS),
    (node_shown(Table(JOB_COLUMNS)), NODE_COLUMNS),
)


@pytest.mark.parametrize(("shown", "columns"), TABLES)
def test_columns_read_and_sort_by_what_the_store_has(shown: tuple[Shown, ...], columns: Any) -> None:
    have = {column.name: column for column in columns}
    by_name(shown)
    for column in shown:
        assert set(column.reads) <= set(have), column.name
        assert not column.sort or have[column.sort].kind is not Kind.OBJECT, column.name
        assert column.help, column.name


def reading_of(row: Any, columns: Any, values: Any) -> Reading:
    table: Table[int] = Table(columns)
    table.apply([1], [values])
    return Reading(table, NOW_US, UTC)


def said(shown: tuple[Shown, ...], reading: Reading, name: str) -> str:
    column = shown[by_name(shown)[name]]
    return column.text(reading, reading.table.slot(1))


def job(name: str, **fields: Any) -> str:
    row = job_row(1, **fields)
    return said(JOB_SHOWN, reading_of(row, JOB_COLUMNS, job_values(row)), name)


def node(name: str, **fields: Any) -> str:
    row = node_row(1, **fields)
    return said(NODE_SHOWN, reading_of(row, NODE_COLUMNS, node_values(row)), name)


@pytest.mark.parametrize("shown", [JOB_SHOWN, NODE_SHOWN, STEP_SHOWN], ids=["jobs", "nodes", "steps"])
def test_every_column_of_the_barest_row_says_something_or_nothing(shown: tuple[Shown, ...]) -> None:
    bare_job = job_row(
        1, name="", user="", project="", started_us=0, submitted_us=0, units=0, done=0, running=0, steps=(),
        spend_nano=0, waste_nano=0,
        eta_low_us=None, eta_high_us=None, cost_low_nano=None, cost_high_nano=None,
    )  # fmt: skip
    bare_node = node_row(
        1, cores=0, cores_free=0, ram_mib=0, ram_free_mib=0, gpus=0, gpu_names=(), apps=(), renderers=(),
        running=(), seen_us=0,
    )  # fmt: skip
    bare_step = step_row(units=0, counts=(), mean_frame_s=0.0)
    reading = {
        JOB_SHOWN: lambda: reading_of(bare_job, JOB_COLUMNS, job_values(bare_job)),
        NODE_SHOWN: lambda: reading_of(bare_node, NODE_COLUMNS, node_values(bare_node)),
        STEP_SHOWN: lambda: reading_of(bare_step, STEP_COLUMNS, step_values(1, 0, bare_step)),
    }[shown]()
    for column in shown:
        slot = reading.table.slot(1)
        for say in (column.text, column.tip, column.spoken):
            assert say is None or isinstance(say(reading, slot), str)
        if column.value is not None:
            column.value(reading, slot)


def test_progress_never_says_done_before_it_is() -> None:
    assert job("progress", units=1000, done=999) == "99 %"
    assert job("progress", units=1000, done=1000) == "100 %"
    assert job("progress", units=0, done=0) == NOTHING


def test_what_waits_and_what_a_frame_takes_come_from_the_steps() -> None:
    steps = (
        step_row("a", counts=(3, 4, 0, 10, 0, 0, 0), mean_frame_s=10.0),
        step_row("b", counts=(0, 5, 1, 30, 2, 0, 0), mean_frame_s=20.0),
        step_row("c", counts=(0, 0, 0, 0, 0, 0, 0), mean_frame_s=0.0),
    )
    assert waiting_units(job_row(1, steps=steps)) == 12
    assert waiting_units(job_row(1, steps=(), units=20, done=5, failed=1, running=2)) == 12
    assert mean_frame_s(steps) == 17.5
    assert mean_frame_s(steps[2:]) is None
    assert job("waiting", steps=steps) == "12"
    assert job("mean", steps=steps) == "18 s"


def test_counts_say_what_is_there_and_what_nobody_knows() -> None:
    assert counts_text((0, 50, 10, 40, 0, 0, 0)) == "40 done, 10 running, 50 queued"
    assert counts_text((1, 0, 0, 0, 2, 3, 4, 5)) == (
        "2 failed, 1 blocked, 3 skipped, 4 canceled, 5 in another state"
    )
    assert counts_text(()) == ""


def test_an_end_is_a_range_and_said_of_nothing_that_is_over() -> None:
    assert job("eta") == "12:10–12:15"
    assert job("eta", eta_low_us=None, eta_high_us=None) == NOTHING
    assert job("eta", state="done") == ""


def tip(name: str, **fields: Any) -> str:
    row = job_row(1, **fields)
    reading = reading_of(row, JOB_COLUMNS, job_values(row))
    say = JOB_SHOWN[by_name(JOB_SHOWN)[name]].tip
    assert say is not None
    return say(reading, reading.table.slot(1))


@pytest.mark.parametrize(("state", "running"), [("paused", 3), ("paused", 0), ("failed", 0), ("blocked", 0)])
def test_no_end_is_promised_of_a_job_that_stands_still(state: str, running: int) -> None:
    """The broker's range is of work that would go on: here it is over at once, or years off."""
    soon = {"eta_low_us": NOW_US, "eta_high_us": NOW_US + 1}
    assert job("eta", state=state, running=running, **soon) == NOTHING
    assert tip("eta", state=state, running=running, **soon).startswith(f"{state}: ")
    assert job("eta", state="running", running=1, **soon) == "any minute"
    assert job("eta", state="failed", running=2, **soon) == "any minute"


def test_money_is_short_and_a_range_is_a_range() -> None:
    assert money(None) == NOTHING
    assert money(1_250_000_000) == "1.25"
    assert money_range(3_400_000_000, 2_800_000_000) == "2.80–3.40"
    assert money_range(2_800_000_000, 2_800_000_001) == "2.80"
    assert money_range(None, 1) == NOTHING


def test_moments_are_local_and_ages_no_finer_than_needed() -> None:
    zone = timezone(timedelta(hours=2))
    assert moment(NOW_US, NOW_US, zone) == "14:00:00"
    assert moment(NOW_US - 86_400_000_000, NOW_US, zone) == "29 Nov 14:00"
    assert moment(NOW_US - 366 * 86_400_000_000, NOW_US, zone) == "2025-11-29 14:00"
    assert moment(0, NOW_US, zone) == NOTHING
    assert moment(2**62, NOW_US, zone) == NOTHING, "nonsense of a broken sender is no crash"
    ages = [age(NOW_US - seconds * 1_000_000, NOW_US) for seconds in (0, 30, 200, 7300, 100_000, 200_000)]
    assert ages == ["now", "30 s", "3 m", "2 h", "27 h", "2 d"]
    assert age(NOW_US + 5_000_000, NOW_US) == "now", "clocks differ a little"
    assert (length(None), length(-1), length(65)) == (NOTHING, NOTHING, "1 m 05 s")
    assert (gib(131072), gib(1843), gib(1024)) == ("128", "1.8", "1")


@pytest.mark.parametrize(
    ("states", "busy", "word"),
    [
        (("online",), True, "busy"),
        (("online",), False, "idle"),
        (("online", "drained"), True, "drained"),
        (("online", "disabled"), False, "disabled"),
        (("online", "closed"), False, "closed"),
        (("lost", "drained"), True, "lost"),
        (("dreaming",), False, "dreaming"),
        ((), False, ""),
    ],
)
def test_the_word_that_counts_most_of_a_node(states: tuple[str, ...], busy: bool, word: str) -> None:
    assert shown_state(states, busy) == word


def test_a_node_that_is_lost_and_drained_says_both() -> None:
    assert node("state", state="lost", enabled=False) == "lost, drained"


def test_a_node_free_of_charge_says_no_rate() -> None:
    assert node("rate", rate_nano_h=0) == ""
    assert node("rate", rate_nano_h=2_500_000_000) == "2.50"


@pytest.mark.parametrize(("views", "vocabulary"), [(JOB_VIEWS, JOBS), (NODE_VIEWS, NODES)])
def test_given_views_can_be_read_and_are_not_doubted(views: tuple[SavedView, ...], vocabulary: Any) -> None:
    for view in views:
        query = Query.parse(view.filter, vocabulary)
        assert query
        assert query.doubts() == ()


def test_saved_views_are_kept_in_order_and_nonsense_is_passed_over() -> None:
    settings = Settings()
    views = SavedViews(settings, "jobs", JOB_VIEWS)
    views.save(SavedView("hot", "prio>80"))
    views.save(SavedView("Mine", "mine prio>50"))
    views.rename("Running", "At work")
    views.rename("hot", "Mine")
    names = [(view.name, view.filter) for view in SavedViews(settings, "jobs", JOB_VIEWS).all()]
    assert names[:2] == [("Mine", "mine prio>50"), ("At work", "state:running")]
    assert names[-1] == ("hot", "prio>80")
    for view in views.all():
        views.remove(view.name)
    assert views.all() == (), "to want none of them is a choice, too"
    views.reset()
    assert views.all() == JOB_VIEWS
    from client_gui.settings import Setting

    kept: Setting[dict[str, Any]] = Setting("jobs/views", {})
    settings.set(kept, {"views": [1, {"name": "a"}, {"name": "b", "filter": "x", "columns": 3}]})
    assert views.all() == (SavedView("b", "x"),)

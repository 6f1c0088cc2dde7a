"""What jobs are grouped by: which groups there are, in which order, and what many of them cost in truth."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from client_gui.actions.records import GROUPS
from client_gui.store.columns import JOB_COLUMNS, job_values
from client_gui.store.groups import Groups
from client_gui.store.jobgroups import TITLES, job_grouping
from client_gui.store.order import Order, SortKey
from client_gui.store.table import Table
from tests.support.client_rows import NOW_US, job_row, replaced, step_row
from tests.support.groups_bench import COLUMNS, grouping, values


def test_every_grouping_of_jobs_has_an_action() -> None:
    assert {"none": "nothing", **TITLES} == GROUPS
    assert job_grouping("weather", lambda: UTC) is None


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("project", ["arctic", "dune", ""]),
        ("user", ["ana", "bo", "zoë"]),
        ("state", ["running", "queued", "failed", "dreaming"]),
        ("renderer", ["blender", "blender, nuke", ""]),
        ("day", ["2026-11-29", "2026-11-30", ""]),
    ],
)
def test_groups_of_jobs_and_their_order(by: str, expected: list[str]) -> None:
    rows = (
        job_row(1, project="dune", user="bo", steps=(step_row(), step_row("comp", renderer="nuke"))),
        job_row(2, project="arctic", user="ana", state="queued", submitted_us=NOW_US - 86_400_000_000),
        job_row(3, project="", user="ana", state="failed", steps=(), submitted_us=0),
        job_row(4, project="dune", user="zoë", state="dreaming"),
    )
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply([row.job for row in rows], [job_values(row) for row in rows])
    order: Order[int] = Order(table)
    order.settle(order.set_grouping(job_grouping(by, lambda: UTC)))
    assert [key.name for key in order.groups_shown()] == expected


def test_days_are_those_of_whoever_reads() -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply([1], [job_values(job_row(1, submitted_us=NOW_US + 11 * 3_600_000_000))])  # 23:00 UTC
    zone: list[Any] = [UTC]
    days = job_grouping("day", lambda: zone[0])
    assert days is not None
    order: Order[int] = Order(table)
    order.settle(order.set_grouping(days))
    assert [key.name for key in order.groups_shown()] == ["2026-11-30"]
    zone[0] = timezone(timedelta(hours=3))
    order.settle(order.rebuild())
    assert [key.name for key in order.groups_shown()] == ["2026-12-01"]
    label: Callable[..., str] = days.label
    now_us = NOW_US + 12 * 3_600_000_000
    assert label("2026-12-01", now_us, zone[0]) == "Today"
    assert label("2026-11-30", now_us, zone[0]) == "Yesterday"
    assert label("2026-11-09", now_us, zone[0]) == "Mon 9 Nov"
    assert label("2025-11-09", now_us, zone[0]) == "Sun 9 Nov 2025"


def test_sums_of_many_jobs_are_exact_after_ten_thousand_changes() -> None:
    rng = random.Random(3)
    rows = {
        n: job_row(n, project=f"p{n % 500}", units=400, done=n % 400, spend_nano=n * 10**11, steps=())
        for n in range(1, 20_001)
    }
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply(list(rows), [job_values(row) for row in rows.values()])
    order: Order[int] = Order(table, [SortKey("submitted_us", True)])
    order.settle(
        order.set_grouping(job_grouping("project", lambda: UTC), [f"p{n}" for n in range(0, 500, 2)])
    )
    for _ in range(40):
        picked = rng.sample(range(1, 20_001), 250)
        for n in picked:
            row = rows[n]
            project = f"p{rng.randrange(500)}" if rng.random() < 0.05 else row.project
            state = rng.choice(["running", "failed", "queued"])
            rows[n] = replaced(
                row, done=rng.randrange(400), spend_nano=row.spend_nano + 1, project=project, state=state
            )
        gone = [rng.randrange(1, 20_001)]
        change = table.apply(
            [n for n in picked if n in table], [job_values(rows[n]) for n in picked if n in table], gone
        )
        order.settle(order.apply(change))
    groups = order.groups
    assert groups is not None
    alive = [rows[n] for n in rows if n in table]
    for name in rng.sample(groups.names, 40):
        inside, place = [row for row in alive if row.project == name], groups.place_of(name)
        assert groups.count(place) == len(inside)
        assert groups.total(place, "spend_nano") == sum(row.spend_nano for row in inside)
        assert groups.total(place, "done") == sum(row.done for row in inside)
        assert groups.in_state(place, "failed") == sum(row.state == "failed" for row in inside)
    assert len(order) == 500 + sum(int(row.project[1:]) % 2 for row in alive)


def test_groups_may_be_many() -> None:
    table: Table[int] = Table(COLUMNS)
    ids = list(range(3000))
    table.apply(ids, [values((f"n{n}", f"g{n}", "queued", n, 9, None, None)) for n in ids])
    groups = Groups(table, grouping("kind"))
    groups.rebuild(table.slots(), table.slots())
    assert len(groups) == 3000
    assert groups.reorder("done", True)
    assert not groups.reorder("done", True)
    assert groups.total(groups.place_of("g77"), "done") == 77

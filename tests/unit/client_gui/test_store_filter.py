"""Filters over tables give what the same filter gives row by row, which has its own oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store.columns import JOB_COLUMNS, NODE_COLUMNS, job_values, node_values
from client_gui.store.filter import (
    JOB_FACETS,
    JOB_SOURCES,
    NODE_FACETS,
    NODE_SOURCES,
    TableFilter,
    facets,
    job_filter,
    node_filter,
)
from client_gui.store.order import Order
from client_gui.store.table import Table
from farm.model.query import JOBS, NODES, Context, Query, QueryError
from farm.sdk.filters import JOB_FIELDS, NODE_FIELDS
from tests.support.fake_broker import T0_US, job_row, node_row, step_row

HOUR_US = 3_600_000_000
NOW_US = T0_US + 100 * HOUR_US
CONTEXT = Context(NOW_US, "kim")
MOMENTS = st.just(0) | st.integers(0, 200).map(lambda hours: T0_US + hours * HOUR_US)

JOB_ROWS = st.builds(
    lambda spans, **fields: job_row(
        steps=tuple(step_row(name=f"s{place}", frames=span) for place, span in enumerate(spans)), **fields
    ),
    spans=st.lists(st.sampled_from(["1-10", "5", "1-100x10", "", "odd text"]), max_size=2),
    name=st.sampled_from(["fx_010", "LGT 2", "proxy", "naïve"]),
    user=st.sampled_from(["kim", "bo", ""]),
    project=st.sampled_from(["film", "ad"]),
    state=st.sampled_from(["running", "failed", "dreaming"]),
    reason=st.sampled_from(["", "disk full"]),
    priority=st.integers(0, 100),
    units=st.integers(0, 10),
    done=st.integers(0, 10),
    failed=st.integers(0, 3),
    spend_nano=st.integers(0, 10**11),
    submitted_us=MOMENTS,
    started_us=MOMENTS,
    ended_us=MOMENTS,
    eta_high_us=st.none() | MOMENTS,
    archived=st.booleans(),
)
NODE_ROWS = st.builds(
    node_row,
    name=st.sampled_from(["ws-1", "r-114"]),
    pool=st.sampled_from(["gpu", "cpu", ""]),
    state=st.sampled_from(["online", "lost", "napping"]),
    enabled=st.booleans(),
    disabled=st.booleans(),
    closed=st.sampled_from(["", "its hours"]),
    reason=st.sampled_from(["", "fan is loud"]),
    ram_mib=st.integers(0, 200_000),
    cores_free=st.integers(0, 16),
    running=st.lists(st.sampled_from(["J12/beauty@7", "J3/film@1"]), max_size=2).map(tuple),
    gpu_names=st.lists(st.sampled_from(["L40S", "H200"]), max_size=2).map(tuple),
    cpu_percent=st.floats(0, 100),
    rate_nano_h=st.integers(0, 10**10),
    seen_us=MOMENTS,
    update=st.sampled_from(["", "updating"]),
)
JOB_TERMS = [
    "fx", "mine", "-mine", "state:failed,dreaming", "state:/ing$/", "user=kim", "name:l*2", "/^fx/",
    "priority>50", "priority:40..60,90..", "progress<50%", "progress>=50", "cost>5", "waste:0..1",
    "age<2d", "age>4d", "started<50h", "ended<1d", "runtime>10h", "eta<2d", "eta>-1d", "frame:5-7",
    "frame:91", "frame>50", "step:s1", "renderer:blender", "reason:disk", "job:12", "archived:yes",
    "failed:1,2", "frames>4", "done<=3", "running:1",
]  # fmt: skip
NODE_TERMS = [
    "ws", "gpu", "pool:gpu", "state:online,drained", "state:napping", "-enabled:yes", "busy:yes",
    "job:J12", "job:3", "ram>64g", "ramfree<64g", "coresfree:4..8", "gpu:h200", "cpu>50%", "rate>1",
    "seen<2d", "update:updating", "reason:fan", "reason:hours", "running>1", "slots:0",
    "app:blender", "renderer:blender", "software:0", "host:ws", "site:local", "cores>8", "gpus:2",
    "gpusfree:1", "cost>0", "idle<1",
]  # fmt: skip


def combined(terms: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(terms),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(" ".join),
            st.tuples(inner, inner).map(lambda two: f"({two[0]} or {two[1]})"),
            inner.map(lambda one: f"-({one})"),
        ),
        max_leaves=6,
    )


@given(st.lists(JOB_ROWS, min_size=1, max_size=8), combined(JOB_TERMS))
@settings(max_examples=200, deadline=None)
def test_jobs(rows: list[Any], text: str) -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply(range(len(rows)), [job_values(row) for row in rows])
    test = Query.parse(text, JOBS).predicate(JOB_FIELDS, CONTEXT)
    slots = np.array([table.slot(one) for one in range(len(rows))], np.int32)
    assert job_filter(table, text, CONTEXT).fits(slots).tolist() == [test(row) for row in rows]


@given(st.lists(NODE_ROWS, min_size=1, max_size=8), combined(NODE_TERMS))
@settings(max_examples=200, deadline=None)
def test_nodes(rows: list[Any], text: str) -> None:
    table: Table[int] = Table(NODE_COLUMNS)
    table.apply(range(len(rows)), [node_values(row) for row in rows])
    test = Query.parse(text, NODES).predicate(NODE_FIELDS, CONTEXT)
    slots = np.array([table.slot(one) for one in range(len(rows))], np.int32)
    assert node_filter(table, text, CONTEXT).fits(slots).tolist() == [test(row) for row in rows]


def test_every_field_has_a_source_and_is_tried_here() -> None:
    for vocabulary, sources, terms in ((JOBS, JOB_SOURCES, JOB_TERMS), (NODES, NODE_SOURCES, NODE_TERMS)):
        names = {field.name for field in vocabulary.fields}
        assert set(sources) == names
        assert {name for term in terms for name in Query.parse(term, vocabulary).fields()} == names


def test_a_filter_follows_the_columns_it_reads_and_the_time() -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    table.apply([1, 2], [job_values(job_row(1, name="fx")), job_values(job_row(2, name="lgt"))])
    found = job_filter(table, "fx state:running", CONTEXT)
    order: Order[int] = Order(table)
    order.settle(order.set_filter(found.fits, found.bits))
    assert order.ids() == [1]
    order.settle(order.apply(table.apply([1], [job_values(job_row(1, name="fx", state="done"))])))
    assert order.ids() == []
    order.settle(order.apply(table.apply([2], [job_values(job_row(2, name="fx_2"))])))
    assert order.ids() == [2]
    assert not found.bits & table.bits["money"], "what the filter does not read cannot change what fits"
    aged = job_filter(table, "age<101h", CONTEXT)
    assert aged.query.moves
    assert aged.fits(table.slots()).all()
    assert not aged.moved_to(NOW_US + 2 * HOUR_US).fits(table.slots()).any()


def test_facets_count_what_there_is() -> None:
    jobs: Table[int] = Table(JOB_COLUMNS)
    jobs.apply(
        range(3), [job_values(job_row(one, user="kim" if one else "", state="dreaming")) for one in range(3)]
    )
    found = facets(jobs, JOB_FACETS)
    assert found["user"] == {"kim": 2}
    assert found["state"] == {"dreaming": 3}
    assert facets(jobs, JOB_FACETS, jobs.slots()[:0])["user"] == {}
    nodes: Table[int] = Table(NODE_COLUMNS)
    nodes.apply([1], [node_values(node_row(enabled=False))])
    assert facets(nodes, NODE_FACETS)["state"] == {"online": 1, "drained": 1}


def test_what_does_not_parse_is_said_with_its_place() -> None:
    table: Table[int] = Table(JOB_COLUMNS)
    with pytest.raises(QueryError) as raised:
        job_filter(table, "fx stae:x", CONTEXT)
    assert raised.value.position == 3
    assert isinstance(TableFilter(table, Query.parse(""), JOB_SOURCES, CONTEXT).bits, int)

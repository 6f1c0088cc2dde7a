"""Figures for Prometheus: counted from rows, gathered on demand, served by other threads."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from farm.broker.metric_gather import gather_nodes, gather_work
from farm.broker.metric_names import METRICS, PREFIX, TURN_BUCKETS_S
from farm.broker.metrics import Histogram, Metrics, Snapshot
from farm.broker.metrics_http import MetricsServer
from farm.core import meter
from farm.core.outcome import Outcome
from tests.support.core_rig import Rig, step
from tests.support.waiting import eventually

DEPLOY = Path(__file__).parents[3] / "deploy"


class Counted(Rig):
    """A core whose rows are counted as the loop counts them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.metrics = Metrics(self.core.farm)

    def handle(self, event: Any) -> Outcome:
        out = super().handle(event)
        if out.rows:
            self.metrics.committed(out.rows, 0.001)
        return out

    def state(self) -> Any:
        """What of a broker the figures are gathered from."""

        class State:
            def __init__(self, rig: Counted) -> None:
                self.core, self.now_us, self.started_us = rig.core, rig.now_us, 0
                self.farm_name, self.farm_id = "test", "f"
                self.sessions: dict[bytes, Any] = {}
                self.alerts: list[str] = []
                self.keydesk = self

        return State(self)

    def snapshot(self) -> Snapshot:
        """What a scrape would get, less what only a broker knows."""
        self.metrics._snapshot = None
        state = self.state()
        while self.metrics.answer(state):
            pass
        made = self.metrics.latest()
        assert made is not None
        return made


@given(st.lists(st.floats(0, 100, allow_nan=False), max_size=50))
def test_buckets_hold_what_is_not_above_them(values: list[float]) -> None:
    histogram = Histogram(TURN_BUCKETS_S)
    for value in values:
        histogram.add(value)
    buckets = dict(histogram.buckets())
    for bound in TURN_BUCKETS_S:
        assert buckets[str(float(bound))] == sum(value <= bound for value in values)
    assert buckets["+Inf"] == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_frames_failures_waste_and_money_are_counted_from_rows() -> None:
    rig = Counted()
    node = rig.join(cores=1, rate=3_600 * 10**9)
    rig.submit(step(frames="1-2", chunk=2), project="film")
    lease = rig.lease()
    rig.wait(30, node)
    rig.done(lease, 0, elapsed_s=30, closed=False)
    rig.wait(10, node)
    rig.fail(lease, "renderer", 1)
    rig.join("bee", cores=1)
    made = rig.snapshot()
    values = made.values
    assert values["frames_done"] == {("command",): 1}
    assert values["failures"] == {("renderer",): 1}
    assert values["frames_failed"] == {}
    assert values["waste_seconds"] == {(): pytest.approx(10)}
    assert values["waste_usd"][()] == pytest.approx(10.0)
    assert values["project_spend_usd"] == {("film",): pytest.approx(40.0)}
    assert values["leases"] == {("render",): 1}
    assert made.histograms["frame_seconds"][("command",)].total == pytest.approx(30)
    again = rig.dispatch()
    assert again
    rig.report(lease)
    assert rig.snapshot().values["stale_results"] == {(): 1}


def test_what_runs_when_counting_begins_is_counted_too() -> None:
    rig = Counted()
    node = rig.join(rate=3_600 * 10**9)
    rig.submit(step(frames="1"))
    lease = rig.lease()
    rig.metrics = Metrics(rig.core.farm)
    rig.wait(5, node)
    rig.fail(lease, "renderer")
    assert rig.snapshot().values["waste_seconds"] == {(): pytest.approx(5)}
    rig.metrics = Metrics(rig.core.farm)
    assert rig.snapshot().values["project_spend_usd"] == {("",): pytest.approx(5.0)}


@given(seconds=st.integers(0, 10_000), cores=st.integers(1, 6), frames=st.integers(0, 6))
def test_money_agrees_with_the_meter_to_the_nano_usd(seconds: int, cores: int, frames: int) -> None:
    rig = Rig(lost_us=10**12, suspect_us=10**11)
    node = rig.node(rig.join(cores=cores, rate=987_654_321))
    if frames:
        rig.submit(step(frames=f"1-{frames}"))
        rig.dispatch()
    rig.now_us += seconds * 1_000_000
    values: dict[str, dict[tuple[str, ...], float]] = {}
    list(gather_nodes(rig.core.farm, rig.now_us, values))
    total, _, idle = meter.projected(node, rig.now_us)
    assert values["spend_usd"][("local",)] * 1e9 == pytest.approx(total, abs=2)
    assert values["idle_usd"][("local",)] * 1e9 == pytest.approx(idle, abs=2)


def test_the_queue_s_age_is_that_of_the_oldest_job_that_waits() -> None:
    rig = Rig()
    rig.submit(step(frames="1-2"), project="film")
    rig.wait(50)
    rig.submit(step(frames="1-2", name="b"), project="film")
    rig.submit(step(frames="1", name="c"), project="advert", paused=True)
    values: dict[str, dict[tuple[str, ...], float]] = {}
    rig.wait(10)
    list(gather_work(rig.core.farm, rig.now_us, values))
    assert values["queue_age_seconds"] == {("film",): 60.0}
    assert values["frames"][("queued",)] == 5
    assert values["project_frames"][("advert", "queued")] == 1
    rig.act("cancel", "J1")
    list(gather_work(rig.core.farm, rig.now_us, values))
    assert values["queue_age_seconds"] == {("film",): 10.0}


# ---------------------------------------------------------------- handing over


def test_a_scrape_wakes_the_loop_and_a_second_one_takes_what_is_there() -> None:
    rig = Counted()
    woken = threading.Event()
    rig.metrics.on_wanted(woken.set)
    found: list[Snapshot | None] = []
    asker = threading.Thread(target=lambda: found.append(rig.metrics.latest(20)))
    asker.start()
    assert woken.wait(20)
    assert rig.metrics.wanted
    made = rig.snapshot()
    asker.join(20)
    assert found == [made]
    assert not rig.metrics.wanted
    assert rig.metrics.latest(0) is made


def test_a_large_farm_is_gathered_in_slices_and_at_most_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Counted()
    for index in range(3):
        rig.submit(step(frames="1-10", name=f"s{index}"))
    monkeypatch.setattr("farm.broker.metric_gather.PIECE", 1)
    monkeypatch.setattr("farm.broker.metrics.SLICE_S", 0.0)
    state = rig.state()
    more = 0
    while rig.metrics.answer(state):
        more += 1
        assert rig.metrics.gathering
        assert rig.metrics.latest(0) is None, "nobody sees half of it"
    assert more == 3, "a slice a job"
    made = rig.metrics.latest(0)
    assert made is not None
    assert made.values["frames"][("queued",)] == 30
    rig.metrics.wanted = True
    assert not rig.metrics.answer(state)
    assert rig.metrics.latest(0) is made


def test_a_loop_that_does_not_answer_costs_a_scrape_its_patience_and_no_more() -> None:
    rig = Counted()
    assert rig.metrics.latest(0.01) is None
    made = rig.snapshot()
    made.at_s -= 100
    assert rig.metrics.latest(0.01) is made, "the last figures there are"
    assert rig.metrics.wanted


def test_the_text_has_every_figure_once() -> None:
    rig = Counted()
    node = rig.join("größe", pool='po"ol\\')
    rig.submit(step(frames="1"))
    rig.done(rig.lease())
    rig.wait(1, node)
    server = MetricsServer(rig.metrics, "127.0.0.1", 0, Path("/nowhere/farm.db"))
    try:
        kind, body = server.text(rig.snapshot())
    finally:
        server._http.server_close()
    assert kind.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    for metric in METRICS.values():
        family = families[PREFIX + metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
    nodes = families["overcrank_nodes"].samples[0]
    assert nodes.labels["pool"] == 'po"ol\\'


def test_stopping_the_server_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    server = MetricsServer(Counted().metrics, "127.0.0.1", 0)
    server.start()
    server.stop()
    eventually(lambda: set(threading.enumerate()) <= before, "its threads have ended")


# ---------------------------------------------------------------- dashboards and rules


def expressions() -> list[tuple[str, str]]:
    """Every query of the dashboard and the alert rules."""
    board = json.loads((DEPLOY / "grafana" / "overcrank-farm.json").read_text("utf-8"))
    found = [("dashboard", target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    rules = (DEPLOY / "prometheus" / "overcrank-alerts.yml").read_text("utf-8")
    found += [("alerts", match) for match in re.findall(r"^\s+expr: (.+)$", rules, re.MULTILINE)]
    return found


def test_there_are_queries() -> None:
    assert len(expressions()) > 25
    rules = (DEPLOY / "prometheus" / "overcrank-alerts.yml").read_text("utf-8")
    assert rules.count("- alert:") == rules.count("expr:") == rules.count("summary:")


@pytest.mark.parametrize(("where", "expr"), expressions())
def test_a_query_names_only_what_the_broker_serves(where: str, expr: str) -> None:
    del where
    known: dict[str, set[str]] = {}
    for metric in METRICS.values():
        if metric.kind == "histogram":
            known[f"{metric.shown}_bucket"] = {*metric.labels, "le"}
            known[f"{metric.shown}_sum"] = known[f"{metric.shown}_count"] = set(metric.labels)
        else:
            known[metric.shown] = set(metric.labels)
    names = re.findall(r"\bovercrank_[a-z_]+", expr)
    assert names or expr.startswith("up{")
    for name in names:
        assert name in known, name
    labels = set().union(*(known[name] for name in names)) if names else {"job"}
    for group in re.findall(r"\bby \(([^)]*)\)", expr):
        assert {label.strip() for label in group.split(",")} <= labels
    for selector in re.findall(r"\{([^}]*)\}", expr):
        assert set(re.findall(r"(\w+)\s*=~?", selector)) <= labels | {"job"}
    assert expr.count("(") == expr.count(")")


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    board = json.loads((DEPLOY / "grafana" / "overcrank-farm.json").read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert board["templating"]["list"][0]["query"] == "prometheus"

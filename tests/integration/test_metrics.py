"""Figures a real broker serves to Prometheus: they parse, they are named, and they agree with the farm."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from farm import __version__
from farm.broker.metric_names import METRICS, PREFIX
from farm.sdk.client import Farm
from farm.sdk.connect import dial
from tests.support.farmhouse import Farmhouse
from tests.support.managed import reserve_ports
from tests.support.truth import Renders, job_file
from tests.support.waiting import eventually

Value = dict[tuple[str, ...], float]


class Scraper:
    """A farm with its metrics on."""

    def __init__(self, house: Farmhouse, port: int) -> None:
        self.house = house
        self.port = port

    def get(self, path: str = "/metrics", **headers: str) -> tuple[str, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.headers["Content-Type"], reply.read().decode()

    def families(self) -> dict[str, Metric]:
        return {family.name: family for family in text_string_to_metric_families(self.get()[1])}

    def values(self, name: str, families: dict[str, Metric] | None = None) -> Value:
        """Values of a figure by its labels' values, as its record names them."""
        metric = METRICS[name]
        family = (families or self.families())[PREFIX + name]
        return {
            tuple(sample.labels[label] for label in metric.labels): sample.value
            for sample in family.samples
            if sample.name == metric.shown
        }


@pytest.fixture
def scraped(new_house: Callable[..., Farmhouse]) -> Iterator[Scraper]:
    """A farm of two nodes that is scraped."""
    ((port, holder),) = reserve_ports(1)
    house = new_house(broker_flags=["--metrics-port", str(port)])
    house.agent("a", pool="film", site="attic")
    house.agent("b")
    house.wait_online()
    yield Scraper(house, port)
    holder.close()


def test_sessions_of_clients_that_were_closed_are_gone(scraped: Scraper) -> None:
    house = scraped.house
    pair = house.key("artist", "ada")
    with Farm(dial(house.access(pair), house.endpoint.control, 10)) as stays:
        stays.jobs()
        for _ in range(20):
            with Farm(dial(house.access(pair), house.endpoint.control, 10)) as farm:
                farm.jobs()
        eventually(lambda: scraped.values("sessions")[("artist",)] == 1, "only the open one is counted")
        assert stays.jobs().jobs == ()
    eventually(lambda: ("artist",) not in scraped.values("sessions"), "none is left")
    assert scraped.values("sessions")[("agent",)] == 2


def test_the_figures_agree_with_the_farm(scraped: Scraper, renders: Renders, tmp_path: Path) -> None:
    house = scraped.house
    first = house.admin.submit(renders.job("1-20", takes_s=0.02, job={"project": "film"})).job
    failing = {
        "name": "render",
        "renderer": "command",
        "frames": "1",
        "params": {"command": ["false"]},
        "attempts": 2,
    }
    second = house.admin.submit(job_file(failing)).job
    house.wait_job(first)
    house.wait_job(second, "failed")
    third = house.admin.submit(
        Renders(tmp_path, "third").job("1-9", gated=True, job={"project": "advert"})
    ).job
    eventually(lambda: sum(len(row.running) for row in house.nodes()) == 4, "four frames run")
    house.admin.node_act("node-drain", "b", reason="fan is loud")
    house.admin.node_act("node-set", "a", value='{"slots": "3"}')

    families = scraped.families()
    status = json.loads(house.farm("status", "--json").stdout)
    assert set(families) >= {PREFIX + name for name in METRICS}, "every figure is there"

    def values(name: str) -> Value:
        return scraped.values(name, families)

    assert {state: count for (state,), count in values("jobs").items()} == status["jobs"]
    assert {state: count for (state,), count in values("frames").items()} == status["units"]
    assert values("nodes") == {("online", "film", "attic"): 1, ("drained", "", "local"): 1}
    assert sum(values("nodes").values()) == sum(status["nodes"].values())
    assert values("alerts") == {(): len(status["alerts"])}
    assert sum(values("burn_usd_per_hour").values()) == pytest.approx(float(status["burn_usd_h"]))
    assert 0 < sum(values("spend_usd").values()) <= float(status["spend_usd"]) + 1e-6
    assert values("project_frames") == {("advert", "queued"): 5, ("advert", "running"): 4}
    assert set(values("queue_age_seconds")) == {("advert",)}
    age_s = values("queue_age_seconds")[("advert",)]
    assert 0 < age_s < 60
    assert values("frames_done") == {("command",): 20}
    assert values("failures") == {("renderer",): 2}
    assert values("frames_failed") == {("renderer",): 1}
    assert values("leases")[("render",)] >= 26
    assert values("attempts_running") == {("attic",): 2, ("local",): 2}
    assert values("cores") == values("cores_busy") == {("film", "attic"): 2, ("", "local"): 2}
    assert values("slots") == {("film", "attic"): 3, ("", "local"): 0}
    assert values("slots_busy") == {("film", "attic"): 2, ("", "local"): 0}
    assert values("agents") == {(house.node("a").software,): 2}
    assert values("build_info") == {(__version__, "test", status["farm_id"]): 1}
    assert values("sessions")[("agent",)] == 2
    assert values("database_bytes")[()] > 4096
    assert values("waste_seconds")[()] > 0
    (buckets,) = [
        [
            sample.value
            for sample in families[PREFIX + "frame_seconds"].samples
            if sample.name.endswith("bucket")
        ]
    ]
    assert buckets == sorted(buckets), "each bucket holds those below it"
    assert buckets[-1] == 20
    counted = {
        sample.name: sample.value
        for name in ("turn_seconds", "commit_seconds")
        for sample in families[PREFIX + name].samples
        if sample.name.endswith("_count")
    }
    assert min(counted.values()) > 10
    assert families["overcrank_process_resident_memory_bytes"].samples[0].value > 1 << 20
    house.admin.act("cancel", f"J{third}")
    house.wait_job(third, "canceled")
    before = values("spend_usd")[("attic",)]
    eventually(lambda: scraped.values("spend_usd")[("attic",)] > before, "counters go on")


def test_only_metrics_are_served_and_open_metrics_when_asked(scraped: Scraper) -> None:
    for path in ("/", "/metrics/../farm.db", "/metrics2"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            scraped.get(path)
        assert caught.value.code == 404
        caught.value.close()
    kind, body = scraped.get(Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")
    assert scraped.get("/metrics?x=1")[0].startswith("text/plain")


def test_scrapers_that_say_nothing_or_never_read_hold_nobody_up(scraped: Scraper, renders: Renders) -> None:
    silent = [socket.create_connection(("127.0.0.1", scraped.port)) for _ in range(20)]
    try:
        silent[0].sendall(b"GET /metr")
        silent[1].sendall(b"\x00\xff" * 50_000)
        assert scraped.values("nodes")
        job = scraped.house.admin.submit(renders.job("1-4")).job
        scraped.house.wait_job(job)
    finally:
        for connection in silent:
            connection.close()


def test_a_metrics_port_that_is_taken_is_said(scraped: Scraper) -> None:
    ports = [f"--{kind}-port=0" for kind in ("control", "join", "bulk")]
    used = scraped.house.farm("--farm", "other", "broker", f"--metrics-port={scraped.port}", *ports)
    assert used.returncode == 3
    assert f"the metrics port {scraped.port} of 127.0.0.1 cannot be used" in used.stderr
    assert "--metrics-port" in used.stderr


def test_no_port_is_open_unless_it_was_asked_for(new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    assert "metrics" not in house.broker.text()

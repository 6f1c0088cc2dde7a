"""The farm at a glance: `farm status`, `nodes`, `gpus`, `spend`; and `--watch`, which tells what changes.

What belongs here: reading the farm as a whole, and views that go on until they are interrupted or done.
"""

from __future__ import annotations

import json

import pytest

from farm.cli import watch as watch_module
from farm.protocol import client as wire
from tests.support.cli_rig import Run
from tests.support.fake_broker import FakeBroker, FakeLink, job_row

# -- the farm ----------------------------------------------------------------------------------------


def test_status(run: Run) -> None:
    result = run("status")
    assert result.out.splitlines() == [
        "farm local, Overcrank 0.1.0, up 1 h 02 m",
        "  jobs   1 running, 2 done",
        "  frames 40 queued, 2 running, 58 done",
        "  nodes  1 online",
        "  spent  1.234568 USD, now 0.500000 USD/h",
        "  ! budget of project film: 80 % spent",
    ]
    assert run("--json", "status").json["spend_usd"] == "1.234568"


def test_nodes_and_gpus(run: Run) -> None:
    lines = run("nodes").out.splitlines()
    assert lines[1].split()[:5] == ["ws-12", "online", "gpu", "local", "12/16"]
    assert "32 GiB" in lines[1]
    assert "online, drained" in lines[2]
    assert lines[2].endswith("fan is loud")
    assert "1/2  2 x RTX 6000" in run("gpus").out
    assert run("gpus", "--json").json["nodes"][0]["gpus_free"] == 1
    assert run("nodes", "--json").json["nodes"][0]["rate_usd_h"] == "0.500000"


def test_spend_adds_up(run: Run, broker: FakeBroker) -> None:
    broker.spend = [
        wire.SpendLine(
            key="J12", total_nano=3, useful_nano=1, waste_nano=1, idle_nano=1, busy_s=61.0, frames=4
        ),
        wire.SpendLine(key="J13", total_nano=10**9, useful_nano=10**9, waste_nano=0, idle_nano=0, frames=6),
    ]
    lines = run("spend").out.splitlines()
    assert lines[0].split() == ["JOB", "USD", "USEFUL", "WASTE", "IDLE", "BUSY", "FRAMES"]
    assert lines[-1].split()[:2] == ["total", "1.000000"]
    document = run("spend", "J12", "--by", "user", "--json").json
    assert document["by"] == "user"
    assert broker.requests[-1].job == 12


# -- watching ----------------------------------------------------------------------------------------


def test_watch_in_a_pipe_prints_each_change_once(run: Run, broker: FakeBroker) -> None:
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(done=7),)))
    broker.script.append(lambda link: None)
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(done=10, state="done", running=0),)))
    result = run("job", "J12", "--watch", "--json")
    assert result.code == 0
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["state"], row["done"]) for row in documents] == [
        ("running", 6),
        ("running", 7),
        ("done", 10),
    ]


def test_ctrl_c_ends_a_watch_quietly(run: Run, broker: FakeBroker) -> None:
    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.append(interrupt)
    result = run("jobs", "--watch")
    assert result.code == 130
    assert "J12" in result.out
    assert result.err == "\n"


def test_watch_tells_that_the_connection_is_lost(run: Run, broker: FakeBroker) -> None:
    broker.script.append(FakeLink.drop)

    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.append(interrupt)
    result = run("nodes", "--watch")
    assert "connection to 127.0.0.1:7460 was lost" in result.err


def test_status_can_be_watched(run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.extend([lambda link: broker.delta(link, jobs=(job_row(done=7),)), interrupt])
    result = run("status", "--watch")
    assert result.out.count("farm local") == 1  # nothing of it changed
    assert watch_module.__doc__

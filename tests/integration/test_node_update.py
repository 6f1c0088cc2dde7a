"""A roll-out on real agents: their command swaps what is installed, they start anew in the same process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import farm
from farm.protocol.client import NodeRow
from tests.support.farmhouse import ROOT, Farmhouse
from tests.support.truth import Renders
from tests.support.waiting import eventually

#: What an update does here: writes the version it is told into the installation's own record of it.
_INSTALL = """
import os, pathlib, sys
record = pathlib.Path(sys.argv[1])
if sys.argv[2:] == ["fail"]:
    sys.exit("no disk left")
assert sys.argv[2:] == [os.environ["OVERCRANK_UPDATE_VERSION"]], sys.argv
record.write_text(f"Metadata-Version: 2.1\\nName: overcrank\\nVersion: {sys.argv[2]}\\n")
"""
OLD = "0.0.1"


class Installed:
    """An installation of an old version that agents find first."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "overcrank-0.dist-info" / "METADATA"
        self.record.parent.mkdir(parents=True)
        self.record.write_text(f"Metadata-Version: 2.1\nName: overcrank\nVersion: {OLD}\n")
        self.path = f"{folder}:{ROOT}"
        self.script = folder / "install.py"
        self.script.write_text(_INSTALL)

    def command(self, what: str = "{version}") -> tuple[str, ...]:
        return (sys.executable, str(self.script), str(self.record), what)


def test_agents_update_themselves_one_after_the_other_and_go_on_working(
    new_house: Callable[..., Farmhouse], renders: Renders, tmp_path: Path
) -> None:
    house = new_house()
    for name in ("a", "b", "c"):
        installed = Installed(tmp_path / f"installed-{name}")
        house.env["PYTHONPATH"] = installed.path
        house.agent(name, update_command=installed.command() if name != "c" else ())
    house.wait_online()
    pids = {name: house.agents[name].pid for name in ("a", "b")}
    assert {row.software for row in house.nodes()} == {OLD}
    job = house.admin.submit(renders.job("1-40", takes_s=0.1)).job
    eventually(lambda: len(renders.ended()) > 3, "it renders")

    told = house.farm("node", "update", "--all", "--at-most", "1", "--wait", "--timeout-s", "50", "--json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    results = {node["node"]: node for node in answer["nodes"]}
    assert {name: node["update"] for name, node in results.items()} == {
        "a": "updated",
        "b": "updated",
        "c": "skipped",
    }
    assert results["a"]["reason"] == f"{OLD} -> {farm.__version__}"
    assert results["c"]["reason"] == "its agent has no update_command"
    house.wait_online()
    rows = {row.name: row for row in house.nodes()}
    assert {name: row.software for name, row in rows.items()} == {
        "a": farm.__version__,
        "b": farm.__version__,
        "c": OLD,
    }
    assert all(row.enabled for row in rows.values())
    assert {name: house.agents[name].pid for name in pids} == pids, "the same processes, started anew inside"
    house.wait_job(job)
    assert house.job(job).done == 40
    history = [(row.what, row.new) for row in reversed(house.admin.history(limit=500).rows)]
    moves = [entry for entry in history if entry in (("node a", "updating"), ("node b", "updating"))]
    ends = [entry for entry in history if entry in (("node a", "updated"), ("node b", "updated"))]
    assert history.index(ends[0]) < history.index(moves[1]), "one at a time"
    again = house.farm("node", "update", "a", "b")
    assert (again.returncode, again.stdout) == (2, "")
    assert f"all 2 nodes have version {farm.__version__} already" in again.stderr


def test_an_update_that_fails_leaves_the_node_drained_and_stops_the_roll_out_over_a_restart(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    for name in ("a", "b"):
        installed = Installed(tmp_path / f"installed-{name}")
        house.env["PYTHONPATH"] = installed.path
        house.agent(name, update_command=installed.command("fail"))
    house.wait_online()
    house.farm("node", "update", "a", "b")

    def failed() -> list[NodeRow]:
        return [row for row in house.nodes() if row.update == "failed"]

    eventually(failed, "one has failed")
    eventually(lambda: {row.update for row in house.nodes()} == {"failed", "stopped"}, "the other is let go")
    (row,) = failed()
    reason = "update failed: the update command ended with code 1: no disk left"
    assert (row.enabled, row.reason, row.software) == (False, reason, OLD)
    house.restart_broker()
    house.wait_online()
    (row,) = failed()
    assert (row.enabled, row.reason) == (False, reason)
    listing = house.farm("nodes").stdout
    assert "online, drained" in listing
    assert reason in listing
    assert any(reason in alert for alert in house.admin.status().alerts)
    house.admin.node_act("node-enable", row.name)
    assert all(row.enabled for row in house.nodes())


def test_settings_of_a_node_from_the_command_line(shared: Farmhouse, renders: Renders) -> None:
    house = shared
    # A minute of a day that is days away, whenever this runs.
    day = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[(datetime.now(UTC).weekday() + 3) % 7]
    minute = f"{day} 00:00-00:01 Europe/Berlin"
    told = house.farm("node", "set", "a", "slots=1", f"schedule={minute}", "rate=0.80")
    assert told.returncode == 0, told.stderr
    assert "at most 1 attempt at once" in told.stdout
    row = house.node("a")
    assert (row.slots, row.schedule) == (1, minute)
    assert row.rate_nano_h == 800_000_000
    assert row.closed.startswith(f"accepts work {minute}; next {day} 00:00")
    wrong = house.farm("node", "set", "a", "schedule=mon Mars/Olympus")
    assert wrong.returncode == 2
    assert "knows no time zone 'Mars/Olympus'" in wrong.stderr
    assert house.farm("node", "set", "a", "schedule=", "slots=0", "rate=").returncode == 0
    row = house.node("a")
    assert (row.slots, row.schedule, row.closed, row.rate_nano_h) == (0, "", "", 3_600_000_000)


def test_disable_gives_work_back_and_drain_waits_until_nothing_runs(
    shared: Farmhouse, renders: Renders
) -> None:
    house = shared
    for name in ("b", "c"):
        house.admin.node_act("node-drain", name)
    job = house.admin.submit(renders.job("1-2", gated=True)).job
    eventually(lambda: len(house.node("a").running) == 2, "a runs both")
    told = house.farm("node", "disable", "a", "--wait", "--timeout-s", "30")
    assert told.returncode == 0, told.stderr
    assert "a takes no more work and gives back 2 attempts" in told.stdout
    row = house.node("a")
    assert (row.running, row.enabled, row.disabled) == ((), False, True)
    frames = house.admin.frames(f"J{job}").steps["render"]
    assert {frame.state for frame in frames} == {"queued"}
    assert {frame.failure for frame in frames} == {""}
    assert "online, disabled" in house.farm("nodes").stdout
    late = house.farm("node", "drain", "a", "--wait", "--timeout-s", "30")
    assert late.returncode == 0, "nothing runs there"
    house.admin.act("cancel", f"J{job}")
    for name in ("a", "b", "c"):
        house.admin.node_act("node-enable", name)

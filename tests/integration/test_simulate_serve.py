"""A served scenario: a real broker, simulated agents, a client that watches; and a recording of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from client_gui.store.unitcolumns import UnitColumns
from farm.cli.main import main
from farm.cli.private import PrivateFarm
from farm.model.errors import CallError, NotBuiltYet
from farm.protocol.client import NodeRow
from farm.sdk.client import Farm
from farm.sim.replay import Replay
from farm.sim.scenario import read_scenario
from farm.sim.serve import serve
from tests.support.waiting import eventually

SCENARIO: dict[str, Any] = {
    "name": "show",
    "nodes": [
        {"name": "own", "count": 3, "cores": 4, "speed": [0.5, 2.0], "gpus": 2, "vram_mib": 16000},
        {"name": "far", "count": 2, "cores": 4, "pool": "gpu", "site": "cloud"},
    ],
    "jobs": [
        {
            "count": 2,
            "every_s": 20,
            "steps": [
                {"frames": 12, "frame_s": [5, 15], "startup_s": 2, "pictures": True},
                {"name": "film", "frames": 0, "frame_s": 5, "after": ["render"]},
            ],
        }
    ],
    "faults": {"frame_failure": 0.1},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of its own for the private farm."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def shows_what_real_nodes_show(client: Farm, nodes: tuple[NodeRow, ...]) -> None:
    """Loads of machines and GPUs, logs with their errors, pictures, and the figures of frames."""

    def loads() -> list[NodeRow]:
        return [row for row in client.nodes().nodes if not row.pool and row.gpu_loads]

    eventually(lambda: len(loads()) == 3, "a heartbeat of each node", 30)
    own = loads()
    assert [row.gpu_vram_mib for row in own] == [(16000, 16000)] * 3
    for row in own:
        assert all(0 <= gpu.percent <= 100 and 30 <= gpu.temp_c < 90 for gpu in row.gpu_loads)
        assert len(row.gpu_loads) == 2
        assert 0 < row.ram_used_mib <= row.ram_mib
    attempts = client.attempts("J1/render").attempts

    def ended() -> bool:
        return all(client.log_page(1, "render", row.no).ended for row in attempts)

    eventually(ended, "all logs are there", 30)
    logs = {row.no: client.log_page(1, "render", row.no).data.decode() for row in attempts}
    told = {row.no: row.outcome for row in attempts}
    assert any("Saved: " in logs[no] for no in told)
    for no, outcome in told.items():
        assert ("ERROR: " in logs[no]) == ("renderer" in outcome), (no, outcome)
    image = cv2.imdecode(np.frombuffer(client.preview(1, "render", 5), np.uint8), cv2.IMREAD_COLOR)
    assert image.shape == (270, 480, 3)
    page = client.columns(1, "render")
    columns = UnitColumns()
    columns.take(page)
    rows = client.frames("J1/render").steps["render"]
    assert columns.attempts.tolist() == [row.attempts for row in rows]
    assert columns.elapsed_s.tolist() == pytest.approx([row.elapsed_s for row in rows], rel=1e-6)
    assert columns.cost_nano.tolist() == [row.cost_nano for row in rows]
    names = {row.node: row.name for row in nodes}
    assert [names[node] for node in columns.node.tolist()] == [row.node for row in rows]
    assert (columns.ram_mib > 0).all()
    assert client.columns(1, "render", page.seq).count == 0
    assert client.series().nodes[-1] <= 5
    assert 0 < client.ping() < 10


@pytest.mark.slow
def test_a_scenario_is_served_watched_and_recorded(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    scenario = read_scenario(SCENARIO)
    with (
        PrivateFarm(0, rate_usd_h="0.50", simulated="show") as private,
        private.connect() as admin,
        private.connect() as client,
    ):
        client.record("start", "show")
        with pytest.raises(CallError, match="is being recorded"):
            client.record("start", "other")
        trouble: list[BaseException] = []

        def run() -> None:
            try:
                serve(scenario, admin, private.endpoint, stop, speed=40.0)
            except BaseException as error:
                trouble.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:

            def done() -> bool:
                jobs = client.jobs().jobs
                return bool(trouble) or (len(jobs) == 2 and all(row.state == "done" for row in jobs))

            eventually(done, "both jobs are done", 60)
            assert not trouble
            nodes = client.nodes().nodes
            assert sorted(row.pool for row in nodes) == ["", "", "", "gpu", "gpu"]
            assert {row.site for row in nodes} == {"local", "cloud"}
            shows_what_real_nodes_show(client, nodes)
        finally:
            stop.set()
            thread.join()
        assert main(["--farm", private.name, "record", "list"]) == 0
        assert "running" in capsys.readouterr().out
        (row,) = client.record("stop").recordings
        assert not row.running
        copy = home / "copy.recording"
        assert main(["--farm", private.name, "record", "get", "show", "-o", str(copy)]) == 0
        assert main(["--farm", private.name, "record", "get", "other"]) == 2
        assert "no recording 'other'" in capsys.readouterr().err
        result = Replay(copy).run()
        assert (result.what, result.identical, result.complete) == ("", True, True)
        assert result.events > 40
    # What is left of it can be looked at, but takes no work that nothing would ever run.
    for words in (["broker"], ["submit", "--", "true"], ["resubmit", "J1"]):
        assert main(["--farm", private.name, *words]) == 2
        assert "what is left of the simulated farm 'show'" in capsys.readouterr().err


def test_a_broker_restart_is_no_part_of_a_served_scenario() -> None:
    scenario = read_scenario(SCENARIO | {"faults": {"restart": [{"at_s": 5}]}})
    with pytest.raises(NotBuiltYet, match=r"faults\.restart"):
        serve(scenario, None, None, threading.Event())  # type: ignore[arg-type]

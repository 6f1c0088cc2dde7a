"""A served scenario: a real broker, simulated agents, a client that watches; and a recording of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from farm.cli.main import main
from farm.cli.private import PrivateFarm
from farm.model.errors import CallError, NotBuiltYet
from farm.sim.replay import Replay
from farm.sim.scenario import read_scenario
from farm.sim.serve import serve
from tests.support.waiting import eventually

SCENARIO: dict[str, Any] = {
    "name": "show",
    "nodes": [
        {"name": "own", "count": 3, "cores": 4, "speed": [0.5, 2.0]},
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

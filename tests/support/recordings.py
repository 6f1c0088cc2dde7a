"""Recordings for tests: a simulated farm in which much happens, recorded as the broker records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farm.broker.recorder import Recorder
from farm.core import invariants
from farm.sim.engine import Simulation
from farm.sim.scenario import read_scenario

BUSY: dict[str, Any] = {
    "nodes": [{"count": 5, "cores": 4, "ram_mib": 4096, "speed": [0.5, 2.0], "rate_usd_h": 0.5}],
    "jobs": [
        {
            "count": 3,
            "every_s": 40,
            "project": ["film", "series"],
            "user": ["ann", "bob"],
            "steps": [
                {"frames": 12, "frame_s": [5, 40], "startup_s": 2, "pictures": True},
                {"name": "comp", "frames": 12, "frame_s": 3, "after": ["render"]},
            ],
        }
    ],
    "faults": {"crash": [{"mtbf_s": 300, "repair_s": [5, 120]}], "frame_failure": 0.05},
    "policy": {"projects": {"film": 2}},
}


def record_run(folder: Path, *, from_event: int = 0, seed: int = 1) -> tuple[Path, str, int]:
    """Runs a farm and records it from some event on.

    Returns:
        The recording, the digest of the farm at its end, and how many events were recorded.
    """
    simulation = Simulation(read_scenario(BUSY), seed)

    def watch(handle: Any) -> None:
        simulation._handle = handle or simulation.core.handle

    recorder = Recorder(simulation.core, folder, watch)

    def begin(_event: Any) -> None:
        if simulation.events == from_event:
            recorder.start("run", simulation.now_us)

    simulation._watch = begin
    simulation.run()
    recorder.close()
    digest = invariants.digest(simulation.core.farm)
    return folder / "run.recording", digest, simulation.events - from_event

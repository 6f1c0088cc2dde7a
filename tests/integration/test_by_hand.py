"""What a newcomer types: relative programs, several agents on one machine, work that nothing can take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.farmhouse import Farmhouse
from tests.support.truth import Renders
from tests.support.waiting import eventually

_MAKE = "import sys\nopen(sys.argv[2], 'w').write('frame ' + sys.argv[1])\n"


def test_a_program_named_by_a_relative_path_runs_where_it_was_typed(
    shared: Farmhouse, tmp_path: Path
) -> None:
    (tmp_path / "make.py").write_text(_MAKE, encoding="utf-8")
    typed = ["--renderer", "command", "--frames", "1-3", "-o", "out/f.####.txt", "--wait"]
    done = shared.farm("submit", *typed, "--", "python3", "make.py", "{frame}", "{output}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "f.0002.txt").read_text() == "frame 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (["--pool", "gpu"], "is in pool (none), not gpu"),
        (["--attribute", "room=b"], "has no attribute room"),
    ],
)
def test_a_private_run_that_no_agent_can_take_ends_and_says_why(
    new_house: Callable[..., Farmhouse], wish: list[str], words: str
) -> None:
    house = new_house()
    done = house.farm("run", *wish, "--renderer", "command", "--", "/bin/true")
    assert done.returncode == 1, done.stderr
    assert "no node can take it" in done.stderr
    assert words in done.stderr


def test_a_version_of_no_application_and_an_empty_range_are_refused(shared: Farmhouse) -> None:
    done = shared.farm("submit", "--app-version", ">=99", "--renderer", "command", "--", "/bin/true")
    assert (done.returncode, "no application to constrain" in done.stderr) == (2, True)
    typed = ["--renderer", "command", "--frames", "", "-o", "x.####.txt", "--", "/bin/true"]
    done = shared.farm("submit", *typed)
    assert (done.returncode, "--frames is empty" in done.stderr) == (2, True)


def test_a_part_of_a_step_is_told_by_its_frames_and_its_own_reason(
    shared: Farmhouse, renders: Renders
) -> None:
    number = shared.admin.submit(renders.job("11-20", job={"paused": True})).job
    shared.admin.act("skip", f"J{number}/render/19-20", reason="not needed")
    shared.admin.act("cancel", f"J{number}/render/18", reason="too dark")
    rows = shared.admin.frames(f"J{number}").steps["render"]
    told = {row.frame: row.reason for row in rows}
    assert told[19] == told[20] == "not needed"
    assert told[18] == "too dark"
    assert "dark" not in told[11]
    assert "needed" not in told[11]
    history = {row.what: row.new for row in shared.admin.history(number).rows}
    assert history[f"J{number}/render/19-20"] == "skipped"
    assert history[f"J{number}/render/18"] == "canceled"
    shared.admin.act("cancel", f"J{number}")


@pytest.mark.slow
def test_agents_started_one_by_one_are_nodes_of_their_own_and_come_back_when_killed(
    new_house: Callable[..., Farmhouse],
) -> None:
    house = new_house()
    started = []
    try:
        for flags in (
            ["--node-name", "ant"],
            ["--node-name", "bee"],
            ["--node-name", "cow", "--pool", "gpu"],
        ):
            command = [sys.executable, "-m", "farm", "agent", "--cores", "1", *flags]
            started.append(
                subprocess.Popen(
                    command,
                    env=dict(house.env),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

        def online() -> dict[str, str]:
            return {row.name: row.pool for row in house.admin.nodes().nodes if row.state == "online"}

        wanted = {"ant": "", "bee": "", "cow": "gpu"}
        eventually(lambda: online() == wanted, "three nodes with the pools asked for")

        def agents() -> list[int]:
            command = ["pgrep", "-P", str(started[0].pid), "-f", "node_agent --options"]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            return [int(word) for word in found.stdout.split()]

        (first,) = agents()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: agents() not in ([], [first]), "the killed agent is started again")
        eventually(lambda: online() == wanted, "all three nodes serve")
        work = ["--renderer", "command", "--frames", "1-9", "--wait", "--", "/bin/true"]
        assert house.farm("submit", *work).returncode == 0
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)
    assert json.loads(house.farm("nodes", "--json").stdout)["nodes"]

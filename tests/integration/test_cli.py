"""The ``farm`` command against a real farm: what it prints, what it writes, and its exit codes 0, 1, 2, 3."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.farmhouse import Farmhouse
from tests.support.managed import processes_with
from tests.support.truth import Ledger, Renders, assert_exactly_once
from tests.support.waiting import eventually

_WRITE = 'printf "%s\\n" "$1" > "$2"'


def _json(house: Farmhouse, *arguments: str, code: int = 0) -> Any:
    done = house.farm(*arguments, "--json")
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_submit_wait_and_look(shared: Farmhouse, tmp_path: Path) -> None:
    reply = tmp_path / "reply.json"
    out = tmp_path / "out" / "f.####.txt"
    submit = ["submit", "--renderer", "command", "--frames", "1-4", "-o", str(out), "--name", "by hand"]
    program = ["--", "/bin/sh", "-c", _WRITE, "sh", "{frame}", "{output}"]
    done = shared.farm(*submit, "--wait", "--reply", str(reply), *program)
    assert done.returncode == 0, done.stderr
    told = json.loads(reply.read_text())
    number, address = told["job"]["number"], told["job"]["address"]
    assert done.stdout.startswith(f"{address}\n")
    assert sorted(path.name for path in out.parent.iterdir()) == [f"f.{n:04d}.txt" for n in range(1, 5)]

    job = _json(shared, "job", address)
    assert (job["state"], job["done"], job["units"]) == ("done", 4, 4)
    assert _json(shared, "job", address, "--spec")["name"] == "by hand"
    listed = _json(shared, "jobs", "--state", "done", "--limit", "1000")
    assert address in json.dumps(listed)
    frames = _json(shared, "frames", f"{address}/command/2-3")["frames"]
    assert [row["state"] for row in frames] == ["done", "done"]
    assert all(row["verified"] is True for row in frames)
    attempts = _json(shared, "attempts", address)["attempts"]
    assert {row["outcome"] for row in attempts} == {"done"}
    history = _json(shared, "history", address)["history"]
    assert history
    assert all({"what", "old", "new", "reason"} <= set(row) for row in history)
    assert _json(shared, "why", address)["job"]["state"] == "done"
    assert _json(shared, "spend", address)["total"]
    status = _json(shared, "status")
    assert status["nodes"]["online"] == 3
    assert {row["name"] for row in _json(shared, "nodes")["nodes"]} == {"a", "b", "c"}
    assert _json(shared, "gpus") == {"nodes": []}
    # The same for people: a table, the words, no traceback.
    for verb in (
        ["jobs"],
        ["job", address],
        ["frames", address],
        ["attempts", address],
        ["history", address],
    ):
        plain = shared.farm(*verb)
        assert plain.returncode == 0, plain.stderr
        assert plain.stdout.strip()
        assert not plain.stderr
    assert f"J{number}" in shared.farm("jobs").stdout


def test_acting_by_command(shared: Farmhouse, renders: Renders) -> None:
    file = renders.folder / "job.json"
    file.write_bytes(renders.job("1-20", gated=True, job={"name": "acted on"}))
    number = _json(shared, "submit", str(file))["job"]["number"]
    address = f"J{number}"
    eventually(lambda: len(renders.begun()) == 6, "every slot is taken")
    assert shared.farm("pause", address, "--reason", "lunch").returncode == 0
    assert shared.job(number).reason == "lunch"
    assert shared.farm("skip", f"{address}/render/20").returncode == 0
    assert shared.farm("cancel", f"{address}/render/19").returncode == 0
    assert shared.farm("priority", address, "70").returncode == 0
    assert shared.job(number).priority == 70
    renders.open_gate()
    assert shared.farm("resume", address).returncode == 0
    row = shared.wait_job(number, "canceled")
    assert row.done == 18
    # What cannot be done is a wrong call, told in a sentence.
    done = shared.farm("skip", f"{address}/render/1")
    assert done.returncode == 2
    assert "nothing there can be skipped" in done.stderr
    assert shared.farm("retry", f"{address}/render/19").returncode == 0
    shared.wait_job(number)
    assert shared.farm("archive", address).returncode == 0
    assert address not in shared.farm("jobs").stdout.split()
    assert address in shared.farm("jobs", "--archived").stdout.split()
    assert shared.farm("node", "drain", "a", "--reason", "test").returncode == 0
    assert not shared.node("a").enabled
    assert "drained" in shared.farm("nodes").stdout
    assert shared.farm("node", "enable", "a").returncode == 0
    assert shared.node("a").enabled
    refused = shared.farm("node", "forget", "a")
    assert refused.returncode == 2
    assert "stop its agent first" in refused.stderr


def test_exit_codes(shared: Farmhouse, tmp_path: Path) -> None:
    run = ["--renderer", "command", "--frames", "1-2", "-o", f"{tmp_path}/out/f.####.txt"]
    failing = ["--", "/bin/sh", "-c", "exit 9", "sh", "{frame}", "{output}"]
    # 1: the farm did its part, the work did not.
    done = shared.farm("submit", *run, "--attempts", "1", "--wait", *failing)
    assert done.returncode == 1, done.stderr
    assert "failed" in done.stdout
    # 2: the call was wrong.
    for wrong in (
        ["submit", "/no/such/scene.blend"],
        ["submit", "--renderer", "command", "--frames", "1-", "-o", "x", "--", "true"],
        ["submit", "--renderer", "no-such", "--frames", "1", "-o", "x.####.txt"],
        ["job", "J999999"],
        ["job", "seventeen"],
        ["frames", "J1/no-step"],
        ["log", "J1"],
        ["priority", "J1", "101"],
        ["cancel", "J1/render@7"],
        ["node", "drain", "no-such-node"],
        ["keys", "revoke", "no-such-key"],
        ["keys", "invite", "--role", "artist"],
        ["nonsense"],
        ["jobs", "--no-such-flag"],
        ["estimate", "J1"],
        ["--farm", "../escape", "jobs"],
    ):
        done = shared.farm(*wrong)
        assert done.returncode == 2, f"{wrong}: {done.returncode} {done.stderr}"
        assert done.stderr.startswith("farm: ")
        assert "Traceback" not in done.stderr
    error = _json(shared, "job", "J999999", code=2)["error"]
    assert (error["code"], error["message"]) == ("unknown", "there is no job J999999")
    # 3: there is no farm to ask.
    for asked in (["jobs"], ["status"], ["log", "J1/render/1"], ["submit", *run, *failing]):
        done = shared.farm("--farm", "elsewhere", *asked)
        assert done.returncode == 3, f"{asked}: {done.stderr}"
        assert done.stderr.startswith("farm: ")


def test_a_broker_that_was_killed_cannot_be_reached(new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    assert house.farm("status").returncode == 0
    house.broker.kill()
    done = house.farm("status")
    assert done.returncode == 3
    assert "its broker" in done.stderr
    assert "has ended" in done.stderr
    house.start_broker()
    assert house.farm("status").returncode == 0
    # Stopped in order by command; the exit code of the broker is 0.
    assert house.farm("shutdown", "--reason", "kernel update").returncode == 0
    assert house.broker.wait() == 0
    assert house.farm("status").returncode == 3


@pytest.mark.slow
def test_run_leaves_a_result_and_nothing_running(tmp_path: Path, new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    env = house.home_env(tmp_path / "home" / "config", tmp_path / "home" / "state")
    out = f"{tmp_path}/out/f.####.txt"
    common = ["run", "--renderer", "command", "--agents", "2", "-o", out, "--frames"]
    done = house.farm(
        *common, "1-6", "--json", "--", "/bin/sh", "-c", _WRITE, "sh", "{frame}", "{output}", env=env
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["state"], result["frames_planned"], result["frames_done"]) == ("done", 6, 6)
    assert result["verified"] is True
    assert result["failed"] == []
    assert sum(node["frames"] for node in result["per_node"].values()) == 6

    # One frame's file is spoiled in every attempt before it is verified: it must not pass.
    spoiled = house.farm(
        *common, "1-3", "--damage-frame", "2", "--json", "--", "/bin/sh", "-c", "head -c 100 /dev/zero > $2",
        "sh", "{frame}", "{output}", env=env,
    )  # fmt: skip
    assert spoiled.returncode == 0  # a plain file may have any length: half of it is still one
    picture = f"{tmp_path}/pictures/f.####.png"
    make = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48", "-frames:v", "1", "{output}"]
    common[common.index(out)] = picture
    spoiled = house.farm(*common, "1-3", "--damage-frame", "2", "--json", "--", *make, env=env)
    assert spoiled.returncode == 1, spoiled.stderr
    result = json.loads(spoiled.stdout)
    assert (result["state"], result["frames_done"], result["failed"]) == ("failed", 2, ["J1/command/2"])
    assert sorted(path.name for path in Path(picture).parent.iterdir()) == ["f.0001.png", "f.0003.png"]
    # Its farm can still be asked what happened.
    kept = sorted((tmp_path / "home" / "state" / "overcrank" / "private").iterdir())
    assert len(kept) == 3
    assert not house.agents
    eventually(lambda: set(house.running()) == {house.broker.pid}, "nothing of the private farms runs")


def _run_marking(folder: Path, frames: str, script: str, marks: Path) -> list[str]:
    """A run of a line of shell per frame: $1 the frame, $2 its file, $3 the folder of marks."""
    run = [sys.executable, "-m", "farm", "run", "--renderer", "command", "--frames", frames]
    out = ["-o", f"{folder}/out/f.####.txt"]
    return [*run, *out, "--", "/bin/sh", "-c", script, "sh", "{frame}", "{output}", str(marks)]


def test_ctrl_c_cancels_a_run(tmp_path: Path, new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    env = house.home_env(tmp_path / "home" / "config", tmp_path / "home" / "state")
    marks = tmp_path / "marks"
    marks.mkdir()
    script = ': > "$3/$1"; sleep 300'
    run = subprocess.Popen(
        _run_marking(tmp_path, "1-2", script, marks),
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with run:
        eventually(lambda: len(list(marks.iterdir())) == 2, "both frames are being rendered")
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    assert run.returncode == 130, out
    assert b"is canceled" in out
    eventually(lambda: not processes_with(str(marks)), "its renderers are gone")
    eventually(lambda: set(house.running()) == {house.broker.pid}, "nothing of the private farm runs")
    assert not [path for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")]


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_nothing_running(
    tmp_path: Path, new_house: Callable[..., Farmhouse]
) -> None:
    house = new_house()
    env = house.home_env(tmp_path / "home" / "config", tmp_path / "home" / "state")
    marks = tmp_path / "marks"
    marks.mkdir()
    env["OVERCRANK_KILL_GRACE_S"] = "0.5"
    script = "trap '' TERM; : > \"$3/$1\"; while :; do sleep 1; done"
    run = subprocess.Popen(
        _run_marking(tmp_path, "1", script, marks),
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(lambda: len(list(marks.iterdir())) == 1, "the frame is being rendered")
    assert processes_with(str(marks))
    run.kill()
    run.wait()
    eventually(lambda: set(house.running()) == {house.broker.pid}, "nothing of the private farm runs")
    eventually(lambda: not processes_with(str(marks)), "its renderer is gone, too")


@pytest.mark.parametrize("verb", ["jobs", "nodes", "status"])
def test_watch_in_a_pipe_prints_a_line_per_change(shared: Farmhouse, renders: Renders, verb: str) -> None:
    watcher = subprocess.Popen(
        [sys.executable, "-m", "farm", verb, "--watch", "--json"],
        env=shared.env,
        cwd=shared.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watcher.stdout is not None
    with watcher:
        first = json.loads(watcher.stdout.readline())
        number = shared.admin.submit(renders.job("1-3", takes_s=0.05)).job
        second = json.loads(watcher.stdout.readline())
        assert first != second
        watcher.send_signal(signal.SIGINT)
        _, errors = watcher.communicate(timeout=30)
    assert watcher.returncode in (0, 130)
    assert b"Traceback" not in errors
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-3")

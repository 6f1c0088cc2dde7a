"""Logs and previews on their way from an agent to whoever asks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from farm.model.errors import OvercrankError, UnknownName
from tests.support.farmhouse import Farmhouse
from tests.support.real import require
from tests.support.truth import Renders, job_file
from tests.support.waiting import eventually


def _talker(folder: Path, script: str) -> tuple[bytes, Path]:
    step = {
        "name": "render",
        "renderer": "command",
        "frames": "1",
        "params": {
            "command": ["/bin/sh", "-c", script.replace("{", "{{"), "sh", "{frame}", "{output}", str(folder)]
        },
        "outputs": [{"pattern": f"{folder}/out/f.####.txt"}],
    }
    return job_file(step), folder / "gate"


def test_a_log_is_followed_while_it_grows(shared: Farmhouse, tmp_path: Path) -> None:
    data, gate = _talker(
        tmp_path,
        'echo first words; while [ ! -e "$3/gate" ]; do sleep 0.02; done; echo last words; echo x > "$2"',
    )
    number = shared.admin.submit(data).job
    address = f"J{number}/render/1"
    shared.wait_job(number, "running")
    reader = subprocess.Popen(
        [sys.executable, "-m", "farm", "log", address, "--follow"],
        env=shared.env,
        cwd=shared.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert reader.stdout is not None
    with reader, reader.stdout as stdout:
        seen = []
        for line in stdout:
            seen.append(line)
            if line == b"first words\n":
                # It was told before the work had ended.
                assert shared.job(number).state == "running"
                gate.touch()
        assert reader.wait(30) == 0
    assert seen.index(b"first words\n") < seen.index(b"last words\n")
    assert any(f"J{number}/render@1" in line.decode() for line in seen)
    shared.wait_job(number)
    whole = shared.farm("log", address)
    assert whole.stdout == b"".join(seen).decode()
    tail = shared.farm("log", address, "--tail", "3").stdout.splitlines()
    assert tail == whole.stdout.splitlines()[-3:]
    part = shared.farm("log", address, "--offset", "10", "--limit", "20")
    assert part.stdout.encode() == whole.stdout.encode()[10:30]


def test_a_log_survives_its_agent_and_its_broker(house: Farmhouse, tmp_path: Path) -> None:
    """What an agent wrote down before it was killed is handed over by its next run."""
    data, gate = _talker(
        tmp_path,
        'echo "attempt $OVERCRANK_ATTEMPT speaks"; '
        'while [ ! -e "$3/gate" ]; do sleep 0.02; done; echo x > "$2"',
    )
    number = house.admin.submit(data).job
    house.wait_job(number, "running")
    (frame,) = house.admin.frames(f"J{number}/render/1").steps["render"]
    agent = house.agents[frame.node]
    spool = agent.state / "logs"
    eventually(
        lambda: any(b"render@1 speaks" in path.read_bytes() for path in spool.glob("*.log")),
        "the agent has the words",
    )
    agent.kill()
    house.broker.kill()
    agent.start()
    house.start_broker()
    gate.touch()
    house.wait_job(number)

    def log() -> bytes:
        return b"".join(house.ask(lambda farm: list(farm.log_stream(number, "render", 1))))

    eventually(lambda: b"attempt J1/render@1 speaks" in log(), "the killed agent's log is there")
    eventually(lambda: not list(spool.glob(f"*.J{number}.1.*")), "the agent has let go of it")


def test_strangers_may_not_write_or_read_logs(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1")).job
    shared.wait_job(number)
    ada = shared.client("artist", "ada")
    assert b"render@1" in b"".join(ada.log_stream(number, "render", 1, follow=True))
    with pytest.raises(UnknownName):
        ada.preview(number, "render", 0)
    shared.admin.keys("keys-revoke", key=shared.key("artist", "ada").public)
    with pytest.raises(OvercrankError, match="revoked"):
        list(ada.log_stream(number, "render", 1))


def test_the_preview_of_a_picture_is_fetched(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    ffmpeg = shutil.which("ffmpeg")
    require(ffmpeg, "ffmpeg", "install ffmpeg")
    assert ffmpeg is not None
    house = new_house()
    house.agent("a", preview_px=160)
    house.wait_online()
    colour = [
        ffmpeg,
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "color=red:size=640x360",
        "-frames:v",
        "1",
        "{output}",
    ]
    step = {
        "name": "render",
        "renderer": "command",
        "frames": "7-8",
        "params": {"command": colour},
        "outputs": [{"pattern": f"{tmp_path}/out/f.####.png"}],
    }
    number = house.admin.submit(job_file(step)).job
    house.wait_job(number)
    target = tmp_path / "frame 8.jpg"

    def fetched() -> bool:
        done = house.farm("preview", f"J{number}/render/8", "-o", str(target))
        assert done.returncode in (0, 2), done.stderr
        return done.returncode == 0

    eventually(fetched, "the preview is there")
    picture = cv2.imdecode(np.frombuffer(target.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    assert picture.shape == (90, 160, 3)
    blue, green, red = picture.reshape(-1, 3).mean(axis=0)
    assert red > 200
    assert max(blue, green) < 60
    assert house.farm("preview", f"J{number}/render/99", "-o", str(target)).returncode == 2

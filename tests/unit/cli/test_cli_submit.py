"""`farm submit`: what is sent, what is printed, the file with the reply, and `--wait`.

What belongs here: submitting from the command line.  Single options of job files are in test_cli_set.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.model.errors import FarmUnreachable
from farm.sdk.client import Farm
from tests.support.cli_rig import Run
from tests.support.fake_broker import FakeBroker, FakeLink, job_row


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    path = tmp_path / "scene.blend"
    path.write_bytes(b"BLENDER")
    return path


def test_submit_sends_a_checked_job_with_a_token(run: Run, broker: FakeBroker, scene: Path) -> None:
    broker.warnings = ("the farm says so",)
    result = run(
        "submit", str(scene), "--frames", "1-12", "-o", str(scene.parent), "--param", "engine=CYCLES"
    )
    assert (result.code, result.out, result.err) == (0, "J1\n", "warning: the farm says so\n")
    sent = json.loads(broker.requests[-1].job)
    assert sent["token"]
    assert sent["steps"][0]["frames"] == "1-12"


def test_submit_of_a_command_keeps_its_arguments(run: Run, broker: FakeBroker, tmp_path: Path) -> None:
    result = run(
        "submit", "--renderer", "command", "--frames", "1-2", "-o", f"{tmp_path}/f.####.txt", "--",
        "python3", "x.py", "--json", "{frame}", "--farm", "--", "{output}",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "J1\n")
    sent = json.loads(broker.requests[-1].job)
    assert sent["steps"][0]["params"]["command"] == [
        "python3",
        "x.py",
        "--json",
        "{frame}",
        "--farm",
        "--",
        "{output}",
    ]


def test_submit_dry_run_sends_nothing(run: Run, broker: FakeBroker, scene: Path) -> None:
    result = run("submit", str(scene), "--frames", "1-2", "-o", str(scene.parent), "--dry-run")
    assert result.json["steps"][0]["renderer"] == "blender"
    assert broker.requests == []


def test_submit_again_with_a_token_says_so(run: Run, scene: Path) -> None:
    argv = ("submit", str(scene), "--frames", "1", "-o", str(scene.parent), "--token", "t")
    assert run(*argv).out == "J1\n"
    assert run(*argv).out == "J1 (submitted before)\n"


def test_the_reply_file_tells_success(run: Run, broker: FakeBroker, scene: Path, tmp_path: Path) -> None:
    job = tmp_path / "jöb.json"
    job.write_text(
        json.dumps(
            {
                "overcrank_job": 1,
                "name": "ñ",
                "steps": [
                    {"name": "s", "kind": "single", "renderer": "command", "params": {"command": ["true"]}}
                ],
            }
        ),
        encoding="utf-8",
    )
    reply = tmp_path / "reply.json"
    assert run("submit", str(job), "--reply", str(reply)).code == 0
    raw = reply.read_bytes()
    assert raw.isascii()
    assert json.loads(raw) == {
        "job": {"address": "J1", "number": 1, "name": "ñ", "farm": "local"},
        "again": False,
        "warnings": [],
    }
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no.json",), "call", "cannot be read"),
        (("scene.blend",), "call", "which frames"),
        (("scene.blend", "--frames", "1-"), "frame-range", "character"),
    ],
)
def test_the_reply_file_tells_errors(
    run: Run,
    tmp_path: Path,
    scene: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    code: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = (
        run("submit", *argv, "-o", "out", "--reply", "reply.json")
        if argv[0] != "no.json"
        else run("submit", *argv, "--reply", "reply.json")
    )
    assert result.code == 2
    error = json.loads((tmp_path / "reply.json").read_text(encoding="ascii"))["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_the_reply_file_tells_of_a_farm_that_is_away(
    run: Run, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(cls: type[Farm], name: str | None = None, timeout_s: float | None = None) -> Farm:
        raise FarmUnreachable("no farm answers at 127.0.0.1:7460", hint="start one with `farm broker`")

    monkeypatch.setattr(Farm, "connect", classmethod(away))
    reply = tmp_path / "r.json"
    result = run("submit", str(scene), "--frames", "1", "-o", str(tmp_path), "--reply", str(reply))
    assert result.code == 3
    assert result.err == "farm: no farm answers at 127.0.0.1:7460\n  start one with `farm broker`\n"
    assert json.loads(reply.read_text())["error"] == {
        "code": "unreachable",
        "message": "no farm answers at 127.0.0.1:7460",
        "hint": "start one with `farm broker`",
    }


def test_submit_wait_ends_as_the_job_does(run: Run, broker: FakeBroker, scene: Path) -> None:
    argv = ("submit", str(scene), "--frames", "1-10", "-o", str(scene.parent), "--wait")
    broker.jobs[1] = job_row(1)

    def end(state: str, failed: int) -> Callable[[FakeLink], None]:
        def step(link: FakeLink) -> None:
            broker.jobs[1] = job_row(1, state=state, running=0, failed=failed, done=10 - failed)
            broker.delta(link, jobs=(broker.jobs[1],))

        return step

    broker.script.append(end("done", 0))
    result = run(*argv)
    assert result.code == 0
    assert result.out.splitlines() == ["J1", "J1 shot010: done, 10 of 10 frames done"]
    broker.jobs[2] = job_row(2)
    broker.jobs[1] = job_row(1)
    broker.tokens.clear()
    broker.script.append(end("failed", 3))
    result = run(*argv)
    assert result.code == 1
    assert "3 failed" in result.out

"""The command line against a broker in memory, with two jobs and two nodes.

What belongs here: the fixtures that tests of several verbs share.  What it may not know: any verb.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.cli.main import main
from farm.protocol import client as wire
from farm.sdk.client import Farm
from tests.support.cli_rig import Result, Run
from tests.support.fake_broker import FakeBroker, job_row, node_row


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    made = FakeBroker()
    made.jobs = {12: job_row(12), 13: job_row(13, name="shot020", user="lee", state="done", reason="")}
    made.nodes = [
        node_row(),
        node_row("ws-13", node=4, gpus=0, gpu_names=(), enabled=False, reason="fan is loud"),
    ]
    made.units[12, "beauty"] = [
        wire.FrameRow(unit=0, frame=1, state="done", attempts=1, attempt=1, node="ws-12", elapsed_s=12.5,
                      cost_nano=1_500_000, verified=True, files=("/out/b.0001.png",)),
        wire.FrameRow(unit=1, frame=2, state="failed", reason="the file is black", attempts=3, attempt=7,
                      failure="output", verified=False),
        wire.FrameRow(unit=2, frame=3, state="running", attempts=1, attempt=8, node="ws-12", progress=0.5),
        wire.FrameRow(unit=3, frame=4, state="queued"),
    ]  # fmt: skip
    monkeypatch.setattr(Farm, "connect", classmethod(lambda cls, name=None, timeout_s=None: made.farm()))
    yield made
    monkeypatch.undo()
    time.tzset()
    assert all(link.closed for link in made.links), "a connection was left open"


@pytest.fixture
def run(broker: FakeBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> Result:
        code = main(list(argv))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call

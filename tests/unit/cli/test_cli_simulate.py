"""`farm simulate` and `farm record`, as people call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.cli.main import main
from tests.support.recordings import record_run

SCENARIO = """
name = "tiny"
seed = 3
[[nodes]]
count = 2
cores = 1
[[jobs]]
project = ["film", "series"]
count = 2
[[jobs.steps]]
frames = 6
frame_s = [5, 9]
[compare]
fifo = true
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A scenario file."""
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def output(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON document that was printed."""
    return json.loads(capsys.readouterr().out)


def test_a_scenario_is_run_and_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(tiny)]) == 0
    text = capsys.readouterr().out
    for words in ("all work is done", "12 of 12 done", "times of it", "plain farm", "projects, while all"):
        assert words in text


def test_the_same_seed_prints_the_same_bytes(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("5", "5", "6"):
        assert main(["simulate", str(tiny), "--seed", seed, "--check-every", "1", "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    report = json.loads(texts[0])
    assert (report["seed"], report["frames_done"], report["ended"]) == (5, 12, "done")
    assert report["ratio"] >= 0.9
    assert report["fifo"]["frames_done"] == 12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which scenario?"),
        (["nowhere.toml"], "nowhere.toml cannot be read"),
        (["{tiny}", "--seed", "-1"], "--seed"),
        (["{tiny}", "--serve", "--speed", "0"], "--speed"),
        (["{tiny}", "--replay", "x"], "--replay takes no scenario"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    tiny: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code = main(["simulate", *(word.format(tiny=tiny) for word in words)])
    assert code in (2, 3)
    assert message in capsys.readouterr().err


def test_a_wrong_key_of_a_file_is_named(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.write_text(SCENARIO.replace("cores = 1", "coers = 1"), encoding="utf-8")
    assert main(["simulate", str(tiny)]) == 2
    assert "tiny.toml: nodes[0]: there is no key `coers`" in capsys.readouterr().err


def test_a_recording_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, digest, events = record_run(tmp_path)
    assert main(["simulate", "--replay", str(path)]) == 0
    assert f"identical: {events} events" in capsys.readouterr().out
    assert main(["simulate", "--replay", str(path), "--json"]) == 0
    assert output(capsys)["digest"] == digest
    path.write_bytes(b"nothing")
    assert main(["simulate", "--replay", str(path)]) == 2

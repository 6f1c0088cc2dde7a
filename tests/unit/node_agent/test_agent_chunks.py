"""Chunks of short frames, a process each: every frame counts once and in time, in however few messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.model.reports import DONE, FAILED, RELEASED
from farm.protocol.agent import StepTemplate, StopMsg
from node_agent import ledger
from tests.support.agent_rig import Rig, python_step, wait_for_file
from tests.support.waiting import eventually

FRAMES = range(1, 41)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path) as made:
        yield made


def shell_step(script: str, **fields: object) -> StepTemplate:
    """A step of short shell commands, one for each frame; ``$1`` is the frame."""
    step = python_step("", **fields)
    command = ["/bin/sh", "-c", script.replace("{", "{{").replace("}", "}}"), "sh", "{frame}"]
    return msgspec.structs.replace(step, params={"command": command})


def test_frames_that_end_together_are_told_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "GATHER_S", 3600.0)
    lease = rig.broker.lease(shell_step("echo $OVERCRANK_FRAMES"), FRAMES)
    units = rig.broker.closed(lease.attempt)
    assert [units[index].outcome for index in range(len(FRAMES))] == [DONE] * len(FRAMES)
    (report,) = [one for one in rig.broker.reports if one.attempt == lease.attempt]
    assert report.closed
    lines = rig.broker.log_text(lease.attempt).splitlines()
    assert [int(line) for line in lines if line.isdecimal()] == list(FRAMES)  # each told its own number
    assert sum("ended with exit code 0" in line for line in lines) == len(FRAMES)


def test_what_is_decided_is_told_while_the_next_frame_runs(rig: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    code = f"import sys\nif sys.argv[1] == '2': exec({wait_for_file(gate)!r})"
    lease = rig.broker.lease(python_step(code, "{frame}"), [1, 2, 3])
    rig.broker.wait_for(lambda: rig.broker.units(lease.attempt), "the first frame's report")
    assert list(rig.broker.units(lease.attempt)) == [0]
    gate.touch()
    units = rig.broker.closed(lease.attempt)
    assert [units[index].outcome for index in range(3)] == [DONE] * 3


def test_a_frame_that_fails_in_a_chunk_takes_no_other_with_it(rig: Rig) -> None:
    lease = rig.broker.lease(shell_step('test "$1" != 7'), FRAMES)
    units = rig.broker.closed(lease.attempt)
    failed = {index for index, unit in units.items() if unit.outcome == FAILED}
    assert failed == {6}
    assert "exit code 1" in units[6].reason
    assert len(units) == len(FRAMES)


def test_frames_taken_back_in_the_middle_never_begin(rig: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = (
        f'echo begins >> {tmp_path}/begun.$1; [ "$1" != 3 ] || while [ ! -e {gate} ]; do sleep 0.01; done'
    )
    lease = rig.broker.lease(shell_step(script), FRAMES)
    eventually((tmp_path / "begun.3").exists, "the third frame runs")
    rig.broker.batch(stops=(StopMsg(lease.attempt, "needed elsewhere", tuple(range(10, 40)), True),))
    rig.broker.wait_for(lambda: len(rig.broker.units(lease.attempt)) >= 32, "they are given back")
    gate.touch()
    units = rig.broker.closed(lease.attempt)
    assert {index for index, unit in units.items() if unit.outcome == DONE} == set(range(10))
    assert {unit.reason for unit in units.values() if unit.outcome == RELEASED} == {"needed elsewhere"}
    assert sorted(int(path.suffix[1:]) for path in tmp_path.glob("begun.*")) == list(range(1, 11))
    assert {path.read_text() for path in tmp_path.glob("begun.*")} == {"begins\n"}


def test_a_stop_ends_the_chunk_and_keeps_what_was_done(rig: Rig, tmp_path: Path) -> None:
    script = f': > {tmp_path}/begun.$1; [ "$1" != 5 ] || exec sleep 600'
    lease = rig.broker.lease(shell_step(script), FRAMES)
    eventually((tmp_path / "begun.5").exists, "the fifth frame runs")
    rig.broker.batch(stops=(StopMsg(lease.attempt, "its user stopped it"),))
    units = rig.broker.closed(lease.attempt)
    assert {index for index, unit in units.items() if unit.outcome == DONE} == {0, 1, 2, 3}
    assert {unit.reason for unit in units.values() if unit.outcome == RELEASED} == {"its user stopped it"}
    assert not (tmp_path / "begun.6").exists()
    assert len(units) == len(FRAMES)


def test_what_a_frame_leaves_behind_is_gone_before_the_next_one_begins(rig: Rig, tmp_path: Path) -> None:
    left = tmp_path / "left"
    script = (
        f'if [ "$1" = 2 ]; then kill -0 $(cat {left}) 2>/dev/null && exit 9; exit 0; fi; '
        f"sleep 0.2 & echo $! > {left}"
    )
    lease = rig.broker.lease(shell_step(script), [1, 2])
    units = rig.broker.closed(lease.attempt)
    assert [units[index].outcome for index in (0, 1)] == [DONE, DONE]

"""The broker's recorder: names, one at a time, and a disk that is full."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from farm.broker.recorder import Recorder
from farm.core.core import Core
from farm.core.events import ActEvent, TickEvent
from farm.model.errors import CallError, IllegalMove, StorageError, UnknownName
from farm.protocol.client import RecordingRow, RecordReq
from farm.sim.replay import Replay
from tests.support.real import require


class Rig:
    """A recorder in front of a core; ``handle`` is what the broker would call."""

    def __init__(self, folder: Path) -> None:
        self.core = Core()
        self.handle: Any = self.core.handle
        self.recorder = Recorder(self.core, folder, self.watch)

    def watch(self, handle: Any) -> None:
        self.handle = handle or self.core.handle

    def ask(self, action: str, name: str = "") -> tuple[RecordingRow, ...]:
        return self.recorder.answer(RecordReq(id=1, action=action, name=name), 5).recordings


def test_a_recording_is_started_listed_and_ended(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "recordings")
    assert rig.ask("list") == ()
    (row,) = rig.ask("start", "night")
    assert (row.name, row.running) == ("night", True)
    rig.handle(TickEvent(10))
    with pytest.raises(CallError):
        rig.handle(ActEvent(11, "pause", 9, "", "", "", "", "ann"))
    rig.handle(TickEvent(12))
    (row,) = rig.ask("stop")
    assert not row.running
    assert rig.handle == rig.core.handle
    path = Path(row.path)
    assert path.stat().st_size == row.size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert rig.ask("get", "night") == (row,)
    # The refused event changed nothing and is not in it.
    result = Replay(path).run()
    assert (result.events, result.identical, result.complete) == (2, True, True)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a b"])
def test_a_name_that_could_be_a_path_is_refused(tmp_path: Path, name: str) -> None:
    rig = Rig(tmp_path)
    for action in ("start", "get"):
        with pytest.raises(CallError):
            rig.ask(action, name)
    assert list(tmp_path.iterdir()) == []


def test_one_at_a_time_and_no_name_twice(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(IllegalMove, match="nothing is being recorded"):
        rig.ask("stop")
    with pytest.raises(UnknownName, match="'night'"):
        rig.ask("get", "night")
    with pytest.raises(UnknownName, match="'pause'"):
        rig.ask("pause")
    rig.ask("start", "night")
    with pytest.raises(IllegalMove, match="night is being recorded"):
        rig.ask("start", "day")
    rig.ask("stop")
    with pytest.raises(CallError, match="already"):
        rig.ask("start", "night")
    assert rig.handle == rig.core.handle


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    rig = Rig(blocked / "recordings")
    with pytest.raises(StorageError, match="cannot be written"):
        rig.ask("start", "night")
    assert rig.handle == rig.core.handle


@pytest.mark.allow_log("recording-failed")
def test_a_full_disk_ends_the_recording_and_not_the_farm(tmp_path: Path) -> None:
    require(Path("/dev/full").exists(), "/dev/full")
    rig = Rig(tmp_path)
    rig.ask("start", "night")
    rig.recorder._file.close()  # type: ignore[union-attr]
    rig.recorder._file = open("/dev/full", "wb", 0)  # noqa: PTH123, SIM115
    rig.handle(TickEvent(10))
    assert rig.handle == rig.core.handle
    (row,) = rig.ask("list")
    assert not row.running
    assert "could not be written" in row.trouble
    rig.handle(TickEvent(11))
    rig.recorder.close()

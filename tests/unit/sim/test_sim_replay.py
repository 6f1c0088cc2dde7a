"""A recording of a farm, replayed: the same decisions, and where they part when something differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from farm.core.recording import encode_event
from farm.model.errors import CallError, StorageError
from farm.sim.replay import Replay
from farm.sim.scenario import read_scenario
from farm.sim.trace import is_recording, trace_jobs
from tests.support.recordings import record_run


def entries(path: Path) -> list[Any]:
    """All values of a recording."""
    with path.open("rb") as file:
        return list(msgpack.Unpacker(file, raw=False))


def write(path: Path, values: list[Any]) -> None:
    """Writes a recording of these values."""
    path.write_bytes(b"".join(msgpack.packb(value) for value in values))


@pytest.mark.parametrize("from_event", [0, 40, 333])
def test_a_recording_replays_to_the_same_digest(tmp_path: Path, from_event: int) -> None:
    path, digest, events = record_run(tmp_path, from_event=from_event)
    result = Replay(path).run()
    assert (result.differs_at, result.what) == (0, "")
    assert result.identical
    assert result.complete
    assert result.events == events
    assert result.digest == digest


def test_another_decision_is_found_at_its_event(tmp_path: Path) -> None:
    path, _, _ = record_run(tmp_path)
    values = entries(path)
    # Event 100 of the recording is left out: what follows stands elsewhere.
    at = next(n for n in range(100, len(values)) if values[n][0] not in (None, values[n - 1][0]))
    write(path, values[:at] + values[at + 1 :])
    result = Replay(path).run()
    assert not result.identical
    assert at <= result.differs_at <= at + 1
    assert result.what


def test_a_recording_that_ends_in_the_middle_is_told_as_such(tmp_path: Path) -> None:
    path, digest, events = record_run(tmp_path)
    write(path, entries(path)[:-1])
    result = Replay(path).run()
    assert result.identical
    assert not result.complete
    assert (result.events, result.digest) == (events, digest)
    # Cut within a value: what came before it still counts.
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    assert Replay(path).run().events == events - 1


def test_a_wrong_digest_at_the_end_is_told(tmp_path: Path) -> None:
    path, _, events = record_run(tmp_path)
    values = entries(path)
    mark = msgpack.unpackb(values[-1][1])
    mark[1] = "0" * 64
    values[-1] = [None, msgpack.packb(mark)]
    write(path, values)
    result = Replay(path).run()
    assert not result.identical
    assert result.differs_at == events


def test_files_that_are_no_recordings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.recording"
    with pytest.raises(StorageError, match=r"x\.recording"):
        Replay(path)
    for data in (b"", b"hello", msgpack.packb([1, 2, 3]), b"\xc1"):
        path.write_bytes(data)
        with pytest.raises(CallError, match=r"x\.recording"):
            Replay(path)
        assert not is_recording(path)


def test_a_recording_of_another_format_or_with_a_foreign_class_is_refused(tmp_path: Path) -> None:
    path, _, _ = record_run(tmp_path)
    assert is_recording(path)
    values = entries(path)
    magic, version, header = values[0]
    write(path, [[magic, version + 1, header]])
    with pytest.raises(CallError, match="format"):
        Replay(path)
    state = msgpack.unpackb(header, raw=False)
    state["state"][0][1] = "subprocess:Popen"
    write(path, [[magic, version, msgpack.packb(state)]])
    with pytest.raises(CallError, match="cannot be read"):
        Replay(path)


def test_a_damaged_event_is_named_by_its_number(tmp_path: Path) -> None:
    path, _, _ = record_run(tmp_path)
    values = entries(path)
    values[21] = [values[21][0], b"\x00"]
    write(path, values)
    with pytest.raises(CallError, match="after event 20"):
        Replay(path).run()


def test_jobs_of_a_recording_come_back_with_their_frame_times(tmp_path: Path) -> None:
    path, _, _ = record_run(tmp_path)
    jobs = trace_jobs(str(path))
    assert [job.spec.project for job in jobs] == ["film", "series", "film"]
    assert [job.at_us // 1_000_000 for job in jobs] == [0, 40, 80]
    for job in jobs:
        assert [len(step.frame_s) for step in job.steps] == [12, 12]
        # 5 to 40 s on nodes of half to twice the speed.
        assert all(2.5 <= seconds <= 80 for seconds in job.steps[0].frame_s)
        assert len(set(job.steps[0].frame_s)) > 6
    read_scenario({"nodes": [{}], "trace": str(path)})


def test_a_written_trace_gives_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"at_s": 2.5, "name": "shot", "user": "ann", "project": "film", "steps": '
        '[{"name": "beauty", "frames": "10-12", "frame_s": [3, 4.5, 5], "startup_s": 1}]}\n\n'
        '{"at_s": 0, "steps": [{"frame_s": [1]}]}\n',
        encoding="utf-8",
    )
    shot, other = trace_jobs(str(path))
    assert (shot.at_us, shot.spec.user, shot.spec.steps[0].frames) == (2_500_000, "ann", "10-12")
    assert (shot.steps[0].frame_s, shot.steps[0].startup_s) == ([3.0, 4.5, 5.0], 1.0)
    assert len(other.steps[0].frame_s) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2"),
        ('{"at_s": 0, "steps": [{"frame_s": []}]}', "steps[0].frame_s"),
        ('{"at_s": 0, "steps": [{"frame_s": [0]}]}', "more than no time"),
        ('{"at_s": 0, "steps": [{"frame_s": [1], "fps": 2}]}', "`fps`"),
        ('{"at_s": 0, "job": 1, "steps": [{"frame_s": [1]}]}', "`job`"),
        ('{"at_s": 0, "steps": [{"frame_s": [1, 2], "frames": "1-3"}]}', "2 times for 3 frames"),
    ],
)
def test_a_wrong_line_of_a_trace_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"at_s": 0, "steps": [{"frame_s": [1]}]}\n' + line, encoding="utf-8")
    with pytest.raises(CallError) as refused:
        trace_jobs(str(path))
    assert words in str(refused.value)
    assert "line 2" in str(refused.value)


def test_every_event_is_encoded_beside_the_state_it_left(tmp_path: Path) -> None:
    path, _, _ = record_run(tmp_path)
    replay = Replay(path)
    recorded = iter(entries(path)[1:])
    for event, _ in replay.outcomes():
        entry = next(recorded)
        assert msgpack.packb(entry) == encode_event(replay.core.farm, event)

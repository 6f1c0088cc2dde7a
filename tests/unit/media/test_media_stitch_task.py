"""The stitch as a process: its lines, its exit codes, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import farm
from farm.media.movies import verify_movie
from farm.model.errors import OutputError

ROOT = str(Path(farm.__file__).parents[1])
_DEADLINE_S = 60


@pytest.fixture
def task(tmp_path: Path, save: Any, ffmpeg: str) -> Callable[..., Path]:
    """Writes a task of a few real pictures, repeated, and returns its file."""

    def write(count: int = 6, **fields: Any) -> Path:
        greys = [np.full((36, 64, 3), 30 * k, np.uint8) for k in range(6)]
        paths = [str(save(tmp_path / f"f {k}.png", grey)) for k, grey in enumerate(greys)]
        record = {
            "frames": [paths[k % 6] for k in range(count)],
            "output": str(tmp_path / "film.mp4"),
            "rate": "24/1",
        }
        path = tmp_path / "task.json"
        path.write_text(json.dumps({**record, "ffmpeg": ffmpeg, "preset": "ultrafast", **fields}))
        return path

    return write


@contextmanager
def _started(path: Path | str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": ROOT}
    with subprocess.Popen(
        [sys.executable, "-m", "farm.media.stitch_task", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd="/",
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _run(path: Path | str) -> tuple[int, list[dict[str, Any]], str]:
    with _started(path) as process:
        out, err = process.communicate(timeout=_DEADLINE_S)
    lines = out.splitlines()
    assert all(line.startswith("FARM {") for line in lines), out
    return process.returncode, [json.loads(line.removeprefix("FARM ")) for line in lines], err


def test_a_good_task_tells_every_frame_and_the_film(task: Any, tmp_path: Path) -> None:
    code, records, err = _run(task(6))
    assert (code, err) == (0, "")
    assert records[:-1] == [{"frame": k, "of": 6} for k in range(1, 7)]
    facts = verify_movie(tmp_path / "film.mp4", frames=6)
    assert records[-1] == {"film": facts.path, "frames": 6, "size": facts.size, "sha256": facts.sha256}


@pytest.mark.parametrize(
    ("fields", "problem", "words"),
    [
        ({"frames": ["/no/such/f.0001.png"]}, "path", "frame 1 of 1 missing"),
        ({"output": "/no/such/film.mp4"}, "path", "folder"),
        ({"audio": "/no/such.wav"}, "path", "sound"),
        ({"rate": "23.976"}, "config", "24000/1001"),
        ({"encode": "prores", "output": "/tmp/x.mov"}, "config", "not built"),
        ({"view": "AgX"}, "config", "view transforms"),
        ({"ffmpeg": "/no/ffmpeg"}, "config", "cannot be started"),
        ({"ffmpeg": "/bin/false"}, "config", "does not answer"),
    ],
)
def test_a_failure_is_one_line_with_its_class_and_no_traceback(
    fields: dict[str, Any], problem: str, words: str, task: Any
) -> None:
    code, records, err = _run(task(**fields))
    assert (code, err) == (1, "")
    (record,) = records
    assert record["problem"] == problem
    assert words in record["text"]


def test_a_damaged_picture_is_an_output_problem(task: Any, tmp_path: Path) -> None:
    path = task(6)
    picture = tmp_path / "f 3.png"
    picture.write_bytes(picture.read_bytes()[:-20])
    code, records, err = _run(path)
    assert (code, err) == (1, "")
    assert records[-1]["problem"] == "output"
    assert "frame 4" in records[-1]["text"]
    assert str(picture) in records[-1]["text"]
    assert not (tmp_path / "film.mp4").exists()


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{",
        "[]",
        '{"frames": "x", "output": "/a.mp4"}',
        '{"output": "/a.mp4"}',
        '{"frames": ["/a"], "output": "/b.mp4", "speed": 3}',
    ],
)
def test_a_task_that_cannot_be_read_ends_with_2(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    if content is not None:
        path.write_text(content)
    code, records, err = _run(path)
    assert (code, err) == (2, "")
    assert records[0]["problem"] == "config"
    assert str(path) in records[0]["text"]


def _midway(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Waits until the encoder works; returns the task's children."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert '"frame":1' in line, line + (process.stderr.read() if process.stderr else "")
    children = psutil.Process(process.pid).children(recursive=True)
    assert children, "the encoder runs by now"
    return children


def test_terminate_midway_ends_the_encoder_and_leaves_no_film(task: Any, tmp_path: Path) -> None:
    with _started(task(30_000)) as process:
        children = _midway(process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=_DEADLINE_S)
    assert process.returncode == 1
    assert err == ""
    assert json.loads(out.splitlines()[-1].removeprefix("FARM "))["problem"] == "renderer"
    assert psutil.wait_procs(children, timeout=_DEADLINE_S)[1] == []
    assert not (tmp_path / "film.mp4").exists()


def test_kill_midway_leaves_nothing_that_passes_for_the_film(task: Any, tmp_path: Path) -> None:
    """The encoder then sees the end of its input and closes a short film properly: it must not count."""
    with _started(task(30_000)) as process:
        children = _midway(process)
        process.kill()
        process.wait(_DEADLINE_S)
        assert psutil.wait_procs(children, timeout=_DEADLINE_S)[1] == [], "the encoder ends by itself"
    with pytest.raises(OutputError):
        verify_movie(tmp_path / "film.mp4", frames=30_000)

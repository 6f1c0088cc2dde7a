"""When a program counts as silent: all signs must be missing at once, and for the whole time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_agent.claims import Claims
from node_agent.silence import IDLE_SHARE, Gauge, Silence, folder_mark


def looks(silence: Silence, times: range, *, cpu: float = 0.0, mark: int = 0, io: int = 0) -> list[str]:
    return [silence.look(float(at), mark, cpu * at, io) for at in times]


def test_silence_is_told_only_after_the_whole_time() -> None:
    silence = Silence(10.0)
    assert looks(silence, range(10)) == [""] * 10
    assert silence.look(10.0, 0, 0.0, 0) == "no output for 10 s, CPU 0.0 %, no disk I/O"


@pytest.mark.parametrize("sign", ["line", "disk"])
def test_a_single_sign_begins_the_time_anew(sign: str) -> None:
    silence = Silence(10.0)
    looks(silence, range(9))
    mark, moved = (1, 0) if sign == "line" else (0, 4096)
    assert looks(silence, range(9, 19), mark=mark, io=moved) == [""] * 10
    assert silence.look(19.0, mark, 0.0, moved)


def test_a_program_that_computes_is_not_silent_however_quiet() -> None:
    assert looks(Silence(10.0), range(100), cpu=0.05) == [""] * 100
    assert looks(Silence(10.0), range(100), cpu=0.01)[10]


def test_a_short_burst_of_cpu_is_no_sign_of_work() -> None:
    """A collector that wakes for a moment uses less than 2 % over the time: the whole of it counts."""
    silence = Silence(10.0)
    said = [silence.look(float(at), 0, 0.1 if at >= 5 else 0.0, 0) for at in range(11)]
    assert said[-1]


def test_work_that_ended_before_the_window_does_not_count_for_ever() -> None:
    silence = Silence(10.0)
    used, said = 0.0, []
    for at in range(40):
        used += 1.0 if at < 20 else 0.0
        said.append(bool(silence.look(float(at), 0, used, 0)))
    assert not any(said[:20])
    assert said.index(True) == 29, "ten seconds after the last work"


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 0.5), st.integers(0, 1)), min_size=1, max_size=60),
    st.floats(2.0, 20.0),
)
def test_what_is_told_was_silent_for_that_long(steps: list[tuple[int, float, int]], limit: float) -> None:
    silence = Silence(limit)
    mark = 0
    now, used = 0.0, 0.0
    history: list[tuple[float, float]] = []
    changed = 0.0
    for gap, cpu, sign in steps:
        now += gap
        used += cpu
        if sign:
            mark += 1
            changed = now
        history.append((now, used))
        if silence.look(now, mark, used, 0):
            assert now - changed >= limit
            before = max(cpu_s for at, cpu_s in history if at <= now - limit)
            assert used - before < IDLE_SHARE * (now - changed) + 1e-9


def test_the_gauge_sees_what_a_tree_uses_and_that_children_end() -> None:
    code = "import time\nfor _ in range(3000000): pass\nprint('x', flush=True); time.sleep(60)"
    gauge = Gauge()
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        try:
            gauge.look([process.pid])
            assert process.stdout is not None
            process.stdout.readline()
            gauge.look([process.pid])
            used = gauge.cpu_s
            assert used > 0.01
            gauge.look([process.pid])
            assert gauge.cpu_s - used < 0.05, "it sleeps now"
        finally:
            process.kill()
    gauge.look([process.pid])
    gauge.look([])
    assert gauge.cpu_s >= used


def test_a_folder_s_mark_changes_with_its_files(tmp_path: Path) -> None:
    seen = [folder_mark([str(tmp_path), "/no/such/folder"])]
    file = tmp_path / "f.exr"
    for text in ("", "a", "ab"):
        file.write_text(text)
        seen.append(folder_mark([str(tmp_path)]))
    file.rename(tmp_path / "g.exr")
    seen.append(folder_mark([str(tmp_path)]))
    assert len(set(seen)) == len(seen)
    assert folder_mark([str(tmp_path)]) == seen[-1]


def test_a_frame_is_claimed_once(tmp_path: Path) -> None:
    claims = Claims(str(tmp_path))
    (tmp_path / "7").touch()
    assert not claims.take(7), "the program has begun it"
    assert claims.take(-8)
    assert (tmp_path / "-8").exists()
    assert not claims.take(-8)
    assert not Claims(str(tmp_path / "gone")).take(1), "in doubt it has begun"

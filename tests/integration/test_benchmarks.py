"""The benchmarks run from a clone, and what they print can be read by a script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script: str, tmp_path: Path, *flags: str) -> dict[str, float]:
    """Runs a benchmark as small as it goes; the figures it wrote."""
    result = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), "--json", str(result), "--quiet-s", "0", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(result.read_text("utf-8"))
    for line in done.stdout.splitlines():
        name, value, *unit = line.partition(" | ")[0].split(" ")
        assert name in figures, f"{line!r} is no figure"
        assert value
        assert len(unit) == 1, f"{line!r} is not: name value unit"
    return {name: figure["value"] for name, figure in figures.items()}


@pytest.mark.slow
def test_dispatch_counts_every_unit_and_states_its_ratio(tmp_path: Path) -> None:
    flags = ("--rounds", "1", "--tasks", "403", "--agents", "6", "--submits", "3", "--dir", str(tmp_path))
    figures = run("dispatch.py", tmp_path, *flags)
    assert figures["dispatch.audit"] == 403
    assert figures["dispatch.ratio"] == pytest.approx(
        figures["dispatch.rate"] / figures["dispatch.limit.rate"]
    )
    assert 0 < figures["dispatch.broker_main_thread"] < figures["dispatch.broker_cpu"]
    assert figures["dispatch.submit_to_lease_p50"] <= figures["dispatch.submit_to_start_p50"]
    assert not list(tmp_path.glob("overcrank-bench-*")), "nothing is left behind"


@pytest.mark.slow
def test_recovery_gives_back_the_state_it_was_killed_in(tmp_path: Path) -> None:
    figures = run("recovery.py", tmp_path, "--rounds", "1", "--frames", "4000", "--dir", str(tmp_path))
    assert figures["submit.million_over_thousand"] > 0
    for name in ("untouched", "half_done"):
        assert 0 < figures[f"recovery.{name}.cpu"] < 30
    assert not list(tmp_path.glob("overcrank-bench-*")), "nothing is left behind"


@pytest.mark.slow
def test_memory_is_measured_for_frames_and_agents(tmp_path: Path) -> None:
    flags = ("--frames", "50000", "--ran", "500", "--agents", "8", "--dir", str(tmp_path))
    figures = run("memory.py", tmp_path, *flags)
    assert set(figures) >= {"memory.waiting", "memory.agent", "memory.ran"}


@pytest.mark.slow
def test_the_stages_of_a_profile_are_a_part_of_the_whole(tmp_path: Path) -> None:
    figures = run("profile_dispatch.py", tmp_path, "--tasks", "300", "--agents", "4", "--dir", str(tmp_path))
    stages = [figures[f"profile.{name}"] for name in ("drain", "dispatch", "commit", "send")]
    assert all(stage > 0 for stage in stages)
    assert sum(stages) < figures["profile.main_thread"]


@pytest.mark.slow
def test_scale_states_each_ratio_and_whether_it_holds(tmp_path: Path) -> None:
    flags = ("--only", "agents", "--only", "storm", "--rounds", "1", "--tasks", "200", "--agents", "3,6")
    figures = run("scale.py", tmp_path, *flags, "--storm", "6", "--dir", str(tmp_path))
    assert figures["scale.agents_6"] > 0
    assert figures["scale.agents_6.cpu"] > 0
    assert 0 < figures["scale.storm_6.p50"] <= figures["scale.storm_6.p99"]
    for name in ("scale.agents_6", "scale.storm_6"):
        assert figures[f"{name}.verdict"] in ("PASS", "FAIL")
    assert (figures["scale.agents_6.verdict"] == "PASS") is (figures["scale.agents_6"] <= 1.3)
    assert not list(tmp_path.glob("overcrank-bench-*")), "nothing is left behind"


@pytest.mark.slow
def test_all_benchmarks_end_in_one_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "run_all.py"), "--quick", "--quiet-s", "0", "startup", "latency"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    head, rule, *rows = done.stdout.splitlines()
    assert head.split() == ["figure", "must", "goal", "measured", "must", "met", "goal", "met"]
    assert set(rule) == {"-", " "}
    table, total = rows[: rows.index("")], rows[-1]
    assert {"startup.farm_status", "latency.submit_to_start_p99"} <= {row.split()[0] for row in table}, (
        done.stderr
    )
    missed = sum("FAIL" in row.rstrip().rpartition("  ")[0] for row in table)
    assert f"{missed} missed" in total
    assert done.returncode == int(missed > 0)


@pytest.mark.slow
def test_makespan_of_a_small_farm_beats_the_plain_one(tmp_path: Path) -> None:
    figures = run("makespan.py", tmp_path, "--nodes", "50", "--jobs", "20")
    for name in ("calm", "mixed", "failures"):
        assert figures[f"{name}.strict_bound"] < figures[f"{name}.bound"] < figures[f"{name}.makespan"]
        assert 1 < figures[f"{name}.ratio"] < figures[f"{name}.fifo_ratio"]
    assert figures["mixed.unfairness.film"] <= 0.05


@pytest.mark.slow
def test_the_client_is_measured_with_a_real_farm_and_beside_a_tree(tmp_path: Path) -> None:
    pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]'")
    figures = run("gui.py", tmp_path, "--quick")
    assert 0 < figures["gui.start_bare"] < figures["gui.start"] <= figures["gui.start_all"]
    assert figures["gui.open_1m"] > figures["gui.paint_1m"] > 0
    assert figures["gui.stream_1k.rows"] > 500, "changes came while somebody scrolled"
    assert figures["gui.stream_1k.gap_p50"] <= figures["gui.stream_1k.gap_p99"]
    assert figures["gui.stream_1k.gap_p99"] <= figures["gui.stream_1k.gap_max"]
    assert figures["gui.stream_1k.fps"] > 1
    assert figures["gui.memory"] > figures["gui.tree_500.memory"] > 0
    assert {"gui.filter_500", "gui.sort_500", "gui.resize_fps", "gui.idle_cpu"} <= set(figures)
    assert {"gui.log_first", "gui.log_fetch", "gui.log_regex"} <= set(figures)

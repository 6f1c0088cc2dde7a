"""Some faults of every sort while a farm renders, on both databases: nothing is lost, nothing comes twice.

The long form is ``python -m tests.long chaos``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.long.chaos import Run, run_chaos
from tests.support.chaos_plan import SERVER_WEIGHTS, WEIGHTS, plan_faults


def test_the_faults_follow_from_the_seed_and_every_kind_comes() -> None:
    plans = [plan_faults(seed, 300, 20_000, 4, lost_s=2.0, server=True) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    counts = Counter(fault.kind for fault in plans[0])
    assert set(counts) == {*WEIGHTS, *SERVER_WEIGHTS}
    points = [fault.at for fault in plans[0]]
    assert points == sorted(points)
    assert points[-1] < 20_000
    assert {fault.agent for fault in plans[0]} == {0, 1, 2, 3}
    short = plan_faults(1, 12, 300, 3, lost_s=2.0)
    assert len({fault.kind for fault in short}) == 12


@pytest.mark.slow
def test_a_farm_with_its_state_in_a_file(tmp_path: Path) -> None:
    wrong = run_chaos(tmp_path / "chaos", Run(frames=300, faults=12, agents=3, seed=6, waves=6))
    assert not wrong, "\n".join(wrong)


@pytest.mark.real
@pytest.mark.slow
def test_a_farm_with_its_state_in_postgresql(tmp_path: Path) -> None:
    plan = Run(frames=200, faults=8, agents=3, seed=2, waves=4, postgres=True)
    wrong = run_chaos(tmp_path / "chaos", plan)
    assert not wrong, "\n".join(wrong)

"""When a job will be done and what it will cost: ranges that hold about as often as they say, or nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from farm.core import invariants
from farm.core.forecast import Forecast, Outlook, estimate, expected_frame_s, job_forecast
from farm.model.jobs import JobSpec
from farm.sim.engine import Simulation
from farm.sim.scenario import read_scenario
from tests.support.core_rig import RATE, Rig, step


def forecast(rig: Rig, job: int = 1) -> Forecast | None:
    """The forecast of a job, which must leave no trace in the farm."""
    before = invariants.digest(rig.core.farm)
    found = job_forecast(rig.core.farm, rig.job(job), rig.now_us)
    assert invariants.digest(rig.core.farm) == before
    return found


def render(rig: Rig, rounds: int, frame_s: float = 10.0) -> None:
    """So many frames on every node that gets one."""
    for _ in range(rounds):
        leases = rig.dispatch()
        rig.now_us += int(frame_s * 1e6)
        for lease in leases:
            rig.done(lease, elapsed_s=frame_s)


def test_nothing_is_said_of_what_nobody_has_measured() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-100"))
    assert forecast(rig) is None
    assert expected_frame_s(rig.step("J1/beauty")) == 0.0
    rig.dispatch()
    assert forecast(rig) is None


def test_nothing_is_said_of_a_job_that_is_over() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-2"))
    render(rig, 2)
    assert forecast(rig) is None


def test_even_frames_on_one_node_end_when_arithmetic_says() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-100"))
    render(rig, 20)
    found = forecast(rig)
    assert found is not None
    assert found.eta_low_us is not None
    assert found.eta_high_us is not None
    assert found.eta_low_us < rig.now_us + 800_000_000 < found.eta_high_us
    assert found.eta_high_us - found.eta_low_us < 700_000_000, "four fifths of the shot are still unseen"
    cost = RATE * 1000 // 3600
    assert found.cost_low_nano is not None
    assert found.cost_high_nano is not None
    assert found.cost_low_nano < cost < found.cost_high_nano < 1.6 * cost
    assert expected_frame_s(rig.step("J1/beauty")) == pytest.approx(10.0)


def test_ranges_narrow_as_frames_come_in() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-400"))
    widths = []
    for _ in range(4):
        render(rig, 60)
        found = forecast(rig)
        assert found is not None
        assert found.eta_high_us is not None
        assert found.eta_low_us is not None
        widths.append(found.eta_high_us - found.eta_low_us)
    assert widths == sorted(widths, reverse=True)


def test_twice_the_nodes_take_half_the_time_and_cost_the_same() -> None:
    ends, costs = [], []
    for count in (2, 4):
        rig = Rig()
        for number in range(count):
            rig.join(f"node{number}")
        rig.submit(step(frames="1-400"))
        render(rig, 40 // count)
        found = forecast(rig)
        assert found is not None
        assert found.eta_low_us is not None
        assert found.cost_high_nano is not None
        ends.append(found.eta_low_us - rig.now_us)
        costs.append(found.cost_high_nano)
    assert ends[0] / ends[1] == pytest.approx(2.0, rel=0.15)
    assert costs[0] / costs[1] == pytest.approx(1.0, rel=0.1)


def test_a_step_nobody_knows_is_named_and_not_guessed() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-20"), step("film", None, renderer="whole", after=("beauty",)))
    render(rig, 5)
    found = forecast(rig)
    assert found is not None
    assert found.unknown == ("film",)


def test_a_job_that_stands_still_has_a_cost_and_no_end() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-20"))
    render(rig, 5)
    rig.act("pause", "J1")
    found = forecast(rig)
    assert found is not None
    assert found.eta_low_us is None
    assert found.eta_high_us is None
    assert found.cost_high_nano


def test_without_a_node_that_can_take_it_there_is_neither() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1-20"))
    render(rig, 5)
    rig.bye(node)
    found = forecast(rig)
    assert found is not None
    assert (found.eta_high_us, found.cost_high_nano) == (None, None)


def test_work_that_goes_first_puts_the_end_off() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-50"))
    render(rig, 10)
    before = forecast(rig)
    rig.submit(step(frames="1-100"), priority=75)
    render(rig, 5)
    after = forecast(rig)
    assert before is not None
    assert after is not None
    assert before.eta_high_us is not None
    assert after.eta_low_us is not None
    assert after.eta_low_us > before.eta_high_us


def test_a_job_not_submitted_goes_by_the_same_scene_else_by_the_same_user_else_by_nothing() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-10", params={"scene": "/proj/a.blend"}))
    render(rig, 10, frame_s=10.0)
    rig.submit(step(frames="1-10", params={"scene": "/proj/b.blend"}))
    render(rig, 10, frame_s=40.0)

    def ask(user: str, scene: str, renderer: str = "command") -> Forecast | None:
        asked = step(frames="1-100", params={"scene": scene}, renderer=renderer)
        spec = JobSpec(overcrank_job=1, name="asked", user=user, steps=(asked,))
        return estimate(rig.core.farm, spec, rig.now_us)

    same, other = ask("bob", "/proj/a.blend"), ask("ann", "/proj/c.blend")
    assert same is not None
    assert other is not None
    assert same.eta_low_us is not None
    assert same.eta_high_us is not None
    assert same.eta_low_us < rig.now_us + 1_000_000_000 < same.eta_high_us
    assert same.cost_low_nano is not None
    assert same.cost_high_nano is not None
    assert same.cost_low_nano < RATE * 1000 // 3600 < same.cost_high_nano
    assert other.eta_high_us is not None
    assert other.eta_high_us > rig.now_us + 4_000_000_000, "the newest of the same user took 40 s a frame"
    assert ask("bob", "/proj/c.blend") is None
    assert ask("ann", "/proj/a.blend", "whole") is None


# ---------------------------------------------------------------- calibration


def _history(seed: int) -> list[tuple[bool, bool]]:
    """One simulated farm: at several moments, whether each job's ranges held in the end."""
    rng = random.Random(seed)
    mean_s = rng.choice((5.0, 20.0, 60.0))
    frame: Any = rng.choice(
        (
            {"kind": "lognormal", "mean": mean_s, "sigma": rng.choice((0.2, 0.5))},
            {"kind": "ramp", "low": mean_s / 2, "high": mean_s * 1.5, "sigma": 0.2},
            mean_s,
        )
    )
    render_step = {"frames": rng.choice((60, 150)), "frame_s": frame, "startup_s": rng.choice((0.0, 5.0))}
    users = ["ann", "bob", "cem"][: rng.choice((1, 2, 3))]
    raw = {
        "check_every": 0,
        "nodes": [{"count": rng.choice((3, 8)), "cores": 1, "speed": [0.6, 1.6], "rate_usd_h": 1.0}],
        "jobs": [{"count": rng.choice((1, 4)), "user": users, "steps": [render_step]}],
    }
    told: list[tuple[int, Forecast]] = []
    next_us = [0]

    def watch(event: Any) -> None:
        if event.now_us < next_us[0]:
            return
        farm = sim.core.farm
        next_us[0] = event.now_us + 60_000_000
        outlook = Outlook(farm, event.now_us)
        for job in farm.jobs.values():
            found = outlook.job(job) if job.open_units else None
            if found is not None:
                told.append((job.id, found))

    sim = Simulation(read_scenario(raw), seed, watch)
    sim.run()
    held = []
    for number, found in told:
        job = sim.core.farm.jobs[number]
        spent = sum(one.spend_nano for one in job.steps)
        assert found.eta_low_us is not None
        assert found.eta_high_us is not None
        assert found.cost_low_nano is not None
        assert found.cost_high_nano is not None
        held.append(
            (
                found.eta_low_us <= job.ended_us <= found.eta_high_us,
                found.cost_low_nano <= spent <= found.cost_high_nano,
            )
        )
    return held


def test_ranges_hold_in_about_four_of_five_cases_of_simulated_farms() -> None:
    held = [_history(seed) for seed in range(24)]
    told = sum(map(len, held))
    assert told > 150
    # Every farm counts the same, however long it ran.
    farms = [one for one in held if one]
    eta = sum(sum(pair[0] for pair in one) / len(one) for one in farms) / len(farms)
    cost = sum(sum(pair[1] for pair in one) / len(one) for one in farms) / len(farms)
    assert 0.65 <= eta <= 0.97, f"ends held in {eta:.2f} of the cases"
    assert 0.65 <= cost <= 0.97, f"costs held in {cost:.2f} of the cases"

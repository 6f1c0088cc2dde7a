"""The core as a state machine: hypothesis picks the operations, every promise is checked after each.

The same driver runs for as long as one likes with ``python -m tests.long core``.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from farm.core import invariants
from tests.support.core_driver import Driver

_SEEDS = st.integers(0, 2**16 - 1)
_PROFILE = settings(
    max_examples=25,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class FarmMachine(RuleBasedStateMachine):
    """Every rule is one operation of the driver, which checks invariants, money and the judge's account."""

    driver: Driver

    @initialize(seed=_SEEDS, agents=st.integers(3, 5))
    def start(self, seed: int, agents: int) -> None:
        rng = random.Random(seed)
        self.driver = Driver(rng, agents=agents)
        for agent in self.driver.agents:
            self.driver._hello(agent)
        self.driver.submit(rng)

    @rule(seed=_SEEDS)
    def submit(self, seed: int) -> None:
        self.driver.submit(random.Random(seed))

    @rule(seed=_SEEDS)
    def dispatch_and_deliver(self, seed: int) -> None:
        self.driver.dispatch(random.Random(seed))
        for agent in self.driver.agents:
            self.driver._deliver(agent)

    @rule(seed=_SEEDS)
    def work(self, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(3):
            self.driver.work(rng)

    @rule(seed=_SEEDS)
    def work_and_report(self, seed: int) -> None:
        rng = random.Random(seed)
        self.driver.work(rng)
        self.driver.send_reports(rng)

    @rule(seed=_SEEDS)
    def send_reports(self, seed: int) -> None:
        self.driver.send_reports(random.Random(seed))

    @rule(seed=_SEEDS)
    def beat(self, seed: int) -> None:
        self.driver.beat(random.Random(seed))

    @rule(seed=_SEEDS)
    def echo(self, seed: int) -> None:
        self.driver.echo(random.Random(seed))

    @rule(seed=_SEEDS)
    def advance(self, seed: int) -> None:
        self.driver.advance(random.Random(seed))

    @rule(seed=_SEEDS, how=st.sampled_from(["hello", "cut", "crash", "silence", "stall", "linger", "bye"]))
    def agents_come_and_go(self, seed: int, how: str) -> None:
        getattr(self.driver, how)(random.Random(seed))

    @rule(seed=_SEEDS)
    def act(self, seed: int) -> None:
        self.driver.act(random.Random(seed))

    @rule(seed=_SEEDS)
    def edit(self, seed: int) -> None:
        self.driver.edit(random.Random(seed))

    @rule(seed=_SEEDS)
    def policy(self, seed: int) -> None:
        self.driver.policy(random.Random(seed))

    @rule(seed=_SEEDS)
    def node_act(self, seed: int) -> None:
        self.driver.node_act(random.Random(seed))

    @rule(seed=_SEEDS)
    def checkpoint(self, seed: int) -> None:
        self.driver.checkpoint(random.Random(seed))

    @rule(seed=_SEEDS, how=st.sampled_from(["shelve", "delete"]))
    def jobs_leave(self, seed: int, how: str) -> None:
        getattr(self.driver, how)(random.Random(seed))

    @precondition(lambda self: self.driver.handled > 30)
    @rule(seed=_SEEDS)
    def restart(self, seed: int) -> None:
        self.driver.restart(random.Random(seed))

    def teardown(self) -> None:
        """At any point: a restart gives the same farm, the same events give the same farm, all can end."""
        driver = getattr(self, "driver", None)
        if driver is None or driver.broken:
            return
        driver.restored()
        assert driver.replay() == invariants.digest(driver.core.farm)
        driver.finish(random.Random(1))


FarmMachine.TestCase.settings = _PROFILE
TestFarm = FarmMachine.TestCase

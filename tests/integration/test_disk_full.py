"""The broker's own disk full: it stops cleanly, tells nothing by halves, and goes on when there is space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farm.model.errors import FarmUnreachable
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.tmpfs import small_disk
from tests.support.truth import Ledger, Renders, assert_exactly_once, expected_names, folder_names
from tests.support.waiting import eventually


@pytest.mark.slow
def test_a_broker_whose_disk_is_full_loses_and_invents_nothing(
    new_house: Callable[..., Farmhouse], renders: Renders, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "24m") as disk:
        # Leases outlive the time the disk is full: what agents hold then still counts.
        house = new_house(
            state_home=disk.path,
            # Ports as a private farm has them: any, but the same ones after the reload.
            broker_flags=["--control-port=0", "--join-port=0", "--bulk-port=0"],
            times={**FAST, "suspect_s": 10, "lost_s": 60, "lease_ttl_s": 45, "restart_grace_s": 60},
        )
        ledger = Ledger(house.database)
        house.agent("a")
        house.agent("b")
        house.wait_online()
        ada = house.client("artist", "ada", timeout_s=3.0)
        number = ada.submit(renders.job("1-40", chunk=5, gated=True)).job
        for frame in (1, 2, 6):
            renders.open_gate(frame=frame)
        house.wait_job(number, lambda row: row.done == 3)
        ports = house.endpoint

        disk.fill()
        renders.open_gate()
        eventually(lambda: "storage-failed" in house.broker.text(), "the broker noticed")
        assert "the disk is full" in house.broker.text()
        assert "Traceback" not in house.broker.text()
        assert house.broker.running
        # It answers nobody now; above all it takes no job it could not keep.
        other = Renders(tmp_path, "other")
        with pytest.raises(FarmUnreachable):
            ada.submit(other.job("1-2"))
        # Agents finish what they have and keep it.
        eventually(lambda: len(renders.ended()) == 20, "the agents rendered what they hold")
        assert all(agent.running for agent in house.agents.values())

        disk.free()
        house.wait_job(number)
        assert house.endpoint == ports, "whoever dialled the broker finds it again"
        assert_exactly_once(ledger, number, renders.pattern, "1-40")
        assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-40")
        # Nothing that was rendered meanwhile was rendered twice, and no job appeared that nobody was told of.
        assert len(renders.begun()) == 40
        assert [row.job for row in house.admin.jobs().jobs] == [number]
        again = ada.submit(other.job("1-2")).job
        house.wait_job(again)
        house.close()


def test_a_broker_does_not_start_on_a_full_disk_and_says_why(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    with small_disk(tmp_path / "disk", "2m") as disk:
        disk.fill()
        env = house.home_env(tmp_path / "config", disk.path)
        ports = [f"--{name}-port=0" for name in ("control", "join", "bulk")]
        done = house.farm("--farm", "small", "broker", *ports, env=env)
        assert done.returncode == 3
        assert "disk is full" in done.stderr or "No space left" in done.stderr
        assert "Traceback" not in done.stderr

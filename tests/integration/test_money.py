"""Money on a real farm: the parts add up to the whole, to the nano-dollar."""

from __future__ import annotations

import json

from farm.protocol.client import SpendLine
from tests.support.farmhouse import Farmhouse
from tests.support.truth import Ledger, Renders
from tests.support.waiting import eventually


def _exact(line: SpendLine) -> None:
    assert line.useful_nano + line.waste_nano + line.idle_nano == line.total_nano, line
    assert min(line.useful_nano, line.waste_nano, line.idle_nano) >= 0, line


def test_spend_equals_the_sum_of_its_parts_exactly(
    house: Farmhouse, ledger: Ledger, renders: Renders
) -> None:
    ada, bob = house.client("artist", "ada"), house.client("artist", "bob")
    other = Renders(house.folder, "other")
    first = ada.submit(renders.job("1-30", takes_s=0.03, job={"project": "film"})).job
    second = bob.submit(other.job("1-10", takes_s=0.03, job={"project": "advert"})).job
    # Waste, too: frames of a node that is killed, of one that is stopped, and a canceled one.
    eventually(lambda: len(renders.ended()) > 5, "some frames are done")
    while_running = house.admin.spend("job")
    for line in (*while_running.lines, while_running.total):
        _exact(line)
    assert sum(line.total_nano for line in while_running.lines) == while_running.total.total_nano
    house.agents["a"].kill()
    eventually(lambda: house.node("a").state == "lost", "a is lost")
    house.agents["a"].start()
    house.wait_online()
    third = house.admin.submit(Renders(house.folder, "third").job("1", gated=True)).job
    house.wait_job(third, "running")
    house.admin.act("cancel", f"J{third}")
    house.wait_job(first)
    house.wait_job(second)
    # A restart changes nothing of what was spent.
    house.restart_broker()
    house.wait_online()
    for agent in house.agents.values():
        agent.stop()
    assert {row.state for row in house.nodes()} == {"offline"}

    views = {by: house.admin.spend(by) for by in ("job", "user", "project", "node", "site")}
    for reply in views.values():
        for line in (*reply.lines, reply.total):
            _exact(line)
        for field in ("total_nano", "useful_nano", "waste_nano", "idle_nano", "frames"):
            assert sum(getattr(line, field) for line in reply.lines) == getattr(reply.total, field)
    totals = {by: reply.total for by, reply in views.items()}
    for field in ("total_nano", "useful_nano", "waste_nano", "idle_nano"):
        assert len({getattr(total, field) for total in totals.values()}) == 1, totals
    total = totals["job"]
    assert total.total_nano == house.admin.status().spend_nano
    assert min(total.useful_nano, total.waste_nano, total.idle_nano) > 0
    assert total.frames == 40

    # Every charge is stored: attempts and idle time make up the nodes' meters.
    ((charged, wasted),) = ledger.rows(
        "SELECT SUM(charge_nano), SUM(waste_nano) FROM results WHERE closes = 1"
    )
    ((metered, idle, waste),) = ledger.rows(
        "SELECT SUM(total_nano), SUM(idle_nano), SUM(waste_nano) FROM meters"
    )
    assert charged + idle == metered == total.total_nano
    assert wasted == waste == total.waste_nano
    # ... and the frames of a job its spend.
    for number in (first, second):
        row = house.job(number)
        frames = house.admin.frames(f"J{number}", limit=5000).steps["render"]
        assert sum(frame.cost_nano for frame in frames) == row.spend_nano
        (line,) = house.admin.spend("job", job=number).lines
        assert (line.total_nano, line.waste_nano) == (row.spend_nano, row.waste_nano)
    users = {line.key: line.total_nano for line in views["user"].lines}
    assert users["ada"] == house.job(first).spend_nano
    assert users["bob"] == house.job(second).spend_nano

    # An artist sees the own part, in the command line's words as well.
    (own,) = ada.spend("user").lines
    assert (own.key, own.total_nano) == ("ada", users["ada"])
    told = json.loads(house.farm("spend", "--by", "user", "--json").stdout)
    assert sum(round(float(line["total_usd"]) * 1e6) for line in told["lines"]) in range(
        round(total.total_nano / 1e3) - 5, round(total.total_nano / 1e3) + 6
    )

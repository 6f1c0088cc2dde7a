"""Nodes that work at hours of their own, and at so many attempts at once.

What belongs here: schedules by the wall clock of a zone, slots, and both after a restart.
"""

from __future__ import annotations

import pytest

from farm.core import nodelife
from farm.core.outcome import StopCommand
from farm.model.errors import CallError, UnknownName
from tests.support.core_node_acts import act, at, run_to, set_
from tests.support.core_rig import Rig, step

# ---------------------------------------------------------------- hours


def test_outside_its_hours_a_node_starts_nothing_and_finishes_what_runs() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T18:58:00")
    node = rig.join(cores=2)
    set_(rig, node, schedule="mon-fri 19:00-07:00")
    rig.submit(step(frames="1-4"))
    assert rig.dispatch() == []
    assert rig.node(node).closed == "accepts work mon-fri 19:00-07:00; next mon 19:00"
    run_to(rig, at("2026-11-30T19:00:00"), node)
    assert "accepts work mon-fri 19:00-07:00" in rig.told()
    leases = rig.dispatch()
    assert len(leases) == 2
    rig.now_us = at("2026-12-01T06:59:58")
    rig.beat(node)
    rig.wait(2, node)
    assert rig.node(node).closed
    assert rig.states() == "RRQQ", "what runs goes on"
    rig.done(leases[0])
    assert rig.dispatch() == []
    assert rig.states() == "DRQQ"


def test_hours_follow_the_wall_clock_of_their_zone() -> None:
    spring_us = at("2026-03-29T01:00:00")
    rig = Rig()
    rig.now_us = at("2026-03-28T12:00:00")
    node = rig.join()
    zone = ((0, 3600), (spring_us, 7200))
    set_(rig, node, schedule="08:00-09:00 Europe/Berlin", offsets=zone)
    assert nodelife.closed_reason(rig.node(node), at("2026-03-28T07:30:00")) == "", "08:30 in winter"
    assert nodelife.closed_reason(rig.node(node), at("2026-03-29T06:30:00")) == "", "08:30 in summer"
    assert nodelife.closed_reason(rig.node(node), at("2026-03-29T07:30:00")).endswith("next mon 08:00")


def test_an_empty_schedule_opens_the_node_at_once() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T12:00:00")
    node = rig.join()
    rig.submit(step(frames="1"))
    set_(rig, node, schedule="sat-sun")
    assert rig.dispatch() == []
    assert set_(rig, node, schedule="").message == "ant: accepts work always"
    assert len(rig.dispatch()) == 1


def test_hours_hold_after_a_restart_and_a_new_hello() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T12:00:00")
    node = rig.join()
    set_(rig, node, schedule="20:00-06:00", slots=3)
    rig.submit(step(frames="1"))
    rig.restart(down_s=10)
    rig.join()
    assert rig.node(node).settings.slots == 3
    assert rig.dispatch() == []
    rig.now_us = at("2026-11-30T20:00:00")
    rig.beat(node)
    rig.wait(0, node)
    assert len(rig.dispatch()) == 1


def test_hours_that_changed_while_the_broker_was_away_count_at_once() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T19:59:00")
    node = rig.join()
    set_(rig, node, schedule="20:00-06:00")
    assert rig.node(node).closed
    rig.restart(down_s=120)
    assert not rig.node(node).closed


# ---------------------------------------------------------------- slots


def test_slots_are_the_most_attempts_at_once() -> None:
    rig = Rig()
    node = rig.join(cores=8)
    set_(rig, node, slots=2)
    rig.submit(step(frames="1-6"))
    leases = rig.dispatch()
    assert len(leases) == 2
    rig.done(leases[0])
    assert len(rig.dispatch()) == 1
    assert set_(rig, node, slots=0).message == "ant: as many attempts as fit"
    assert len(rig.dispatch()) == 3


def test_fewer_slots_than_run_stop_nothing() -> None:
    rig = Rig()
    node = rig.join(cores=3)
    rig.submit(step(frames="1-6"))
    leases = rig.dispatch()
    set_(rig, node, slots=1)
    assert rig.commands(StopCommand) == []
    rig.done(leases[0])
    rig.done(leases[1])
    assert rig.dispatch() == []
    rig.done(leases[2])
    assert len(rig.dispatch()) == 1


def test_setting_what_is_so_already_changes_nothing() -> None:
    rig = Rig()
    node = rig.join()
    set_(rig, node, slots=2)
    answer = set_(rig, node, slots=2)
    assert (answer.changed, answer.message) == (0, "ant: is so already")
    assert rig.out.rows == []
    with pytest.raises(CallError, match="what to set"):
        act(rig, "node-set", node, {"slots": "many"})
    with pytest.raises(UnknownName):
        set_(rig, 99, slots=2)

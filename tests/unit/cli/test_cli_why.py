"""`farm why`: of work that waits, of frames that failed, of nodes that idle, and when a start is expected.

What belongs here: how the broker's answers are told.  What the answers are is the core's own matter.
"""

from __future__ import annotations

import pytest

from farm.protocol import client as wire
from tests.support.cli_rig import Run
from tests.support.fake_broker import T0_US, FakeBroker, job_row


def test_why_of_work_that_waits_names_causes_nodes_and_a_start(run: Run, broker: FakeBroker) -> None:
    verdicts = [
        wire.WhyNodes(filter="room", reason="has 2 of 16 cores free", cure="", nodes=("ws-12",), count=1),
        wire.WhyNodes(
            filter="service",
            reason="is disabled by ann: fan is loud",
            cure="farm nodes enable ws-13",
            nodes=("ws-13", "ws-14"),
            count=5,
        ),
        *(
            wire.WhyNodes(filter="hours", reason=f"opens at {hour}:00", cure="", nodes=(f"h{hour}",), count=2)
            for hour in range(10, 18)
        ),
    ]
    row = wire.WhyRow(
        address="J12/beauty",
        state="queued",
        units=10,
        causes=(wire.WhyCause("J9 has priority 90", "farm priority J12 91"), wire.WhyCause("no licence")),
        nodes=tuple(verdicts),
        start_low_us=1,
        start_high_us=2,
        ahead=340,
        share=0.25,
    )
    broker.why["J12"] = {"rows": (row,), "more": True}
    result = run("why", "J12")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:6] == [
        "J12 shot010 is running",
        "J12/beauty is queued (10 frames)",
        "  J9 has priority 90  -> farm priority J12 91",
        "  no licence",
        "  ws-12: has 2 of 16 cores free",
        "  ws-13, ws-14 and 3 more: is disabled by ann: fan is loud  -> farm nodes enable ws-13",
    ]
    # Eight verdicts are told; what is left out is counted, not hidden.
    assert lines[6:12] == [f"  h{hour} and 1 more: opens at {hour}:00" for hour in range(10, 16)]
    assert lines[12:] == [
        "  and 4 nodes for 2 other reasons",
        "  expected to start now; its user may expect 25% of the farm while others want it too",
        "(only the first frames were looked at; name fewer to see others)",
    ]


def test_why_of_frames_that_failed_says_where_and_how_often(run: Run, broker: FakeBroker) -> None:
    row = wire.WhyRow(
        address="J12/beauty/2",
        state="failed",
        units=1,
        causes=(wire.WhyCause("the file is black", "farm log J12/beauty@7"),),
        failure="output",
        failed_on=("ws-12", "ws-13"),
        tries=3,
    )
    broker.why["J12/beauty/2"] = {"rows": (row,)}
    assert run("why", "J12/beauty/2").out.splitlines()[1:] == [
        "J12/beauty/2 is failed [output]",
        "  the file is black  -> farm log J12/beauty@7",
        "  failed on ws-12, ws-13, 3 times in all",
    ]
    # Nobody reads it from the log or the list of frames: one answer, by the broker alone.
    asked = [type(request) for request in broker.requests]
    assert asked == [wire.JobReq, wire.WhyReq]
    document = run("why", "J12/beauty/2", "--json").json
    assert (document["address"], document["complete"]) == ("J12/beauty/2", True)
    assert document["job"] == {"state": "running", "reason": ""}
    (answer,) = document["answers"]
    assert answer["causes"] == [{"what": "the file is black", "cure": "farm log J12/beauty@7"}]
    assert (answer["start_low_us"], answer["failed_on"]) == (None, ["ws-12", "ws-13"])


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (7000.5, None, "expected to start in 117 min at the earliest"),
        (7200.5, 36000.5, "expected to start between 2.0 h and 10.0 h from now"),
        (-5, 60.5, "expected to start within 60 s"),
        (119.5, 119.6, "expected to start in about 120 s"),
        (-9, None, "may start at any moment"),
    ],
)
def test_a_start_is_told_as_far_as_it_is_known(
    run: Run,
    broker: FakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    low_s: float,
    high_s: float | None,
    words: str,
) -> None:
    monkeypatch.setattr("farm.cli.verbs_why.time.time", lambda: T0_US / 1e6)
    low, high = (None if value is None else T0_US + int(value * 1e6) for value in (low_s, high_s))
    row = wire.WhyRow(address="J12/beauty/4", state="queued", units=1, start_low_us=low, start_high_us=high)
    broker.why["J12/beauty/4"] = {"rows": (row,)}
    assert run("why", "J12/beauty/4").out.splitlines()[-1] == f"  {words}"


def test_no_start_is_promised_to_what_stands_still(run: Run, broker: FakeBroker) -> None:
    row = wire.WhyRow(address="J12/beauty/4", state="queued", units=1, share=0.5)
    broker.why["J12/beauty/4"] = {"rows": (row,)}
    assert run("why", "J12/beauty/4").out.splitlines() == [
        "J12 shot010 is running",
        "J12/beauty/4 is queued",
    ]
    broker.jobs[12] = job_row(12, state="paused", reason="paused by ann")
    assert run("why", "J12/beauty/4").out.splitlines()[0] == "J12 shot010 is paused by ann"


def test_why_a_node_is_idle(run: Run, broker: FakeBroker) -> None:
    work = wire.WhyWork("J13/comp", "needs 32 cores, has 16", "ask for fewer cores")
    broker.why["ws-12"] = {"node": "ws-12", "work": (work,), "waiting": 3}
    assert run("why", "--node", "ws-12").out.splitlines() == [
        "ws-12 is in service and has room",
        "  3 steps wait in the farm (the first 1 in order); not here, because:",
        "  J13/comp: needs 32 cores, has 16  -> ask for fewer cores",
    ]
    assert run("why", "--node", "ws-12", "--json").json == {
        "node": "ws-12",
        "reason": "",
        "waiting": 3,
        "work": [{"address": "J13/comp", "reason": "needs 32 cores, has 16", "cure": "ask for fewer cores"}],
    }
    broker.why["ws-13"] = {"node": "ws-13", "reason": "is disabled: fan is loud"}
    assert run("why", "--node", "ws-13").out == "ws-13 is disabled: fan is loud\n"
    for argv in ((), ("J12", "--node", "ws-12")):
        result = run("why", *argv)
        assert (result.code, result.out) == (2, "")
        assert "say an address or --node NAME" in result.err
    assert "there is no node 'ws-99'" in run("why", "--node", "ws-99").err

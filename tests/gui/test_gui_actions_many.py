"""Actions on many at once: told as one, sent in order, judged by one of each kind, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.actions.doing import AT_ONCE
from client_gui.actions.kinds import JUDGED_ALL
from client_gui.actions.records import RECORDS, Scope
from client_gui.net.port import Answer
from farm.model.states import UnitState, shown_state
from farm.protocol.client import ActReply, ActReq
from tests.support.core_rig import Rig as CoreRig
from tests.support.core_rig import step
from tests.support.gui_core import CoreDesk, json_of
from tests.support.gui_rig import Rig, job_row, node_row, step_row
from tests.support.gui_stage import MANY, Stage, asked

# -- many at once, back again ----------------------------------------------------------------------------


def test_many_are_told_as_one_with_reasons_and_taken_back(stage: Stage) -> None:
    core = CoreRig()
    for n in range(1, 42):
        core.submit(step(), user="bo" if n in (4, 9) else "ann")
    core.act("cancel", "J7")
    desk = CoreDesk(core, "artist", "ann")
    book = desk.gui.actions
    desk.show()
    context = ActionContext("jobs", jobs=tuple(range(1, 42)))
    book.run("pause", context)
    shown = [book.pending("jobs", job, "state") for job in (1, 4, 7)]
    assert shown == ["paused", None, None]
    desk.gui.settle()
    assert len(desk.gui.port.asked(ActReq)) == 38
    *details, notice = desk.gui.notices.activity
    assert notice.text == (
        "Paused 38 jobs, 3 left out: "
        "J4 belongs to bo; artists act on their own jobs, ask a wrangler; and 2 more"
    )
    assert len(details) == 3
    assert notice.undo
    assert book.offer is not None
    assert book.offer.number == notice.undo
    desk.show()
    assert [job.id for job in core.core.farm.jobs.values() if job.paused] == [
        n for n in range(1, 42) if n not in (4, 7, 9)
    ]
    book.run("undo", context)
    desk.gui.settle()
    desk.show()
    assert not any(job.paused for job in core.core.farm.jobs.values())
    assert book.offer is None
    assert list(desk.gui.notices.activity)[-1].text.endswith(": 38 jobs")
    desk.close()


def test_requests_go_out_in_order_a_few_at_a_time(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, 61)))
    rig.actions.run("pause", ActionContext("jobs", jobs=tuple(range(60, 0, -1))))
    out = rig.port.asked(ActReq)
    assert [request.address for request in out] == [f"J{n}" for n in range(60, 60 - AT_ONCE, -1)]
    for place in range(60):
        request = rig.port.asked(ActReq)[place]
        rig.give(Answer(request.id, ActReply(id=request.id, changed=1)))
    assert [request.address for request in rig.port.asked(ActReq)] == [f"J{n}" for n in range(60, 0, -1)]
    assert not rig.actions.doer.busy
    (notice,) = rig.notices.activity
    assert notice.text == "Paused 60 jobs"


@pytest.mark.parametrize(
    ("action", "value", "look"),
    [
        ("priority", "70", lambda core: core.job().priority),
        ("priority-up", "", lambda core: core.job().priority),
        ("pause", "", lambda core: core.job().paused),
        ("set", json_of(project="moon", attempts="3"), lambda core: core.job().project),
    ],
)
def test_what_can_be_taken_back_is_exactly_as_before(
    action: str, value: str, look: Callable[[CoreRig], Any]
) -> None:
    core = CoreRig()
    core.submit(step(), project="mars")
    desk = CoreDesk(core)
    desk.show()
    before = look(core)
    context = ActionContext("jobs", jobs=(1,))
    if action == "set":
        # Only what the list knows has a way back without the sheet having read it.
        desk.gui.actions.run("set", context, json_of(attempts="3"))
        desk.gui.settle()
        assert desk.gui.actions.offer is None
        value = json_of(project="moon")
    desk.gui.actions.run(action, context, value)
    desk.gui.settle()
    assert look(core) != before
    desk.gui.actions.take_back()
    desk.gui.settle()
    assert look(core) == before
    desk.close()


def test_an_undo_is_offered_for_a_while_only(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1, message="")
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    with qtbot.waitSignal(rig.actions.offer_changed, timeout=1000):
        rig.settle()
    offer = rig.actions.offer
    assert offer is not None
    rig.now_us = offer.expires_us
    assert rig.actions.offer is None
    assert rig.actions.why_not("undo", ActionContext()) == "nothing can be taken back now"
    with qtbot.waitSignal(rig.actions.offer_changed, timeout=1000):
        rig.actions.doer.tick()


# -- very many -------------------------------------------------------------------------------------------


def test_very_many_are_worked_out_in_slices_and_sent_in_order(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, MANY + 1)))
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    everything = ActionContext("jobs", jobs=tuple(range(1, MANY + 1)))
    rig.actions.run("pause", everything)
    assert not asked(rig), "the window has its turn first"

    def over() -> bool:
        rig.settle()
        return len(asked(rig)) >= MANY and not rig.actions.doer.busy

    qtbot.waitUntil(over)
    assert [one.address for one in rig.port.asked(ActReq)] == [f"J{n}" for n in range(1, MANY + 1)]
    assert list(rig.notices.activity)[-1].text == f"Paused {MANY} jobs"
    rig.actions.take_back()
    qtbot.waitUntil(lambda: over() and len(asked(rig)) == 2 * MANY)
    assert {one.action for one in rig.port.asked(ActReq)[MANY:]} == {"resume"}


_KINDS = st.builds(
    dict,
    user=st.sampled_from(["ana", "bo", ""]),
    archived=st.booleans(),
    priority=st.sampled_from([0, 3, 50, 60, 61, 100]),
    counts=st.tuples(*(st.integers(0, 2) for _ in UnitState)).filter(any),
    paused=st.booleans(),
    told=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(_KINDS, min_size=1, max_size=8), role=st.sampled_from(["artist", "wrangler"]))
def test_one_of_each_kind_says_what_all_of_them_say(kinds: list[dict[str, Any]], role: str) -> None:
    rows = []
    for number in range(1, JUDGED_ALL + 15):
        kind = kinds[number % len(kinds)]
        counts = kind["counts"]
        state = shown_state(list(counts), paused=kind["paused"]).value
        one = step_row(counts=counts, units=sum(counts), state=state)
        rows.append(
            job_row(
                number,
                user=kind["user"],
                archived=kind["archived"],
                priority=kind["priority"],
                state=state,
                units=sum(counts),
                done=counts[UnitState.DONE],
                failed=counts[UnitState.FAILED],
                running=counts[UnitState.RUNNING],
                steps=(one,) if kind["told"] else (),
            )
        )
    rig = Rig(role, "ana")
    try:
        rig.client.look("test", jobs=True)
        rig.snapshot(tuple(rows))
        everything = ActionContext("jobs", jobs=(*(row.job for row in rows), 9999))
        assert len(rig.actions.sample(everything).jobs) <= len(kinds) + 1
        judged = rig.actions.judge(everything)
        for record in RECORDS:
            if Scope.JOBS not in record.scopes:
                continue
            alone = [
                rig.actions.why_not(record.id, ActionContext("jobs", jobs=(n,))) for n in everything.jobs
            ]
            expected = "" if "" in alone else alone[0]
            if record.id == "resubmit":
                expected = "works on one job at a time"
            assert judged(record.id) == expected, record.id
    finally:
        rig.close()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            dict,
            state=st.sampled_from(["online", "lost", "offline", "newer"]),
            enabled=st.booleans(),
            disabled=st.booleans(),
            running=st.sampled_from([(), ("J1/beauty/1",)]),
            software=st.sampled_from(["0.1.0", "0.0.9"]),
            update=st.sampled_from(["", "waiting", "failed"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_one_node_of_each_kind_says_what_all_of_them_say(kinds: list[dict[str, Any]]) -> None:
    rig = Rig("admin", "root")
    try:
        rig.client.look("test", nodes=True)
        numbers = tuple(range(1, JUDGED_ALL + 9))
        rig.snapshot((), tuple(node_row(n, **kinds[n % len(kinds)]) for n in numbers))
        judged = rig.actions.judge(ActionContext("nodes", nodes=numbers))
        for record in RECORDS:
            if Scope.NODES in record.scopes:
                alone = [rig.actions.why_not(record.id, ActionContext("nodes", nodes=(n,))) for n in numbers]
                assert judged(record.id) == ("" if "" in alone else alone[0]), record.id
    finally:
        rig.close()

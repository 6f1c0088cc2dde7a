"""Every action on every state for every role: it sends exactly its requests, or says why and sends nothing.

What is possible is tried on a real core with the broker's own checks: what the window offers the farm takes,
and what the farm would refuse the window does not offer, as far as it can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.pending import SETTLES_US
from client_gui.actions.records import Record, Value
from client_gui.store.activity import Level
from farm.core.invariants import digest
from farm.model.errors import CallError, IllegalMove
from farm.model.jobs import AfterSpec
from farm.model.states import UnitState
from farm.protocol.client import ActReq, NodeActReq
from tests.support.core_rig import Rig as CoreRig
from tests.support.core_rig import step
from tests.support.gui_core import CoreDesk, json_of
from tests.support.gui_stage import CHANGES, ROLES, Stage, agree, asked

# -- jobs in every state --------------------------------------------------------------------------------


def _queued(rig: CoreRig) -> None:
    rig.submit(step(out=True))


def _running(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.join()
    rig.lease()


def _paused(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.act("pause", "J1")


def _paused_running(rig: CoreRig) -> None:
    _running(rig)
    rig.act("pause", "J1")


def _failed(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True, attempts=1))
    rig.join()
    rig.done(rig.lease())
    rig.fail(rig.lease(), "renderer")


def _blocked(rig: CoreRig) -> None:
    rig.submit(step("a", attempts=1, frames="1"), step("b", frames="1-3", after=(AfterSpec(step="a"),)))
    rig.join()
    rig.fail(rig.lease(), "renderer")
    rig.act("cancel", "J1/a/1")


def _canceled(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.act("cancel", "J1")


def _done(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True))
    rig.join()
    rig.done(rig.lease())
    rig.done(rig.lease())


def _skipped(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True))
    rig.act("skip", "J1/beauty/1-2")


def _single(rig: CoreRig) -> None:
    rig.submit(step("stitch", frames=None))


def _single_done(rig: CoreRig) -> None:
    rig.submit(step("stitch", frames=None))
    rig.join()
    rig.done(rig.lease())


def _mixed(rig: CoreRig) -> None:
    rig.submit(
        step("beauty", frames="1-8", attempts=1),
        step("stitch", frames=None, after=(AfterSpec(step="beauty"),)),
    )
    rig.join()
    rig.done(rig.lease())
    rig.fail(rig.lease(), "renderer")
    rig.act("skip", "J1/beauty/8")
    rig.act("cancel", "J1/beauty/7")
    rig.lease()


def _archived(rig: CoreRig) -> None:
    _done(rig)
    rig.act("archive", "J1")


WORK: dict[str, Callable[[CoreRig], None]] = {
    "queued": _queued,
    "running": _running,
    "paused": _paused,
    "paused-running": _paused_running,
    "failed": _failed,
    "blocked": _blocked,
    "canceled": _canceled,
    "done": _done,
    "skipped": _skipped,
    "single": _single,
    "single-done": _single_done,
    "mixed": _mixed,
    "archived": _archived,
}


def _contexts(desk: CoreDesk) -> Iterator[ActionContext]:
    """The job, each step, and for each state of frames those frames, and all of them."""
    job = desk.core.job()
    yield ActionContext("jobs", jobs=(job.id,))
    for one in job.steps:
        yield ActionContext("steps", units=(UnitsOf(job.id, one.spec.name),))
        places = range(one.units)
        groups = [tuple(places)] + [
            tuple(place for place in places if one.state[place] == state) for state in UnitState
        ]
        for chosen in groups:
            if not chosen:
                continue
            frames = ",".join(str(one.frame_of(place)) for place in chosen) if one.frames is not None else ""
            words = frozenset(UnitState(one.state[place]).word for place in chosen)
            yield ActionContext("frames", units=(UnitsOf(job.id, one.spec.name, chosen, frames, words),))


VALUES = {
    Value.PRIORITY: "61",
    Value.FIELDS: json_of(attempts="3"),
    Value.NODE_FIELDS: json_of(slots="2", schedule="mon-fri 19:00-07:00 UTC", rate="0.5"),
}


@pytest.mark.parametrize("state", WORK)
@pytest.mark.parametrize(("role", "user"), ROLES)
def test_what_is_offered_for_work_is_taken_and_what_is_not_is_not_sent(
    stage: Stage, state: str, role: str, user: str
) -> None:
    core = CoreRig()
    WORK[state](core)
    probe = CoreDesk(core, role, user)
    contexts = list(_contexts(probe))
    probe.close()
    for record in CHANGES:
        for context in contexts:
            _try_work(stage, record, context, state, role, user)


def _try_work(stage: Stage, record: Record, context: ActionContext, state: str, role: str, user: str) -> None:
    core = CoreRig()
    WORK[state](core)
    desk = CoreDesk(core, role, user)
    desk.show()
    stage.context = context
    value = VALUES.get(record.value, "")
    if record.value is Value.FIELDS and context.scope == "jobs" and len(core.job().steps) > 1:
        value = json_of(project="other")
    reason = desk.gui.actions.why_not(record.id, context)
    before = digest(core.core.farm)
    desk.gui.actions.run(record.id, context, value)
    agree(stage)
    desk.gui.settle()
    sent = asked(desk.gui)
    told = [(one.text, one.level) for one in desk.gui.notices.activity]
    where = f"{record.id} on {context} of a job that is {state}, as {role} {user}: {told}"
    assert len(told) == 1, where
    text, level = told[0]
    if reason:
        assert not sent, where
        assert level is Level.WARNING, where
        assert reason in text, where
        assert digest(core.core.farm) == before, where
        _would_be_in_vain(desk, record, context, value, where)
    else:
        assert sent, where
        assert {request.action for request in sent} <= {record.farm, "resume"}, where
        assert level is Level.DONE, where
        _settles(desk, where)
    desk.close()


#: What R leaves alone though the farm would do it: frames that are named are rendered again, done ones too.
GENTLER = {"retry"}


def _would_be_in_vain(desk: CoreDesk, record: Record, context: ActionContext, value: str, where: str) -> None:
    """What was not offered the broker refuses, or it changes nothing that shows."""
    if context.scope not in {scope.value for scope in record.scopes}:
        return
    addresses = [f"J{job}" for job in context.jobs] or [one.address for one in context.units]
    farm = desk.core.core.farm

    def shown() -> object:
        return [
            (
                job.shown(),
                job.priority,
                job.rank,
                job.project,
                [(bytes(one.state), one.rank, one.spec.first, one.spec.last) for one in job.steps],
            )
            for job in farm.jobs.values()
        ]

    before = shown()
    try:
        desk.answer(ActReq(id=1, action=record.farm, address=addresses[0], value=value))
    except CallError:
        return
    if record.id not in GENTLER:
        assert shown() == before, f"{where}: it was not offered, but the farm does it"


def _settles(desk: CoreDesk, where: str) -> None:
    """Shortly after, nothing is shown as under way, whatever news came."""
    desk.core.now_us += 1_000_000
    desk.show()
    desk.gui.now_us += SETTLES_US
    desk.gui.actions.doer.tick()
    assert len(desk.gui.actions.doer.cells) == 0, where


# -- nodes in every state -------------------------------------------------------------------------------


def _online(rig: CoreRig) -> None:
    rig.join()


def _busy(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.join()
    rig.lease()


def _drained(rig: CoreRig) -> None:
    rig.join()
    rig.node_act("node-drain", 1)


def _disabled(rig: CoreRig) -> None:
    rig.join()
    rig.node_act("node-disable", 1)


def _suspect(rig: CoreRig) -> None:
    rig.join()
    rig.wait(rig.settings.suspect_us / 1e6 + 1)


def _lost(rig: CoreRig) -> None:
    rig.join()
    rig.wait(rig.settings.lost_us / 1e6 + 1)


def _offline(rig: CoreRig) -> None:
    rig.bye(rig.join())


NODES: dict[str, Callable[[CoreRig], None]] = {
    "online": _online,
    "busy": _busy,
    "drained": _drained,
    "disabled": _disabled,
    "suspect": _suspect,
    "lost": _lost,
    "offline": _offline,
}


@pytest.mark.parametrize("state", NODES)
@pytest.mark.parametrize(("role", "user"), ROLES[1:])
def test_what_is_offered_for_nodes_is_taken_and_what_is_not_is_not_sent(
    stage: Stage, state: str, role: str, user: str
) -> None:
    for record in CHANGES:
        _try_node(stage, record, state, role, user)


def _try_node(stage: Stage, record: Record, state: str, role: str, user: str) -> None:
    core = CoreRig()
    NODES[state](core)
    desk = CoreDesk(core, role, user)
    desk.show()
    stage.context = context = ActionContext("nodes", nodes=(1,))
    reason = desk.gui.actions.why_not(record.id, context)
    before = digest(core.core.farm)
    desk.gui.actions.run(record.id, context, VALUES.get(record.value, ""))
    agree(stage)
    desk.gui.settle()
    sent = asked(desk.gui)
    (notice,) = desk.gui.notices.activity
    if reason:
        assert not sent
        assert digest(core.core.farm) == before
        assert reason in notice.text
        if record.id == "node-forget" and role != "artist":
            with pytest.raises(IllegalMove):
                desk.answer(NodeActReq(id=1, action="node-forget", node="1"))
    else:
        assert [request.action for request in sent] == [record.farm]
        assert notice.level is Level.DONE, notice.text
        _settles(desk, f"{record.id} on a node that is {state}")
    desk.close()

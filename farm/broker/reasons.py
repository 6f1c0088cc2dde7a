"""Answers to "why": the core's explanations as rows for people.  Reads, never writes."""

from __future__ import annotations

import msgspec

from farm.broker.state import BrokerState
from farm.core import explain, idle
from farm.core.state import Farm, Step
from farm.model.frames import format_indices
from farm.model.ids import parse_address
from farm.model.states import UnitState
from farm.protocol.client import WhyCause, WhyNodes, WhyReply, WhyReq, WhyRow, WhyWork

#: Units looked at one by one when frames are named; more have the same few answers.
LOOK = 200
_LEFT = (UnitState.SKIPPED, UnitState.CANCELED)


def why_reply(s: BrokerState, request: WhyReq) -> WhyReply:
    """The answer to a WhyReq.

    Raises:
        UnknownName: There is no such work or node.
    """
    if request.node:
        return _node_reply(s, request)
    address = parse_address(request.address)
    rows: list[WhyRow] = []
    more = False
    views = s.views_of(address.job)
    for step, units in views.units_at(address):
        if address.frames is None:
            rows.append(_of_step(views.farm, step, s.now_us))
            continue
        more = more or len(units) > LOOK
        groups: dict[explain.Answer, list[int]] = {}
        # What was left out somebody (or the farm) left out in one row with others: the history knows which.
        left = [unit for unit in units[:LOOK] if step.state[unit] in _LEFT]
        told = {row.unit: row.reason for row in views.frame_rows(step, left, s.now_us)} if left else {}
        for unit in units[:LOOK]:
            answer = explain.why(views.farm, step, unit, s.now_us)
            if told.get(unit):
                answer = msgspec.structs.replace(answer, causes=((told[unit], ""),))
            groups.setdefault(answer, []).append(unit)
        for answer, found in groups.items():
            name = step.address
            if step.frames is not None:
                name = f"{name}/{format_indices(step.frames, tuple(found))}"
            rows.append(_as_row(answer, name, len(found)))
    return WhyReply(id=request.id, rows=tuple(rows), more=more)


def _of_step(farm: Farm, step: Step, now_us: int) -> WhyRow:
    answer = explain.why(farm, step, None, now_us)
    # As many units as the answer is about: of 100 frames 97 may wait while 3 run.
    count = next((step.counts[state] for state in UnitState if state.word == answer.state), 0)
    return _as_row(answer, step.address, count or step.units)


def _as_row(answer: explain.Answer, name: str, units: int) -> WhyRow:
    wait = answer.wait
    return WhyRow(
        address=name,
        state=answer.state,
        units=units,
        causes=tuple(WhyCause(what, cure) for what, cure in answer.causes),
        nodes=tuple(
            WhyNodes(filter=one.filter, reason=one.reason, cure=one.cure, nodes=one.nodes, count=one.count)
            for one in answer.nodes
        ),
        start_low_us=wait.low_us if wait is not None else None,
        start_high_us=wait.high_us if wait is not None else None,
        ahead=wait.ahead if wait is not None else None,
        share=wait.share if wait is not None else None,
        failure=answer.failure,
        failed_on=answer.failed_on,
        tries=answer.tries,
    )


def _node_reply(s: BrokerState, request: WhyReq) -> WhyReply:
    node = s.find_node(request.node)
    answer = idle.why_idle(s.core.farm, node, s.now_us)
    return WhyReply(
        id=request.id,
        node=node.name,
        reason=answer.reason,
        work=tuple(WhyWork(*one) for one in answer.work),
        waiting=answer.waiting,
    )

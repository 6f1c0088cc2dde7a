"""The answer to "what would this job take": the checks of a submit and the core's estimate, storing nothing.

What belongs here: wire to the core's functions and back.  What may not: how an estimate is made.
"""

from __future__ import annotations

from farm.broker.admission import admit
from farm.broker.state import BrokerState
from farm.core import forecast
from farm.core.possible import impossible
from farm.model.roles import Role
from farm.protocol.client import EstimateReply, EstimateReq


def estimate_reply(s: BrokerState, request: EstimateReq, role: Role, user: str) -> EstimateReply:
    """What the job would take if it were submitted now.

    Raises:
        CallError: The job would be refused; names the field.
    """
    event, warnings = admit(request.job, role, user, s.now_us)
    farm, spec = s.core.farm, event.spec
    told = (*warnings, *impossible(farm, spec, event.apps, event.whole, force=True))
    found = forecast.estimate(farm, spec, s.now_us)
    ranges = [step.frame_range() for step in spec.steps]
    frames = sum(len(one) for one in ranges if one is not None)
    if found is None:
        unknown = tuple(step.name for step in spec.steps)
        return EstimateReply(id=request.id, frames=frames, unknown=unknown, warnings=told)
    low_us, high_us = found.eta_low_us, found.eta_high_us
    return EstimateReply(
        id=request.id,
        frames=frames,
        low_s=(low_us - s.now_us) / 1e6 if low_us is not None else None,
        high_s=(high_us - s.now_us) / 1e6 if high_us is not None else None,
        cost_low_nano=found.cost_low_nano,
        cost_high_nano=found.cost_high_nano,
        unknown=found.unknown,
        warnings=told,
    )

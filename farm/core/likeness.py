"""Steps like another one: what was measured of them stands in where nothing is known yet.

What belongs here: which measured step tells of another, and how well.  What may not: what is made of it
(``farm.core.forecast``).  Only expectations for people go by this; chunks never do, since a wrong guess would
cost a node hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.core import pace

if TYPE_CHECKING:
    from farm.core.pace import Pace
    from farm.core.state import Farm, Step
    from farm.model.jobs import StepSpec

#: How well steps like one tell of it (relative standard deviation): same renderer and scene, same user.
_LIKE_SCENE, _LIKE_USER = 0.25, 0.8
#: Steps looked at to find one like another, newest first.
_STEPS_LOOKED_AT = 5_000


def pace_like(farm: Farm, step: Step) -> tuple[Pace | None, float]:
    """What was measured of the step most like this one, and how much doubt remains."""
    found = step_like(farm, step.job.user, step.spec, step)
    return (found[0].pace, found[1]) if found is not None else (None, 0.0)


def step_like(farm: Farm, user: str, spec: StepSpec, step: Step | None = None) -> tuple[Step, float] | None:
    """The newest measured step like ``spec`` (not ``step`` itself), and how much doubt remains."""
    paths = _paths(spec)
    second: Step | None = None
    for looked_at, other in enumerate(reversed(farm.steps.values())):
        if looked_at >= _STEPS_LOOKED_AT:
            break
        if other is step or other.spec.renderer != spec.renderer or other.spec.kind != spec.kind:
            continue
        if not pace.known(other):
            continue
        if paths and _paths(other.spec) == paths:
            return other, _LIKE_SCENE
        if second is None and other.job.user == user:
            second = other
    return (second, _LIKE_USER) if second is not None else None


def _paths(spec: StepSpec) -> tuple[str, ...]:
    """Files its parameters name: the scene, in whichever parameter the renderer has it."""
    texts = [value for value in spec.params.values() if isinstance(value, str)]
    return tuple(sorted(text for text in texts if "/" in text or "\\" in text))

"""Steps like another one: what was measured of them stands in where nothing is known yet.

What belongs here: which measured step tells of another, and how well.  What may not: what is made of it
(``farm.core.forecast``).  Only expectations for people go by this; chunks never do, since a wrong guess would
cost a node hours.
"""

from __future__ import annotations

from itertools import islice
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


class Likeness:
    """Measured steps by what makes others like them, as of one moment.

    A farm of ten thousand waiting jobs asks ten thousand times: the steps are gone through once.
    """

    __slots__ = ("_scenes", "_users")

    def __init__(self, farm: Farm) -> None:
        self._scenes: dict[tuple[object, ...], Step] = {}
        self._users: dict[tuple[object, ...], Step] = {}
        for other in islice(reversed(farm.steps.values()), _STEPS_LOOKED_AT):
            if not pace.known(other):
                continue
            kind = (other.spec.renderer, other.spec.kind)
            if paths := _paths(other.spec):
                self._scenes.setdefault((kind, paths), other)
            self._users.setdefault((kind, other.job.user), other)

    def pace(self, step: Step) -> tuple[Pace | None, float]:
        """What was measured of the step most like this unmeasured one, and how much doubt remains."""
        found = self.step(step.job.user, step.spec)
        return (found[0].pace, found[1]) if found is not None else (None, 0.0)

    def step(self, user: str, spec: StepSpec) -> tuple[Step, float] | None:
        """The newest measured step like ``spec``, and how much doubt remains."""
        kind, paths = (spec.renderer, spec.kind), _paths(spec)
        if paths and (found := self._scenes.get((kind, paths))) is not None:
            return found, _LIKE_SCENE
        found = self._users.get((kind, user))
        return (found, _LIKE_USER) if found is not None else None


def _paths(spec: StepSpec) -> tuple[str, ...]:
    """Files its parameters name: the scene, in whichever parameter the renderer has it."""
    texts = [value for value in spec.params.values() if isinstance(value, str)]
    return tuple(sorted(text for text in texts if "/" in text or "\\" in text))

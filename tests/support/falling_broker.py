"""``farm broker`` whose core fails in the middle of some events: after it changed its state.

What belongs here: those failures.  An act with the reason ``fall``, and every report of a node named
``faller``, are done and then raise.  Placing fails while there is a job ``unplaceable`` or a node ``poison``
is online, looking at deadlines while a file ``tick-falls`` lies in the broker's folder.  Nothing of the
product knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.cli.main import entry
from farm.core import core
from farm.core.events import ActEvent, DispatchEvent, ReportEvent, TickEvent
from farm.core.outcome import Outcome
from farm.core.state import Farm
from farm.model.states import NodeState


def _falling(
    handler: Callable[[Farm, Any, Outcome], None], falls: Callable[[Farm, Any], bool]
) -> Callable[[Farm, Any, Outcome], None]:
    def handle(farm: Farm, event: Any, out: Outcome) -> None:
        handler(farm, event, out)
        if falls(farm, event):
            raise KeyError("a failure in the middle")

    return handle


if __name__ == "__main__":
    handlers = core._HANDLERS
    handlers[ActEvent] = _falling(handlers[ActEvent], lambda _, event: event.reason == "fall")
    handlers[ReportEvent] = _falling(
        handlers[ReportEvent], lambda farm, event: farm.nodes[event.node_id].name == "faller"
    )
    handlers[DispatchEvent] = _falling(
        handlers[DispatchEvent],
        lambda farm, _: (
            any(job.spec.name == "unplaceable" for job in farm.jobs.values())
            or any(n.name == "poison" and n.state is NodeState.ONLINE for n in farm.nodes.values())
        ),
    )
    handlers[TickEvent] = _falling(handlers[TickEvent], lambda *_: Path("tick-falls").exists())
    entry()

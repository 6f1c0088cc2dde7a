"""The core: ``handle(event) -> Outcome``.  The broker, the simulator and the tests drive this object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farm.core import actions, checkpoint, nodes, place, policies, results, shelves, specs, submit
from farm.core.events import (
    ActEvent,
    AnyEvent,
    BeatEvent,
    ByeEvent,
    CheckpointEvent,
    DeleteEvent,
    DispatchEvent,
    HelloEvent,
    NodeActEvent,
    PolicyEvent,
    ReportEvent,
    RestartEvent,
    SubmitEvent,
    TickEvent,
    VerifiedEvent,
)
from farm.core.outcome import Outcome
from farm.core.state import Farm, Settings

_HANDLERS: dict[type, Callable[[Farm, Any, Outcome], None]] = {
    SubmitEvent: submit.on_submit,
    HelloEvent: nodes.on_hello,
    BeatEvent: nodes.on_beat,
    ByeEvent: nodes.on_bye,
    ReportEvent: results.on_report,
    VerifiedEvent: specs.on_verified,
    DispatchEvent: place.dispatch,
    TickEvent: nodes.on_tick,
    ActEvent: actions.on_act,
    DeleteEvent: shelves.on_delete,
    NodeActEvent: nodes.on_node_act,
    PolicyEvent: policies.on_policy,
    CheckpointEvent: checkpoint.on_checkpoint,
    RestartEvent: nodes.on_restart,
}


class Core:
    """The scheduler.

    Attributes:
        farm: The state; others read it and never write it.
    """

    def __init__(self, settings: Settings | None = None, farm: Farm | None = None) -> None:
        self.farm = farm or Farm(settings)

    def handle(self, event: AnyEvent) -> Outcome:
        """Takes one event.

        Returns:
            Rows to store and commands to perform once they are stored.

        Raises:
            CallError: The event asks for what is not allowed; nothing was changed.
        """
        out = Outcome()
        _HANDLERS[type(event)](self.farm, event, out)
        return out

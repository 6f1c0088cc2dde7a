"""The failure table: what each class of failure costs and where the unit may go next."""

from __future__ import annotations

import msgspec

from farm.model.states import FailureClass


class FailureRule(msgspec.Struct, frozen=True):
    """What follows from a failure of one class.

    Attributes:
        attempts: How many failures of classes that spend attempts a unit may have before it is
            failed; 0 = at once; None = this class spends no attempt.
        cap: How often this class alone may put a unit back, or None.
        other_node: Whether the next try must go to another node while there is one.
        drains_node: Whether the node is drained and shown why.
        pauses_job: Whether the job pauses itself once ``cap`` is spent.
        bigger: Whether the next try takes a bigger placement: more memory, or a GPU with more of it.
        backoff_s: Seconds before the unit may be leased again (doubles each time, at most 600).
    """

    attempts: int | None
    cap: int | None = None
    other_node: bool = True
    drains_node: bool = False
    pauses_job: bool = False
    bigger: bool = False
    backoff_s: float = 0.0


RULES: dict[FailureClass, FailureRule] = {
    FailureClass.RENDERER: FailureRule(attempts=3),
    FailureClass.OUTPUT: FailureRule(attempts=3),
    FailureClass.TIMEOUT: FailureRule(attempts=3),
    FailureClass.SILENT: FailureRule(attempts=3),
    FailureClass.OOM_VRAM: FailureRule(attempts=None, cap=3, other_node=False, bigger=True),
    FailureClass.OOM_RAM: FailureRule(attempts=None, cap=3, other_node=False, bigger=True),
    FailureClass.LICENCE: FailureRule(attempts=None, other_node=False, backoff_s=15.0),
    FailureClass.CONFIG: FailureRule(attempts=0),
    FailureClass.PATH: FailureRule(attempts=None, cap=1, pauses_job=True),
    FailureClass.NODE: FailureRule(attempts=None, drains_node=True),
    FailureClass.LOST: FailureRule(attempts=None, cap=5, other_node=False),
    FailureClass.PREEMPTED: FailureRule(attempts=None, other_node=False),
}

#: Classes that may be a node's doing without its knowing: when work of several users fails so on one node and
#: nothing works there in between, the node is quarantined (``Policy.quarantine_users``).
BLAMES_NODE = frozenset(
    {FailureClass.RENDERER, FailureClass.OUTPUT, FailureClass.SILENT, FailureClass.TIMEOUT}
)
#: A node that failed this often for a step is not used for it, unless it is the last able one.
NODE_FAILURES_PER_STEP = 3
#: A job pauses itself when this share of its frames (and at least PAUSE_MIN) has failed; a step that has
#: figures of its own (``failure.pause_share``, ``pause_least``) is judged by them alone.
PAUSE_SHARE = 0.10
PAUSE_MIN = 5

"""What an agent reports of one unit of an attempt."""

from __future__ import annotations

import msgspec

from farm.model.outputs import FileFacts

#: Outcomes of a unit in a report.
DONE, FAILED, RELEASED = 1, 2, 3


class UnitReport(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What became of one unit of an attempt.

    Attributes:
        unit: Index in the step (0-based), not the frame number.
        outcome: DONE, FAILED or RELEASED (given back unrendered; spends no attempt).
        failure: Failure class word when FAILED, or why it was released.
        reason: In words an artist understands.
        elapsed_us: Wall time spent on it.
        files: Verified files; empty for a step without expected outputs.
        warning: Something worth telling about a unit that is done.
        ram_mib: Peak memory of the process tree.
    """

    unit: int
    outcome: int
    failure: str = ""
    reason: str = ""
    elapsed_us: int = 0
    files: tuple[FileFacts, ...] = ()
    warning: str = ""
    ram_mib: int = 0

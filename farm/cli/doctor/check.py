"""What a check of `farm doctor` says.

What belongs here: the record and how a crash of a check becomes one.  What must not: any check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Status = Literal["ok", "warn", "missing"]


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
        name: Stable name, for scripts.
        status: ``ok``; ``warn``: it is here but something is wrong with it; ``missing``: it is not here.
        detail: What was found, in words.
        cure: What to do about it; empty when nothing needs doing.
        needed: Whether `farm demo` cannot do without it.
    """

    name: str
    status: Status
    detail: str
    cure: str = ""
    needed: bool = False

    @property
    def blocks(self) -> bool:
        """Whether `farm demo` fails because of it."""
        return self.needed and self.status == "missing"


#: One check is a function that gives one record, or several of one subject.
Checker = Callable[[], "Check | list[Check]"]


def run_checks(checkers: dict[str, Checker]) -> list[Check]:
    """Every check in order; one that fails itself is reported as such and hides none of the others.

    A doctor is called where something is broken: whatever a library raises there is a finding.
    """
    found: list[Check] = []
    for name, checker in checkers.items():
        try:
            said = checker()
        except Exception as error:
            found.append(Check(name, "warn", f"this check failed: {type(error).__name__}: {error}"))
            continue
        found += said if isinstance(said, list) else [said]
    return found

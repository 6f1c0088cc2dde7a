"""What an action acts on.

What belongs here: the record a view gives of its selection.  What may not: Qt, and what is done with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UnitsOf:
    """Frames of one step.

    Attributes:
        job: Its job.
        step: Its name.
        units: Indices, ascending; empty = the whole step.
        frames: The same as the farm addresses them: ``1001-1020,1030``; "" for the whole step.
        states: Words of the states these are in.
    """

    job: int
    step: str
    units: tuple[int, ...] = ()
    frames: str = ""
    states: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        """As the broker and the command line call it."""
        whole = f"J{self.job}/{self.step}"
        return f"{whole}/{self.frames}" if self.frames else whole


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What is selected in the view that has the focus.

    Attributes:
        scope: ``jobs``, ``steps``, ``frames``, ``nodes``, or "" where nothing can be selected.
        jobs: Numbers of the selected jobs.
        units: Selected steps or frames.
        nodes: Numbers of the selected nodes.
        hidden: How many of the selected rows a filter hides.
    """

    scope: str = ""
    jobs: tuple[int, ...] = ()
    units: tuple[UnitsOf, ...] = ()
    nodes: tuple[int, ...] = ()
    hidden: int = 0
    extra: dict[str, str] = field(default_factory=dict)

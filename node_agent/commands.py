"""The commands a step runs before and after its renderer, once for a chunk.

What belongs here: how such a command is run, and what its end means.  What it may not know: units; who calls
decides what becomes of them.
"""

from __future__ import annotations

from farm.model.states import FailureClass
from farm.renderers.base import Invocation
from farm.renderers.command import CommandLogParser, chunk_argv, judge_command
from node_agent.judge import End
from node_agent.ledger import Ledger
from node_agent.plan import Plan
from node_agent.stage import Stage
from node_agent.troubles import WorkTrouble


def run_command(
    book: Ledger, stage: Stage, plan: Plan, which: str, frames: tuple[int, ...], deadline_s: float | None
) -> End:
    """Runs the step's ``pre`` or ``post`` command for these frames; says how it ended.

    Args:
        book: The attempt's books.
        stage: Where it runs.
        plan: The attempt's plan.
        which: ``pre`` or ``post``.
        frames: What it is for.
        deadline_s: ``time.monotonic()`` at which it times out.

    Raises:
        WorkTrouble: It cannot be started.
    """
    arguments: tuple[str, ...] = getattr(plan.shared.template, which)
    words = f"the {which} command {arguments[0]}"
    book.note(f"---- {which} command ----")
    invocation = Invocation(argv=chunk_argv(arguments, plan.context(stage.scratch, frames), which))
    stage.begin(())
    try:
        ended = stage.execute(
            plan, invocation, CommandLogParser(None), stage.note_problem, deadline_s, frames
        )
    except WorkTrouble as trouble:
        raise WorkTrouble(trouble.failure, f"{words} cannot be started: {trouble.message}") from trouble
    book.note(f"---- {which} command ended with exit code {ended.facts.returncode} ----")
    if ended.order is not None:
        reason = f"{words}: {ended.order.reason}" if ended.order.failure is not None else ""
        return End(ended.order.failure, reason)
    if ended.facts.lost:
        return End(FailureClass.NODE, "the process supervisor of this node died")
    verdict = judge_command(words, ended.facts.returncode, stage.problems)
    reason = verdict.reason if words in verdict.reason else f"{words}: {verdict.reason}"
    return End(verdict.failure, reason)

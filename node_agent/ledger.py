"""What all threads of one attempt share, and how its outcomes are written down.

What belongs here: the parts an agent gives to every attempt, and the small common steps of rendering,
verifying and closing: a note in the log, a unit's end, a hand-over to the checker.  What it may not know:
processes, the order of things.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from farm.model.outputs import FileFacts
from farm.model.reports import FAILED, UnitReport
from farm.model.states import FailureClass
from node_agent.checker import Checker
from node_agent.desk import Desk
from node_agent.home import ScratchFolders
from node_agent.judge import Fate
from node_agent.logs import LogSpool
from node_agent.machine import Held, Phase, Unit
from node_agent.outbox import Begun
from node_agent.outputs import remove_folder
from node_agent.plan import Plan, Planner
from node_agent.process import Spawner
from node_agent.troubles import WorkTrouble

log = logging.getLogger("overcrank.agent")

#: How long a decided outcome waits for others to be reported with.
GATHER_S = 0.03


class Workshop(msgspec.Struct, kw_only=True):
    """What all attempts of an agent share.

    Attributes:
        desk: Where threads meet.
        planner: Makes plans.
        spawner: Starts processes.
        scratch: Gives each attempt its scratch folder (a path of plain ASCII, no blanks).
        open_log: Makes the log of an attempt: job, step, attempt number, attempt id.
        log_ended: Called when an attempt's log is complete.
        previews: Called with the published files of units, by index, after the closing report.
        start_thread: Runs a function in a thread that is used again.
        kill_grace_s: SIGTERM to SIGKILL; the broker's welcome sets it.
        exit_grace_s: How long a program may take to end once all its units are done.
        env: Variables of the administrator for every process.
        own_env: The agent's own variables that processes may see; looked up anew each time when None.
    """

    desk: Desk
    planner: Planner
    spawner: Spawner
    scratch: ScratchFolders
    open_log: Callable[[int, str, int, int], LogSpool]
    log_ended: Callable[[int], None]
    start_thread: Callable[[Callable[[], None]], Any]
    previews: Callable[[Plan, Mapping[int, tuple[FileFacts, ...]]], None] = lambda _plan, _published: None
    kill_grace_s: float = 15.0
    exit_grace_s: float = 60.0
    env: Mapping[str, str] = {}
    own_env: Mapping[str, str] | None = None


class Ledger:
    """The books of one attempt that has a plan.

    Attributes:
        shop: What all attempts of the agent share.
        desk: Where threads meet.
        held: What the machine knows of the attempt.
        plan: What is to be done.
        spool: Its log.
        checker: Its second thread's work.
        signals: How its threads learn of changes.
        pending: Outcomes decided and not reported yet.
        taken: Whether the broker took units back.
        checking: Whether the checker's thread was started.
        rendered: Units whose files are good, by index, that wait for the step's post command; what it does to
            them is not known yet, so they are neither checked nor published before.
    """

    def __init__(self, shop: Workshop, held: Held, plan: Plan, spool: LogSpool) -> None:
        self.shop = shop
        self.desk = shop.desk
        self.held = held
        self.plan = plan
        self.spool = spool
        self.signals = shop.desk.signals(held.attempt)
        self.checker = Checker(shop.desk, held, plan, self.note)
        self.pending: list[UnitReport] = []
        self._gather_until_s = 0.0
        self.taken = False
        self.checking = False
        self.rendered: dict[int, Fate] = {}

    def note(self, text: str) -> None:
        """Adds a line of ours to the attempt's log."""
        self.spool.note(text)

    def unrendered(self, frames: Sequence[int] = ()) -> list[Unit]:
        """Units without an outcome whose files nobody looks at: those of these frames, () = all."""
        rendered = self.rendered
        return [
            unit
            for unit in self.held.units_of(frames)
            if unit.phase <= Phase.RENDERING and unit.index not in rendered
        ]

    def hand_over(self, unit: Unit) -> None:
        """Lets the checker look at a unit's files while other work goes on."""
        self.checker.check(unit)
        self.start_checker()

    def start_checker(self) -> None:
        """Starts the checker's thread, once."""
        if not self.checking:
            self.checking = True
            self.shop.start_thread(self.checker.run)

    def take_dropped(self) -> None:
        """Gives units back that the broker does not want any more."""
        reports = self.desk.take_dropped(self.held)
        if reports:
            self.taken = True
            self.note(f"{len(reports)} units were taken back: {reports[0].reason}")
            self.desk.report(self.held, reports)

    def settle(self, fate: Fate) -> None:
        """Ends a unit; it is reported with others that end now, or with the closing report."""
        if not self.desk.settle(self.held, fate.index):
            return
        if not self.pending:
            self._gather_until_s = time.monotonic() + GATHER_S
        self.pending.append(
            UnitReport(
                fate.index,
                fate.outcome,
                fate.failure,
                fate.reason,
                self.checker.elapsed_us.get(fate.index, 0),
                (),
                fate.warning,
                self.checker.ram_mib,
            )
        )
        if fate.outcome == FAILED:
            self.note(f"failed ({fate.failure}): {fate.reason}")

    def fail_unrendered(self, failure: FailureClass, reason: str) -> None:
        """Fails every unit that is not verified already."""
        for unit in self.unrendered():
            self.settle(Fate(unit.index, FAILED, failure, reason))

    def report_by(self) -> float | None:
        """When, of ``time.monotonic()``, what is decided must be reported; None while nothing is."""
        return self._gather_until_s if self.pending and self.held.open else None

    def report_due(self) -> None:
        """Reports what was decided a moment ago, while other units are still open.

        Frames of milliseconds gather: one transaction and one message for all that ended meanwhile.
        """
        if self.pending and self.held.open and time.monotonic() >= self._gather_until_s:
            self.report_now()

    def report_now(self) -> None:
        """Reports what is decided, if other units are still open; the closing report takes it else."""
        if self.pending and self.held.open:
            units, self.pending = self.pending, []
            self.desk.report(self.held, units)


def discard(desk: Desk, attempts: Sequence[int]) -> None:
    """Deletes the kept files of attempts and forgets them."""
    for begun in desk.drop_kept(attempts):
        sweep(begun)
        desk.outbox.discard(begun.attempt)


def sweep(begun: Begun) -> None:
    """Removes the folders of an attempt of this agent, and only those."""
    for path in begun.folders:
        folder, _, name = path.rpartition("/")
        try:
            remove_folder(folder or "/", name)
        except WorkTrouble as trouble:
            log.warning("event=sweep-failed path=%s reason=%s", path, trouble.message)

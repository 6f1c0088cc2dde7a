"""Runs the processes of one attempt: environment, limits, lines, orders to end it.

What belongs here: one process after another, each from its scratch files to its exit, and what it told
meanwhile.  What it may not know: what an end means for units, and which process comes next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from farm.model.frames import FrameRange
from farm.model.states import FailureClass
from farm.renderers.base import Invocation, LogEvent, LogParser, Problem
from node_agent.claims import Claims
from node_agent.environ import clean_environment
from node_agent.ledger import Ledger
from node_agent.plan import Plan
from node_agent.process import Ended, Order, Process, prepare_scratch
from node_agent.silence import Listener
from node_agent.takeback import TakeBack
from node_agent.troubles import WorkTrouble


class FrameLate(Order, frozen=True):
    """One frame ran longer than its step allows a frame; the others may still be rendered."""


class Stage:
    """Where the processes of one attempt run, in its thread.

    Attributes:
        frames: Frames of the process that runs, or ran last.
        problems: What was found in its lines.
        began: When each of its frames began, by its own words.
        told: Units it told of.
        resting: Units it said are complete, while a post command still has to run.
        last_end: When its last frame ended, or it began.
        hurried: It was told that it has nothing left to do but to end.
        back: What the broker takes back meanwhile.
    """

    def __init__(self, book: Ledger, scratch: str) -> None:
        """Prepares; starts nothing.

        Args:
            book: The attempt's books.
            scratch: Its scratch folder.
        """
        self._book = book
        self._held = book.held
        self.scratch = scratch
        self.back = TakeBack(book)
        self.frames: tuple[int, ...] = ()
        self.problems: list[Problem] = []
        self.began: dict[int, float] = {}
        self.told: set[int] = set()
        self.resting: set[int] = set()
        self.last_end = 0.0
        self.hurried = False
        self._process: Process | None = None
        self._order: Order | None = None
        self._shared_env: dict[str, str] | None = None
        # Touched by the keeper's thread only.
        self.folders: tuple[str, ...] = ()
        self._listener = Listener(book.held.lease.silent_s)

    # -- called from other threads --

    @property
    def pid(self) -> int:
        """First process of the tree that runs now, 0 if none does."""
        process = self._process
        return process.pid if process is not None else 0

    @property
    def ending(self) -> bool:
        """Whether the process that runs was told to end: what it says of its work counts no more."""
        process = self._process
        return process is not None and process.asked_ns > 0

    def order(self, order: Order) -> None:
        """Ends the process that runs now, e.g. because memory runs out."""
        if self._order is None:
            self._order = order
            self._book.desk.poke(self._held.attempt)

    def listen(self, pids: Collection[int]) -> None:
        """Looks for signs of life of the process that runs; ends it when there were none for too long."""
        process = self._process
        if process is None:
            return
        folders = (self.scratch, *self.folders)
        reason = self._listener.listen(process, process.printed, folders, pids)
        if reason and self._process is process:
            self.order(Order(FailureClass.SILENT, reason))

    # -- one process --

    def begin(self, frames: tuple[int, ...]) -> None:
        """A process for these frames is next: what the last one told is forgotten."""
        self.problems = []
        self.began.clear()
        self.told.clear()
        self.resting.clear()
        self.frames = frames
        self.hurried = False
        self._order = None
        self.back.begin(frames)

    def execute(
        self,
        plan: Plan,
        invocation: Invocation,
        parser: LogParser,
        on_event: Callable[[LogEvent], None],
        deadline_s: float | None,
        frames: Sequence[int],
    ) -> Ended:
        """Runs one process to its end.

        Args:
            plan: The attempt's plan.
            invocation: What to run.
            parser: Reads its lines.
            on_event: Takes what the parser finds.
            deadline_s: ``time.monotonic()`` at which it times out.
            frames: What it is told that it renders.

        Raises:
            WorkTrouble: It cannot be started.
        """
        prepare_scratch(self.scratch, invocation)
        book = self._book
        self.back.started(
            Claims(os.path.join(self.scratch, invocation.claims)) if invocation.claims else None  # noqa: PTH118
        )
        process = self._process = Process(
            book.shop.spawner,
            book.spool,
            parser,
            wake_fd=book.signals.fd,
            clear_wake=book.signals.clear,
            on_event=on_event,
            check=self._check_order,
            check_by=book.report_by,
            grace_s=book.shop.kill_grace_s,
        )
        self.last_end = time.monotonic()
        if self.frames or not self._held.lease.frames:
            self.limit_frame(self.frames[0] if len(self.frames) == 1 else None, len(self.frames) or 1)
        try:
            env, more = self._env(plan, invocation, frames)
            ended = process.run(invocation, env, more, self._cwd(plan), plan.label, deadline_s)
        finally:
            self._process = None
            self.back.ended()
        facts = ended.facts
        ram_mib = facts.max_rss_kib // 1024
        checker = book.checker
        checker.ram_mib = max(checker.ram_mib, ram_mib)
        book.note(
            f"ended with exit code {facts.returncode} after {ended.seconds:.3f} s, "
            f"{ram_mib} MiB, {facts.user_s + facts.sys_s:.2f} s of CPU"
        )
        return ended

    def limit_frame(self, frame: int | None, count: int) -> None:
        """From now on this frame (or so many that cannot be told apart) may take so long; 0 = no limit."""
        limit_s, process = self._book.plan.shared.template.frame_timeout_s, self._process
        if limit_s <= 0 or process is None:
            return
        if not count:
            process.frame_limit(None)
            return
        what = f"frame {frame}" if frame is not None else "it"
        words = f"{what} ran longer than the {limit_s:g} s its step allows a frame"
        process.frame_limit((time.monotonic() + limit_s * count, FrameLate(FailureClass.TIMEOUT, words)))

    def note_problem(self, event: LogEvent) -> None:
        """Keeps a problem that was found in a line; other events mean nothing here."""
        if isinstance(event, Problem):
            self.problems.append(event)
            self._book.note(f"{'warning' if event.warning else event.failure}: {event.text}")

    # -- what it is given --

    def _cwd(self, plan: Plan) -> str:
        template = plan.shared.template
        if not template.cwd:
            return self.scratch
        folder = plan.site.mapper.map(template.cwd)
        if not Path(folder).is_dir():
            raise WorkTrouble(FailureClass.PATH, f"the working folder {folder} does not exist on this node")
        return folder

    def _env(
        self, plan: Plan, invocation: Invocation, chosen: Sequence[int]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The environment all processes of the attempt have, and what this one has besides."""
        wanted = chosen or plan.lease.frames
        frames = ""
        if plan.lease.frames:
            frames = str(wanted[0] if len(wanted) == 1 else FrameRange.from_frames(wanted))
        more = {"OVERCRANK_FRAMES": frames}
        if invocation.env:
            return self._whole_env(plan, invocation.env), more
        if self._shared_env is None:
            self._shared_env = self._whole_env(plan, {})
        return self._shared_env, more

    def _whole_env(self, plan: Plan, of_process: dict[str, str]) -> dict[str, str]:
        template, lease = plan.shared.template, plan.lease
        return clean_environment(
            cores=lease.resources.cores,
            gpus=lease.gpus,
            scratch=self.scratch,
            facts={
                "JOB": f"J{template.job}",
                "STEP": template.step,
                "ATTEMPT": plan.label,
                "PROJECT": template.project,
                "USER": template.user,
                "CORES": str(max(1, lease.resources.cores)),
            },
            step_env={**self._book.shop.env, **template.env, **of_process},
            own=self._book.shop.own_env,
        )

    # -- while it runs --

    def _check_order(self) -> Order | None:
        """Asked after every wake: must the process end?"""
        book, back = self._book, self.back
        back.look()
        book.report_due()
        if self._held.stop:
            return Order(None, self._held.stop)
        if self._order is not None:
            return self._order
        if back.cut and not back.busy(self.resting):
            return Order(None, back.cut)
        if self._process is not None and not self.hurried and self._all_told():
            self.hurried = True
            words = f"it did not end within {book.shop.exit_grace_s:g} s after its work was done"
            self._process.limit(time.monotonic() + book.shop.exit_grace_s, Order(None, words))
        if book.taken and not back.wanted(self.frames):
            return Order(None, "nothing it renders is wanted any more")
        return None

    def _all_told(self) -> bool:
        """Whether the process has nothing left to do but to end."""
        held, rendered, resting = self._held, self._book.rendered, self.resting
        if len(held.units) - held.settled > len(rendered) + len(resting):
            return False
        return all(unit.index in resting or unit.index in rendered for unit in held.open_units())

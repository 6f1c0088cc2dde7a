"""Renders one attempt: its processes, one after another, and what their ends mean for its units.

What belongs here: invocations, the events their lines tell, times per frame, and the judgement of what a
process left.  What it may not know: sessions, how a process is run (``stage``), and how an attempt begins and
closes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from farm.model.errors import OutputError
from farm.model.nodes import AttemptProgress
from farm.model.outputs import FileFacts
from farm.model.reports import DONE, FAILED, RELEASED
from farm.model.states import FailureClass
from farm.renderers.base import (
    ChunkContext,
    FrameFinished,
    FrameStarted,
    Invocation,
    LogEvent,
    Problem,
    Progress,
)
from node_agent.commands import run_command
from node_agent.judge import WHOLE, End, Fate, Left, ended_by_us, fatal_for, fates
from node_agent.ledger import Ledger
from node_agent.machine import Phase, Unit
from node_agent.outputs import AttemptFiles
from node_agent.plan import Plan
from node_agent.process import Ended, Order, collect
from node_agent.stage import FrameLate, Stage
from node_agent.troubles import WorkTrouble, destination_trouble, is_full

#: A file's time of change lags behind the clock by up to a tick of the kernel's.
CLOCK_NS = 10_000_000


class Rendering:
    """The processes of one attempt, run in its thread."""

    def __init__(self, book: Ledger, scratch: str) -> None:
        """Prepares; starts nothing.

        Args:
            book: The attempt's books.
            scratch: Its scratch folder, made by ``run``.
        """
        self._book = book
        self._held = book.held
        self._stage = Stage(book, scratch)
        self._posted = False

    # -- called from other threads --

    @property
    def pid(self) -> int:
        """First process of the tree that runs now, 0 if none does."""
        return self._stage.pid

    def order(self, order: Order) -> None:
        """Ends the process that runs now, e.g. because memory runs out."""
        self._stage.order(order)

    def listen(self, pids: Collection[int]) -> None:
        """Looks for signs of life of the process that runs; ends it when there were none for too long."""
        self._stage.listen(pids)

    # -- the processes --

    def run(self, plan: Plan) -> None:
        """Renders all units.

        Raises:
            WorkTrouble: It cannot go on; units without an outcome fail by it.
        """
        self._book.shop.planner.check_inputs(plan)
        if plan.files is not None:
            plan.files.make_folders()
            self._stage.folders = plan.files.own_folders
        timeout_s = plan.shared.template.timeout_s
        deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else None
        try:
            if plan.shared.template.pre:
                end = run_command(self._book, self._stage, plan, "pre", self._held.lease.frames, deadline_s)
                if end.failure is not None:
                    self._book.fail_unrendered(end.failure, end.reason)
                    return
            self._chunk(plan, deadline_s)
        except WorkTrouble as trouble:
            # What is rendered already need not suffer for it.
            if not self._book.rendered:
                raise
            self._book.fail_unrendered(trouble.failure, trouble.message)
        self._finish(plan, deadline_s)

    def _chunk(self, plan: Plan, deadline_s: float | None) -> None:
        """The renderer's processes, one after another."""
        back = self._stage.back
        context = plan.context(self._stage.scratch, self._held.lease.frames)
        invocations = list(plan.shared.renderer.invocations(context))
        for number, invocation in enumerate(invocations):
            last = number == len(invocations) - 1
            back.look()
            if self._held.stop or not back.wanted(invocation.frames):
                continue
            if not self._one(plan, context, invocation, deadline_s, last=last):
                return
        if not self._held.stop:
            for unit in self._book.unrendered():
                words = f"{plan.shared.renderer.name} started no program for it"
                self._book.settle(Fate(unit.index, FAILED, FailureClass.CONFIG, words))

    def _one(
        self,
        plan: Plan,
        context: ChunkContext,
        invocation: Invocation,
        deadline_s: float | None,
        *,
        last: bool,
    ) -> bool:
        """Runs one invocation and judges its frames; False when nothing more can be run."""
        renderer = plan.shared.renderer
        self._stage.begin(invocation.frames)
        first = self._held.unit_of(invocation.frames[0] if invocation.frames else None)
        if first is not None:
            self._rendering(first)
        ended = self._stage.execute(
            plan,
            invocation,
            renderer.parser(context, invocation),
            lambda event: self._on_event(plan, event),
            deadline_s,
            invocation.frames,
        )
        end = self._end_of(plan, ended, invocation)
        if self._held.stop:
            return False
        ordered = ended.order is not None and ended.order.failure is not None
        if ended.facts.returncode == 0 and not ordered and invocation.collect and plan.files is not None:
            try:
                collect(self._stage.scratch, invocation, plan.files.own_folders)
            except OSError as error:
                raise destination_trouble(error, plan.files.folders[0], "cannot write to") from error
        if ended.order is not None and ended.order.failure is None:
            self._after_order(plan, invocation, ended)
            return True
        if end.failure is None and not invocation.frames and not last:
            return True
        self._judge(plan, invocation.frames, end, ended.seconds, ended.asked_ns if ordered else 0)
        if end.crashed:
            self._warn_last(invocation, end.reason)
        if end.failure is None:
            return True
        if end.failure in WHOLE or not invocation.frames:
            self._book.fail_unrendered(end.failure, end.reason)
            return False
        if end.failure is FailureClass.TIMEOUT and not isinstance(ended.order, FrameLate):
            for unit in self._book.unrendered():
                self._book.settle(Fate(unit.index, RELEASED, "", f"not begun: {end.reason}"))
            return False
        return True

    def _after_order(self, plan: Plan, invocation: Invocation, ended: Ended) -> None:
        """It was ended because nothing more was wanted of it."""
        assert ended.order is not None
        reason = ended.order.reason
        if self._stage.hurried and not self._stage.back.cut:
            if self._held.open:
                self._judge(plan, invocation.frames, End(None, reason, crashed=True), ended.seconds)
            else:
                self._warn_last(invocation, reason)
            return
        if self._stage.back.cut:
            self._book.note(
                f"ended after a frame, since it cannot leave frames out; its start was spent: {reason}"
            )
            for unit in self._book.unrendered(invocation.frames):
                self._book.settle(Fate(unit.index, RELEASED, "", unit.wish or reason))
            self._book.report_due()

    def _warn_last(self, invocation: Invocation, reason: str) -> None:
        """The program ended badly after its last frame was done: that frame's report says so."""
        checker = self._book.checker
        unit = self._held.unit_of(invocation.frames[-1] if invocation.frames else None)
        if unit is None:
            return
        warning = f"the files are good, but {reason}"
        with self._book.desk.lock:
            checker.warnings.setdefault(unit.index, warning)
            checker.last[:] = [
                msgspec.structs.replace(report, warning=report.warning or warning)
                if report.unit == unit.index and report.outcome == DONE
                else report
                for report in checker.last
            ]

    def _finish(self, plan: Plan, deadline_s: float | None) -> None:
        """Runs the post command for what was rendered, and judges the files as it left them."""
        rendered, self._book.rendered = self._book.rendered, {}
        self._posted = True
        self._stage.back.look()
        units = [unit for unit in self._held.open_units() if unit.index in rendered]
        if not units or self._held.stop:
            return
        frames = tuple(unit.frame for unit in units if unit.frame is not None)
        end = run_command(self._book, self._stage, plan, "post", frames, deadline_s)
        if self._held.stop:
            return
        if end.failure is not None:
            for unit in units:
                self._book.settle(Fate(unit.index, FAILED, end.failure, end.reason))
        elif plan.files is None:
            for unit in units:
                self._book.settle(rendered[unit.index])
        else:
            self._stage.problems = []
            self._judge(plan, frames, End(None, end.reason), 0.0)

    # -- while one runs --

    def _rendering(self, unit: Unit) -> None:
        if self._stage.back.cut:
            return
        with self._book.desk.lock:
            if unit.phase is Phase.WAITING:
                self._book.desk.machine.move(self._held.attempt, unit.index, Phase.RENDERING)

    def _on_event(self, plan: Plan, event: LogEvent) -> None:
        if isinstance(event, Problem):
            self._stage.note_problem(event)
        elif isinstance(event, FrameStarted):
            self._stage.began[event.frame] = time.monotonic()
            self._stage.limit_frame(event.frame, 1)
            unit = self._held.unit_of(event.frame)
            if unit is not None:
                self._stage.told.add(unit.index)
                self._rendering(unit)
                self._progress(unit.index, 0.0)
        elif isinstance(event, Progress):
            unit = self._held.unit_of(event.frame)
            if unit is not None or not self._held.lease.frames:
                self._progress(unit.index if unit is not None else -1, event.fraction)
        elif isinstance(event, FrameFinished):
            self._on_finished(plan, event.frame)

    def _progress(self, index: int, fraction: float) -> None:
        ram_mib = self._book.checker.ram_mib
        self._book.desk.set_progress(AttemptProgress(self._held.attempt, index, fraction, ram_mib))

    def _on_finished(self, plan: Plan, frame: int) -> None:
        unit = self._held.unit_of(frame)
        if unit is None or self._stage.ending:
            return
        now = time.monotonic()
        begun = self._stage.began.get(frame, self._stage.last_end)
        self._stage.last_end = now
        self._book.checker.elapsed_us[unit.index] = int((now - begun) * 1e6)
        self._stage.told.add(unit.index)
        hasty = self._too_fast(unit)
        if hasty:
            self._book.settle(Fate(unit.index, FAILED, FailureClass.RENDERER, hasty))
            self._book.report_due()
        elif plan.shared.template.post:
            self._stage.resting.add(unit.index)
        elif plan.files is not None and fatal_for(self._stage.problems, frame) is None:
            self._book.hand_over(unit)
        following = (
            self._stage.frames.index(frame) + 1 if frame in self._stage.frames else len(self._stage.frames)
        )
        if following >= len(self._stage.frames):
            self._stage.limit_frame(None, 0)
        else:
            self._stage.limit_frame(self._stage.frames[following], 1)
            after = self._held.unit_of(self._stage.frames[following])
            if after is not None:
                self._rendering(after)
                self._progress(after.index, 0.0)

    # -- after it ended --

    def _too_fast(self, unit: Unit) -> str:
        """Why a frame cannot have been rendered in the time it took, "" if it can."""
        least_s = self._book.plan.shared.template.min_run_s
        took_us = self._book.checker.elapsed_us.get(unit.index, 0)
        if least_s <= 0 or took_us >= least_s * 1e6:
            return ""
        return f"it took {took_us / 1e6:.2f} s, and its step says that a frame takes at least {least_s:g} s"

    def _end_of(self, plan: Plan, ended: Ended, invocation: Invocation) -> End:
        code = ended.facts.returncode
        if ended.order is not None and ended.order.failure is not None:
            return End(ended.order.failure, ended.order.reason, crashed=True)
        if ended.facts.lost:
            return End(FailureClass.NODE, "the process supervisor of this node died", crashed=True)
        verdict = plan.shared.renderer.judge(code, self._stage.problems)
        if verdict.failure is FailureClass.RENDERER:
            verdict = invocation.codes.get(code, verdict)
        return End(verdict.failure, verdict.reason, crashed=code != 0)

    def _judge(self, plan: Plan, frames: Sequence[int], end: End, seconds: float, asked_ns: int = 0) -> None:
        """Decides about the units a process left; ``asked_ns`` is when it was told to end, 0 = never."""
        if self._book.checking:
            self._book.report_now()
            self._book.checker.drain()
        units = self._book.unrendered(frames)
        if not units:
            return
        if (
            plan.files is None
            and len(units) == 1
            and end.failure is None
            and not end.crashed
            and not self._stage.problems
        ):
            # A frame of milliseconds, of which nothing is to be said but that it ended well.
            self._share_time(units, seconds)
            self._decide(plan, Fate(units[0].index, DONE), {})
            self._book.report_due()
            return
        left, verified = self._look(plan, units, end)
        if asked_ns and plan.files is not None:
            files, by_ns = plan.files, asked_ns - CLOCK_NS
            late = [index for index, facts in verified.items() if not 0 < files.changed_ns(facts) < by_ns]
            left = ended_by_us(left, late, end.reason)
        self._share_time(units, seconds)
        for fate in fates(left, end, self._stage.problems, outputs=plan.files is not None):
            self._decide(plan, fate, verified)
        self._book.report_due()

    def _decide(self, plan: Plan, fate: Fate, verified: Mapping[int, tuple[FileFacts, ...]]) -> None:
        """Takes a fate: the unit ends, waits for the post command, or goes to the checker."""
        book = self._book
        if fate.outcome != DONE:
            book.settle(fate)
            return
        hasty = "" if self._posted else self._too_fast(self._held.units[fate.index])
        if hasty:
            book.settle(Fate(fate.index, FAILED, FailureClass.RENDERER, hasty))
            return
        if fate.warning:
            book.checker.warnings[fate.index] = fate.warning
        if plan.shared.template.post and not self._posted:
            book.rendered[fate.index] = fate
        elif plan.files is not None:
            with book.desk.lock:
                book.desk.machine.move(self._held.attempt, fate.index, Phase.CHECKING)
            book.desk.verified(self._held, fate.index, verified[fate.index], ask=self._held.asks)
            book.start_checker()
        else:
            book.settle(fate)

    def _look(
        self, plan: Plan, units: Sequence[Unit], end: End
    ) -> tuple[list[Left], dict[int, tuple[FileFacts, ...]]]:
        left, verified = [], {}
        template = plan.shared.template
        for unit in units:
            bad, disk = "", None
            begun = unit.index in self._stage.told or len(units) == 1
            if plan.files is None:
                bad = end.reason if end.failure is not None else ""
            elif fatal_for(self._stage.problems, unit.frame) is None:
                try:
                    verified[unit.index] = plan.files.verify(
                        plan.by_frame[unit.frame],
                        self._held.lease.specs,
                        template.checks,
                        template.movie_frames,
                    )
                except OutputError as error:
                    bad, disk = self._bad_file(plan.files, error)
                except WorkTrouble as trouble:
                    bad, disk = trouble.message, trouble.failure
            left.append(Left(unit.index, unit.frame, begun, bad, disk))
        return left, verified

    def _bad_file(self, files: AttemptFiles, error: OutputError) -> tuple[str, FailureClass | None]:
        """Words and class of a missing or bad file; what became of its disk explains it better."""
        for folder, own in zip(files.folders, files.own_folders, strict=True):
            if is_full(folder):
                return f"the disk of {folder} is full; {error}", FailureClass.PATH
            if not os.path.isdir(own):  # noqa: PTH112
                return f"the folder {folder} was removed while the work was done; {error}", FailureClass.PATH
        if self._stage.scratch and is_full(self._stage.scratch):
            return f"this node's own disk ({self._stage.scratch}) is full; {error}", FailureClass.NODE
        return str(error), None

    def _share_time(self, units: Sequence[Unit], seconds: float) -> None:
        """Wall time of units whose program told no times: what is left of the process, evenly."""
        times = self._book.checker.elapsed_us
        silent = [unit for unit in units if unit.index not in times]
        if not silent:
            return
        known = 0
        if len(self._stage.frames) > 1:
            ours = [self._held.unit_of(frame) for frame in self._stage.frames]
            known = sum(times.get(unit.index, 0) for unit in ours if unit is not None)
        rest = max(0, int(seconds * 1e6) - known)
        for unit in silent:
            times[unit.index] = rest // len(silent)

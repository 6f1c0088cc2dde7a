"""Renders one attempt: its processes, one after another, and what their ends mean for its units.

What belongs here: invocations, the events their lines tell, times per frame, what is taken back meanwhile,
and the judgement of what a process left.  What it may not know: sessions, and how an attempt begins and
closes.

Longer than other files of the house: all of it turns round the one process that runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from farm.model.errors import OutputError
from farm.model.frames import FrameRange
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
    LogParser,
    Problem,
    Progress,
)
from farm.renderers.command import CommandLogParser, chunk_argv, judge_command
from node_agent.claims import Claims
from node_agent.environ import clean_environment
from node_agent.judge import WHOLE, End, Fate, Left, fatal_for, fates
from node_agent.ledger import Ledger
from node_agent.machine import Phase, Unit
from node_agent.outputs import AttemptFiles
from node_agent.plan import Plan
from node_agent.process import Ended, Order, Process, collect, prepare_scratch
from node_agent.silence import Listener
from node_agent.troubles import WorkTrouble, destination_trouble, is_full


class FrameLate(Order, frozen=True):
    """One frame ran longer than its step allows a frame; the others may still be rendered."""


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
        self._scratch = scratch
        self._problems: list[Problem] = []
        self._process: Process | None = None
        self._order: Order | None = None
        # Of the process that runs: when each frame began, when the last one ended, which were told of.
        self._began: dict[int, float] = {}
        self._last_end = 0.0
        self._told: set[int] = set()
        self._frames: tuple[int, ...] = ()
        self._hurried = False
        #: Through which frames of the process that runs can be taken back, None if it cannot leave one out.
        self._claims: Claims | None = None
        #: Why it is ended once the frame it is at is complete, "" if it is not.
        self._cut = ""
        #: Frames it said are complete, while a post command still has to run.
        self._resting: set[int] = set()
        self._posted = False
        # Touched by the keeper's thread only.
        self._folders: tuple[str, ...] = ()
        self._listener = Listener(book.held.lease.silent_s)

    # -- called from other threads --

    @property
    def pid(self) -> int:
        """First process of the tree that runs now, 0 if none does."""
        process = self._process
        return process.pid if process is not None else 0

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
        folders = (self._scratch, *self._folders)
        reason = self._listener.listen(process, process.printed, folders, pids)
        if reason and self._process is process:
            self.order(Order(FailureClass.SILENT, reason))

    # -- the processes --

    def run(self, plan: Plan) -> None:
        """Renders all units.

        Raises:
            WorkTrouble: It cannot go on; units without an outcome fail by it.
        """
        self._book.shop.planner.check_inputs(plan)
        if plan.files is not None:
            plan.files.make_folders()
            self._folders = plan.files.own_folders
        timeout_s = plan.shared.template.timeout_s
        deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else None
        try:
            if plan.shared.template.pre:
                end = self._command(plan, "pre", self._held.lease.frames, deadline_s)
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
        context = plan.context(self._scratch, self._held.lease.frames)
        invocations = list(plan.shared.renderer.invocations(context))
        for number, invocation in enumerate(invocations):
            last = number == len(invocations) - 1
            self._take_back()
            if self._held.stop or not self._wanted(invocation.frames):
                continue
            if not self._one(plan, context, invocation, deadline_s, last=last):
                return
        if not self._held.stop:
            for unit in self._book.unrendered():
                words = f"{plan.shared.renderer.name} started no program for it"
                self._book.settle(Fate(unit.index, FAILED, FailureClass.CONFIG, words))

    def _command(self, plan: Plan, which: str, frames: tuple[int, ...], deadline_s: float | None) -> End:
        """Runs the step's ``pre`` or ``post`` command for these frames; says how it ended."""
        arguments: tuple[str, ...] = getattr(plan.shared.template, which)
        words = f"the {which} command {arguments[0]}"
        self._book.note(f"---- {which} command ----")
        invocation = Invocation(argv=chunk_argv(arguments, plan.context(self._scratch, frames), which))
        self._reset(())
        try:
            ended = self._execute(
                plan, invocation, CommandLogParser(None), self._on_command_event, deadline_s, frames
            )
        except WorkTrouble as trouble:
            raise WorkTrouble(trouble.failure, f"{words} cannot be started: {trouble.message}") from trouble
        self._book.note(f"---- {which} command ended with exit code {ended.facts.returncode} ----")
        if ended.order is not None:
            reason = f"{words}: {ended.order.reason}" if ended.order.failure is not None else ""
            return End(ended.order.failure, reason)
        if ended.facts.lost:
            return End(FailureClass.NODE, "the process supervisor of this node died")
        verdict = judge_command(words, ended.facts.returncode, self._problems)
        reason = verdict.reason if words in verdict.reason else f"{words}: {verdict.reason}"
        return End(verdict.failure, reason)

    def _finish(self, plan: Plan, deadline_s: float | None) -> None:
        """Runs the post command for what was rendered, and judges the files as it left them."""
        rendered, self._book.rendered = self._book.rendered, {}
        self._posted = True
        self._take_back()
        units = [unit for unit in self._held.open_units() if unit.index in rendered]
        if not units or self._held.stop:
            return
        frames = tuple(unit.frame for unit in units if unit.frame is not None)
        end = self._command(plan, "post", frames, deadline_s)
        if self._held.stop:
            return
        if end.failure is not None:
            for unit in units:
                self._book.settle(Fate(unit.index, FAILED, end.failure, end.reason))
        elif plan.files is None:
            for unit in units:
                self._book.settle(rendered[unit.index])
        else:
            self._problems = []
            self._judge(plan, frames, End(None, end.reason), 0.0)

    def _reset(self, frames: tuple[int, ...]) -> None:
        self._problems = []
        self._began.clear()
        self._told.clear()
        self._resting.clear()
        self._frames = frames
        self._claims = None
        self._cut = ""
        self._order = None
        self._hurried = False

    def _execute(
        self,
        plan: Plan,
        invocation: Invocation,
        parser: LogParser,
        on_event: Callable[[LogEvent], None],
        deadline_s: float | None,
        frames: Sequence[int],
    ) -> Ended:
        """Runs one process to its end."""
        prepare_scratch(self._scratch, invocation)
        if invocation.claims:
            self._claims = Claims(os.path.join(self._scratch, invocation.claims))  # noqa: PTH118
        process = self._process = Process(
            self._book.shop.spawner,
            self._book.spool,
            parser,
            wake_fd=self._book.signals.fd,
            clear_wake=self._book.signals.clear,
            on_event=on_event,
            check=self._check_order,
            poke=lambda: self._book.desk.poke(self._held.attempt),
            grace_s=self._book.shop.kill_grace_s,
        )
        self._last_end = time.monotonic()
        if self._frames or not self._held.lease.frames:
            self._limit_frame(self._frames[0] if len(self._frames) == 1 else None, len(self._frames) or 1)
        try:
            cwd, env = self._cwd(plan), self._env(plan, invocation, frames)
            ended = process.run(invocation, env, cwd, plan.label, deadline_s)
        finally:
            self._process = None
        ram_mib = ended.facts.max_rss_kib // 1024
        checker = self._book.checker
        checker.ram_mib = max(checker.ram_mib, ram_mib)
        self._book.note(
            f"ended with exit code {ended.facts.returncode} after {ended.seconds:.3f} s, "
            f"{ram_mib} MiB, {ended.facts.user_s + ended.facts.sys_s:.2f} s of CPU"
        )
        return ended

    def _limit_frame(self, frame: int | None, count: int) -> None:
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
        self._reset(invocation.frames)
        first = self._held.unit_of(invocation.frames[0] if invocation.frames else None)
        if first is not None:
            self._rendering(first)
        ended = self._execute(
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
        if ended.facts.returncode == 0 and invocation.collect and plan.files is not None:
            try:
                collect(self._scratch, invocation, plan.files.own_folders)
            except OSError as error:
                raise destination_trouble(error, plan.files.folders[0], "cannot write to") from error
        if ended.order is not None and ended.order.failure is None:
            self._after_order(plan, invocation, ended)
            return True
        if end.failure is None and not invocation.frames and not last:
            return True
        self._judge(plan, invocation.frames, end, ended.seconds)
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
        if self._hurried and not self._cut:
            if self._held.open_units():
                self._judge(plan, invocation.frames, End(None, reason, crashed=True), ended.seconds)
            else:
                self._warn_last(invocation, reason)
            return
        if self._cut:
            self._book.note(
                f"ended after a frame, since it cannot leave frames out; its start was spent: {reason}"
            )
            for unit in self._book.unrendered(invocation.frames):
                self._book.settle(Fate(unit.index, RELEASED, "", unit.wish or reason))
            self._book.report_decided()

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

    def _cwd(self, plan: Plan) -> str:
        template = plan.shared.template
        if not template.cwd:
            return self._scratch
        folder = plan.site.mapper.map(template.cwd)
        if not Path(folder).is_dir():
            raise WorkTrouble(FailureClass.PATH, f"the working folder {folder} does not exist on this node")
        return folder

    def _env(self, plan: Plan, invocation: Invocation, chosen: Sequence[int]) -> dict[str, str]:
        template, lease = plan.shared.template, plan.lease
        wanted = chosen or lease.frames
        frames = (
            str(wanted[0] if len(wanted) == 1 else FrameRange.from_frames(wanted)) if lease.frames else ""
        )
        return clean_environment(
            cores=lease.resources.cores,
            gpus=lease.gpus,
            scratch=self._scratch,
            facts={
                "JOB": f"J{template.job}",
                "STEP": template.step,
                "ATTEMPT": plan.label,
                "FRAMES": frames,
                "PROJECT": template.project,
                "USER": template.user,
                "CORES": str(max(1, lease.resources.cores)),
            },
            step_env={**self._book.shop.env, **template.env, **invocation.env},
            own=self._book.shop.own_env,
        )

    # -- while one runs --

    def _check_order(self) -> Order | None:
        """Asked after every wake: must the process end?"""
        self._take_back()
        if self._held.stop:
            return Order(None, self._held.stop)
        if self._order is not None:
            return self._order
        if self._cut and not self._busy():
            return Order(None, self._cut)
        if self._process is not None and not self._hurried and self._all_told():
            self._hurried = True
            words = f"it did not end within {self._book.shop.exit_grace_s:g} s after its work was done"
            self._process.limit(time.monotonic() + self._book.shop.exit_grace_s, Order(None, words))
        if self._book.taken and not self._wanted(self._frames):
            return Order(None, "nothing it renders is wanted any more")
        return None

    def _all_told(self) -> bool:
        """Whether the process has nothing left to do but to end."""
        rendered = self._book.rendered
        return all(unit.index in self._resting or unit.index in rendered for unit in self._held.open_units())

    def _busy(self) -> bool:
        """Whether the process is at a frame that it began before it was to be ended."""
        return any(
            unit.phase in (Phase.RENDERING, Phase.CHECKING) and unit.index not in self._resting
            for unit in self._held.open_units()
            if unit.frame in self._frames and unit.index not in self._book.rendered
        )

    def _take_back(self) -> None:
        """Gives back what the broker does not want, and what it would like back and has not begun."""
        held = self._held
        if held.asked:
            held.asked = False
            for unit in list(held.units.values()):
                if unit.wish or unit.dropped:
                    self._answer(unit)
        self._book.take_dropped()

    def _answer(self, unit: Unit) -> None:
        ours = self._process is not None and unit.frame is not None and unit.frame in self._frames
        begun = unit.phase is not Phase.WAITING
        if ours and not begun and self._claims is not None and unit.frame is not None:
            begun = not self._claims.take(unit.frame)
        elif ours and not begun and unit.wish:
            self._cut = unit.wish
            return
        if unit.wish:
            desk = self._book.desk
            with desk.lock:
                desk.machine.take_back(self._held.attempt, unit.index, begun=begun)

    def _wanted(self, frames: Sequence[int]) -> bool:
        """Whether something is left to be rendered among these frames (none named: at all)."""
        wanted = set(frames)
        return any(
            unit.phase <= Phase.CHECKING and (not wanted or unit.frame in wanted)
            for unit in self._held.open_units()
        )

    def _rendering(self, unit: Unit) -> None:
        if self._cut:
            return
        with self._book.desk.lock:
            if unit.phase is Phase.WAITING:
                self._book.desk.machine.move(self._held.attempt, unit.index, Phase.RENDERING)

    def _on_command_event(self, event: LogEvent) -> None:
        if isinstance(event, Problem):
            self._problems.append(event)
            self._book.note(f"{'warning' if event.warning else event.failure}: {event.text}")

    def _on_event(self, plan: Plan, event: LogEvent) -> None:
        if isinstance(event, Problem):
            self._on_command_event(event)
        elif isinstance(event, FrameStarted):
            self._began[event.frame] = time.monotonic()
            self._limit_frame(event.frame, 1)
            unit = self._held.unit_of(event.frame)
            if unit is not None:
                self._told.add(unit.index)
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
        if unit is None:
            return
        now = time.monotonic()
        begun = self._began.get(frame, self._last_end)
        self._last_end = now
        self._book.checker.elapsed_us[unit.index] = int((now - begun) * 1e6)
        self._told.add(unit.index)
        hasty = self._too_fast(unit)
        if hasty:
            self._book.settle(Fate(unit.index, FAILED, FailureClass.RENDERER, hasty))
            self._book.report_decided()
        elif plan.shared.template.post:
            self._resting.add(unit.index)
        elif plan.files is not None and fatal_for(self._problems, frame) is None:
            self._book.hand_over(unit)
        following = self._frames.index(frame) + 1 if frame in self._frames else len(self._frames)
        if following >= len(self._frames):
            self._limit_frame(None, 0)
        else:
            self._limit_frame(self._frames[following], 1)
            after = self._held.unit_of(self._frames[following])
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
        verdict = plan.shared.renderer.judge(code, self._problems)
        if verdict.failure is FailureClass.RENDERER:
            verdict = invocation.codes.get(code, verdict)
        return End(verdict.failure, verdict.reason, crashed=code != 0)

    def _judge(self, plan: Plan, frames: Sequence[int], end: End, seconds: float) -> None:
        """Decides about the units a process left."""
        checker = self._book.checker
        if self._book.checking:
            checker.drain()
        units = self._book.unrendered(frames)
        if not units:
            return
        left, verified = self._look(plan, units, end)
        self._share_time(units, seconds)
        for fate in fates(left, end, self._problems, outputs=plan.files is not None):
            if fate.outcome == DONE and not self._posted:
                hasty = self._too_fast(self._held.units[fate.index])
                if hasty:
                    self._book.settle(Fate(fate.index, FAILED, FailureClass.RENDERER, hasty))
                    continue
            if fate.outcome == DONE and fate.warning:
                checker.warnings[fate.index] = fate.warning
            if fate.outcome == DONE and plan.shared.template.post and not self._posted:
                self._book.rendered[fate.index] = fate
            elif fate.outcome == DONE and plan.files is not None:
                with self._book.desk.lock:
                    self._book.desk.machine.move(self._held.attempt, fate.index, Phase.CHECKING)
                self._book.desk.verified(self._held, fate.index, verified[fate.index], ask=self._held.asks)
                self._book.start_checker()
            else:
                self._book.settle(fate)
        self._book.report_decided()

    def _look(
        self, plan: Plan, units: Sequence[Unit], end: End
    ) -> tuple[list[Left], dict[int, tuple[FileFacts, ...]]]:
        left, verified = [], {}
        template = plan.shared.template
        for unit in units:
            bad, disk = "", None
            begun = unit.index in self._told or len(units) == 1
            if plan.files is None:
                bad = end.reason if end.failure is not None else ""
            elif fatal_for(self._problems, unit.frame) is None:
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
        if self._scratch and is_full(self._scratch):
            return f"this node's own disk ({self._scratch}) is full; {error}", FailureClass.NODE
        return str(error), None

    def _share_time(self, units: Sequence[Unit], seconds: float) -> None:
        """Wall time of units whose program told no times: what is left of the process, evenly."""
        times = self._book.checker.elapsed_us
        silent = [unit for unit in units if unit.index not in times]
        if not silent:
            return
        known = sum(us for index, us in times.items() if self._held.units[index].frame in self._frames)
        rest = max(0, int(seconds * 1e6) - known)
        for unit in silent:
            times[unit.index] = rest // len(silent)

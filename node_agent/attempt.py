"""Runs one attempt from its lease to its closing report: the body of a worker thread.

What belongs here: the order of things within an attempt.  What it may not know: sockets and sessions; the
desk stands between.

    plan -> write down that it began -> make folders -> invocations, one process after another
         -> (the checker verifies and publishes beside them) -> judge what is left -> remove folders -> close

Whatever happens, the attempt is closed exactly once, after its process tree is gone.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from farm.model.errors import OutputError, OvercrankError, StorageError
from farm.model.frames import FrameRange
from farm.model.nodes import AttemptProgress
from farm.model.outputs import FileFacts
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass
from farm.renderers.base import (
    ChunkContext,
    FrameFinished,
    FrameStarted,
    Invocation,
    LogEvent,
    Problem,
    Progress,
)
from node_agent.checker import Checker
from node_agent.desk import Desk, find_kept
from node_agent.environ import clean_environment
from node_agent.judge import WHOLE, End, Fate, Left, fatal_for, fates
from node_agent.logs import LogSpool
from node_agent.machine import Held, Phase, Unit
from node_agent.outbox import Begun
from node_agent.outputs import AttemptFiles, remove_folder
from node_agent.plan import Plan, Planner
from node_agent.process import Ended, Order, Process, Spawner, collect, prepare_scratch
from node_agent.troubles import WorkTrouble, destination_trouble, is_full, own_trouble

log = logging.getLogger("overcrank.agent")


class Workshop(msgspec.Struct, kw_only=True):
    """What all attempts of an agent share.

    Attributes:
        desk: Where threads meet.
        planner: Makes plans.
        spawner: Starts processes.
        scratch_root: Folder under which each attempt gets its scratch folder (plain ASCII, no blanks).
        open_log: Makes the log of an attempt: job, step, attempt number, attempt id.
        log_ended: Called when an attempt's log is complete.
        previews: Called with the published files of units, by index, after the closing report.
        start_thread: Runs a function in a thread that is used again.
        kill_grace_s: SIGTERM to SIGKILL; the broker's welcome sets it.
        exit_grace_s: How long a program may take to end once all its units are done.
        env: Variables of the administrator for every process.
    """

    desk: Desk
    planner: Planner
    spawner: Spawner
    scratch_root: str
    open_log: Callable[[int, str, int, int], LogSpool]
    log_ended: Callable[[int], None]
    start_thread: Callable[[Callable[[], None]], Any]
    previews: Callable[[Plan, Mapping[int, tuple[FileFacts, ...]]], None] = lambda _plan, _published: None
    kill_grace_s: float = 15.0
    exit_grace_s: float = 60.0
    env: Mapping[str, str] = {}


class Attempt:
    """One attempt in its thread.

    Attributes:
        held: What the machine knows of it.
        label: ``J12/beauty@7``, once planned.
    """

    def __init__(self, workshop: Workshop, held: Held) -> None:
        self.held = held
        self.label = f"attempt {held.attempt}"
        self._shop = workshop
        self._desk = workshop.desk
        self._signals = workshop.desk.signals(held.attempt)
        self._plan: Plan | None = None
        self._spool: LogSpool | None = None
        self._checker: Checker | None = None
        self._checking = False
        self._scratch = ""
        self._problems: list[Problem] = []
        self._process: Process | None = None
        self._order: Order | None = None
        self._pending: list[UnitReport] = []
        # Times of the process that runs: when each frame began, when the last one ended.
        self._began: dict[int, float] = {}
        self._last_end = 0.0
        self._told: set[int] = set()
        self._frames: tuple[int, ...] = ()
        # Units were taken back; the program was told that its work is done and it should end.
        self._taken = False
        self._hurried = False

    # -- called from other threads --

    @property
    def pid(self) -> int:
        """First process of the tree that runs now, 0 if none does."""
        process = self._process
        return process.pid if process is not None else 0

    @property
    def request_mib(self) -> int:
        """Memory of the lease."""
        return self.held.lease.resources.ram_mib

    def used_memory(self, mib: int) -> None:
        """What the process tree uses now; the peak is reported."""
        if self._checker is not None:
            self._checker.ram_mib = max(self._checker.ram_mib, mib)

    def order(self, order: Order) -> None:
        """Ends the process that runs now, e.g. because memory runs out."""
        if self._order is None:
            self._order = order
            self._desk.poke(self.held.attempt)

    # -- the thread --

    def run(self) -> None:
        """Runs the attempt to its close; never raises."""
        try:
            self._run()
        except WorkTrouble as trouble:
            self._fail_open(trouble.failure, trouble.message)
        except StorageError as error:
            self._fail_open(FailureClass.NODE, str(error))
        except OvercrankError as error:
            self._fail_open(FailureClass.CONFIG, str(error))
        except Exception as error:
            log.exception("event=attempt-error attempt=%s", self.label)
            self._fail_open(FailureClass.NODE, f"the agent failed: {type(error).__name__}: {error}")
        finally:
            try:
                self._close()
            except Exception:
                log.exception("event=close-error attempt=%s", self.label)

    def _run(self) -> None:
        lease, desk = self.held.lease, self._desk
        if self.held.stop:
            return
        plan = self._plan = self._shop.planner.plan(lease)
        template = plan.shared.template
        self.label = plan.label
        files = plan.files
        folders = files.own_folders if files is not None and lease.kind != AttemptKind.VERIFY else ()
        trouble = desk.begin(
            Begun(lease.attempt, lease.nonce, template.job, template.step, lease.no, lease.units, folders)
        )
        self._spool = self._shop.open_log(template.job, template.step, lease.no, lease.attempt)
        self._checker = Checker(desk, self.held, plan, self._note)
        self._note(
            f"{plan.label} renderer={template.renderer} {_frames_words(lease.frames)} "
            f"cores={lease.resources.cores} ram_mib={lease.resources.ram_mib} gpus={list(lease.gpus)}"
        )
        if trouble:
            raise WorkTrouble(FailureClass.NODE, trouble)
        if lease.kind == AttemptKind.VERIFY:
            self._look_at_files()
        elif lease.kind == AttemptKind.ADOPT:
            self._adopt(plan)
        else:
            self._render(plan)
        self._await_units()

    def _note(self, text: str) -> None:
        if self._spool is not None:
            self._spool.note(text)

    # -- kinds of attempts --

    def _look_at_files(self) -> None:
        if self._plan is None or self._plan.files is None:
            raise WorkTrouble(FailureClass.CONFIG, "the step writes no files that could be verified")
        for unit in self.held.open_units():
            self._hand_over(unit)

    def _adopt(self, plan: Plan) -> None:
        lease = self.held.lease
        if plan.files is None:
            raise WorkTrouble(FailureClass.CONFIG, "the step writes no files that could be adopted")
        begun = find_kept(self._desk.outbox, lease)
        plan.files.make_folders()
        for unit in self.held.open_units():
            try:
                plan.files.adopt(lease.adopt_folder, plan.by_frame[unit.frame])
            except OutputError as error:
                self._settle(Fate(unit.index, FAILED, FailureClass.LOST, str(error)))
                continue
            self._hand_over(unit)
        if begun is not None:
            left = tuple(index for index in begun.kept if index not in lease.units)
            if left:
                self._desk.keep(msgspec.structs.replace(begun, kept=left))
            else:
                discard(self._desk, [begun.attempt])

    def _render(self, plan: Plan) -> None:
        lease, shop = self.held.lease, self._shop
        shop.planner.check_inputs(plan)
        scratch = self._scratch = os.path.join(shop.scratch_root, str(lease.attempt))  # noqa: PTH118
        try:
            os.makedirs(scratch, mode=0o700, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise own_trouble(error, scratch, "cannot make the folder") from error
        if plan.files is not None:
            plan.files.make_folders()
        context = plan.context(scratch, lease.frames)
        invocations = list(plan.shared.renderer.invocations(context))
        timeout_s = plan.shared.template.timeout_s
        deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else None
        for number, invocation in enumerate(invocations):
            last = number == len(invocations) - 1
            self._take_dropped()
            if self.held.stop or not self._wanted(invocation.frames):
                continue
            if not self._one(plan, context, invocation, deadline_s, last=last):
                return
        if not self.held.stop:
            for unit in self._units_of(()):
                words = f"{plan.shared.renderer.name} started no program for it"
                self._settle(Fate(unit.index, FAILED, FailureClass.CONFIG, words))

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
        self._problems = []
        self._began.clear()
        self._told.clear()
        self._frames = invocation.frames
        self._order = None
        prepare_scratch(self._scratch, invocation)
        process = self._process = Process(
            self._shop.spawner,
            self._spool_now(),
            renderer.parser(context, invocation),
            wake_fd=self._signals.fd,
            clear_wake=self._signals.clear,
            on_event=lambda event: self._on_event(plan, event),
            check=self._check_order,
            poke=lambda: self._desk.poke(self.held.attempt),
            grace_s=self._shop.kill_grace_s,
        )
        self._last_end = time.monotonic()
        first = self.held.unit_of(invocation.frames[0] if invocation.frames else None)
        if first is not None:
            self._rendering(first)
        cwd = self._cwd(plan)
        ended = process.run(invocation, self._env(plan, invocation), cwd, plan.label, deadline_s)
        self._process = None
        ram_mib = ended.facts.max_rss_kib // 1024
        self.used_memory(ram_mib)
        if self._spool is not None:
            self._spool.note(
                f"ended with exit code {ended.facts.returncode} after {ended.seconds:.3f} s, "
                f"{ram_mib} MiB, {ended.facts.user_s + ended.facts.sys_s:.2f} s of CPU"
            )
        end = self._end_of(plan, ended)
        if self.held.stop:
            return False
        if ended.facts.returncode == 0 and invocation.collect and plan.files is not None:
            try:
                collect(self._scratch, invocation, plan.files.own_folders)
            except OSError as error:
                raise destination_trouble(error, plan.files.folders[0], "cannot write to") from error
        if ended.order is not None and ended.order.failure is None:
            if not self.held.open_units():
                self._warn_last(invocation, ended.order.reason)
            return True
        if end.failure is None and not invocation.frames and not last:
            return True
        self._judge(plan, invocation.frames, end, ended.seconds)
        if end.crashed:
            self._warn_last(invocation, end.reason)
        if end.failure is None:
            return True
        if end.failure in WHOLE or not invocation.frames:
            self._fail_open(end.failure, end.reason)
            return False
        if end.failure is FailureClass.TIMEOUT:
            for unit in self._units_of(()):
                self._settle(Fate(unit.index, RELEASED, "", f"not begun: {end.reason}"))
            return False
        return True

    def _warn_last(self, invocation: Invocation, reason: str) -> None:
        """The program ended badly after its last frame was done: that frame's report says so."""
        checker = self._checker
        unit = self.held.unit_of(invocation.frames[-1] if invocation.frames else None)
        if checker is None or unit is None:
            return
        warning = f"the files are good, but {reason}"
        with self._desk.lock:
            checker.warnings.setdefault(unit.index, warning)
            checker.last[:] = [
                msgspec.structs.replace(report, warning=report.warning or warning)
                if report.unit == unit.index and report.outcome == DONE
                else report
                for report in checker.last
            ]

    def _spool_now(self) -> LogSpool:
        assert self._spool is not None
        return self._spool

    def _cwd(self, plan: Plan) -> str:
        template = plan.shared.template
        if not template.cwd:
            return self._scratch
        folder = plan.site.mapper.map(template.cwd)
        if not Path(folder).is_dir():
            raise WorkTrouble(FailureClass.PATH, f"the working folder {folder} does not exist on this node")
        return folder

    def _env(self, plan: Plan, invocation: Invocation) -> dict[str, str]:
        template, lease = plan.shared.template, plan.lease
        frames = str(FrameRange.from_frames(invocation.frames or lease.frames)) if lease.frames else ""
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
            step_env={**self._shop.env, **template.env, **invocation.env},
        )

    # -- while a process runs --

    def _check_order(self) -> Order | None:
        """Asked after every wake: must the process end?"""
        self._take_dropped()
        if self.held.stop:
            return Order(None, self.held.stop)
        if self._order is not None:
            return self._order
        if not self.held.open_units() and self._process is not None and not self._hurried:
            self._hurried = True
            words = f"it did not end within {self._shop.exit_grace_s:g} s after its work was done"
            self._process.limit(time.monotonic() + self._shop.exit_grace_s, Order(None, words))
        if self._taken and not self._wanted(self._frames):
            return Order(None, "nothing it renders is wanted any more")
        return None

    def _wanted(self, frames: Sequence[int]) -> bool:
        """Whether something is left to be rendered among these frames (none named: at all)."""
        wanted = set(frames)
        return any(
            unit.phase <= Phase.CHECKING and (not wanted or unit.frame in wanted)
            for unit in self.held.open_units()
        )

    def _take_dropped(self) -> None:
        reports = self._desk.take_dropped(self.held)
        if reports:
            self._taken = True
            self._note(f"{len(reports)} units were taken back: {reports[0].reason}")
            self._desk.report(self.held, reports)

    def _rendering(self, unit: Unit) -> None:
        with self._desk.lock:
            if unit.phase is Phase.WAITING:
                self._desk.machine.move(self.held.attempt, unit.index, Phase.RENDERING)

    def _on_event(self, plan: Plan, event: LogEvent) -> None:
        if isinstance(event, Problem):
            self._problems.append(event)
            self._note(f"{'warning' if event.warning else event.failure}: {event.text}")
        elif isinstance(event, FrameStarted):
            self._began[event.frame] = time.monotonic()
            unit = self.held.unit_of(event.frame)
            if unit is not None:
                self._told.add(unit.index)
                self._rendering(unit)
                self._progress(unit.index, 0.0)
        elif isinstance(event, Progress):
            unit = self.held.unit_of(event.frame)
            if unit is not None or not self.held.lease.frames:
                self._progress(unit.index if unit is not None else -1, event.fraction)
        elif isinstance(event, FrameFinished):
            self._on_finished(plan, event.frame)

    def _progress(self, index: int, fraction: float) -> None:
        ram_mib = self._checker.ram_mib if self._checker is not None else 0
        self._desk.set_progress(AttemptProgress(self.held.attempt, index, fraction, ram_mib))

    def _on_finished(self, plan: Plan, frame: int) -> None:
        unit = self.held.unit_of(frame)
        if unit is None or self._checker is None:
            return
        now = time.monotonic()
        begun = self._began.get(frame, self._last_end)
        self._last_end = now
        self._checker.elapsed_us[unit.index] = int((now - begun) * 1e6)
        self._told.add(unit.index)
        if plan.files is not None and fatal_for(self._problems, frame) is None:
            self._hand_over(unit)
        following = self._frames.index(frame) + 1 if frame in self._frames else len(self._frames)
        if following < len(self._frames):
            after = self.held.unit_of(self._frames[following])
            if after is not None:
                self._rendering(after)
                self._progress(after.index, 0.0)

    def _hand_over(self, unit: Unit) -> None:
        assert self._checker is not None
        self._checker.check(unit)
        self._start_checker()

    def _start_checker(self) -> None:
        if not self._checking and self._checker is not None:
            self._checking = True
            self._shop.start_thread(self._checker.run)

    # -- after a process --

    def _end_of(self, plan: Plan, ended: Ended) -> End:
        code = ended.facts.returncode
        if ended.order is not None and ended.order.failure is not None:
            return End(ended.order.failure, ended.order.reason, crashed=True)
        if ended.facts.lost:
            return End(FailureClass.NODE, "the process supervisor of this node died", crashed=True)
        verdict = plan.shared.renderer.judge(code, self._problems)
        return End(verdict.failure, verdict.reason, crashed=code != 0)

    def _units_of(self, frames: Sequence[int]) -> list[Unit]:
        """Units without an outcome whose files nobody looks at: those of these frames, () = all."""
        wanted = set(frames)
        return [
            unit
            for unit in self.held.open_units()
            if unit.phase <= Phase.RENDERING and (not wanted or unit.frame in wanted)
        ]

    def _judge(self, plan: Plan, frames: Sequence[int], end: End, seconds: float) -> None:
        """Decides about the units a process left."""
        checker = self._checker
        assert checker is not None
        if self._checking:
            checker.drain()
        units = self._units_of(frames)
        if not units:
            return
        left, verified = self._look(plan, units, end)
        self._share_time(units, seconds)
        for fate in fates(left, end, self._problems, outputs=plan.files is not None):
            if fate.outcome == DONE and plan.files is not None:
                if fate.warning:
                    checker.warnings[fate.index] = fate.warning
                with self._desk.lock:
                    self._desk.machine.move(self.held.attempt, fate.index, Phase.CHECKING)
                ask = self.held.lease.ask
                self._desk.verified(self.held, fate.index, verified[fate.index], ask=ask)
                self._start_checker()
            else:
                self._settle(fate)
        if self._pending and self.held.open_units():
            # What is decided waits for nothing.
            self._desk.report(self.held, self._pending)
            self._pending = []

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
                        self.held.lease.specs,
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
        """Words and class of a missing or bad file; a full disk explains it better than the file."""
        for folder in files.folders:
            if is_full(folder):
                return f"the disk of {folder} is full; {error}", FailureClass.PATH
        if self._scratch and is_full(self._scratch):
            return f"this node's own disk ({self._scratch}) is full; {error}", FailureClass.NODE
        return str(error), None

    def _share_time(self, units: Sequence[Unit], seconds: float) -> None:
        """Wall time of units whose program told no times: what is left of the process, evenly."""
        assert self._checker is not None
        times = self._checker.elapsed_us
        silent = [unit for unit in units if unit.index not in times]
        if not silent:
            return
        known = sum(us for index, us in times.items() if self.held.units[index].frame in self._frames)
        rest = max(0, int(seconds * 1e6) - known)
        for unit in silent:
            times[unit.index] = rest // len(silent)

    def _settle(self, fate: Fate) -> None:
        """Ends a unit; it is reported with the closing report, or with others that end now."""
        if not self._desk.settle(self.held, fate.index):
            return
        checker = self._checker
        self._pending.append(
            UnitReport(
                fate.index,
                fate.outcome,
                fate.failure,
                fate.reason,
                checker.elapsed_us.get(fate.index, 0) if checker is not None else 0,
                (),
                fate.warning,
                checker.ram_mib if checker is not None else 0,
            )
        )
        if fate.outcome == FAILED:
            self._note(f"failed ({fate.failure}): {fate.reason}")

    # -- the end --

    def _await_units(self) -> None:
        """Waits until every unit has an outcome: granted, published, dropped, or the attempt stops."""
        if not self._checking or self._checker is None:
            return
        self._checker.finish()
        if self._pending and self.held.open_units():
            # What is decided must not wait for what needs the broker.
            self._desk.report(self.held, self._pending)
            self._pending = []
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        while True:
            self._take_dropped()
            if self.held.stop or not self.held.open_units():
                return
            poll.poll()
            self._signals.clear()

    def _fail_open(self, failure: FailureClass, reason: str) -> None:
        """Fails every unit that is not verified already."""
        if self.held.stop:
            return
        for unit in self.held.open_units():
            if unit.phase <= Phase.RENDERING:
                self._settle(Fate(unit.index, FAILED, failure, reason))
        try:
            self._await_units()
        except Exception:
            log.exception("event=await-error attempt=%s", self.label)

    def _close(self) -> None:
        """Settles what is left, removes the folders, reports the end."""
        held, checker = self.held, self._checker
        if self._checking and checker is not None:
            checker.finish()
            with self._desk.lock:
                if held.open_units():
                    self._desk.machine.stop_one(held.attempt, "not rendered")
                while not checker.ended:
                    self._signals.changed.wait()
        kept = self._kept()
        reason = held.stop or "not rendered"
        failure = FailureClass.LOST if held.lost else ""
        for unit in held.open_units():
            self._settle(Fate(unit.index, RELEASED, failure, unit.dropped or reason))
        self._clean(kept)
        units = [*self._pending, *(checker.last if checker is not None else ())]
        self._note(_outcome_words(units))
        self._end_log()
        self._desk.close(held, units, tuple(kept))
        if checker is not None and self._plan is not None and not held.stop:
            self._shop.previews(self._plan, checker.published)
        log.info("event=closed attempt=%s stop=%r kept=%d", self.label, held.stop, len(kept))

    def _kept(self) -> dict[int, list[str]]:
        """Final paths of verified files that a lost attempt leaves for adoption, by unit."""
        held, checker = self.held, self._checker
        if not held.lost or checker is None or held.lease.kind == AttemptKind.VERIFY:
            return {}
        return {
            unit.index: [facts.path for facts in unit.files]
            for unit in held.open_units()
            if unit.phase in (Phase.ASKING, Phase.READY)
            and not unit.rejected
            and not checker.partly_published(unit.index)
        }

    def _clean(self, kept: Mapping[int, list[str]]) -> None:
        files = self._plan.files if self._plan is not None else None
        if files is not None:
            if kept:
                files.keep_only(path for paths in kept.values() for path in paths)
            else:
                files.remove()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _end_log(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._shop.log_ended(self.held.attempt)


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


def _frames_words(frames: Sequence[int]) -> str:
    return f"frames={FrameRange.from_frames(frames)}" if frames else "single"


def _outcome_words(units: Sequence[UnitReport]) -> str:
    done, failed, released = (
        sum(1 for unit in units if unit.outcome == outcome) for outcome in (DONE, FAILED, RELEASED)
    )
    return f"closed: the last report has {done} done, {failed} failed, {released} given back"


__all__ = ["Attempt", "Workshop", "discard", "sweep"]

"""Runs one attempt from its lease to its closing report: the body of a worker thread.

What belongs here: the order of things within an attempt.  What it may not know: sockets and sessions; the
desk stands between.

    plan -> write down that it began -> make folders -> invocations, one process after another
         -> (the checker verifies and publishes beside them) -> judge what is left -> remove folders -> close

Whatever happens, the attempt is closed exactly once, after its process tree is gone.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Collection, Mapping, Sequence

import msgspec

from farm.model.errors import OutputError, OvercrankError, StorageError
from farm.model.frames import FrameRange
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass
from node_agent.desk import find_kept
from node_agent.judge import Fate
from node_agent.ledger import Ledger, Workshop, discard
from node_agent.machine import Held, Phase
from node_agent.outbox import Begun
from node_agent.plan import Plan
from node_agent.process import Order
from node_agent.rendering import Rendering
from node_agent.troubles import WorkTrouble, own_trouble

log = logging.getLogger("overcrank.agent")


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
        self._book: Ledger | None = None
        self._rendering: Rendering | None = None
        self._scratch = ""
        # Decided before there were books: it could not even be planned.
        self._early: Fate | None = None

    # -- called from other threads --

    @property
    def pid(self) -> int:
        """First process of the tree that runs now, 0 if none does."""
        return self._rendering.pid if self._rendering is not None else 0

    @property
    def request_mib(self) -> int:
        """Memory of the lease."""
        return self.held.lease.resources.ram_mib

    def used_memory(self, mib: int) -> None:
        """What the process tree uses now; the peak is reported."""
        if self._book is not None:
            self._book.checker.ram_mib = max(self._book.checker.ram_mib, mib)

    @property
    def silent_s(self) -> float:
        """After how long a silence it is ended, 0 = never."""
        return self.held.lease.silent_s

    def listen(self, pids: Collection[int]) -> None:
        """Looks whether the process tree shows any sign of life; ends it when it has not for too long."""
        if self._rendering is not None:
            self._rendering.listen(pids)

    def order(self, order: Order) -> None:
        """Ends the process that runs now, e.g. because memory runs out."""
        if self._rendering is not None:
            self._rendering.order(order)

    # -- the thread --

    def run(self) -> None:
        """Runs the attempt to its close; never raises."""
        try:
            self._run()
        except WorkTrouble as trouble:
            self._fail(trouble.failure, trouble.message)
        except StorageError as error:
            self._fail(FailureClass.NODE, str(error))
        except OvercrankError as error:
            self._fail(FailureClass.CONFIG, str(error))
        except Exception as error:
            log.exception("event=attempt-error attempt=%s", self.label)
            self._fail(FailureClass.NODE, f"the agent failed: {type(error).__name__}: {error}")
        finally:
            try:
                self._close()
            except Exception:
                log.exception("event=close-error attempt=%s", self.label)

    def _run(self) -> None:
        lease, desk = self.held.lease, self._desk
        if self.held.stop:
            return
        plan = self._shop.planner.plan(lease)
        template = plan.shared.template
        self.label = plan.label
        files = plan.files
        folders = files.own_folders if files is not None and lease.kind != AttemptKind.VERIFY else ()
        trouble = desk.begin(
            Begun(lease.attempt, lease.nonce, template.job, template.step, lease.no, lease.units, folders)
        )
        spool = self._shop.open_log(template.job, template.step, lease.no, lease.attempt)
        book = self._book = Ledger(self._shop, self.held, plan, spool)
        book.note(
            f"{plan.label} renderer={template.renderer} {_frames_words(lease.frames)} "
            f"cores={lease.resources.cores} ram_mib={lease.resources.ram_mib} gpus={list(lease.gpus)}"
        )
        if trouble:
            raise WorkTrouble(FailureClass.NODE, trouble)
        if lease.kind == AttemptKind.VERIFY:
            self._look_at_files(book)
        elif lease.kind == AttemptKind.ADOPT:
            self._adopt(book, plan)
        else:
            self._scratch = self._take_scratch()
            self._rendering = Rendering(book, self._scratch)
            self._rendering.run(plan)
        self._await_units(book)

    def _take_scratch(self) -> str:
        try:
            return self._shop.scratch.take()
        except OSError as error:
            raise own_trouble(error, self._shop.scratch.root, "cannot make a folder in") from error

    # -- kinds of attempts without a process --

    def _look_at_files(self, book: Ledger) -> None:
        if book.plan.files is None:
            raise WorkTrouble(FailureClass.CONFIG, "the step writes no files that could be verified")
        for unit in self.held.open_units():
            book.hand_over(unit)

    def _adopt(self, book: Ledger, plan: Plan) -> None:
        lease = self.held.lease
        if plan.files is None:
            raise WorkTrouble(FailureClass.CONFIG, "the step writes no files that could be adopted")
        begun = find_kept(self._desk.outbox, lease)
        plan.files.make_folders()
        for unit in self.held.open_units():
            try:
                plan.files.adopt(lease.adopt_folder, plan.by_frame[unit.frame])
            except OutputError as error:
                book.settle(Fate(unit.index, FAILED, FailureClass.LOST, str(error)))
                continue
            book.hand_over(unit)
        if begun is not None:
            left = tuple(index for index in begun.kept if index not in lease.units)
            if left:
                self._desk.keep(msgspec.structs.replace(begun, kept=left))
            else:
                discard(self._desk, [begun.attempt])

    # -- the end --

    def _await_units(self, book: Ledger) -> None:
        """Waits until every unit has an outcome: granted, published, dropped, or the attempt stops."""
        if not book.checking:
            return
        book.checker.finish()
        book.report_now()
        poll = select.poll()
        poll.register(book.signals.fd, select.POLLIN)
        while True:
            book.take_dropped()
            if self.held.stop or not self.held.open:
                return
            poll.poll()
            book.signals.clear()

    def _fail(self, failure: FailureClass, reason: str) -> None:
        """Fails what is not verified; what is verified is still published."""
        book = self._book
        if book is None:
            self._early = Fate(0, FAILED, failure, reason)
            log.warning("event=not-run attempt=%s failure=%s reason=%s", self.label, failure, reason)
            return
        if self.held.stop:
            return
        book.rendered.clear()
        book.fail_unrendered(failure, reason)
        try:
            self._await_units(book)
        except Exception:
            log.exception("event=await-error attempt=%s", self.label)

    def _close(self) -> None:
        """Settles what is left, removes the folders, reports the end."""
        held, desk, book = self.held, self._desk, self._book
        if book is None:
            desk.close(held, self._settle_all())
            return
        if book.checking:
            book.checker.finish()
            with desk.lock:
                if held.open:
                    desk.machine.stop_one(held.attempt, "not rendered")
                while not book.checker.ended:
                    book.signals.changed.wait()
        kept = self._kept(book)
        failure = FailureClass.LOST if held.lost else ""
        for unit in held.open_units():
            book.settle(Fate(unit.index, RELEASED, failure, unit.dropped or held.stop or "not rendered"))
        self._clean(book, kept)
        units = [*book.pending, *book.checker.last]
        book.note(_outcome_words(units))
        book.spool.close()
        self._shop.log_ended(held.attempt)
        desk.close(held, units, tuple(kept))
        if not held.stop and book.checker.published:
            self._shop.previews(book.plan, book.checker.published)
        log.info("event=closed attempt=%s stop=%r kept=%d", self.label, held.stop, len(kept))

    def _settle_all(self) -> list[UnitReport]:
        """The end of an attempt that never began."""
        units = []
        for unit in self.held.open_units():
            self._desk.settle(self.held, unit.index)
            early = self._early
            if early is not None and not self.held.stop and not unit.dropped:
                units.append(UnitReport(unit.index, FAILED, early.failure, early.reason))
            else:
                reason = unit.dropped or self.held.stop or "not begun"
                units.append(UnitReport(unit.index, RELEASED, "", reason))
        return units

    def _kept(self, book: Ledger) -> dict[int, list[str]]:
        """Final paths of verified files that a lost attempt leaves for adoption, by unit."""
        held = self.held
        # A second copy leaves nothing: the frame it doubled goes on elsewhere.
        if not held.lost or held.foreign or held.lease.kind in (AttemptKind.VERIFY, AttemptKind.COPY):
            return {}
        return {
            unit.index: [facts.path for facts in unit.files]
            for unit in held.open_units()
            if unit.phase in (Phase.ASKING, Phase.READY)
            and not unit.rejected
            and not book.checker.partly_published(unit.index)
        }

    def _clean(self, book: Ledger, kept: Mapping[int, list[str]]) -> None:
        files = book.plan.files
        if files is not None:
            if kept:
                files.keep_only(path for paths in kept.values() for path in paths)
            else:
                files.remove()
        if self._scratch:
            self._shop.scratch.give(self._scratch)


def _frames_words(frames: Sequence[int]) -> str:
    if len(frames) == 1:
        return f"frames={frames[0]}"
    return f"frames={FrameRange.from_frames(frames)}" if frames else "single"


def _outcome_words(units: Sequence[UnitReport]) -> str:
    done, failed, released = (
        sum(1 for unit in units if unit.outcome == outcome) for outcome in (DONE, FAILED, RELEASED)
    )
    return f"closed: the last report has {done} done, {failed} failed, {released} given back"

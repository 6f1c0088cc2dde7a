"""What stands against the draft that is shown, and what it would take: judged here, estimated by the farm.

What belongs here: when a draft is judged and estimated, and dropping what is outdated.  What may not: how it
is shown, and the checks (``judge``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.net.client import FarmClient
from client_gui.store.draft import Draft, Problem, problem_of
from client_gui.views.submit_parts.judge import Verdict, judge
from client_gui.views.submit_parts.tasks import Task, Tasks
from farm.model.errors import Denied, OvercrankError
from farm.model.roles import check_allowed
from farm.protocol.client import EstimateReply, EstimateReq

#: A draft is judged so long after the last key, and estimated so long after it was found right.
_JUDGE_MS: Final = 200
_ESTIMATE_MS: Final = 300


class Trial(QObject):
    """The draft that is shown, on trial.

    Attributes:
        draft: Which, None for none.
        verdict: What this machine says, None as long as it is looking.
        estimate: What the farm says it would take, None before.
        refusal: What the farm says against it, None for nothing.
    """

    #: Something more is known.
    changed = Signal()

    def __init__(self, client: FarmClient, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self.draft: Draft | None = None
        self.verdict: Verdict | None = None
        self.estimate: EstimateReply | None = None
        self.refusal: Problem | None = None
        self._client = client
        self._tasks = tasks
        self._judging: Task | None = None
        self._asked = 0
        #: What the farm says against it was said to the estimate, not to a submit.
        self._guessed = False
        self._soon = self._timer(_JUDGE_MS, self.judge)
        self._later = self._timer(_ESTIMATE_MS, self._ask)

    def _timer(self, after_ms: int, then: Callable[[], object]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(after_ms)
        timer.timeout.connect(then)
        return timer

    def begin(self, draft: Draft | None) -> None:
        """Another draft is shown, or none."""
        self.stop()
        self.draft, self.verdict = draft, None
        self.refuse(draft.refusal if draft is not None else None)
        if draft is not None:
            self.judge()

    def stop(self) -> None:
        """Nobody looks at it."""
        self._soon.stop()
        self._forget()
        if self._judging is not None:
            self._judging.stop()
            self._judging = None

    def edited(self) -> None:
        """The draft was changed: what is known of it holds no more."""
        self.refuse(None)
        self._forget()
        self._soon.start()

    def refuse(self, refusal: Problem | None) -> None:
        """What the farm said when the draft was sent; None for nothing."""
        self.refusal, self._guessed = refusal, False

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What stands against it."""
        found = self.verdict.problems if self.verdict is not None else ()
        return (*found, self.refusal) if self.refusal is not None else found

    @property
    def asking(self) -> bool:
        """Whether the farm was asked and has not answered."""
        return bool(self._asked)

    @property
    def settled(self) -> bool:
        """Whether the verdict is about the draft as it is now."""
        return (
            self.draft is not None
            and self.verdict is not None
            and self.verdict.revision == self.draft.revision
        )

    @property
    def ready(self) -> bool:
        """Whether nothing on this machine stands against it."""
        return self.settled and self.verdict is not None and bool(self.verdict.job)

    # -- judging --

    def judge(self) -> None:
        """Looks at it, beside the window."""
        self._soon.stop()
        if self._judging is not None:
            self._judging.stop()
        draft = self.draft
        if draft is None:
            return
        name, revision, document, farm = draft.id, draft.revision, draft.as_json(), self._client.farm or None
        self._judging = self._tasks.run(
            lambda stopped: None if stopped() else judge(name, revision, document, farm),
            self._judged,
            self._not_judged,
        )

    def _judged(self, verdict: Verdict | None) -> None:
        draft = self.draft
        if verdict is None or draft is None:
            return
        if (draft.id, draft.revision) != (verdict.draft, verdict.revision):
            return
        self.verdict = verdict
        self.changed.emit()
        if verdict.job:
            self._later.start()

    def _not_judged(self, error: OvercrankError) -> None:
        if self.draft is not None:
            problem = Problem((), error.message, error.hint)
            self._judged(Verdict(self.draft.id, self.draft.revision, problems=(problem,)))

    # -- estimating --

    def farm_is_back(self) -> None:
        """The farm can be asked again."""
        if self.ready:
            self._later.start()

    def _forget(self) -> None:
        self._later.stop()
        self.estimate = None
        if self._asked:
            self._client.forget(self._asked)
            self._asked = 0

    def _ask(self) -> None:
        verdict = self.verdict
        self._forget()
        if verdict is None or not self.ready or not self._client.live:
            return

        def answered(reply: EstimateReply) -> None:
            self._asked = 0
            if self.verdict is verdict:
                self.estimate = reply
                if self._guessed:
                    self.refusal, self._guessed = None, False
                self.changed.emit()

        def failed(error: OvercrankError) -> None:
            self._asked = 0
            if self.verdict is verdict and self.draft is not None and self._client.live:
                if self.refusal is None:
                    self.refusal, self._guessed = refusal_of(error, self.draft), True
                self.changed.emit()

        self._asked = self._client.ask(
            EstimateReq, self, answered, failed, reply=EstimateReply, job=verdict.job
        )
        self.changed.emit()


def refusal_of(error: OvercrankError, draft: Draft) -> Problem:
    """What the farm said against a draft, at the place it named."""
    path: Any = getattr(error, "path", "")
    return problem_of(error.message, error.hint, draft.document, path if isinstance(path, str) else "")


def denied(client: FarmClient, draft: Draft) -> str:
    """Why this key may not send a draft, "" when it may."""
    if client.role is None:
        return ""
    owner = draft.document.get("user")
    try:
        check_allowed(client.role, "submit", user=client.user, owner=str(owner) if owner else client.user)
    except Denied as error:
        return str(error)
    return ""

"""Every draft there is, kept on disk, and those that wait for the farm: sent once, when it can be asked.

What belongs here: adding, keeping, closing and sending drafts, for all windows of this client.  What may not:
widgets.

A draft is on disk with its token before it is sent.  When the answer is lost, with the connection or with
this program, it is sent again with the same token, and the farm gives the job it made the first time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import shiboken6
from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from client_gui.desk import Desk
from client_gui.store.activity import Level
from client_gui.store.draft import Draft, Stage, problem_of
from client_gui.views.submit_parts.inputs import Opened
from client_gui.views.submit_parts.shelf import Shelf
from client_gui.views.submit_parts.tasks import Tasks
from client_gui.views.submit_parts.trial import refusal_of
from farm.model.errors import CallError, FarmUnreachable, OvercrankError, PeerError
from farm.model.jobs import read_job
from farm.protocol.client import SubmitReply, SubmitReq
from farm.sdk.jobfile import job_bytes

#: A draft is written so long after the last key.
_SAVE_MS: Final = 400
#: After a failure of the connection it is tried again so much later.
_AGAIN_MS: Final = 5000
_ANSWER_S: Final = 30.0
#: Drafts that were closed and can be had back.
_CLOSED: Final = 10


class Outbox(QObject):
    """The drafts of this user.

    Attributes:
        drafts: In the order they came.
        closed: Those closed last, the last one last.
        loaded: Whether the disk was looked at.
    """

    #: A ``Draft`` is new.
    came = Signal(object)
    #: The stage of a ``Draft`` is another, or the farm said something against it.
    changed = Signal(object)
    #: A ``Draft`` was closed or sent.
    gone = Signal(object)
    #: A ``Draft`` became a job: its number, and the farm's warnings.
    sent = Signal(object, int, tuple)

    def __init__(self, desk: Desk, folder: Path | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.drafts: list[Draft] = []
        self.closed: list[Draft] = []
        self.loaded = False
        self._client, self._notices = desk.client, desk.notices
        self._shelf = Shelf(folder)
        self._tasks = Tasks(1, self)
        self._unsaved: dict[str, Draft] = {}
        self._asked: dict[str, int] = {}
        self._preparing: set[str] = set()
        self._save = QTimer(self)
        self._save.setSingleShot(True)
        self._save.setInterval(_SAVE_MS)
        self._save.timeout.connect(self.save)
        self._again = QTimer(self)
        self._again.setSingleShot(True)
        self._again.setInterval(_AGAIN_MS)
        self._again.timeout.connect(self.pump)
        self._client.welcomed.connect(self.pump)
        self._client.stood.connect(self.pump)
        app = QCoreApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(self.end)
        self._tasks.run(lambda stopped: self._shelf.load(), self._take_shelf, self._say)

    @classmethod
    def of(cls, desk: Desk) -> Outbox:
        """The outbox of this client, made now if there was none; all windows share it."""
        # A window may have been given a stand-in for the client; its methods are the client's own.
        client: QObject = desk.client.drain.__self__  # type: ignore[attr-defined]
        found = client.property("outbox")
        if isinstance(found, cls) and shiboken6.isValid(found):
            return found
        made = cls(desk, parent=client)
        client.setProperty("outbox", made)
        return made

    # -- drafts --

    def add(self, opened: Opened) -> Draft:
        """A draft of what was opened."""
        if opened.document is None:
            raise CallError(f"nothing was opened of {opened.origin}")
        draft = Draft(str(uuid.uuid4()), opened.document, opened.origin, opened.notes)
        self.drafts.append(draft)
        self.keep(draft)
        self.came.emit(draft)
        return draft

    def keep(self, draft: Draft) -> None:
        """It changed: to be written soon."""
        self._unsaved[draft.id] = draft
        self._save.start()

    def save(self) -> None:
        """Writes what changed, beside the window."""
        unsaved, self._unsaved = self._unsaved, {}
        for draft in unsaved.values():
            record = msgspec.json.encode(draft.record())
            self._tasks.run(self._writing(draft.id, record), _nothing, self._say)

    def _writing(self, draft: str, record: bytes) -> Callable[[Any], None]:
        return lambda stopped: self._shelf.write(draft, record)

    def close(self, draft: Draft) -> None:
        """Takes a draft away; it can be had back as long as the client runs."""
        if not draft.editable:
            self.take_back(draft)
        self._forget(draft)
        self.closed = [*self.closed, draft][-_CLOSED:]
        self.gone.emit(draft)

    def reopen(self, draft: Draft) -> None:
        """Has a closed one back."""
        self.closed.remove(draft)
        self.drafts.append(draft)
        self.keep(draft)
        self.came.emit(draft)

    def _forget(self, draft: Draft) -> None:
        self._unsaved.pop(draft.id, None)
        if draft in self.drafts:
            self.drafts.remove(draft)
        name = draft.id
        self._tasks.run(lambda stopped: self._shelf.remove(name), _nothing, self._say)

    def end(self) -> None:
        """The program ends: what is not written yet is."""
        self._save.stop()
        self._again.stop()
        self.save()
        self._tasks.end()

    def _take_shelf(self, found: tuple[Sequence[Draft], Sequence[str]]) -> None:
        drafts, troubles = found
        self.loaded = True
        for trouble in troubles:
            self._notices.say(trouble, Level.WARNING)
        known = {draft.id for draft in self.drafts}
        for draft in drafts:
            if draft.id in known:
                continue
            if draft.stage is Stage.SENDING:  # the answer was lost with the program that waited for it
                draft.stage = Stage.WAITING
            self.drafts.append(draft)
            self.came.emit(draft)
        self.pump()

    # -- sending --

    def submit(self, draft: Draft) -> None:
        """Sends it, now or as soon as the farm can be asked."""
        if not draft.editable:
            return
        draft.seal(str(uuid.uuid4()))
        draft.stage, draft.farm, draft.refusal = Stage.WAITING, self._client.farm, None
        self.keep(draft)
        self.changed.emit(draft)
        if not self._client.live:
            self._notices.say(
                f"{draft.name} is sent when {draft.farm or 'the farm'} is back", about=f"draft:{draft.id}"
            )
        self._again.stop()
        self.pump()

    def take_back(self, draft: Draft) -> None:
        """Does not send it any more; one that may have arrived says so."""
        if draft.editable:
            return
        maybe = draft.id in self._asked
        if maybe:
            self._client.forget(self._asked.pop(draft.id))
        draft.stage = Stage.DRAFT
        if maybe:
            draft.refusal = problem_of(
                "it may have reached the farm already",
                "sent again unchanged it is the same job; changed, it is another one",
                draft.document,
            )
        self.keep(draft)
        self.changed.emit(draft)

    def pump(self) -> None:
        """Sends what waits, if the farm can be asked."""
        if not self._client.live or self._again.isActive():
            return
        for draft in list(self.drafts):
            waits = draft.stage is Stage.WAITING and draft.id not in self._preparing
            if waits and draft.farm in ("", self._client.farm):
                self._prepare(draft)

    def _prepare(self, draft: Draft) -> None:
        """Writes down that it is being sent, then sends it."""
        self._preparing.add(draft.id)
        self._unsaved.pop(draft.id, None)
        name, document, token = draft.id, draft.as_json(), draft.token
        record = msgspec.json.encode(draft.record() | {"stage": Stage.SENDING.value})

        def work(_stopped: Any) -> bytes:
            self._shelf.write(name, record)
            job, _ = read_job(document)
            return job_bytes(msgspec.structs.replace(job, token=token))

        def failed(error: OvercrankError) -> None:
            self._preparing.discard(name)
            if draft.stage is Stage.WAITING:
                self._refused(draft, error)

        self._tasks.run(work, lambda data: self._send(draft, data), failed)

    def _send(self, draft: Draft, data: bytes) -> None:
        self._preparing.discard(draft.id)
        if draft.stage is not Stage.WAITING or draft not in self.drafts:
            return
        draft.stage = Stage.SENDING
        self._asked[draft.id] = self._client.ask(
            SubmitReq,
            self,
            lambda reply: self._taken(draft, reply),
            lambda error: self._failed(draft, error),
            reply=SubmitReply,
            timeout_s=_ANSWER_S,
            job=data,
            force=draft.force,
        )
        self.changed.emit(draft)

    def _taken(self, draft: Draft, reply: SubmitReply) -> None:
        self._asked.pop(draft.id, None)
        self._forget(draft)
        again = " (it was there already)" if reply.again else ""
        self._notices.say(
            f"J{reply.job} is in the queue{again}: {draft.name}", Level.DONE, about=f"J{reply.job}"
        )
        self.gone.emit(draft)
        self.sent.emit(draft, reply.job, reply.warnings)

    def _failed(self, draft: Draft, error: OvercrankError) -> None:
        self._asked.pop(draft.id, None)
        if isinstance(error, (FarmUnreachable, PeerError)):
            draft.stage = Stage.WAITING
            self._again.start()
            self.changed.emit(draft)
            return
        self._refused(draft, error)

    def _refused(self, draft: Draft, error: OvercrankError) -> None:
        draft.stage = Stage.DRAFT
        draft.refusal = refusal_of(error, draft)
        self.keep(draft)
        self._notices.error(error, f"submit {draft.name}")
        self.changed.emit(draft)

    def _say(self, error: OvercrankError) -> None:
        self._notices.error(error, "keep the draft")


def _nothing(_result: Any) -> None:
    """Writing has no result."""

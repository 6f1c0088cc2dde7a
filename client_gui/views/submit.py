"""The Submit dock: drafts of jobs, from files, from other jobs or from nothing, until the farm has them.

What belongs here: which draft is shown, and what the dock's buttons do.  What may not: editors and forms,
opening, judging, drafts on disk and sending; all of them are in ``submit_parts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QHideEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from client_gui.desk import Desk
from client_gui.store.activity import Level
from client_gui.store.draft import Draft, Problem
from client_gui.style.lazily import when_seen
from client_gui.views.base import View
from client_gui.views.submit_parts.footer import Footer, State
from client_gui.views.submit_parts.form import Form
from client_gui.views.submit_parts.inputs import Opened
from client_gui.views.submit_parts.opener import Opener
from client_gui.views.submit_parts.outbox import Outbox
from client_gui.views.submit_parts.page import Page, sheet
from client_gui.views.submit_parts.saving import Saving
from client_gui.views.submit_parts.scenedesk import SceneDesk
from client_gui.views.submit_parts.tabs import DraftTabs
from client_gui.views.submit_parts.tasks import Tasks
from client_gui.views.submit_parts.topbar import SubmitBar
from client_gui.views.submit_parts.trial import Trial, denied
from farm.renderers.base import Renderer


class SubmitView(View):
    """Drafts of jobs.

    Attributes:
        outbox: The drafts, shared with other windows.
        bar: New, open, again, save.
        tabs: One for each draft.
        footer: What stands against the draft, what it would take, and the button.
    """

    name: ClassVar[str] = "submit"
    title: ClassVar[str] = "Submit"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.outbox = Outbox.of(desk)
        self._tasks = Tasks(2, self)
        self._trial = Trial(desk.client, self._tasks, self)
        self._opener = Opener(desk, self._tasks, self)
        self._saving = Saving(desk.notices, self._tasks, self)
        self._scenes = SceneDesk(desk.notices, self._tasks, self)
        self._renderers: dict[str, Renderer] = {}
        self._forms: dict[str, Form] = {}
        self._seen: dict[str, int] = {}
        self._mine: set[str] = set()
        self._wanted: list[str] = []
        self._at_problem = -1
        self._live = desk.client.live
        self._build()
        self.setAcceptDrops(True)
        for signal, slot in (
            (self._trial.changed, self._show_trial),
            (self._opener.opened, self._show_opened),
            (self._opener.busy, self._show_busy),
            (self._saving.saved, self._show_state),
            (self._scenes.changed, self._show_scenes),
            (self._scenes.filled, self._filled),
            (self.outbox.came, self._came),
            (self.outbox.changed, self._changed_stage),
            (self.outbox.gone, self._gone),
            (self.outbox.sent, self._sent),
            (desk.client.welcomed, self._farm_stood),
            (desk.client.stood, self._farm_stood),
            (desk.focus.job_changed, self._name_again),
        ):
            signal.connect(slot)
        when_seen(desk.theme, self, self._restyle)
        self._tasks.run(lambda stopped: _renderers(), self._take_renderers)

    # -- building --

    def _build(self) -> None:
        theme = self.desk.theme
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.bar = SubmitBar(theme, self)
        for wanted, slot in (
            (self.bar.new_wanted, self._show_new),
            (self.bar.open_wanted, self.ask_files),
            (self.bar.again_wanted, self._again_job),
            (self.bar.save_wanted, self.ask_save),
            (self.bar.chosen, self.new),
            (self.bar.reopened, self.reopen),
        ):
            wanted.connect(slot)
        column.addWidget(self.bar)
        self.tabs = DraftTabs(theme, self)
        self.tabs.close_wanted.connect(self.outbox.close)
        self.tabs.currentChanged.connect(self._show_current)
        column.addWidget(self.tabs)
        self.stack = QStackedWidget(self)
        self.page = Page(theme, self)
        self.page.new_wanted.connect(self._show_new_here)
        self.page.open_wanted.connect(self.ask_files)
        self.page.stop_wanted.connect(self._opener.stop)
        self.stack.addWidget(self.page)
        column.addWidget(self.stack, 1)
        self.footer = self._make_footer()
        column.addWidget(self.footer)
        for keys, slot in (
            ("Ctrl+Return", self.submit),
            ("Ctrl+Enter", self.submit),
            ("Ctrl+J", self.next_problem),
            ("Ctrl+O", self.ask_files),
            ("Ctrl+S", self.ask_save),
            ("Ctrl+W", self._close_current),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(slot)
        self.setStyleSheet(sheet(theme))
        self._name_again()
        self._show_state()

    def _make_footer(self) -> Footer:
        footer = Footer(self.desk.theme, self)
        footer.wanted.connect(self.submit)
        footer.next_wanted.connect(self.next_problem)
        footer.copy_wanted.connect(self._copy)
        footer.forced.connect(self._force)
        return footer

    def refresh(self) -> None:
        """Another window may have changed a draft, and files may be others."""
        for draft in self.outbox.drafts:
            if self._seen.get(draft.id, draft.revision) != draft.revision:
                self._drop_form(draft.id)
        self._show_current()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Judges and estimates nothing any more; what was typed is written."""
        super().hideEvent(event)
        self._trial.stop()
        self.outbox.save()

    def _restyle(self) -> None:
        for name in list(self._forms):
            self._drop_form(name)
        for draft in self.outbox.drafts:
            self.tabs.name(draft)
        self.setStyleSheet(sheet(self.desk.theme))
        old, self.footer = self.footer, self._make_footer()
        layout = self.layout()
        if layout is not None:
            layout.replaceWidget(old, self.footer)
        old.hide()
        old.deleteLater()
        self.page.restyle()
        self._show_current()

    def _take_renderers(self, found: dict[str, Renderer]) -> None:
        self._renderers = found
        for draft in self.outbox.drafts:
            self._came(draft)
        wanted, self._wanted = self._wanted, []
        for name in wanted:
            self.new(name)
        self._show_current()

    # -- opening --

    def open_file(self, path: str) -> None:
        """Makes a draft of a file and shows it: a scene, a clip, pictures, a folder of them, a job file."""
        self._opener.paths([path])

    def open_paths(self, paths: Sequence[str]) -> None:
        """Makes drafts of files; looking at them happens beside the window."""
        self._opener.paths(paths)

    def open_job(self, job: int, step: str = "", frames: str = "") -> None:
        """Makes a draft that does a job of the farm again, or a step or some frames of it."""
        self._opener.job(job, step, frames)

    def new(self, renderer: str) -> None:
        """Begins a draft with one step of a renderer."""
        if not self._renderers:
            self._wanted.append(renderer)
            return
        if renderer not in self._renderers:
            self.desk.notices.say(f"there is no renderer {renderer!r} here", Level.WARNING)
            return
        document = {"overcrank_job": 1, "name": "", "app": {"name": "farm gui"}, "steps": []}
        Draft("", document).add_step(self._renderers[renderer])
        self._show_opened([Opened("", document)])

    def ask_files(self) -> None:
        """Lets somebody choose files."""
        self._opener.ask(self)

    def _show_busy(self, words: str) -> None:
        self.page.busy(words)
        self._show_state()

    def _show_opened(self, found: Sequence[Opened]) -> None:
        for opened in found:
            if opened.error is not None:
                self.desk.notices.error(opened.error, f"open {opened.origin}")
                self.page.say(str(opened.error))
                continue
            draft = self.outbox.add(opened)
            self._select(draft)
            form = self._forms.get(draft.id)
            if form is not None:
                form.focus_first()
        self._show_state()

    def _show_new(self) -> None:
        self.bar.show_new(self._renderers, self.outbox.closed, self.bar.new)

    def _show_new_here(self) -> None:
        self.bar.show_new(self._renderers, self.outbox.closed, self.page.new)

    def reopen(self, draft: Draft) -> None:
        """Has a closed draft back."""
        self.outbox.reopen(draft)
        self._select(draft)

    def _again_job(self) -> None:
        if self.desk.focus.job:
            self.open_job(self.desk.focus.job)

    def _name_again(self) -> None:
        self.bar.name_again(self.desk.focus.job, self.desk.client.live)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Files may be dropped."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Makes drafts of what is dropped."""
        paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if paths:
            event.acceptProposedAction()
            self.open_paths(paths)

    # -- which draft is shown --

    def draft(self) -> Draft | None:
        """The draft that is shown."""
        return self._draft_of(self.tabs.shown())

    def form(self) -> Form | None:
        """The form that is shown."""
        draft = self.draft()
        return self._forms.get(draft.id) if draft is not None else None

    def _draft_of(self, name: Any) -> Draft | None:
        return next((one for one in self.outbox.drafts if one.id == name), None)

    def _came(self, draft: Draft) -> None:
        if self.tabs.add(draft) and self.tabs.count() == 1:
            self._show_current()
        self._show_state()

    def _select(self, draft: Draft) -> None:
        self._came(draft)
        self.tabs.setCurrentIndex(self.tabs.place(draft))
        self._show_current()

    def _close_current(self) -> None:
        draft = self.draft()
        if draft is not None:
            self.outbox.close(draft)

    def _gone(self, draft: Draft) -> None:
        self._drop_form(draft.id)
        self.tabs.drop(draft)
        self._show_current()

    def _drop_form(self, name: str) -> None:
        form = self._forms.pop(name, None)
        if form is not None:
            self.stack.removeWidget(form)
            form.hide()
            form.deleteLater()

    def _show_current(self) -> None:
        draft = self.draft()
        self._at_problem = -1
        if draft is None or not self._renderers:
            self._trial.begin(None)
            self.stack.setCurrentWidget(self.page)
            self._show_state()
            return
        form = self._forms.get(draft.id)
        if form is None:
            form = Form(
                draft, self._renderers, self.desk.theme, self.stack, blender=bool(self._scenes.program)
            )
            form.edited.connect(self._edited)
            form.scene_wanted.connect(self._scene_wanted)
            self._forms[draft.id] = form
            self._seen[draft.id] = draft.revision
            self.stack.addWidget(form)
        self._scenes.show(form)
        self.stack.setCurrentWidget(form)
        self._trial.begin(draft if self.on else None)
        self._show_state()

    def _edited(self) -> None:
        draft = self.draft()
        if draft is None:
            return
        self._seen[draft.id] = draft.revision
        self._at_problem = -1  # the next one is the one that is named below the form
        self._trial.edited()
        self.tabs.name(draft)
        self.outbox.keep(draft)
        self._show_state()

    # -- what Blender says of a scene --

    def _scene_wanted(self, step: int, on: bool) -> None:
        draft = self.draft()
        if draft is not None:
            self._scenes.want(draft, step, on)

    def _show_scenes(self) -> None:
        for form in self._forms.values():
            self._scenes.show(form)

    def _filled(self, draft: Draft) -> None:
        form = self._forms.get(draft.id)
        if form is not None:
            form.show_filled()
            self._seen[draft.id] = draft.revision
        self.outbox.keep(draft)
        if draft is self.draft():
            self._trial.edited()
            self._show_state()

    # -- problems --

    def _show_trial(self) -> None:
        self._show_state()
        form = self.form()
        if form is not None and self._trial.settled:
            form.show_problems(self._trial.problems)

    def next_problem(self) -> None:
        """Shows the next problem and gives its field the keys."""
        problems, form = self._trial.problems, self.form()
        for _ in problems if form is not None else ():
            self._at_problem = (self._at_problem + 1) % len(problems)
            if form is not None and form.go(problems[self._at_problem].path):
                return

    # -- sending --

    def submit(self) -> None:
        """Sends the draft, or takes it back while it waits."""
        draft = self.draft()
        if draft is None:
            return
        if not draft.editable:
            self.outbox.take_back(draft)
        elif self.footer.submit.isEnabled():
            self._mine.add(draft.id)
            self._trial.refuse(None)
            # Fields take no keys while it is on its way.
            self.footer.submit.setFocus(Qt.FocusReason.OtherFocusReason)
            self.outbox.submit(draft)
        else:
            self.next_problem()

    def _force(self, on: bool) -> None:
        draft = self.draft()
        if draft is not None and draft.editable:
            draft.force = on
            self.outbox.keep(draft)
            self._show_state()

    def _changed_stage(self, draft: Draft) -> None:
        self.tabs.name(draft)
        if draft is self.draft():
            self._trial.refuse(draft.refusal if draft.editable else None)
            form = self.form()
            if form is not None:
                form.refresh()
            had_keys = self.footer.submit.hasFocus()
            self._show_trial()
            if draft.refusal is not None and had_keys and form is not None:
                self._go_to_refusal(form, draft.refusal)

    def _go_to_refusal(self, form: Form, refusal: Problem) -> None:
        """Gives the keys to what the farm refused, or to what can be done about it."""
        if self.footer.force.isVisibleTo(self):
            self.footer.force.setFocus(Qt.FocusReason.OtherFocusReason)
        elif not form.go(refusal.path):
            form.focus_first()

    def _sent(self, draft: Draft, job: int, warnings: tuple[str, ...]) -> None:
        if draft.id not in self._mine:
            return
        self._mine.discard(draft.id)
        for warning in warnings[:5]:
            self.desk.notices.say(f"J{job}: {warning}", Level.WARNING, about=f"J{job}")
        self.desk.focus.take_job(job)
        self.desk.focus.show("job")

    def _farm_stood(self) -> None:
        if self._live == self.desk.client.live:
            return
        self._live = self.desk.client.live
        self._name_again()
        self._show_state()
        if self._live and self.on:
            self._trial.farm_is_back()

    # -- how it stands --

    def _show_state(self) -> None:
        """Everything below the form, and which buttons mean something."""
        draft, client, trial = self.draft(), self.desk.client, self._trial
        shown = draft is not None and bool(self._renderers)
        self.footer.setVisible(shown)
        self.tabs.setVisible(self.tabs.count() > 0)
        self.bar.enable(new=bool(self._renderers), save=shown)
        if draft is None or not shown:
            self.page.show_idle(loading=not (self._renderers and self.outbox.loaded))
            return
        self.footer.show_state(
            State(
                draft=draft,
                problems=trial.problems,
                settled=trial.settled,
                ready=trial.ready,
                verdict=trial.verdict,
                estimate=trial.estimate,
                asking=trial.asking,
                refusal=trial.refusal,
                denied=denied(client, draft),
                live=client.live,
                farm=client.farm,
                file=self._saving.file_of(draft),
                renderers=self._renderers,
            )
        )

    # -- copying and saving --

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.footer.command.text())
        self.desk.notices.say("the command is on the clipboard")

    def ask_save(self) -> None:
        """Lets somebody choose where the job file goes."""
        draft = self.draft()
        if draft is not None:
            self._saving.ask(draft, self)

    def save_file(self, path: str) -> None:
        """Writes the draft as a job file, as it is."""
        draft = self.draft()
        if draft is not None:
            self._saving.save(draft, path)


def _renderers() -> dict[str, Renderer]:
    from farm.renderers.registry import renderers

    return renderers()

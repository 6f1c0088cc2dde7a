"""Scenes that Blender reads for drafts: asked for by a button, put into what is empty, said beside it.

What belongs here: which step waits for an answer, and what came of it.  What may not: the process
(``sceneread``), and what an answer fills (``store.scenefacts``).
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Signal

from client_gui.notices import Notices
from client_gui.store.draft import Draft
from client_gui.store.scenefacts import SceneFacts, fill_from_scene
from client_gui.views.submit_parts.form import Form
from client_gui.views.submit_parts.sceneread import SceneReader, find_blender
from client_gui.views.submit_parts.tasks import Tasks
from farm.model.errors import OvercrankError
from farm.model.paths import basename_of


class SceneDesk(QObject):
    """Scenes that are read for drafts.

    Attributes:
        program: The Blender of this machine, "" for none or as long as it is looked for.
        reader: The one that runs.
    """

    #: Something else is to be said in forms.
    changed = Signal()
    #: Fields of a ``Draft`` were filled in.
    filled = Signal(object)

    def __init__(self, notices: Notices, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self.program = ""
        self.reader = SceneReader(self)
        self._notices = notices
        self._draft: Draft | None = None
        #: What was said last: by draft and step, words and tone.
        self._said: dict[tuple[str, int], tuple[str, str]] = {}
        #: What was read, by draft and step.
        self._facts: dict[tuple[str, int], SceneFacts] = {}
        self.reader.read.connect(self._read)
        self.reader.failed.connect(self._failed)
        self.reader.changed.connect(self.changed)
        tasks.run(lambda stopped: find_blender(), self._found)

    def _found(self, program: str) -> None:
        self.program = program
        self.changed.emit()

    def want(self, draft: Draft, step: int, on: bool) -> None:
        """Reads the scene of a step, or does not any more."""
        scene = draft.value(("steps", step, "params", "scene"))
        if not on:
            self.reader.stop()
        elif self.program and isinstance(scene, str) and scene:
            self._draft = draft
            self._said[draft.id, step] = (f"Blender reads {basename_of(scene)}…", "dim")
            self.reader.start(self.program, scene, draft.id, step)

    def show(self, form: Form) -> None:
        """Says in a form how it goes, and what the scene has where nothing is filled in."""
        form.offer_blender(bool(self.program))
        draft = form.draft
        for step in range(len(draft.steps)):
            on = (self.reader.draft, self.reader.step) == (draft.id, step)
            words, tone = self._said.get((draft.id, step), ("", "dim"))
            if not on and words.startswith("Blender reads "):
                words = ""
            form.show_reading(step, words, on=on, tone=tone)
            if (facts := self._facts.get((draft.id, step))) is not None:
                form.show_hints(step, facts.hints())

    def _read(self, name: str, step: int, facts: SceneFacts) -> None:
        draft = self._asked(name, step)
        if draft is None:
            return
        filled, notes = fill_from_scene(draft, step, facts)
        done = f"Filled in: {', '.join(filled)}" if filled else "Nothing was empty: nothing is changed"
        self._said[name, step] = ("\n".join([done, *notes]), "dim")
        self._facts[name, step] = facts
        if filled:
            self.filled.emit(draft)
        self.changed.emit()

    def _failed(self, name: str, step: int, error: OvercrankError) -> None:
        if self._asked(name, step) is not None:
            self._said[name, step] = (f"\N{MULTIPLICATION X} {error.message}", "bad")
            self._notices.error(error, "read the scene")
            self.changed.emit()

    def _asked(self, name: str, step: int) -> Any:
        """The draft that asked, None when it is on its way or has no such step any more."""
        draft = self._draft
        fits = draft is not None and draft.id == name and draft.editable and step < len(draft.steps)
        return draft if fits else None

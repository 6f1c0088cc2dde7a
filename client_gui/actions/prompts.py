"""Sheets that ask for a value: a priority, settings of jobs and steps, settings of nodes.

What belongs here: forms, and showing for every job what was and what will be before anything is sent.  What
may not: sending it, and which fields there are (``fields``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QWidget,
)

from client_gui.actions.facts import Facts, JobFacts, NodeFacts, UnitsFacts
from client_gui.actions.fields import (
    OF_JOB,
    OF_NODE,
    OF_STEP,
    job_texts,
    node_problem,
    problem,
    read_spec,
    step_texts,
)
from client_gui.actions.records import LATER_FIELDS
from client_gui.actions.sheet import Sheet
from client_gui.net.client import FarmClient
from client_gui.style.theme import Theme
from farm.model.errors import OvercrankError
from farm.model.jobs import JobSpec
from farm.model.roles import ARTIST_PRIORITY_MAX, PRIORITY_MAX, PRIORITY_MIN, Role
from farm.protocol.client import JobReply, JobReq
from farm.sdk.words import plural

#: Of more jobs than this only what the list knows is shown before.
READ_MOST: Final = 50
#: So many differences are spelled out.
SHOW_MOST: Final = 200
VARIOUS: Final = "various"
_ARROW: Final = "\N{RIGHTWARDS ARROW}"

Befores = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Given:
    """What somebody gave.

    Attributes:
        value: As the action takes it.
        reason: What was said about it.
        force: Whether it is meant also when no node could ever do it.
        before: What the fields had, by address.
    """

    value: str
    reason: str = ""
    force: bool = False
    before: Befores | None = None


class _Prompt(Sheet):
    """A sheet with Apply and Cancel, and what will change."""

    def __init__(
        self, host: QWidget, theme: Theme, title: str, *, wide_em: float = 32, high: float = 0.0
    ) -> None:
        super().__init__(host, theme, title, wide_em=wide_em, high=high)
        self.label(title, bold=True)
        self.preview = QPlainTextEdit()
        self.preview.setReadOnly(True)
        self.preview.setTabChangesFocus(True)
        self.preview.setAccessibleName("What will change")
        self.preview.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.trouble = QLabel("")
        self.trouble.setTextFormat(Qt.TextFormat.PlainText)
        self.trouble.setWordWrap(True)
        colours = self.trouble.palette()
        colours.setColor(self.trouble.foregroundRole(), theme.colour("bad"))
        self.trouble.setPalette(colours)
        self.reason = QLineEdit()
        self.reason.setPlaceholderText("Why (may be left empty)")
        self.reason.setAccessibleName("Why, may be left empty")
        self.reason.setMaxLength(500)
        self.apply = QPushButton("Apply")
        self.apply.clicked.connect(self._apply)
        self.no = QPushButton("Cancel")
        self.no.setAccessibleName("Cancel, change nothing")
        self.no.clicked.connect(lambda: self.close_with(False))

    def _foot(self, lines: int) -> None:
        self.preview.setFixedHeight(self.theme.em(1.25 * lines + 0.8))
        self.column.addWidget(self.preview)
        self.column.addWidget(self.trouble)
        self.column.addWidget(self.reason)
        self.buttons(self.apply, self.no)

    def accepted(self) -> None:
        """Enter goes to Apply, and a second Enter presses it."""
        if self.apply.isEnabled():
            self.apply.setFocus()

    def tell(self, lines: Sequence[str], trouble: str, *, able: bool) -> None:
        """Shows what will change, and what is wrong."""
        shown = list(lines[:SHOW_MOST])
        if len(lines) > SHOW_MOST:
            shown.append(f"and {len(lines) - SHOW_MOST:,} more")
        self.preview.setPlainText("\n".join(shown) or "Nothing changes.")
        self.trouble.setText(trouble)
        self.trouble.setVisible(bool(trouble))
        self.apply.setEnabled(able and not trouble)
        self.fit()

    def given(self) -> Given:
        """What was given."""
        raise NotImplementedError

    def _apply(self) -> None:
        if self.apply.isEnabled():
            given = self.given()
            self.close_with(True)
            self.take(given)

    def take(self, given: Given) -> None:
        """Hands it over."""
        raise NotImplementedError


class PrioritySheet(_Prompt):
    """Asks for a priority.

    Args:
        host: The window.
        theme: The look.
        jobs: Whose.
        role: Of who asks: artists may not set the highest.
        take: Takes what was given.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        jobs: Sequence[JobFacts],
        role: Role | None,
        take: Callable[[Given], None],
    ) -> None:
        title = f"Priority of {jobs[0].address} {jobs[0].name}" if len(jobs) == 1 else None
        super().__init__(host, theme, title or f"Priority of {plural(len(jobs), 'job')}", wide_em=24)
        self._jobs = jobs
        self._take = take
        most = ARTIST_PRIORITY_MAX if role is Role.ARTIST else PRIORITY_MAX
        self.box = QSpinBox()
        self.box.setRange(PRIORITY_MIN, most)
        self.box.setButtonSymbols(QSpinBox.ButtonSymbols.NoButtons)
        self.box.setAccessibleName(f"Priority, {PRIORITY_MIN} to {most}")
        same = {job.priority for job in jobs}
        self.box.setValue(min(most, next(iter(same)) if len(same) == 1 else 50))
        words = f"{PRIORITY_MIN} to {most}, the highest first"
        self.label(words if len(same) == 1 else f"{words}; they are various now", dim=True)
        self.column.addWidget(self.box)
        self._foot(min(6, len(jobs)))
        self.box.valueChanged.connect(self._show)
        self._show()

    def first(self) -> QWidget:
        """The number, ready to be typed over."""
        self.box.selectAll()
        return self.box

    def given(self) -> Given:
        """The number as text."""
        return Given(str(self.box.value()), self.reason.text().strip())

    def take(self, given: Given) -> None:
        """Hands it over."""
        self._take(given)

    def _show(self) -> None:
        new = self.box.value()
        changed = [job for job in self._jobs if job.priority != new]
        lines = [f"{job.address}  {job.name}  {job.priority} {_ARROW} {new}" for job in changed]
        self.tell(lines, "", able=bool(changed))


class FieldSheet(_Prompt):
    """Asks for settings; every field shows what it is, or that it differs, and what will be.

    Args:
        host: The window.
        theme: The look.
        client: The farm, to be asked what the settings are.
        facts: Jobs, steps or nodes.
        role: Of who asks.
        take: Takes what was given.
        away: Whether it waits for the farm: only what may be sent later is there to be set.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        client: FarmClient,
        facts: Sequence[Facts],
        role: Role | None,
        take: Callable[[Given], None],
        away: bool = False,
    ) -> None:
        what = facts[0].address if len(facts) == 1 else f"{len(facts)} {_kind(facts[0])}"
        super().__init__(host, theme, f"Settings of {what}", wide_em=38, high=0.5 if away else 0.78)
        self._client, self._facts, self._role, self._take = client, facts, role, take
        self._away = away
        if away:
            only = " and ".join(LATER_FIELDS)
            self.label(f"While the farm is away {only} can be set: they wait for it.", dim=True)
        self._specs: dict[int, JobSpec] = {}
        self._before: dict[str, dict[str, str]] = {one.address: _known(one) for one in facts}
        self._asked: set[int] = set()
        self._touched: set[str] = set()
        self._edits: dict[str, QLineEdit] = {}
        self._labels: dict[str, QWidget] = {}
        self.search = QLineEdit()
        self.search.setPlaceholderText("Which setting?")
        self.search.setAccessibleName("Which setting: part of its name")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._narrow)
        self.column.addWidget(self.search)
        form = QWidget()
        self._form = QFormLayout(form)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        for name, help_text in self._fields().items():
            edit = QLineEdit()
            edit.setAccessibleName(name)
            edit.setAccessibleDescription(help_text)
            edit.setToolTip(help_text)
            edit.installEventFilter(self)
            edit.textEdited.connect(lambda _text, name=name: self._edited(name))
            label = QLabel(name)
            label.setBuddy(edit)
            label.setToolTip(help_text)
            self._form.addRow(label, edit)
            self._edits[name] = edit
            self._labels[name] = label
        area = QScrollArea()
        area.setWidget(form)
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        form.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)
        self._area = area
        self.column.addWidget(area, 1)
        self.force = QCheckBox("Even if no node of the farm could ever do it then")
        self._foot(5)
        self.column.insertWidget(self.column.count() - 2, self.force)
        # Only now: what has no place yet would be a window of its own for a moment, and take the keys.
        self.force.setVisible(not away and not isinstance(facts[0], NodeFacts))
        self._fill()
        self._ask()
        self._show()

    def first(self) -> QWidget:
        """The name of the field."""
        return self.search

    def accepted(self) -> None:
        """Enter goes from the name to its field, and from a field to Apply."""
        if self.search.hasFocus():
            shown = [edit for edit in self._edits.values() if not edit.isHidden()]
            if shown:
                shown[0].setFocus()
                shown[0].selectAll()
        else:
            super().accepted()

    def given(self) -> Given:
        """The fields that were changed, as a JSON object of texts."""
        values = self._values()
        before = {address: dict(texts) for address, texts in self._before.items()}
        return Given(json.dumps(values), self.reason.text().strip(), self.force.isChecked(), before)

    def take(self, given: Given) -> None:
        """Hands it over."""
        self._take(given)

    def close_with(self, yes: bool) -> None:
        """Closes it; answers that are still out are of no use any more."""
        for number in self._asked:
            self._client.forget(number)
        self._asked.clear()
        super().close_with(yes)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """What has the focus is scrolled to."""
        if event.type() == QEvent.Type.FocusIn and isinstance(watched, QLineEdit):
            self._area.ensureWidgetVisible(watched)
        return super().eventFilter(watched, event)

    # -- inside --

    def _fields(self) -> dict[str, str]:
        first = self._facts[0]
        if isinstance(first, NodeFacts):
            return dict(OF_NODE)
        if isinstance(first, UnitsFacts):
            return dict(OF_STEP)
        if self._away:
            return {name: OF_JOB[name] for name in LATER_FIELDS}
        # Fields of a step can be named with a job only when it has no other.
        single = all(isinstance(one, JobFacts) and one.steps == 1 for one in self._facts)
        return dict(OF_JOB) | (dict(OF_STEP) if single else {})

    def _jobs(self) -> dict[int, list[tuple[str, str]]]:
        """Addresses and step names by job."""
        found: dict[int, list[tuple[str, str]]] = {}
        for one in self._facts:
            if isinstance(one, UnitsFacts):
                found.setdefault(one.units.job, []).append((one.address, one.units.step))
            elif isinstance(one, JobFacts):
                found.setdefault(one.job, []).append((one.address, ""))
        return found

    def _ask(self) -> None:
        jobs = self._jobs()
        if not jobs or len(jobs) > READ_MOST or not self._client.live:
            return
        for job in jobs:
            self._asked.add(
                self._client.ask(
                    JobReq, self, self._answered, self._failed, reply=JobReply, job=job, spec=True
                )
            )

    def _failed(self, error: OvercrankError) -> None:
        self.trouble.setText(f"what the settings are now cannot be read: {error.message}")
        self.trouble.setVisible(True)

    def _answered(self, reply: JobReply) -> None:
        self._asked.discard(reply.id)
        spec = read_spec(reply.spec)
        if spec is None:
            return
        job = reply.job.job
        self._specs[job] = spec
        for address, step in self._jobs().get(job, ()):
            texts = self._before.setdefault(address, {})
            if step:
                texts |= step_texts(spec, step)
            else:
                texts |= {name: text for name, text in job_texts(spec).items() if name not in texts}
                if len(spec.steps) == 1:
                    texts |= step_texts(spec, spec.steps[0].name)
        self._fill()
        self._show()

    def _fill(self) -> None:
        for name, edit in self._edits.items():
            if name in self._touched:
                continue
            texts = [texts.get(name) for texts in self._before.values()]
            known = {text for text in texts if text is not None}
            edit.setText(known.pop() if len(known) == 1 and None not in texts else "")
            edit.setPlaceholderText(VARIOUS if len(known) > 1 else self._fields()[name])

    def _edited(self, name: str) -> None:
        self._touched.add(name)
        self._show()

    def _values(self) -> dict[str, str]:
        return {
            name: self._edits[name].text().strip()
            for name in self._edits
            if name in self._touched
            and any(texts.get(name) != self._edits[name].text().strip() for texts in self._before.values())
        }

    def _show(self) -> None:
        values = self._values()
        lines = []
        for address, texts in self._before.items():
            for name, new in values.items():
                old = texts.get(name)
                if old != new:
                    shown = "?" if old is None else old or "none"
                    lines.append(f"{address}  {name}  {shown} {_ARROW} {new or 'none'}")
        self.tell(lines, self._problem(values) if values else "", able=bool(values))

    def _problem(self, values: dict[str, str]) -> str:
        if isinstance(self._facts[0], NodeFacts):
            return node_problem(values)
        for one in self._facts:
            job, step = (one.units.job, one.units.step) if isinstance(one, UnitsFacts) else (0, "")
            if isinstance(one, JobFacts):
                job = one.job
                spec = self._specs.get(job)
                step = spec.steps[0].name if spec is not None and len(spec.steps) == 1 else ""
            found = problem(values, self._specs.get(job), step, self._role)
            if found:
                return found if len(self._facts) == 1 else f"{one.address}: {found}"
            if job not in self._specs:
                break  # of those that were not read the broker will say
        return ""

    def _narrow(self, text: str) -> None:
        words = text.casefold().split()
        for name, edit in self._edits.items():
            told = f"{name} {self._fields()[name]}".casefold()
            shown = all(word in told for word in words)
            edit.setVisible(shown)
            self._labels[name].setVisible(shown)


def _kind(facts: Facts) -> str:
    return "nodes" if isinstance(facts, NodeFacts) else "steps" if isinstance(facts, UnitsFacts) else "jobs"


def _known(facts: Facts) -> dict[str, str]:
    """What the list tells of the settings."""
    if isinstance(facts, JobFacts):
        return {"name": facts.name, "project": facts.project, "priority": str(facts.priority)}
    if isinstance(facts, NodeFacts):
        return {"slots": str(facts.slots), "schedule": facts.schedule}
    return {}

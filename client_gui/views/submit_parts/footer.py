"""Below the form: what stands against the job, what it would take, the same as a command, and the button.

What belongs here: showing all that in words.  What may not: finding it out (the view and ``judge`` do).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.store.draft import Draft, Path, Problem, Stage, problem_of
from client_gui.store.placewords import place_words
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.judge import Verdict, file_command
from client_gui.views.submit_parts.rows import said, set_tone
from farm.protocol.client import EstimateReply
from farm.renderers.base import Renderer
from farm.sdk.words import duration_text, plural, price_text

#: Warnings shown one by one; more are counted.
_WARNINGS = 4


@dataclass(frozen=True, slots=True)
class State:
    """How a draft stands.

    Attributes:
        draft: Which.
        problems: What stands against it.
        settled: Whether they are about the draft as it is now.
        ready: Whether nothing on this machine stands against it.
        verdict: What this machine says, None before.
        estimate: What it would take, None before.
        asking: Whether the farm is being asked that.
        refusal: What the farm says against it.
        denied: Why this key may not send it, "" when it may.
        live: Whether the farm can be asked.
        farm: The farm that is connected.
        file: The job file it was saved as, just as it is now; "" for none.
        renderers: Those of this machine, which say what their parameters are called.
    """

    draft: Draft
    problems: tuple[Problem, ...]
    settled: bool
    ready: bool
    verdict: Verdict | None
    estimate: EstimateReply | None
    asking: bool
    refusal: Problem | None
    denied: str
    live: bool
    farm: str
    file: str
    renderers: Mapping[str, Renderer]


class Footer(QFrame):
    """Below the form.

    Attributes:
        submit: The button that sends.
        force: The tick that sends though no node could take it.
    """

    #: The job is to be sent, or not to be sent after all.
    wanted = Signal()
    #: The next problem is to be shown.
    next_wanted = Signal()
    #: The command is to be copied.
    copy_wanted = Signal()
    #: The tick was changed.
    forced = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("footer")
        column = QVBoxLayout(self)
        edge = theme.em(0.5)
        column.setContentsMargins(edge, edge, edge, edge)
        column.setSpacing(theme.em(0.3))
        top = QHBoxLayout()
        self.standing = said("", "dim", theme.font(), self)
        top.addWidget(self.standing, 1)
        self.next = QToolButton(self)
        self.next.setText("Show it")
        self.next.setToolTip("The next problem (Ctrl+J)")
        self.next.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.next.clicked.connect(self.next_wanted)
        top.addWidget(self.next, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(top)
        self.estimate = said("", "", theme.font(), self)
        column.addWidget(self.estimate)
        self.warnings = said("", "warn", theme.font(small=True), self)
        column.addWidget(self.warnings)
        self.force = QCheckBox("Submit it though no node can take it now: it waits for one that can", self)
        self.force.clicked.connect(self.forced)
        column.addWidget(self.force)
        line = QHBoxLayout()
        line.setSpacing(theme.em(0.35))
        self.command = QLineEdit(self)
        self.command.setReadOnly(True)
        self.command.setFont(theme.font(mono=True, small=True))
        self.command.setAccessibleName("The same as a command")
        line.addWidget(self.command, 1)
        self.copy = QToolButton(self)
        self.copy.setText("Copy")
        self.copy.setAccessibleName("Copy the command")
        self.copy.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.copy.clicked.connect(self.copy_wanted)
        line.addWidget(self.copy)
        self.submit = QPushButton("Submit", self)
        self.submit.setToolTip("Ctrl+Enter")
        self.submit.setDefault(True)
        self.submit.clicked.connect(self.wanted)
        line.addWidget(self.submit)
        column.addLayout(line)
        self.show_warnings(())
        self.show_estimate("")

    def show_state(self, state: State) -> None:
        """Everything of a draft."""
        if not state.draft.editable:
            self._show_on_its_way(state)
            return
        draft, verdict = state.draft, state.verdict
        fresh = all(one.missing and one.path not in draft.touched for one in state.problems)
        places = {one.path: place_words(draft, one.path, state.renderers) for one in state.problems}
        self.show_problems(state.problems, places, not state.settled, fresh)
        if state.denied:
            self.show_standing(f"✕ {state.denied}", "bad")
        warned = verdict.warnings if verdict is not None else ()
        if state.estimate is not None:
            warned = (*warned, *(one for one in state.estimate.warnings if one not in warned))
        self.show_warnings(tuple(_placed(one, state) for one in warned))
        self.show_estimate(_estimate_of(state))
        impossible = state.refusal is not None and "--force" in state.refusal.hint
        self.show_force(impossible or draft.force, draft.force)
        command = ""
        if verdict is not None and state.settled:
            command = verdict.forced if draft.force else verdict.command
        if not command and state.file:  # where no command says it all, one that sends the saved file
            command = file_command(state.file, force=draft.force)
        self.show_command(command)
        farm = (state.farm or "the farm").replace("&", "&&")
        self.submit.setText("Submit" if state.live else f"Submit when {farm} is back")
        self.submit.setEnabled(
            state.ready and not state.denied and (state.refusal is None or draft.force or not impossible)
        )

    def _show_on_its_way(self, state: State) -> None:
        farm = state.draft.farm or state.farm or "the farm"
        words = f"sent to {farm}…"
        if state.draft.stage is Stage.WAITING:
            words = f"waits: sent as soon as {farm} is back"
            if state.live and state.draft.farm not in ("", state.farm):
                words = f"waits for {farm}; connected is {state.farm}"
        self.show_standing(words, "warn")
        self.show_force(False, state.draft.force)
        self.show_estimate("")
        self.show_warnings(())
        self.submit.setText("Take it back")
        self.submit.setEnabled(True)

    def show_problems(
        self, problems: tuple[Problem, ...], places: Mapping[Path, str], checking: bool, fresh: bool
    ) -> None:
        """What stands against it, each with its place in words; ``fresh``: only what is not filled in yet."""
        self.next.setVisible(bool(problems))
        if problems and fresh:
            labels = dict.fromkeys(places[one.path].partition(" of step ")[0] for one in problems if one.path)
            self._stand(f"○ still to fill in: {', '.join(labels)}", "warn")
        elif problems:
            first = problems[0]
            place = f"{places[first.path]}: " if first.path else ""
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            # The tick below does what the command line's flag does.
            hint = f" ({first.hint})" if first.hint and "--force" not in first.hint else ""
            self._stand(f"✕ {place}{first.text}{hint}{more}", "bad")
        elif checking:
            self._stand("checking…", "dim")
        else:
            self._stand("✓ nothing stands against it on this machine", "good")

    def show_standing(self, words: str, tone: str) -> None:
        """Other words about how it stands."""
        self.next.hide()
        self._stand(words, tone)

    def _stand(self, words: str, tone: str) -> None:
        self.standing.setText(words)
        self.standing.setAccessibleName(words)
        set_tone(self.standing, tone)

    def show_warnings(self, warnings: tuple[str, ...]) -> None:
        """What people should know."""
        lines = [f"! {one}" for one in warnings[:_WARNINGS]]
        if len(warnings) > _WARNINGS:
            lines.append(f"! and {plural(len(warnings) - _WARNINGS, 'more warning')}")
        self.warnings.setText("\n".join(lines))
        self.warnings.setToolTip("\n".join(warnings))
        self.warnings.setVisible(bool(lines))

    def show_estimate(self, words: str) -> None:
        """What it would take."""
        self.estimate.setText(words)
        self.estimate.setVisible(bool(words))

    def show_command(self, text: str) -> None:
        """The same as a command, "" for none."""
        self.command.setText(text or "farm submit JOB.json: save it as a job file first")
        self.command.setCursorPosition(0)
        self.command.setEnabled(bool(text))
        self.copy.setEnabled(bool(text))

    def show_force(self, shown: bool, on: bool) -> None:
        """Whether it may be sent though no node could take it."""
        self.force.setVisible(shown)
        self.force.setChecked(on)


def _placed(warning: str, state: State) -> str:
    """A warning with its place as the form calls it."""
    found = problem_of(warning, "", state.draft.document)
    place = place_words(state.draft, found.path, state.renderers)
    return f"{place}: {found.text}" if place else warning


def _estimate_of(state: State) -> str:
    if not state.settled or not state.ready:
        return ""
    if state.estimate is not None:
        return estimate_words(state.estimate, len(state.draft.steps))
    if not state.live:
        return "What it would take is known when the farm is back"
    return "asking what it would take…" if state.asking else ""


def estimate_words(reply: EstimateReply, steps: int) -> str:
    """The estimate in the words of `farm estimate`."""
    frames = plural(reply.frames, "frame") if reply.frames else "no frames"
    if len(reply.unknown) >= steps:
        return (
            f"{frames}. Nothing is known of steps like these yet, so neither time nor cost is: with scout"
            " frames, a few are rendered first and tell what the rest takes."
        )
    time = "time unknown: no node in service can take it"
    if reply.low_s is not None and reply.high_s is not None:
        time = _range(duration_text(reply.low_s), duration_text(reply.high_s))
    cost = "cost unknown"
    if reply.cost_low_nano is not None and reply.cost_high_nano is not None:
        cost = _range(price_text(reply.cost_low_nano), price_text(reply.cost_high_nano))
    words = f"{frames}  ·  {time}  ·  {cost}"
    if reply.unknown:
        words += f"\nwithout {', '.join(reply.unknown)}: nothing like that was rendered here yet"
    return words


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"

"""The Why dock: why work waits, failed or runs, what would cure it, and why a node takes nothing.

What belongs here: asking the scheduler about what somebody looks at, and its answer in words.  What may not:
reasons of our own; every word of an answer is the broker's.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.cures import Cure, read_cure
from client_gui.desk import Desk
from client_gui.store.eta import left_text
from client_gui.store.farmstore import FarmChange
from client_gui.style.lazily import when_seen
from client_gui.views.askagain import SOON_MS, AskAgain
from client_gui.views.base import View
from client_gui.views.cards import Card, words
from farm.model.errors import OvercrankError
from farm.model.frames import FrameRange
from farm.protocol.client import WhyNodes, WhyReply, WhyReq, WhyRow
from farm.sdk.words import plural

#: How often an answer is asked for anew while it is looked at.
_EVERY_MS: Final = 5000
#: Groups of nodes shown before "more".
_SHOWN: Final = 12


class WhyView(View):
    """Why something is in its state."""

    name = "why"
    title = "Why"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._about = "work"
        self._shown: tuple[str, object] | None = None
        self._all_nodes = False
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        head = QHBoxLayout()
        head.setContentsMargins(desk.theme.em(0.5), desk.theme.em(0.3), desk.theme.em(0.5), 0)
        self._tabs = QButtonGroup(self)
        for about, text in (("work", "Work"), ("node", "Node")):
            button = QToolButton()
            button.setText(text)
            button.setCheckable(True)
            button.setChecked(about == self._about)
            button.setAccessibleName(f"Why: {text}")
            button.clicked.connect(partial(self._turn, about))
            self._tabs.addButton(button)
            head.addWidget(button)
        head.addStretch(1)
        box.addLayout(head)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QScrollArea.Shape.NoFrame)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setAccessibleName("Reasons")
        box.addWidget(self._area)
        self.again = AskAgain(self, _EVERY_MS, self._ask, self._offline)
        desk.focus.job_changed.connect(partial(self._turn, "work"))
        desk.focus.unit_changed.connect(partial(self._turn, "work"))
        desk.focus.node_changed.connect(partial(self._turn, "node"))
        when_seen(desk.theme, self, self._again)
        self._say("Select a job, a frame or a node to see why it waits.")

    # -- what is asked --

    def look(self) -> None:
        """Follows the lists it names things from."""
        self.desk.client.look(self.looker, jobs=True, nodes=self._about == "node")

    def refresh(self) -> None:
        """Asks anew."""
        self.again.soon()

    def farm_changed(self, change: FarmChange) -> None:
        """Asks anew soon when the job that is looked at changed."""
        slot = self.desk.client.store.jobs.slot(self.desk.focus.job)
        if self._about == "work" and slot >= 0 and slot in change.jobs.changed:
            self.again.soon(SOON_MS)

    def action_context(self) -> ActionContext:
        """The work it explains."""
        focus = self.desk.focus
        if self._about == "node" and focus.node:
            return ActionContext("nodes", nodes=(focus.node,))
        if not focus.job:
            return ActionContext()
        if focus.step:
            return ActionContext("frames", (focus.job,), (self._units(),))
        return ActionContext("jobs", (focus.job,))

    def _units(self) -> UnitsOf:
        focus = self.desk.focus
        if focus.unit < 0:
            return UnitsOf(focus.job, focus.step)
        frame = self._frame(focus.job, focus.step, focus.unit)
        return UnitsOf(focus.job, focus.step, (focus.unit,), "" if frame is None else str(frame))

    def _frame(self, job: int, step: str, unit: int) -> int | None:
        """The number of a unit's frame; None when its step has none or is not known."""
        for row in self.desk.client.store.steps_of(job):
            if row.name == step and row.frames:
                try:
                    return FrameRange.parse(row.frames).frame_at(unit)
                except (OvercrankError, IndexError):
                    return None
        return None

    def _turn(self, about: str, *_: object) -> None:
        self._about = about
        if self.on:
            self.look()
        for button in self._tabs.buttons():
            button.setChecked((button.text() == "Node") == (about == "node"))
        self._all_nodes = False
        self.again.soon(SOON_MS // 5)

    def _chosen(self) -> tuple[str, str, str] | None:
        """Address, node and name of what is asked about; None, and said so, when nothing is selected."""
        focus = self.desk.focus
        if self._about == "node":
            if focus.node:
                return "", str(focus.node), f"node {focus.node}"
            self._say("Select a node to see why it takes no work.")
            return None
        if focus.job:
            address = self._units().address if focus.step else f"J{focus.job}"
            return address, "", address
        self._say("Select a job, a frame or a node to see why it waits.")
        return None

    def _ask(self) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        address, node, what = chosen
        self.again.ask(
            WhyReq,
            partial(self._answered, what),
            partial(self._failed, what),
            reply=WhyReply,
            address=address,
            node=node,
        )

    def _offline(self) -> None:
        chosen = self._chosen()
        if chosen is not None and (self._shown is None or self._shown[0] != chosen[2]):
            self._say("The farm cannot be asked just now; the answer comes when it is back.")

    def _answered(self, what: str, reply: WhyReply) -> None:
        plain = (what, (reply.rows, reply.node, reply.reason, reply.work, reply.waiting, reply.more))
        if plain != self._shown:
            self._shown = plain
            self._build(what, reply)

    def _failed(self, what: str, error: OvercrankError) -> None:
        self._shown = (what, error.message)
        self._say(error.message, error.hint)

    def _again(self) -> None:
        self._shown = None
        self.again.soon()

    # -- the answer --

    def _say(self, text: str, hint: str = "") -> None:
        inner, box = self._paper()
        box.addWidget(words(text, theme=self.desk.theme, token="dim"))
        if hint:
            box.addWidget(words(hint, theme=self.desk.theme))
        box.addStretch(1)
        self._put(inner)

    def _paper(self) -> tuple[QWidget, QVBoxLayout]:
        inner = QWidget()
        box = QVBoxLayout(inner)
        edge = self.desk.theme.em(0.5)
        box.setContentsMargins(edge, edge, edge, edge)
        box.setSpacing(edge)
        return inner, box

    def _put(self, inner: QWidget) -> None:
        bar = self._area.verticalScrollBar()
        at = bar.value()
        self._area.setWidget(inner)
        bar.setValue(at)

    def _build(self, what: str, reply: WhyReply) -> None:
        inner, box = self._paper()
        if self._about == "node":
            self._node(box, reply)
        for row in reply.rows:
            box.addWidget(self._card(row))
        if not reply.rows and self._about == "work":
            box.addWidget(words(f"The farm says nothing about {what}.", theme=self.desk.theme, token="dim"))
        if reply.more:
            text = "Only the first frames were looked at; select fewer to see others."
            box.addWidget(words(text, theme=self.desk.theme, token="dim", small=True))
        box.addStretch(1)
        self._put(inner)

    def _card(self, row: WhyRow) -> Card:
        theme = self.desk.theme
        count = f" · {plural(row.units, 'frame')}" if row.units > 1 else ""
        card = Card(theme, f"{row.address} is {row.state}{count}", state=row.state)
        for cause in row.causes:
            card.add(cause.what)
        cures = [cause.cure for cause in row.causes if cause.cure]
        if row.failure:
            card.add(f"Class of the failure: {row.failure}", token="bad", small=True)
        if row.failed_on:
            tries = f", {row.tries} times in all" if row.tries > len(row.failed_on) else ""
            card.add(f"Failed on {', '.join(row.failed_on)}{tries}", token="dim")
        if row.state == "queued":
            self._wait(card, row)
        cures += self._nodes(card, row)
        if row.state == "failed":
            cures.append(f"farm retry {row.address}")
        self._cure(card, cures)
        return card

    def _wait(self, card: Card, row: WhyRow) -> None:
        now_us = self.desk.client.now_us()
        if row.start_low_us is not None:
            high = row.start_high_us
            text = (
                f"Expected to start: {left_text(row.start_low_us, high, now_us)}"
                if high is not None
                else f"Not before {left_text(row.start_low_us, row.start_low_us, now_us)} from now"
                if row.start_low_us > now_us
                else "May start at any moment"
            )
            card.add(text)
        if row.ahead:
            card.add(f"{plural(row.ahead, 'frame')} before it in the order", token="dim")
        if row.share is not None and row.share < 0.995:
            share = f"Its user may expect {row.share:.0%} of the farm while others want it too"
            card.add(share, token="dim")

    def _nodes(self, card: Card, row: WhyRow) -> list[str]:
        """Says what the scheduler thinks of the nodes; returns what would change it."""
        shown = row.nodes if self._all_nodes else row.nodes[:_SHOWN]
        for verdict in shown:
            card.add(_nodes_text(verdict), small=True, token="text" if verdict.filter == "free" else "dim")
        if len(shown) < len(row.nodes):
            rest = sum(verdict.count for verdict in row.nodes[len(shown) :])
            button = QPushButton(f"Show {plural(rest, 'more node')}")
            button.setFlat(True)
            button.clicked.connect(self._show_all)
            card.box.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        return [verdict.cure for verdict in shown if verdict.cure]

    def _show_all(self) -> None:
        self._all_nodes = True
        self._again()

    def _cure(self, card: Card, cures: list[str]) -> None:
        """What would help: buttons for what is one action here, else words to copy."""
        line = QHBoxLayout()
        line.setSpacing(self.desk.theme.em(0.4))
        done: set[tuple[str, str]] = set()
        for text in dict.fromkeys(cures):
            cure = read_cure(text, self.desk.client.store)
            if cure is None:
                self._words_to_copy(card, text)
            elif (cure.action, cure.about) not in done:
                done.add((cure.action, cure.about))
                button = self.desk.actions.button(cure.action, partial(_same, cure.context), self)
                if cure.value:
                    button = QPushButton(f"Priority {cure.value}", self)
                    button.clicked.connect(partial(self._run, cure))
                button.setText(f"{button.text().rstrip('…')} {cure.about}")
                line.addWidget(button)
        if line.count():
            line.addStretch(1)
            card.box.addLayout(line)

    def _run(self, cure: Cure) -> None:
        self.desk.actions.run(cure.action, cure.context, cure.value)

    def _words_to_copy(self, card: Card, text: str) -> None:
        said = words(f"→ {text}", theme=self.desk.theme, token="dim")
        if "farm " not in text:
            card.box.addWidget(said)
            return
        copy = QToolButton()
        copy.setText("Copy")
        copy.setAccessibleName(f"Copy: {text}")
        copy.clicked.connect(partial(QGuiApplication.clipboard().setText, text[text.index("farm ") :]))
        line = QHBoxLayout()
        line.addWidget(said, 1)
        line.addWidget(copy, 0, Qt.AlignmentFlag.AlignTop)
        card.box.addLayout(line)

    def _node(self, box: QVBoxLayout, reply: WhyReply) -> None:
        theme = self.desk.theme
        card = Card(theme, f"{reply.node} {reply.reason or 'is in service and has room'}")
        if reply.work:
            waits = "1 step waits" if reply.waiting == 1 else f"{reply.waiting} steps wait"
            first = f" (the first {len(reply.work)} in order)" if reply.waiting > len(reply.work) else ""
            card.add(f"{waits} in the farm{first}; not here, because:", token="dim")
        elif not reply.reason:
            card.add("Nothing waits in the farm.", token="dim")
        alike: dict[tuple[str, str], list[str]] = {}
        for one in reply.work:
            alike.setdefault((one.reason, one.cure), []).append(one.address)
        for (reason, _), addresses in alike.items():
            card.add(f"{', '.join(addresses)}: {reason}")
        self._cure(card, [cure for _, cure in alike if cure])
        box.addWidget(card)


def _same(context: ActionContext) -> ActionContext:
    return context


def _nodes_text(verdict: WhyNodes) -> str:
    names = ", ".join(verdict.nodes)
    if verdict.count > len(verdict.nodes):
        names += f" and {verdict.count - len(verdict.nodes)} more"
    elif verdict.count > 1:
        names += " each"
    return f"{names}: {verdict.reason}"

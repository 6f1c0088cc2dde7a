"""The question before something that cannot be taken back; no is the answer unless somebody means yes.

What belongs here: showing a ``Question``, and asking what running work has cost so far.  What may not: when
something has to be asked (``questions``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QWidget

from client_gui.actions.questions import Question
from client_gui.actions.sheet import Sheet
from client_gui.net.client import FarmClient
from client_gui.style.theme import Theme
from farm.model.errors import OvercrankError
from farm.protocol.client import AttemptsReply, AttemptsReq
from farm.sdk.words import duration_text, plural, price_text

#: Of more addresses than this the cost of what runs is not asked for.
ASK_MOST: Final = 20


class ConfirmSheet(Sheet):
    """Asks; ``yes`` is called with what was said about it, if somebody agrees.

    Args:
        host: The window.
        theme: The look.
        client: The farm, to be asked what would be lost.
        question: What to ask.
        yes: What to do then; takes the reason somebody gave.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        client: FarmClient,
        question: Question,
        yes: Callable[[str], None],
    ) -> None:
        super().__init__(host, theme, question.title, wide_em=32)
        self._question = question
        self._client = client
        self._yes = yes
        self._asked: dict[int, str] = {}
        self._attempts = 0
        self._since_us: list[int] = []
        self._charge_nano = 0
        self._unknown = 0
        self.label(question.title, bold=True)
        for line in question.lines:
            self.label(line)
        self._lost: QLabel | None = None
        if question.running:
            self._lost = self.label("", dim=True)
            self._look_up()
        self._typed: QLineEdit | None = None
        if question.typed:
            self.label(f"Type {question.typed} to go on:")
            self._typed = QLineEdit(self.card)
            self._typed.setAccessibleName(f"Type {question.typed} to go on")
            self._typed.textChanged.connect(self._check)
            self.column.addWidget(self._typed)
        self._reason = QLineEdit(self.card)
        self._reason.setPlaceholderText("Why (may be left empty); others read it with the job")
        self._reason.setAccessibleName("Why, may be left empty")
        self._reason.setMaxLength(500)
        self.column.addWidget(self._reason)
        self.no = QPushButton("No", self.card)
        self.no.setAccessibleName("No, change nothing")
        self.no.clicked.connect(lambda: self.close_with(False))
        self.yes = QPushButton(question.yes.replace("&", "&&"), self.card)
        self.yes.setAccessibleName(question.yes)
        self.yes.clicked.connect(self._agree)
        self.buttons(self.yes, self.no)
        self.card.setAccessibleDescription(" ".join(question.lines))
        self._check()

    def first(self) -> QWidget | None:
        """Somebody who only presses Enter has said no."""
        return self._typed or self.no

    def accepted(self) -> None:
        """Enter in a field goes on to the next thing, never to yes at once."""
        if self._typed is not None and self._typed.hasFocus():
            (self.yes if self.yes.isEnabled() else self._typed).setFocus()
        elif self._reason.hasFocus():
            self.yes.setFocus()

    def _check(self) -> None:
        typed = self._typed.text().strip().replace(",", "") if self._typed is not None else ""
        self.yes.setEnabled(typed == self._question.typed)

    def _agree(self) -> None:
        reason = self._reason.text().strip()
        self.close_with(True)
        self._yes(reason)

    # -- what would be lost --

    def _look_up(self) -> None:
        jobs = dict.fromkeys(address.partition("@")[0] for address in self._question.running)
        if len(jobs) > ASK_MOST or not self._client.live:
            self._say("What running frames have cost so far is not summed up for so many.")
            return
        self._say("Adding up what running frames have cost so far\N{HORIZONTAL ELLIPSIS}")
        for address in jobs:
            number = self._client.ask(
                AttemptsReq, self, self._take, self._failed, reply=AttemptsReply, address=address, limit=1000
            )
            self._asked[number] = address

    def _take(self, reply: AttemptsReply) -> None:
        self._asked.pop(reply.id, None)
        meant = {one for one in self._question.running if "@" in one}
        for row in reply.attempts:
            if row.ended_us or (meant and f"{row.step}@{row.no}" not in meant):
                continue
            self._attempts += 1
            self._charge_nano += row.charge_nano
            self._since_us.append(row.started_us)
        self._sum_up()

    def _failed(self, error: OvercrankError) -> None:
        self._unknown += 1
        self._sum_up()

    def _sum_up(self) -> None:
        if len(self._asked) > self._unknown:
            return
        now_us = self._client.now_us()
        seconds = sum(max(0, now_us - since_us) for since_us in self._since_us) / 1e6
        if self._unknown:
            self._say("What running frames have cost so far cannot be told just now.")
        elif not self._attempts:
            self._say("Nothing of it runs any more.")
        else:
            self._say(
                f"Lost: what {plural(self._attempts, 'attempt')} did in {duration_text(seconds)} on "
                f"{'its' if self._attempts == 1 else 'their'} nodes, {price_text(self._charge_nano)}; "
                "frames of them that are done stay."
            )

    def _say(self, text: str) -> None:
        if self._lost is not None:
            self._lost.setText(text)
            self.fit()

    def close_with(self, yes: bool) -> None:
        """Closes it; answers that are still out are of no use any more."""
        for number in list(self._asked):
            self._client.forget(number)
        self._asked.clear()
        super().close_with(yes)

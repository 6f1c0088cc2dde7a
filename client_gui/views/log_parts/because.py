"""Why a frame failed and what would cure it, as the farm explains it: asked for beside its log.

What belongs here: asking, and the button for a cure.  What may not: what the attempt itself says.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QPushButton

from client_gui.actions.context import ActionContext
from client_gui.actions.cures import Cure, read_cure
from client_gui.desk import Desk
from client_gui.views.log_parts.bars import CauseBar
from farm.protocol.client import WhyReply, WhyReq


class Because(QObject):
    """Why the frame that is shown failed.

    Attributes:
        reason: The farm's first cause; "" while it is not known.  What an attempt of several frames says of
            itself is of its last one.
        cure: What would help, in words, where there is no button for it.
    """

    #: It is known.
    known = Signal()

    def __init__(self, desk: Desk, bar: CauseBar, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reason = ""
        self.cure = ""
        self._desk = desk
        self._bar = bar
        self._about: tuple[str, int] = ("", 0)

    def ask(self, about: tuple[str, int], address: str | None) -> None:
        """Asks what would cure it.

        Args:
            about: The step's address and the number of the attempt.
            address: Of the frame; None when there is nothing to be cured.
        """
        if self._about == about:
            return
        self._about, self.cure, self.reason = about, "", ""
        self._bar.offer(None)
        if address is not None:
            self._desk.client.ask(
                WhyReq,
                self,
                partial(self._is, about),
                lambda error: None,
                reply=WhyReply,
                address=address,
            )

    def _is(self, about: tuple[str, int], reply: WhyReply) -> None:
        if about == self._about:
            causes = [cause for found in reply.rows for cause in found.causes]
            self._offer([cause.cure for cause in causes if cause.cure])
            self.reason = causes[0].what if causes else ""
            self.known.emit()

    def _offer(self, cures: list[str]) -> None:
        """A button for what would help, else words; what this dock is or has a button for is left out."""
        for text in cures:
            cure = read_cure(text, self._desk.client.store)
            if cure is None:
                self.cure = text
            elif cure.action in ("log", "why", "retry"):
                continue
            elif cure.value:
                button = QPushButton(f"Priority {cure.value} {cure.about}", self._bar)
                button.clicked.connect(partial(self._do, cure))
                self._bar.offer(button)
            else:
                made = self._desk.actions.button(cure.action, partial(_same, cure.context), self._bar)
                made.setText(f"{made.text().rstrip('…')} {cure.about}")
                self._bar.offer(made)
            return

    def _do(self, cure: Cure) -> None:
        self._desk.actions.run(cure.action, cure.context, cure.value)


def _same(context: ActionContext) -> ActionContext:
    return context

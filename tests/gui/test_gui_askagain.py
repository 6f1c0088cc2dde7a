"""Asking again while somebody looks: when shown, not when hidden, not offline, one question at a time."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from client_gui.net.port import Answer, Ask, Standing
from client_gui.store.farmstore import Link
from client_gui.views.askagain import AskAgain
from client_gui.views.base import View
from farm.model.errors import Denied, OvercrankError
from farm.protocol.client import NodesReq, StatusReq, WhyReply, WhyReq
from tests.support.gui_rig import Rig

#: Longer than any test takes: nothing is asked again by itself.
NEVER_MS = 3_600_000


class Dock(View):
    """A dock with a question of one request, or of more."""

    def __init__(self, rig: Rig, every_ms: int, *kinds: type, parent: QWidget | None = None) -> None:
        super().__init__(rig.desk, parent)
        self.kinds = kinds or (WhyReq,)
        self.came: list[int] = []
        self.errors: list[str] = []
        self.offline = 0
        self.again = AskAgain(self, every_ms, self._question, self._count_offline)

    def refresh(self) -> None:
        self.again.soon()

    def _question(self) -> None:
        for kind in self.kinds:
            self.again.ask(kind, self._take, self._failed, reply=WhyReply)

    def _take(self, reply: WhyReply) -> None:
        self.came.append(reply.id)

    def _failed(self, error: OvercrankError) -> None:
        self.errors.append(error.message)

    def _count_offline(self) -> None:
        self.offline += 1


def dock(rig: Rig, qtbot: QtBot, every_ms: int, *kinds: type) -> Dock:
    made = Dock(rig, every_ms, *kinds)
    qtbot.addWidget(made)
    return made


def numbers(rig: Rig, kind: type = WhyReq) -> list[int]:
    return [one.number for one in rig.port.posted if isinstance(one, Ask) and type(one.body) is kind]


def answer(rig: Rig, number: int) -> None:
    rig.give(Answer(number, WhyReply(id=number), None, 900))


def test_asked_when_shown_and_again_some_time_after_each_answer(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, 1)
    assert view.again.due_ms is None
    view.show()
    for turn in range(1, 4):
        qtbot.waitUntil(lambda turn=turn: len(numbers(rig)) == turn)
        assert view.again.due_ms is None, "nothing is asked over a question that is under way"
        answer(rig, numbers(rig)[-1])
    assert len(view.came) == 3
    assert rig.canceled() == [], "a question that was answered is not given up"


def test_the_pause_is_as_long_as_was_said(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, NEVER_MS)
    view.show()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 1)
    answer(rig, numbers(rig)[0])
    due_ms = view.again.due_ms
    assert due_ms is not None
    assert 0.9 * NEVER_MS < due_ms < 1.1 * NEVER_MS  # Qt bundles long timers


def test_a_hidden_dock_asks_nothing_and_asks_when_it_is_seen_again(rig: Rig, qtbot: QtBot) -> None:
    hidden, seen = dock(rig, qtbot, 1), dock(rig, qtbot, 1, StatusReq)
    rig.port.answers[WhyReq] = rig.port.answers[StatusReq] = lambda req: WhyReply(id=req.id)
    hidden.show()
    seen.show()
    qtbot.waitUntil(lambda: bool(rig.settle()) or len(numbers(rig)) > 1)
    hidden.hide()
    before = len(numbers(rig))
    hidden.again.soon()
    rig.settle()  # an answer that was under way comes to a dock that nobody sees
    assert hidden.again.due_ms is None
    asked = len(numbers(rig, StatusReq))
    # As many turns of the same length of one that is seen, as a measure.
    qtbot.waitUntil(lambda: bool(rig.settle()) or len(numbers(rig, StatusReq)) > asked + 5)
    assert len(numbers(rig)) == before
    hidden.show()
    qtbot.waitUntil(lambda: len(numbers(rig)) > before)


def test_without_a_connection_it_stops_and_goes_on_when_it_is_back(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, 1)
    rig.give(Standing(Link.LOST, "the broker is gone"))
    view.show()
    qtbot.waitUntil(lambda: view.offline == 1)
    assert view.again.due_ms is None, "it does not knock at a door that is shut"
    rig.give(Standing(Link.CONNECTING), Standing(Link.LOST, "the broker is gone", retry_in_s=2.0))
    assert view.again.due_ms is None
    assert numbers(rig) == []
    rig.give(Standing(Link.LIVE))
    qtbot.waitUntil(lambda: len(numbers(rig)) == 1)
    rig.give(Standing(Link.LOST, "the broker is gone"))
    rig.give(Answer(numbers(rig)[0], None, Denied("the line went"), 900))
    assert view.errors == ["the line went"]
    qtbot.waitUntil(lambda: view.offline == 2)
    assert view.again.due_ms is None
    assert len(numbers(rig)) == 1


def test_a_dock_that_is_hidden_stays_silent_when_the_connection_comes_back(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, 1)
    rig.give(Standing(Link.LOST, "the broker is gone"), Standing(Link.LIVE))
    assert view.again.due_ms is None
    assert numbers(rig) == []


def test_an_error_is_told_and_it_asks_again(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, 1)
    view.show()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 1)
    rig.give(Answer(numbers(rig)[0], None, Denied("bo may not see it"), 900))
    assert view.errors == ["bo may not see it"]
    qtbot.waitUntil(lambda: len(numbers(rig)) == 2)


def test_asking_anew_gives_up_what_is_under_way(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, NEVER_MS)
    view.show()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 1)
    view.again.soon()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 2)
    first, second = numbers(rig)
    assert rig.canceled() == [first]
    answer(rig, first)
    assert view.came == [], "what was given up is answered in vain"
    assert view.again.due_ms is None, "and is no reason to ask again"
    answer(rig, second)
    assert view.came == [second]
    assert view.again.due_ms is not None


def test_a_question_of_several_requests_is_one_question(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, NEVER_MS, WhyReq, StatusReq)
    view.show()
    qtbot.waitUntil(lambda: len(numbers(rig, StatusReq)) == 1)
    answer(rig, numbers(rig)[0])
    assert view.again.due_ms is None, "half of it has no answer yet"
    answer(rig, numbers(rig, StatusReq)[0])
    assert view.again.due_ms is not None
    view.again.soon()
    qtbot.waitUntil(lambda: len(numbers(rig, StatusReq)) == 2)
    answer(rig, numbers(rig)[1])
    view.again.soon()
    qtbot.waitUntil(lambda: len(numbers(rig, StatusReq)) == 3)
    assert rig.canceled() == [numbers(rig, StatusReq)[1]], "only the half that had no answer is given up"


def test_soon_only_makes_it_sooner(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, NEVER_MS)
    view.show()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 1)
    view.again.soon(NEVER_MS // 4)
    view.again.soon(NEVER_MS)
    due_ms = view.again.due_ms
    assert due_ms is not None
    assert due_ms < NEVER_MS // 2
    view.again.soon()
    qtbot.waitUntil(lambda: len(numbers(rig)) == 2)


def test_nothing_to_ask_about_is_left_alone_until_there_is(rig: Rig, qtbot: QtBot) -> None:
    view = dock(rig, qtbot, 1)
    view.kinds = ()
    view.show()
    qtbot.waitUntil(lambda: view.again.due_ms is None)
    rig.give(Standing(Link.LIVE))
    assert view.again.due_ms is None, "news of the connection is no reason to ask about nothing"
    view.kinds = (NodesReq,)
    view.again.soon()
    qtbot.waitUntil(lambda: len(numbers(rig, NodesReq)) == 1)

"""Actions asked for while the farm is away: seen, taken back, judged when it is back, never sent twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext
from client_gui.actions.later import ASK_AFTER_MIN, count_text
from client_gui.actions.prompts import FieldSheet, PrioritySheet
from client_gui.net.port import Answer, Ask, Heard, Standing, Welcomed
from client_gui.store.activity import Level
from client_gui.store.farmstore import STALE_US, Link
from farm.model.errors import FarmUnreachable, IllegalMove
from farm.protocol.client import ActReply, ActReq, JobReq, JobRow, NodeActReq, NodeRow
from farm.protocol.common import WelcomeMsg
from tests.support.gui_rig import Rig, job_row, node_row
from tests.support.gui_stage import MANY, Stage, asked, move, press

MINUTE_US = 60_000_000


def jobs(*numbers: int) -> ActionContext:
    return ActionContext("jobs", jobs=numbers)


def nodes(*numbers: int) -> ActionContext:
    return ActionContext("nodes", nodes=numbers)


def lose(rig: Rig) -> None:
    rig.give(Standing(Link.LOST, "no answer"))


def welcome(role: str = "wrangler") -> Welcomed:
    message = WelcomeMsg(version=1, session=9, farm_name="farm-A", software="0.1.0", role=role, user="ana")
    return Welcomed(message, "farm-A", "10.0.0.5:7460")


def come_back(rig: Rig, *rows: JobRow | NodeRow, role: str = "wrangler") -> None:
    """The connection is there again, and then the whole state."""
    rig.give(welcome(role), Standing(Link.LIVE))
    rig.snapshot(
        tuple(row for row in rows if isinstance(row, JobRow)),
        tuple(row for row in rows if isinstance(row, NodeRow)),
    )


def sent(rig: Rig) -> list[tuple[str, str, str]]:
    """What was asked of the farm, in order."""
    return [
        (one.action, one.address if isinstance(one, ActReq) else one.node, one.value)
        for one in sorted(asked(rig), key=lambda body: body.id)
    ]


def texts(rig: Rig) -> list[str]:
    return [one.text for one in rig.actions.later.waits]


def settled(qtbot: QtBot, rig: Rig, condition: Callable[[], bool]) -> None:
    """Lets the window go on, answers coming, until something holds."""

    def holds() -> bool:
        rig.settle()
        return condition()

    qtbot.waitUntil(holds)


def told(rig: Rig) -> list[str]:
    return [notice.text for notice in rig.notices.activity]


@pytest.fixture
def away(rig: Rig) -> Rig:
    """A farm of three jobs and a node that is lost."""
    rig.client.look("test", jobs=True, nodes=True)
    for kind in (ActReq, NodeActReq):
        rig.port.answers[kind] = lambda request: ActReply(id=request.id, changed=1)
    rig.snapshot(tuple(job_row(n, priority=50) for n in (1, 2, 3)), (node_row(4),))
    lose(rig)
    return rig


ROWS: tuple[Any, ...] = (*(job_row(n, priority=50) for n in (1, 2, 3)), node_row(4))


# -- while it is away ------------------------------------------------------------------------------------


def test_it_waits_as_soon_as_the_window_says_that_nothing_is_heard(qtbot: QtBot, away: Rig) -> None:
    """The line is given up later where a large state is on its way."""
    come_back(away, *ROWS)
    assert away.client.live
    away.now_us += STALE_US - 1
    away.actions.run("pause", jobs(1))
    away.now_us += 2
    away.actions.run("pause", jobs(2))
    assert sent(away) == [("pause", "J1", "")]
    assert texts(away) == ["Pause J2"]
    away.give(Heard(1000))
    settled(qtbot, away, lambda: not away.actions.later.waits)
    assert sent(away) == [("pause", "J1", ""), ("pause", "J2", "")]
    away.actions.run("pause", jobs(3))
    assert sent(away)[-1] == ("pause", "J3", "")


def test_keys_wait_in_sight_and_ctrl_z_takes_the_last_one_back(qtbot: QtBot, stage: Stage, away: Rig) -> None:
    book = away.actions
    book.watch(stage)
    stage.context = jobs(1)
    for key in ("P", "]", "]"):
        press(qtbot, stage.list, key)
    assert texts(away) == ["Pause J1", "Priority 60 for J1"]
    assert book.pending("jobs", 1, "state") == "paused"
    assert book.waits("jobs", 1, "state")
    assert not book.unsure("jobs", 1, "state")
    assert told(away)[-1] == "Waits for farm-A: Priority 60 for J1"
    assert count_text(book.later) == "2 actions wait for farm-A"
    press(qtbot, stage.list, "Ctrl+Z")
    assert texts(away) == ["Pause J1", "Priority 55 for J1"]
    press(qtbot, stage.list, "P")
    assert texts(away) == ["Priority 55 for J1"]
    assert told(away)[-1] == "Nothing waits for J1 any more: it is to stay as it was"
    press(qtbot, stage.list, "Ctrl+Z")
    assert texts(away) == []
    press(qtbot, stage.list, "Ctrl+Z")
    assert "not connected" in told(away)[-1]
    press(qtbot, stage.list, "Shift+X")
    assert told(away)[-1] == (
        "Cancel…: not connected: no answer; it is not sent later: what runs by then would lose its work"
    )
    assert not asked(away)


def test_sheets_that_ask_for_a_value_ask_for_what_may_wait(qtbot: QtBot, stage: Stage, away: Rig) -> None:
    away.actions.watch(stage)
    stage.context = jobs(1, 2)
    stage.list.setFocus()
    press(qtbot, stage.list, "=")
    (sheet,) = [one for one in stage.findChildren(PrioritySheet) if one.isVisible()]
    sheet.box.setValue(80)
    sheet.reason.setText("the client comes")
    sheet.apply.click()
    assert texts(away) == ["Priority 80 for J1", "Priority 80 for J2"]
    stage.context = jobs(3)
    press(qtbot, stage.list, "E")
    (fields,) = [one for one in stage.findChildren(FieldSheet) if one.isVisible()]
    edits = {one.accessibleName(): one for one in fields.findChildren(QLineEdit)}
    assert "name" in edits
    assert "priority" in edits
    assert "max_cores" not in edits
    assert not away.port.asked(JobReq), "nobody can be asked what the settings are"
    edits["name"].setFocus()
    edits["name"].selectAll()
    qtbot.keyClicks(edits["name"], "hero")
    press(qtbot, edits["name"], "Return")
    press(qtbot, fields.apply, "Return")
    assert texts(away)[-1] == "Call J3 hero"
    come_back(away, *ROWS)
    assert sent(away) == [
        ("priority", "J1", "80"),
        ("priority", "J2", "80"),
        ("set", "J3", '{"name": "hero"}'),
    ]
    assert [one.reason for one in asked(away)] == ["the client comes", "the client comes", ""]


def test_of_very_many_rows_menus_say_what_is_possible_and_all_of_them_wait(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, MANY + 1)))
    lose(rig)
    every = jobs(*range(1, MANY + 1))
    rig.actions.run("pause", every)
    qtbot.waitUntil(lambda: len(rig.actions.later.waits) == MANY)
    assert told(rig)[-1] == f"Waits for farm-A: Pause {MANY} jobs"
    assert "paused already" in rig.actions.why_not("pause", every)
    assert rig.actions.why_not("resume", every) == ""
    rig.actions.later.take_back({next(iter(rig.actions.later.waits)).number})
    assert rig.actions.why_not("pause", every) == "", "one of them is not"
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    come_back(rig, *(job_row(n) for n in range(1, MANY + 1)))
    settled(qtbot, rig, lambda: told(rig)[-1] == f"Paused {MANY - 1} jobs")
    assert not rig.actions.later.waits
    assert len(asked(rig)) == MANY - 1


@pytest.mark.parametrize("standing", [Standing(Link.REFUSED, "the key was revoked")])
def test_for_a_farm_that_does_not_want_this_client_nothing_waits(rig: Rig, standing: Standing) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.give(standing)
    assert rig.actions.why_not("pause", jobs(1)) == "not connected: the key was revoked"
    rig.actions.run("pause", jobs(1))
    assert not rig.actions.later.waits


def test_nothing_is_asked_of_a_farm_while_another_one_is_dialled(away: Rig) -> None:
    away.client.connect_to("farm-B")
    assert away.actions.why_not("pause", jobs(1)) == "not connected: no answer"
    away.client.connect_to("farm-A")
    assert away.actions.why_not("pause", jobs(1)) == ""


def test_rows_that_wait_are_followed_though_nobody_looks_at_them(away: Rig) -> None:
    away.actions.run("pause", jobs(1))
    away.actions.run("node-drain", nodes(4))
    away.client.look("test")
    assert away.followed() == ("jobs", "nodes")
    away.actions.later.take_back_last()
    assert away.followed() == ("jobs",)
    away.actions.later.take_back_all()
    assert away.followed() == ()


# -- when it is back -------------------------------------------------------------------------------------


def test_all_is_sent_in_order_once_the_state_is_there_and_can_be_undone(away: Rig) -> None:
    away.actions.run("priority", jobs(2), "60")
    away.actions.run("node-drain", nodes(4))
    away.actions.run("pause", jobs(1))
    away.give(welcome(), Standing(Link.LIVE))
    assert not asked(away), "not before the state has been taken"
    away.snapshot((job_row(1), job_row(2, priority=50)), (node_row(4),))
    away.settle()
    assert sent(away) == [("priority", "J2", "60"), ("node-drain", "4", ""), ("pause", "J1", "")]
    assert not any(one.repeat for one in away.port.posted if isinstance(one, Ask))
    assert told(away)[-1] == "Sent 3 waiting actions"
    assert away.actions.offer is not None
    away.actions.take_back()
    away.settle()
    assert sent(away)[3:] == [("resume", "J1", ""), ("node-enable", "4", ""), ("priority", "J2", "50")]
    away.snapshot((job_row(1), job_row(2, priority=50)), (node_row(4),))
    assert len(asked(away)) == 6, "nothing is sent again"


def test_what_is_not_wanted_any_more_is_dropped_with_one_notice(away: Rig) -> None:
    away.actions.run("pause", jobs(1, 2, 3))
    version = away.notices.activity.version
    come_back(away, job_row(1, state="paused"), job_row(2))
    away.settle()
    assert sent(away) == [("pause", "J2", "")]
    shown = [one.text for one in away.notices.activity][-4:]
    assert "2 actions that waited were not sent any more: J1 is paused already; and 1 more" in shown
    assert "Pause J3: J3 is not in the list any more" in shown
    assert away.notices.activity.version > version
    assert not away.actions.later.waits


def test_what_somebody_else_changed_is_told_and_sent_only_when_it_is_meant(away: Rig) -> None:
    away.actions.run("priority", jobs(1, 2), "60")
    come_back(away, job_row(1, priority=70), job_row(2, priority=50))
    away.settle()
    assert sent(away) == [("priority", "J2", "60")]
    (one,) = away.actions.later.held
    assert one.held == "J1 has priority 70 by now, not 50: somebody else set it"
    (notice,) = [one for one in away.notices.activity if "was not sent" in one.text]
    assert notice.level is Level.WARNING
    assert away.actions.pending("jobs", 1, "priority") is None, "the cell shows what is"
    assert away.actions.later.why_not("waiting-send") == ""
    away.actions.run("waiting-send", ActionContext())
    away.settle()
    assert sent(away)[1:] == [("priority", "J1", "60")]
    assert away.actions.offer is not None
    away.actions.take_back()
    assert sent(away)[2:] == [("priority", "J1", "70")], "back to what the others had set"


def test_what_is_done_now_replaces_what_waits_for_a_yes(away: Rig) -> None:
    away.actions.run("priority", jobs(1), "60")
    come_back(away, job_row(1, priority=70))
    assert len(away.actions.later.held) == 1
    away.actions.run("priority-up", jobs(1))
    assert sent(away) == [("priority", "J1", "75")], "of what is there now"
    assert not away.actions.later.waits


@pytest.mark.parametrize(("minutes", "asks"), [(9.9, False), (10, True), (600, True), (-5, True)])
def test_what_is_old_asks_before_it_is_sent(away: Rig, minutes: float, asks: bool) -> None:
    away.actions.run("pause", jobs(1, 2))
    away.now_us += int(minutes * MINUTE_US)
    come_back(away, *ROWS)
    away.settle()
    assert len(sent(away)) == (0 if asks else 2)
    assert len(away.actions.later.asks) == (2 if asks else 0)
    if asks:
        assert count_text(away.actions.later) == "2 actions wait for your yes"
        away.actions.later.send()
        away.settle()
        assert [one[0] for one in sent(away)] == ["pause", "pause"]


def test_how_old_is_a_setting(away: Rig) -> None:
    away.settings.set(ASK_AFTER_MIN, 0)
    away.actions.run("pause", jobs(1))
    come_back(away, *ROWS)
    assert not asked(away)
    assert len(away.actions.later.asks) == 1
    lose(away)
    assert not away.actions.later.asks, "nobody can say yes to what cannot be sent"
    assert "not connected" in away.actions.later.why_not("waiting-send")
    away.settings.set(ASK_AFTER_MIN, 30)
    come_back(away, *ROWS)
    assert len(asked(away)) == 1


def test_a_role_that_is_less_by_now_sends_nothing_it_may_not(away: Rig) -> None:
    away.actions.run("node-drain", nodes(4))
    come_back(away, *ROWS, role="artist")
    assert not asked(away)
    assert "takes the role wrangler" in told(away)[-1]


def test_a_refusal_of_the_broker_is_in_the_notice(away: Rig) -> None:
    def answer(request: ActReq) -> ActReply:
        if request.address == "J2":
            raise IllegalMove("J2 is writing its last file")
        return ActReply(id=request.id, changed=1)

    away.port.answers[ActReq] = answer
    away.actions.run("pause", jobs(1, 2))
    come_back(away, *ROWS)
    away.settle()
    assert told(away)[-1] == "Paused J1, 1 refused: J2 is writing its last file"
    assert not away.actions.later.waits


def test_a_key_pressed_before_the_state_is_there_waits_with_the_rest(away: Rig) -> None:
    away.actions.run("pause", jobs(1))
    away.give(welcome(), Standing(Link.LIVE))
    away.actions.run("pause-toggle", jobs(1))
    assert not asked(away)
    assert texts(away) == [], "what was pressed last counts, though it was pressed in between"
    away.snapshot((job_row(1),))
    assert not asked(away)


def test_a_connection_that_is_lost_in_the_middle_sends_nothing_twice(away: Rig) -> None:
    lost = FarmUnreachable("the connection was lost before the answer came")
    del away.port.answers[ActReq]
    many = tuple(range(1, 31))
    rows = tuple(job_row(n) for n in many)
    come_back(away, *rows)
    lose(away)
    away.actions.run("pause", jobs(*many))
    come_back(away, *rows)
    first = away.port.asked(ActReq)
    assert 0 < len(first) < len(many)
    away.give(*(Answer(one.id, ActReply(id=one.id, changed=1)) for one in first[:4]))
    flying = [one for one in away.port.asked(ActReq) if one not in first[:4]]
    lose(away)
    away.give(*(Answer(one.id, None, lost) for one in flying))
    assert len(away.port.asked(ActReq)) == len(first) + 4
    assert "without an answer" in told(away)[-1]
    assert "16 without an answer" in told(away)[-1], "what nobody knows is told so"
    waits = texts(away)
    assert waits == [f"Pause J{n}" for n in range(21, 31)], "the rest waits again"
    assert all(away.actions.unsure("jobs", n, "state") for n in range(5, 21))
    come_back(away, *(job_row(n, state="paused" if n < 8 else "running") for n in many))
    again = [one.address for one in away.port.asked(ActReq)][len(first) + 4 :]
    assert again == [f"J{n}" for n in range(21, 31)]
    assert "J5: the farm did pause it" in " ".join(told(away))


def test_a_connection_that_is_gone_again_while_it_is_judged_sends_nothing(qtbot: QtBot, away: Rig) -> None:
    many = tuple(range(1, MANY + 1))
    rows = tuple(job_row(n) for n in many)
    come_back(away, *rows)
    lose(away)
    away.actions.run("pause", jobs(*many))
    qtbot.waitUntil(lambda: len(away.actions.later.waits) == MANY)
    come_back(away, *rows)
    lose(away)
    away.give(welcome(), Standing(Link.LIVE))
    assert not asked(away)
    away.snapshot(rows)
    settled(qtbot, away, lambda: told(away)[-1] == f"Paused {MANY} jobs")
    addresses = [one.address for one in away.port.asked(ActReq)]
    assert addresses == [f"J{n}" for n in many], "each once, though it was judged twice"


def test_another_farm_gets_nothing_of_it(away: Rig) -> None:
    away.actions.run("pause", jobs(1, 2))
    move(away)
    assert not asked(away)
    assert not away.actions.later.waits
    (notice,) = [one for one in away.notices.activity if "dropped" in one.text]
    assert notice.text == "2 actions were dropped: meant for farm-A"
    assert notice.level is Level.WARNING


def test_stars_bells_and_colours_need_no_farm(away: Rig) -> None:
    for action in ("star", "bell", "colour-3"):
        assert away.actions.why_not(action, jobs(1)) == ""
        away.actions.run(action, jobs(1))
    assert not away.actions.later.waits


def test_windows_share_what_waits(away: Rig, make_book: Callable[[], Any]) -> None:
    other = make_book()
    away.actions.run("pause", jobs(1))
    assert other.pending("jobs", 1, "state") == "paused"
    assert other.why_not("undo", ActionContext()) == ""
    other.take_back()
    assert not away.actions.later.waits


@pytest.fixture
def make_book(rig: Rig) -> Callable[[], Any]:
    from client_gui.actions.book import ActionBook
    from client_gui.desk import Focus

    return lambda: ActionBook(
        rig.client, Focus(rig.client), rig.notices, rig.settings, rig.client, shared=rig.actions
    )

"""Actions under way: refused, unanswered, of another farm, offline; nothing of them stays or goes astray."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.doing import AT_ONCE, TIMEOUT_S
from client_gui.actions.pending import LOOKS_US
from client_gui.net.port import Answer, Resync, Standing, Welcomed
from client_gui.store.activity import Level
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable, IllegalMove
from farm.protocol.client import ActReply, ActReq
from farm.protocol.common import WelcomeMsg
from tests.support.gui_rig import Rig, job_row, node_row
from tests.support.gui_stage import CHANGES, MANY, Stage, asked, move

# -- under way, refused, unknown -------------------------------------------------------------------------


def test_a_refused_cell_goes_back_with_the_reason(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1), job_row(2)))
    told: list[None] = []
    rig.actions.pending_changed.connect(lambda: told.append(None))

    def answer(request: ActReq) -> ActReply:
        if request.address == "J2":
            raise IllegalMove("J2 is writing its last file", hint="try again in a second")
        return ActReply(id=request.id, changed=1, message="")

    rig.port.answers[ActReq] = answer
    rig.actions.run("priority", ActionContext("jobs", jobs=(1, 2)), "70")
    assert rig.actions.pending("jobs", 1, "priority") == rig.actions.pending("jobs", 2, "priority") == "70"
    rig.settle()
    assert rig.actions.pending("jobs", 2, "priority") is None
    assert rig.actions.pending("jobs", 1, "priority") == "70", "confirmed, and not yet in the row"
    (notice,) = rig.notices.activity
    assert notice.text == (
        "Set the priority of J1, 1 refused: J2 is writing its last file (try again in a second)"
    )
    rig.delta((job_row(1, priority=70),))
    assert rig.actions.pending("jobs", 1, "priority") is None
    assert len(told) >= 3


def test_without_an_answer_the_rest_is_not_sent_and_it_is_looked_what_became_of_it(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, 31)))
    rig.actions.run("pause", ActionContext("jobs", jobs=tuple(range(1, 31))))
    first = rig.port.asked(ActReq)
    assert len(first) == AT_ONCE
    for request in first:
        rig.give(Answer(request.id, None, FarmUnreachable("the broker gave no answer within 10 s")))
    assert len(rig.port.asked(ActReq)) == AT_ONCE, "nothing further is sent"
    (notice,) = rig.notices.activity
    assert notice.text == (
        f"Could not pause everything: {AT_ONCE} without an answer (J1; and {AT_ONCE - 1} more): "
        f"looking what became of it, {30 - AT_ONCE} not sent"
    )
    assert notice.level is Level.WARNING
    assert any(isinstance(message, Resync) for message in rig.port.posted)
    assert rig.actions.unsure("jobs", 1, "state")
    assert not rig.actions.unsure("jobs", 30, "state")
    rig.snapshot(tuple(job_row(n, state="paused" if n == 1 else "running") for n in range(1, 31)))
    assert rig.actions.pending("jobs", 1, "state") is None
    assert "J1: the farm did pause it" in list(rig.notices.activity)[-1].text
    rig.now_us += LOOKS_US
    rig.actions.doer.tick()
    assert all(rig.actions.pending("jobs", n, "state") is None for n in range(1, 31))
    assert "no answer came" in list(rig.notices.activity)[-1].text


@pytest.mark.parametrize("done", [True, False])
def test_what_became_of_it_is_not_judged_while_the_farm_is_away(rig: Rig, done: bool) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    rig.give(Standing(Link.LOST, "no answer", "", "unreachable", 4.0))
    (asked,) = rig.port.asked(ActReq)
    rig.give(Answer(asked.id, None, FarmUnreachable("the connection was lost before the answer came")))
    rig.now_us += 20 * LOOKS_US
    rig.actions.doer.tick()
    assert len(rig.notices.activity) == 1, "nobody knows yet"
    rig.give(Standing(Link.LIVE))
    rig.snapshot((job_row(1, state="paused" if done else "running"),))
    rig.now_us += LOOKS_US
    rig.actions.doer.tick()
    assert ("the farm did pause it" if done else "nothing shows") in list(rig.notices.activity)[-1].text
    assert len(rig.notices.activity) == 2


def test_a_port_that_never_answers_leaves_nothing_under_way(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    rig.now_us += int((TIMEOUT_S + 6) * 1e6)
    rig.actions.doer.tick()
    assert not rig.actions.doer.busy
    assert rig.canceled() == [rig.port.asked(ActReq)[0].id]
    rig.now_us += LOOKS_US
    rig.actions.doer.tick()
    assert rig.actions.pending("jobs", 1, "state") is None


def test_another_farm_is_not_undone_into(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    rig.settle()
    assert rig.actions.offer is not None
    welcome = WelcomeMsg(version=1, session=2, farm_name="farm-B", software="0.1.0", role="admin", user="ana")
    rig.give(Welcomed(welcome, "farm-B", "10.0.0.9:7460", "other"), Standing(Link.LIVE))
    assert rig.actions.offer is None
    assert rig.actions.pending("jobs", 1, "state") is None
    told = [notice.undo for notice in rig.notices.activity if notice.undo]
    rig.snapshot((job_row(1),))
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    rig.settle()
    sent = len(asked(rig))
    rig.actions.take_back(told[0])
    rig.settle()
    assert len(asked(rig)) == sent, "what a toast of before offers is not what was done here"
    assert rig.actions.offer is not None


def test_a_question_about_another_farm_s_job_is_not_answered_into_this_one(stage: Stage, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("cancel", ActionContext("jobs", jobs=(1,)))
    (sheet,) = [one for one in stage.findChildren(ConfirmSheet) if one.isVisible()]
    move(rig)
    assert not sheet.isVisible()
    assert not asked(rig)


# -- very many -------------------------------------------------------------------------------------------


def test_what_is_being_worked_out_is_forgotten_with_its_farm(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, MANY + 1)))
    rig.actions.run("pause", ActionContext("jobs", jobs=tuple(range(1, MANY + 1))))
    move(rig)
    done: list[int] = []
    rig.actions.run("pause", ActionContext("jobs", jobs=(7,)))
    QTimer.singleShot(20, lambda: done.append(1))
    qtbot.waitUntil(lambda: bool(done))
    assert [one.address for one in rig.port.asked(ActReq)] == ["J7"]


@pytest.mark.parametrize("link", [Link.CONNECTING, Link.LOST, Link.REFUSED])
def test_offline_nothing_is_sent_and_what_does_not_wait_says_why(rig: Rig, link: Link) -> None:
    rig.client.look("test", jobs=True, nodes=True)
    rig.snapshot((job_row(1),), (node_row(1),))
    rig.give(Standing(link, "the broker at 10.0.0.5 does not answer"))
    contexts = {
        "jobs": ActionContext("jobs", jobs=(1,)),
        "steps": ActionContext("steps", units=(UnitsOf(1, "beauty"),)),
        "nodes": ActionContext("nodes", nodes=(1,)),
    }
    for record in CHANGES:
        scope = next(scope for scope in contexts if scope in {one.value for one in record.scopes})
        reason = rig.actions.why_not(record.id, contexts[scope])
        trouble = "not connected: the broker at 10.0.0.5 does not answer"
        if link is Link.REFUSED:  # nobody knows whether it is ever back
            assert reason == trouble, record.id
        elif not record.later:
            assert reason == f"{trouble}; it is not sent later: {record.only_now}", record.id
        else:
            assert trouble not in reason, record.id
        rig.actions.run(record.id, contexts[scope], "1")
    assert not asked(rig)
    assert bool(rig.actions.later.waits) == (link is not Link.REFUSED)
    for action in ("log", "why", "copy-id", "star"):
        assert not rig.actions.why_not(action, contexts["jobs"]), "looking works offline"


def test_a_role_nobody_knows_yet_is_the_broker_s_to_judge(qapp: QApplication) -> None:
    rig = Rig("overlord", "ana")
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1, user="bo"),))
    assert rig.client.role is None
    assert rig.actions.why_not("pause", ActionContext("jobs", jobs=(1,))) == ""
    rig.close()

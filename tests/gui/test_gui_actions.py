"""Every action on every state for every role: it sends exactly its requests, or says why and sends nothing.

What is possible is tried on a real core with the broker's own checks: what the window offers the farm takes,
and what the farm would refuse the window does not offer, as far as it can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QLineEdit, QListView, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.doing import AT_ONCE, TIMEOUT_S
from client_gui.actions.kinds import JUDGED_ALL
from client_gui.actions.pending import LOOKS_US, SETTLES_US
from client_gui.actions.prompts import FieldSheet, PrioritySheet
from client_gui.actions.records import BY_ID, RECORDS, Record, Scope, Value
from client_gui.desk import Focus
from client_gui.net.port import Answer, Ask, Resync, Standing, Welcomed
from client_gui.store.activity import Level
from client_gui.store.farmstore import Link
from farm.core.invariants import digest
from farm.model.errors import CallError, FarmUnreachable, IllegalMove
from farm.model.jobs import AfterSpec
from farm.model.states import UnitState, shown_state
from farm.protocol.client import ActReply, ActReq, NodeActReq
from farm.protocol.common import WelcomeMsg
from tests.support.core_rig import Rig as CoreRig
from tests.support.core_rig import step
from tests.support.gui_core import CoreDesk, json_of
from tests.support.gui_rig import Rig, job_row, node_row, step_row

CHANGES = [record for record in RECORDS if record.changes]


class Stage(QWidget):
    """A window with a list whose selection is given."""

    def __init__(self) -> None:
        super().__init__()
        self.context = ActionContext()
        self.list = QListView()
        self.edit = QLineEdit()
        self.button = QPushButton("a button")
        column = QVBoxLayout(self)
        for one in (self.list, self.edit, self.button):
            column.addWidget(one)
        self.resize(900, 700)
        self.held = 0

    def action_context(self) -> ActionContext:
        return self.context

    def hold_still(self) -> None:
        self.held += 1

    def let_go(self) -> None:
        self.held -= 1


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    found = Stage()
    qtbot.addWidget(found)
    with qtbot.waitActive(found):
        found.show()
    found.list.setFocus()
    return found


# -- jobs in every state --------------------------------------------------------------------------------


def _queued(rig: CoreRig) -> None:
    rig.submit(step(out=True))


def _running(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.join()
    rig.lease()


def _paused(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.act("pause", "J1")


def _paused_running(rig: CoreRig) -> None:
    _running(rig)
    rig.act("pause", "J1")


def _failed(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True, attempts=1))
    rig.join()
    rig.done(rig.lease())
    rig.fail(rig.lease(), "renderer")


def _blocked(rig: CoreRig) -> None:
    rig.submit(step("a", attempts=1, frames="1"), step("b", frames="1-3", after=(AfterSpec(step="a"),)))
    rig.join()
    rig.fail(rig.lease(), "renderer")
    rig.act("cancel", "J1/a/1")


def _canceled(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.act("cancel", "J1")


def _done(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True))
    rig.join()
    rig.done(rig.lease())
    rig.done(rig.lease())


def _skipped(rig: CoreRig) -> None:
    rig.submit(step(frames="1-2", out=True))
    rig.act("skip", "J1/beauty/1-2")


def _single(rig: CoreRig) -> None:
    rig.submit(step("stitch", frames=None))


def _single_done(rig: CoreRig) -> None:
    rig.submit(step("stitch", frames=None))
    rig.join()
    rig.done(rig.lease())


def _mixed(rig: CoreRig) -> None:
    rig.submit(
        step("beauty", frames="1-8", attempts=1),
        step("stitch", frames=None, after=(AfterSpec(step="beauty"),)),
    )
    rig.join()
    rig.done(rig.lease())
    rig.fail(rig.lease(), "renderer")
    rig.act("skip", "J1/beauty/8")
    rig.act("cancel", "J1/beauty/7")
    rig.lease()


def _archived(rig: CoreRig) -> None:
    _done(rig)
    rig.act("archive", "J1")


WORK: dict[str, Callable[[CoreRig], None]] = {
    "queued": _queued,
    "running": _running,
    "paused": _paused,
    "paused-running": _paused_running,
    "failed": _failed,
    "blocked": _blocked,
    "canceled": _canceled,
    "done": _done,
    "skipped": _skipped,
    "single": _single,
    "single-done": _single_done,
    "mixed": _mixed,
    "archived": _archived,
}
ROLES = (("artist", "ann"), ("artist", "bo"), ("wrangler", "wim"), ("admin", "root"))


def _contexts(desk: CoreDesk) -> Iterator[ActionContext]:
    """The job, each step, and for each state of frames those frames, and all of them."""
    job = desk.core.job()
    yield ActionContext("jobs", jobs=(job.id,))
    for one in job.steps:
        yield ActionContext("steps", units=(UnitsOf(job.id, one.spec.name),))
        places = range(one.units)
        groups = [tuple(places)] + [
            tuple(place for place in places if one.state[place] == state) for state in UnitState
        ]
        for chosen in groups:
            if not chosen:
                continue
            frames = ",".join(str(one.frame_of(place)) for place in chosen) if one.frames is not None else ""
            words = frozenset(UnitState(one.state[place]).word for place in chosen)
            yield ActionContext("frames", units=(UnitsOf(job.id, one.spec.name, chosen, frames, words),))


VALUES = {
    Value.PRIORITY: "61",
    Value.FIELDS: json_of(attempts="3"),
    Value.NODE_FIELDS: json_of(slots="2", schedule="mon-fri 19:00-07:00 UTC", rate="0.5"),
}


def _asked(gui: Rig) -> list[Any]:
    return [*gui.port.asked(ActReq), *gui.port.asked(NodeActReq)]


def _agree(stage: Stage) -> None:
    """Says yes to whatever is asked."""
    for sheet in stage.findChildren(ConfirmSheet):
        if sheet.isVisible():
            assert sheet.no.hasFocus(), "no is what Enter says"
            sheet.yes.click()


@pytest.mark.parametrize("state", WORK)
@pytest.mark.parametrize(("role", "user"), ROLES)
def test_what_is_offered_for_work_is_taken_and_what_is_not_is_not_sent(
    stage: Stage, state: str, role: str, user: str
) -> None:
    core = CoreRig()
    WORK[state](core)
    probe = CoreDesk(core, role, user)
    contexts = list(_contexts(probe))
    probe.close()
    for record in CHANGES:
        for context in contexts:
            _try_work(stage, record, context, state, role, user)


def _try_work(stage: Stage, record: Record, context: ActionContext, state: str, role: str, user: str) -> None:
    core = CoreRig()
    WORK[state](core)
    desk = CoreDesk(core, role, user)
    desk.show()
    stage.context = context
    value = VALUES.get(record.value, "")
    if record.value is Value.FIELDS and context.scope == "jobs" and len(core.job().steps) > 1:
        value = json_of(project="other")
    reason = desk.gui.actions.why_not(record.id, context)
    before = digest(core.core.farm)
    desk.gui.actions.run(record.id, context, value)
    _agree(stage)
    desk.gui.settle()
    sent = _asked(desk.gui)
    told = [(one.text, one.level) for one in desk.gui.notices.activity]
    where = f"{record.id} on {context} of a job that is {state}, as {role} {user}: {told}"
    assert len(told) == 1, where
    text, level = told[0]
    if reason:
        assert not sent, where
        assert level is Level.WARNING, where
        assert reason in text, where
        assert digest(core.core.farm) == before, where
        _would_be_in_vain(desk, record, context, value, where)
    else:
        assert sent, where
        assert {request.action for request in sent} <= {record.farm, "resume"}, where
        assert level is Level.DONE, where
        _settles(desk, where)
    desk.close()


#: What R leaves alone though the farm would do it: frames that are named are rendered again, done ones too.
GENTLER = {"retry"}


def _would_be_in_vain(desk: CoreDesk, record: Record, context: ActionContext, value: str, where: str) -> None:
    """What was not offered the broker refuses, or it changes nothing that shows."""
    if context.scope not in {scope.value for scope in record.scopes}:
        return
    addresses = [f"J{job}" for job in context.jobs] or [one.address for one in context.units]
    farm = desk.core.core.farm

    def shown() -> object:
        return [
            (job.shown(), job.priority, job.project, [bytes(one.state) for one in job.steps])
            for job in farm.jobs.values()
        ]

    before = shown()
    try:
        desk.answer(ActReq(id=1, action=record.farm, address=addresses[0], value=value))
    except CallError:
        return
    if record.id not in GENTLER:
        assert shown() == before, f"{where}: it was not offered, but the farm does it"


def _settles(desk: CoreDesk, where: str) -> None:
    """Shortly after, nothing is shown as under way, whatever news came."""
    desk.core.now_us += 1_000_000
    desk.show()
    desk.gui.now_us += SETTLES_US
    desk.gui.actions.doer.tick()
    assert len(desk.gui.actions.doer.cells) == 0, where


# -- nodes in every state -------------------------------------------------------------------------------


def _online(rig: CoreRig) -> None:
    rig.join()


def _busy(rig: CoreRig) -> None:
    rig.submit(step(out=True))
    rig.join()
    rig.lease()


def _drained(rig: CoreRig) -> None:
    rig.join()
    rig.node_act("node-drain", 1)


def _disabled(rig: CoreRig) -> None:
    rig.join()
    rig.node_act("node-disable", 1)


def _suspect(rig: CoreRig) -> None:
    rig.join()
    rig.wait(rig.settings.suspect_us / 1e6 + 1)


def _lost(rig: CoreRig) -> None:
    rig.join()
    rig.wait(rig.settings.lost_us / 1e6 + 1)


def _offline(rig: CoreRig) -> None:
    rig.bye(rig.join())


NODES: dict[str, Callable[[CoreRig], None]] = {
    "online": _online,
    "busy": _busy,
    "drained": _drained,
    "disabled": _disabled,
    "suspect": _suspect,
    "lost": _lost,
    "offline": _offline,
}


@pytest.mark.parametrize("state", NODES)
@pytest.mark.parametrize(("role", "user"), ROLES[1:])
def test_what_is_offered_for_nodes_is_taken_and_what_is_not_is_not_sent(
    stage: Stage, state: str, role: str, user: str
) -> None:
    for record in CHANGES:
        _try_node(stage, record, state, role, user)


def _try_node(stage: Stage, record: Record, state: str, role: str, user: str) -> None:
    core = CoreRig()
    NODES[state](core)
    desk = CoreDesk(core, role, user)
    desk.show()
    stage.context = context = ActionContext("nodes", nodes=(1,))
    reason = desk.gui.actions.why_not(record.id, context)
    before = digest(core.core.farm)
    desk.gui.actions.run(record.id, context, VALUES.get(record.value, ""))
    _agree(stage)
    desk.gui.settle()
    sent = _asked(desk.gui)
    (notice,) = desk.gui.notices.activity
    if reason:
        assert not sent
        assert digest(core.core.farm) == before
        assert reason in notice.text
        if record.id == "node-forget" and role != "artist":
            with pytest.raises(IllegalMove):
                desk.answer(NodeActReq(id=1, action="node-forget", node="1"))
    else:
        assert [request.action for request in sent] == [record.farm]
        assert notice.level is Level.DONE, notice.text
        _settles(desk, f"{record.id} on a node that is {state}")
    desk.close()


# -- by keyboard ----------------------------------------------------------------------------------------


def _press(qtbot: QtBot, widget: QWidget, key: str) -> None:
    combination = QKeySequence.fromString(key, QKeySequence.SequenceFormat.PortableText)[0]
    qtbot.keyClick(widget, combination.key(), combination.keyboardModifiers())


JOB_STATES = ("queued", "running", "paused", "failed", "blocked", "canceled", "done", "thawing")


@pytest.mark.parametrize(
    ("action", "key"),
    [(record.id, key) for record in RECORDS for key in record.keys if key not in ("Return", "Enter")],
)
def test_every_key_does_something_or_says_why_not(
    qtbot: QtBot, stage: Stage, rig: Rig, action: str, key: str
) -> None:
    book = rig.actions
    book.watch(stage)
    rig.client.look("test", jobs=True, nodes=True)
    rig.snapshot(
        tuple(job_row(n, state=state) for n, state in enumerate(JOB_STATES, 1)),
        tuple(node_row(n, state=state, enabled=n % 2 == 0) for n, state in enumerate(("online", "lost"), 1)),
    )
    invoked: list[str] = []
    own = ("palette", "shortcuts")
    for record in RECORDS:
        if not record.changes and record.id not in (*own, "undo"):
            book.handle(record.id, lambda context, value, name=record.id: invoked.append(name))
    scopes = {scope.value for scope in BY_ID[action].scopes}
    contexts = {
        "jobs": [ActionContext("jobs", jobs=(n,)) for n in range(1, len(JOB_STATES) + 1)],
        "steps": [ActionContext("steps", units=(UnitsOf(1, "beauty"),))],
        "frames": [ActionContext("frames", units=(UnitsOf(1, "beauty", (3,), "4", frozenset({"failed"})),))],
        "nodes": [ActionContext("nodes", nodes=(n,)) for n in (1, 2)],
    }
    tried = [context for scope in sorted(scopes & set(contexts)) for context in contexts[scope]]
    for context in tried or [ActionContext()]:
        stage.context = context
        stage.list.setFocus()
        posted, told = len(_asked(rig)), rig.notices.activity.version
        invoked.clear()
        reason = book.why_not(action, context)
        _press(qtbot, stage.list, key)
        rig.settle()
        sheets = [one for one in stage.findChildren(QWidget, "sheet") if one.isVisible()]
        sent = len(_asked(rig)) - posted
        if reason:
            assert rig.notices.activity.version > told, f"{key} on {context} says nothing"
            assert not sent
            assert not sheets
            assert not invoked
        else:
            assert sent or sheets or invoked == [action], f"{key} on {context} does nothing"
        for sheet in sheets:
            qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
            assert not sheet.isVisible()
            assert stage.list.hasFocus(), "the focus goes back to the list"
        assert len(_asked(rig)) - posted == sent, "Esc sends nothing"


def test_letters_are_typed_in_a_text_and_press_no_action(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stage.context = ActionContext("jobs", jobs=(1,))
    stage.edit.setFocus()
    qtbot.keyClicks(stage.edit, "paused ]=/?K")
    assert stage.edit.text() == "paused ]=/?K"
    stage.button.setFocus()
    for key in ("P", "X", "Shift+X", "Del", "A"):
        _press(qtbot, stage.button, key)
    assert not _asked(rig)
    assert not rig.notices.activity.version
    stage.list.setFocus()
    _press(qtbot, stage.list, "P")
    assert [request.action for request in rig.port.asked(ActReq)] == ["pause"]


def test_keys_that_were_changed_count_at_once_and_are_remembered(
    qtbot: QtBot, stage: Stage, rig: Rig
) -> None:
    book = rig.actions
    book.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stage.context = ActionContext("jobs", jobs=(1,))
    with pytest.raises(CallError, match="already"):
        book.set_keys("pause-toggle", ["R"])
    book.set_keys("pause-toggle", ["Ctrl+P"])
    _press(qtbot, stage.list, "P")
    assert not _asked(rig)
    _press(qtbot, stage.list, "Ctrl+P")
    assert len(_asked(rig)) == 1
    from client_gui.actions.book import ActionBook

    again = ActionBook(rig.client, rig.focus, rig.notices, rig.settings)
    assert again.keymap.keys("pause-toggle") == ("Ctrl+P",)


def test_keys_that_were_changed_in_one_window_are_heard_in_the_others(qtbot: QtBot, rig: Rig) -> None:
    from client_gui.actions.book import ActionBook

    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    stages = [Stage(), Stage()]
    books = [
        ActionBook(rig.client, Focus(rig.client), rig.notices, rig.settings, rig.client, shared=rig.actions)
        for _ in stages
    ]
    for one, book in zip(stages, books, strict=True):
        qtbot.addWidget(one)
        one.context = ActionContext("jobs", jobs=(1,))
        book.watch(one)
    books[0].set_keys("pause-toggle", ["Ctrl+Alt+P"])
    with qtbot.waitActive(stages[1]):
        stages[1].show()
        stages[1].activateWindow()
    stages[1].list.setFocus()
    _press(qtbot, stages[1].list, "P")
    assert not _asked(rig)
    _press(qtbot, stages[1].list, "Ctrl+Alt+P")
    assert len(_asked(rig)) == 1
    menu = books[1].menu(stages[1].context, stages[1])
    (entry,) = [one for one in menu.actions() if one.objectName() == "pause-toggle"]
    assert "Ctrl+Alt+P" in entry.text().replace(" ", "")
    menu.deleteLater()


# -- many at once, back again ----------------------------------------------------------------------------


def test_many_are_told_as_one_with_reasons_and_taken_back(stage: Stage) -> None:
    core = CoreRig()
    for n in range(1, 42):
        core.submit(step(), user="bo" if n in (4, 9) else "ann")
    core.act("cancel", "J7")
    desk = CoreDesk(core, "artist", "ann")
    book = desk.gui.actions
    desk.show()
    context = ActionContext("jobs", jobs=tuple(range(1, 42)))
    book.run("pause", context)
    shown = [book.pending("jobs", job, "state") for job in (1, 4, 7)]
    assert shown == ["paused", None, None]
    desk.gui.settle()
    assert len(desk.gui.port.asked(ActReq)) == 38
    *details, notice = desk.gui.notices.activity
    assert notice.text == (
        "Paused 38 jobs, 3 left out: "
        "J4 belongs to bo; artists act on their own jobs, ask a wrangler; and 2 more"
    )
    assert len(details) == 3
    assert notice.undo
    assert book.offer is not None
    assert book.offer.number == notice.undo
    desk.show()
    assert [job.id for job in core.core.farm.jobs.values() if job.paused] == [
        n for n in range(1, 42) if n not in (4, 7, 9)
    ]
    book.run("undo", context)
    desk.gui.settle()
    desk.show()
    assert not any(job.paused for job in core.core.farm.jobs.values())
    assert book.offer is None
    assert list(desk.gui.notices.activity)[-1].text.endswith(": 38 jobs")
    desk.close()


def test_requests_go_out_in_order_a_few_at_a_time(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, 61)))
    rig.actions.run("pause", ActionContext("jobs", jobs=tuple(range(60, 0, -1))))
    out = rig.port.asked(ActReq)
    assert [request.address for request in out] == [f"J{n}" for n in range(60, 60 - AT_ONCE, -1)]
    for place in range(60):
        request = rig.port.asked(ActReq)[place]
        rig.give(Answer(request.id, ActReply(id=request.id, changed=1)))
    assert [request.address for request in rig.port.asked(ActReq)] == [f"J{n}" for n in range(60, 0, -1)]
    assert not rig.actions.doer.busy
    (notice,) = rig.notices.activity
    assert notice.text == "Paused 60 jobs"


@pytest.mark.parametrize(
    ("action", "value", "look"),
    [
        ("priority", "70", lambda core: core.job().priority),
        ("priority-up", "", lambda core: core.job().priority),
        ("pause", "", lambda core: core.job().paused),
        ("set", json_of(project="moon", attempts="3"), lambda core: core.job().project),
    ],
)
def test_what_can_be_taken_back_is_exactly_as_before(
    action: str, value: str, look: Callable[[CoreRig], Any]
) -> None:
    core = CoreRig()
    core.submit(step(), project="mars")
    desk = CoreDesk(core)
    desk.show()
    before = look(core)
    context = ActionContext("jobs", jobs=(1,))
    if action == "set":
        # Only what the list knows has a way back without the sheet having read it.
        desk.gui.actions.run("set", context, json_of(attempts="3"))
        desk.gui.settle()
        assert desk.gui.actions.offer is None
        value = json_of(project="moon")
    desk.gui.actions.run(action, context, value)
    desk.gui.settle()
    assert look(core) != before
    desk.gui.actions.take_back()
    desk.gui.settle()
    assert look(core) == before
    desk.close()


def test_an_undo_is_offered_for_a_while_only(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1, message="")
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    with qtbot.waitSignal(rig.actions.offer_changed, timeout=1000):
        rig.settle()
    offer = rig.actions.offer
    assert offer is not None
    rig.now_us = offer.expires_us
    assert rig.actions.offer is None
    assert rig.actions.why_not("undo", ActionContext()) == "nothing can be taken back now"
    with qtbot.waitSignal(rig.actions.offer_changed, timeout=1000):
        rig.actions.doer.tick()


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
    sent = len(_asked(rig))
    rig.actions.take_back(told[0])
    rig.settle()
    assert len(_asked(rig)) == sent, "what a toast of before offers is not what was done here"
    assert rig.actions.offer is not None


def _move(rig: Rig) -> None:
    welcome = WelcomeMsg(version=1, session=2, farm_name="farm-B", software="0.1.0", role="admin", user="ana")
    rig.give(Welcomed(welcome, "farm-B", "10.0.0.9:7460", "other"), Standing(Link.LIVE))
    rig.snapshot(tuple(job_row(n) for n in range(1, 601)))


def test_a_question_about_another_farm_s_job_is_not_answered_into_this_one(stage: Stage, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("cancel", ActionContext("jobs", jobs=(1,)))
    (sheet,) = [one for one in stage.findChildren(ConfirmSheet) if one.isVisible()]
    _move(rig)
    assert not sheet.isVisible()
    assert not _asked(rig)


# -- very many -------------------------------------------------------------------------------------------

MANY = 600


def test_very_many_are_worked_out_in_slices_and_sent_in_order(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, MANY + 1)))
    rig.port.answers[ActReq] = lambda request: ActReply(id=request.id, changed=1)
    everything = ActionContext("jobs", jobs=tuple(range(1, MANY + 1)))
    rig.actions.run("pause", everything)
    assert not _asked(rig), "the window has its turn first"

    def over() -> bool:
        rig.settle()
        return len(_asked(rig)) >= MANY and not rig.actions.doer.busy

    qtbot.waitUntil(over)
    assert [one.address for one in rig.port.asked(ActReq)] == [f"J{n}" for n in range(1, MANY + 1)]
    assert list(rig.notices.activity)[-1].text == f"Paused {MANY} jobs"
    rig.actions.take_back()
    qtbot.waitUntil(lambda: over() and len(_asked(rig)) == 2 * MANY)
    assert {one.action for one in rig.port.asked(ActReq)[MANY:]} == {"resume"}


def test_what_is_being_worked_out_is_forgotten_with_its_farm(qtbot: QtBot, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n) for n in range(1, MANY + 1)))
    rig.actions.run("pause", ActionContext("jobs", jobs=tuple(range(1, MANY + 1))))
    _move(rig)
    done: list[int] = []
    rig.actions.run("pause", ActionContext("jobs", jobs=(7,)))
    QTimer.singleShot(20, lambda: done.append(1))
    qtbot.waitUntil(lambda: bool(done))
    assert [one.address for one in rig.port.asked(ActReq)] == ["J7"]


_KINDS = st.builds(
    dict,
    user=st.sampled_from(["ana", "bo", ""]),
    archived=st.booleans(),
    priority=st.sampled_from([0, 3, 50, 60, 61, 100]),
    counts=st.tuples(*(st.integers(0, 2) for _ in UnitState)).filter(any),
    paused=st.booleans(),
    told=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(_KINDS, min_size=1, max_size=8), role=st.sampled_from(["artist", "wrangler"]))
def test_one_of_each_kind_says_what_all_of_them_say(kinds: list[dict[str, Any]], role: str) -> None:
    rows = []
    for number in range(1, JUDGED_ALL + 15):
        kind = kinds[number % len(kinds)]
        counts = kind["counts"]
        state = shown_state(list(counts), paused=kind["paused"]).value
        one = step_row(counts=counts, units=sum(counts), state=state)
        rows.append(
            job_row(
                number,
                user=kind["user"],
                archived=kind["archived"],
                priority=kind["priority"],
                state=state,
                units=sum(counts),
                done=counts[UnitState.DONE],
                failed=counts[UnitState.FAILED],
                running=counts[UnitState.RUNNING],
                steps=(one,) if kind["told"] else (),
            )
        )
    rig = Rig(role, "ana")
    try:
        rig.client.look("test", jobs=True)
        rig.snapshot(tuple(rows))
        everything = ActionContext("jobs", jobs=(*(row.job for row in rows), 9999))
        assert len(rig.actions.sample(everything).jobs) <= len(kinds) + 1
        judged = rig.actions.judge(everything)
        for record in RECORDS:
            if Scope.JOBS not in record.scopes:
                continue
            alone = [
                rig.actions.why_not(record.id, ActionContext("jobs", jobs=(n,))) for n in everything.jobs
            ]
            expected = "" if "" in alone else alone[0]
            if record.id == "resubmit":
                expected = "works on one job at a time"
            assert judged(record.id) == expected, record.id
    finally:
        rig.close()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            dict,
            state=st.sampled_from(["online", "lost", "offline", "newer"]),
            enabled=st.booleans(),
            disabled=st.booleans(),
            running=st.sampled_from([(), ("J1/beauty/1",)]),
            software=st.sampled_from(["0.1.0", "0.0.9"]),
            update=st.sampled_from(["", "waiting", "failed"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_one_node_of_each_kind_says_what_all_of_them_say(kinds: list[dict[str, Any]]) -> None:
    rig = Rig("admin", "root")
    try:
        rig.client.look("test", nodes=True)
        numbers = tuple(range(1, JUDGED_ALL + 9))
        rig.snapshot((), tuple(node_row(n, **kinds[n % len(kinds)]) for n in numbers))
        judged = rig.actions.judge(ActionContext("nodes", nodes=numbers))
        for record in RECORDS:
            if Scope.NODES in record.scopes:
                alone = [rig.actions.why_not(record.id, ActionContext("nodes", nodes=(n,))) for n in numbers]
                assert judged(record.id) == ("" if "" in alone else alone[0]), record.id
    finally:
        rig.close()


@pytest.mark.parametrize("link", [Link.CONNECTING, Link.LOST, Link.REFUSED])
def test_offline_nothing_is_sent_and_the_reason_is_the_connection(rig: Rig, link: Link) -> None:
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
        assert reason == "not connected: the broker at 10.0.0.5 does not answer", record.id
        rig.actions.run(record.id, contexts[scope], "1")
    assert not _asked(rig)
    for action in ("log", "why", "copy-id", "star"):
        assert not rig.actions.why_not(action, contexts["jobs"]), "looking works offline"


def test_a_role_nobody_knows_yet_is_the_broker_s_to_judge(qapp: QApplication) -> None:
    rig = Rig("overlord", "ana")
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1, user="bo"),))
    assert rig.client.role is None
    assert rig.actions.why_not("pause", ActionContext("jobs", jobs=(1,))) == ""
    rig.close()


# -- menus -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [*JOB_STATES, ""])
@pytest.mark.parametrize("scope", ["", "jobs", "steps", "frames", "nodes", "holodeck"])
def test_a_menu_opens_on_every_state(stage: Stage, rig: Rig, state: str, scope: str) -> None:
    rig.client.look("test", jobs=True, nodes=True, opened=frozenset({1}))
    rig.snapshot((job_row(1, state=state, steps=(step_row(state=state),)),), (node_row(1, state=state),))
    context = ActionContext(
        scope, jobs=(1, 99), units=(UnitsOf(1, "beauty", (0,), "1", frozenset({state})), UnitsOf(1, "gone")),
        nodes=(1, 99),
    )  # fmt: skip
    menu = rig.actions.menu(context, stage)
    top = [action for action in menu.actions() if not action.isSeparator()]
    assert len(top) <= 12
    entries = [*top, *(inner for action in top if action.menu() for inner in action.menu().actions())]
    for entry in entries:
        if entry.menu() or entry.isSeparator():
            continue
        assert entry.toolTip()
        if not entry.isEnabled():
            assert entry.toolTip() == entry.statusTip()
            assert entry.toolTip().startswith("Not possible: ")
    named = {entry.objectName() for entry in entries if entry.objectName()}
    if scope in ("jobs", "steps", "frames", "nodes"):
        assert named == {record.id for record in RECORDS if scope in {one.value for one in record.scopes}}
    menu.deleteLater()


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_rows_stand_still_under_a_menu_and_it_means_what_was_selected(
    qtbot: QtBot, stage: Stage, rig: Rig
) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1), job_row(2)))
    menu = rig.actions.menu(ActionContext("jobs", jobs=(2,)), stage.list)
    menu.popup(stage.mapToGlobal(stage.rect().center()))
    qtbot.waitUntil(menu.isVisible)
    assert stage.held == 1
    rig.delta((job_row(3),), gone=("J1",))
    entry = next(action for action in menu.actions() if action.objectName() == "pause-toggle")
    menu.setActiveAction(entry)
    qtbot.keyClick(menu, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: stage.held == 0)
    assert [request.address for request in rig.port.asked(ActReq)] == ["J2"]


def test_a_button_is_grey_with_the_reason_and_wakes_with_the_connection(stage: Stage, rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    button = rig.actions.button("pause", lambda: ActionContext("jobs", jobs=(1,)), stage)
    assert button.isEnabled()
    rig.give(Standing(Link.LOST, "gone"))
    assert not button.isEnabled()
    assert button.toolTip() == "Not possible: not connected: gone"
    rig.give(Standing(Link.LIVE))
    button.click()
    assert len(_asked(rig)) == 1


# -- sheets that ask -------------------------------------------------------------------------------------


def test_cancelling_is_asked_about_by_name_and_no_is_the_answer_of_enter(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step(frames="1-4"))
    core.join()
    core.done(core.lease())
    core.lease()
    core.wait(1800, 1)
    desk = CoreDesk(core)
    desk.gui.now_us = core.now_us
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1,))
    stage.list.setFocus()
    _press(qtbot, stage.list, "Shift+X")
    (sheet,) = stage.findChildren(ConfirmSheet)
    desk.gui.settle()
    told = sheet.card.accessibleDescription()
    assert "J1  job" in told
    assert "1 of 4 frames are done; their files stay." in told
    texts = " ".join(label.text() for label in sheet.findChildren(type(sheet.label(""))))
    assert "Lost: what 1 attempt did in 30 m 00 s on its nodes" in texts
    assert "0.50 USD" in texts or "0.5 USD" in texts
    focus = QApplication.focusWidget()
    assert focus is sheet.no
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    assert not desk.gui.port.asked(ActReq)
    _press(qtbot, stage.list, "Shift+X")
    sheet = next(one for one in stage.findChildren(ConfirmSheet) if one.isVisible())
    seen = set()
    for _ in range(10):
        focus = QApplication.focusWidget()
        seen.add(focus)
        assert sheet.isAncestorOf(focus), "the keyboard stays in the sheet"
        if focus is sheet.yes:
            break
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    qtbot.keyClick(sheet.yes, Qt.Key.Key_Return)
    desk.gui.settle()
    assert [request.address for request in desk.gui.port.asked(ActReq)] == ["J1"]
    desk.close()


def test_of_many_the_count_has_to_be_typed(qtbot: QtBot, stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot(tuple(job_row(n, name=f"<b>shot {n}</b>") for n in range(1, 31)))
    rig.actions.run("cancel", ActionContext("jobs", jobs=tuple(range(1, 31))))
    (sheet,) = stage.findChildren(ConfirmSheet)
    assert not sheet.yes.isEnabled()
    edit = QApplication.focusWidget()
    assert isinstance(edit, QLineEdit)
    qtbot.keyClicks(edit, "29")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert not sheet.yes.isEnabled()
    edit.clear()
    qtbot.keyClicks(edit, "30")
    assert sheet.yes.isEnabled()
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert not _asked(rig), "Enter goes to the button, it does not press it"
    assert sheet.yes.hasFocus()
    qtbot.keyClick(sheet.yes, Qt.Key.Key_Return)
    assert len(_asked(rig)) == AT_ONCE


def test_a_priority_shows_what_changes_and_artists_end_at_theirs(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step())
    core.submit(step(), priority=20)
    desk = CoreDesk(core, "artist", "ann")
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1, 2))
    stage.list.setFocus()
    _press(qtbot, stage.list, "=")
    (sheet,) = stage.findChildren(PrioritySheet)
    assert sheet.box.maximum() == 75
    focus = QApplication.focusWidget()
    qtbot.keyClicks(focus, "70")
    assert sheet.preview.toPlainText().splitlines() == ["J1  job  50 → 70", "J2  job  20 → 70"]
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    assert sheet.apply.hasFocus()
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    assert [core.job(n).priority for n in (1, 2)] == [70, 70]
    desk.close()


def test_settings_show_old_and_new_of_every_job_and_come_back_with_undo(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step(attempts=2), project="mars")
    core.submit(step(attempts=4), project="mars")
    desk = CoreDesk(core)
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("jobs", jobs=(1, 2))
    stage.list.setFocus()
    _press(qtbot, stage.list, "E")
    (sheet,) = stage.findChildren(FieldSheet)
    desk.gui.settle()
    focus = QApplication.focusWidget()
    qtbot.keyClicks(focus, "attempts")
    qtbot.keyClick(focus, Qt.Key.Key_Return)
    edit = QApplication.focusWidget()
    assert isinstance(edit, QLineEdit)
    assert edit.accessibleName() == "attempts"
    assert (edit.text(), edit.placeholderText()) == ("", "various")
    qtbot.keyClicks(edit, "1000")
    assert not sheet.apply.isEnabled()
    assert "attempts" in sheet.trouble.text()
    edit.selectAll()
    qtbot.keyClicks(edit, "5")
    assert sheet.preview.toPlainText().splitlines() == ["J1  attempts  2 → 5", "J2  attempts  4 → 5"]
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    attempts = [core.job(n).steps[0].spec.attempts for n in (1, 2)]
    assert attempts == [5, 5]
    desk.gui.actions.take_back()
    desk.gui.settle()
    assert [core.job(n).steps[0].spec.attempts for n in (1, 2)] == [2, 4]
    desk.close()


def test_settings_of_a_node_are_checked_before_they_are_sent(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.join()
    desk = CoreDesk(core)
    desk.gui.actions.watch(stage)
    desk.show()
    stage.context = ActionContext("nodes", nodes=(1,))
    stage.list.setFocus()
    _press(qtbot, stage.list, "E")
    (sheet,) = stage.findChildren(FieldSheet)
    slots = next(one for one in sheet.findChildren(QLineEdit) if one.accessibleName() == "slots")
    slots.setFocus()
    slots.selectAll()
    qtbot.keyClicks(slots, "many")
    assert not sheet.apply.isEnabled()
    assert "no number" in sheet.trouble.text()
    slots.selectAll()
    qtbot.keyClicks(slots, "3")
    qtbot.keyClick(slots, Qt.Key.Key_Return)
    qtbot.keyClick(sheet.apply, Qt.Key.Key_Return)
    desk.gui.settle()
    assert core.node(1).settings.slots == 3
    desk.close()


def test_a_lost_connection_while_a_question_is_open_sends_nothing(stage: Stage, rig: Rig) -> None:
    rig.actions.watch(stage)
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("cancel", ActionContext("jobs", jobs=(1,)))
    (sheet,) = stage.findChildren(ConfirmSheet)
    rig.give(Standing(Link.LOST, "gone"))
    sheet.yes.click()
    assert not _asked(rig)
    assert "nothing was sent" in list(rig.notices.activity)[-1].text


def test_asks_are_never_repeated_by_themselves(rig: Rig) -> None:
    rig.client.look("test", jobs=True)
    rig.snapshot((job_row(1),))
    rig.actions.run("pause", ActionContext("jobs", jobs=(1,)))
    asks = [message for message in rig.port.posted if isinstance(message, Ask)]
    assert [ask.repeat for ask in asks] == [False]

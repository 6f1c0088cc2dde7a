"""Docks that say things (Why, Spend, Activity): from answers, by keyboard, and in every empty state."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.store.activity import Level
from client_gui.store.farmstore import Link
from client_gui.views.activity import ActivityView
from client_gui.views.spend import SpendView
from client_gui.views.why import WhyView
from farm.model.errors import Denied
from farm.protocol.client import (
    ActReq,
    SpendLine,
    SpendReply,
    SpendReq,
    StatusReply,
    StatusReq,
    WhyCause,
    WhyNodes,
    WhyReply,
    WhyReq,
    WhyRow,
    WhyWork,
)
from tests.support.gui_rig import NOW_US, Rig, job_row


def said(view: QWidget) -> str:
    """All words a view shows."""
    return "\n".join(label.text() for label in view.findChildren(QLabel) if label.isVisibleTo(view))


def shown(qtbot: QtBot, view: QWidget) -> None:
    qtbot.addWidget(view)
    view.resize(700, 500)
    view.show()


WAITS = WhyRow(
    address="J1/beauty",
    state="queued",
    units=50,
    causes=(
        WhyCause("no node in service has 64 GiB free", "lower `ram` with `farm set J1 ram=32GiB`"),
        WhyCause("<b>20 of 20</b> tokens of nuke are in use", ""),
    ),
    nodes=(
        WhyNodes(
            filter="room",
            reason="12 GiB free, 64 needed",
            cure="",
            nodes=("rack-001", "rack-002", "rack-003"),
            count=41,
        ),
    ),
    start_low_us=NOW_US + 600_000_000,
    start_high_us=NOW_US + 1_500_000_000,
    ahead=24,
    share=0.25,
)


class TestWhy:
    def test_words_of_the_broker_are_shown_as_they_are(self, rig: Rig, qtbot: QtBot) -> None:
        rig.port.answers[WhyReq] = lambda req: WhyReply(id=req.id, rows=(WAITS,))
        view = WhyView(rig.desk)
        shown(qtbot, view)
        rig.snapshot((job_row(1),))
        rig.focus.set_job(1)
        qtbot.waitUntil(lambda: bool(rig.port.asked(WhyReq)))
        rig.settle()
        text = said(view)
        assert rig.port.asked(WhyReq)[-1].address == "J1"
        assert "J1/beauty is queued · 50 frames" in text
        assert "no node in service has 64 GiB free" in text
        assert "→ lower `ram` with `farm set J1 ram=32GiB`" in text
        assert "<b>20 of 20</b> tokens of nuke are in use" in text, "what the farm says is never markup"
        assert "rack-001, rack-002, rack-003 and 38 more: 12 GiB free, 64 needed" in text
        assert "Expected to start: 10–25 min" in text
        assert "24 frames before it in the order" in text
        assert "25%" in text

    def test_what_would_help_is_a_button_that_does_it(self, rig: Rig, qtbot: QtBot) -> None:
        paused = WhyRow(
            address="J1",
            state="paused",
            units=50,
            causes=(WhyCause("the job is paused by bo", "farm resume J1"),),
        )
        limit = WhyCause("20 of 20 nuke are in use", "a wrangler: farm policy set limits.nuke.total=N")
        waits = WhyRow(
            address="J1/beauty",
            state="queued",
            units=50,
            causes=(WhyCause("90 frames before it", "farm priority J1 71"), limit),
        )
        rig.port.answers[WhyReq] = lambda req: WhyReply(id=req.id, rows=(paused, waits))
        view = WhyView(rig.desk)
        shown(qtbot, view)
        rig.snapshot((job_row(1, state="paused"),))
        rig.focus.set_job(1)
        qtbot.waitUntil(lambda: bool(rig.port.asked(WhyReq)))
        rig.settle()
        buttons = {button.text(): button for button in view.findChildren(QAbstractButton)}
        assert {"Resume J1", "Priority 71 J1"} <= set(buttons)
        buttons["Resume J1"].setFocus()
        qtbot.keyClick(buttons["Resume J1"], Qt.Key.Key_Space)
        assert [(act.action, act.address) for act in rig.port.asked(ActReq)] == [("resume", "J1")]
        qtbot.keyClick(buttons["Priority 71 J1"], Qt.Key.Key_Space)
        assert [(act.action, act.value) for act in rig.port.asked(ActReq)][1:] == [("priority", "71")]
        copy = next(b for b in buttons.values() if b.accessibleName().startswith("Copy: a wrangler"))
        qtbot.keyClick(copy, Qt.Key.Key_Space)
        assert QGuiApplication.clipboard().text() == "farm policy set limits.nuke.total=N"

    def test_a_frame_is_asked_about_by_its_number_not_its_place(self, rig: Rig, qtbot: QtBot) -> None:
        rig.port.answers[WhyReq] = lambda req: WhyReply(id=req.id)
        view = WhyView(rig.desk)
        shown(qtbot, view)
        rig.snapshot((job_row(1),))
        rig.focus.set_job(1)
        rig.focus.set_unit("beauty", 16)
        qtbot.waitUntil(lambda: any(r.address == "J1/beauty/17" for r in rig.port.asked(WhyReq)))
        rig.settle()
        assert "The farm says nothing about J1/beauty/17." in said(view)

    def test_why_a_node_is_idle(self, rig: Rig, qtbot: QtBot) -> None:
        work = (WhyWork("J4/comp", "it lacks nuke", "install nuke 15 on it"),)
        rig.port.answers[WhyReq] = lambda req: WhyReply(id=req.id, node="rack-7", work=work, waiting=3)
        view = WhyView(rig.desk)
        shown(qtbot, view)
        rig.focus.set_node(7)
        qtbot.waitUntil(lambda: any(r.node == "7" for r in rig.port.asked(WhyReq)))
        rig.settle()
        text = said(view)
        assert "rack-7 is in service and has room" in text
        assert "3 steps wait in the farm (the first 1 in order); not here, because:" in text
        assert "J4/comp: it lacks nuke" in text
        assert "→ install nuke 15 on it" in text

    def test_nothing_selected_offline_and_refused_say_so(self, rig: Rig, qtbot: QtBot) -> None:
        view = WhyView(rig.desk)
        shown(qtbot, view)
        assert "Select a job, a frame or a node" in said(view)
        rig.give(Standing(Link.LOST, "the broker is gone"))
        rig.focus.set_job(1)
        qtbot.waitUntil(lambda: "cannot be asked just now" in said(view))
        assert rig.port.asked(WhyReq) == []

        def deny(req: WhyReq) -> Any:
            raise Denied("bo may not see J1", hint="ask a wrangler")

        rig.port.answers[WhyReq] = deny
        rig.snapshot((job_row(1),))
        rig.give(Standing(Link.LIVE))
        qtbot.waitUntil(lambda: bool(rig.port.asked(WhyReq)))
        rig.settle()
        assert "bo may not see J1" in said(view)
        assert "ask a wrangler" in said(view)

    def test_a_hidden_dock_asks_nothing(self, rig: Rig, qtbot: QtBot) -> None:
        view = WhyView(rig.desk)
        shown(qtbot, view)
        view.hide()
        rig.focus.set_job(1)
        assert rig.followed() == ()
        assert rig.port.asked(WhyReq) == []


def line(key: str, useful: int, waste: int, idle: int = 0, frames: int = 10) -> SpendLine:
    return SpendLine(
        key=key,
        total_nano=useful + waste + idle,
        useful_nano=useful,
        waste_nano=waste,
        idle_nano=idle,
        busy_s=3600.0,
        frames=frames,
    )


def money(rig: Rig, *lines: SpendLine) -> None:
    total = line("total", sum(x.useful_nano for x in lines), sum(x.waste_nano for x in lines))
    rig.port.answers[SpendReq] = lambda req: SpendReply(id=req.id, by=req.by, lines=lines, total=total)
    rig.port.answers[StatusReq] = lambda req: StatusReply(
        id=req.id,
        farm_name="farm-A",
        farm_id="x",
        software="0.1.0",
        up_s=1.0,
        jobs={},
        units={},
        nodes={},
        spend_nano=0,
        burn_nano_h=4_200_000_000,
    )


class TestSpend:
    def test_figures_and_lines_are_the_broker_s(
        self, rig: Rig, qtbot: QtBot, qtmodeltester: ModelTester
    ) -> None:
        money(rig, line("J1", 9_000_000_000, 1_000_000_000), line("J2", 30_000_000_000, 0))
        view = SpendView(rig.desk)
        shown(qtbot, view)
        rig.snapshot((job_row(1), job_row(2, cost_low_nano=None, cost_high_nano=None)))
        qtbot.waitUntil(lambda: bool(rig.port.asked(SpendReq)))
        rig.settle()
        qtmodeltester.check(view.model)
        cells = [[view.model.index(r, c).data() for c in (0, 1, 3, 8)] for r in range(2)]
        assert cells == [
            ["J2  sh0002_lgt_v001", "30.00 USD", "0 USD", "3.00 USD"],
            ["J1  sh0001_lgt_v001", "10.00 USD", "1.00 USD", "1.00 USD"],
        ]
        text = said(view)
        assert "40.00 USD" in text
        assert "4.20 USD" in text
        # J1 is expected to cost 2.80 to 3.40 USD in all and has cost 1.25 so far; nothing is known of J2.
        assert view.ahead() == (1_550_000_000, 2_150_000_000, 1)
        assert "1.55–2.15 USD" in text

    def test_small_amounts_are_shown_whole(self, rig: Rig, qtbot: QtBot) -> None:
        money(rig, line("J1", 123_456, 98_765, 4_321), line("J2", 123_456_789_012_345, 0))
        view = SpendView(rig.desk)
        shown(qtbot, view)
        qtbot.waitUntil(lambda: bool(rig.port.asked(SpendReq)))
        rig.settle()
        table, metrics = view.table, view.table.fontMetrics()
        for column in range(1, view.model.columnCount()):
            for row in range(2):
                text = str(view.model.index(row, column).data() or "")
                assert metrics.horizontalAdvance(text) < table.columnWidth(column), text
        before = [table.columnWidth(column) for column in range(1, view.model.columnCount())]
        money(rig, line("J1", 2_000_000_000, 0))
        view.refresh()
        qtbot.waitUntil(lambda: len(rig.port.asked(SpendReq)) > 1)
        rig.settle()
        after = [table.columnWidth(column) for column in range(1, view.model.columnCount())]
        assert after == before, "columns do not jump while figures change"

    def test_selected_lines_stay_selected_while_figures_change(self, rig: Rig, qtbot: QtBot) -> None:
        money(rig, line("J1", 10, 0), line("J2", 20, 0), line("J3", 30, 0))
        view = SpendView(rig.desk)
        shown(qtbot, view)
        qtbot.waitUntil(lambda: bool(rig.port.asked(SpendReq)))
        rig.settle()
        assert [x.key for x in view.model.lines] == ["J3", "J2", "J1"]
        view.table.selectRow(2)
        assert view.action_context().jobs == (1,)
        money(rig, line("J1", 99, 0), line("J2", 20, 0), line("J4", 25, 0))
        view.refresh()
        qtbot.waitUntil(lambda: len(rig.port.asked(SpendReq)) > 1)
        rig.settle()
        assert [x.key for x in view.model.lines] == ["J1", "J4", "J2"]
        assert view.action_context().jobs == (1,)
        assert rig.focus.job == 1

    def test_by_user_by_keyboard_and_copied_exactly(self, rig: Rig, qtbot: QtBot) -> None:
        money(rig, line("ana", 1_234_567_891, 9))
        view = SpendView(rig.desk)
        shown(qtbot, view)
        button = next(b for b in view.findChildren(QAbstractButton) if b.accessibleName() == "Money by user")
        button.setFocus()
        qtbot.keyClick(button, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda: any(r.by == "user" for r in rig.port.asked(SpendReq)))
        rig.settle()
        view.table.setFocus()
        qtbot.keyClick(view.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        qtbot.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        copied = QGuiApplication.clipboard().text().splitlines()
        assert copied[0] == "user,total_usd,useful_usd,waste_usd,idle_usd,busy_s,frames"
        assert copied[1] == "ana,1.234568,1.234568,0.000000,0.000000,3600.000,10"

    def test_an_artist_is_told_what_is_not_theirs_to_see(self, rig: Rig, qtbot: QtBot) -> None:
        def deny(req: SpendReq) -> Any:
            raise Denied("ana (artist) may not show what work has cost", hint="ask a wrangler")

        rig.port.answers[SpendReq] = deny
        view = SpendView(rig.desk)
        shown(qtbot, view)
        qtbot.waitUntil(lambda: bool(rig.port.asked(SpendReq)))
        rig.settle()
        assert "may not show what work has cost" in said(view)


class TestActivity:
    def test_newest_first_counted_up_and_filtered(
        self, rig: Rig, qtbot: QtBot, qtmodeltester: ModelTester
    ) -> None:
        view = ActivityView(rig.desk)
        shown(qtbot, view)
        assert "Nothing has happened yet" in said(view)
        qtmodeltester.check(view.model)
        rig.notices.say("Paused 3 jobs", Level.DONE, about="J1")
        rig.notices.say("the broker is gone", Level.ERROR, hint="it is tried again")
        rig.notices.say("the broker is gone", Level.ERROR, hint="it is tried again")
        rows = [[view.model.index(r, c).data() for c in (1, 2, 3)] for r in range(view.model.rowCount())]
        assert rows == [["✕", "the broker is gone  (×2)", "it is tried again"], ["✓", "Paused 3 jobs", ""]]
        view.search.setFocus()
        qtbot.keyClicks(view.search, "paused")
        assert view.model.rowCount() == 1
        view.search.setText("nothing like it")
        assert "The filter hides all 2 notices" in said(view)
        view.search.clear()
        view.quiet.setFocus()
        qtbot.keyClick(view.quiet, Qt.Key.Key_Space)
        assert [view.model.index(r, 2).data() for r in range(view.model.rowCount())] == [
            "the broker is gone  (×2)"
        ]

    def test_a_line_leads_to_what_it_is_about(self, rig: Rig, qtbot: QtBot) -> None:
        view = ActivityView(rig.desk)
        shown(qtbot, view)
        rig.notices.say("J12 failed", Level.WARNING, about="J12/beauty/17")
        wanted: list[str] = []
        rig.focus.wanted.connect(wanted.append)
        view.table.setFocus()
        view.table.selectRow(0)
        qtbot.keyClick(view.table, Qt.Key.Key_Return)
        assert rig.focus.job == 12
        assert wanted == ["job"]

    @pytest.mark.parametrize("most", [5])
    def test_the_ring_lets_the_oldest_go(self, rig: Rig, qtbot: QtBot, most: int) -> None:
        view = ActivityView(rig.desk)
        shown(qtbot, view)
        activity = rig.notices.activity
        activity._kept = type(activity._kept)(maxlen=most)
        for number in range(8):
            rig.notices.say(f"notice {number}")
        assert [view.model.index(r, 2).data() for r in range(view.model.rowCount())] == [
            f"notice {n}" for n in (7, 6, 5, 4, 3)
        ]

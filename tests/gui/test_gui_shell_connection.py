"""How the window tells of its connection, and what it keeps while there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.net.port import Resync, Standing, Welcomed
from client_gui.net.programs import LocalFarm, State
from client_gui.settings import WINDOWS
from client_gui.shell.standing import chip_text
from client_gui.shell.workspaces import WRANGLER
from client_gui.store.activity import Level
from client_gui.store.draft import Draft, Stage
from client_gui.store.farmstore import Link
from client_gui.views.submit_parts.shelf import Shelf
from farm.protocol.client import (
    JobReply,
    JobReq,
    SubmitReply,
    SubmitReq,
)
from farm.protocol.common import WelcomeMsg
from tests.support.gui_rig import Rig, job_row, node_row
from tests.support.gui_shell import Shell, no_raise, press, seen

# -- the connection --


@pytest.mark.parametrize(
    ("seconds", "tone", "word"),
    [
        (0, "good", "0.9 ms  live"),
        (2.9, "good", "0.9 ms  live"),
        (3, "warn", "no word for 3 s"),
        (9.9, "warn", "no word for 9 s"),
        (10, "bad", "no word for 10 s"),
        (200, "bad", "no word for 3 m 20 s"),
        (7500, "bad", "no word for 2 h 05 m"),
    ],
)
def test_the_chip_says_how_old_everything_is(shell: Shell, seconds: float, tone: str, word: str) -> None:
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.client.store.heard(shell.rig.now_us, 900)
    shell.later(seconds)
    assert window.top.chip_text == f"farm-A  {word}"
    assert window.top.chip.accessibleName() == f"Farm farm-A  {word}"
    found = chip_text(shell.rig.client, shell.rig.now_us)
    assert found.tone == tone


@no_raise
def test_a_lost_connection_says_why_since_when_and_when_it_is_tried_again(shell: Shell) -> None:
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.give(Standing(Link.LOST, "the broker gave no answer", "is it running?", "unreachable", 15.0))
    assert window.banners.text("offline") == "", "a hiccup needs no banner"
    assert window.top.chip_text == "farm-A  connection lost"
    shell.later(11)
    banner = window.banners.text("offline")
    assert banner.startswith("No answer from farm-A: the broker gave no answer. Everything is as of ")
    assert "Is it running?" in banner
    assert banner.endswith("Next try in 4 s.")
    window.top.open_card()
    lines = window.top.card.accessibleDescription()
    assert "Trouble: the broker gave no answer" in lines
    assert "Next try: in 4 s" in lines
    assert "You are: ana, wrangler" in lines
    shell.qtbot.keyClick(window.top.card, Qt.Key.Key_Escape)
    assert not window.top.card.isVisible()
    shell.rig.give(Standing(Link.LIVE))
    shell.rig.client.store.heard(shell.rig.now_us)
    shell.later(0)
    assert window.banners.text("offline") == ""


@no_raise
def test_a_farm_of_this_machine_that_died_is_started_from_the_banner(
    shell: Shell, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[LocalFarm] = []
    monkeypatch.setattr(LocalFarm, "restart", lambda local: started.append(local))
    window = shell.one()
    shell.rig.snapshot((job_row(1),))
    shell.rig.give(Standing(Link.LOST, "nothing answers at x", "is it on?", "unreachable", 15.0))
    shell.later(11)

    def texts() -> list[str]:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        return [one.text() for one in window.banners.findChildren(QPushButton)]

    assert texts() == ["Try now", "Connect to another farm…"], "another machine's broker is not ours to start"
    ended = "no farm answers at x: its broker (process 9) has ended"
    shell.rig.give(Standing(Link.LOST, ended, "start one with `farm broker`", "unreachable", 15.0))
    window.tick()
    assert texts() == ["Start it again", "Try now", "Connect to another farm…"]
    assert "`farm broker`" not in window.banners.text("offline")
    next(one for one in window.banners.findChildren(QPushButton) if one.text() == "Start it again").click()
    (local,) = started
    assert local.farm == (shell.rig.client.farm or "local")
    local.state = State.STARTING
    local.changed.emit()
    window.tick()
    assert texts() == ["Try now", "Connect to another farm…"]
    assert window.banners.text("offline").endswith("It is being started.")
    before = len(shell.rig.port.posted)
    local.state = State.SERVING
    local.serving.emit(local.farm)
    assert Resync() in shell.rig.port.posted[before:]
    local.state, local.trouble = State.IDLE, "the broker ended: the disk is full"
    local.changed.emit()
    assert "the disk is full" in window.toasts.texts[-1]


def test_trying_at_once_is_a_button(shell: Shell) -> None:
    window = shell.one()
    shell.rig.give(Standing(Link.LOST, "gone", "", "unreachable", 15.0))
    shell.later(11)
    posted = len(shell.rig.port.posted)
    button = next(b for b in window.banners.findChildren(QPushButton) if b.text() == "Try now")
    button.setFocus()
    shell.qtbot.keyClick(button, Qt.Key.Key_Space)
    assert [type(one).__name__ for one in shell.rig.port.posted[posted:]] == ["Resync"]


def test_a_refusal_says_so_and_leads_to_another_farm(shell: Shell) -> None:
    window = shell.one()
    shell.rig.give(Standing(Link.REFUSED, "the key was revoked", "ask for a new token", "refused"))
    shell.later(0)
    assert window.top.chip_text == "farm-A  refused"
    assert "farm-A refuses this client: the key was revoked" in window.banners.text("offline")
    window.top.card.other_wanted.emit()
    shell.settle()
    page = window.pages.currentWidget()
    assert page is not window.room
    page.connect_to.emit("west")  # type: ignore[attr-defined]
    assert shell.rig.dialled()[-1] == "west"


def test_with_no_farm_at_all_the_window_is_the_welcome_page(shell: Shell) -> None:
    shell.rig.client.welcome = None
    shell.rig.client.store.heard_us = 0
    shell.rig.give(Standing(Link.LOST, "no farm was joined", "", "unreachable"))
    window = shell.one()
    assert window.pages.currentWidget() is not window.room
    assert window.top.chip_text.endswith("not connected")
    assert "jobs" not in shell.rig.followed(), "docks behind it follow nothing"
    shell.rig.give(
        Welcomed(
            WelcomeMsg(version=1, session=2, farm_name="west", software="0.1.0", role="artist", user="bo"),
            "west",
            "10.0.0.6:7460",
        ),
        Standing(Link.LIVE),
    )
    shell.settle()
    assert window.pages.currentWidget() is window.room
    assert window.windowTitle().startswith("west – Artist")


def test_a_broker_in_another_version_is_told_with_a_way_to_start_anew(shell: Shell) -> None:
    windows = shell.open()
    window = windows.open[0]

    def welcomed(software: str) -> None:
        shell.rig.give(
            Welcomed(
                WelcomeMsg(
                    version=1, session=3, farm_name="farm-A", software=software, role="wrangler", user="ana"
                ),
                "farm-A",
                "10.0.0.5:7460",
            ),
            Standing(Link.LIVE),
        )  # fmt: skip

    welcomed("0.1.0")
    assert window.banners.text("upgraded") == ""
    welcomed("0.2.0")
    assert "from 0.1.0 to 0.2.0" in window.banners.text("upgraded")
    button = next(b for b in window.banners.findChildren(QPushButton) if b.text() == "Start anew")
    button.click()
    shell.settle()
    assert shell.restarts == 1
    assert windows.open == ()
    assert len(shell.rig.settings.get(WINDOWS)) == 1, "the window comes back"


# -- offline, again, sent off before --


@no_raise
def test_the_keyboard_stays_in_the_list_while_the_farm_is_away(shell: Shell) -> None:
    window, rig = shell.one(), shell.rig
    rig.snapshot((job_row(1), job_row(2)), (node_row(1),))
    shell.settle()
    view = window.room.docks["jobs"].view
    table = QApplication.focusWidget()
    assert view.isAncestorOf(table)
    table.go_to(2)  # type: ignore[union-attr]
    for standing in (
        Standing(Link.LOST, "no answer", "is it up?", "unreachable", 4.0),
        Standing(Link.CONNECTING, "no answer"),
        Standing(Link.LOST, "no answer", "is it up?", "unreachable", 4.0),
        Standing(Link.REFUSED, "the key was revoked"),
        Standing(Link.LIVE),
    ):
        rig.give(standing)
        shell.later(15)
        shell.settle()
        assert QApplication.focusWidget() is table, standing
        assert window.room.keys == "jobs"
    assert view.action_context().jobs == (2,)


def test_the_keys_go_to_the_list_when_the_welcome_page_gives_way(qapp: QApplication, qtbot: QtBot) -> None:
    rig = Rig()
    rig.client.welcome = None
    rig.give(Standing(Link.LOST, "no farm is known here"))
    shell = Shell(rig, qtbot)
    try:
        window = shell.one()
        assert window.pages.currentWidget() is not window.room
        assert window.pages.currentWidget().isAncestorOf(QApplication.focusWidget())
        hello = WelcomeMsg(version=1, session=2, farm_name="a", software="0.1.0", role="admin", user="ana")
        rig.give(Welcomed(hello, "a", "10.0.0.5:7460"), Standing(Link.LIVE))
        shell.settle()
        assert window.pages.currentWidget() is window.room
        rig.snapshot((job_row(1),), (node_row(1),))
        shell.keys_to(window)
        assert window.room.docks["jobs"].view.isAncestorOf(QApplication.focusWidget())
        assert window.room.keys == "jobs"
    finally:
        shell.close()
        rig.close()


@no_raise
def test_a_job_is_submitted_again_by_key(shell: Shell) -> None:
    window, rig = shell.one(), shell.rig
    rig.snapshot((job_row(1), job_row(2)))
    document = {"overcrank_job": 1, "name": "again", "steps": [
        {"name": "beauty", "renderer": "blender", "frames": "1-100", "params": {"scene": "/p/a.blend"},
         "outputs": [{"pattern": "/p/out/a.####.exr"}]}]}  # fmt: skip
    rig.port.answers[JobReq] = lambda body: JobReply(
        id=body.id, job=job_row(body.job), spec=msgspec.json.encode(document)
    )
    shell.settle()
    window.room.docks["jobs"].view.table.go_to(2)  # type: ignore[attr-defined]
    press(shell, window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    view: Any = window.room.docks["submit"].view

    def there() -> bool:
        shell.settle()
        return view.draft() is not None

    shell.qtbot.waitUntil(there)
    assert rig.port.asked(JobReq)[-1].job == 2
    assert view.draft().document["steps"][0]["frames"] == "1-100"
    assert "submit" in seen(window)
    frames = ActionContext("frames", units=(UnitsOf(1, "beauty", (3, 4), "4-5"),))
    window.desk.actions.run("resubmit", frames)
    shell.qtbot.waitUntil(lambda: there() and view.draft().document["steps"][0]["frames"] == "4-5")
    both = ActionContext("jobs", jobs=(1, 2))
    assert window.desk.actions.why_not("resubmit", both) == "works on one job at a time"
    for draft in list(view.outbox.drafts):
        view.outbox.close(draft)


def test_what_was_sent_off_before_a_restart_goes_out_without_the_submit_dock(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"overcrank_job": 1, "name": "kept", "steps": [
        {"name": "beauty", "renderer": "blender", "frames": "1-4", "params": {"scene": "/p/a.blend"},
         "outputs": [{"pattern": "/p/out/a.####.exr"}]}]}  # fmt: skip
    kept = Draft("11111111-2222-4333-8444-555555555555", document)
    kept.seal("a-token")
    kept.stage = Stage.WAITING
    Shelf().write(kept.id, msgspec.json.encode(kept.record()))
    shell.rig.port.answers[SubmitReq] = lambda body: SubmitReply(id=body.id, job=77)
    windows = shell.open()
    windows.open_outbox()

    def sent() -> bool:
        shell.settle()
        return bool(shell.rig.port.asked(SubmitReq))

    shell.qtbot.waitUntil(sent)
    (asked,) = shell.rig.port.asked(SubmitReq)
    assert msgspec.json.decode(asked.job)["token"] == "a-token"
    shell.settle()
    assert any("J77" in notice.text for notice in shell.rig.notices.activity)
    outbox = shell.rig.client.property("outbox")
    outbox.end()


def test_what_happened_can_be_read_in_a_narrow_dock(shell: Shell) -> None:
    window = shell.one()
    window.change_workspace(WRANGLER)
    window.show_dock("activity")
    shell.rig.notices.say("Paused 38 jobs, 3 left out", Level.WARNING, hint="artists act on their own jobs")
    shell.settle()
    table: Any = window.room.docks["activity"].view.table  # type: ignore[attr-defined]
    what = table.columnWidth(2)
    assert what > table.viewport().width() * 0.5
    assert "artists act on their own jobs" in table.model().index(0, 2).data(Qt.ItemDataRole.ToolTipRole)

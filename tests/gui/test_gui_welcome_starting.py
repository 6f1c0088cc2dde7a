"""Farms the welcome page finds, starts on this machine, and shows as a demo."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QAbstractItemModel, QObject, Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.net.demo import Demo
from client_gui.net.discover import Choice, Discovery, known_choices, merged
from client_gui.net.port import Dial, Standing
from client_gui.net.programs import LocalFarm, Program, State
from client_gui.shell.restart import Restart
from client_gui.store.farmstore import Link
from client_gui.views.welcome import WelcomeView
from client_gui.views.welcome_parts.choices import Choices
from farm.config.places import Endpoint, Places, read_endpoint, remember_joined
from tests.support.gui_rig import Rig
from tests.support.gui_welcome import Page, Quiet, announced

pytestmark = pytest.mark.usefixtures("home")


# -- finding -----------------------------------------------------------------------------------------


def test_farms_of_this_machine_are_known_and_those_that_are_announced_too_are_told_once() -> None:
    joined = Endpoint(control="10.0.0.5:7460", join="", bulk="", public="p", farm_id="id-studio")
    ended = Endpoint(control="127.0.0.1:9", join="", bulk="", public="p", farm_id="id-local", pid=2**22 + 5)
    remember_joined(Places("studio"), joined)
    ended.write(Places("local").endpoint)
    kept = known_choices()
    assert [(choice.name, choice.usual, choice.here, choice.ended) for choice, _ in kept] == [
        ("local", False, True, True),
        ("studio", True, False, False),
    ]
    found = merged(kept, (announced("Studio!", "id-studio"), announced("Nord", "id-nord")))
    assert [(choice.name, choice.known, choice.seen) for choice in found] == [
        ("studio", True, True),
        ("local", True, False),
        ("Nord", False, True),
    ]
    assert found[0].key == "abcd"
    assert found[0].place == "10.0.0.5:7460", "where it was joined counts, not what somebody announces"


@given(
    st.lists(
        st.lists(
            st.builds(
                Choice,
                st.sampled_from(["a", "b", "c", "d"]),
                st.sampled_from(["h:1", "h:2"]),
                st.booleans(),
                seen=st.booleans(),
            ),
            max_size=6,
            unique_by=lambda choice: (choice.name, choice.place, choice.known),
        ),
        max_size=6,
    )
)
def test_the_list_follows_whatever_is_found(states: list[list[Choice]]) -> None:
    model = Choices()
    tester = ModelTester(None)
    tester.check(model, force_py=True)
    for choices in states:
        model.put(tuple(choices))
        assert model.choices == tuple(choices)
        shown = [_text(model, row) for row in range(model.rowCount())]
        assert shown == [f"{one.name}\n{one.place}  ·  {one.words}" for one in choices]
    tester._cleanup()


def _text(model: QAbstractItemModel, row: int) -> str:
    return str(model.data(model.index(row, 0), Qt.ItemDataRole.DisplayRole))


# -- starting ----------------------------------------------------------------------------------------


def test_a_farm_here_says_how_far_it_is_and_is_connected_to_when_it_serves(page: Page, qtbot: QtBot) -> None:
    card, local = page.view.local_card, page.view.local
    local.said.emit("serving at 127.0.0.1:4000")
    local.state = State.STARTING
    local.changed.emit()
    assert card.button.text() == "Cancel"
    assert not card.keep.isEnabled()
    assert "serving at 127.0.0.1:4000" in card.lines.toPlainText()
    local.state = State.SERVING
    local.changed.emit()
    local.serving.emit("local")
    assert card.button.text() == "Stop the farm"
    assert page.connected == ["local"]
    local.state, local.trouble = State.IDLE, "the broker ended: port 7460 is already in use"
    local.changed.emit()
    assert card.state.text() == "The broker ended: port 7460 is already in use."
    assert card.button.text() == "Start the farm"


def test_an_agent_that_ended_is_told_and_offered_to_be_started_alone(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, local = page.view.local_card, page.view.local
    assert card.again.isHidden()
    local.state, local.agent_trouble = State.SERVING, "its agent ended: the disk is full"
    local.changed.emit()
    assert card.state.text() == "Its agent ended: the disk is full."
    assert card.button.text() == "Stop the farm"
    assert card.again.text() == "Start it again"
    begun: list[str] = []
    monkeypatch.setattr(local, "_seek", lambda broker: begun.append(broker.control))
    here = Endpoint(control="127.0.0.1:9", join="", bulk="", public="p", farm_id="f", pid=os.getpid())
    here.write(Places("local").endpoint)
    qtbot.keyClick(card.again, Qt.Key.Key_Space)
    assert begun == ["127.0.0.1:9"], "the agent is started, and no broker"
    assert card.again.isHidden()
    assert card.state.text() == "It runs, and ends with this window."


def test_the_banner_tells_once_of_an_agent_that_ended_and_starts_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalFarm.of(rig.client, rig.client.farm or "local")
    windows = [QObject(), QObject()]
    banners = [Restart(rig.desk, window) for window in windows]
    assert [banner.choices() for banner in banners] == [(), ()]
    for _ in range(2):
        local.state, local.agent_trouble = State.SERVING, "its agent ended: no disk"
        local.changed.emit()
        local.agent_trouble = ""
        local.changed.emit()
    (told,) = rig.desk.notices.activity
    assert told.text == f"{local.farm}: its agent ended: no disk"
    assert told.times == 2, "once each time, whatever windows there are"
    local.agent_trouble = "its agent ended: no disk"
    (choice,) = banners[0].choices()
    begun: list[LocalFarm] = []
    monkeypatch.setattr(LocalFarm, "restart_agent", lambda local: begun.append(local))
    choice.run()
    assert (choice.text, begun) == ("Start it again", [local])


def test_a_second_page_starts_no_second_farm(page: Page, qtbot: QtBot) -> None:
    other = WelcomeView(page.rig.desk, discovery=Discovery(None, Quiet))
    qtbot.addWidget(other)
    assert other.local is page.view.local
    assert other.demo is page.view.demo
    page.view.local.serving.emit("local")
    assert page.connected == ["local"]


def test_the_demo_says_what_it_makes_and_where_the_film_is(page: Page, qtbot: QtBot) -> None:
    card, demo = page.view.demo_card, page.view.demo
    assert card.film.isHidden()
    demo.state = State.SERVING
    demo.changed.emit()
    demo.said.emit("J1 demo: running, 3 of 73 frames done")
    assert card.button.text() == "Cancel"
    assert not card.folder.isEnabled()
    demo.state, demo.film = State.IDLE, Path("/tmp/film.mp4")
    demo.changed.emit()
    assert not card.film.isHidden()
    assert "film.mp4" in card.state.text()
    card.folder.clear()
    qtbot.keyClick(card.button, Qt.Key.Key_Space)
    assert "Choose a folder" in card.state.text()
    assert demo.state is State.IDLE


def test_a_farm_that_serves_already_is_not_started_again(qtbot: QtBot) -> None:
    import os

    Endpoint(control="127.0.0.1:9", join="", bulk="", public="p", farm_id="f", pid=os.getpid()).write(
        Places("local").endpoint
    )
    local = LocalFarm()
    served: list[str] = []
    local.serving.connect(served.append)
    local.start()
    assert served == ["local"]
    assert local.state is State.IDLE


def test_a_program_that_ends_is_blamed_with_its_own_words_only(qtbot: QtBot) -> None:
    program = Program(["--farm", "no such name!", "broker"], leash=False)
    with qtbot.waitSignal(program.ended, timeout=30_000):
        program.start()
    assert "no such name!" in program.fatal
    assert not program.fatal.startswith("farm:")
    for line, fatal in (
        ("2026-11-30 13:30:19,096 level=INFO logger=overcrank.agent event=session state=lost", ""),
        ("2026-11-30 13:30:19,096 level=ERROR logger=overcrank.agent the disk is full", "the disk is full"),
        ("2026-11-30 13:30:19,096 overcrank.broker INFO serving farm=x errors=ERROR", "the disk is full"),
        ("2026-11-30 13:30:19,096 overcrank.broker CRITICAL no disk", "no disk"),
        ("farm: port 7460 is already in use", "port 7460 is already in use"),
    ):
        program._say(line)
        assert program.fatal == fatal or (not fatal and "no such name!" in program.fatal)


def test_a_broker_that_is_killed_is_told_apart_and_started_again_on_its_ports(qtbot: QtBot) -> None:
    """The agent goes on talking after its broker died: what it says is no reason of the broker's."""
    local = LocalFarm()
    lines: list[str] = []
    local.said.connect(lines.append)
    try:
        with qtbot.waitSignal(local.serving, timeout=60_000):
            local.start()
        first = read_endpoint(Places("local").endpoint)
        assert first is not None
        qtbot.waitUntil(lambda: any("session" in line for line in lines), timeout=60_000)
        os.kill(first.pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: local.state is State.IDLE, timeout=60_000)
        assert local.trouble == "the broker was killed, or crashed, without a word"
        with qtbot.waitSignal(local.serving, timeout=60_000):
            local.restart()
        again = read_endpoint(Places("local").endpoint)
        assert again is not None
        assert again.pid != first.pid
        assert (again.control, again.join, again.bulk) == (first.control, first.join, first.bulk)
    finally:
        local.finish()


def test_a_farm_of_this_machine_that_has_ended_is_started_by_the_page_s_button(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(LocalFarm, "restart", lambda local: started.append(local.farm))
    page.offer(Choice("local", "127.0.0.1:9", known=True, here=True, ended=True, usual=True))
    page.rig.give(
        Standing(Link.LOST, "no farm answers at x: its broker (process 9) has ended", "start", "unreachable")
    )
    assert page.view.heading.text() == "This machine's farm has ended"
    assert page.view.cure_button.text() == "Start it again"
    qtbot.keyClick(page.view.cure_button, Qt.Key.Key_Space)
    assert started == ["local"]


def test_what_was_typed_is_gone_when_the_page_is_left(page: Page, qtbot: QtBot) -> None:
    card = page.view.connect_card
    qtbot.keyClicks(card.token, "nonsense")
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(card.problem.text()))
    page.view.hide()
    page.view.show()
    assert card.token.text() == ""
    assert card.problem.text() == ""


def test_a_program_says_lines_as_they_come_and_its_end(qtbot: QtBot) -> None:
    program = Program(["no-such-verb"], leash=False)
    lines: list[str] = []
    program.said.connect(lines.append)
    with qtbot.waitSignal(program.ended, timeout=30_000) as ended:
        program.start()
    assert ended.args == [2]
    assert any("no-such-verb" in line for line in lines)
    assert not program.running


def test_a_program_that_cannot_be_started_says_so(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client_gui.net.programs.sys.executable", "/nowhere/python")
    demo = Demo()
    said: list[str] = []
    demo.said.connect(said.append)
    demo.start(Path("/tmp/never"))
    qtbot.waitUntil(lambda: demo.state is State.IDLE)
    assert "cannot be started" in demo.trouble
    assert said


def test_choosing_a_farm_dials_it(rig: Rig) -> None:
    rig.client.connect_to("attic")
    assert rig.port.posted[-1] == Dial("attic")

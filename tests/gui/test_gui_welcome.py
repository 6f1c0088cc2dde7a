"""The page for whoever has no farm: connecting, starting one, the demo, and why there is none."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QAbstractItemModel, Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from client_gui.net.discover import Choice, Discovery, known_choices, merged
from client_gui.net.line import VERSION_CODE
from client_gui.net.port import Dial, Resync, Standing
from client_gui.net.programs import Demo, LocalFarm, Program, State
from client_gui.net.troubles import Cure, trouble_of
from client_gui.store.farmstore import Link
from client_gui.views.welcome import WelcomeView
from client_gui.views.welcome_parts.choices import Choices
from farm.config.places import Endpoint, Places, read_endpoint, remember_joined
from farm.model.errors import SessionRefused
from farm.protocol.bulk import JoinedMsg
from farm.transport.discovery import Announced
from tests.support.gui_rig import Rig

LOST = Standing(
    Link.LOST, "no farm answers at 127.0.0.1:7460", "start one with `farm broker`", "unreachable", 2.0
)
REFUSED = Standing(
    Link.REFUSED, "the farm does not know this key", "ask its administrator for a join token", "refused"
)
VERSION = Standing(
    Link.REFUSED, "no protocol version in common: peer 1-1, here 3-4", "the broker is too old", VERSION_CODE
)
STUDIO = Choice("studio", "10.0.0.5:7460", known=True, usual=True)
STRANGER = Choice("Nord", "nord.lan:7460", known=False, seen=True, key="szo7-2td3-et4t")


class Quiet:
    """A network on which nobody announces anything but what a test tells."""

    def __init__(self, tell: Callable[[tuple[Announced, ...]], None]) -> None:
        self.tell = tell
        self.trouble = ""
        self.started = self.stopped = 0

    def start(self) -> None:
        self.started += 1

    def stop(self, wait_s: float = 0.0) -> bool:
        self.stopped += 1
        return True


class Page:
    """The page, and what it asked for."""

    def __init__(self, rig: Rig, bot: QtBot) -> None:
        self.rig = rig
        self.networks: list[Quiet] = []

        def make(tell: Callable[[tuple[Announced, ...]], None]) -> Quiet:
            self.networks.append(Quiet(tell))
            return self.networks[-1]

        self.discovery = Discovery(None, make)
        self.view = WelcomeView(rig.desk, discovery=self.discovery)
        bot.addWidget(self.view)
        self.connected: list[str] = []
        self.view.connect_to.connect(self.connected.append)
        self.view.resize(1100, 640)
        self.view.show()
        bot.waitExposed(self.view)

    def offer(self, *choices: Choice) -> None:
        self.discovery.choices = choices
        self.discovery.changed.emit()

    def texts(self) -> str:
        view = self.view
        return " | ".join(
            label.text() for label in (view.heading, view.text, view.advice) if not label.isHidden()
        )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    return tmp_path


@pytest.fixture
def page(rig: Rig, qtbot: QtBot) -> Iterator[Page]:
    rig.client.welcome, rig.client.farm, rig.client.place = None, "", ""
    rig.give(Standing(Link.CONNECTING))
    made = Page(rig, qtbot)
    # The folders of this machine are read by a thread: wait, so that no test is overtaken by it.
    with qtbot.waitSignal(made.discovery.changed, timeout=10_000):
        made.discovery.refresh()
    yield made
    made.view.hide()


# -- why there is no farm ----------------------------------------------------------------------------


def test_a_first_start_is_a_welcome_and_no_error(page: Page) -> None:
    page.rig.give(LOST)
    assert page.view.heading.text() == "Welcome to Overcrank"
    assert "knows no farm yet" in page.texts()
    assert page.view.cure_button.isHidden()


def test_a_farm_that_is_away_can_be_tried_at_once(page: Page, qtbot: QtBot) -> None:
    page.offer(STUDIO)
    page.rig.give(LOST)
    assert page.view.heading.text() == "studio cannot be reached"
    assert "No farm answers at 127.0.0.1:7460." in page.texts()
    page.view.cure_button.setFocus()
    qtbot.keyClick(page.view.cure_button, Qt.Key.Key_Space)
    assert page.rig.port.posted[-1] == Resync()


def test_a_refused_key_leads_to_the_token(page: Page, qtbot: QtBot) -> None:
    page.offer(STUDIO)
    page.rig.give(REFUSED)
    assert page.view.heading.text() == "studio does not let you in"
    assert "Ask its administrator for a join token." in page.texts()
    qtbot.keyClick(page.view.cure_button, Qt.Key.Key_Space)
    assert page.view.connect_card.token.hasFocus()


def test_another_version_has_its_own_page(page: Page) -> None:
    page.offer(STUDIO)
    page.rig.give(VERSION)
    assert page.view.heading.text() == "studio speaks another version"
    assert "The broker is too old." in page.texts()
    assert page.view.cure_button.text() == "Try again after the upgrade"


def test_from_a_farm_that_is_there_one_can_go_back(page: Page, qtbot: QtBot) -> None:
    assert page.view.back.isHidden()
    page.rig.give(Standing(Link.LIVE))
    wanted: list[bool] = []
    page.view.back_wanted.connect(lambda: wanted.append(True))
    qtbot.keyClick(page.view.back, Qt.Key.Key_Space)
    assert wanted == [True]
    assert page.view.heading.text() == "Choose a farm"


@given(
    link=st.sampled_from(list(Link)),
    trouble=st.text(max_size=30),
    hint=st.text(max_size=30),
    code=st.sampled_from(
        ["", "refused", "denied", "version", "storage", "call", "unreachable", "peer", "new"]
    ),
    first=st.booleans(),
)
def test_every_standing_has_words(link: Link, trouble: str, hint: str, code: str, first: bool) -> None:
    found = trouble_of(Standing(link, trouble, hint, code), "studio", first)
    if link in (Link.LIVE, Link.RESYNC):
        assert found is None
        return
    assert found is not None
    assert found.heading
    assert bool(found.button) is (found.cure is not Cure.NONE)
    if link is Link.REFUSED:
        assert found.cure is not Cure.NONE, "a page nobody can leave"


def test_refused_version_and_offline_are_told_apart() -> None:
    headings = {trouble_of(one, "studio").heading for one in (LOST, REFUSED, VERSION)}  # type: ignore[union-attr]
    cures = {trouble_of(one, "studio").cure for one in (LOST, REFUSED)}  # type: ignore[union-attr]
    assert len(headings) == 3
    assert len(cures) == 2


def test_a_private_farm_that_ended_is_no_alarm() -> None:
    ended = Standing(
        Link.LOST, "the private farm private/x has ended", "`farm broker` opens it", "unreachable"
    )
    found = trouble_of(ended, "private/x")
    assert found is not None
    assert (found.heading, found.grave, found.cure) == ("That private farm has ended", False, Cure.START)


# -- connecting --------------------------------------------------------------------------------------


def test_a_known_farm_is_connected_to_by_keyboard(page: Page, qtbot: QtBot) -> None:
    page.offer(STUDIO, Choice("attic", "10.0.0.9:7460", known=True))
    farms = page.view.connect_card.farms
    farms.setFocus()
    qtbot.keyClick(farms, Qt.Key.Key_Down)
    assert page.view.connect_card.button.text() == "Connect to attic"
    qtbot.keyClick(farms, Qt.Key.Key_Return)
    assert page.connected == ["attic"]
    qtbot.keyClick(farms, Qt.Key.Key_Up)
    qtbot.keyClick(page.view.connect_card.button, Qt.Key.Key_Space)
    assert page.connected == ["attic", "studio"]


def test_a_farm_without_a_key_says_whom_to_ask(page: Page, qtbot: QtBot) -> None:
    page.offer(STUDIO, STRANGER)
    card = page.view.connect_card
    card.farms.setFocus()
    qtbot.keyClick(card.farms, Qt.Key.Key_Down)
    assert not card.button.isEnabled()
    assert "ask one of its administrators for a token" in card.advice.text()
    assert "szo7-2td3-et4t" in card.advice.text()
    qtbot.keyClick(card.farms, Qt.Key.Key_Return)
    assert card.token.hasFocus()
    assert page.connected == []


def test_what_comes_and_goes_on_the_network_keeps_the_choice(page: Page, qtbot: QtBot) -> None:
    page.offer(STUDIO, STRANGER)
    card = page.view.connect_card
    card.farms.setCurrentIndex(card.model.index(1))
    page.offer(Choice("Aaa", "a.lan:1", known=False, seen=True), STUDIO, STRANGER)
    assert card.farms.currentIndex().row() == 2
    page.offer(STRANGER)
    assert card.farms.currentIndex().row() == 0
    page.offer()
    assert card.farms.isHidden()
    assert "No farm is known here" in card.none.text()


def test_a_network_that_forbids_listening_is_a_quiet_sentence(page: Page, qtbot: QtBot) -> None:
    page.networks[-1].trouble = "the network cannot be listened to: Operation not permitted"
    with qtbot.waitSignal(page.discovery.changed, timeout=10_000):
        page.networks[-1].tell(())
    assert "Operation not permitted." in page.view.connect_card.none.text()


def test_nobody_listens_on_the_network_for_a_page_that_is_not_seen(page: Page) -> None:
    assert [network.started for network in page.networks] == [1]
    page.view.hide()
    assert page.networks[0].stopped == 1
    page.view.show()
    assert len(page.networks) == 2


def test_what_is_announced_after_the_page_was_left_is_dropped(page: Page, qtbot: QtBot) -> None:
    network = page.networks[-1]
    page.view.hide()
    network.tell((announced("late", "id-9"),))
    with qtbot.waitSignal(page.discovery.changed, timeout=10_000):
        page.discovery.refresh()
    assert page.discovery.choices == ()


def test_a_token_is_redeemed_in_a_thread_and_the_farm_connected_to(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    go = threading.Event()

    def join(token: str, **_: Any) -> tuple[str, JoinedMsg]:
        asked.append((token, threading.current_thread().name))
        assert go.wait(20)
        return "nord", JoinedMsg("f00d", "Nord", "artist", "ana", "", "")

    monkeypatch.setattr("farm.sdk.connect.join", join)
    card = page.view.connect_card
    card.token.setFocus()
    qtbot.keyClicks(card.token, "ovc1-abc")
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    assert card.join_button.text() == "Joining …"
    assert not card.join_button.isEnabled()
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    go.set()
    qtbot.waitUntil(lambda: page.connected == ["nord"], timeout=10_000)
    assert asked == [("ovc1-abc", "join")], "once, and not in the window's thread"
    assert card.token.text() == "", "a spent secret is not left on the screen"
    assert card.join_button.isEnabled()


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "Paste a token first: it begins with ovc1-."),
        ("hello", "This is no join token: one starts with ovc1-."),
        ("ovc1-AAAA", "This join token is cut off: its end is missing."),
        ("ovc7-AAAA", "Use the same version of Overcrank as the broker."),
    ],
)
def test_a_token_that_is_none_is_told_beside_the_field(
    page: Page, qtbot: QtBot, token: str, words: str
) -> None:
    card = page.view.connect_card
    qtbot.keyClicks(card.token, token)
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: words in card.problem.text(), timeout=10_000)
    assert card.token.text() == token, "so that it can be mended"
    qtbot.keyClicks(card.token, "x")
    assert card.problem.isHidden(), "an error that is being mended is not shouted"
    assert page.connected == []


def test_a_token_the_broker_does_not_take_and_one_for_an_agent(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = page.view.connect_card

    def spent(token: str, **_: Any) -> Any:
        raise SessionRefused("this join token was used", hint="ask for a new token: `farm keys invite`")

    monkeypatch.setattr("farm.sdk.connect.join", spent)
    qtbot.keyClicks(card.token, "ovc1-abc")
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "This join token was used. Ask for a new" in card.problem.text(), timeout=10_000)
    monkeypatch.setattr(
        "farm.sdk.connect.join", lambda token, **_: ("x", JoinedMsg("f", "X", "agent", "", "", ""))
    )
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "lets this machine render" in card.problem.text(), timeout=10_000)
    assert page.connected == []


# -- finding -----------------------------------------------------------------------------------------


def announced(farm: str, farm_id: str, host: str = "h.lan") -> Announced:
    return Announced(farm=farm, farm_id=farm_id, key="abcd", software="0.1.0", host=host, control_port=7460)


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
    qtbot.waitUntil(lambda: bool(card.problem.text()), timeout=10_000)
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
    qtbot.waitUntil(lambda: demo.state is State.IDLE, timeout=10_000)
    assert "cannot be started" in demo.trouble
    assert said


def test_choosing_a_farm_dials_it(rig: Rig) -> None:
    rig.client.connect_to("attic")
    assert rig.port.posted[-1] == Dial("attic")

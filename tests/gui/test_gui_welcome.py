"""The page for whoever has no farm: why there is none, and connecting to one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from client_gui.net.discover import Choice
from client_gui.net.port import Resync, Standing
from client_gui.net.troubles import Cure, trouble_of
from client_gui.store.farmstore import Link
from farm.model.errors import SessionRefused
from farm.protocol.bulk import JoinedMsg
from farm.protocol.common import WelcomeMsg
from tests.support.gui_welcome import LOST, REFUSED, STRANGER, STUDIO, VERSION, Page, announced
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("home")


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


def test_from_a_farm_that_is_away_one_can_go_back_to_what_is_known_of_it(page: Page, qtbot: QtBot) -> None:
    wanted: list[bool] = []
    page.view.back_wanted.connect(lambda: wanted.append(True))
    qtbot.keyClick(page.view, Qt.Key.Key_Escape)
    assert wanted == [], "there is nothing to go back to"
    page.rig.client.welcome = WelcomeMsg(
        version=1, session=1, farm_name="studio", software="0.1.0", role="artist", user="ana"
    )
    page.rig.give(Standing(Link.LOST))
    assert not page.view.back.isHidden()
    qtbot.keyClick(page.view, Qt.Key.Key_Escape)
    assert wanted == [True]


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
    with qtbot.waitSignal(page.discovery.changed):
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
    with qtbot.waitSignal(page.discovery.changed):
        page.discovery.refresh()
    assert page.discovery.choices == ()


def test_a_token_is_redeemed_in_a_thread_and_the_farm_connected_to(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    go = threading.Event()

    def join(token: str, **_: Any) -> tuple[str, JoinedMsg]:
        asked.append((token, threading.current_thread().name))
        assert go.wait(PATIENCE_S)
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
    qtbot.waitUntil(lambda: page.connected == ["nord"])
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
    qtbot.waitUntil(lambda: words in card.problem.text())
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
    qtbot.waitUntil(lambda: "This join token was used. Ask for a new" in card.problem.text())
    monkeypatch.setattr(
        "farm.sdk.connect.join", lambda token, **_: ("x", JoinedMsg("f", "X", "agent", "", "", ""))
    )
    qtbot.keyClick(card.token, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "lets this machine render" in card.problem.text())
    assert page.connected == []


def test_looking_for_farms_ends_and_begins_anew_by_a_button(
    page: Page, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = page.view.connect_card
    qtbot.waitUntil(lambda: "Looking for some on this network" in card.none.text())
    assert not card.again.isVisible()
    monkeypatch.setattr("client_gui.views.welcome_parts.connect.LOOK_S", 0.01)
    card.look_again()
    assert "Looking for some" in card.none.text()
    qtbot.waitUntil(lambda: "none was found on this network" in card.none.text())
    monkeypatch.undo()
    assert card.again.isVisible()
    qtbot.keyClick(card.again, Qt.Key.Key_Space)
    assert "Looking for some" in card.none.text()
    assert not card.again.isVisible()

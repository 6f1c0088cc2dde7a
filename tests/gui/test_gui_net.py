"""The line to a farm, turn by turn: dialling, greeting, and being refused.

Wires without sockets say what the test says, and the clock goes by hand.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from client_gui.net.dialer import Dialer, Route
from client_gui.net.line import DIAL_S, GREET_S, VERSION_CODE
from client_gui.net.port import Follow, Resync, Standing, Welcomed
from client_gui.net.retries import RETRY_MOST_S
from client_gui.store.farmstore import Link
from farm.config.places import Endpoint
from farm.model.errors import FarmUnreachable, SessionRefused
from farm.protocol.client import SubscribeReq
from farm.protocol.common import HelloMsg, RefusedMsg
from farm.sdk.connect import Access
from farm.transport.client_link import LinkState
from tests.support.gui_net import BULK, CONTROL, PAIR, Stand, act, page, read
from tests.support.waiting import PATIENCE_S

# -- dialling ----------------------------------------------------------------------------------------


def test_nothing_is_dialled_before_it_is_asked_for(stand: Stand) -> None:
    assert stand.turn() is None
    assert stand.dialer.finds == []


def test_a_session_is_opened_and_told(stand: Stand) -> None:
    stand.live()
    assert [standing.link for standing in stand.of(Standing)] == [Link.CONNECTING, Link.LIVE]
    (welcomed,) = stand.of(Welcomed)
    assert (welcomed.farm, welcomed.place, welcomed.farm_id) == ("studio", CONTROL, "f1")
    assert welcomed.welcome.user == "ana"


def test_a_farm_that_is_not_there_is_tried_again_ever_more_slowly(stand: Stand) -> None:
    stand.dialer.trouble = FarmUnreachable("no farm answers at 127.0.0.1:7460", hint="start one")
    stand.dial(None)
    waits = []
    for _ in range(8):
        standing = stand.standing
        assert standing.link is Link.LOST
        assert (standing.trouble, standing.hint) == ("no farm answers at 127.0.0.1:7460", "start one")
        assert standing.code == "unreachable"
        assert standing.retry_in_s is not None
        waits.append(standing.retry_in_s)
        due = stand.turn()
        assert due == pytest.approx(standing.retry_in_s)
        stand.turn(standing.retry_in_s)
    assert waits == sorted(waits)
    assert waits[0] <= 1
    assert waits[-1] == RETRY_MOST_S
    stand.dialer.trouble = None
    stand.turn(RETRY_MOST_S)
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_a_silent_address_is_given_up_and_dialled_afresh(stand: Stand) -> None:
    stand.dial()
    first = stand.wire
    stand.turn(DIAL_S / 2)
    assert stand.standing.link is Link.CONNECTING
    stand.turn(DIAL_S / 2)
    assert first.closed
    assert stand.standing.link is Link.LOST
    stand.turn(stand.standing.retry_in_s or 0)
    assert stand.wire is not first
    assert len(stand.dialer.finds) == 2, "where the farm is may have changed: it is looked up again"


def test_a_broker_that_takes_the_line_and_says_nothing_is_given_up(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    stand.turn(GREET_S)
    assert stand.standing.link is Link.LOST
    assert "did not answer in 10 s" in stand.standing.trouble


def test_a_host_that_is_being_looked_up_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go = threading.Event(), threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> Any:
        asked.set()
        go.wait(PATIENCE_S)
        raise OSError("no such name")

    monkeypatch.setattr("client_gui.net.dialer.socket.getaddrinfo", getaddrinfo)
    endpoint = Endpoint(control="farm.lan:7460", join="farm.lan:7461", bulk=BULK, public="", farm_id="f")
    done = threading.Event()
    route = Route(Access("studio", endpoint, PAIR), done.set)
    assert asked.wait(PATIENCE_S)
    assert not route.ready
    go.set()
    assert done.wait(PATIENCE_S)
    assert route.ready
    assert route.trouble == "host name 'farm.lan' cannot be looked up"


def test_a_looked_up_host_is_dialled_by_number_and_named_as_people_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        import socket

        return [
            (socket.AF_INET6, 1, 6, "", ("fe80::1", 7460, 0, 0)),
            (socket.AF_INET, 1, 6, "", ("10.9.9.9", 7460)),
        ]

    monkeypatch.setattr("client_gui.net.dialer.socket.getaddrinfo", getaddrinfo)
    endpoint = Endpoint(
        control="farm.lan:7460", join="farm.lan:7461", bulk="farm.lan:9", public="", farm_id="f"
    )
    done = threading.Event()
    route = Route(Access("studio", endpoint, PAIR), done.set)
    assert done.wait(PATIENCE_S)
    assert str(route.numeric("farm.lan:9")) == "10.9.9.9:9"
    assert str(route.numeric("other.lan:9")) == "other.lan:9"
    error = Dialer().why(route, "farm.lan:9", FarmUnreachable("nothing answers at 10.9.9.9:9"))
    assert error.message == "nothing answers at farm.lan:9"


# -- refusals ----------------------------------------------------------------------------------------


def test_a_refused_key_is_final_until_somebody_asks_again(stand: Stand) -> None:
    stand.dial()
    stand.post(read(1))
    stand.wire.down(LinkState.REFUSED, "the farm does not know this key")
    stand.turn()
    assert stand.standing == Standing(
        Link.REFUSED, "the farm does not know this key", "look at the cable", "refused"
    )
    assert isinstance(stand.answer(1).error, SessionRefused)
    stand.post(read(2), page(3))
    assert isinstance(stand.answer(2).error, SessionRefused)
    assert isinstance(stand.answer(3).error, SessionRefused)
    assert stand.turn(1000) is None, "nothing is due"
    assert len(stand.dialer.wires) == 1
    stand.post(Resync())
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_another_version_has_its_own_code_and_words_from_this_side(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    hint = "the peer is too old: upgrade it"
    stand.wire.put(RefusedMsg("peer", "no protocol version in common: peer 1-1, here 3-4", hint))
    stand.turn()
    assert stand.standing.link is Link.REFUSED
    assert stand.standing.code == VERSION_CODE
    assert "no protocol version in common" in stand.standing.trouble
    assert "this installation" in stand.standing.hint
    assert "is too old: upgrade it" in stand.standing.hint
    assert not stand.wire.closed
    # The broker is upgraded: it breaks the connection and is back on the next.
    stand.wire.down()
    stand.turn()
    stand.welcome()
    assert stand.standing == Standing(Link.LIVE)


def test_a_broker_whose_words_are_not_understood_is_of_another_version(stand: Stand) -> None:
    stand.dial()
    stand.wire.up()
    stand.turn()
    stand.wire.inbox.append(msgspec.msgpack.encode({"type": "greetings-earthling"}))
    stand.turn()
    assert (stand.standing.link, stand.standing.code) == (Link.REFUSED, VERSION_CODE)
    assert "version" in stand.standing.hint


def test_a_key_that_is_revoked_ends_what_is_under_way(stand: Stand) -> None:
    stand.live()
    stand.post(act(1), read(2))
    stand.wire.put(RefusedMsg("denied", "this key was revoked", "ask for a new token"))
    stand.turn()
    assert (stand.standing.link, stand.standing.code) == (Link.REFUSED, "denied")
    assert "look before doing it again" in str(stand.answer(1).error), "it may have been done"
    assert stand.answer(2).error is not None


def test_a_request_that_an_older_broker_cannot_read_does_not_end_the_day(stand: Stand) -> None:
    stand.live()
    stand.post(Follow(("jobs",)), read(1))
    stand.wire.put(RefusedMsg("peer", "a message does not decode"))
    stand.turn()
    assert "does not decode" in str(stand.answer(1).error)
    assert stand.standing.link is Link.RESYNC
    assert isinstance(stand.wire.sent[-1], HelloMsg)
    stand.hello()
    assert stand.standing == Standing(Link.LIVE)
    assert len(stand.wire.of(SubscribeReq)) == 2


def test_a_message_of_a_newer_broker_is_passed_over(stand: Stand) -> None:
    stand.live()
    stand.wire.inbox.append(msgspec.msgpack.encode({"type": "horoscope", "sign": "leo"}))
    stand.settle()
    assert stand.standing == Standing(Link.LIVE)

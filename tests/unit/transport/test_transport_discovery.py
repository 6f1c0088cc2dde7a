"""Brokers are found by what they announce; strangers' announcements do no harm, nor a network without any."""

from __future__ import annotations

import queue
import sys
import threading
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeroconf import ServiceInfo

from farm.transport.discovery import SERVICE, Announced, Announcer, Browser, own_addresses, read_announcement
from tests.support.waiting import eventually

HERE = ["127.0.0.1"]
Found = tuple[Announced, ...]


def broker(**fields: Any) -> Announced:
    made: dict[str, Any] = {
        "farm": "studio",
        "farm_id": uuid.uuid4().hex,
        "key": "abcd-efgh-ijkl",
        "software": "0.1.0",
        "host": "",
        "control_port": 7460,
    }
    return Announced(**(made | fields))


def until(told: queue.Queue[Found], condition: Any) -> Found:
    """What the browser told when the condition first held."""
    while True:
        found = told.get(timeout=20)
        if condition(found):
            return found


def mine(found: Found, *brokers: Announced) -> list[Announced]:
    ids = {one.farm_id for one in brokers}
    return [one for one in found if one.farm_id in ids]


def test_an_announced_broker_is_found_and_gone_when_it_ends() -> None:
    told: queue.Queue[Found] = queue.Queue()
    browser = Browser(told.put, HERE)
    browser.start()
    first = broker(farm="studio", key="abcd")
    second = broker(farm="Atelier 7", host="farm.studio.lan", control_port=9000)
    announcers = [Announcer(first, ["10.1.2.3"], HERE), Announcer(second, ["10.1.2.4", "fd00::7"], HERE)]
    try:
        for announcer in announcers:
            announcer.start()
        found = mine(until(told, lambda found: len(mine(found, first, second)) == 2), first, second)
        assert {one.farm: one.place for one in found} == {
            "studio": "10.1.2.3:7460",
            "Atelier 7": "farm.studio.lan:9000",
        }
        assert next(one for one in found if one.farm == "studio").key == "abcd"
        announcers[0].stop()
        left = until(told, lambda found: len(mine(found, first, second)) == 1)
        assert [one.farm for one in mine(left, first, second)] == ["Atelier 7"]
    finally:
        for announcer in announcers:
            announcer.stop()
        assert browser.stop()
    assert browser.trouble == ""
    eventually(
        lambda: (
            not [t for t in threading.enumerate() if t.name.startswith(("zeroconf", "announce", "discovery"))]
        ),
        "all threads have ended",
    )


def test_a_browser_that_was_stopped_tells_nothing_more() -> None:
    told: queue.Queue[Found] = queue.Queue()
    browser = Browser(told.put, HERE)
    browser.start()
    assert browser.stop()
    announcer = Announcer(broker(), ["10.1.2.3"], HERE)
    announcer.start()
    assert announcer.told.wait(20)
    announcer.stop()
    assert told.empty()


def test_what_never_began_can_be_ended() -> None:
    assert Browser(lambda found: None, HERE).stop()
    Announcer(broker(), ["10.1.2.3"], HERE).stop()


def test_a_network_that_forbids_it_is_a_sentence_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(**_: Any) -> Any:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("zeroconf.Zeroconf", forbid)
    told: queue.Queue[Found] = queue.Queue()
    browser = Browser(told.put, HERE)
    browser.start()
    assert told.get(timeout=20) == ()
    assert "Operation not permitted" in browser.trouble
    assert browser.stop()
    announcer = Announcer(broker(), ["10.1.2.3"], HERE)
    announcer.start()
    announcer.stop()
    assert not announcer.told.is_set()


def test_without_zeroconf_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    told: queue.Queue[Found] = queue.Queue()
    browser = Browser(told.put)
    browser.start()
    assert told.get(timeout=20) == ()
    assert "zeroconf is not installed" in browser.trouble
    assert browser.stop()


@given(
    properties=st.dictionaries(
        st.sampled_from([b"farm", b"id", b"key", b"v", b"host", b"\xff"]),
        st.one_of(st.none(), st.binary(max_size=200)),
    ),
    port=st.integers(0, 65535),
    addresses=st.lists(st.binary(min_size=4, max_size=4), max_size=2),
)
def test_what_strangers_announce_is_read_or_passed_over(
    properties: dict[bytes, bytes | None], port: int, addresses: list[bytes]
) -> None:
    info = ServiceInfo(SERVICE, f"x.{SERVICE}", addresses=addresses, port=port, properties=properties)
    found = read_announcement(info)
    if found is not None:
        assert found.farm
        assert found.farm_id
        assert found.host
        assert 0 < found.control_port <= 65535
        for text in (found.farm, found.farm_id, found.key, found.software, found.host):
            assert len(text) <= 120
            assert text.isprintable()


def test_nothing_secret_is_announced_and_long_names_fit() -> None:
    info = Announcer(broker(farm="f" * 64, host="h.lan"), ["10.0.0.9"], HERE)._info()
    assert set(info.properties) == {b"farm", b"id", b"key", b"v", b"host"}
    assert len(info.name.removesuffix(f".{SERVICE}")) <= 63
    found = read_announcement(info)
    assert found is not None
    assert found.farm == "f" * 64


def test_own_addresses_can_be_dialled_by_others() -> None:
    assert all(not address.startswith(("127.", "169.254.")) for address in own_addresses())

"""The desktop client's connection to real brokers: what the window knows comes and goes as it should.

What belongs here: ``FarmClient`` on its sockets' thread against brokers in processes, with lines that break.
What may not: how anything is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

import msgspec
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.net.client import FarmClient
from client_gui.net.dialer import Dialer, Route
from client_gui.net.thread import SocketsThread
from client_gui.store.farmstore import FarmChange, Link
from farm.model.errors import FarmUnreachable, OvercrankError, SessionRefused
from farm.protocol.bulk import LogGetMsg, LogPageMsg
from farm.protocol.client import ActReply, ActReq, JobsReply, JobsReq, SubmitReq
from farm.sdk.connect import Access
from farm.transport.keys import KeyPair, generate_keypair
from tests.support.farmhouse import Farmhouse
from tests.support.proxy import Proxy
from tests.support.truth import Renders
from tests.support.waiting import PATIENCE_S, eventually


class HouseDialer(Dialer):
    """Dials the broker of a house, as the house says where it is."""

    def __init__(self, access: Callable[[], Access]) -> None:
        self.access = access
        self.finds = 0

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        self.finds += 1
        return Route(self.access(), done)


@dataclass
class Window:
    """A client, and everything it told."""

    client: FarmClient
    dialer: HouseDialer
    bot: QtBot
    links: list[Link] = field(default_factory=list)
    changes: list[FarmChange] = field(default_factory=list)
    owner: QObject = field(default_factory=QObject)

    def __post_init__(self) -> None:
        self.client.stood.connect(self._stood)
        self.client.changed.connect(self.changes.append)

    def _stood(self) -> None:
        link = self.client.store.link
        if not self.links or self.links[-1] is not link:
            self.links.append(link)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Waits until something holds, the window alive."""

        def check() -> None:
            assert condition(), f"waited for: {what}; stands {self.client.standing}"

        self.bot.waitUntil(check, timeout=int(PATIENCE_S * 1000))

    def until_live(self) -> None:
        """Waits until the farm can be asked and what is followed is there."""
        store = self.client.store
        self.until(
            lambda: self.client.live and not (store.topics() and store.needs_snapshot), "live, and all there"
        )

    def until_state(self, job: int, state: str) -> None:
        """Waits until the window knows a job in a state."""
        jobs = self.client.store.jobs
        self.until(lambda: jobs.slot(job) >= 0 and jobs.row(job)["state"] == state, f"J{job} {state}")

    def ask(self, request: type[Any], **fields: Any) -> Any:
        """Asks, and waits for the reply or the error."""
        got: list[Any] = []
        self.client.ask(request, self.owner, got.append, got.append, **fields)
        self.until(lambda: got, request.__name__)
        return got[0]


@pytest.fixture
def open_window(qapp: QApplication, qtbot: QtBot) -> Iterator[Callable[..., Window]]:
    """Opens clients; all are closed with the test, within the time a person would wait."""
    made: list[Window] = []

    def open_(house: Farmhouse, pair: KeyPair | None = None, address: str = "", start: bool = True) -> Window:
        pair = pair or house.key("wrangler", "wim")

        def access() -> Access:
            endpoint = house.endpoint
            if address:
                endpoint = msgspec.structs.replace(endpoint, control=address, pid=0)
            return house.access(pair, endpoint)

        dialer = HouseDialer(access)
        window = Window(FarmClient(SocketsThread(dialer)), dialer, qtbot)
        made.append(window)
        if start:
            window.client.start("test")
        return window

    yield open_
    stopped = [window.client.stop() for window in made]
    assert all(stopped), "a client's thread did not end"


def test_the_farm_comes_and_its_changes_follow(
    house: Farmhouse, renders: Renders, open_window: Callable[..., Window]
) -> None:
    window = open_window(house)
    window.client.look("jobs", jobs=True)
    window.client.look("nodes", nodes=True)
    window.until_live()
    assert window.client.welcome is not None
    assert (window.client.user, str(window.client.role)) == ("wim", "wrangler")
    assert window.client.farm == "test"
    assert window.client.place == house.endpoint.control
    store = window.client.store
    window.until(lambda: len(store.nodes) == 2, "two nodes")
    assert len(store.jobs) == 0
    number = house.admin.submit(renders.job("1-4")).job
    window.client.look("detail", opened=frozenset({number}))
    window.until_state(number, "done")
    window.until(lambda: store.maps, "the map of frames")
    window.until(lambda: store.round_trip_us, "a round trip")
    heard_us = store.heard_us
    window.until(lambda: store.heard_us > heard_us, "the broker is heard though nothing changes")
    assert window.links == [Link.CONNECTING, Link.LIVE]
    assert window.client.standing.trouble == ""


def test_an_answer_does_not_wait_for_the_tick(shared: Farmhouse, open_window: Callable[..., Window]) -> None:
    window = open_window(shared)
    window.until_live()
    window.client._timer.stop()  # no tick from here on: only what wakes the window brings anything
    assert isinstance(window.ask(JobsReq, reply=JobsReply, limit=5), JobsReply)


def test_a_broker_that_was_killed_is_found_again_and_nothing_is_loaded_anew(
    new_house: Callable[..., Farmhouse], renders: Renders, open_window: Callable[..., Window]
) -> None:
    house = new_house()
    numbers = [house.admin.submit(renders.job(f"{n}")).job for n in range(1, 6)]
    window = open_window(house)
    window.client.look("jobs", jobs=True, opened=frozenset(numbers[:1]))
    window.until_live()
    store = window.client.store
    window.until(lambda: len(store.jobs) == 5, "five jobs")
    slots = {number: store.jobs.slot(number) for number in numbers}
    window.changes.clear()
    house.broker.kill()
    window.until(lambda: store.link is Link.LOST, "the loss is told")
    assert store.trouble
    assert len(store.jobs) == 5, "what was known stays readable"
    window.until(lambda: store.retry_at_us is not None, "when the next try is made")
    house.start_broker()
    window.until_live()
    assert window.links[-1] is Link.LIVE
    assert {number: store.jobs.slot(number) for number in numbers} == slots
    gone = [number for change in window.changes for number in change.jobs.removed]
    assert gone == [], "a row that stays is never taken out and put in again"
    assert window.client.standing.trouble == ""
    # And what happens from now on is followed as before.
    house.admin.act("priority", f"J{numbers[0]}", "77")
    window.until(lambda: store.jobs.row(numbers[0])["priority"] == 77, "changes go on")


def test_a_key_the_farm_does_not_know_is_said_and_tried_again_when_asked(
    shared: Farmhouse, open_window: Callable[..., Window]
) -> None:
    pair = generate_keypair()
    window = open_window(shared, pair)
    window.until(lambda: window.client.store.link is Link.REFUSED, "refused")
    standing = window.client.standing
    assert standing.code == "refused"
    assert "does not know this key" in standing.trouble
    assert "join token" in standing.hint
    assert standing.retry_in_s is None
    answer = window.ask(JobsReq)
    assert isinstance(answer, SessionRefused), "nobody waits for an answer that cannot come"
    finds = window.dialer.finds
    shared.admin.keys("keys-add", role="artist", user="late", key=pair.public, label="late")
    window.client.resync()
    window.until(lambda: window.client.live, "live once the key is known")
    assert window.client.user == "late"
    assert window.dialer.finds == finds + 1


def test_a_key_that_is_revoked_is_told_at_once(shared: Farmhouse, open_window: Callable[..., Window]) -> None:
    pair = shared.key("artist", "rita")
    window = open_window(shared, pair)
    window.until(lambda: window.client.live, "live")
    shared.admin.keys("keys-revoke", key="artist rita")
    window.until(lambda: window.client.store.link is Link.REFUSED, "refused")
    assert window.client.standing.trouble
    assert isinstance(window.ask(JobsReq), SessionRefused)


def test_what_was_sent_when_the_line_broke_is_told_as_unknown_and_reads_are_asked_again(
    shared: Farmhouse, renders: Renders, open_window: Callable[..., Window]
) -> None:
    number = shared.admin.submit(renders.job("1", job={"priority": 40, "paused": True})).job
    with Proxy(shared.endpoint.control) as proxy:
        window = open_window(shared, address=proxy.address)
        window.until(lambda: window.client.live, "live")
        proxy.cut(up=False, down=True)  # what is asked arrives, what is answered does not
        acted: list[Any] = []
        read: list[Any] = []
        client = window.client
        client.ask(
            ActReq,
            window.owner,
            acted.append,
            acted.append,
            repeat=False,
            action="priority",
            address=f"J{number}",
            value="55",
        )
        client.ask(JobsReq, window.owner, read.append, read.append)
        window.until(lambda: shared.job(number).priority == 55, "the broker has done it")
        assert acted == []
        proxy.heal()
        window.until(lambda: acted and read, "both ended")
        assert isinstance(acted[0], FarmUnreachable)
        assert "was lost before the answer came" in acted[0].message
        assert "look before doing it again" in acted[0].hint
        assert isinstance(read[0], JobsReply)
        window.until_live()
        done = window.ask(ActReq, action="priority", address=f"J{number}", value="56", repeat=False)
        assert isinstance(done, ActReply), "acting goes on"


def test_several_windows_see_the_same_farm(
    shared: Farmhouse, renders: Renders, open_window: Callable[..., Window]
) -> None:
    first, second = open_window(shared), open_window(shared, shared.key("artist", "ada"))
    for window in (first, second):
        window.client.look("jobs", jobs=True)
        window.until_live()
    made = second.ask(SubmitReq, job=renders.job("1-3"), repeat=False)
    for window in (first, second):
        window.until_state(made.job, "done")
    denied = second.ask(ActReq, action="priority", address=f"J{made.job}", value="99", repeat=False)
    assert isinstance(denied, OvercrankError)
    assert denied.code == "denied"


def test_a_page_of_a_log_comes_over_the_bulk_socket(
    shared: Farmhouse, renders: Renders, open_window: Callable[..., Window]
) -> None:
    number = shared.admin.submit(renders.job("1")).job
    step = shared.wait_job(number).steps[0].name
    eventually(lambda: shared.admin.log_page(number, step, 1).data, "the agent's log is with the broker")
    window = open_window(shared)
    pages: list[Any] = []

    def ask(step: str) -> Any:
        pages.clear()
        window.client.ask_bulk(
            lambda id_: LogGetMsg(id=id_, job=number, step=step, no=1),
            window.owner,
            pages.append,
            pages.append,
            reply=LogPageMsg,
        )
        window.until(lambda: pages, "a page")
        return pages[0]

    page = ask(step)
    assert isinstance(page, LogPageMsg)
    assert page.data
    assert page.size == len(page.data)
    error = ask("../../etc")
    assert isinstance(error, OvercrankError)
    assert error.message == "that is no step"


def test_a_job_that_is_gone_does_not_keep_the_others_from_being_followed(
    shared: Farmhouse, renders: Renders, open_window: Callable[..., Window]
) -> None:
    number = shared.admin.submit(renders.job("1-2")).job
    window = open_window(shared)
    window.client.look("detail", jobs=True, opened=frozenset({number, 9_999_999}))
    window.until_live()
    store = window.client.store
    window.until(lambda: store.jobs.slot(number) >= 0 and store.maps, "the job that is there")
    shared.admin.act("priority", f"J{number}", "61")
    window.until(lambda: store.jobs.row(number)["priority"] == 61, "changes follow")

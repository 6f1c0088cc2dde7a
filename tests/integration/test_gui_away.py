"""Keys pressed while a real broker is away: done when it is back, unless somebody else was there meanwhile.

What belongs here: the client's actions on its sockets' thread, and a broker that is killed and started, or a
line that breaks.  What may not: how anything is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

import msgspec
from PySide6.QtCore import QCoreApplication, QEvent
from pytestqt.qtbot import QtBot

from client_gui.actions.book import ActionBook
from client_gui.actions.context import ActionContext
from client_gui.desk import Focus
from client_gui.net.client import FarmClient
from client_gui.net.dialer import Dialer, Route
from client_gui.net.thread import SocketsThread
from client_gui.notices import Notices
from client_gui.settings import Settings
from client_gui.store.farmstore import Link
from tests.support.client_rows import NOW_US
from tests.support.farmhouse import Farmhouse
from tests.support.gui_stage import Stage, press
from tests.support.proxy import Proxy
from tests.support.truth import Renders
from tests.support.waiting import PATIENCE_S


class HouseDialer(Dialer):
    """Dials the broker of a house with a wrangler's key, by way of another address if there is one."""

    def __init__(self, house: Farmhouse, address: str = "") -> None:
        self.house = house
        self.address = address
        self.pair = house.key("wrangler", "wim")

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        endpoint = self.house.endpoint
        if self.address:
            endpoint = msgspec.structs.replace(endpoint, control=self.address, pid=0)
        return Route(self.house.access(self.pair, endpoint), done)


class Seat:
    """A list with the keys, and the client behind it."""

    def __init__(self, house: Farmhouse, bot: QtBot, address: str = "") -> None:
        self.house = house
        self.bot = bot
        # Its clock stands: nothing grows old, and what can be undone stays so, however slow the machine is.
        self.client = FarmClient(SocketsThread(HouseDialer(house, address)), lambda: NOW_US)
        self.notices = Notices(self.client.now_us)
        self.book = ActionBook(
            self.client, Focus(self.client), self.notices, Settings(parent=self.client), self.client
        )
        self.stage = Stage()
        bot.addWidget(self.stage)
        with bot.waitActive(self.stage):
            self.stage.show()
            self.stage.activateWindow()
        self.book.watch(self.stage)
        self.stage.list.setFocus()
        self.client.look("list", jobs=True)
        self.client.start("test")
        self.until(lambda: self.client.live and not self.client.store.needs_snapshot, "live, and all there")

    @property
    def told(self) -> list[str]:
        return [notice.text for notice in self.notices.activity]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Waits until something holds, the window alive."""

        def check() -> None:
            assert condition(), f"waited for: {what}; {self.client.standing}; told: {self.told}"

        self.bot.waitUntil(check, timeout=int(PATIENCE_S * 1000))

    def key(self, key: str, *jobs: int) -> None:
        """Presses a key with some jobs selected."""
        self.stage.context = ActionContext("jobs", jobs=jobs)
        press(self.bot, self.stage.list, key)

    def until_lost(self) -> None:
        self.until(lambda: self.client.store.link is Link.LOST, "the loss is told")

    def until_known(self, *jobs: int) -> None:
        self.until(lambda: all(self.client.store.jobs.slot(job) >= 0 for job in jobs), f"{jobs} in the list")

    def close(self) -> bool:
        self.stage.close()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        return self.client.stop()


@pytest.fixture
def sit(qtbot: QtBot) -> Iterator[Callable[..., Seat]]:
    """Opens clients; all are closed with the test."""
    made: list[Seat] = []

    def open_(house: Farmhouse, address: str = "") -> Seat:
        made.append(Seat(house, qtbot, address))
        return made[-1]

    yield open_
    closed = [seat.close() for seat in made]
    assert all(closed), "a client's thread did not end"


def waiting_jobs(house: Farmhouse, renders: Renders, count: int) -> list[int]:
    """Jobs that no node takes: there is none."""
    return [
        house.admin.submit(renders.job(f"{n}", job={"name": f"shot{n}", "priority": 50})).job
        for n in range(1, count + 1)
    ]


def test_keys_pressed_while_the_broker_is_down_are_done_when_it_is_up_again(
    new_house: Callable[..., Farmhouse], renders: Renders, sit: Callable[..., Seat]
) -> None:
    house = new_house()
    first, second, third = waiting_jobs(house, renders, 3)
    seat = sit(house)
    seat.until_known(first, second, third)
    house.broker.kill()
    seat.until_lost()
    seat.key("P", first, second)
    seat.key("]", third)
    seat.key("]", third)
    seat.key("P", second)
    assert [one.text for one in seat.book.later.waits] == [f"Pause J{first}", f"Priority 60 for J{third}"]
    house.start_broker()
    seat.until(lambda: "Sent 2 waiting actions" in seat.told, "both are done")
    assert house.job(first).state == "paused"
    assert house.job(second).state == "queued", "paused and resumed is nothing"
    assert house.job(third).priority == 60
    assert not seat.book.later.waits
    jobs = seat.client.store.jobs
    seat.until(lambda: jobs.row(first)["state"] == "paused", "the row shows it")
    seat.key("Ctrl+Z")
    seat.until(lambda: house.job(first).state == "queued", "it can be undone as usual")
    assert house.job(third).priority == 50


def test_what_others_changed_meanwhile_is_told_and_not_changed_back(
    new_house: Callable[..., Farmhouse], renders: Renders, sit: Callable[..., Seat]
) -> None:
    house = new_house()
    urgent, paused, gone, plain = waiting_jobs(house, renders, 4)
    with Proxy(house.endpoint.control) as proxy:
        seat = sit(house, proxy.address)
        seat.until_known(urgent, paused, gone, plain)
        proxy.cut_hard()
        seat.until_lost()
        seat.key("]", urgent)
        seat.key("P", paused, gone, plain)
        assert len(seat.book.later.waits) == 4
        for words in (
            ("priority", f"J{urgent}", "77"),
            ("pause", f"J{paused}"),
            ("cancel", f"J{gone}"),
        ):
            done = house.farm(*words)
            assert done.returncode == 0, done.stderr
        proxy.heal()
        seat.until(lambda: house.job(plain).state == "paused", "what nobody touched is done")
        seat.until(lambda: len(seat.book.later.waits) == 1, "the others are judged")
        text = f"J{urgent} has priority 77 by now, not 50: somebody else set it"
        assert f"“Priority 55 for J{urgent}” was not sent: {text}" in seat.told
        assert any(f"J{paused} is paused already" in one for one in seat.told)
        assert any(f"J{gone} is canceled: nothing to pause" in one for one in seat.told)
        assert house.job(urgent).priority == 77
        seat.book.run("waiting-send", ActionContext())
        seat.until(lambda: house.job(urgent).priority == 55, "meant is meant")
        assert not seat.book.later.waits

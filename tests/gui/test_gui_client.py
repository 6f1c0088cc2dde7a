"""The window's end of the connection: answers find their way, and a large state is taken in slices."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from client_gui.net.port import Answer, Ask, Follow
from client_gui.store.farmstore import Link
from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.client import OkReply, StatusReq
from tests.support.gui_rig import Rig, job_row, node_row


def test_what_nobody_looks_at_is_not_followed(rig: Rig) -> None:
    rig.client.look("jobs", jobs=True)
    rig.client.look("nodes", nodes=True)
    rig.client.look("job", jobs=True, opened=frozenset({7}))
    assert rig.followed() == ("jobs", "nodes", "job:7")
    rig.client.look("nodes")
    assert rig.followed() == ("jobs", "job:7")
    rig.client.look("jobs")
    assert rig.followed() == ("jobs", "job:7"), "somebody else still looks at the jobs"
    rig.client.look("job")
    assert rig.followed() == ()


def test_an_answer_goes_to_who_asked_and_to_nobody_who_is_gone(rig: Rig) -> None:
    taken: list[Any] = []
    failures: list[OvercrankError] = []
    owner, gone = QObject(), QObject()
    first = rig.client.ask(StatusReq, owner, taken.append)
    second = rig.client.ask(StatusReq, gone, taken.append)
    third = rig.client.ask(StatusReq, owner, taken.append, failures.append, reply=OkReply)
    fourth = rig.client.ask(StatusReq, owner, taken.append)
    fifth = rig.client.ask(StatusReq, owner, taken.append)
    told: list[OvercrankError] = []
    rig.client.failed.connect(told.append)
    import shiboken6

    shiboken6.delete(gone)
    rig.client.forget(fifth)
    rig.give(
        Answer(second, OkReply(id=second)),
        Answer(first, OkReply(id=first)),
        Answer(third, "nonsense"),
        Answer(fourth, None, FarmUnreachable("the broker gave no answer")),
        Answer(fifth, OkReply(id=fifth)),
    )
    assert taken == [OkReply(id=first)]
    assert [str(error) for error in failures] == ["the broker answered with str"]
    assert [error.message for error in told] == ["the broker gave no answer"]
    assert rig.canceled() == [fifth]


def test_a_gap_in_the_numbers_asks_for_everything_anew_and_shows_what_was_there(rig: Rig) -> None:
    rig.client.look("jobs", jobs=True)
    rig.snapshot((job_row(1), job_row(2)))
    posted = len(rig.port.posted)
    rig.n += 1  # one is lost
    rig.delta((job_row(3),))
    assert rig.client.store.link is Link.RESYNC
    assert [m for m in rig.port.posted[posted:] if isinstance(m, Follow)] == [Follow(("jobs",))]
    assert len(rig.client.store.jobs) == 2
    rig.snapshot((job_row(1), job_row(3)))
    assert rig.client.store.link is Link.LIVE
    assert sorted(rig.client.store.jobs.all_ids()) == [1, 3]


def test_deltas_wait_until_a_large_state_is_in(rig: Rig) -> None:
    rig.client.look("jobs", jobs=True)
    changes = []
    rig.client.changed.connect(changes.append)
    rows = tuple(job_row(n) for n in range(1, 4001))
    rig.snapshot(rows, (node_row(1),))
    assert len(changes) > 3, "a large state is not taken in one go"
    assert len(rig.client.store.jobs) == 4000
    rig.delta((job_row(1, priority=99),), gone=("J2",))
    assert len(rig.client.store.jobs) == 3999
    assert rig.client.store.jobs.row(1)["priority"] == 99


def test_a_request_carries_its_own_number(rig: Rig) -> None:
    number = rig.client.ask(StatusReq, rig.client, lambda reply: None)
    asked = [m for m in rig.port.posted if isinstance(m, Ask)]
    assert [(m.number, m.body) for m in asked] == [(number, StatusReq(id=number))]

"""Whole logs of many attempts in one message: each is kept or refused for what it is, alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from farm.broker import bulk
from farm.broker.bulk import NOT_LEASED, BulkThread
from farm.protocol.bulk import (
    BulkErrorMsg,
    ColumnsGetMsg,
    LogAckMsg,
    LogGetMsg,
    LogPageMsg,
    LogPutMsg,
    LogsAckMsg,
    LogsPutMsg,
    ShortLog,
)
from farm.protocol.codec import bulk_out_codec, encode
from farm.storage.logs import LogStore
from tests.support.core_rig import Rig, step

OURS, THEIRS, USER = "o" * 40, "t" * 40, "u" * 40


class Desk:
    """A bulk thread that is not started: messages are handed in, answers are kept."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[tuple[bytes, Any]] = []
        decode = bulk_out_codec().decode
        monkeypatch.setattr(
            bulk, "send_nowait", lambda _, peer, body: self.answers.append((peer, decode(body))) or True
        )
        roles = {OURS: "agent", THEIRS: "agent", USER: "user"}
        keyring = SimpleNamespace(
            lookup=lambda key: SimpleNamespace(revoked=False, role=roles[key]) if key in roles else None
        )
        self.logs = LogStore(folder)
        keys = {(1, "beauty", no): OURS if no < 100 else THEIRS for no in range(1, 200)}
        book = SimpleNamespace(key_of=lambda job, step, no: keys.get((job, step, no)))
        self.thread = BulkThread(
            cast("Any", None),
            cast("Any", keyring),
            cast("Any", book),
            self.logs,
            cast("Any", None),
            self._open_past,
        )

        self.farm = Rig()

    def _open_past(self) -> Any:
        return self.farm.store

    def send(self, key: str, message: object) -> object | None:
        """Takes a message; returns what is answered at once."""
        return self.thread._answer(key[:1].encode(), encode(message), key)

    def drained(self) -> list[tuple[bytes, Any]]:
        """Ends a drain; returns what was answered then."""
        self.thread._keep_whole()
        answers, self.answers = self.answers, []
        return answers

    def close(self) -> None:
        self.thread._columns.stop()
        self.logs.close()
        self.thread._waker.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path / "logs", monkeypatch)
    yield made
    made.close()


def test_figures_are_worked_out_elsewhere_and_sent_when_they_are_there(desk: Desk) -> None:
    desk.farm.submit(step())
    ready = threading.Event()
    desk.thread._waker.wake = ready.set  # type: ignore[method-assign]
    assert desk.send(USER, ColumnsGetMsg(5, 1, "beauty")) is None
    assert ready.wait(30)
    ((peer, answer),) = desk.thread._ready
    assert (peer, answer.id, answer.total) == (b"u", 5, 4)  # type: ignore[attr-defined]


def test_figures_are_not_for_agents_nor_of_no_step(desk: Desk) -> None:
    denied = desk.send(OURS, ColumnsGetMsg(5, 1, "beauty"))
    assert denied == BulkErrorMsg(5, "peer", "an agent's key reads no logs, previews or figures")
    assert desk.send(USER, ColumnsGetMsg(6, 0, "beauty")) == BulkErrorMsg(6, "peer", "that is no step")
    unknown = desk.send("x" * 40, ColumnsGetMsg(7, 1, "beauty"))
    assert isinstance(unknown, BulkErrorMsg)
    assert unknown.code == "denied"


def short(no: int, data: bytes = b"words\n", step: str = "beauty", job: int = 1) -> ShortLog:
    return ShortLog(job, step, no, 1000 + no, data)


def test_the_messages_of_a_drain_are_answered_each_to_its_sender(desk: Desk) -> None:
    assert desk.send(OURS, LogsPutMsg((short(1), short(2)))) is None
    assert desk.send(THEIRS, LogsPutMsg((short(101),))) is None
    assert desk.drained() == [
        (b"o", LogsAckMsg((LogAckMsg(1001, 6), LogAckMsg(1002, 6)))),
        (b"t", LogsAckMsg((LogAckMsg(1101, 6),))),
    ]
    assert desk.drained() == []
    assert desk.logs.read(1, "beauty", 101).data == b"words\n"


def test_what_is_not_the_senders_or_no_step_is_refused_alone(desk: Desk) -> None:
    desk.send(
        OURS,
        LogsPutMsg(
            (short(1), short(101), short(2, step="../../etc"), short(3, job=-1), short(500), short(4))
        ),
    )
    ((_, answer),) = desk.drained()
    assert [(ack.size, ack.reason) for ack in answer.acks] == [
        (6, ""),
        *[(-1, NOT_LEASED)] * 4,
        (6, ""),
    ]
    assert not desk.logs.read(1, "beauty", 101).ended


def test_one_that_cannot_be_kept_takes_no_other_with_it(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "J1" / "beauty"
    folder.mkdir(parents=True)
    (folder / "7.log").symlink_to("/dev/null/nowhere")
    (folder / "8.log.open").mkdir()
    desk.send(OURS, LogsPutMsg((short(6), short(8))))
    desk.send(THEIRS, LogsPutMsg((short(101),)))
    (_, mine), (_, theirs) = desk.drained()
    assert (mine.acks[0].size, mine.acks[0].reason) == (6, "")
    assert mine.acks[1].size == -1
    assert "8.log" in mine.acks[1].reason
    assert theirs.acks == (LogAckMsg(1101, 6),)


def test_pieces_and_questions_are_answered_after_the_logs_before_them(desk: Desk) -> None:
    desk.send(OURS, LogsPutMsg((short(1),)))
    assert desk.send(OURS, LogPutMsg(1, "beauty", 1, 1001, 0, b"words\n", True)) == LogAckMsg(1001, 6)
    assert len(desk.answers) == 1
    desk.send(OURS, LogsPutMsg((short(2, b"seen at once\n"),)))
    page = desk.send(USER, LogGetMsg(9, 1, "beauty", 2))
    assert isinstance(page, LogPageMsg)
    assert (page.data, page.ended) == (b"seen at once\n", True)
    desk.drained()

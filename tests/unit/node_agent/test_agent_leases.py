"""Exactly once: the fence, grants, lost attempts, adoption, and what a stalled agent may not do."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from farm.model.ids import attempt_folder
from farm.model.reports import DONE, FAILED, RELEASED
from farm.model.states import AttemptKind
from farm.protocol.agent import Timings
from node_agent.outputs import Hooks
from tests.support.agent_far_end import FAST, FakeBroker
from tests.support.agent_rig import (
    COPY,
    PNG_SPEC,
    Rig,
    folders_left,
    make_picture,
    programs_run,
    python_step,
    wait_for_file,
)
from tests.support.waiting import eventually


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_picture(tmp_path / "source.png")


def copy_step(out: Path, source: Path) -> object:
    return python_step(COPY, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"])


def in_attempt_folder(out: Path, name: str) -> bool:
    return bool(list(out.glob(f".overcrank-*/{name}")))


# ------------------------------------------------------------------ the fence


def test_nothing_is_published_before_an_answer_names_the_attempt(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    with Rig(tmp_path) as rig:
        broker = rig.broker
        broker.answer_beats = False
        seen = len(broker.beats)
        lease = broker.lease(copy_step(out, source), [1])
        eventually(lambda: in_attempt_folder(out, "f.0001.png"), "the frame is written")
        broker.wait_for(lambda: len(broker.beats) >= seen + 3, "heartbeats without an answer")
        assert not (out / "f.0001.png").exists()
        assert not broker.reports
        broker.answer_beats = True
        assert broker.closed(lease.attempt)[0].outcome == DONE
        assert (out / "f.0001.png").exists()


def test_an_old_answer_does_not_open_the_fence(tmp_path: Path, source: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    code = wait_for_file(gate) + COPY
    step = python_step(code, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    timings = Timings(heartbeat_s=0.1, suspect_s=9, lost_s=99, lease_ttl_s=0.3, kill_grace_s=0.5)
    with Rig(tmp_path, broker=FakeBroker(timings)) as rig:
        broker, desk = rig.broker, rig.agent.desk
        lease = broker.lease(step, [1])
        broker.wait_for(lambda: any(lease.attempt in beat.held for _, beat in broker.beats), "it is named")
        eventually(lambda: desk.machine.may_publish(lease.attempt, desk.now_us()), "the fence is open")
        broker.answer_beats = False
        eventually(lambda: not desk.machine.may_publish(lease.attempt, desk.now_us()), "the answer grows old")
        gate.touch()
        eventually(lambda: in_attempt_folder(out, "f.0001.png"), "the frame is written")
        assert not (out / "f.0001.png").exists()
        broker.answer_beats = True
        assert broker.closed(lease.attempt)[0].outcome == DONE


def test_a_finished_frame_does_not_wait_for_the_next_beat_in_turn(tmp_path: Path, source: Path) -> None:
    slow = Timings(heartbeat_s=60, suspect_s=400, lost_s=900, lease_ttl_s=600, kill_grace_s=1)
    with Rig(tmp_path, broker=FakeBroker(slow)) as rig:
        lease = rig.broker.lease(copy_step(tmp_path / "out", source), [1])
        assert rig.broker.closed(lease.attempt)[0].outcome == DONE


def test_a_lost_attempt_keeps_its_files_and_publishes_nothing(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    with Rig(tmp_path) as rig:
        broker = rig.broker
        broker.answer_beats = False
        lease = broker.lease(copy_step(out, source), [1, 2])
        eventually(lambda: in_attempt_folder(out, "f.0002.png"), "both frames are written")
        broker.lose(lease.attempt)
        broker.answer_beats = True
        units = broker.closed(lease.attempt)
        assert [units[i].outcome for i in range(2)] == [RELEASED, RELEASED]
        assert not list(out.glob("*.png"))
        closing = next(report for report in broker.reports if report.closed)
        name = attempt_folder(12, "beauty", lease.no, lease.nonce)
        assert sorted(closing.kept) == [i for i in range(2) if (out / name / f"f.000{i + 1}.png").exists()]
        assert 0 in closing.kept
        broker.batch(discard=(lease.attempt,))
        eventually(lambda: not folders_left(out), "the kept files are discarded")


def test_kept_files_are_adopted_under_a_new_attempt(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    with Rig(tmp_path) as rig:
        broker = rig.broker
        broker.answer_beats = False
        step = copy_step(out, source)
        lost = broker.lease(step, [1])
        eventually(lambda: in_attempt_folder(out, "f.0001.png"), "the frame is written")
        with rig.agent.desk.lock:
            ready = rig.agent.desk.machine.held[lost.attempt].units[0]
        eventually(lambda: ready.phase.name == "READY", "the frame is verified")
        broker.lose(lost.attempt)
        broker.answer_beats = True
        broker.closed(lost.attempt)
        folder = attempt_folder(12, "beauty", lost.no, lost.nonce)
        again = broker.lease(
            step, [1], kind=AttemptKind.ADOPT, adopt_folder=folder, supersedes=(folder,), specs=(PNG_SPEC,)
        )
        unit = broker.closed(again.attempt)[0]
        assert unit.outcome == DONE
        assert (out / "f.0001.png").read_bytes() == source.read_bytes()
        assert folders_left(out) == []
        third = broker.lease(step, [1], kind=AttemptKind.ADOPT, adopt_folder=folder)
        gone = broker.closed(third.attempt)[0]
        assert (gone.outcome, gone.failure) == (FAILED, "lost")


def test_a_rename_that_stalled_finds_its_folder_emptied(tmp_path: Path, source: Path) -> None:
    """The old agent stops between its last look at the fence and the rename; a new attempt takes over."""
    out, fifo = tmp_path / "out", tmp_path / "pause"
    os.mkfifo(fifo)
    other = make_picture(tmp_path / "other.png", 0.9)
    with (
        Rig(tmp_path / "a", hooks=Hooks(pause_before_publish=str(fifo))) as stalled,
        Rig(tmp_path / "b") as rig,
    ):
        old = stalled.broker.lease(copy_step(out, source), [1])
        # Opening for writing succeeds only while the other end is open for reading: it is paused there.
        writer = os.open(fifo, os.O_WRONLY)
        try:
            folder = attempt_folder(12, "beauty", old.no, old.nonce)
            new = rig.broker.lease(
                copy_step(out, other), [1], no=2, nonce=77, attempt=1000, supersedes=(folder,)
            )
            assert rig.broker.closed(new.attempt)[0].outcome == DONE
            assert (out / "f.0001.png").read_bytes() == other.read_bytes()
        finally:
            os.close(writer)
        unit = stalled.broker.closed(old.attempt)[0]
        assert unit.outcome in (FAILED, RELEASED)
        assert unit.failure in ("lost", "")
        assert (out / "f.0001.png").read_bytes() == other.read_bytes()
        assert folders_left(out) == []


def test_two_files_of_a_unit_are_fenced_one_by_one(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    code = "import sys, shutil\nfor target in sys.argv[2:4]: shutil.copyfile(sys.argv[1], target)"
    step = python_step(
        code, str(source), "{output:0}", "{output:1}", outputs=[f"{out}/a.####.png", f"{out}/sub/b.####.png"]
    )
    with Rig(tmp_path) as rig:
        unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
        assert [file.output for file in unit.files] == [0, 1]
        assert (out / "a.0001.png").exists()
        assert (out / "sub" / "b.0001.png").exists()
        assert folders_left(out) + folders_left(out / "sub") == []


# ------------------------------------------------------------------ grants


def test_a_unit_asks_and_is_published_when_granted(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    with Rig(tmp_path) as rig:
        rig.broker.grant = None
        lease = rig.broker.lease(copy_step(out, source), [1, 2], ask=True, specs=(None,))
        rig.broker.wait_for(lambda: len(rig.broker.verified) == 2, "both ask while none is granted")
        assert {message.unit for message in rig.broker.verified} == {0, 1}
        assert rig.broker.verified[0].specs == (PNG_SPEC,)
        assert rig.broker.verified[0].nonce == lease.nonce
        assert not list(out.glob("*.png"))
        from farm.protocol.agent import GrantMsg

        rig.broker.batch(
            grants=(GrantMsg(lease.attempt, 0), GrantMsg(lease.attempt, 1, "is 32x16, not 64x32"))
        )
        units = rig.broker.closed(lease.attempt)
        assert (units[0].outcome, units[1].outcome) == (DONE, FAILED)
        assert (units[1].failure, units[1].reason) == ("output", "is 32x16, not 64x32")
        assert [entry.name for entry in out.iterdir()] == ["f.0001.png"]


def test_a_question_is_repeated_in_every_new_session(tmp_path: Path, source: Path) -> None:
    with Rig(tmp_path) as rig:
        broker = rig.broker
        broker.grant = None
        lease = broker.lease(copy_step(tmp_path / "out", source), [1], ask=True)
        broker.wait_for(lambda: len(broker.verified) == 1, "it asks")
        broker.line.cut()
        broker.line.mend()
        broker.wait_for(lambda: len(broker.verified) == 2, "it asks again")
        assert broker.hellos[-1].agent is not None
        assert broker.hellos[-1].agent.running == (lease.attempt,)
        broker.stop(lease.attempt)
        assert broker.closed(lease.attempt)[0].outcome == RELEASED


# ------------------------------------------------------------------ verify in place


def test_existing_files_are_verified_where_they_lie(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    good = make_picture(out / "f.0001.png")
    (out / "f.0002.png").write_bytes(good.read_bytes()[:-30])
    with Rig(tmp_path) as rig:
        lease = rig.broker.lease(
            copy_step(out, source), [1, 2, 3], kind=AttemptKind.VERIFY, specs=(PNG_SPEC,)
        )
        units = rig.broker.closed(lease.attempt)
        assert [units[i].outcome for i in range(3)] == [DONE, FAILED, FAILED]
        assert units[0].files[0].path == str(good)
        assert units[1].failure == units[2].failure == "output"
        assert sorted(entry.name for entry in out.iterdir()) == ["f.0001.png", "f.0002.png"]


# ------------------------------------------------------------------ sessions


def test_the_broker_goes_away_and_comes_back(tmp_path: Path, source: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    code = wait_for_file(gate) + COPY
    step = python_step(code, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    with Rig(tmp_path) as rig:
        broker = rig.broker
        lease = broker.lease(step, [1])
        quiet = broker.lease(python_step(wait_for_file(gate), kind="single"))
        programs_run(rig, 2)
        broker.line.cut()
        eventually(lambda: not broker.line.send(b""), "the line is dead")
        gate.touch()
        eventually(lambda: len(rig.agent.outbox) == 1, "the result without files is in the outbox")
        eventually(lambda: quiet.attempt not in rig.agent.desk.machine.held, "that attempt is closed")
        eventually(lambda: in_attempt_folder(out, "f.0001.png"), "the frame is kept")
        assert not broker.reports
        said = len(broker.hellos)
        broker.line.mend()
        assert broker.closed(quiet.attempt)[0].outcome == DONE
        assert broker.closed(lease.attempt)[0].outcome == DONE
        hello = broker.hellos[said].agent
        assert hello is not None
        assert hello.running == (lease.attempt,)
        assert hello.pending == (quiet.attempt,)
        eventually(lambda: not len(rig.agent.outbox), "everything is acknowledged")


def test_attempts_the_broker_does_not_keep_are_stopped(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        broker = rig.broker
        lease = broker.lease(python_step("import time; time.sleep(600)", kind="single"))
        programs_run(rig)
        broker.line.cut()
        broker.known.clear()
        broker.line.mend()
        unit = broker.closed(lease.attempt)[0]
        assert (unit.outcome, unit.failure) == (RELEASED, "lost")


def test_a_deaf_broker_is_dialled_afresh(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.broker.answer_beats = False
        rig.broker.wait_for(lambda: len(rig.broker.hellos) > 1, "a second hello")
        assert rig.broker.line.dials > 1


@pytest.mark.allow_log(r"event=refused|^WARNING ")
def test_a_refusal_is_tried_again_later_and_work_goes_on(tmp_path: Path) -> None:
    broker = FakeBroker()
    with Rig(tmp_path, broker=broker) as rig:
        gate = tmp_path / "gate"
        lease = broker.lease(python_step(wait_for_file(gate), kind="single"))
        programs_run(rig)
        broker.refuse = "this key was revoked"
        broker.line.cut()
        broker.line.mend()
        broker.wait_for(lambda: len(broker.hellos) > 2, "it tries again")
        broker.refuse = ""
        gate.touch()
        assert broker.closed(lease.attempt)[0].outcome == DONE
        assert rig.agent.desk.online


@pytest.mark.allow_log(r"event=refused|^WARNING ")
def test_a_refused_key_is_tried_again(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.broker.line.refusal = "the farm does not know this key"
        rig.broker.line.wake()
        eventually(lambda: rig.broker.line.dials > 2, "two more tries")
        rig.broker.line.refusal = ""
        seen = len(rig.broker.beats)
        rig.broker.wait_for(lambda: len(rig.broker.beats) > seen, "it is back")


def test_the_outbox_of_another_farm_is_set_aside(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Rig(tmp_path) as rig:
        broker = rig.broker
        broker.ack = False
        broker.closed(broker.lease(python_step("pass", kind="single")).attempt)
        running = broker.lease(python_step("import time; time.sleep(600)", kind="single"))
        programs_run(rig)
        assert rig.agent.outbox.farm_id == "farm-1"
        broker.line.cut()
        broker.farm_id, broker.ack = "farm-2", True
        broker.reports.clear()
        broker.line.mend()
        eventually(lambda: rig.agent.outbox.farm_id == "farm-2", "the outbox is the new farm's")
        assert rig.agent.desk.wait_idle(20)
        lease = broker.lease(python_step("pass", kind="single"))
        broker.closed(lease.attempt)
        assert {report.attempt for report in broker.reports} == {lease.attempt}
        eventually(lambda: running.attempt not in broker.beats[-1][1].held, "beats without the old attempt")
        assert len(list(state.glob("aside-farm-1-*.db"))) == 1


def test_logs_are_uploaded_in_pieces_and_go_on_after_a_cut(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        gate = tmp_path / "gate"
        code = "print('a' * 600000, flush=True)\n" + wait_for_file(gate) + "print('the end')"
        lease = rig.broker.lease(python_step(code, kind="single"))
        rig.broker.wait_for(lambda: len(rig.broker.logs.get(lease.attempt, b"")) > 600_000, "the first part")
        rig.broker.bulk.cut()
        gate.touch()
        rig.broker.closed(lease.attempt)
        assert lease.attempt not in rig.broker.ended_logs
        with rig.broker.changed:
            # The broker came back from a backup and has less than it said.
            rig.broker.logs[lease.attempt] = rig.broker.logs[lease.attempt][:1000]
        rig.broker.bulk.mend()
        text = rig.broker.log_text(lease.attempt)
        assert text.count("a") > 600_000
        assert "the end" in text
        eventually(lambda: not list((tmp_path / "state" / "logs").iterdir()), "the spool is empty")


def test_beats_name_an_attempt_until_its_last_report_was_sent(tmp_path: Path) -> None:
    """Else the broker would take the attempt for lost a moment before it reads how it ended."""
    with Rig(tmp_path) as rig:
        events: list[tuple[str, int]] = []
        lock = threading.Lock()
        broker = rig.broker
        inner = broker.line._answer

        def spy(line: object, body: bytes) -> None:
            message = broker._decode(body)
            with lock:
                if type(message).__name__ == "BeatMsg":
                    events.extend(("beat", attempt) for attempt in message.held)
                elif type(message).__name__ == "ReportMsg" and message.closed:
                    events.append(("closed", message.attempt))
            inner(line, body)

        broker.line._answer = spy
        leases = [broker.lease(python_step("pass", kind="single")) for _ in range(5)]
        for lease in leases:
            broker.closed(lease.attempt)
        seen = len(broker.beats)
        broker.wait_for(lambda: len(broker.beats) > seen + 1, "more heartbeats")
        for lease in leases:
            closed = events.index(("closed", lease.attempt))
            assert ("beat", lease.attempt) not in events[closed:]
        assert FAST.heartbeat_s < 1

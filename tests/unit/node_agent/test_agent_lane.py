"""A lane: one thread starts processes and hears of their ends itself, whichever end of it goes."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from node_agent import proctree
from node_agent.agent import Spawners
from node_agent.lane import Lane
from node_agent.supervisor import ProcessHandle, SpawnFailed, Supervisor, SupervisorGone
from tests.support.waiting import eventually

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    proc = proctree.read_proc(pid)
    return proc is not None and proc.alive


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(f"test-{uuid.uuid4().hex}") as started:
        yield started


def start(lane: Lane, *argv: str, more: dict[str, str] | None = None) -> tuple[ProcessHandle, int]:
    """Starts a program; returns its handle and the read end of its output."""
    read, write = os.pipe()
    try:
        return lane.spawn(argv, ENV, more or {}, "/", "J1/x@1", write, None), read
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)


def run(lane: Lane, *argv: str, more: dict[str, str] | None = None) -> tuple[ProcessHandle, bytes]:
    """Runs a program to its end; returns its handle and what it printed."""
    handle, read = start(lane, *argv, more=more)
    with os.fdopen(read, "rb") as output:
        lane.wait()
        return handle, output.read()


def told(lane: Lane, handle: ProcessHandle) -> None:
    """Waits until the pid is known."""
    while not handle.pid:
        lane.receive()


def test_one_process_after_another_each_with_its_own_words(supervisor: Supervisor) -> None:
    lane = Lane(supervisor)
    for number in range(50):
        code = number % 7
        handle, words = run(
            lane,
            "/bin/sh",
            "-c",
            f"echo $OVERCRANK_FRAMES $LANG; exit {code}",
            more={"OVERCRANK_FRAMES": str(number)},
        )
        assert words == f"{number} C.UTF-8\n".encode()
        assert handle.facts is not None
        assert handle.facts.returncode == code
        assert not lane.busy
    # What one process had alone, the next one has not.
    assert run(lane, "/bin/sh", "-c", 'echo "<$OVERCRANK_FRAMES>"')[1] == b"<>\n"
    assert supervisor.handles() == []
    lane.close()


def test_the_descriptor_tells_when_there_is_something_to_hear(supervisor: Supervisor) -> None:
    lane = Lane(supervisor)
    handle, read = start(lane, "/bin/sleep", "600")
    poll = select.poll()
    poll.register(lane.fd, select.POLLIN)
    assert poll.poll(20_000)  # it runs
    lane.receive()
    assert running(handle.pid)
    assert not poll.poll(0)
    lane.kill(0.0)
    assert poll.poll(20_000)
    lane.wait()
    assert handle.facts is not None
    assert handle.facts.returncode == -signal.SIGKILL
    os.close(read)
    lane.close()


def test_a_kill_cannot_overtake_its_start(supervisor: Supervisor) -> None:
    lane = Lane(supervisor)
    for _ in range(20):
        handle, read = start(lane, "/bin/sleep", "600")
        lane.kill(0.0)
        lane.wait()
        assert handle.facts is not None
        assert not running(handle.pid)
        os.close(read)
    lane.close()


def test_failed_starts_are_told_and_the_lane_goes_on(supervisor: Supervisor) -> None:
    lane = Lane(supervisor)
    handle, _ = run(lane, "/no/such/program")
    assert isinstance(handle.error, SpawnFailed)
    assert "no such program" in handle.error.message
    closed = os.open(os.devnull, os.O_WRONLY)
    os.close(closed)
    with pytest.raises(SpawnFailed, match="output pipe is closed"):
        lane.spawn(["/bin/true"], ENV, {}, "/", "J1/x@1", closed, None)
    assert not lane.busy
    assert run(lane, "/bin/echo", "well")[1] == b"well\n"
    lane.close()


def test_closing_a_lane_kills_what_was_begun_over_it_and_nothing_else(supervisor: Supervisor) -> None:
    one, other = Lane(supervisor), Lane(supervisor)
    mine, my_output = start(one, "/bin/sh", "-c", "trap '' TERM; sleep 600; sleep 600")
    theirs, their_output = start(other, "/bin/sleep", "600")
    told(one, mine)
    told(other, theirs)
    one.close()
    eventually(lambda: not running(mine.pid), "what nobody waits for is killed")
    assert running(theirs.pid)
    assert supervisor.handles() == [theirs]
    other.kill(0.0)
    other.wait()
    other.close()
    for read in (my_output, their_output):
        os.close(read)


def test_a_supervisor_that_dies_is_told_over_every_lane_once_all_is_dead(supervisor: Supervisor) -> None:
    lanes = [Lane(supervisor) for _ in range(3)]
    started = [start(lane, "/bin/sleep", "600") for lane in lanes]
    for lane, (handle, _) in zip(lanes, started, strict=True):
        told(lane, handle)
    os.kill(supervisor.pid, signal.SIGKILL)
    for lane, (handle, read) in zip(lanes, started, strict=True):
        lane.wait()
        assert handle.facts is not None
        assert handle.facts.lost
        assert not running(handle.pid)
        assert not lane.usable
        with pytest.raises(SupervisorGone):
            start(lane, "/bin/true")
        os.close(read)
        lane.close()


def test_lanes_are_used_again_unless_something_runs_over_them() -> None:
    spawners = Spawners(f"test-{uuid.uuid4().hex}")
    spawners.start()
    try:
        lane = spawners.take_lane()
        other = spawners.take_lane()
        assert lane is not other
        spawners.give_lane(lane)
        assert spawners.take_lane() is lane
        handle, read = start(lane, "/bin/sleep", "600")
        told(lane, handle)
        spawners.give_lane(lane)
        eventually(lambda: not running(handle.pid), "it was given back busy")
        os.close(read)
        lost, read = start(other, "/bin/sleep", "600")
        os.kill(spawners.pid, signal.SIGKILL)
        other.wait()
        assert lost.facts is not None
        assert lost.facts.lost
        os.close(read)
        spawners.give_lane(other)
        fresh = spawners.take_lane()  # of a new supervisor
        assert run(fresh, "/bin/echo", "anew")[1] == b"anew\n"
        spawners.give_lane(fresh)
    finally:
        spawners.close()


def test_threads_with_lanes_of_their_own_do_not_mix_anything_up(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        lane = Lane(supervisor)
        for turn in range(40):
            handle, words = run(lane, "/bin/echo", f"{number} {turn}")
            if handle.facts is None or handle.facts.returncode or words != f"{number} {turn}\n".encode():
                wrong.append((number, turn, handle, words))
        lane.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert supervisor.handles() == []


def test_a_long_word_from_the_agent_arrives_whole(supervisor: Supervisor) -> None:
    lane = Lane(supervisor)
    text = "x" * 100_000
    code = "import sys; print(len(sys.argv[1]), len(sys.argv[2]))"
    assert run(lane, sys.executable, "-I", "-S", "-c", code, text, text)[1] == b"100000 100000\n"
    lane.close()

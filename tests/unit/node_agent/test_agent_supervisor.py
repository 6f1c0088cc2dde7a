"""A supervisor's life, for real: agents and supervisors that die by SIGKILL, and what it all costs.

What belongs here: the supervisor as a process beside its agent.  Starts and trees have tests of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from node_agent import proctree
from node_agent.supervisor import ProcessHandle, Supervisor, SupervisorGone, find_leftovers
from tests.support.farmhand import DAEMON, ENV, Farmhand, running
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]


def test_exit_callbacks_run_once_and_a_bad_one_harms_nobody(
    hand: Farmhand, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def bad(handle: ProcessHandle) -> None:
        seen.append(handle.pid)
        with pytest.raises(SupervisorGone, match="callback"):
            hand.spawn("/bin/true")
        raise RuntimeError("callback bug")

    first = hand.spawn("/bin/true", on_exit=bad)
    assert first.wait(20)
    assert hand.spawn("/bin/true").wait(20)
    assert seen == [first.pid]
    assert "callback" in caplog.text


# -- lives and deaths ---------------------------------------------------------------------------------


def test_close_kills_everything_and_reports_how_each_ended(tmp_path: Path) -> None:
    hand = Farmhand(tmp_path)
    handle, daemon = hand.daemon("pid")
    pids = (hand.supervisor.pid, hand.supervisor.guard_pid)
    hand.close()
    assert not hand.supervisor.alive
    assert not hand.deaths.is_set()
    facts = handle.facts
    assert facts is not None
    assert facts.returncode == -signal.SIGKILL
    assert not facts.lost
    assert not any(running(pid) for pid in (handle.pid, daemon, *pids))
    hand.supervisor.close()
    with pytest.raises(SupervisorGone):
        hand.supervisor.spawn(["/bin/true"], ENV, "/", "t", 1)
    with pytest.raises(SupervisorGone):
        hand.supervisor.start()


@pytest.mark.parametrize("victim", ["supervisor", "guard", "both"])
def test_when_the_supervisor_is_killed_all_it_held_dies_and_the_agent_is_told(
    tmp_path: Path, victim: str
) -> None:
    hand = Farmhand(tmp_path)
    try:
        handle, daemon = hand.daemon("pid")
        flags = [] if victim == "both" else ["wipe"]
        other, wiped = hand.daemon("wiped", *flags)
        pids = {
            "supervisor": [hand.supervisor.pid],
            "guard": [hand.supervisor.guard_pid],
            "both": [hand.supervisor.guard_pid, hand.supervisor.pid],
        }[victim]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert hand.deaths.wait(20)
        assert hand.supervisor.wait_gone(20)
        assert not hand.supervisor.alive
        for pid in (handle.pid, daemon, other.pid, wiped):
            assert not running(pid)
        for facts in (handle.facts, other.facts):
            assert facts is not None
            assert facts.lost, "whoever dies, what it took along did nothing wrong"
        with pytest.raises(SupervisorGone):
            hand.spawn("/bin/true")
    finally:
        hand.close()


AGENT = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
from node_agent.supervisor import Supervisor
supervisor = Supervisor(sys.argv[2])
supervisor.start()
null = os.open("/dev/null", os.O_WRONLY)
env = {"PATH": "/usr/bin:/bin"}
sleeper = supervisor.spawn(["/bin/sh", "-c", "trap '' TERM; sleep 600; sleep 600"], env, "/", "t@1", null)
supervisor.spawn([sys.executable, "-I", "-S", *sys.argv[3:]], env, "/", "t@2", null)
print(supervisor.pid, supervisor.guard_pid, sleeper.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("leaked", [False, True], ids=["plain", "socket-end-leaked"])
def test_when_the_agent_is_killed_all_it_ran_dies(tmp_path: Path, leaked: bool) -> None:
    script = tmp_path / "daemon.py"
    script.write_text(DAEMON)
    agent_id = f"test-{uuid.uuid4().hex}"
    code = AGENT
    if leaked:  # a helper of the agent that inherited every descriptor must not hide its death
        code = code.replace("print(", "if os.fork() == 0: os.close(1); os.read(0, 1); os._exit(0)\nprint(", 1)
    agent = subprocess.Popen(
        [sys.executable, "-c", code, str(ROOT), agent_id, str(script), str(tmp_path / "pid"), "wipe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdin
    assert agent.stdout
    try:
        pids = [int(word) for word in agent.stdout.readline().split()]
        eventually((tmp_path / "pid").exists, "the daemon runs")
        pids.append(int((tmp_path / "pid").read_text()))
        assert all(running(pid) for pid in pids)
    finally:
        agent.kill()
        agent.wait()
    eventually(lambda: not any(running(pid) for pid in pids), "everything is dead")
    assert find_leftovers(agent_id) == []
    agent.stdin.close()
    agent.stdout.close()


def test_signals_meant_for_the_agent_do_not_end_the_supervisor(hand: Farmhand) -> None:
    handle = hand.spawn("/bin/sleep", "600")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(hand.supervisor.pid, number)
        if number != signal.SIGUSR1:
            os.kill(hand.supervisor.guard_pid, number)
    facts = hand.spawn("/bin/true").wait(20)
    assert facts is not None
    assert facts.returncode == 0
    assert handle.wait(0) is None


def test_a_supervisor_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SupervisorGone, match="at once"):
        Supervisor("test-false").start()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SupervisorGone, match="/no/such/python"):
        Supervisor("test-none").start()


def test_the_supervisor_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import runpy, sys; sys.argv = ['x'];\n"
        "try: runpy.run_path(sys.orig_argv[-1], run_name='__main__')\n"
        "except IndexError: known = {'__main__', *sys.stdlib_module_names};"
        " print(sorted(name for name in sys.modules if name.split('.')[0] not in known))"
    )
    main = ROOT / "node_agent" / "supervisor_main.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(main)], capture_output=True, text=True, check=True
    )
    wanted = "['node_agent', 'node_agent.launch', 'node_agent.proctree', 'node_agent.wires']"
    assert done.stdout.strip() == wanted


# -- cost ---------------------------------------------------------------------------------------------


def test_200_quick_starts_from_4_threads_leak_nothing(hand: Farmhand) -> None:
    assert hand.spawn("/bin/true").wait(20)
    pids = (os.getpid(), hand.supervisor.pid)

    def open_fds() -> list[int]:
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]

    before = open_fds()
    codes: list[int] = []

    def work() -> None:
        for number in range(50):
            facts = hand.spawn("/bin/sh", "-c", f"exit {number}").wait(60)
            codes.append(facts.returncode if facts else -1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == sorted(list(range(50)) * 4)
    # The supervisor is another process: it may tell of an end a moment before it has put everything away.
    eventually(lambda: open_fds() == before, "all descriptors are closed")
    eventually(lambda: hand.supervisor.handles() == [], "no handle is kept")
    eventually(
        lambda: not [p for p in proctree.snapshot().values() if p.ppid == hand.supervisor.pid],
        "no process is left",
    )


def test_an_idle_supervisor_uses_no_processor_time(hand: Farmhand) -> None:
    handle = hand.spawn("/bin/sleep", "600")

    def switches() -> int:
        status = Path(f"/proc/{hand.supervisor.pid}/status").read_text()
        return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)

    def still() -> bool:
        before = switches()
        assert handle.wait(0.5) is None
        return switches() - before <= 1

    # One that polls never has such a half second; the first may still see the end of the start.
    eventually(still, "it sleeps for half a second")

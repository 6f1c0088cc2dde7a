"""The agent as a process: real sockets and keys, signals, kill -9, what it leaves behind."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import msgspec
import psutil
import pytest

from farm.model.errors import CallError
from farm.model.reports import DONE, RELEASED
from node_agent.options import AgentOptions, read_options
from tests.support.agent_process import CALM, AgentProcess, SocketBroker
from tests.support.agent_rig import COPY, folders_left, make_picture, python_step, wait_for_file
from tests.support.farmhand import running as running_now
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

#: Writes its own process id, then a child's, and sleeps.
TREE = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'], start_new_session=True)
with open(sys.argv[1] + '.new', 'w') as file: file.write(f'{os.getpid()} {child.pid}')
os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(600)
"""


def pids(path: Path) -> list[int]:
    eventually(path.exists, "the programs run")
    return [int(word) for word in path.read_text().split()]


def gone(found: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in found)


def test_work_is_done_over_encrypted_lines_and_sigterm_gives_back_what_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = make_picture(tmp_path / "source.png")
    with SocketBroker() as broker, AgentProcess(broker.options(tmp_path)) as agent:
        broker.wait_for(lambda: broker.beats, "the first heartbeat")
        hello = broker.hellos[0].agent
        assert hello is not None
        assert hello.facts.renderers == ("command",)
        assert hello.facts.total.cores >= 1
        step = python_step(COPY, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"])
        lease = broker.lease(step, [1, 2])
        units = broker.closed(lease.attempt)
        assert [units[i].outcome for i in range(2)] == [DONE, DONE]
        broker.wait_for(lambda: len(broker.previews) == 2, "the previews")
        assert broker.previews[0].data.startswith(b"\xff\xd8")
        running = broker.lease(
            python_step(TREE, str(tmp_path / "pids"), "{frame}", outputs=[f"{out}/g.####.png"]), [1, 2]
        )
        tree = pids(tmp_path / "pids")
        children = [child.pid for child in psutil.Process(agent.process.pid).children(recursive=True)]
        broker.log_text(lease.attempt)
        assert agent.end(signal.SIGTERM) == 0
        assert [broker.units(running.attempt)[i].outcome for i in range(2)] == [RELEASED, RELEASED]
        broker.wait_for(lambda: broker.byes, "a goodbye")
        assert not any(running_now(pid) for pid in tree)
        eventually(lambda: gone(tree + children), "everything it started is gone")
        assert folders_left(out) == []
        assert "level=ERROR" not in agent.text()
        secret = broker.agent_pair.secret
        assert secret not in agent.text()


def test_a_signal_that_another_thread_gets_ends_it_too(tmp_path: Path) -> None:
    """The kernel chooses the thread: that of an agent just thawed is as a rule not the one that waits."""
    with SocketBroker() as broker, AgentProcess(broker.options(tmp_path)) as agent:
        broker.wait_for(lambda: broker.beats, "the first heartbeat")
        pid = agent.process.pid
        other = max(int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir())
        assert other != pid
        assert ctypes.CDLL(None, use_errno=True).tgkill(pid, other, int(signal.SIGTERM)) == 0
        assert agent.process.wait(20) == 0
        broker.wait_for(lambda: broker.byes, "a goodbye")


def test_after_kill_9_nothing_runs_and_the_next_start_reports_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with SocketBroker() as broker:
        options = broker.options(tmp_path)
        with AgentProcess(options) as agent:
            step = python_step(TREE, str(tmp_path / "pids"), "{frame}", outputs=[f"{out}/g.####.png"])
            broker.wait_for(lambda: broker.beats, "the first heartbeat")
            lease = broker.lease(step, [1, 2])
            tree = pids(tmp_path / "pids")
            agent.end(signal.SIGKILL)
        eventually(lambda: gone(tree), "the programs die with their agent")
        assert len(folders_left(out)) == 1
        with AgentProcess(options) as agent:
            units = broker.closed(lease.attempt)
            assert {unit.outcome for unit in units.values()} == {RELEASED}
            assert units[0].reason == "the agent was restarted"
            hello = broker.hellos[-1].agent
            assert hello is not None
            assert (hello.running, hello.pending) == ((), (lease.attempt,))
            assert hello.instance != broker.hellos[0].agent.instance  # type: ignore[union-attr]
            assert folders_left(out) == []
            assert agent.end(signal.SIGTERM) == 0


def test_a_draining_agent_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    started = tmp_path / "started"
    code = f"open({str(started)!r}, 'w').close()\n" + wait_for_file(gate)
    with SocketBroker() as broker, AgentProcess(broker.options(tmp_path, drain_on_term=True)) as agent:
        broker.wait_for(lambda: broker.beats, "the first heartbeat")
        lease = broker.lease(python_step(code, kind="single"))
        eventually(started.exists, "the program runs")
        agent.process.send_signal(signal.SIGTERM)
        broker.wait_for(lambda: len(broker.hellos) == 2, "it says that it takes no more")
        hello = broker.hellos[1].agent
        assert hello is not None
        # What it can do is still said: the farm must not think that no node can ever do it.
        assert hello.facts == broker.hellos[0].agent.facts  # type: ignore[union-attr]
        assert [one.agent.ending for one in broker.hellos] == [False, True]  # type: ignore[union-attr]
        assert hello.running == (lease.attempt,)
        late = broker.lease(python_step("pass", kind="single"))
        assert broker.closed(late.attempt)[0].outcome == RELEASED
        gate.touch()
        assert broker.closed(lease.attempt)[0].outcome == DONE
        assert agent.process.wait(20) == 0


def test_a_second_sigterm_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    stubborn = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(tmp_path / "pids")!r} + '.new', 'w').write(str(os.getpid()))
os.rename({str(tmp_path / "pids")!r} + '.new', {str(tmp_path / "pids")!r})
time.sleep(600)
"""
    patient = msgspec.structs.replace(CALM, kill_grace_s=300)
    with SocketBroker(patient) as broker, AgentProcess(broker.options(tmp_path)) as agent:
        broker.wait_for(lambda: broker.beats, "the first heartbeat")
        lease = broker.lease(python_step(stubborn, kind="single"))
        tree = pids(tmp_path / "pids")
        agent.process.send_signal(signal.SIGTERM)
        eventually(lambda: "ending it" in _spool_text(tmp_path, lease.attempt), "the program is asked to end")
        assert agent.end(signal.SIGTERM) == 0
        assert not any(running_now(pid) for pid in tree)
        assert broker.units(lease.attempt)[0].outcome == RELEASED


def _spool_text(folder: Path, attempt: int) -> str:
    found = list((folder / "state" / "logs").glob(f"{attempt}.*.log"))
    return found[0].read_text() if found else ""


def test_without_a_broker_it_waits_says_why_and_ends_when_told(tmp_path: Path) -> None:
    with SocketBroker() as broker:
        options = broker.options(tmp_path)
    with AgentProcess(options) as agent:
        eventually(lambda: "event=no-connection" in agent.text(), "it says that nobody answers")
        assert "nothing answers at 127.0.0.1" in agent.text()
        assert agent.end(signal.SIGTERM) == 0


def test_one_state_folder_has_one_agent(tmp_path: Path) -> None:
    with SocketBroker() as broker:
        options = broker.options(tmp_path)
        with AgentProcess(options) as first:
            broker.wait_for(lambda: broker.beats, "the first heartbeat")
            with AgentProcess(options) as second:
                assert second.process.wait(20) == 3
            assert "another agent uses" in first.text()
            assert "Traceback" not in first.text()
            assert first.end(signal.SIGTERM) == 0


def test_what_is_wrong_with_the_options_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text('{"name": "n", "cores": "many"}')
    with AgentProcess(path) as agent:
        assert agent.process.wait(20) == 2
        assert "cores" in agent.text() or "missing" in agent.text()
        assert "Traceback" not in agent.text()
    with pytest.raises(CallError, match="cannot be read"):
        read_options(tmp_path / "nowhere.json")
    with SocketBroker() as broker:
        options = broker.options(tmp_path)
        (tmp_path / "keys" / "agent.key").unlink()
        with AgentProcess(options) as agent:
            assert agent.process.wait(20) == 3
            assert "there is no key at" in agent.text()
            assert "Traceback" not in agent.text()


def test_key_material_is_not_in_the_options(tmp_path: Path) -> None:
    with SocketBroker() as broker:
        path = broker.options(tmp_path)
        assert broker.agent_pair.secret not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
        assert isinstance(read_options(path), AgentOptions)
        assert os.access(path, os.R_OK)

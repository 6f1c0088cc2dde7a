"""Process trees, for real: daemons that hide, forks that never end, leftovers of a crashed agent.

What belongs here: that everything a renderer started ends with it, and nothing else does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from node_agent import proctree
from node_agent.supervisor import ProcessHandle, find_leftovers, kill_leftovers
from tests.support.farmhand import ENV, Farmhand, running
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]


def test_kill_ends_a_daemon_that_left_its_session_and_ignores_sigterm(hand: Farmhand) -> None:
    handle, daemon = hand.daemon("pid")
    proc = proctree.read_proc(daemon)
    assert proc is not None
    assert proc.session not in (handle.pid, 0)
    assert proc.ppid == hand.supervisor.pid  # it came back to the supervisor, not to init
    began = time.monotonic()
    handle.kill(grace_s=2.0)  # long enough for the shell to obey, on any machine
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == -signal.SIGTERM  # the shell's sleep obeyed
    assert facts.leftovers == 0
    assert time.monotonic() - began >= 2.0
    assert not running(daemon)


def test_nothing_is_reported_before_the_last_process_is_gone(hand: Farmhand) -> None:
    handle, daemon = hand.daemon("pid")
    handle.kill(grace_s=60)
    eventually(lambda: not running(handle.pid), "the first process obeys SIGTERM")
    assert handle.wait(0.2) is None
    assert running(daemon)
    handle.kill(grace_s=0)  # a second call shortens the grace
    assert handle.wait(20) is not None
    assert not running(daemon)


def test_what_a_renderer_leaves_behind_is_killed_and_counted(hand: Farmhand) -> None:
    # It ends once the daemon is there: what is left when its program ends has no time to get ready.
    there = hand.folder / "pid"
    handle, daemon = hand.daemon("pid", then=f"until [ -e {there} ]; do sleep 0.01; done; exit 0")
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == 0
    assert facts.leftovers == 1
    assert not running(daemon)


def test_leftovers_that_end_by_themselves_are_not_counted(hand: Farmhand) -> None:
    handle = hand.spawn("/bin/sh", "-c", "(sleep 0.05; echo flushed) & exit 0")
    facts = handle.wait(20)
    assert facts is not None
    assert facts.leftovers == 0
    assert hand.text() == "flushed\n"


def test_a_daemon_without_tags_is_held_until_its_tree_is_the_only_suspect(hand: Farmhand) -> None:
    other = hand.spawn("/bin/sleep", "600")
    handle, daemon = hand.daemon("pid", "wipe")
    assert proctree.env_value(daemon, proctree.AGENT_TAG) is None
    # Two trees could own it, so ending the wrong one must not harm it.
    handle.kill(grace_s=0)
    assert handle.wait(20) is not None
    assert running(daemon)
    other.kill(grace_s=0)
    assert other.wait(20) is not None
    assert not running(daemon)


def test_killing_one_tree_leaves_another_with_the_same_tag_alone(hand: Farmhand) -> None:
    one, first = hand.daemon("one")
    two, second = hand.daemon("two")
    one.kill(grace_s=0)
    assert one.wait(20) is not None
    assert not running(first)
    assert running(second)
    assert running(two.pid)
    assert hand.spawn("/bin/true").wait(20)  # another tree's daemon does not delay a report
    two.kill(grace_s=0)
    assert two.wait(20) is not None
    assert not running(second)


def test_a_process_that_forks_and_exits_all_the_time_is_caught(hand: Farmhand) -> None:
    handle = hand.python(
        """
        import os, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("going", flush=True)
        while True:
            if os.fork(): os._exit(0)
        """
    )
    eventually(lambda: "going" in hand.text(), "the runner runs")
    handle.kill(grace_s=0)
    assert handle.wait(30) is not None


def test_a_stopped_process_gets_sigterm_too(hand: Farmhand) -> None:
    handle = hand.python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    eventually(lambda: (p := proctree.read_proc(handle.pid)) is not None and p.state == "T", "it is stopped")
    handle.kill(grace_s=60)
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == -signal.SIGTERM


@pytest.mark.parametrize("grace_s", [60, 0], ids=["SIGTERM", "SIGKILL"])
def test_a_shell_whose_command_is_killed_does_not_go_on_with_the_next(
    hand: Farmhand, tmp_path: Path, grace_s: int
) -> None:
    # Shells below shells, each of which would go on when the one below it dies; a session of its own in the
    # middle, so that no signal to one group reaches all.
    script = tmp_path / "nest.sh"
    script.write_text(
        """
        if [ "$2" = 0 ]; then sleep 600
        elif [ "$2" = 3 ]; then setsid -w sh "$0" "$1" 2
        else sh "$0" "$1" "$(($2 - 1))"; fi
        : > "$1.went-on-at-$2"
        """
    )
    handles = [hand.spawn("/bin/sh", str(script), str(tmp_path / f"n{number}"), "6") for number in range(8)]

    def asleep(handle: ProcessHandle) -> bool:
        return any(
            _program(pid) == b"sleep" for pid in proctree.descendants(proctree.snapshot(), [handle.pid])
        )

    for handle in handles:
        eventually(lambda handle=handle: asleep(handle), "its command runs")  # type: ignore[misc]
    for handle in handles:
        handle.kill(grace_s=grace_s)
    for handle in handles:
        facts = handle.wait(20)
        assert facts is not None
        assert facts.returncode == (-signal.SIGKILL if grace_s == 0 else -signal.SIGTERM)
    assert [path.name for path in tmp_path.glob("n*.went-on*")] == []


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip()
    except OSError:
        return b""


def test_parents_come_before_what_is_below_them() -> None:
    def proc(pid: int, ppid: int) -> proctree.Proc:
        return proctree.Proc(pid, ppid, pid, pid, "S", 1, 1)

    # Pids wrap round: a child may have a smaller one.  One top lies below another.
    table = {p.pid: p for p in (proc(9, 1), proc(4, 9), proc(7, 9), proc(2, 4), proc(8, 2), proc(30, 1))}
    order = proctree.parents_first(table, [2, 9, 55])
    assert sorted(order) == [2, 4, 7, 8, 9]
    assert all(order.index(table[pid].ppid) < order.index(pid) for pid in (4, 7, 2, 8))
    # A table read while processes move about may hold a ring.
    assert sorted(proctree.parents_first({p.pid: p for p in (proc(2, 3), proc(3, 2))}, [2, 3])) == [2, 3]


# -- leftovers of a crashed agent ---------------------------------------------------------------------


def test_leftovers_are_found_by_tag_and_killed_with_their_children() -> None:
    agent_id = f"test-{uuid.uuid4().hex}"
    read, write = os.pipe()
    code = (
        "import subprocess; p = subprocess.Popen(['/bin/sleep', '600'], env={});"
        " print(p.pid, flush=True); p.wait()"
    )
    env = {**ENV, "OVERCRANK_AGENT": agent_id}
    left = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], env=env, stdout=write)
    near = subprocess.Popen(["/bin/sleep", "600"], env={**ENV, "OVERCRANK_AGENT": agent_id + "0"})
    os.close(write)
    with os.fdopen(read) as output:
        child = int(output.readline())
    try:
        assert find_leftovers(agent_id) == [left.pid]
        assert kill_leftovers(agent_id) == 2
        assert find_leftovers(agent_id) == []
        assert not running(child)
        assert near.poll() is None  # a longer name is another agent
        assert kill_leftovers(agent_id) == 0
    finally:
        near.kill()
        near.wait()
        left.wait()


def test_an_agent_inside_a_tagged_process_spares_itself_and_its_ancestors() -> None:
    agent_id = f"test-{uuid.uuid4().hex}"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from node_agent.supervisor import *;"
        f" print(find_leftovers({agent_id!r}), kill_leftovers({agent_id!r}))"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@"; echo alive', "sh", sys.executable, "-c", code],
        env={**os.environ, "OVERCRANK_AGENT": agent_id},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[] 0\nalive\n"

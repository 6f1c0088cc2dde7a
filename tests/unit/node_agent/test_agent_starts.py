"""Starting processes, for real: what a child gets, how failed starts are told, starts nobody waits for.

What belongs here: the beginning of a process and how its own end is told.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import uuid
from pathlib import Path

import pytest

from node_agent.supervisor import ProcessHandle, SpawnFailed, Supervisor
from tests.support.farmhand import ENV, Farmhand, running
from tests.support.waiting import eventually


def test_a_process_gets_its_arguments_folder_tags_and_streams(hand: Farmhand, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"from stdin")
    os.close(write)
    folder = tmp_path / "a folder % # 'ü"
    folder.mkdir()
    handle = hand.supervisor.spawn(
        [
            sys.executable,
            "-c",
            "import os, sys; print(sys.argv[1], os.getcwd(), os.environ['OVERCRANK_ATTEMPT'],"
            " os.environ['OVERCRANK_AGENT'], sys.stdin.read(), os.getsid(0) == os.getpid());"
            " sys.stderr.write('to stderr'); sys.exit(7)",
            "a b'\"$HOME%#ü",
        ],
        ENV,
        str(folder),
        "J1/beauty@1",
        hand.fd,
        read,
    )
    os.close(read)
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == 7
    assert not facts.lost
    assert facts.leftovers == 0
    assert 1024 < facts.max_rss_kib < 1 << 20
    assert 0 < facts.user_s + facts.sys_s < 20
    agent = hand.supervisor.agent_id
    assert hand.text() == f"a b'\"$HOME%#ü {folder} J1/beauty@1 {agent} from stdin True\nto stderr"


def test_children_have_default_signals_empty_stdin_and_no_stray_descriptors(hand: Farmhand) -> None:
    script = """
    ls /proc/self/fd | wc -l
    grep -hE 'SigIgn|SigBlk' /proc/self/status
    cat /proc/self/oom_score_adj -
    """
    assert hand.spawn("/bin/sh", "-c", script).wait(20)
    count, blocked, ignored, oom, end = hand.text().split("\n")
    assert int(count) == 4  # 0, 1, 2 and the folder that ls reads
    assert int(blocked.split()[1], 16) == 0
    # 32 and 33 are the C library's own; its posix_spawn leaves them ignored.
    assert int(ignored.split()[1], 16) & ~(3 << 31) == 0
    assert (oom, end) == ("500", "")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_death_by_signal_is_told_as_subprocess_tells_it(hand: Farmhand, number: signal.Signals) -> None:
    handle = hand.python("import os, sys; os.kill(os.getpid(), int(sys.argv[1]))", str(int(number)))
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == -number


def test_send_signal_reaches_the_first_process_alone(hand: Farmhand) -> None:
    handle = hand.python(
        """
        import os, signal, sys, time
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        if os.fork() == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
            time.sleep(600)
        print("ready", flush=True)
        signal.sigwait({signal.SIGUSR1})
        sys.exit(0 if os.waitpid(-1, os.WNOHANG)[0] == 0 else 1)
        """
    )
    eventually(lambda: "ready" in hand.text(), "it waits for the signal")
    assert handle.wait(0) is None
    handle.send_signal(signal.SIGUSR1)
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == 0
    assert facts.leftovers == 1
    handle.send_signal(signal.SIGUSR1)  # to one that is gone: no effect, no error
    handle.kill()


# -- starts that fail ---------------------------------------------------------------------------------


def test_failed_starts_name_the_program_and_the_reason(hand: Farmhand, tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("no program")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    text = tmp_path / "text"
    text.write_text("echo no first line\n")
    text.chmod(0o755)
    cases = [
        (["/no/such/blender"], "/", errno.ENOENT, "/no/such/blender: no such program"),
        (["blender-99"], "/", errno.ENOENT, "no program blender-99 on PATH"),
        ([str(plain)], "/", errno.EACCES, "not executable"),
        ([str(tmp_path)], "/", errno.EACCES, "it is a folder"),
        ([str(script)], "/", errno.ENOENT, "interpreter"),
        ([str(text)], "/", errno.ENOEXEC, "#!"),
        (["/bin/true"], "/no/such/folder", errno.ENOENT, "in folder /no/such/folder"),
        (["/bin/true"], str(plain), errno.ENOTDIR, "Not a directory"),
        (["/bin/true", "x" * 3_000_000], "/", errno.E2BIG, "too long"),
        (["/bin/true", "a\0b"], "/", errno.EINVAL, "null"),
        ([], "/", errno.EINVAL, "without a program"),
        ([""], "/", errno.ENOENT, "no name"),
    ]
    for argv, cwd, number, words in cases:
        with pytest.raises(SpawnFailed) as caught:
            hand.supervisor.spawn(argv, ENV, cwd, "t", hand.fd)
        assert caught.value.errno == number, argv[:1]
        assert words in str(caught.value)
        assert caught.value.program == (argv[0] if argv else "")
    assert hand.supervisor.handles() == []
    facts = hand.spawn("true").wait(20)  # still in order, and the PATH is searched
    assert facts is not None
    assert facts.returncode == 0


def test_the_path_searched_is_the_child_s(hand: Farmhand, tmp_path: Path) -> None:
    tool = tmp_path / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    env = {"PATH": f"/nowhere:{tmp_path}"}
    assert hand.supervisor.spawn(["only-here"], env, "/", "t", hand.fd).wait(20)
    assert hand.text() == "found\n"
    # A relative program is relative to the working folder.
    assert hand.supervisor.spawn(["./only-here"], ENV, str(tmp_path), "t", hand.fd).wait(20)


def test_a_closed_output_descriptor_is_an_error_not_a_hang(hand: Farmhand) -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    with pytest.raises(SpawnFailed, match="output pipe"):
        hand.supervisor.spawn(["/bin/true"], ENV, "/", "t", write)
    assert hand.spawn("/bin/true").wait(20)


# -- starts that nobody waits for ---------------------------------------------------------------------


def _start(supervisor: Supervisor, *argv: str, cwd: str = "/") -> tuple[ProcessHandle, threading.Event]:
    """Starts a program without waiting; the event is set when it ended or could not be started."""
    told = threading.Event()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        handle = supervisor.spawn(argv, ENV, cwd, "J1/x@1", null, on_exit=lambda _: told.set(), wait=False)
    finally:
        os.close(null)
    return handle, told


def test_a_start_nobody_waits_for_tells_its_pid_while_it_runs_and_its_end(tmp_path: Path) -> None:
    with Supervisor(f"test-{uuid.uuid4().hex}") as supervisor:
        handle, told = _start(supervisor, "/bin/sleep", "600")
        eventually(lambda: handle.pid, "the pid is told")
        assert running(handle.pid)
        assert handle.start_left_s() == float("inf")
        assert not told.is_set()
        handle.kill(0)
        assert told.wait(20)
        assert handle.facts is not None
        assert handle.facts.returncode == -signal.SIGKILL
        handle, told = _start(supervisor, "/bin/sh", "-c", "exit 7")
        assert told.wait(20)
        assert handle.facts is not None
        assert (handle.facts.returncode, handle.error) == (7, None)
        assert handle.pid > 0
        assert supervisor.handles() == []


def test_a_kill_sent_before_the_pid_is_known_is_not_lost() -> None:
    with Supervisor(f"test-{uuid.uuid4().hex}") as supervisor:
        for _ in range(20):
            handle, told = _start(supervisor, "/bin/sleep", "600")
            handle.kill(0)
            assert told.wait(20)
            assert handle.facts is not None
            assert handle.facts.returncode == -signal.SIGKILL
            assert not running(handle.pid)


def test_a_failed_start_nobody_waits_for_is_told_like_an_end() -> None:
    with Supervisor(f"test-{uuid.uuid4().hex}") as supervisor:
        for argv, cwd, words in (
            (("/no/such/program",), "/", "no such program"),
            (("/bin/true",), "/no/such/folder", "in folder /no/such/folder"),
        ):
            handle, told = _start(supervisor, *argv, cwd=cwd)
            assert told.wait(20)
            assert isinstance(handle.error, SpawnFailed)
            assert words in handle.error.message
            assert handle.facts is None
            assert handle.wait(0) is None


def test_a_supervisor_that_dies_ends_starts_nobody_waits_for() -> None:
    supervisor = Supervisor(f"test-{uuid.uuid4().hex}")
    supervisor.start()
    try:
        handles = [_start(supervisor, "/bin/sleep", "600") for _ in range(5)]
        os.kill(supervisor.pid, signal.SIGKILL)
        for handle, told in handles:
            assert told.wait(30)
            assert handle.facts is not None
            assert handle.facts.lost
            assert not handle.pid or not running(handle.pid)
    finally:
        supervisor.close()

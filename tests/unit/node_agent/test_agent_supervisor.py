"""Process trees, for real: daemons that hide, agents and supervisors that die by SIGKILL."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node_agent import proctree
from node_agent.supervisor import (
    ProcessHandle,
    SpawnFailed,
    Supervisor,
    SupervisorGone,
    find_leftovers,
    kill_leftovers,
)

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
ROOT = Path(__file__).resolve().parents[3]

#: Forks twice, leaves the session, ignores SIGTERM, writes its pid, then sleeps.
DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if "wipe" in sys.argv: os.environ.clear()
if "wipe" in sys.argv and sys.argv[-1] != "again":
    os.execve(sys.executable, [sys.executable, "-I", "-S", *sys.argv, "again"], {})
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def eventually(condition: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    """Waits until ``condition`` holds."""
    deadline = time.monotonic() + timeout_s
    gate = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        gate.wait(0.01)


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    proc = proctree.read_proc(pid)
    return proc is not None and proc.alive


class Farmhand:
    """A supervisor with an output pipe that collects what processes print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deaths = threading.Event()
        self.supervisor = Supervisor(f"test-{uuid.uuid4().hex}", on_death=self.deaths.set)
        self.supervisor.start()
        self.output = folder / "output"
        self.fd = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def spawn(self, *argv: str, **more: object) -> ProcessHandle:
        return self.supervisor.spawn(argv, ENV, "/", "J1/beauty@1", self.fd, **more)  # type: ignore[arg-type]

    def python(self, code: str, *argv: str, **more: object) -> ProcessHandle:
        return self.spawn(sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *argv, **more)

    def daemon(self, name: str, *flags: str, then: str = "exec sleep 600") -> tuple[ProcessHandle, int]:
        """A shell that leaves a daemon behind; returns its handle and the daemon's pid."""
        script = self.folder / "daemon.py"
        script.write_text(DAEMON)
        file = self.folder / name
        handle = self.spawn(
            "/bin/sh", "-c", '"$@"; ' + then, "sh", sys.executable, "-I", "-S", str(script), str(file), *flags
        )
        eventually(file.exists, "the daemon runs")
        return handle, int(file.read_text())

    def text(self) -> str:
        return self.output.read_text()

    def close(self) -> None:
        self.supervisor.close()
        os.close(self.fd)


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Farmhand]:
    made = Farmhand(tmp_path)
    yield made
    made.close()
    assert find_leftovers(made.supervisor.agent_id) == []


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


# -- trees --------------------------------------------------------------------------------------------


def test_kill_ends_a_daemon_that_left_its_session_and_ignores_sigterm(hand: Farmhand) -> None:
    handle, daemon = hand.daemon("pid")
    proc = proctree.read_proc(daemon)
    assert proc is not None
    assert proc.session not in (handle.pid, 0)
    assert proc.ppid == hand.supervisor.pid  # it came back to the supervisor, not to init
    began = time.monotonic()
    handle.kill(grace_s=0.3)
    facts = handle.wait(20)
    assert facts is not None
    assert facts.returncode == -signal.SIGTERM  # the shell's sleep obeyed
    assert facts.leftovers == 0
    assert time.monotonic() - began >= 0.3
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
    handle, daemon = hand.daemon("pid", then="exit 0")
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
        assert handle.facts is not None
        assert other.facts is not None
        if victim != "guard":
            assert handle.facts.lost
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
    assert open_fds() == before
    assert hand.supervisor.handles() == []
    table = proctree.snapshot()
    assert [proc for proc in table.values() if proc.ppid == hand.supervisor.pid] == []


def test_an_idle_supervisor_uses_no_processor_time(hand: Farmhand) -> None:
    handle = hand.spawn("/bin/sleep", "600")

    def switches() -> int:
        status = Path(f"/proc/{hand.supervisor.pid}/status").read_text()
        return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)

    eventually(
        lambda: (p := proctree.read_proc(hand.supervisor.pid)) is not None and p.state == "S", "it waits"
    )
    before = switches()
    assert handle.wait(0.5) is None
    assert switches() - before <= 1

"""What holds for every test: hypothesis without deadlines, nothing left behind, no unexpected warnings.

A test fails (as an error of its teardown) when it leaves a thread that is no daemon, a child process or, in
tests/unit, an open file behind, or when anything was logged at WARNING or above.  A test that expects such a
record says so: with the marker ``allow_log`` (optionally a regular expression for the messages), the
fixture ``allow_log`` (the records, to be looked at), or by using pytest's ``caplog``.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.waiting import PATIENCE_S

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# Who starts tests in the background may have them ignore Ctrl-C; programs they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TASKS = Path("/proc/self/task")
_FDS = Path("/proc/self/fd")


def pytest_configure(config: pytest.Config) -> None:
    """Registers our markers."""
    text = "records at WARNING and above that match, as 'LEVEL message', are expected"
    config.addinivalue_line("markers", f"allow_log(pattern=''): {text}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Remembers whether the test itself failed: then what it left behind is no news."""
    report = yield
    if report.when == "call":  # type: ignore[attr-defined]
        item.stash[_FAILED] = report.failed  # type: ignore[attr-defined]
    return report  # type: ignore[return-value]


_FAILED = pytest.StashKey[bool]()

#: What tests of a folder provoke on purpose, by the beginning of their path: level and message.
PROVOKED: tuple[tuple[str, str], ...] = (
    ("tests/unit/transport/", r"^WARNING refused |^ERROR authenticator could not judge a request"),
    ("tests/unit/sdk/", r"^WARNING refused "),
    (
        "tests/unit/node_agent/",
        r"^WARNING (event=|refused )|Blender|does not tell its version|^WARNING cannot write "
        r"|^ERROR the supervisor of agent \S+ died",
    ),
    ("tests/unit/cli/", r"Blender|does not tell its version"),
    ("tests/integration/", r"^WARNING "),
)


# ---------------------------------------------------------------- leaks


def _children() -> dict[int, str]:
    """Child processes of this one, zombies included: pid and command line."""
    found: dict[int, str] = {}
    if not _TASKS.exists():
        return found
    for task in _TASKS.iterdir():
        with contextlib.suppress(OSError):
            for word in (task / "children").read_text().split():
                found[int(word)] = ""
    for pid in found:
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[pid] = line.strip() or "(ended, not waited for)"
    # Python's own helper of multiprocessing lives as long as the interpreter.
    return {pid: line for pid, line in found.items() if "multiprocessing.resource_tracker" not in line}


def _open_files() -> dict[int, str]:
    """Open descriptors and what they are."""
    found: dict[int, str] = {}
    if not _FDS.exists():
        return found
    for name in os.listdir(_FDS):  # noqa: PTH208 -- an iterator would hold a descriptor itself
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(_FDS / name)  # noqa: PTH115 -- as text, not as a path
    return {fd: target for fd, target in found.items() if not target.startswith(f"/proc/{os.getpid()}/fd")}


def _threads() -> dict[int, threading.Thread]:
    return {
        thread.ident: thread
        for thread in threading.enumerate()
        if thread.ident is not None and not thread.daemon
    }


def _stack(ident: int) -> str:
    frame = sys._current_frames().get(ident)
    return "".join(traceback.format_stack(frame)) if frame is not None else ""


def _wait_until(done: Callable[[], bool]) -> None:
    """Waits for the last of what is ending already; returns at once when nothing is.

    A busy machine needs its time to reap what a test has ended in order.
    """
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not done() and time.monotonic() < deadline:
        pause.wait(0.02)


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    threads, children = set(_threads()), set(_children())
    counts_files = "/tests/unit/" in str(request.path)
    files = _open_files() if counts_files else {}
    yield
    if request.node.stash.get(_FAILED, False):
        return
    left: list[str] = []
    _wait_until(lambda: set(_threads()) <= threads)
    for ident, thread in _threads().items():
        if ident not in threads:
            left.append(f"thread {thread.name!r} still runs:\n{_stack(ident)}")
    _wait_until(lambda: set(_children()) <= children)
    left += [f"process {pid} was left: {line}" for pid, line in _children().items() if pid not in children]
    if counts_files and len(_open_files()) > len(files):
        gc.collect()
        _wait_until(lambda: len(_open_files()) <= len(files))
        now = _open_files()
        if len(now) > len(files):
            new = [f"{fd} -> {target}" for fd, target in sorted(now.items()) if files.get(fd) != target]
            left.append(f"{len(now) - len(files)} more open files than before: {', '.join(new)}")
    if left:
        pytest.fail("the test left behind:\n" + "\n".join(left), pytrace=False)


# ---------------------------------------------------------------- logs


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def _unexpected_log_records(request: pytest.FixtureRequest) -> Iterator[list[logging.LogRecord]]:
    collector = _Collector()
    root = logging.getLogger()
    root.addHandler(collector)
    try:
        yield collector.records
    finally:
        root.removeHandler(collector)
    if request.node.stash.get(_FAILED, False) or {"caplog", "allow_log"} & set(request.fixturenames):
        return
    patterns = [str(mark.args[0]) if mark.args else "" for mark in request.node.iter_markers("allow_log")]
    patterns += [pattern for folder, pattern in PROVOKED if request.node.nodeid.startswith(folder)]
    found = [
        record
        for record in collector.records
        if not any(re.search(pattern, f"{record.levelname} {record.getMessage()}") for pattern in patterns)
    ]
    if found:
        lines = [f"{r.levelname} {r.name} ({r.pathname}:{r.lineno}): {r.getMessage()}" for r in found]
        pytest.fail("unexpected log records:\n" + "\n".join(lines), pytrace=False)


@pytest.fixture
def allow_log(_unexpected_log_records: list[logging.LogRecord]) -> list[logging.LogRecord]:
    """Records at WARNING and above so far; a test that uses this looks at them itself."""
    return _unexpected_log_records


# ---------------------------------------------------------------- windows


@pytest.fixture
def qtbot(qapp: Any, request: pytest.FixtureRequest) -> Any:
    """pytest-qt's, but it waits as long as all tests do."""
    from tests.support.patient_bot import PatientBot  # tests without windows need no Qt

    return PatientBot(request)

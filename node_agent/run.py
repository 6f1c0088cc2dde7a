"""Runs one agent in this process: signals in, exit code out."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys

from node_agent.agent import Agent
from node_agent.options import AgentOptions
from node_agent.selfupdate import UPDATED

#: Exit code that asks for the agent to be started anew: its software was updated.
RESTART = 75


def run_agent(options: AgentOptions) -> int:
    """Runs an agent until it is told to end; returns the exit code, ``RESTART`` after an update.

    SIGTERM (or Ctrl-C) ends it: with ``drain_on_term`` after the chunks that run, else at once, giving them
    back.  A second one kills without grace.

    Raises:
        OvercrankError: It cannot start; says why.
    """
    # The kernel may give a signal to any thread (to an agent that was just thawed it does), and Python runs
    # the handler in this one only once it wakes.  A byte written here wakes it, whoever got the signal.
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    count = [0]

    def on_signal(_number: int, _frame: object) -> None:
        count[0] += 1

    def end() -> None:
        with contextlib.suppress(BlockingIOError):  # full: it was asked before
            os.write(ask, b"\0")

    old = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    old_ask = signal.set_wakeup_fd(ask, warn_on_full_buffer=False)
    agent = None
    try:
        agent = Agent(options)
        agent.on_failure = agent.on_updated = end
        agent.start()
        # What is there now stays for good: it need not be looked through each time the collector runs.
        gc.collect()
        gc.freeze()
        os.read(asked, 1)
        if agent.updates.restart_for and not count[0] and not agent.failed:
            agent.stop("the agent was updated and starts anew")
        elif options.drain_on_term and count[0] < 2 and not agent.failed:
            agent.drain("the node finishes its work and then ends")
        else:
            agent.stop("the agent was stopped")
        forced = False
        while not agent.desk.wait_idle(0.2 if not forced else 1.0):
            if count[0] > 1 and not forced:
                forced = True
                agent.force()
        if agent.updates.restart_for and not count[0] and not agent.failed:
            os.environ[UPDATED] = str(agent.updates.restart_for)
            return RESTART
        return 1 if agent.failed else 0
    finally:
        if agent is not None:
            agent.close()
        signal.set_wakeup_fd(old_ask)
        for number, handler in old.items():
            signal.signal(number, handler)
        os.close(ask)
        os.close(asked)


def setup_logging(level: str) -> None:
    """Plain lines on standard error: time, level, key=value."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())

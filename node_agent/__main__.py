"""``python -m node_agent --options FILE``: one agent in this process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from farm.model.errors import OvercrankError
from node_agent.options import read_options
from node_agent.run import RESTART, run_agent, setup_logging


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m node_agent", description="Runs one render agent.")
    parser.add_argument("--options", type=Path, required=True, help="JSON file with the agent's options")
    parser.add_argument("--leash", type=int, metavar="FD", help="end when this pipe closes")
    arguments = parser.parse_args(argv)
    if arguments.leash is not None:
        threading.Thread(target=_hold, args=(arguments.leash,), name="leash", daemon=True).start()
    try:
        options = read_options(arguments.options)
        setup_logging(options.log_level)
        code = run_agent(options)
        if code == RESTART:
            _start_anew(arguments.leash)
        return code
    except OvercrankError as error:
        sys.stderr.write(f"agent: {error}\n")
        return error.exit_code


def _start_anew(leash: int | None) -> None:
    """Becomes a new agent in this very process; whoever started it sees no difference and still holds it."""
    if leash is not None:
        os.set_inheritable(leash, True)
    sys.stderr.flush()
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    except OSError as error:
        sys.stderr.write(f"agent: cannot start anew after the update: {error.strerror}\n")


def _hold(leash: int) -> None:
    """Asks this process to end once whoever started it has let go, even by being killed."""
    os.set_inheritable(leash, False)
    try:
        while os.read(leash, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())

"""Runs a renderer's invocations the way an agent does, synchronously: for tests only.

Writes and links what the invocation says, runs the process, feeds every line to the parser, moves what is
to be collected, and asks the renderer for its verdict.  No retries, no leases, no verification.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farm.renderers.base import (
    ChunkContext,
    FrameFinished,
    FrameStarted,
    Invocation,
    LogEvent,
    Problem,
    Progress,
    Renderer,
    Verdict,
)

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")


def log_lines(data: bytes) -> list[str]:
    """The lines of a log: split on CR and LF, without ANSI codes."""
    return [_ANSI.sub("", line) for line in re.split(r"[\r\n]+", data.decode("utf-8", "replace")) if line]


def need_real(found: bool, what: str) -> None:
    """Skips a test that needs a real program, or fails it where the programs are required."""
    if not found:
        message = f"needs {what}"
        if os.environ.get("OVERCRANK_REQUIRE_REAL") == "1":
            pytest.fail(message)
        pytest.skip(message)


@dataclass
class Run:
    """What one invocation did."""

    exit_code: int
    lines: list[str]
    events: list[LogEvent]
    verdict: Verdict
    uncollected: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        """Problems that are no warnings."""
        return [event for event in self.events if isinstance(event, Problem) and not event.warning]

    @property
    def warnings(self) -> list[str]:
        """Texts of the warnings."""
        return [event.text for event in self.events if isinstance(event, Problem) and event.warning]

    @property
    def started(self) -> list[int]:
        """Frames the process said it began, in order."""
        return [event.frame for event in self.events if isinstance(event, FrameStarted)]

    @property
    def finished(self) -> list[int]:
        """Frames the process said it finished, in order."""
        return [event.frame for event in self.events if isinstance(event, FrameFinished)]

    def progress(self, frame: int | None) -> list[float]:
        """Fractions told of a frame, in order."""
        return [
            event.fraction for event in self.events if isinstance(event, Progress) and event.frame == frame
        ]


def replay(
    renderer: Renderer, context: ChunkContext, invocation: Invocation, lines: list[str], code: int
) -> Run:
    """Feeds lines to the invocation's parser and asks for the verdict."""
    parser = renderer.parser(context, invocation)
    events = [event for line in lines for event in parser.feed(line)]
    problems = [event for event in events if isinstance(event, Problem)]
    return Run(code, lines, events, renderer.judge(code, problems))


def run_invocation(
    renderer: Renderer, context: ChunkContext, invocation: Invocation, timeout_s: float = 120.0
) -> Run:
    """Runs one invocation to its end."""
    for path, text in invocation.write.items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for path, aim in invocation.link.items():
        link = Path(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(aim)
    env = {key: os.environ[key] for key in _KEPT if key in os.environ}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])  # helper programs of ours, run from scratch
    done = subprocess.run(
        list(invocation.argv),
        env={**env, **invocation.env},
        cwd=context.scratch,
        input=(invocation.stdin or "").encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    run = replay(renderer, context, invocation, log_lines(done.stdout), done.returncode)
    if done.returncode == 0:
        for source, target_path in invocation.collect.items():
            if Path(source).is_file():
                shutil.move(source, target_path)
            else:
                run.uncollected.append(source)
    return run


def run_all(renderer: Renderer, context: ChunkContext, timeout_s: float = 120.0) -> list[Run]:
    """Runs every invocation of a chunk in order, stopping at the first that fails."""
    runs = []
    for invocation in renderer.invocations(context):
        runs.append(run_invocation(renderer, context, invocation, timeout_s))
        if runs[-1].verdict.failure is not None:
            break
    return runs

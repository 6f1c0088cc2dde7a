"""The work of a chaos run: waves of jobs whose frames are small files that name themselves.

What belongs here: job files, where their frames go, and the ledger their program keeps.  What it may not
know: faults, and what is judged.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from farm.model.paths import expand
from tests.support import chaos_renderer
from tests.support.truth import job_file

STEP = "render"
#: Kinds of work: share of the frames, chunk, file, and whether one process makes a whole chunk.
KINDS: dict[str, tuple[float, int | str, str, bool]] = {
    "text": (0.70, 16, "f.####.txt", True),
    "picture": (0.15, 8, "f.####.png", True),
    "single": (0.15, "auto", "f.####.dat", False),
}


class Task(NamedTuple):
    """One job of a wave.

    Attributes:
        name: Its name and token, the name of its folder, too.
        kind: Of ``KINDS``.
        frames: It has the frames 1 to this.
        pattern: Their final files.
        job: Number of the job, 0 before it was submitted.
    """

    name: str
    kind: str
    frames: int
    pattern: str
    job: int = 0

    def file(self, frame: int) -> str:
        """A frame's final file."""
        return expand(self.pattern, frame)


class Execution(NamedTuple):
    """A line of the ledger: a frame's program ran in an attempt's folder."""

    frame: int
    folder: str
    pid: int
    mark: str


class Work:
    """All jobs of a run.

    Attributes:
        out: The folder their folders are in.
        waves: The jobs in order of submission.
    """

    def __init__(self, folder: Path, frames: int, waves: int, pause_s: float, slow_s: float) -> None:
        self.out = folder / "frames"
        self._ledger = folder / "ledger.txt"
        self._lasts = (f"{pause_s:g}", f"{slow_s:g}")
        self.waves: list[list[Task]] = []
        left = frames
        for number in range(waves):
            here = left // (waves - number)
            left -= here
            self.waves.append(list(self._wave(number, here)))

    def _wave(self, number: int, frames: int) -> list[Task]:
        tasks, left = [], frames
        for kind, (share, _, name, _) in reversed(KINDS.items()):
            # The first kind, which comes last here, takes what the others leave.
            count = left if kind == next(iter(KINDS)) else int(frames * share)
            left -= count
            if count:
                label = f"w{number}-{kind}"
                tasks.append(Task(label, kind, count, f"{self.out}/{label}/{name}"))
        return tasks

    def job_of(self, task: Task) -> bytes:
        """Its job file; each kind is a project of its own, so that they share the farm."""
        _, chunk, _, whole = KINDS[task.kind]
        output, frames = "{output}", "{frames}" if whole else "{frame}"
        script = str(Path(chaos_renderer.__file__))
        fixed = [sys.executable, "-I", "-S", script, task.kind, str(self._ledger), *self._lasts]
        step: dict[str, Any] = {
            "name": STEP,
            "kind": "per_frame",
            "renderer": "command",
            "frames": f"1-{task.frames}",
            "chunk": chunk,
            "params": {"command": [*(_literal(word) for word in fixed), output, frames]},
            "outputs": [{"pattern": task.pattern}],
        }
        return job_file(step, name=task.name, project=task.kind, token=task.name)

    def executions(self) -> list[Execution]:
        """All lines of the ledger."""
        if not self._ledger.exists():
            return []
        lines = self._ledger.read_text("ascii").splitlines()
        return [Execution(int(w[0]), w[1], int(w[2]), w[3]) for w in map(str.split, lines)]


def words_of(data: bytes) -> tuple[int, str, str] | None:
    """Frame, address and mark that a frame's file names, None when it names none."""
    at = data.find(f"{chaos_renderer.WORD} ".encode())
    words = data[at:].split(b" ", 4) if at >= 0 else []
    if len(words) < 5:
        return None
    return int(words[1]), words[2].decode("latin-1"), words[3].decode("latin-1")


def by_mark(executions: list[Execution]) -> dict[str, Execution]:
    """Executions by their marks."""
    return {one.mark: one for one in executions}


def repeated(executions: list[Execution]) -> dict[tuple[int, str], int]:
    """Frames that one attempt executed more than once."""
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for one in executions:
        counts[one.frame, one.folder] += 1
    return {key: count for key, count in counts.items() if count > 1}


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

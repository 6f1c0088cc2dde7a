"""What is true of a job in the end: the database's rows and the files on disk, compared.

What belongs here: reading the broker's database from outside, the small program that test frames are made
with, and the assertion all survival tests share: every frame committed exactly once, and its file exactly
what the committed attempt wrote.  What it may not know: processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import astuple

from farm.core.rows import LeaseRow, MeterRow, NodeRow, ResultRow, StaleRow, VerifyRow
from farm.model.frames import FrameRange
from farm.model.outputs import FileFacts
from farm.model.paths import expand
from farm.model.states import AttemptKind, UnitState
from farm.storage.journal import decode_rows

#: FRAME OUTPUT: writes "frame attempt random" into the file.  MARKS is a folder where it leaves a mark when
#: it begins (FRAME.NO) and ends (FRAME.NO.end); it waits for the file GATE, or GATE.NO of its attempt, or
#: GATE.fFRAME of its frame; TAKES is how long a frame takes in seconds; with BROKEN it fails at once.
RENDER = r"""#!/bin/sh
frame=$1 output=$2 no=${OVERCRANK_ATTEMPT##*@}
[ -z "$BROKEN" ] || exit 3
[ -z "$MARKS" ] || : > "$MARKS/$frame.$no"
if [ -n "$GATE" ]; then
  while [ ! -e "$GATE" ] && [ ! -e "$GATE.$no" ] && [ ! -e "$GATE.f$frame" ]; do sleep 0.02; done
fi
[ -z "$TAKES" ] || sleep "$TAKES"
printf '%s %s %s\n' "$frame" "$OVERCRANK_ATTEMPT" "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" > "$output"
[ -z "$MARKS" ] || : > "$MARKS/$frame.$no.end"
"""

#: Kinds of rows in the journal as tables: name, and of which field the last row alone is kept.
_TABLES: dict[type, tuple[str, str]] = {
    LeaseRow: ("leases", "id"),
    ResultRow: ("results", "seq"),
    StaleRow: ("stale", "seq"),
    VerifyRow: ("verify", "id"),
    MeterRow: ("meters", "node_id"),
    NodeRow: ("nodes", "id"),
}
_FILES = msgspec.msgpack.Decoder(tuple[FileFacts, ...])
_DONE, _RUNNING = UnitState.DONE.value, UnitState.RUNNING.value


class Lease(NamedTuple):
    """A lease row."""

    id: int
    no: int
    node_id: int
    kind: int
    units: str
    nonce: int
    at_us: int

    @property
    def indices(self) -> tuple[int, ...]:
        """Its unit indices."""
        return (int(self.units),) if self.units.isdecimal() else tuple(FrameRange.parse(self.units))


class Result(NamedTuple):
    """A result row."""

    seq: int
    attempt_id: int
    unit: int
    old: int
    new: int
    failure: str
    reason: str
    files: bytes
    warning: str
    closes: int
    lost: int
    charge_nano: int
    waste_nano: int

    @property
    def facts(self) -> tuple[FileFacts, ...]:
        """Its files."""
        return _FILES.decode(self.files) if self.files else ()


class Ledger:
    """The broker's database, read from outside while the broker runs."""

    def __init__(self, database: Path) -> None:
        self._path = database

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The database, to look at."""
        place = f"file:{quote(str(self._path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=10)) as db:
            yield db

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a query; what is in the journal shows as tables, too."""
        with self.opened() as db:
            db.execute("BEGIN")  # one moment of the file, however long the look takes
            for kind, (name, key) in _TABLES.items():
                if name in sql:
                    columns = ", ".join(f'"{field}"' for field in kind.__struct_fields__)
                    db.execute(f"CREATE TEMP TABLE {name} ({columns}, UNIQUE ({key}) ON CONFLICT REPLACE)")
            blobs = db.execute(
                "SELECT id, blob FROM segments UNION ALL SELECT id, blob FROM journal ORDER BY id"
            )
            for number, blob in blobs.fetchall():
                for row in decode_rows(blob, f"entry {number}"):
                    name, _ = _TABLES.get(type(row), ("", ""))
                    if name and name in sql:
                        marks = ", ".join("?" * len(row.__struct_fields__))
                        db.execute(f"INSERT INTO temp.{name} VALUES ({marks})", astuple(row))
            return db.execute(sql, values).fetchall()

    def step_id(self, job: int, step: str) -> int:
        """Number of a step."""
        ((number,),) = self.rows("SELECT id FROM steps WHERE job_id = ? AND name = ?", job, step)
        return int(number)

    def leases(self, job: int, step: str) -> dict[int, Lease]:
        """Leases of a step by attempt id."""
        found = self.rows(
            "SELECT id, no, node_id, kind, units, nonce, at_us FROM leases WHERE step_id = ? ORDER BY id",
            self.step_id(job, step),
        )
        return {row[0]: Lease(*row) for row in found}

    def results(self, job: int, step: str) -> list[Result]:
        """Results of a step in order."""
        return [
            Result(*row)
            for row in self.rows(
                "SELECT seq, attempt_id, unit, old, new, failure, reason, files, warning, closes, lost,"
                " charge_nano, waste_nano FROM results WHERE step_id = ? ORDER BY seq",
                self.step_id(job, step),
            )
        ]

    def commits(self, job: int, step: str) -> dict[int, list[Result]]:
        """Result rows by which units became done."""
        found: dict[int, list[Result]] = defaultdict(list)
        for row in self.results(job, step):
            if row.new == _DONE and row.old != _DONE:
                found[row.unit].append(row)
        return found

    def stale(self) -> list[tuple[int, int, int, str]]:
        """Late or foreign results: attempt, unit, node, why."""
        return [
            (row[0], row[1], row[2], row[3])
            for row in self.rows("SELECT attempt_id, unit, node_id, reason FROM stale ORDER BY seq")
        ]

    def failures(self, job: int, step: str) -> dict[int, list[tuple[str, int]]]:
        """Failures by unit: class, and node they happened on."""
        # Results first: the farm goes on, and the lease of each of them is there already.
        results, leases = self.results(job, step), self.leases(job, step)
        found: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for row in results:
            if row.failure:
                found[row.unit].append((row.failure, leases[row.attempt_id].node_id))
        return found


def assert_exactly_once(
    ledger: Ledger, job: int, pattern: str, frames: str, *, step: str = "render", made_by_render: bool = True
) -> None:
    """Every frame was committed exactly once, and its file is what the committed attempt wrote.

    Args:
        ledger: The database.
        job: Job number.
        pattern: Output pattern, as the agents' machine sees it.
        frames: The step's frames.
        step: The step.
        made_by_render: Whether the files were written by ``RENDER``.
    """
    leases, results, commits = ledger.leases(job, step), ledger.results(job, step), ledger.commits(job, step)
    numbers = list(FrameRange.parse(frames))
    lost = [frame for unit, frame in enumerate(numbers) if not commits.get(unit)]
    doubled = {numbers[unit]: len(rows) for unit, rows in commits.items() if len(rows) != 1}
    assert not lost, f"frames never committed: {lost}"
    assert not doubled, f"frames committed more than once: {doubled}"
    assert len(commits) == len(numbers)

    gone_on = {row.attempt_id for row in results if row.lost}
    for unit, frame in enumerate(numbers):
        (row,) = commits[unit]
        lease = leases[row.attempt_id]
        path = Path(expand(pattern, frame))
        (facts,) = row.facts
        data = path.read_bytes()
        where = f"frame {frame}: {path}"
        assert facts.path == str(path), where
        assert facts.size == len(data), where
        assert facts.sha256 == hashlib.sha256(data).hexdigest(), (
            f"{where} holds {data[:80]!r}, not what attempt {lease.no} committed"
        )
        if not made_by_render:
            continue
        written, address, _random = data.decode().split()
        assert int(written) == frame, where
        if lease.kind == AttemptKind.ADOPT:
            # Kept by a lost attempt of the same agent, and taken over.
            writers = [
                other
                for other in leases.values()
                if f"J{job}/{step}@{other.no}" == address and unit in other.indices
            ]
            assert [w.node_id for w in writers] == [lease.node_id], f"{where} was written by {address}"
            assert writers[0].id in gone_on, f"{where}: {address} was not lost"
        else:
            assert address == f"J{job}/{step}@{lease.no}", f"{where}: committed by attempt {lease.no}"

    closes: dict[int, int] = defaultdict(int)
    for row in results:
        closes[row.attempt_id] += row.closes
    assert all(closes[number] <= 1 for number in leases), f"attempts that ended twice: {dict(closes)}"
    assert {number for number in leases if not closes[number]} == set(), "attempts that never ended"


def folder_names(pattern: str) -> set[str]:
    """Names in a pattern's folder."""
    return {entry.name for entry in Path(pattern).parent.iterdir()}


def expected_names(pattern: str, frames: str) -> set[str]:
    """Names of the final files."""
    return {Path(expand(pattern, frame)).name for frame in FrameRange.parse(frames)}


def attempt_folders(folder: Path) -> list[Path]:
    """Attempts' own folders in a destination."""
    return sorted(folder.glob(".overcrank-*")) if folder.is_dir() else []


class Renders:
    """The test program and where its frames, marks and gates are, for one job.

    Attributes:
        pattern: Output pattern.
        out: The folder it is in.
    """

    def __init__(self, folder: Path, name: str = "out", file: str = "f.####.txt") -> None:
        self.folder = folder / f"{name}-work"
        self.folder.mkdir(parents=True)
        self.out = folder / name
        self.pattern = f"{self.out}/{file}"
        self.script = self.folder / "render.sh"
        self.script.write_text(RENDER)
        self.marks = self.folder / "marks"
        self.marks.mkdir()
        self._gate = self.folder / "gate"

    def step(
        self,
        frames: str = "1-10",
        *,
        name: str = "render",
        gated: bool = False,
        takes_s: float = 0.0,
        **fields: Any,
    ) -> dict[str, Any]:
        """A step of a job file."""
        env = {"MARKS": str(self.marks)} | fields.pop("env", {})
        if gated:
            env["GATE"] = str(self._gate)
        if takes_s:
            env["TAKES"] = f"{takes_s:g}"
        return {
            "name": name,
            "kind": "per_frame",
            "renderer": "command",
            "frames": frames,
            "chunk": 1,
            "params": {"command": ["/bin/sh", _literal(str(self.script)), "{frame}", "{output}"]},
            "outputs": [{"pattern": self.pattern}],
            "env": env,
        } | fields

    def job(self, frames: str = "1-10", *, job: dict[str, Any] | None = None, **fields: Any) -> bytes:
        """A job file with that one step; ``job`` has fields of the job itself."""
        return job_file(self.step(frames, **fields), **(job or {}))

    def begun(self) -> set[tuple[int, int]]:
        """Frames that processes began, with the attempt's number."""
        return self._marks(2)

    def ended(self) -> set[tuple[int, int]]:
        """Frames whose file was written whole."""
        return self._marks(3)

    def _marks(self, parts: int) -> set[tuple[int, int]]:
        names = [name.split(".") for name in (entry.name for entry in self.marks.iterdir())]
        return {(int(words[0]), int(words[1])) for words in names if len(words) == parts}

    def open_gate(self, *, attempt: int | None = None, frame: int | None = None) -> None:
        """Lets all processes finish, or those of an attempt or a frame."""
        suffix = f".{attempt}" if attempt is not None else f".f{frame}" if frame is not None else ""
        Path(f"{self._gate}{suffix}").touch()

    def file(self, frame: int) -> Path:
        """A frame's final file."""
        return Path(expand(self.pattern, frame))

    def published(self) -> int:
        """How many files have their final names."""
        if not self.out.is_dir():
            return 0
        return sum(not entry.name.startswith(".") for entry in self.out.iterdir())

    def writer(self, frame: int) -> str:
        """Address of the attempt that wrote the final file."""
        return self.file(frame).read_text().split()[1]


def job_file(*steps: dict[str, Any], **fields: Any) -> bytes:
    """A job file of these steps."""
    return msgspec.json.encode({"overcrank_job": 1, "name": "test", "steps": list(steps)} | fields)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

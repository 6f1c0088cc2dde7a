"""What is true after a chaos run: files, renames, the programs' ledger, the database and the money, compared.

What belongs here: the verdict.  What it may not know: which faults there were.

Three witnesses know nothing of each other: the kernel, which counted every rename to a final name; the
program, which noted every execution; and the farm, which says what it committed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from farm.cli.verbs import find_verb
from farm.core.apply import units_of
from farm.core.rows import BulkRow, LeaseRow, ResultRow
from farm.model.ids import attempt_folder
from farm.model.outputs import FileFacts
from farm.model.states import AttemptKind, FailureClass, UnitState
from farm.protocol.client import FrameRow, JobRow
from farm.storage.journal import decode_rows
from tests.support import chaos_renderer
from tests.support.chaos import Chaos, ChaosHouse
from tests.support.chaos_work import STEP, Execution, Task, by_mark, repeated, words_of
from tests.support.managed import processes_with
from tests.support.truth import attempt_folders

_DONE = UnitState.DONE.value
_FILES = msgspec.msgpack.Decoder(tuple[FileFacts, ...])
#: How long the farm may take to come to rest: agents report, sweep and hang up by themselves.
REST_S = 60.0


class Verdict:
    """What was found.

    Attributes:
        wrong: Violations, each with its evidence; empty = all is as it must be.
        figures: Numbers worth printing.
    """

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.figures: Counter[str] = Counter()

    def must(self, holds: object, what: str) -> None:
        """Notes a violation unless ``holds``."""
        if not holds:
            self.wrong.append(what)


class Books:
    """The farm's rows of one step."""

    def __init__(self) -> None:
        self.leases: dict[int, LeaseRow] = {}
        self.addresses: dict[str, LeaseRow] = {}
        self.results: list[ResultRow] = []
        #: Attempts, or parts of them, of whose end their agents could not tell.
        self.lost: set[int] = set()
        #: By unit: results by which it got done, and how often it left that state.
        self.done: dict[int, list[ResultRow]] = defaultdict(list)
        self.left: Counter[int] = Counter()


def judge(chaos: Chaos) -> Verdict:
    """Compares all witnesses once the farm is at rest; the broker must run."""
    verdict = Verdict()
    house = chaos.house
    _rest(chaos, verdict)
    before = chaos.rows()
    books = _read_books(house)
    executions = chaos.work.executions()
    marks = by_mark(executions)
    renames: dict[str, list[bytes]] = defaultdict(list)
    for one in list(chaos.renames.seen):
        renames[one.path].append(one.data)
    verdict.wrong += chaos.renames.odd
    for task in chaos.tasks:
        step = books.get(task.job, Books())
        _judge_files(task, verdict)
        _judge_leases(task, step, verdict)
        for frame in range(1, task.frames + 1):
            _judge_frame(chaos, task, frame, step, renames.pop(task.file(frame), []), marks, verdict)
    verdict.must(not renames, f"files nobody asked for: {sorted(renames)[:10]}")
    leased = {
        attempt_folder(job, STEP, lease.no, lease.nonce)
        for job, step in books.items()
        for lease in step.leases.values()
    }
    for folder in sorted({one.folder for one in executions} - leased):
        verdict.wrong.append(f"{folder} was rendered in, and no lease the farm remembers is its own")
    for (frame, folder), count in repeated(executions).items():
        verdict.wrong.append(f"frame {frame} was executed {count} times in one attempt's {folder}")
    frames = sum(task.frames for task in chaos.tasks)
    retries = sum(sum(step.left.values()) for step in books.values())
    verdict.figures["executions"] = len(executions)
    verdict.figures["executions beyond the needed"] = len(executions) - frames - retries
    _judge_money(chaos, before, verdict)
    _judge_logs(house, verdict)
    house.restart_broker()
    again = chaos.patiently(chaos.rows)
    for task in chaos.tasks:
        old, new = before.get(task.job), again.get(task.job)
        verdict.must(old == new, f"J{task.job} is another after a restart: {old} became {new}")
    return verdict


# -- at rest -----------------------------------------------------------------------------------------


def _rest(chaos: Chaos, verdict: Verdict) -> None:
    """Waits until nobody has anything left to do."""
    deadline_s = time.monotonic() + REST_S
    while (busy := chaos.patiently(lambda: list(_busy(chaos)))) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    verdict.wrong += [f"not at rest after {REST_S:g} s: {one}" for one in busy]


def _busy(chaos: Chaos) -> Iterable[str]:
    for row in chaos.client.nodes().nodes:
        if row.running or row.state != "online" or not row.enabled:
            yield f"node {row.name} is {row.state}, enabled {row.enabled}, runs {row.running}"
    for task in chaos.tasks:
        for folder in attempt_folders(Path(task.pattern).parent):
            yield f"{folder} is left: {[entry.name for entry in folder.iterdir()]}"
    for pid, line in processes_with(chaos_renderer.__file__).items():
        if str(chaos.work.out) in line:
            yield f"process {pid} still runs: {line}"
    for name, agent in chaos.house.agents.items():
        place = f"file:{quote(str(agent.state / 'outbox.db'))}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True)) as outbox:
            for table in ("report", "begun"):
                ((count,),) = outbox.execute(f"SELECT count(*) FROM {table}")
                if count:
                    yield f"the outbox of {name} holds {count} entries in {table}"


def _judge_logs(house: ChaosHouse, verdict: Verdict) -> None:
    """No thread of broker or agents ended by an error nobody foresaw, whatever was done to them."""
    for path in sorted(house.logs.glob("*.log")):
        text = path.read_text("utf-8", "replace")
        at = text.find("Traceback (most recent call last)")
        verdict.must(at < 0, f"{path.name}: {text[at : at + 3000]}")


# -- the database ------------------------------------------------------------------------------------


def _blobs(house: ChaosHouse) -> tuple[list[tuple[int, int]], list[tuple[int, bytes]]]:
    """Steps with their jobs, and the journal's entries, all of one moment."""
    steps = "SELECT id, job_id FROM steps"
    entries = "SELECT id, blob FROM segments UNION ALL SELECT id, blob FROM journal ORDER BY id"
    if house.server is not None:
        with house.server.connection(house.server_database) as server:
            server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return server.execute(steps).fetchall(), server.execute(entries).fetchall()
    place = f"file:{quote(str(house.database))}?mode=ro"
    with contextlib.closing(sqlite3.connect(place, uri=True, timeout=10)) as db:
        db.execute("BEGIN")
        return db.execute(steps).fetchall(), db.execute(entries).fetchall()


def _read_books(house: ChaosHouse) -> dict[int, Books]:
    """Rows by job; each job has one step."""
    steps, entries = _blobs(house)
    jobs = dict(steps)
    found: dict[int, Books] = {job: Books() for job in jobs.values()}
    rows: list[Any] = [row for number, blob in entries for row in decode_rows(blob, f"entry {number}")]
    rows = [row for row in rows if isinstance(row, LeaseRow | ResultRow | BulkRow)]
    for row in sorted(rows, key=lambda row: row.seq):
        books = found[jobs[row.step_id]]
        if isinstance(row, LeaseRow):
            books.leases[row.id] = row
            books.addresses[f"J{jobs[row.step_id]}/{STEP}@{row.no}"] = row
            continue
        if isinstance(row, ResultRow):
            books.results.append(row)
            if row.lost or row.failure == FailureClass.LOST:
                books.lost.add(row.attempt_id)
            units: Iterable[int] = (row.unit,) if row.unit >= 0 else ()
        else:
            units = units_of(row.units) if row.old == _DONE != row.new else ()
        for unit in units:
            if row.new == _DONE != row.old and isinstance(row, ResultRow):
                books.done[unit].append(row)
            elif row.old == _DONE != row.new:
                books.left[unit] += 1
    return found


def _judge_leases(task: Task, books: Books, verdict: Verdict) -> None:
    closes: Counter[int] = Counter()
    for row in books.results:
        closes[row.attempt_id] += row.closes
        verdict.figures["attempts lost"] += bool(row.closes and row.lost)
    for number, lease in books.leases.items():
        where = f"J{task.job}/{STEP}@{lease.no}"
        verdict.must(closes[number] == 1, f"{where} ended {closes[number]} times")
        verdict.figures["attempts"] += 1
        verdict.figures["attempts that adopted"] += lease.kind == AttemptKind.ADOPT
        verdict.figures["second copies"] += lease.kind == AttemptKind.COPY


# -- frames ------------------------------------------------------------------------------------------


def _judge_files(task: Task, verdict: Verdict) -> None:
    folder = Path(task.pattern).parent
    there = {entry.name for entry in folder.iterdir()}
    wanted = {Path(task.file(frame)).name for frame in range(1, task.frames + 1)}
    verdict.must(there >= wanted, f"{folder}: frames lost: {sorted(wanted - there)[:10]}")
    verdict.must(there <= wanted, f"{folder}: there is more than its frames: {sorted(there - wanted)[:10]}")


def _judge_frame(
    chaos: Chaos,
    task: Task,
    frame: int,
    books: Books,
    renames: list[bytes],
    marks: dict[str, Execution],
    verdict: Verdict,
) -> None:
    """One frame: committed as often as asked, and its file the one that was committed last."""
    where = f"J{task.job}/{STEP}/{frame} ({task.file(frame)})"
    done, left = books.done[frame - 1], books.left[frame - 1]
    asked = chaos.asked[task.job, frame]
    most = asked + chaos.unsure[task.job, frame]
    attempts = [books.leases[row.attempt_id].no for row in done]
    verdict.must(done, f"{where}: lost, it was never committed")
    verdict.must(
        len(done) == 1 + left, f"{where}: doubled, committed by {attempts} but rendered again {left} times"
    )
    verdict.must(asked <= left <= most, f"{where}: {asked} to {most} retries were asked, {left} happened")
    verdict.figures["frames rendered again on request"] += left
    if not done:
        return
    try:
        data = Path(task.file(frame)).read_bytes()
    except OSError as error:
        verdict.wrong.append(f"{where}: {error.strerror}")
        return
    facts = _FILES.decode(done[-1].files)
    named = [(one.path, one.size, one.sha256) for one in facts]
    verdict.must(
        named == [(task.file(frame), len(data), hashlib.sha256(data).hexdigest())],
        f"{where}: attempt {attempts[-1]} committed {named}, the file holds {data[:300]!r}",
    )
    verdict.must(renames and renames[-1] == data, f"{where}: it changed after its last rename")
    # Every commit stands for one rename of its own, in the same order; what is over was never committed.
    over = iter(renames)
    spare: list[bytes] = []
    for row in done:
        digest = next((one.sha256 for one in _FILES.decode(row.files)), "")
        for held in over:
            if hashlib.sha256(held).hexdigest() == digest:
                break
            spare.append(held)
        else:
            verdict.wrong.append(f"{where}: attempt {books.leases[row.attempt_id].no} committed, not renamed")
    verdict.must(not list(over), f"{where}: a file was renamed over the committed one")
    verdict.figures["renames whose attempt was lost before it was heard"] += len(spare)
    _judge_makers(task, frame, books, renames, spare, marks, where, verdict)


def _judge_makers(
    task: Task,
    frame: int,
    books: Books,
    renames: list[bytes],
    spare: list[bytes],
    marks: dict[str, Execution],
    where: str,
    verdict: Verdict,
) -> None:
    """Each file was made for that frame, by a lease of its own, in that lease's folder."""
    makers: Counter[str] = Counter()
    for held in renames:
        words = words_of(held)
        ran = marks.get(words[2]) if words is not None else None
        if words is None or words[0] != frame or ran is None or ran.frame != frame:
            verdict.wrong.append(f"{where}: a file was published that nobody made for it: {held[:200]!r}")
            continue
        makers[words[1]] += 1
        lease = books.addresses.get(words[1])
        if lease is None or ran.folder != attempt_folder(task.job, STEP, lease.no, lease.nonce):
            verdict.wrong.append(f"{where}: {words[1]} made it in {ran.folder}, which is not its lease's")
        elif held in spare and any(row.attempt_id == lease.id for row in books.done[frame - 1]):
            verdict.wrong.append(f"{where}: {words[1]} published twice, {held[:200]!r} besides")
        elif held in spare and lease.id not in books.lost:
            verdict.wrong.append(f"{where}: {words[1]} published it, was not lost, and it was not committed")
    for address, count in makers.items():
        verdict.must(count == 1, f"{where}: {address} published {count} times")


# -- money -------------------------------------------------------------------------------------------


def _judge_money(chaos: Chaos, jobs: dict[int, JobRow], verdict: Verdict) -> None:
    """Every nano-USD has one place, and the places' sums are the same whichever way they are taken."""
    client = chaos.client
    totals = {}
    for by in ("job", "user", "project", "node", "site"):
        reply = client.spend(by)
        for line in (*reply.lines, reply.total):
            parts = line.useful_nano + line.waste_nano + line.idle_nano
            verdict.must(
                parts == line.total_nano and min(line.useful_nano, line.waste_nano, line.idle_nano) >= 0,
                f"money by {by}: {line} does not add up",
            )
        for field in ("total_nano", "useful_nano", "waste_nano", "idle_nano"):
            summed, told = sum(getattr(line, field) for line in reply.lines), getattr(reply.total, field)
            verdict.must(summed == told, f"money by {by}: the lines' {field} is {summed}, the total's {told}")
        # Idle time goes on while we ask.
        totals[by] = (reply.total.useful_nano, reply.total.waste_nano)
    verdict.must(len(set(totals.values())) == 1, f"money differs by what it is taken by: {totals}")
    for task in chaos.tasks:
        told, cost = jobs[task.job], 0
        for frame in _frames(chaos, task):
            cost += frame.cost_nano
            verdict.must(
                frame.state == "done"
                and frame.verified is True
                and frame.files == (task.file(frame.frame or 0),),
                f"J{task.job}/{STEP}/{frame.frame} is told as {frame}",
            )
        verdict.must(
            cost == told.spend_nano,
            f"J{task.job}: its frames cost {cost} nano-USD, the job {told.spend_nano}",
        )
    document = json.loads(chaos.house.farm("spend", "--json").stdout)
    for line in (*document["lines"], document["total"]):
        total, *words = (Decimal(line[f"{word}_usd"]) for word in ("total", "useful", "waste", "idle"))
        # Each figure is rounded to six decimals by itself.
        verdict.must(abs(total - sum(words)) <= Decimal("0.000002"), f"farm spend --json: {line}")


def _frames(chaos: Chaos, task: Task) -> list[FrameRow]:
    found: list[FrameRow] = []
    while len(found) < task.frames:
        rows = chaos.client.frames(f"J{task.job}", offset=len(found), limit=2000).steps.get(STEP, ())
        if not rows:
            break
        found += rows
    return found


def check_database(house: ChaosHouse) -> str:
    """What ``farm db check`` says of the database of a broker that has ended; "" = fine, or not built."""
    verb = find_verb("db")
    if verb is None or not verb.module:
        return ""
    # A server's name is no secret, its password is in the environment.
    place = ("--database", house.server_url) if house.server_url else ()
    done = house.farm("db", "check", *place, timeout_s=300.0)
    return "" if done.returncode == 0 else f"farm db check: {done.stdout}{done.stderr}"

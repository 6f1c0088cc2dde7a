"""What people do with work, end to end: order, pause, cancel, retry, skip, mark done, drain, dependencies."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from farm.media.probe import probe
from farm.model.errors import IllegalMove, JobFileError
from farm.model.states import AttemptKind, UnitState
from tests.support.farmhouse import Farmhouse
from tests.support.real import require
from tests.support.truth import (
    Ledger,
    Renders,
    assert_exactly_once,
    attempt_folders,
    expected_names,
    folder_names,
    job_file,
)
from tests.support.waiting import eventually

_SLOTS = 6


def _ledger(house: Farmhouse) -> Ledger:
    return Ledger(house.database)


# -- acting on work ------------------------------------------------------------------------------------


def test_pause_drains_and_resume_goes_on(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-20", gated=True)).job
    eventually(lambda: len(renders.begun()) == _SLOTS, "every slot is taken")
    reply = shared.admin.act("pause", f"J{number}", reason="waiting for textures")
    assert f"{_SLOTS} running units finish" in reply.message
    renders.open_gate()
    row = shared.wait_job(number, lambda row: row.running == 0)
    assert (row.state, row.done, row.reason) == ("paused", _SLOTS, "waiting for textures")
    assert renders.published() == _SLOTS
    # Other work goes on meanwhile; nothing more of this job is leased.
    other = Renders(shared.folder, f"other{number}")
    shared.wait_job(shared.admin.submit(other.job("1-8")).job)
    assert len(_ledger(shared).leases(number, "render")) == _SLOTS
    shared.admin.act("resume", f"J{number}")
    shared.wait_job(number)
    assert_exactly_once(_ledger(shared), number, renders.pattern, "1-20")


def test_cancel_kills_whole_process_trees(shared: Farmhouse, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    # A shell whose child leaves the session and whose grandchild ignores SIGTERM.
    script = """trap '' TERM
    setsid sh -c 'trap "" TERM; echo $$ > "$0/pid.$1"; while :; do sleep 1; done' "$2" "$1" &
    wait"""
    step = {
        "name": "render",
        "renderer": "command",
        "frames": "1-3",
        "chunk": 1,
        "params": {"command": ["/bin/sh", "-c", script, "sh", "{frame}", str(marks), "{output}"]},
        "outputs": [{"pattern": f"{tmp_path}/out/f.####.txt"}],
    }
    number = shared.admin.submit(job_file(step)).job
    eventually(lambda: len([p for p in marks.iterdir() if p.read_text().strip()]) == 3, "three trees run")
    pids = [int(path.read_text()) for path in marks.iterdir()]
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert shared.admin.act("cancel", f"J{number}").changed == 3
    assert shared.job(number).state == "canceled"
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "every process is gone")
    eventually(lambda: not any(agent.descendants() for agent in shared.agents.values()), "nothing is left")
    eventually(lambda: not attempt_folders(tmp_path / "out"), "no attempt's folder is left")
    assert folder_names(f"{tmp_path}/out/f.txt") == set()

    def closed() -> bool:
        results = _ledger(shared).results(number, "render")
        return len({row.attempt_id for row in results if row.closes}) == 3

    eventually(closed, "all attempts are closed")


def test_part_of_a_job_can_be_canceled(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-20", gated=True)).job
    eventually(lambda: len(renders.begun()) == _SLOTS, "every slot is taken")
    shared.admin.act("cancel", f"J{number}/render/3-18")
    renders.open_gate()
    row = shared.wait_job(number, "canceled")
    assert row.done == 4
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-2,19-20")


def test_retry_renders_named_frames_again(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-4")).job
    shared.wait_job(number)
    before = {frame: renders.file(frame).read_bytes() for frame in range(1, 5)}
    with pytest.raises(IllegalMove, match="nothing there can be rendered again"):
        shared.admin.act("retry", f"J{number}")
    shared.admin.act("retry", f"J{number}/render/2-3", reason="wrong camera")
    ledger = _ledger(shared)
    eventually(lambda: len(ledger.commits(number, "render")[2]) == 2, "frame 3 is done again")
    shared.wait_job(number)
    after = {frame: renders.file(frame).read_bytes() for frame in range(1, 5)}
    assert {frame for frame in before if before[frame] != after[frame]} == {2, 3}
    commits = ledger.commits(number, "render")
    for unit in (1, 2):
        (facts,) = commits[unit][-1].facts
        assert facts.sha256 == hashlib.sha256(after[unit + 1]).hexdigest()
    assert "wrong camera" in {row.reason for row in shared.admin.history(number).rows}


def test_skip_lets_dependants_go_on(shared: Farmhouse, tmp_path: Path) -> None:
    render, after = Renders(tmp_path, "render"), Renders(tmp_path, "after")
    first = render.step("1-3")
    first["params"]["command"] = [
        "/bin/sh",
        "-c",
        '[ "$1" != 2 ] && echo "$1" > "$2"',
        "sh",
        "{frame}",
        "{output}",
    ]
    number = shared.admin.submit(job_file(first, after.step("1-2", name="after", after=["render"]))).job
    row = shared.wait_job(number, "failed")
    states = {step.name: step.state for step in row.steps}
    assert states == {"render": "failed", "after": "blocked"}
    assert after.published() == 0
    shared.admin.act("skip", f"J{number}/render/2", reason="nobody will see it")
    row = shared.wait_job(number)
    assert (row.done, row.failed) == (4, 0)
    (frame,) = shared.admin.frames(f"J{number}/render/2").steps["render"]
    assert (frame.state, frame.reason) == ("skipped", "nobody will see it")
    assert_exactly_once(_ledger(shared), number, after.pattern, "1-2", step="after")


def test_mark_done_verifies_the_files_first(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-3", job={"paused": True})).job
    renders.out.mkdir()
    renders.file(1).write_text("painted\n")
    renders.file(2).write_bytes(b"")
    shared.admin.act("mark-done", f"J{number}/render")

    def looked_at() -> bool:
        return not _ledger(shared).rows("SELECT 1 FROM verify WHERE done = 0")

    eventually(looked_at, "the files were looked at")
    frames = {row.frame: row for row in shared.admin.frames(f"J{number}").steps["render"]}
    assert {frame: row.state for frame, row in frames.items()} == {1: "done", 2: "queued", 3: "queued"}
    assert "empty" in frames[2].reason
    assert "does not exist" in frames[3].reason
    leases = _ledger(shared).leases(number, "render").values()
    assert {lease.kind for lease in leases} == {AttemptKind.VERIFY}
    assert renders.file(1).read_text() == "painted\n"
    # What could not be marked done is rendered.
    shared.admin.act("resume", f"J{number}")
    shared.wait_job(number)
    assert renders.file(1).read_text() == "painted\n"
    assert {renders.writer(2).split("@")[0], renders.writer(3).split("@")[0]} == {f"J{number}/render"}


def test_existing_files_are_kept_when_the_job_says_skip(shared: Farmhouse, renders: Renders) -> None:
    renders.out.mkdir()
    for frame in (1, 2, 5):
        renders.file(frame).write_text(f"kept {frame}\n")
    renders.file(3).write_bytes(b"")
    number = shared.admin.submit(renders.job("1-6", existing="skip")).job
    row = shared.wait_job(number)
    assert row.done == 6
    assert [renders.file(frame).read_text() for frame in (1, 2, 5)] == ["kept 1\n", "kept 2\n", "kept 5\n"]
    rendered = {frame for frame, _ in renders.begun()}
    assert rendered == {3, 4, 6}
    commits = _ledger(shared).commits(number, "render")
    assert {unit: len(rows) for unit, rows in commits.items()} == dict.fromkeys(range(6), 1)


def test_two_live_jobs_may_not_write_the_same_files(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-10", gated=True)).job
    with pytest.raises(JobFileError, match=f"J{number}/render is still writing"):
        shared.admin.submit(renders.job("10-20"))
    shared.admin.act("cancel", f"J{number}")
    later = shared.admin.submit(renders.job("10-20")).job
    shared.wait_job(later)


def test_submitting_a_token_again_gives_the_same_job(shared: Farmhouse, renders: Renders) -> None:
    data = renders.job("1-2", job={"token": "t-1"})
    first = shared.admin.submit(data)
    again = shared.admin.submit(data)
    assert (again.job, again.again, first.again) == (first.job, True, False)
    shared.wait_job(first.job)


def test_a_drained_node_finishes_and_takes_no_more(house: Farmhouse, renders: Renders) -> None:
    ledger = _ledger(house)
    number = house.admin.submit(renders.job("1-12", gated=True)).job
    eventually(lambda: len(renders.begun()) == 4, "every slot is taken")
    b = house.node("b").node
    on_b = {lease.no for lease in ledger.leases(number, "render").values() if lease.node_id == b}
    assert len(on_b) == 2
    house.admin.node_act("node-drain", "b", reason="its fan is loud")
    renders.open_gate()
    house.wait_job(number)
    used = {lease.no for lease in ledger.leases(number, "render").values() if lease.node_id == b}
    assert used == on_b, "a drained node finishes what it has and gets no more"
    assert_exactly_once(ledger, number, renders.pattern, "1-12")
    row = house.node("b")
    assert (row.enabled, row.reason, row.state) == (False, "its fan is loud", "online")
    # A restart of the broker does not forget it.
    house.restart_broker()
    house.wait_online()
    assert not house.node("b").enabled
    house.admin.node_act("node-enable", "b")
    more = Renders(house.folder, "more")
    second = house.admin.submit(more.job("1-12", gated=True)).job
    eventually(lambda: len(more.begun()) == 4, "both nodes work")
    more.open_gate()
    house.wait_job(second)
    assert b in {lease.node_id for lease in ledger.leases(second, "render").values()}


# -- dependencies --------------------------------------------------------------------------------------


def test_render_grade_and_stitch_through_real_ffmpeg(shared: Farmhouse, tmp_path: Path) -> None:
    ffmpeg = shutil.which("ffmpeg")
    require(ffmpeg, "ffmpeg", "install ffmpeg")
    assert ffmpeg is not None
    make = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=24", "-vf"]
    make += ["select=gte(n\\,{frame})", "-frames:v", "1", "-pix_fmt", "rgb24", "{output}"]
    grey = f"{tmp_path}/grey/g.####.png"
    job = job_file(
        {
            "name": "render",
            "renderer": "command",
            "frames": "1-12",
            "params": {"command": make},
            "outputs": [{"pattern": f"{tmp_path}/raw/f.####.png"}],
        },
        {
            "name": "grade",
            "renderer": "ffmpeg",
            "frames": "1-12",
            "chunk": 4,
            "after": ["render"],
            "params": {"input": {"step": "render", "output": 0}, "filter": "hue=s=0"},
            "outputs": [{"pattern": grey}],
        },
        {
            "name": "film",
            "kind": "single",
            "renderer": "stitch",
            "after": ["grade"],
            "params": {"input": {"step": "grade", "output": 0}, "rate": "24/1", "encode": "ffv1"},
            "outputs": [{"pattern": f"{tmp_path}/film.mkv", "kind": "movie"}],
            "movie_frames": 12,
        },
        name="a film",
    )
    number = shared.admin.submit(job).job
    row = shared.wait_job(number)
    assert {step.name: step.counts[UnitState.DONE] for step in row.steps} == {
        "render": 12,
        "grade": 12,
        "film": 1,
    }
    ledger = _ledger(shared)
    assert_exactly_once(ledger, number, f"{tmp_path}/raw/f.####.png", "1-12", made_by_render=False)
    assert_exactly_once(ledger, number, grey, "1-12", step="grade", made_by_render=False)
    (commit,) = ledger.commits(number, "film")[0]
    (facts,) = commit.facts
    film = tmp_path / "film.mkv"
    assert (facts.path, facts.frames) == (str(film), 12)
    assert facts.sha256 == hashlib.sha256(film.read_bytes()).hexdigest()
    assert "ffv1" in repr(probe(film))
    # Nothing began before what it waits for was whole.
    seqs = {
        step: ledger.rows(
            "SELECT MIN(l.seq), (SELECT MAX(r.seq) FROM results r WHERE r.step_id = l.step_id)"
            " FROM leases l WHERE l.step_id = ?",
            ledger.step_id(number, step),
        )[0]
        for step in ("render", "grade", "film")
    }
    assert seqs["render"][1] < seqs["grade"][0]
    assert seqs["grade"][1] < seqs["film"][0]

    # Rendering one frame again makes what depends on it anew.
    shared.admin.act("retry", f"J{number}/render/5")
    eventually(lambda: len(ledger.commits(number, "film")[0]) == 2, "the film is made again")
    shared.wait_job(number)
    assert len(ledger.commits(number, "render")[4]) == 2
    assert len(ledger.commits(number, "render")[3]) == 1

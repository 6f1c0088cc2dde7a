"""Whole attempts: lease in, processes and files, reports out; the broker is a fake at message level."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from farm.model.reports import DONE, FAILED, RELEASED
from farm.model.resources import Resources
from farm.protocol.agent import StepTemplate
from farm.renderers.base import (
    AppInstall,
    ChunkContext,
    FrameStarted,
    Invocation,
    Problem,
    Verdict,
)
from farm.renderers.registry import get_renderer
from node_agent.outputs import Hooks
from tests.support.agent_far_end import FakeBroker
from tests.support.agent_rig import (
    COPY,
    PNG_SPEC,
    Rig,
    folders_left,
    make_picture,
    programs_run,
    python_step,
    wait_for_file,
)
from tests.support.waiting import eventually

#: One process renders all frames of the chunk and tells of each: source, pattern, frames.
CHUNK = """
import os, shutil, sys, time
source, first, frames = sys.argv[1], sys.argv[2], sys.argv[3]
def say(event, frame): print('FARM {"event": "%s", "frame": %d}' % (event, frame), flush=True)
low, high = (frames.split('-') * 2)[:2]
for frame in range(int(low), int(high) + 1):
    say('start', frame)
    path = os.path.join(os.path.dirname(first), 'f.%04d.png' % frame)
"""


def chunk_step(out: Path, source: Path, body: str, after: str = "", **fields: object) -> StepTemplate:
    code = CHUNK + "\n".join("    " + line for line in body.splitlines()) + "\n" + after
    return python_step(code, str(source), "{output}", "{frames}", outputs=[f"{out}/f.####.png"], **fields)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_picture(tmp_path / "source.png")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path) as made:
        yield made


# ------------------------------------------------------------------ done


def test_a_frame_is_rendered_verified_published_and_reported(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/beauty.####.png"])
    lease = rig.broker.lease(step, [7, 8], specs=(PNG_SPEC,))
    units = rig.broker.closed(lease.attempt)
    assert [units[0].outcome, units[1].outcome] == [DONE, DONE]
    assert units[0].files[0].path == f"{out}/beauty.0007.png"
    assert units[0].files[0].size == source.stat().st_size
    assert units[0].files[0].spec == PNG_SPEC
    assert units[0].elapsed_us > 0
    assert units[0].ram_mib > 0
    assert (out / "beauty.0007.png").read_bytes() == source.read_bytes()
    assert folders_left(out) == []
    text = rig.broker.log_text(lease.attempt)
    assert "J12/beauty@1 renderer=command frames=7-8" in text
    assert "ended with exit code 0" in text
    # An empty folder may wait for the next attempt; nothing else is left.
    assert [path for path in (tmp_path / "state" / "scratch").rglob("*") if not path.is_dir()] == []
    assert len(list((tmp_path / "state" / "scratch").rglob("*"))) <= 1


def test_names_with_odd_characters_are_data(rig: Rig, tmp_path: Path, source: Path) -> None:
    for number, name in enumerate(
        ["-leading dash 'and' \"quotes\".####.png", "100% $HOME #5 ü ~ {}.####.png", "`id`; & | *.%04d.png"]
    ):
        out = tmp_path / f"out put's #%s ä {number}"
        step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/{name}"])
        lease = rig.broker.lease(step, [3])
        units = rig.broker.closed(lease.attempt)
        assert units[0].outcome == DONE, units[0]
        final = f"{out}/{name}".replace(".####.", ".0003.").replace(".%04d.", ".0003.")
        assert units[0].files[0].path == final
        assert Path(final).read_bytes() == source.read_bytes()


def test_a_step_without_outputs_goes_by_its_exit_code(rig: Rig) -> None:
    good = rig.broker.lease(python_step("pass", kind="single"))
    bad = rig.broker.lease(python_step("raise SystemExit(3)", kind="single"))
    done = rig.broker.closed(good.attempt)[0]
    assert (done.outcome, done.files) == (DONE, ())
    failed = rig.broker.closed(bad.attempt)[0]
    assert (failed.outcome, failed.failure) == (FAILED, "renderer")
    assert "exit code 3" in failed.reason


def test_a_single_step_may_write_a_sequence_of_its_own_choice(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import sys, os, shutil\n"
        "folder = os.path.dirname(sys.argv[2])\n"
        "for n in (3, 1, 2): shutil.copyfile(sys.argv[1], os.path.join(folder, 'x.%04d.png' % n))"
    )
    step = python_step(code, str(source), "{output}", outputs=[f"{out}/x.####.png"], kind="single")
    units = rig.broker.closed(rig.broker.lease(step).attempt)
    assert units[0].outcome == DONE, units[0]
    assert [file.path for file in units[0].files] == [f"{out}/x.000{n}.png" for n in (1, 2, 3)]
    assert sorted(entry.name for entry in out.iterdir()) == ["x.0001.png", "x.0002.png", "x.0003.png"]


def test_frames_are_published_while_the_next_ones_render(rig: Rig, tmp_path: Path, source: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    body = (
        "shutil.copyfile(source, path)\nsay('finish', frame)\n"
        f"while frame == 1 and not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    lease = rig.broker.lease(chunk_step(out, source, body), [1, 2])
    rig.broker.wait_for(lambda: 0 in rig.broker.units(lease.attempt), "frame 1 while the program waits")
    assert (out / "f.0001.png").exists()
    assert not (out / "f.0002.png").exists()
    gate.touch()
    assert rig.broker.closed(lease.attempt)[1].outcome == DONE


def test_the_environment_is_clean_and_says_what_it_must(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("OVERCRANK_SECRET", "hunter2")
    told = tmp_path / "env.txt"
    lines = "'\\n'.join(k + '=' + v for k, v in os.environ.items())"
    code = f"import os; open({str(told)!r}, 'w').write({lines})"
    step = python_step(code, "{frames}", env={"SHOW": "a b=c", "OVERCRANK_USER": "mallory"})
    lease = rig.broker.lease(step, [4, 5, 6], resources=Resources(cores=2), gpus=())
    assert rig.broker.closed(lease.attempt)[0].outcome == DONE
    env = dict(line.split("=", 1) for line in told.read_text().splitlines())
    assert "hunter2" not in told.read_text()
    assert env["OVERCRANK_JOB"] == "J12"
    assert env["OVERCRANK_STEP"] == "beauty"
    assert env["OVERCRANK_ATTEMPT"] == "J12/beauty@1"
    assert env["OVERCRANK_FRAMES"] == "4-6"
    assert (env["OVERCRANK_USER"], env["OVERCRANK_PROJECT"]) == ("ada", "film")
    assert (env["OVERCRANK_CORES"], env["OMP_NUM_THREADS"]) == ("2", "2")
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert (env["SHOW"], env["LANG"]) == ("a b=c", "C.UTF-8")
    assert env["TMPDIR"].startswith(str(tmp_path / "state" / "scratch"))


# ------------------------------------------------------------------ bad files


def test_a_truncated_picture_is_not_done_and_not_published(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    make_picture(out / "f.0001.png", 0.9)
    before = (out / "f.0001.png").read_bytes()
    code = "import sys; open(sys.argv[2], 'wb').write(open(sys.argv[1], 'rb').read()[:-40])"
    step = python_step(code, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "output")
    assert f"{out}/f.0001.png" in unit.reason
    assert ".overcrank" not in unit.reason
    assert (out / "f.0001.png").read_bytes() == before
    assert folders_left(out) == []


def test_a_missing_file_is_named(rig: Rig, tmp_path: Path) -> None:
    out = tmp_path / "out"
    step = python_step("pass", "{output}", outputs=[f"{out}/f.####.png"])
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "output")
    assert unit.reason == f"{out}/f.0001.png: the file does not exist"


def test_a_link_is_no_file(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    code = "import sys, os; os.symlink(sys.argv[1], sys.argv[2])"
    step = python_step(code, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "output")
    assert "wrote a link" in unit.reason
    assert source.exists()


def test_a_picture_of_another_size_is_refused(rig: Rig, tmp_path: Path, source: Path) -> None:
    import msgspec

    out = tmp_path / "out"
    spec = msgspec.structs.replace(PNG_SPEC, width=64)
    step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    unit = rig.broker.closed(rig.broker.lease(step, [1], specs=(spec,)).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "output")
    assert "32x16, not 64x16" in unit.reason


def test_a_frame_damaged_on_purpose_fails_in_every_attempt(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    with Rig(tmp_path, hooks=Hooks(damage_frame=2)) as rig:
        for _ in range(2):
            units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3]).attempt)
            assert [units[i].outcome for i in range(3)] == [DONE, FAILED, DONE]
            assert units[1].failure == "output"


# ------------------------------------------------------------------ crashes


@pytest.mark.parametrize("told", [True, False], ids=["announced", "silent"])
def test_a_crash_after_good_files_is_done_with_a_warning(
    rig: Rig, tmp_path: Path, source: Path, told: bool
) -> None:
    out = tmp_path / "out"
    body = "shutil.copyfile(source, path)" + ("\nsay('finish', frame)" if told else "")
    step = chunk_step(out, source, body, after="sys.stdout.flush(); os.kill(os.getpid(), 11)")
    units = rig.broker.closed(rig.broker.lease(step, [1, 2]).attempt)
    assert [units[i].outcome for i in range(2)] == [DONE, DONE]
    assert "SIGSEGV" in units[1].warning
    assert (out / "f.0002.png").exists()


def test_a_crash_costs_the_frame_being_rendered_and_frees_the_rest(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    body = "if frame == 2: os.kill(os.getpid(), 11)\nshutil.copyfile(source, path)\nsay('finish', frame)"
    units = rig.broker.closed(rig.broker.lease(chunk_step(out, source, body), [1, 2, 3, 4]).attempt)
    assert [units[i].outcome for i in range(4)] == [DONE, FAILED, RELEASED, RELEASED]
    assert units[1].failure == "renderer"
    assert "SIGSEGV" in units[1].reason
    assert units[2].reason.startswith("not begun: ")


def test_a_crash_without_a_word_costs_the_first_missing_frame(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import sys, os, shutil\n"
        "shutil.copyfile(sys.argv[1], sys.argv[2].replace('####', '0001')); os._exit(9)"
    )
    step = python_step(code, str(source), "{output}", "{frames}", outputs=[f"{out}/f.####.png"])
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3]).attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, FAILED, RELEASED]


def test_a_fatal_line_beats_a_good_file_and_exit_code_0(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    said = '{"event": "problem", "failure": "config", "text": "a texture is missing"}'
    code = COPY + f"; print('FARM {said}')"
    step = python_step(code, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"])
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure, unit.reason) == (FAILED, "config", "a texture is missing")
    assert not (out / "f.0001.png").exists()


def test_too_long_is_a_timeout_and_the_tree_is_gone(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    body = "if frame == 2: time.sleep(600)\nshutil.copyfile(source, path)\nsay('finish', frame)"
    step = chunk_step(out, source, body, timeout_s=5.0)
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3]).attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, FAILED, RELEASED]
    assert units[1].failure == "timeout"


def test_a_program_that_never_ends_after_its_work_is_ended(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    step = chunk_step(
        out, source, "shutil.copyfile(source, path)\nsay('finish', frame)", after="time.sleep(600)"
    )
    with Rig(tmp_path, exit_grace_s=0.2) as rig:
        units = rig.broker.closed(rig.broker.lease(step, [1, 2]).attempt)
        assert [units[i].outcome for i in range(2)] == [DONE, DONE]
        assert "did not end" in units[1].warning


def test_the_supervisor_dies_and_the_node_is_blamed_and_goes_on(rig: Rig, tmp_path: Path) -> None:
    lease = rig.broker.lease(python_step("import time; time.sleep(600)", kind="single"))
    programs_run(rig)
    os.kill(rig.agent.spawners.pid, signal.SIGKILL)
    unit = rig.broker.closed(lease.attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "node")
    again = rig.broker.lease(python_step("pass", kind="single"))
    assert rig.broker.closed(again.attempt)[0].outcome == DONE


# ------------------------------------------------------------------ stop and take back


def test_a_stop_kills_the_whole_tree_and_gives_the_frames_back(rig: Rig, tmp_path: Path) -> None:
    out, pids = tmp_path / "out", tmp_path / "pids"
    code = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = 'import time, signal; signal.signal(15, 1); time.sleep(600)'
child = subprocess.Popen([sys.executable, '-S', '-c', sleep], start_new_session=True)
open({str(pids)!r} + '.new', 'w').write('%d %d' % (os.getpid(), child.pid))
os.rename({str(pids)!r} + '.new', {str(pids)!r})
time.sleep(600)
"""
    step = python_step(code, "{frames}", outputs=[f"{out}/f.####.png"])
    lease = rig.broker.lease(step, [1, 2])
    eventually(pids.exists, "both processes run")
    rig.broker.stop(lease.attempt, "canceled by ada")
    units = rig.broker.closed(lease.attempt)
    assert [(units[i].outcome, units[i].reason) for i in range(2)] == [(RELEASED, "canceled by ada")] * 2
    assert not [pid for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid)]
    assert folders_left(out) == []


def test_frames_not_begun_are_taken_back_and_the_running_one_finishes(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    code = wait_for_file(gate) + COPY
    step = python_step(code, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"])
    lease = rig.broker.lease(step, [1, 2, 3])
    programs_run(rig)
    rig.broker.stop(lease.attempt, "an idle node takes it", take_back=True)
    rig.broker.wait_for(lambda: len(rig.broker.units(lease.attempt)) == 2, "two frames given back")
    assert not any(report.closed for report in rig.broker.reports)
    gate.touch()
    units = rig.broker.closed(lease.attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, RELEASED, RELEASED]
    assert not (out / "f.0002.png").exists()


def test_dropping_all_that_is_left_ends_the_program(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    body = "if frame == 2: time.sleep(600)\nshutil.copyfile(source, path)\nsay('finish', frame)"
    lease = rig.broker.lease(chunk_step(out, source, body), [1, 2, 3])
    rig.broker.wait_for(lambda: 0 in rig.broker.units(lease.attempt), "frame 1 is done")
    rig.broker.stop(lease.attempt, "skipped by ada", units=(1, 2))
    units = rig.broker.closed(lease.attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, RELEASED, RELEASED]
    assert units[1].reason == "skipped by ada"


# ------------------------------------------------------------------ what cannot be run


def test_the_job_is_blamed_for_what_cannot_be_run(rig: Rig, tmp_path: Path) -> None:
    cases = [
        (StepTemplate(job=1, step="a", kind="single", renderer="nonesuch"), "config", "nonesuch"),
        (
            StepTemplate(job=1, step="a", kind="single", renderer="command", params={"comand": []}),
            "config",
            "comand",
        ),
        (
            StepTemplate(
                job=1,
                step="a",
                kind="single",
                renderer="command",
                params={"command": ["/no/such/program"]},
            ),
            "config",
            "/no/such/program",
        ),
        (python_step("pass", kind="single", cwd=f"{tmp_path}/nowhere"), "path", "nowhere"),
        (python_step("pass", "{output}", kind="single", outputs=["P:\\out\\a.png"]), "path", "P:\\out"),
    ]
    for template, failure, word in cases:
        unit = rig.broker.closed(rig.broker.lease(template).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, failure), unit
        assert word in unit.reason


def test_renderers_the_administrator_forbids_do_not_run(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.agent.planner.site.denied = frozenset({"command"})
        unit = rig.broker.closed(rig.broker.lease(python_step("pass", kind="single")).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "config")
        assert "not allowed on this node" in unit.reason


class FakeApp:
    """A renderer whose processes are given by the test."""

    name = "fake"
    summary = "test"
    params_type = get_renderer("command").params_type
    app = "fakeapp"
    kinds = frozenset({"per_frame", "single"})
    path_params: tuple[str, ...] = ()
    input_params: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    takes_lists = True
    whole_slice = False

    def __init__(self, make: object) -> None:
        self.make = make

    def check(self, step: object, params: object) -> list[str]:
        return []

    def invocations(self, context: ChunkContext) -> list[Invocation]:
        return self.make(context)  # type: ignore[operator,no-any-return]

    def parser(self, context: ChunkContext, invocation: Invocation) -> FakeApp:
        return self

    def feed(self, line: str) -> list[object]:
        if line == "boom":
            raise ValueError("a bad parser")
        return [FrameStarted(int(line))] if line.isdigit() else []

    def judge(self, exit_code: int, problems: list[Problem]) -> Verdict:
        return Verdict(None, "ended well")


def test_files_made_in_scratch_are_collected_and_text_is_fed(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"

    def make(context: ChunkContext) -> list[Invocation]:
        scratch = context.scratch
        assert context.app is not None
        assert context.app.version == "2.1"
        assert context.patterns[0].endswith("/f.####.png")
        code = (
            "import sys, shutil; assert sys.stdin.read() == 'hä'; print('boom'); print('5');"
            f"assert open('{scratch}/in/task.txt').read() == 'text';"
            f"shutil.copyfile('{scratch}/link', '{scratch}/r.png')"
        )
        return [
            Invocation(
                argv=(sys.executable, "-S", "-c", code),
                write={f"{scratch}/in/task.txt": "text"},
                link={f"{scratch}/link": str(source)},
                collect={f"{scratch}/r.png": context.files[0].path},
                frames=context.frames,
                stdin="hä",
            )
        ]

    app = FakeApp(make)
    with Rig(tmp_path, find=lambda _name: app) as rig:
        rig.agent.planner.site.apps = {
            "fakeapp": [AppInstall("fakeapp", "1.0", ("x",)), AppInstall("fakeapp", "2.1", ("x",))]
        }
        step = python_step("", outputs=[f"{out}/f.####.png"], version=">=2,<3")
        unit = rig.broker.closed(rig.broker.lease(step, [5]).attempt)[0]
        assert unit.outcome == DONE, unit
        assert (out / "f.0005.png").read_bytes() == source.read_bytes()
        step = python_step("", outputs=[f"{out}/f.####.png"], version=">=3")
        unit = rig.broker.closed(rig.broker.lease(step, [5]).attempt)[0]
        assert unit.failure == "config"
        assert "this node has 1.0, 2.1" in unit.reason


def test_a_renderer_cannot_write_outside_its_scratch(tmp_path: Path) -> None:
    def make(context: ChunkContext) -> list[Invocation]:
        return [Invocation(argv=("true",), write={f"{context.scratch}/../../evil": "x"})]

    app = FakeApp(make)
    with Rig(tmp_path, find=lambda _name: app) as rig:
        rig.agent.planner.site.apps = {"fakeapp": [AppInstall("fakeapp", "1.0", ("x",))]}
        unit = rig.broker.closed(rig.broker.lease(python_step("", kind="single")).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "config")
        assert not list(tmp_path.rglob("evil"))


def test_heartbeats_keep_time_while_work_is_heavy(tmp_path: Path) -> None:
    broker, gate = FakeBroker(), tmp_path / "gate"
    with Rig(tmp_path, broker=broker):
        # Noisy until the test lets it end: a line that waits for work would not beat before that.
        body = f"import os\nwhile not os.path.exists({str(gate)!r}): print('x' * 80)"
        leases = [broker.lease(python_step(body, kind="single")) for _ in range(3)]
        attempts = {lease.attempt for lease in leases}
        broker.wait_for(
            lambda: all(len(broker.logs.get(attempt, b"")) > 100_000 for attempt in attempts), "all are noisy"
        )
        start = len(broker.beats)
        broker.wait_for(lambda: len(broker.beats) > start + 10, "heartbeats while all are at work")
        assert all(attempts <= set(beat.held) for _, beat in broker.beats[start:])
        assert not any(report.closed for report in broker.reports)
        gate.touch()
        for lease in leases:
            assert broker.closed(lease.attempt)[0].outcome == DONE
        assert broker.hellos[0].agent is not None
        assert len(broker.hellos) == 1

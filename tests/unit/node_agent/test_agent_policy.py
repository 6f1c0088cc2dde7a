"""A step's own rules on its agent: pre, post, silence, limits of a frame, taking back, copies, licences."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from farm.model.reports import DONE, FAILED, RELEASED
from farm.model.states import AttemptKind
from farm.protocol.agent import GrantMsg, OutputPlan, StepTemplate
from farm.renderers.base import AppInstall, ChunkContext, Invocation, Renderer
from farm.renderers.registry import get_renderer
from tests.support.agent_rig import COPY, PNG_SPEC, Rig, folders_left, make_picture, python_step
from tests.support.real import require
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


def chunk_step(out: Path, source: Path, body: str, **fields: object) -> StepTemplate:
    code = CHUNK + "\n".join("    " + line for line in body.splitlines()) + "\n"
    return python_step(code, str(source), "{output}", "{frames}", outputs=[f"{out}/f.####.png"], **fields)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """A pre or post command that runs Python code."""
    return (sys.executable, "-S", "-c", code.replace("{", "{{").replace("}", "}}"), *arguments)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_picture(tmp_path / "source.png")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path) as made:
        made.agent.keeper.period_s = 0.1
        yield made


# ------------------------------------------------------------------ pre and post


def test_pre_and_post_frame_the_renderer_in_its_environment(rig: Rig, tmp_path: Path, source: Path) -> None:
    out, told = tmp_path / "out", tmp_path / "told"
    tell = f"""
import json, os, sys
names = sorted(n for n in os.listdir(os.path.dirname(sys.argv[2]))) if sys.argv[1] == 'post' else []
done = sorted(os.listdir({str(out)!r})) if os.path.isdir({str(out)!r}) else []
facts = [*sys.argv[1:], os.getcwd(), os.environ['OVERCRANK_FRAMES'], os.environ['MOOD'], names, done]
open({str(told)!r}, 'a').write(json.dumps(facts) + '\\n')
print('hello from', sys.argv[1])
"""
    step = python_step(
        COPY,
        str(source),
        "{output}",
        "{frame}",
        outputs=[f"{out}/f.####.png"],
        env={"MOOD": "blue"},
        pre=python(tell, "pre", "{output}", "{frames}", "{{scratch}}"),
        post=python(tell, "post", "{output}", "{frames}", "a b"),
    )
    lease = rig.broker.lease(step, [3, 4])
    units = rig.broker.closed(lease.attempt)
    assert [units[i].outcome for i in range(2)] == [DONE, DONE], units
    first, last = (json.loads(line) for line in told.read_text().splitlines())
    assert (first[0], first[2], first[3]) == ("pre", "3-4", "{scratch}")
    assert first[1].endswith("/f.####.png"), "the pattern, inside the attempt's own folder"
    assert first[4] == last[4]
    assert (first[5], first[6]) == ("3-4", "blue")
    assert last[:1] + last[2:4] == ["post", "3-4", "a b"]
    assert last[7] == ["f.0003.png", "f.0004.png"], "rendered by then"
    own = Path(last[1]).parent.name
    assert last[8] == [own], "but nothing published yet"
    assert sorted(path.name for path in out.iterdir()) == ["f.0003.png", "f.0004.png"]
    text = rig.broker.log_text(lease.attempt)
    assert text.index("pre command") < text.index("hello from pre") < text.index("hello from post")


def test_a_failing_pre_fails_the_chunk_and_nothing_is_rendered(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    step = python_step(
        COPY,
        str(source),
        "{output}",
        "{frame}",
        outputs=[f"{out}/f.####.png"],
        pre=python("raise SystemExit(7)"),
    )
    lease = rig.broker.lease(step, [1, 2])
    units = rig.broker.closed(lease.attempt)
    for index in range(2):
        assert (units[index].outcome, units[index].failure) == (FAILED, "renderer")
        assert "pre command" in units[index].reason
        assert "exit code 7" in units[index].reason
    assert folders_left(out) == []
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("which", ["pre", "post"])
def test_a_command_that_is_not_there_is_the_jobs_mistake(
    rig: Rig, tmp_path: Path, source: Path, which: str
) -> None:
    out = tmp_path / "out"
    step = python_step(
        COPY, str(source), "{output}", outputs=[f"{out}/f.####.png"], **{which: ("/no/such/tool", "-x")}
    )
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "config")
    assert f"the {which} command /no/such/tool" in unit.reason
    assert list(out.iterdir()) == []


def test_a_failing_post_fails_the_frames_though_they_are_good(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    body = "shutil.copyfile(source, path)\nsay('finish', frame)"
    step = chunk_step(out, source, body, post=python("import sys; sys.exit(3)"))
    units = rig.broker.closed(rig.broker.lease(step, [1, 2]).attempt)
    assert [(units[i].outcome, units[i].failure) for i in range(2)] == [(FAILED, "renderer")] * 2
    assert "the post command" in units[0].reason
    assert "exit code 3" in units[0].reason
    assert list(out.iterdir()) == []


def test_what_post_does_to_the_files_is_verified(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    spoil = (
        "import os, sys; f = os.path.join(os.path.dirname(sys.argv[1]), 'f.0002.png'); open(f, 'w').close()"
    )
    step = python_step(
        COPY,
        str(source),
        "{output}",
        "{frame}",
        outputs=[f"{out}/f.####.png"],
        post=python(spoil, "{output}"),
    )
    units = rig.broker.closed(rig.broker.lease(step, [1, 2]).attempt)
    assert [(units[i].outcome, units[i].failure) for i in range(2)] == [(DONE, ""), (FAILED, "output")]


def test_post_runs_for_the_frames_that_were_rendered(rig: Rig, tmp_path: Path, source: Path) -> None:
    out, told = tmp_path / "out", tmp_path / "told"
    code = "import sys, shutil\nif sys.argv[3] == '2': sys.exit(1)\nshutil.copyfile(sys.argv[1], sys.argv[2])"
    step = python_step(
        code,
        str(source),
        "{output}",
        "{frame}",
        outputs=[f"{out}/f.####.png"],
        post=python(f"import sys; open({str(told)!r}, 'w').write(sys.argv[1])", "{frames}"),
    )
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3]).attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, FAILED, DONE]
    assert told.read_text() == "1,3"


def test_commands_need_what_the_command_renderer_needs(tmp_path: Path) -> None:
    # A renderer of another name, so that only the step's own commands are in question.
    with Rig(tmp_path, find=lambda _name: get_renderer("command")) as rig:
        rig.agent.planner.site.denied = frozenset({"command"})
        step = StepTemplate(
            job=1, step="a", kind="single", renderer="shell", params={"command": ["true"]}, post=("true",)
        )
        unit = rig.broker.closed(rig.broker.lease(step).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "config")
        assert "post command" in unit.reason
        assert "does not allow the renderer command" in unit.reason
        plain = msgspec.structs.replace(step, post=())
        assert rig.broker.closed(rig.broker.lease(plain).attempt)[0].outcome == DONE


# ------------------------------------------------------------------ silence, limits of a frame


def test_a_silent_idle_program_is_ended_with_the_evidence(rig: Rig, tmp_path: Path) -> None:
    step = python_step("import time; print('working', flush=True); time.sleep(600)", kind="single")
    unit = rig.broker.closed(rig.broker.lease(step, silent_s=1.0).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "silent")
    assert unit.reason.startswith("no output for ")
    assert "CPU 0." in unit.reason
    assert unit.reason.endswith("no disk I/O")


@pytest.mark.parametrize(
    "sign",
    [
        "print('.', end='', flush=True); time.sleep(0.05)",
        "sum(range(200000))",
        "open('notes.txt', 'a').write('x'); time.sleep(0.05)",
    ],
    ids=["prints", "computes", "writes"],
)
def test_any_sign_of_life_is_enough(rig: Rig, sign: str) -> None:
    # It may be silent far longer than a busy machine lets it wait for its turn, and lives three times that.
    code = f"import time\nend = time.monotonic() + 9\nwhile time.monotonic() < end: {sign}"
    unit = rig.broker.closed(rig.broker.lease(python_step(code, kind="single"), silent_s=3.0).attempt)[0]
    assert (unit.outcome, unit.failure) == (DONE, ""), unit.reason


def test_a_frame_over_its_own_limit_fails_alone(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    code = "import sys, time\nif sys.argv[3] == '2': time.sleep(600)\n" + COPY
    step = python_step(
        code, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"], frame_timeout_s=5.0
    )
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3]).attempt)
    assert [(units[i].outcome, units[i].failure) for i in range(3)] == [
        (DONE, ""),
        (FAILED, "timeout"),
        (DONE, ""),
    ]
    assert "frame 2 ran longer than the 5 s" in units[1].reason


def _outlives(rest: str) -> str:
    """A program that goes on with its next commands when it is told to end, as a shell does."""
    return f"import os, shutil, signal, sys, time\nsource, path, frame = sys.argv[1:4]\n{rest}"


def test_a_killed_shell_frame_is_not_done_though_the_shell_goes_on(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    # The trap is what a careful script has; after it the shell goes on behind the command that was killed.
    script = 'trap "echo told" TERM; [ "$3" != 2 ] || sleep 600; cp "$1" "$2"; exit 0'
    made = python_step("", outputs=[f"{out}/f.####.png"], frame_timeout_s=5.0)
    command = ["/bin/sh", "-c", script, "sh", str(source), "{output}", "{frame}"]
    lease = rig.broker.lease(msgspec.structs.replace(made, params={"command": command}), [1, 2, 3])
    units = rig.broker.closed(lease.attempt)
    assert [(units[i].outcome, units[i].failure) for i in range(3)] == [
        (DONE, ""),
        (FAILED, "timeout"),
        (DONE, ""),
    ]
    assert "frame 2 ran longer than the 5 s" in units[1].reason
    assert sorted(path.name for path in out.iterdir()) == ["f.0001.png", "f.0003.png"]


@pytest.mark.parametrize("why", ["step", "silent", "stop"])
def test_whatever_ends_a_program_its_exit_code_0_is_no_success(
    rig: Rig, tmp_path: Path, source: Path, why: str
) -> None:
    out, up = tmp_path / "out", tmp_path / "up"
    code = _outlives(
        "def finish(*_):\n    shutil.copyfile(source, path); sys.exit(0)\n"
        f"signal.signal(15, finish)\nopen({str(up)!r}, 'w').close()\ntime.sleep(600)"
    )
    limits = {"timeout_s": 2.0} if why == "step" else {}
    step = python_step(code, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"], **limits)
    lease = rig.broker.lease(step, [1], **({"silent_s": 1.0} if why == "silent" else {}))
    if why == "stop":
        eventually(up.exists, "the program runs")
        rig.broker.stop(lease.attempt, "canceled by ada")
    (unit,) = rig.broker.closed(lease.attempt).values()
    expected = {"step": (FAILED, "timeout"), "silent": (FAILED, "silent"), "stop": (RELEASED, "")}[why]
    assert (unit.outcome, unit.failure) == expected, unit.reason
    assert folders_left(out) == []
    assert not list(out.iterdir())


def test_of_a_chunk_that_runs_too_long_what_was_complete_before_is_kept(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    # It says nothing of its frames, and writes two more once it is told to end.
    code = _outlives(
        "paths = [os.path.join(os.path.dirname(path), 'f.%04d.png' % n) for n in range(1, 6)]\n"
        "def finish(*_):\n    [shutil.copy2(source, p) for p in paths[3:]]; sys.exit(0)\n"
        "signal.signal(15, finish)\n"
        "[shutil.copy2(source, p) for p in paths[:3]]\ntime.sleep(600)"
    )
    step = python_step(
        code, str(source), "{output}", "{frames}", outputs=[f"{out}/f.####.png"], timeout_s=5.0
    )
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3, 4, 5]).attempt)
    found = {i: units[i].outcome for i in range(5)}
    assert [found[i] for i in range(3)] == [DONE, DONE, DONE], units
    assert sorted(found[i] for i in (3, 4)) == sorted((FAILED, RELEASED)), units
    assert {unit.failure for unit in units.values() if unit.outcome == FAILED} == {"timeout"}
    assert sorted(path.name for path in out.iterdir()) == [f"f.000{n}.png" for n in (1, 2, 3)]


def test_the_limit_of_a_frame_begins_with_the_frame_inside_a_chunk(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    body = "time.sleep(600 if frame == 3 else 2)\nshutil.copyfile(source, path)\nsay('finish', frame)"
    step = chunk_step(out, source, body, frame_timeout_s=3.5)
    units = rig.broker.closed(rig.broker.lease(step, [1, 2, 3, 4]).attempt)
    assert [(units[i].outcome, units[i].failure) for i in range(4)] == [
        (DONE, ""),
        (DONE, ""),
        (FAILED, "timeout"),
        (RELEASED, ""),
    ], "4 s for two frames are within the 3.5 s of each"
    assert "frame 3" in units[2].reason


def test_a_frame_that_is_too_fast_to_be_true_has_failed(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    single = python_step(
        COPY, str(source), "{output}", "{frame}", outputs=[f"{out}/f.####.png"], min_run_s=60.0
    )
    body = "shutil.copyfile(source, path)\nsay('finish', frame)"
    for step in (single, chunk_step(out, source, body, min_run_s=60.0)):
        units = rig.broker.closed(rig.broker.lease(step, [1, 2]).attempt)
        for index in range(2):
            assert (units[index].outcome, units[index].failure) == (FAILED, "renderer")
            assert "at least 60 s" in units[index].reason
    assert not [path for path in out.iterdir() if path.suffix == ".png"]


# ------------------------------------------------------------------ taking back


def test_a_program_that_cannot_leave_frames_out_ends_after_the_one_it_is_at(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out, gate, begun = tmp_path / "out", tmp_path / "gate", tmp_path / "begun"
    body = (
        f"if frame == 1: open({str(begun)!r}, 'w').close()\n"
        f"while frame == 1 and not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "if frame > 1: time.sleep(600)\n"
        "shutil.copyfile(source, path)\nsay('finish', frame)"
    )
    lease = rig.broker.lease(chunk_step(out, source, body), [1, 2, 3])
    eventually(begun.exists, "it is at frame 1")
    rig.broker.stop(lease.attempt, "an idle node takes it", take_back=True)
    rig.broker.wait_for(lambda: len(rig.broker.beats) > 3, "heartbeats")
    assert rig.broker.units(lease.attempt) == {}, "nothing is given back while it may still begin it"
    gate.touch()
    units = rig.broker.closed(lease.attempt)
    assert [units[i].outcome for i in range(3)] == [DONE, RELEASED, RELEASED]
    assert units[1].reason == "an idle node takes it"
    assert "its start was spent" in rig.broker.log_text(lease.attempt)


class Claiming:
    """The command renderer, for a program that claims each frame before it begins it."""

    def __init__(self) -> None:
        self._inner = get_renderer("command")

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def invocations(self, context: ChunkContext) -> list[Invocation]:
        (one,) = self._inner.invocations(context)
        env = {"CLAIMS": f"{context.scratch}/claims"}
        return [Invocation(argv=one.argv, frames=one.frames, env=env, claims=f"{context.scratch}/claims")]


def test_a_program_that_claims_its_frames_leaves_out_exactly_those_taken_back(
    tmp_path: Path, source: Path
) -> None:
    out, gate, begun = tmp_path / "out", tmp_path / "gate", tmp_path / "begun"
    body = (
        "try: open(os.environ['CLAIMS'] + '/%d' % frame, 'x').close()\n"
        "except FileExistsError: continue\n"
        f"if frame == 1: open({str(begun)!r}, 'w').close()\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "shutil.copyfile(source, path)\nsay('finish', frame)"
    )

    def find(name: str) -> Renderer:
        return Claiming() if name == "command" else get_renderer(name)  # type: ignore[return-value]

    with Rig(tmp_path, find=find) as rig:
        # It never says that it starts a frame, so only the claims can tell.
        step = chunk_step(out, source, body.replace("say('start', frame)", ""))
        lease = rig.broker.lease(step, [1, 2, 3, 4])
        eventually(begun.exists, "it is at frame 1")
        rig.broker.stop(lease.attempt, "an idle node takes it", units=(2, 3), take_back=True)
        rig.broker.wait_for(
            lambda: len(rig.broker.units(lease.attempt)) == 2, "two frames given back at once"
        )
        gate.touch()
        units = rig.broker.closed(lease.attempt)
        assert [units[i].outcome for i in range(4)] == [DONE, DONE, RELEASED, RELEASED]
        assert sorted(path.name for path in out.iterdir()) == ["f.0001.png", "f.0002.png"]


SCENE = """
import os, time
import bpy
scene = bpy.context.scene
bpy.ops.mesh.primitive_cube_add()
camera = bpy.data.objects.new("Cam", bpy.data.cameras.new("Cam"))
camera.location = (0, -6, 0)
camera.rotation_euler = (1.5708, 0, 0)
scene.collection.objects.link(camera)
scene.camera = camera
scene.render.resolution_x = scene.render.resolution_y = 16
def wait(*_args):
    open(parameters["begun"], "a").write("%d " % scene.frame_current)
    while not os.path.exists(parameters["gate"]):
        time.sleep(0.01)
bpy.app.handlers.render_pre.append(wait)
"""


def test_blender_leaves_out_frames_that_were_taken_back(tmp_path: Path) -> None:
    program = shutil.which("blender")
    require(program, "Blender", "apt install blender")
    out, gate, begun, script = (tmp_path / name for name in ("out", "gate", "begun", "scene.py"))
    script.write_text(SCENE)
    step = StepTemplate(
        job=12,
        step="beauty",
        kind="per_frame",
        renderer="blender",
        params={
            "scene_script": str(script),
            "parameters": {"begun": str(begun), "gate": str(gate)},
            "engine": "CYCLES",
            "samples": 1,
        },
        outputs=(OutputPlan(f"{out}/f.####.png", "sequence"),),
        frames="1-5",
    )
    with Rig(tmp_path) as rig:
        rig.agent.planner.site.apps = {"blender": [AppInstall("blender", "3.4.1", (str(program),))]}
        lease = rig.broker.lease(step, [1, 2, 3, 4, 5])
        eventually(begun.exists, "Blender is at frame 1", 60.0)
        rig.broker.stop(lease.attempt, "an idle node takes it", units=(1, 3, 4), take_back=True)
        rig.broker.wait_for(lambda: len(rig.broker.units(lease.attempt)) == 3, "three frames given back")
        gate.touch()
        units = rig.broker.closed(lease.attempt, 60.0)
        assert [units[i].outcome for i in range(5)] == [DONE, RELEASED, DONE, RELEASED, RELEASED], units
        assert begun.read_text().split() == ["1", "3"], "one process rendered just these two"
        assert sorted(path.name for path in out.iterdir()) == ["f.0001.png", "f.0003.png"]


# ------------------------------------------------------------------ second copies


def test_a_second_copy_asks_though_the_pictures_are_known_and_empties_whom_it_replaces(
    rig: Rig, tmp_path: Path, source: Path
) -> None:
    out = tmp_path / "out"
    other = out / f".overcrank-J12-beauty-9-{'0' * 15}9"
    other.mkdir(parents=True)
    (other / "f.0001.png").write_bytes(b"half")
    rig.broker.grant = None
    step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    lease = rig.broker.lease(step, [1], kind=AttemptKind.COPY.value, specs=(PNG_SPEC,))
    rig.broker.wait_for(lambda: rig.broker.verified, "it asks")
    assert not (out / "f.0001.png").exists()
    rig.broker.batch(grants=(GrantMsg(lease.attempt, 0, "", (other.name,)),))
    assert rig.broker.closed(lease.attempt)[0].outcome == DONE
    assert (out / "f.0001.png").read_bytes() == source.read_bytes()
    assert not other.exists() or not list(other.iterdir())


def test_a_second_copy_that_is_not_wanted_leaves_nothing(rig: Rig, tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    rig.broker.grant = None
    step = python_step(COPY, str(source), "{output}", outputs=[f"{out}/f.####.png"])
    for end in ("stop", "lose"):
        lease = rig.broker.lease(step, [1], kind=AttemptKind.COPY.value, specs=(PNG_SPEC,))
        rig.broker.wait_for(
            lambda number=lease.attempt: any(v.attempt == number for v in rig.broker.verified), "it asks"
        )
        rig.broker.stop(lease.attempt) if end == "stop" else rig.broker.lose(lease.attempt)
        assert rig.broker.closed(lease.attempt)[0].outcome == RELEASED
        assert folders_left(out) == []
    assert list(out.iterdir()) == []


# ------------------------------------------------------------------ licences


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Error: could not check out a Nuke_r license", 1),
        ("No licenses could be found to run this application.", 3),
        ("Redshift: License error: (RLM) All licenses in use", 0),
    ],
)
def test_a_missing_licence_is_told_as_such(rig: Rig, tmp_path: Path, line: str, code: int) -> None:
    step = python_step(
        f"import sys; print({line!r}); sys.exit({code})", "{output}", outputs=[f"{tmp_path}/out/f.####.png"]
    )
    unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "licence")
    assert line in unit.reason


def test_an_exit_code_means_what_the_program_says_it_means(rig: Rig, tmp_path: Path) -> None:
    nuke = tmp_path / "Nuke15.1"
    nuke.write_text("#!/bin/sh\nexit 100\n")
    nuke.chmod(0o755)
    step = StepTemplate(
        job=1, step="a", kind="single", renderer="command", params={"command": [str(nuke), "-x"]}
    )
    unit = rig.broker.closed(rig.broker.lease(step).attempt)[0]
    assert (unit.outcome, unit.failure) == (FAILED, "licence")
    assert "100" in unit.reason

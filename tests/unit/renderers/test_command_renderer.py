"""The command renderer: tokens, how many processes, and what a program may say."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import JobFileError
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import ChunkContext, PlannedFile, PlannedInput, read_params
from farm.renderers.command import RENDERER, CommandParams, parse_argument
from tests.support.run_invocation import run_all


def step(
    command: list[str], *, kind: str = "per_frame", outputs: int = 1, **params: object
) -> tuple[StepSpec, object]:
    spec = StepSpec(
        name="work",
        renderer="command",
        kind=kind,  # type: ignore[arg-type]
        frames="1-3" if kind == "per_frame" else None,
        params={"command": command, **params},
        outputs=tuple(OutputSpec(f"/out/{index}.####.txt") for index in range(outputs)),
    )
    return spec, read_params(RENDERER, spec.params)


def chunk(command: list[str], frames: tuple[int, ...] = (-2, 3, 10), **changes: object) -> ChunkContext:
    files = tuple(
        PlannedFile(output, frame, f"/out/{output}.{frame:04}.txt") for frame in frames for output in (0, 1)
    ) or (PlannedFile(0, None, "/out/all.txt"), PlannedFile(1, None, "/out/more.txt"))
    fields: dict[str, object] = {
        "params": CommandParams(command=tuple(command)),
        "frames": frames,
        "step_frames": None,
        "files": files,
        "patterns": ("/out/0.####.txt", "/out/1.####.txt"),
        "cores": 4,
        "scratch": "/scratch",
        **changes,
    }
    return ChunkContext(**fields)  # type: ignore[arg-type]


def test_frame_asks_for_a_process_per_frame() -> None:
    made = RENDERER.invocations(
        chunk(["render", "-f", "{frame}", "-o", "{output}", "pad{frame:04}", "{output:1}"])
    )
    assert [invocation.argv for invocation in made] == [
        ("render", "-f", "-2", "-o", "/out/0.-002.txt", "pad-002", "/out/1.-002.txt"),
        ("render", "-f", "3", "-o", "/out/0.0003.txt", "pad0003", "/out/1.0003.txt"),
        ("render", "-f", "10", "-o", "/out/0.0010.txt", "pad0010", "/out/1.0010.txt"),
    ]
    assert [invocation.frames for invocation in made] == [(-2,), (3,), (10,)]


def test_frames_ask_for_one_process_with_compact_text_and_the_pattern() -> None:
    (made,) = RENDERER.invocations(
        chunk(["r", "{frames}", "{output}", "-t{cores}", "{scratch}/x"], (1, 2, 3, 5, 9))
    )
    assert made.argv == ("r", "1-3,5,9", "/out/0.####.txt", "-t4", "/scratch/x")
    assert made.frames == (1, 2, 3, 5, 9)


def test_arguments_arrive_as_they_are() -> None:
    odd = ["p", "a b; rm -rf /", "%d", "#", "'q'", "{{frame}}", "", "$HOME", "*"]
    (made,) = RENDERER.invocations(chunk(odd, (1,)))
    assert made.argv == ("p", "a b; rm -rf /", "%d", "#", "'q'", "{frame}", "", "$HOME", "*")


def test_input_is_the_frames_file_or_a_list() -> None:
    given_input = {"input": PlannedInput((-2, 3, 10), ("/in/a", "/in/b c", "/in/d"))}
    made = RENDERER.invocations(chunk(["r", "in={input}"], (3, 10), inputs=given_input))
    assert [invocation.argv[1] for invocation in made] == ["in=/in/b c", "in=/in/d"]
    (one,) = RENDERER.invocations(chunk(["r", "{frames}", "{input}"], (3, 10), inputs=given_input))
    assert one.argv == ("r", "3,10", "/in/b c", "/in/d")
    (single,) = RENDERER.invocations(chunk(["r", "{input}", "{output}"], (), inputs=given_input))
    assert single.argv == ("r", "/in/a", "/in/b c", "/in/d", "/out/all.txt")
    with pytest.raises(JobFileError, match="no frame 4"):
        RENDERER.invocations(chunk(["r", "{input}"], (4,), inputs=given_input))


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ([], {}, "empty"),
        (["r", "{farme}"], {}, r"unknown token \{farme\}"),
        (["r", "{frame:x}"], {}, r"unknown token \{frame:x\}"),
        (["r", "{"], {}, r"a lone \{"),
        (["r", "}"], {}, r"a lone \}"),
        (["r", "{output:1}"], {}, "1 output"),
        (["r", "{output}"], {"outputs": 0}, "0 outputs"),
        (["r", "{frame}", "{frames}"], {}, "per chunk"),
        (["r", "{frame}"], {"kind": "single"}, "no frames"),
        (["r", "{input}"], {}, "is no input"),
        (["r", "{frames}", "x={input}"], {"input": "/a.####.png"}, "argument of its own"),
        (["r\0"], {}, "NUL"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(
    command: list[str], options: dict[str, object], words: str
) -> None:
    spec, params = step(command, **options)  # type: ignore[arg-type]
    with pytest.raises(JobFileError, match=words):
        RENDERER.check(spec, params)


def test_a_shell_string_is_refused() -> None:
    with pytest.raises(JobFileError, match="array") as caught:
        read_params(RENDERER, {"command": "render --all | tee log"})
    assert caught.value.path == "params.command"


def test_the_same_command_for_every_frame_is_pointed_out() -> None:
    spec, params = step(["true"])
    assert "same for every frame" in RENDERER.check(spec, params)[0]
    spec, params = step(["r", "{frame}", "{output}"])
    assert RENDERER.check(spec, params) == []


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_any_text_survives_when_its_braces_are_doubled(text: str) -> None:
    pieces = parse_argument(text.replace("{", "{{").replace("}", "}}"), "x")
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == text


@given(st.text(alphabet="{}frame:01 x", max_size=12))
def test_parsing_ends_in_pieces_or_an_error_that_names_the_argument(text: str) -> None:
    with suppress(JobFileError):
        try:
            parse_argument(text, "params.command[3]")
        except JobFileError as error:
            if error.path != "params.command[3]":
                raise AssertionError(error) from error
            raise


SCRIPT = """
import sys
frame, output = sys.argv[1:]
print("openjd_status: at it")
print("openjd_progress: 50", flush=True)
if frame == "2":
    print("openjd_fail: frame two is cursed")
open(output, "w").write(frame)
"""


def real_chunk(tmp_path: Path, frames: tuple[int, ...], command: tuple[str, ...]) -> ChunkContext:
    (tmp_path / "scratch").mkdir()
    files = tuple(PlannedFile(0, frame, str(tmp_path / f"o %d '#' {frame}.txt")) for frame in frames)
    return chunk([*command], frames, files=files, patterns=("x",), scratch=str(tmp_path / "scratch"))


def test_a_real_command_renders_and_reports(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SCRIPT, "{frame}", "{output}")
    context = real_chunk(tmp_path, (0, 1), tuple(arg.replace("{frame", "{frame") for arg in command))
    runs = run_all(RENDERER, context)
    assert [run.verdict.failure for run in runs] == [None, None]
    assert [run.progress(frame) for run, frame in zip(runs, (0, 1), strict=True)] == [[0.5], [0.5]]
    assert [Path(file.path).read_text() for file in context.files] == ["0", "1"]


def test_a_command_that_says_it_failed_has_failed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SCRIPT, "{frame}", "{output}")
    (run,) = run_all(RENDERER, real_chunk(tmp_path, (2,), command))
    assert run.exit_code == 0
    assert run.verdict.failure is FailureClass.RENDERER
    assert run.verdict.reason == "frame two is cursed"


def test_a_missing_program_is_the_jobs_fault(tmp_path: Path) -> None:
    (run,) = run_all(RENDERER, real_chunk(tmp_path, (1,), ("/usr/bin/env", "no-such-program-{frame}")))
    assert run.exit_code == 127
    assert run.verdict.failure is FailureClass.CONFIG
    assert RENDERER.judge(126, []).failure is FailureClass.CONFIG
    assert RENDERER.judge(3, []).failure is FailureClass.RENDERER

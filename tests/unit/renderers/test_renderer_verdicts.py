"""The order in which evidence is weighed."""

from __future__ import annotations

from farm.model.states import FailureClass
from farm.renderers.base import Problem, Verdict
from farm.renderers.verdicts import MEMORY_AND_GPU, find_problem, judge_process

HINT = Problem(FailureClass.RENDERER, "gave up")
PATH = Problem(FailureClass.PATH, "gone")
FATAL = Problem(FailureClass.CONFIG, "no camera", fatal=True)
WARNING = Problem(FailureClass.RENDERER, "old file", warning=True)


def test_a_fatal_line_beats_a_clean_exit() -> None:
    assert judge_process("x", 0, [WARNING, PATH, FATAL]) == Verdict(FailureClass.CONFIG, "no camera")


def test_a_clean_exit_beats_hints() -> None:
    assert judge_process("x", 0, [HINT, PATH, WARNING]).failure is None


def test_the_more_specific_hint_explains_a_bad_exit() -> None:
    verdict = judge_process("x", 1, [HINT, PATH])
    assert verdict.failure is FailureClass.PATH
    assert "gone" in verdict.reason
    assert "exit code 1" in verdict.reason


def test_a_warning_never_explains_a_failure() -> None:
    assert judge_process("x", -11, [WARNING]) == Verdict(FailureClass.RENDERER, "x crashed (SIGSEGV)")


def test_codes_of_a_programs_own() -> None:
    known = Verdict(FailureClass.CONFIG, "not found")
    assert judge_process("x", 127, [], {127: known}) is known


def test_a_kill_from_nowhere_is_memory() -> None:
    assert judge_process("x", -9, []).failure is FailureClass.OOM_RAM
    assert judge_process("x", 137, []).failure is FailureClass.OOM_RAM


def test_memory_and_gpu_lines() -> None:
    cases = {
        "Error: System is out of GPU memory": FailureClass.OOM_VRAM,
        "Out of memory in cuMemAlloc(&x)": FailureClass.OOM_VRAM,
        "terminate called after throwing an instance of 'std::bad_alloc'": FailureClass.OOM_RAM,
        "Calloc returns null: len=800 in x": FailureClass.OOM_RAM,
        "Failed to create CUDA context (Illegal address)": FailureClass.NODE,
    }
    for line, kind in cases.items():
        problem = find_problem(line, MEMORY_AND_GPU)
        assert problem is not None
        assert problem.failure is kind
    assert find_problem("Peak memory 12M, GPU idle", MEMORY_AND_GPU) is None

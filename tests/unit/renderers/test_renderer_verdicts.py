"""The order in which evidence is weighed."""

from __future__ import annotations

import pytest

from farm.model.states import FailureClass
from farm.renderers.base import Problem, Verdict
from farm.renderers.verdicts import MACHINE, MEMORY_AND_GPU, codes_of, find_problem, judge_process

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


#: Lines as applications and licence managers print them.
NO_LICENCE = [
    "Could not obtain a license (1:100)",
    "R10006 {SEVERE} License: no PhotoRealistic RenderMan license available",
    "[arnold] aborting render because the abort_on_license_fail option was enabled",
    "Maxon licensing error: user not logged in (7)",
    "No licenses could be found to run this application.",
    "Redshift: License error: (RLM) All licenses in use (-22)",
    "FOUNDRY LICENSE ERROR REPORT: RLM error: No license for product (-1)",
    "FLEXnet Licensing error:-4,132",
    "FlexLM error: Licensed number of users already reached. (-4,342)",
    "Error: failed to check out a Houdini Engine license",
    "hython: Unable to acquire any license",
    "cannot connect to license server system (-15,570)",
    "The license server is not responding",
    "Invalid nuke_r license key",
    "ERROR: no licence found for feature mtoa",
]
NOT_ABOUT_LICENCES = [
    "Copyright (c) 2001-2024, see the license in LICENSE.txt",
    "License checked out: nuke_r",
    "This program comes with no warranty; licensed under the GPL",
    "loading plugin licensing.so",
    "3 licenses available on server lic01",
    "using license file /opt/lic/rlm.lic",
    "rlm: checked out houdini-engine, 3 of 10 in use",
]


@pytest.mark.parametrize("line", NO_LICENCE)
def test_licence_lines(line: str) -> None:
    problem = find_problem(line, MACHINE)
    assert problem is not None
    assert problem.failure is FailureClass.LICENCE
    assert line[:40] in problem.text
    assert not problem.fatal, "a program that renders all the same did get one"


@pytest.mark.parametrize("line", NOT_ABOUT_LICENCES)
def test_lines_that_only_speak_of_licences(line: str) -> None:
    assert find_problem(line, MACHINE) is None


def test_codes_of_known_programs_are_found_by_the_file_s_name() -> None:
    for program in ("/usr/local/Nuke15.1v2/Nuke15.1", "nuke", r"C:\Program Files\Nuke14.0\Nuke14.0.exe"):
        assert codes_of(program)[100].failure is FailureClass.LICENCE
    assert codes_of("/bin/sh") == {}

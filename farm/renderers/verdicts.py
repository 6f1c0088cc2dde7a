"""What lines and exit codes mean, where it is the same for several applications.

What belongs here: the table form of "this pattern means that trouble", memory and GPU patterns that any
renderer may print, and the one order in which evidence is weighed.  What must not: a process, a file,
or a pattern that only one application prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from farm.model.states import FailureClass
from farm.renderers.base import Problem, Verdict, signal_reason

__all__ = ["MEMORY_AND_GPU", "Pattern", "find_problem", "judge_process"]


class Pattern(NamedTuple):
    """A kind of line that tells of trouble.

    Attributes:
        regex: Searched in the line.
        failure: Class of failure it points to.
        text: Words for people; ``{0}``, ``{1}`` ... are the regex's groups.
        fatal: See ``Problem.fatal``.
    """

    regex: re.Pattern[str]
    failure: FailureClass
    text: str
    fatal: bool = True


def pattern(regex: str, failure: FailureClass, text: str, *, fatal: bool = True) -> Pattern:
    """A Pattern from the text of its regex."""
    return Pattern(re.compile(regex), failure, text, fatal)


#: Memory and GPU trouble; words seen in public reports of Cycles, OptiX, CUDA programs and glibc users.
MEMORY_AND_GPU: tuple[Pattern, ...] = (
    pattern(
        r"System is out of GPU(?: and shared host)? memory|Out of memory in cu[A-Z]\w*"
        r"|CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory"
        r"|Failed to build OptiX acceleration structure|hipErrorOutOfMemory",
        FailureClass.OOM_VRAM,
        "the GPU ran out of memory",
    ),
    pattern(
        r"std::bad_alloc|[CM]alloc(?:N|_?array)? returns null|Cannot allocate memory|MemoryError"
        r"|^(?:Error: )?Out of memory\b",
        FailureClass.OOM_RAM,
        "the machine ran out of memory",
    ),
    pattern(
        r"Failed to create CUDA context|CUDA_ERROR_(?:NO_DEVICE|SYSTEM_DRIVER_MISMATCH|ECC_UNCORRECTABLE"
        r"|DEVICE_UNAVAILABLE|NOT_INITIALIZED|LAUNCH_FAILED|ILLEGAL_ADDRESS)|Cannot load libcuda\.so"
        r"|OpenEncodeSessionEx failed|Cannot init CUDA",
        FailureClass.NODE,
        "the machine's GPU or its driver does not work",
    ),
)


def find_problem(line: str, patterns: Sequence[Pattern], *, frame: int | None = None) -> Problem | None:
    """The problem a line tells of by the first pattern that fits, None if none does."""
    for entry in patterns:
        match = entry.regex.search(line)
        if match is not None:
            words = entry.text.format(*(group or "" for group in match.groups()))
            return Problem(entry.failure, words, fatal=entry.fatal, frame=frame)
    return None


def judge_process(
    program: str,
    exit_code: int,
    problems: Sequence[Problem],
    codes: Mapping[int, Verdict] | None = None,
) -> Verdict:
    """Weighs the evidence of one process.

    A fatal line wins over everything, since exit code 0 proves nothing; then a clean exit; then what the
    lines told, the more specific class first; then what is known of the code.

    Args:
        program: Name for the words.
        exit_code: As ``subprocess`` gives it: negative = killed by that signal.
        problems: What the parser found, in order.
        codes: Exit codes with a meaning of their own.
    """
    fatal = next((problem for problem in problems if problem.fatal), None)
    if fatal is not None:
        return Verdict(fatal.failure, fatal.text)
    if exit_code == 0:
        return Verdict(None, f"{program} ended well")
    told = [problem for problem in problems if not problem.warning]
    best = next((problem for problem in told if problem.failure is not FailureClass.RENDERER), None)
    best = best or next(iter(told), None)
    if best is not None:
        return Verdict(best.failure, f"{best.text}; {signal_reason(exit_code, program)}")
    if codes and exit_code in codes:
        return codes[exit_code]
    if exit_code in (-9, 137):
        # The agent knows of its own kills; a SIGKILL from nowhere is the kernel's out-of-memory killer.
        reason = f"{signal_reason(exit_code, program)}, most likely because memory ran out"
        return Verdict(FailureClass.OOM_RAM, reason)
    return Verdict(FailureClass.RENDERER, signal_reason(exit_code, program))

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

__all__ = ["LICENCE", "MACHINE", "MEMORY_AND_GPU", "Pattern", "codes_of", "find_problem", "judge_process"]


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


#: Licence trouble: no token free, or no server to ask.  The words are those of the two licence managers
#: (FlexNet, RLM) and of the applications that sit on them; never "licence" alone, which every banner prints.
LICENCE: tuple[Pattern, ...] = (
    pattern(
        r"(?i)(?:"
        r"could not (?:check ?out|obtain|acquire|get|find) (?:a |an |any |the )?(?:\w+ ){0,3}licen[cs]e"
        r"|(?:failed|unable|cannot|can't) (?:to )?(?:check ?out|obtain|acquire|get) "
        r"(?:a |an |any |the )?(?:\w+ ){0,3}licen[cs]e"
        r"|licen[cs]e (?:check ?out|request) (?:has )?failed|lm_checkout failed"
        r"|\bno (?:\w+ ){0,2}licen[cs]es? (?:could be |was |were |is |are )?"
        r"(?:found|available|left|free|obtained)"
        r"|\ball licen[cs]es (?:are )?(?:in use|reserved|taken)"
        r"|licensed number of users already reached"
        r"|(?:cannot|can't|could not|unable to|failed to) connect to (?:the )?(?:\w+ )?licen[cs]e server"
        r"|licen[cs]e server (?:\S+ )?(?:is |does )?(?:down|not respond|not reachable|unreachable)"
        r"|communications? error with (?:the )?licen[cs]e server"
        r"|flex(?:lm|net)(?: licensing)? error"
        r"|\brlm\b.*(?:error|fail|denied|no licen[cs]e|not authorized)"
        r"|(?:invalid|expired) (?:\S+ )?licen[cs]e key|licen[cs]e (?:key )?(?:has )?expired"
        r"|maxon licensing error|redshift.*licen[cs]e error"
        r"|abort_on_license_fail option was enabled"
        r"|licen[cs]e error\b)"
        r"|\{SEVERE\}\s+License",
        FailureClass.LICENCE,
        "no licence",
        fatal=False,
    ),
)
#: What any program on a machine may meet, licences first: a program without one may say much else after.
MACHINE: tuple[Pattern, ...] = (*LICENCE, *MEMORY_AND_GPU)

#: Exit codes that programs document as their own: (start of the file's name, code) -> meaning.
_CODES: dict[str, dict[int, Verdict]] = {
    "nuke": {100: Verdict(FailureClass.LICENCE, "no licence: Nuke ended with exit code 100")},
}


def codes_of(program: str) -> dict[int, Verdict]:
    """What exit codes of a well-known program mean, by its file's name (``/opt/Nuke15.1v2/Nuke15.1``)."""
    name = program.replace("\\", "/").rpartition("/")[2].lower()
    return next((codes for start, codes in _CODES.items() if name.startswith(start)), {})


def find_problem(line: str, patterns: Sequence[Pattern], *, frame: int | None = None) -> Problem | None:
    """The problem a line tells of by the first pattern that fits, None if none does."""
    for entry in patterns:
        match = entry.regex.search(line)
        if match is not None:
            words = entry.text.format(*(group or "" for group in match.groups()))
            if entry.failure is FailureClass.LICENCE:
                # Which one is missing stands in the line and nowhere else.
                words = f"{words}: {' '.join(line.split())[:300]}"
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

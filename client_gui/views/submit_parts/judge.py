"""Whether a draft is a job the farm would take, as far as this machine can see, and the same as a call.

What belongs here: the checks of `farm submit` on a draft, and the same job as a command line; all of it may
block on a slow disk and is called from a worker.  What may not: Qt, and asking the farm.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from client_gui.store.draft import Draft, Problem, problem_of
from farm.model.errors import CallError, JobFileError, OvercrankError
from farm.model.jobs import App, JobSpec, StepSpec, read_job
from farm.model.paths import basename_of
from farm.model.resources import Resources
from farm.renderers.base import Renderer
from farm.renderers.registry import get_renderer, renderers
from farm.sdk.jobfile import check_job_here, job_bytes
from farm.sdk.submit_inputs import FILM, make_job
from farm.sdk.submit_options import SubmitOptions


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said of a draft without asking the farm.

    Attributes:
        draft: Whose verdict it is.
        revision: Of the draft it is about.
        job: The job as it is sent, b"" when something stands against it.
        problems: What stands against it.
        warnings: What people should know.
        command: The same as a command line; "" when only a job file says all of it.
        forced: That command when it is to be sent though no node could take it.
    """

    draft: str
    revision: int
    job: bytes = b""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    command: str = ""
    forced: str = ""


def judge(draft: str, revision: int, document: bytes, farm: str | None) -> Verdict:
    """Checks a draft as `farm submit` does before it sends.

    Args:
        draft, revision: Passed on.
        document: The job file.
        farm: The farm whose path rules hold.
    """
    raw: dict[str, Any] = msgspec.json.decode(document)
    wrong = Draft(draft, raw).problems(renderers())
    if wrong:
        return Verdict(draft, revision, problems=tuple(wrong))
    try:
        job, warnings = read_job(raw)
        warnings += check_job_here(job, _mapper(farm))
        warnings += command_warnings(job)
    except OvercrankError as error:
        path = error.path if isinstance(error, JobFileError) else ""
        problem = problem_of(error.message, error.hint, raw, path)
        return Verdict(draft, revision, problems=(problem,))
    data = job_bytes(job)
    command, forced = command_lines(job)
    return Verdict(draft, revision, data, warnings=tuple(warnings), command=command, forced=forced)


#: Words that mean something only to a shell, when they stand alone.
_SHELL_WORDS: Final = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})


def command_warnings(job: JobSpec) -> list[str]:
    """What is odd about the commands of a job: programs that are not here, words for a shell."""
    found: list[str] = []
    for index, step in enumerate(job.steps):
        given = step.params.get("command") if step.renderer == "command" else None
        for place, words in (("params.command", given), ("pre", step.pre), ("post", step.post)):
            if isinstance(words, (list, tuple)) and words and all(isinstance(one, str) for one in words):
                found += [f"steps[{index}].{place}: {one}" for one in _odd(words)]
    return found


def _odd(words: Sequence[str]) -> Iterable[str]:
    program = words[0]
    path = Path(program)
    if any(char.isspace() for char in program) and not path.is_file():
        yield f"the program is {program!r}, blanks and all: type the command on one line"
    elif "{" not in program:
        if path.is_absolute() and not path.is_file():
            yield f"there is no {program} on this machine: the nodes must have it"
        elif not path.is_absolute() and ("/" in program or "\\" in program):
            yield f"{program} is looked for in the working folder of the step"
    if alone := [one for one in words[1:] if one in _SHELL_WORDS]:
        yield f"no shell: {' '.join(dict.fromkeys(alone))} is passed on as it stands; bash -c '…' runs one"


def _mapper(farm: str | None) -> Any:
    from farm.config.load import load_client_options
    from farm.config.places import farm_name
    from farm.config.rules import path_mapper

    return path_mapper(load_client_options(farm_name(farm)).path_rules)


# -- the command line ------------------------------------------------------------------------------------

#: Fields of the options and how they are written; the order is that of `farm submit --help`.
_FLAGS: Final = (
    ("renderer", "--renderer"),
    ("frames", "--frames"),
    ("chunk", "--chunk"),
    ("order", "--order"),
    ("filter", "--filter"),
    ("encode", "--encode"),
    ("rate", "--rate"),
    ("params", "--param"),
    ("output", "-o"),
    ("existing", "--existing"),
    ("checks", "--check"),
    ("name", "--name"),
    ("user", "--user"),
    ("project", "--project"),
    ("priority", "--priority"),
    ("cores", "--cores"),
    ("ram_mib", "--ram-mib"),
    ("gpus", "--gpus"),
    ("vram_mib", "--vram-mib"),
    ("pools", "--pool"),
    ("site", "--site"),
    ("attributes", "--attribute"),
    ("version", "--app-version"),
    ("env", "--env"),
    ("timeout_s", "--timeout-s"),
    ("attempts", "--attempts"),
    ("paused", "--paused"),
    ("start_after", "--start-after"),
    ("scout", "--scout"),
    ("max_cores", "--max-cores"),
    ("limits", "--limit"),
)


def command_words(options: SubmitOptions) -> list[str]:
    """`farm submit` with these options, as words."""
    words = ["farm", "submit"]
    if options.file:
        words.append(options.file)
    for name, flag in _FLAGS:
        value = getattr(options, name)
        if value is None or value is False or value in ("", ()):
            continue
        if value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, tuple) else (value,):
                words += [flag, f"{one:g}" if isinstance(one, float) else str(one)]
    if options.program is not None:
        words += ["--", *options.program]
    return words


def command_lines(job: JobSpec) -> tuple[str, str]:
    """The job as a call of `farm submit`, and the same with --force; empty when no call says all of it.

    Nothing is believed: what the call makes is compared with the job.
    """
    folder = job.steps[0].cwd
    for options in _calls(job):
        try:
            made, _ = make_job(options, folder)
        except (OvercrankError, msgspec.ValidationError):
            continue
        if _plain(made) == _plain(job):
            words = command_words(options)
            return typed(words, folder), typed(_forced(words), folder)
    return "", ""


def file_command(file: str, *, force: bool = False) -> str:
    """The call of `farm submit` that sends a job file."""
    words = ["farm", "submit", file]
    return typed(_forced(words) if force else words)


def _forced(words: list[str]) -> list[str]:
    """A call that sends the job though no node could take it."""
    return [*words[:2], "--force", *words[2:]]


def typed(words: list[str], folder: str | None = None) -> str:
    """The words as they are typed; a command is run in the folder it is typed in."""
    if sys.platform == "win32":
        there = f"cd /d {subprocess.list2cmdline([folder])} && " if folder else ""
        return there + subprocess.list2cmdline(words)
    return (f"cd {shlex.quote(folder)} && " if folder else "") + shlex.join(words)


def _plain(job: JobSpec) -> JobSpec:
    """What counts of a job: not who made it; in the types that JSON has."""
    bare = msgspec.structs.replace(job, app=App(), token="", warnings=())
    return msgspec.json.decode(job_bytes(bare), type=JobSpec)


def _calls(job: JobSpec) -> Iterable[SubmitOptions]:
    """Calls that might make the job, most natural first."""
    if len(job.steps) > 2 or (len(job.steps) == 2 and job.steps[1].name != FILM):
        return
    try:
        base = _options(job, job.steps[0])
    except CallError:
        return
    film = job.steps[1] if len(job.steps) == 2 else None
    for options in _inputs(job.steps[0], base):
        if film is None:
            yield options
            continue
        encode = str(film.params.get("encode", "h264"))
        rate = str(film.params.get("rate", ""))
        yield msgspec.structs.replace(options, encode=encode, rate=rate)
        movie = film.outputs[0].pattern if film.outputs else ""
        yield msgspec.structs.replace(
            options, encode=str(film.params.get("encode", "")), rate=rate, output=movie
        )


def _inputs(step: StepSpec, base: SubmitOptions) -> Iterable[SubmitOptions]:
    """Where its file or program stands in the call."""
    renderer = get_renderer(step.renderer)
    params = dict(step.params)
    if step.renderer == "command":
        command = params.pop("command", ())
        given = params.pop("input", "")
        if isinstance(given, str) and not params:
            yield msgspec.structs.replace(base, program=tuple(command), file=given)
        return
    if step.renderer in ("stitch", "ffmpeg"):
        given = params.pop("input", "")
        frames = params.pop("frames", "") or base.frames
        taken = {name: str(params.pop(name)) for name in ("filter", "encode", "rate") if name in params}
        texts = tuple(_assignments(renderer, params))
        if isinstance(given, str):
            yield msgspec.structs.replace(base, file=given, frames=frames, params=texts, **taken)
            yield msgspec.structs.replace(base, file=given, params=texts, **taken)
        return
    for name in renderer.path_params:
        given = params.get(name)
        if isinstance(given, str) and given:
            rest = {key: value for key, value in params.items() if key != name}
            texts = tuple(_assignments(renderer, rest))
            yield msgspec.structs.replace(base, file=given, params=texts)
            yield msgspec.structs.replace(base, file=given, params=texts, renderer=renderer.name)
    yield msgspec.structs.replace(base, renderer=renderer.name, params=tuple(_assignments(renderer, params)))


def _assignments(renderer: Renderer, params: dict[str, Any]) -> Iterable[str]:
    for name, value in params.items():
        if isinstance(value, str):
            yield f"{name}={value}"
        else:
            yield f"{name}={msgspec.json.encode(value).decode()}"


def _options(job: JobSpec, step: StepSpec) -> SubmitOptions:
    """The options of a job and its first step, but for what is done and with what."""
    asked, plain = step.resources, Resources()
    return SubmitOptions(
        frames=step.frames or "",
        chunk="" if step.chunk == "auto" else str(step.chunk),
        order="" if step.order == "forward" else step.order,
        output=step.outputs[0].pattern if step.outputs else "",
        name="" if job.name == _own_name(step) else job.name,
        user=job.user,
        project=job.project,
        priority=None if job.priority == 50 else job.priority,
        paused=job.paused,
        start_after=job.start_after or "",
        scout=job.scout or None,
        max_cores=job.max_cores or None,
        limits=tuple(f"{name}={count}" for name, count in step.limits.items()),
        existing="" if step.existing == "overwrite" else step.existing,
        checks=step.checks,
        cores=None if asked.cores == plain.cores else asked.cores,
        ram_mib=asked.ram_mib or None,
        gpus=asked.gpus or None,
        vram_mib=asked.vram_mib or None,
        pools=step.pools,
        site=step.site,
        version=step.version,
        attributes=tuple(f"{name}={value}" for name, value in step.attributes.items()),
        env=tuple(f"{name}={value}" for name, value in step.env.items()),
        timeout_s=step.timeout_s or None,
        attempts=step.attempts or None,
    )


def _own_name(step: StepSpec) -> str:
    """The name `farm submit` gives by itself, as far as a scene tells."""
    for name in ("scene", "scene_script"):
        value = step.params.get(name)
        if isinstance(value, str) and value:
            return basename_of(value).rpartition(".")[0] or basename_of(value)
    command = step.params.get("command")
    if isinstance(command, list) and command:
        return basename_of(str(command[0]))
    return ""

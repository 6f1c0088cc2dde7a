"""The job file, version 1, as typed records.

Reading checks types and reports the path of what is wrong; unknown keys become warnings; what this
version knows but cannot honour yet is refused by name unless it stands at its default.  Pure: looks
at no file system (``farm.sdk.jobfile`` does that).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.frames import FrameRange
from farm.model.ids import STEP_NAME, parse_address
from farm.model.moment import read_moment
from farm.model.orders import Rank, check_named, missing_frames, read_order
from farm.model.resources import Resources

JOB_FILE_VERSION = 1

StepKind = Literal["per_frame", "per_segment", "single"]
OutputKind = Literal["sequence", "movie", "single"]
Existing = Literal["overwrite", "skip", "refuse"]
AssetKind = Literal["file", "sequence", "udim", "dir"]

_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class App(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who submitted; never constrains where the job runs."""

    name: str = ""
    version: str = ""


class Asset(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or folder the job needs."""

    path: _Text
    kind: AssetKind = "file"
    required: bool = True


class OutputSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One expected output of a step.

    Attributes:
        pattern: Path; a sequence has a frame token (``####`` or ``%04d``).
        kind: ``sequence`` (a file per frame), ``movie`` or ``single`` (one file).
        views: Stereo views; not built yet.
    """

    pattern: _Text
    kind: OutputKind = "sequence"
    views: tuple[str, ...] = ()


OnFailure = Literal["wait", "go", "skip", "cancel"]


class AfterSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing a step waits for.

    Attributes:
        step: Name of the step; with ``job`` empty = every step of that job.
        job: Another job (``J12``); "" = a step of this job that stands before this one.
        frames: Frame by frame: frame f waits for frame f + ``offset`` of that step only; where that step
            has no such frame nothing is waited for.
        offset: Added to the frame number; -1 waits for the frame before.
        on_failure: What a frame (or step) there that failed or was canceled for good means for what waits:
            ``wait`` (until somebody acts), ``go`` (as if it were done), ``skip`` or ``cancel`` it too.
    """

    step: str = ""
    job: str = ""
    frames: bool = False
    offset: Annotated[int, msgspec.Meta(ge=-10_000_000, le=10_000_000)] = 0
    on_failure: OnFailure = "wait"

    def job_number(self) -> int:
        """Number of the other job, 0 for this one.

        Raises:
            JobFileError: ``job`` is no address of a job.
        """
        if not self.job:
            return 0
        try:
            at = parse_address(self.job)
        except CallError:
            at = None
        if at is None or at.step is not None or not at.job:
            raise JobFileError(
                f"{self.job!r} is not a job", hint='write {"job": "J12"}, or {"job": "J12", "step": "beauty"}'
            )
        return at.job


#: Longest time in seconds that can be asked for: 31 years.
SECONDS_MOST = 1e9


class FailureSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a step judges failure, beyond the farm's table.

    Attributes:
        silent_x: An attempt is stopped as ``silent`` when a frame prints and writes nothing for this many
            times the step's median frame time while CPU and disk are idle; 0 = never.
        min_run_s: A frame that ends well in less seconds than this counts as failed; 0 = off.
        frame_timeout_s: Wall-clock limit of one frame in seconds; 0 = none.
        pause_share: The job pauses itself when this share of the step's frames failed; 0 = the farm's.
        pause_least: ... and at least so many; 0 = the farm's.
    """

    silent_x: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.0
    min_run_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    frame_timeout_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    pause_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    pause_least: Annotated[int, msgspec.Meta(ge=0)] = 0


class StepSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step of a job.

    Attributes:
        name: Unique in the job, ``[A-Za-z_][A-Za-z0-9_.-]{0,63}``.
        kind: ``per_frame``, ``per_segment`` (not built yet) or ``single``.
        renderer: Name of a renderer module.
        frames: Frame range of a per-frame step.
        chunk: Frames per lease, or ``auto``.
        order: ``forward`` (ascending), ``reverse``, ``first-last-middle``, ``coarse`` or ``coarse:N`` (every
            Nth frame first, then between) or ``listed`` (as the frames are written).
        first: Frames that are rendered before all others of the step, as a range, in this order.
        last: Frames that are rendered after all others.
        rank: Place among the steps of the job that could run: smaller goes first, of equals the one written
            first.
        params: The renderer's parameters, checked against its typed record.
        outputs: Every file the step writes.
        resources: What one attempt needs.
        env: Environment variables added for the step's processes.
        cwd: Working folder, or None for the attempt's own scratch folder.
        version: Constraint on the application's version, e.g. ``>=4.2,<5``.
        limits: Counted tokens of the farm (licences) an attempt holds, by name.
        pools: The step runs only on nodes of one of these pools; empty = any.
        attributes: Node attributes that must be present with these values (``*`` = any value).
        site: Site the step must run at; empty = any.
        after: What it waits for: names of steps of this job (as a whole), or AfterSpec records.
        pre: Command (a list, no shell) run before the renderer of every chunk, in its environment.
        post: Command run after a chunk's frames were rendered; its failure fails them.
        timeout_s: Wall-clock limit of a chunk in seconds, 0 = none.
        attempts: How many failures a unit may have (0 = the failure table's figure).
        existing: What to do about files that are already there.
        checks: Optional picture checks: ``black``, ``nan``, ``neighbour``.
        movie_frames: Frames the step's movie must have, None = not checked beyond decoding.
    """

    name: _Name
    renderer: _Name
    kind: StepKind = "per_frame"
    frames: str | None = None
    chunk: Literal["auto"] | Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = "auto"
    order: str = "forward"
    first: str = ""
    last: str = ""
    rank: Rank = 0
    params: dict[str, Any] = {}
    outputs: tuple[OutputSpec, ...] = ()
    resources: Resources = Resources()
    env: dict[str, str] = {}
    cwd: str | None = None
    version: str = ""
    limits: dict[str, int] = {}
    pools: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    site: str = ""
    after: tuple[str | AfterSpec, ...] = ()
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    timeout_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    attempts: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    existing: Existing = "overwrite"
    checks: tuple[Literal["black", "nan", "neighbour"], ...] = ()
    movie_frames: Annotated[int, msgspec.Meta(ge=0)] | None = None
    failure: FailureSpec = FailureSpec()

    def needs(self) -> tuple[AfterSpec, ...]:
        """What it waits for, names of steps made records."""
        return tuple(AfterSpec(step=item) if isinstance(item, str) else item for item in self.after)

    def frame_range(self) -> FrameRange | None:
        """The parsed frame range of a per-frame step, None for a single step."""
        return FrameRange.parse(self.frames) if self.frames is not None else None


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as submitted.

    Attributes:
        overcrank_job: Version of the job file format.
        name: What people see.
        user: Who it is accounted to; must be the key's user except for wranglers and above.
        project: Project it is accounted to.
        priority: 0-100, 100 first.
        rank: Place among the jobs of its user and project at its priority: smaller goes first, of equals the
            one submitted first.
        deadline: Not built yet.
        budget_usd: Not built yet.
        token: Client token: submitting the same token again gives the same job back.
        paused: Start paused.
        start_after: Not before this time (ISO 8601 with offset, e.g. ``2030-01-31T18:00:00+01:00``).
        max_cores: Most cores its attempts may hold at once, 0 = no cap.
        scout: Render so many frames spread over each per-frame step first, then pause with an estimate
            until somebody resumes it; 0 = off.
        app: Who submitted.
        assets: Files the job needs.
        warnings: What the submitter wants people to see.
        steps: At least one.
    """

    overcrank_job: int
    name: _Name
    steps: tuple[StepSpec, ...]
    user: str = ""
    project: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=100)] = 50
    rank: Rank = 0
    deadline: str | None = None
    budget_usd: float | str | None = None
    token: Annotated[str, msgspec.Meta(max_length=128)] = ""
    paused: bool = False
    start_after: str | None = None
    max_cores: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    scout: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    app: App = App()
    assets: tuple[Asset, ...] = ()
    warnings: tuple[str, ...] = ()

    def step(self, name: str) -> StepSpec:
        """The step of that name.

        Raises:
            JobFileError: There is none.
        """
        for step in self.steps:
            if step.name == name:
                return step
        raise JobFileError(f"there is no step {name!r}")


def read_job(data: bytes | str | dict[str, Any]) -> tuple[JobSpec, list[str]]:
    """Reads and checks a job.

    Args:
        data: JSON text, or the decoded object.

    Returns:
        The job, and warnings (unknown keys).

    Raises:
        JobFileError: It is no job file, or a field is wrong; names the field.
        NotBuiltYet: It uses a field this version cannot honour.
    """
    if isinstance(data, dict):
        raw: Any = data
    else:
        try:
            raw = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise JobFileError(f"not JSON: {error}") from error
        except RecursionError:
            raise JobFileError("it is nested too deeply") from None
    if not isinstance(raw, dict) or "overcrank_job" not in raw:
        raise JobFileError("not a job file: it has no key 'overcrank_job'")
    if raw["overcrank_job"] != JOB_FILE_VERSION:
        raise JobFileError(
            f"version {raw['overcrank_job']!r} is not supported",
            "overcrank_job",
            hint="this farm reads version 1",
        )
    try:
        job = msgspec.convert(raw, JobSpec)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise JobFileError(text, path.rstrip("`").lstrip(".")) from error
    warnings = list(_unknown_keys(raw, JobSpec, ""))
    check_job(job)
    for index, step in enumerate(job.steps):
        for name, text in (("first", step.first), ("last", step.last)):
            warnings += missing_frames(text, step.frame_range(), f"steps[{index}].{name}")
    return job, warnings


_NESTED: dict[tuple[type, str], type] = {
    (JobSpec, "steps"): StepSpec,
    (JobSpec, "assets"): Asset,
    (JobSpec, "app"): App,
    (StepSpec, "outputs"): OutputSpec,
    (StepSpec, "resources"): Resources,
    (StepSpec, "failure"): FailureSpec,
}


def _unknown_keys(raw: Any, kind: type, path: str) -> list[str]:
    found: list[str] = []
    if not isinstance(raw, dict):
        return found
    known = kind.__struct_fields__  # type: ignore[attr-defined]
    for key, value in raw.items():
        here = f"{path}.{key}" if path else str(key)
        if key not in known:
            found.append(f"unknown key {here} has no effect")
            continue
        inner = _NESTED.get((kind, key))
        if inner is None:
            continue
        if isinstance(value, list):
            for index, item in enumerate(value):
                found += _unknown_keys(item, inner, f"{here}[{index}]")
        else:
            found += _unknown_keys(value, inner, here)
    return found


def check_job(job: JobSpec) -> None:
    """Checks what types cannot say.

    Raises:
        JobFileError: A field is wrong.
        NotBuiltYet: A field is not at its default and not built yet.
    """
    if not job.steps:
        raise JobFileError("a job needs at least one step", "steps")
    for field in ("deadline", "budget_usd"):
        if getattr(job, field) is not None:
            raise NotBuiltYet(f"{field} is not built yet", hint="leave it out")
    if job.start_after is not None:
        try:
            read_moment(job.start_after)
        except CallError as error:
            raise JobFileError(error.message, "start_after", hint=error.hint) from error
    seen: set[str] = set()
    for index, step in enumerate(job.steps):
        _check_step(job, step, f"steps[{index}]", seen)
        seen.add(step.name)


def _check_seconds(step: StepSpec, path: str) -> None:
    """Refuses times that are no number, or so long that no clock counts them."""
    limits = {
        "timeout_s": step.timeout_s,
        "failure.min_run_s": step.failure.min_run_s,
        "failure.frame_timeout_s": step.failure.frame_timeout_s,
    }
    for name, value in limits.items():
        if not 0 <= value <= SECONDS_MOST:
            raise JobFileError(
                f"{value:g} is no number of seconds from 0 to {SECONDS_MOST:.0f}",
                f"{path}.{name}",
                hint="0 = no limit",
            )


def _check_step(job: JobSpec, step: StepSpec, path: str, seen: set[str]) -> None:
    if not STEP_NAME.match(step.name):
        raise JobFileError(
            f"{step.name!r} is not a step name", f"{path}.name", hint="letters, digits, _ . - and at most 64"
        )
    if step.name in seen:
        raise JobFileError(f"two steps are named {step.name!r}", f"{path}.name")
    _refuse_unbuilt(step, path)
    _check_seconds(step, path)
    if step.kind == "per_frame":
        if step.frames is None:
            raise JobFileError("a per_frame step needs frames", f"{path}.frames")
        try:
            step.frame_range()
        except CallError as error:
            raise JobFileError(error.message, f"{path}.frames", hint=error.hint) from error
    elif step.frames is not None:
        raise JobFileError("a single step has no frames", f"{path}.frames")
    if step.resources.cores < 1:
        raise JobFileError("an attempt needs at least one core", f"{path}.resources.cores")
    for output_index, output in enumerate(step.outputs):
        where = f"{path}.outputs[{output_index}]"
        if not output.pattern.strip() or "\0" in output.pattern:
            raise JobFileError("the pattern is empty or holds a NUL", f"{where}.pattern")
        if step.kind == "per_frame" and output.kind == "movie":
            raise JobFileError(
                "a movie cannot be written frame by frame", f"{where}.kind", hint="use a single step"
            )
        if output.views:
            raise NotBuiltYet(f"{where}.views is not built yet", hint="list one output per view")
    _check_after(job, step, path)
    for name, text in (("first", step.first), ("last", step.last)):
        check_named(text, f"{path}.{name}", has_frames=step.frames is not None)
    try:
        read_order(step.order)
    except JobFileError as error:
        raise JobFileError(error.message, f"{path}.order", hint=error.hint) from error
    for key, value in step.env.items():
        if not key or "=" in key or "\0" in key or "\0" in value:
            raise JobFileError(f"{key!r} is not an environment variable", f"{path}.env")
        if key.startswith("OVERCRANK_"):
            raise JobFileError(f"{key} belongs to the farm", f"{path}.env")


def _check_after(job: JobSpec, step: StepSpec, path: str) -> None:
    """Checks what a step waits for, as far as its own job tells."""
    known: dict[tuple[object, ...], int] = {}
    for index, need in enumerate(step.needs()):
        where = f"{path}.after[{index}]"
        if not need.step and not need.job:
            raise JobFileError(
                "it names neither a step nor a job", where, hint='write "beauty", or {"job": "J12"}'
            )
        try:
            number = need.job_number()
        except JobFileError as error:
            raise JobFileError(error.message, f"{where}.job", hint=error.hint) from error
        if need.offset and not need.frames:
            raise JobFileError("an offset goes with frames: true", f"{where}.offset")
        if need.frames and step.kind != "per_frame":
            raise JobFileError(
                f"step {step.name!r} has no frames to wait frame by frame",
                f"{where}.frames",
                hint="leave frames out: it waits for the whole step",
            )
        key = (number, need.step, need.frames, need.offset)
        if key in known:
            raise JobFileError(f"it is the same as after[{known[key]}]", where, hint="list it once")
        known[key] = index
        if number:
            if need.step and not STEP_NAME.match(need.step):
                raise JobFileError(f"{need.step!r} is not a step name", f"{where}.step")
        else:
            _check_own_need(job, step, need, where)


def _check_own_need(job: JobSpec, step: StepSpec, need: AfterSpec, where: str) -> None:
    """Checks one need of another step of the same job; only frames before its own may a step wait for."""
    if need.step == step.name:
        if not need.frames or need.offset >= 0:
            raise JobFileError(
                f"step {step.name!r} waits for itself",
                where,
                hint=f'for its own earlier frames: {{"step": "{step.name}", "frames": true, "offset": -1}}',
            )
        return
    names = [other.name for other in job.steps]
    if need.step not in names:
        raise JobFileError(f"step {need.step!r} does not exist", where, hint="list steps in order")
    at = names.index(need.step)
    if at > names.index(step.name):
        raise JobFileError(f"step {need.step!r} comes later", where, hint="list steps in order")
    if need.frames and job.steps[at].kind != "per_frame":
        raise JobFileError(
            f"step {need.step!r} has no frames",
            f"{where}.frames",
            hint="leave frames out: the whole step is waited for",
        )


def _refuse_unbuilt(step: StepSpec, path: str) -> None:
    if step.kind == "per_segment":
        raise NotBuiltYet(f"{path}.kind: per_segment is not built yet", hint="use per_frame or single")
    if step.resources.nvlink != "none":
        raise NotBuiltYet(f"{path}.resources.nvlink is not built yet", hint="leave it at none")


def job_schema() -> dict[str, Any]:
    """JSON Schema of the job file, generated from the records."""
    return msgspec.json.schema(JobSpec)

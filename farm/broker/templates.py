"""What all leases of a step share, encoded once: the StepTemplate with its inputs resolved."""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.state import Job, Step
from farm.model.errors import JobFileError
from farm.model.jobs import JobSpec, StepSpec
from farm.model.paths import has_frame_token
from farm.protocol.agent import InputPlan, OutputPlan, StepTemplate
from farm.protocol.codec import encode
from farm.renderers.registry import get_renderer


def input_plan(job: JobSpec, step: StepSpec, name: str, value: Any, where: str) -> InputPlan | None:
    """The explicit plan of one input parameter.

    Args:
        job: The job the step belongs to.
        step: The step that reads the input.
        name: Parameter name.
        value: ``{"step": ..., "output": ...}``, a path pattern, or a path.
        where: Place in the job file, for errors.

    Raises:
        JobFileError: The step or output does not exist, or the step is not waited for.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        frames = ""
        if has_frame_token(value):
            own = step.params.get("frames") or step.frames
            if not own:
                raise JobFileError(f"{value} has a frame token but no frames are named", where)
            frames = str(own)
        return InputPlan(value, frames)
    if not isinstance(value, dict) or not isinstance(value.get("step"), str):
        raise JobFileError('an input is a path or {"step": NAME, "output": 0}', where)
    source = job.step(value["step"])
    index = value.get("output", 0)
    if not isinstance(index, int) or not 0 <= index < len(source.outputs):
        raise JobFileError(f"step {source.name!r} has no output {index!r}", where)
    if source.name not in [need.step for need in step.needs() if not need.job]:
        raise JobFileError(
            f"reads step {source.name!r} but does not wait for it",
            where,
            hint=f'add "{source.name}" to after',
        )
    output = source.outputs[index]
    frames = (source.frames or "") if output.kind == "sequence" else ""
    return InputPlan(output.pattern, frames)


def input_plans(job: JobSpec, step: StepSpec, where: str = "params") -> dict[str, InputPlan]:
    """Plans of all inputs of a step, by parameter name."""
    plans: dict[str, InputPlan] = {}
    for name in get_renderer(step.renderer).input_params:
        plan = input_plan(job, step, name, step.params.get(name), f"{where}.{name}")
        if plan is not None:
            plans[name] = plan
    return plans


def encode_template(job: Job, step: Step) -> msgspec.Raw:
    """The encoded template of a step."""
    spec = step.spec
    template = StepTemplate(
        job=job.id,
        step=spec.name,
        kind=spec.kind,
        renderer=spec.renderer,
        params=spec.params,
        outputs=tuple(OutputPlan(output.pattern, output.kind) for output in spec.outputs),
        inputs=input_plans(job.spec, spec),
        frames=str(step.frames) if step.frames is not None else "",
        env=spec.env,
        cwd=spec.cwd or "",
        version=spec.version,
        timeout_s=spec.timeout_s,
        checks=spec.checks,
        pre=spec.pre,
        post=spec.post,
        min_run_s=spec.failure.min_run_s,
        frame_timeout_s=spec.failure.frame_timeout_s,
        movie_frames=spec.movie_frames,
        user=job.user,
        project=job.project,
        job_name=job.spec.name,
    )
    return msgspec.Raw(encode(template))

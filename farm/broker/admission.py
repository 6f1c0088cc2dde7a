"""Whether a submitted job may enter: well formed, known renderers, allowed user and priority."""

from __future__ import annotations

import msgspec

from farm.broker.templates import input_plans
from farm.core.events import SubmitEvent
from farm.model.errors import CallError, JobFileError, PeerError
from farm.model.jobs import JobSpec, read_job
from farm.model.roles import Role, check_allowed, check_priority
from farm.model.versions import check_constraint
from farm.protocol.codec import check_depth
from farm.renderers.base import Renderer, read_params
from farm.renderers.command import check_commands
from farm.renderers.registry import get_renderer


def admit(source: bytes, role: Role, user: str, now_us: int) -> tuple[SubmitEvent, list[str]]:
    """Checks a job file and makes the event of it.

    Args:
        source: The job file as JSON.
        role: Role of the sender's key.
        user: User of the sender's key.
        now_us: Time of submission.

    Returns:
        The event, and warnings for the submitter.

    Raises:
        CallError: The job is refused; names the field.
    """
    spec, warnings = read_job(source)
    if not spec.user:
        spec = msgspec.structs.replace(spec, user=user)
    check_allowed(role, "submit", user=user, owner=spec.user)
    check_priority(role, spec.priority)
    apps: list[str] = []
    whole: list[bool] = []
    for index, step in enumerate(spec.steps):
        where = f"steps[{index}]"
        renderer = _renderer(step.renderer, where)
        if step.kind not in renderer.kinds:
            raise JobFileError(
                f"{renderer.name} cannot run a {step.kind} step", f"{where}.kind",
                hint="it can run " + ", ".join(sorted(renderer.kinds)),
            )  # fmt: skip
        params = read_params(renderer, step.params, f"{where}.params")
        try:
            check_depth(step.params)
        except PeerError as error:
            raise JobFileError(error.message, f"{where}.params") from error
        # In the words of ``farm submit``, which says what it was told twice only once.
        warnings += [f"{where}: {warning}" for warning in renderer.check(step, params)]
        check_commands(step, where)
        if step.version:
            if not renderer.app:
                raise JobFileError(f"{renderer.name} has no application to constrain", f"{where}.version")
            check_constraint(step.version)
        input_plans(spec, step, f"{where}.params")
        apps.append(renderer.app)
        whole.append(renderer.whole_slice)
    return SubmitEvent(now_us, spec, _as_json(spec), tuple(apps), tuple(whole)), warnings


def _renderer(name: str, where: str) -> Renderer:
    try:
        return get_renderer(name)
    except CallError as error:
        raise JobFileError(error.message, f"{where}.renderer", hint=error.hint) from error


def _as_json(spec: JobSpec) -> bytes:
    return msgspec.json.encode(spec)

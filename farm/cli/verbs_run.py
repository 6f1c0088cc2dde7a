"""The verb that renders here and now: a private farm, one job, a result, nothing left running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.inputs import EXAMPLES, add_job_arguments, make_checked_job

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.cli.private import PrivateFarm
    from farm.model.jobs import JobSpec
    from farm.sdk.client import Farm


def add_farm_arguments(parser: argparse.ArgumentParser, *, agents: int) -> None:
    """Adds the arguments about the private farm."""
    how = parser.add_argument_group("the private farm")
    how.add_argument(
        "--agents", type=int, default=agents, metavar="N", help=f"agents on this machine (default {agents})"
    )
    how.add_argument(
        "--rate-usd-h", metavar="USD", help="what this machine costs an hour (default: the option rate_usd_h)"
    )
    how.add_argument(
        "--damage-frame",
        type=int,
        metavar="N",
        help="truncate this frame's files in every attempt before they are verified, to see them refused",
    )


def private_farm(arguments: argparse.Namespace, rate_usd_h: str | None = None) -> PrivateFarm:
    """The private farm the arguments describe."""
    from farm.cli.private import PrivateFarm
    from farm.model.errors import CallError

    if arguments.agents < 1:
        raise CallError(f"--agents must be at least 1, not {arguments.agents}")
    flags = []
    if arguments.damage_frame is not None:
        flags += ["--damage-frame", str(arguments.damage_frame)]
    return PrivateFarm(arguments.agents, rate_usd_h=arguments.rate_usd_h or rate_usd_h, agent_flags=flags)


def render(private: PrivateFarm, job: JobSpec, console: Console) -> int:
    """Submits the job to the running private farm, waits, prints the result; returns the exit code."""
    from farm.cli import outcome
    from farm.cli.progress import wait_for_job
    from farm.sdk.jobfile import job_bytes, with_token

    with private.connect() as farm:
        check_nodes(private, farm, job)
        # What no agent here can take is said by what it waits for, with the exit code of work that failed.
        number = farm.submit(job_bytes(with_token(job)), repeat=True, force=True).job
        try:
            wait_for_job(farm, number, console, hopeless_s=2.0)
        except KeyboardInterrupt:
            farm.act("cancel", f"J{number}", reason="interrupted")
            console.note(f"J{number} is canceled")
            raise
        result = outcome.collect(farm, number)
    for step in result.job.steps:
        if step.able is False:
            console.note(f"farm: J{number}/{step.name}: {step.reason}")
    if console.json:
        console.document(outcome.document(result))
    else:
        outcome.show(result, console)
        console.line(f"more    farm --farm {private.name} log J{number}/{result.step.name}")
    return outcome.exit_code(result)


def check_nodes(private: PrivateFarm, farm: Farm, job: JobSpec) -> None:
    """Waits for the agents and refuses at once what none of them can render.

    Raises:
        CallError: No agent here has the renderer or is large enough; says what to do.
    """
    from farm.model.errors import CallError

    nodes = private.wait_for_agents(farm)
    for step in job.steps:
        if not any(step.renderer in node.renderers for node in nodes):
            raise CallError(
                f"step {step.name!r}: the renderer {step.renderer} cannot run on this machine",
                hint="`farm doctor` says what to install",
            )
        most = max(node.cores for node in nodes)
        if step.resources.cores > most:
            raise CallError(
                f"step {step.name!r} wants {step.resources.cores} cores; each agent has {most}",
                hint="use fewer agents or fewer cores",
            )
        memory = max(node.ram_mib for node in nodes)
        if step.resources.ram_mib > memory:
            raise CallError(
                f"step {step.name!r} wants {step.resources.ram_mib} MiB; each agent has {memory}",
                hint="use fewer agents",
            )
        if step.resources.gpus > max(node.gpus for node in nodes):
            raise CallError(f"step {step.name!r} wants {step.resources.gpus} GPUs; no agent here has as many")


def _setup(parser: argparse.ArgumentParser) -> None:
    add_job_arguments(parser)
    add_farm_arguments(parser, agents=1)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    job, warnings = make_checked_job(arguments)
    for warning in warnings:
        console.note(f"warning: {warning}")
    with private_farm(arguments) as private:
        return render(private, job, console)


COMMANDS = {
    "run": Command(
        _setup,
        _run,
        (
            *(f"farm run {line}" for line in EXAMPLES),
            "farm run scene.blend --frames 1-12 --agents 2 -o OUT --json",
        ),
        takes_program=True,
    )
}

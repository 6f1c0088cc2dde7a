"""The fleet and the jobs of a simulated farm: every filter has nodes that pass it and nodes that do not."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from farm.model.jobs import AfterSpec, JobSpec, OutputSpec, StepSpec, check_job
from farm.model.nodes import AppInfo, GpuInfo, NodeFacts
from farm.model.orders import ORDERS
from farm.model.resources import Resources
from tests.support.sim_agent import GOOD

if TYPE_CHECKING:
    from tests.support.core_stage import Stage

RENDERERS = ("blender", "command", "whole")


def facts(
    name: str, cores: int, *, ram_mib: int = 16_384, vram: tuple[int, ...] = (), **more: Any
) -> NodeFacts:
    """Facts of a node."""
    gpus = tuple(
        GpuInfo(index, f"GPU-{name}-{index}", "Simulated", memory) for index, memory in enumerate(vram)
    )
    total = Resources(
        cores=cores,
        ram_mib=ram_mib,
        gpus=len(vram),
        vram_mib=max(vram, default=0),
        disk_mib=more.pop("disk_mib", 0),
        tokens=more.pop("tokens", {}),
    )
    more.setdefault("renderers", RENDERERS)
    more.setdefault("apps", (AppInfo("blender", "4.2.3"),))
    more.setdefault("attributes", {"os": "linux"})
    return NodeFacts(name=name, total=total, gpus=gpus, **more)


def fleet() -> list[tuple[str, NodeFacts, str, str]]:
    """Key, facts, pool and site of each node."""
    old = (AppInfo("blender", "3.4.1"), AppInfo("blender", "4.2.3"))
    return [
        ("key-a", facts("ant", 4, vram=(8_000, 24_000)), "", "local"),
        (
            "key-b",
            facts("ant", 8, vram=(8_000, 24_000), apps=old, disk_mib=10_000, tokens={"fx-card": 2}),
            "film",
            "local",
        ),
        ("key-c", facts("bee", 4, ram_mib=4_096, attributes={"os": "linux", "rack": "r2"}), "film", "cloud"),
        ("key-e", facts("ant", 4, vram=(8_000, 24_000)), "", "local"),
        ("key-d", facts("cat", 3, renderers=("command", "whole")), "", "local"),
    ]


_NEEDS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"resources": Resources(cores=2, ram_mib=2_048)},
    # On some nodes memory, disk or cards are used up while cores are free.
    {"resources": Resources(cores=1, ram_mib=1_500)},
    {"resources": Resources(cores=1, ram_mib=6_000)},
    {"resources": Resources(cores=1, disk_mib=4_000)},
    {"resources": Resources(cores=1, tokens={"fx-card": 1})},
    {"resources": Resources(cores=1, gpus=1, vram_mib=8_000)},
    {"resources": Resources(cores=1, gpus=1)},
    {"resources": Resources(cores=1, gpus=1, vram_mib=20_000)},
    {"pools": ("film",)},
    {"site": "cloud"},
    {"attributes": {"rack": "*"}},
    {"renderer": "blender"},
    {"renderer": "blender", "version": "<4"},
    {"renderer": "whole"},
    {"renderer": "whole", "resources": Resources(cores=2)},
)


def moment(at_us: int) -> str:
    """ISO 8601 of a time, as people write it."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).isoformat()


def make_after(
    rng: random.Random, stage: Stage, before: list[StepSpec], name: str, *, single: bool
) -> tuple[str | AfterSpec, ...]:
    """What a random step waits for: earlier steps, itself, other jobs, as a whole or by frame."""
    found: list[str | AfterSpec] = []

    def policy() -> Any:
        return rng.choice(("wait", "wait", "go", "skip", "cancel"))

    for step in before:
        if rng.random() < 0.7:
            by_frame = not single and step.kind == "per_frame" and rng.random() < 0.6
            if by_frame:
                offset = rng.choice((0, 0, 0, -1, 1, 3))
                found.append(AfterSpec(step=step.name, frames=True, offset=offset, on_failure=policy()))
            else:
                found.append(
                    step.name if rng.random() < 0.5 else AfterSpec(step=step.name, on_failure=policy())
                )
    if not single and rng.random() < 0.15:
        offset = rng.choice((-1, -1, -2))
        found.append(AfterSpec(step=name, frames=True, offset=offset, on_failure=policy()))
    jobs = list(stage.core.farm.jobs.values())
    if jobs and rng.random() < 0.2:
        job = rng.choice(jobs[-8:])
        step_names = ["", *(step.spec.name for step in job.steps)]
        by_frame = not single and rng.random() < 0.5
        other = AfterSpec(job=f"J{job.id}", step=rng.choice(step_names), frames=by_frame, on_failure=policy())
        found.append(other)
    return tuple(found)


def make_job(rng: random.Random, stage: Stage) -> JobSpec:
    """A random job that at least one node of the fleet can do."""
    number = stage.core.farm.next_job
    steps: list[StepSpec] = []
    for index in range(rng.choice((1, 1, 2, 3))):
        name = "abc"[index]
        fields: dict[str, Any] = {"renderer": "command", **rng.choice(_NEEDS)}
        single = index > 0 and rng.random() < 0.4
        count = rng.randrange(1, 9)
        pattern = f"/out/J{number}/{name}.####.exr" if rng.random() < 0.95 else "/out/shared.####.exr"
        kind = "sequence"
        if single:
            pattern, kind = f"/out/J{number}/{name}.mov", rng.choice(("movie", "single"))
        outputs = (OutputSpec(pattern=pattern, kind=kind),) if rng.random() < 0.85 else ()  # type: ignore[arg-type]
        existing = "skip" if rng.random() < 0.2 else "overwrite"
        after = make_after(rng, stage, steps, name, single=single)
        if existing == "skip" and outputs and not single:
            for frame in range(1, count + 1):
                if rng.random() < 0.5:
                    stage.disk.files[pattern, frame] = (GOOD, 0)
        steps.append(
            StepSpec(
                name=name,
                kind="single" if single else "per_frame",
                frames=None if single else f"1-{count}",
                chunk=rng.choice(("auto", "auto", 1, 2, 5)),
                outputs=outputs,
                existing=existing,
                after=after,
                order=rng.choice(("forward", "forward", *ORDERS[:4], "coarse:2", "coarse:3", "listed")),
                attempts=rng.choice((0, 0, 0, 1, 5)),
                **fields,
            )
        )
    later = moment(stage.now_us + rng.choice((-1, 20, 90)) * 1_000_000)
    spec = JobSpec(
        overcrank_job=1,
        name=f"job {number}",
        steps=tuple(steps),
        user=rng.choice(("ann", "bob")),
        priority=rng.choice((10, 50, 50, 90)),
        token=f"t{rng.randrange(30)}" if rng.random() < 0.3 else "",
        paused=rng.random() < 0.1,
        start_after=later if rng.random() < 0.1 else None,
        scout=rng.choice((1, 2, 3)) if rng.random() < 0.1 else 0,
    )
    check_job(spec)
    return spec

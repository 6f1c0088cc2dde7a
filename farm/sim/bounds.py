"""What no schedule can beat: lower bounds of the time a farm needs for its work.

What belongs here: arithmetic over work, capacity and chains.  What may not: what a scheduler did, but for
when machines were there.  Two bounds: the strict one counts one start-up for each step, since no schedule
does with less; the other counts the fewest start-ups that chunks of the farm's chunk time (or the step's
fixed chunk) allow, since a farm that keeps chunks short on purpose cannot do with less either.  Both are the
larger of work over capacity and the longest chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from farm.model.jobs import StepSpec
from farm.model.versions import version_ok
from farm.sim.engine import Change
from farm.sim.workload import ORIGIN_US, PlannedJob, PlannedNode

#: Most moments of arrival from which a bound is worked out.
_RELEASES = 64


class Bound(msgspec.Struct, frozen=True):
    """Lower bounds in seconds from the first arrival.

    Attributes:
        strict_s: With one start-up a step.
        chunked_s: With as many start-ups as chunks of the chunk time need.
        work_s: The work's part of ``chunked_s``.
        chain_s: The longest chain: its longest frame of each step, one start-up, on the fastest node.
    """

    strict_s: float
    chunked_s: float
    work_s: float
    chain_s: float


class _Work(msgspec.Struct):
    at_s: float
    able: frozenset[int]
    slots: dict[int, float]
    need: dict[str, int]
    strict_s: float
    chunked_s: float


def lower_bound(
    jobs: list[PlannedJob], nodes: list[PlannedNode], changes: list[Change], chunk_target_s: float
) -> Bound:
    """The bounds of jobs on nodes that were there as ``changes`` tell."""
    if not jobs:
        return Bound(0.0, 0.0, 0.0, 0.0)
    able_of = able_nodes(jobs, nodes)
    fastest: dict[frozenset[int], float] = {}
    works: list[_Work] = []
    slots_of: dict[object, dict[int, float]] = {}
    first_s = min(job.at_us for job in jobs) / 1e6
    chain_s = 0.0
    for job in jobs:
        at_s = job.at_us / 1e6
        ends: dict[str, float] = {}
        for index, (spec, times) in enumerate(zip(job.spec.steps, job.steps, strict=True)):
            able = able_of[id(job), index]
            if not able:
                continue
            top = fastest.get(able)
            if top is None:
                top = fastest[able] = max(nodes[number].speed for number in able)
            works.append(_work(job, index, able, nodes, chunk_target_s, slots_of))
            # Where frames wait for single frames, not the whole of the other step comes before.
            before_s = max(
                (ends.get(need.step, 0.0) for need in spec.needs() if not need.frames), default=0.0
            )
            ends[spec.name] = before_s + (max(times.frame_s, default=0.0) + times.startup_s) / top
        chain_s = max(chain_s, at_s - first_s + max(ends.values(), default=0.0))
    timeline = _Timeline(changes)
    strict_s = chunked_s = 0.0
    releases = sorted({work.at_s for work in works})
    step = max(1, len(releases) // _RELEASES)
    for release_s in releases[::step]:
        late = [work for work in works if work.at_s >= release_s]
        for name in ("strict_s", "chunked_s"):
            ends_s = max((end for end in _ends(late, release_s, name, nodes, timeline)), default=0.0)
            if name == "strict_s":
                strict_s = max(strict_s, ends_s - first_s)
            else:
                chunked_s = max(chunked_s, ends_s - first_s)
    return Bound(max(strict_s, chain_s), max(chunked_s, chain_s), chunked_s, chain_s)


def able_nodes(jobs: list[PlannedJob], nodes: list[PlannedNode]) -> dict[tuple[int, int], frozenset[int]]:
    """Nodes that could ever take each step, by (id of the planned job, index of the step)."""
    known: dict[object, frozenset[int]] = {}
    found: dict[tuple[int, int], frozenset[int]] = {}
    for job in jobs:
        for index, spec in enumerate(job.spec.steps):
            key = _shape(spec, job.apps[index])
            if key not in known:
                known[key] = _able(spec, job.apps[index], nodes)
            found[id(job), index] = known[key]
    return found


def _shape(spec: StepSpec, app: str) -> object:
    need = spec.resources
    return (
        (need.cores, need.ram_mib, need.gpus, need.vram_mib),
        (spec.renderer, app, spec.version, spec.site, spec.pools),
        tuple(sorted(spec.attributes.items())),
    )


def _able(spec: StepSpec, app: str, nodes: list[PlannedNode]) -> frozenset[int]:
    """Nodes that could ever take the step, by what nodes say of themselves."""
    need, found = spec.resources, []
    for node in nodes:
        facts, total = node.facts, node.facts.total
        if spec.renderer not in facts.renderers or (spec.pools and node.pool not in spec.pools):
            continue
        if spec.site and node.site != spec.site:
            continue
        versions = [one.version for one in facts.apps if one.name == app]
        if app and not any(not spec.version or version_ok(version, spec.version) for version in versions):
            continue
        have = facts.attributes
        if any(
            have.get(name) is None or want not in ("*", have[name]) for name, want in spec.attributes.items()
        ):
            continue
        able_gpus = sum(gpu.vram_mib >= need.vram_mib for gpu in facts.gpus)
        if need.cores <= total.cores and need.ram_mib <= total.ram_mib and need.gpus <= able_gpus:
            found.append(node.index)
    return frozenset(found)


def _work(
    job: PlannedJob,
    index: int,
    able: frozenset[int],
    nodes: list[PlannedNode],
    chunk_target_s: float,
    slots_of: dict[object, dict[int, float]],
) -> _Work:
    spec, frame_s, whole = job.spec.steps[index], job.steps[index].frame_s, job.whole[index]
    need = spec.resources
    key = (able, need.cores, need.ram_mib, need.gpus, whole)
    slots = slots_of.get(key)
    if slots is None:
        slots = slots_of[key] = {}
        for number in able:
            total = nodes[number].facts.total
            fit = [total.cores // max(1, need.cores)]
            if need.ram_mib:
                fit.append(total.ram_mib // need.ram_mib)
            if need.gpus:
                fit.append(total.gpus // need.gpus)
            slots[number] = 1.0 if whole else float(min(fit))
    # A node's own start-up is of clock time: at the slowest node it is the least reference work.
    own_s = min(nodes[number].startup_s * nodes[number].speed for number in able)
    one_s = job.steps[index].startup_s + own_s
    work_s = sum(frame_s)
    speed = sum(nodes[number].speed for number in able) / len(able)
    if isinstance(spec.chunk, int):
        chunks = math.ceil(len(frame_s) / spec.chunk)
    else:
        chunks = max(1, math.ceil(work_s / (chunk_target_s * speed)))
    chunks = min(chunks, len(frame_s))
    least = {"cores": need.cores, "ram_mib": need.ram_mib, "gpus": need.gpus}
    if whole:
        least["cores"] = max(1, min(nodes[number].facts.total.cores for number in able))
    return _Work(job.at_us / 1e6, able, slots, least, work_s + one_s, work_s + one_s * chunks)


class _Timeline:
    """Speeds of nodes over time, in seconds from virtual 0."""

    def __init__(self, changes: list[Change]) -> None:
        self._changes = [((one.at_us - ORIGIN_US) / 1e6, one.node, one.speed) for one in changes]

    def reach(self, work: float, weights: dict[int, float], from_s: float) -> float:
        """When so much weighted work can be done at the earliest, beginning at ``from_s``."""
        if work <= 0:
            return from_s
        speeds: dict[int, float] = {}
        rate, now_s = 0.0, from_s
        for at_s, node, speed in self._changes:
            weight = weights.get(node)
            if not weight:
                continue
            if at_s > now_s:
                if rate > 0 and work <= rate * (at_s - now_s):
                    return now_s + work / rate
                work -= rate * (at_s - now_s)
                now_s = at_s
            rate += (speed - speeds.get(node, 0.0)) * weight
            speeds[node] = speed
        return now_s + work / rate if rate > 1e-12 else now_s


def _ends(
    works: list[_Work], release_s: float, name: str, nodes: list[PlannedNode], timeline: _Timeline
) -> Iterable[float]:
    """Ends that every schedule of these works has, by shape and by resource."""
    shapes: dict[int, tuple[dict[int, float], float]] = {}
    for work in works:
        slots, seconds = shapes.get(id(work.slots), (work.slots, 0.0))
        shapes[id(work.slots)] = (slots, seconds + getattr(work, name))
    for slots, seconds in shapes.values():
        yield timeline.reach(seconds, slots, release_s)
    union = frozenset().union(*(work.able for work in works))
    for resource in ("cores", "ram_mib", "gpus"):
        amount = sum(work.need[resource] * getattr(work, name) for work in works)
        weights = {number: float(getattr(nodes[number].facts.total, resource)) for number in union}
        yield timeline.reach(amount, weights, release_s)

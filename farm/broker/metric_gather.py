"""What a farm has at a moment, in figures: jobs, frames, queue, limits, nodes, money.

What belongs here: reading the core's state into values by label.  What may not: changing anything, and what
is counted from rows (``farm.broker.metrics``).

Both functions yield now and then, so that their caller decides how long they may go on at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from farm.core.state import Farm, Node
from farm.model.states import NodeState, UnitState, shown_state

#: Jobs or nodes between two yields.
PIECE = 100
NANO = 1e-9
_STATES = tuple(state.word for state in UnitState)
_QUEUED, _RUNNING = UnitState.QUEUED.value, UnitState.RUNNING.value
_LIVE = (NodeState.ONLINE, NodeState.SUSPECT)
_US_PER_HOUR = 3_600_000_000

#: Values of a figure by its labels.
Values = dict[tuple[str, ...], float]


def gather_work(farm: Farm, now_us: int, values: dict[str, Values]) -> Iterator[None]:
    """Jobs, frames, the queue and limits."""
    jobs: Values = {}
    totals = [0] * len(_STATES)
    by_project: dict[str, list[int]] = {}
    oldest: dict[str, int] = {}
    for index, job in enumerate(list(farm.jobs.values())):
        if not index % PIECE:
            yield
        if job.archived:
            continue
        steps = job.steps
        counts = (
            steps[0].counts
            if len(steps) == 1
            else list(map(sum, zip(*[x.counts for x in steps], strict=True)))
        )
        word = (shown_state(counts, paused=job.paused).value,)
        jobs[word] = jobs.get(word, 0) + 1
        for state, count in enumerate(counts):
            if count:
                totals[state] += count
        queued = counts[_QUEUED]
        if queued or counts[_RUNNING]:
            sums = by_project.get(job.project)
            if sums is None:
                sums = by_project[job.project] = [0, 0]
            sums[0] += queued
            sums[1] += counts[_RUNNING]
            if queued and not job.paused:
                oldest[job.project] = min(oldest.get(job.project, now_us), job.submitted_us)
    values["jobs"] = jobs
    values["frames"] = {(word,): float(count) for word, count in zip(_STATES, totals, strict=True)}
    values["project_frames"] = {
        (project, word): float(count)
        for project, sums in by_project.items()
        for word, count in zip(("queued", "running"), sums, strict=True)
    }
    values["queue_age_seconds"] = {(name,): (now_us - since_us) / 1e6 for name, since_us in oldest.items()}
    limits = [limit for limit in farm.limits.values() if limit.total is not None]
    values["limit_tokens"] = {(limit.name,): float(limit.total or 0) for limit in limits}
    values["limit_tokens_busy"] = {(limit.name,): float(limit.used) for limit in limits}


def gather_nodes(farm: Farm, now_us: int, values: dict[str, Values]) -> Iterator[None]:
    """Nodes, what they have and what they cost; ``alarming`` are those that `farm status` has an alert
    for."""
    nodes: Values = {}
    agents: Values = {}
    spend: dict[str, list[float]] = {}
    running: Values = {}
    amounts: dict[tuple[str, str], list[int]] = {}
    alarming = 0
    for index, node in enumerate(list(farm.nodes.values())):
        if not index % PIECE:
            yield
        site = node.site or "local"
        money = spend.get(site)
        if money is None:
            money = spend[site] = [0.0, 0.0, 0.0]
        total_nano, idle_nano = _money(node, now_us)
        money[0] += total_nano
        money[1] += idle_nano
        if node.forgotten:
            continue
        if node.meter_on:
            money[2] += node.meter_rate
        alarming += _alarming(node)
        word = (node.state.value if node.enabled else "drained", node.pool, site)
        nodes[word] = nodes.get(word, 0) + 1
        if node.state not in _LIVE:
            continue
        facts, attempts, slots = node.facts, len(node.attempts), node.settings.slots
        version = (facts.software,)
        agents[version] = agents.get(version, 0) + 1
        running[(site,)] = running.get((site,), 0) + attempts
        sums = amounts.get((node.pool, site))
        if sums is None:
            sums = amounts[(node.pool, site)] = [0] * 6
        sums[0] += facts.total.cores
        sums[1] += facts.total.cores - node.cores_free
        if facts.gpus:
            sums[2] += len(facts.gpus)
            sums[3] += len(facts.gpus) - len(node.gpus_free)
        if slots:
            sums[4] += slots
            sums[5] += min(slots, attempts)
    values["alarming"] = {(): float(alarming)}
    values["nodes"] = nodes
    values["agents"] = agents
    values["attempts_running"] = running
    for place, name in enumerate(("cores", "cores_busy", "gpus", "gpus_busy", "slots", "slots_busy")):
        values[name] = {where: float(sums[place]) for where, sums in amounts.items()}
    values["spend_usd"] = {(site,): money[0] * NANO for site, money in spend.items()}
    values["idle_usd"] = {(site,): money[1] * NANO for site, money in spend.items()}
    values["burn_usd_per_hour"] = {(site,): money[2] * NANO for site, money in spend.items()}


def _alarming(node: Node) -> bool:
    """Whether `farm status` has an alert for the node."""
    if node.forgotten:
        return False
    return not node.enabled or node.state in (NodeState.LOST, NodeState.SUSPECT)


def _money(node: Node, now_us: int) -> tuple[float, float]:
    """What the node cost so far and the idle part: as ``meter.projected`` says, but for the last nano-USD.

    That one splits over attempts exactly, which costs too much for ten thousand nodes at once.
    """
    if not node.meter_on or now_us <= node.metered_us:
        return node.total_nano, node.idle_nano
    more = node.meter_rate * (now_us - node.metered_us) / _US_PER_HOUR
    held = sum(attempt.share_ppm for attempt in node.attempts.values()) / 1e6
    return node.total_nano + more, node.idle_nano + more * max(0.0, 1.0 - held)

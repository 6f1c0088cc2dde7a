"""What must hold after every event.  Runs in tests and simulations, not in production."""

from __future__ import annotations

import hashlib

import msgspec

from farm.core.apply import BLOCKED, DONE, QUEUED, RUNNING
from farm.core.specs import known_specs
from farm.core.state import Farm, Step, UnitNote
from farm.model.states import AttemptKind, NodeState


class Violation(AssertionError):
    """An invariant does not hold."""


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def check(farm: Farm) -> None:
    """Raises Violation, naming what is broken.

    1. Every unit is in exactly one state, and the sums agree with the map.
    2. Every running unit is owed by exactly one open attempt, and no other unit by a render attempt.
    3. No node is overbooked, and what is free plus what attempts hold is its total.
    4. The money of a node is its attempts' charges, closed ones' charges and idle, exactly.
    5. A step with unmet needs has nothing queued or running.
    6. A queued unit that is leasable is reachable: its step is in its shape's heap, the cursor before it.
    7. Open nodes are online, enabled and have a core free; such nodes are open.
    """
    owned: dict[int, set[int]] = {}
    for attempt in farm.attempts.values():
        _must(attempt.step.attempts.get(attempt.id) is attempt, f"{attempt.address} is unknown to its step")
        _must(attempt.node.attempts.get(attempt.id) is attempt, f"{attempt.address} is unknown to its node")
        if attempt.kind is AttemptKind.VERIFY:
            continue
        mine = owned.setdefault(attempt.step.id, set())
        for unit in attempt.open:
            _must(unit not in mine, f"{attempt.step.address} unit {unit} is leased twice")
            mine.add(unit)
    for step in farm.steps.values():
        _check_step(step, owned.get(step.id, set()))
    for job in farm.jobs.values():
        open_units = sum(sum(step.counts[:3]) for step in job.steps)
        _must(job.open_units == open_units, f"J{job.id} counts {job.open_units} open units, has {open_units}")
    _check_nodes(farm)


def _check_step(step: Step, owned: set[int]) -> None:
    where = step.address
    for state, count in enumerate(step.counts):
        _must(step.state.count(state) == count, f"{where} counts {count} units in state {state}")
    running = {unit for unit, state in enumerate(step.state) if state == RUNNING}
    _must(running == owned, f"{where}: running {sorted(running)} but leased {sorted(owned)}")
    if step.unmet:
        _must(not step.counts[QUEUED] and not step.counts[RUNNING], f"{where} works though a need is unmet")
    for unit, until_us in step.parked.items():
        _must(step.state[unit] == QUEUED, f"{where} unit {unit} is parked but not queued")
        if until_us == 0:
            held = any(unit in attempt.dropped for attempt in step.attempts.values())
            _must(held, f"{where} unit {unit} waits for an attempt that is closed")
    for attempt in step.attempts.values():
        for unit in attempt.dropped:
            if step.state[unit] == QUEUED:
                _must(unit in step.parked, f"{where} unit {unit} may be leased while it may still run")
    first = step.state.find(QUEUED)
    _must(first < 0 or step.cursor <= first, f"{where}: the cursor is past unit {first}")
    if step.leasable() and step.shape is not None:
        _must(step.heap_key == step.order_key(), f"{where} has work but is not in the queue")
        _must(any(entry[4] is step for entry in step.shape.heap), f"{where} is not in its heap")
    if step.satisfied:
        _must(not step.counts[BLOCKED] and step.counts[DONE] <= step.units, f"{where} is not satisfied")


def _check_nodes(farm: Farm) -> None:
    for node in farm.nodes.values():
        if node.forgotten:
            continue
        total = node.facts.total
        cores = sum(attempt.cores for attempt in node.attempts.values())
        ram = sum(attempt.ram_mib for attempt in node.attempts.values())
        gpus = [index for attempt in node.attempts.values() for index in attempt.gpus]
        _must(node.cores_free + cores == total.cores, f"{node.name}: cores do not add up")
        _must(node.ram_free + ram == total.ram_mib, f"{node.name}: memory does not add up")
        _must(len(gpus) == len(set(gpus)), f"{node.name}: a GPU is leased twice")
        _must(not set(gpus) & set(node.gpus_free), f"{node.name}: a leased GPU is free")
        ready = node.state is NodeState.ONLINE and node.enabled and node.cores_free > 0
        _must(ready == (node.id in farm.open_nodes), f"{node.name} is {'not ' * ready}in the open nodes")
        _must(node.idle_nano >= 0 and node.total_nano >= node.idle_nano, f"{node.name}: money below zero")


def check_money(farm: Farm) -> None:
    """Raises Violation unless all nodes' totals equal all charges plus idle, to the nano-USD."""
    total = sum(node.total_nano for node in farm.nodes.values())
    idle = sum(node.idle_nano for node in farm.nodes.values())
    charged = sum(step.spend_nano for step in farm.steps.values())
    charged += sum(attempt.charge_nano for attempt in farm.attempts.values())
    _must(total == idle + charged, f"money: {total} spent, but {charged} charged and {idle} idle")
    for step in farm.steps.values():
        _must(
            0 <= step.waste_nano <= step.spend_nano,
            f"{step.address}: waste {step.waste_nano} of {step.spend_nano}",
        )


_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


def _note(unit: int, note: UnitNote) -> tuple[object, ...]:
    counts = sorted(note.counts.items())
    nodes, short = sorted(note.failed_on), sorted(note.short_on)
    return unit, nodes, counts, note.folders, note.reason, note.failure, note.ram_mib, short


def digest(farm: Farm) -> str:
    """A hash of all state that decides anything: equal for equal histories, also over a restart.

    Left out: what a restart may lawfully change (who is connected, deadlines, specifications that wait
    for their first frame).
    """
    steps = [
        (
            step.id,
            bytes(step.state),
            bytes(step.tries or b"").rstrip(b"\0"),
            step.attempt_no,
            sorted(_note(unit, note) for unit, note in step.notes.items()),
            sorted(step.parked.items()),
            sorted(step.node_failures.items()),
            step.unmet,
            step.satisfied,
            step.done_timed,
            step.busy_us,
            step.spend_nano,
            step.waste_nano,
            step.check_existing,
            known_specs(step),
            step.last_us,
            step.reason,
        )
        for step in farm.steps.values()
    ]  # fmt: skip
    jobs = [
        (
            job.id,
            job.user,
            job.priority,
            job.paused,
            job.paused_by,
            job.reason,
            job.archived,
            job.started_us,
            job.ended_us,
            job.open_units,
        )
        for job in farm.jobs.values()
    ]
    attempts = [
        (
            attempt.id,
            attempt.no,
            attempt.nonce,
            attempt.kind.value,
            attempt.step.id,
            attempt.node.id,
            sorted(attempt.open),
            sorted(attempt.dropped),
            attempt.cores,
            attempt.ram_mib,
            attempt.gpus,
            attempt.share_ppm,
            attempt.started_us,
            attempt.charge_nano,
            attempt.useful_us,
            attempt.wasted,
            attempt.verify.id if attempt.verify is not None else 0,
        )
        for attempt in farm.attempts.values()
    ]
    nodes = [
        (
            node.id,
            node.key,
            node.name,
            node.enabled,
            node.reason,
            node.forgotten,
            node.rate_nano_h,
            node.cores_free,
            node.ram_free,
            node.gpus_free,
            node.meter_on,
            node.meter_rate,
            node.origin_us,
            node.metered_us,
            node.total_nano,
            node.idle_nano,
            node.waste_nano,
        )
        for node in farm.nodes.values()
    ]
    verify = [(v.id, v.step_id, v.units, v.purpose, v.leased) for v in farm.verify.values()]
    numbers = (farm.seq, farm.next_job, farm.next_step, farm.next_attempt, farm.next_node)
    rest = (list(farm.lost.items()), sorted(farm.tokens.items()))
    whole = (numbers, jobs, steps, attempts, nodes, verify, rest)
    return hashlib.sha256(_ENCODE(whole)).hexdigest()

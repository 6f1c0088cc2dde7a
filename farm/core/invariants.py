"""What must hold after every event.  Runs in tests and simulations, not in production."""

from __future__ import annotations

import hashlib

import msgspec

from farm.core import pace
from farm.core.apply import BLOCKED, CANCELED, CLOCK, DONE, FAILED, QUEUED, RUNNING
from farm.core.openings import takes_work, vector
from farm.core.shares import kept_back, over_job_cap
from farm.core.specs import known_specs
from farm.core.state import Farm, Step, UnitNote
from farm.model.moment import read_moment
from farm.model.states import AttemptKind, NodeState

#: States of units that something may still become of.
OPEN = frozenset({BLOCKED, QUEUED, RUNNING, FAILED})


class Violation(AssertionError):
    """An invariant does not hold."""


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def check(farm: Farm) -> None:
    """Raises Violation, naming what is broken.

    1. Every unit is in exactly one state, and the sums agree with the map.
    2. Every running unit is owed by exactly one open attempt, and no other unit by a render attempt.  Beside
       that one at most one second copy runs, of a running unit.
    3. No node is overbooked, what is free plus what attempts hold is its total, and an attempt that renders
       has the GPUs its step asked for.
    4. The money of a node is its attempts' charges, closed ones' charges and idle, exactly.
    5. A unit that waits for anything is neither queued nor running; one that waits for nothing is not
       blocked, unless its existing files are looked at.
    6. A queued unit that is leasable is reachable, the cursor before it: its step is in its shape's heap,
       where its rank and its job's say, or kept back by a cap that would refuse it now, and whose cores
       attempts hold: their end wakes it.
    7. Nodes that take work are in the bucket of what they have free; no others are in any.
    8. What attempts hold of caps and limits adds up; nothing is leased beyond a limit's total by its rule.
    9. A reserved node is known to its reservation and the other way round.
    """
    owned: dict[int, set[int]] = {}
    seconds = 0
    for attempt in farm.attempts.values():
        if attempt.kind in (AttemptKind.RENDER, AttemptKind.COPY):
            # No test changes how many a step asks for while it runs.
            asked = attempt.step.resources.gpus
            _must(len(attempt.gpus) == asked, f"{attempt.address} has {len(attempt.gpus)} GPUs, not {asked}")
        _must(attempt.step.attempts.get(attempt.id) is attempt, f"{attempt.address} is unknown to its step")
        _must(attempt.node.attempts.get(attempt.id) is attempt, f"{attempt.address} is unknown to its node")
        if attempt.kind is AttemptKind.VERIFY:
            continue
        mine = owned.setdefault(attempt.step.id, set())
        for unit in attempt.open:
            if attempt.step.copies.get(unit) is attempt:
                seconds += 1
                _must(attempt.kind is AttemptKind.COPY, f"{attempt.address} is no copy of unit {unit}")
                continue
            _must(unit not in mine, f"{attempt.step.address} unit {unit} is leased twice")
            mine.add(unit)
    looked = {(r.step_id, unit) for r in farm.verify.values() if r.purpose == "skip" for unit in r.units}
    for step in farm.steps.values():
        _check_step(farm, step, owned.get(step.id, set()))
        _check_needs(step, looked)
        waits = step.copy_waits.keys() - step.copies.keys()
        _must(not waits, f"{step.address}: {waits} wait as copies but are none")
    copies = sum(len(step.copies) for step in farm.steps.values())
    _must(seconds == copies, f"{copies} units have a second copy, but {seconds} copies run")
    for job in farm.jobs.values():
        open_units = sum(sum(step.counts[:3]) for step in job.steps)
        _must(job.open_units == open_units, f"J{job.id} counts {job.open_units} open units, has {open_units}")
    starts = sorted((read_moment(j.start_after), j.id) for j in farm.jobs.values() if j.paused_by == CLOCK)
    _must(farm.starts == starts, f"jobs start at {farm.starts}, should at {starts}")
    _check_nodes(farm)
    _check_holdings(farm)


def _check_holdings(farm: Farm) -> None:
    """Caps and limits."""
    cores: dict[int, int] = {}
    users: dict[str, int] = {}
    tokens: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for attempt in farm.attempts.values():
        cores[attempt.step.job.id] = cores.get(attempt.step.job.id, 0) + attempt.cores
        users[attempt.user] = users.get(attempt.user, 0) + attempt.cores
        for name, count in attempt.limits:
            if farm.limits[name].per_node:
                if (name, attempt.node.id) in seen:
                    continue
                seen.add((name, attempt.node.id))
            tokens[name] = tokens.get(name, 0) + count
    for job in farm.jobs.values():
        _must(job.cores == cores.get(job.id, 0), f"J{job.id} counts {job.cores} cores held")
    for user, holder in farm.holders.items():
        _must(all(line.held for line in holder.kept), f"{user or 'nobody'} has lines that nothing keeps back")
        _must(holder.cores == users.get(user, 0), f"{user or 'nobody'} counts {holder.cores} cores held")
    for name, limit in farm.limits.items():
        _must(
            limit.used == tokens.get(name, 0),
            f"limit {name}: {limit.used} counted, {tokens.get(name, 0)} held",
        )
    for kept in farm.reservations.values():
        _must(farm.nodes[kept.node_id].reserved is kept, f"step {kept.step_id} has no node reserved")


def _check_step(farm: Farm, step: Step, owned: set[int]) -> None:
    where = step.address
    for state, count in enumerate(step.counts):
        _must(step.state.count(state) == count, f"{where} counts {count} units in state {state}")
    if step.counts[RUNNING] != len(owned) or any(step.state[unit] != RUNNING for unit in owned):
        running = [unit for unit, state in enumerate(step.state) if state == RUNNING]
        raise Violation(f"{where}: running {running} but leased {sorted(owned)}")
    for unit, until_us in step.parked.items():
        _must(step.state[unit] == QUEUED, f"{where} unit {unit} is parked but not queued")
        if until_us == 0:
            held = any(unit in attempt.dropped for attempt in step.attempts.values())
            _must(held, f"{where} unit {unit} waits for an attempt that is closed")
    for attempt in step.attempts.values():
        for unit in attempt.dropped:
            if step.state[unit] == QUEUED:
                _must(unit in step.parked, f"{where} unit {unit} may be leased while it may still run")
    _must(len(step.state) == step.units, f"{where} has {len(step.state)} bytes for {step.units} units")
    _must(step.frames is None or len(step.frames) == step.units, f"{where}: frames and units differ")
    wanted = set(step.wanted_units()) if step.wanted is not None else None
    unwanted = [(u, s) for u, s in enumerate(step.state) if u not in wanted] if wanted is not None else []
    left_out = sum(state == CANCELED for _, state in unwanted)
    _must(step.left_out == left_out, f"{where} leaves out {left_out} units, not {step.left_out}")
    open_units = [unit for unit, state in unwanted if state in OPEN]
    _must(not open_units, f"{where}: units {open_units} are open though nobody wants them")
    _check_sequence(step)
    ranks, told = (step.job.rank, step.rank), (step.job.spec.rank, step.spec.rank)
    _must(ranks == told, f"{where} has ranks {ranks}, its record says {told}")
    if step.leasable() and step.shape is not None:
        job, line = step.job, step.line
        if step.id in job.capped or (line is not None and line.held):
            of_job = step.id in job.capped
            _must(over_job_cap(step) if of_job else line in job.holder.kept, f"{where} waits for no cap")
            _must(bool(kept_back(farm, step)), f"{where} is kept back though its cap has room")
        else:
            _must(line is not None, f"{where} has work but is not in the queue")
            _must(any(other is step for other in step.shape.queue.waiting()), f"{where} is not in its queue")
            place = (job.rank, job.id, step.rank, step.index, step.id, step)
            _must(step.ticket == place, f"{where} waits at {step.ticket}, not where its ranks say")
            shape = step.shape
            _must(shape.id in farm.busy, f"{where} waits in a shape that nobody looks at")
            lined = shape.lined is not None or any(
                shape.id in known for known in (farm.fresh, farm.unable, farm.misfits)
            )
            _must(lined, f"{where} waits in a shape that is not in the line-up")
    if step.satisfied:
        _must(not step.counts[BLOCKED] and step.counts[DONE] <= step.units, f"{where} is not satisfied")


def _check_needs(step: Step, looked: set[tuple[int, int]]) -> None:
    where = step.address
    _must(not step.touched and step.before is None, f"{where}: its dependants were not told of changes")
    whole = [edge for edge in step.needs if not edge.by_frame]
    for edge in whole:
        _must(edge.met is edge.holds(), f"{where} was not told of {edge.need.address}")
    _must(step.unmet == sum(not edge.met for edge in whole), f"{where} miscounts what it waits for")
    by_frame = [edge for edge in step.needs if edge.by_frame]
    _must(step.frame_needs == by_frame, f"{where} lacks needs by frame")
    if by_frame or step.counts[BLOCKED] or step.unmet:
        for unit, state in enumerate(step.state):
            if state in (QUEUED, RUNNING):
                _must(not step.waits(unit), f"{where} unit {unit} works though a need is unmet")
            elif state == BLOCKED and (step.id, unit) not in looked:
                _must(step.waits(unit), f"{where} unit {unit} is blocked though it waits for nothing")
    dropping = {attempt.id for attempt in step.attempts.values() if attempt.dropped}
    _must(set(step.dropping) == dropping, f"{where}: {step.dropping} had units taken from, not {dropping}")


def _check_sequence(step: Step) -> None:
    if step.sequence_of is not step.spec:
        return  # nothing was looked for since it came, or was changed: the cursor starts anew
    states, where = bytes(step.state), step.address
    sequence = step.sequence
    if sequence is not None:
        places = sequence.places
        _must(sorted(sequence.units) == list(range(step.units)), f"{where}: its order lacks units")
        _must([sequence.units[place] for place in places] == list(range(step.units)), f"{where}: its places")
        states = bytes(sequence.states)
        _must(states == bytes(step.state[unit] for unit in sequence.units), f"{where}: its order lags behind")
    first = states.find(QUEUED)
    _must(first < 0 or step.cursor <= first, f"{where}: the cursor is past place {first}")


def _check_nodes(farm: Farm) -> None:
    named = {number: name for name, nodes in farm.node_names.items() for number in nodes}
    _must(named == {node.id: node.name for node in farm.nodes.values()}, "the index of nodes' names is wrong")
    for shape in farm.misfits.values():
        tried = [bucket for bucket in farm.buckets.values() if bucket.misfits >= shape.misfit]
        fits = any(bucket.scores.get(shape.id) is not None for bucket in tried)
        _must(not fits, f"shape {shape.id} fits a free node, but nobody looks at it")
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
        ready = takes_work(node)
        _must(ready == (node.bucket is not None), f"{node.name} is {'not ' * ready}in a bucket")
        if node.bucket is not None:
            _must(node.bucket.key == vector(node), f"{node.name} is in the wrong bucket")
            _must(
                farm.buckets.get(node.bucket.key) is node.bucket, f"the bucket of {node.name} is not in use"
            )
            _must(node.bucket.nodes.get(node.id) is node, f"{node.name} is unknown to its bucket")
        live = node.enabled and node.state in (NodeState.ONLINE, NodeState.SUSPECT)
        _must(live is node.live and live == (node.id in node.klass.live), f"{node.name}: in service or not?")
        disk = sum(attempt.disk_mib for attempt in node.attempts.values())
        _must(node.disk_free + disk == total.disk_mib, f"{node.name}: disk does not add up")
        held: dict[str, int] = {}
        for attempt in node.attempts.values():
            for name, count in attempt.tokens.items():
                held[name] = held.get(name, 0) + count
        for name in total.tokens.keys() | held.keys():
            free = node.tokens_free.get(name, 0)
            _must(free + held.get(name, 0) == total.tokens.get(name, 0), f"{node.name}: {name} do not add up")
            _must(free >= 0, f"{node.name}: {-free} {name} too many are leased")
        _must(node.cores_free >= 0, f"{node.name}: {-node.cores_free} cores too many are leased")
        _must(node.ram_free >= 0, f"{node.name}: {-node.ram_free} MiB of memory too many are leased")
        _must(node.disk_free >= 0, f"{node.name}: {-node.disk_free} MiB of disk too many are leased")
        kept = node.reserved
        _must(kept is None or farm.reservations.get(kept.step_id) is kept, f"{node.name}: who reserved it?")
        _must(node.idle_nano >= 0 and node.total_nano >= node.idle_nano, f"{node.name}: money below zero")


def check_money(farm: Farm) -> None:
    """Raises Violation unless all nodes' totals equal all charges plus idle, to the nano-USD."""
    total = sum(node.total_nano for node in farm.nodes.values())
    idle = sum(node.idle_nano for node in farm.nodes.values())
    charged = sum(step.spend_nano for step in farm.steps.values())
    charged += sum(attempt.charge_nano for attempt in farm.attempts.values())
    charged += farm.shelved.spend_nano
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
    memory = (note.ram_mib, short, note.vram_mib)
    return unit, nodes, counts, note.folders, note.reason, note.failure, *memory


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
            str(step.frames),
            str(step.wanted),
            step.left_out,
            msgspec.json.encode(step.spec),
            pace.state_of(step),
            sorted((unit, copy.id) for unit, copy in step.copies.items()),
        )
        for step in farm.steps.values()
    ]  # fmt: skip
    jobs = [
        (
            job.id,
            job.user,
            job.priority,
            job.rank,
            job.source,
            job.start_after,
            job.scouting,
            job.project,
            job.max_cores,
            job.cores,
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
            attempt.disk_mib,
            sorted(attempt.tokens.items()),
            attempt.limits,
            attempt.rate,
            attempt.charged,
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
            node.disk_free,
            sorted(node.tokens_free.items()),
            node.gpus_free,
            node.meter_on,
            node.meter_rate,
            node.origin_us,
            node.metered_us,
            node.total_nano,
            node.idle_nano,
            node.waste_nano,
            node.slow,
            sorted(node.blame.items()),
            node.speed,
        )
        for node in farm.nodes.values()
    ]
    accounts = [
        (a.name, a.level, a.credit, a.used, a.number) for a in (*farm.projects.values(), *farm.users.values())
    ]
    limits = sorted((n, x.used, x.total, sorted(x.nodes.items())) for n, x in farm.limits.items())
    shares = (
        farm.share_origin_us,
        farm.half_life_us,
        accounts,
        limits,
        sorted((h.user, h.cores) for h in farm.holders.values() if h.cores),
    )
    verify = [(v.id, v.step_id, v.units, v.purpose, v.leased) for v in farm.verify.values()]
    numbers = (farm.seq, farm.next_job, farm.next_step, farm.next_attempt, farm.next_node, farm.next_account)
    rest = (list(farm.lost.items()), sorted(farm.tokens.items()), farm.shelved.dump())
    whole = (numbers, jobs, steps, attempts, nodes, verify, rest)
    plain = repr(shares) + str(msgspec.json.encode(farm.policy))
    return hashlib.sha256(_ENCODE(whole) + plain.encode()).hexdigest()

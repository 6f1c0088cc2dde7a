"""People submit, change and delete jobs, act on nodes and change the policy, rightly and wrongly.

What belongs here: operations of users and wranglers (each takes a ``random.Random`` for its choices), and
what their answers must say.  What it may not know: agents, beyond that a forgotten one has to join anew.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec

from farm.core.events import ActEvent, CheckpointEvent, DeleteEvent, NodeActEvent, PolicyEvent, SubmitEvent
from farm.core.state import Step
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec
from farm.model.states import UnitState
from tests.support.core_account import must
from tests.support.core_stage import Stage
from tests.support.core_world import make_job, moment


class People(Stage):
    """A farm that people use."""

    def submit(self, rng: random.Random) -> None:
        """A job arrives; now and then with a token or files that are taken."""
        spec: JobSpec = make_job(rng, self)
        apps = tuple("blender" if step.renderer == "blender" else "" for step in spec.steps)
        whole = tuple(step.renderer == "whole" for step in spec.steps)
        known = self.tokens.get((spec.user, spec.token)) if spec.token else None
        force = rng.random() < 0.8
        out = self.handle(SubmitEvent(self.now_us, spec, msgspec.json.encode(spec), apps, whole, force))
        if out is not None:
            must(out.reply.again == (known is not None), "a known token made a second job")
            must(known is None or out.reply.job == known, "a known token gave another job")
            self.tokens[spec.user, spec.token] = out.reply.job
            must(out.reply.again or out.reply.job > self.last_job, "a number was given twice")
            self.last_job = max(self.last_job, out.reply.job)

    def act(self, rng: random.Random) -> None:
        """A user acts on work."""
        jobs = list(self.core.farm.jobs.values())
        if not jobs:
            return
        busy = [job for job in jobs if any(UnitState.RUNNING in step.state for step in job.steps)]
        job = rng.choice(busy if busy and rng.random() < 0.6 else jobs[-6:])
        action = rng.choice(
            (
                "retry",
                "cancel",
                "pause",
                "resume",
                "resume",
                "cancel",
                "retry",
                "retry",
                "skip",
                "mark-done",
                "priority",
                "archive",
                "requeue",
                "requeue",
                "next",
                "next",
                "last",
                "eat",
            )
        )
        name, frames, value, low = "", "", "", 0
        wanted = {
            "retry": (3, 4, 6),
            "skip": (0, 1, 4),
            "mark-done": (2, 4),
            "cancel": (1, 2),
            "requeue": (2,),
            "next": (0, 1),
            "last": (0, 1),
        }.get(action, ())
        likely = [(s, u) for s in job.steps for u, state in enumerate(s.state) if state in wanted]
        step = rng.choice(job.steps)
        if likely and rng.random() < 0.8:
            step, low = rng.choice(likely)
        if action in ("next", "last") and rng.random() < 0.4:
            pass  # the job as a whole
        elif wanted and rng.random() < 0.9:
            name = step.spec.name if rng.random() < 0.95 else "nothing"
            if step.frames is not None and rng.random() < 0.8:
                high = min(step.units, low + rng.randrange(1, 4))
                numbers = [step.frames.frame_at(unit) for unit in range(low, high)]
                frames = ",".join(map(str, numbers if rng.random() < 0.95 else [*numbers, 99]))
        if action == "priority":
            value = rng.choice(("0", "10", "50", "90", "100", "101", "high"))
        before = {one.id: bytes(one.state) for one in job.steps}
        tries = {one.id: bytes(one.tries or b"") for one in job.steps}
        out = self.handle(ActEvent(self.now_us, action, job.id, name, frames, value, "", "ann"))
        if out is not None:
            self.truth.seen[action] += 1
        if out is not None and action == "requeue":
            for one in job.steps:
                must(bytes(one.tries or b"") == tries[one.id], f"{one.address}: being stopped cost a try")
        if out is not None and action in ("next", "last") and not name:
            sign = 1 if action == "last" else -1
            for other in jobs:
                same = (other.user, other.project, other.priority) == (job.user, job.project, job.priority)
                ahead = other is job or not (same and other.open_units) or sign * job.rank > sign * other.rank
                must(ahead, f"J{job.id} was to run {action} and J{other.id} is beyond it")
        if out is not None and action == "mark-done":
            for one in [step] if name else job.steps:
                state = before[one.id]
                units: Iterable[int] = range(one.units)
                if frames and one.frames is not None:
                    units = map(one.frames.index_of, FrameRange.parse(frames))
                self.truth.marked.update((one.id, unit) for unit in units if state[unit] != UnitState.DONE)

    def edit(self, rng: random.Random) -> None:
        """A user changes a job or a step: mostly frames, which come and go."""
        jobs = list(self.core.farm.jobs.values())[-8:]
        if not jobs:
            return
        job = rng.choice(jobs)
        step = rng.choice(job.steps)
        values: dict[str, Any] = {}
        name = ""
        if rng.random() < 0.3:
            key = rng.choice(("name", "project", "priority", "rank", "start_after", "start_after", "nothing"))
            later = moment(self.now_us + rng.choice((15, 60)) * 1_000_000)
            new = {
                "project": ("", "film"),
                "priority": (10, 50, 90, 101),
                "rank": (0, -2, "3", "first"),
                "start_after": ("", later, "soon"),
            }
            values[key] = rng.choice(new.get(key, ("a", "b")))
        else:
            name = step.spec.name
            if step.frames is not None and rng.random() < 0.8:
                values["frames"] = self._other_frames(step, rng)
            if rng.random() < 0.2:
                values[rng.choice(("first", "last"))] = rng.choice(("", "3,2", "1-4", "99"))
            if rng.random() < 0.1:
                values["rank"] = rng.choice((-1, 0, 2))
            if rng.random() < 0.3:
                values["chunk"] = rng.choice(("auto", 1, 2, 0))
            if rng.random() < 0.3:
                values["resources.cores"] = rng.choice((1, 2))
            if rng.random() < 0.2:
                values["resources.ram_mib"] = rng.choice((0, 1_024, 2_048))
            if rng.random() < 0.2 and step.spec.renderer == "command" and not step.resources.gpus:
                values["pools"] = rng.choice(("", "film"))
        text = msgspec.json.encode(values).decode()
        out = self.handle(ActEvent(self.now_us, "set", job.id, name, "", text, "", "ann"))
        if out is not None:
            self.truth.seen["edit"] += 1
            self.truth.seen["frames"] += "frames" in values
            wanted = step.spec.frame_range()
            if "frames" in values and wanted is not None:
                assert step.frames is not None
                for unit, state in enumerate(step.state):
                    idle = state not in (UnitState.DONE, UnitState.SKIPPED, UnitState.CANCELED)
                    must(
                        not idle or step.frames.frame_at(unit) in wanted,
                        f"{step.address} goes on with frames nobody wants",
                    )

    @staticmethod
    def _other_frames(step: Step, rng: random.Random) -> str:
        assert step.frames is not None
        frames = list(step.wanted or step.frames)
        kind = rng.randrange(4)
        if kind == 0:
            frames = [frame for frame in frames if rng.random() < 0.6] or frames[:1]
        elif kind == 1:
            frames += [rng.randrange(-3, 14) for _ in range(rng.randrange(1, 4))]
        elif kind == 2:
            frames = [*step.frames]
        else:
            frames = [*range(rng.randrange(1, 4), rng.randrange(4, 12))]
        return str(FrameRange.from_frames(frames))

    def policy(self, rng: random.Random) -> None:
        """A wrangler changes how the farm shares itself."""
        users = {name: rng.choice((1, 2, 5)) for name in ("ann", "bob") if rng.random() < 0.6}
        projects = {"film": rng.choice((1, 3))} if rng.random() < 0.5 else {}
        policy = msgspec.structs.replace(self.core.farm.policy, users=users, projects=projects)
        self.handle(PolicyEvent(self.now_us, policy, "", "wim"))
        self.truth.seen["policy"] += 1

    def node_act(self, rng: random.Random) -> None:
        """A wrangler acts on a node."""
        action = rng.choice(("node-drain", "node-enable", "node-enable", "node-forget", "node-paint"))
        number = rng.randrange(1, 7)
        out = self.handle(NodeActEvent(self.now_us, action, number, "", "wim"))
        if out is not None and action == "node-forget":
            for agent in self.agents:
                if agent.node_id == number:
                    agent.node_id = agent.session = 0
                    self.sessions.pop(agent.key, None)

    def delete(self, rng: random.Random) -> None:
        """Somebody deletes a job, be it in memory or in the archive."""
        numbers = range(max(1, self.core.farm.next_job - 8), self.core.farm.next_job + 1)
        resting = [job.id for job in self.core.farm.jobs.values() if not job.open_units]
        number = rng.choice(resting if resting and rng.random() < 0.5 else numbers)
        shelf = None if number in self.core.farm.jobs else self.store.shelf(number)
        if number in self.core.farm.shelved.clearing:
            shelf = None  # as the broker does: its row goes with the next checkpoint
        out = self.handle(DeleteEvent(self.now_us, number, "", "ann", shelf))
        if out is None:
            return
        must(number not in self.core.farm.jobs, f"J{number} was deleted and is there")
        self.tokens = {key: known for key, known in self.tokens.items() if known != number}
        self.truth.seen["deleted"] += 1
        if rng.random() < 0.5:
            self.handle(CheckpointEvent(self.now_us))
            must(self.store.shelved_job(number) is None, f"J{number} was deleted and is in the archive")

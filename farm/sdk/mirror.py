"""A small copy of what a client follows: jobs, nodes and the unit states of steps.

What belongs here: applying a snapshot and numbered deltas.  What must not: sockets, or how it is shown.
Gaps in the numbers are the session's to find (``farm.protocol.session``); it then asks for a new snapshot.
"""

from __future__ import annotations

import re

from farm.protocol.client import DeltaMsg, JobRow, NodeRow, SnapshotMsg

_GONE_JOB = re.compile(r"J(\d+)(/.+)?\Z")


class Mirror:
    """State of the followed topics as of the last message.

    Attributes:
        jobs: By job number.
        nodes: By node id.
        maps: Per step address (``J12/beauty``): one byte a unit, its UnitState.
        trouble: Why nothing comes at the moment, empty while connected.
        changed_jobs: Jobs the last message changed, added or removed.
        changed_nodes: Nodes it changed, added or removed.
        changed_steps: Addresses of steps of which it changed units.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.nodes: dict[int, NodeRow] = {}
        self.maps: dict[str, bytearray] = {}
        self.trouble = ""
        self.changed_jobs: set[int] = set()
        self.changed_nodes: set[int] = set()
        self.changed_steps: set[str] = set()

    def snapshot(self, message: SnapshotMsg) -> None:
        """Replaces everything."""
        self.jobs = {row.job: row for row in message.jobs}
        self.nodes = {row.node: row for row in message.nodes}
        self.maps = {step: bytearray(states) for step, states in message.maps.items()}
        self.trouble = ""
        self.changed_jobs = set(self.jobs)
        self.changed_nodes = set(self.nodes)
        self.changed_steps = set(self.maps)

    def delta(self, message: DeltaMsg) -> None:
        """Applies changes.

        A unit beyond its step's map is dropped: the step was not followed when the snapshot was made.
        """
        self.trouble = ""
        self.changed_jobs = {row.job for row in message.jobs}
        self.changed_nodes = {row.node for row in message.nodes}
        self.changed_steps = set()
        self.jobs.update((row.job, row) for row in message.jobs)
        self.nodes.update((row.node, row) for row in message.nodes)
        for change in message.units:
            states = self.maps.get(change.step)
            if states is not None and 0 <= change.unit < len(states):
                states[change.unit] = change.state
                self.changed_steps.add(change.step)
        for name in message.gone:
            self._forget(name)

    def _forget(self, name: str) -> None:
        job = _GONE_JOB.match(name)
        if job is not None:
            number = int(job[1])
            if job[2] is None:
                self.jobs.pop(number, None)
                self.changed_jobs.add(number)
            self.maps = {step: states for step, states in self.maps.items() if not _within(step, name)}
            return
        for node in [
            node for node, row in self.nodes.items() if name in (row.name, f"node:{node}", f"N{node}")
        ]:
            del self.nodes[node]
            self.changed_nodes.add(node)


def _within(step: str, address: str) -> bool:
    return step == address or step.startswith(address + "/")

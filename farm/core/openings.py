"""Which nodes take work now, sorted by what they have free, so that no search looks at every node.

What belongs here: the index and the one function that keeps it true.  What may not: which work goes where.

Nodes that are the same to every shape (same class, same free amounts) share a bucket.  What fits a bucket,
and how well, is worked out once per bucket and shape and kept: a farm of ten thousand idle nodes has a few
buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.model.states import NodeState

if TYPE_CHECKING:
    from farm.core.state import Farm, Node, NodeClass

_ONLINE, _SUSPECT = NodeState.ONLINE, NodeState.SUSPECT
#: Why a node starts nothing whose agent said that it ends.
ENDING = "is ending: its agent takes no more work"
#: Emptied buckets kept for when nodes come back to the same amounts.
KEPT = 20_000


class Bucket:
    """Nodes that are the same to every shape now.

    Attributes:
        nodes: By id, in the order they came.
        scores: By shape number: how well the shape fits (smaller is better), None = it does not.
        misfits: So many shapes had been found to fit no free node when all of those were last tried here.
    """

    __slots__ = ("key", "klass", "misfits", "nodes", "scores")

    def __init__(self, key: tuple[object, ...], klass: NodeClass) -> None:
        self.key = key
        self.klass = klass
        self.nodes: dict[int, Node] = {}
        self.scores: dict[int, tuple[int, ...] | None] = {}
        self.misfits = 0


def takes_work(node: Node) -> bool:
    """Whether a node may be leased anything now: in service, within its hours, with room."""
    slots = node.settings.slots
    return (
        node.state is _ONLINE
        and node.enabled
        and node.cores_free > 0
        and not node.closed
        and not (slots and len(node.attempts) >= slots)
    )


def refresh(farm: Farm, node: Node) -> None:
    """Puts a node into the bucket it belongs to, or out of all; called after every change of a node."""
    live = node.enabled and (node.state is _ONLINE or node.state is _SUSPECT)
    if live is not node.live:
        node.live = live
        farm.live_version += 1
        if live:
            node.klass.live[node.id] = node
        else:
            node.klass.live.pop(node.id, None)
    settle(farm, node)


def settle(farm: Farm, node: Node) -> None:
    """As ``refresh``, for a node whose attempts alone changed."""
    bucket, attempts, slots = node.bucket, node.attempts, node.settings.slots
    # As ``takes_work`` says, written out: this runs twice a frame.
    if (
        node.cores_free <= 0
        or node.state is not _ONLINE
        or not node.enabled
        or node.closed
        or (slots and len(attempts) >= slots)
    ):
        if bucket is not None:
            _leave(farm, node, bucket)
        return
    if bucket is None and not attempts:
        # A node that ended its only attempt, as most do: as a rule others of its class are idle too.
        home = node.klass.home
        if home is not None and home.nodes:
            home.nodes[node.id] = node
            node.bucket = home
            return
    key = vector(node)
    if bucket is not None:
        if bucket.key == key:
            return
        _leave(farm, node, bucket)
    found = farm.buckets.get(key)
    if found is None:
        found = farm.empty_buckets.pop(key, None) or Bucket(key, node.klass)
        farm.buckets[key] = found
        if not node.attempts:
            node.klass.home = found
    found.nodes[node.id] = node
    node.bucket = found


def _leave(farm: Farm, node: Node, bucket: Bucket) -> None:
    node.bucket = None
    del bucket.nodes[node.id]
    if not bucket.nodes:
        del farm.buckets[bucket.key]
        if len(farm.empty_buckets) >= KEPT:
            farm.empty_buckets.clear()
        farm.empty_buckets[bucket.key] = bucket


def vector(node: Node) -> tuple[object, ...]:
    """What decides which shapes fit a node."""
    if not node.attempts:
        # An empty node is as its class says; the tuple is kept.
        return node.klass.whole
    return (
        node.klass.id,
        node.cores_free,
        node.ram_free,
        node.disk_free,
        free_vram(node) if node.gpus_free else (),
        tuple(sorted(node.tokens_free.items())) if node.tokens_free else (),
        False,
    )


def free_vram(node: Node) -> tuple[int, ...]:
    """Memory of the node's free GPUs in MiB, smallest first."""
    free = set(node.gpus_free)
    return tuple(sorted(gpu.vram_mib for gpu in node.facts.gpus if gpu.index in free))

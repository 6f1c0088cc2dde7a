"""Resources a step asks for and a node offers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from farm.model.errors import CallError

NvLink = Literal["none", "prefer", "require"]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """An amount of each resource, asked for or offered.

    Attributes:
        cores: CPU cores (logical processors).
        ram_mib: Memory in MiB.
        gpus: Whole GPUs, as a count.
        vram_mib: Memory in MiB that each of those GPUs must have.
        nvlink: Whether the GPUs must be NVLink peers.
        disk_mib: Scratch disk in MiB.
        tokens: Custom countable things a node has (``{"fx-card": 1}``), by name.
    """

    cores: _Count = 1
    ram_mib: _Count = 0
    gpus: _Count = 0
    vram_mib: _Count = 0
    nvlink: NvLink = "none"
    disk_mib: _Count = 0
    tokens: dict[str, _Count] = {}

    def key(self) -> tuple[object, ...]:
        """What tells it from other amounts, as a value that can be a dictionary's key."""
        return (
            self.cores,
            self.ram_mib,
            self.gpus,
            self.vram_mib,
            self.nvlink,
            self.disk_mib,
            tuple(sorted(self.tokens.items())),
        )

    def fits(self, free: Resources) -> bool:
        """Whether this request fits in ``free`` (VRAM is a floor per GPU, not a sum)."""
        return (
            self.cores <= free.cores
            and self.ram_mib <= free.ram_mib
            and self.gpus <= free.gpus
            and (self.gpus == 0 or self.vram_mib <= free.vram_mib)
            and self.disk_mib <= free.disk_mib
            and all(count <= free.tokens.get(name, 0) for name, count in self.tokens.items())
        )


def dominant_share_ppm(asked: Resources, total: Resources) -> int:
    """The largest of the asked shares of ``total``, in parts per million.

    The money meter splits a node's cost by it (dominant resource share, Ghodsi et al. 2011).
    A request that asks for nothing measurable counts as one millionth, so that a zero-resource
    attempt on an otherwise empty node carries that node's cost.
    """
    best = 1
    if total.cores:
        best = max(best, asked.cores * 1_000_000 // total.cores)
    if total.ram_mib:
        best = max(best, asked.ram_mib * 1_000_000 // total.ram_mib)
    if total.gpus:
        best = max(best, asked.gpus * 1_000_000 // total.gpus)
    if total.disk_mib:
        best = max(best, asked.disk_mib * 1_000_000 // total.disk_mib)
    for name, count in asked.tokens.items():
        if total.tokens.get(name):
            best = max(best, count * 1_000_000 // total.tokens[name])
    return min(best, 1_000_000)


def split_slices(total: Resources, agents: int) -> list[Resources]:
    """Splits a machine evenly into ``agents`` slices; leftovers go to the first ones.

    Raises:
        CallError: Fewer cores than agents, so that a slice would be empty.
    """
    if agents < 1:
        raise CallError(f"--agents must be at least 1, not {agents}")
    if total.cores < agents:
        raise CallError(f"{agents} agents need at least {agents} cores; this machine has {total.cores}")

    def part(amount: int, index: int) -> int:
        return amount // agents + (1 if index < amount % agents else 0)

    return [
        Resources(
            cores=part(total.cores, i),
            ram_mib=part(total.ram_mib, i),
            gpus=part(total.gpus, i),
            vram_mib=total.vram_mib if part(total.gpus, i) else 0,
            disk_mib=part(total.disk_mib, i),
            tokens={name: part(count, i) for name, count in total.tokens.items() if part(count, i)},
        )
        for i in range(agents)
    ]

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
    """

    cores: _Count = 1
    ram_mib: _Count = 0
    gpus: _Count = 0
    vram_mib: _Count = 0
    nvlink: NvLink = "none"

    def fits(self, free: Resources) -> bool:
        """Whether this request fits in ``free`` (VRAM is a floor per GPU, not a sum)."""
        return (
            self.cores <= free.cores
            and self.ram_mib <= free.ram_mib
            and self.gpus <= free.gpus
            and (self.gpus == 0 or self.vram_mib <= free.vram_mib)
        )

    def minus(self, other: Resources) -> Resources:
        """What is left after ``other`` was taken; never below zero by contract of the caller."""
        return Resources(
            cores=self.cores - other.cores,
            ram_mib=self.ram_mib - other.ram_mib,
            gpus=self.gpus - other.gpus,
            vram_mib=self.vram_mib,
        )

    def plus(self, other: Resources) -> Resources:
        """The sum of both (VRAM stays this one's floor per GPU)."""
        return Resources(
            cores=self.cores + other.cores,
            ram_mib=self.ram_mib + other.ram_mib,
            gpus=self.gpus + other.gpus,
            vram_mib=self.vram_mib,
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
        )
        for i in range(agents)
    ]

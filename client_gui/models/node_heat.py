"""What a tile of a node shows: a figure from 0 to 1, a short text, and which group it stands in.

What belongs here: the choices, worked out of a row.  What may not: painting and places.
"""

from __future__ import annotations

from enum import StrEnum

from client_gui.models.column import Level, Reading
from client_gui.models.node_columns import cores_level, cpu_level, gpu_level, ram_level, state_of, vram_level


class Heat(StrEnum):
    """What tiles are coloured by."""

    STATE = "state"
    CORES = "cores"
    RAM = "RAM"
    CPU = "CPU"
    GPU = "GPU"
    VRAM = "VRAM"


class GroupBy(StrEnum):
    """What tiles are grouped by."""

    POOL = "pool"
    SITE = "site"
    STATE = "state"


_LEVELS = {
    Heat.CORES: cores_level,
    Heat.RAM: ram_level,
    Heat.CPU: cpu_level,
    Heat.GPU: gpu_level,
    Heat.VRAM: vram_level,
}


def level_of(heat: Heat, reading: Reading, slot: int) -> Level:
    """The figure of a tile, with its text; by state there is only the text."""
    if heat is Heat.STATE:
        return Level(None, state_of(reading, slot))
    return _LEVELS[heat](reading, slot)


def group_of(by: GroupBy, reading: Reading, slot: int) -> str:
    """The group a node stands in."""
    if by is GroupBy.STATE:
        return state_of(reading, slot)
    return str(reading.get(slot, by.value) or "") or f"no {by.value}"

"""What is known of a node: the facts its agent tells and how busy it is."""

from __future__ import annotations

import msgspec

from farm.model.resources import Resources


class GpuInfo(msgspec.Struct, frozen=True):
    """One GPU of a node: CUDA index, UUID, name and memory in MiB."""

    index: int
    uuid: str
    name: str
    vram_mib: int


class AppInfo(msgspec.Struct, frozen=True):
    """An installed application: name and version."""

    name: str
    version: str


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says of its slice of a machine.

    Attributes:
        name: Name people see, unique among live nodes (``host`` or ``host-2``).
        host: Host name.
        machine: Hashed machine id; a rebuilt machine is a new node.
        total: The slice's resources.
        gpus: GPUs of the slice.
        apps: Installed applications; several versions of one allowed.
        renderers: Renderers the agent's administrator allows and that can run here.
        attributes: Free attributes (``os=linux`` and the administrator's own).
        slice: Which slice of the machine this is, from 0; a key may have one node per slice.
        slices: How many agents share the machine's rate evenly.
        software: Version of Overcrank.
    """

    name: str
    host: str = ""
    machine: str = ""
    total: Resources = Resources()
    gpus: tuple[GpuInfo, ...] = ()
    apps: tuple[AppInfo, ...] = ()
    renderers: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    slice: int = 0
    slices: int = 1
    software: str = ""


class NodeLoad(msgspec.Struct, frozen=True):
    """How busy the machine is: CPU in percent of all cores, memory available, disk free, in MiB."""

    cpu_percent: float = 0.0
    ram_free_mib: int = 0
    disk_free_mib: int = 0


class AttemptProgress(msgspec.Struct, frozen=True, array_like=True):
    """Attempt id, unit being rendered (-1 = none), part done of it, peak memory of the tree in MiB."""

    attempt: int
    unit: int = -1
    fraction: float = 0.0
    ram_mib: int = 0

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
        updates: Whether its administrator configured a command that updates it.
        update_no: The roll-out it last ran that command for, 0 = none.
        update_failure: Why that failed, "" = it ended well.
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
    updates: bool = False
    update_no: int = 0
    update_failure: str = ""


class RateFrom(msgspec.Struct, frozen=True, array_like=True):
    """A rate in nano-USD per hour, valid from a time (microseconds since the epoch)."""

    from_us: int
    nano_h: int


class UpdateMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a roll-out of another version means for a node; the last one stays until the next.

    Attributes:
        rollout: Number of the roll-out.
        state: ``waiting``, ``draining``, ``updating``, ``updated``, ``failed``, ``skipped`` or ``stopped``.
        version: Version it is to get.
        before: Version it had when it was told to update.
        reason: Why it is in that state.
        at_us: Since when.
        batch: Most nodes of the roll-out out of service at once.
        failures: The roll-out stops when so many nodes have failed.
        patience_us: How long the update may take.
        who: Who started the roll-out.
        enabled: Whether the node took work before, and so shall again.
    """

    rollout: int
    state: str
    version: str
    before: str = ""
    reason: str = ""
    at_us: int = 0
    batch: int = 1
    failures: int = 1
    patience_us: int = 0
    who: str = ""
    enabled: bool = True


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a wrangler set for a node; the agent knows nothing of it.

    Attributes:
        slots: Most attempts at once, 0 = as many as fit.
        schedule: When it takes work: ``mon-fri 19:00-07:00, sat-sun``, in UTC unless it says otherwise
            ("" = always).
        offsets: (from when, microseconds since the epoch; seconds east of UTC) of the schedule's time zone,
            oldest first, as they were known when it was set; none = UTC.
        rates: Rates by valid-from, oldest first; none = the farm's rate for it.
        disabled: It was not only drained: what it ran was stopped, and must be when it says it still does.
        update: Its part in the last roll-out.
    """

    slots: int = 0
    schedule: str = ""
    offsets: tuple[tuple[int, int], ...] = ()
    rates: tuple[RateFrom, ...] = ()
    disabled: bool = False
    update: UpdateMark | None = None


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to set of a node; what is None stays as it is.

    Attributes:
        slots, schedule, offsets: As in NodeSettings.
        rates: Rates to add (one of the same time replaces it); a time of 0 is now.  An empty list takes all
            away.
    """

    slots: int | None = None
    schedule: str | None = None
    offsets: tuple[tuple[int, int], ...] = ()
    rates: tuple[RateFrom, ...] | None = None


class UpdateOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A roll-out as it is ordered.

    Attributes:
        nodes: Ids of the nodes, in the order they are updated.
        version: Version they are to get.
        batch: Most of them out of service at once.
        failures: Stop when so many have failed.
        patience_us: How long the update of a node may take.
    """

    nodes: tuple[int, ...]
    version: str
    batch: int = 1
    failures: int = 1
    patience_us: int = 1_800_000_000


class GpuLoad(msgspec.Struct, frozen=True, array_like=True):
    """How busy a GPU is: utilisation in percent, temperature in Celsius, memory in use; -1 = not known."""

    percent: int = -1
    temp_c: int = -1
    vram_used_mib: int = -1


class NodeLoad(msgspec.Struct, frozen=True):
    """How busy the machine is.

    Attributes:
        cpu_percent: CPU in percent of all cores.
        ram_free_mib: Memory available.
        disk_free_mib: Disk free.
        ram_used_mib: Memory that is not available, of the whole machine; -1 = not known.
        gpus: In the order of ``NodeFacts.gpus``; empty = not known.
    """

    cpu_percent: float = 0.0
    ram_free_mib: int = 0
    disk_free_mib: int = 0
    ram_used_mib: int = -1
    gpus: tuple[GpuLoad, ...] = ()


class AttemptProgress(msgspec.Struct, frozen=True, array_like=True):
    """Attempt id, unit being rendered (-1 = none), part done of it, peak memory of the tree in MiB."""

    attempt: int
    unit: int = -1
    fraction: float = 0.0
    ram_mib: int = 0

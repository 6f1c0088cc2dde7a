"""What this machine has: cores, memory, disk, GPUs.

What belongs here: reading the hardware and what a container or service manager leaves of it, and
dealing it out to several agents.  What it may not know: applications (``apps.py``), the broker.  A
machine without an NVIDIA driver is a normal machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from farm.model.errors import CallError, StorageError
from farm.model.nodes import GpuInfo
from farm.model.resources import Resources, split_slices

_MIB = 1 << 20


#: One NVIDIA GPU: NVML's index (by PCI bus; CUDA agrees with CUDA_DEVICE_ORDER=PCI_BUS_ID), uuid, name, MiB
#: (0 if the driver does not tell).
GpuFacts = GpuInfo


class HardwareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, or the slice of one that an agent was given.

    Attributes:
        cores: Logical processors we may use (affinity and container quota respected).
        ram_mib: Memory we may use (container limit respected).
        disk_free_mib: Free space for us in the scratch folder's file system.
        disk_mib: Scratch disk that is offered.
        tokens: Custom countable things that are offered, by name.
        gpus: GPUs.
        hostname: Name of the machine.
        os: Name and version of the system.
        kernel: Kernel release.
        boot_id: Changes with every boot.
        machine_id: Hash that names the installation; "" if it has no id of its own.
        notes: What was found wrong, in words for an administrator.
    """

    cores: int
    ram_mib: int
    disk_free_mib: int = 0
    disk_mib: int = 0
    tokens: dict[str, int] = {}
    gpus: tuple[GpuFacts, ...] = ()
    hostname: str = ""
    os: str = ""
    kernel: str = ""
    boot_id: str = ""
    machine_id: str = ""
    notes: tuple[str, ...] = ()

    def resources(self) -> Resources:
        """What the scheduler may hand out; ``vram_mib`` is what every GPU has at least."""
        return Resources(
            cores=self.cores,
            ram_mib=self.ram_mib,
            gpus=len(self.gpus),
            vram_mib=min((gpu.vram_mib for gpu in self.gpus), default=0),
            disk_mib=self.disk_mib,
            tokens=self.tokens,
        )


def probe_hardware(scratch: Path) -> HardwareFacts:
    """Looks at this machine.

    Args:
        scratch: Folder whose file system attempts write temporary files to.

    Raises:
        StorageError: The folder cannot be looked at.
    """
    gpus, notes = probe_gpus()
    return HardwareFacts(
        cores=usable_cores(),
        ram_mib=usable_ram_mib(),
        disk_free_mib=disk_free_mib(scratch),
        gpus=gpus,
        hostname=socket.gethostname(),
        os=_os_name(),
        kernel=platform.release(),
        boot_id=_read(Path("/proc/sys/kernel/random/boot_id")),
        machine_id=_machine_id(),
        notes=notes,
    )


def usable_cores(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Logical processors by CPU affinity and cgroup v2 quota, rounded down, at least 1.

    ``os.cpu_count()`` counts what a container may not use; renderers that start that many threads
    throttle each other.
    """
    cores = len(os.sched_getaffinity(0))
    for folder in cgroup_folders(proc, cgroups):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, int(quota) // int(period))
    return max(1, cores)


def usable_ram_mib(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory of the machine, or the smallest cgroup v2 limit above us."""
    total: int = psutil.virtual_memory().total
    for folder in cgroup_folders(proc, cgroups):
        limit = _read(folder / "memory.max")
        if limit.isdigit():
            total = min(total, int(limit))
    return total // _MIB


def cgroup_folders(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Iterator[Path]:
    """Our cgroup v2 folder and all above it: a limit anywhere on the way up holds."""
    own = ""
    for line in _read(proc / "self/cgroup").splitlines():
        if line.startswith("0::"):
            own = line[3:].strip("/")
    folder = cgroups / own
    # In a container the path may be the host's, unknown here; what is mounted is our own.
    while folder != cgroups:
        yield folder
        folder = folder.parent
    yield cgroups


def disk_free_mib(folder: Path) -> int:
    """Free space that an ordinary user may fill, of the file system ``folder`` is in or will be in.

    Raises:
        StorageError: It cannot be looked at.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        facts = os.statvfs(folder)
    except OSError as error:
        raise StorageError(f"cannot look at the disk of {folder}: {error.strerror}") from error
    return facts.f_bavail * facts.f_frsize // _MIB


def offered_disk_mib(free_mib: int) -> int:
    """What is offered of a disk when nobody says how much: the free space, rounded down to 2^n or 1.5 * 2^n
    MiB.

    Coarse on purpose: machines that are alike must look alike to the scheduler, which works out what fits
    once for all of them, and no two disks have the same space free.
    """
    if free_mib < 1:
        return 0
    power = 1 << (free_mib.bit_length() - 1)
    return power + power // 2 if free_mib >= power + power // 2 else power


def probe_gpus(nvml: Any = None) -> tuple[tuple[GpuFacts, ...], tuple[str, ...]]:
    """NVIDIA GPUs and notes on what is wrong with them.

    No driver or no library means no GPUs and no note.  A GPU that is lost or forbidden does not hide
    the others: the count includes it, and each handle is asked for by itself.

    Args:
        nvml: The ``pynvml`` module, or one like it.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return (), ()
        if str(getattr(nvml, "__file__", "")).endswith("__init__.py"):
            return (), ("the module pynvml is not NVIDIA's: uninstall pynvml, install nvidia-ml-py",)
    absent = tuple(
        getattr(nvml, name)
        for name in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
        if hasattr(nvml, name)
    )
    try:
        nvml.nvmlInit()
    except absent:
        return (), ()
    except Exception as error:
        return (), (f"GPUs unavailable: {error}",)
    try:
        return _read_gpus(nvml)
    finally:
        with contextlib.suppress(Exception):  # nothing depends on it
            nvml.nvmlShutdown()


def _read_gpus(nvml: Any) -> tuple[tuple[GpuFacts, ...], tuple[str, ...]]:
    found: list[GpuFacts] = []
    notes: list[str] = []
    try:
        count = int(nvml.nvmlDeviceGetCount())
    except Exception as error:
        return (), (f"GPUs cannot be counted: {error}",)
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        except Exception as error:
            notes.append(f"GPU {index} unavailable: {error}")
            continue
        name, vram_mib = "NVIDIA GPU", 0
        try:
            name = _text(nvml.nvmlDeviceGetName(handle))
        except Exception as error:
            notes.append(f"GPU {index} does not tell its name: {error}")
        try:
            vram_mib = int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
        except Exception as error:
            notes.append(f"GPU {index} ({name}) does not tell its memory: {error}")
        found.append(GpuFacts(index, uuid, name, vram_mib))
    return tuple(found), tuple(notes)


def slice_facts(hardware: HardwareFacts, index: int, count: int) -> HardwareFacts:
    """The part of a machine that agent ``index`` (from 0) of ``count`` is given.

    Cores, memory, GPUs, the disk that is offered and tokens are split evenly, leftovers go to the first; GPUs
    are dealt in order, so that neighbours on the bus stay together.

    Raises:
        CallError: More agents than cores, or no such slice.
    """
    slices = split_slices(hardware.resources(), count)
    if not 0 <= index < count:
        raise CallError(f"there is no slice {index} of {count}")
    first = sum(part.gpus for part in slices[:index])
    part = slices[index]
    return msgspec.structs.replace(
        hardware,
        cores=part.cores,
        ram_mib=part.ram_mib,
        disk_mib=part.disk_mib,
        tokens=part.tokens,
        gpus=hardware.gpus[first : first + part.gpus],
    )


def _text(value: str | bytes) -> str:
    """Old bindings give bytes, new ones text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _machine_id() -> str:
    """Hashed, as machine-id(5) asks: the id itself is not for the network."""
    raw = _read(Path("/etc/machine-id")) or _read(Path("/var/lib/dbus/machine-id"))
    return hashlib.sha256(f"overcrank:{raw}".encode()).hexdigest()[:32] if raw else ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()

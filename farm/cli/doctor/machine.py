"""The machine: system, cores and memory, GPUs, limits of the process, room for temporary files, the clock.

What belongs here: facts of the computer.  What must not: programs (``software``), farms (``farms``).
"""

from __future__ import annotations

import sys
import time

from farm.cli.doctor.check import Check
from farm.cli.text import mib_text, size_text

#: Memory under which a render of the demo may not fit.
RAM_MIB = 1024
#: Open files a broker or agent should be allowed.
OPEN_FILES = 1024
#: Room for temporary files: less than the first and the demo fails, less than the second and work may.
TEMP_NEEDED = 200 << 20
TEMP_WANTED = 4 << 30
#: 2025-01-01: a clock before it was never set.
CLOCK_FLOOR_S = 1_735_689_600.0
#: Seconds that two clocks may differ before people see wrong times.
CLOCK_SLACK_S = 5.0


def system(platform: str = sys.platform) -> Check:
    """Agents need Linux."""
    if platform.startswith("linux"):
        return Check("system", "ok", "Linux", needed=True)
    return Check(
        "system",
        "missing",
        f"agents do not run on {platform} yet",
        "submit from here to a farm whose agents run on Linux",
        needed=True,
    )


def resources() -> Check:
    """Cores and memory the farm may use here."""
    from node_agent.probe import usable_cores, usable_ram_mib

    cores, ram_mib = usable_cores(), usable_ram_mib()
    detail = f"{cores} {'core' if cores == 1 else 'cores'}, {mib_text(ram_mib)} of memory"
    if ram_mib < RAM_MIB:
        return Check("machine", "warn", detail, f"renders need memory; give it at least {mib_text(RAM_MIB)}")
    return Check("machine", "ok", detail)


def gpus() -> list[Check]:
    """NVIDIA GPUs; a machine without one is a good machine."""
    from node_agent.probe import probe_gpus

    found, notes = probe_gpus()
    said = [Check("gpu", "warn", note, "see what nvidia-smi says") for note in notes]
    if found:
        names = ", ".join(f"{gpu.name} ({mib_text(gpu.vram_mib)})" for gpu in found)
        said.insert(0, Check("gpu", "ok", names))
    elif not notes:
        said.append(Check("gpu", "ok", "no NVIDIA GPU; work runs on the processor"))
    return said


def open_files() -> Check:
    """The limit on open files: a broker has a connection per agent and client."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES:
        return Check("open-files", "ok", "unlimited" if soft == resource.RLIM_INFINITY else str(soft))
    most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    return Check("open-files", "warn", f"only {soft} (up to {most})", f"ulimit -n {OPEN_FILES}")


def temporary() -> Check:
    """Room for temporary files."""
    import shutil
    import tempfile

    cure = "free some space there, or set TMPDIR to a folder with more"
    try:
        folder = tempfile.gettempdir()
        with tempfile.NamedTemporaryFile(prefix="overcrank-doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("temporary", "missing", f"no temporary file can be written: {error}", cure, needed=True)
    detail = f"{size_text(free)} free in {folder}"
    if free < TEMP_NEEDED:
        return Check("temporary", "missing", detail, cure, needed=True)
    if free < TEMP_WANTED:
        return Check("temporary", "warn", detail, cure, needed=True)
    return Check("temporary", "ok", detail, needed=True)


def clock(now_s: float | None = None, newest_us: int = 0) -> Check:
    """Whether the clock can be right.

    Args:
        now_s: What it says.
        newest_us: When, by the broker's clock, the newest thing happened that it told of; 0 = unknown.
    """
    now_s = time.time() if now_s is None else now_s
    said = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now_s)) + " UTC"
    cure = "set it, and keep it set: timedatectl set-ntp true"
    if now_s < CLOCK_FLOOR_S:
        return Check("clock", "warn", f"it says {said}", cure)
    ahead_s = newest_us / 1e6 - now_s
    if ahead_s > CLOCK_SLACK_S:
        return Check("clock", "warn", f"it says {said}; the broker's is at least {ahead_s:.0f} s ahead", cure)
    return Check("clock", "ok", said)

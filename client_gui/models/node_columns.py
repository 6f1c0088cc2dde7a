"""Columns of the list of nodes.

What belongs here: what each column says.  What may not: painting, the list itself, and tiles of nodes.
"""

from __future__ import annotations

from typing import Final

from client_gui.models.column import NOTHING, Level, Paint, Reading, Shown, count_of, text_of
from client_gui.models.figures import age, age_of, exact_of, gib, money, money_of
from client_gui.store.table import Table
from farm.model.nodes import GpuLoad
from farm.sdk.words import mib_text, plural, price_text

#: From here on a GPU is called hot, and memory nearly used up.
HOT_C: Final = 84
FULL: Final = 0.93
#: Words that say why a node is given nothing; they count more than that it is there.
OUT_OF_SERVICE: Final = ("disabled", "drained", "closed")


def states_of(reading: Reading, slot: int) -> tuple[str, ...]:
    """Every word of a node's state."""
    found: tuple[str, ...] = reading.table.values("states")[slot] or ()
    return found


def shown_state(states: tuple[str, ...], busy: bool) -> str:
    """The word that counts most: trouble, then being out of service, then whether it works."""
    if not states:
        return ""
    if states[0] != "online":
        return states[0]
    for word in OUT_OF_SERVICE:
        if word in states:
            return word
    return "busy" if busy else "idle"


def state_of(reading: Reading, slot: int) -> str:
    """The word that counts most of a node."""
    return shown_state(states_of(reading, slot), reading.number(slot, "running_count") > 0)


def running_of(reading: Reading, slot: int) -> tuple[str, ...]:
    """Addresses of what a node runs."""
    found: tuple[str, ...] = reading.table.values("running")[slot] or ()
    return found


def loads_of(reading: Reading, slot: int) -> tuple[GpuLoad, ...]:
    """How busy its GPUs are; empty where that is not known."""
    found: tuple[GpuLoad, ...] = reading.table.values("gpu_loads")[slot] or ()
    return found


def part(used: int, of: int) -> float | None:
    """How much of something is used; None of nothing."""
    return max(0.0, min(1.0, used / of)) if of > 0 else None


# -- state --


def _state(reading: Reading, slot: int) -> str:
    word = state_of(reading, slot)
    others = [one for one in states_of(reading, slot)[1:] if one != word]
    return ", ".join([word, *others])


def _state_tip(reading: Reading, slot: int) -> str:
    lines = [", ".join(states_of(reading, slot))]
    lines += [text for name in ("reason", "closed") if (text := reading.get(slot, name))]
    return "\n".join(lines)


def _reason(reading: Reading, slot: int) -> str:
    texts = [str(reading.get(slot, name) or "") for name in ("reason", "closed", "update_reason")]
    return "; ".join(dict.fromkeys(text for text in texts if text))


# -- work --


def work_of(reading: Reading, slot: int, jobs: Table[int]) -> list[tuple[str, str, str]]:
    """What a node runs: address, name of the job and whose it is; "" where the job is not known."""
    found = []
    for address in running_of(reading, slot):
        head = address.partition("/")[0][1:]
        at = jobs.slot(int(head)) if head.isdecimal() else -1
        name = str(jobs.get(at, "name")) if at >= 0 else ""
        found.append((address, name, str(jobs.get(at, "user")) if at >= 0 else ""))
    return found


def work_shown(jobs: Table[int]) -> tuple[Shown, Shown]:
    """The columns of what a node runs and for whom.

    Args:
        jobs: Where names and users are looked up.
    """

    def work(reading: Reading, slot: int) -> str:
        running = work_of(reading, slot, jobs)
        if not running:
            return ""
        address, name, _ = running[0]
        text = f"{name} {address.partition('/')[2]}" if name else address
        return f"{text} +{len(running) - 1}" if len(running) > 1 else text

    def tip(reading: Reading, slot: int) -> str:
        return "\n".join(
            "  ".join(part for part in (address, name, user) if part)
            for address, name, user in work_of(reading, slot, jobs)[:20]
        )

    def owner(reading: Reading, slot: int) -> str:
        return ", ".join(dict.fromkeys(user for _, _, user in work_of(reading, slot, jobs) if user))

    return (
        Shown("work", "Runs", ("running",), work, "What it runs now", tip=tip, sort="running_count",
              largest_first=True, width=11),
        Shown("owner", "For", ("running",), owner, "Whose work it runs", tip=tip, width=4.5),
    )  # fmt: skip


# -- bars --


def cores_level(reading: Reading, slot: int) -> Level:
    """Cores that are given to work."""
    have = reading.number(slot, "cores")
    used = have - reading.number(slot, "cores_free")
    return Level(part(used, have), f"{used}/{have}")


def ram_level(reading: Reading, slot: int) -> Level:
    """Memory that is given to work, or in use, whichever is more."""
    have = reading.number(slot, "ram_mib")
    used = have - reading.number(slot, "ram_free_mib")
    used = max(used, reading.get(slot, "ram_used_mib") or 0)
    found = part(used, have)
    return Level(found, f"{gib(used)}/{gib(have)}", found is not None and found >= FULL)


def vram_level(reading: Reading, slot: int) -> Level:
    """Memory of all GPUs that is in use."""
    if not reading.number(slot, "gpus"):
        return Level(None, "")
    have = sum(size for size in reading.table.values("gpu_vram_mib")[slot] or () if size > 0)
    used = reading.get(slot, "vram_used_mib")
    if not have:
        return Level(None, NOTHING)
    if used is None:
        return Level(None, f"{NOTHING}/{gib(have)}")
    found = part(used, have)
    return Level(found, f"{gib(used)}/{gib(have)}", found is not None and found >= FULL)


def gpu_level(reading: Reading, slot: int) -> Level:
    """How busy the busiest GPU is."""
    if not reading.number(slot, "gpus"):
        return Level(None, "")
    found = reading.get(slot, "gpu_percent")
    return Level(None, NOTHING) if found is None else Level(found / 100, f"{found:.0f} %")


def cpu_level(reading: Reading, slot: int) -> Level:
    """How busy the processors are."""
    found = reading.get(slot, "cpu_percent")
    if found is None or states_of(reading, slot)[:1] in (("offline",), ("lost",)):
        return Level(None, NOTHING)
    return Level(found / 100, f"{found:.0f} %")


def _temperature(reading: Reading, slot: int) -> str:
    if not reading.number(slot, "gpus"):
        return ""
    found = reading.get(slot, "gpu_temp_c")
    if found is None:
        return NOTHING
    return f"{found} °C{' !' if found >= HOT_C else ''}"


def _gpus_tip(reading: Reading, slot: int) -> str:
    names: tuple[str, ...] = reading.table.values("gpu_names")[slot] or ()
    sizes: tuple[int, ...] = reading.table.values("gpu_vram_mib")[slot] or ()
    loads = loads_of(reading, slot)
    lines = []
    for n in range(max(len(names), len(loads), reading.number(slot, "gpus"))):
        words = [names[n] if n < len(names) else "GPU"]
        if n < len(loads):
            load = loads[n]
            words.append(f"{load.percent} %" if load.percent >= 0 else f"{NOTHING} %")
            words.append(f"{load.temp_c} °C" if load.temp_c >= 0 else f"{NOTHING} °C")
            if load.vram_used_mib >= 0:
                of = f" of {mib_text(sizes[n])}" if n < len(sizes) and sizes[n] else ""
                words.append(f"{mib_text(load.vram_used_mib)}{of}")
        lines.append(f"{n}: {', '.join(words)}")
    return "\n".join(lines)


def _cores_tip(reading: Reading, slot: int) -> str:
    have, free = reading.number(slot, "cores"), reading.number(slot, "cores_free")
    return f"{have - free} of {plural(have, 'core')} given to work, {free} free"


def _ram_tip(reading: Reading, slot: int) -> str:
    have, free = reading.number(slot, "ram_mib"), reading.number(slot, "ram_free_mib")
    lines = [f"{mib_text(have - free)} of {mib_text(have)} given to work, {mib_text(free)} free"]
    used = reading.get(slot, "ram_used_mib")
    lines.append(f"the machine uses {mib_text(used)}" if used is not None else "what is in use is not known")
    return "\n".join(lines)


def _level_text(level: Level) -> str:
    return level.text


# -- the rest --


def _rate(reading: Reading, slot: int) -> str:
    found = reading.number(slot, "rate_nano_h")
    return money(found) if found else ""


def _idle_tip(reading: Reading, slot: int) -> str:
    idle, spent = reading.number(slot, "idle_nano"), reading.number(slot, "spent_nano")
    return f"{100 * idle / spent:.0f} % of {price_text(spent)} bought nothing" if idle and spent else ""


def _joined(name: str, reading: Reading, slot: int) -> str:
    return ", ".join(dict.fromkeys(reading.table.values(name)[slot] or ()))


def _gpu_names(reading: Reading, slot: int) -> str:
    names: tuple[str, ...] = reading.table.values("gpu_names")[slot] or ()
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _slots(reading: Reading, slot: int) -> str:
    found = reading.number(slot, "slots")
    return str(found) if found else "fit"


def _seen_spoken(reading: Reading, slot: int) -> str:
    return f"last heard of {age(reading.number(slot, 'seen_us'), reading.now_us)} ago"


#: Columns that need nothing but the node; ``node_shown`` has the others, too.
NODE_SHOWN: Final = (
    Shown("name", "Node", ("name",), text_of("name"), "Its name",
          tip=lambda r, s: f"node {r.number(s, 'node')} on {r.get(s, 'host')}", sort="name", width=8),
    Shown("state", "State", ("states", "running_count", "reason", "closed"), _state,
          "Whether it is there, works, and may be given work", paint=Paint.STATE, value=state_of,
          tip=_state_tip, sort="state", width=7, field="state"),
    Shown("cores", "Cores", ("cores", "cores_free"), lambda r, s: _level_text(cores_level(r, s)),
          "Cores given to work, of how many", paint=Paint.METER, value=cores_level, tip=_cores_tip,
          sort="cores", largest_first=True, width=7.5),
    Shown("ram", "RAM, GiB", ("ram_mib", "ram_free_mib", "ram_used_mib"),
          lambda r, s: _level_text(ram_level(r, s)), "Memory given to work or in use, of how much",
          paint=Paint.METER, value=ram_level, tip=_ram_tip, sort="ram_mib", largest_first=True, width=7.5),
    Shown("vram", "VRAM, GiB", ("gpus", "gpu_vram_mib", "gpu_loads"),
          lambda r, s: _level_text(vram_level(r, s)), "Memory of its GPUs in use, of how much",
          paint=Paint.METER, value=vram_level, tip=_gpus_tip, sort="vram_used_mib", largest_first=True,
          width=7.5),
    Shown("gpu", "GPU", ("gpus", "gpu_loads"), lambda r, s: _level_text(gpu_level(r, s)),
          "How busy its busiest GPU is", paint=Paint.METER, value=gpu_level, tip=_gpus_tip,
          sort="gpu_percent", largest_first=True, width=6.5),
    Shown("temperature", "Temp", ("gpus", "gpu_loads"), _temperature, "Of its hottest GPU", right=True,
          tip=_gpus_tip, sort="gpu_temp_c", largest_first=True, width=4.2),
    Shown("cpu", "CPU", ("cpu_percent", "state"), lambda r, s: _level_text(cpu_level(r, s)),
          "How busy its processors are", paint=Paint.METER, value=cpu_level, sort="cpu_percent",
          largest_first=True, width=6.5),
    Shown("pool", "Pool", ("pool",), text_of("pool"), "Its pool", sort="pool", width=4.6),
    Shown("site", "Site", ("site",), text_of("site"), "Its site", sort="site", width=4.6),
    Shown("rate", "USD/h", ("rate_nano_h",), _rate, "What an hour of it costs", right=True,
          sort="rate_nano_h", largest_first=True, width=4.2),
    Shown("spent", "Spent, USD", ("spent_nano",), money_of("spent_nano"), "What it has cost so far",
          right=True, tip=lambda r, s: price_text(r.get(s, "spent_nano")), sort="spent_nano",
          largest_first=True, width=5.6),
    Shown("idle", "Idle, USD", ("idle_nano", "spent_nano"), money_of("idle_nano"),
          "What of that bought nothing", right=True, tip=_idle_tip, sort="idle_nano", largest_first=True,
          width=5.2, hidden=True),
    Shown("seen", "Seen", ("seen_us",), age_of("seen_us"), "Time since it was last heard of", right=True,
          tip=exact_of("seen_us"), spoken=_seen_spoken, sort="seen_us", backwards=True, width=3.6,
          moves=True, paint=Paint.DIM),
    Shown("reason", "Reason", ("reason", "closed", "update_reason"), _reason, "Why it is in its state",
          paint=Paint.DIM, tip=_reason, sort="reason", width=12),
    Shown("software", "Software", ("software",), text_of("software"), "Version of its agent",
          sort="software", width=4.8, hidden=True, paint=Paint.DIM),
    Shown("update", "Update", ("update", "update_reason"), text_of("update"),
          "Where the update of its software stands", tip=lambda r, s: str(r.get(s, "update_reason") or ""),
          sort="update", width=5, hidden=True),
    Shown("count", "Running", ("running_count",), count_of("running_count"), "How many attempts it runs",
          right=True, sort="running_count", largest_first=True, width=4.6, hidden=True),
    Shown("slots", "Slots", ("slots",), _slots, "Most attempts at once", right=True, sort="slots",
          largest_first=True, width=4, hidden=True),
    Shown("hours", "Hours", ("schedule",), text_of("schedule"), "When it takes work", sort="schedule",
          width=6, hidden=True, paint=Paint.DIM),
    Shown("gpus", "GPUs", ("gpu_names",), _gpu_names, "Models of its GPUs", width=9, hidden=True,
          paint=Paint.DIM),
    Shown("apps", "Applications", ("apps",), lambda r, s: _joined("apps", r, s),
          "Applications it has, with their versions", width=10, hidden=True, paint=Paint.DIM),
    Shown("renderers", "Renderers", ("renderers",), lambda r, s: _joined("renderers", r, s),
          "Renderers it may run", width=8, hidden=True, paint=Paint.DIM),
    Shown("host", "Host", ("host",), text_of("host"), "Name of its machine", sort="host", width=8,
          hidden=True, paint=Paint.DIM),
)  # fmt: skip


def node_shown(jobs: Table[int]) -> tuple[Shown, ...]:
    """All columns, with what nodes run after their state."""
    return (*NODE_SHOWN[:2], *work_shown(jobs), *NODE_SHOWN[2:])

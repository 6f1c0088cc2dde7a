"""What a node does by the clock: falls silent, opens and closes by its hours, changes its rate; and its
settings.

What belongs here: working out the next moment a node must be looked at, and looking.  What may not: hello,
bye and people's actions (``farm.core.nodes``), roll-outs (``farm.core.rollout``), whether it takes work
(``farm.core.openings``).
"""

from __future__ import annotations

import msgspec

from farm.core import meter, openings
from farm.core.apply_nodes import apply_seen
from farm.core.drain import store_node, tell
from farm.core.openings import ENDING
from farm.core.outcome import Outcome
from farm.core.rows import SeenRow
from farm.core.state import Farm, Node
from farm.model.money import usd_text
from farm.model.nodes import NodeChange, NodeSettings, RateFrom
from farm.model.nodeset import RATES_MOST
from farm.model.schedule import DAYS, read_schedule
from farm.model.states import NodeState

_ENCODE = msgspec.msgpack.Encoder().encode
#: Nodes' last heartbeats are stored this often, so that a restart can charge up to them.
SEEN_EVERY_US = 10_000_000
_UTC = ((0, 0),)


def closed_reason(node: Node, now_us: int) -> str:
    """Why the node starts nothing new at this time: its agent's end, or its hours; "" inside of them."""
    if node.ending:
        return ENDING
    settings = node.settings
    if not settings.schedule:
        return ""
    schedule = read_schedule(settings.schedule)
    if schedule.is_open(now_us, settings.offsets or _UTC):
        return ""
    opens_us = schedule.next_change(now_us, settings.offsets or _UTC)
    when = f"; next {_wall(settings, opens_us)}" if opens_us is not None else ""
    return f"accepts work {schedule.text}{when}"


def _wall(settings: NodeSettings, at_us: int) -> str:
    """A moment on the clock of the schedule's zone: ``fri 19:00``."""
    offset_s = (settings.offsets or _UTC)[0][1]
    for from_us, seconds in settings.offsets:
        if from_us <= at_us:
            offset_s = seconds
    minutes = (at_us // 1_000_000 + offset_s) // 60
    day, minute = divmod(minutes, 24 * 60)
    return f"{DAYS[(day + 3) % 7]} {minute // 60:02}:{minute % 60:02}"


def arm(farm: Farm, node: Node, now_us: int) -> None:
    """Asks for the next look at a node; called when something may have made it earlier."""
    found: list[int] = []
    if node.forgotten:
        return
    if not farm.due.seen_us:
        farm.due.seen_us = now_us + SEEN_EVERY_US
    if node.state is NodeState.ONLINE:
        found.append(node.deadline_us - farm.settings.lost_us + farm.settings.suspect_us)
    elif node.state is NodeState.SUSPECT or node.attempts:
        found.append(node.deadline_us)
    settings = node.settings
    if settings.schedule and node.state in (NodeState.ONLINE, NodeState.SUSPECT):
        turns_us = read_schedule(settings.schedule).next_change(now_us, settings.offsets or _UTC)
        if turns_us is not None:
            found.append(turns_us)
    if settings.rates and node.meter_on:
        rate_us = meter.next_rate_us(node)
        if rate_us is not None:
            found.append(rate_us)
    if found:
        farm.due.at(node.id, min(found))


def look(farm: Farm, node: Node, now_us: int, out: Outcome) -> bool:
    """A node's moment came: says whether it is lost by now; if not, does what is due and asks for the
    next."""
    settings = farm.settings
    if node.state in (NodeState.ONLINE, NodeState.SUSPECT) or node.attempts:
        if now_us >= node.deadline_us:
            return True
        silent_from_us = node.deadline_us - settings.lost_us + settings.suspect_us
        if node.state is NodeState.ONLINE and now_us >= silent_from_us:
            node.state = NodeState.SUSPECT
            openings.refresh(farm, node)
            silent_s = (now_us - node.seen_us) / 1e6
            tell(farm, node, "online", "suspect", f"silent for {silent_s:.1f} s", "farm", now_us, out)
    _turn(farm, node, now_us, out)
    _rate(farm, node, now_us, out)
    arm(farm, node, now_us)
    return False


def _turn(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    """Opens or closes the node when its hours say so."""
    if note_hours(farm, node, now_us):
        # A row of the node besides the one for people: who follows nodes sees it change.
        store_node(farm, node, out)
        old, new = ("open", "closed") if node.closed else ("closed", "open")
        reason = node.closed or f"accepts work {node.settings.schedule}"
        tell(farm, node, old, new, reason, "farm", now_us, out)


def note_hours(farm: Farm, node: Node, now_us: int) -> bool:
    """Works out whether its hours, or its agent's end, keep the node closed now; returns whether that
    changed."""
    reason = closed_reason(node, now_us)
    changed = bool(reason) is not bool(node.closed)
    node.closed = reason
    if changed:
        openings.refresh(farm, node)
    return changed


def _rate(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    """Cuts the meter when a rate that was set beforehand has begun."""
    if not (node.meter_on and node.settings.rates):
        return
    due_us = meter.next_rate_us(node)
    if due_us is None or due_us > now_us:
        return
    old = node.meter_rate
    meter.advance(node, now_us)
    out.rows.append(meter.meter_row(farm, node))
    _tell_rate(farm, node, old, "it was set to begin now", "farm", now_us, out)


def _tell_rate(farm: Farm, node: Node, old: int, reason: str, who: str, now_us: int, out: Outcome) -> None:
    if old != node.meter_rate:
        before, after = (f"{usd_text(rate)} USD/h" for rate in (old, node.meter_rate))
        tell(farm, node, before, after, reason, who, now_us, out)


def note_seen(farm: Farm, now_us: int, out: Outcome) -> None:
    """Stores when nodes were last heard of, in one row, now and then."""
    due = farm.due
    if now_us < due.seen_us:
        return
    due.seen_us = now_us + SEEN_EVERY_US
    seen = {node.id: node.seen_us for node in farm.nodes.values() if node.seen_us > node.seen_stored_us}
    if seen:
        row = SeenRow(farm.next_seq(), _ENCODE(seen))
        out.rows.append(row)
        apply_seen(farm, row)


def change(farm: Farm, node: Node, wanted: NodeChange, who: str, now_us: int, out: Outcome) -> list[str]:
    """Sets what was asked for; returns in words what is new."""
    settings, told = node.settings, []
    if wanted.slots is not None and wanted.slots != settings.slots:
        settings = msgspec.structs.replace(settings, slots=wanted.slots)
        told.append(_slots_words(wanted.slots))
    if wanted.schedule is not None and (
        wanted.schedule != settings.schedule or wanted.offsets != settings.offsets
    ):
        settings = msgspec.structs.replace(settings, schedule=wanted.schedule, offsets=wanted.offsets)
        told.append(f"accepts work {wanted.schedule}" if wanted.schedule else "accepts work always")
    old_rate = node.meter_rate
    rates_change = wanted.rates is not None
    if wanted.rates is not None:
        meter.advance(node, now_us)
        rates = _with_rates(settings.rates, wanted.rates, now_us) if wanted.rates else ()
        settings = msgspec.structs.replace(settings, rates=rates)
        told.append(_rates_words(rates, now_us))
    if not told:
        return told
    node.settings = settings
    store_node(farm, node, out)
    if rates_change and node.meter_on:
        meter.start(node, now_us, meter.rate_at(node, now_us))
        out.rows.append(meter.meter_row(farm, node))
        _tell_rate(farm, node, old_rate, f"set by {who}", who, now_us, out)
    if node.state in (NodeState.ONLINE, NodeState.SUSPECT):
        _turn(farm, node, now_us, out)
    openings.refresh(farm, node)
    arm(farm, node, now_us)
    return told


def _with_rates(old: tuple[RateFrom, ...], new: tuple[RateFrom, ...], now_us: int) -> tuple[RateFrom, ...]:
    """The list with further rates in it; the oldest are forgotten when there are too many."""
    found = {entry.from_us: entry for entry in old}
    for entry in new:
        from_us = entry.from_us or now_us
        found[from_us] = RateFrom(from_us, entry.nano_h)
    return tuple(found[from_us] for from_us in sorted(found))[-RATES_MOST:]


def _slots_words(slots: int) -> str:
    if not slots:
        return "as many attempts as fit"
    return f"at most {slots} {'attempt' if slots == 1 else 'attempts'} at once"


def _rates_words(rates: tuple[RateFrom, ...], now_us: int) -> str:
    if not rates:
        return "costs what the farm says"
    past = [entry for entry in rates if entry.from_us <= now_us]
    words = [f"costs {usd_text(past[-1].nano_h)} USD/h"] if past else []
    later = len(rates) - len(past)
    if later:
        words.append(f"{later} {'rate begins' if later == 1 else 'rates begin'} later")
    return ", ".join(words)

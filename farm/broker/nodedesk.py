"""Requests about nodes made into the core's event: names looked up, texts read, time zones resolved.

What belongs here: what of such a request needs the machine (the zone database) or the broker's names.  What
may not: what the action does (``farm.core.nodes``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

import farm
from farm.core.events import NodeActEvent
from farm.model.errors import CallError
from farm.model.nodes import NodeChange, UpdateOrder
from farm.model.nodeset import read_change, read_share
from farm.model.schedule import fixed_offset_s, read_schedule
from farm.protocol.client import NodeActReq, UpdateAsk

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from farm.broker.state import BrokerState

#: How far ahead the changes of a time zone's clocks are looked up; the last offset holds after that.
ZONE_YEARS = 12
_SETTINGS = msgspec.json.Decoder(dict[str, str])
_ASK = msgspec.json.Decoder(UpdateAsk)


def node_event(s: BrokerState, request: NodeActReq, user: str) -> NodeActEvent:
    """The event of a request that is allowed.

    Raises:
        UnknownName: There is no such node.
        CallError: The value is wrong.
    """
    node_id, value = 0, ""
    if request.action == "node-update":
        value = msgspec.json.encode(_order(s, request.value)).decode()
    elif request.action != "node-update-stop":
        node_id = s.find_node(request.node).id
        if request.action == "node-set":
            value = msgspec.json.encode(_change(request.value, s.now_us)).decode()
    return NodeActEvent(s.now_us, request.action, node_id, request.reason[:500], user, value)


def _change(text: str, now_us: int) -> NodeChange:
    try:
        given = _SETTINGS.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CallError(f"what to set is no object of texts: {error}") from error
    change = read_change(given)
    if not change.schedule:
        return change
    return msgspec.structs.replace(change, offsets=zone_offsets(read_schedule(change.schedule).zone, now_us))


def zone_offsets(zone: str, now_us: int) -> tuple[tuple[int, int], ...]:
    """Offsets of a time zone as (from when in microseconds, seconds east of UTC), from now on.

    Raises:
        CallError: This machine does not know the zone.
    """
    fixed = fixed_offset_s(zone)
    if fixed is not None:
        return ((0, fixed),) if fixed else ()
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CallError(
            f"the broker's machine knows no time zone {zone!r}",
            hint="write Europe/Berlin, UTC or +01:00 (zones come with the system's tzdata)",
        ) from error
    at_s = now_us // 1_000_000
    offset = _offset(info, at_s)
    found = [(0, offset)]
    end_s = at_s + ZONE_YEARS * 366 * 86_400
    while at_s < end_s:
        next_s = at_s + 7 * 86_400
        if _offset(info, next_s) != offset:
            low, high = at_s, next_s
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(info, middle) == offset else (low, middle)
            offset = _offset(info, high)
            found.append((high * 1_000_000, offset))
            # Again from the change on: two within a week are rare, but there were such.
            next_s = high
        at_s = next_s
    return tuple(found)


def _offset(info: ZoneInfo, at_s: int) -> int:
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)).astimezone(info)
    offset = moment.utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _order(s: BrokerState, text: str) -> UpdateOrder:
    try:
        ask = _ASK.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CallError(f"which nodes to update cannot be read: {error}") from error
    if ask.nodes:
        ids = tuple(dict.fromkeys(s.find_node(name).id for name in ask.nodes))
    else:
        ids = tuple(node.id for node in s.core.farm.nodes.values() if not node.forgotten)
    if not ids:
        raise CallError("the farm has no nodes")
    if not 1 <= ask.failures <= 1_000_000:
        raise CallError(f"an update stops after 1 or more failures, not {ask.failures}")
    if not 0 < ask.patience_s <= 1e6:
        raise CallError(f"an update may take 1 to 1000000 s, not {ask.patience_s:g}")
    return UpdateOrder(
        nodes=ids,
        version=farm.__version__,
        batch=read_share(ask.at_most, len(ids)),
        failures=ask.failures,
        patience_us=int(ask.patience_s * 1e6),
    )

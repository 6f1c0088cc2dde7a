"""Figures of a step's frames, one array each, as grids, tables and time figures need them.

What belongs here: the arrays, and taking what the broker sends of them.  What may not: asking for them, Qt,
and what the figures look like.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store.unitmap import NO_UNITS, Units
from farm.model.errors import PeerError
from farm.protocol.bulk import ColumnsMsg

#: Most units a step can have: what a broker says beyond is not believed.
MOST_UNITS: Final = 100_000_000
#: Of each array in the order of the wire: its name, what it is there, and what stands for "not known".
_WIRE: Final[tuple[tuple[str, str, Any], ...]] = (
    ("elapsed_s", "<f4", np.nan),
    ("ram_mib", "<i4", -1),
    ("attempts", "<u2", 0),
    ("node", "<i4", 0),
    ("cost_nano", "<i8", 0),
)
_UNIT_BYTES: Final = sum(np.dtype(kind).itemsize for _, kind, _ in _WIRE)


class UnitColumns:
    """Figures by unit; a value for every unit of the step.

    Attributes:
        elapsed_s: Seconds of the last attempt that finished it; NaN = none did.
        ram_mib: Peak memory the last time it was told; -1 = not known.
        attempts: Attempts it was leased under.
        node: Number of its last node; 0 = none.
        cost_nano: What it cost in nano-USD, waste included, attempts still at work not.
        seq: The number up to which all is in, 0 = nothing yet.
    """

    __slots__ = ("attempts", "cost_nano", "elapsed_s", "node", "ram_mib", "seq")

    elapsed_s: npt.NDArray[np.float32]
    ram_mib: npt.NDArray[np.int32]
    attempts: npt.NDArray[np.uint16]
    node: npt.NDArray[np.int32]
    cost_nano: npt.NDArray[np.int64]

    def __init__(self, units: int = 0) -> None:
        self.seq = 0
        for name, kind, nothing in _WIRE:
            setattr(self, name, np.full(units, nothing, np.dtype(kind).newbyteorder("=")))

    def __len__(self) -> int:
        return len(self.elapsed_s)

    def grow(self, units: int) -> bool:
        """Makes room for so many units, of which nothing is known yet; whether there was not enough."""
        before = len(self)
        if units <= before:
            return False
        for name, _, nothing in _WIRE:
            old = getattr(self, name)
            new = np.full(units, nothing, old.dtype)
            new[:before] = old
            setattr(self, name, new)
        return True

    def take(self, message: ColumnsMsg) -> Units:
        """Takes what the broker says of some units.

        ``seq`` is not touched: who asks for the pages knows when all are in.

        Returns:
            Units with another figure than before, ascending.

        Raises:
            PeerError: The message contradicts itself; nothing of it was taken.
        """
        units = _units_of(message)
        columns = _columns_of(message)
        if not len(units):
            return NO_UNITS
        self.grow(int(max(message.total, units[-1] + 1)))
        changed = np.zeros(len(units), np.bool_)
        for (name, _, _), new in zip(_WIRE, columns, strict=True):
            held = getattr(self, name)
            old = held[units]
            differs = old != new
            if name == "elapsed_s":
                differs &= ~(np.isnan(old) & np.isnan(new))
            changed |= differs
            held[units] = new
        return units[changed]


def _units_of(message: ColumnsMsg) -> Units:
    count, first = message.count, message.first
    if count < 0 or first < 0 or not 0 <= message.total <= MOST_UNITS or first + count > MOST_UNITS:
        raise PeerError(f"the broker tells of {count} frames from {first} of {message.total}")
    if not message.units:
        return np.arange(first, first + count, dtype=np.int64)
    if len(message.units) != 4 * count:
        raise PeerError(f"the broker tells of {count} frames, but names {len(message.units) // 4}")
    units = np.frombuffer(message.units, "<u4").astype(np.int64)
    if (np.diff(units) <= 0).any() or units[-1] >= MOST_UNITS:
        raise PeerError("the broker names frames twice, or in no order")
    return units


class UnpackedColumns(ColumnsMsg, frozen=True, tag="columns"):
    """Figures whose data was unpacked already, by whoever had the time."""


def unpacked(message: ColumnsMsg) -> ColumnsMsg:
    """The same figures with their data unpacked, in any thread; as they came when that cannot be done.

    Of a million frames it takes a quarter of a second: too long for the window's thread.
    """
    if not 0 <= message.count <= MOST_UNITS:
        return message
    try:
        data = _data_of(message)
    except PeerError:
        return message  # whoever takes it finds out, and says so
    fields = {name: getattr(message, name) for name in ColumnsMsg.__struct_fields__}
    return UnpackedColumns(**(fields | {"data": data}))


def _data_of(message: ColumnsMsg) -> bytes:
    if isinstance(message, UnpackedColumns):
        return message.data
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(message.data, message.count * _UNIT_BYTES + 1) if message.data else b""
    except zlib.error as error:
        raise PeerError(f"figures of frames do not unpack: {error}") from error


def _columns_of(message: ColumnsMsg) -> list[npt.NDArray[Any]]:
    size = message.count * _UNIT_BYTES
    data = _data_of(message)
    if len(data) != size:
        raise PeerError(f"figures of {message.count} frames take {size} bytes, not {len(data)}")
    columns = []
    at = 0
    for _, kind, _ in _WIRE:
        column = np.frombuffer(data, kind, message.count, at)
        columns.append(column)
        at += column.nbytes
    return columns

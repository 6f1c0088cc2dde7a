"""Writes a graph of the core's objects as plain values, and builds it again with the same sharing.

What belongs here: walking and building, whatever the classes.  What may not: what any of them means.  A
restart rebuilds the farm from rows, and may lawfully order what it rebuilt in another way; a recording must
begin with the very state that made the recorded decisions, heaps, indexes and orders included.  So everything
that hangs on the farm is written, classes by name, and only classes of the core and the model are ever built.

The form: a list of entries, the root first; within them a scalar stands for itself and ``[n]`` for entry
    ``n``.
"""

from __future__ import annotations

from array import array
from enum import Enum
from importlib import import_module
from typing import Any

import msgspec

_SCALARS = (type(None), bool, float, str, bytes)
_INT_LEAST, _INT_MOST = -(1 << 63), (1 << 64) - 1
_ROOMS = ("farm.core.", "farm.model.")
_CONTAINERS: dict[type, str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    dict: "dict",
}
#: Defaults of records by field, read from each class once.
_DEFAULTS: dict[type, dict[str, Any]] = {}
_CHANGEABLE = ("list", "set", "dict")

#: An entry: its kind, its class ("" for what Python has itself), names of attributes, values.
Entry = tuple[str, str, tuple[str, ...], list[Any]]


def write_graph(root: object) -> list[Entry]:
    """Everything that hangs on an object.

    Raises:
        TypeError: Something hangs on it that is no data of the core; names it.
    """
    numbers: dict[int, int] = {}
    found: list[object] = []

    def refer(value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS or (kind is int and _INT_LEAST <= value <= _INT_MOST):
            return value
        number = numbers.get(id(value))
        if number is None:
            # Kept in ``found``, so that no other object gets this one's id meanwhile.
            number = numbers[id(value)] = len(found)
            found.append(value)
        return [number]

    refer(root)
    # ``found`` grows while it is walked.
    return [_entry(value, refer) for value in found]


def _entry(value: Any, refer: Any) -> Entry:
    kind = type(value)
    if kind is int:
        return "int", "", (), [str(value)]
    if kind is bytearray:
        return "bytearray", "", (), [bytes(value)]
    if kind is array:
        return "array", value.typecode, (), [value.tobytes()]
    if kind is dict:
        return "dict", "", (), [refer(part) for pair in value.items() for part in pair]
    if kind in _CONTAINERS:
        return _CONTAINERS[kind], "", (), [refer(item) for item in value]
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not name.startswith(_ROOMS):
        raise TypeError(f"a {name} cannot be recorded")
    if isinstance(value, Enum):
        return "enum", name, (), [value.value]
    if isinstance(value, msgspec.Struct) and kind.__struct_config__.frozen:
        # A default that is left out comes back as the very default: msgspec leaves it out of JSON only then.
        kept = [(field, getattr(value, field)) for field in kind.__struct_fields__]
        plain = _defaults(kind)
        kept = [(field, part) for field, part in kept if plain.get(field, kept) is not part]
        return "record", name, tuple(field for field, _ in kept), [refer(part) for _, part in kept]
    if isinstance(value, tuple):
        return "named", name, (), [refer(item) for item in value]
    names = tuple(field for field in _attributes(value) if hasattr(value, field))
    return "object", name, names, [refer(getattr(value, field)) for field in names]


def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    known = _DEFAULTS.get(kind)
    if known is None:
        fields = msgspec.structs.fields(kind)
        known = {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}
        _DEFAULTS[kind] = known
    return known


def _attributes(value: object) -> list[str]:
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return names + list(getattr(value, "__dict__", ()))


def read_graph(entries: list[Entry]) -> Any:
    """The root of what ``write_graph`` wrote.

    Raises:
        ValueError: It is damaged, or names what is no class of the core.
    """
    built: dict[int, Any] = {}
    if not entries:
        raise ValueError("the recorded state is empty")
    try:
        for number, (kind, name, _, _) in enumerate(entries):
            if kind in _CHANGEABLE:
                built[number] = {"list": list, "set": set, "dict": dict}[kind]()
            elif kind == "object":
                known = _class(name)
                if issubclass(known, msgspec.Struct):
                    built[number] = known(**dict.fromkeys(known.__struct_fields__))  # filled below
                else:
                    built[number] = known.__new__(known)
        for number in range(len(entries)):
            _build(number, entries, built)
        for number, entry in enumerate(entries):
            if entry[0] in _CHANGEABLE or entry[0] == "object":
                _fill(built[number], entry, built)
    except (TypeError, AttributeError, KeyError, IndexError, ImportError, RecursionError) as error:
        raise ValueError(f"the recorded state is damaged or of another version: {error}") from error
    return built[0]


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = import_module(module) if module.startswith(_ROOMS) else None
    for part in path.split("."):
        found = getattr(found, part)
    if not isinstance(found, type) or not found.__module__.startswith(_ROOMS):
        raise ValueError(f"{name} is no class of the core")
    return found


def _value(value: Any, entries: list[Entry], built: dict[int, Any]) -> Any:
    return _build(value[0], entries, built) if type(value) is list else value


def _build(number: int, entries: list[Entry], built: dict[int, Any]) -> Any:
    """An entry that cannot be changed once it is made is made when what it holds is."""
    if number in built:
        return built[number]
    kind, name, names, values = entries[number]
    made: Any
    if kind == "int":
        made = int(values[0])
    elif kind == "bytearray":
        made = bytearray(values[0])
    elif kind == "array":
        made = array(name, values[0])
    elif kind == "enum":
        made = _class(name)(values[0])
    else:
        parts = [_value(value, entries, built) for value in values]
        if kind == "tuple":
            made = tuple(parts)
        elif kind == "frozenset":
            made = frozenset(parts)
        elif kind == "named":
            made = _class(name)(*parts)
        elif kind == "record":
            made = _class(name)(**dict(zip(names, parts, strict=True)))
        else:
            raise ValueError(f"there is no kind {kind!r} of entry")
    built[number] = made
    return made


def _fill(made: Any, entry: Entry, built: dict[int, Any]) -> None:
    kind, _, names, values = entry
    parts = [built[value[0]] if type(value) is list else value for value in values]
    if kind == "list":
        made.extend(parts)
    elif kind == "set":
        made.update(parts)
    elif kind == "dict":
        made.update(zip(parts[::2], parts[1::2], strict=True))
    else:
        write = setattr if isinstance(made, msgspec.Struct) else object.__setattr__
        for name, part in zip(names, parts, strict=True):
            write(made, name, part)

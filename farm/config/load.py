"""Reads options: configuration file, then environment, then flags; the later wins.

What belongs here: finding each value, converting it, and saying exactly where a wrong one stands (file and
line, variable, or flag).  What must not: what an option means (``farm.config.options``) or doing anything
with it.

The file is ``farm.toml`` in the farm's configuration folder, one table per group:

    [broker]
    heartbeat_s = 1.0

The variable of an option is its name in capitals with ``OVERCRANK_`` before it, the flag its name with
hyphens: ``OVERCRANK_HEARTBEAT_S``, ``--heartbeat-s``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from farm.config.options import CLOCK_SLEW, RECORDS, AgentOptions, BrokerOptions, ClientOptions, FarmOptions
from farm.config.places import Places
from farm.model.errors import CallError, StorageError

T = TypeVar("T", bound=FarmOptions)

_PREFIX = "OVERCRANK_"
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]i?B|B)?\Z", re.IGNORECASE)
_FACTORS = {"b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _FACTORS |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
#: Table headers and keys, to find the line an error is on: tomllib gives no positions.
_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_.\"' -]+?)\s*\]")
_KEY = re.compile(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=")


class Option(msgspec.Struct, frozen=True):
    """One option as help and reference docs show it.

    Attributes:
        name: Its name in the file.
        group: Table of the file it is set in.
        kind: Type in words.
        default: Default as text.
        unit: Unit, empty for none.
        help: What it does.
        variable: Environment variable that sets it.
        flag: Flag of ``farm broker``, ``farm agent`` ... that sets it.
    """

    name: str
    group: str
    kind: str
    default: str
    unit: str
    help: str
    variable: str
    flag: str


def options() -> list[Option]:
    """Every option once, by group, in the order of the records."""
    found = []
    for group, record in RECORDS.items():
        for name, meta in _metas(record).items():
            if group != "farm" and name in FarmOptions.__struct_fields__:
                continue
            kind, description, unit = meta
            default = record.__struct_defaults__[record.__struct_fields__.index(name)]
            found.append(
                Option(
                    name=name,
                    group=group,
                    kind=_kind_words(kind),
                    default=_default_text(default),
                    unit=unit,
                    help=description,
                    variable=variable_of(name),
                    flag=flag_of(name),
                )
            )
    return found


def variable_of(name: str) -> str:
    """The environment variable that sets an option."""
    return _PREFIX + name.upper()


def flag_of(name: str) -> str:
    """The flag that sets an option."""
    return "--" + name.replace("_", "-")


def load_broker_options(farm: str, flags: Mapping[str, Any] | None = None) -> BrokerOptions:
    """The broker's options; see ``load_options``."""
    return load_options(BrokerOptions, farm, flags)


def load_agent_options(farm: str, flags: Mapping[str, Any] | None = None) -> AgentOptions:
    """The agents' options; see ``load_options``."""
    return load_options(AgentOptions, farm, flags)


def load_client_options(farm: str, flags: Mapping[str, Any] | None = None) -> ClientOptions:
    """A client's options; see ``load_options``."""
    return load_options(ClientOptions, farm, flags)


def load_options(record: type[T], farm: str, flags: Mapping[str, Any] | None = None) -> T:
    """The options of one group for one farm: defaults < file < environment < flags.

    Args:
        record: The group's record.
        farm: Name of the farm.
        flags: Values given on the command line by option name; None or absent = not given.  Text is
            converted as the environment's is.

    Raises:
        CallError: A wrong value, an unknown key or table, or values that do not go together; says where.
        StorageError: The file cannot be read.
    """
    given: dict[str, tuple[Any, str]] = {}
    kinds: dict[str, Any] | None = None
    path = Places(farm).options
    for name, value, where in _from_file(path, record):
        given[name] = (value, where)
    for name in record.__struct_fields__:
        text = os.environ.get(variable_of(name))
        if text is not None:
            given[name] = (_Text(text), variable_of(name))
    for name, value in (flags or {}).items():
        if name not in record.__struct_fields__:
            raise CallError(f"there is no option {name!r}", hint=_near(name, record.__struct_fields__))
        if value is not None:
            given[name] = (_Text(value) if isinstance(value, str) else value, flag_of(name))
    if not given:
        return record()
    kinds = get_type_hints(record, include_extras=True)
    values = {name: _convert(name, value, kinds[name], where) for name, (value, where) in given.items()}
    made = record(**values)
    _check_together(made, {name: where for name, (_, where) in given.items()})
    return made


class _Text(str):
    """Text from a flag or variable, to be converted to the option's type."""

    __slots__ = ()


def _from_file(path: Path, record: type[FarmOptions]) -> list[tuple[str, Any, str]]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    import tomllib  # only when there is a file
    from decimal import Decimal

    try:
        text = raw.decode("utf-8")
        tables = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CallError(f"{path} is not a TOML file: {error}") from error
    lines = _lines(text)
    found: list[tuple[str, str, Any, str]] = []
    for group, table in tables.items():
        if not isinstance(table, dict):
            owners = [name for name, kind in RECORDS.items() if group in kind.__struct_fields__]
            hint = f"put it under [{owners[0]}]" if owners else _near(group, _all_names())
            raise CallError(f"{_at(path, lines, '', group)}: {group!r} stands outside a table", hint=hint)
        if group not in RECORDS:
            raise CallError(
                f"{_at(path, lines, group, '')}: there is no table [{group}]",
                hint="there are " + ", ".join(f"[{name}]" for name in RECORDS),
            )
        for name, value in table.items():
            where = _at(path, lines, group, name)
            own = RECORDS[group].__struct_fields__
            if name not in own:
                owners = [other for other, kind in RECORDS.items() if name in kind.__struct_fields__]
                hint = f"it belongs under [{owners[0]}]" if owners else _near(name, own)
                raise CallError(f"{where}: there is no option {name!r} in [{group}]", hint=hint)
            if issubclass(record, RECORDS[group]):
                found.append((group, name, value, where))
    # A group's own table wins over [farm] for what both have, wherever they stand in the file.
    found.sort(key=lambda item: item[0] != "farm")
    return [item[1:] for item in found]


def _all_names() -> tuple[str, ...]:
    return tuple({name for kind in RECORDS.values() for name in kind.__struct_fields__})


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Line of every ``[table]`` (as (table, "")) and key, counted from 1."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _TABLE.match(line)
        key = _KEY.match(line)
        if header is not None and key is None:
            table = header[1].strip("\"'")
            found.setdefault((table, ""), number)
        elif key is not None:
            found.setdefault((table, key[1]), number)
    return found


def _at(path: Path, lines: dict[tuple[str, str], int], group: str, name: str) -> str:
    line = lines.get((group, name)) or lines.get((group, ""))
    place = f"{path} line {line}" if line else str(path)
    return f"{place} [{group}]" if group and name else place


def _near(name: str, names: tuple[str, ...]) -> str:
    import difflib

    close = difflib.get_close_matches(name.replace("-", "_"), names, n=1)
    return f"did you mean {close[0]}?" if close else "there are " + ", ".join(sorted(names))


def _metas(record: type[FarmOptions]) -> dict[str, tuple[Any, str, str]]:
    """Per option: its type, help and unit."""
    found = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        metas = [meta for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta)]
        described = next(meta for meta in metas if meta.description)
        found[name] = (hint, described.description or "", (described.extra or {}).get("unit", ""))
    return found


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _kind_words(kind: Any) -> str:
    bare = _bare(kind)
    if get_args(bare) and get_origin(bare) is tuple:
        return "list of texts"
    if get_args(bare):
        return " | ".join(str(word) for word in get_args(bare))
    return {"int": "whole number", "float": "number", "str": "text", "Decimal": "amount"}[bare.__name__]


def _default_text(value: Any) -> str:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    if isinstance(value, tuple):
        return "none" if not value else ", ".join(value)
    return str(value) if value != "" else "empty"


def _convert(name: str, value: Any, kind: Any, where: str) -> Any:
    """One value in its option's type.

    Raises:
        CallError: It is none; names where it stands.
    """
    bare = _bare(kind)
    try:
        if isinstance(value, _Text):
            value = _from_text(name, str(value), bare)
        elif isinstance(value, str) and name.endswith(("_bytes", "_mib")):
            value = _size(name, value)
        elif bare is float and type(value).__name__ == "Decimal":
            value = float(value)
        elif bare.__class__ is type and bare.__name__ == "Decimal" and type(value) is int:
            value = str(value)
        elif isinstance(value, list):
            value = tuple(value)
        made = msgspec.convert(value, kind)
        if type(made).__name__ == "Decimal" and not (made.is_finite() and 0 <= made <= 1_000_000):
            raise ValueError(f"{made} is no amount from 0 to 1000000")
        return made
    except (ValueError, ArithmeticError) as error:
        limit = re.match(r"Expected `\w+` ([<>]=? [0-9.]+)", str(error))
        shown = f"{str(value)!r}" if isinstance(value, str) else f"{value!r}"
        wrong = f"must be {limit[1]}, not {shown}" if limit else f"{shown} is not {_a(_kind_words(kind))}"
        raise CallError(f"{where}: {name}: {wrong}", hint=_help_of(name)) from error


def _help_of(name: str) -> str:
    for record in RECORDS.values():
        if name in record.__struct_fields__:
            _, description, unit = _metas(record)[name]
            return f"{name}: {description}" + (f" [{unit}]" if unit else "")
    return ""


def _a(words: str) -> str:
    if "|" in words:
        return "one of " + words.replace(" | ", ", ")
    return ("an " if words[0] in "aeiou" else "a ") + words


def _from_text(name: str, text: str, bare: Any) -> Any:
    if get_origin(bare) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if bare is int:
        return _size(name, text) if name.endswith(("_bytes", "_mib")) else int(text, 10)
    if bare is float:
        return float(text)
    return text


def parse_size(text: str, unit_bytes: int = 1) -> int:
    """A size: a bare number counts in units, ``1 GiB`` (or GB) is converted and rounded down.

    Raises:
        ValueError: The text is no size.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size")
    if match[2] is None:
        return int(match[1], 10)
    from decimal import Decimal

    return int(Decimal(match[1]) * _FACTORS[match[2].lower()] / unit_bytes)


def _size(name: str, text: str) -> int:
    return parse_size(text, unit_bytes=1 << 20 if name.endswith("_mib") else 1)


def _check_together(made: FarmOptions, where: dict[str, str]) -> None:
    """Checks what one value cannot say.

    Raises:
        CallError: Two values contradict each other.
    """
    if isinstance(made, BrokerOptions):
        for small, large, why in (
            ("heartbeat_s", "suspect_s", "every agent would always be suspect"),
            ("suspect_s", "lost_s", "an agent is suspect before it is lost"),
            ("lease_ttl_s", "lost_s", "a lost agent could still publish files"),
        ):
            if getattr(made, small) >= getattr(made, large):
                source = where.get(small) or where.get(large) or ""
                raise CallError(
                    f"{source}: {small} ({getattr(made, small):g}) must be less than "
                    f"{large} ({getattr(made, large):g})",
                    hint=why,
                )
        if made.lease_ttl_s >= made.lost_s * (1 - CLOCK_SLEW):
            source = where.get("lease_ttl_s") or where.get("lost_s") or ""
            raise CallError(
                f"{source}: lease_ttl_s ({made.lease_ttl_s:g}) must be less than lost_s ({made.lost_s:g}) "
                f"by more than {CLOCK_SLEW:.0%} of it",
                hint="the broker's clock may run so much faster while it follows the machine's",
            )

"""Finding renderers by name and by file, and describing their parameters.

What belongs here: the list of built-in renderers, the entry point group of third parties, and the one
description of parameters that ``farm schema renderer NAME``, ``--help`` and the docs are made from.
What must not: knowledge of any application.  Modules are imported when they are asked for, so that a
command that needs no renderer does not pay for one.
"""

from __future__ import annotations

import json
import types
import typing
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, Union

import msgspec

from farm.model.errors import UnknownName
from farm.renderers.base import Renderer

GROUP = "overcrank.renderers"

#: Built-in renderers: name to module.
BUILT_IN: dict[str, str] = {
    "blender": "farm.renderers.blender",
    "mitsuba": "farm.renderers.mitsuba",
    "ffmpeg": "farm.renderers.ffmpeg",
    "stitch": "farm.renderers.stitch",
    "command": "farm.renderers.command",
}

_ATTRIBUTES = (
    *("name", "summary", "params_type", "app", "kinds", "path_params", "input_params", "suffixes"),
    *("takes_lists", "whole_slice", "check", "invocations", "parser", "judge"),
)
_TYPE_WORDS: dict[object, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true|false",
    types.NoneType: "null",
    Any: "any",
}


class ParamInfo(msgspec.Struct, frozen=True):
    """One parameter, for people.

    Attributes:
        name: Its key in ``params``.
        type: Type in words, e.g. ``integer``, ``auto|cpu|cuda``, ``list of text``, ``path``.
        default: Default as JSON text; empty when it must be given.
        help: One sentence.
        required: Whether it must be given.
    """

    name: str
    type: str
    default: str
    help: str
    required: bool


def renderers() -> dict[str, Renderer]:
    """Every renderer that works here, by name: built-in ones first, then third parties'."""
    found = {name: _built_in(name) for name in BUILT_IN}
    found.update(_third_parties()[0])
    return found


def broken_renderers() -> dict[str, str]:
    """Third-party renderers that could not be used, by entry point name, each with the reason.

    They are reported (by ``farm doctor`` and by the error of ``get_renderer``) and never raised: one bad
    package must not take the farm's other renderers away.
    """
    return _third_parties()[1]


def get_renderer(name: str) -> Renderer:
    """The renderer of that name.

    Raises:
        UnknownName: There is none, or it is a third party's that is broken; says which there are.
    """
    if name in BUILT_IN:
        return _built_in(name)
    good, broken = _third_parties()
    if name in good:
        return good[name]
    names = ", ".join([*BUILT_IN, *good])
    if name in broken:
        raise UnknownName(
            f"renderer {name!r} is installed but broken: {broken[name]}", hint=f"there are {names}"
        )
    raise UnknownName(f"there is no renderer {name!r}", hint=f"there are {names}")


def renderer_for_file(path: str) -> Renderer:
    """The renderer that ``farm submit FILE`` hands a file to, by its suffix (case does not matter).

    Raises:
        UnknownName: No renderer takes such files.
    """
    lower = path.lower()
    every = renderers()
    for renderer in every.values():
        if any(lower.endswith(suffix) for suffix in renderer.suffixes):
            return renderer
    known = ", ".join(suffix for renderer in every.values() for suffix in renderer.suffixes)
    raise UnknownName(f"no renderer takes files like {path!r}", hint=f"known are {known}; or name one")


def describe(renderer: Renderer) -> list[ParamInfo]:
    """The renderer's parameters in the order of its record."""
    kind = renderer.params_type
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for field in msgspec.structs.fields(kind):
        name, hint = field.encode_name, hints[field.name]
        if field.default is not msgspec.NODEFAULT:
            default = _json(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            default = _json(field.default_factory())
        else:
            default = ""
        words = _words(hint)
        if name in renderer.path_params:
            words = words.replace("text", "path")
        elif name in renderer.input_params:
            words = 'path pattern or {"step": NAME, "output": N}'
        found.append(ParamInfo(name, words, default, _help(hint), field.required))
    return found


def _built_in(name: str) -> Renderer:
    renderer: Renderer = import_module(BUILT_IN[name]).RENDERER
    return renderer


def _third_parties() -> tuple[dict[str, Renderer], dict[str, str]]:
    good: dict[str, Renderer] = {}
    broken: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        if point.value.partition(":")[0] in BUILT_IN.values():
            continue
        reason = _load(point, good)
        if reason:
            broken[point.name] = reason
    return good, broken


def _load(point: EntryPoint, good: dict[str, Renderer]) -> str:
    """Loads one third-party renderer into ``good``; returns why it cannot be used, or nothing."""
    try:
        renderer = point.load()
    except Exception as error:  # the package may raise whatever it likes
        return f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
    lacking = [name for name in _ATTRIBUTES if not hasattr(renderer, name)]
    if lacking:
        return f"{point.value} is no renderer: it lacks {', '.join(lacking)}"
    if renderer.name != point.name:
        return f"{point.value} calls itself {renderer.name!r}, not {point.name!r}"
    if point.name in BUILT_IN or point.name in good:
        return f"{point.value} has the name of another renderer"
    good[point.name] = renderer
    return ""


def _help(hint: object) -> str:
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    return ""


def _words(hint: object) -> str:
    """A type in words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _words(args[0])
    if origin is Literal:
        return "|".join(str(value) if value != "" else '""' for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(arg) for arg in args if arg is not types.NoneType)
    if origin in (tuple, list):
        return f"list of {_words(args[0])}"
    if origin is dict or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return "table"
    return _TYPE_WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value))

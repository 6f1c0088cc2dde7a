"""Renderer parameters as people type them: ``KEY=VALUE``, converted by the renderer's own record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from farm.model.errors import CallError
from farm.renderers.base import Renderer


def read_assignments(renderer: Renderer, texts: Iterable[str]) -> dict[str, Any]:
    """The parameters that ``--param KEY=VALUE`` texts give.

    Text parameters take the value as it is.  ``KEY.NAME=VALUE`` sets one entry of a table.  Everything else
    is JSON where it is JSON, lists of texts may also be written with commas.

    Args:
        renderer: Whose parameters.
        texts: The assignments.

    Raises:
        CallError: No such parameter, or the value is not of its type.
    """
    hints = get_type_hints(renderer.params_type, include_extras=True)
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name, dot, entry = key.partition(".")
        if not equals or not name or (dot and not entry):
            raise CallError(f"--param {text!r} is not KEY=VALUE")
        hint = hints.get(name)
        if hint is None:
            raise CallError(
                f"--param: {renderer.name} has no parameter {name!r}",
                hint="it has " + ", ".join(renderer.params_type.__struct_fields__),
            )
        if dot:
            if get_origin(_bare(hint)) is not dict:
                raise CallError(f"--param: {renderer.name}'s {name} is no table, so {key!r} is nothing")
            found.setdefault(name, {})[entry] = _json_or_text(value)
        else:
            found[name] = _convert(value, hint, f"--param {name}")
    return found


def _convert(text: str, hint: Any, where: str) -> Any:
    kinds = [_bare(hint)]
    if get_origin(kinds[0]) is not None and type(None) in get_args(kinds[0]):
        kinds = [_bare(kind) for kind in get_args(kinds[0]) if kind is not type(None)]
    takes_text = str in kinds
    if takes_text and not (len(kinds) > 1 and text.lstrip().startswith("{")):
        value: Any = text
    elif any(get_origin(kind) is tuple for kind in kinds):
        value = _json_or_text(text)
        if not isinstance(value, list):
            value = [part.strip() for part in text.split(",") if part.strip()]
    elif any(get_origin(kind) is Literal for kind in kinds):
        value = text
    else:
        value = _json_or_text(text)
    try:
        return msgspec.to_builtins(msgspec.convert(value, hint, strict=False))
    except msgspec.ValidationError as error:
        raise CallError(f"{where}: {str(error).partition(' - at `')[0]}, given {text!r}") from error


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint

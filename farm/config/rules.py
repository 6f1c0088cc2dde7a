"""Path mapping rules as options give them: ``SOURCE=TARGET``."""

from __future__ import annotations

from collections.abc import Iterable

from farm.model.errors import CallError
from farm.model.paths import PathMapper, PathRule


def read_path_rules(texts: Iterable[str], source: str = "path_rules") -> tuple[PathRule, ...]:
    """The rules of option ``path_rules``.

    Raises:
        CallError: One is no rule; names it.
    """
    found = []
    for text in texts:
        left, equals, right = text.partition("=")
        if not equals:
            raise CallError(f"{source}: {text!r} is not SOURCE=TARGET", hint=r"write P:\proj=/mnt/proj")
        try:
            found.append(PathRule(left.strip(), right.strip()))
        except CallError as error:
            raise CallError(f"{source}: {error.message}", hint=error.hint) from error
    return tuple(found)


def path_mapper(texts: Iterable[str]) -> PathMapper:
    """The mapper of option ``path_rules``."""
    return PathMapper(read_path_rules(texts))

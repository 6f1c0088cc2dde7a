"""The arguments of a call that gives none, without argparse.

`farm jobs` and `farm status` are called again and again by people and scripts, and building a parser takes
longer than asking the broker.  A verb's own ``setup`` says what the defaults are; only a call that gives
something to parse needs the parser.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NeedsParser(Exception):
    """This verb cannot be called without arguments, or its defaults are not simple."""


class Defaults:
    """Stands in for ``argparse.ArgumentParser`` and only collects what arguments default to."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def add_argument(self, *names: str, **options: Any) -> None:
        """See argparse."""
        flag = names[0].startswith("-")
        required = options.get("required", False) if flag else options.get("nargs") not in ("?", "*")
        if required:
            raise NeedsParser
        named = next((name for name in names if name.startswith("--")), names[0])
        dest = options.get("dest") or named.lstrip("-").replace("-", "_")
        action = options.get("action", "store")
        if action not in ("store", "store_true", "append"):
            raise NeedsParser
        default = options.get("default", False if action == "store_true" else None)
        self.found[dest] = default

    def add_argument_group(self, *_: Any, **__: Any) -> Defaults:
        """See argparse."""
        return self

    def __getattr__(self, name: str) -> Any:
        raise NeedsParser


def plain_arguments(setup: Any) -> SimpleNamespace | None:
    """What argparse would give for a call without arguments; None when argparse has to be asked."""
    collected = Defaults()
    try:
        setup(collected)
    except NeedsParser:
        return None
    return SimpleNamespace(**collected.found)

"""``python -m tests.long NAME ...``: drivers that run as long as one likes, with a seed to repeat them."""

from __future__ import annotations

import argparse
import sys

from tests.long import bpy, chaos, core, gui, rules

_DRIVERS = {"bpy": bpy, "chaos": chaos, "core": core, "gui": gui, "rules": rules}


def main() -> int:
    """Runs one driver."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in _DRIVERS.items():
        module.add_arguments(names.add_parser(name, help=(module.__doc__ or "").split("\n")[0]))
    args = parser.parse_args()
    return _DRIVERS[args.name].run(args)


if __name__ == "__main__":
    sys.exit(main())

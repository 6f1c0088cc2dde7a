"""A farm with one job, and what a user changes about it.

What belongs here: setting fields as ``farm set`` does, and rendering all that is left.  What it may not know:
what should come of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.core_rig import Rig, step


def edit(rig: Rig, address: str, *, force: bool = False, **values: Any) -> Any:
    """Sets fields; a dot in a key is written as two underscores."""
    keys = {key.replace("__", "."): value for key, value in values.items()}
    return rig.act("set", address, msgspec.json.encode(keys).decode(), force=force)


def farm(frames: str = "1-4", *, nodes: int = 1, **fields: Any) -> Rig:
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}")
    rig.submit(step(frames=frames, **fields))
    return rig


def finish(rig: Rig) -> None:
    """Renders everything that is left, one frame at a time."""
    while leases := rig.dispatch():
        for lease in leases:
            rig.done(lease)

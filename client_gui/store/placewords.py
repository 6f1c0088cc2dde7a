"""Places of a job file as the form calls them, for people.

What belongs here: labels of fields with their step, and of parts of a field.  What may not: places as the
messages of job files write them (``draft``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client_gui.store.draft import Draft, Path, path_text, step_fields
from client_gui.store.fields import JOB_GROUPS, Field
from farm.renderers.base import Renderer


def part_words(rest: Path) -> str:
    """A part of a field's value in words: ``2, pattern``."""
    return ", ".join(str(one + 1) if isinstance(one, int) else str(one) for one in rest)


def place_words(draft: Draft, path: Path, renderers: Mapping[str, Renderer]) -> str:
    """A place as the form calls it: ``Scene of step 1 render``; "" for all of the job."""
    if not path:
        return ""
    at = path[1] if len(path) > 1 else None
    if path[0] != "steps" or not isinstance(at, int) or at >= len(draft.steps):
        fields = [(one.path, one) for group in JOB_GROUPS for one in group.fields]
        return _label(fields, path) or path_text(path)
    step = f"step {at + 1} {draft.steps[at].get('name', '')}".rstrip()
    if len(path) == 2:
        return step[:1].upper() + step[1:]
    label = "Renderer" if path[2] == "renderer" else _label(list(step_fields(draft, at, renderers)), path)
    return f"{label or path_text(path[2:])} of {step}"


def _label(fields: Sequence[tuple[Path, Field]], path: Path) -> str:
    """The label of the field a place lies in, and which part of it."""
    for own, one in fields:
        if path[: len(own)] == own:
            rest = path[len(own) :]
            if one.kind == "outputs" and rest[1:] == ("pattern",):
                rest = rest[:1]
            return f"{one.label} {part_words(rest)}".rstrip()
    return ""

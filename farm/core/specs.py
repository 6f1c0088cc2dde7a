"""The specification all pictures of a step must match, and the grants to publish that depend on it.

What belongs here: who may publish while the specification is unknown, and what becomes it.  The first frame
that is verified holds the place until it is done (then its specification is the step's, stored) or gone
(then the next one that waits takes the place).  Who holds the place is not stored: after a restart agents ask
again, and the first answer counts.
"""

from __future__ import annotations

import msgspec

from farm.core.apply import apply_spec
from farm.core.events import VerifiedEvent
from farm.core.outcome import GrantCommand, Outcome, StopCommand
from farm.core.rows import SpecRow
from farm.core.state import Attempt, Farm, Step
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.states import AttemptKind

_ENCODE = msgspec.msgpack.Encoder().encode

Specs = tuple[PictureSpec | None, ...]


def on_verified(farm: Farm, event: VerifiedEvent, out: Outcome) -> None:
    """A unit's files are good and wait: grant, reject, or let it wait for the first frame."""
    attempt = farm.attempts.get(event.attempt)
    if (
        attempt is None
        or attempt.nonce != event.nonce
        or attempt.node.id != event.node_id
        or event.unit not in attempt.open
    ):
        reason = "the attempt does not hold this unit"
        out.commands.append(StopCommand(event.node_id, event.attempt, reason, (event.unit,)))
        return
    step = attempt.step
    if step.copies and step.copies.get(event.unit) is attempt:
        # The first attempt must be known to have stopped before; what it says then decides.
        step.copy_waits[event.unit] = event.specs
        stop_first(step, event.unit, out)
        return
    _consider(step, attempt, event.unit, event.specs, out)


def stop_first(step: Step, unit: int, out: Outcome) -> None:
    """Asks the attempt that owes a unit to stop it, since a second copy of it is finished."""
    copy = step.copies[unit]
    for attempt in step.attempts.values():
        if attempt is not copy and attempt.kind is not AttemptKind.VERIFY and unit in attempt.open:
            part = () if len(attempt.open) == 1 else (unit,)
            reason = f"its second copy on {copy.node.name} is finished"
            out.commands.append(StopCommand(attempt.node.id, attempt.id, reason, part))


def take_over(farm: Farm, copy: Attempt, out: Outcome) -> None:
    """A second copy owes its unit alone now: if it waits to publish, it is answered."""
    step, unit = copy.step, copy.units[0]
    specs = step.copy_waits.pop(unit, None)
    if specs is not None and _holds(farm, copy.id, unit):
        _consider(step, copy, unit, specs, out)


def _consider(step: Step, attempt: Attempt, unit: int, specs: Specs, out: Outcome) -> None:
    """Who may publish: the first to ask, and what looks like it."""
    if step.specs is None:
        step.specs = specs
        step.spec_holder = (attempt.id, unit)
        _grant(attempt, unit, "", out)
        return
    _judge(step, attempt, unit, specs, out)


def _grant(attempt: Attempt, unit: int, reason: str, out: Outcome) -> None:
    """Sends a grant (or, with a reason, a refusal).

    A second copy may have been leased before the attempt it replaces was lost: the grant names that folder.
    """
    folders: tuple[str, ...] = ()
    if attempt.kind is AttemptKind.COPY and not reason:
        note = attempt.step.notes.get(unit)
        folders = tuple(note.folders) if note is not None else ()
    out.commands.append(GrantCommand(attempt.node.id, attempt.id, unit, reason, folders))


def _judge(step: Step, attempt: Attempt, unit: int, specs: Specs, out: Outcome) -> None:
    difference = spec_difference(step.specs or (), specs)
    if not difference:
        if step.spec_holder is not None:
            step.granted[(attempt.id, unit)] = None
        _grant(attempt, unit, "", out)
    elif step.spec_holder is None:
        _grant(attempt, unit, difference, out)
    else:
        step.waiting[(attempt.id, unit)] = specs


def spec_difference(known: Specs, specs: Specs) -> str:
    """In words, how pictures differ from the step's specification; "" when they do not."""
    for expected, found in zip(known, specs, strict=False):
        if expected is not None and found is not None:
            text = expected.difference(found)
            if text:
                return f"the picture {text} as the first frame of the step"
    return ""


def specs_of(step: Step, files: tuple[FileFacts, ...]) -> Specs:
    """What reported files say, per output of the step."""
    found: list[PictureSpec | None] = [None] * len(step.spec.outputs)
    for file in files:
        if 0 <= file.output < len(found):
            found[file.output] = file.spec
    return tuple(found)


def known_specs(step: Step) -> Specs | None:
    """The step's specification, None while it is unknown or only held."""
    return step.specs if step.spec_holder is None else None


def learn_spec(farm: Farm, step: Step, unit: int, files: tuple[FileFacts, ...], out: Outcome) -> None:
    """The first done frame's specification becomes the step's; those that waited for it are judged."""
    if not step.asks or known_specs(step) is not None:
        return
    row = SpecRow(farm.next_seq(), step.id, unit, _ENCODE(specs_of(step, files)))
    out.rows.append(row)
    apply_spec(farm, row)
    _wake_waiting(farm, step, out)


def review_holder(farm: Farm, step: Step, out: Outcome) -> None:
    """If the unit that holds the place is gone from its attempt, another takes it.

    First one that was granted because it looks the same, else the next one that waits.
    """
    if step.spec_holder is None or _holds(farm, *step.spec_holder):
        return
    for key in list(step.granted):
        del step.granted[key]
        if _holds(farm, *key):
            # It looks the same and may be published already: nothing changes for those that wait.
            step.spec_holder = key
            return
    step.spec_holder = step.specs = None
    for key, specs in list(step.waiting.items()):
        del step.waiting[key]
        if _holds(farm, *key):
            step.specs, step.spec_holder = specs, key
            _grant(farm.attempts[key[0]], key[1], "", out)
            _wake_waiting(farm, step, out)
            return


def _holds(farm: Farm, attempt_id: int, unit: int) -> bool:
    attempt = farm.attempts.get(attempt_id)
    return attempt is not None and unit in attempt.open


def _wake_waiting(farm: Farm, step: Step, out: Outcome) -> None:
    for (attempt_id, unit), specs in list(step.waiting.items()):
        del step.waiting[(attempt_id, unit)]
        if _holds(farm, attempt_id, unit):
            _judge(step, farm.attempts[attempt_id], unit, specs, out)

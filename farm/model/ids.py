"""Typed ids and the addresses people type.

An address names work everywhere in the product (CLI, GUI, logs, docs):

    J12                job
    J12/beauty         step
    J12/beauty/17-20   frames of a per-frame step (any frame range)
    J12/stitch         the unit of a single step is its step
    J12/beauty@7       attempt 7 of that step
    J12/beauty/17@7    frame 17 as attempt 7 rendered it
"""

from __future__ import annotations

import re
from typing import NewType

import msgspec

from farm.model.errors import CallError

JobId = NewType("JobId", int)
#: Row id of a step, unique in a farm; people see ``J12/beauty``.
StepId = NewType("StepId", int)
#: Row id of an attempt, unique in a farm; people see ``J12/beauty@7``.
AttemptId = NewType("AttemptId", int)
NodeId = NewType("NodeId", int)
#: Random 63-bit number stored with a lease; results must repeat it.
Nonce = NewType("Nonce", int)
#: Z85 text of a CURVE public key, 40 characters.
KeyText = NewType("KeyText", str)

STEP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_ADDRESS = re.compile(
    r"[Jj](?P<job>\d{1,15})"
    r"(?:/(?P<step>[A-Za-z_][A-Za-z0-9_.-]{0,63})(?:/(?P<frames>[^@]+))?(?:@(?P<attempt>\d{1,9}))?)?\Z"
)


class Address(msgspec.Struct, frozen=True):
    """A parsed address.

    Attributes:
        job: Job number.
        step: Step name, or None for the whole job.
        frames: Frame range text, or None for the whole step.
        attempt: Attempt number within the step, or None.
    """

    job: JobId
    step: str | None = None
    frames: str | None = None
    attempt: int | None = None

    def __str__(self) -> str:
        text = f"J{self.job}"
        if self.step is not None:
            text += f"/{self.step}"
        if self.frames is not None:
            text += f"/{self.frames}"
        if self.attempt is not None:
            text += f"@{self.attempt}"
        return text


def parse_address(text: str) -> Address:
    """Parses ``J12[/step[/frames]][@attempt]``.

    Raises:
        CallError: The text is no address.
    """
    match = _ADDRESS.match(text.strip())
    if match is None:
        raise CallError(
            f"{text!r} is not an address", hint="write J12, J12/beauty, J12/beauty/17-20 or J12/beauty@7"
        )
    attempt = match["attempt"]
    return Address(
        job=JobId(int(match["job"])),
        step=match["step"],
        frames=match["frames"],
        attempt=int(attempt) if attempt is not None else None,
    )


def attempt_folder(job: int, step: str, attempt: int, nonce: int) -> str:
    """Name of the folder an attempt writes into, inside its destination folder."""
    return f".overcrank-J{job}-{step}-{attempt}-{nonce:016x}"


ATTEMPT_FOLDER = re.compile(
    r"\.overcrank-J(?P<job>\d+)-(?P<step>[A-Za-z_][A-Za-z0-9_.-]{0,63})-(?P<attempt>\d+)-(?P<nonce>[0-9a-f]{16})\Z"
)

"""The error tree of the whole product.

What belongs here: every error a caller may see, named by who is at fault.  Adapters translate
foreign exceptions into this tree at their edge.  What must not: anything that needs I/O.

    OvercrankError
    |-- CallError           the caller's words are wrong                      exit 2
    |   |-- FrameRangeError     a frame range does not parse (has a position)
    |   |-- QueryError          a filter does not parse (has a position)
    |   |-- JobFileError        a job file field is wrong (has its path)
    |   |-- NotBuiltYet         a known field or option this version refuses by name
    |   |-- UnknownName         no such job, step, frame, node, renderer ...
    |   |-- IllegalMove         a state change the table does not allow
    |   `-- Denied              the key's role or user may not do this
    |-- WorkFailed          the farm worked, the work did not                 exit 1
    |   `-- OutputError         a file is missing, empty, unreadable or not as specified
    |-- FarmUnreachable     no broker, refused key, version mismatch          exit 3
    |   `-- SessionRefused      the broker answered the hello with a refusal
    |-- PeerError           the other side broke the protocol                 exit 3
    `-- StorageError        the state directory cannot be read or written     exit 3
"""

from __future__ import annotations


class OvercrankError(Exception):
    """Base of all errors.

    Args:
        message: What is wrong, in words a user understands; names the thing and where.
        hint: What to do about it, when known.
    """

    exit_code = 1
    #: Stable name on the wire and in ``--json`` replies.
    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class CallError(OvercrankError):
    """The call was wrong."""

    exit_code = 2
    code = "call"


class FrameRangeError(CallError):
    """A frame range does not parse.

    Attributes:
        position: 0-based character index of the offending part.
    """

    code = "frame-range"

    def __init__(self, message: str, position: int = 0, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position


class JobFileError(CallError):
    """A job file is wrong.

    Attributes:
        path: Where in the file, e.g. ``steps[0].outputs[1].pattern``.
    """

    code = "job-file"

    def __init__(self, message: str, path: str = "", *, hint: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message, hint=hint)
        self.path = path


class NotBuiltYet(CallError):
    """A known field or option that this version cannot honour: refused by name, never ignored."""

    code = "not-built-yet"


class UnknownName(CallError):
    """Nothing of that name or address exists."""

    code = "unknown"


class IllegalMove(CallError):
    """A state change the table of legal moves does not allow; nothing was changed."""

    code = "illegal-move"


class Denied(CallError):
    """The sender's key may not do this."""

    code = "denied"


class WorkFailed(OvercrankError):
    """The farm did its part; the work itself failed."""

    code = "work-failed"


class OutputError(WorkFailed):
    """An output file is missing, empty, unreadable or not as specified.

    Attributes:
        path: The file.
    """

    code = "output"

    def __init__(self, message: str, path: str = "", *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class FarmUnreachable(OvercrankError):
    """No broker answers, or it refuses this key or version."""

    exit_code = 3
    code = "unreachable"


class SessionRefused(FarmUnreachable):
    """The broker answered the hello with a refusal and a reason."""

    code = "refused"


class PeerError(OvercrankError):
    """The other side sent something the protocol does not allow."""

    exit_code = 3
    code = "peer"


class StorageError(OvercrankError):
    """The farm's state cannot be read or written (disk full, corrupt, in use)."""

    exit_code = 3
    code = "storage"


def _tree(root: type[OvercrankError]) -> dict[str, type[OvercrankError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_wire(code: str, message: str, hint: str = "") -> OvercrankError:
    """Rebuilds an error that crossed the wire as (code, message, hint)."""
    kind = _tree(OvercrankError).get(code, OvercrankError)
    error = kind.__new__(kind)
    OvercrankError.__init__(error, message, hint=hint)
    return error

"""What every client says when it opens a session, and the words for what may go wrong on it.

What belongs here: the hello, and errors in the user's words, the same in a shell and in a window.  What must
not: waiting, sockets, and what a client does about an error.
"""

from __future__ import annotations

from farm import __version__
from farm.model.errors import FarmUnreachable, OvercrankError, PeerError, SessionRefused, from_wire
from farm.protocol.bulk import BulkErrorMsg
from farm.protocol.common import HelloMsg


def hello(oldest: int, newest: int) -> HelloMsg:
    """The hello of a client that speaks these versions of the protocol."""
    return HelloMsg(oldest=oldest, newest=newest, software=__version__)


def refusal(error: SessionRefused) -> SessionRefused:
    """What a broker refused with, read on this side: it speaks of versions from its own."""
    hint = {
        "the peer is too old: upgrade it": f"this installation ({__version__}) is too old: upgrade it",
        "this side is too old: upgrade it": "the broker is too old: upgrade it, or use its version here",
    }.get(error.hint, error.hint)
    return SessionRefused(error.message, hint=hint)


def not_understood(error: PeerError) -> SessionRefused:
    """What a broker of another version answers to a hello may not be understood at all."""
    return SessionRefused(error.message, hint=error.hint or "use the version of the broker")


def bulk_error(message: BulkErrorMsg) -> OvercrankError:
    """The error a request on the bulk socket ended with."""
    return from_wire(message.code, message.reason)


def outcome_unknown(place: str) -> FarmUnreachable:
    """The connection was lost after something that must not be done twice was sent."""
    return FarmUnreachable(
        f"the connection to {place} was lost before the answer came",
        hint="whether it was done is not known: look before doing it again",
    )


def no_answer(place: str, timeout_s: float) -> FarmUnreachable:
    """A request got no answer in time."""
    return FarmUnreachable(
        f"{place} gave no answer in {timeout_s:g} s",
        hint="it may be busy; try again, or with a longer OVERCRANK_TIMEOUT_S",
    )


def no_bulk_answer(place: str, timeout_s: float) -> FarmUnreachable:
    """A request on the bulk socket got no answer in time."""
    return FarmUnreachable(f"the bulk socket of {place} gave no answer in {timeout_s:g} s")


def no_welcome(place: str, timeout_s: float) -> FarmUnreachable:
    """The connection is there, and the hello was not answered in time."""
    return FarmUnreachable(
        f"{place} took the connection but did not answer in {timeout_s:g} s",
        hint="the broker may be busy or stopped; its log says more",
    )

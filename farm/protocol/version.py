"""Protocol version and its negotiation.

The schema is additive: unknown fields are ignored, so a peer one version away still understands what
it needs.  A broker speaks its own version and the one before.
"""

from __future__ import annotations

from farm.model.errors import PeerError

#: This build's protocol version.
VERSION = 1
#: The oldest version this build still speaks: its own and the one before.
OLDEST = max(1, VERSION - 1)


def negotiate(theirs: tuple[int, int], ours: tuple[int, int] = (OLDEST, VERSION)) -> int:
    """The newest version both sides speak.

    Args:
        theirs: (oldest, newest) the peer offers.
        ours: (oldest, newest) of this side.

    Raises:
        PeerError: They have none in common; says which side is too old.
    """
    low, high = theirs
    if low > high:
        raise PeerError(f"a peer offers protocol versions {low} to {high}, which is no range")
    best = min(high, ours[1])
    if best < max(low, ours[0]):
        older = "the peer" if high < ours[0] else "this side"
        raise PeerError(
            f"no protocol version in common: peer {low}-{high}, here {ours[0]}-{ours[1]}",
            hint=f"{older} is too old: upgrade it",
        )
    return best

"""Finds a farm's broker and this user's key, and dials.

What belongs here: addresses, keys, joining, and words for why a farm cannot be reached.  What must not: the
messages of a session (``farm.sdk.client``).
"""

from __future__ import annotations

import time

import msgspec

from farm.config.places import (
    LOCAL,
    Endpoint,
    Places,
    check_farm_name,
    farm_name,
    read_endpoint,
    remember_joined,
)
from farm.model.errors import CallError, FarmUnreachable, SessionRefused, StorageError
from farm.protocol.bulk import JoinedMsg, JoinMsg, JoinRefusedMsg
from farm.protocol.codec import encode, join_out_codec
from farm.transport.addresses import HostPort
from farm.transport.client_link import ClientLink, LinkState
from farm.transport.keys import KeyPair, load_keypair, load_or_create_keypair

#: The address named when no broker of this machine has ever said where it listens.
LOCAL_ADDRESS = "127.0.0.1:7460"
#: How long a dialled address may stay silent or refuse before the caller is told; a broker that is just
#: starting gets this much.
PATIENCE_S = 1.0
_START = "start one with `farm broker`"
_SLICE_S = 0.05


class Access(msgspec.Struct, frozen=True):
    """All that is needed to dial a farm.

    Attributes:
        farm: Its name here.
        endpoint: Where its broker is.
        pair: This user's keys.
    """

    farm: str
    endpoint: Endpoint
    pair: KeyPair


def find_access(name: str | None = None) -> Access:
    """Where the farm is and the key to show it.

    On the broker's own machine its ``local-admin.key`` is used: nobody has to handle keys there.

    Raises:
        FarmUnreachable: No broker has run here and the farm was never joined, or its broker has ended.
        StorageError: A file is damaged, or a key can be read by others.
    """
    farm = farm_name(name)
    places = Places(farm)
    local = read_endpoint(places.endpoint)
    if local is not None and not local.process_gone:
        key = places.admin_key if places.admin_key.exists() else places.client_key
        return Access(farm, local, load_keypair(key))
    joined = read_endpoint(places.joined)
    if joined is not None:
        return Access(farm, joined, load_keypair(places.client_key))
    if places.is_private:
        what = "has ended" if local is not None else "is not kept here"
        raise FarmUnreachable(
            f"the private farm {farm} {what}", hint=f"`farm broker --farm {farm}` opens it again"
        )
    if local is not None:
        raise FarmUnreachable(
            f"no farm answers at {local.control}: its broker (process {local.pid}) has ended",
            hint=_start(farm),
        )
    if farm == LOCAL:
        raise FarmUnreachable(f"no farm answers at {LOCAL_ADDRESS}", hint=_START)
    raise FarmUnreachable(
        f"this machine knows no farm named {farm!r}",
        hint=f"join it with `farm join TOKEN`, or {_start(farm)}",
    )


def dial(access: Access, address: str, timeout_s: float) -> ClientLink:
    """A link to one of the broker's sockets that is up.

    Raises:
        FarmUnreachable: Nobody answers there, or it is not this broker.
        SessionRefused: The broker does not accept this key.
    """
    link = ClientLink(address, access.pair, access.endpoint.public)
    started_s = time.monotonic()
    try:
        while link.state is not LinkState.UP:
            waited_s = time.monotonic() - started_s
            status = link.status
            if status.state is LinkState.REFUSED:
                raise SessionRefused(status.reason, hint=status.hint)
            if waited_s >= timeout_s or (status.state is LinkState.UNREACHABLE and waited_s >= PATIENCE_S):
                raise why_unreachable(access, address, link.error())
            try:
                link.wait_up(_SLICE_S)
            except FarmUnreachable:
                continue  # the state is looked at again above
    except BaseException:
        link.close()
        raise
    return link


def why_unreachable(access: Access, address: str, error: FarmUnreachable) -> FarmUnreachable:
    """What a link says of its trouble, with what is known of the farm: one of this machine can be started."""
    if access.endpoint.pid and error.message.startswith("nothing answers"):
        return FarmUnreachable(f"no farm answers at {address}", hint=_start(access.farm))
    return error


def _start(farm: str) -> str:
    return _START if farm == LOCAL else f"start it with `farm broker --farm {farm}`"


def join(
    token: str, *, name: str | None = None, label: str = "", timeout_s: float = 10.0
) -> tuple[str, JoinedMsg]:
    """Redeems a token for a fresh key, and remembers the farm.

    The key lies in ``joining.key`` until the broker has answered, so that trying again after a lost answer
    shows the same key, which a token allows.  It then becomes this user's or, with an agent's token, the
    agents' key of this machine.

    Args:
        token: The whole token.
        name: Name to keep the farm under; default: the token's, or the broker's host.
        label: What administrators see beside the key.
        timeout_s: How long to wait for the broker.

    Returns:
        The name the farm is kept under, and the broker's answer.

    Raises:
        CallError: No token, or the name is taken by another farm.
        SessionRefused: The broker does not accept it; says why.
        FarmUnreachable: It does not answer.
    """
    from farm.transport.token import parse_token

    parsed = parse_token(token)
    places = Places(_name_for(name, parsed.farm, parsed.control.host))
    known = read_endpoint(places.joined) or read_endpoint(places.endpoint)
    if known is not None and known.public != parsed.broker:
        raise CallError(
            f"another farm is kept as {places.farm!r} here",
            hint="choose a name: `farm join TOKEN --name NAME`",
        )
    places.make()
    pair = load_or_create_keypair(places.joining_key)
    endpoint = Endpoint(
        control=str(parsed.control),
        join=str(parsed.join),
        bulk=_bulk_beside(parsed.control.host, parsed.control.port),
        public=parsed.broker,
        farm_id="",
    )
    link = dial(Access(places.farm, endpoint, pair), endpoint.join, timeout_s)
    try:
        link.send(encode(JoinMsg(secret=parsed.secret, label=label)))
        body = link.recv(timeout_s)
    finally:
        link.close()
    if body is None:
        raise FarmUnreachable(f"the broker at {endpoint.join} does not answer the join token")
    answer = join_out_codec().decode(body)
    if isinstance(answer, JoinRefusedMsg):
        raise SessionRefused(answer.reason, hint="ask for a new token: `farm keys invite`")
    assert isinstance(answer, JoinedMsg)  # the codec knows these two
    target = places.agent_key if answer.role == "agent" else places.client_key
    try:
        places.joining_key.replace(target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}") from error
    bulk = endpoint.bulk
    if answer.bulk_port:
        bulk = str(HostPort(parsed.control.host, answer.bulk_port))
    remember_joined(places, msgspec.structs.replace(endpoint, farm_id=answer.farm_id, bulk=bulk))
    return places.farm, answer


def _name_for(name: str | None, in_token: str, host: str) -> str:
    if name:
        return check_farm_name(name, "--name")
    # "local" is the farm of this machine; another machine's is called by where it is.
    named = in_token if in_token and in_token != LOCAL else host.replace(":", "_").replace("%", "_")
    return check_farm_name(named, "the token's farm")


def _bulk_beside(host: str, control_port: int) -> str:
    # The token names no bulk port; brokers number their three sockets in a row unless they say otherwise.
    return str(HostPort(host, control_port + 2))

"""The farm: its options, folders, keys and ports on this machine, and whether its broker answers.

What belongs here: the state of one farm as this user sees it.  What must not: changing it; not even a folder
is made.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from farm.cli.doctor.check import Check
from farm.config.places import Places, find_endpoint, read_endpoint
from farm.model.errors import FarmUnreachable, OvercrankError

if TYPE_CHECKING:
    from farm.config.options import BrokerOptions

#: Seconds a broker gets to answer.
PATIENCE_S = 5.0


def options(name: str) -> Check:
    """The configuration file and the variables, for everything that reads them."""
    from farm.config.load import load_agent_options, load_broker_options, load_client_options

    path = Places(name).options
    try:
        for load in (load_broker_options, load_agent_options, load_client_options):
            load(name)
    except OvercrankError as error:
        return Check("options", "missing", error.message, error.hint or f"mend {path}", needed=True)
    variables = sorted(key for key in os.environ if key.startswith("OVERCRANK_"))
    where = str(path) if path.exists() else "defaults"
    return Check("options", "ok", ", ".join([where, *variables]), needed=True)


def folders(name: str) -> list[Check]:
    """State and configuration: can be written, and the state is on a local disk."""
    places = Places(name)
    return [_folder("state", places.state, local=True), _folder("config", places.config, local=False)]


def _folder(name: str, folder: Path, *, local: bool) -> Check:
    from farm.storage.ground import NETWORK, file_system

    variable = "XDG_STATE_HOME" if local else "XDG_CONFIG_HOME"
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return Check(name, "missing", f"{there} is in the way: no folder", f"set {variable}", needed=True)
    kind = file_system(there)
    if local and kind in NETWORK:
        detail = f"{folder} is on a network file system ({kind}), where a database is not safe"
        return Check(name, "missing", detail, f"set {variable} to a folder on a local disk", needed=True)
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".overcrank-doctor-"):
            pass
    except OSError as error:
        detail = f"{there} cannot be written: {error.strerror or error}"
        return Check(name, "missing", detail, f"chown it to yourself, or set {variable}", needed=True)
    on = f" ({kind})" if kind else ""
    made = "" if there == folder else ", will be made"
    return Check(name, "ok", f"{folder}{on}{made}", needed=True)


def keys(name: str) -> list[Check]:
    """Key files: whole, and nobody else's to read."""
    from farm.transport.keys import load_keypair

    places = Places(name)
    found, good = [], []
    for path in (places.broker_key, places.admin_key, places.client_key, places.agent_key):
        if not os.path.lexists(path):
            continue
        try:
            load_keypair(path)
            good.append(path.name)
        except OvercrankError as error:
            found.append(Check("keys", "warn", error.message, error.hint))
    if good or not found:
        said = ", ".join(good) if good else "none here yet; a farm of one machine makes its own"
        found.insert(0, Check("keys", "ok", said))
    return found


def ports(name: str) -> list[Check]:
    """The broker's three ports: free, or taken by this farm's own broker."""
    from farm.config.load import load_broker_options

    try:
        chosen = load_broker_options(name)
    except OvercrankError:
        return []  # the check of the options says it
    own = read_endpoint(Places(name).endpoint)
    ours = set()
    if own is not None and own.pid and not own.process_gone:
        ours = {int(text.rpartition(":")[2]) for text in (own.control, own.join, own.bulk)}
    return [
        _port(which, port, chosen, ours)
        for which, port in (
            ("control", chosen.control_port),
            ("join", chosen.join_port),
            ("bulk", chosen.bulk_port),
        )
        if port
    ]


def _port(which: str, port: int, chosen: BrokerOptions, ours: set[int]) -> Check:
    name = f"port-{which}"
    if port in ours:
        return Check(name, "ok", f"{port} is this farm's broker's")
    host = {"*": "0.0.0.0"}.get(chosen.listen, chosen.listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        cure = f"end that program, or choose another: farm broker --{which}-port N"
        return Check(name, "warn", f"{host}:{port} cannot be had: {error.strerror or error}", cure)
    return Check(name, "ok", f"{port} is free")


def broker(name: str) -> tuple[Check, int]:
    """Whether the broker answers; also when, by its clock, the newest thing happened (microseconds, or 0)."""
    from farm.sdk.client import Farm

    try:
        known = find_endpoint(Places(name)) is not None
    except OvercrankError as error:
        return Check("broker", "warn", error.message, error.hint), 0
    if not known:
        said = f"farm {name} is not set up on this machine; `farm demo` and `farm run` bring their own"
        return Check("broker", "ok", said), 0
    try:
        with Farm.connect(name, timeout_s=PATIENCE_S) as farm:
            status, welcome = farm.status(), farm.welcome
            newest_us = max((row.at_us for row in farm.history(limit=1).rows), default=0)
            place = farm.place
    except FarmUnreachable as error:
        return Check("broker", "warn", error.message, error.hint), 0
    except OvercrankError as error:
        return Check("broker", "warn", error.message, error.hint), 0
    nodes = sum(status.nodes.values())
    who = f"{welcome.role} {welcome.user}".strip()
    said = f"{status.farm_name} at {place}, version {status.software}, {nodes} nodes; your key is of {who}"
    return Check("broker", "ok", said), newest_us

"""Every option of the product, once: name, type, default, unit, help.

What belongs here: one typed record per group, whose fields *are* the options.  The command line, the
configuration file, the environment and the reference docs are derived from them.  What must not: reading
any of those (``farm.config.load`` does) or acting on a value.

A name says its unit: ``_s`` seconds, ``_bytes`` and ``_mib`` sizes, ``_usd_h`` US dollars per hour.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

#: Groups an option can belong to; one table of the configuration file each.
Group = Literal["farm", "broker", "agent", "client"]

#: While the broker's clock and the machine's differ, the broker's runs faster or slower by this share.
CLOCK_SLEW = 0.05

_Port = Annotated[int, Meta(ge=0, le=65535)]
_Seconds = Annotated[float, Meta(gt=0, le=10_000_000)]
_Level = Literal["debug", "info", "warning", "error"]


def _help(text: str, unit: str = "") -> Meta:
    return Meta(description=text, extra={"unit": unit})


class FarmOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of everything that runs on this machine for the farm (table ``[farm]``)."""

    log_level: Annotated[_Level, _help("least severe kind of message that is logged")] = "info"
    path_rules: Annotated[
        tuple[str, ...],
        _help("path mapping rules, each 'SOURCE=TARGET'; the longest source that fits a path wins"),
    ] = ()


class BrokerOptions(FarmOptions, frozen=True, kw_only=True):
    """Options of the broker (table ``[broker]``)."""

    listen: Annotated[str, _help("address the broker listens on; 0.0.0.0 for all interfaces")] = "127.0.0.1"
    advertise: Annotated[
        str, _help("host name or address put into join tokens; empty: the address listened on")
    ] = ""
    control_port: Annotated[_Port, _help("port of the control socket; 0 takes a free one")] = 7460
    join_port: Annotated[_Port, _help("port of the join socket; 0 takes a free one")] = 7461
    bulk_port: Annotated[_Port, _help("port of the bulk socket (logs, previews); 0 takes a free one")] = 7462
    metrics_port: Annotated[
        _Port, _help("port that serves figures for Prometheus in plain HTTP at /metrics; 0: none")
    ] = 0
    discovery: Annotated[
        Literal["on", "off"],
        _help(
            "whether a broker that others can reach tells its network that it is there (mDNS); nobody gets in"
            " by that: joining takes a token"
        ),
    ] = "on"
    heartbeat_s: Annotated[_Seconds, _help("time between two heartbeats of an agent", "s")] = 2.0
    suspect_s: Annotated[_Seconds, _help("silence after which an agent is suspect: no new work", "s")] = 15.0
    lost_s: Annotated[_Seconds, _help("silence after which an agent and its attempts are lost", "s")] = 60.0
    lease_ttl_s: Annotated[
        _Seconds, _help("how long after an answered heartbeat an agent may still publish files", "s")
    ] = 45.0
    kill_grace_s: Annotated[
        _Seconds, _help("time between asking a renderer to end and killing its process tree", "s")
    ] = 15.0
    restart_grace_s: Annotated[
        _Seconds, _help("time agents get after a broker's start to re-offer what they hold", "s")
    ] = 60.0
    chunk_target_s: Annotated[_Seconds, _help("length an adaptive chunk aims at", "s")] = 120.0
    log_cap_bytes: Annotated[
        Annotated[int, Meta(ge=4096)], _help("bytes of log kept for one attempt", "bytes")
    ] = 1 << 30
    archive_after_days: Annotated[
        Annotated[float, Meta(ge=0, le=36_500)],
        _help("days after which a job at rest leaves the broker's memory for the archive; 0: never", "days"),
    ] = 30.0
    database: Annotated[
        str,
        _help(
            "where the farm's state is; empty: a file of its own, else postgresql://USER@HOST:PORT/NAME with"
            " the password in ~/.pgpass or PGPASSWORD"
        ),
    ] = ""
    rate_usd_h: Annotated[
        Decimal, _help("price of a machine of site 'local', unless the node has a rate of its own", "USD/h")
    ] = Decimal(0)


class AgentOptions(FarmOptions, frozen=True, kw_only=True):
    """Options of the agents of this machine (table ``[agent]``)."""

    node_name: Annotated[str, _help("name of the node; empty: the host name")] = ""
    agents: Annotated[
        Annotated[int, Meta(ge=1, le=1024)],
        _help("agents on this machine; cores, RAM, GPUs and rate are split evenly"),
    ] = 1
    cores: Annotated[
        Annotated[int, Meta(ge=0)], _help("logical processors given to the farm; 0: all of them")
    ] = 0
    ram_mib: Annotated[Annotated[int, Meta(ge=0)], _help("memory given to the farm; 0: all of it", "MiB")] = 0
    disk_mib: Annotated[
        Annotated[int, Meta(ge=0)],
        _help("scratch disk given to the farm; 0: about what is free when the agent starts", "MiB"),
    ] = 0
    tokens: Annotated[
        tuple[str, ...], _help("custom countable things of this machine, each 'NAME=COUNT' (fx-card=2)")
    ] = ()
    scratch: Annotated[str, _help("folder for temporary files; empty: the system's")] = ""
    allow_renderers: Annotated[
        tuple[str, ...], _help("renderers this agent may run; empty: every one found here")
    ] = ()
    deny_renderers: Annotated[tuple[str, ...], _help("renderers this agent never runs")] = ()
    attributes: Annotated[tuple[str, ...], _help("attributes of the node, each 'NAME=VALUE'")] = ()
    update_command: Annotated[
        tuple[str, ...],
        _help("argument list that updates this software; {version} is the version to get; empty: none"),
    ] = ()
    update_timeout_s: Annotated[_Seconds, _help("how long update_command may take", "s")] = 1800.0


class ClientOptions(FarmOptions, frozen=True, kw_only=True):
    """Options of the command line and other clients (table ``[client]``)."""

    timeout_s: Annotated[_Seconds, _help("how long a client waits for the broker's answer", "s")] = 10.0
    user: Annotated[str, _help("whose jobs these are; empty: the login name")] = ""
    project: Annotated[str, _help("project that jobs are accounted to when none is named")] = ""


#: The typed record of each group.
RECORDS: dict[str, type[FarmOptions]] = {
    "farm": FarmOptions,
    "broker": BrokerOptions,
    "agent": AgentOptions,
    "client": ClientOptions,
}

"""The verb that runs a farm's broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.service import add_leash, hold_leash, on_signals, start_logging

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.config.places import Endpoint

_FLAGS = (
    ("--listen", "listen", "ADDRESS"),
    ("--advertise", "advertise", "HOST"),
    ("--control-port", "control_port", "PORT"),
    ("--join-port", "join_port", "PORT"),
    ("--bulk-port", "bulk_port", "PORT"),
    ("--metrics-port", "metrics_port", "PORT"),
    ("--discovery", "discovery", "on|off"),
    ("--database", "database", "URL"),
    ("--rate-usd-h", "rate_usd_h", "USD"),
    ("--heartbeat-s", "heartbeat_s", "S"),
    ("--suspect-s", "suspect_s", "S"),
    ("--lost-s", "lost_s", "S"),
    ("--lease-ttl-s", "lease_ttl_s", "S"),
    ("--kill-grace-s", "kill_grace_s", "S"),
    ("--restart-grace-s", "restart_grace_s", "S"),
    ("--chunk-target-s", "chunk_target_s", "S"),
    ("--archive-after-days", "archive_after_days", "DAYS"),
    ("--log-level", "log_level", "LEVEL"),
)


def _setup(parser: argparse.ArgumentParser) -> None:
    from farm.config.load import options

    helps = {option.name: option.help for option in options()}
    for flag, name, metavar in _FLAGS:
        parser.add_argument(
            flag, dest=f"option_{name}", metavar=metavar, help=helps.get(name, "").replace("%", "%%")
        )
    parser.add_argument("--announce", action="store_true", help="print where it serves as one line of JSON")
    add_leash(parser)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    import getpass

    from farm.broker.app import Broker
    from farm.cli.private import refuse_simulated
    from farm.config.load import load_broker_options
    from farm.config.places import Places, farm_name

    name = farm_name(arguments.farm)
    if arguments.leash is None:
        # On a leash it is opened for one command that looks at it.
        refuse_simulated(Places(name))
    flags = {key: getattr(arguments, f"option_{key}") for _, key, _ in _FLAGS}
    options = load_broker_options(name, {key: value for key, value in flags.items() if value is not None})
    start_logging(options.log_level)

    def announce(endpoint: Endpoint) -> None:
        if console.json or arguments.announce:
            fields = {"control": endpoint.control, "join": endpoint.join, "bulk": endpoint.bulk}
            console.document({"farm": name, "farm_id": endpoint.farm_id, **fields}, one_line=True)
        else:
            console.line(f"farm {name} is served at {endpoint.control}; Ctrl-C stops it")
        console.flush()

    broker = Broker(name, options, user=getpass.getuser(), announce=announce)
    on_signals(broker.stop)
    hold_leash(arguments.leash, broker.stop)
    broker.run()
    return 0


COMMANDS = {
    "broker": Command(
        _setup,
        _run,
        (
            "farm broker                              # serve this machine's farm on 127.0.0.1",
            "farm broker --listen 0.0.0.0 --advertise farm.studio.lan --rate-usd-h 0.50",
            "farm keys invite --role agent --pool gpu # then, on another machine: farm agent --join TOKEN",
        ),
    )
}

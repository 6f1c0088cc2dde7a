"""The verb that runs render agents on this machine: one process per slice.

What belongs here: the agents' key, their options files, starting and ending their processes.  What must
not: what an agent does (``node_agent``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.service import add_leash, hold_leash, on_signals, start_logging
from farm.model.errors import CallError, FarmUnreachable

if TYPE_CHECKING:
    import argparse
    import subprocess
    import threading
    from pathlib import Path

    from farm.cli.console import Console
    from farm.config.options import AgentOptions
    from farm.config.places import Endpoint, Places

#: An agent that lived shorter than this has not begun its work.
QUICK_S = 10.0
#: How often in a row an agent may end so before it is left alone.
QUICK_MOST = 3

_FLAGS = (
    ("--agents", "agents", "N", "agents on this machine; cores, memory and GPUs are split evenly"),
    ("--node-name", "node_name", "NAME", "name of the node (default: the host name)"),
    ("--cores", "cores", "N", "logical processors given to the farm (default: all)"),
    ("--ram-mib", "ram_mib", "SIZE", "memory given to the farm (default: all)"),
    ("--disk-mib", "disk_mib", "SIZE", "scratch disk given to the farm (default: about what is free)"),
    ("--scratch", "scratch", "FOLDER", "folder for temporary files"),
    ("--log-level", "log_level", "LEVEL", "least severe kind of message that is logged"),
)


def _setup(parser: argparse.ArgumentParser) -> None:
    for flag, name, metavar, text in _FLAGS:
        parser.add_argument(flag, dest=f"option_{name}", metavar=metavar, help=text)
    parser.add_argument(
        "--attribute", action="append", metavar="K=V", help="attribute of the node (repeatable)"
    )
    parser.add_argument(
        "--token", action="append", metavar="NAME=N", help="countable thing of this machine (repeatable)"
    )
    parser.add_argument("--allow", action="append", metavar="RENDERER", help="run only these (repeatable)")
    parser.add_argument("--deny", action="append", metavar="RENDERER", help="never run these (repeatable)")
    parser.add_argument(
        "--app", action="append", default=[], metavar="PATH", help="further application to offer (repeatable)"
    )
    parser.add_argument("--join", metavar="TOKEN", help="join a farm with an agent's token first")
    parser.add_argument("--pool", default="", help="pool, when the broker runs on this machine")
    parser.add_argument("--site", default="", help="site, when the broker runs on this machine")
    parser.add_argument("--drain-on-term", action="store_true", help="on SIGTERM finish what runs")
    parser.add_argument(
        "--damage-frame", type=int, metavar="N", help="FAULT INJECTION: spoil this frame's files"
    )
    parser.add_argument(
        "--pause-before-publish", default="", metavar="FIFO", help="FAULT INJECTION for tests"
    )
    add_leash(parser)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    import logging
    import os
    import threading

    from farm.config.load import load_agent_options
    from farm.config.places import Places, farm_name

    name = farm_name(arguments.farm)
    if arguments.join:
        from farm.sdk.connect import join

        name, answer = join(arguments.join, name=arguments.farm, label=_label())
        if answer.role != "agent":
            raise CallError(f"that token is for the role {answer.role}", hint="invite with --role agent")
    flags = {key: getattr(arguments, f"option_{key}") for _, key, _, _ in _FLAGS}
    flags |= {
        "attributes": tuple(arguments.attribute) if arguments.attribute else None,
        "tokens": tuple(arguments.token) if arguments.token else None,
        "allow_renderers": tuple(arguments.allow) if arguments.allow else None,
        "deny_renderers": tuple(arguments.deny) if arguments.deny else None,
    }
    options = load_agent_options(name, {key: value for key, value in flags.items() if value is not None})
    start_logging(options.log_level)
    places = Places(name)
    endpoint, key_file = _endpoint_and_key(places, name, arguments)
    stop = threading.Event()
    on_signals(stop.set)
    hold_leash(arguments.leash, stop.set)
    folders, claims = _claim(places, key_file, options.agents)
    files = [
        _write_options(folder, number, key_file, endpoint, options, arguments, index)
        for index, (number, folder) in enumerate(folders)
    ]
    logging.getLogger("overcrank.agent").info("starting farm=%s agents=%s", name, len(files))
    if not console.json:
        console.line(f"{len(files)} agents join farm {name} at {endpoint.control}; Ctrl-C stops them")
        console.flush()
    try:
        return _tend(files, stop)
    finally:
        for handle in claims:
            os.close(handle)


def _claim(places: Places, key_file: Path, count: int) -> tuple[list[tuple[int, Path]], list[int]]:
    """State folders that no other agent of this farm and key uses: (number, folder) and their locks."""
    from node_agent.home import claim

    # Agents of another pool have another key; their folders are kept apart, as their outboxes are theirs.
    group = key_file.stem.removeprefix("agent").lstrip("-")
    folders: list[tuple[int, Path]] = []
    claims: list[int] = []
    number = 0
    while len(folders) < count:
        folder = places.state / "agents" / (f"{group}-{number}" if group else str(number))
        handle = claim(folder)
        if handle is not None:
            folders.append((number, folder))
            claims.append(handle)
        number += 1
    return folders, claims


def _key_file(places: Places, arguments: argparse.Namespace) -> Path:
    """The agents' key on the broker's own machine: one for each pool and site they are started in."""
    import hashlib

    if not arguments.pool and not arguments.site:
        return places.agent_key
    name = hashlib.sha256(f"{arguments.pool}\0{arguments.site}".encode()).hexdigest()[:12]
    return places.config / f"agent-{name}.key"


def _label() -> str:
    import platform

    return platform.node() or "agent"


def _endpoint_and_key(places: Places, name: str, arguments: argparse.Namespace) -> tuple[Endpoint, Path]:
    """Where the broker is, and the agents' key; on the broker's own machine that is made known to it here.

    Raises:
        FarmUnreachable: No broker runs here and no farm was joined.
    """
    from farm.config.places import read_endpoint
    from farm.transport.keys import load_or_create_keypair

    local = read_endpoint(places.endpoint)
    if local is not None and not local.process_gone and places.admin_key.exists():
        from farm.sdk.client import Farm

        places.make()
        key_file = _key_file(places, arguments)
        pair = load_or_create_keypair(key_file)
        with Farm.connect(name) as farm:
            farm.keys(
                "keys-add",
                role="agent",
                key=pair.public,
                label=f"agents of {_label()}",
                pool=arguments.pool,
                site=arguments.site,
            )
        return local, key_file
    joined = read_endpoint(places.joined)
    if joined is not None and places.agent_key.exists():
        if arguments.pool or arguments.site:
            raise CallError("pool and site are fixed by the join token", hint="invite with --pool and --site")
        return joined, places.agent_key
    raise FarmUnreachable(
        f"no broker of farm {name} runs here and no agent's key was joined",
        hint="start `farm broker`, or join with `farm agent --join TOKEN`",
    )


def _write_options(
    folder: Path,
    number: int,
    key_file: Path,
    endpoint: Endpoint,
    options: AgentOptions,
    arguments: argparse.Namespace,
    index: int,
) -> Path:
    import platform

    from farm.config.rules import read_path_rules
    from node_agent.options import AgentOptions as OneAgent
    from node_agent.options import write_options

    base = options.node_name or platform.node() or "node"
    file = folder / "options.json"
    write_options(
        file,
        OneAgent(
            name=base if options.agents == 1 else f"{base}-{index + 1}",
            state_dir=str(folder),
            control=endpoint.control,
            bulk=endpoint.bulk,
            key_file=str(key_file),
            number=number,
            broker_key=endpoint.public,
            pool=arguments.pool,
            site=arguments.site,
            slice_index=index,
            slice_count=options.agents,
            cores=options.cores,
            ram_mib=options.ram_mib,
            disk_mib=options.disk_mib,
            tokens=_tokens(options.tokens),
            update_command=options.update_command,
            update_timeout_s=options.update_timeout_s,
            attributes=_attributes(options.attributes),
            allow_renderers=options.allow_renderers,
            deny_renderers=options.deny_renderers,
            app_paths=tuple(arguments.app),
            path_rules=tuple((rule.source, rule.target) for rule in read_path_rules(options.path_rules)),
            scratch=str(_scratch(options.scratch, index)) if options.scratch else "",
            drain_on_term=arguments.drain_on_term,
            log_level=options.log_level,
            app_cache=str(_cache_file()),
            damage_frame=arguments.damage_frame,
            pause_before_publish=arguments.pause_before_publish,
        ),
    )
    return file


def _cache_file() -> Path:
    """Where all agents of this user remember applications' versions, so that each is asked once."""
    import os
    from pathlib import Path

    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return folder / "overcrank" / "apps.json"


def _attributes(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CallError(f"attribute {text!r} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _tokens(texts: tuple[str, ...]) -> dict[str, int]:
    """Custom countable things.

    Raises:
        CallError: One is not NAME=COUNT.
    """
    found = {}
    for text in texts:
        name, equals, count = (part.strip() for part in text.partition("="))
        if not (equals and name and count.isascii() and count.isdecimal() and int(count) <= 1_000_000_000):
            raise CallError(f"token {text!r} is not NAME=COUNT", hint="write fx-card=2")
        found[name] = int(count)
    return found


def _scratch(folder: str, index: int) -> Path:
    from pathlib import Path

    return Path(folder).expanduser().absolute() / f"overcrank-{index}"


def _start(options: Path) -> tuple[subprocess.Popen[bytes], int]:
    """One agent process; it too ends when its leash is let go."""
    import os
    import subprocess
    import sys

    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "node_agent", "--options", str(options), "--leash", str(read)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(read,),
        start_new_session=True,
    )
    os.close(read)
    return process, write


def _tend(options: list[Path], stop: threading.Event) -> int:
    """Runs one process per options file until told to end; one that dies is said so and started again.

    Returns:
        0 when all ended as they were told, else the code of one that would not start again.
    """
    import logging
    import os
    import signal
    import time

    log = logging.getLogger("overcrank.agent")
    agents = {path: _start(path) for path in options}
    quick = dict.fromkeys(options, 0)
    begun = dict.fromkeys(options, time.monotonic())
    told = False
    code = 0
    while agents:
        if stop.wait(0.2):
            stop.clear()
            told = True
            for process, _ in agents.values():
                if process.poll() is None:
                    # A second request is passed on: it forces what still runs.
                    process.send_signal(signal.SIGTERM)
        for path, (process, leash) in list(agents.items()):
            if process.poll() is None:
                continue
            os.close(leash)
            del agents[path]
            if told:
                code = code or max(0, process.returncode)
                continue
            quick[path] = quick[path] + 1 if time.monotonic() - begun[path] < QUICK_S else 0
            log.error("agent-ended agent=%s code=%s", path.parent.name, process.returncode)
            if process.returncode > 0 and quick[path] >= QUICK_MOST:
                # It says itself what is wrong (a key, a folder, an option): again would be the same.
                code = process.returncode
                continue
            begun[path] = time.monotonic()
            agents[path] = _start(path)
    return code


COMMANDS = {
    "agent": Command(
        _setup,
        _run,
        (
            "farm agent                                # one agent with all of this machine",
            "farm agent --agents 2 --attribute room=b  # two halves of it",
            "farm agent --join ovc1-... --farm studio  # of a farm elsewhere",
            "farm agent --deny command                 # never run arbitrary programs",
        ),
    )
}

"""What an agent process is told when it starts.

What belongs here: one typed record, read from a JSON file.  What it may not know: where the values come from
(configuration file, environment and command line are the command's business).

Keys are named by file, so that neither a list of processes nor a log ever shows one.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from farm.model.errors import CallError


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of one agent (one slice of a machine).

    Attributes:
        name: Name of the node, as people see it.
        state_dir: The agent's own folder: outbox, logs, scratch.  One agent each.
        control: ``host:port`` of the broker's control socket.
        bulk: ``host:port`` of its bulk socket.
        key_file: The agent's key pair.
        broker_key: The broker's public key.
        pool: Pool of the key; for people, the broker knows it better.
        site: Site of the key, likewise.
        slice_index: Which of the equal slices of the machine this is, from 0.
        slice_count: How many agents share the machine.
        number: Number of this agent among all that share its key; -1 = ``slice_index``.
        cores: Logical processors of the machine given to the farm, 0 = all (before slicing).
        ram_mib: Memory of the machine given to the farm, 0 = all (before slicing).
        disk_mib: Scratch disk given to the farm, 0 = about what is free at the start (before slicing).
        tokens: Custom countable things of the machine by name (before slicing).
        attributes: Attributes of the node.
        allow_renderers: Renderers that may run here; empty = every one found.
        deny_renderers: Renderers that never run here.
        app_paths: Further places to look for applications.
        app_cache: File that remembers applications' versions between starts; may be shared, "" = own.
        path_rules: Path mapping rules (source, target), tried before the farm's.
        env: Variables for every renderer process, e.g. licence servers.
        log_cap_bytes: Bytes of log kept per attempt; the farm may set less.
        scratch: Folder for temporary files, "" = inside the state folder.
        drain_on_term: On SIGTERM finish what runs (else it is given back at once).
        exit_grace_s: How long a program may take to end once all its frames are done.
        preview_px: Longest edge of previews, 0 = none.
        update_command: Argument list that updates this software, ``{version}`` = the version; empty = none.
        update_timeout_s: How long that command may take.
        log_level: Least severe kind of message logged.
        damage_frame: FAULT INJECTION for the demo and tests: cuts this frame's files before each check.
        pause_before_publish: FAULT INJECTION for tests: FIFO opened between fence check and rename.
    """

    name: str
    state_dir: str
    control: str
    bulk: str
    key_file: str
    broker_key: str
    pool: str = ""
    site: str = ""
    slice_index: int = 0
    slice_count: int = 1
    number: int = -1
    cores: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    tokens: dict[str, int] = {}
    attributes: dict[str, str] = {}
    allow_renderers: tuple[str, ...] = ()
    deny_renderers: tuple[str, ...] = ()
    app_paths: tuple[str, ...] = ()
    app_cache: str = ""
    path_rules: tuple[tuple[str, str], ...] = ()
    env: dict[str, str] = {}
    log_cap_bytes: int = 1 << 30
    scratch: str = ""
    drain_on_term: bool = False
    exit_grace_s: float = 60.0
    preview_px: int = 512
    update_command: tuple[str, ...] = ()
    update_timeout_s: float = 1800.0
    log_level: str = "info"
    damage_frame: int | None = None
    pause_before_publish: str = ""


def read_options(path: Path) -> AgentOptions:
    """Reads an options file.

    Raises:
        CallError: It cannot be read, or a field is wrong; names it.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=AgentOptions)
    except OSError as error:
        raise CallError(f"the options file {path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallError(f"the options file {path} is wrong: {error}") from error


def write_options(path: Path, options: AgentOptions) -> None:
    """Writes an options file that only its owner may read.

    Raises:
        CallError: It cannot be written.
    """
    body = msgspec.json.format(msgspec.json.encode(options), indent=1) + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(body)
    except OSError as error:
        raise CallError(f"the options file {path} cannot be written: {error.strerror}") from error

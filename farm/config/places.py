"""Where a farm's files live, and which farm is meant.

What belongs here: names of folders and files, and the small files that say where a broker listens.
What must not: opening a database, making keys, or anything with a socket.  Every command passes through
here, so imports are few.

    $XDG_STATE_HOME/overcrank/<farm>/    farm.db, logs/, previews/, broker.json
    $XDG_CONFIG_HOME/overcrank/<farm>/   farm.toml, farm.json, client.key, local-admin.key, broker.key
    $XDG_CONFIG_HOME/overcrank/last      name of the farm joined last
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from farm.model.errors import CallError, StorageError

#: The farm of this machine, when none is named or joined.
LOCAL = "local"
#: Private farms kept after their end, so that their logs and spend can still be read.
PRIVATE_KEPT = 10
#: No name longer than this: it becomes a folder.
_NAME = re.compile(r"(?:private/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_PRIVATE = "private/"


def check_farm_name(name: str, source: str) -> str:
    """The name itself, when it can be a farm's.

    Args:
        name: What was given.
        source: Who gave it (``--farm``), for the message.

    Raises:
        CallError: It cannot.
    """
    if not _NAME.match(name):
        raise CallError(
            f"{source}: {name!r} is not the name of a farm",
            hint="letters, digits, _ . - and at most 64, or private/ID",
        )
    return name


def farm_name(flag: str | None = None) -> str:
    """The farm that is meant: the flag, else OVERCRANK_FARM, else the last joined, else ``local``.

    Raises:
        CallError: The name cannot be a farm's.
    """
    if flag:
        return check_farm_name(flag, "--farm")
    named = os.environ.get("OVERCRANK_FARM")
    if named:
        return check_farm_name(named, "OVERCRANK_FARM")
    last = _base("XDG_CONFIG_HOME", ".config") / "last"
    try:
        text = last.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return LOCAL
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{last} cannot be read: {error}") from error
    return check_farm_name(text, str(last)) if text else LOCAL


class Places:
    """The folders and files of one farm on this machine.

    Nothing is made by asking for a path; ``make`` makes the folders.

    Attributes:
        farm: Name of the farm.
        state: Folder of what the farm remembers.
        config: Folder of its options and keys.
    """

    __slots__ = ("config", "farm", "state")

    def __init__(self, farm: str) -> None:
        """Places of the farm of that name (checked)."""
        self.farm = check_farm_name(farm, "farm")
        self.state = _base("XDG_STATE_HOME", ".local/state") / farm
        self.config = _base("XDG_CONFIG_HOME", ".config") / farm

    @property
    def database(self) -> Path:
        """The broker's database."""
        return self.state / "farm.db"

    @property
    def logs(self) -> Path:
        """Folder of attempts' logs."""
        return self.state / "logs"

    @property
    def previews(self) -> Path:
        """Folder of preview pictures."""
        return self.state / "previews"

    @property
    def endpoint(self) -> Path:
        """Where the broker of this machine says that it listens."""
        return self.state / "broker.json"

    @property
    def options(self) -> Path:
        """The configuration file."""
        return self.config / "farm.toml"

    @property
    def joined(self) -> Path:
        """What joining told of a farm elsewhere."""
        return self.config / "farm.json"

    @property
    def client_key(self) -> Path:
        """Key pair this user joined with."""
        return self.config / "client.key"

    @property
    def admin_key(self) -> Path:
        """Key pair the broker of this machine made for its own user."""
        return self.config / "local-admin.key"

    @property
    def simulated(self) -> Path:
        """Stands there once a scenario was served as this farm: nothing real may ever run on it."""
        return self.state / "simulated"

    @property
    def broker_key(self) -> Path:
        """The broker's own key pair."""
        return self.config / "broker.key"

    @property
    def agent_key(self) -> Path:
        """Key pair of the agents of this machine."""
        return self.config / "agent.key"

    @property
    def joining_key(self) -> Path:
        """Key pair of a join whose answer has not come yet."""
        return self.config / "joining.key"

    @property
    def is_private(self) -> bool:
        """Whether this is the farm of one ``farm run``."""
        return self.farm.startswith(_PRIVATE)

    def make(self) -> None:
        """Makes both folders, readable by their owner only.

        Raises:
            StorageError: That is not possible here.
        """
        for folder in (self.state, self.config):
            make_private_folder(folder)


def make_private_folder(folder: Path) -> None:
    """Makes a folder and its parents, readable by their owner only.

    Raises:
        StorageError: That is not possible.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {folder} cannot be made: {error.strerror or error}") from error


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, whole or not at all.

    Raises:
        StorageError: It cannot be written.
    """
    make_private_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        try:
            partial.unlink(missing_ok=True)
        except OSError:
            pass
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a broker listens and which key it has.

    Attributes:
        control: ``host:port`` of the control socket.
        join: ``host:port`` of the join socket.
        bulk: ``host:port`` of the bulk socket.
        public: The broker's public key, Z85 text.
        farm_id: The farm's random id.
        pid: Process of the broker when it runs on this machine, else 0.
    """

    control: str
    join: str
    bulk: str
    public: str
    farm_id: str
    pid: int = 0

    def write(self, path: Path) -> None:
        """Writes it to ``broker.json`` or ``farm.json``, whole or not at all.

        Raises:
            StorageError: It cannot be written.
        """
        write_private(path, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")

    @property
    def process_gone(self) -> bool:
        """Whether the broker was a process of this machine that has ended."""
        return self.pid > 0 and not _alive(self.pid)


def read_endpoint(path: Path) -> Endpoint | None:
    """Reads ``broker.json`` or ``farm.json``; None when there is no such file.

    Raises:
        StorageError: The file is not what a broker or ``farm join`` wrote.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return msgspec.json.decode(text, type=Endpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{path} does not say where a broker listens: {error}",
            hint="restart the broker, or join the farm again",
        ) from error


def find_endpoint(places: Places) -> Endpoint | None:
    """Where the farm's broker is: the one of this machine first, else the farm joined."""
    return read_endpoint(places.endpoint) or read_endpoint(places.joined)


def remember_joined(places: Places, endpoint: Endpoint) -> None:
    """Keeps where a joined farm is, and makes it the one that is meant from now on.

    Raises:
        StorageError: It cannot be written.
    """
    places.make()
    endpoint.write(places.joined)
    write_private(_base("XDG_CONFIG_HOME", ".config") / "last", places.farm + "\n")


def known_farms() -> list[str]:
    """Names of the farms this user can dial: joined, or served by a broker of this machine; no private ones.

    What cannot be listed has none.
    """
    found: set[str] = set()
    for variable, default, file in (
        ("XDG_CONFIG_HOME", ".config", "farm.json"),
        ("XDG_STATE_HOME", ".local/state", "broker.json"),
    ):
        try:
            names = [entry.name for entry in os.scandir(_base(variable, default)) if entry.is_dir()]
        except OSError:
            continue
        base = _base(variable, default)
        found |= {name for name in names if _NAME.match(name) and (base / name / file).exists()}
    return sorted(found, key=lambda name: (name != LOCAL, name.casefold()))


def private_farms() -> list[str]:
    """Names of the private farms kept here, newest first."""
    folder = _base("XDG_STATE_HOME", ".local/state") / "private"
    try:
        found = [(entry.stat().st_mtime_ns, entry.name) for entry in os.scandir(folder) if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{folder} cannot be listed: {error}") from error
    return [_PRIVATE + name for _, name in sorted(found, reverse=True) if _NAME.match(_PRIVATE + name)]


def prune_private(keep: int = PRIVATE_KEPT, alive: Callable[[int], bool] | None = None) -> list[str]:
    """Removes all but the newest private farms; returns the names removed.

    A farm whose broker still runs is kept whatever its age.

    Args:
        keep: How many to keep.
        alive: Tells whether a process lives (tests pass their own).
    """
    import shutil  # slow to import, and no other command needs it

    removed: list[str] = []
    for name in private_farms()[max(0, keep) :]:
        places = Places(name)
        try:
            endpoint = read_endpoint(places.endpoint)
        except StorageError:
            endpoint = None
        if endpoint is not None and endpoint.pid and (alive or _alive)(endpoint.pid):
            continue
        for folder in (places.config, places.state):
            shutil.rmtree(folder, ignore_errors=True)
        if not places.state.exists():
            removed.append(name)
    return removed


def _base(variable: str, default: str) -> Path:
    # The XDG specification: a relative path in these variables is to be ignored.
    value = os.environ.get(variable, "")
    base = Path(value)
    if not base.is_absolute():
        base = Path.home() / default
    return base / "overcrank"


def _alive(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill(pid, 0) would end it there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

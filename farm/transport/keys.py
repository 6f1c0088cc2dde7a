"""CURVE key pairs: made, written, read and named for people.

What belongs here: the key pair, its file, Z85 text and fingerprints.  Who a key belongs to is the
keyring's; what a key may do is the broker's.  ZeroMQ is imported inside the functions that need it,
because most commands of the command line start without it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from farm.model.errors import CallError, NotBuiltYet, StorageError
from farm.model.ids import KeyText

#: Characters of a key in Z85.
KEY_CHARS = 40
#: Bytes of a key.
KEY_BYTES = 32
#: A key file is about 150 bytes; anything much longer is some other file.
_MAX_FILE_BYTES = 4096

_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
# Base 85 of RFC 1924 and Z85 (ZeroMQ RFC 32) are one arithmetic with two alphabets.
_TO_Z85 = bytes.maketrans(_B85, _Z85)
_TO_B85 = bytes.maketrans(_Z85, _B85)
_Z85_SET = frozenset(_Z85)


def z85_encode(raw: bytes) -> str:
    """Z85 text of bytes whose count is a multiple of four."""
    return base64.b85encode(raw).translate(_TO_Z85).decode("ascii")


def z85_decode(text: str) -> bytes:
    """Bytes of a Z85 text.

    Raises:
        ValueError: Not Z85.
    """
    data = text.encode("ascii", "strict")
    if len(data) % 5 or not _Z85_SET.issuperset(data):
        raise ValueError("not Z85")
    return base64.b85decode(data.translate(_TO_B85))


def key_bytes(public: str) -> bytes:
    """The 32 bytes of a key.

    Raises:
        CallError: The text is no CURVE key.
    """
    try:
        raw = z85_decode(public)
    except ValueError:
        raw = b""
    if len(raw) != KEY_BYTES:
        raise CallError(
            f"a key has {KEY_CHARS} characters of Z85; this text has {len(public)}"
            if len(public) != KEY_CHARS
            else "this text of 40 characters is no key: it holds characters or groups Z85 does not have"
        )
    return raw


def fingerprint(public: str) -> str:
    """Short text by which two people compare a key, such as ``k3f2-9xqa-7m1c``.

    60 bits of SHA-256: long enough that nobody finds a second key to match on purpose within a
    farm's life, short enough to be read out over a telephone.

    Raises:
        CallError: The text is no CURVE key.
    """
    digest = hashlib.sha256(b"overcrank key\0" + key_bytes(public)).digest()
    text = base64.b32encode(digest).decode("ascii").lower()[:12]
    return "-".join((text[:4], text[4:8], text[8:]))


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A CURVE key pair.

    Attributes:
        public: Z85 text, 40 characters; may be shown to anybody.
        secret: Z85 text, 40 characters; never printed, logged or sent.
    """

    public: KeyText
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"key {fingerprint(self.public)}"


def generate_keypair() -> KeyPair:
    """Makes a new key pair from the system's randomness.

    Raises:
        NotBuiltYet: The ZeroMQ library here was built without CURVE.
    """
    import zmq

    if not zmq.has("curve"):
        raise NotBuiltYet(
            f"the ZeroMQ library here ({zmq.zmq_version()}) has no CURVE encryption",
            hint="install pyzmq from its wheels: pip install --force-reinstall pyzmq",
        )
    public, secret = zmq.curve_keypair()
    return KeyPair(KeyText(public.decode("ascii")), secret.decode("ascii"))


def public_of(secret: str) -> KeyText:
    """The public half that belongs to a secret one."""
    import zmq

    return KeyText(zmq.curve_public(secret.encode("ascii")).decode("ascii"))


class _KeyFile(msgspec.Struct):
    overcrank_key: int
    public: str
    secret: str


def _check_private(path: Path, status: os.stat_result) -> None:
    """Refuses a key that other accounts of this machine can read, as ssh does."""
    if os.name == "nt":  # modes there do not say who may read; the profile folder's ACL does
        return
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise StorageError(
            f"key file {path} can be read by others (mode {mode:04o}); it is not used",
            hint=f"chmod 600 {path}; if others had access, make a new key",
        )
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise StorageError(f"key file {path} belongs to another user (uid {status.st_uid}); it is not used")
    folder = path.parent.stat()
    if folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX:
        raise StorageError(
            f"others can replace files in {path.parent} (mode {stat.S_IMODE(folder.st_mode):04o}); "
            f"the key in it is not used",
            hint=f"chmod 700 {path.parent}",
        )


def load_keypair(path: Path) -> KeyPair:
    """Reads a key pair.

    Raises:
        StorageError: No such file, readable by others, or no key file; the message names the path and
            never shows what is in it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise StorageError(
            f"there is no key at {path}", hint="join a farm first, or start its broker once"
        ) from None
    except OSError as error:
        raise StorageError(f"key file {path} cannot be opened: {error.strerror}") from None
    # The mode is that of the opened file, so that no swap between check and read counts.
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{path} is no regular file; it is not used as a key")
        _check_private(path, status)
        data = os.read(handle, _MAX_FILE_BYTES + 1)
    except OSError as error:
        raise StorageError(f"key file {path} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> KeyPair:
    broken = StorageError(
        f"{path} is damaged or no Overcrank key file",
        hint="restore it from a backup, or remove it and join again",
    )
    if len(data) > _MAX_FILE_BYTES:
        raise broken
    try:
        record = msgspec.json.decode(data, type=_KeyFile)
        if record.overcrank_key != 1:
            raise StorageError(
                f"key file {path} has format {record.overcrank_key}; this version reads format 1"
            )
        key_bytes(record.public)
        key_bytes(record.secret)
        matches = public_of(record.secret) == record.public
    except (msgspec.DecodeError, UnicodeError, CallError):
        raise broken from None
    if not matches:
        raise StorageError(f"the two halves of the key in {path} do not belong together", hint=broken.hint)
    return KeyPair(KeyText(record.public), record.secret)


def save_keypair(path: Path, pair: KeyPair, *, replace: bool = False) -> None:
    """Writes a key pair with mode 0600, whole or not at all.

    An existing key is kept unless ``replace`` says otherwise: a broker whose key is lost has lost all its
    agents and clients.  A folder made on the way gets mode 0700.

    Raises:
        StorageError: A key is already there, or the disk refuses.
    """
    body = msgspec.json.format(
        msgspec.json.encode(_KeyFile(overcrank_key=1, public=pair.public, secret=pair.secret)), indent=1
    )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if not path.parent.is_dir():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(body + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                temporary.replace(path)
            else:
                _publish_new(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except FileExistsError:
        raise StorageError(f"there is already a key at {path}; it was kept") from None
    except OSError as error:
        raise StorageError(f"key file {path} cannot be written: {error.strerror}") from None


def _publish_new(temporary: Path, path: Path) -> None:
    """Gives the file its name only if nobody else has it: a link fails where a rename would replace."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: narrow the race as far as it goes
        if path.exists():
            raise FileExistsError(path) from None
        temporary.replace(path)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load_or_create_keypair(path: Path) -> KeyPair:
    """Reads the key pair at a path, making it first if nothing is there.

    Two processes that start together end with the same key: the one that comes second reads the first's.

    Raises:
        StorageError: As :func:`load_keypair` and :func:`save_keypair`.
    """
    if not path.exists():
        try:
            save_keypair(path, generate_keypair())
        except StorageError:
            if not path.exists():
                raise
    return load_keypair(path)

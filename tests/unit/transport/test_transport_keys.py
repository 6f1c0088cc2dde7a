"""Keys and their files: what is made can be read again, and nothing leaks."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zmq.utils.z85
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError, StorageError
from farm.transport.keys import (
    KeyPair,
    fingerprint,
    generate_keypair,
    key_bytes,
    load_keypair,
    load_or_create_keypair,
    public_of,
    save_keypair,
    z85_decode,
    z85_encode,
)


@given(st.binary(max_size=80).map(lambda raw: raw[: len(raw) // 4 * 4]))
def test_z85_agrees_with_the_zeromq_implementation(raw: bytes) -> None:
    text = z85_encode(raw)
    assert text.encode() == zmq.utils.z85.encode(raw)
    assert z85_decode(text) == raw


@given(st.text(max_size=45))
def test_any_text_is_a_key_or_refused_politely(text: str) -> None:
    try:
        raw = key_bytes(text)
    except CallError:
        return
    assert len(raw) == 32
    assert z85_encode(raw) == text


def test_a_pair_belongs_together_and_two_pairs_differ() -> None:
    one, two = generate_keypair(), generate_keypair()
    assert public_of(one.secret) == one.public
    assert one.public != two.public
    assert len(key_bytes(one.public)) == 32


def test_fingerprint_is_short_stable_and_differs() -> None:
    one, two = generate_keypair(), generate_keypair()
    assert fingerprint(one.public) == fingerprint(one.public) != fingerprint(two.public)
    assert len(fingerprint(one.public)) == 14
    with pytest.raises(CallError):
        fingerprint("not a key")


def test_the_secret_is_in_no_text_of_the_pair(caplog: pytest.LogCaptureFixture) -> None:
    from rich.pretty import pretty_repr

    pair = generate_keypair()
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").info("%s %r", pair, pair)
    for shown in (repr(pair), str(pair), f"{pair}", pretty_repr(pair), caplog.text):
        assert pair.secret not in shown


def test_saved_pair_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "overcrank" / "me.key"
    pair = generate_keypair()
    save_keypair(path, pair)
    assert load_keypair(path) == pair
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["me.key"]  # no temporary file stays


def test_a_lax_umask_does_not_open_the_file(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        save_keypair(tmp_path / "keys" / "me.key", generate_keypair())
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "keys" / "me.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o666, 0o601])
def test_a_key_others_can_reach_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "me.key"
    pair = generate_keypair()
    save_keypair(path, pair)
    path.chmod(mode)
    with pytest.raises(StorageError) as caught:
        load_keypair(path)
    text = str(caught.value)
    assert f"mode {mode:04o}" in text
    assert f"chmod 600 {path}" in text
    assert pair.secret not in text
    path.chmod(0o600)
    assert load_keypair(path) == pair


def test_a_key_in_a_folder_others_can_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    save_keypair(folder / "me.key", generate_keypair())
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="chmod 700"):
        load_keypair(folder / "me.key")
    folder.chmod(0o1777)  # sticky, like /tmp: others cannot replace the file
    load_keypair(folder / "me.key")
    folder.chmod(0o700)


def test_an_existing_key_is_never_lost_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "broker.key"
    first, second = generate_keypair(), generate_keypair()
    save_keypair(path, first)
    with pytest.raises(StorageError, match="already a key"):
        save_keypair(path, second)
    assert load_keypair(path) == first
    save_keypair(path, second, replace=True)
    assert load_keypair(path) == second
    assert [found.name for found in tmp_path.iterdir()] == ["broker.key"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"{}", b"[1]", b'{"overcrank_key": 2, "public": "", "secret": ""}', b"x" * 10_000],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "me.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StorageError, match=r"me\.key"):
        load_keypair(path)


@given(
    position=st.integers(0, 39), half=st.sampled_from(["public", "secret"]), char=st.sampled_from("0aZ#\x00é")
)
def test_a_changed_character_never_yields_a_pair(position: int, half: str, char: str) -> None:
    import tempfile

    pair = generate_keypair()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "me.key"
        save_keypair(path, pair)
        record = json.loads(path.read_text())
        text = record[half]
        record[half] = text[:position] + char + text[position + 1 :]
        path.write_text(json.dumps(record))
        try:
            loaded = load_keypair(path)
        except StorageError:
            return
        # The same character again, or secret bits that X25519 clamps away: the public half then agrees.
        assert loaded.public == pair.public == public_of(loaded.secret)


def test_a_missing_key_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no key at"):
        load_keypair(tmp_path / "none.key")
    with pytest.raises(StorageError):
        load_keypair(tmp_path)


def test_processes_that_start_together_share_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "local.key"
    barrier = threading.Barrier(8)
    found: list[KeyPair] = []

    def start() -> None:
        barrier.wait()
        found.append(load_or_create_keypair(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({pair.public for pair in found}) == 1
    assert [found.name for found in path.parent.iterdir()] == ["local.key"]


def test_importing_keys_and_tokens_does_not_import_zeromq() -> None:
    code = (
        "import sys, farm.transport.keys, farm.transport.token\n"
        "import farm.transport.keyring, farm.transport.addresses\n"
        "sys.exit('zmq' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Nonsense, floods and giants: what a broker must shrug off while it goes on working."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from farm.model.errors import CallError, FarmUnreachable
from farm.protocol import client as wire
from farm.protocol.codec import CONTROL_LIMIT, encode
from farm.protocol.common import RefusedMsg
from farm.sdk.connect import dial
from farm.transport.client_link import ClientLink
from tests.support.farmhouse import Farmhouse
from tests.support.proxy import Proxy
from tests.support.truth import Ledger, Renders, assert_exactly_once, job_file
from tests.support.waiting import PATIENCE_S, eventually

_MIB = 1 << 20
#: What ZMTP 3 says first: signature, version, mechanism, as-server, filler.
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31)


def _rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert match is not None
    return int(match[1]) / 1024


def _was_hung_up(link: ClientLink) -> bool:
    return bool(link.status.reason) or link.connections > 1


def _ports(house: Farmhouse) -> list[tuple[str, int]]:
    endpoint = house.endpoint
    found = []
    for address in (endpoint.control, endpoint.join, endpoint.bulk):
        host, _, port = address.rpartition(":")
        found.append((host, int(port)))
    return found


def _pour(address: tuple[str, int], data: bytes) -> None:
    """Sends bytes and waits until the broker hangs up or takes no more of it."""
    with socket.create_connection(address, timeout=PATIENCE_S) as sock:
        sock.settimeout(5)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except OSError:
            pass


def test_random_bytes_on_every_port_disturb_nobody(shared: Farmhouse, renders: Renders) -> None:
    source = random.Random(11)
    number = shared.admin.submit(renders.job("1-40", takes_s=0.02)).job
    before = _rss_mib(shared.broker.pid)
    for address in _ports(shared):
        for _ in range(8):
            _pour(address, source.randbytes(source.choice((1, 9, 64, 1000, 100_000))))
        for _ in range(4):
            # The right first words, then nonsense.
            _pour(address, _GREETING + source.randbytes(source.choice((2, 200, 5000))))
        _pour(address, b"GET / HTTP/1.1\r\nHost: farm\r\n\r\n")
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-40")
    assert _rss_mib(shared.broker.pid) < before + 50
    assert shared.broker.running


def test_a_frame_that_claims_a_gigabyte_is_not_waited_for(shared: Farmhouse) -> None:
    """Before the handshake and, put into a real connection from outside, after it."""
    before = _rss_mib(shared.broker.pid)
    for address in _ports(shared):
        for flags in (2, 6):  # a long message, a long command
            _pour(address, _GREETING + bytes([flags]) + struct.pack(">Q", 1 << 30) + bytes(_MIB))
    pair = shared.key("artist", "ada")
    for target in (shared.endpoint.control, shared.endpoint.bulk, shared.endpoint.join):
        with Proxy(target) as proxy, dial(shared.access(pair), proxy.address, PATIENCE_S) as link:
            proxy.inject_up(b"\x02" + struct.pack(">Q", 1 << 30) + bytes(_MIB))
            eventually(partial(_was_hung_up, link), "the broker hangs up")
    assert _rss_mib(shared.broker.pid) < before + 64
    assert shared.client("artist", "ada").jobs() is not None


def test_a_message_over_the_limit_ends_only_its_sender_s_connection(shared: Farmhouse) -> None:
    ada, bob = shared.client("artist", "ada", timeout_s=3.0), shared.client("artist", "bob")
    with pytest.raises(FarmUnreachable):
        ada.submit(b"{" + b" " * (CONTROL_LIMIT + _MIB) + b"}")
    assert bob.jobs() is not None
    assert shared.client("artist", "ada").jobs() is not None


def test_what_does_not_decode_is_refused_with_a_reason(shared: Farmhouse) -> None:
    source = random.Random(5)
    deep = b"\x91" * 5000 + b"\xc0"
    bodies = [b"", b"\xc1", deep, msgspec.msgpack.encode({"type": "no-such"}), b"\x81\xa4type\xa5hello"]
    bodies += [source.randbytes(300) for _ in range(20)]
    with dial(shared.access(shared.key("artist", "ada")), shared.endpoint.control, PATIENCE_S) as link:
        for body in bodies:
            assert link.send(body)
            answer = link.recv(PATIENCE_S)
            assert answer is not None, body[:20]
            refused = msgspec.msgpack.decode(answer, type=RefusedMsg)
            assert refused.reason
        # A request without a hello is asked to say hello.
        assert link.send(encode(wire.JobsReq(id=1)))
        answer = link.recv(PATIENCE_S)
        assert answer is not None
        assert b"rehello" in answer
    assert shared.client("artist", "ada").jobs() is not None


def test_a_job_that_is_no_job_is_refused_by_the_field(shared: Farmhouse) -> None:
    nested: object = 1
    for _ in range(200):
        nested = [nested]
    good = {"name": "s", "renderer": "command", "frames": "1", "params": {"command": ["true", "{frame}"]}}
    for data, words in (
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (job_file(good | {"params": {"command": ["x", "{frame}"], "deep": nested}}), "deep|unknown"),
        (job_file(good | {"frames": "1-99999999999"}), "frames"),
        (job_file(good | {"limits": {"nuke": 1}}), "the farm has no limit 'nuke'"),
    ):
        with pytest.raises(CallError, match=words):
            shared.admin.submit(data)
    assert shared.admin.status() is not None


@pytest.mark.parametrize("ends", ["", "\n"], ids=["without an end", "with an end"])
def test_log_lines_of_ten_megabytes_are_kept_whole(shared: Farmhouse, tmp_path: Path, ends: str) -> None:
    size = 10 * _MIB
    program = f"""
import sys
line = (b"0123456789abcdef" * {size // 16}) + {ends.encode()!r}
sys.stdout.buffer.write(line)
sys.stdout.buffer.flush()
open(sys.argv[2], "w").write("done")
"""
    step = {
        "name": "render",
        "renderer": "command",
        "frames": "1",
        "params": {"command": [sys.executable, "-S", "-c", program, "{frame}", "{output}"]},
        "outputs": [{"pattern": f"{tmp_path}/out/f.####.txt"}],
    }
    before = {agent.name: _rss_mib(agent.pid) for agent in shared.agents.values()}
    number = shared.admin.submit(job_file(step)).job
    shared.wait_job(number)
    log = b"".join(shared.admin.log_stream(number, "render", 1, follow=True))
    line = b"0123456789abcdef" * (size // 16)
    start = log.index(line[:32])
    assert hashlib.sha256(log[start : start + size]).digest() == hashlib.sha256(line).digest()
    assert log[:start].count(b"\n") < 10
    # Nobody held the line in memory.
    for agent in shared.agents.values():
        assert _rss_mib(agent.pid) < before[agent.name] + 40


def test_a_flood_of_connections_is_survived(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-20", takes_s=0.02)).job
    socks: list[socket.socket] = []
    try:
        for address in _ports(shared):
            for _ in range(100):
                sock = socket.create_connection(address, timeout=PATIENCE_S)
                socks.append(sock)
                sock.sendall(_GREETING[:11])
        shared.wait_job(number)
        assert shared.client("artist", "ada").jobs() is not None
    finally:
        for sock in socks:
            sock.close()
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-20")


def test_a_broker_on_a_taken_port_says_so(new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    port = house.endpoint.control.rpartition(":")[2]
    done = house.farm(
        "--farm", "other", "broker", "--control-port", port, "--join-port", "0", "--bulk-port", "0"
    )
    assert done.returncode == 3
    assert port in done.stderr
    assert "Traceback" not in done.stderr

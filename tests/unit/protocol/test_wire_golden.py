"""The wire as bytes: golden fixtures, an independent reader, neighbours one version away, hostile input."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import PeerError
from farm.protocol import agent, bulk, client, codec, common
from farm.protocol.codec import CONTROL_LIMIT, DEPTH, check_depth, decode_template, encode
from tests.unit.protocol.wire_samples import CODECS, FOLDER, SAMPLES, UNIONS, golden, message_of
from tests.unit.protocol.wire_values import LEASE, TEMPLATE

NAMES = sorted(SAMPLES)


def unpack(body: bytes) -> Any:
    return msgpack.unpackb(body, raw=False, strict_map_key=False)


# ---------------------------------------------------------------- golden bytes


@pytest.mark.parametrize("name", NAMES)
def test_an_independent_reader_finds_the_expected_values(name: str) -> None:
    assert unpack(golden(name)) == SAMPLES[name][1]


@pytest.mark.parametrize("name", NAMES)
def test_our_reader_finds_the_expected_message(name: str) -> None:
    reader, plain = SAMPLES[name]
    message = CODECS[reader].decode(golden(name))
    if name == "batch":
        (lease,) = message.leases
        assert decode_template(lease.template) == msgspec.convert(TEMPLATE, agent.StepTemplate)
        assert msgpack.unpackb(bytes(lease.template)) == TEMPLATE
        rest = {key: value for key, value in unpack(encode(lease)).items() if key != "template"}
        assert rest == {key: value for key, value in LEASE.items() if key != "template"}
        message = msgspec.structs.replace(message, leases=())
        expected = msgspec.structs.replace(message_of(reader, plain), leases=())
    else:
        expected = message_of(reader, plain)
    assert type(message) is type(expected)
    assert message == expected


@pytest.mark.parametrize("name", NAMES)
def test_our_writer_gives_the_very_bytes(name: str) -> None:
    reader, plain = SAMPLES[name]
    assert encode(message_of(reader, plain)) == golden(name)
    assert encode(CODECS[reader].decode(golden(name))) == golden(name)


def test_every_kind_of_message_has_a_fixture() -> None:
    def tags(union: Any) -> set[str]:
        kinds = getattr(union, "__args__", (union,))
        return {kind.__struct_config__.tag for kind in kinds}

    wanted = set().union(*(tags(union) for union in UNIONS.values()))
    assert {plain["type"] for _, plain in SAMPLES.values()} == wanted
    assert {path.stem for path in FOLDER.glob("*.hex")} == set(SAMPLES)


# ---------------------------------------------------------------- a neighbour one version away

OLDER = sorted(path.stem for path in (FOLDER / "older").glob("*.hex"))


def said(older: Any, newer: Any, where: str) -> None:
    """Asserts that ``newer`` says all that ``older`` does; it may say more."""
    if isinstance(older, dict):
        for key, value in older.items():
            if key in newer or value:
                said(value, newer[key], f"{where}.{key}")
            # else: what is empty is left out by now, which reads as the same
    elif isinstance(older, list) and older and isinstance(older[0], dict):
        for one, other in zip(older, newer, strict=True):
            said(one, other, where)
    else:
        assert newer == older, where


@pytest.mark.parametrize("name", OLDER)
def test_bytes_of_an_older_version_are_still_read(name: str) -> None:
    body, name = golden(f"older/{name}"), name.partition(".")[0]
    assert body != golden(name), "the same as today's: it need not be kept"
    message = CODECS[SAMPLES[name][0]].decode(body)
    # What it says is what is found; what it does not say yet has a default.
    found = unpack(encode(message))
    if name == "batch":
        found["leases"][0]["template"] = unpack(encode(decode_template(message.leases[0].template)))
    said(unpack(body), found, name)


def test_every_kind_that_grew_is_kept_as_it_was() -> None:
    assert set(OLDER) >= {
        "act",
        "acted",
        "batch",
        "beat",
        "delta",
        "hello",
        "job-is",
        "jobs-are",
        "nodes-are",
        "snapshot",
        "submit",
    }


def newer(value: Any, *, top: bool = True) -> Any:
    """What a newer version might send: a field more in every record."""
    if isinstance(value, dict):
        grown = {key: newer(child, top=False) for key, child in value.items()}
        free = top is False and not any(key in grown for key in _MARKS)
        return grown if free else {**grown, "zz_newer": {"a": [1, {"b": None}]}}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [newer(child, top=False) for child in value]
    return value


#: Keys that tell a record from a free map (environment, parameters, counts by word).
_MARKS = frozenset(
    {"type", "facts", "node_id", "name", "width", "path", "cores", "attempt", "heartbeat_s", "key"}
    | {"at_us", "unit", "pattern", "index", "public", "cpu_percent"}
)


@pytest.mark.parametrize("name", NAMES)
def test_fields_of_a_newer_version_are_ignored(name: str) -> None:
    reader, plain = SAMPLES[name]
    body = msgpack.packb(newer(plain))
    assert b"zz_newer" in body
    found = CODECS[reader].decode(body)
    expected = CODECS[reader].decode(golden(name))
    if name == "batch":
        assert decode_template(found.leases[0].template) == decode_template(expected.leases[0].template)
        found, expected = (msgspec.structs.replace(message, leases=()) for message in (found, expected))
    assert found == expected


def test_array_records_may_grow_and_lack_what_has_a_default() -> None:
    reader = CODECS["broker"]
    report = {"type": "report", "n": 1, "attempt": 7, "nonce": 1}
    short = reader.decode(msgpack.packb({**report, "units": [[16, 1]]}))
    full = [16, 1, "", "", 0, [], "", 0]
    assert short == reader.decode(msgpack.packb({**report, "units": [full]}))
    assert short == reader.decode(msgpack.packb({**report, "units": [[*full, "newer", {"a": 1}]]}))
    with pytest.raises(PeerError):
        reader.decode(msgpack.packb({**report, "units": [[16]]}))


@pytest.mark.parametrize("name", NAMES)
def test_what_an_older_version_leaves_out_has_its_default(name: str) -> None:
    reader, plain = SAMPLES[name]
    kind = type(CODECS[reader].decode(golden(name)))
    needed = {field.name for field in msgspec.structs.fields(kind) if field.required}
    older = {key: value for key, value in plain.items() if key in needed or key == "type"}
    found = CODECS[reader].decode(msgpack.packb(older))
    assert type(found) is kind
    for name_needed in needed:
        missing = {key: value for key, value in older.items() if key != name_needed}
        with pytest.raises(PeerError):
            CODECS[reader].decode(msgpack.packb(missing))


@pytest.mark.parametrize("reader", sorted(CODECS))
def test_a_kind_unknown_here_is_a_peers_error_not_ours(reader: str) -> None:
    for plain in ({"type": "teleport", "n": 1}, {"n": 1}, {"type": 5}, [], None, "hello", 7):
        with pytest.raises(PeerError, match="does not decode"):
            CODECS[reader].decode(msgpack.packb(plain))


@pytest.mark.parametrize("name", NAMES)
def test_a_message_meant_for_another_is_refused(name: str) -> None:
    _, plain = SAMPLES[name]
    for other, reader in CODECS.items():
        tags = {kind.__struct_config__.tag for kind in getattr(UNIONS[other], "__args__", (UNIONS[other],))}
        if plain["type"] not in tags:
            with pytest.raises(PeerError):
                reader.decode(golden(name))


# ---------------------------------------------------------------- hostile input


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_message_is_refused_wherever_it_was_cut(name: str) -> None:
    reader, body = CODECS[SAMPLES[name][0]], golden(name)
    for end in range(len(body)):
        with pytest.raises(PeerError):
            reader.decode(body[:end])
    with pytest.raises(PeerError):
        reader.decode(body + b"\x00")


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_understood_and_nothing_else(body: bytes) -> None:
    for reader in CODECS.values():
        try:
            reader.decode(body)
        except PeerError:
            pass
    try:
        decode_template(body)
    except PeerError:
        pass


@given(st.sampled_from(NAMES), st.data())
def test_damaged_messages_are_refused_or_understood_and_nothing_else(name: str, data: st.DataObject) -> None:
    body = bytearray(golden(name))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = CODECS[SAMPLES[name][0]].decode(bytes(body))
    except PeerError:
        return
    if isinstance(message, agent.BatchMsg):
        for lease in message.leases:
            try:
                decode_template(lease.template)
            except PeerError:
                pass
    encode(message)


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffabc",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 200_000,
        b"\x81\xa1a" * 100_000,
        b"\xd6\xff\x00\x00\x00\x00",
        b"\xc7\x05\x07hello",
    ],
    ids=["never-used", "map", "array", "text", "bytes", "deep-array", "deep-map", "timestamp", "extension"],
)
def test_headers_that_promise_too_much_cost_nothing(body: bytes) -> None:
    for reader in CODECS.values():
        with pytest.raises(PeerError):
            reader.decode(body)
    for field in (b"zz", b"software"):
        nested = b"\x82\xa4type\xa5hello" + bytes([0xA0 + len(field)]) + field + body
        with pytest.raises(PeerError):
            CODECS["broker"].decode(nested)
    with pytest.raises(PeerError):
        decode_template(body)


def test_messages_over_the_limit_are_not_even_looked_at() -> None:
    limits = {"broker": CONTROL_LIMIT, "agent": CONTROL_LIMIT, "client": codec.REPLY_LIMIT}
    limits |= {"bulk-in": codec.BULK_LIMIT, "bulk-out": codec.BULK_LIMIT}
    limits |= {"join-in": codec.JOIN_LIMIT, "join-out": codec.JOIN_LIMIT}
    for name, limit in limits.items():
        with pytest.raises(PeerError, match=f"{limit + 1} bytes is over the limit of {limit}"):
            CODECS[name].decode(bytes(limit + 1))
        with pytest.raises(PeerError, match="does not decode"):
            CODECS[name].decode(bytes(limit))


def test_a_piece_of_the_largest_size_fits_the_bulk_limit() -> None:
    put = bulk.LogPutMsg(2**53, "s" * 64, 2**31, 2**53, 2**53, bytes(bulk.PIECE))
    assert CODECS["bulk-in"].decode(encode(put)) == put
    over = bulk.LogPutMsg(1, "s", 1, 1, 0, bytes(codec.BULK_LIMIT))
    with pytest.raises(PeerError):
        CODECS["bulk-in"].decode(encode(over))


def nested(depth: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value


@pytest.mark.parametrize("kind", [dict, list])
def test_parameters_are_nested_up_to_the_limit_and_no_deeper(kind: type) -> None:
    check_depth(nested(DEPTH, kind))
    with pytest.raises(PeerError, match="nested deeper than 32"):
        check_depth(nested(DEPTH + 1, kind))
    fits = {**TEMPLATE, "params": {"p": nested(DEPTH - 1, kind)}}
    assert decode_template(msgpack.packb(fits)).params == fits["params"]
    with pytest.raises(PeerError):
        decode_template(msgpack.packb({**TEMPLATE, "params": {"p": nested(DEPTH, kind)}}))


@pytest.mark.parametrize("text", [b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80"])
def test_text_that_is_no_utf8_is_refused(text: bytes) -> None:
    with pytest.raises(PeerError):
        CODECS["broker"].decode(b"\x82\xa4type\xa3bye\xa6reason" + text)


@pytest.mark.parametrize(
    ("plain", "wrong"),
    [
        (SAMPLES["beat"][1], {"n": "9"}),
        (SAMPLES["beat"][1], {"n": 1.5}),
        (SAMPLES["beat"][1], {"held": [None]}),
        (SAMPLES["beat"][1], {"load": []}),
        (SAMPLES["report"][1], {"closed": 1}),
        (SAMPLES["report"][1], {"units": {}}),
        (SAMPLES["hello"][1], {"agent": {"facts": {}}}),
        (SAMPLES["submit"][1], {"job": None}),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_and_named(plain: dict[str, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(PeerError) as caught:
        CODECS["broker"].decode(msgpack.packb({**plain, **wrong}))
    assert f"$.{next(iter(wrong))}" in str(caught.value)


def test_resources_out_of_bounds_are_refused_on_the_wire_already() -> None:
    hello = SAMPLES["hello"][1]
    for wild in (-1, 1_000_000_001):
        facts = {**hello["agent"]["facts"], "total": {"cores": wild}}
        with pytest.raises(PeerError):
            CODECS["broker"].decode(msgpack.packb({**hello, "agent": {**hello["agent"], "facts": facts}}))


def test_messages_are_frozen() -> None:
    for name, (reader, _) in SAMPLES.items():
        message = CODECS[reader].decode(golden(name))
        field = (message.__struct_fields__ or ("x",))[0]
        with pytest.raises(AttributeError):
            setattr(message, field, 1)


def test_both_kinds_of_peers_share_hello_and_refusal() -> None:
    for kind in (common.WelcomeMsg, common.RefusedMsg, common.RehelloMsg):
        assert kind in codec.AnyToAgent.__args__
        assert kind in codec.AnyToClient.__args__
    assert common.HelloMsg in codec.AnyFromPeer.__args__
    assert issubclass(client.SubmitReq, client.Request)

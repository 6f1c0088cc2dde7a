"""Join tokens: whatever was pasted is the token or a clear refusal."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.transport.addresses import HostPort
from farm.transport.keys import z85_encode
from farm.transport.token import hash_secret, make_token, new_secret, parse_token

KEY = z85_encode(bytes(range(32)))
SECRET = bytes(range(100, 132))
TOKEN = make_token("broker.example:7460", "broker.example:7461", KEY, SECRET, farm="studio")

hosts = st.sampled_from(["10.0.0.7", "broker", "farm-1.studio.example", "fe80::1", "2001:db8::42"])
ports = st.integers(1, 65535)


@given(
    hosts,
    hosts,
    ports,
    ports,
    st.binary(min_size=16, max_size=64),
    st.binary(min_size=32, max_size=32),
    st.text(max_size=64),
)
def test_what_is_written_is_read(
    control: str, join: str, port: int, join_port: int, secret: bytes, key: bytes, farm: str
) -> None:
    text = make_token(HostPort(control, port), HostPort(join, join_port), z85_encode(key), secret, farm=farm)
    assert text.startswith("ovc1-")
    assert text.isascii()
    assert not any(c.isspace() for c in text)
    token = parse_token(text)
    assert (token.control, token.join) == (HostPort(control, port), HostPort(join, join_port))
    assert (token.broker, token.secret, token.farm) == (z85_encode(key), secret, farm)


def test_a_token_fits_a_chat_line_and_two_are_never_alike() -> None:
    assert len(TOKEN) < 200
    one, two = (parse_token(make_token("b:1", "b:2", KEY)) for _ in range(2))
    assert one.secret != two.secret
    assert len(one.secret) == len(new_secret()) == 32


def test_blanks_line_breaks_and_quotes_of_a_paste_are_forgiven() -> None:
    wrapped = "\n   ".join(TOKEN[i : i + 60] for i in range(0, len(TOKEN), 60))
    for text in (f"  {TOKEN}\r\n", wrapped, f'"{TOKEN}"', f"`{TOKEN}`"):
        assert parse_token(text) == parse_token(TOKEN)


@given(st.integers(0, len(TOKEN) - 1))
def test_every_cut_is_called_one(length: int) -> None:
    with pytest.raises(CallError, match="cut off" if length >= 5 else "no join token"):
        parse_token(TOKEN[:length])


@given(
    st.integers(5, len(TOKEN) - 1),
    st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
)
@example(len(TOKEN) - 1, "A")
@example(len(TOKEN) - 1, "_")
def test_every_changed_character_is_noticed(position: int, char: str) -> None:
    changed = TOKEN[:position] + char + TOKEN[position + 1 :]
    if changed == TOKEN:
        return
    with pytest.raises(CallError, match=r"mangled|cut off"):
        parse_token(changed)


@given(st.integers(5, len(TOKEN) - 2))
def test_swapped_lost_and_doubled_characters_are_noticed(at: int) -> None:
    swapped = TOKEN[:at] + TOKEN[at + 1] + TOKEN[at] + TOKEN[at + 2 :]
    for changed in (swapped, TOKEN[:at] + TOKEN[at + 1 :], TOKEN[:at] + TOKEN[at] + TOKEN[at:]):
        if changed != TOKEN:
            with pytest.raises(CallError):
                parse_token(changed)


@given(st.text(max_size=300) | st.from_regex(r"ovc1-[A-Za-z0-9_-]{0,250}", fullmatch=True))
def test_arbitrary_text_never_crashes(text: str) -> None:
    with pytest.raises(CallError):
        parse_token(text)


def test_other_versions_and_appended_text_are_named() -> None:
    with pytest.raises(CallError, match="version 2"):
        parse_token("ovc2-" + TOKEN[5:])
    with pytest.raises(CallError, match="more characters"):
        parse_token(TOKEN + "AAAA")
    with pytest.raises(CallError, match=r"'\.'"):
        parse_token(TOKEN + ".")


def test_no_message_and_no_repr_shows_the_secret() -> None:
    from rich.pretty import pretty_repr

    token = parse_token(TOKEN)
    assert repr(SECRET) not in repr(token) + pretty_repr(token)
    with pytest.raises(CallError) as caught:
        parse_token(TOKEN[:-3] + "AAA")
    assert TOKEN[10:40] not in str(caught.value)


@pytest.mark.parametrize("address", ["0.0.0.0:7460", "*:7460", "[::]:7460", "broker:0"])
def test_a_token_never_carries_an_address_nobody_can_dial(address: str) -> None:
    with pytest.raises(CallError, match="dial"):
        make_token(address, "broker:7461", KEY)
    with pytest.raises(CallError, match="dial"):
        make_token("broker:7460", address, KEY)


def test_weak_secrets_and_wrong_keys_are_refused() -> None:
    with pytest.raises(CallError, match="16 bytes"):
        make_token("b:1", "b:2", KEY, b"short")
    with pytest.raises(CallError):
        make_token("b:1", "b:2", "no key")


def test_the_hash_does_not_show_the_secret_and_tells_secrets_apart() -> None:
    assert hash_secret(SECRET) == hash_secret(bytes(SECRET)) != hash_secret(SECRET[:-1])
    assert SECRET.hex() not in hash_secret(SECRET)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7460", "127.0.0.1", 7460),
        ("tcp://[::1]:80", "::1", 80),
        ("*:0", "*", 0),
        ("[fe80::1%eth0]:7460", "fe80::1%eth0", 7460),
    ],
)
def test_addresses_parse_and_print(text: str, host: str, port: int) -> None:
    address = HostPort.parse(text)
    assert address == HostPort(host, port)
    assert HostPort.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", ":7460", "host", "host:", "host:x", "host:65536", "[::1", "[::1]x", "a b:1", "::1:x:1", "h\n:1"],
)
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(CallError):
        HostPort.parse(text)


def test_a_bare_host_takes_the_default_port() -> None:
    assert HostPort.parse("render01", 7460) == HostPort("render01", 7460)
    assert HostPort.parse("::1", 7460) == HostPort("::1", 7460)

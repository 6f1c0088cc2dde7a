"""Options: who wins, where a wrong value stands, and that every option is described once."""

from __future__ import annotations

import string
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.config.load import (
    flag_of,
    load_agent_options,
    load_broker_options,
    load_client_options,
    load_options,
    options,
    parse_size,
    variable_of,
)
from farm.config.options import BrokerOptions
from farm.config.rules import path_mapper, read_path_rules
from farm.model.errors import CallError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for option in options():
        monkeypatch.delenv(option.variable, raising=False)
    return tmp_path


def write(home: Path, text: str, farm: str = "local") -> Path:
    path = home / "config" / "overcrank" / farm / "farm.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_contract_s_defaults_stand() -> None:
    made = load_broker_options("local")
    assert (made.listen, made.control_port, made.join_port, made.bulk_port) == ("127.0.0.1", 7460, 7461, 7462)
    assert (made.heartbeat_s, made.suspect_s, made.lost_s, made.lease_ttl_s) == (2, 15, 60, 45)
    assert (made.kill_grace_s, made.restart_grace_s, made.chunk_target_s) == (15, 60, 120)
    assert made.archive_after_days == 30
    assert (made.log_cap_bytes, made.rate_usd_h) == (1 << 30, 0)


def test_every_option_is_described_once() -> None:
    found = options()
    names = [option.name for option in found]
    assert len(names) == len(set(names))
    for option in found:
        assert option.help, option.name
        suffix = option.name.rpartition("_")[2]
        expected = {"s": "s", "mib": "MiB", "bytes": "bytes", "h": "USD/h", "days": "days"}.get(suffix, "")
        assert option.unit == expected, option.name


values = st.integers(1, 65535)


@settings(max_examples=40, deadline=None)
@given(file=st.none() | values, variable=st.none() | values, flag=st.none() | values)
def test_file_then_environment_then_flag(
    tmp_path_factory: pytest.TempPathFactory, file: int | None, variable: int | None, flag: int | None
) -> None:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.delenv("OVERCRANK_CONTROL_PORT", raising=False)
        if file is not None:
            write(home, f"[broker]\ncontrol_port = {file}\n")
        if variable is not None:
            patch.setenv("OVERCRANK_CONTROL_PORT", str(variable))
        made = load_broker_options("local", {"control_port": flag})
    given_values = [value for value in (7460, file, variable, flag) if value is not None]
    assert made.control_port == given_values[-1]


def test_the_group_s_own_table_wins_over_the_farm_s_wherever_it_stands(home: Path) -> None:
    write(home, '[broker]\nlog_level = "debug"\n[farm]\nlog_level = "error"\n')
    assert load_broker_options("local").log_level == "debug"
    assert load_client_options("local").log_level == "error"


def test_each_farm_has_its_own_file(home: Path) -> None:
    write(home, "[broker]\nlost_s = 90\n", "studio")
    assert load_broker_options("studio").lost_s == 90
    assert load_broker_options("local").lost_s == 60


def test_units_and_exact_money(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, '[broker]\nrate_usd_h = 0.1\nlog_cap_bytes = "64 MiB"\n[agent]\nram_mib = "8GiB"\n')
    assert load_broker_options("local").rate_usd_h == Decimal("0.1")
    assert load_broker_options("local").log_cap_bytes == 64 << 20
    assert load_agent_options("local").ram_mib == 8192
    monkeypatch.setenv("OVERCRANK_RATE_USD_H", "0.50")
    assert load_broker_options("local").rate_usd_h == Decimal("0.50")
    monkeypatch.setenv("OVERCRANK_ALLOW_RENDERERS", "blender, stitch")
    assert load_agent_options("local").allow_renderers == ("blender", "stitch")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[broker]\n\nheartbeat_s = "x"\n', ("line 3", "heartbeat_s", "'x' is not a number")),
        ("[broker]\nheartbeat_s = -1\n", ("line 2", "must be > 0.0, not -1")),
        ("[broker]\nheartbeats_s = 1\n", ("line 2", "'heartbeats_s'", "did you mean heartbeat_s?")),
        ("[broker]\ntimeout_s = 1\n", ("line 2", "it belongs under [client]")),
        ("lost_s = 70\n", ("line 1", "outside a table", "[broker]")),
        ("[brokers]\nlost_s = 70\n", ("line 1", "there is no table [brokers]")),
        ("[broker]\ncontrol_port = true\n", ("line 2", "True is not a whole number")),
        ("[broker]\ncontrol_port = 70000\n", ("line 2", "must be <= 65535, not 70000")),
        ('[broker]\nlog_level = "loud"\n', ("line 2", "debug, info, warning, error")),
        ("[broker]\nrate_usd_h = nan\n", ("line 2", "rate_usd_h")),
        ("[broker]\nrate_usd_h = -0.1\n", ("line 2", "rate_usd_h")),
        ('[broker]\nlog_cap_bytes = "many"\n', ("line 2", "'many'")),
        ("[broker\n", ("farm.toml is not a TOML file", "line 1")),
        ("[broker]\nlost_s = 10\n", ("line 2", "suspect_s (15) must be less than lost_s (10)")),
        ("[broker]\nlease_ttl_s = 61\n", ("line 2", "a lost agent could still publish files")),
        ("[broker]\nlease_ttl_s = 58\n", ("line 2", "by more than 5% of it", "the broker's clock")),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(home: Path, text: str, words: tuple[str, ...]) -> None:
    path = write(home, text)
    with pytest.raises(CallError) as caught:
        load_broker_options("local")
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_a_wrong_variable_or_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CallError, match=r"^--heartbeat-s: heartbeat_s: 'soon' is not a number"):
        load_broker_options("local", {"heartbeat_s": "soon"})
    monkeypatch.setenv("OVERCRANK_HEARTBEAT_S", "nan")
    with pytest.raises(CallError, match=r"^OVERCRANK_HEARTBEAT_S: heartbeat_s: must be > 0.0"):
        load_broker_options("local")


def test_an_unknown_flag_is_a_call_error() -> None:
    with pytest.raises(CallError, match="there is no option 'hartbeat_s'"):
        load_options(BrokerOptions, "local", {"hartbeat_s": 1})


@given(st.text(alphabet=string.ascii_letters + string.digits + " .-", max_size=12))
def test_a_size_is_a_number_or_an_error(text: str) -> None:
    try:
        found = parse_size(text)
    except ValueError:
        return
    assert found >= 0


def test_names_are_derived() -> None:
    assert variable_of("lost_s") == "OVERCRANK_LOST_S"
    assert flag_of("lost_s") == "--lost-s"


def test_path_rules() -> None:
    mapper = path_mapper([r"P:\proj=/mnt/proj", "/Volumes/proj = /mnt/proj"])
    assert mapper.map("P:\\proj\\a.blend") == "/mnt/proj/a.blend"
    with pytest.raises(CallError, match="is not SOURCE=TARGET"):
        read_path_rules(["/mnt/proj"])
    with pytest.raises(CallError, match=r"path_rules: .*absolute"):
        read_path_rules(["proj=/mnt/proj"])

"""The agent's own update: an argument list, run once, its failure told; disk and tokens that are offered."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.cli.verbs_agent import _tokens
from farm.model.errors import CallError
from farm.protocol.agent import UpdateMsg
from node_agent.probe import HardwareFacts, offered_disk_mib, slice_facts
from node_agent.selfupdate import UPDATED, SelfUpdate, UpdateFacts
from tests.support.waiting import eventually

ASK = UpdateMsg(3, "1.2.3")


class Updater:
    """An update whose news are kept."""

    def __init__(self, folder: Path, *command: str, installed: str = "1.0", timeout_s: float = 60.0) -> None:
        self.news = threading.Event()
        self.state = folder / "agents" / "0"
        self.state.mkdir(parents=True, exist_ok=True)
        self.update = SelfUpdate(
            command,
            self.state,
            agent_tag={"A_TAG": "mine"},
            installed=lambda: installed,
            changed=self.news.set,
            ready=self.news.set,
            timeout_s=timeout_s,
        )

    def ask(self, message: UpdateMsg = ASK) -> UpdateFacts:
        self.news.clear()
        self.update.ask(message)
        assert self.news.wait(20)
        return self.update.facts


def script(folder: Path, text: str) -> str:
    path = folder / "update.py"
    path.write_text(text)
    return str(path)


def test_the_command_gets_the_version_as_an_argument_and_a_variable_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = (
        "import os, sys; open(sys.argv[1], 'w').write(' '.join("
        "[*sys.argv[2:], os.environ['OVERCRANK_UPDATE_VERSION'], os.environ['A_TAG']]))"
    )
    updater = Updater(tmp_path, sys.executable, script(tmp_path, text), str(out), "x=={version}", "$(id); rm")
    updater.ask()
    assert out.read_text() == "x==1.2.3 $(id); rm 1.2.3 mine"
    assert updater.update.restart_for == 3
    out.unlink()
    updater.update.ask(UpdateMsg(4, "1.2.4"))
    updater.update.close()
    assert not out.exists(), "it is about to start anew: nothing more is run"


@pytest.mark.allow_log("event=update-failed")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys; print('first'); sys.exit('no disk left')", "ended with code 1: no disk left"),
        ("import os; os.kill(os.getpid(), 15)", "was killed by SIGTERM"),
        ("raise SystemExit(7)", "ended with code 7"),
    ],
)
def test_a_command_that_fails_says_why(tmp_path: Path, text: str, told: str) -> None:
    updater = Updater(tmp_path, sys.executable, script(tmp_path, text))
    facts = updater.ask()
    assert (facts.rollout, facts.failure) == (3, f"the update command {told}")
    assert updater.update.restart_for == 0
    updater.update.close()


@pytest.mark.allow_log("event=update-failed")
def test_what_cannot_be_run_or_is_no_version_is_refused(tmp_path: Path) -> None:
    assert Updater(tmp_path).ask().failure == "this agent has no update_command"
    assert not Updater(tmp_path).update.able
    missing = Updater(tmp_path, str(tmp_path / "missing")).ask()
    assert missing.failure == "the update command cannot be run: No such file or directory"
    for version in ("", "-rf", "1.0; id", "../../x", "1" * 101):
        assert "is no version" in Updater(tmp_path, "true").ask(UpdateMsg(3, version)).failure


@pytest.mark.allow_log("event=update-failed")
def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(300)\n"
    )
    updater = Updater(tmp_path, sys.executable, script(tmp_path, text), timeout_s=6.0)
    assert updater.ask().failure == "the update command did not end within 6 s"

    def gone() -> bool:
        return not any(_lives(int(pid)) for pid in pids.read_text().split())

    eventually(gone, "both are gone")


def test_closing_the_agent_ends_a_command_that_runs(tmp_path: Path) -> None:
    started = tmp_path / "started"
    text = f"import time; open({str(started)!r}, 'w').close(); time.sleep(300)"
    updater = Updater(tmp_path, sys.executable, script(tmp_path, text))
    updater.update.ask(ASK)
    eventually(started.exists, "it runs")
    updater.update.close()
    assert not updater.news.is_set(), "an agent that ends says nothing of it"


def test_agents_of_one_installation_wait_for_each_other_and_the_second_finds_it_done(tmp_path: Path) -> None:
    counted = tmp_path / "count"
    text = f"open({str(counted)!r}, 'a').write('x')"
    first = Updater(tmp_path, sys.executable, script(tmp_path, text))
    first.ask()
    second = Updater(tmp_path, sys.executable, script(tmp_path, text), installed="1.2.3")
    second.ask()
    assert second.update.restart_for == 3
    assert counted.read_text() == "x"


def test_an_agent_that_was_started_anew_knows_for_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UPDATED, "7")
    assert Updater(tmp_path).update.facts == UpdateFacts(7)
    assert UPDATED not in os.environ, "what it starts does not inherit it"
    monkeypatch.setenv(UPDATED, "nonsense")
    assert Updater(tmp_path).update.facts == UpdateFacts()


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


# ---------------------------------------------------------------- disk and tokens


@given(st.integers(0, 10**9))
def test_the_disk_that_is_offered_is_coarse_and_never_more_than_there_is(free_mib: int) -> None:
    offered = offered_disk_mib(free_mib)
    assert offered <= free_mib
    assert free_mib < 1 or offered * 3 > free_mib * 2 - 3
    assert bin(offered).count("1") <= 2, "few different sizes: machines that are alike look alike"


def test_disk_and_tokens_are_offered_and_split_over_the_agents_of_a_machine() -> None:
    hardware = HardwareFacts(cores=4, ram_mib=8, disk_mib=1001, tokens={"fx-card": 3, "dongle": 1})
    parts = [slice_facts(hardware, index, 2).resources() for index in (0, 1)]
    assert [part.disk_mib for part in parts] == [501, 500]
    assert [part.tokens for part in parts] == [{"fx-card": 2, "dongle": 1}, {"fx-card": 1}]


@pytest.mark.parametrize("text", ["fx-card", "=2", "fx-card=", "fx-card=-1", "fx-card=two", "a=9999999999"])
def test_a_wrong_token_is_named(text: str) -> None:
    with pytest.raises(CallError) as caught:
        _tokens((text,))
    assert repr(text) in caught.value.message


def test_tokens_of_the_options() -> None:
    found: Any = _tokens(("fx-card=2", " dongle = 1 "))
    assert found == {"fx-card": 2, "dongle": 1}

"""What the desktop client starts on this machine: it serves, and nothing of it is left behind.

What belongs here: a farm of one's own and the demo in real processes.  What may not: the page that offers
them.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.net.client import FarmClient
from client_gui.net.demo import Demo
from client_gui.net.programs import LocalFarm, State
from client_gui.net.thread import SocketsThread
from farm.config.places import Places, read_endpoint
from farm.protocol.client import ShutdownReq
from tests.support.managed import processes_with
from tests.support.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
WAIT_MS = int(2 * PATIENCE_S * 1000)


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A farm's name that nobody else has, in homes of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    name = f"gui-{secrets.token_hex(6)}"
    yield name
    left = processes_with(name)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"left running: {left}"


def none_left(text: str) -> None:
    eventually(lambda: not processes_with(text), lambda: f"the end of {processes_with(text)}")


def test_a_farm_is_started_connected_to_and_ended(qapp: QApplication, qtbot: QtBot, farm: str) -> None:
    local = LocalFarm(farm=farm)
    said: list[str] = []
    local.said.connect(said.append)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS) as serving:
        local.start()
    assert serving.args == [farm]
    assert local.state is State.SERVING
    client = FarmClient(SocketsThread())
    client.look("nodes", nodes=True)
    client.start(farm)
    qtbot.waitUntil(lambda: client.live and len(client.store.nodes) == 1, timeout=WAIT_MS)
    assert str(client.role) == "admin"
    local.stop()
    qtbot.waitUntil(lambda: local.state is State.IDLE, timeout=WAIT_MS)
    assert local.trouble == ""
    assert said, "what the programs say is told"
    assert client.stop()
    none_left(farm)


def test_a_farm_can_be_called_off_while_it_starts(qapp: QApplication, qtbot: QtBot, farm: str) -> None:
    local = LocalFarm(farm=farm)
    local.start()
    assert local.state is State.STARTING
    local.stop()
    qtbot.waitUntil(lambda: local.state is State.IDLE, timeout=WAIT_MS)
    none_left(farm)
    local.start()
    local.finish()
    none_left(farm)


def test_a_broker_that_ends_takes_the_agent_with_it_and_is_told(
    qapp: QApplication, qtbot: QtBot, farm: str
) -> None:
    local = LocalFarm(farm=farm)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS):
        local.start()
    endpoint = read_endpoint(Places(farm).endpoint)
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: local.state is State.IDLE, timeout=WAIT_MS)
    assert local.trouble == "the broker was killed, or crashed, without a word"
    none_left(farm)


def test_a_client_that_is_killed_leaves_no_farm(farm: str) -> None:
    program = (
        "import sys\n"
        "from PySide6.QtCore import QCoreApplication\n"
        "from client_gui.net.programs import LocalFarm\n"
        "app = QCoreApplication([])\n"
        f"local = LocalFarm(farm={farm!r})\n"
        "local.serving.connect(lambda name: print('serves', flush=True))\n"
        "local.start()\n"
        "app.exec()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "serves"
        eventually(lambda: len(processes_with(f"--farm {farm} agent")) >= 1, "the agent")
        client.kill()
    none_left(farm)


def test_a_farm_that_is_to_be_kept_outlives_the_client(qapp: QApplication, qtbot: QtBot, farm: str) -> None:
    local = LocalFarm(farm=farm)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS):
        local.start(keep=True)
    local.finish()
    client = FarmClient(SocketsThread())
    client.look("nodes", nodes=True)
    client.start(farm)
    qtbot.waitUntil(lambda: client.live and len(client.store.nodes) == 1, timeout=WAIT_MS)
    agents = processes_with(f"--farm {farm} agent")
    assert agents
    # Found again by another client: nothing is started twice.
    again = LocalFarm(farm=farm)
    with qtbot.waitSignal(again.serving, timeout=WAIT_MS):
        again.start()
    assert again.state is State.IDLE
    ended: list[object] = []
    client.ask(ShutdownReq, QObject(client), ended.append, ended.append, repeat=False)
    qtbot.waitUntil(lambda: not client.live, timeout=WAIT_MS)
    assert client.stop()
    for pid in agents:
        os.kill(pid, signal.SIGTERM)
    none_left(farm)


def test_a_farm_that_others_began_is_started_again_for_them_all(
    qapp: QApplication, qtbot: QtBot, farm: str
) -> None:
    """It was ``farm broker`` in a terminal, say: it must not hang on this window, nor get an agent here."""
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "farm",
            "--farm",
            farm,
            "broker",
            "--control-port=0",
            "--join-port=0",
            "--bulk-port=0",
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as broker:
        eventually(lambda: read_endpoint(Places(farm).endpoint), "its broker")
        broker.kill()
    local = LocalFarm(farm=farm)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS):
        local.restart()
    assert local.kept
    local.finish()
    assert not starters(farm), "no agent ran on this machine before"
    client = FarmClient(SocketsThread())
    client.start(farm)
    qtbot.waitUntil(lambda: client.live, timeout=WAIT_MS)
    ended: list[object] = []
    client.ask(ShutdownReq, QObject(client), ended.append, ended.append, repeat=False)
    qtbot.waitUntil(lambda: not client.live, timeout=WAIT_MS)
    assert client.stop()
    none_left(farm)


def starters(farm: str) -> list[int]:
    """Every ``farm agent`` of that farm."""
    return sorted(processes_with(f"--farm {farm} agent"))


def brokers_pid(farm: str) -> int:
    endpoint = read_endpoint(Places(farm).endpoint)
    assert endpoint is not None
    return endpoint.pid


def nodes_of(client: FarmClient) -> list[tuple[str, bool]]:
    """Every node the farm knows: its name, and whether it is there."""
    nodes = client.store.nodes
    rows = [nodes.row(number) for number in nodes.all_ids()]
    return sorted((str(row["name"]), str(row["state"]) == "online") for row in rows)


@pytest.mark.parametrize("later", [False, True], ids=["same client", "later client"])
def test_the_agent_of_a_kept_farm_is_not_joined_by_a_second_one(
    qapp: QApplication, qtbot: QtBot, farm: str, later: bool
) -> None:
    local = LocalFarm(farm=farm)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS):
        local.start(keep=True)
    client = FarmClient(SocketsThread())
    client.look("nodes", nodes=True)
    client.start(farm)
    qtbot.waitUntil(lambda: client.live and len(client.store.nodes) == 1, timeout=WAIT_MS)
    agents = starters(farm)
    broker = brokers_pid(farm)
    try:
        assert len(agents) == 1
        os.kill(broker, signal.SIGKILL)
        endpoint = read_endpoint(Places(farm).endpoint)
        assert endpoint is not None
        eventually(lambda: endpoint.process_gone, "the broker's end")
        again = local
        if later:
            local.finish()
            again = LocalFarm(farm=farm)
        said: list[str] = []
        again.said.connect(said.append)
        with qtbot.waitSignal(again.serving, timeout=WAIT_MS):
            again.restart()
        assert brokers_pid(farm) != broker
        assert f"an agent of {farm} runs here already (process {agents[0]})" in said
        assert starters(farm) == agents
        qtbot.waitUntil(
            lambda: client.live and [there for _, there in nodes_of(client)] == [True], timeout=WAIT_MS
        )
        again.finish()
    finally:
        assert client.stop()
        for pid in {*agents, *starters(farm)}:
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: not starters(farm), "the agent's end")
        for pid in processes_with(f"--farm {farm} broker"):
            os.kill(pid, signal.SIGTERM)
    none_left(farm)


def test_an_agent_that_is_killed_is_told_and_started_again_alone(
    qapp: QApplication, qtbot: QtBot, farm: str
) -> None:
    local = LocalFarm(farm=farm)
    with qtbot.waitSignal(local.serving, timeout=WAIT_MS):
        local.start()
    client = FarmClient(SocketsThread())
    client.look("nodes", nodes=True)
    client.start(farm)
    qtbot.waitUntil(lambda: client.live and len(client.store.nodes) == 1, timeout=WAIT_MS)
    before = nodes_of(client)
    broker = brokers_pid(farm)
    (agent,) = starters(farm)
    try:
        os.kill(agent, signal.SIGKILL)
        qtbot.waitUntil(lambda: bool(local.agent_trouble), timeout=WAIT_MS)
        assert local.agent_trouble == "its agent was killed, or crashed, without a word"
        assert (local.state, local.trouble) == (State.SERVING, "")
        local.restart()
        assert local.agent_trouble == ""
        qtbot.waitUntil(lambda: len(starters(farm)) == 1 and starters(farm) != [agent], timeout=WAIT_MS)
        # Under its own name: it did not start while the one before still held its folder.
        folder = Places(farm).state / "agents"
        eventually(lambda: bool(processes_with(str(folder))), "the agent's own process")
        assert [one.name for one in folder.iterdir()] == ["0"]
        qtbot.waitUntil(lambda: nodes_of(client) == before, timeout=WAIT_MS)
        assert brokers_pid(farm) == broker
        local.stop()
        qtbot.waitUntil(lambda: local.state is State.IDLE, timeout=WAIT_MS)
        assert local.trouble == ""
    finally:
        local.finish()
        assert client.stop()
    none_left(farm)


@pytest.mark.slow
def test_a_demo_that_is_called_off_leaves_nothing_running(
    qapp: QApplication, qtbot: QtBot, farm: str, tmp_path: Path
) -> None:
    folder = tmp_path / farm
    demo = Demo()
    with qtbot.waitSignal(demo.serving, timeout=WAIT_MS) as serving:
        demo.start(folder)
    (name,) = serving.args
    assert name.startswith("private/")
    demo.stop()
    qtbot.waitUntil(lambda: demo.state is State.IDLE, timeout=WAIT_MS)
    assert demo.film is None
    assert demo.trouble == ""
    none_left(str(folder))
    none_left(name)

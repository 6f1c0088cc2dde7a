"""`farm doctor`: it finds what is broken, says how to mend it, changes nothing, and its JSON is stable."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.cli import verbs_doctor
from farm.cli.doctor import farms, machine, software
from farm.cli.doctor.check import Check, run_checks
from farm.cli.main import main
from farm.config.places import Endpoint, Places
from farm.model.errors import OutputError
from farm.sdk.client import Farm
from farm.storage import ground
from farm.transport.keys import generate_keypair, save_keypair
from tests.support.fake_broker import T0_US, FakeBroker
from tests.support.real import require

NAMES = [
    *("system", "machine", "gpu", "open-files", "temporary", "python", "packages", "encryption"),
    *("pictures.png", "pictures.exr", "ffmpeg", "blender", "mitsuba", "demo-renderer", "renderers"),
    *("options", "state", "config", "keys", "port-control", "port-join", "port-bulk", "broker", "clock"),
]
PROGRAM = "#!/bin/sh\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a farm, whose broker would take three free ports."""
    for name in [name for name in os.environ if name.startswith("OVERCRANK_")]:
        if name != "OVERCRANK_REQUIRE_REAL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for which in ("CONTROL", "JOIN", "BULK"):
        monkeypatch.setenv(f"OVERCRANK_{which}_PORT", str(port))
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM + text)
    path.chmod(0o755)
    return path


def only(checks: list[Check]) -> Check:
    (check,) = checks
    return check


# -- the verb ----------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.slow
def test_on_this_machine_everything_the_demo_needs_is_found(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    require(
        importlib.util.find_spec("mitsuba") or shutil.which("blender"),
        "Blender or Mitsuba",
        "pip install mitsuba",
    )
    own = tmp_path / "temporary"  # others of this machine look, too, and leave theirs while they do
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    code = main(["doctor", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert code == 0, said
    assert said["ready"] is True
    assert said["farm"] == "local"
    # Notes on one subject (each GPU, each rival package) may add further records of the same name.
    assert list(dict.fromkeys(check["name"] for check in said["checks"])) == NAMES
    for check in said["checks"]:
        assert list(check) == ["name", "status", "needed", "detail", "cure"]
        assert check["status"] in ("ok", "warn", "missing")
        assert check["detail"]
        assert check["cure"] if check["status"] != "ok" else True
    # It looks, and leaves nothing behind.
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert list(own.iterdir()) == []


BAD = Check("ffmpeg", "missing", "there is no ffmpeg", "install it", needed=True)
ODD = Check("blender", "missing", "no Blender here", "apt-get install blender")
GOOD = Check("python", "ok", "3.11.7", needed=True)


@pytest.mark.parametrize(("checks", "code"), [([GOOD, ODD], 0), ([GOOD, BAD, ODD], 1)])
def test_only_what_the_demo_needs_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checks: list[Check], code: int
) -> None:
    monkeypatch.setattr(verbs_doctor, "look", lambda name: checks)
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["ready"] is (code == 0)


def test_people_see_the_cure_under_the_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs_doctor, "look", lambda name: [GOOD, BAD, ODD])
    assert main(["doctor", "--problems"]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["MISSING", "ffmpeg", "there", "is", "no", "ffmpeg"]
    assert lines[1] == ["->", "install", "it"]
    assert lines[2] == ["missing", "blender", "no", "Blender", "here"]
    assert lines[-1][-1] == "ffmpeg"


def test_a_check_that_breaks_is_a_finding_and_hides_no_other() -> None:
    def breaks() -> Check:
        raise RuntimeError("driver on fire")

    found = run_checks({"gpu": breaks, "python": lambda: GOOD, "two": lambda: [BAD, ODD]})
    assert [(check.name, check.status) for check in found] == [
        ("gpu", "warn"),
        ("python", "ok"),
        ("ffmpeg", "missing"),
        ("blender", "missing"),
    ]
    assert "driver on fire" in found[0].detail


# -- software ----------------------------------------------------------------------------------------


def test_python_and_system() -> None:
    assert software.python((3, 11, 0)).status == "ok"
    assert software.python((3, 10, 13)).blocks
    assert machine.system("linux").status == "ok"
    assert machine.system("win32").blocks
    assert "Linux" in machine.system("darwin").cure


def test_packages_are_compared_with_what_we_ask_for() -> None:
    good = only(software.packages(["numpy>=2", "pyzmq>=27"]))
    assert (good.status, good.detail) == ("ok", "all 2 are here in a version that will do")
    bad = only(software.packages(["numpy>=99", "no-such-thing>=1"]))
    assert bad.blocks
    assert "must be >=99" in bad.detail
    assert "no-such-thing is not installed" in bad.detail
    assert {text.split(">")[0] for text in software.requirements()} >= {"pyzmq", "msgspec", "OpenImageIO"}


def test_requirements_are_read_from_the_tree_where_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", gone)
    assert "pyzmq>=27" in software.requirements()


def test_a_package_that_overwrites_ours_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.metadata.distribution

    def find(name: str) -> object:
        return object() if name == "opencv-python" else known(name)

    monkeypatch.setattr(importlib.metadata, "distribution", find)
    good, rival = software.packages(["numpy>=2"])
    assert good.status == "ok"
    assert rival.status == "warn"
    assert rival.cure.startswith("pip uninstall opencv-python ")


LISTING = """cat <<'END'
ffmpeg version 9.9 Copyright (c) the developers
 V....D libx264              H.264
 V....D ffv1                 FFmpeg video codec #1
 A....D aac                  AAC
 ... eq                V->V       Adjust colours.
 T.C vignette          V->V       Make a vignette.
 TSC drawtext          V->V       Draw text.
END
"""


def test_ffmpeg_must_have_what_the_demo_asks_of_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERCRANK_FFMPEG", str(script(home / "good" / "ffmpeg", LISTING)))
    assert software.ffmpeg().status == "ok"
    poor = LISTING.replace("libx264", "mpeg4").replace("drawtext", "drawbox")
    monkeypatch.setenv("OVERCRANK_FFMPEG", str(script(home / "poor" / "ffmpeg", poor)))
    check = software.ffmpeg()
    assert check.blocks
    assert "without libx264, drawtext" in check.detail
    monkeypatch.setenv("OVERCRANK_FFMPEG", str(home / "none"))
    check = software.ffmpeg()
    assert check.blocks
    assert "none" in check.detail
    assert check.cure


def test_blender_is_found_or_missed_or_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "bin"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin{os.pathsep}/usr/sbin")
    monkeypatch.setattr("node_agent.apps.wheel_version", lambda name: "")
    monkeypatch.setattr(
        shutil, "which", lambda name: str(folder / name) if (folder / name).exists() else None
    )
    monkeypatch.setattr("node_agent.apps._candidates", lambda extra, path: [folder / "blender"])
    assert software.blenders().status == "missing"
    script(folder / "blender", "echo Blender 4.2.3")
    assert software.blenders() == Check("blender", "ok", f"4.2.3 ({folder}/blender)")
    script(folder / "blender", "exit 3")
    check = software.blenders()
    assert check.status == "warn"
    assert check.cure == f"try: {folder}/blender --version"


@pytest.mark.parametrize(
    ("blender", "mitsuba", "status", "words"),
    [
        ("ok", "missing", "ok", "blender"),
        ("missing", "ok", "ok", "mitsuba"),
        ("ok", "ok", "ok", "blender"),
        ("missing", "missing", "missing", "neither"),
        # The demo takes the first that is there, so one that is broken stands in the way.
        ("warn", "ok", "missing", "does not work"),
        ("missing", "warn", "missing", "does not work"),
    ],
)
def test_the_demo_renders_with_the_first_that_is_here(
    blender: str, mitsuba: str, status: str, words: str
) -> None:
    check = software.demo_renderer(
        Check("blender", blender, "x"),  # type: ignore[arg-type]
        Check("mitsuba", mitsuba, "x"),  # type: ignore[arg-type]
    )
    assert (check.status, check.needed) == (status, True)
    assert words in check.detail
    if (blender, mitsuba) == ("warn", "ok"):
        assert "--renderer mitsuba" in check.cure


def test_a_mitsuba_that_does_not_load_is_not_ok(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node_agent.apps.wheel_version", lambda name: "3.9.1" if name == "mitsuba" else "")
    monkeypatch.setattr(sys, "executable", str(script(home / "python", "echo ImportError: libLLVM; exit 1")))
    check = software.mitsuba_wheel()
    assert check.status == "warn"
    assert "libLLVM" in check.detail
    text = "echo ImportError: libatomic.so.1: cannot open shared object file; echo NameError: x; exit 1"
    monkeypatch.setattr(sys, "executable", str(script(home / "python", text)))
    check = software.mitsuba_wheel()
    assert "there is no libatomic.so.1" in check.detail
    assert check.cure == "apt-get install libatomic1"
    monkeypatch.setattr("node_agent.apps.wheel_version", lambda name: "")
    assert software.mitsuba_wheel().status == "missing"


def test_a_broken_renderer_of_another_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.renderers.registry.broken_renderers", lambda: {"acme": "no such library"})
    good, bad = software.third_parties()
    assert good.status == "ok"
    assert bad == Check(
        "renderers", "warn", "acme: no such library", "mend or uninstall the package that brings it"
    )


def test_pictures_are_really_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check.status for check in software.pictures()] == ["ok", "ok"]

    def broken(path: str) -> None:
        raise OutputError("it does not decode", path)

    monkeypatch.setattr("farm.media.verify.verify_file", broken)
    assert [check.blocks for check in software.pictures()] == [True, True]

    def swaps(path: str) -> None:
        Path(path).write_bytes(b"no picture at all")

    monkeypatch.setattr("farm.media.verify.verify_file", swaps)
    checks = software.pictures()
    assert [check.blocks for check in checks] == [True, True]
    assert all(check.detail.startswith("cannot be read: ") for check in checks)


# -- the machine -------------------------------------------------------------------------------------


def test_limits_and_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    check = machine.open_files()
    assert (check.status, check.cure) == ("warn", "ulimit -n 1024")
    usage = namedtuple("usage", "total used free")
    for free, status in ((10 << 30, "ok"), (1 << 30, "warn"), (1 << 20, "missing")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: usage(0, 0, free))
        assert machine.temporary().status == status


def test_no_gpu_is_no_trouble_and_a_lost_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node_agent.probe.probe_gpus", lambda: ((), ()))
    assert only(machine.gpus()).status == "ok"
    monkeypatch.setattr("node_agent.probe.probe_gpus", lambda: ((), ("GPU 1 unavailable: lost",)))
    assert only(machine.gpus()).status == "warn"
    gpu = SimpleNamespace(name="NVIDIA H200", vram_mib=143_771)
    monkeypatch.setattr("node_agent.probe.probe_gpus", lambda: ((gpu,), ("GPU 1 unavailable: lost",)))
    good, bad = machine.gpus()
    assert (good.status, bad.status) == ("ok", "warn")
    assert "H200" in good.detail


def test_a_clock_that_was_never_set_or_is_behind_the_broker() -> None:
    assert machine.clock(100.0).status == "warn"
    now_s = 1_900_000_000.0
    assert machine.clock(now_s).status == "ok"
    assert machine.clock(now_s, int((now_s + 3) * 1e6)).status == "ok"
    check = machine.clock(now_s, int((now_s + 90) * 1e6))
    assert check.status == "warn"
    assert "90 s ahead" in check.detail


# -- the farm ----------------------------------------------------------------------------------------


def test_a_wrong_option_is_told_with_its_line(home: Path) -> None:
    path = Places("local").options
    path.parent.mkdir(parents=True)
    path.write_text("[broker]\n\nheartbeat_s = 'often'\n")
    check = farms.options("local")
    assert check.blocks
    assert "line 3" in check.detail
    assert farms.ports("local") == []


def test_state_on_a_network_disk_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = home / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {home} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(ground, "MOUNTS", mounts)
    state, config = farms.folders("local")
    assert state.blocks
    assert "nfs4" in state.detail
    assert "XDG_STATE_HOME" in state.cure
    assert config.status == "ok"


def test_a_folder_that_cannot_be_had_is_told(home: Path) -> None:
    (home / "state").write_text("a file in the way")
    state, config = farms.folders("local")
    assert state.blocks
    assert str(home / "state") in state.detail
    assert config.status == "ok"
    assert "will be made" in config.detail


def test_a_key_others_can_read_is_told_and_the_good_ones_named(home: Path) -> None:
    places = Places("local")
    assert only(farms.keys("local")).status == "ok"
    save_keypair(places.client_key, generate_keypair())
    save_keypair(places.admin_key, generate_keypair())
    places.client_key.chmod(0o644)
    good, bad = farms.keys("local")
    assert good == Check("keys", "ok", "local-admin.key")
    assert bad.status == "warn"
    assert f"chmod 600 {places.client_key}" in bad.cure
    assert generate_keypair().secret not in bad.detail


def endpoint(control: str, pid: int) -> Endpoint:
    return Endpoint(
        control=control, join="127.0.0.1:2", bulk="127.0.0.1:3", public="x" * 40, farm_id="f", pid=pid
    )


def test_ports_are_free_or_ours_or_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check.status for check in farms.ports("local")] == ["ok", "ok", "ok"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        monkeypatch.setenv("OVERCRANK_CONTROL_PORT", str(port))
        control, join, _ = farms.ports("local")
        assert (control.name, control.status, join.status) == ("port-control", "warn", "ok")
        assert f"127.0.0.1:{port}" in control.detail
        assert "--control-port" in control.cure
        endpoint(f"127.0.0.1:{port}", os.getpid()).write(Places("local").endpoint)
        assert farms.ports("local")[0] == Check("port-control", "ok", f"{port} is this farm's broker's")


def test_a_broker_that_has_ended_is_told(home: Path) -> None:
    check, newest_us = farms.broker("local")
    assert (check.status, newest_us) == ("ok", 0)
    assert "`farm demo`" in check.detail
    gone = 2**22 + 1  # above the kernel's largest process number
    endpoint("127.0.0.1:1", gone).write(Places("local").endpoint)
    check, _ = farms.broker("local")
    assert check.status == "warn"
    assert "has ended" in check.detail
    assert "farm broker" in check.cure


def test_a_broker_that_answers_is_asked_who_we_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint("127.0.0.1:1", os.getpid()).write(Places("local").endpoint)
    fake = FakeBroker()
    monkeypatch.setattr(Farm, "connect", classmethod(lambda cls, name=None, timeout_s=None: fake.farm()))
    check, newest_us = farms.broker("local")
    assert check.status == "ok", check
    assert "your key is of" in check.detail
    assert newest_us == 0 or newest_us >= T0_US
    assert all(link.closed for link in fake.links)


def test_a_damaged_endpoint_file_is_no_crash(home: Path) -> None:
    path = Places("local").endpoint
    path.parent.mkdir(parents=True)
    path.write_text("{")
    check, _ = farms.broker("local")
    assert check.status == "warn"
    assert str(path) in check.detail

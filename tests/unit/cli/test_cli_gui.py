"""`farm gui`: what it says where no window can be opened, and what it hands to the client where one can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from client_gui import app, probe
from farm.cli.verbs import VERBS, find_verb
from farm.model.errors import CallError
from tests.support.cli_rig import Run
from tests.support.real import require

PLUGINS = ("xcb", "wayland", "offscreen")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[app.Options]:
    """What the client would be started with, on a machine that can show it."""
    found: list[app.Options] = []

    def run(options: app.Options) -> int:
        found.append(options)
        return 0

    monkeypatch.setattr(app, "run", run)
    return found


def test_it_is_a_verb_like_any_other() -> None:
    verb = find_verb("gui")
    assert verb is not None
    assert verb.module == "verbs_gui"
    assert verb in VERBS


def test_options_are_handed_to_the_client(run: Run, started: list[app.Options], tmp_path: Path) -> None:
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"BLENDER")
    assert run("gui").code == 0
    assert run("gui", "--farm", "west", "--job", "J12", "--look", "light", "--safe").code == 0
    assert run("--farm", "west", "gui", "--submit", str(scene)).code == 0
    assert started == [
        app.Options(),
        app.Options(farm="west", job=12, look="light", safe=True),
        app.Options(farm="west", submit=scene),
    ]


def test_pictures_are_handed_on_with_their_scenario(
    run: Run, started: list[app.Options], tmp_path: Path
) -> None:
    assert run("gui", "--screenshot", str(tmp_path), "--scenario", "farm.toml").code == 0
    assert started == [app.Options(screenshot=tmp_path, scenario=Path("farm.toml"))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--job", "J12/beauty"), "'J12/beauty' is not a job"),
        (("--job", "twelve"), "twelve"),
        (("--submit", "/nowhere/shot.blend"), "there is no file /nowhere/shot.blend"),
        (("--look", "pink"), "pink"),
        (("--scenario", "farm.toml"), "it needs --screenshot FOLDER"),
        (("--json",), "--json means nothing to it"),
        (("--farm", "../x"), "'../x' is not the name of a farm"),
    ],
)
def test_a_wrong_call_is_refused_in_words(
    run: Run, started: list[app.Options], words: tuple[str, ...], said: str
) -> None:
    result = run("gui", *words)
    assert result.code == 2
    assert said in result.err + result.out
    assert started == []


def test_without_qt_it_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PySide6", None)
    result = run("gui")
    assert result.code == 2
    assert "the desktop client needs PySide6" in result.err
    assert "pip install 'overcrank[gui]'" in result.err
    assert "Traceback" not in result.err


def _folder(path: Path, *plugins: str) -> Path:
    folder = path / "platforms"
    folder.mkdir(exist_ok=True)
    for name in plugins:
        (folder / f"libq{name}.so").write_bytes(b"")
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Why a plug-in cannot be loaded, by its name."""
    troubles: dict[str, str] = {}

    def load(name: str) -> None:
        plugin = Path(name).stem.removeprefix("libq")
        if plugin in troubles:
            raise OSError(f"{troubles[plugin]}: cannot open shared object file: No such file")

    monkeypatch.setattr(probe.ctypes, "CDLL", load)
    return troubles


def _never(variables: Mapping[str, str]) -> str:
    raise AssertionError("nobody needs an X server for that")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "there is no display here"),
        ({"DISPLAY": ""}, "there is no display here"),
        ({"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": "/nowhere"}, "there is no display here"),
        ({"QT_QPA_PLATFORM": "xcb"}, "there is no display here"),
        ({"QT_QPA_PLATFORM": "wayland", "DISPLAY": ":0"}, "there is no Wayland session here"),
        ({"QT_QPA_PLATFORM": "cocoa", "DISPLAY": ":0"}, "QT_QPA_PLATFORM=cocoa is no platform of Qt here"),
    ],
)
def test_without_a_display_nothing_is_tried(
    tmp_path: Path, loads: dict[str, str], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(CallError) as caught:
        probe.check_display(variables, _folder(tmp_path, *PLUGINS), _never)
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["offscreen", "minimal", "vnc:size=800x600", "offscreen;xcb"])
def test_a_platform_without_a_screen_needs_none(tmp_path: Path, loads: dict[str, str], name: str) -> None:
    probe.check_display({"QT_QPA_PLATFORM": name}, _folder(tmp_path, *PLUGINS), _never)


def test_a_session_of_wayland_is_enough(tmp_path: Path, loads: dict[str, str]) -> None:
    (tmp_path / "wayland-1").touch()
    variables = {"WAYLAND_DISPLAY": "wayland-1", "XDG_RUNTIME_DIR": str(tmp_path)}
    probe.check_display(variables, _folder(tmp_path, *PLUGINS), _never)
    loads["wayland"] = "libwayland-client.so.0"
    with pytest.raises(CallError, match="there is no display here"):
        probe.check_display(variables, _folder(tmp_path, *PLUGINS), _never)
    with pytest.raises(CallError, match=r"QT_QPA_PLATFORM=wayland: libwayland-client\.so\.0 is missing"):
        probe.check_display({**variables, "QT_QPA_PLATFORM": "wayland"}, _folder(tmp_path, *PLUGINS), _never)


def test_a_library_the_x_plug_in_lacks_is_named_before_qt_aborts(
    tmp_path: Path, loads: dict[str, str]
) -> None:
    loads["xcb"] = "libxcb-cursor.so.0"
    with pytest.raises(CallError) as caught:
        probe.check_display({"DISPLAY": ":0"}, _folder(tmp_path, *PLUGINS), _never)
    assert caught.value.message == "Qt cannot open windows here: libxcb-cursor.so.0 is missing"
    assert "libxcb-cursor0" in caught.value.hint


def test_a_display_nobody_answers_on_is_told(tmp_path: Path, loads: dict[str, str]) -> None:
    asked: list[str] = []

    def refused(variables: Mapping[str, str]) -> str:
        asked.append(variables["DISPLAY"])
        return "no X server answers there"

    folder = _folder(tmp_path, *PLUGINS)
    with pytest.raises(CallError, match="the display :93 cannot be used: no X server answers there"):
        probe.check_display({"DISPLAY": ":93"}, folder, refused)
    probe.check_display({"DISPLAY": ":0"}, folder, lambda variables: "")
    assert asked == [":93"]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="there are X servers elsewhere, too, but not these"
)
def test_the_x_server_itself_is_asked(tmp_path: Path) -> None:
    try:
        found = probe.ctypes.CDLL("libxcb.so.1")
    except OSError:
        found = None
    require(found, "libxcb", "apt-get install libxkbcommon-x11-0")
    # A local display that nobody serves: an answer comes at once, and the process lives.
    assert probe.x_trouble({"DISPLAY": "unix:4711"})


def _python(code: str, **variables: str) -> Any:
    import os

    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_real_program_ends_in_words_not_in_an_abort(tmp_path: Path) -> None:
    pytest.importorskip("PySide6.QtWidgets")
    if not sys.platform.startswith("linux"):
        pytest.skip("other systems always have a screen to ask")
    done = _python(
        "import sys; from farm.cli.main import main; sys.exit(main(['gui']))",
        XDG_CONFIG_HOME=str(tmp_path),
        XDG_STATE_HOME=str(tmp_path),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("farm: there is no display here")
    assert "Traceback" not in done.stderr


def test_a_library_that_qt_lacks_is_named_with_its_packages(tmp_path: Path) -> None:
    pytest.importorskip("PySide6.QtWidgets")
    done = _python(
        "import sys\n"
        "class Lacking:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'PySide6.QtGui':  # as it is where libegl1 is not installed\n"
        "            raise ImportError('libEGL.so.1: no such file', name=name)\n"
        "sys.meta_path.insert(0, Lacking())\n"
        "from farm.cli.main import main; sys.exit(main(['gui']))",
        XDG_CONFIG_HOME=str(tmp_path),
        XDG_STATE_HOME=str(tmp_path),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("farm: Qt cannot be loaded here: libEGL.so.1 is missing")
    assert "apt-get install libegl1" in done.stderr


def test_help_needs_no_qt() -> None:
    done = _python(
        "import sys; from farm.cli.main import main\n"
        "try: main(['gui', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name.startswith('PySide6') or name == 'client_gui' for name in sys.modules))"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--screenshot" in done.stdout

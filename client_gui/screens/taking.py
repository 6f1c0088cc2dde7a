"""Takes the pictures: a farm, a process with a window for each scale, and what is said meanwhile.

What belongs here: what is started and ended, in which order, and the lines that are printed.  What may not:
Qt, and what is on a picture.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from client_gui.app import Options
from client_gui.screens.served import NAME, ServedFarm
from farm.model.errors import CallError, OvercrankError, StorageError
from farm.sdk.client import Farm
from farm.sdk.words import plural

#: The farm on the pictures when nobody names another.
STUDIO: Final = Path(__file__).parent / "studio.toml"
#: Virtual seconds a second: an hour of work goes by in a minute and a half.
SPEED: Final = 40.0
#: Of every picture: as many pixels as the window has points, and twice as many.
SCALES: Final = (1, 2)
#: Longest silence of a process with a window.
SILENCE_S: Final = 120.0
#: What a wrangler does on the farm that is pictured by default, and when: its log shows who did what.
_LOW, _LONG = "at night only: this afternoon is for ember", "fan is loud: looked at tomorrow morning"


@dataclass(slots=True)
class _Camera:
    """A process with a window at one scale."""

    scale: int
    process: subprocess.Popen[str]
    waits: bool = False
    over: bool = False
    heard_s: float = field(default_factory=time.monotonic)

    def tell(self, word: str) -> None:
        """Says something to it; one that has ended hears nothing."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.write(f"{word}\n")
                self.process.stdin.flush()

    def end(self) -> None:
        """Ends it: it ends by itself when its leash is let go."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def take(options: Options) -> int:
    """Takes the pictures and returns the exit code: 0 when there is at least one.

    Args:
        options: ``screenshot`` is the folder; ``scenario`` or ``farm`` say what is shown; ``look`` takes that
            look alone.

    Raises:
        OvercrankError: The farm cannot be had, or the folder cannot be written.
    """
    folder = options.screenshot
    if folder is None:
        raise CallError("pictures need a folder")
    if options.scenario is not None and options.farm:
        raise CallError(
            "--scenario and --farm together mean two farms", hint="leave one out: either can be pictured"
        )
    scenario = options.scenario or (None if options.farm else STUDIO)
    if scenario is not None and not scenario.is_file():
        raise CallError(f"--scenario: there is no file {scenario}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {folder} cannot be made: {error.strerror or error}") from error
    looks = (options.look,) if options.look in ("dark", "light") else ("dark", "light")
    with _ends_on_signals(), tempfile.TemporaryDirectory(prefix="overcrank-pictures-") as home:
        shoot = _Shoot(folder.resolve(), looks, _title(scenario))
        if scenario is None:
            return shoot.run(options.farm or "", None, None)
        _say(f"serving {scenario}, {SPEED:g} times as fast as real time")
        with (
            ServedFarm(scenario, Path(home), SPEED) as served,
            contextlib.closing(served.admit()) as farm,
        ):
            wrangler = _Wrangler(farm) if scenario == STUDIO else None
            return shoot.run(NAME, served, wrangler)


def _title(scenario: Path | None) -> str:
    """What the farm is called on the pictures, "" = as it calls itself."""
    if scenario is None:
        return ""
    with contextlib.suppress(OSError, ValueError):
        return str(tomllib.loads(scenario.read_text("utf-8")).get("name", ""))
    return ""  # the simulator says what is wrong with it


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _ends_on_signals() -> Iterator[None]:
    """Lets SIGTERM end everything in order, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Wrangler:
    """What somebody does on the farm meanwhile, so that not all of it just runs."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._drained = self._paused = False

    def look(self) -> None:
        """Does what can be done by now; what the farm refuses is left."""
        with contextlib.suppress(OvercrankError):
            if not self._drained:
                nodes = sorted(row.name for row in self._farm.nodes().nodes if row.state == "online")
                if nodes:
                    self._farm.node_act("node-drain", nodes[len(nodes) // 3], reason=_LONG)
                    self._drained = True
            if not self._paused:
                found = [row for row in self._farm.jobs().jobs if row.priority <= 40 and not row.running]
                if found:
                    self._farm.act("pause", f"J{found[-1].job}", reason=_LOW)
                    self._paused = True


class _Shoot:
    """Both processes, and what they say."""

    def __init__(self, folder: Path, looks: tuple[str, ...], title: str) -> None:
        self._folder = folder
        self._title = title
        self._looks = looks
        self._heard: queue.SimpleQueue[tuple[_Camera, str]] = queue.SimpleQueue()
        self._left: dict[str, str] = {}
        self._taken = 0
        self._trouble = ""

    def run(self, farm: str, served: ServedFarm | None, wrangler: _Wrangler | None) -> int:
        """Takes all pictures of a farm."""
        cameras: list[_Camera] = []
        lost = False
        try:
            for scale in SCALES:
                # One by one: what was started is ended below even when the next cannot be.
                variables = served.guest(f"{scale}x") if served is not None else dict(os.environ)
                cameras += [self._start(farm, scale, variables, own=served is not None)]
            while not all(camera.over for camera in cameras):
                self._listen(cameras)
                waiting = [camera for camera in cameras if not camera.over]
                if wrangler is not None and any(not camera.waits for camera in waiting):
                    wrangler.look()
                if served is not None and not lost:
                    served.check()
                if served is not None and waiting and all(camera.waits for camera in waiting):
                    wrangler, lost = None, True
                    served.lose()
                    for camera in waiting:
                        camera.waits = False
                        camera.tell("lost")
        finally:
            for camera in cameras:
                camera.end()
        for scene, why in self._left.items():
            _say(f"no picture of {scene}: {why}")
        if self._trouble:
            _say(f"a window ended before its time: {self._trouble}")
        _say(f"{plural(self._taken, 'picture')} in {self._folder}")
        return 0 if self._taken else 1

    def _start(self, farm: str, scale: int, variables: dict[str, str], *, own: bool) -> _Camera:
        order = {
            "farm": farm,
            "folder": str(self._folder),
            "looks": self._looks,
            "scale": scale,
            "own": own,
            "name": self._title,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "client_gui.screens.camera", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables | {"QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": str(scale)},
        )
        camera = _Camera(scale, process)
        threading.Thread(target=self._read, args=(camera,), name=f"camera {scale}x", daemon=True).start()
        return camera

    def _read(self, camera: _Camera) -> None:
        """Hands on what a process says; an empty line is its end."""
        stream = camera.process.stdout
        assert stream is not None
        with contextlib.suppress(ValueError):  # closed by ``end``
            for line in stream:
                self._heard.put((camera, line))
        self._heard.put((camera, ""))

    def _listen(self, cameras: list[_Camera]) -> None:
        """Takes what was said within half a second."""
        with contextlib.suppress(queue.Empty):
            camera, line = self._heard.get(timeout=0.5)
            camera.heard_s = time.monotonic()
            if line:
                self._take(camera, line)
            else:
                self._ended(camera)
        for camera in cameras:
            silent_s = time.monotonic() - camera.heard_s
            if not camera.over and not camera.waits and silent_s > SILENCE_S:
                self._trouble = f"the window at {camera.scale}x said nothing for {silent_s:.0f} s"
                camera.over = True

    def _take(self, camera: _Camera, line: str) -> None:
        try:
            told: dict[str, Any] = json.loads(line)
        except ValueError:
            return  # something a library printed
        if name := told.get("took"):
            self._taken += 1
            _say(f"  {name}")
        elif scene := told.get("left"):
            self._left.setdefault(str(scene), str(told.get("why", "")))
        elif told.get("waits"):
            camera.waits = True

    def _ended(self, camera: _Camera) -> None:
        camera.over = True
        code = camera.process.wait()
        if code:
            assert camera.process.stderr is not None
            said = camera.process.stderr.read().strip()
            self._trouble = said.splitlines()[-1] if said else f"code {code}"
        if camera.process.stderr is not None:
            camera.process.stderr.close()

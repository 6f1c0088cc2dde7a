"""``farm gui`` as people start it: its own process on a real X server, with a real mouse and real keys.

What belongs here: what only a window on a screen can show: clicks land, keys arrive, menus grab and let go,
docks are dragged, the process ends.  What may not: what docks do (``test_gui_end_to_end``, ``tests/gui``).

Where something is on the screen is read from the screen: rows by the colour of the selected one, the border
between docks by its line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

from client_gui.style.tokens import DARK
from farm.model.errors import CallError
from tests.support.farmhouse import Farmhouse
from tests.support.real import require
from tests.support.truth import Renders
from tests.support.waiting import PATIENCE_S, eventually
from tests.support.xserver import Picture, XServer

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

pytestmark = pytest.mark.real


class Band(NamedTuple):
    """Rows of pixels that the selected row of a list takes, from its first to the one after its last."""

    top: int
    bottom: int

    @property
    def high(self) -> int:
        return self.bottom - self.top

    @property
    def middle(self) -> int:
        return (self.top + self.bottom) // 2

    def is_at(self, other: Band) -> bool:
        """Whether it is the same row, give or take the frame round the cell that has the keys."""
        return abs(self.top - other.top) <= 3 and abs(self.bottom - other.bottom) <= 3


class Screen:
    """The client in a process of its own on an X server.

    Attributes:
        x: The server.
        window: The X window.
        process: The client.
    """

    def __init__(self, x: XServer, house: Farmhouse, folder: Path) -> None:
        self.x = x
        self.house = house
        self.folder = folder
        self.window = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._log = folder / "client.log"

    def start(self, *flags: str) -> None:
        """Starts it, and waits for its window; it gets the keys."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "farm", "gui", "--look", "dark", *flags],
                env=self.x.env(self.house.env),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        (self.window,) = self.until(lambda: self.x.windows("--name", "Overcrank$"), "a window of that title")
        self.x.give_keys(self.window)

    def ended(self) -> int:
        """Its exit code, once it has ended; it has said nothing."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        assert self._log.read_text() == "", "neither warnings of Qt nor tracebacks"
        return code

    def kill(self) -> None:
        """Ends it if it still runs: a test failed."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Waits; a failure says what the client printed and where a picture of the screen lies."""

        def failed() -> str:
            picture = self.folder / "screen.png"
            cv2.imwrite(str(picture), self.x.see())
            return f"{what}; the client said {self._log.read_text()!r}; the screen is in {picture}"

        return eventually(condition, failed)

    # -- what is on the screen --

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the window."""
        told = self.x.do("getwindowgeometry", "--shell", self.window)
        found = dict(line.split("=") for line in told.splitlines())
        return int(found["WIDTH"]), int(found["HEIGHT"])

    def border(self, colour: str = DARK.line) -> int:
        """Where the line between the jobs and what is right of them is; 0 while there is none.

        Args:
            colour: Of the line: another one while the mouse is on it.
        """
        wide, high = self.size
        part = self.x.see()[high // 5 : high // 2, :wide]
        lines = np.flatnonzero((part == _bgr(colour)).all(axis=(0, 2)))
        inner = [int(x) for x in lines if wide // 4 < x < wide * 9 // 10]
        return inner[0] if inner else 0

    def chosen(self) -> Band | None:
        """Where the selected job's row is."""
        part = self.x.see()[: self.size[1] // 2, 300:600]  # right of the cell that has the keys
        rows = np.flatnonzero((part == _bgr(DARK.selected)).all(axis=2).sum(axis=1) > 100)
        return Band(int(rows[0]), int(rows[-1]) + 1) if len(rows) else None

    def chosen_at(self, band: Band) -> bool:
        """Whether the selected row is there."""
        found = self.chosen()
        return found is not None and found.is_at(band)

    def pops(self) -> list[int]:
        """Further windows of the client: menus."""
        assert self.process is not None
        return [one for one in self.x.windows("--pid", str(self.process.pid)) if one != self.window]

    # -- what is known elsewhere --

    def states(self) -> dict[str, str]:
        """States of the jobs by name, as the broker says."""
        return {row.name: row.state for row in self.house.admin.jobs().jobs}

    def remembered(self, name: str) -> Any:
        """A value of the file of settings, None while there is none."""
        path = self.house.folder / "config" / "overcrank" / "gui.ini"
        for line in path.read_text().splitlines() if path.exists() else ():
            key, _, value = line.partition("=")
            if key == name:
                return json.loads(value)
        return None


def _bgr(colour: str) -> Picture:
    return np.frombuffer(bytes.fromhex(colour[1:])[::-1], np.uint8)


@pytest.fixture
def screen(new_house: Callable[..., Farmhouse], tmp_path: Path) -> Iterator[Screen]:
    trouble = ""
    house = new_house()
    with XServer(tmp_path / "x") as x:
        try:
            from client_gui.probe import check_window

            check_window({"DISPLAY": x.display})
        except CallError as error:
            trouble = f"{error.message}: {error.hint}"
        require(not trouble, "a screen that Qt can open windows on", trouble)
        found = Screen(x, house, tmp_path)
        try:
            yield found
        finally:
            found.kill()


def test_mouse_and_keys_on_a_real_screen(screen: Screen, tmp_path: Path) -> None:
    house, x = screen.house, screen.x
    house.agent("a")
    house.wait_online()
    for name in ("first", "second"):
        work = Renders(tmp_path, name).job("1-4", gated=True, job={"name": name, "user": "wim"})
        house.admin.submit(work)
    dark = x.see()
    assert not dark.any(), "nothing is on the screen yet"
    screen.start()
    wide, high = screen.size
    screen.until(lambda: x.do("getwindowname", screen.window) == "test – Artist – Overcrank", "its title")

    # -- it is not blank --
    def painted() -> bool:
        seen = x.see()[:high, :wide].reshape(-1, 3)
        return len(np.unique(seen, axis=0)) > 100 and bool(
            (seen == _bgr(DARK.states["running"])).all(1).any()
        )

    screen.until(painted, "words, and the colour of what runs")
    border = screen.until(screen.border, "the line between two docks")

    # -- keys, then a click: the row that was clicked is meant --
    top = screen.until(lambda: x.key("Home") or screen.chosen(), "a selected row, once keys are taken")
    row = Band(top.bottom, top.bottom + top.high)
    x.click(200, row.middle)
    screen.until(lambda: screen.chosen_at(row), "the second row")
    x.key("p")
    screen.until(lambda: "paused" in screen.states().values(), "the broker paused what was clicked")
    (paused,) = [name for name, state in screen.states().items() if state == "paused"]
    x.click(200, top.middle)
    screen.until(lambda: screen.chosen_at(top), "the first row")
    x.key("p")
    screen.until(lambda: set(screen.states().values()) == {"paused"}, "the other one, too")

    # -- the palette --
    x.click(200, row.middle)
    screen.until(lambda: screen.chosen_at(row), "the second row again")
    x.key("ctrl+k")
    x.type("Pause or resume")
    x.key("Return")
    screen.until(lambda: screen.states()[paused] != "paused", "what the palette does reaches the broker")
    assert list(screen.states().values()).count("paused") == 1

    # -- a menu by the right button, which lets go of mouse and keys again --
    x.point(wide // 2, high - 5)  # a tip would be a window, too
    screen.until(lambda: not screen.pops(), "nothing but the window")
    x.click(200, row.middle, button=3)
    screen.until(screen.pops, "a menu")
    x.key("Escape")
    screen.until(lambda: not screen.pops(), "no menu")
    screen.until(lambda: x.key("Up") or screen.chosen_at(top), "keys go to the list after the menu")

    # -- zoom --
    x.key("ctrl+plus", "ctrl+plus")
    screen.until(lambda: (now := screen.chosen()) and now.high > top.high + 1, "higher rows")
    screen.until(lambda: screen.remembered("zoom") == 1.2, "the zoom in the file, a second later")
    x.key("ctrl+0")
    screen.until(lambda: screen.chosen_at(top), "rows as before")

    # -- the border between docks is dragged, and is there again at the next start --
    low, goal = high * 3 // 4, border - 80  # below what is looked at: the pointer is on the screen, too
    x.drag(border, low, goal, low, lambda: abs(screen.border(DARK.accent) - goal) <= 3)
    x.point(wide // 2, high - 5)
    moved = screen.until(screen.border, "the border, without the mouse on it")
    assert abs(moved - goal) <= 3
    screen.until(lambda: screen.remembered("open"), "the layout in the file, a second later")
    x.ask_to_close(screen.window)
    assert screen.ended() == 0
    screen.until(lambda: np.array_equal(x.see(), dark) or not x.windows("--name", "Overcrank"), "no window")
    screen.start()
    assert screen.size == (wide, high)
    screen.until(lambda: abs(screen.border() - moved) <= 2, f"a border at {moved}")

    # -- it ends in order when the session does --
    assert screen.process is not None
    screen.process.send_signal(signal.SIGTERM)
    assert screen.ended() == 0


def test_without_a_farm_the_window_opens_all_the_same(screen: Screen) -> None:
    """It says so on a page of its own, and ends like any other."""
    screen.house.broker.stop()
    screen.start()
    seen = screen.x.see()
    screen.x.see_change(seen, "the page that says so")
    screen.until(lambda: len(np.unique(screen.x.see().reshape(-1, 3), axis=0)) > 50, "words")
    process = screen.process
    assert process is not None
    screen.until(lambda: screen.x.key("ctrl+q") or process.poll() is not None, "it takes keys, and ends")
    assert screen.ended() == 0

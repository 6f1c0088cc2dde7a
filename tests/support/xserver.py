"""A real X server without a screen, and hands on it: mouse, keys, and what can be seen.

What belongs here: Xvfb, xdotool, pictures of the screen, the message a window manager closes a window with.
What may not: whose windows they are.

There is no window manager: whatever a window needs it has to get along without one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from tests.support.real import require
from tests.support.waiting import eventually

Picture = npt.NDArray[np.uint8]

#: What Debian calls what is needed here.
PACKAGES: Final = "apt-get install xvfb xdotool"


class XServer:
    """An X server; a context manager.

    Attributes:
        display: Its name, as in ``DISPLAY``.
        wide, high: Of its screen, pixels.
    """

    def __init__(self, folder: Path, wide: int = 1600, high: int = 1000) -> None:
        require(shutil.which("Xvfb"), "Xvfb", PACKAGES)
        require(shutil.which("xdotool"), "xdotool", PACKAGES)
        self.wide, self.high = wide, high
        self.display = ""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        read, write = os.pipe()
        screen = ["-screen", "0", f"{self.wide}x{self.high}x24", "-fbdir", str(self._folder)]
        with (self._folder / "xvfb.log").open("wb") as log:
            # The server takes the first display that is free and says which when it can be used.
            self._process = subprocess.Popen(
                ["Xvfb", "-displayfd", str(write), *screen, "-nolisten", "tcp", "-noreset"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(write,),
            )
        os.close(write)
        with os.fdopen(read, "rb") as told:
            self.display = f":{told.readline().decode().strip()}"
        assert self.display != ":", (self._folder / "xvfb.log").read_text()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """An environment whose programs open their windows here."""
        kept = {key: value for key, value in env.items() if not key.startswith(("QT_", "WAYLAND_"))}
        return kept | {"DISPLAY": self.display}

    # -- hands --

    def do(self, *words: str | int) -> str:
        """Runs xdotool; returns what it says."""
        ran = subprocess.run(
            ["xdotool", *map(str, words)],
            env=self.env(os.environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        return ran.stdout.strip()

    def windows(self, *how: str) -> list[int]:
        """Windows that can be seen: ``windows("--name", "Overcrank")``."""
        return [int(line) for line in self.do("search", "--onlyvisible", *how).split()]

    def point(self, x: int, y: int) -> None:
        """Moves the mouse, and returns when it is there."""
        self.do("mousemove", "--sync", x, y)

    def click(self, x: int, y: int, button: int = 1) -> None:
        """Clicks somewhere."""
        self.point(x, y)
        self.do("click", button)

    def drag(self, x: int, y: int, to_x: int, to_y: int, arrived: Callable[[], object]) -> None:
        """Drags with the left button, over a few places as a hand does.

        Args:
            x, y: From where.
            to_x, to_y: To where.
            arrived: Whether what is dragged is there; the button is held until then, as people do.
        """
        self.point(x, y)
        self.do("mousedown", 1)
        for step in range(1, 9):
            self.point(x + (to_x - x) * step // 8, y + (to_y - y) * step // 8)
        eventually(arrived, f"something dragged to {to_x}, {to_y}")
        self.do("mouseup", 1)

    def key(self, *keys: str) -> None:
        """Presses keys, one after the other: ``ctrl+k``, ``Escape``."""
        self.do("key", *keys)

    def type(self, text: str) -> None:
        """Types."""
        self.do("type", "--delay", 5, text)

    def give_keys(self, window: int) -> None:
        """Gives a window the keyboard, as a window manager would."""
        self.do("windowfocus", "--sync", window)

    def ask_to_close(self, window: int) -> None:
        """Asks a window to close, as the cross in its title does."""
        with _connection(self.display) as (x11, display):
            protocols = x11.XInternAtom(display, b"WM_PROTOCOLS", 0)
            delete = x11.XInternAtom(display, b"WM_DELETE_WINDOW", 0)
            event = _ClientMessage(type=33, window=window, message_type=protocols, format=32)
            event.data[0] = delete
            assert x11.XSendEvent(display, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
            x11.XSync(display, 0)

    # -- eyes --

    def see(self) -> Picture:
        """What is on the screen: rows of pixels of blue, green, red."""
        data = (self._folder / "Xvfb_screen0").read_bytes()
        header = np.frombuffer(data, ">u4", 25)
        start, wide, high, line, colours = (int(header[at]) for at in (0, 4, 5, 12, 19))
        pixels = np.frombuffer(data, np.uint8, line * high, start + colours * 12)
        return pixels.reshape(high, line // 4, 4)[:, :wide, :3].copy()

    def see_change(self, before: Picture, what: str) -> Picture:
        """Waits until what is on the screen is another than before."""

        def look() -> list[Picture]:
            now = self.see()
            return [now] if not np.array_equal(now, before) else []

        return eventually(look, what)[0]


class _ClientMessage(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("room", ctypes.c_long * 12),
    ]


@contextlib.contextmanager
def _connection(display: str) -> Iterator[tuple[Any, ctypes.c_void_p]]:
    x11 = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    x11.XInternAtom.restype = ctypes.c_ulong
    x11.XInternAtom.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    x11.XSendEvent.argtypes = [
        ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_long, ctypes.c_void_p,
    ]  # fmt: skip
    x11.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
    x11.XCloseDisplay.argtypes = [ctypes.c_void_p]
    opened = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    assert opened, f"no X server at {display}"
    try:
        yield x11, opened
    finally:
        x11.XCloseDisplay(opened)

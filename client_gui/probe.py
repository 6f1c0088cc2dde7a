"""Whether a window can be opened here, found out before Qt is asked: Qt ends the process when it cannot.

What belongs here: what has to be there, and how it is told.  What may not: making an application.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from farm.model.errors import CallError

INSTALL: Final = "pip install 'overcrank[gui]'"
#: What Debian and Ubuntu call what Qt needs of the system and does not bring along.
PACKAGES: Final = (
    "apt-get install libegl1 libgl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon0 libxkbcommon-x11-0"
    " libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0"
    " fonts-dejavu"
)
#: Platforms that need no screen.
_UNSEEN: Final = ("offscreen", "minimal", "minimalegl", "vnc", "linuxfb", "eglfs")


def check_window(variables: Mapping[str, str] | None = None) -> None:
    """Passes when a window can be opened here.

    Args:
        variables: The environment; tests pass their own.

    Raises:
        CallError: It cannot; says what is missing and how to get it.
    """
    check_qt()
    if not sys.platform.startswith("linux"):
        return
    environment = os.environ if variables is None else variables
    check_display(environment, plugin_folder(), x_trouble)


def check_qt() -> None:
    """Passes when Qt can be imported.

    Raises:
        CallError: It cannot.
    """
    try:
        import PySide6
        from PySide6 import QtCore, QtGui, QtWidgets  # noqa: F401
    except ModuleNotFoundError as error:
        raise CallError(f"the desktop client needs {error.name or 'PySide6'}", hint=INSTALL) from error
    except ImportError as error:
        # ``libEGL.so.1: cannot open shared object file: No such file or directory``
        what = str(error).partition(":")[0]
        raise CallError(f"Qt cannot be loaded here: {what} is missing", hint=PACKAGES) from error
    known_bad = {"6.10.1", "6.8.0"} | ({"6.12.0"} if sys.version_info < (3, 12) else set())
    if PySide6.__version__ in known_bad:
        raise CallError(
            f"PySide6 {PySide6.__version__} crashes on Python {sys.version_info[0]}.{sys.version_info[1]}",
            hint=f"{INSTALL} brings one that does not",
        )


def plugin_folder() -> Path:
    """Where Qt's platform plug-ins are."""
    from PySide6.QtCore import QLibraryInfo

    return Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)) / "platforms"


def check_display(
    variables: Mapping[str, str], plugins: Path, x_trouble: Callable[[Mapping[str, str]], str]
) -> None:
    """Passes when there is a screen that Qt can open a window on.

    Args:
        variables: The environment.
        plugins: Where Qt's platform plug-ins are.
        x_trouble: Says why the X server cannot be used, "" when it can.

    Raises:
        CallError: There is none; says why.
    """
    wanted = variables.get("QT_QPA_PLATFORM", "").partition(":")[0].partition(";")[0]
    if wanted in _UNSEEN:
        return
    if wanted and not (plugins / f"libq{wanted}.so").exists():
        have = ", ".join(sorted(path.stem.removeprefix("libq") for path in plugins.glob("libq*.so")))
        raise CallError(f"QT_QPA_PLATFORM={wanted} is no platform of Qt here", hint=f"there are {have}")
    if wanted in ("", "wayland") and _wayland_there(variables) and not _plugin_trouble(plugins, "wayland"):
        return
    if wanted == "wayland":
        missing = _plugin_trouble(plugins, "wayland")
        raise CallError(
            f"QT_QPA_PLATFORM=wayland: {missing or 'there is no Wayland session here'}",
            hint=PACKAGES if missing else "unset QT_QPA_PLATFORM",
        )
    if not variables.get("DISPLAY"):
        raise CallError(
            "there is no display here: neither DISPLAY nor WAYLAND_DISPLAY leads to one",
            hint="log in at the machine, or use `ssh -X`; `farm jobs --watch` needs no window",
        )
    if missing := _plugin_trouble(plugins, "xcb"):
        raise CallError(f"Qt cannot open windows here: {missing}", hint=PACKAGES)
    if trouble := x_trouble(variables):
        raise CallError(
            f"the display {variables['DISPLAY']} cannot be used: {trouble}",
            hint="check DISPLAY and XAUTHORITY",
        )


def _wayland_there(variables: Mapping[str, str]) -> bool:
    name = variables.get("WAYLAND_DISPLAY", "")
    if not name:
        return False
    path = Path(name)
    if not path.is_absolute():
        path = Path(variables.get("XDG_RUNTIME_DIR", "/nowhere")) / name
    return path.exists()


def _plugin_trouble(plugins: Path, name: str) -> str:
    """Why a plug-in cannot be loaded: the library it lacks; "" when it can."""
    path = plugins / f"libq{name}.so"
    if not path.exists():
        return f"Qt has no plug-in {name}"
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        return f"{str(error).partition(':')[0]} is missing"
    return ""


def x_trouble(variables: Mapping[str, str]) -> str:
    """Why the X server cannot be used, "" when it can; asks it."""
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError:
        return ""  # what Qt brings may do; it is not for us to say no
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_connection_has_error.restype = ctypes.c_int
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(os.fsencode(variables["DISPLAY"]), None)
    try:
        failed = xcb.xcb_connection_has_error(connection)
    finally:
        xcb.xcb_disconnect(connection)
    return "no X server answers there, or it does not let us in" if failed else ""

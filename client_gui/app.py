"""Starting the desktop client: its options, and whether a window can be opened here at all.

What belongs here: what can be told before Qt is loaded.  What may not: Qt (``shell.program`` has the rest).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from client_gui.probe import check_window
from farm.model.errors import NotBuiltYet


@dataclass(frozen=True, slots=True)
class Options:
    """How the client is started.

    Attributes:
        farm: Name of the farm; None = the one this user talks to as a rule.
        safe: Pass over the layout that was remembered.
        look: A name of ``style.theme.CHOICES`` for this run; "" = as was chosen before.
        job: Number of a job to open, 0 for none.
        submit: A file to fill the submit dock with, None for none.
        new: Open a client of its own, also when one runs already.
        screenshot: A folder to put pictures of the windows in; the client ends then.
        scenario: With ``screenshot``: the scenario whose farm the pictures show.
    """

    farm: str | None = None
    safe: bool = False
    look: str = ""
    job: int = 0
    submit: Path | None = None
    new: bool = False
    screenshot: Path | None = None
    scenario: Path | None = None


def run(options: Options) -> int:
    """Opens the client and returns its exit code when it has ended.

    Raises:
        CallError: No window can be opened here; says what is missing.
    """
    if options.screenshot is not None:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"  # pictures need no screen
    check_window()
    if options.screenshot is None:
        code: int = import_module("client_gui.shell.program").run(options)
        return code
    try:
        screens = import_module("client_gui.screens")
    except ModuleNotFoundError as error:
        raise NotBuiltYet("`farm gui --screenshot` is not built yet") from error
    taken: int = screens.take(options)
    return taken

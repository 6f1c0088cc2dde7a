"""A command as somebody types it into the Submit dock, run by a real agent.

What belongs here: that what is typed is what runs.  What may not: how the dock looks (``tests/gui``).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest.importorskip("PySide6.QtWidgets", reason="pip install 'overcrank[gui]', and apt-get install libegl1")

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui.store.draft import Draft
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.form import Form
from farm.renderers.registry import renderers
from tests.support.farmhouse import Farmhouse

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="types a command for a shell")


def test_a_command_typed_on_one_line_renders_its_frames(
    house: Farmhouse, qapp: QApplication, qtbot: QtBot, tmp_path: Path
) -> None:
    document = {"overcrank_job": 1, "name": "typed", "steps": []}
    draft = Draft("d", document)
    draft.add_step(renderers()["command"], frames="1-2")
    draft.put(("steps", 0, "outputs"), [{"pattern": f"{tmp_path}/out/a.####.txt"}])
    form = Form(draft, renderers(), Theme("dark"))
    qtbot.addWidget(form)
    form.show()
    assert form.go(("steps", 0, "params", "command"))
    (box,) = form.rows["steps", 0, "params", "command"].editor.inputs()
    qtbot.keyClicks(box, 'sh -c \'echo "hi $1" > "$2"\' sh {frame} {output}')
    assert draft.problems(renderers()) == []
    number = house.admin.submit(draft.as_json()).job
    house.wait_job(number, "done")
    assert [(tmp_path / f"out/a.{n:04}.txt").read_text() for n in (1, 2)] == ["hi 1\n", "hi 2\n"]

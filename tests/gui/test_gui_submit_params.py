"""The editors of the Submit dock: every parameter of every renderer, as it went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from overcrank_povray import RENDERER as POVRAY
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot

from client_gui.store.fields import UNSET, fields_of_renderer
from client_gui.views.submit_parts.command_editor import CommandEditor
from client_gui.views.submit_parts.list_editors import EDITORS
from client_gui.views.submit_parts.text_editors import JsonEditor, TableEditor, TextsEditor
from tests.support.gui_rig import Rig
from tests.support.gui_submit import ALL, Dock

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


# -- what Blender says of a scene ------------------------------------------------------------------------


def test_figures_go_up_and_down_by_key_within_their_limits(dock: Dock) -> None:
    dock.begin("command")
    dock.tab_to("Priority")
    dock.press(Qt.Key.Key_Up)
    assert dock.draft().value(("priority",)) == 51
    dock.fill("Priority", "100")
    dock.press(Qt.Key.Key_Up)
    assert dock.draft().value(("priority",)) == 100
    dock.fill("Priority", "50")
    assert dock.draft().value(("priority",)) is UNSET, "the default is left out of the job"


# -- every parameter -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_parameter_has_an_editor_that_shows_and_gives_its_values(
    rig: Rig, qtbot: QtBot, name: str
) -> None:
    values: dict[str, list[Any]] = {
        "bool": [True, False],
        "int": [3, "three"],
        "float": [0.5, "half"],
        "mib": [8192, "lots"],
        "text": ["a b", ""],
        "path": ["/a b/c.blend"],
        "frames": ["1-9", "1-"],
        "texts": [["a b", "c"], ["", "x"]],
        "command": [["bash", "-c", "echo hi"], ["a\nb", "it's"]],
        "table": [{"a": "b"}, {}],
        "input": ["/in/a.####.png", {"step": "x", "output": 0}],
    }
    for field in fields_of_renderer(ALL[name]):
        editor = EDITORS[field.kind](field, rig.theme)
        qtbot.addWidget(editor)
        editor.name_inputs(field.label)
        inputs = editor.inputs()
        assert inputs, f"{field.key} cannot be reached by keyboard"
        assert all(one.accessibleName() for one in inputs), field.key
        told: list[Any] = []
        editor.edited.connect(told.append)
        for value in [*values.get(field.kind, []), *field.choices, UNSET]:
            editor.show_value(value)
        assert told == [], "showing is not editing"
        first = inputs[0]
        if isinstance(first, QCheckBox):
            qtbot.keyClick(first, Qt.Key.Key_Space)
            assert told == [not field.default]
        elif isinstance(first, QComboBox) and field.choices:
            qtbot.keyClick(first, Qt.Key.Key_End)
            assert told == [field.choices[-1]]
        elif isinstance(first, (QLineEdit, QPlainTextEdit)):
            qtbot.keyClicks(first, "7")
            assert told, field.key


def test_a_renderer_of_another_package_has_a_form_as_good_as_ours(
    rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("farm.renderers.registry._third_parties", lambda: ({"povray": POVRAY}, {}))
    dock = Dock(rig, qtbot)
    scene = tmp_path / "ball.pov"
    scene.write_text("x")
    dock.open(scene)
    dock.fill("Frames", "1-4")
    dock.fill("Output 1", f"{tmp_path}/ball.####.png")
    dock.fill("Antialias", "9")
    dock.fill("Declare", "speed = 2")
    dock.until(lambda: "from 0 to 3" in dock.standing)
    dock.fill("Antialias", "0.5")
    dock.until(lambda: dock.ready)
    assert dock.draft().steps[0]["params"] == {
        "scene": str(scene),
        "antialias": 0.5,
        "declare": {"speed": 2.0},
    }
    dock.close()


_TEXT = st.text(max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(texts=st.lists(_TEXT, max_size=4), table=st.dictionaries(_TEXT, _TEXT | st.integers(), max_size=4))
def test_lists_and_tables_come_out_of_their_editors_as_they_went_in(
    qapp: QApplication, rig: Rig, texts: list[str], table: dict[str, Any]
) -> None:
    lists = next(one for one in fields_of_renderer(ALL["blender"]) if one.key == "view_layers")
    commands = next(one for one in fields_of_renderer(ALL["command"]) if one.key == "command")
    tables = next(one for one in fields_of_renderer(ALL["blender"]) if one.key == "parameters")
    for field, kind, value in (
        (lists, TextsEditor, texts),
        (commands, CommandEditor, texts),
        (tables, TableEditor, table),
        (tables, JsonEditor, table),
    ):
        editor = kind(field, rig.theme)
        if value:
            assert editor.read(editor.write(value)) == value
        editor.deleteLater()

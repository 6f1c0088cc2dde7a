"""The Submit dock by keyboard alone, and in the real order of use."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QMenu, QPlainTextEdit, QToolButton
from pytestqt.qtbot import QtBot

from client_gui.store.draft import Problem
from client_gui.store.fields import UNSET
from client_gui.views.jobs import JobsView
from client_gui.views.submit_parts.form import Form
from client_gui.views.submit_parts.judge import Verdict
from client_gui.views.submit_parts.wordchips import WordChips
from farm.protocol.client import SubmitReq
from tests.support.gui_rig import Rig, job_row
from tests.support.gui_submit import ALL, Dock, command_file, sent, taken

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


# -- by keyboard -----------------------------------------------------------------------------------------


def test_a_command_is_submitted_by_keyboard_alone(dock: Dock, rig: Rig) -> None:
    rig.port.answers[SubmitReq] = taken()
    dock.begin("command")
    dock.fill("Name", "sim")
    dock.fill("Command", "/bin/echo\na b\n{frame}")
    dock.fill("Frames", "1-10x3")
    assert "4 frames" in dock.words()
    dock.until(lambda: dock.ready)
    assert dock.standing.startswith("✓")
    dock.until(lambda: "1 m 00 s to 2 m 05 s" in dock.words())
    dock.send()
    dock.until(lambda: rig.port.asked(SubmitReq) and not dock.view.tabs.count())
    (job,) = sent(rig)
    assert job["name"] == "sim"
    assert job["token"]
    assert job["steps"][0]["params"]["command"] == ["/bin/echo", "a b", "{frame}"]
    assert job["steps"][0]["frames"] == "1-10x3"
    assert (rig.focus.job, dock.wanted) == (12, ["job"])
    assert [n.text for n in rig.notices.activity.find()] == ["J12 is in the queue: sim"]


def test_a_blender_scene_is_submitted_by_keyboard_alone(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    rig.port.answers[SubmitReq] = taken()
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    assert "opened only by Blender" in dock.words(), "nothing of the scene is invented"
    dock.until(lambda: dock.standing.startswith("○ still to fill in"))
    assert set(dock.standing.partition(": ")[2].split(", ")) == {"Frames", "Output"}
    dock.fill("Frames", "1-4")
    dock.fill("Output 1", f"{tmp_path}/out/")
    dock.press(Qt.Key.Key_Tab)
    dock.fill("Samples", "64")
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: rig.port.asked(SubmitReq))
    (step,) = sent(rig)[0]["steps"]
    assert step["params"] == {"scene": str(scene), "samples": 64}
    assert step["outputs"] == [{"pattern": f"{tmp_path}/out/render.####.png"}]


def _chips(dock: Dock) -> tuple[str, ...]:
    found = next(one for one in dock.view.findChildren(WordChips) if one.isVisible())
    return found.shown


def test_a_command_is_typed_as_in_a_terminal(dock: Dock, rig: Rig) -> None:
    rig.port.answers[SubmitReq] = taken()
    dock.begin("command")
    dock.fill("Name", "hi")
    dock.fill("Command", "bash -c 'echo hi'")
    assert _chips(dock) == ("1 bash", "2 -c", "3 echo hi")
    assert "3 arguments with the program: cut at blanks, as in a terminal" in dock.words()
    dock.fill("Frames", "1-2")
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: rig.port.asked(SubmitReq))
    (job,) = sent(rig)
    assert job["steps"][0]["params"]["command"] == ["bash", "-c", "echo hi"]


def test_what_only_a_shell_understands_is_said_as_soon_as_it_is_typed(dock: Dock) -> None:
    dock.begin("command")
    dock.fill("Command", "echo $HOME > out.txt")
    assert "no shell: $HOME > is passed on as it stands" in dock.words()
    dock.fill("Command", "bash -c 'echo $HOME > out.txt'")
    assert "no shell" not in dock.words()
    dock.fill("Command", "echo 'half")
    dock.until(lambda: "a quote is not closed" in dock.beside("steps.0.params.command"))
    dock.type("'")
    assert "a quote" not in dock.beside("steps.0.params.command")
    assert _chips(dock) == ("1 echo", "2 half")


def test_a_long_command_is_seen_whole(dock: Dock) -> None:
    dock.begin("command")
    dock.tab_to("Command")
    box = dock.has_keys()
    assert isinstance(box, QPlainTextEdit)
    low = box.height()
    dock.type("bash -c " + "/a/very/long/path/of/a/show " * 8)
    dock.until(lambda: box.height() > 2 * low)
    assert box.verticalScrollBar().maximum() == 0
    assert box.horizontalScrollBar().maximum() == 0


def test_programs_that_cannot_be_meant_are_warned_of(dock: Dock, tmp_path: Path) -> None:
    path = command_file(tmp_path / "job.json")
    document = json.loads(path.read_text())
    document["steps"][0]["params"]["command"] = ["bash -c 'echo hi {frame}'"]
    document["steps"][0]["pre"] = [f"{tmp_path}/none", "|", "x"]
    path.write_text(json.dumps(document))
    dock.open(path)
    dock.until(lambda: "blanks and all: type the command on one line" in dock.words())
    assert "! Command of step 1 make: the program is" in dock.words()
    assert f"Before a chunk of step 1 make: there is no {tmp_path}/none on this machine" in dock.words()
    assert "Before a chunk of step 1 make: no shell: | is passed on as it stands" in dock.words()


def test_frames_that_are_listed_twice_are_said_so(dock: Dock) -> None:
    dock.begin("command")
    dock.fill("Frames", "1001-1120,1100-1080")
    assert "141 listed, 120 different" in dock.words()
    dock.fill("Frames", "1120-1001")
    assert "120 frames" in dock.words()


def test_new_opens_where_it_is_pressed_and_its_letters_choose(dock: Dock) -> None:
    dock.view.page.new.setFocus()
    dock.press(Qt.Key.Key_Space)
    menu = next(one for one in dock.view.findChildren(QMenu) if one.isVisible())
    assert menu.y() >= dock.view.page.new.mapToGlobal(dock.view.page.new.rect().bottomLeft()).y()
    titles = [one.text().partition("\t") for one in menu.actions()]
    assert [title.replace("&", "") for title, _, _ in titles] == [
        *("Blender", "Mitsuba", "ffmpeg", "Movie", "Command")
    ]
    assert all(what for _, _, what in titles), "each says what it does"
    dock.bot.keyClick(menu, Qt.Key.Key_C)
    dock.until(lambda: dock.view.form() is not None)
    assert dock.draft().steps[0]["renderer"] == "command"
    words = [box.itemText(at) for box in dock.view.findChildren(QComboBox) for at in range(box.count())]
    assert "per frame" in words
    assert "Per frame: each frame is rendered" in dock.words()


# -- in the real order of use ----------------------------------------------------------------------------


@pytest.mark.parametrize("renderer", ["blender", "command", "ffmpeg", "mitsuba", "stitch"])
def test_ctrl_j_then_typing_changes_the_very_field_that_is_wrong(dock: Dock, renderer: str) -> None:
    dock.begin(renderer)
    draft, form = dock.draft(), dock.view.form()
    assert form is not None
    for path, field in list(draft.fields(ALL)):
        if field.kind in ("bool", "choice", "flags", "after"):
            continue
        before = json.dumps(draft.document)
        dock.view._trial.verdict = Verdict(draft.id, draft.revision, problems=(Problem(path, "wrong"),))
        dock.view._at_problem = -1
        dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
        dock.bot.keyClicks(dock.has_keys(), "7")
        assert draft.value(path) is not UNSET, f"typing was lost: {path}"
        changed = json.dumps(draft.document)
        assert changed != before, path
        draft.put(path, UNSET)
        form.rows[path].show_draft(draft)
        if path[-1] in ("name", "outputs"):
            continue
        assert json.dumps(draft.document) == before, f"something else was changed than {path}"


def test_the_second_output_is_gone_to_when_it_is_the_one_without_a_place(dock: Dock, tmp_path: Path) -> None:
    path = command_file(tmp_path / "job.json")
    document = json.loads(path.read_text())
    document["steps"][0]["outputs"] = [{"pattern": f"{tmp_path}/a.####.png"}, {"pattern": ""}]
    path.write_text(json.dumps(document))
    dock.open(path)
    dock.until(lambda: "where to?" in dock.beside("steps.0.outputs"))
    dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert dock.has_keys().accessibleName() == "Output 2"
    dock.type(f"{tmp_path}/b.####.png")
    assert dock.draft().steps[0]["outputs"][1]["pattern"] == f"{tmp_path}/b.####.png"


def test_tab_goes_down_the_form_also_when_parts_of_it_came_later(dock: Dock, rig: Rig) -> None:
    dock.begin("command")
    form = dock.view.form()
    assert form is not None
    next(fold for fold, _, group in form._folds if group.title == "Machines").open()
    form.add_step("ffmpeg")
    inside = form.widget()
    assert inside is not None
    form.focus_first()
    tops: list[int] = []
    for _ in range(80):
        keys = dock.has_keys()
        if not form.isAncestorOf(keys):
            break
        tops.append(keys.mapTo(inside, keys.rect().center()).y())
        dock.press(Qt.Key.Key_Tab)
    assert len(tops) > 30
    # A button beside a box of several lines may stand a little higher than it.
    assert all(below > above - rig.theme.em(2) for above, below in pairwise(tops)), tops


def test_an_output_keeps_the_keys_when_it_is_emptied_and_typed_anew(dock: Dock, tmp_path: Path) -> None:
    dock.begin("stitch")
    dock.fill("Output 1", f"{tmp_path}/a.mp4")
    dock.press(Qt.Key.Key_Tab)
    dock.press(Qt.Key.Key_Backtab)
    dock.press(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    dock.press(Qt.Key.Key_Delete)
    dock.type("/b.mp4")
    assert dock.draft().steps[0]["outputs"][0]["pattern"] == "/b.mp4"


def test_a_new_job_is_the_one_keys_act_on_as_soon_as_the_list_has_it(
    dock: Dock, rig: Rig, qtbot: QtBot, tmp_path: Path
) -> None:
    jobs = JobsView(rig.desk)
    qtbot.addWidget(jobs)
    jobs.show()
    rig.snapshot(jobs=(job_row(1, name="old"), job_row(2, name="older")))
    jobs.table.go_to(1)
    rig.port.answers[SubmitReq] = taken()
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.view.footer.submit.click()
    dock.until(lambda: rig.focus.job == 12)
    assert jobs.action_context().jobs == (1,), "it is not in the list yet"
    rig.delta(jobs=(job_row(12, name="made"),))
    dock.until(lambda: jobs.action_context().jobs == (12,))
    jobs.bar.set_text("name:older")
    rig.port.answers[SubmitReq] = taken(13)
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.view.footer.submit.click()
    dock.until(lambda: rig.focus.job == 13)
    rig.delta(jobs=(job_row(13, name="made"),))
    dock.until(
        lambda: "J13 is hidden by the filter of the job list" in str(list(rig.notices.activity.find()))
    )
    jobs.close()


@pytest.mark.parametrize("renderer", ["blender", "command", "ffmpeg", "mitsuba", "stitch"])
def test_nothing_is_cut_off_in_a_narrow_dock(dock: Dock, renderer: str) -> None:
    dock.begin(renderer)
    form = dock.view.form()
    assert form is not None
    for fold, _, _ in form._folds:
        fold.open()
    assert dock.view.width() == 560
    dock.until(lambda: not _cut(form))


def _cut(form: Form) -> list[str]:
    """What cannot be seen whole in a form."""
    room, found = form.viewport().width(), []
    if form.horizontalScrollBar().maximum() > 0:
        found.append("the form is wider than its dock")
    for row in form.rows.values():
        for widget in (row.label, *row.editor.inputs()):
            if not widget.isVisible():
                continue
            if widget.mapTo(form.viewport(), widget.rect().topRight()).x() >= room:
                found.append(f"{row.path}: beyond the edge")
            if isinstance(widget, (QComboBox, QCheckBox, QToolButton)):
                if widget.width() < widget.minimumSizeHint().width():
                    found.append(f"{row.path}: {widget.accessibleName()} is too narrow")
            elif isinstance(widget, QPlainTextEdit) and widget.verticalScrollBar().maximum() > 0:
                found.append(f"{row.path}: {widget.accessibleName()} is too low")
        found += [
            f"{row.path}: {label.text()} is cut"
            for label in (row.label, row.help, row.wrong)
            if label.isVisible() and label.height() < label.heightForWidth(label.width())
        ]
    return found

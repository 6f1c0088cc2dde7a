"""The Submit dock: by keyboard alone, without the farm, with what is wrong, and for every parameter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from overcrank_povray import RENDERER as POVRAY
from PySide6.QtCore import QMimeData, QPointF, QProcess, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from client_gui.net.port import Standing
from client_gui.store.activity import Level
from client_gui.store.draft import Draft, Problem
from client_gui.store.farmstore import Link
from client_gui.store.fields import UNSET, fields_of_renderer
from client_gui.views.jobs import JobsView
from client_gui.views.submit import SubmitView
from client_gui.views.submit_parts.command_editor import CommandEditor
from client_gui.views.submit_parts.form import Form
from client_gui.views.submit_parts.judge import Verdict
from client_gui.views.submit_parts.list_editors import EDITORS
from client_gui.views.submit_parts.outbox import Outbox
from client_gui.views.submit_parts.sceneread import find_blender
from client_gui.views.submit_parts.text_editors import JsonEditor, TableEditor, TextsEditor
from client_gui.views.submit_parts.wordchips import WordChips
from farm.model.errors import CallError, FarmUnreachable, JobFileError
from farm.protocol.client import EstimateReply, EstimateReq, JobReply, JobReq, SubmitReply, SubmitReq
from farm.renderers.registry import renderers
from tests.support.gui_rig import Rig, job_row
from tests.support.run_invocation import need_real

ALL = {**renderers(), "povray": POVRAY}
#: A menu without a screen.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)


def known(request: EstimateReq) -> EstimateReply:
    return EstimateReply(
        id=request.id,
        frames=10,
        low_s=60.0,
        high_s=125.0,
        cost_low_nano=1_200_000_000,
        cost_high_nano=2_000_000_000,
    )


class Dock:
    """The view, and what a person does with it."""

    def __init__(self, rig: Rig, qtbot: QtBot) -> None:
        self.rig, self.bot = rig, qtbot
        self.wanted: list[str] = []
        rig.focus.wanted.connect(self.wanted.append)
        rig.port.answers.setdefault(EstimateReq, known)
        self.view = SubmitView(rig.desk)
        self.view.resize(560, 800)
        self.view.show()
        self.view.activateWindow()
        qtbot.waitExposed(self.view)
        self.until(lambda: self.view.bar.new.isEnabled() and self.view.outbox.loaded)

    def until(self, true: Callable[[], object]) -> None:
        def settled() -> bool:
            self.rig.settle()
            return bool(true())

        self.bot.waitUntil(settled, timeout=10_000)

    def close(self) -> None:
        self.view.outbox.end()
        self.view._tasks.end()
        self.view._scenes.reader.end()
        self.view.close()
        self.view.deleteLater()

    # -- by keyboard --

    def has_keys(self) -> QWidget:
        if QApplication.focusWidget() is None:  # a menu has closed: without a desktop nobody gives them back
            self.view.activateWindow()
            self.bot.waitUntil(lambda: QApplication.focusWidget() is not None)
        found = QApplication.focusWidget()
        assert found is not None
        return found

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        self.bot.keyClick(self.has_keys(), key, modifier)

    def type(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self.press(Qt.Key.Key_Return)
            else:
                self.bot.keyClicks(self.has_keys(), char)

    def tab_to(self, name: str) -> None:
        seen = []
        for _ in range(120):
            now = self.has_keys()
            if now.accessibleName() == name:
                return
            seen.append(now.accessibleName() or type(now).__name__)
            self.press(Qt.Key.Key_Tab)
        raise AssertionError(f"Tab never comes to {name!r}: {seen}")

    def begin(self, renderer: str) -> None:
        self.view.bar.new.setFocus()
        self.press(Qt.Key.Key_Space)
        menu = next(one for one in self.view.findChildren(QMenu) if one.isVisible())
        for _ in range(20):
            active = menu.activeAction()
            if active is not None and active.data() == renderer:
                break
            self.bot.keyClick(menu, Qt.Key.Key_Down)
        self.bot.keyClick(menu, Qt.Key.Key_Return)
        self.until(lambda: self.view.form() is not None)

    def fill(self, name: str, text: str) -> None:
        self.tab_to(name)
        self.press(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        self.type(text)

    def send(self) -> None:
        self.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)

    # -- what is seen --

    @property
    def standing(self) -> str:
        return self.view.footer.standing.text()

    @property
    def ready(self) -> bool:
        return self.view.footer.submit.isEnabled() and self.view._trial.ready

    def draft(self) -> Draft:
        found = self.view.draft()
        assert found is not None
        return found

    def open(self, *paths: Path) -> None:
        before = self.view.tabs.count()
        self.view.open_paths([str(path) for path in paths])
        self.until(lambda: self.view.tabs.count() > before)

    def beside(self, path: str) -> str:
        """What is said below a field."""
        form = self.view.form()
        assert form is not None
        row = next(row for place, row in form.rows.items() if ".".join(map(str, place)) == path)
        return row.wrong.text() if row.wrong.isVisibleTo(form) else ""

    def words(self) -> str:
        return "\n".join(label.text() for label in self.view.findChildren(QLabel) if label.isVisible())


@pytest.fixture
def dock(rig: Rig, qtbot: QtBot) -> Iterator[Dock]:
    made = Dock(rig, qtbot)
    yield made
    made.close()


def taken(job: int = 12, **more: Any) -> Callable[[SubmitReq], SubmitReply]:
    return lambda request: SubmitReply(id=request.id, job=job, **more)


def sent(rig: Rig) -> list[dict[str, Any]]:
    return [json.loads(request.job) for request in rig.port.asked(SubmitReq)]


def command_file(path: Path, **fields: Any) -> Path:
    step = {
        "name": "make",
        "renderer": "command",
        "frames": "1-10",
        "params": {"command": ["/bin/echo", "{frame}"]},
    }
    path.write_text(json.dumps({"overcrank_job": 1, "name": "made", "steps": [step], **fields}))
    return path


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


# -- what Blender says of a scene ------------------------------------------------------------------------


def _fake_blender(path: Path, prints: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{prints}\n")
    path.chmod(0o755)
    return path


posix = pytest.mark.skipif(sys.platform == "win32", reason="programs are scripts here")


@posix
def test_reading_a_scene_fills_only_what_is_empty(dock: Dock, tmp_path: Path) -> None:
    facts = {
        "scene": "Shot",
        "start": 5,
        "end": 25,
        "step": 5,
        "engine": "CYCLES",
        "camera": "CamA",
        "cameras": ["CamA", "CamB"],
        "layers": ["fg", "bg"],
        "output": {"path": "//r/", "kind": "sequence", "pattern": "/show/r/####.exr"},
    }
    dock.view._scenes.program = str(
        _fake_blender(tmp_path / "blender", f"print('FARM ' + {json.dumps(facts)!r})")
    )
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    dock.fill("Frames", "1-2")
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "Filled in: Output" in dock.words())
    step = dock.draft().steps[0]
    assert step["frames"] == "1-2", "what was typed stays"
    assert step["outputs"] == [{"pattern": "/show/r/####.exr"}]
    assert "camera CamA (of CamA, CamB), view layers fg, bg" in dock.words()
    form = dock.view.form()
    assert form is not None
    engine = form.rows["steps", 0, "params", "engine"].findChild(QLineEdit)
    assert engine is not None
    assert (engine.text(), engine.placeholderText()) == ("", "CYCLES"), "the scene's own stays the scene's"


@posix
def test_reading_a_scene_can_be_stopped_ends_in_time_and_says_what_failed(dock: Dock, tmp_path: Path) -> None:
    scenes = dock.view._scenes
    scenes.program = str(_fake_blender(tmp_path / "blender", "import time; time.sleep(600)"))
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    assert "Blender reads shot.blend…" in dock.words()
    dock.press(Qt.Key.Key_Space)
    assert "Blender reads" not in dock.words()
    dock.until(lambda: not scenes.reader.findChildren(QProcess))
    dock.press(Qt.Key.Key_Space)
    scenes.reader._late.timeout.emit()  # its time has come
    dock.until(lambda: "took longer than" in dock.words())
    scenes.program = str(tmp_path / "none")
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "Blender cannot be started" in dock.words())
    scenes.program = str(_fake_blender(tmp_path / "blender", "print('no answer')"))
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: "ended without a word about the scene" in dock.words())
    dock.until(lambda: not scenes.reader.findChildren(QProcess))


def test_without_blender_here_nothing_is_offered(
    rig: Rig, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("client_gui.views.submit_parts.scenedesk.find_blender", lambda: "")
    dock = Dock(rig, qtbot)
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    assert not [one for one in dock.view.findChildren(QToolButton) if one.text() == "Read from Blender"]
    dock.close()


@pytest.mark.real
def test_a_real_blender_reads_a_real_scene(dock: Dock, tmp_path: Path) -> None:
    program = find_blender()
    need_real(bool(program), "Blender: apt install blender")
    scene = tmp_path / "shot é.blend"
    made = tmp_path / "make.py"
    program_in_scene = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    made.write_text(
        "import bpy\n"
        "s = bpy.context.scene\n"
        "s.frame_start, s.frame_end, s.frame_step = 1001, 1101, 5\n"
        "s.render.filepath = '//out/sh010_'\n"
        "s.render.resolution_percentage = 50\n"
        "text = bpy.data.texts.new('boom.py')\n"
        f"text.write({program_in_scene!r})\n"
        "text.use_module = True\n"
        f"bpy.ops.wm.save_as_mainfile(filepath={str(scene)!r})\n"
    )
    subprocess.run(
        [program, "--background", "--factory-startup", "--python", str(made)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
    )
    dock.until(lambda: dock.view._scenes.program)
    dock.open(scene)
    dock.tab_to("Read from Blender")
    dock.press(Qt.Key.Key_Space)
    dock.bot.waitUntil(lambda: "Filled in: Frames, Output" in dock.words(), timeout=120_000)
    step = dock.draft().steps[0]
    assert step["frames"] == "1001-1101x5"
    assert step["outputs"] == [{"pattern": f"{tmp_path}/out/sh010_####.png"}]
    assert "1920 x 1080 at 50 %" in dock.words()
    assert not (tmp_path / "ran").exists(), "Python that is saved in the scene is not run"
    dock.until(lambda: dock.ready)


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


# -- what is wrong ---------------------------------------------------------------------------------------


def test_every_wrong_value_is_named_beside_its_field_and_nothing_is_sent(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    dock.open(command_file(tmp_path / "job.json", priority=200, scout="few"))
    dock.until(lambda: dock.standing.startswith("✕ Priority: "))
    assert dock.beside("priority") == "✕ needs a whole number from 0 to 100, not 200"
    assert dock.beside("scout").endswith("not 'few'")
    assert "and 1 more" in dock.standing
    dock.send()
    assert dock.has_keys().accessibleName() == "Priority", "it goes to what is wrong"
    assert dock.has_keys().accessibleDescription() == "needs a whole number from 0 to 100, not 200"
    dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert dock.has_keys().accessibleName() == "Scout frames"
    assert rig.port.asked(SubmitReq) == []
    assert rig.port.asked(EstimateReq) == []
    dock.fill("Scout frames", "3")
    dock.view.next_problem()
    dock.fill("Priority", "60")
    dock.until(lambda: dock.ready)
    assert dock.beside("priority") == ""


def test_what_is_wrong_in_a_closed_part_of_the_form_can_be_reached(dock: Dock, tmp_path: Path) -> None:
    path = command_file(tmp_path / "job.json")
    document = json.loads(path.read_text())
    document["steps"] += [
        {"name": f"s{n}", "renderer": "command", "kind": "single", "params": {"command": ["/bin/true"]}}
        for n in range(3)
    ]
    document["steps"][2]["resources"] = {"cores": 0}
    path.write_text(json.dumps(document))
    dock.open(path)
    dock.until(lambda: "at least one core" in dock.standing)
    assert dock.standing.startswith("✕ Cores of step 3 s1: ")
    dock.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert dock.has_keys().accessibleName() == "Cores"
    dock.type("1")
    dock.until(lambda: "Cores of step 3" not in dock.standing)


def test_a_refusal_of_the_farm_stands_beside_the_field_it_names(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def refuse(_request: SubmitReq) -> SubmitReply:
        raise CallError("steps[0].limits: there is no limit 'nuke'", hint="the policy names maya")

    rig.port.answers[SubmitReq] = refuse
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: "no limit 'nuke'" in dock.standing)
    assert dock.has_keys().accessibleName() == "Limits"
    assert dock.beside("steps.0.limits") == "✕ there is no limit 'nuke' (the policy names maya)"
    assert dock.draft().editable
    assert [n.level for n in rig.notices.activity.find()] == [Level.ERROR]


def test_what_no_node_can_take_is_sent_only_with_a_tick(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def impossible(request: SubmitReq) -> SubmitReply:
        if request.force:
            return SubmitReply(id=request.id, job=3, warnings=("it waits",))
        raise JobFileError("no node has it", "steps[0]", hint="`--force` submits it all the same")

    rig.port.answers[SubmitReq] = impossible
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    assert not dock.view.footer.force.isVisible()
    dock.send()
    dock.until(lambda: dock.view.footer.force.isVisible())
    assert not dock.view.footer.submit.isEnabled()
    dock.press(Qt.Key.Key_Space)
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: rig.focus.job == 3)
    assert [request.force for request in rig.port.asked(SubmitReq)] == [False, True]
    assert "J3: it waits" in [n.text for n in rig.notices.activity.find()]


def test_who_may_not_submit_is_told_so(qapp: QApplication, qtbot: QtBot, tmp_path: Path) -> None:
    rig = Rig(role="agent")
    dock = Dock(rig, qtbot)
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: "the key of an agent only renders" in dock.standing)
    assert not dock.view.footer.submit.isEnabled()
    dock.close()
    rig.close()


# -- the estimate ----------------------------------------------------------------------------------------


def test_an_estimate_is_of_the_job_as_it_is_now_and_outdated_ones_are_given_up(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    del rig.port.answers[EstimateReq]
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: rig.port.asked(EstimateReq))
    assert "asking what it would take" in dock.words()
    (first,) = rig.port.asked(EstimateReq)
    rig.port.answers[EstimateReq] = known
    dock.fill("Frames", "1-20")
    dock.until(lambda: len(rig.port.asked(EstimateReq)) == 2)
    assert rig.canceled() == [first.id]
    dock.until(lambda: "1.20 USD to 2.00 USD" in dock.words())
    assert json.loads(rig.port.asked(EstimateReq)[1].job)["steps"][0]["frames"] == "1-20"


def test_where_nothing_is_known_scout_frames_are_advised(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    rig.port.answers[EstimateReq] = lambda request: EstimateReply(
        id=request.id, frames=10, unknown=("make",), warnings=("steps[0]: slow",)
    )
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: "Nothing is known of steps like these" in dock.words())
    assert "scout frames" in dock.words()
    assert "! Step 1 make: slow" in dock.words(), "places are called as in the form"


# -- without the farm ------------------------------------------------------------------------------------


def offline(rig: Rig) -> None:
    rig.give(Standing(Link.LOST, "nobody answers"))


def test_a_job_waits_for_the_farm_and_is_sent_once_when_it_is_back(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    offline(rig)
    rig.port.answers[SubmitReq] = taken()
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    assert dock.view.footer.submit.text() == "Submit when farm-A is back"
    dock.send()
    assert "waits: sent as soon as farm-A is back" in dock.words()
    assert dock.view.tabs.accessibleTabName(0) == "made, waits for the farm"
    assert rig.port.asked(SubmitReq) == []
    rig.give(Standing(Link.LIVE))
    dock.until(lambda: rig.focus.job == 12)
    rig.give(Standing(Link.LOST), Standing(Link.LIVE))
    rig.settle()
    assert len(rig.port.asked(SubmitReq)) == 1


def test_what_waits_can_be_taken_back_and_changed(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    offline(rig)
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    form = dock.view.form()
    assert form is not None
    assert not form.rows["name",].editor.isEnabled(), "what is on its way is not changed"
    assert dock.view.footer.submit.text() == "Take it back"
    dock.view.footer.submit.click()
    assert form.rows["name",].editor.isEnabled()
    rig.give(Standing(Link.LIVE))
    assert rig.port.asked(SubmitReq) == []


def test_a_lost_answer_is_asked_for_again_with_the_same_token(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    def lost(_request: SubmitReq) -> SubmitReply:
        raise FarmUnreachable("the broker gave no answer")

    rig.port.answers[SubmitReq] = lost
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: dock.view.outbox._again.isActive())
    assert "waits: sent as soon as farm-A is back" in dock.words()
    rig.port.answers[SubmitReq] = taken(again=True)
    dock.view.outbox._again.stop()  # its time has come
    dock.view.outbox.pump()
    dock.until(lambda: rig.focus.job == 12)
    first, second = sent(rig)
    assert first["token"] == second["token"]
    assert "it was there already" in next(iter(rig.notices.activity.find())).text


def test_drafts_and_what_waits_outlive_the_program(rig: Rig, qtbot: QtBot, tmp_path: Path) -> None:
    dock = Dock(rig, qtbot)
    del rig.port.answers[EstimateReq]
    dock.open(command_file(tmp_path / "one.json"), command_file(tmp_path / "two.json", name="other"))
    dock.until(lambda: dock.view.tabs.count() == 2 and dock.ready)
    dock.send()  # no answer ever comes
    dock.until(lambda: rig.port.asked(SubmitReq))
    token = sent(rig)[0]["token"]
    dock.close()
    again = Rig()
    again.port.answers[SubmitReq] = taken(again=True)
    after = Dock(again, qtbot)
    after.until(lambda: again.port.asked(SubmitReq) and after.view.tabs.count() == 1)
    assert sent(again)[0]["token"] == token
    assert after.view.tabs.tabText(0) == "made"
    after.close()
    again.close()


def test_a_job_that_waits_for_one_farm_is_not_sent_to_another(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.ready)
    offline(rig)
    dock.send()
    rig.client.farm = "farm-B"
    rig.give(Standing(Link.LIVE))
    dock.until(lambda: "waits for farm-A; connected is farm-B" in dock.words())
    assert rig.port.asked(SubmitReq) == []


def test_a_closed_draft_can_be_had_back(dock: Dock, tmp_path: Path) -> None:
    dock.open(command_file(tmp_path / "job.json"))
    draft = dock.draft()
    dock.press(Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert dock.view.tabs.count() == 0
    assert "Drop a .blend" in dock.words()
    dock.view.reopen(draft)
    assert dock.draft() is draft


# -- files, jobs, steps ----------------------------------------------------------------------------------


def test_files_that_are_dropped_become_a_draft_each(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    for frame in (1, 2):
        (tmp_path / f"p.{frame:04d}.png").write_bytes(b"x")
    (tmp_path / "text.txt").write_text("x")
    names = ("p.0001.png", "p.0002.png", "text.txt")
    paths = [command_file(tmp_path / "job.json"), *(tmp_path / name for name in names)]
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, data, left, none)
    dock.view.dragEnterEvent(enter)
    assert enter.isAccepted()
    dock.view.dropEvent(QDropEvent(QPointF(5, 5), copy, data, left, none))
    dock.until(lambda: dock.view.tabs.count() == 2)
    assert [dock.view.tabs.tabText(at) for at in range(2)] == ["made", "p"]
    assert "no renderer takes files like" in next(iter(rig.notices.activity.find())).text


def test_a_job_of_the_farm_is_done_again(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    spec = command_file(tmp_path / "job.json", token="old").read_bytes()
    rig.port.answers[JobReq] = lambda request: JobReply(id=request.id, job=job_row(7), spec=spec)
    assert not dock.view.bar.again.isEnabled()
    rig.focus.set_job(7)
    assert dock.view.bar.again.text() == "J7 again"
    dock.view.bar.again.click()
    dock.until(lambda: dock.view.tabs.count() == 1)
    assert rig.port.asked(JobReq)[0].spec
    assert "token" not in dock.draft().document
    assert dock.draft().origin == "J7"


def test_reading_a_slow_disk_does_not_hold_the_window_and_can_be_stopped(
    dock: Dock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import threading

    go = threading.Event()
    slow = "client_gui.views.submit_parts.opener.open_paths"

    def read(_paths: Any, _farm: Any, _stopped: Any) -> list[Any]:
        go.wait(10)
        return []

    monkeypatch.setattr(slow, read)
    dock.view.open_file(str(tmp_path / "far.blend"))
    assert "Reading far.blend…" in dock.words()
    dock.view.page.stop.click()
    assert "Reading" not in dock.words()
    go.set()


def test_a_job_of_several_steps_comes_out_of_the_dock_as_it_went_in(
    dock: Dock, rig: Rig, tmp_path: Path
) -> None:
    path = command_file(tmp_path / "job.json", novel={"a": [1]})
    document = json.loads(path.read_text())
    document["steps"][0]["strange"] = True
    document["steps"].append(
        {
            "name": "next",
            "renderer": "command",
            "frames": "1-10",
            "params": {"command": ["/bin/echo", "{frame}"]},
            "after": ["make", {"job": "J3", "step": "sim", "frames": True, "offset": -1}],
        }
    )
    path.write_text(json.dumps(document))
    dock.open(path)
    form = dock.view.form()
    assert form is not None
    for fold, _, _ in form._folds:
        fold.open()
    assert "Kept as they are, and without effect here: novel, steps[0].strange" in dock.words()
    dock.view.save_file(str(tmp_path / "saved.json"))
    dock.until(lambda: (tmp_path / "saved.json").exists())
    assert json.loads((tmp_path / "saved.json").read_text()) == document
    dock.until(lambda: dock.view.footer.command.text() == f"farm submit {tmp_path}/saved.json")


def test_a_movie_of_the_frames_is_a_step_that_waits_for_them(dock: Dock, rig: Rig, tmp_path: Path) -> None:
    path = command_file(tmp_path / "job.json")
    document = json.loads(path.read_text())
    document["steps"][0]["outputs"] = [{"pattern": f"{tmp_path}/f.####.png"}]
    document["steps"][0]["params"]["command"].append("{output}")
    path.write_text(json.dumps(document))
    dock.open(path)
    form = dock.view.form()
    assert form is not None
    form.add_film()
    dock.until(lambda: dock.ready)
    dock.send()
    dock.until(lambda: rig.port.asked(SubmitReq))
    film = sent(rig)[0]["steps"][1]
    assert film["params"]["input"] == {"step": "make", "output": 0}
    assert (film["after"], film["movie_frames"]) == (["make"], 10)
    assert film["outputs"] == [{"pattern": f"{tmp_path}/made.mp4", "kind": "movie"}]


def test_the_command_is_copied_and_says_what_is_sent(dock: Dock, tmp_path: Path) -> None:
    dock.open(command_file(tmp_path / "job.json"))
    dock.until(lambda: dock.view.footer.copy.isEnabled() or dock.ready)
    scene = tmp_path / "s.blend"
    scene.write_bytes(b"x")
    dock.open(scene)
    dock.fill("Frames", "1-4")
    dock.fill("Output 1", f"{tmp_path}/s.####.png")
    dock.until(lambda: dock.ready)
    dock.view.footer.copy.click()
    said = QApplication.clipboard().text()
    assert said == f"farm submit {scene} --frames 1-4 -o '{tmp_path}/s.####.png'"


def test_two_windows_share_the_drafts(dock: Dock, rig: Rig, qtbot: QtBot, tmp_path: Path) -> None:
    second = SubmitView(rig.desk)
    qtbot.addWidget(second)
    assert Outbox.of(rig.desk) is dock.view.outbox is second.outbox
    dock.open(command_file(tmp_path / "job.json"))
    assert second.tabs.count() == 1
    second._tasks.end()


def test_another_look_and_larger_words_keep_what_was_typed(dock: Dock, rig: Rig) -> None:
    dock.begin("command")
    dock.fill("Name", "kept")
    rig.theme.set_look("light")
    form = dock.view.form()
    assert form is not None
    line = form.rows["name",].findChild(QLineEdit)
    assert line is not None
    assert line.text() == "kept"


def test_a_step_without_its_renderer_here_is_shown_and_said_so(dock: Dock, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    step = {"name": "a", "renderer": "arnold", "frames": "1-3", "params": {"x": 1}}
    path.write_bytes(msgspec.json.encode({"overcrank_job": 1, "name": "n", "steps": [step]}))
    dock.open(path)
    dock.until(lambda: "there is no renderer 'arnold'" in dock.standing)
    assert "not installed here" in dock.words()
    assert dock.draft().steps[0]["params"] == {"x": 1}

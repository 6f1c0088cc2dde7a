"""Files, jobs and steps in the Submit dock: dropped, opened, saved, copied, done again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from client_gui.views.submit import SubmitView
from client_gui.views.submit_parts.outbox import Outbox
from farm.protocol.client import JobReply, JobReq, SubmitReq
from tests.support.gui_rig import Rig, job_row
from tests.support.gui_submit import Dock, command_file, sent
from tests.support.waiting import PATIENCE_S

#: A menu without a screen.
pytestmark = [
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
    pytest.mark.usefixtures("own_config"),
]


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
        go.wait(PATIENCE_S)
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

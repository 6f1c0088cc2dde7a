"""What is on each picture, and what the farm must have for it.

What belongs here: choosing what is looked at, and waiting until it is there.  What may not: starting
anything, and writing files (``stage``).

Every scene works on any farm; what it cannot show there it leaves out, with the reason in words.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from client_gui.actions.context import ActionContext
from client_gui.screens.choosing import biggest_job, failed_units, hero_job, share_done
from client_gui.screens.stage import Stage
from client_gui.shell.workspaces import Place
from client_gui.store.farmstore import Link
from client_gui.views.groupby import NONE

#: How long the farm may take to become worth a picture, and a view to get what it asks for, seconds.
BUSY_S: Final = 50.0
VIEW_S: Final = 12.0
#: A farm that is simulated for the pictures is let run until so much of its largest job is done.
BIG_DONE: Final = 0.25
#: Longest wait for a node to be given up, seconds; a farm without such a node is pictured after it.
LOST_S: Final = 40.0
#: Logs of so many failed frames are looked for.
LOGS: Final = 12

#: A job as it would come from a scene file, to be seen in the submit dock.
DRAFT: Final[dict[str, Any]] = {
    "overcrank_job": 1,
    "name": "sh0470_fx_v001",
    "project": "ember",
    "priority": 55,
    "steps": [
        {
            "name": "sim",
            "renderer": "command",
            "frames": "1001-1120",
            "params": {"command": ["hython", "/show/ember/sh0470/fx_v001.py", "--frame", "{frame}"]},
            "resources": {"cores": 8, "ram_mib": 49152},
            "chunk": 12,
        },
        {
            "name": "comp",
            "renderer": "command",
            "frames": "1001-1120",
            "params": {"command": ["nuke", "-x", "-F", "{frame}", "/show/ember/sh0470/comp_v001.nk"]},
            "resources": {"cores": 4, "ram_mib": 12288},
            "limits": {"nuke": 1},
            "after": [{"step": "sim", "frames": True}],
        },
    ],
}
#: The same with a field that cannot be.
WRONG: Final[dict[str, Any]] = DRAFT | {
    "name": "sh0470_fx_v002",
    "steps": [DRAFT["steps"][0] | {"frames": "1001-11z0"}, DRAFT["steps"][1]],
}


class LeftOut(Exception):
    """There is nothing to make this picture of; says why."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture.

    Attributes:
        name: Of its files.
        show: Brings the window there.
    """

    name: str
    show: Callable[[Stage], None]


def _row(share: int, *places: tuple[str, int]) -> tuple[tuple[Place, ...], int]:
    """A row of places by the names of their docks, and how much of the height or width each takes."""
    return tuple((tuple(names.split()), part) for names, part in places), share


def busy_farm(stage: Stage) -> None:
    """A workspace of an artist: jobs, one of them in full, its log, its newest picture, why it waits."""
    stage.window.change_workspace("Artist")
    store = stage.client.store
    if not stage.until(lambda: len(store.jobs) > 0, VIEW_S):
        raise LeftOut("the farm has no jobs")
    if stage.own:
        stage.until(lambda: _worth_it(stage), BUSY_S)
    job = hero_job(store)
    stage.desk.focus.set_job(job)
    stage.view("jobs").table.go_to(job)
    _wait_for_frames(stage, job)
    _show_failed(stage, job, tries=4)
    stage.window.show_dock("why")
    stage.window.show_dock("preview")
    stage.window.show_dock("job")
    stage.view("preview").set_mode("sheet")
    stage.until(lambda: bool(stage.view("preview").newest.units), VIEW_S / 4)
    stage.rest(1500)
    stage.still()


def _worth_it(stage: Stage) -> bool:
    """Whether a simulated farm has got somewhere."""
    store = stage.client.store
    job = hero_job(store)
    slot = store.jobs.slot(job)
    return bool(
        slot >= 0 and share_done(store, biggest_job(store)) > BIG_DONE and store.jobs.numbers("failed")[slot]
    )


def frame_grid(stage: Stage) -> None:
    """All frames of the farm's largest job, a cell each."""
    job = biggest_job(stage.client.store)
    if not job:
        raise LeftOut("the farm has no jobs")
    stage.desk.focus.set_job(job)
    stage.arrange(_row(100, ("job", 100)))
    view = stage.view("job")
    _wait_for_frames(stage, job)
    view.show_tab("frames")
    view.frames.splitter.setSizes([560, 440])
    if not stage.press("job", "Cells show state"):
        raise LeftOut("the job has no frames")
    stage.rest(1500)  # figures of a hundred thousand frames come in pages
    stage.still()


def frame_grid_time(stage: Stage) -> None:
    """The same by how long each frame took."""
    if not stage.press("job", "Cells show time"):
        raise LeftOut("the job has no frames")
    stage.rest(1500)
    stage.still()


def log_error(stage: Stage) -> None:
    """The log of a failed frame, where it failed."""
    stage.press("job", "Cells show state")
    stage.arrange(_row(42, ("job", 100)), _row(58, ("log", 70), ("why", 30)))
    store = stage.client.store
    jobs = store.jobs
    slots = jobs.slots()
    failed = slots[jobs.numbers("failed")[slots] > 0]
    if not len(failed):
        raise LeftOut("no frame has failed")
    order = failed[np.argsort(-jobs.numbers("failed")[failed], kind="stable")]
    ids = jobs.all_ids()
    by_slot = {jobs.slot(job): job for job in ids}
    for slot in order.tolist()[:3]:
        job = by_slot[slot]
        stage.desk.focus.set_job(job)
        _wait_for_frames(stage, job)
        if _show_failed(stage, job, tries=LOGS):
            stage.still()
            return
    raise LeftOut("no failed frame has a log")


def _wait_for_frames(stage: Stage, job: int) -> None:
    """Waits until frames of a job are there."""
    maps = stage.client.store.maps
    stage.until(lambda: any(address.startswith(f"J{job}/") for address in maps), VIEW_S)


def _show_failed(stage: Stage, job: int, tries: int) -> bool:
    """Looks at a failed frame of a job whose log has an error in it; whether there is one."""
    log = stage.view("log")
    for step, unit in failed_units(stage.client.store, job, tries):
        stage.desk.focus.set_unit(step, unit)
        if stage.until(lambda: _has_ended(log) and log.reader.counts()[0] > 0, 1.5):
            return True
    return False


def _has_ended(log: Any) -> bool:
    """Whether a log is shown whose attempt is over: it is opened at its error."""
    return log.reader.document is not None and log.attempt is not None and log.attempt.ended_us > 0


def nodes(stage: Stage) -> None:
    """A wrangler's nodes, and why one of them takes no work."""
    if not stage.until(lambda: len(stage.client.store.nodes) > 0 or not stage.client.live, VIEW_S / 2):
        raise LeftOut("the farm has no nodes")
    stage.window.change_workspace("Wrangler")
    stage.arrange(_row(62, ("nodes", 100)), _row(38, ("why", 30), ("plots spend", 40), ("activity", 30)))
    table = stage.client.store.nodes
    if not stage.until(lambda: len(table) > 0, VIEW_S):
        raise LeftOut("the farm has no nodes")
    if stage.own:
        # A farm takes a minute until it gives a silent node up.
        stage.until(lambda: any(table.row(node)["state"] == "lost" for node in table.all_ids()), LOST_S)
    node = _troubled_node(stage)
    if node:
        stage.desk.focus.set_node(node)
        stage.view("nodes").table.go_to(node)
    stage.rest(1500)
    stage.still()


def _troubled_node(stage: Stage) -> int:
    """A node somebody took out of service, else any that is not well."""
    table = stage.client.store.nodes
    rows = [(node, table.row(node)) for node in table.all_ids()]
    shy = [node for node, row in rows if not row["enabled"] or row["disabled"]]
    ill = [node for node, row in rows if str(row["reason"] or "")]
    return int((shy or ill or [node for node, _ in rows])[0])


def node_tiles(stage: Stage) -> None:
    """The same nodes as tiles."""
    if not len(stage.client.store.nodes):
        raise LeftOut("the farm has no nodes")
    stage.view("nodes").set_tiles(True)
    stage.rest()
    stage.still()


def spend(stage: Stage) -> None:
    """What it costs, and how the farm has been used."""
    stage.arrange(_row(100, ("spend", 56), ("plots", 44)))
    stage.rest(2500)
    stage.still()


def submit(stage: Stage) -> None:
    """A job that is about to be submitted, with what it would take."""
    if not stage.own:
        raise LeftOut("drafts of a real farm are left alone")
    stage.arrange(_row(100, ("jobs", 50), ("submit", 50)))
    _open_draft(stage, DRAFT)
    view = stage.view("submit")
    stage.until(lambda: bool(view.footer.estimate.text()) and view.footer.submit.isEnabled(), VIEW_S)
    stage.rest()
    stage.still()


def submit_error(stage: Stage) -> None:
    """The same with something that cannot be."""
    if not stage.own:
        raise LeftOut("drafts of a real farm are left alone")
    _open_draft(stage, WRONG)
    view = stage.view("submit")
    stage.until(lambda: not view.footer.submit.isEnabled() or view.footer.next.isVisible(), VIEW_S)
    stage.rest(1000)


def _open_draft(stage: Stage, document: dict[str, Any]) -> None:
    view = stage.view("submit")
    before = view.tabs.count()
    with tempfile.TemporaryDirectory(prefix="overcrank-draft-") as folder:
        path = Path(folder) / f"{document['name']}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        view.open_file(str(path))
        stage.until(lambda: view.tabs.count() > before and view.form() is not None, VIEW_S)


def groups(stage: Stage) -> None:
    """All jobs by project, some projects folded."""
    if not len(stage.client.store.jobs):
        raise LeftOut("the farm has no jobs")
    stage.arrange(_row(100, ("jobs", 60), ("job", 40)))
    view = stage.view("jobs")
    view.group_by.set_by("project")
    view.group_by.close_all(False)
    view.model.fold(view.model.order.groups_shown()[1::2], closed=True)
    stage.rest(1500)
    stage.still()


def offline(stage: Stage) -> None:
    """The farm does not answer any more: everything stays, says how old it is; what is asked for waits."""
    if not stage.own:
        raise LeftOut("the broker of a real farm is left alone")
    stage.view("jobs").group_by.set_by(NONE)
    stage.window.change_workspace("Artist")
    stage.window.reset_workspace()
    job = hero_job(stage.client.store)
    if job:
        stage.desk.focus.set_job(job)
        stage.view("jobs").table.go_to(job)
        _wait_for_frames(stage, job)
        _show_failed(stage, job, tries=4)
    stage.rest(1500)
    stage.say(waits="offline")
    stage.until(stage.lost.is_set, 120.0)
    stage.until(lambda: stage.client.store.link is Link.LOST, VIEW_S)
    if job:
        stage.desk.actions.run("pause", ActionContext("jobs", jobs=(job,)))
    # Long enough that the chip says that it is serious.
    stage.until(lambda: (stage.client.store.age_us(stage.client.now_us()) or 0) > 10_500_000, 15.0)
    # And in a moment in which it is known when the next try is made.
    stage.until(lambda: (stage.client.store.retry_at_us or 0) - stage.client.now_us() > 1_500_000, VIEW_S)
    stage.still()


#: In the order in which a farm has what they show.
SCENES: Final = (
    Scene("busy-farm", busy_farm),
    Scene("frame-grid", frame_grid),
    Scene("frame-grid-time", frame_grid_time),
    Scene("log-error", log_error),
    Scene("submit", submit),
    Scene("submit-error", submit_error),
    Scene("spend", spend),
    Scene("nodes", nodes),
    Scene("node-tiles", node_tiles),
    Scene("groups", groups),
    Scene("offline", offline),
)

"""Run next, run last, stop and requeue on a real core: what they do and say, and how they are taken back."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.store.activity import Level
from farm.protocol.client import ActReq
from tests.support.core_rig import Rig as CoreRig
from tests.support.core_rig import step
from tests.support.gui_core import CoreDesk
from tests.support.gui_stage import Stage, press


def jobs(count: int, frames: str = "1-4") -> CoreRig:
    rig = CoreRig()
    for _ in range(count):
        rig.submit(step(frames=frames))
    return rig


def work(qtbot: QtBot, stage: Stage, core: CoreRig, key: str, context: ActionContext) -> CoreDesk:
    """A key is pressed on a selection, and answered; the window sees what became of it."""
    desk = CoreDesk(core, "artist", "ann")
    desk.show()
    desk.gui.actions.watch(stage)
    stage.context = context
    stage.list.setFocus()
    press(qtbot, stage.list, key)
    desk.gui.settle()
    desk.show()
    return desk


def undo(desk: CoreDesk) -> str:
    """Takes back what was done last; returns what is said of it."""
    desk.gui.actions.run("undo", ActionContext())
    desk.gui.settle()
    desk.show()
    return list(desk.gui.notices.activity)[-1].text


def ranks(core: CoreRig) -> list[int]:
    return [job.rank for job in core.core.farm.jobs.values()]


def of_frames(*frames: int) -> ActionContext:
    places = tuple(frame - 1 for frame in frames)
    return ActionContext("frames", units=(UnitsOf(1, "beauty", places, ",".join(map(str, frames))),))


def test_jobs_run_next_in_the_order_they_stand_in_and_undo_puts_every_rank_back(
    qtbot: QtBot, stage: Stage
) -> None:
    core = jobs(4)
    core.act("last", "J3")
    desk = work(qtbot, stage, core, "N", ActionContext("jobs", jobs=(2, 3, 4)))
    assert sorted((2, 3, 4, 1), key=lambda number: core.job(number).rank) == [2, 3, 4, 1]
    (notice,) = desk.gui.notices.activity
    assert (notice.text, notice.level) == ("Put ahead 3 jobs", Level.DONE)
    undo(desk)
    assert ranks(core) == [0, 0, 1, 0]
    desk.close()


def test_jobs_run_last_in_the_order_they_stand_in(qtbot: QtBot, stage: Stage) -> None:
    core = jobs(3)
    desk = work(qtbot, stage, core, "Shift+N", ActionContext("jobs", jobs=(1, 2)))
    assert ranks(core) == [1, 2, 0]
    undo(desk)
    assert ranks(core) == [0, 0, 0]
    desk.close()


def test_frames_run_next_and_undo_puts_the_order_back(qtbot: QtBot, stage: Stage) -> None:
    core = jobs(1)
    core.act("next", "J1/beauty/4")
    core.act("last", "J1/beauty/3")
    desk = work(qtbot, stage, core, "N", of_frames(2, 3))
    spec = core.step("J1/beauty").spec
    assert (spec.first, spec.last) == ("2-4", "")
    (notice,) = desk.gui.notices.activity
    assert notice.text == "2 frames go before the others of J1/beauty"
    undo(desk)
    spec = core.step("J1/beauty").spec
    assert (spec.first, spec.last) == ("4", "3")
    desk.close()


def test_a_step_runs_next_only_beside_others(qtbot: QtBot, stage: Stage) -> None:
    core = CoreRig()
    core.submit(step("beauty"), step("crypto"))
    context = ActionContext("steps", units=(UnitsOf(1, "crypto"),))
    desk = work(qtbot, stage, core, "N", context)
    assert core.step("J1/crypto").rank == -1
    undo(desk)
    assert core.step("J1/crypto").rank == 0
    desk.close()
    alone = CoreDesk(jobs(1), "artist", "ann")
    alone.show()
    reason = alone.gui.actions.why_not("next", ActionContext("steps", units=(UnitsOf(1, "beauty"),)))
    assert reason == "J1/beauty is the only step of J1: select the job"
    alone.close()


def test_what_runs_is_stopped_and_the_notice_says_what_is_lost(qtbot: QtBot, stage: Stage) -> None:
    core = jobs(1)
    for name in ("ant", "bee"):
        core.join(name)
    core.dispatch()
    core.now_us += 1_800_000_000
    desk = work(qtbot, stage, core, "X", of_frames(1, 2))
    assert core.states() == "QQQQ"
    (notice,) = desk.gui.notices.activity
    assert notice.text == "2 units are stopped and queued again; 1.00 core-hours lost"
    assert notice.undo
    assert [request.action for request in desk.gui.port.asked(ActReq)] == ["requeue"]
    undo(desk)
    assert core.step("J1/beauty").spec.first == "1-2", "nothing else of the step comes before them"
    desk.close()


def test_of_many_jobs_the_lost_time_is_summed_up_and_nothing_is_offered_that_takes_it_back(
    qtbot: QtBot, stage: Stage
) -> None:
    core = jobs(3, frames="1")
    for name in ("ant", "bee"):
        core.join(name)
    core.dispatch()
    core.now_us += 3_600_000_000
    desk = work(qtbot, stage, core, "X", ActionContext("jobs", jobs=(1, 2, 3)))
    *_, notice = desk.gui.notices.activity
    assert (
        notice.text == "Requeued 2 jobs (2.00 core-hours lost), 1 left out: J3 is queued: nothing of it runs"
    )
    assert not notice.undo
    assert [core.states(f"J{n}/beauty") for n in (1, 2, 3)] == ["Q", "Q", "Q"]
    desk.close()


def test_a_cell_shows_at_once_that_it_is_queued_again(stage: Stage) -> None:
    core = jobs(1)
    core.join()
    core.lease()
    desk = CoreDesk(core, "artist", "ann")
    desk.show()
    desk.gui.actions.run("requeue", of_frames(1))
    assert desk.gui.actions.pending("units", ("J1/beauty", 0), "state") == "queued"
    assert desk.gui.actions.pending("units", ("J1/beauty", 1), "state") is None
    desk.gui.settle()
    desk.show()
    assert desk.gui.actions.pending("units", ("J1/beauty", 0), "state") is None
    desk.close()


def test_a_frame_that_ended_meanwhile_is_refused_with_the_farms_words(stage: Stage) -> None:
    core = jobs(1)
    core.join()
    lease = core.lease()
    desk = CoreDesk(core, "artist", "ann")
    desk.show()
    core.done(lease)
    desk.gui.actions.run("requeue", of_frames(1))
    desk.gui.settle()
    (notice,) = desk.gui.notices.activity
    assert notice.level is Level.ERROR
    assert "nothing there can be stopped: all is done" in notice.text
    assert not notice.undo
    desk.close()


def test_the_row_of_a_job_knows_its_rank(stage: Stage) -> None:
    core = jobs(2)
    core.act("next", "J2")
    desk = CoreDesk(core, "artist", "ann")
    desk.show()
    table = desk.gui.client.store.jobs
    assert [table.get(table.slot(number), "rank") for number in (1, 2)] == [0, -1]
    desk.close()

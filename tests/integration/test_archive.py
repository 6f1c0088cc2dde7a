"""Old jobs in the archive and deleted ones, end to end: what still answers, what is refused, what goes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from farm.model.errors import Denied, IllegalMove, UnknownName
from farm.storage.care import check_file
from tests.support.farmhouse import Farmhouse
from tests.support.truth import Renders, expected_names, folder_names
from tests.support.waiting import eventually

#: About two and a half seconds: long enough to look at a finished job first.
SOON = ("--archive-after-days", "0.00003")


def command(house: Farmhouse, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``farm``, with what is typed on a pipe, which is no terminal."""
    argv = [sys.executable, "-m", "farm", *words]
    return subprocess.run(
        argv, env=house.env, capture_output=True, text=True, timeout=60, check=False, input=typed or ""
    )


def seen(house: Farmhouse, number: int) -> dict[str, Any]:
    """What people may ask of a job, less what its archiving changes."""
    farm, at = house.admin, f"J{number}"
    row = farm.job(number, spec=True)
    frames = farm.frames(at)
    attempts = farm.attempts(at).attempts
    log = b"".join(farm.log_stream(number, "render", attempts[0].no))
    by_job = farm.spend("job", job=number)
    shown = row.job
    return {
        "job": (shown.name, shown.user, shown.state, shown.done, shown.units, shown.ended_us, shown.steps),
        "spend": (shown.spend_nano, shown.waste_nano, by_job.total.total_nano, by_job.total.frames),
        "spec": row.spec,
        "frames": frames.steps,
        "one": farm.frames(f"{at}/render/2").steps,
        "attempts": attempts,
        "log": log,
    }


def line(house: Farmhouse, by: str, key: str) -> int:
    """What one line of the spend says."""
    return sum(row.total_nano for row in house.admin.spend(by).lines if row.key == key)


def test_an_old_job_leaves_the_list_and_still_answers(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house(broker_flags=SOON)
    house.agent("a")
    house.wait_online()
    source = renders.job("1-4", job={"token": "first", "user": "kim", "project": "film"})
    number = house.admin.submit(source).job
    follower = house.client("admin", "wim").subscribe("jobs", idle_s=0.2)
    mirror = next(follower)
    house.wait_job(number)
    newest = house.admin.attempts(f"J{number}").attempts[0].no
    eventually(lambda: house.admin.log_page(number, "render", newest).ended, "the log is there")
    before = seen(house, number)
    kim, film = line(house, "user", "kim"), line(house, "project", "film")
    assert kim == film == before["spend"][0] > 0

    eventually(lambda: not house.admin.jobs().jobs, "the job leaves the list")
    eventually(lambda: number not in next(follower).jobs, "who follows is told")
    assert mirror.trouble == ""
    for restart in (False, True):
        if restart:
            house.restart_broker()
        (row,) = house.admin.jobs(archived=True).jobs
        assert (row.job, row.archived, row.done, row.state, row.user) == (number, True, 4, "done", "kim")
        assert not house.admin.jobs(archived=True, user="lee").jobs
        assert not house.admin.jobs(("failed",), archived=True).jobs
        assert seen(house, number) == before
        assert (line(house, "user", "kim"), line(house, "project", "film")) == (kim, film)
        assert line(house, "job", "(archived jobs)") == kim
        told = {(one.old, one.new) for one in house.admin.history(number).rows}
        assert ("done", "archived") in told
        assert house.admin.why(f"J{number}").rows[0].state == "done"
        for action in ("retry", "cancel", "set"):
            with pytest.raises(IllegalMove, match=rf"J{number} is archived since .*farm resubmit J{number}`"):
                house.admin.act(action, f"J{number}", '{"name": "x"}')
        assert house.admin.submit(source).again
    made = command(house, "resubmit", f"J{number}", "--json")
    assert made.returncode == 0, made.stderr
    again = json.loads(made.stdout)["job"]["number"]
    assert again == number + 1
    house.wait_job(again)
    with pytest.raises(UnknownName, match="there is no job J99"):
        house.admin.job(99)


def test_jobs_in_memory_and_in_the_archive_page_as_one_list(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house(broker_flags=SOON)
    paused = {"paused": True}
    # Even ones end and leave, odd ones wait.
    for number in range(1, 8):
        made = Renders(renders.folder, f"out{number}")
        assert house.admin.submit(made.job("1", job=paused)).job == number
    for number in (2, 4, 6):
        house.admin.act("cancel", f"J{number}")
    eventually(lambda: len(house.admin.jobs().jobs) == 4, "three leave")
    found: list[int] = []
    before, more = 0, True
    while more:
        page = house.admin.jobs(archived=True, before=before, limit=2)
        found += [row.job for row in page.jobs]
        assert len(page.jobs) == 2 or not page.more
        before, more = found[-1], page.more
    assert found == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("archived", [False, True], ids=["in memory", "archived"])
def test_a_deleted_job_is_gone_with_its_logs_and_its_pictures_stay(
    new_house: Callable[..., Farmhouse], renders: Renders, archived: bool
) -> None:
    house = new_house(broker_flags=SOON if archived else ())
    house.agent("a")
    house.wait_online()
    number = house.admin.submit(renders.job("1-4", job={"user": "kim", "token": "t"})).job
    logs = house.state / "logs"
    house.wait_job(number)
    eventually(lambda: (logs / f"J{number}").is_dir(), "its logs are kept")
    spent = house.job(number).spend_nano
    if archived:
        eventually(lambda: not house.admin.jobs().jobs, "the job leaves the list")
    with pytest.raises(Denied, match="it belongs to kim"):
        house.client("artist", "lee").act("delete", f"J{number}")
    unsure = command(house, "delete", f"J{number}")
    assert unsure.returncode == 2
    assert "say --yes" in unsure.stderr
    done = command(house, "delete", f"J{number}", "--yes", "--reason", "wrong shot")
    assert (done.returncode, done.stdout.strip()) == (0, f"J{number} (test) is deleted; its pictures stay")

    eventually(lambda: not list(logs.iterdir()), "its logs are gone")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-4")
    assert line(house, "job", "(deleted jobs)") == line(house, "user", "kim") == spent > 0
    for restart in (False, True):
        if restart:
            house.restart_broker()
        assert not house.admin.jobs(archived=True).jobs
        for ask in (
            house.admin.job,
            lambda n: house.admin.frames(f"J{n}"),
            lambda n: house.admin.why(f"J{n}"),
        ):
            with pytest.raises(UnknownName, match=rf"J{number} \(test\) was deleted by .+ on "):
                ask(number)
        with pytest.raises(UnknownName, match="was deleted by"):
            house.admin.act("delete", f"J{number}")
        (told,) = [row for row in house.admin.history(number).rows if row.new == "deleted"]
        assert (told.what, told.reason) == ("job test", "wrong shot")
        assert line(house, "job", "(deleted jobs)") == spent
    assert house.admin.submit(renders.job("1-2", job={"user": "kim", "token": "t"})).job == number + 1
    house.wait_job(number + 1)
    house.broker.stop()
    health = check_file(house.database)
    assert health.problems == []
    assert health.jobs == 1


def test_what_has_work_left_cannot_be_deleted(house: Farmhouse, renders: Renders) -> None:
    number = house.admin.submit(renders.job("1-2", gated=True)).job
    with pytest.raises(IllegalMove, match=f"J{number} still has work"):
        house.admin.act("delete", f"J{number}")
    renders.open_gate()
    house.wait_job(number)

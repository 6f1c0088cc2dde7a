"""Stop and requeue, run next, run last, end to end: real agents, real processes, files on a real disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from farm.model.errors import IllegalMove
from tests.support.farmhouse import Farmhouse
from tests.support.truth import Ledger, Renders, assert_exactly_once, attempt_folders
from tests.support.waiting import eventually

_SLOTS = 6


def _processes(house: Farmhouse, attempt: str) -> list[int]:
    """Processes of an attempt that agents have now."""
    found = []
    for agent in house.agents.values():
        for pid in agent.descendants():
            with suppress(OSError):
                if f"OVERCRANK_ATTEMPT={attempt}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
    return found


def test_a_frame_that_runs_is_stopped_and_rendered_again_once(shared: Farmhouse, renders: Renders) -> None:
    # With one attempt allowed a try that was spent would fail the frame.
    number = shared.admin.submit(renders.job("1-4", gated=True, attempts=1)).job
    eventually(lambda: len(renders.begun()) == 4, "all four frames run")
    (no,) = [no for frame, no in renders.begun() if frame == 2]
    attempt = f"J{number}/render@{no}"
    assert _processes(shared, attempt)
    reply = shared.admin.act("requeue", f"J{number}/render/2", reason="the texture was wrong")
    assert reply.changed == 1
    assert reply.lost_core_us > 0
    assert reply.message.startswith("1 unit is stopped and queued again; ")
    eventually(lambda: len(renders.begun()) == 5, "frame 2 is rendered again")
    assert not _processes(shared, attempt), "what ran it was gone before"
    (again,) = [other for frame, other in renders.begun() if frame == 2 and other != no]
    renders.open_gate()
    row = shared.wait_job(number)
    assert (row.done, row.failed) == (4, 0)
    assert (2, no) not in renders.ended()
    assert renders.writer(2) == f"J{number}/render@{again}"
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-4")
    eventually(lambda: not attempt_folders(renders.out), "no attempt's folder is left")
    history = shared.admin.history(number).rows
    assert ("running", "queued", "the texture was wrong") in [
        (one.old, one.new, one.reason) for one in history
    ]


def test_frames_that_end_while_they_are_stopped_are_there_once(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-6", gated=True, attempts=1)).job
    eventually(lambda: len(renders.begun()) == _SLOTS, "every slot is taken")
    # Files are written, verified, moved and reported while frames are stopped one by one, and once more.
    renders.open_gate()
    for frame in (1, 2, 3, 4, 5, 6, 3, 1):
        with suppress(IllegalMove):
            shared.admin.act("requeue", f"J{number}/render/{frame}")
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-6")


def test_what_does_not_run_is_refused(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-2")).job
    shared.wait_job(number)
    done = shared.farm("requeue", f"J{number}")
    assert (done.returncode, done.stderr) == (
        2,
        "farm: nothing there can be stopped: all is done\n  only running units can\n",
    )
    with pytest.raises(IllegalMove, match="nothing there can be run next: all is done"):
        shared.admin.act("next", f"J{number}")


def test_a_job_runs_next_and_another_last(shared: Farmhouse, renders: Renders) -> None:
    first = shared.admin.submit(renders.job("1-6", gated=True)).job
    eventually(lambda: len(renders.begun()) == _SLOTS, "every slot is taken")
    others = [Renders(shared.folder, f"turn{first}-{place}") for place in range(3)]
    one, two, three = (shared.admin.submit(other.job("1-6")).job for other in others)
    assert shared.farm("last", f"J{one}").returncode == 0
    done = shared.farm("next", f"J{three}", "--json", "--reason", "for dailies")
    (result,) = json.loads(done.stdout)["results"]
    assert (result["address"], result["changed"]) == (f"J{three}", 1)
    assert shared.job(three).rank == -1
    assert f"rank {shared.job(three).rank}" in shared.farm("job", f"J{three}").stdout
    why = shared.farm("why", f"J{two}").stdout
    assert f"J{three} of" in why
    assert f"J{one} of" not in why, "it was put behind it"
    renders.open_gate()
    for number in (first, one, two, three):
        shared.wait_job(number)
    ledger = Ledger(shared.database)
    begun = {number: sorted(ledger.leases(number, "render")) for number in (one, two, three)}
    assert begun[three][-1] < begun[two][0], "all of what is next was leased before anything else"
    assert begun[two][-1] < begun[one][0]
    rows = [(row.what, row.new, row.reason) for row in shared.admin.history(three).rows]
    assert ("rank", "-1", "for dailies") in rows


def test_frames_run_next(shared: Farmhouse, renders: Renders) -> None:
    number = shared.admin.submit(renders.job("1-20", gated=True)).job
    eventually(lambda: len(renders.begun()) == _SLOTS, "every slot is taken")
    assert shared.farm("next", f"J{number}/render/17-20").returncode == 0
    assert shared.farm("last", f"J{number}/render/7").returncode == 0
    assert "first frames 17-20, last frames 7" in shared.farm("job", f"J{number}").stdout
    renders.open_gate()
    shared.wait_job(number)
    leases = Ledger(shared.database).leases(number, "render").values()
    order = [lease.indices[0] + 1 for lease in leases][_SLOTS:]
    assert order[:4] == [17, 18, 19, 20]
    assert order[-1] == 7
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-20")


def test_what_was_put_first_survives_the_brokers_end(new_house: Callable[..., Farmhouse]) -> None:
    house = new_house()
    renders = Renders(house.folder, "kept")
    number = house.admin.submit(renders.job("1-6", job={"paused": True})).job
    house.admin.act("next", f"J{number}/render/5")
    house.admin.act("next", f"J{number}")
    house.restart_broker()
    row = house.job(number)
    assert (row.rank, row.steps[0].first) == (-1, "5")
